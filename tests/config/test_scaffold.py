"""``stoker init``, and the repository's own root, are projects in which everything fits together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from stoker.config import scaffold, settings
from stoker.config.books import playbook
from stoker.config.inventories import inventory
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from stoker.errors import InputError
from stoker.fleet.books import verbs
from stoker.plan import LaunchPlan, build

ROOT = Path(__file__).parents[2]
STORY = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}


@pytest.fixture(params=["the root", "a new one"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "the root":
        return ROOT
    scaffold.lay(tmp_path / "new")
    return tmp_path / "new"


def hosts(project: Path) -> dict[str, Host]:
    return dict(inventory.load([project / "inventory"], root=project).hosts)


def plan(project: Path, name: str, host: Host | None = None) -> LaunchPlan:
    host = host or hosts(project)["node174"]
    profile = Library(project / "profiles", project).resolve(name, host)
    return build(host, name, profile, secrets=None, templates=())


def test_inventory_has_the_storys_host(project: Path) -> None:
    host = hosts(project)["node174"]
    assert host.groups == ("gpu",)
    assert (host.vars["ansible_host"], host.vars["ansible_user"]) == ("10.1.230.174", "root")
    assert host.vars["stoker_profiles"] == ["nccl-tuned"]


def test_every_profile_gives_a_plan_on_it(project: Path) -> None:
    names = Library(project / "profiles", project).names()
    assert {"kimi-k25", "nccl-tuned"} <= set(names)
    assert all(plan(project, name).script.startswith("#!/bin/sh\n") for name in names)


def test_tuned_profile_is_the_plain_one_and_the_six_variables(project: Path) -> None:
    plain, tuned = plan(project, "kimi-k25"), plan(project, "nccl-tuned")
    assert (plain.env, tuned.env) == ({}, STORY)
    assert (plain.argv, plain.slot, plain.port) == (tuned.argv, tuned.slot, tuned.port)
    assert tuned.argv == (
        *("/opt/sglang/bin/python", "-m", "sglang.launch_server", "--model-path", "/srv/models/Kimi-K2.5"),
        *("--host", "127.0.0.1", "--port", "30000", "--tp-size", "8", "--trust-remote-code"),
        "--enable-metrics",
    )


def test_profiles_work_on_any_host_that_has_the_variables(project: Path) -> None:
    lab = Host("node175", {"models": "/h/models", "sglang_venv": "/h/v", "stoker_bind": "127.0.0.9"}, (), "")
    got = plan(project, "nccl-tuned", lab)
    assert (got.model_path, got.python, got.bind) == ("/h/models/Kimi-K2.5", "/h/v/bin/python", "127.0.0.9")


def test_playbooks_are_right(project: Path) -> None:
    books = list((project / "playbooks").glob("*.yml"))
    assert books
    for file in books:
        assert playbook.load(file, verbs.modules()).plays


def test_a_new_project_has_the_runbooks_that_are_shipped(project: Path) -> None:
    """Whoever installs the package has no clone of the repository; both have the same books."""
    root = Path(__file__).parents[2]
    for name in (
        *("playbooks/after-reboot.yml", "playbooks/compare-profiles.yml", "playbooks/eagle3-break-even.yml"),
        *("playbooks/nightly.yml", "playbooks/rolling-restart.yml"),
        *("playbooks/steps/launch-and-measure.yml", "profiles/kimi-k25-eagle3.yml"),
    ):
        assert (project / name).read_bytes() == (root / name).read_bytes(), name


def test_settings_file_shows_the_defaults(project: Path) -> None:
    text = (project / "invoke.yaml").read_text()
    shown = yaml.safe_load(re.sub(r"(?m)^# (?=stoker:|  )", "", text))
    assert shown["tasks"] == {"dedupe": False}
    assert settings.load(project, shown["stoker"]) == settings.Settings(root=project)
    assert set(shown["stoker"]) == set(vars(settings.Settings(root=project))) - {"root"}


def test_speculating_profile_adds_arguments_to_the_tuned_one() -> None:
    tuned, speculating = plan(ROOT, "nccl-tuned"), plan(ROOT, "kimi-k25-eagle3")
    assert (speculating.env, speculating.slot) == (STORY, tuned.slot)
    assert speculating.argv[: len(tuned.argv)] == tuned.argv
    assert speculating.argv[len(tuned.argv) :] == (
        *("--speculative-algorithm", "EAGLE3"),
        *("--speculative-draft-model-path", "/srv/models/Kimi-K2.5-Eagle3"),
        *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", "4"),
    )


@pytest.mark.parametrize("name", ["profiles/kimi-k25.yml", "profiles/nccl-tuned.yml", "invoke.yaml"])
def test_new_project_has_what_the_root_has(tmp_path: Path, name: str) -> None:
    scaffold.lay(tmp_path)
    assert (tmp_path / name).read_text() == (ROOT / name).read_text()


def test_commands_are_mounted_in_a_new_project(tmp_path: Path) -> None:
    scaffold.lay(tmp_path)
    listing = subprocess.run(
        [sys.executable, "-m", "invoke", "--list"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert listing.returncode == 0, listing.stderr
    assert "restart" in listing.stdout


@pytest.mark.parametrize("base", ["the root", "a new one"])
def test_each_file_names_a_schema_that_is_there(tmp_path: Path, base: str) -> None:
    project = ROOT
    if base == "a new one":
        scaffold.lay(tmp_path)
        project = tmp_path
    files = [
        *project.glob("profiles/*.yml"),
        *project.glob("playbooks/*.yml"),
        *project.glob("inventory/*.yml"),
    ]
    files += [*project.glob("inventory/*_vars/*.yml"), project / "invoke.yaml"]
    for file in files:
        named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", file.read_text())
        assert named, file
        assert (file.parent / named[1]).is_file(), file


def test_schemas_are_laid_anew_and_nothing_else_is_touched(tmp_path: Path) -> None:
    scaffold.lay(tmp_path)
    (tmp_path / "schemas" / "profile.json").write_text("old")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made = scaffold.lay_schemas(tmp_path)
    assert {path.name for path in made} == {path.name for path in (ROOT / "stoker" / "schemas").iterdir()}
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path.name for path in after if before.get(path) != after[path]] == ["profile.json"]


def test_lay_tells_what_it_wrote(tmp_path: Path) -> None:
    made = scaffold.lay(tmp_path / "a" / "b")
    assert set(made) == {path for path in (tmp_path / "a" / "b").rglob("*") if path.is_file()}
    names = {str(path.relative_to(tmp_path / "a" / "b")) for path in made}
    assert {"tasks.py", "invoke.yaml", ".gitignore", "README.md", "inventory/hosts.yml"} <= names
    assert "baselines/.gitkeep" in names


def test_lay_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.yml").write_text("mine")
    scaffold.lay(tmp_path)
    assert (tmp_path / "profiles" / "mine.yml").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link", "file in place of a folder"])
def test_lay_overwrites_nothing_and_lists_what_is_there(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("profiles" if kind == "file in place of a folder" else "invoke.yaml")
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    else:
        path.write_text("mine")
    with pytest.raises(InputError, match="there already") as caught:
        scaffold.lay(tmp_path)
    assert all(Path(line).is_relative_to(path) for line in caught.value.evidence)
    assert caught.value.evidence
    assert list(tmp_path.iterdir()) == [path]


def test_lay_into_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError):
        scaffold.lay(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_lay_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from stoker.config import scaffold\n"
        "from stoker.errors import InputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"  # as a disk that gets full
        "try: scaffold.lay(Path(sys.argv[1]))\n"
        "except InputError as error: sys.exit(7)\n"
    )
    (tmp_path / "here").mkdir()
    sizes = [path.stat().st_size for path in scaffold.lay(tmp_path / "whole")]
    assert sizes.index(max(sizes)) > 2  # several are written before the one that fails
    argv = [sys.executable, "-B", "-c", code, str(tmp_path / "here"), str(max(sizes) - 1)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 7, done.stderr.decode()
    assert list((tmp_path / "here").iterdir()) == []
