"""From a function over a ``Run`` to an Invoke task: flags, errors, the JSON document, the exit code."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import Task

from stoker import __version__
from stoker.errors import EXIT_FAULT, EXIT_INTERRUPTED, StokerError
from stoker.fleet.flags import Flag, at_inventory, parse_all

if TYPE_CHECKING:
    from stoker.tasks.run import Run

EXIT_BROKEN_PIPE = 141  # as a shell tells SIGPIPE

Body = Callable[["Run"], int]


class Command(Task[Any]):
    """An Invoke task that knows its flags."""

    flags: tuple[Flag, ...] = ()

    @classmethod
    def of(cls, entry: Callable[..., Any], name: str, flags: Sequence[Flag]) -> Command:
        """The task that Invoke runs.

        Args:
            entry: Gets Invoke's context and the arguments as they were typed.
            name: As typed.
            flags: What is known to the parser.
        """
        entry.__signature__ = _signature(flags)  # type: ignore[attr-defined]  # Invoke reads it
        task = cls(
            entry,
            name=name,
            positional=[flag.name for flag in flags if flag.positional],
            iterable=[flag.name for flag in flags if flag.kind == "list"],
            optional=[flag.name for flag in flags if flag.alone is not None],
            help={flag.name.replace("_", "-"): _help(flag) for flag in flags},
            auto_shortflags=False,
        )
        task.flags = tuple(flags)
        return task

    def __deepcopy__(self, memo: dict[int, Any]) -> Command:
        """Invoke copies a whole collection at each start; of a command only the help is ever changed."""
        twin = copy.copy(self)
        twin.help = dict(self.help)
        return twin


HOST = Flag("host", "Hosts: Ansible patterns, or an ad-hoc list with a trailing comma.", "list")
INVENTORY = Flag("inventory", "Inventory file or folder.")
FORKS = Flag("forks", "Hosts worked on at once.", "whole", least=1)
JSON = Flag("json", "One JSON document on stdout.", "flag")
CHECK = Flag("check", "Say what would be done; touch nothing.", "flag")
DIFF = Flag("diff", "Show what changes in the launch script.", "flag")
SERIAL = Flag("serial", "Hosts changed at once: a number or all.", "whole", word_for_zero="all")

READING = (HOST, INVENTORY, FORKS, JSON)
CHANGING = (*READING, CHECK, DIFF, SERIAL)


def command(*flags: Flag, name: str = "", forgiving: bool = False) -> Callable[[Body], Command]:
    """Make a command of a function.

    Args:
        flags: Its arguments, as shown by ``inv --help NAME``.
        name: As typed, where the function's own name will not do.
        forgiving: It begins in spite of wrong settings in ``invoke.yaml``, which it tells itself.

    Returns:
        A decorator. The function gets a ``Run`` with the typed arguments and returns the exit code; what it
        raises is shown, never as a traceback unless it is a fault of ours.
    """

    def decorate(body: Body) -> Command:
        spelled = name or body.__name__.strip("_").replace("_", "-")

        def entry(c: Context, **given: Any) -> None:
            try:
                code = _run(c, spelled, body, flags, given, forgiving=forgiving)
            except KeyboardInterrupt:  # while it was still being imported, or already at its end
                code = EXIT_INTERRUPTED
            if code:
                raise Exit(code=code)

        entry.__name__ = body.__name__
        entry.__doc__ = body.__doc__
        return Command.of(entry, spelled, flags)

    return decorate


def _help(flag: Flag) -> str:
    """A flag's line; Invoke shows every value as text, so that a number is named as one here."""
    word = {"whole": "A whole number.", "number": "A number."}.get(flag.kind, "")
    return flag.help if not word or "number" in flag.help else f"{flag.help} {word}"


def _signature(flags: Sequence[Flag]) -> inspect.Signature:
    """What Invoke's parser is to see: every number as text, so that a wrong one is our message."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [inspect.Parameter(flag.name, kind) for flag in flags if flag.positional]
    optional = [inspect.Parameter(f.name, kind, default=f.default) for f in flags if not f.positional]
    return inspect.Signature([inspect.Parameter("c", kind), *required, *optional])


def _run(
    c: Context, name: str, body: Body, flags: Sequence[Flag], given: dict[str, Any], *, forgiving: bool
) -> int:
    """The whole of a command, from typed arguments to its exit code."""
    from stoker.screen import Screen
    from stoker.tasks.run import Run

    screen = Screen(json=bool(given.get("json")))
    run: Run | None = None
    error: StokerError | None = None
    try:
        given = {key: value for key, value in given.items() if value is not None}
        root, values = Path(str(c.config.stoker_root)), _plain(c.config.get("stoker", {}))
        run = Run.begin(name, root, _usable(root, values) if forgiving else values, screen)
        run.args = parse_all(flags, given)
        screen.spelled = partial(at_inventory, inventory=run.args.get("inventory") or "")
        code = body(run)
    except StokerError as raised:
        error, code = raised, raised.exit_code
        screen.error(raised)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
        screen.aside(("interrupted", "bold yellow"))
    except BrokenPipeError:
        nobody_reads()
        return EXIT_BROKEN_PIPE
    except Exception as raised:
        from stoker.tasks import faults

        secrets = run.project.secrets if run else None
        error = faults.of(raised, secrets)
        code = error.exit_code
        if code == EXIT_FAULT:
            screen.trace(faults.trace(raised, secrets))
        screen.error(error)
    if screen.json:
        _document(name, code, run.document if run else {}, error)
    return code


def _plain(value: Any) -> Any:
    """Invoke's configuration as plain dicts: what it gives are proxies, which are no mappings."""
    return {key: _plain(value[key]) for key in value} if hasattr(value, "keys") else value


def _usable(root: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The settings without those that are wrong in ``invoke.yaml``; a wrong one from elsewhere stays."""
    from stoker.config.files import yamlfile
    from stoker.config.settings import is_usable

    path = root / "invoke.yaml"
    written = yamlfile.load(path).data if path.is_file() else None
    own = (written.get("stoker") if isinstance(written, dict) else None) or {}
    return {
        name: value for name, value in values.items() if name not in own or is_usable(root, name, own[name])
    }


def nobody_reads() -> None:
    """Whoever read our output has gone (``| head``): say nothing more, not even at the interpreter's end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(devnull, stream.fileno())


def _document(name: str, code: int, document: dict[str, Any], error: StokerError | None) -> None:
    """The one JSON document on stdout."""
    from stoker.tasks import jsontext
    from stoker.tasks.outcomes import error_data

    whole: dict[str, Any] = {"stoker": __version__, "command": name, "exit_code": code, **document}
    if error is not None:
        whole["error"] = error_data(error)
    sys.stdout.write(jsontext.text(whole) + "\n")
