"""The operation ``capture``: what a running server is, so that a profile can be made that starts the same."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..context import AgentError, Context
from ..gpus import gpu
from ..gpus.gpu import GpuState
from ..killing import describe
from ..processes import families, liveenv, procs, recognise
from ..processes.descriptors import listening
from ..processes.procs import Process
from ..processes.recognise import Recogniser, flag_value, invocation
from ..starting import proof, subject
from ..starting.subject import Subject
from ..variables import TUNING_PREFIXES, is_credential, redacted, shown
from . import environment, gpuuse, serverinfo, surroundings, versions


class Given(NamedTuple):
    """What a launcher was given.

    Args:
        env: Name to value; bytes that are no UTF-8 by surrogate escapes.
        source: ``exec``: as it was given; ``memory``: as it is now, with what the program set since;
            ``unreadable``.
        why: Why it is not from exec.
    """

    env: Dict[str, str]
    source: str
    why: str


def capture(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    """The operation ``capture``: nothing is changed.

    Args:
        params: ``engines``; ``slot`` or ``port``; none of them: the only server that runs.

    Raises:
        AgentError: ``no-server``; ``bad-request``: several run, the choices are its evidence; ``cancelled``.
    """
    found = _unwrapped(_find(ctx, params), Recogniser(params["engines"]))
    server = serverinfo.ask(ctx, found)
    driver = gpu.query(ctx.facts, ctx.login_env)
    given = _given(found.launcher)
    lives = liveenv.read_all([worker.pid for worker in found.workers], ctx.check_cancelled)
    ctx.hide(_secrets(found, given, list(lives.values())))
    home = versions.Disk(found.launcher, given.env)
    versions_, _ = versions.read(found.launcher, None, given.env, found.engine)
    unread = [f"environment of its launcher: {given.why}"] if given.source != "exec" else []
    return {
        "engine": found.engine["name"],
        "version": versions_.get("engine") or versions.said_by_server(server.args),
        "launch": {key: found.launch[key] for key in ("slot", "profile")} if found.launch else None,
        "process": describe.plain(found.launcher),
        "foreign": found.launcher.uid != os.getuid(),
        **_called(found.launcher, home, found.secrets),
        "container": _in_container(found.launcher),
        "model": server.model,
        "said": server.args,
        "bind": found.address,
        "port": found.port,
        **_gpus(ctx, found, driver),
        **_environment(ctx, found, given, lives),
        "around": surroundings.of(found.seen, found.launcher),
        "unread": [*unread, *server.unread],
    }


def _find(ctx: Context, params: Mapping[str, Any]) -> Subject:
    """The server that is meant, also another user's, of which less can be read."""
    try:
        return subject.find(ctx, params)
    except AgentError as error:
        if error.kind != "no-server" or params.get("slot"):
            raise
        found = _of_others(ctx, params)
        if found is None:
            raise
        return found


def _unwrapped(found: Subject, recogniser: Recogniser) -> Subject:
    """The same server with its own first process in place of a wrapper that it was launched by."""
    below = [found.launcher, *found.seen.descendants(found.launcher.pid)]
    named = (process for process in below if recogniser.launcher(process) == found.engine["name"])
    return replace(found, launcher=next(named, proof.leaf(found.seen, found.launcher)))


def _of_others(ctx: Context, params: Mapping[str, Any]) -> Optional[Subject]:
    """An engine of another user: who holds its port may not be seen, its command line may.

    Raises:
        AgentError: ``bad-request``: several fit.
    """
    seen = procs.snapshot(ctx.facts)
    port = int(params.get("port") or 0)
    fitting: List[Tuple[families.Family, procs.Listener]] = []
    for family in families.find(seen, Recogniser(params["engines"])):
        head = family.launcher
        if head is None or head.uid == os.getuid() or not seen.is_ours(head):
            continue
        listener = _listener_of(head, subject.engine_named(params, family.engine), port)
        if listener is not None:
            fitting.append((family, listener))
    if len(fitting) > 1:
        choices = ["port %d (%s)" % (row.port, family.engine) for family, row in fitting]
        raise AgentError("bad-request", "several servers run here", choices, "say which: --port PORT")
    if not fitting:
        return None
    family, listener = fitting[0]
    engine = subject.engine_named(params, family.engine)
    head = family.launcher or family.members[0]
    return subject.by_hand(params, seen, engine, head, list(family.members), listener)


def _listener_of(head: Process, engine: Mapping[str, Any], port: int) -> Optional[procs.Listener]:
    told = flag_value(head.argv, str(engine.get("port_flag", "")))
    wanted = port or (int(told) if told.isdigit() else 0)
    for table in ("tcp", "tcp6"):
        for address, number, inode, uid in listening(table):
            if uid == head.uid and number == wanted and told in ("", str(number)):
                return procs.Listener(address, number, inode, None, uid)
    return None


def _given(launcher: Process) -> Given:
    """The launcher's environment at exec; where a title has overwritten it, what its memory holds."""
    try:
        return Given(liveenv.at_exec("/proc/%d/environ" % launcher.pid), "exec", "")
    except (OSError, liveenv.UnreadableError) as error:
        why = error.strerror or "" if isinstance(error, OSError) else str(error)
    live = liveenv.read(launcher.pid)
    if live.source == "memory":
        return Given(live.env, "memory", why)
    return Given({}, "unreadable", live.why or why)


