"""The verb that makes a profile of a server that runs, whoever started it; nothing on the host is changed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError, HostFailed, InputError
from stoker.fleet.flags import Flag
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.config.drafts.draft import Draft
    from stoker.config.inventories.inventory import Host
    from stoker.fleet.project import Project
    from stoker.plan import LaunchPlan

CALL_S = 120


def capture(job: Job) -> Outcome:
    """A profile that starts the same server; written unless ``--check``.

    Raises:
        InputError: Several servers run and none is named, or the profile is there already.
        HostFailed: No server runs, or what it told makes no profile.
    """
    name = job.args["name"]
    params = {"engines": job.project.engines, "port": job.args["port"], "slot": job.args["slot"]}
    try:
        captured = job.session.call("capture", params, timeout_s=CALL_S)
    except HostFailed as error:
        if error.kind != "bad-request":
            raise
        raise InputError(
            error.what, where=job.host.name, evidence=error.evidence, next_step=error.next_step
        ) from error
    knows = tuning_names()
    with reading(job.host.name, "its server"):
        draft, plan = drafted(job.host, name, captured, knows)
    path = job.project.settings.path("profiles") / f"{name}.yml"
    if not job.check:
        write(path, draft.text, replace=job.args["force"])
    data = {
        "profile": name,
        "path": job.project.shown(path),
        "text": draft.text,
        "notes": list(draft.notes),
        "secrets": list(draft.secrets),
        "command": list(plan.argv),
        "engine": captured["engine"],
        "pid": captured["process"]["pid"],
        "written": not job.check,
    }
    what = f"{captured['engine']} on port {captured['port']}"
    there = f"would be written to {data['path']}" if job.check else f"written to {data['path']}"
    return Outcome(f"{what}: {there}", data)


def tuning_names() -> Callable[[str], bool]:
    """Whether a variable is known to tune something."""
    from stoker.tuning import Catalogue

    catalogue = Catalogue.load()
    return lambda name: catalogue.find(name) is not None


def drafted(
    host: Host, name: str, captured: Mapping[str, Any], knows: Callable[[str], bool]
) -> tuple[Draft, LaunchPlan]:
    """The profile, and the plan that it gives on its host: it has been read back.

    Raises:
        HostFailed: ``bad-result``: it is no profile.
    """
    from stoker import engines
    from stoker.config.drafts import draft

    engine = engines.get(str(captured["engine"]))
    source = f"{host.name}, port {captured['port']}"

    def made(path: bool) -> tuple[Draft, LaunchPlan]:
        one = draft.of_server(name, source, captured, engine, knows=knows, path=path)
        return one, _plan(host, name, one.text)

    found, plan = made(path=False)
    server_path = captured["env"].get("PATH")
    return made(path=True) if server_path not in (None, plan.path) else (found, plan)


def _plan(host: Host, name: str, text: str) -> LaunchPlan:
    """Read a profile back, and plan it."""
    from stoker.config.profiles.profile import Library
    from stoker.plan import build

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.yml").write_text(text, encoding="utf-8")
        try:
            profile = Library(Path(folder), Path(folder)).resolve(name, host)
        except ConfigError as error:
            raise HostFailed(
                "what was captured makes no profile",
                host=host.name,
                kind="bad-result",
                evidence=[str(problem) for problem in error.problems],
                next_step="write the profile by hand; --check --json shows what the server is",
            ) from error
    return build(host, name, profile, secrets=None, templates=[])


def free(project: Project, name: str, *, replace: bool) -> None:
    """Say at once where a profile cannot be written.

    Raises:
        InputError: There is such a profile.
    """
    folder = project.settings.path("profiles")
    there = [folder / f"{name}{suffix}" for suffix in (".yml", ".yaml")]
    taken = [path for path in there if path.exists() or path.is_symlink()]
    if taken and (not replace or taken[0].suffix == ".yaml"):
        raise _taken(taken[0])


def write(path: Path, text: str, *, replace: bool) -> None:
    """Write a profile whole or not at all.

    Raises:
        InputError: It is there already, or cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename it never replaces what came meanwhile
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _taken(path: Path) -> InputError:
    return InputError(
        "there is such a profile already",
        where=str(path),
        next_step="choose another --name, look first with --check, or replace it with --force",
    )


CAPTURE = Verb(
    "capture",
    (
        Flag("port", "Port of the server; without it, the only one that runs.", "whole", least=1),
        Flag("slot", "Slot of a server that Stoker launched.", "name"),
        Flag("name", "Name of the profile: profiles/NAME.yml.", "name"),
        Flag("force", "Replace a profile of that name.", "flag"),
    ),
    capture,
)
