"""The rules over an environment, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stoker.tuning import names, relations, values
from stoker.tuning.catalogue import Catalogue
from stoker.tuning.kinds import KINDS
from stoker.tuning.model import Remark, Setting

_ORDER = {"error": 0, "warning": 1, "advice": 2}


def check(env: Mapping[str, str], setting: Setting) -> list[Remark]:
    """What there is to say about an environment; pure, and never raises, whatever the texts.

    Args:
        env: The variables as they will reach the process.
        setting: What they will run under.

    Returns:
        Ordered by name, then severity (errors first), then code. An environment with nothing to say about may
        still be slow; one with an error does not do what is written there.
    """
    known = Catalogue.load()
    found = {*names.remarks(env, setting, known), *values.remarks(env, setting, known)}
    for rule in relations.RULES:
        found.update(rule(env, setting, known))
    return sorted(found, key=lambda r: (r.name, _ORDER[r.severity], r.code, r.what))


def codes() -> frozenset[str]:
    """Every code that a remark can have, by what the catalogue holds."""
    return frozenset(_codes(Catalogue.load())) | relations.CODES


def _codes(known: Catalogue) -> Iterator[str]:
    for family in known.families.values():
        yield f"{family.name}-unknown-name"
        if family.engine:
            yield f"{family.name}-other-engine"
        if family.old_prefixes:
            yield f"{family.name}-renamed"
    for variable in known.all():
        rules = {*KINDS[variable.kind].rules}
        rules |= {"obsolete"} if variable.until else set()
        rules |= {"renamed"} if variable.renamed_to and variable.kind != "refused" else set()
        rules |= {"not-yet"} if variable.since else set()
        rules |= {"value-not-yet"} if variable.values_since else set()
        rules |= {"risky"} if variable.risk else set()
        rules |= {"overwritten"} if variable.overwritten else set()
        yield from (f"{variable.family}-{rule}" for rule in rules)
