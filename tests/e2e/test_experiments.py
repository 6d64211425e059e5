"""Questions that restarts answer, asked of a real engine over a real sshd: verify, bisect, sweep."""

from __future__ import annotations

import os
import signal

import pytest
import yaml

from tests.e2e.project import ProjectFolder

pytestmark = [pytest.mark.engine, pytest.mark.alone]

# Of its three variables one makes the pace.
TUNED = """\
extends: plain
env: {LLAMA_ARG_SPEC_TYPE: ngram-simple, LLAMA_ARG_CACHE_RAM: 64, LLAMA_ARG_N_PARALLEL: 3}
"""
AT = ("--host", "box")


@pytest.fixture
def lost(project: ProjectFolder) -> ProjectFolder:
    """What was measured with the tuned profile is the baseline; now the plain one runs, and was measured."""
    plain = (project.root / "profiles/plain.yml").read_text()
    project.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 3, tokens: 80}"))
    project.write("profiles/tuned.yml", TUNED)
    for argv in (
        ("restart", "--profile", "tuned"),
        ("bench",),
        ("baseline",),
        ("restart", "--profile", "plain"),
    ):
        ended = project.inv(argv[0], *AT, *argv[1:])
        assert ended.code == 0, ended.text
    assert project.inv("bench", *AT).code == 5
    return project


def runs_now(project: ProjectFolder) -> str:
    servers = project.inv("status", *AT, "--json").json["hosts"]["box"]["results"][0]["servers"]
    return str([server["launch"]["profile"] for server in servers if server["launch"] and server["alive"]])


@pytest.mark.timeout(240)
def test_a_cause_is_verified_by_restarts_through_an_interruption(lost: ProjectFolder) -> None:
    planned = lost.inv("explain", *AT, "--verify", "--check")
    assert planned.code == 0, planned.text
    assert "5 restarts" in planned.text
    assert "A B B A" in planned.text

    begun = lost.start("explain", *AT, "--verify")
    assert begun.stdout is not None
    for line in begun.stdout:
        if "2/4" in line and "tok/s" in line:
            break
    begun.send_signal(signal.SIGINT)
    out, err = begun.communicate(timeout=60)
    assert begun.returncode == 130, out + err

    ended = lost.inv("explain", *AT, "--verify", "--json", timeout_s=120)
    assert ended.code == 0, ended.text
    assert "going on with the 2 launches" in ended.err
    found = ended.json["hosts"]["box"]["results"][0]
    assert found["verdict"] == "confirmed"
    assert found["restored"] > found["without"]
    assert len(found["launches"]) == 4
    assert runs_now(lost) == "['plain']"
    # Its own launches are no state of the host: the run to explain is still the one that was slow.
    assert lost.inv("explain", *AT, "--json").json["hosts"]["box"]["results"][0]["causes"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_variable_that_makes_the_loss_is_found_among_three(lost: ProjectFolder) -> None:
    planned = lost.inv("bisect", *AT, "--check")
    assert planned.code == 0, planned.text
    assert "3 differences" in planned.text
    ended = lost.inv("bisect", *AT, "--calibrate", "2", "--json", timeout_s=240)
    assert ended.code == 0, ended.text
    found = ended.json["hosts"]["box"]["results"][0]
    assert [one["name"] for one in found["smallest"]] == ["LLAMA_ARG_SPEC_TYPE"]
    assert found["loss"] > 0.1
    assert runs_now(lost) == "['plain']"


@pytest.mark.timeout(240)
@pytest.mark.long
def test_a_sweep_ranks_what_serves_names_what_does_not_and_writes_the_best(project: ProjectFolder) -> None:
    plain = (project.root / "profiles/plain.yml").read_text()
    project.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 3, tokens: 80}"))
    argv = (
        "sweep",
        *AT,
        "--profile",
        "plain",
        "--set",
        "LLAMA_ARG_SPEC_TYPE=ngram-simple,nonsense",
        "--write",
        "best",
    )
    ended = project.inv(*argv, "--json", timeout_s=200)
    assert ended.code == 0, ended.text
    found = ended.json["hosts"]["box"]["results"][0]
    assert [row["name"] for row in found["rows"]] == ["LLAMA_ARG_SPEC_TYPE=ngram-simple", "as it is"]
    assert list(found["failed"]) == ["LLAMA_ARG_SPEC_TYPE=nonsense"]
    wrote = yaml.safe_load((project.root / "profiles/best.yml").read_text())
    assert wrote == {"extends": "plain", "env": {"LLAMA_ARG_SPEC_TYPE": "ngram-simple"}}
    assert runs_now(project) == "[]", "nothing ran before, so nothing runs after"
    again = project.inv(*argv)
    assert again.code == 2, again.text
    assert "there is such a profile" in again.text


@pytest.mark.long
@pytest.mark.timeout(240)
def test_speculation_is_weighed_at_each_batch_size_and_the_host_put_back(project: ProjectFolder) -> None:
    plain = (project.root / "profiles/plain.yml").read_text()
    project.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 3, tokens: 80}"))
    project.write("profiles/tuned.yml", TUNED)
    refused = project.inv("spec", *AT, "--profile", "plain")
    assert refused.code == 2, refused.text
    assert "does not decode speculatively" in refused.text

    ended = project.inv("spec", *AT, "--profile", "tuned", "--concurrency", "1,2", "--json", timeout_s=200)
    assert ended.code == 0, ended.text
    rows = ended.json["hosts"]["box"]["results"][0]["rows"]
    assert [(row["setting"], row["batch"]) for row in rows] == [("as it is", 1), ("as it is", 2)]
    alone = rows[0]
    assert alone["word"] in ("pays", "costs", "no difference"), ended.text
    assert alone["acceptance"]["source"] == "answers"
    assert alone["acceptance"]["length"] > 1.2
    assert alone["speedup"] == pytest.approx(alone["acceptance"]["length"] / alone["break_even"])
    assert runs_now(project) == "[]", "nothing ran before, so nothing runs after"


@pytest.mark.long
@pytest.mark.timeout(240)
def test_what_ran_before_a_killed_experiment_runs_again_after_the_next_one(project: ProjectFolder) -> None:
    """What runs then is the killed one's trial, and nobody's server."""
    plain = (project.root / "profiles/plain.yml").read_text()
    project.write("profiles/plain.yml", plain.replace("{runs: 4, tokens: 128}", "{runs: 2, tokens: 16}"))
    assert project.inv("restart", *AT, "--profile", "plain").code == 0
    argv = ("sweep", *AT, "--profile", "plain", "--set")
    begun = project.start(*argv, "LLAMA_ARG_SPEC_TYPE=ngram-simple,ngram-mod")
    assert begun.stdout is not None
    for line in begun.stdout:
        if "2/3" in line and "tok/s" in line:
            break
    os.killpg(begun.pid, signal.SIGKILL)
    begun.communicate()
    ended = project.inv(*argv, "LLAMA_ARG_CACHE_RAM=64", timeout_s=120)
    assert ended.code == 0, ended.text
    assert runs_now(project) == "['plain']", ended.text
