"""What hosts, profiles and logs say, made safe to show; and how durations and verdicts look."""

from __future__ import annotations

import re

# Escape sequences first, whole; then every other control, and the marks that reorder or hide text.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]", re.S
)
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
LONGEST = 20_000  # of a part of a line
VERDICT_STYLE = {
    "ok": "bold green",
    "improved": "bold cyan",
    "regressed": "bold red",
    "unstable": "bold yellow",
    "inconclusive": "yellow",
    "no-baseline": "dim",
}


def clean(text: object, limit: int = 2000) -> str:
    """Text that a host, a profile or a log said, safe to show.

    Args:
        text: Anything; ``str()`` of it is taken.
        limit: Characters kept; an ellipsis says that more were cut.

    Returns:
        The same without terminal escapes, control characters (tab and newline stay) and reordering marks.
    """
    plain = str(text)[: 2 * limit]
    if not plain.isprintable():
        plain = _CONTROLS.sub("", _ESCAPES.sub("", plain))
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def clean_line(text: object, limit: int = LONGEST) -> str:
    """The same on one line: a line break is shown as a sign, so that nobody forges a line of ours."""
    return clean(text, limit).replace("\n", "⏎")


def seconds(value: float | None) -> str:
    """A duration as people read it: ``0.4 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if value is None:
        return "-"
    if value < 100:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60):02d} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60):02d} min"
