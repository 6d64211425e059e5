"""What came of a playbook's task on one host, as a value; what ``register`` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stoker.errors import HostError, HostFailed, HostInterrupted, HostUnreachable, InputError, StokerError
from stoker.fleet.job import Outcome

Status = Literal["ok", "changed", "failed", "unreachable", "skipped", "interrupted"]


@dataclass(frozen=True)
class Result:
    """What came of a task, or of one round of its loop, on one host.

    Args:
        status: ``skipped`` where a condition did not hold, or ``--check`` left nothing to do; ``interrupted``
            where Ctrl-C cut it short.
        data: What ``register`` gives: ``changed``, ``failed``, ``msg``, and what the module says; JSON types.
        summary: One line for people.
        lines: More for people, (text, style) each.
        error: Why it failed or was unreachable.
        ignored: It failed, and ``ignore_errors`` lets the host go on.
        hidden: ``no_log``: neither arguments nor data are to be shown.
        command: The ``inv`` command that does the same; empty where there is none.
        seconds: How long it took.
        code: The exit code that a verdict in it asks for; None where there is no verdict.
        facts: Variables that it sets on the host.
        label: Of a round of a loop: what is shown of its item.
        notified: Handlers that it asks for.
    """

    status: Status
    data: dict[str, Any]
    summary: str = ""
    lines: tuple[tuple[str, str], ...] = ()
    error: StokerError | None = None
    ignored: bool = False
    hidden: bool = False
    command: str = ""
    seconds: float = 0.0
    code: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    notified: tuple[str, ...] = ()

    @property
    def is_bad(self) -> bool:
        """Whether the host leaves the book."""
        return self.error is not None and not self.ignored

    def of_round(self, variables: Mapping[str, Any], label: str) -> Result:
        """The same, saying which round of a loop it was.

        Args:
            variables: Those of the round.
            label: What is shown of its item.
        """
        return replace(self, data={**self.data, **variables}, label=label)


def succeeded(outcomes: Sequence[Outcome]) -> Result:
    """What a verb did.

    Args:
        outcomes: One a server that was meant. Of several, the data stand under ``servers``.
    """
    if all(one.skipped for one in outcomes):
        return skipped(outcomes[0].summary, **outcomes[0].data)
    changed = any(outcome.changed for outcome in outcomes)
    data: dict[str, Any] = {"servers": [dict(one.data) for one in outcomes]}
    if len(outcomes) == 1:
        data = dict(outcomes[0].data)
    codes = [one.exit_code for one in outcomes if "verdict" in one.data]
    summary = "; ".join(one.summary for one in outcomes if one.summary)
    return Result(
        "changed" if changed else "ok",
        {"msg": summary, **data, "changed": changed, "failed": False},
        summary,
        tuple(line for one in outcomes for line in one.lines),
        code=max(codes) if codes else None,
        facts=data.get("ansible_facts", {}),
    )


def failed(error: StokerError, host: str, place: str) -> Result:
    """A failure.

    Args:
        error: What is wrong. A mistake in the book that only the run could show counts as the host's failure.
        host: The host.
        place: ``file:line`` of the task.
    """
    if isinstance(error, HostUnreachable):
        told = {"changed": False, "failed": False, "unreachable": True, "msg": error.what}
        return Result("unreachable", told, error=error)
    if isinstance(error, InputError):
        where = "" if error.where in ("", place) else f"{error.where}: "
        what, shown, hint = where + error.what, error.evidence, error.next_step
        error = HostFailed(what, host=host, kind="input", evidence=shown, next_step=hint)
    kind, detail = (error.kind, error.detail) if isinstance(error, HostError) else ("fault", {})
    told = {"changed": False, **detail, "failed": True, "msg": error.what, "kind": kind}
    return Result("failed", {**told, "evidence": list(error.evidence)}, error=error)


def interrupted(error: StokerError | None = None) -> Result:
    """Ctrl-C cut it short.

    Args:
        error: Where it says what goes on on the host without us, that is told.
    """
    told = ""
    if isinstance(error, HostInterrupted | HostUnreachable) or (
        isinstance(error, HostError) and error.detail.get("unfinished")
    ):
        told = "; ".join(part for part in (error.what, error.next_step) if part)
    data = {"changed": False, "failed": False, "msg": told or "interrupted"}
    return Result("interrupted", data, told)


def skipped(why: str, **data: Any) -> Result:
    """Nothing was done."""
    return Result("skipped", {"skipped": True, "changed": False, "failed": False, **data}, why)


def together(rounds: Sequence[Result]) -> Result:
    """A loop's result: bad if one round was, else changed if one was, else skipped if all were."""
    error = next((one for one in rounds if one.is_bad), None) or next((o for o in rounds if o.error), None)
    statuses = [one.status for one in rounds]
    order: tuple[Status, ...] = ("interrupted", "unreachable", "failed", "changed", "ok")
    status: Status = next((status for status in order if status in statuses), "skipped")
    data: dict[str, Any] = {
        "results": [one.data for one in rounds],
        "changed": any(one.data["changed"] for one in rounds),
        "failed": "failed" in statuses,
        "skipped": status == "skipped",
        "msg": "One or more items failed" if error else "All items completed",
    }
    return replace(
        rounds[-1],
        status=status,
        data=data,
        error=error.error if error else None,
        ignored=bool(error and error.ignored),
        seconds=sum(one.seconds for one in rounds),
        code=next((one.code for one in reversed(rounds) if one.code is not None), None),
        facts={name: value for one in rounds for name, value in one.facts.items()},
        label="",
        notified=tuple(dict.fromkeys(name for one in rounds for name in one.notified)),
    )
