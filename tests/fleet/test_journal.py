"""An experiment's journal: what was measured is not measured again, and damage is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.fleet.experiments.journal import Journal, Measured

QUESTION = {"kind": "verify", "run": "r1"}


def launch(setting: str, pace: float = 90.0) -> Measured:
    return Measured(setting, 1.0, (pace, pace + 1), "run", 2.0)


def begun(folder: Path, *settings: str) -> Journal:
    journal = Journal(folder, QUESTION)
    journal.begin([{"slot": "kimi"}])
    for setting in settings:
        journal.add(launch(setting))
    return journal


def test_an_unfinished_one_is_gone_on_with_in_its_order(tmp_path: Path) -> None:
    begun(tmp_path, "a", "b")
    again = Journal(tmp_path, QUESTION)
    assert again.before == [{"slot": "kimi"}]
    assert again.pending == 2
    assert again.recall("a") == launch("a")
    assert again.recall("c") is None, "the order is another one now, so what follows is worth nothing"
    assert again.pending == 0
    again.add(launch("c"))
    assert [line.count("setting") for line in again.path.read_text().splitlines()] == [0, 1, 1], "b is gone"


def test_what_was_dropped_stays_dropped(tmp_path: Path) -> None:
    """Else a third try would take up launches out of turn."""
    begun(tmp_path, "a", "b")
    again = Journal(tmp_path, QUESTION)
    assert again.recall("c") is None
    again.add(launch("c"))
    third = Journal(tmp_path, QUESTION)
    assert third.recall("c") == launch("c")
    assert third.pending == 0


@pytest.mark.parametrize("anew", [False, True])
def test_a_finished_one_and_one_to_do_anew_begin_again(tmp_path: Path, anew: bool) -> None:
    journal = begun(tmp_path, "a")
    if not anew:
        journal.end()
    again = Journal(tmp_path, QUESTION, anew=anew)
    assert again.before is None
    assert again.recall("a") is None


def test_another_question_has_another_journal(tmp_path: Path) -> None:
    begun(tmp_path, "a")
    assert Journal(tmp_path, {**QUESTION, "run": "r2"}).before is None


def test_a_line_cut_off_at_the_end_costs_that_launch_only(tmp_path: Path) -> None:
    journal = begun(tmp_path, "a", "b")
    text = journal.path.read_text()
    journal.path.write_text(text[:-20])
    again = Journal(tmp_path, QUESTION)
    assert again.pending == 1


@pytest.mark.parametrize("damage", ["{}\n", "[1]\n", '{"question": 5}\n{"end": true', "\x00\n\n"])
def test_damage_is_told_or_measured_anew_and_never_a_fault(tmp_path: Path, damage: str) -> None:
    journal = begun(tmp_path, "a")
    journal.path.write_text(journal.path.read_text().splitlines()[0] + "\n" + damage + "{}\n")
    try:
        assert Journal(tmp_path, QUESTION).pending == 0
    except InputError as error:
        assert "--anew" in error.next_step
