"""The rules over one resolved profile."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from stoker import engines, tuning
from stoker.config.linting import arguments as lint_arguments
from stoker.config.linting import secrets as lint_secrets
from stoker.config.linting.arguments import Known
from stoker.config.linting.lint import Finding, at, finding
from stoker.config.profiles.kinds import Wrong, argument_value, gpus, text
from stoker.config.profiles.model import flag_of
from stoker.config.profiles.parts import Part
from stoker.config.profiles.profile import Examined, SecretRef
from stoker.engines import arguments
from stoker.engines.base import Engine
from stoker.tuning import Setting

_AT_NAME = re.compile(r".*-(unknown-name|renamed|obsolete|refused|other-engine|overwritten)|[a-z]+-not-yet")
"""Codes of the catalogue that are about a name, not its value."""
_NO_METRICS = {"sglang": ("--enable-metrics",), "llamacpp": ("--metrics",)}
_METRICS_BY_VARIABLE = {"llamacpp": "LLAMA_ARG_ENDPOINT_METRICS"}
_NOT_THERE = "a command line shows it to everybody: set env: {NAME: !secret NAME}, and read it from there"
_COMMANDS = ("setup", "wrap", "command")


@dataclass(frozen=True)
class Draft:
    """What the rules need of a profile, which may be a part of one, or have mistakes.

    Args:
        tree: Where its values were written.
        engine: None where it names none that is known.
        env: Variables and their texts; None in place of a secret's.
        expect: As in the profile.
        args: Name as written to value.
        gpus: As in the profile; empty where it lists none.
        server: The rest of ``server``.
        hooks: As in the profile.
    """

    tree: Part
    engine: Engine | None
    env: Mapping[str, str | None]
    expect: Mapping[str, str]
    args: Mapping[str, Any]
    gpus: tuple[int | str, ...]
    server: Mapping[str, Any]
    hooks: Mapping[str, Any]


def draft(examined: Examined) -> Draft:
    """The usable part of a profile."""
    data = examined.data
    server = _mapping(data, "server")
    named = [engine for engine in engines.all_engines() if engine.name == data.get("engine")]
    return Draft(
        examined.tree,
        named[0] if named else None,
        {name: _text(value) for name, value in _mapping(data, "env").items()},
        {name: value for name, value in _mapping(data, "expect").items() if isinstance(value, str)},
        _arguments(_mapping(server, "args")),
        _gpus(server.get("gpus")),
        server,
        _mapping(data, "hooks"),
    )


def check(
    examined: Examined, known: Known | None = None, versions: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Finding]:
    """Every finding about a profile as it is resolved.

    Args:
        examined: The profile.
        known: What its engine takes; None for the stored list.
        versions: What it will run with (``nccl``, ``cuda``, ``torch``, the engine's name); unknown ones are
            left out, and what holds for some versions only is then told as that.
    """
    one = draft(examined)
    for problem in examined.problems:
        yield finding(problem, "profile-invalid")
    yield from _tuning(one, versions)
    if one.engine is not None:
        stored = arguments.load(one.engine.name)
        known = known or (Known(stored) if stored is not None else None)
        if known is not None and not one.server.get("command"):
            yield from lint_arguments.check(one.tree, one.args, one.engine, known)
        yield from _sizes(one, one.engine)
        yield from _drain(one, one.engine)
        yield from _open(one, one.engine)
    yield from _secrets(one)


def _tuning(one: Draft, versions: Mapping[str, str]) -> Iterator[Finding]:
    """What the catalogue of variables says."""
    texts = {name: value for name, value in one.env.items() if value is not None}
    # What looks like a credential is told below, and never shown: a remark would hold it.
    env = {name: value for name, value in texts.items() if not lint_secrets.likeness(name, value)}
    if not env and not one.expect:
        return  # the catalogue is large: who sets nothing need not wait for it
    listed = one.gpus not in ((), ("all",))
    setting = Setting(
        engine=one.engine.name if one.engine else "",
        versions=versions,
        gpus=len(one.gpus) if listed else None,
        args={key.lstrip("-"): value for key, value in one.args.items()},
        expect=one.expect,
    )
    for remark in tuning.check(env, setting):
        path = ("env", remark.name)
        place = at(one.tree, path, remark.what, remark.mend, key=bool(_AT_NAME.fullmatch(remark.code)))
        yield Finding(
            place.file,
            place.line,
            place.column,
            remark.severity,
            remark.code,
            remark.what,
            remark.reason,
            remark.source,
            remark.mend,
        )


def _sizes(one: Draft, engine: Engine) -> Iterator[Finding]:
    """The parallel sizes against the GPUs, where both are known."""
    wanted = _wanted_gpus(one, engine)
    if wanted is None or one.gpus in ((), ("all",)):
        return
    number, how, key = wanted
    have = len(one.gpus)
    said = f"{how} on {'one GPU' if have == 1 else f'{have} GPUs'}"
    path = ("server", "args", key) if key else ("server", "gpus")
    if number > have:
        yield finding(at(one.tree, path, f"{said}: {number} are needed"), "gpus-too-few")
    elif number < have:
        yield finding(at(one.tree, path, f"{said}: {have - number} stay idle"), "gpus-idle")


def _wanted_gpus(one: Draft, engine: Engine) -> tuple[int, str, str] | None:
    """How many GPUs of this host the engine takes, how that comes, and the argument that says so.

    Returns:
        None where that is not known: another engine, sizes that are no numbers, several hosts, GPUs chosen
        by other arguments.
    """
    sizes = _SIZES.get(engine.name)
    if sizes is None or any(_given(one, engine, flag) is not None for flag in _OTHERWISE):
        return None
    number, told, key = 1, [], ""
    for flag in sizes:
        written = _given(one, engine, flag)
        if written is None or (flag == "--dp-size" and _given(one, engine, "--enable-dp-attention")):
            continue
        name, value = written
        if not isinstance(value, str) or not value.isdecimal() or not 0 < int(value) < 10_000:
            return None
        number, key = number * int(value), key or name
        told.append(f"{name} {value}")
    return number, " × ".join(told) or "a single process", key


_SIZES = {
    "sglang": ("--tp-size", "--pp-size", "--dp-size"),
    "vllm": ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"),
}
_OTHERWISE = (
    *("--nnodes", "--base-gpu-id", "--gpu-id-step", "--attn-dp-size", "--dwdp-size", "--device-ids"),
    *("--data-parallel-size-local", "--distributed-executor-backend", "--prefill-context-parallel-size"),
    *("--headless", "--disaggregation-mode", "--device"),
)


def _given(one: Draft, engine: Engine, flag: str) -> tuple[str, Any] | None:
    """An argument by any of its names: as written, and its value."""
    known = arguments.load(engine.name)
    wanted = known.find(flag) if known is not None else None
    for key, value in one.args.items():
        found = known.find(flag_of(key)) if known is not None else None
        if flag_of(key) == flag or (wanted is not None and found is not None and found.names == wanted.names):
            return key, value
    return None


def _drain(one: Draft, engine: Engine) -> Iterator[Finding]:
    """A drain that cannot see when it is over."""
    if not _seconds(one.hooks.get("drain_s")) or one.server.get("command"):
        return
    flags = _NO_METRICS.get(engine.name, ())
    if any(_given(one, engine, flag) for flag in flags) or _METRICS_BY_VARIABLE.get(engine.name) in one.env:
        return
    if flags or not engine.metrics.path:
        what = f"drain_s without {flags[0][2:]}" if flags else f"drain_s: {engine.name} has no metrics"
        mend = f"set server.args: {{{flags[0][2:]}: true}}" if flags else "leave it out, or keep it short"
        yield finding(at(one.tree, ("hooks", "drain_s"), what, mend), "drain-blind")


def _seconds(value: Any) -> bool:
    """Whether a time is written and not zero."""
    try:
        return float(str(value)) > 0
    except ValueError:
        return False


def _open(one: Draft, engine: Engine) -> Iterator[Finding]:
    """A server for everybody."""
    try:
        address = ipaddress.ip_address(str(one.server.get("bind", "127.0.0.1")))
    except ValueError:
        return
    has_key = one.server.get("api_key") is not None or engine.api_key_env in one.env
    if address.is_unspecified and not has_key:
        what = f"listens on all addresses ({address}) without an API key"
        yield finding(at(one.tree, ("server", "bind"), what), "bind-open")


def _secrets(one: Draft) -> Iterator[Finding]:
    """Credentials that stand in the file; no message holds them."""
    for name, value in one.env.items():
        yield from _secret(one, ("env", name), name, value, f"write {name}: !secret {name}")
    for key, value in one.args.items():
        for word in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            yield from _secret(one, ("server", "args", key), key, word, _NOT_THERE)
    lines = {("server", key): one.server.get(key) for key in _COMMANDS}
    lines |= {("hooks", key): one.hooks.get(key) for key in ("before_stop", "after_ready")}
    for path, found in lines.items():
        for index, line in enumerate(found if isinstance(found, list) else ()):
            yield from _secret(one, (*path, index), "", line, _NOT_THERE)


def _secret(one: Draft, path: tuple[str | int, ...], name: str, value: Any, mend: str) -> Iterator[Finding]:
    like = lint_secrets.likeness(name, value) if isinstance(value, str) else ""
    if like:
        what = f"{name}: its value looks like a credential" if name else "a credential stands in this command"
        problem = at(one.tree, path, what, mend)
        yield finding(problem, "secret-literal", severity="error" if like == "form" else None)


def _mapping(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    """A variable's text; None for a secret, and for what is no text."""
    try:
        return None if isinstance(value, SecretRef) else text(value)
    except Wrong:
        return None


def _arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are given and are of a right kind."""
    found = {}
    for key, value in args.items():
        if value is None or value is False:
            continue
        try:
            found[key] = argument_value(value)
        except Wrong:
            continue
    return found


def _gpus(value: Any) -> tuple[int | str, ...]:
    try:
        return () if value is None else gpus(value)
    except Wrong:
        return ()
