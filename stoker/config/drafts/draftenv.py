"""A server's environment, reduced to what a profile should say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.config.profiles import kinds as kinds
from stoker.engines.base import Engine

_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# The launch script sets these whatever a profile says, or they come from the login in any case.
_ALWAYS = frozenset(("HOME", "PATH", "LANG", "SPT_NOENV"))
# What a login, a terminal, a desktop, an orchestrator or a shell's tools leave in an environment.
_NOISE = re.compile(
    r"_|PWD|OLDPWD|SHLVL|MAIL|SHELL|USER|LOGNAME|TERM.*|COLORTERM|LS_?COLORS|LESS.*|EDITOR|VISUAL|PAGER|HIST.*"
    r"|SSH_.*|XDG_.*|DBUS_.*|TMUX.*|STY|WINDOW|WINDOWID|PS[0-4]|PROMPT.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*"
    r"|MEMORY_PRESSURE_.*|NOTIFY_SOCKET|LISTEN_(FDS|PID).*|MAINPID|MANAGERPID|SUDO_.*|HOSTNAME|HOST|LINES|COLUMNS"
    r"|DISPLAY|WAYLAND_.*|MOTD_.*|LC_.*|LANG|LANGUAGE|KUBERNETES_.*|.*_PORT_\d+_(TCP|UDP).*|.*_SERVICE_(HOST|PORT).*"
    r"|BASH.*|ZSH.*|GPG_.*|GREP_.*|DEBUGINFOD_.*|VIRTUAL_ENV_PROMPT|CONDA_.*|_CE_.*|PYENV_.*|NVM_.*|VSCODE_.*"
    r"|PIP_.*|GIT_.*|NPM_.*|NODE_.*|RUST.*|CARGO_.*|CLOUD_?SDK_.*|DEBIAN_FRONTEND|PYTHONDONTWRITEBYTECODE|MAKE.*"
    r"|WT_.*|WSL.*|NAME|OPTARG|OPTIND|P9K_.*|STARSHIP_.*|PYTEST_CURRENT_TEST|SPT_NOENV|STOKER_.*"
)


@dataclass
class Environment:
    """What a profile says of a server's environment.

    Args:
        env: Name to value.
        expect: Name to what the engine makes of it.
        inherit: Names whose values are the login's.
        secrets: Variables whose values are secrets.
        api_key: Name of the variable that holds the server's key; empty where it has none.
        gpus: As in ``server.gpus``; None: nothing is said.
        remarks: Name to what is to be known of its value.
        notes: What could not be kept.
    """

    env: dict[str, str] = field(default_factory=dict)
    expect: dict[str, str] = field(default_factory=dict)
    inherit: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    api_key: str = ""
    gpus: list[str | int] | str | None = None
    remarks: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def reduce(
    captured: Mapping[str, Any], engine: Engine, knows: Callable[[str], bool], path: bool
) -> Environment:
    """Keep what tunes, and what differs from the login's.

    Args:
        captured: What the operation ``capture`` told.
        engine: Knows which variables it sets by itself.
        knows: Whether a variable is known to tune something.
        path: Whether the ``PATH`` is worth saying.
    """
    found = Environment()
    env: dict[str, str] = dict(captured["env"])
    _devices(found, env, captured)
    login, tuning = set(captured["as_login"]), set(captured["tuning"])
    for name, value in env.items():
        if (name in _ALWAYS or _NOISE.fullmatch(name)) and not _is_moved(name, login, path):
            continue
        if captured["env_source"] != "exec" and engine.rewrites.get(name) in ("", value):
            found.notes.append(f"env: {name} is {value}, as {engine.name} sets it by itself: left out")
        elif not _settable(name):
            found.notes.append(f"env: {name} is left out: no profile can set a variable of that name")
        elif name in tuning or name in _ALWAYS or name not in login or knows(name):
            _keep(found, name, value, captured)
        else:
            found.inherit.append(name)
    _credentials(found, captured, engine, login)
    for name, value in captured["odd"].items():
        shown = f" (it reads {value})" if value else ""
        found.notes.append(
            f"env: {name} is left out: its value is no UTF-8{shown}, which no profile can hold"
        )
    return found


def _is_moved(name: str, login: set[str], path: bool) -> bool:
    """Whether a variable that the login gives in any case is another one here."""
    return (name == "HOME" and name not in login) or (name == "PATH" and path)


def _settable(name: str) -> bool:
    try:
        kinds.variable(name)
    except ValueError:
        return False
    return True


def _keep(found: Environment, name: str, value: str, captured: Mapping[str, Any]) -> None:
    """A variable by its value, and what the engine makes of it."""
    found.env[name] = value
    if name not in captured["changed"]:
        return
    now = captured["changed"][name]
    if now is None:
        found.remarks[name] = "the workers do not have it any more"
    else:
        found.expect[name] = now


def _credentials(found: Environment, captured: Mapping[str, Any], engine: Engine, login: set[str]) -> None:
    """Secrets by reference, or from the login where it has the same."""
    for name in captured["credentials"]:
        if _NOISE.fullmatch(name):
            continue
        if not _settable(name):
            found.notes.append(f"env: {name} is left out: no profile can set a variable of that name")
        elif name == engine.api_key_env:
            found.api_key = name
        elif name in login:
            found.inherit.append(name)
        else:
            found.secrets.append(name)


def _devices(found: Environment, env: dict[str, str], captured: Mapping[str, Any]) -> None:
    """The GPUs: those that it was told, else those that it really holds."""
    held = [int(one["index"]) for one in captured["gpus"]]
    told = env.get(_GPUS[0])
    ordered = env.get(_GPUS[1]) == "PCI_BUS_ID"
    if told is None:
        _held(found, held, captured)
        return
    named = _named(told)
    if named is None:
        found.remarks[_GPUS[0]] = "no list of GPUs that server.gpus could say"
        return
    numbers = [one for one in named if isinstance(one, int)]
    if numbers and not ordered and held and sorted(numbers) != sorted(held):
        found.notes.append(
            f"gpus: it was told {told}, by CUDA's own order; it holds {held}, by PCI bus, as counted here"
        )
        named = list(held)
    elif numbers and not ordered and not held:
        found.notes.append(
            "gpus: it was told numbers in CUDA's own order (fastest first); here they go by PCI bus"
        )
    found.gpus = named
    for name in _GPUS:
        env.pop(name, None)


def _held(found: Environment, held: list[int], captured: Mapping[str, Any]) -> None:
    if captured["gpu_why"]:
        found.notes.append(f"gpus: which it holds is not known: {'; '.join(captured['gpu_why'])}")
    if held:
        found.gpus = "all" if len(held) == captured["gpu_count"] else list(held)


def _named(told: str) -> list[str | int] | None:
    """The GPUs in ``CUDA_VISIBLE_DEVICES``; None where that hides them all, or says something else."""
    words = [word.strip() for word in told.split(",")]
    try:
        return list(kinds.gpus(words)) if all(words) else None
    except ValueError:
        return None
