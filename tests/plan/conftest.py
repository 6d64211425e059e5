"""Plans of small profiles, and their scripts run for real."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stoker.agent import secretsfile
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Profile
from stoker.config.secrecy.secrets import Secrets
from stoker.plan import LaunchPlan, build

HOST = Host("node174", {}, ("gpu",), "inventory/hosts.yml:3")
DUMP = "/usr/bin/env"


def plan_of(
    data: Mapping[str, Any], *, secrets: Mapping[str, str] | None = None, templates: tuple[Path, ...] = ()
) -> LaunchPlan:
    """The plan of a profile given as plain data."""
    return build(HOST, "tuned", Profile.from_plain(data), secrets=Secrets(secrets or {}), templates=templates)


def dumping(**sections: Any) -> dict[str, Any]:
    """A profile whose server prints its environment and ends."""
    server = {"model": "m", "port": 30000, "command": [DUMP, "-0"], **sections.pop("server", {})}
    return {"engine": "openai", "server": server, **sections}


@dataclass(frozen=True)
class Shell:
    """A shell to run launch scripts with.

    Args:
        argv: Put before the script's path; empty runs the script itself.
        sh: Stands in place of ``/bin/sh`` in the script.
    """

    argv: tuple[str, ...]
    sh: str

    def run(self, folder: Path, plan: LaunchPlan, environ: Mapping[str, str] | None = None) -> bytes:
        """What the server prints, its script lying in ``folder`` as on a host."""
        script = folder / "launch.sh"
        begin, again, rest = plan.script.partition(
            "unset POSIXLY_CORRECT"
        )  # a word may be a shell's path too
        script.write_bytes((begin.replace("/bin/sh", self.sh) + again + rest).encode())
        script.chmod(0o755)
        (folder / "secrets.env").write_bytes(secretsfile.text(plan.secrets).encode())
        caller = {"HOME": str(folder), "PATH": os.environ["PATH"]} if environ is None else environ
        done = subprocess.run(
            [*self.argv, str(script)], env=caller, capture_output=True, stdin=subprocess.DEVNULL, timeout=20
        )
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode(errors="replace")
        return done.stdout

    def environment(
        self, folder: Path, plan: LaunchPlan, environ: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The server's environment."""
        entries = self.run(folder, plan, environ).decode("utf-8", "surrogateescape").split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry)


@pytest.fixture(params=["dash", "bash as sh", "run by bash"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Each shell that may run a launch script."""
    if request.param == "dash":
        return Shell(("dash",), "/usr/bin/dash")
    link = tmp_path_factory.mktemp("bin") / "sh"
    link.symlink_to("/bin/bash")
    return Shell(() if request.param == "bash as sh" else ("bash",), str(link))


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A new folder at each call: examples of one test do not share it."""
    return lambda: tmp_path_factory.mktemp("slot it's")
