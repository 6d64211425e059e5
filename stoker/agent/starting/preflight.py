"""What can be known before the first signal: would the new server start at all?"""

from __future__ import annotations

import errno
import os
import shutil
import socket
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import run
from ..context import AgentError, Context
from ..diagnosis import ranges
from ..gpus import owners
from ..gpus.gpu import GpuState
from ..processes import procs, recognise
from ..processes.descriptors import overlap
from ..processes.procs import Process
from . import prepare

Check = Dict[str, Any]

IMPORT_S = 180.0
SETUP_S = 60.0
# A log, the records, a core's worth of messages.
_DISK_MIB = 64
# What NCCL takes of /dev/shm for each GPU at the least, where there are several.
_SHM_MIB_PER_GPU = 4
_SAID = 400
# Of Linux: the longest argument or variable, and of all together, whatever the limit of the stack is.
_STRING_PAGES = 32
_ARGUMENTS_BYTES = 6 << 20
_POINTER_BYTES = 8
_SPARE_BYTES = 64 << 10  # what the shell, a setup and a wrapper add
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def check(
    ctx: Context,
    plan: Mapping[str, Any],
    state: GpuState,
    addresses: Sequence[str],
    doomed: Sequence[Process],
) -> List[Check]:
    """Every check of a plan against this host; nothing is touched.

    Args:
        state: What the driver says of the GPUs.
        addresses: Numeric addresses of the plan's bind; empty: it has none.
        doomed: What is going to be ended: its port will be free.

    Returns:
        ``{name, ok, detail}`` each.
    """
    checks: List[Tuple[str, Callable[[], str]]] = [
        ("arguments", lambda: _arguments(ctx, plan)),
        ("program", lambda: _program(ctx, plan)),
        ("model", lambda: _model(plan)),
        ("gpus", lambda: _gpus(plan, state)),
        ("address", lambda: _address(ctx, plan, addresses, doomed)),
        ("disk", lambda: _disk(ctx)),
        ("shared memory", lambda: _shm(ctx, plan, state)),
        ("script", lambda: _script(ctx, plan)),
        ("supervisor", _supervisor),
    ]
    return [_one(name, body) for name, body in checks]


class _NotFitError(Exception):
    """A check failed; the message says what is wrong."""


def _one(name: str, body: Callable[[], str]) -> Check:
    try:
        return {"name": name, "ok": True, "detail": body()}
    except _NotFitError as error:
        return {"name": name, "ok": False, "detail": str(error)}
    except AgentError as error:
        if error.kind != "io":
            raise
        return {"name": name, "ok": False, "detail": error.what}


def refuse(checks: Sequence[Check]) -> None:
    """Stop where one check failed.

    Raises:
        AgentError: ``preflight``; what is there was not touched.
    """
    failed = [one for one in checks if not one["ok"]]
    if failed:
        evidence = [f"{one['name']}: {one['detail']}" for one in failed]
        raise AgentError(
            "preflight",
            f"the host is not ready for this launch: {evidence[0]}",
            evidence,
            next_step="correct that; what runs there was not touched",
            detail={"preflight": list(checks)},
        )


def _arguments(ctx: Context, plan: Mapping[str, Any]) -> str:
    """Whether the kernel takes the command line and the environment: ``execve`` refuses more."""
    texts = [(f"argument {at}", word) for at, word in enumerate(plan["argv"])]
    texts += [(name, f"{name}={value}") for name, value in _environment(ctx, plan).items()]
    sizes = {name: len(os.fsencode(text)) + 1 for name, text in texts}
    longest = max(sizes, key=lambda name: sizes[name])
    most_each = _STRING_PAGES * os.sysconf("SC_PAGE_SIZE")
    if sizes[longest] > most_each:
        raise _NotFitError(
            f"{longest} has {sizes[longest]} bytes, the kernel takes {most_each} in one string"
        )
    total = sum(sizes.values()) + _POINTER_BYTES * len(sizes)
    most = min(os.sysconf("SC_ARG_MAX"), _ARGUMENTS_BYTES) - _SPARE_BYTES
    if total > most:
        raise _NotFitError(
            f"arguments and environment have {total} bytes, the kernel takes {most}; the longest is {longest}"
        )
    return f"{total} bytes of {most}"


