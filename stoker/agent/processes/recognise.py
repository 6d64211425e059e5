"""Which process is what: by the structure of its command line or by its title, never by a word in it."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from ..context import AgentError
from .procs import Process

_PYTHON = re.compile(r"(python|pypy)[0-9.]*[a-z]*")
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "fish", "csh", "tcsh", "ksh", "mksh", "busybox"))
_LOGINS = frozenset(("sshd", "sshd-session", "sshd-auth", "dropbear", "login", "su", "sudo"))
_INITS = frozenset(("init", "systemd", "systemd-logind"))
_TERMINALS = frozenset(("tmux", "screen", "SCREEN", "zellij", "dtach", "abduco"))
_EDITORS = frozenset(("vi", "vim", "nvim", "emacs", "nano", "pico", "micro"))
_MPS = frozenset(("nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-cuda-mps"))
_NEVER = _SHELLS | _LOGINS | _INITS | _TERMINALS | _EDITORS | _MPS
# They keep a GPU's device open without computing on it. The kernel cuts a name to 15 characters.
_WATCHERS = frozenset(
    ("nvidia-persistenced", "nvidia-persiste", "nvidia-smi", "nv-hostengine", "dcgm-exporter")
)
_MONITORS = _MPS | _WATCHERS | {"nvtop", "nvitop", "gpustat"}
_WITH_VALUE = ("--check-hash-based-pycs",)


class Invocation(NamedTuple):
    """A command line taken apart.

    Args:
        program: Base name of the program, or of the script that a Python runs.
        module: What a Python runs with ``-m``.
        code: What a Python runs with ``-c``.
        args: What follows.
        python: Whether it is a Python that runs it.
    """

    program: str
    module: str
    code: str
    args: Tuple[str, ...]
    python: bool


def invocation(argv: Sequence[str]) -> Invocation:
    """Take a command line apart as the kernel and Python do."""
    if not argv:
        return Invocation("", "", "", (), False)
    program = os.path.basename(argv[0]).lstrip("-")  # a login shell has a dash in front
    if not _PYTHON.fullmatch(program):
        return Invocation(program, "", "", tuple(argv[1:]), False)
    index = 1
    while index < len(argv):
        option, rest = argv[index], tuple(argv[index + 1 :])
        if option == "-" or not option.startswith("-"):
            return Invocation(os.path.basename(option), "", "", rest, True)
        letter, value = _option(option)
        if letter in ("c", "m"):
            text, args = (value, rest) if value else (rest[0] if rest else "", rest[1:])
            return Invocation("", text if letter == "m" else "", text if letter == "c" else "", args, True)
        takes_next = (letter in ("W", "X") and not value) or option in _WITH_VALUE
        index += 2 if takes_next else 1
    return Invocation(program, "", "", (), True)


def _option(option: str) -> Tuple[str, str]:
    """The letter that takes a value in a bundle such as ``-ISuc``, and what follows it in the same word."""
    if option.startswith("--"):
        return "", ""
    for at, letter in enumerate(option[1:], 1):
        if letter in "cmWX":
            return letter, option[at + 1 :]
    return "", ""


class Recogniser:
    """Knows engines by their shapes and titles.

    Args:
        engines: ``Engine.to_wire()`` of each.

    Raises:
        AgentError: ``bad-request``: a title is no regular expression.
    """

    def __init__(self, engines: Iterable[Dict[str, Any]]) -> None:
        self.engines: Dict[str, Dict[str, Any]] = {engine["name"]: engine for engine in engines}
        try:
            self._titles = [(name, re.compile(t)) for name, e in self.engines.items() for t in e["titles"]]
        except re.error as error:
            raise AgentError("bad-request", f"a title is no regular expression: {error}") from error

    def launcher(self, process: Process) -> str:
        """Name of the engine whose launcher this is; empty: of none."""
        called = invocation(process.argv)
        for name, engine in self.engines.items():
            if any(_fits(called, shape) for shape in engine["shapes"]):
                return name
        return ""

    def titled(self, process: Process) -> str:
        """Name of the engine of which this is a renamed process; empty: of none."""
        for name, title in self._titles:
            if title.fullmatch(process.title):
                return name
        return ""

    def engine(self, process: Process) -> str:
        """Name of the engine that this process belongs to by its own looks; empty: to none."""
        return self.launcher(process) or self.titled(process)


def _fits(called: Invocation, shape: Dict[str, str]) -> bool:
    subcommand = shape["subcommand"]
    if subcommand and called.args[:1] != (subcommand,):
        return False
    by_program = bool(shape["program"]) and called.program == shape["program"]
    by_module = bool(shape["module"]) and called.python and called.module == shape["module"]
    return by_program or by_module


def is_python(process: Process) -> bool:
    """Whether a Python runs it, whatever it is called now."""
    name = os.path.basename(process.exe.split(" (deleted)")[0]) or invocation(process.argv).program
    return bool(_PYTHON.fullmatch(name)) or invocation(process.argv).python


def is_helper(process: Process) -> bool:
    """Whether it is one of multiprocessing's own children (resource tracker, spawn, fork server)."""
    called = invocation(process.argv)
    return called.python and called.code.startswith("from multiprocessing.")


