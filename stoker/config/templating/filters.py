"""Ansible's filters that runbooks use, by name and meaning, each bounded by what it is given.

What one cannot do it says with ``ValueError`` or ``TypeError``, which the template tells with its place.
"""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import Undefined, pass_environment

from stoker.config.files import yamlfile, yamlplain
from stoker.config.templating import lists as lists
from stoker.config.templating import text as texts
from stoker.errors import ConfigError


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


@pass_environment
def extract(environment: Any, item: Any, container: Any, morekeys: Any = None) -> Any:
    """What a container holds under a key, and under more keys in that."""
    more = [] if morekeys is None else morekeys if isinstance(morekeys, list) else [morekeys]
    for key in (item, *more):
        container = environment.getitem(container, key)
    return container


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
            *(ternary, mandatory, type_debug, extract),
            *(to_json, to_nice_json, from_json, from_yaml, to_yaml, to_nice_yaml),
            *(texts.split, texts.quote, texts.indent, texts.path_join, texts.b64encode, texts.b64decode),
            *(texts.strftime, texts.regex_search, texts.regex_findall, texts.regex_replace),
            *(texts.regex_escape, lists.union, lists.intersect, lists.difference),
            *(lists.symmetric_difference, lists.flatten, lists.combine, lists.dict2items),
            *(lists.items2dict, lists.subelements),
        )
    },
    "zip": lists.zipped,
    "hash": texts.hashed,
    "md5": lambda text: texts.hashed(text, "md5"),
    "sha1": lambda text: texts.hashed(text, "sha1"),
    "checksum": lambda text: texts.hashed(text, "sha1"),
    "basename": lambda path: posixpath.basename(str(path)),
    "dirname": lambda path: posixpath.dirname(str(path)),
    "normpath": lambda path: posixpath.normpath(str(path)),
    "splitext": lambda path: list(posixpath.splitext(str(path))),
    "log": lambda value, base=math.e: math.log(value, base),
    "root": lambda value, base=2: value ** (1 / base),
    "wordcount": lambda text: len(re.findall(r"\w+", str(text))),
}
