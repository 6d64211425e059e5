"""Rules about single values: unreadable, of a later version, risky, replaced by the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.tuning import versions
from stoker.tuning.catalogue import Catalogue
from stoker.tuning.faults import OFF, ON, Fault, is_on, shown
from stoker.tuning.kinds import KINDS
from stoker.tuning.model import Family, Overwrite, Remark, Setting, Variable


def remarks(env: Mapping[str, str], setting: Setting, known: Catalogue) -> Iterator[Remark]:
    """What there is to say about each value alone."""
    for name, value in env.items():
        variable = known.find(name)
        if variable is None:
            continue
        family = known.families[variable.family]
        faults = (
            [] if _unread(variable, family, setting) else list(KINDS[variable.kind].read(value, variable))
        )
        yield from (_of_fault(fault, value, variable, family) for fault in faults)
        yield from _later(value, variable, family, setting)
        yield from _risk(value, variable)
        yield from _overwritten(env, variable, setting)


def _unread(variable: Variable, family: Family, setting: Setting) -> bool:
    """Whether this version does not read the variable at all: then its value does not matter."""
    version = setting.versions.get(family.name, "")
    gone = bool(variable.until) and not versions.before(version, variable.until)
    return gone or (bool(variable.since) and versions.before(version, variable.since))


def _of_fault(fault: Fault, value: str, variable: Variable, family: Family) -> Remark:
    return Remark(
        variable.name,
        fault.severity,
        f"{family.name}-{fault.rule}",
        f"{variable.name}={shown(value)} {fault.what}",
        fault.reason or family.illegal,
        variable.source,
        fault.mend,
    )


def _later(value: str, variable: Variable, family: Family, setting: Setting) -> Iterator[Remark]:
    """Words that a later version brought."""
    version = setting.versions.get(family.name, "")
    folded = value.lower().replace(";", ",").replace(":", ",").replace("^", ",").split(",")
    for word, since in variable.values_since.items():
        if word.lower() in folded and versions.before(version, since):
            read = f"read since {family.title} {since}, not in {version}"
            what = f"{variable.name}={shown(value)} has {word}, {read}"
            code = f"{family.name}-value-not-yet"
            yield Remark(variable.name, "error", code, what, family.illegal, variable.source, "")


def _risk(value: str, variable: Variable) -> Iterator[Remark]:
    if variable.risk and _among(value, variable.risky):
        what = f"{variable.name}={shown(value)}: {variable.effect}"
        code = f"{variable.family}-risky"
        yield Remark(variable.name, variable.severity, code, what, variable.risk, variable.source, "")


def _among(value: str, risky: tuple[str, ...]) -> bool:
    folded = value.strip().lower()
    spellings = {s for r in risky for s in (ON if r == "on" else OFF if r == "off" else {r.lower()})}
    return bool(folded) if not risky else folded in spellings


def _overwritten(env: Mapping[str, str], variable: Variable, setting: Setting) -> Iterator[Remark]:
    """The engine puts another value in its place, and the profile does not say so in ``expect``."""
    name = variable.name
    for change in variable.overwritten:
        if not _happens(change, env, setting) or _same(change.value, env[name]):
            continue
        expected = setting.expect.get(name)
        if name in setting.expect and (not change.value or expected == change.value):
            continue
        result = f"sets it to {change.value!r}" if change.value else "sets it itself"
        mend = f"expect: {{{name}: {change.value!r}}}" if change.value else "leave it out"
        what = f"{name}={shown(env[name])} never gets in force: {setting.engine} {result}{_why(change)}"
        reason = "the workers run with the engine's value, so the proof would find this one missing"
        code = f"{variable.family}-overwritten"
        yield Remark(name, "warning", code, what, reason, variable.source, mend)
        return


def _same(theirs: str, ours: str) -> bool:
    return bool(theirs) and theirs == ours


def _happens(change: Overwrite, env: Mapping[str, str], setting: Setting) -> bool:
    if change.engine != setting.engine:
        return False
    given = {str(k).lstrip("-").replace("_", "-"): v for k, v in setting.args.items()}
    asked = not change.argument or given.get(change.argument) not in (None, False)
    return asked and (not change.variable or is_on(env.get(change.variable, "")))


def _why(change: Overwrite) -> str:
    cause = change.argument or change.variable
    return f" under {cause}" if cause else ""
