"""JSON for the wire without the standard module, whose regular expressions are a quarter of a start.

CPython's ``json`` is a thin layer over the same two functions. Where they are missing or not as known, and
for each text that is not plainly right, the standard module does it, and says what is wrong.
"""

from __future__ import annotations

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional


class _Reading:
    """What the C scanner is told; the names are its own."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN and the infinities, which Python's float() reads by the same names


def dumps(value: Any) -> str:
    """A value as compact JSON, signs beyond ASCII as they are.

    Raises:
        ValueError: A number that is not finite.
        TypeError: No JSON type.
    """
    if _encode is not None:
        return _encode(value)
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def loads(text: str) -> Any:
    """The value that a text is.

    Raises:
        ValueError: It is no JSON.
    """
    if _scan is not None:
        try:
            value, end = _scan(text, 0)
        except StopIteration:
            end = -1
        if end == len(text):
            return value
    import json

    return json.loads(text)


def _encoder() -> Optional[Callable[[Any], str]]:
    try:
        from _json import encode_basestring, make_encoder

        def encode(value: Any) -> str:
            # As json has it: against circles, default, strings, indent, separators, sort, skip, NaN.
            parts = make_encoder({}, _refuse, encode_basestring, None, ":", ",", False, False, False)
            return "".join(parts(value, 0))

        return encode if encode(_SAMPLE) == _WRITTEN else None
    except Exception:  # of whatever Python this is: the standard module knows its own
        return None


def _reading() -> Any:
    return _Reading


def _scanner() -> Optional[Callable[[str, int], Any]]:
    try:
        from _json import make_scanner

        scan: Callable[[str, int], Any] = make_scanner(_reading())
        return scan if scan(_WRITTEN, 0) == (_SAMPLE, len(_WRITTEN)) else None
    except Exception:
        return None


def _refuse(value: Any) -> Any:
    raise TypeError("Object of type %s is not JSON serializable" % type(value).__name__)


_SAMPLE = {"a": [1, -2.5, True, None, 'é"\n'], "b": {}}
_WRITTEN = '{"a":[1,-2.5,true,null,"é\\"\\n"],"b":{}}'
_encode = _encoder()
_scan = _scanner()
