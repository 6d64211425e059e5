"""HTML pages from Stoker's own Jinja2 templates; every value is escaped unless it is source on purpose."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_FOLDER = Path(__file__).parent.parent / "templates"
_LONGEST = 2000
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Source(Markup):
    """Text that goes into a page as it is: scripts, styles and data of ours."""

    __slots__ = ()


def render(name: str, **values: Any) -> str:
    """A page.

    Args:
        name: The template's file.
        values: Its variables; any text in them is shown as it is, whatever it looks like.
    """
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def visible(text: str) -> str:
    """Text on one line without what hides or reorders it; a sign stands for each such character.

    Args:
        text: Of anybody.
    """
    if text.isascii() and text.isprintable() and len(text) <= _LONGEST:
        return text
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return "".join("�" if unicodedata.category(char) in _INVISIBLE else char for char in short)


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
