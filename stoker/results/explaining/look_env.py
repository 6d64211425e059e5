"""What differs between two environments, and whether it can matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stoker.results import names
from stoker.results.explaining.causes import (
    ENVIRONMENT,
    LIKELY,
    POSSIBLE,
    TUNING,
    UNLIKELY,
    Cause,
    Findings,
    Side,
    Unknown,
    count,
    why_unread,
)

_UNSET = "unset"
_KINDS = {"gone": 0, "changed": 1, "new": 2}


@dataclass(frozen=True)
class _Difference:
    """One variable that differs: ``kind`` is ``gone``, ``changed`` or ``new``."""

    name: str
    kind: str
    was: str
    now: str

    @property
    def title(self) -> str:
        return (
            f"{self.name} " + {"gone": "is gone", "changed": "has another value", "new": "is new"}[self.kind]
        )

    @property
    def detail(self) -> str:
        return f"{self.was} → {self.now}"


def look(new: Side, base: Side) -> Findings:
    """Compare the live environments of two runs' workers."""
    unread = [s for s in (base, new) if s.fingerprint.env_source == "unreadable"]
    if unread:
        # What could not be read is not unset: nothing at all follows from it.
        return Findings(unknown=(Unknown("environment of the workers", why_unread(unread[0], "environ")),))
    tuning, equal, unknown = _tuning(new, base)
    apart = list(_disagreements(new, base))
    other, equal_other, unknown_other = _hashed(new, base)
    told = [count(equal, "tuning variable")] if equal else []
    told += [f"{count(equal_other, 'other variable')} of the environment"] if equal_other else []
    passed_over = _unread(base)
    causes = [_judged(d, new, base, passed_over) for d in tuning] + apart + [_judged_other(d) for d in other]
    return Findings(tuple(causes), tuple(told), (*unknown, *unknown_other))


def _tuning(new: Side, base: Side) -> tuple[list[_Difference], int, list[Unknown]]:
    """(differences, how many are equal, what cannot be compared) of the variables recorded by value."""
    was, now = base.fingerprint.env, new.fingerprint.env
    found: list[_Difference] = []
    unknown: list[Unknown] = []
    equal = 0
    for name in sorted({*was, *now}):
        why = _not_comparable(name, new, base)
        if names.is_ours(name) or _disagrees(name, new, base) or _made_anew(name, new, base):
            continue
        if was.get(name) == now.get(name):
            equal += 1
        elif why:
            unknown.append(Unknown(name, why))
        else:
            found.append(_difference(name, was, now))
    return found, equal, unknown


def _difference(name: str, was: dict[str, str], now: dict[str, str]) -> _Difference:
    kind = "gone" if name not in now else "new" if name not in was else "changed"
    return _Difference(name, kind, was.get(name, _UNSET), now.get(name, _UNSET))


def _disagrees(name: str, new: Side, base: Side) -> bool:
    return name in new.fingerprint.env_differs or name in base.fingerprint.env_differs


def _made_anew(name: str, new: Side, base: Side) -> bool:
    """Whether the engine itself makes an identity of it, another one at each launch."""
    by_engine = name in new.fingerprint.engine_set and name in base.fingerprint.engine_set
    return by_engine and names.is_cosmetic(name)


def _not_comparable(name: str, new: Side, base: Side) -> str:
    """Why nothing follows from a variable that one side lacks; empty where something does."""
    for side, other in ((new, base), (base, new)):
        if name in side.fingerprint.env:
            continue
        if name in side.fingerprint.env_hashed:
            return f"{side.label} has its hash, {other.label} its value"
        if name in other.fingerprint.engine_set and side.fingerprint.env_source == "exec":
            return f"the engine sets it, and {side.label} shows the environment only as it was at exec"
    return ""


def _unread(side: Side) -> frozenset[str]:
    """Variables that its others kept from being read: a buffer's size under another protocol."""
    from stoker.tuning import Setting, check

    remarks = check(dict(side.fingerprint.env), Setting(engine=side.engine))
    return frozenset(remark.name for remark in remarks if remark.code.endswith("-unread"))


def _judged(difference: _Difference, new: Side, base: Side, unread: frozenset[str]) -> Cause:
    name = difference.name
    by_engine = {*new.fingerprint.engine_set, *base.fingerprint.engine_set}
    confidence, reason, weight = LIKELY, _REASONS[difference.kind], 10 * _KINDS[difference.kind]
    if name == "CUDA_VISIBLE_DEVICES" and _same_devices(difference, new, base):
        confidence, reason = UNLIKELY, "the same GPUs in another order or spelling"
    elif names.is_cosmetic(name):
        confidence, reason = UNLIKELY, "it names a place, an identity or what is logged"
    elif names.engine_of(name) not in ("", new.engine):
        confidence, reason = UNLIKELY, f"{new.engine} does not read it"
    elif name in by_engine:
        confidence, reason = POSSIBLE, "the engine sets it itself: it follows from its version or arguments"
    elif names.is_communication(name) and _alone(new) and _alone(base):
        confidence, reason = (
            POSSIBLE,
            "it tunes what GPUs say to each other, and this server holds no two of them",
        )
    elif not (names.is_communication(name) or names.engine_of(name)):
        weight += 5
    if name in unread:
        weight, reason = weight + 9, f"{reason}; what was set beside it kept it from being read"
    return Cause(TUNING, difference.title, difference.detail, confidence, reason, weight, name)


