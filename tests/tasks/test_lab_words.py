"""What the lab's commands and ``init`` say where there is little to say; what a project keeps of a lab."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stoker.config import scaffold
from stoker.results.baselines.baseline import Baselines
from stoker.results.records.store import Store
from tests.results import made
from tests.tasks.test_typed import Typist, typist

__all__ = ["typist"]


@pytest.mark.parametrize("command", ["lab.status", "lab.down"])
def test_where_no_lab_is_it_says_how_to_get_one(typist: Typist, command: str) -> None:
    assert typist.type(command) == (0, "there is no lab here: inv lab.up starts one\n", "")


def test_a_lab_has_a_project_to_run(typist: Typist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.py").unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, _, err = typist.type("lab.up", program="stoker")
    assert code == 2
    assert "this is no project" in err
    assert "stoker init" in err
    assert list(Path().iterdir()) == []


def test_down_says_what_stays_of_simulated_servers(typist: Typist, tmp_path: Path) -> None:
    pretended, real = made.good(simulated=True), made.good(1)
    for record in (pretended, real):
        Store(tmp_path / "results").save(record)
        Baselines(tmp_path / "baselines").accept([record], by="me")
    code, out, _ = typist.type("lab.down")
    told = "left in the project, marked as simulated: 1 result and 1 baseline"
    assert (code, out.splitlines()[1:]) == (0, [told])


def test_git_is_offered_baselines_of_real_servers_only(tmp_path: Path) -> None:
    scaffold.lay(tmp_path)
    for record in (made.good(simulated=True), made.good()):
        Baselines(tmp_path / "baselines").accept([record], by="me")
    for root in (tmp_path, Path(__file__).parents[2]):
        git = ["git", "-c", f"core.excludesFile={root}/.gitignore", "-C", str(tmp_path)]
        subprocess.run([*git, "init", "-q"], check=True)
        listed = [*git, "ls-files", "--others", "--exclude-standard", "baselines"]
        seen = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
        assert [name for name in seen if name.endswith(".yml")] == [
            name for name in seen if "--simulated-" not in name and name.endswith(".yml")
        ]
        assert len(seen) == 2, "the folder's own file and the real one"
        (tmp_path / ".gitignore").unlink(missing_ok=True)


@pytest.mark.parametrize(("folder", "told"), [(".", "next: write your"), ("new", "next: cd new, write your")])
def test_init_says_where_to_go_only_where_that_is_elsewhere(
    typist: Typist, tmp_path: Path, folder: str, told: str
) -> None:
    (tmp_path / "tasks.py").unlink()
    code, out, err = typist.type("init", folder, program="stoker")
    assert code == 0, err
    assert out.splitlines()[-1].startswith(told)
