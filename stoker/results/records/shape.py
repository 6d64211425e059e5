"""Typed reading of JSON that a host or an older version wrote: what is wrong is named by its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.errors import InputError

_ABSENT = object()
# NaN is on neither side, an integer of JSON may be larger than any float; quotients must stay numbers.
_LEAST, _MOST = 1e-150, 1e150
_LATEST = 250e9  # about the year 9890: what a calendar knows
_DIGITS = 40  # of a whole number; of one that is counted with, what every program and SQLite can hold
_WHOLE = 2**53
_DEPTH = 100  # of objects and lists in each other


class ShapeError(InputError):
    """A field is missing or of another kind.

    Args:
        path: Keys and indices that lead to it.
    """

    def __init__(self, what: str, *, where: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what, where=where)
        self.path = path


class Shape:
    """One JSON object, read field by field.

    Args:
        data: What should be an object.
        where: Its place for messages, e.g. a file.
        path: Keys and indices that lead to it inside ``where``.

    Raises:
        ShapeError: It is no object; each method, where the field is missing or of another kind.
    """

    def __init__(self, data: object, where: str, path: tuple[str | int, ...] = ()) -> None:
        self._where = where
        self._path = path
        if not isinstance(data, Mapping):
            raise self.wrong((), "an object", data)
        self._data: Mapping[str, Any] = data

    def text(self, name: str, default: str | None = None) -> str:
        """A text; null counts as absent."""
        value = self._take(name, default)
        if not isinstance(value, str):
            raise self.wrong(name, "a text", value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number that something can have: finite, and neither absurdly large nor small."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_usable(value):
            raise self.wrong(name, "a number that can be measured", value)
        return float(value)

    def time(self, name: str) -> float:
        """A Unix time that a calendar knows."""
        value = self.number(name)
        if not 0 <= value < _LATEST:
            raise self.wrong(name, "a Unix time in seconds", value)
        return value

    def maybe(self, name: str) -> float | None:
        """A finite number, or None where it is null or absent: missing is not zero."""
        return None if self._data.get(name) is None else self.number(name)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not -_WHOLE < value < _WHOLE:
            raise self.wrong(name, "a whole number", value)
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false", value)
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        """An object with text keys, as it is; empty where absent."""
        value = self._take(name, {})
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise self.wrong(name, "an object", value)
        return dict(value)

    def texts_by_name(self, name: str) -> dict[str, str]:
        """An object whose values are texts; empty where absent."""
        values = self.mapping(name)
        for key, value in values.items():
            if not isinstance(value, str):
                raise self.wrong((name, key), "a text", value)
        return values

    def items(self, name: str) -> list[Any]:
        """A list, as it is; empty where absent."""
        value = self._take(name, [])
        if not isinstance(value, list | tuple):
            raise self.wrong(name, "a list", value)
        return list(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty where absent."""
        values = self.items(name)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self.wrong((name, index), "a text", value)
        return tuple(values)

    def shape(self, name: str) -> Shape:
        """An object, to be read further; an empty one where absent."""
        return Shape(self.mapping(name), self._where, (*self._path, name))

    def shapes(self, name: str) -> list[Shape]:
        """A list of objects; empty where absent."""
        return [Shape(v, self._where, (*self._path, name, i)) for i, v in enumerate(self.items(name))]

    def check(self, kinds: Mapping[str, str]) -> None:
        """See that fields are of their kind where they are there: nobody asks again who reads them later.

        Args:
            kinds: Name of a field to that of the method here which reads it.
        """
        for name, kind in kinds.items():
            if self.has(name):
                getattr(self, kind)(name)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._data.get(name) is not None

    def wrong(self, name: str | tuple[str | int, ...], want: str, value: object) -> ShapeError:
        """The error for a field that is not what it should be."""
        path = (*self._path, *((name,) if isinstance(name, str) else name))
        words = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        what = "is missing" if value is _ABSENT else f"should be {want}, not {_shown(value)}"
        return ShapeError(f"{words or 'the whole'} {what}", where=self._where, path=path)

    def _take(self, name: str, default: object) -> Any:
        value = self._data.get(name)
        if value is None:
            if default is None:
                raise self.wrong(name, "", _ABSENT)
            return default
        return value


def is_usable(value: float) -> bool:
    """Whether it can be reckoned with: zero, or of a size that keeps quotients and products finite."""
    return value == 0 or _LEAST < abs(value) < _MOST


def parse(text: str, where: str) -> Any:
    """JSON to Python; what no record of ours has is refused: NaN, infinities, giant numbers, deep nesting.

    Raises:
        InputError: No JSON, or such.
    """
    try:
        found = json.loads(text, parse_constant=_refuse, parse_int=_int, parse_float=_float)
        return _plain(found)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON that can be used: {error}", where=where) from error


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")


def _int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not is_usable(value):
        raise ValueError(f"{digits[:40]} is no number that is measured")
    return value


def _plain(value: Any, depth: int = 0) -> Any:
    """The same with texts that can be written: half a surrogate pair becomes a question mark.

    Raises:
        ValueError: Nested deeper than anything that we write.
    """
    if depth > _DEPTH:
        raise ValueError(f"nested more than {_DEPTH} deep")
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_plain(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
