"""A loss is confirmed, and a verdict made sure, by launches in turn: a real engine over a real sshd."""

from __future__ import annotations

import re

import pytest

from tests.e2e.project import ProjectFolder

pytestmark = [pytest.mark.engine, pytest.mark.alone]

AT = ("--host", "box")


@pytest.fixture
def lost(project: ProjectFolder) -> ProjectFolder:
    """What was measured with the tuned profile is the baseline; now the plain one runs."""
    plain = (project.root / "profiles/plain.yml").read_text()
    project.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 3, tokens: 160}"))
    steps = (("restart", "--profile", "tuned"), ("bench",), ("baseline",), ("restart", "--profile", "plain"))
    for argv in steps:
        ended = project.inv(argv[0], *AT, *argv[1:])
        assert ended.code == 0, ended.text
    return project


def launches(project: ProjectFolder) -> list[tuple[str, str]]:
    servers = project.inv("status", *AT, "--json").json["hosts"]["box"]["results"][0]["servers"]
    return [(s["launch"]["profile"], s["launch"]["launch_id"]) for s in servers if s["launch"] and s["alive"]]


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_loss_is_confirmed_by_one_pair_and_the_host_runs_what_ran(lost: ProjectFolder) -> None:
    before = launches(lost)
    refused = lost.inv("bench", "--confirm")
    assert refused.code == 2, refused.text
    assert launches(lost) == before, "without --host nothing is restarted"
    ended = lost.inv("bench", *AT, "--confirm", "--json", timeout_s=120)
    found = ended.json["hosts"]["box"]["results"][0]
    # On a machine with other work the runs may spread too much for a word, whatever the loss.
    assert (found["verdict"], ended.code) in (("regressed", 5), ("unstable", 0)), ended.text
    # What was accepted does not count again where it is slower now, too.
    assert re.match(r"2 launches × 3 runs against [12] × 3; loss ", found["line"]), found["line"]
    assert [one["setting"] for one in found["settled"]["launches"]] == ["what was accepted", "what runs"]
    assert bool(found["causes"]) == (found["verdict"] == "regressed")
    assert [profile for profile, _ in launches(lost)] == ["plain"]
    shown = lost.inv("show", found["run_id"], "--json").json["run"]
    assert shown["verdict"]["line"] == found["line"], "the record has the verdict that was confirmed"

    planned = lost.inv(
        "bench", *AT, "--until-sure", "--run", found["run_id"], "--max-launches", "3", "--check"
    )
    assert planned.code == 0, planned.text
    assert "at most 2 pairs of A: what was accepted, then B: what runs" in planned.text
    assert "restarts" in planned.text


@pytest.mark.long
@pytest.mark.timeout(240)
def test_where_the_setting_is_the_accepted_one_only_that_is_launched(lost: ProjectFolder) -> None:
    assert lost.inv("restart", *AT, "--profile", "tuned").code == 0
    ended = lost.inv("bench", *AT, "--until-sure", "--max-launches", "2", "--json", timeout_s=120)
    assert ended.code in (0, 5), ended.text
    found = ended.json["hosts"]["box"]["results"][0]
    assert [one["setting"] for one in found["settled"]["launches"]] == ["what runs"]
    assert found["settled"]["only"] == "it is what was accepted"
    assert "2 launches × 3 runs against 1 × 3" in found["line"]
    # A loss that is none is not confirmed: nothing is launched for it.
    if found["verdict"] != "regressed":
        alone = lost.inv("bench", *AT, "--confirm", "--run", found["run_id"], "--json")
        assert "settled" not in alone.json["hosts"]["box"]["results"][0]


@pytest.mark.timeout(120)
def test_baselines_are_listed_and_retired_for_a_reason(lost: ProjectFolder) -> None:
    (one,) = lost.inv("baseline", "--list", "--json").json["baselines"]
    assert one["key"]["host"] == "box"
    assert one["launches"] == 1
    assert lost.inv("baseline", "--retire", "box").code == 2
    ended = lost.inv("baseline", "--retire", "box", "--why", "another driver", "--json")
    assert ended.code == 0, ended.text
    assert (lost.root / ended.json["retired"]["to"]).read_text().startswith("# Retired on ")
    assert lost.inv("baseline", "--list", "--json").json["baselines"] == []
    assert lost.inv("results", "--verdict", "no-baseline", "--json").json["results"]
    assert lost.inv("results", "--verdict", "regressed", "--json").json["results"] == []
    wrong = lost.inv("results", "--verdict", "regresed")
    assert wrong.code == 2
    assert "regressed" in wrong.text
