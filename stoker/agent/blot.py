"""Secrets in text, in every way in which programs print a value: found, and blotted out."""

from __future__ import annotations

import binascii
import functools
import re

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Iterator, List, Set, Tuple

BLOT = "***"
SECRET_CHARS = 4  # a shorter one would blot out half of every line, and hides nothing
# Texts are cut for people: of a long secret this much of its beginning gives it away.
HEAD_CHARS = 12
_LINE_CHARS = 8  # a line of a secret that has several
_ENCODED_CHARS = 8  # fewer signs of base64 or hexadecimal digits may stand anywhere by chance
_PLAIN = re.compile(r"[A-Za-z0-9]")
_QUOTES = "\\'\""
_BEGINS = "\\%&+"  # of a sign that is written as several, and a space in a form
# What a sign that is written as several may begin with at the end of a text, and about how long that is.
_HALF_CHARS = 90
_CODE = r"%[0-9a-fA-F]{0,12}|&[A-Za-z0-9#;]{0,40}"
_HALF = re.compile(r"(?:(?:\\{1,16}[uUx]?\{?[0-9a-fA-F]{0,12}\}?|%s){1,8})\Z" % _CODE)
_HALF_RUN = re.compile(r"(?:[\\'\"]|%s|(?<=\\)(?:[uUx][0-9a-fA-F]{0,8}|[0-9a-fA-F]{1,8}))+\Z" % _CODE)
_ESCAPE = r"\\{1,16}"
_LETTERS = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "[eE]"}
_NAMED = {"&": "amp", "<": "lt", ">": "gt"}


class Blotter:
    """Knows some secrets in every form.

    A form is a sequence of units: letters and digits stand for themselves, any other sign for each way of
    writing it (JSON, ``repr``, C, shell, URL, HTML, and one in the other). Base64 at its three alignments and
    hexadecimal digits are forms of their own. The time is linear in the text, whatever the text is.

    Args:
        secrets: Their values.
        least: Shorter ones are left.
    """

    def __init__(self, secrets: Iterable[str], least: int = SECRET_CHARS) -> None:
        found = {form for value in _values(secrets) if len(value) >= least for form in _forms(value)}
        self._forms = [_Form(units) for units in sorted(found, key=len, reverse=True)]
        starts = "|".join(form.start for form in self._forms)
        self._any = re.compile(starts) if starts else None

    def blotted(self, text: str) -> str:
        """The text without them; of a long one also what a cut has left, if it is its beginning."""
        if self._any is None or not self._any.search(text):
            return text
        for form in self._forms:
            text = form.blotted(text)
        return text

    def begun(self, text: str) -> int:
        """How many characters at the end have to wait for what follows.

        There a secret may begin that goes on, or stand one whose end may be written longer. What is before is
        blotted out alone as it would be with all that follows.
        """
        at, whole = len(text), []
        for form in self._forms:
            for begin, end, is_open in form.places(text):
                whole.append((begin, end))
                at = min(at, begin) if is_open else at
            at = min(at, form.begun(text))
        for begin, end in sorted(whole, reverse=True):  # nothing is cut in two
            at = begin if begin < at < end else at
        return len(text) - at


@functools.lru_cache(maxsize=8)
def of(secrets: Tuple[str, ...], least: int = SECRET_CHARS) -> Blotter:
    """The blotter of some secrets; the same few are asked for with every message."""
    return Blotter(secrets, least)