def _program(ctx: Context, plan: Mapping[str, Any]) -> str:
    engine, argv = plan["engine"], plan["argv"]
    env = _environment(ctx, plan)
    own = [word.replace("{python}", plan["python"]) for word in engine["command"][:1]]
    wanted = [argv[0], *(word for word in own if word in argv)]  # what wraps it, and itself
    found = [_find(ctx, plan, env, word) for word in dict.fromkeys(wanted)]
    python = _find(ctx, plan, env, plan["python"]) if plan["python"] else _shebang(found[-1])
    if not engine["import_name"] or not python:
        return ", ".join(found)
    code = f"import {engine['import_name']} as m; print(getattr(m, '__version__', ''))"
    done = _in_script(ctx, plan, env, [python, "-c", code], IMPORT_S)
    if done["timed_out"]:
        raise _NotFitError(f"{python} did not import {engine['import_name']} within {IMPORT_S:.0f} s")
    if done["rc"]:
        raise _NotFitError(f"{python} cannot import {engine['import_name']}: {_last(done['stderr'])}")
    return f"{python} imports {engine['import_name']} {_last(done['stdout'])}".rstrip()


def _environment(ctx: Context, plan: Mapping[str, Any]) -> Dict[str, str]:
    """What the script gives the server, as far as it can be told without running it."""
    env = prepare.environment(ctx, plan, ())
    return {**env, "PATH": plan["path"], **plan["env"], **plan["secrets"]}


def _in_script(
    ctx: Context, plan: Mapping[str, Any], env: Mapping[str, str], argv: List[str], timeout_s: float
) -> Dict[str, Any]:
    """Run a command as the script would: its setup (module load and the like) decides what can be found."""
    setup = "".join("{ %s\n} || exit\n" % line for line in plan["setup"])
    if setup:
        argv = [*prepare.interpreter(plan["script"]), "-c", setup + '"$@"', "sh", *argv]
    return run.run(ctx, argv, env=env, cwd=prepare.folder_of(ctx), timeout_s=timeout_s)


def _find(ctx: Context, plan: Mapping[str, Any], env: Mapping[str, str], program: str) -> str:
    if plan["setup"]:
        done = _in_script(ctx, plan, env, ["command", "-v", program], SETUP_S)
        if done["rc"]:
            raise _NotFitError(
                f"{program} is not on the PATH after the profile's setup {_last(done['stderr'])}"
            )
        return _last(done["stdout"]) or program
    if "/" in program:
        program = os.path.join(prepare.folder_of(ctx), program)  # as the script: it begins there
    return _on_path(program, env)


def _shebang(program: str) -> str:
    """The Python that runs a script; empty where it is none."""
    first = procs.read_file(program, 256).split(b"\n", 1)[0].decode("utf-8", "replace")
    words = first[2:].split() if first.startswith("#!") else []
    return words[0] if words and recognise.invocation(words).python else ""


def _on_path(program: str, env: Mapping[str, str]) -> str:
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found:
        return found
    if "/" not in program:
        raise _NotFitError(f"{program} is not on the PATH ({env.get('PATH', '')})")
    what = "may not be executed" if os.path.exists(program) else "does not exist"
    raise _NotFitError(f"{program} {what}")


def _model(plan: Mapping[str, Any]) -> str:
    path = plan["model_path"]
    if not path:
        return f"{plan['model']} is no path here"
    try:
        if os.path.isdir(path):
            if not os.listdir(path):
                raise _NotFitError(f"{path} is empty")
        else:
            with open(path, "rb") as file:
                if not file.read(1):
                    raise _NotFitError(f"{path} is empty")
    except OSError as error:
        raise _NotFitError(f"{path}: {error.strerror}") from error
    return str(path)


def _gpus(plan: Mapping[str, Any], state: GpuState) -> str:
    if not plan["gpus"]:
        return "none wanted"
    if state.state in ("unhealthy", "unknown"):
        raise _NotFitError(f"the state of the GPUs is {state.state}: {state.why}")
    found, missing = owners.resolve(plan["gpus"], state)
    if missing:
        has = f"{len(state.gpus)} GPUs" if state.gpus else f"no GPU ({state.why})"
        raise _NotFitError(f"GPU {', '.join(missing)} is not there; the host has {has}")
    named: Dict[str, List[int]] = {}
    for gpu in found:
        named.setdefault(gpu.name, []).append(gpu.index)
    return "; ".join(f"{ranges(indices)}: {name}" for name, indices in named.items())


