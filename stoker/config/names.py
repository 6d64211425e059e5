"""Names that become part of a path: profiles, slots."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PROBE, LLAMA_BENCH = "-probe", "-llama-bench"
OURS = (PROBE, LLAMA_BENCH)
"""How slots end that Stoker makes beside a server's own, and takes away with all that is in them."""
HINT = "up to 64 letters, digits, '.', '_', '-'; a letter or digit first"


def is_name(text: str) -> bool:
    """Whether a text can name a profile or a slot."""
    return NAME.fullmatch(text) is not None
