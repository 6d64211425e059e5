"""Findings for other programs: JSON, SARIF 2.1.0, and the annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from stoker import __version__
from stoker.config.linting.codes import CODES, Code
from stoker.config.linting.lint import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}
_WORDS = {"error": "error", "warning": "warning", "advice": "notice"}


def as_json(one: Finding) -> dict[str, Any]:
    """A finding as JSON types; an unknown line or column is null."""
    return {**asdict(one), "line": one.line or None, "column": one.column or None}


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """A SARIF log with one run; paths are relative to the project's folder (``PROJECT``)."""
    codes = sorted({one.code for one in findings} | set(CODES))
    driver = {
        "name": "stoker",
        "semanticVersion": __version__,
        "rules": [_rule(code, findings) for code in codes],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, codes.index(one.code)) for one in findings],
            }
        ],
    }


def _rule(code: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """A rule with its help; that of a variable's code comes from the first finding under it."""
    known = CODES.get(code) or _code_of(next(one for one in findings if one.code == code))
    mend, source = known.mend and f"Mend: {known.mend}", known.source and f"Source: {known.source}"
    return {
        "id": code,
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.reason or known.title},
        "help": {"text": "\n".join(filter(None, (known.reason or known.title, mend, source)))},
        "defaultConfiguration": {"level": _LEVELS[known.severity]},
    }


def _code_of(one: Finding) -> Code:
    return Code(one.severity, one.what, one.reason, one.mend, one.source)


def _result(one: Finding, index: int) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": quote(one.file)}}
    if one.line:
        location["region"] = {"startLine": one.line, **({"startColumn": one.column} if one.column else {})}
    return {
        "ruleId": one.code,
        "ruleIndex": index,
        "level": _LEVELS[one.severity],
        "message": {"text": ". ".join(part for part in (one.what, one.mend) if part)},
        "locations": [{"physicalLocation": location}],
        "properties": {"profiles": list(one.profiles), "hosts": list(one.hosts)},
    }


def github(findings: Sequence[Finding]) -> list[str]:
    """One annotation a finding, as workflow commands."""
    return [_annotation(one) for one in findings]


def _annotation(one: Finding) -> str:
    fields = {"file": one.file, "line": one.line, "col": one.column, "title": f"stoker {one.code}"}
    said = ",".join(f"{name}={_property(str(value))}" for name, value in fields.items() if value)
    text = "\n".join(part for part in (one.what, one.reason, one.mend) if part)
    return f"::{_WORDS[one.severity]} {said}::{_data(text)}"


def _data(text: str) -> str:
    """Text behind ``::``, by the rules of the runner."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """The value of a property: a colon or comma would end it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
