"""The one door for JSON that somebody else wrote: a server's answer, a file that may be damaged."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Union

_DEPTH = 64
_DIGITS = 400  # of a whole number; longer ones cost time, and mean nothing


class OutsideError(Exception):
    """It is no JSON that can be used; the message says why."""


def parse(data: Union[bytes, str]) -> Any:
    """Text or UTF-8 to JSON types, at most 64 levels deep.

    Raises:
        OutsideError: It is none.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = _DECODER.decode(text)
    except ValueError as error:
        raise OutsideError(str(error)) from error
    except RecursionError:
        raise OutsideError("it is nested too deeply") from None
    # Whoever walks it later must not fall over it either.
    if text.count("[") + text.count("{") > _DEPTH and _is_deeper(value, _DEPTH):
        raise OutsideError("it is nested too deeply")
    return value


def mapping(value: Any) -> Dict[str, Any]:
    """The object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def rows(value: Any, name: str) -> List[Dict[str, Any]]:
    """The objects in the list ``name`` of an object; empty where there is none."""
    found = mapping(value).get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("a number of %d digits" % len(digits))
    return int(digits)


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        inner = [one for one in level if isinstance(one, (dict, list))]
        if not inner:
            return False
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
    return any(isinstance(one, (dict, list)) for one in level)


_DECODER = json.JSONDecoder(parse_int=_whole)
