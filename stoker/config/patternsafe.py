"""Regular expressions of templates: those that could take for ever are refused."""

from __future__ import annotations

import re
from functools import lru_cache

MAX_PATTERN = 1000
MAX_TEXT = 200_000
# A group that is repeated and ends with something repeated: (a+)+ and the like double with each character.
_NESTED = re.compile(r"(?:[*+]|\{\d*,\d*\})\??\)(?:[*+]|\{\d*,\d*\})")


def compiled(pattern: str, text: str, ignorecase: bool = False, multiline: bool = False) -> re.Pattern[str]:
    """A pattern, ready for a text.

    Raises:
        ValueError: It is no pattern, is too long or could take for ever; or the text is too long.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"the text is longer than {MAX_TEXT} characters")
    return _compiled(str(pattern), (re.IGNORECASE if ignorecase else 0) | (re.MULTILINE if multiline else 0))


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern is longer than {MAX_PATTERN} characters")
    if _NESTED.search(pattern):
        raise ValueError("a repeated group that ends with a repetition could take for ever")
    try:
        return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
