"""What to change in one server to have what another one had."""

from __future__ import annotations

from typing import Any

from stoker.results.explaining.changes import Change, applied, between, told
from stoker.results.records.record import Record
from tests.results.made import TUNING, bad, fingerprint, good, record, subject


def with_args(**args: Any) -> dict[str, Any]:
    return {"engine": "sglang", "server": {"args": args}}


def one(resolved: dict[str, Any], **of_fingerprint: Any) -> Record:
    return record(
        [63.0, 62.9, 63.1], of=subject(resolved=resolved), fingerprint=fingerprint(**of_fingerprint)
    )


def test_what_was_lost_can_be_given_back_and_the_likely_come_first() -> None:
    found = between(bad(), good(), good().resolved)
    assert {change.name: change.value for change in found} == TUNING
    assert [change.likely for change in found] == sorted((change.likely for change in found), reverse=True)


def test_an_argument_that_both_have_is_nothing_to_change() -> None:
    mine, theirs = with_args(**{"tp-size": "8", "chunk": "1"}), with_args(**{"tp-size": "8", "chunk": "2"})
    found = between(one(mine), one(theirs), theirs)
    assert [(change.kind, change.name, change.value) for change in found] == [("args", "chunk", "2")]


def test_an_argument_that_only_one_of_them_has_is_set_or_taken_away() -> None:
    mine, theirs = with_args(mine=True), with_args(theirs=True)
    assert told(between(one(mine), one(theirs), theirs)) == "no --mine, --theirs"


def test_a_name_or_a_place_is_no_tuning() -> None:
    mine, theirs = with_args(port="1", alias="a"), with_args(port="2", alias="b")
    assert between(one(mine), one(theirs), theirs) == ()


def test_a_variable_on_which_the_workers_disagree_cannot_be_given_back() -> None:
    env = {**fingerprint()["env"], "NCCL_PROTO": "Simple"}
    differs = {"NCCL_ALGO": {"1": "Ring", "2": "Tree"}}
    del env["NCCL_ALGO"]
    found = between(one({}, env=env, env_differs=differs), good(), None)
    assert [(change.name, change.value) for change in found] == [("NCCL_PROTO", "LL")]


def test_changes_are_made_in_a_copy_and_none_takes_away() -> None:
    before = {
        "env": {"A": "1", "B": "2"},
        "server": {"args": {"x": "1"}, "inherit": ["A", "C"]},
    }
    changes = (Change("env", "A", None), Change("env", "D", "4"), Change("args", "x", "2"))
    assert applied(before, changes) == {
        "env": {"B": "2", "D": "4"},
        "server": {"args": {"x": "2"}, "inherit": ["C"]},
    }
    assert before["env"] == {"A": "1", "B": "2"}


def test_a_change_is_shown_as_it_is_typed() -> None:
    changes = (Change("env", "A", "a b"), Change("args", "x", True), Change("args", "y", "1"))
    assert told(changes) == "A='a b', --x, --y 1"
