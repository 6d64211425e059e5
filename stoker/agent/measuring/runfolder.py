"""What a benchmark leaves on the host until it is pulled: ``~/.stoker/runs/RUN-ID/``, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from types import MappingProxyType
from typing import Any, Dict, Iterable, List, Mapping

from ..context import AgentError, Context
from ..evidence import environment
from ..launches.state import io_error
from ..processes import liveenv
from ..processes.procs import read_file
from ..starting.subject import Subject
from ..variables import redacted, without

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_DRAFT = re.compile(r"\..+\.(\d+)\.new\Z")
_LOG_BYTES = 4 << 20
KEPT_RUNS = 50  # a disk is not filled by what nobody pulls


def reserve(home: str, run_id: object) -> str:
    """Where a run will lie.

    Args:
        home: ``~/.stoker``.

    Raises:
        AgentError: ``bad-request``: no plain name, or one that is there already.
    """
    if not isinstance(run_id, str) or not _SAFE.fullmatch(run_id):
        raise AgentError(
            "bad-request", "%r is no id of a run" % (run_id,), next_step="use letters, digits, . _ -"
        )
    folder = os.path.join(home, "runs", run_id)
    if os.path.lexists(folder):
        raise AgentError("bad-request", "the run %s is there already" % run_id, next_step="take another id")
    return folder


def write(
    ctx: Context,
    folder: str,
    result: Mapping[str, Any],
    requests: Iterable[Mapping[str, Any]],
    found: Subject,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the folder under another name and rename it; what leaves the host in nothing is not in it.

    Args:
        folder: Of ``reserve``.
        result: The bench result; ``bench.json`` holds it without the requests.
        requests: One line each of ``requests.jsonl``.
        found: The server, whose log and launch script are copied.
        more: Other files: name to text.

    Raises:
        AgentError: ``io``.
    """
    runs, name = os.path.split(folder)
    draft = os.path.join(runs, ".%s.%d.new" % (name, os.getpid()))
    summary = without(ctx.secrets, {key: value for key, value in result.items() if key != "requests"})
    rows = without(ctx.secrets, list(requests))
    files = {
        "bench.json": json.dumps(summary, indent=1),
        "requests.jsonl": "".join(json.dumps(request) + "\n" for request in rows),
        **{name: redacted(text, ctx.secrets) for name, text in {**_of_launch(found), **more}.items()},
    }
    try:
        os.makedirs(runs, mode=0o700, exist_ok=True)
        os.mkdir(draft, 0o700)
        for file, text in files.items():
            _write(os.path.join(draft, file), text)
        os.rename(draft, folder)
        _sweep(runs)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise io_error(folder, error) from error


def _sweep(runs: str) -> None:
    """Keep the last runs, and take away the drafts of writers that were killed."""
    kept = []
    for name in os.listdir(runs):
        path = os.path.join(runs, name)
        draft = _DRAFT.match(name)
        if draft and not os.path.exists("/proc/" + draft.group(1)):
            shutil.rmtree(path, ignore_errors=True)
        elif _SAFE.fullmatch(name):
            try:
                info = os.lstat(path)
            except OSError:
                continue  # another benchmark of this host has just taken it away
            if stat.S_ISDIR(info.st_mode):
                kept.append((info.st_mtime, path))
    for _, path in sorted(kept)[:-KEPT_RUNS]:
        shutil.rmtree(path, ignore_errors=True)


def secrets_of(found: Subject) -> List[str]:
    """Every value that is known to be a secret of this server's, while it lives."""
    envs = liveenv.read_all([worker.pid for worker in found.workers])
    return [*found.secrets, *environment.credentials(envs.values())]


def _of_launch(found: Subject) -> Dict[str, str]:
    """The server's log (its end, if it is long) and its launch script."""
    if found.launch is None:
        return {}
    log, script = _end_of(str(found.launch["log"])), read_file(str(found.launch["script"]))
    texts = {"server.log": log, "launch.sh": script}
    return {name: raw.decode("utf-8", "replace") for name, raw in texts.items() if raw}


def _end_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            return file.read(_LOG_BYTES)
    except OSError:
        return b""


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
