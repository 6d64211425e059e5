"""The rules over an environment, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.tuning.catalogue import Catalogue
from stoker.tuning.model import Remark, Setting

_ORDER = {"error": 0, "warning": 1, "advice": 2}


def check(env: Mapping[str, str], setting: Setting) -> list[Remark]:
    """What there is to say about an environment; pure, and never raises, whatever the texts.

    Args:
        env: The variables as they will reach the process.
        setting: What they will run under.

    Returns:
        Ordered by name, then severity (errors first), then code.
    """
    known = Catalogue.load()
    remarks = [
        Remark(name, "warning", "unknown-name", f"{name} is read by nobody", "", known.near(name))
        for name in env
        if name not in setting.expect and name.startswith(tuple(known.prefixes)) and not known.find(name)
    ]
    return sorted(remarks, key=lambda r: (r.name, _ORDER[r.severity], r.code))