def is_monitor(process: Process) -> bool:
    """Whether it is known to keep GPUs open only to watch or serve them."""
    return bool(_names(process) & _MONITORS)


def is_shell(process: Process) -> bool:
    """Whether it is a command interpreter."""
    return bool(_names(process) & _SHELLS)


def is_login(process: Process) -> bool:
    """Whether people come in by it."""
    return bool(_names(process) & _LOGINS)


def is_never(process: Process) -> bool:
    """Whether no operation ever ends it: what logins, sessions and hosts live on."""
    return process.pid == 1 or process.kernel or bool(_names(process) & _NEVER)


class Protected:
    """What the profile forbids to end.

    Args:
        entries: Exact process names, or ``cmd:REGEX`` searched in the command line.

    Raises:
        AgentError: ``bad-request``: no regular expression.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._names = {entry for entry in entries if not entry.startswith("cmd:")}
        try:
            self._patterns = [re.compile(entry[4:]) for entry in entries if entry.startswith("cmd:")]
        except re.error as error:
            raise AgentError("bad-request", f"protect: no regular expression: {error}") from error

    def covers(self, process: Process) -> bool:
        """Whether this process is protected. (The kernel cuts names to 15 characters.)"""
        names = _names(process) | {invocation(process.argv).program}
        named = any(
            entry in names or (len(entry) > 15 and entry[:15] == process.comm) for entry in self._names
        )
        return named or any(pattern.search(process.title) for pattern in self._patterns)


def _names(process: Process) -> set[str]:
    """The names it goes by: of the kernel, of the executable, of the first word of its command line."""
    first = process.argv[0] if process.argv else ""
    exe = os.path.basename(process.exe.split(" (deleted)")[0])
    return {process.comm.split(":")[0], process.comm, exe, os.path.basename(first).lstrip("-").split(":")[0]}


def model_of(argv: Sequence[str], engine: Mapping[str, Any]) -> str:
    """The model that the command line of an engine names; empty where it names none that can be told."""
    flag = str(engine.get("model_flag") or "")
    if flag or not engine.get("shapes"):
        return flag_value(argv, flag)
    args = invocation(argv).args
    if args and any(shape["subcommand"] == args[0] for shape in engine["shapes"]):
        args = args[1:]
    first = args[0] if args else "-"
    return flag_value(argv, "--model") if first.startswith("-") else first


def flag_value(argv: Sequence[str], flag: str) -> str:
    """What a command line gives to a long flag, by ``--flag value`` or ``--flag=value``; the last wins."""
    found: List[str] = []
    for index, word in enumerate(argv):
        if flag and word == flag and index + 1 < len(argv):
            found.append(argv[index + 1])
        elif flag and word.startswith(flag + "="):
            found.append(word[len(flag) + 1 :])
    return found[-1] if found else ""
