"""Ansible's tests for a registered result: ``result is failed``, ``is changed``, ``is skipped``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def failed(result: Any) -> bool:
    """Whether the task failed, ignored or not."""
    return bool(_result(result, "failed").get("failed", False))


def succeeded(result: Any) -> bool:
    """Whether it did not fail; a skipped task succeeded."""
    return not failed(result)


def unreachable(result: Any) -> bool:
    """Whether its host was not reached."""
    return bool(_result(result, "unreachable").get("unreachable", False))


def reachable(result: Any) -> bool:
    """Whether its host was reached."""
    return not unreachable(result)


def changed(result: Any) -> bool:
    """Whether it changed something; of a loop, in any round."""
    value = _result(result, "changed")
    rounds = value.get("results")
    if "changed" not in value and isinstance(rounds, list):
        return any(isinstance(one, Mapping) and one.get("changed") for one in rounds)
    return bool(value.get("changed", False))


def skipped(result: Any) -> bool:
    """Whether it was skipped."""
    return bool(_result(result, "skipped").get("skipped", False))


def timed_out(result: Any) -> bool:
    """Whether it did not end in time."""
    return _result(result, "timedout").get("kind") == "timeout"


def _result(value: Any, test: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"the test {test!r} expects what a task registered")
    return value


TESTS: Mapping[str, Callable[[Any], bool]] = {
    "failed": failed,
    "failure": failed,
    "succeeded": succeeded,
    "success": succeeded,
    "successful": succeeded,
    "unreachable": unreachable,
    "reachable": reachable,
    "changed": changed,
    "change": changed,
    "skipped": skipped,
    "skip": skipped,
    "timedout": timed_out,
}
