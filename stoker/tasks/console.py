"""The console script ``stoker``: in a project the same as ``inv``, elsewhere the bundled commands."""

from __future__ import annotations

import signal
import sys

from invoke.collection import Collection
from invoke.config import AmbiguousMergeError, Config
from invoke.exceptions import AmbiguousEnvVar, CollectionNotFound, UncastableEnvVar, UnknownFileType
from invoke.loader import FilesystemLoader
from invoke.vendor import yaml

from stoker import __version__
from stoker.errors import Problem
from stoker.tasks import bundled, check_settings_files, refuse
from stoker.tasks.command import EXIT_BROKEN_PIPE, nobody_reads
from stoker.tasks.typed import TypedProgram

_OF_CONFIG = (AmbiguousEnvVar, AmbiguousMergeError, UncastableEnvVar, UnknownFileType, OSError, ValueError)


class StokerProgram(TypedProgram):
    """Invoke's program, which falls back on the bundled commands where no ``tasks.py`` is found."""

    def create_config(self) -> None:
        """Read the system's and the user's files; what is wrong with them is a message of ours."""
        try:
            super().create_config()
        except (*_OF_CONFIG, yaml.YAMLError, RecursionError) as error:
            check_settings_files(None)
            refuse([Problem("invoke.yaml", 0, f"the configuration cannot be read: {error}")])

    def load_collection(self) -> None:
        """Load the project's ``tasks.py``, else the bundled commands rooted in the current folder."""
        name = self.args.collection.value or self.config.tasks.collection_name
        start = self.args["search-root"].value
        try:
            FilesystemLoader(config=self.config, start=start).find(name)
        except CollectionNotFound:
            check_settings_files(None)
            self.collection: Collection = bundled()
        else:
            super().load_collection()

    def execute(self) -> None:
        """Run the commands: from now on Ctrl-C is theirs to answer."""
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        super().execute()


def main() -> None:
    """Run a command line; leaves through ``SystemExit`` with the documented code."""
    try:
        StokerProgram(name="stoker", binary="stoker", version=__version__, config_class=_Config).run()
    except BrokenPipeError:
        nobody_reads()
        sys.exit(EXIT_BROKEN_PIPE)


class _Config(Config):
    """Invoke's configuration with deduplication off: ``stoker bench bench`` measures twice, as typed."""

    @staticmethod
    def global_defaults() -> dict[str, object]:
        """Invoke's own defaults, less task deduplication."""
        defaults: dict[str, object] = Config.global_defaults()
        tasks = defaults["tasks"]
        assert isinstance(tasks, dict)  # noqa: S101 - Invoke's own structure; a change there must be seen at once
        return {**defaults, "tasks": {**tasks, "dedupe": False}}
