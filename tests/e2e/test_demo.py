"""The demo, and what the README says of it."""

from __future__ import annotations

import re
import time
from importlib import import_module
from pathlib import Path

import pytest

from stoker.tasks import lab, names, reference
from tests.e2e.project import ProjectFolder

ROOT = Path(__file__).parents[2]


@pytest.mark.alone
@pytest.mark.timeout(180)
def test_the_demo_tells_the_story_in_time(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "project")
    begin = time.monotonic()
    ended = folder.inv("demo", timeout_s=150)
    assert ended.code == 0, ended.text
    assert time.monotonic() - begin < 90, ended.text
    for word in (
        "6 variables in force in 8 of 8 workers",
        "REGRESSED",
        "the host was restarted in between",
        "OK",
    ):
        assert word in ended.out, ended.text
    likely = re.findall(r"likely +(\S+) is gone", ended.out.split("inv explain --host node174\n")[-1])
    assert sorted(set(likely)) == [
        "NCCL_ALGO",
        "NCCL_BUFFSIZE",
        "NCCL_MAX_NCHANNELS",
        "NCCL_NTHREADS",
        "NCCL_P2P_LEVEL",
        "NCCL_PROTO",
    ]
    assert not _of_the_lab(tmp_path), "the demo left processes behind"


@pytest.mark.alone
@pytest.mark.engine
@pytest.mark.timeout(180)
@pytest.mark.long
def test_the_demo_tells_a_true_story_with_a_real_engine(tmp_path: Path) -> None:
    ended = ProjectFolder(tmp_path / "project").inv("demo", "--engine", "llamacpp", timeout_s=150)
    assert ended.code == 0, ended.text
    assert "REGRESSED" in ended.out, ended.text
    explained = ended.out.split("inv explain --host node174\n")[-1]
    assert re.findall(r"likely +(\S+) is gone", explained) == ["LLAMA_ARG_SPEC_TYPE"]
    assert not re.findall(r"unlikely +argument", explained), "what differs at each start is no cause"
    assert not _of_the_lab(tmp_path), "the demo left processes behind"


def test_the_pages_made_from_the_code_are_current() -> None:
    for name, text in reference.pages().items():
        assert (ROOT / "docs" / name).read_text() == text, f"docs/{name}: run inv dev.docs"


def test_every_command_that_the_readme_shows_exists_with_its_flags() -> None:
    tasks = {
        **{
            task.name: task
            for module in names.SHELF
            for task in import_module(f"stoker.tasks.{module}").COMMANDS
        },
        **{f"lab.{task.name}": task for task in lab.COMMANDS},
    }
    text = (ROOT / "README.md").read_text()
    shown = re.findall(r"^inv (\S+)(.*?)(?:#.*)?$", text, re.M)
    assert len(shown) >= 4
    for name, rest in shown:
        flags = {flag.spelled for flag in tasks[name].flags}
        assert set(re.findall(r"--[a-z-]+", rest)) <= flags, f"inv {name}{rest}"
    named = {
        name
        for cell in re.findall(r"^\| (`inv .*?) \|", text, re.M)
        for name in re.findall(r"`(?:inv )?([\w.-]+)", cell)
    }
    assert named <= set(tasks), named - set(tasks)
    missing = {name for name in tasks if name not in named}
    assert not missing, f"the README's table does not name {missing}"


def test_the_profile_in_the_readme_is_the_one_in_the_project() -> None:
    text = (ROOT / "README.md").read_text()
    block = next(b for b in re.findall(r"```yaml\n(.*?)```", text, re.S) if "nccl-tuned.yml" in b)
    wanted = block.split("\n", 1)[1].strip()
    there = (ROOT / "profiles/nccl-tuned.yml").read_text()
    assert wanted.split("env:")[1].split() == there.split("env:")[1].split()


def _of_the_lab(folder: Path) -> list[str]:
    """Processes whose command line or working folder lies in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(entry.name)
    return found
