"""Values that look like credentials, by the variable's name or by their own form. They are never shown."""

from __future__ import annotations

import re
from typing import Literal

_NAME = re.compile(
    r"(^|_)(API_?KEYS?|ACCESS_?KEYS?|PRIVATE_?KEY|SECRET_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$"
)
_FORM = re.compile(
    r"\bhf_[A-Za-z0-9]{20,}|\b(sk|pk|rk)-[A-Za-z0-9_-]{20,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}"
    r"|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bnvapi-[A-Za-z0-9_-]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.|://[^/\s:@]+:[^/\s:@]{4,}@"
)
_NO_SECRET = re.compile(r"|[01]|true|false|yes|no|on|off|none|null|auto|/.*", re.I)

Likeness = Literal["form", "name", ""]


def likeness(name: str, value: str) -> Likeness:
    """What makes a value look like a credential: its own form, or the name that it has.

    Args:
        name: Of a variable or an argument, in any spelling; empty where there is none.
        value: As written.
    """
    if _FORM.search(value):
        return "form"
    plain = name.lstrip("-").replace("-", "_").upper()
    return "name" if _NAME.search(plain) and not _NO_SECRET.fullmatch(value) else ""