class _Unit:
    """One sign of a form.

    Args:
        ways: Patterns of each way of writing it.
        sign: The sign, where it is one that programs write in several ways.

    Attributes:
        plain: What it is where nothing else can be meant; else empty.
        width: About how long it is at most, as a program writes it.
    """

    __slots__ = ("_compiled", "_first", "_half", "plain", "ways", "width")

    def __init__(self, ways: Tuple[str, ...], sign: str = "") -> None:
        is_run = bool(sign) and sign[0] in _QUOTES
        self.ways = ways
        self.plain = ways[0] if not sign and len(ways[0]) == 1 else "" if is_run or sign in "%&" else sign
        self.width = _HALF_CHARS * len(sign) or 1
        self._first = _BEGINS + (_QUOTES if is_run else sign) if sign else ""
        self._half = _HALF_RUN if is_run else _HALF
        self._compiled = [re.compile(way) for way in ways]

    def may_begin(self, sign: str) -> bool:
        """Whether a way of writing it may begin with this one."""
        return sign in (self._first or self.plain) if self._first or self.plain else True

    def ends(self, text: str, at: int) -> Set[int]:
        """Where it may end, if it begins there."""
        if self._first and text[at : at + 1] not in self._first:
            return set()
        return {found.end() for found in [way.match(text, at) for way in self._compiled] if found}

    def goes_on(self, text: str, at: int) -> bool:
        """Whether nothing is left of the text, or what may be the beginning of it."""
        left = len(text) - at
        return not left or (bool(self._first) and left <= self.width and bool(self._half.match(text, at)))


class _Form:
    """One way of writing a secret.

    Args:
        units: Its signs.
    """

    def __init__(self, units: Tuple[_Unit, ...]) -> None:
        self._units = units
        self._enough = HEAD_CHARS if len(units) >= HEAD_CHARS + 4 else len(units)
        # Where it may begin: up to the second sign that is written in several ways, for a fast search.
        several = [at for at, unit in enumerate(units) if len(unit.ways) > 1][1:2]
        head = units[: min([self._enough, *several])]
        before = (
            r"(?<![\\'\"])" if len(units[0].ways) > 1 and units[0].ways[0].startswith("[") else ""
        )  # a run is looked at once
        self.start = before + "".join("(?:%s)" % "|".join(unit.ways) for unit in head)
        run = next((at for at, unit in enumerate(units) if unit is not units[0]), len(units))
        breaks = bool(units[0].plain) and 1 < run < self._enough and not units[run].may_begin(units[0].plain)
        self._run_length = run
        self._run = re.compile(re.escape(units[0].plain) + "+") if breaks else None
        self._width = sum(unit.width for unit in head)

    def blotted(self, text: str) -> str:
        """The text without it."""
        parts: List[str] = []
        done = 0
        for begin, end, _ in self.places(text):
            parts += (text[done:begin], BLOT)
            done = end
        return "".join(parts) + text[done:] if parts else text

    def places(self, text: str) -> Iterator[Tuple[int, int, bool]]:
        """Where it stands: (begin, end, whether the end may be further on) each."""
        start = re.compile(self.start)
        found = start.search(text)
        while found:
            end, count, is_open = self._follow(text, found.start())
            known = count >= self._enough
            if known or is_open:
                yield found.start(), end, is_open
            found = start.search(text, end if known else self._next(text, found.start()))

    def _next(self, text: str, at: int) -> int:
        """Where it may begin next: of a line of dashes only the last few can be a key's first ones."""
        if self._run is None:
            return at + 1
        found = self._run.match(text, at)
        return max(at + 1, found.end() - self._run_length) if found else at + 1

    def begun(self, text: str) -> int:
        """Where it may begin near the text's end, before it can be told that it does; else that end."""
        at = max(0, len(text) - self._width)
        return next((one for one in range(at, len(text)) if self._follow(text, one)[2]), len(text))

    def _follow(self, text: str, at: int) -> Tuple[int, int, bool]:
        """How far the text is the secret from here.

        Returns:
            Where that ends, how many signs of it, and whether more of the text could change either.
        """
        ends: Set[int] = {at}
        count, is_open = 0, False
        for unit in self._units:
            if len(ends) == 1 and unit.plain and text.startswith(unit.plain, at):
                further = {at + 1}  # a text is mostly that
            else:
                is_open = is_open or any(unit.goes_on(text, end) for end in ends)
                further = {more for end in ends for more in unit.ends(text, end)}
            if not further:
                return max(ends), count, is_open
            ends, count = further, count + 1
            at = max(ends)
        return at, count, is_open or len(text) in ends


