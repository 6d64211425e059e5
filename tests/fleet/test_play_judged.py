"""Playbooks judged by Ansible: the same tasks run, are skipped, fail, are rescued, with the same recap.

What Ansible made of each case is stored in ``tests/cases/playbooks/expected.json``; see the README there.
"""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.fleet.books.recap import Report
from tests.fleet import ansible_plays
from tests.fleet.conftest import Books, typed

CASES = Path(__file__).parent.parent / "cases" / "playbooks"
STORED: dict[str, Any] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
SAMPLE = 8
RUNNER = Path(ansible_plays.__file__)


def tasks_of(report: Report) -> dict[str, list[list[str]]]:
    """What each task came to, host by host, in order; as the judge tells it."""
    found: dict[str, list[list[str]]] = {}
    for play in report.plays:
        for one in play.tasks:
            for host, result in one.results.items():
                status = "ignored" if result.ignored else result.status
                told = one.task.module != "include_tasks" or status not in ("ok", "changed")
                if one.task.module != "meta" and told:
                    found.setdefault(host, []).append([one.task.name, status])
    return found


def recap_of(report: Report) -> dict[str, dict[str, int]]:
    """The recap without zeros, and without hosts that did nothing."""
    counts = {host: {k: n for k, n in part.recap.items() if n} for host, part in report.parts.items()}
    return {host: count for host, count in counts.items() if count}


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yml")))
def test_a_book_means_what_ansible_says_it_means(books: Books, name: str) -> None:
    path, judged = CASES / f"{name}.yml", STORED["outcomes"][name]
    report = books.run_file(path, **typed(ansible_plays.arguments(path), CASES))
    if path.read_text(encoding="utf-8").startswith("# differs: "):
        assert tasks_of(report) != judged["tasks"]  # else the documentation is wrong
        return
    assert tasks_of(report) == judged["tasks"]
    assert recap_of(report) == {host: counts for host, counts in judged["recap"].items() if counts}
    assert (report.exit_code == 0) == judged["well"]


def test_every_outcome_that_is_stored_is_of_a_case() -> None:
    assert sorted(STORED["outcomes"]) == sorted(path.stem for path in CASES.glob("*.yml"))
    assert len(STORED["outcomes"]) >= 60


@pytest.mark.skipif(importlib.util.find_spec("ansible") is None, reason="ansible-core is not installed")
def test_what_is_stored_is_what_ansible_says(tmp_path: Path) -> None:
    """A few cases at a time, others each time: all of them take minutes."""
    names = random.Random().sample(sorted(STORED["outcomes"]), SAMPLE)
    out = tmp_path / "outcomes.json"
    subprocess.run([sys.executable, str(RUNNER), str(CASES), str(out), *names], check=True, timeout=180)
    said = json.loads(out.read_text(encoding="utf-8"))
    if said["ansible-core"].split(".")[:2] != STORED["ansible-core"].split(".")[:2]:
        pytest.skip(f"another Ansible is installed: {said['ansible-core']}")
    assert said["outcomes"] == {name: STORED["outcomes"][name] for name in names}
