"""What came of a command on one host: in a few words, as JSON types, as an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, EXIT_INTERRUPTED, ConfigError, HostError, StokerError, exit_code_of

if TYPE_CHECKING:
    from stoker.fleet.job import Outcome
    from stoker.fleet.pool import HostResult


def told(result: HostResult) -> str:
    """A host that is not fine in a few words; the error itself is told whole at the end."""
    kind = getattr(result.error, "kind", "") if result.status == "failed" else ""
    return result.status + (f" ({kind})" if kind else "") + (f", {result.why}" if result.why else "")


def result_data(result: HostResult, *, check: bool = False) -> dict[str, Any]:
    """A host's result as JSON types.

    Args:
        result: The result.
        check: Nothing was touched: ``changed`` is ``would`` where something would have been.
    """
    outcomes: list[Outcome] = result.data or []
    data: dict[str, Any] = {"status": result.status, "seconds": round(result.seconds, 3)}
    changed = any(outcome.changed for outcome in outcomes)
    data["changed"] = "would" if check and changed else changed
    data["results"] = [{"summary": outcome.summary, **outcome.data} for outcome in outcomes]
    if result.error is not None:
        data["error"] = error_data(result.error)
    if result.why:
        data["why"] = result.why
    return data


def error_data(error: StokerError) -> dict[str, Any]:
    """An error as JSON types."""
    data: dict[str, Any] = {
        "what": error.what,
        "where": error.where,
        "evidence": list(error.evidence),
        "next": error.next_step,
    }
    if isinstance(error, HostError):
        data.update(kind=error.kind, detail=error.detail)
    if isinstance(error, ConfigError):
        data["problems"] = [vars(problem) for problem in error.problems]
    return data


def code_of(result: HostResult) -> int:
    """The exit code that one host's result asks for."""
    if result.error is not None:
        return result.error.exit_code
    if result.status == "interrupted":
        return EXIT_INTERRUPTED
    return exit_code_of(outcome.exit_code for outcome in result.data or []) or EXIT_DONE
