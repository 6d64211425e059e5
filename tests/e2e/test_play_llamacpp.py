"""The shipped runbooks on a real engine behind a real sshd."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder

pytestmark = pytest.mark.engine

BOOKS = Path(__file__).parent.parent.parent / "playbooks"
GIVEN = ("--extra-var", "target=box", "--extra-var", "profile=tuned", "--extra-var", "{runs: 2, tokens: 16}")
JUDGE = """\
- hosts: box
  tasks:
    - baseline: {why: the first one}
      register: accepted
    - compare: {a: baseline, b: "{{ accepted.runs[0] }}"}
      register: compared
    - assert: {that: compared.verdict != 'regressed'}
    - bench: {runs: 2, tokens: 16, max_loss: 0.99}
      register: again
    - assert:
        that:
          - again.tok_s > 0
          - again.verdict != 'no-baseline'
          - again.profile == 'tuned'
    - stop: {profile: tuned}
      register: stopped
    - assert: {that: stopped is changed}
    - status:
      register: left
    - assert:
        that: left.servers | selectattr('slot', 'equalto', 'tiny') | selectattr('alive') | list == []
"""


def test_runbooks_restart_prove_measure_accept_and_judge(project: ProjectFolder) -> None:
    for book in BOOKS.glob("*.yml"):
        shutil.copy(book, project.write(f"playbooks/{book.name}", ""))
    checked = project.inv("play", "restart-bench-compare", *GIVEN, "--check", "--json")
    assert checked.code == 0, checked.text
    assert checked.json["recap"]["box"]["skipped"] == 4  # bench, and what looks at its result

    first = project.inv("play", "restart-bench-compare", *GIVEN, "--json")
    assert first.code == 0, first.text
    restart, bench, compare, explain, verdict = first.json["plays"][0]["tasks"]
    assert restart["hosts"]["box"]["command"] == "inv restart --host box --profile tuned"
    assert restart["hosts"]["box"]["status"] == "changed"
    assert restart["hosts"]["box"]["result"]["proof"]["verdict"] == "in-force"
    assert bench["hosts"]["box"]["command"] == "inv bench --host box --profile tuned --runs 2 --tokens 16"
    assert bench["hosts"]["box"]["result"]["verdict"] == "no-baseline"
    assert compare["hosts"]["box"]["status"] == explain["hosts"]["box"]["status"] == "skipped"
    assert verdict["hosts"]["box"]["status"] == "ok"

    after = project.inv("play", "after-reboot", *GIVEN, "--skip-tags", "host", "--json")
    assert after.code == 0, after.text
    assert after.json["plays"][0]["tasks"][0]["hosts"]["box"]["status"] == "ok"  # it ran already

    project.write("playbooks/judge.yml", JUDGE)
    judged = project.inv("play", "judge", "--json")
    assert judged.code in (0, 5), judged.text  # 5: a busy machine made the last run slower
    assert judged.json["recap"]["box"]["failed"] == 0, judged.text
