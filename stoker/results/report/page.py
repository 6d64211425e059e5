"""The page: one file that opens offline; nothing runs in it but two scripts, named by their hash."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from stoker.config import page as html
from stoker.config.page import Source
from stoker.results.report.model import Report

MARK = "<!doctype html>\n<!-- made by inv report -->"
"""How every page begins: a file that begins so may be replaced."""

_EMPTY = ""  # plotly.js makes an empty style element and fills it by calls, which the policy then allows


def render(report: Report) -> str:
    """The page's text.

    Args:
        report: What it shows; every text in it is escaped here.
    """
    from plotly.offline import get_plotlyjs

    plotly, script, style = Source(get_plotlyjs()), _source("report.js"), _source("report.css")
    plots = [plot.figure for section in report.sections for part in section.parts for plot in part.plots]
    return html.render(
        "report.html.j2",
        report=report,
        numbers={"": "", **{host: str(number) for number, host in enumerate(report.hosts, 1)}},
        mark=Source(MARK),
        policy=_policy([plotly, script], [style, Source(_EMPTY)]),
        plotly=plotly,
        script=script,
        style=style,
        plots=_data(plots),
    )


def _source(name: str) -> Source:
    return Source((files("stoker") / "templates" / name).read_text(encoding="utf-8"))


def _policy(scripts: list[Source], styles: list[Source]) -> str:
    """A content security policy: nothing is loaded from anywhere, and only these texts run or style."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": " ".join(map(_hash, styles)),
        "img-src": "data: blob:",  # a plot saved as a picture
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(source: Source) -> str:
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _data(plots: list[dict[str, Any]]) -> Source:
    """JSON that stays data inside a script element, whatever it holds: no ``<``, nothing beyond ASCII."""
    text = json.dumps(plots, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Source(text)
