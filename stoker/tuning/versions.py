"""Versions as numbers: ``2.28.9+cuda13.0`` is 2, 28, 9."""

from __future__ import annotations

import re


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version; empty where there are none."""
    found = re.match(r"v?([0-9]{1,9}(?:\.[0-9]{1,9})*)", version.strip(), re.ASCII)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def before(version: str, other: str) -> bool:
    """Whether a version is known and older than another one."""
    return bool(numbers(version)) and numbers(version) < numbers(other)


def reached(version: str, other: str) -> bool:
    """Whether a version is known and not older than another one."""
    return bool(numbers(version)) and not before(version, other)
