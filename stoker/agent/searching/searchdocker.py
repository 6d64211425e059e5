"""What containers were given, as ``docker inspect`` (or podman's) tells, where it answers in time."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime, timezone
from typing import Any, Dict, List, NamedTuple, Tuple

from ..context import Context

_ANSWER_S = 8.0
_MOST = 200
_FILES = "com.docker.compose.project.config_files"


class Container(NamedTuple):
    """One container.

    Args:
        name: Its name.
        env: ``NAME=value`` of its configuration.
        files: Compose files that it was made by; absolute.
        at: When it was made, in Unix time; 0: unknown.
    """

    name: str
    env: List[str]
    files: List[str]
    at: float


def look(ctx: Context) -> Tuple[List[Container], str]:
    """(every container, stopped ones too; why they are not known, empty also where there is no docker)."""
    path = ctx.login_env.get("PATH")
    program = shutil.which("docker", path=path) or shutil.which("podman", path=path)
    if program is None:
        return [], ""
    try:
        ids = _asked(ctx, [program, "ps", "--all", "--quiet", "--no-trunc"]).split()[:_MOST]
        rows = json.loads(_asked(ctx, [program, "inspect", *ids])) if ids else []
    except subprocess.TimeoutExpired:
        return [], "does not answer within %g s" % _ANSWER_S
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or b""
        lines = said.decode("utf-8", "replace").strip().splitlines()
        return [], lines[-1][:200] if lines else "does not answer: %s" % type(error).__name__
    return [_container(row) for row in rows if isinstance(row, dict)], ""


def _asked(ctx: Context, argv: List[str]) -> str:
    ctx.check_cancelled()
    done = subprocess.run(
        argv,
        env=ctx.login_env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=_ANSWER_S,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


def _container(row: Dict[str, Any]) -> Container:
    config = _object(row.get("Config"))
    labels = _object(config.get("Labels"))
    files = [path for path in str(labels.get(_FILES, "")).split(",") if path.startswith("/")]
    env = [str(entry) for entry in config.get("Env") or () if isinstance(entry, str)]
    return Container(
        str(row.get("Name", "")).lstrip("/") or "unnamed", env, files, _moment(row.get("Created"))
    )


def _object(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _moment(text: Any) -> float:
    """``2026-01-31T08:00:00.123456789Z`` in Unix time."""
    hit = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", str(text))
    if hit is None:
        return 0.0
    return datetime.strptime(hit.group(1), "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
