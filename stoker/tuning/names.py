"""Rules about names: unknown ones, old ones, those of another version or another engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.tuning import versions
from stoker.tuning.catalogue import Catalogue
from stoker.tuning.model import Family, Remark, Setting, Variable

RULES = frozenset({"unknown-name", "renamed", "obsolete", "not-yet", "other-engine"})


def remarks(env: Mapping[str, str], setting: Setting, known: Catalogue) -> Iterator[Remark]:
    """What there is to say about the names alone."""
    for name in env:
        variable, family = known.find(name), known.family_of(name)
        if family is None:
            continue
        if variable is None:
            yield from _unknown(name, family, known)
        else:
            yield from _version(variable, family, setting)
        yield from _engine(name, family, setting)


def _unknown(name: str, family: Family, known: Catalogue) -> Iterator[Remark]:
    """A name that nobody reads: certain where the catalogue is complete, likely where another one is near."""
    for old, new in family.old_prefixes.items():
        successor = new + name.removeprefix(old)
        if name.startswith(old) and known.find(successor):
            yield _renamed(name, family, successor, f"{family.title} warns and takes it for {successor}")
            return
    near = known.near(name)
    if near or family.complete:
        what = f"{name[:100]} is read by nobody" + (f"; {near} is" if near else "")
        code, source = f"{family.name}-unknown-name", _list_of(family, near, known)
        yield Remark(name, "warning", code, what, family.ignored, source, near)


def _list_of(family: Family, near: str, known: Catalogue) -> str:
    """The source of the nearest name, else of the family's list."""
    variable = known.find(near)
    if variable:
        return variable.source
    return next(v.source for v in known.all() if v.family == family.name and v.effect)


def _version(variable: Variable, family: Family, setting: Setting) -> Iterator[Remark]:
    version = setting.versions.get(family.name, "")
    name, source, title = variable.name, variable.source, family.title
    if variable.until and not versions.before(version, variable.until):
        what = f"{name} is not read any more, at the latest since {title} {variable.until}"
        yield Remark(
            name, "warning", f"{family.name}-obsolete", what, family.ignored, source, variable.renamed_to
        )
    elif variable.renamed_to and variable.kind != "refused":
        yield _renamed(name, family, variable.renamed_to, "the old name may go with any version", source)
    if variable.since and versions.before(version, variable.since):
        what = f"{name} is read since {title} {variable.since}, and this is {version}"
        yield Remark(name, "warning", f"{family.name}-not-yet", what, family.ignored, source, "")


def _renamed(name: str, family: Family, successor: str, reason: str, source: str = "") -> Remark:
    what = f"{name} is the old name of {successor}"
    source = source or f"{family.title}: names that begin so"
    return Remark(name, "advice", f"{family.name}-renamed", what, reason, source, successor)


def _engine(name: str, family: Family, setting: Setting) -> Iterator[Remark]:
    if family.engine and setting.engine and family.engine != setting.engine:
        what = f"{name} is read by {family.title}, and the engine is {setting.engine}"
        reason, source = "it does nothing here", f"the beginning of the name is {family.title}'s"
        yield Remark(name, "advice", f"{family.name}-other-engine", what, reason, source, "")
