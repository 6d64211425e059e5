"""The operation ``fingerprint``: all that is in force around a server and can make it slow or fast."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..context import Context
from ..gpus import gpu
from ..gpus.gpu import GpuState
from ..killing import describe
from ..processes.procs import Process, read_file
from ..starting import subject
from ..starting.subject import Subject
from ..variables import each_text, shown, without
from . import environment, gpuuse, serverinfo, versions
from .serverinfo import Server

_VERSION_S = 10.0


def take(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    """The operation ``fingerprint``.

    Args:
        params: ``engines``; ``plan``, ``slot`` or ``port``; ``salt``, ``salt_id``; ``prefixes`` (null: the
            general tuning prefixes and the engine's own).

    Raises:
        AgentError: ``no-server``, ``bad-request``, ``wrong-listener``, ``cancelled``.
    """
    found = subject.find(ctx, params)
    return of(ctx, params, found, serverinfo.ask(ctx, found), gpu.query(ctx.facts, ctx.login_env))


def of(
    ctx: Context,
    params: Mapping[str, Any],
    found: Subject,
    server: Server,
    state: GpuState,
    under_load: Sequence[Mapping[str, Any]] = (),
) -> Dict[str, Any]:
    """The fingerprint of a server.

    Args:
        params: As ``take`` gets them.
        found: The server.
        server: What it says of itself.
        state: What the driver says now.
        under_load: Its GPUs as they were under load; empty: as they are now.
    """
    planned = found.plan["env"] if found.plan else {}
    env = environment.read(ctx, found.workers, found.launcher, found.engine, params, planned)
    worker = found.workers[0] if found.workers else None
    known, unread = versions.read(found.launcher, worker, env.live, found.engine)
    if "engine" not in known:
        known.update(_engine_version(found, server.args, env.live))
    unread = [line for line in unread if not (line.startswith("version of the engine") and "engine" in known)]
    used, why_gpus = gpuuse.gpus_of(ctx, found, state)
    if used and used[0].get("driver"):
        known["driver"] = str(used[0]["driver"])
    conf, why_conf = _conf_files(worker or found.launcher, env.live)
    fingerprint: Dict[str, Any] = {
        **env.fields,
        "args": server.args,
        "argv": describe.command(found.launcher.argv),
        "versions": known,
        "host": _host(ctx),
        "process": _limits(found.workers or (found.launcher,)),
        "gpus": gpuuse.loaded(used, under_load),
        "strangers": gpuuse.strangers(ctx, found, state),
        "conf_files": conf,
        "unread": [*env.unread, *unread, *server.unread, *why_gpus, *why_conf],
    }
    secrets = [*env.secrets, *found.secrets]
    ctx.hide(secrets)
    told: Dict[str, Any] = each_text(without(secrets, fingerprint), shown, shown)
    return told


def _engine_version(found: Subject, args: Mapping[str, Any], live: Mapping[str, str]) -> Dict[str, str]:
    """The engine's version in the server's own words, or in its program's."""
    said = versions.said_by_server(args)
    argv = list(found.engine["version_argv"])
    exe = found.launcher.exe
    if not said and argv and os.path.basename(exe) == os.path.basename(argv[0]):
        said = _asked([exe, *argv[1:]], live)
    return {"engine": said} if said else {}


def _asked(argv: List[str], live: Mapping[str, str]) -> str:
    """The first line with a digit that a program prints of its version."""
    env = {name: live[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in live}
    try:
        done = subprocess.run(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    hits = [line.strip() for line in lines if "version" in line and re.search(r"\d", line)]
    return re.sub(r"^version:?\s*", "", hits[0])[:80] if hits else ""


def _host(ctx: Context) -> Dict[str, Any]:
    facts = ctx.facts
    return {
        "hostname": os.uname().nodename,
        "boot_id": facts.boot_id,
        "init_start": facts.init_start,
        "pid_ns": facts.pid_ns,
        "simulated": facts.simulated,
        "cpus": os.cpu_count(),
        "load1": round(os.getloadavg()[0], 2),
    }


def _limits(workers: Sequence[Process]) -> Dict[str, Any]:
    """What the kernel lets the workers have: of all of them, each value once."""
    found: Dict[str, List[str]] = {"cpus_allowed": [], "nice": [], "memlock": [], "cpu_max": []}
    for worker in workers:
        base = "/proc/%d/" % worker.pid
        status = read_file(base + "status").decode("utf-8", "replace")
        found["cpus_allowed"] += re.findall(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
        found["memlock"] += re.findall(
            r"^Max locked memory\s+(\S+)", read_file(base + "limits").decode(), re.M
        )
        stat = read_file(base + "stat").rpartition(b")")[2].split()
        found["nice"] += [stat[16].decode()] if len(stat) > 16 else []
        found["cpu_max"] += _quota(read_file(base + "cgroup").decode("utf-8", "replace"))
    return {name: " / ".join(sorted(set(values))[:8]) for name, values in found.items() if values}


def _quota(cgroup: str) -> List[str]:
    """The tightest CPU quota on the way up (version 2 of cgroups); nothing where there is none to read."""
    hit = re.search(r"^0::(/\S*)", cgroup, re.MULTILINE)
    path = hit.group(1).rstrip("/") if hit else None
    quotas: List[Tuple[float, str]] = []
    while path is not None:
        text = read_file("/sys/fs/cgroup%s/cpu.max" % path).decode().split()
        if len(text) == 2 and text[0].isdigit() and text[1].isdigit() and int(text[1]):
            share = int(text[0]) / int(text[1])
            quotas.append((share, "%.2f CPUs" % share))
        path = path.rpartition("/")[0] if path else None
    return [min(quotas)[1]] if quotas else (["none"] if hit else [])


def _conf_files(process: Process, live: Mapping[str, str]) -> Tuple[Dict[str, str], List[str]]:
    """sha256 of each file that NCCL reads, and which could not be read."""
    found: Dict[str, str] = {}
    unread: List[str] = []
    paths, root = versions.conf_files(process, live)
    for path in paths:
        try:
            with open(root + path, "rb") as file:
                found[path] = hashlib.sha256(file.read(1 << 20)).hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread.append("%s: %s" % (path, error.strerror))
    return found, unread
