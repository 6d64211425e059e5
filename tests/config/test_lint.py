"""The linter: a wrong project of each kind is a folder under ``tests/cases/lint``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from stoker import tuning
from stoker.config.linting.codes import CODES
from stoker.config.linting.lint import Finding, fold
from stoker.config.linting.secrets import likeness
from stoker.config.settings import Settings
from stoker.errors import ConfigError, InputError
from stoker.fleet.linting import lint
from stoker.fleet.linting.lint import Report, Scope
from stoker.fleet.linting.lint_files import PaperProject
from stoker.fleet.project import Project
from stoker.results.records.store import Store
from tests.results.made import good

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parents[1] / "cases" / "lint"
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())

Write = Callable[[Mapping[str, str]], Path]

LLAMA = "engine: llamacpp\nserver: {model: /srv/m.gguf, port: 8080}\n"


def linted(root: Path, scope: Scope | None = None) -> Report:
    return lint.lint(PaperProject(Settings(root=root), {}), scope or Scope())


def told(one: Finding) -> str:
    mend = f" → {one.mend}" if one.mend else ""
    hosts = f" (on {', '.join(one.hosts)})" if one.hosts else ""
    return f"{one.place} {one.severity} {one.code}: {one.what}{mend}{hosts}"


@pytest.mark.parametrize("case", FOLDERS, ids=lambda path: path.name)
def test_every_mistake_of_a_project_is_found(case: Path) -> None:
    assert [told(one) for one in linted(case).findings] == (case / "expected.txt").read_text().splitlines()


@pytest.mark.parametrize("case", FOLDERS, ids=lambda path: path.name)
def test_every_finding_says_why_and_is_where_it_says(case: Path) -> None:
    for one in linted(case).findings:
        assert one.reason and one.code in {*CODES, *tuning.codes()}
        lines = (case / one.file).read_text().split("\n") if one.line else [""]
        assert one.line <= len(lines) and one.column <= len(lines[one.line - 1]) + 1


def test_every_code_of_the_linter_has_a_case() -> None:
    met = {line.split()[2].rstrip(":") for case in FOLDERS for line in (case / "expected.txt").open()}
    assert set(CODES) <= met


def test_no_finding_shows_a_credential() -> None:
    for case in FOLDERS:
        for one in linted(case).findings:
            assert "hunter-two" not in str(one) and "hf_abcdef" not in str(one)


def test_own_project_has_no_mistake_and_the_story_two_advices() -> None:
    report = linted(ROOT)
    assert {one.severity for one in report.findings} <= {"advice"}
    story = [one for one in report.findings if "nccl-tuned" in one.profiles]
    assert [(one.place, one.code) for one in story] == [
        ("profiles/nccl-tuned.yml:7:19", "nccl-risky"),
        ("profiles/nccl-tuned.yml:9:18", "nccl-buffsize-unread"),
    ]


def test_new_project_lints_clean() -> None:
    assert not [one for one in linted(ROOT / "stoker" / "scaffold").findings if one.severity == "error"]


def test_same_thing_for_many_hosts_and_profiles_is_one_finding() -> None:
    one = Finding("a.yml", 2, 1, "error", "profile-invalid", "x", profiles=("p",), hosts=("n1",))
    other = replace(one, profiles=("q",), hosts=("n1", "n2"))
    earlier = replace(one, line=1)
    assert fold([one, earlier, other]) == (earlier, replace(one, profiles=("p", "q"), hosts=("n1", "n2")))


def test_named_profiles_and_hosts_are_looked_at_and_nothing_else(written: Write) -> None:
    root = written(
        {
            "inventory/hosts.yml": "all: {hosts: {one: {stoker_profiles: [good]}, two: {}}}\n",
            "profiles/good.yml": LLAMA,
            "profiles/bad.yml": "engine: sglang\n"
            "server: {model: '{{ m }}', port: 1, gpus: [0], args: {tp: 2}}",
            "playbooks/wrong.yml": "not a playbook\n",
        }
    )
    assert not linted(root, Scope(profiles=("good",))).findings
    assert not linted(root, Scope(patterns=("one",))).findings
    both = linted(root, Scope(profiles=("bad",), patterns=("two",))).findings
    assert [one.code for one in both] == ["profile-invalid", "gpus-too-few"]
    assert {one.hosts for one in both} == {("two",)}
    assert linted(root).checked == {"profiles": 2, "hosts": 2, "playbooks": 1, "baselines": 0}


def test_unknown_profile_or_host_is_no_finding_but_wrong_input(written: Write) -> None:
    root = written({"inventory/hosts.yml": "all: {hosts: {one: {}}}\n", "profiles/good.yml": LLAMA})
    with pytest.raises(InputError, match="unknown profile 'godd'"):
        linted(root, Scope(profiles=("godd",)))
    with pytest.raises(InputError, match="nobody"):
        linted(root, Scope(patterns=("nobody",)))


def test_inventory_of_a_thousand_hosts_takes_seconds(written: Write) -> None:
    hosts = {f"n{i:04}": {"stoker_profiles": [f"p{i % 20}"], "models": "/srv"} for i in range(1000)}
    profile = (ROOT / "profiles" / "kimi-k25.yml").read_text().replace("{{ sglang_venv }}", "/opt/sglang")
    profile += "env: {NCCL_PROTO: LL, NCCL_BUFFSIZE: 16M}\n"
    files = {f"profiles/p{i}.yml": profile for i in range(20)}
    root = written({"inventory/hosts.yml": yaml.safe_dump({"all": {"hosts": hosts}}), **files})
    began = time.process_time()
    findings = linted(root).findings
    assert time.process_time() - began < 8  # of a busy machine: two or three seconds on a quiet one
    assert len([one for one in findings if one.code == "nccl-size-suffix" and len(one.hosts) == 50]) == 20


@pytest.mark.parametrize(
    ("name", "value", "like"),
    [
        ("HF_TOKEN", "hf_" + "a" * 30, "form"),
        ("ANYTHING", "-----BEGIN RSA PRIVATE KEY-----", "form"),
        ("URL", "postgres://me:hunter-two@db/x", "form"),
        ("API_KEY", "x", "name"),
        ("openai-api-key", "x", "name"),
        ("API_KEY", "", ""),
        ("MAX_TOKENS", "500", ""),
        ("TOKENIZERS_PARALLELISM", "false", ""),
        ("HF_TOKEN_PATH", "/etc/token", ""),
        ("URL", "http://127.0.0.1:8080/a@b", ""),
        ("NCCL_SOCKET_IFNAME", "eth0", ""),
    ],
)
def test_credentials_are_known_by_form_and_name(name: str, value: str, like: str) -> None:
    assert likeness(name, value) == like


def test_gate_tells_every_error_of_what_is_launched_and_keeps_warnings(written: Write) -> None:
    root = written(
        {
            "inventory/hosts.yml": "all: {hosts: {one: {}}}\n",
            "profiles/it.yml": "engine: sglang\nserver: {model: /m, port: 1, args: {tpp-size: 2}}\n"
            "env: {NCCL_BUFFSIZE: 16M, NCCL_NTHREADS: 0512}\n",
        }
    )
    project = Project(Settings(root=root), {})
    (host,) = project.hosts(["one"])
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            project.gate.check(host, [project.plan("it", host)])
        assert [(p.line, p.what.split("=")[0]) for p in caught.value.problems] == [
            (3, "NCCL_BUFFSIZE"),
            (3, "NCCL_NTHREADS"),
        ]
    assert [one.code for one in project.warnings] == ["argument-unknown"]


def test_gate_lets_through_what_only_has_warnings(written: Write) -> None:
    root = written({"inventory/hosts.yml": "all: {hosts: {one: {}}}\n", "profiles/it.yml": LLAMA})
    project = Project(Settings(root=root), {})
    (host,) = project.hosts(["one"])
    project.gate.check(host, [project.plan("it", host)])
    assert project.warnings == ()


@pytest.mark.parametrize(("simulated", "codes"), [(False, ["nccl-not-yet"]), (True, [])])
def test_what_a_host_was_last_measured_with_says_which_versions_hold(
    tmp_path: Path, simulated: bool, codes: list[str]
) -> None:
    """A variable of NCCL 2.29 where the server maps 2.28 is read by nobody; a pretended run says nothing."""
    files = {
        "inventory/hosts.yml": "all: {hosts: {node174: {stoker_profiles: [it]}}}\n",
        "profiles/it.yml": "engine: sglang\nserver: {model: m, port: 1}\nenv: {NCCL_ALLGATHERV_ENABLE: 1}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    unknown = [one.code for one in linted(tmp_path, Scope(profiles=("it",))).findings]
    Store(tmp_path / "results").save(replace(good(), simulated=simulated))
    known = [one.code for one in linted(tmp_path, Scope(profiles=("it",))).findings]
    assert sorted(known) == sorted(unknown + codes)