def _values(secrets: Iterable[str]) -> Iterator[str]:
    for secret in secrets:
        if len(secret) >= SECRET_CHARS:
            yield secret
        if "\n" in secret:  # a log has it line by line
            for line in secret.splitlines():
                if len(line) >= _LINE_CHARS:
                    yield line


def _forms(secret: str) -> Iterator[Tuple[_Unit, ...]]:
    # A run of quotes and backslashes is one unit: each way of writing it is a longer run of them.
    signs = re.findall(r"[\\'\"]+|[^\\'\"]", secret)
    yield tuple(_unit(sign) for sign in signs)
    raw = _bytes(secret)
    for text in dict.fromkeys(_base64(raw)):
        if len(text) >= _ENCODED_CHARS:
            yield tuple(_fixed(re.escape(sign)) for sign in text)
    yield tuple(map(_digit, raw.hex()))


@functools.lru_cache(maxsize=1024)
def _unit(sign: str) -> _Unit:
    """Of a secret as it is: one sign, or a run of quotes and backslashes."""
    return _fixed(sign) if _PLAIN.match(sign) else _Unit(_ways(sign), sign)


@functools.lru_cache(maxsize=128)
def _fixed(pattern: str) -> _Unit:
    return _Unit((pattern,))


def _digit(digit: str) -> _Unit:
    return _fixed(digit if digit.isdigit() else "[%s%s]" % (digit, digit.upper()))


def _bytes(text: str) -> bytes:
    """What a program has of a value; half a surrogate pair that stands for no byte is replaced."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _base64(raw: bytes) -> Iterator[str]:
    """The signs that depend on nothing before and behind it, for each place that it may begin at."""
    for shift in range(3):
        signs = binascii.b2a_base64(b"\0" * shift + raw, newline=False).decode("ascii")
        whole = signs[(0, 2, 3)[shift] : 8 * (shift + len(raw)) // 6]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")  # as URLs have it


def _ways(sign: str) -> Tuple[str, ...]:
    """Patterns of every way of writing one sign, or a run of quotes and backslashes."""
    if sign[0] in "\\'\"":
        return _quotes(len(sign))
    if _PLAIN.match(sign):
        return (sign,)
    code, raw = ord(sign), _bytes(sign)
    ways = [
        r"(?i:%s[ux](?:\{0{0,8}%x\}|0{0,8}%x))" % (_ESCAPE, code, code),
        r"(?i:&(?:amp;){0,4}#(?:0{0,8}%d|x0{0,8}%x);)" % (code, code),
        "(?i:%s)" % "".join("%%(?:25){0,4}%02x" % byte for byte in raw),
        "(?i:%s)" % "".join("%sx%02x" % (_ESCAPE, byte) for byte in raw),
        "".join("%s0*%o" % (_ESCAPE, byte) for byte in raw),
        r"\\{0,16}" + re.escape(sign),
    ]
    if code > 0xFFFF:
        high, low = 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF)
        ways.append("(?i:%su%x%su%x)" % (_ESCAPE, high, _ESCAPE, low))
    if sign in _LETTERS:
        ways.append(_ESCAPE + _LETTERS[sign])
    if sign in _NAMED:
        ways.append("&(?:amp;){0,4}%s;" % _NAMED[sign])
    if sign == " ":
        ways.append(r"\+")
    return tuple(ways)


def _quotes(count: int) -> Tuple[str, ...]:
    """Shells leave a quoted word for a quote, SQL doubles it, others put backslashes before it, and again."""
    plain = r"[\\'\"]{%d,}" % count
    coded = (
        r"(?i:[\\'\"]|%%(?:25){0,4}(?:22|27|5c)|&(?:amp;){0,4}(?:quot|apos|squot|#(?:34|39|92|x22|x27|x5c));"
        r"|(?<=\\)(?:u00(?:22|27|5c)|x(?:22|27|5c)|0?(?:42|47|134))){%d,%d}" % (count, 16 * count)
    )
    # The last backslash may belong to the way in which the next sign is written.
    return plain, plain + r"(?=\\)", coded, coded + r"(?=\\)"