def _secrets(found: Subject, given: Given, lives: Sequence[liveenv.LiveEnv]) -> List[str]:
    """Values that leave the host in nothing."""
    own = liveenv.LiveEnv(given.env, given.source, "")
    return [*found.secrets, *environment.credentials([own, *lives])]


def _called(launcher: Process, disk: versions.Disk, secrets: Sequence[str]) -> Dict[str, Any]:
    """How it was called: its words without what looks like a key, and what its program is."""
    argv = [redacted(word, secrets) for word in launcher.argv]
    words = describe.command(argv)
    called = invocation(launcher.argv)
    cwd = _link("/proc/%d/cwd" % launcher.pid)
    head = len(launcher.argv) - len(called.args)
    prefix = disk.prefix()
    is_venv = bool(prefix) and os.path.isfile(disk.seen(os.path.join(prefix, "pyvenv.cfg")))
    return {
        "argv": words,
        "withheld": [at for at, word in enumerate(words) if word != launcher.argv[at]],
        "head": head,
        "module": called.module,
        "python": _python(launcher, cwd) if called.python or recognise.is_python(launcher) else "",
        "program": _program(launcher, called, cwd),
        "venv": prefix if is_venv else "",
        "cwd": cwd,
        "relative": _relative(launcher, cwd, head),
    }


def _python(launcher: Process, cwd: str) -> str:
    """The interpreter as it was called, where that is a path; else what it turned out to be."""
    first = launcher.argv[0] if launcher.argv else ""
    if "/" in first and cwd:
        return os.path.normpath(os.path.join(cwd, first))
    return launcher.exe.split(" (deleted)")[0]


def _program(launcher: Process, called: recognise.Invocation, cwd: str) -> str:
    """The absolute path of the program, or of the script that a Python runs; empty for a module."""
    if called.module or called.code:
        return ""
    word = launcher.argv[-len(called.args) - 1] if called.python else (launcher.argv or [""])[0]
    if "/" in word:
        return os.path.normpath(os.path.join(cwd, word)) if cwd or word.startswith("/") else ""
    return "" if called.python else launcher.exe.split(" (deleted)")[0]


def _relative(launcher: Process, cwd: str, head: int) -> List[str]:
    """Words of its arguments that name what is there only as seen from its working folder."""
    found = []
    root = "/proc/%d/root" % launcher.pid
    for word in launcher.argv[head:]:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and cwd and not value.startswith(("/", "-")) and len(value) < 1024 and "\0" not in value:
            path = os.path.join(cwd, value)
            if os.path.lexists(root + path) or os.path.lexists(path):
                found.append(value)
    return found


def _in_container(process: Process) -> bool:
    """Whether it sees another root than we do."""
    try:
        theirs, ours = os.stat("/proc/%d/root/" % process.pid), os.stat("/")
    except OSError:
        return False
    return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)


def _gpus(ctx: Context, found: Subject, driver: GpuState) -> Dict[str, Any]:
    """The GPUs that it holds, how many there are (null: nobody tells), and why they are not known."""
    used, why = gpuuse.gpus_of(ctx, found, driver)
    rows = [{"index": one["index"], "uuid": one["uuid"]} for one in used]
    known = driver.state in ("ok", "none")
    return {"gpus": rows, "gpu_count": len(driver.gpus) if known else None, "gpu_why": why}


def _environment(
    ctx: Context,
    found: Subject,
    given: Given,
    lives: Mapping[int, liveenv.LiveEnv],
) -> Dict[str, Any]:
    """Its environment by value, without credentials and what is no UTF-8: those by name."""
    login = ctx.login_env
    hidden = sorted(name for name, value in given.env.items() if _is_secret(ctx, name, value))
    odd = {name: shown(value) for name, value in given.env.items() if not _is_text(name + value)}
    by_value = {n: v for n, v in given.env.items() if n not in hidden and n not in odd}
    prefixes = (*TUNING_PREFIXES, *found.engine["env_prefixes"])
    return {
        "env": dict(sorted(by_value.items())),
        "env_source": given.source,
        "credentials": [name for name in hidden if name not in odd],
        "odd": {shown(name): "" if name in hidden else value for name, value in odd.items()},
        "as_login": sorted(n for n, v in given.env.items() if n not in odd and login.get(n) == v),
        "tuning": sorted(name for name in by_value if name.startswith(prefixes)),
        "changed": _changed(ctx, by_value, lives),
    }


def _is_secret(ctx: Context, name: str, value: str) -> bool:
    """Whether a variable's value may not be told: by its name, by its looks, or as it holds another's."""
    looks = describe.command([value]) != [value] or redacted(value, ctx.secrets) != value
    return is_credential(name) or (bool(value) and looks)


def _is_text(value: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in value)


def _changed(
    ctx: Context, given: Mapping[str, str], lives: Mapping[int, liveenv.LiveEnv]
) -> Dict[str, Optional[str]]:
    """Variables that all workers have with another value than was given (null: unset there)."""
    read = [live.env for live in lives.values() if live.source == "memory"]
    found: Dict[str, Optional[str]] = {}
    for name, value in given.items():
        now = {env.get(name) for env in read}
        if len(now) == 1 and now != {value}:
            (one,) = now
            if one is None or (_is_text(one) and not _is_secret(ctx, name, one)):
                found[name] = one
    return found


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