def _address(
    ctx: Context, plan: Mapping[str, Any], addresses: Sequence[str], doomed: Sequence[Process]
) -> str:
    if not addresses:
        raise _NotFitError(f"{plan['bind']} is no address, and no name for one here")
    state, port = "free", plan["port"]
    here = list(addresses)
    for address in addresses:
        try:
            _bind(address, port)
        except OSError as error:
            if error.errno in _NOT_HERE and len(here) > 1:
                here.remove(address)  # one of a name's: a server takes another
            elif error.errno != errno.EADDRINUSE or not _is_theirs(ctx, address, port, doomed):
                raise _NotFitError(_no_bind(address, port, error)) from error
            else:
                state = "held by what is going to be ended"
    return f"{', '.join(here)} port {port} is {state}"


def _bind(address: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((address, port))


def _is_theirs(ctx: Context, address: str, port: int, doomed: Sequence[Process]) -> bool:
    """Whether only processes that are going to be ended hold the port (one may have just begun to listen)."""
    snapshot = procs.snapshot(ctx.facts)
    keys = {process.key for process in doomed}
    snapshot.presume(port, doomed)
    holders = [one.pid for one in procs.listeners(port, snapshot) if overlap(one.address, address)]
    for pid in holders:
        process = snapshot.by_pid.get(pid) if pid is not None else None
        if process is None or not keys & {p.key for p in (process, *snapshot.ancestors(process.pid))}:
            return False
    return bool(keys)


def _no_bind(address: str, port: int, error: OSError) -> str:
    if error.errno in _NOT_HERE:
        return f"{address} is no address of this host"
    if error.errno == errno.EACCES:
        return f"port {port} is reserved for root"
    return f"{address} port {port}: {error.strerror}"


def _disk(ctx: Context) -> str:
    folder = ctx.home
    while not os.path.isdir(folder) and folder != "/":
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _NotFitError(f"{folder} cannot be written to")
    space = os.statvfs(folder)
    if space.f_flag & os.ST_RDONLY:
        raise _NotFitError(f"{folder} is mounted read-only")
    if space.f_files and not space.f_favail:
        raise _NotFitError(f"{folder}: no inodes left")
    return _room(folder, _DISK_MIB)


def _shm(ctx: Context, plan: Mapping[str, Any], state: GpuState) -> str:
    folder = ctx.facts.shm_dir
    count = len(owners.resolve(plan["gpus"], state)[0])
    if not os.path.isdir(folder):
        if count > 1:
            raise _NotFitError(f"{folder} does not exist")
        return "not needed"
    return _room(folder, _SHM_MIB_PER_GPU * count if count > 1 else 0)


def _room(folder: str, need_mib: int) -> str:
    space = os.statvfs(folder)
    free_mib = space.f_bavail * space.f_frsize >> 20
    if free_mib < need_mib:
        raise _NotFitError(f"{folder} has {free_mib} MiB free, {need_mib} MiB are needed")
    return f"{folder} has {free_mib} MiB free"


def _script(ctx: Context, plan: Mapping[str, Any]) -> str:
    command = prepare.interpreter(plan["script"])
    program = _on_path(command[0], prepare.environment(ctx, plan, ()))
    if os.path.basename(command[-1]) not in ("sh", "bash", "dash"):
        return program
    argv = [*command, "-n", "/dev/stdin"]
    done = run.run(ctx, argv, env=ctx.login_env, stdin=plan["script"].encode("utf-8"), timeout_s=10)
    if done["rc"]:
        raise _NotFitError(f"the launch script is no shell script: {_last(done['stderr'])}")
    return f"{' '.join(command)} reads it"


def _supervisor() -> str:
    try:
        import ctypes
    except ImportError as error:
        raise _NotFitError(f"this Python has no ctypes, which the supervisor needs: {error}") from error
    return "ready" if ctypes else ""


def _last(text: str) -> str:
    lines: List[str] = [line for line in text.splitlines() if line.strip()]
    found: Optional[str] = lines[-1].strip() if lines else None
    return (found or "")[:_SAID]
