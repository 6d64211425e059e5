"""What differs between the GPUs of two runs, as they were under load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from stoker.results.explaining.causes import (
    GPUS,
    LIKELY,
    POSSIBLE,
    UNLIKELY,
    Cause,
    Findings,
    Side,
    Unknown,
    count,
    why_unread,
)

# Idling, and clocks that somebody set or that follow a peer: no sign of a GPU that is held back.
_HARMLESS = frozenset(("gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"))
_FIELDS = (
    # field, words, unit, relative difference that counts, whether a smaller one slows down
    ("pcie_gen", "PCIe generation", "", 0.0, True),
    ("pcie_width", "PCIe width", "", 0.0, True),
    ("power_limit_w", "power cap", " W", 0.01, True),
    ("clock_sm_mhz", "SM clock", " MHz", 0.05, True),
    ("clock_mem_mhz", "memory clock", " MHz", 0.02, True),
)
_HOT_C = 10


def look(new: Side, base: Side) -> Findings:
    """Compare the GPUs one by one, by index."""
    was, now = base.fingerprint.gpus, new.fingerprint.gpus
    if bool(was) != bool(now):
        blind = base if not was else new
        why = why_unread(blind, "gpu", "nvidia")
        return Findings(unknown=(Unknown("GPUs", why),))
    if not was:
        return Findings()
    slower = new.tok_s is None or base.tok_s is None or new.tok_s < base.tok_s
    pairs = _pairs(was, now)
    causes = [*_number_of(was, now), *_grouped(list(_apart(pairs, slower)))]
    if not pairs:
        return Findings(tuple(causes))
    unknown = [
        Unknown(f"{words} of the GPUs", "the driver does not tell on both sides")
        for field, words, *_ in _FIELDS
        if any((a.get(field) is None) != (b.get(field) is None) for a, b in pairs)
    ]
    return Findings(tuple(causes), tuple(_equal(pairs, {cause.name for cause in causes})), tuple(unknown))


_Gpus = Sequence[dict[str, Any]]


def _pairs(was: _Gpus, now: _Gpus) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The GPUs of both sides, one with its other: by index, or, where one is missing, each with itself."""
    if len(was) == len(now):
        return list(zip(was, now, strict=True))
    after = {gpu.get("uuid"): gpu for gpu in now if gpu.get("uuid")}
    return [(gpu, after[gpu["uuid"]]) for gpu in was if gpu.get("uuid") in after]


def _apart(pairs: list[tuple[dict[str, Any], dict[str, Any]]], slower: bool) -> Iterator[Cause]:
    """What differs between two GPUs of a pair."""
    for was, now in pairs:
        yield from _pair(was, now, slower)
        yield from _state(was, now)
    yield from _throttled(pairs, slower)


def _number_of(was: _Gpus, now: _Gpus) -> Iterator[Cause]:
    """A GPU fewer or more: which one, where the driver names them."""
    if len(was) == len(now):
        return
    apart = len(now) - len(was)
    less, more = (was, now) if apart < 0 else (now, was)
    others = {gpu.get("uuid") for gpu in more}
    named = [f"GPU {g.get('index')} ({g['uuid']})" for g in less if g.get("uuid") and g["uuid"] not in others]
    title = f"{count(abs(apart), 'GPU')} {'fewer' if apart < 0 else 'more'}"
    which = f": {', '.join(named)}" if named else ""
    detail = f"{len(was)} → {len(now)}{which}"
    reason = "the work is divided otherwise"
    if apart < 0:
        reason += "; a GPU that is gone is in `inv doctor` and the kernel's log (Xid)"
    yield Cause(GPUS, title, detail, LIKELY, reason, name="gpus")


def _state(was: dict[str, Any], now: dict[str, Any]) -> Iterator[Cause]:
    """What a GPU is set to, or has suffered."""
    index = now.get("index")
    for field, words, confidence, reason in _SWITCHES:
        a, b = was.get(field), now.get(field)
        if isinstance(a, bool) and isinstance(b, bool) and a != b:
            title = f"{words} of GPU {index} is {'on' if b else 'off'}"
            yield Cause(GPUS, title, f"{_ON[a]} → {_ON[b]}", confidence, reason, 6, field)
    a, b = was.get("ecc_uncorrected"), now.get("ecc_uncorrected")
    if _number(a) and _number(b) and b > a:
        reason = "its memory fails: see inv doctor"
        title = f"GPU {index} has uncorrected memory errors"
        yield Cause(GPUS, title, f"{a:g} → {b:g}", POSSIBLE, reason, 6, "ecc_uncorrected")


