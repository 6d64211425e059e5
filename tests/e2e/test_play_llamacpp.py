"""The shipped runbooks on a real engine behind a real sshd."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.e2e.project import Ended, ProjectFolder

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


@pytest.fixture
def shipped(project: ProjectFolder) -> ProjectFolder:
    """A project with the books that are shipped."""
    shutil.copytree(BOOKS, project.root / "playbooks")
    return project


def test_runbooks_restart_prove_measure_accept_and_judge(shipped: ProjectFolder) -> None:
    project = shipped
    checked = project.inv("play", "restart-bench-compare", *GIVEN, "--check", "--json")
    assert checked.code == 0, checked.text
    assert checked.json["recap"]["box"]["skipped"] == 5  # bench, and what looks at its result

    first = project.inv("play", "restart-bench-compare", *GIVEN, "--json")
    assert first.code == 0, first.text
    restart, bench, compare, explain, verdict, unjudged = first.json["plays"][0]["tasks"]
    assert restart["hosts"]["box"]["command"] == "inv restart --host box --profile tuned"
    assert restart["hosts"]["box"]["status"] == "changed"
    assert restart["hosts"]["box"]["result"]["proof"]["verdict"] == "in-force"
    assert bench["hosts"]["box"]["command"] == "inv bench --host box --profile tuned --runs 2 --tokens 16"
    assert bench["hosts"]["box"]["result"]["verdict"] == "no-baseline"
    assert compare["hosts"]["box"]["status"] == explain["hosts"]["box"]["status"] == "skipped"
    assert verdict["hosts"]["box"]["status"] == "skipped", "nothing was compared, so nothing passes"
    assert unjudged["hosts"]["box"]["status"] == "ok"

    after = project.inv("play", "after-reboot", *GIVEN, "--skip-tags", "host", "--json")
    assert after.code == 0, after.text
    assert after.json["plays"][0]["tasks"][0]["hosts"]["box"]["status"] == "ok"  # it ran already

    project.write("playbooks/judge.yml", JUDGE)
    judged = project.inv("play", "judge", "--json")
    assert judged.code in (0, 5), judged.text  # 5: a busy machine made the last run slower
    assert judged.json["recap"]["box"]["failed"] == 0, judged.text


AT = ("--host", "box")


def runs_now(project: ProjectFolder) -> list[str]:
    servers = project.inv("status", *AT, "--json").json["hosts"]["box"]["results"][0]["servers"]
    return [server["launch"]["profile"] for server in servers if server["launch"] and server["alive"]]


def steps(ended: Ended) -> dict[str, str]:
    """What each step of a book came to on the host."""
    tasks = [task for play in ended.json["plays"] for task in play["tasks"]]
    return {task["name"]: one["status"] for task in tasks for one in task["hosts"].values()}


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(240)
def test_a_roll_puts_back_what_ran_before_where_the_new_profile_is_slower(shipped: ProjectFolder) -> None:
    plain = (shipped.root / "profiles/plain.yml").read_text()
    shipped.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 3, tokens: 160}"))
    for argv in (("restart", *AT, "--profile", "tuned"), ("bench", *AT), ("baseline", *AT)):
        ended = shipped.inv(*argv)
        assert ended.code == 0, ended.text

    given = ("--extra-var", "target=box", "--extra-var", "profile=plain", "--json")
    rolled = shipped.inv("play", "rolling-restart", *given)
    found = steps(rolled)
    assert rolled.code == 3, rolled.text
    assert found["It is as fast as it should be"] == "failed"
    assert found["Put back what ran before"] == "changed", rolled.text
    assert rolled.json["recap"]["box"]["rescued"] == 1
    assert runs_now(shipped) == ["tuned"]

    compared = shipped.inv(
        *("play", "compare-profiles", "--extra-var", "target=box", "--json"),
        *("--extra-var", "{a: plain, b: tuned, runs: 2, tokens: 16}"),
    )
    assert compared.code in (0, 5), (
        compared.text
    )  # 5: the last one measured was slower than what was accepted
    assert steps(compared)["What came of it"] == "ok", compared.text
    assert [task["name"] for task in compared.json["plays"][0]["tasks"]].count("Measure plain") == 2
    assert runs_now(shipped) == ["tuned"]


@pytest.mark.timeout(120)
def test_every_night_what_runs_is_measured_and_reported(shipped: ProjectFolder) -> None:
    restarted = shipped.inv("restart", *AT, "--profile", "tuned")
    assert restarted.code == 0, restarted.text
    night = shipped.inv(
        *("play", "nightly", "--json", "--extra-var", "{runs: 2, tokens: 16}"),
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert night.code == 0, night.text
    assert steps(night)["Measure what runs"] == "ok"
    assert (shipped.root / "results" / "report.html").stat().st_size > 0
