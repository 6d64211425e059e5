"""``inv lint`` as a user types it, the hosts' own engines, and the check before a launch."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer

CASES = Path(__file__).parents[1] / "cases" / "lint"


@pytest.fixture
def wrong(tmp_path: Path) -> ProjectFolder:
    """A project with an error, a warning and mistakes in other files."""
    shutil.copytree(CASES / "mistakes-everywhere-at-once", tmp_path / "wrong")
    return ProjectFolder(tmp_path / "wrong")


@pytest.fixture
def story(tmp_path: Path) -> ProjectFolder:
    """A project whose profile has two errors, a warning and an advice."""
    project = ProjectFolder(tmp_path / "project")
    project.hosts({"one": {"stoker_profiles": ["it"]}, "two": {"stoker_profiles": ["it"]}})
    project.write(
        "profiles/it.yml",
        "engine: sglang\nserver: {model: /m, port: 30000, args: {tpp-size: 8}}\n"
        "env:\n  NCCL_BUFFSIZE: 16M\n  NCCL_NTHREADS: 0512\n  NCCL_DEBUG: INFO\n",
    )
    return project


def test_text_is_grouped_by_file_and_ends_with_a_summary(story: ProjectFolder) -> None:
    ended = story.inv("lint")
    assert ended.code == 2, ended.text
    lines = ended.out.splitlines()
    assert lines[0].startswith("profiles/it.yml:2:41: warning: sglang has no argument --tpp-size")
    assert lines[0].endswith("[argument-unknown]")
    assert "    on one, two" in lines and "    → 16777216" in lines
    assert lines[-1] == "2 errors, 1 warning, 1 advice in 1 profile, 2 hosts, no playbooks, no baselines"
    places = [
        tuple(map(int, found)) for found in re.findall(r"^profiles/it.yml:(\d+):(\d+): ", ended.out, re.M)
    ]
    assert places == sorted(places) and len(places) == 4


def test_wrong_settings_are_findings_like_all_others(wrong: ProjectFolder) -> None:
    ended = wrong.inv("lint")
    assert ended.code == 2, ended.text
    assert "invoke.yaml:2:10: error: 'many' is not a whole number  [settings-invalid]" in ended.out
    for file in ("inventory/hosts.yml:3:25", "playbooks/book.yml:3:7", "baselines/b.yml:2:6"):
        assert f"{file}: error: " in ended.out
    assert wrong.inv("hosts").code == 2


def test_json_is_one_document(story: ProjectFolder) -> None:
    ended = story.inv("lint", "--json")
    document = ended.json
    assert (document["command"], document["exit_code"], ended.code) == ("lint", 2, 2)
    assert document["counts"] == {"errors": 2, "warnings": 1, "advices": 1}
    first = document["findings"][0]
    assert (first["file"], first["line"], first["column"]) == ("profiles/it.yml", 2, 41)
    assert first["hosts"] == ["one", "two"] and first["profiles"] == ["it"] and first["reason"]


def test_warnings_and_advices_end_with_0(story: ProjectFolder) -> None:
    story.write("profiles/it.yml", "engine: sglang\nserver: {model: /m, port: 1, args: {tpp-size: 8}}\n")
    ended = story.inv("lint", "--json")
    assert (ended.code, ended.json["counts"]["warnings"]) == (0, 1), ended.text


def check_sarif(log: dict[str, Any]) -> None:
    """What SARIF 2.1.0 demands of the parts that are used."""
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] and re.fullmatch(r"\d+\.\d+\.\d+\S*", driver["semanticVersion"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note") and result["message"]["text"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert not re.match(r"/|\w+:", physical["artifactLocation"]["uri"])
        for number in physical.get("region", {"startLine": 1}).values():
            assert isinstance(number, int) and number >= 1


def test_sarif_holds_rules_levels_and_places(story: ProjectFolder, wrong: ProjectFolder) -> None:
    for project in (story, wrong):
        ended = project.inv("lint", "--format", "sarif")
        assert ended.code == 2
        check_sarif(json.loads(ended.out))


def test_sarif_of_the_story(story: ProjectFolder) -> None:
    (run,) = json.loads(story.inv("lint", "--format", "sarif").out)["runs"]
    assert [(one["ruleId"], one["level"]) for one in run["results"]] == [
        ("argument-unknown", "warning"),
        ("nccl-size-suffix", "error"),
        ("nccl-leading-zero", "error"),
        ("nccl-debug-costs", "note"),
    ]
    physical = run["results"][1]["locations"][0]["physicalLocation"]
    assert physical["region"] == {"startLine": 4, "startColumn": 18}


def test_github_annotations_are_escaped(story: ProjectFolder) -> None:
    story.write(
        "profiles/odd, 100%: name.yml", "engine: [x]\n"
    )  # no name of a profile: left out, like any file that is none
    story.write("playbooks/odd, 100%: book.yml", "- hosts: [one]\n  tasks: [{restrat: {}}]\n")
    ended = story.inv("lint", "--format", "github")
    assert ended.code == 2, ended.text
    first, *others = ended.out.splitlines()
    assert first.startswith("::error file=playbooks/odd%2C 100%25%3A book.yml,line=2,col=")
    kinds = [re.match(r"::(\w+) file=profiles/it\.yml,line=(\d+),col=\d+,title=", line) for line in others]
    assert [found and found.group(1) for found in kinds] == ["warning", "error", "error", "notice"]
    assert all("\n" not in line and "%0A" in line for line in others)


@pytest.mark.parametrize("argv", [("--format", "xml"), ("--format", "sarif", "--json"), ("--profile", "itt")])
def test_wrong_arguments_end_with_2(story: ProjectFolder, argv: tuple[str, ...]) -> None:
    ended = story.inv("lint", *argv)
    assert ended.code == 2 and not ended.out.startswith("profiles")


def test_restart_lists_every_error_before_a_host_is_touched(story: ProjectFolder) -> None:
    ended = story.inv("restart", "--host", "all", "--json")
    assert ended.code == 2, ended.text
    problems = ended.json["error"]["problems"]
    assert [(one["file"], one["line"], one["column"]) for one in problems] == [
        ("profiles/it.yml", 4, 18),
        ("profiles/it.yml", 5, 18),
    ]
    assert "profiles/it.yml:4: NCCL_BUFFSIZE='16M' is read as 16" in ended.err


@pytest.mark.engine
def test_online_the_engine_on_the_host_proves_what_it_takes(
    tmp_path: Path, box: SshServer, llama_server: Path
) -> None:
    project = ProjectFolder(tmp_path / "online")
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "stoker_profiles": ["it"]}
    project.hosts({"here": {**box.variables(), "stoker_profiles": ["it"]}, "away": away})
    project.write(
        "profiles/it.yml",
        "engine: llamacpp\nserver:\n  model: /m\n  port: 8080\n"
        f"  venv: {llama_server.parents[1]}\n  args: {{n-gpu-layer: 9, metrics: true}}\n",
    )
    ended = project.inv("lint", "--online", "--json")
    found = {tuple(one["hosts"]): one["severity"] for one in ended.json["findings"]}
    assert found == {("here",): "error", ("away",): "warning"}, ended.text
    assert ended.code == 2
    (note,) = ended.json["notes"]
    assert note.startswith("away: ") and note.endswith("the stored list was used")


def test_warning_is_told_once_for_all_hosts_and_ends_nothing(story: ProjectFolder) -> None:
    away = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    story.hosts({"one": away, "two": away})
    story.write("profiles/it.yml", "engine: sglang\nserver: {model: /m, port: 30000, args: {tpp-size: 8}}\n")
    ended = story.inv("restart", "--host", "all", "--profile", "it", "--serial", "all", "--json")
    assert ended.code == 4, ended.text
    note = "profiles/it.yml:2:41: sglang has no argument --tpp-size"
    assert ended.err.count(note) == 1
    (told,) = ended.json["warnings"]
    assert told.startswith(note)
    assert "warnings" not in story.inv("stop", "--host", "all", "--profile", "it", "--json").json
