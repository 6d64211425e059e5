"""Ansible's filters that runbooks use, by name and meaning, each bounded by what it is given.

Where Ansible leaves the order to chance (``union``, ``difference``, …) the first list's order is kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import posixpath
import re
import shlex
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Undefined, pass_environment

from stoker.config import yamlfile, yamlplain
from stoker.config.patternsafe import compiled
from stoker.errors import ConfigError

_MAX_WIDTH = 100
_MAX_CHARS = 4_000_000
_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def ternary(value: Any, true_val: Any, false_val: Any, none_val: Any = None) -> Any:
    """One of two values, as the first is true or not; another one for null."""
    if value is None and none_val is not None:
        return none_val
    return true_val if value else false_val


def mandatory(value: Any, msg: str | None = None) -> Any:
    """The value; a failure where it is undefined."""
    if isinstance(value, Undefined):
        raise ValueError(msg or "a mandatory variable is not defined")
    return value


def type_debug(value: Any) -> str:
    """The name of a value's type, in Python's words."""
    return type(value).__name__


# Texts and paths.


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


# Regular expressions.


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


# JSON and YAML.


def to_json(value: Any) -> str:
    """As JSON on one line."""
    return json.dumps(_data(value))


def to_nice_json(value: Any, indent: int = 4, sort_keys: bool = True) -> str:
    """As JSON on many lines."""
    return json.dumps(_data(value), indent=min(int(indent), 8), sort_keys=sort_keys)


def from_json(text: Any) -> Any:
    """What JSON says."""
    return json.loads(str(text))


def from_yaml(text: Any) -> Any:
    """What YAML says."""
    if text is None:
        return None
    try:
        return yamlfile.loads(str(text), "from_yaml").data
    except ConfigError as error:
        raise ValueError(str(error.problems[0])) from error


def to_yaml(value: Any) -> str:
    """As YAML, short lists and mappings on one line."""
    return yamlplain.dump(_data(value), nice=False)


def to_nice_yaml(value: Any) -> str:
    """As YAML on many lines."""
    return yamlplain.dump(_data(value), nice=True)


# Lists and mappings.


class Known:
    """A set that takes lists and mappings too.

    Args:
        items: What is in it.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._quick: set[Any] = set()
        self._slow: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> None:
        """Put something in."""
        if isinstance(item, Hashable):
            self._quick.add(item)
        elif item not in self._slow:
            self._slow.append(item)

    def __contains__(self, item: Any) -> bool:
        return item in (self._quick if isinstance(item, Hashable) else self._slow)


def union(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in one of two lists."""
    return _once([*left, *right])


def intersect(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in both."""
    known = Known(right)
    return _once(item for item in left if item in known)


def difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in the first and not in the second."""
    known = Known(right)
    return _once(item for item in left if item not in known)


def symmetric_difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in one of them and not in both."""
    first, second = list(left), list(right)
    return difference(first, second) + difference(second, first)


def _once(items: Iterable[Any]) -> list[Any]:
    known, found = Known(()), []
    for item in items:
        if item not in known:
            known.add(item)
            found.append(item)
    return found


def flatten(items: Sequence[Any], levels: int | None = None, skip_nulls: bool = True) -> list[Any]:
    """Lists in a list taken apart, so many levels deep."""
    found: list[Any] = []
    for item in items:
        if skip_nulls and item in (None, "None", "null"):
            continue
        if not isinstance(item, list | tuple) or (levels is not None and levels < 1):
            found.append(item)
        else:
            found += flatten(item, None if levels is None else levels - 1, skip_nulls)
    return found


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> dict[Any, Any]:
    """Mappings in one; the last one wins."""
    if list_merge not in ("replace", "keep", "append", "prepend"):
        raise ValueError("list_merge is replace, keep, append or prepend")
    found: dict[Any, Any] = {}
    for term in flatten(terms, levels=1):
        if not isinstance(term, Mapping):
            raise TypeError("combine takes mappings")
        found = _merged(found, term, recursive, list_merge)
    return found


def _merged(low: Mapping[Any, Any], high: Mapping[Any, Any], recursive: bool, lists: str) -> dict[Any, Any]:
    if low == high:
        return dict(high)  # as Ansible has it: nothing is added to what is the same
    found = dict(low)
    for key, value in high.items():
        old = low.get(key)
        if recursive and isinstance(old, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(old, value, recursive, lists)
        elif isinstance(old, list) and isinstance(value, list):
            found[key] = {
                "replace": value,
                "keep": old,
                "append": [*old, *value],
                "prepend": [*value, *old],
            }[lists]
        else:
            found[key] = value
    return found


def dict2items(mapping: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """A mapping as a list of its entries."""
    if not isinstance(mapping, Mapping):
        raise TypeError("dict2items takes a mapping")
    return [{key_name: key, value_name: value} for key, value in mapping.items()]


def items2dict(items: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """A list of entries as a mapping."""
    return {item[key_name]: item[value_name] for item in items}


def subelements(items: Any, path: str | Sequence[str], skip_missing: bool = False) -> list[list[Any]]:
    """Each element with each of the elements of a list in it."""
    names = path.split(".") if isinstance(path, str) else list(path)
    found: list[list[Any]] = []
    for element in items.values() if isinstance(items, Mapping) else items:
        inner: Any = element
        for name in names:
            if skip_missing and name not in inner:
                inner = []
                break
            inner = inner[name]
        found += [[element, one] for one in inner]
    return found


@pass_environment
def extract(environment: Any, item: Any, container: Any, morekeys: Any = None) -> Any:
    """What a container holds under a key, and under more keys in that."""
    more = [] if morekeys is None else morekeys if isinstance(morekeys, list) else [morekeys]
    for key in (item, *more):
        container = environment.getitem(container, key)
    return container


def zipped(*lists: Iterable[Any]) -> list[list[Any]]:
    """Elements of several lists side by side, as many as the shortest has."""
    return [list(row) for row in zip(*lists, strict=False)]


def _data(value: Any) -> Any:
    """A value as JSON types: filters such as map give generators."""
    if isinstance(value, Mapping):
        return {str(key): _data(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Undefined):
        str(value)  # raises
    return [_data(item) for item in value] if isinstance(value, Iterable) else str(value)


FILTERS: Mapping[str, Callable[..., Any]] = {
    **{
        function.__name__: function
        for function in (
            *(ternary, mandatory, type_debug, split, quote, indent, path_join, b64encode, b64decode),
            *(strftime, regex_search, regex_findall, regex_replace, regex_escape, to_json, to_nice_json),
            *(from_json, from_yaml, to_yaml, to_nice_yaml, union, intersect, difference),
            *(symmetric_difference, flatten, combine, dict2items, items2dict, subelements, extract),
        )
    },
    "zip": zipped,
    "hash": hashed,
    "md5": lambda text: hashed(text, "md5"),
    "sha1": lambda text: hashed(text, "sha1"),
    "checksum": lambda text: hashed(text, "sha1"),
    "basename": lambda path: posixpath.basename(str(path)),
    "dirname": lambda path: posixpath.dirname(str(path)),
    "normpath": lambda path: posixpath.normpath(str(path)),
    "splitext": lambda path: list(posixpath.splitext(str(path))),
    "log": lambda value, base=math.e: math.log(value, base),
    "root": lambda value, base=2: value ** (1 / base),
    "wordcount": lambda text: len(re.findall(r"\w+", str(text))),
}
