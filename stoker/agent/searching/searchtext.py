"""Where a text says what a variable is or was: every way in which people and programs write that down."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional, Pattern, Tuple

MAX_LINE = 20000
_MOST_IN_LINE = 200
_AROUND = 1000  # of a line, before a name; a value may be longer
_GLOB = {"*": "[A-Za-z0-9_]*", "?": "[A-Za-z0-9_]"}
_EXPORT = re.compile(r"(^|[\s;&|(`$])(export|(declare|typeset)\s+-\w*x\w*)\s+([^;&|]*\s)?$")
_SETS = re.compile(r"(^|[\s;&|`])(setenv|pushenv|ENV|set\s+(-\w+\s+)*-\w*x\w*|set\s+--export)\s+$")
_LUA = re.compile(r"\b(setenv|pushenv)\s*\(\s*[\"']$")
_UNSET = re.compile(r"(^|[\s;&|`(])(unset|unsetenv|set\s+-e\w*)\s*\(?\s*[\"']?([A-Za-z0-9_ ]*\s)?$")
_OPTION = re.compile(r"(^|\s)(-e|--env)[\s=][\"']?$")
_UNIT = re.compile(r"^\s*Environment\s*=")
_COMMAND = re.compile(r"^\s*(?:[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|\S)*\s+)*(?![A-Za-z_]\w*=)[\w./~$-]")
_FENCE = re.compile(r"^\s*(```|~~~)")
_STOPS = frozenset(" \t\r\n;&|<>()`")
_LAST = ".,;:!?)*]}\u2019\u201d"
_DATED = re.compile(r"^: (\d{9,11}):\d+;|^#(\d{9,11})$")


class Hit(NamedTuple):
    """One place of a text.

    Args:
        line: From 1.
        name: The variable.
        value: What it is set to; None: it is unset there.
        how: ``export``, ``Environment=``, ``table row``, ``inline``, ``assignment``, ``YAML``, ``JSON``, …;
            ``comment`` where it is commented out.
        at: When it was written, where the line itself tells; else 0.
    """

    line: int
    name: str
    value: Optional[str]
    how: str
    at: float = 0.0


def pattern(globs: Iterable[str]) -> Pattern[str]:
    """What finds the names of variables.

    Args:
        globs: Names, with ``*``, ``?`` and ``[…]``.

    Raises:
        ValueError: One is no glob over names.
    """
    parts = []
    for glob in globs:
        if not re.fullmatch(r"([A-Za-z0-9_*?]|\[!?[A-Za-z0-9_-]+\])+", glob):
            raise ValueError("%r is no name of a variable, and no pattern over names" % glob)
        pieces = re.findall(r"\[[^\]]*\]|.", glob)
        parts.append("".join(_GLOB.get(p, p.replace("[!", "[^") if p[0] == "[" else p) for p in pieces))
    return re.compile(r"(?<![A-Za-z0-9_$\{])(?=[A-Za-z_])(%s)(?![A-Za-z0-9_])" % "|".join(parts))


def hits(
    text: str, names: Pattern[str], kind: str, check: Callable[[], None] = lambda: None
) -> Iterator[Hit]:
    """Every value of those variables in a text.

    Args:
        names: Of ``pattern``.
        kind: ``shell``, ``unit``, ``conf``, ``yaml``, ``json``, ``note`` or ``history``.
        check: Called at each name; may raise to end it.
    """
    fenced, at = False, 0.0
    for number, line in enumerate(text.split("\n"), 1):
        if kind == "note" and _FENCE.match(line):
            fenced = not fenced
        if kind == "history":
            dated = _DATED.match(line)
            at = float(dated.group(1) or dated.group(2)) if dated else at
        for match in islice(names.finditer(line[:MAX_LINE]), _MOST_IN_LINE):
            check()
            found = _hit(line[:MAX_LINE], match.start(), match.end(), kind, fenced)
            if found is not None:
                value, how = found
                yield Hit(number, match.group(1), value, how, at)


def _hit(line: str, start: int, end: int, kind: str, fenced: bool) -> Optional[Tuple[Optional[str], str]]:
    """(value, how) of a name in a line; None where it is only mentioned."""
    before, after = line[max(0, start - _AROUND) : start], line[end:]
    if kind == "note" and line.lstrip().startswith("|"):
        value = _row(before, after)
        if value is not None:
            return value, "table row"
    found = _assigned(before, after, kind, fenced) or _told(before, after)
    if found is not None and kind != "note" and line.lstrip().startswith(("#", ";", "//")):
        return found[0], "comment"
    if found is not None and kind == "history":
        return found[0], "history: " + found[1]
    return found


def _assigned(before: str, after: str, kind: str, fenced: bool) -> Optional[Tuple[Optional[str], str]]:
    """``NAME=value``, wherever it stands."""
    if not after.startswith("=") or after.startswith("=="):
        return None
    if kind == "conf":
        return after[1:].strip(), "conf"
    opened = before[-1:] if before[-1:] in ("'", '"') else ""
    if opened:
        text, rest = _until(after[1:], opened)
    else:
        text, rest = _word(after[1:])
    if kind in ("yaml", "json") and not opened:
        text = text.rstrip(",]}")
    if kind == "note" and not fenced and after[1:2] not in ("'", '"'):
        text = text.rstrip(_LAST)
    if _EXPORT.search(before):
        return text, "export"
    if kind == "unit" or _UNIT.match(before):
        return text, "Environment=" if _UNIT.match(before) else "assignment"
    if _OPTION.search(before):
        return text, "docker -e"
    if kind == "note" and not fenced:
        return text, "text"
    if kind in ("yaml", "json"):
        return text, kind.upper()
    return text, "inline" if _COMMAND.match(rest) and rest[:1] in " \t" else "assignment"


def _told(before: str, after: str) -> Optional[Tuple[Optional[str], str]]:
    """The other ways: ``setenv NAME value``, ``"NAME": "value"``, ``NAME: value``, ``unset NAME``."""
    if _SETS.search(before) and after[:1] in " \t":
        return _word(after.strip())[0], "setenv"
    if _LUA.search(before):
        value = re.match(r"[\"']\s*,\s*(\"[^\"]*\"|'[^']*'|[^\s)]+)", after)
        return (value.group(1).strip("\"'"), "setenv") if value else None
    if _UNSET.search(before) and not after.startswith("="):
        return None, "unset"
    pam = re.match(r"\s+DEFAULT=(.*?)(\s+OVERRIDE=.*)?$", after)
    if pam:
        return pam.group(1).strip().strip('"'), "assignment"
    if before.endswith('"') and re.match(r'"\s*:', after):
        value = re.match(r'"\s*:\s*("(?:[^"\\]|\\.)*"|[^\s,}\]]+)', after)
        return (_json(value.group(1)), "JSON") if value else None
    is_key = before.strip(" \t-\"'`*") == "" and re.match(r"[\"'`]?\**:(\s|\**\s|$)", after)
    return (_yaml(after), "YAML") if is_key and _yaml(after) else None


def _row(before: str, after: str) -> Optional[str]:
    """The cell right of the one that holds nothing but the name."""
    cell = before.rpartition("|")[2] + after.partition("|")[0]
    rest = after.partition("|")[2]
    if cell.strip(" \t`*\"'") or not rest:
        return None
    value = rest.replace("\\|", "\0").partition("|")[0].replace("\0", "|").strip(" \t`*\"'")
    return value or None


def _word(text: str) -> Tuple[str, str]:
    """(the first word as a shell reads it, what follows)."""
    found: List[str] = []
    at = 0
    while at < len(text) and text[at] not in _STOPS:
        sign = text[at]
        if sign in "'\"":
            inner, rest = _until(text[at + 1 :], sign)
            found.append(inner)
            at = len(text) - len(rest)
        elif sign == "\\" and at + 1 < len(text):
            found.append(text[at + 1])
            at += 2
        elif text.startswith(("$(", "${"), at):
            close = text.find(")" if text[at + 1] == "(" else "}", at)
            close = len(text) - 1 if close < 0 else close
            found.append(text[at : close + 1])
            at = close + 1
        else:
            found.append(sign)
            at += 1
    return "".join(found), text[at:]


def _until(text: str, quote: str) -> Tuple[str, str]:
    """(what stands before the closing quote, what follows it); all of it where it does not close."""
    found: List[str] = []
    at = 0
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and quote == '"' and text[at + 1 : at + 2] in ('"', "\\", "$", "`"):
            at += 1
        found.append(text[at])
        at += 1
    return "".join(found), text[at + 1 :]


def _json(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text.strip('"')
    return value if isinstance(value, str) else text


def _yaml(after: str) -> str:
    """A scalar behind ``NAME:``, without its comment."""
    text = after.partition(":")[2].strip(" \t*")
    if text[:1] in ("'", '"'):
        return _until(text[1:], text[0])[0]
    return re.sub(r"(?<!\s)\s+#.*$", "", text).strip(" \t`")
