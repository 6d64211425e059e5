"""Where variables were set is found on hosts and here, shown without secrets, and made into a profile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from tests.e2e.project import ProjectFolder

NOTES = Path(__file__).parents[1] / "cases/search/notes"


def test_the_note_of_the_story_is_found_here_and_becomes_a_profile(project: ProjectFolder) -> None:
    shutil.copytree(NOTES, project.root / "notes")
    shown = project.inv("capture", "--search", "NCCL_*", "--notes", "notes", env={"COLUMNS": "80"})
    assert shown.code == 0, shown.text
    assert "tuning.md:4,9,16" in shown.out.replace("\n", "").replace(" ", "")
    search = (
        "capture",
        "--search",
        "NCCL_P*",
        "--search",
        "NCCL_BUFFSIZE",
        "--search",
        "HF_TOKEN",
        "--notes",
        "notes",
    )
    ended = project.inv(*search, "--name", "found", "--extends", "plain", "--json")
    assert ended.code == 0, ended.text
    assert {one["value"] for one in ended.json["hosts"]["here"]["results"][0]["findings"]} == {
        *("LL", "SYS", "16777216", "***"),
    }
    text = (project.root / "profiles/found.yml").read_text()
    assert "hf_abc" not in text + ended.text
    found = Library(project.root / "profiles", project.root).resolve("found", Host("box", {}, (), ""))
    assert {n: v for n, v in found.env.items() if n != "HF_TOKEN"} == {
        "NCCL_PROTO": "LL",
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_BUFFSIZE": "16777216",
    }
    again = project.inv(*search, "--name", "found")
    assert again.code == 2
    assert "--force" in again.err


def test_of_several_values_the_newest_counts_and_the_others_are_said(
    project: ProjectFolder, home: Path
) -> None:
    (home / ".bashrc").write_text("export MARK_X=old\n# export MARK_X=off\n")
    os.utime(home / ".bashrc", (1_600_000_000, 1_600_000_000))
    (home / "notes").mkdir()
    (home / "notes/x.md").write_text("| MARK_X | new |\n|---|---|\n| MARK_Y | $HOME |\n")
    argv = ("capture", "--search", "MARK_*", "--host", "box", "--folder", "~/notes", "--name", "found")
    ended = project.inv(*argv, "--check", "--json")
    assert ended.code == 0, ended.text
    text = ended.json["profile"]["text"]
    assert not (project.root / "profiles/found.yml").exists()
    assert "  MARK_X: new\n" in text
    assert f"not taken: old, box:{home}/.bashrc:1 (export, 2020-09-13)" in text.replace("\n  #  ", "")
    assert "MARK_Y:" not in text.partition("\nenv:")[2]
    assert "MARK_Y is left out: its value is what a shell makes of it" in text


def test_what_cannot_be_searched_for_is_a_mistake(project: ProjectFolder) -> None:
    for argv, word in (
        (("--search", "a b", "--host", "box"), "no name of a variable"),
        (("--search", "X", "--host", "box", "--folder", "notes"), "no folder there"),
        (("--search", "X", "--host", "box", "--port", "1"), "files, not at a server"),
        (("--search", "X", "--host", "box", "--extends", "plian"), "plain"),
        (("--host", "box", "--name", "x", "--history"), "belongs to --search"),
        (("--host", "box"), "--name is missing"),
        (("--name", "x"), "--host is missing"),
        (("--host", "box", "--name", "../x"), "no name"),
        (("--host", "box", "--name", "plain"), "already"),
    ):
        ended = project.inv("capture", *argv)
        assert ended.code == 2, ended.text
        assert word in ended.err, ended.text


def test_where_nothing_is_found_it_says_where_else_to_look(project: ProjectFolder, home: Path) -> None:
    (home / ".bashrc").write_text("export MARK_X=old\n")
    ended = project.inv("capture", "--search", "MARK_Y", "--search", "MARK_Z_*", "--host", "box")
    assert ended.code == 0, ended.text
    assert "nothing sets MARK_Y, MARK_Z_* in " in ended.out
    assert "--history looks into" in ended.out
    assert "next: inv capture --host box --name PROFILE reads a server that runs" in ended.out
