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
_WINDOW = 4096  # of a stream's end, where a secret may begin
_PLAIN = re.compile(r"[A-Za-z0-9]")
# What a sign that is written as several may begin with, and how long that is.
_HALF_CHARS = 40
_HALF = re.compile(r"[\\%&'][^\s]{0,39}\Z")
_ESCAPE = r"\\{1,16}"
_LETTERS = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "[eE]"}
_NAMED = {"&": "amp", "<": "lt", ">": "gt"}


class Blotter:
    """Knows some secrets in every form.

    A form is a sequence of units: letters and digits stand for themselves, any other sign for each way of
    writing it (JSON, ``repr``, C, shell, URL, HTML, and one in the other). Base64 at its three alignments and
    hexadecimal digits are forms of their own. The time is bounded, whatever the text is.

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
        """How many characters at the end may be the beginning of a secret that goes on."""
        at = len(text) - max((form.begun(text) for form in self._forms), default=0)
        whole = (begin for form in self._forms for begin, end in form.places(text) if begin < at < end)
        return len(text) - min(whole, default=at)


@functools.lru_cache(maxsize=8)
def of(secrets: Tuple[str, ...], least: int = SECRET_CHARS) -> Blotter:
    """The blotter of some secrets; the same few are asked for with every message."""
    return Blotter(secrets, least)


class _Form:
    """One way of writing a secret.

    Args:
        units: The ways of writing each sign, as patterns.
    """

    def __init__(self, units: Tuple[Tuple[str, ...], ...]) -> None:
        self._units = units
        self._enough = HEAD_CHARS if len(units) >= HEAD_CHARS + 4 else len(units)
        # Where it may begin: up to the second sign that is written in several ways, for a fast search.
        several = [at for at, ways in enumerate(units) if len(ways) > 1][1:2]
        head = units[: min([self._enough, *several])]
        before = (
            r"(?<![\\'\"])" if len(units[0]) > 1 and units[0][0].startswith("[") else ""
        )  # a run is looked at once
        self.start = before + "".join("(?:%s)" % "|".join(ways) for ways in head)

    def blotted(self, text: str) -> str:
        """The text without it."""
        parts: List[str] = []
        done = 0
        for begin, end in self.places(text):
            parts += (text[done:begin], BLOT)
            done = end
        return "".join(parts) + text[done:] if parts else text

    def places(self, text: str) -> Iterator[Tuple[int, int]]:
        """Where it stands, (begin, end) each."""
        start = re.compile(self.start)
        found = start.search(text)
        while found:
            ends, count = self._follow(text, found.start())
            end = max(ends)
            known = count >= self._enough
            if known:
                yield found.start(), end
            found = start.search(text, end if known else found.start() + 1)

    def begun(self, text: str) -> int:
        """How many characters at the end may be its beginning."""
        for found in re.finditer("|".join(self._units[0]), text[-_WINDOW:]):
            begin = found.start() + max(0, len(text) - _WINDOW)
            ends, count = self._follow(text, begin)
            if count < len(self._units) and any(self._may_go_on(text, end, count) for end in ends):
                return len(text) - begin
        last = range(max(0, len(text) - _HALF_CHARS), len(text))
        return len(text) - next((at for at in last if self._may_go_on(text, at, 0)), len(text))

    def _may_go_on(self, text: str, at: int, unit: int) -> bool:
        """Whether nothing is left of the text, or what may be the beginning of one sign."""
        return at == len(text) or (len(self._units[unit]) > 1 and _HALF.match(text, at) is not None)

    def _follow(self, text: str, at: int) -> Tuple[Set[int], int]:
        """How far the text is the secret from here: where that may end, and how many signs of it."""
        ends, count = {at}, 0
        for ways in self._units:
            if len(ways) == 1 and _PLAIN.match(ways[0]):
                further = {end + 1 for end in ends if text.startswith(ways[0], end)}
            else:
                found = [way.match(text, end) for way in map(re.compile, ways) for end in ends]
                further = {one.end() for one in found if one}
            if not further:
                break
            ends, count = further, count + 1
        return ends, count


def _values(secrets: Iterable[str]) -> Iterator[str]:
    for secret in secrets:
        if len(secret) >= SECRET_CHARS:
            yield secret
        if "\n" in secret:  # a log has it line by line
            for line in secret.splitlines():
                if len(line) >= _LINE_CHARS:
                    yield line


def _forms(secret: str) -> Iterator[Tuple[Tuple[str, ...], ...]]:
    # A run of quotes and backslashes is one unit: each way of writing it is a longer run of them.
    signs = re.findall(r"[\\'\"]+|[^\\'\"]", secret)
    yield tuple(_ways(sign) for sign in signs)
    raw = _bytes(secret)
    for text in dict.fromkeys(_base64(raw)):
        if len(text) >= _ENCODED_CHARS:
            yield tuple((re.escape(sign),) for sign in text)
    yield tuple((digit if digit.isdigit() else "[%s%s]" % (digit, digit.upper()),) for digit in raw.hex())


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


@functools.lru_cache(maxsize=1024)
def _ways(sign: str) -> Tuple[str, ...]:
    """Patterns of every way of writing one sign, or a run of quotes and backslashes."""
    if sign[0] in "\\'\"":
        return _quotes(len(sign))
    if _PLAIN.match(sign):
        return (sign,)
    code, raw = ord(sign), _bytes(sign)
    ways = [
        r"(?i:%s[ux](?:\{0*%x\}|0*%x))" % (_ESCAPE, code, code),
        r"(?i:&(?:amp;){0,4}#(?:0*%d|x0*%x);)" % (code, code),
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