_ON = {True: "on", False: "off"}
_SWITCHES = (
    ("mig", "MIG", LIKELY, "it divides the GPU"),
    ("persistence", "persistence mode", UNLIKELY, "it costs time when a server starts, not while it runs"),
)


def _grouped(causes: list[Cause]) -> list[Cause]:
    """GPUs that differ in the same way as one cause: ``PCIe width of GPU 0,1,2 is lower``."""
    groups: dict[tuple[str, str, str], list[Cause]] = {}
    for cause in causes:
        what = _INDEX.sub("GPU #", cause.title)
        groups.setdefault((what, cause.detail, cause.name), []).append(cause)
    return [
        replace(same[0], title=what.replace("#", ",".join(_INDEX.findall(c.title)[0] for c in same)))
        for (what, _, _), same in groups.items()
    ]


_INDEX = re.compile(r"GPU (\d+)")


def _pair(was: dict[str, Any], now: dict[str, Any], slower: bool) -> Iterator[Cause]:
    index = now.get("index")
    if was.get("name") != now.get("name") and was.get("name") and now.get("name"):
        detail = f"{was['name']} → {now['name']}"
        yield Cause(GPUS, f"GPU {index} is another model", detail, LIKELY, "it computes otherwise", 0, "name")
    elif was.get("uuid") != now.get("uuid") and was.get("uuid") and now.get("uuid"):
        detail = f"{was['uuid']} → {now['uuid']}"
        reason = "another card of the same model can be a slower one"
        yield Cause(GPUS, f"GPU {index} is another card", detail, POSSIBLE, reason, 5, "uuid")
    for weight, (field, words, unit, tolerance, less_is_slower) in enumerate(_FIELDS, 1):
        a, b = was.get(field), now.get(field)
        if not _number(a) or not _number(b) or abs(a - b) <= tolerance * max(abs(a), abs(b)):
            continue
        fits = (b < a) == (slower == less_is_slower)
        reason = "it goes the way of the speed" if fits else "it goes the other way than the speed"
        detail = f"{a:g}{unit} → {b:g}{unit}"
        title = f"{words} of GPU {index} is {'lower' if b < a else 'higher'}"
        yield Cause(GPUS, title, detail, LIKELY if fits else POSSIBLE, reason, weight, field)


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _throttled(pairs: list[tuple[dict[str, Any], dict[str, Any]]], slower: bool) -> Iterator[Cause]:
    for was, now in pairs:
        a, b = _reasons(was), _reasons(now)
        if a is None or b is None or a == b:
            continue
        held_back = bool(b - a)
        title = f"GPU {now.get('index')} is {'held back' if held_back else 'not held back any more'}"
        heat = "" if not _hotter(was, now) else f", {was['temperature_c']} → {now['temperature_c']} °C"
        detail = f"{_words(a)} → {_words(b)}{heat}"
        fits = held_back == slower
        reason = "its clocks were lowered while it ran" if held_back else "its clocks were lowered before"
        yield Cause(GPUS, title, detail, LIKELY if fits else POSSIBLE, reason, 0, "throttle")


def _reasons(gpu: dict[str, Any]) -> frozenset[str] | None:
    throttle = gpu.get("throttle")
    if not isinstance(throttle, dict) or not isinstance(throttle.get("reasons"), list):
        return None
    return frozenset(str(reason) for reason in throttle["reasons"]) - _HARMLESS


def _hotter(was: dict[str, Any], now: dict[str, Any]) -> bool:
    a, b = was.get("temperature_c"), now.get("temperature_c")
    return _number(a) and _number(b) and abs(b - a) >= _HOT_C


def _words(reasons: frozenset[str]) -> str:
    return " and ".join(sorted(reasons)) or "nothing"


def _equal(pairs: list[tuple[dict[str, Any], dict[str, Any]]], differing: set[str]) -> Iterator[str]:
    first = pairs[0][1]
    yield f"{count(len(pairs), 'GPU')}" + (f" {first['name']}" if first.get("name") else "")
    for field, words, unit, *_ in _FIELDS:
        if field not in differing and all(_number(a.get(field)) and _number(b.get(field)) for a, b in pairs):
            yield f"{words} {first[field]:g}{unit}"
    if "throttle" not in differing and all(
        _reasons(a) is not None and _reasons(b) is not None for a, b in pairs
    ):
        yield "reasons for lower clocks"
