"""How numbers are read: by C's strtoll with base 0, by stoi, by Python's int and float, or in digits only."""

from __future__ import annotations

import re

from stoker.tuning.faults import OFF, ON, Fault, Faults, wordlist
from stoker.tuning.model import Variable

_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"([0-9]{1,18})\s*([kmgt])(i?b)?", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_PREFIX = re.compile(r"\s*[+-]?[0-9]{0,30}", re.ASCII)
_STRTOLL = "it is read by strtoll with base 0, which stops at the first sign that it does not know"


def c_integer(value: str, variable: Variable) -> Faults:
    """By strtoll with base 0: `010` is 8, `16M` is 16, `abc` is 0. An empty value counts as unset."""
    digits = value.strip()
    if not value:
        return
    if digits != value and _WHOLE.fullmatch(digits):
        yield Fault("blank", "has blanks around the number", digits, "they invite mistakes", "warning")
    if _SIZE.fullmatch(digits):
        yield _size(digits, _STRTOLL)
    elif re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]{1,16}", digits):
        number = int(digits, 16)
        yield Fault(
            "hexadecimal", f"is read as {number}", str(number), "decimal is what others expect", "advice"
        )
        yield from _bounds(number, variable)
    elif re.fullmatch(r"[+-]?0[0-9]{1,30}", digits, re.ASCII):
        yield _octal(digits)
    elif not _WHOLE.fullmatch(digits):
        yield Fault("bad-value", f"is read as {_leading(digits)}, for it is no number", "", _STRTOLL)
    else:
        yield from _bounds(int(digits), variable)


def c_number(value: str, variable: Variable) -> Faults:
    """As ``c_integer``, and one of a few numbers."""
    faults = list(c_integer(value, variable))
    yield from faults
    if not faults and value and str(int(value)) not in variable.values:
        yield Fault(
            "bad-value", f"is none of {wordlist(variable.values)}", _closest(int(value), variable.values)
        )


def plain_integer(value: str, variable: Variable) -> Faults:
    """In decimal digits, and nothing else."""
    if _WHOLE.fullmatch(value):
        yield from _bounds(int(value), variable)
    elif value:
        yield Fault("bad-value", "is no whole number")


def stoi(value: str, variable: Variable) -> Faults:
    """By std::stoi: a number at the beginning is taken and the rest dropped; none is an error."""
    if value in variable.values:
        return
    if _SIZE.fullmatch(value.strip()):
        yield _size(value.strip(), "it is read by std::stoi, which drops what follows the digits")
    elif not _WHOLE.fullmatch(value.strip()):
        taken = _leading(value)
        what = (
            f"is read as {taken}: what follows is dropped"
            if re.search(r"\d", _head(value))
            else "is no number"
        )
        yield Fault("bad-value", what)
    else:
        yield from _bounds(int(value), variable)


def stof(value: str, _variable: Variable) -> Faults:
    """By std::stof: a number at the beginning."""
    yield from _number(value)


def python_integer(value: str, variable: Variable) -> Faults:
    """By Python's int()."""
    try:
        number = int(value[:4000])  # more digits than that are refused by Python itself
    except ValueError:
        yield Fault("bad-value", "is no whole number", _bytes_of(value))
        return
    yield from _bounds(number, variable)


def python_number(value: str, _variable: Variable) -> Faults:
    """By Python's float()."""
    yield from _number(value)


def int_bool(value: str, _variable: Variable) -> Faults:
    """By bool(int(…)): words are an error, even `true`."""
    try:
        int(value[:4000])
    except ValueError:
        word = value.strip().lower()
        yield Fault("bad-value", "is no number", "1" if word in ON else "0" if word in OFF else "")


def threads(value: str, _variable: Variable) -> Faults:
    """Positive whole numbers, with commas between the levels."""
    for part in value.split(","):
        if not re.fullmatch(r"\s*[0-9]{1,9}\s*", part, re.ASCII) or int(part) < 1:
            yield Fault("bad-value", f"has {part.strip()[:20]!r} where a positive number belongs")
            return


def size_with_unit(value: str, _variable: Variable) -> Faults:
    """A whole number with B, K, M or G behind it, or none."""
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*[bkmg]?\s*", value, re.IGNORECASE | re.ASCII):
        yield Fault("bad-value", "is no size such as 512K or 4M")


def _number(value: str) -> Faults:
    try:
        float(value)
    except ValueError:
        yield Fault("bad-value", "is no number")


def _bounds(number: int, variable: Variable) -> Faults:
    low, high = variable.lowest, variable.highest
    if (low is not None and number < low) or (high is not None and number > high):
        allowed = f"{low} to {high}" if high is not None else f"{low} or more"
        near = min(max(number, low if low is not None else number), high if high is not None else number)
        yield Fault("bad-value", f"is outside {allowed}", str(near))


def _size(digits: str, reason: str) -> Fault:
    found = _SIZE.fullmatch(digits)
    taken, unit = (found.group(1), found.group(2).lower()) if found else ("", "k")
    return Fault("size-suffix", f"is read as {int(taken)}", str(int(taken) * _UNITS[unit]), reason)


def _bytes_of(value: str) -> str:
    found = _SIZE.fullmatch(value.strip())
    return str(int(found.group(1)) * _UNITS[found.group(2).lower()]) if found else ""


def _octal(digits: str) -> Fault:
    plain = str(int(digits))
    octal = digits.lstrip("+-")
    if re.fullmatch("0[0-7]+", octal):
        return Fault(
            "leading-zero", f"is read as {int(octal, 8)}: octal", plain, "strtoll with base 0 reads it so"
        )
    return Fault(
        "leading-zero", "is read as octal, up to the first 8 or 9", plain, "strtoll with base 0 reads it so"
    )


def _head(text: str) -> str:
    found = _PREFIX.match(text)
    return found.group() if found else ""


def _leading(text: str) -> int:
    """The number at the beginning, as C reads it: none is 0."""
    head = _head(text).strip()
    return int(head) if head.lstrip("+-") else 0


def _closest(number: int, values: tuple[str, ...]) -> str:
    return min(values, key=lambda v: abs(int(v) - number))
