"""Ansible's filters over text: words, paths, codings, times and regular expressions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import re
import shlex
import time
from typing import Any

from stoker.config.patternsafe import compiled

_MAX_WIDTH = 100
_MAX_CHARS = 4_000_000
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def split(text: Any, sep: str | None = None, maxsplit: int = -1) -> list[str]:
    """A text at each separator; at blanks where none is given."""
    return str(text).split(sep, maxsplit)


def quote(text: Any) -> str:
    """A text as one word of a shell."""
    return shlex.quote(str(text))


def indent(text: Any, width: int = 4, first: bool = False, blank: bool = False) -> str:
    """Every line moved to the right, the first only where asked for."""
    if not 0 <= width <= _MAX_WIDTH:
        raise ValueError(f"indent takes 0 to {_MAX_WIDTH} columns")
    lines = str(text).splitlines() or [""]
    if len(lines) * width + len(str(text)) > _MAX_CHARS:
        raise ValueError(f"the text would be longer than {_MAX_CHARS} characters")
    moved = [" " * width + line if line or blank else line for line in lines]
    return "\n".join(moved if first else [lines[0], *moved[1:]])


def path_join(parts: Any) -> str:
    """Parts of a path in one."""
    return posixpath.join(*([parts] if isinstance(parts, str) else map(str, parts)))


def b64encode(text: Any) -> str:
    """A text in base64."""
    return base64.b64encode(str(text).encode()).decode()


def b64decode(text: Any) -> str:
    """The text that stands in base64."""
    try:
        return base64.b64decode(str(text)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"no text in base64: {error}") from error


def hashed(text: Any, hashtype: str = "sha1") -> str:
    """A text's digest in hexadecimal."""
    if hashtype not in _HASHES:
        raise ValueError(f"there is no hash {hashtype!r}: {', '.join(_HASHES)}")
    return hashlib.new(hashtype, str(text).encode(), usedforsecurity=False).hexdigest()


def strftime(pattern: str, second: float | None = None, utc: bool = False) -> str:
    """A moment in a pattern's words; now, where none is given."""
    at = time.time() if second is None else float(second)
    return time.strftime(pattern, time.gmtime(at) if utc else time.localtime(at))


def regex_search(
    text: Any, regex: str, *groups: str, ignorecase: bool = False, multiline: bool = False
) -> Any:
    r"""The first match, or of it the groups named as ``\1`` or ``\g<name>``; null where there is none."""
    found = compiled(regex, str(text), ignorecase, multiline).search(str(text))
    if found is None:
        return None
    return [found.group(_group(name)) for name in groups] if groups else found.group()


def _group(name: str) -> str | int:
    match = re.fullmatch(r"\\(?:g<(\w+)>|(\d+))", name)
    if match is None:
        raise ValueError(rf"{name!r} names no group: write '\\1' or '\\g<name>'")
    return match.group(1) or int(match.group(2))


def regex_findall(text: Any, regex: str, multiline: bool = False, ignorecase: bool = False) -> list[Any]:
    """Every match, or its groups."""
    found = compiled(regex, str(text), ignorecase, multiline).findall(str(text))
    return [list(one) if isinstance(one, tuple) else one for one in found]


def regex_replace(
    text: Any = "",
    pattern: str = "",
    replacement: str = "",
    ignorecase: bool = False,
    multiline: bool = False,
    count: int = 0,
) -> str:
    """A text with every match replaced."""
    text, end, length = str(text), 0, 0
    kept: list[str] = []
    for number, found in enumerate(compiled(pattern, text, ignorecase, multiline).finditer(text), 1):
        kept += [text[end : found.start()], found.expand(replacement)]
        length += len(kept[-1]) + len(kept[-2])
        end = found.end()
        if length > _MAX_CHARS:
            raise ValueError(f"the text would be longer than {_MAX_CHARS} characters")
        if number == count:
            break
    return "".join([*kept, text[end:]])


def regex_escape(text: Any) -> str:
    """A text as a regular expression that matches it alone."""
    return re.escape(str(text))