_REASONS = {
    "gone": "it was in force when the speed was right, and no worker has it now",
    "changed": "the workers have another value than when the speed was right",
    "new": "it was not set when the speed was right",
}


def _same_devices(difference: _Difference, new: Side, base: Side) -> bool:
    """Whether the same GPUs are named, by index or UUID; or, where one side names none, the same are held."""
    if difference.kind != "changed":
        held = [{str(gpu.get("uuid")) for gpu in side.fingerprint.gpus} for side in (new, base)]
        return bool(held[0]) and held[0] == held[1]
    return _uuids(difference.was, base) == _uuids(difference.now, new)


def _uuids(told: str, side: Side) -> list[str]:
    """The GPUs of a list by their UUIDs, as far as those are known."""
    known = {str(gpu.get("index")): str(gpu.get("uuid")) for gpu in side.fingerprint.gpus}
    return sorted(known.get(word.strip(), word.strip()) for word in told.split(","))


def _alone(side: Side) -> bool:
    """Whether the server is known to hold at most one GPU."""
    seen = side.fingerprint.gpus
    unread = any("gpu" in line.lower() or "nvidia" in line.lower() for line in side.fingerprint.unread)
    return len(seen) == 1 or (not seen and not unread)


def _disagreements(new: Side, base: Side) -> Iterator[Cause]:
    """Variables on which the workers of one launch disagree, unless they did so before as well."""
    was, now = base.fingerprint.env_differs, new.fingerprint.env_differs
    for name in sorted({*was, *now}):
        if names.is_ours(name):
            continue
        before, after = _values(name, base), _values(name, new)
        if before == after or (names.is_cosmetic(name) and name in was and name in now):
            continue
        cosmetic = names.is_cosmetic(name) or names.is_session(name) or name == "CUDA_VISIBLE_DEVICES"
        title = f"the workers disagree on {name}" if name in now else f"the workers agree on {name} now"
        yield Cause(
            TUNING,
            title,
            f"{_listed(before)} → {_listed(after)}",
            UNLIKELY if cosmetic else LIKELY if name in now and name not in was else POSSIBLE,
            "one worker that runs otherwise slows down all" if not cosmetic else "each worker has its own",
            weight=5,
            name=name,
        )


def _values(name: str, side: Side) -> list[str]:
    """What the workers have, each value once."""
    fingerprint = side.fingerprint
    apart = fingerprint.env_differs.get(name)
    if apart is not None:
        return sorted({_UNSET if value is None else value for value in apart.values()})
    return [fingerprint.env.get(name, fingerprint.env_hashed.get(name, _UNSET))]


def _listed(values: list[str]) -> str:
    return " or ".join(values[:3]) + (" or …" if len(values) > 3 else "")


def _hashed(new: Side, base: Side) -> tuple[list[_Difference], int, list[Unknown]]:
    """The same as ``_tuning`` for the variables of which only a hash is known."""
    was, now = base.fingerprint.env_hashed, new.fingerprint.env_hashed
    one_salt = base.fingerprint.salt_id == new.fingerprint.salt_id
    by_value = {*base.fingerprint.env, *new.fingerprint.env}
    found: list[_Difference] = []
    equal, uncompared = 0, 0
    for name in sorted({*was, *now} - by_value):
        if names.is_ours(name) or _disagrees(name, new, base):
            continue
        if name in was and name in now and not one_salt:
            uncompared += 1
        elif was.get(name) == now.get(name):
            equal += 1
        else:
            found.append(
                _difference(name, dict.fromkeys(was, "a value"), dict.fromkeys(now, "another value"))
            )
    what = f"values of {count(uncompared, 'other variable')}"
    unknown = [Unknown(what, "hashed under different salts")] if uncompared else []
    return found, equal, unknown


def _judged_other(difference: _Difference) -> Cause:
    name = difference.name
    now = "a value" if difference.kind == "new" else difference.now
    if names.is_session(name):
        confidence, reason, weight = UNLIKELY, "it comes and goes with a login", 20
    elif names.is_weighty(name):
        confidence, reason, weight = POSSIBLE, "it is known to change how fast a program is", 0
    else:
        confidence, reason, weight = UNLIKELY, "no tuning variable that Stoker knows", 10
    return Cause(ENVIRONMENT, difference.title, f"{difference.was} → {now}", confidence, reason, weight, name)
