"""Profiles: what files resolve to, and every mistake in them.

Cases are folders under ``tests/cases/profile``: in each the profile ``it`` is resolved for one host.
``resolve/*/expected.json`` is what its plain form must be (without what is at its default), and
``mistakes/*/problems.txt`` are all problems, as shown.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stoker import benchmarks
from stoker.config.files.yamlfile import Secret
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library, Profile
from stoker.errors import ConfigError, InputError

CASES = Path(__file__).parents[1] / "cases" / "profile"
HOST = Host(
    "node174",
    {
        "inventory_hostname": "node174",
        "models": "/srv/models",
        "venv": "/opt/{{ engine_folder }}",
        "engine_folder": "sglang",
        "port": 30000,
        "gpu_list": [0, 1],
        "fast": True,
        "slow": False,
        "version": 1.1,
        "limits": {"core": 0, "stack": [1, 2]},
        "token": Secret("TOKEN"),
        "ansible_password": "hunter2",
    },
    ("gpu",),
    "inventory/hosts.yml:3",
)


def cases(kind: str) -> list[Any]:
    return [pytest.param(folder, id=folder.name) for folder in sorted((CASES / kind).iterdir())]


def said(profile: Profile) -> dict[str, Any]:
    return profile.model_dump(mode="json", exclude_defaults=True)


@pytest.mark.parametrize("case", cases("resolve"))
def test_profile_resolves(case: Path) -> None:
    profile = Library(case, case).resolve("it", HOST)
    assert said(profile) == json.loads((case / "expected.json").read_text())


@pytest.mark.parametrize("case", cases("resolve"))
def test_record_of_a_profile_is_that_profile(case: Path) -> None:
    profile = Library(case, case).resolve("it", HOST)
    again = Profile.from_plain(json.loads(json.dumps(profile.to_plain())))
    assert (again, again.hash) == (profile, profile.hash)


@pytest.mark.parametrize("case", cases("mistakes"))
def test_every_mistake_is_told_with_its_place(case: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Library(case, case).resolve("it", HOST)
    assert [str(problem) for problem in caught.value.problems] == (
        case / "problems.txt"
    ).read_text().splitlines()


@pytest.mark.parametrize("case", cases("mistakes"))
def test_no_message_shows_a_key(case: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Library(case, case).resolve("it", HOST)
    assert "hunter2" not in str(caught.value.problems)


def library(tmp_path: Path, **files: Any) -> Library:
    folder = tmp_path / "profiles"
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / f"{name}.yml").write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return Library(folder, tmp_path)


SMALL: dict[str, Any] = {"engine": "sglang", "server": {"model": "/m", "port": 30000}}


def test_unknown_profile_is_told_with_the_nearest_and_the_list(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        library(tmp_path, kimi=SMALL, other=SMALL).resolve("kimmi", HOST)
    error = caught.value
    assert str(error) == "profiles: unknown profile 'kimmi'"
    assert error.next_step == "did you mean 'kimi'?"
    assert error.evidence == ("kimi", "other")


def test_several_names_in_one_are_told_how_they_are_given(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        library(tmp_path, kimi=SMALL, other=SMALL).resolve("kimi, other", HOST)
    assert caught.value.next_step == "name each: --profile kimi --profile other"


@pytest.mark.parametrize("name", ["../profiles/kimi", "", ".", "kimi.yml", "a/b", "x\0y", "kimi\n"])
def test_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="unknown profile"):
        library(tmp_path, kimi=SMALL).resolve(name, HOST)


@pytest.mark.parametrize("end", ["-probe", "-llama-bench"])
def test_a_server_is_given_no_slot_that_a_probe_would_empty(tmp_path: Path, end: str) -> None:
    data = {**SMALL, "server": {**SMALL["server"], "name": f"main{end}"}}
    with pytest.raises(ConfigError) as caught:
        library(tmp_path, kimi=data).resolve("kimi", HOST)
    assert f"slots that end in {end} are Stoker's own" in str(caught.value.problems[0])


@pytest.mark.parametrize("where", ["env", "args"])
def test_a_text_that_no_process_can_be_given_is_told_by_its_place(tmp_path: Path, where: str) -> None:
    large = "x" * 140_000
    data = {**SMALL, "env": {"BIG": large}}
    if where == "args":
        data = {**SMALL, "server": {**SMALL["server"], "args": {"big": large}}}
    with pytest.raises(ConfigError) as caught:
        library(tmp_path, kimi=data).resolve("kimi", HOST)
    (problem,) = caught.value.problems
    assert "is 140000 characters long" in problem.what
    assert problem.line > 0


def test_folder_that_is_not_there_has_no_profiles(tmp_path: Path) -> None:
    nowhere = Library(tmp_path / "profiles", tmp_path)
    assert nowhere.names() == ()
    with pytest.raises(InputError, match="there is none at all"):
        nowhere.resolve("kimi", HOST)


def test_names_are_those_of_profile_files(tmp_path: Path) -> None:
    found = library(tmp_path, b=SMALL, a=SMALL, **{".hidden": SMALL, "no name": SMALL})
    (tmp_path / "profiles" / "templates").mkdir()
    (tmp_path / "profiles" / "c.yaml").write_text("engine: vllm")
    (tmp_path / "profiles" / "d.yml.orig").write_text("")
    assert found.names() == ("a", "b", "c")


def test_sources_are_the_files_parents_first(tmp_path: Path) -> None:
    found = library(tmp_path, it={"extends": ["left", "right"]}, left={"extends": "top"}, right={}, top=SMALL)
    (tmp_path / "profiles" / "right.yml").write_text("extends: top")
    assert [file.stem for file in found.sources("it")] == ["top", "left", "right", "it"]


def test_problem_shows_the_file_relative_to_the_project(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^profiles/it\.yml:1: "):
        library(tmp_path, it="engine: nope\n").resolve("it", HOST)


def test_description_is_the_files_own_and_no_part_of_the_hash(tmp_path: Path) -> None:
    found = library(tmp_path, a={**SMALL, "description": "x"}, b={"extends": "a"})
    a, b = found.resolve("a", HOST), found.resolve("b", HOST)
    assert (a.description, b.description) == ("x", "")
    assert a.hash == b.hash


def test_hash_differs_as_soon_as_the_profile_does(tmp_path: Path) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"env": {"A": "1"}},
        {"env": {"A": "2"}},
        {"env": {"B": "1"}},
        {"expect": {"A": "1"}},
        {"server": {**SMALL["server"], "args": {"x": "1"}}},
        {"server": {**SMALL["server"], "args": {"x": ["1"]}}},
        {"server": {**SMALL["server"], "gpus": [0]}},
        {"bench": {"runs": 4}},
        {"engine": "vllm"},
    ]
    hashes = {library(tmp_path, it={**SMALL, **v}).resolve("it", HOST).hash for v in variants}
    assert len(hashes) == len(variants)
    assert all(len(h) == 12 and int(h, 16) >= 0 for h in hashes)


def test_writing_out_a_default_changes_no_hash(tmp_path: Path) -> None:
    written = {**SMALL, "bench": {"runs": 5}, "server": {**SMALL["server"], "name": "default", "gpus": []}}
    found = library(tmp_path, a=SMALL, b=written)
    assert found.resolve("a", HOST).hash == found.resolve("b", HOST).hash


def test_hash_of_a_secret_is_of_its_name(tmp_path: Path) -> None:
    text = "engine: sglang\nserver: {model: m, port: 1}\nenv: {T: !secret NAME}\n"
    other = text.replace("NAME", "OTHER")
    found = library(tmp_path, a=text, b="\n\n" + text, c=other)
    hashes = [found.resolve(name, HOST).hash for name in "abc"]
    assert hashes[0] == hashes[1] != hashes[2]


def test_secret_knows_its_place(tmp_path: Path) -> None:
    found = library(tmp_path, it="engine: sglang\nserver: {model: m, port: 1}\nenv:\n  T: !secret NAME\n")
    reference = found.resolve("it", HOST).env["T"]
    assert getattr(reference, "place", "") == "profiles/it.yml:4"


def test_bind_is_loopback_unless_the_host_says_otherwise(tmp_path: Path) -> None:
    server = {**SMALL["server"], "bind": "{{ stoker_bind }}"}
    found = library(tmp_path, it={**SMALL, "server": server})
    elsewhere = Host("h", {"stoker_bind": "10.0.0.1"}, (), "")
    binds = [found.resolve("it", host).server.bind for host in (HOST, elsewhere)]
    assert binds == ["127.0.0.1", "10.0.0.1"]


def test_one_library_serves_many_hosts(tmp_path: Path) -> None:
    found = library(tmp_path, it={**SMALL, "env": {"A": "{{ x }}"}})
    for number in range(3):
        assert found.resolve("it", Host(f"h{number}", {"x": number}, (), "")).env == {"A": str(number)}
    with pytest.raises(ConfigError, match="'x' is undefined for host h9"):
        found.resolve("it", Host("h9", {}, (), ""))


def test_many_profiles_that_extend_each_other_resolve_quickly(tmp_path: Path) -> None:
    files: dict[str, Any] = {f"p{i}": {"extends": [f"p{i + 1}", f"p{i + 1}"]} for i in range(40)}
    found = library(tmp_path, **files, p40=SMALL)
    assert found.resolve("p0", HOST).engine == "sglang"


def test_extending_too_deeply_is_told(tmp_path: Path) -> None:
    files: dict[str, Any] = {f"p{i}": {"extends": f"p{i + 1}"} for i in range(300)}
    with pytest.raises(ConfigError, match="more than 50 deep"):
        library(tmp_path, **files, p300=SMALL).resolve("p0", HOST)


@given(st.dictionaries(st.from_regex(r"X[A-Z0-9_]{0,8}", fullmatch=True), st.text(), max_size=4))
def test_any_text_in_quotes_is_kept(tmp_path_factory: pytest.TempPathFactory, env: dict[str, str]) -> None:
    written = {name: value.replace("{", "(").replace("\0", "") for name, value in env.items()}
    text = yaml.safe_dump({**SMALL, "env": written})
    assert library(tmp_path_factory.mktemp("p"), it=text).resolve("it", HOST).env == written


@pytest.mark.parametrize("seed", range(20))
def test_damaged_file_gives_a_clean_error_or_a_profile(tmp_path: Path, seed: int) -> None:
    text = (CASES / "resolve" / "everything" / "it.yml").read_text()
    dice = random.Random(seed)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice("{}[]:#&*!|>'\"%@`\n\t -0aé\x07") + text[at + dice.randint(0, 5) :]
    try:
        assert library(tmp_path, it=text).resolve("it", HOST).engine
    except ConfigError as error:
        assert all(problem.file.startswith("profiles/") for problem in error.problems)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"server": {}}, "server.model is missing"),
        ({"engine": "nope"}, "unknown engine 'nope'"),
        ({"server": 5}, "expected a mapping"),
        ({"env": {"A": {"secret": 5}}}, "expected text"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_record_that_holds_no_profile_is_told(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="no profile") as caught:
        Profile.from_plain({**SMALL, **change}, where="results/x/run.json")
    assert caught.value.where == "results/x/run.json"
    assert said in " ".join(caught.value.evidence)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{tokens: 1}", "1 is out of range (2 to 1000000)"),
        ("{runs: 1001}", "1001 is out of range (1 to 1000)"),
        ("{concurrency: 5000}", "5000 is out of range (1 to 4096)"),
        ("{name: decod}", "'decod' is no benchmark of a server (did you mean 'decode'?)"),
        ("{rate: 4}", "rate is of the benchmark serve (name: serve)"),
        ("{name: serve, rate: 0}", "0 is out of bounds, rate goes from 0.001 to 1e+07"),
        (
            "{name: serve, requests: 4, seconds: 5}",
            "a run has so many requests, or lasts so long, not both (unset one: null)",
        ),
        (
            "{name: serve, output: 9-5}",
            "9-5 is out of bounds, lengths go from 2 to 1000000, the shorter one first",
        ),
    ],
)
def test_a_benchmark_that_could_not_run_is_a_mistake_of_its_line(
    tmp_path: Path, written: str, said: str
) -> None:
    (tmp_path / "profiles").mkdir()
    text = f"engine: vllm\nserver: {{model: /m, port: 1}}\nbench: {written}\n"
    (tmp_path / "profiles/it.yml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Library(tmp_path / "profiles", tmp_path).resolve("it", HOST)
    assert [str(problem) for problem in caught.value.problems] == [f"profiles/it.yml:3: {said}"]


def test_a_profile_has_the_benchmarks_own_defaults() -> None:
    assert Profile.from_plain(SMALL).bench.model_dump() == benchmarks.Bench().to_wire()


def test_a_profile_may_be_judged_by_service_under_several_loads(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    bench = "{name: serve, rate: [1, 2.5], requests: 200, input: 512, output: lognormal:128:64, runs: 3}"
    text = f"engine: vllm\nserver: {{model: /m, port: 1}}\nbench: {bench}\n"
    (tmp_path / "profiles/it.yml").write_text(text)
    profile = Library(tmp_path / "profiles", tmp_path).resolve("it", HOST)
    found = benchmarks.levels(profile.bench.model_dump())
    assert [one.level for one in found] == ["1/s poisson", "2.5/s poisson"]
    assert (found[0].output, found[0].input, found[0].runs) == ("lognormal:128:64:2-384", "512", 3)
    again = Profile.from_plain(profile.to_plain())
    assert (again, again.hash) == (profile, profile.hash)
