"""A plan is complete: command, names, patience, template, record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.config.profiles.profile import Profile
from stoker.config.templating.template import BadTemplate
from stoker.engines import get
from stoker.errors import InputError
from stoker.plan import Instead, KillPolicy, build
from tests.plan.conftest import HOST, dumping, plan_of


def argv(engine: str, **server: Any) -> list[str]:
    full = {"model": "/models/Kimi-K2.5", "port": 30000, **server}
    return list(plan_of({"engine": engine, "server": full}).argv)


def test_sglang_command() -> None:
    got = argv("sglang", venv="/opt/v", wrap=["numactl", "--interleave=all"], args={"tp-size": "8"})
    assert got == [
        *("numactl", "--interleave=all", "/opt/v/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "/models/Kimi-K2.5", "--host", "127.0.0.1", "--port", "30000", "--tp-size", "8"),
    ]


def test_vllm_command_takes_its_model_by_position() -> None:
    got = argv("vllm", bind="::1", args={"tensor-parallel-size": "2"})
    assert got == [
        *("vllm", "serve", "/models/Kimi-K2.5", "--host", "::1", "--port", "30000"),
        *("--tensor-parallel-size", "2"),
    ]


def test_own_command_replaces_the_engines() -> None:
    got = argv("llamacpp", command=["/opt/llama-server"])
    assert got == [
        *("/opt/llama-server", "--model", "/models/Kimi-K2.5", "--host", "127.0.0.1", "--port", "30000")
    ]


def test_the_plan_names_the_path_and_the_setup_that_its_script_has() -> None:
    server = {"model": "m", "port": 1, "venv": "/opt/v", "setup": ["module load cuda"]}
    plan = plan_of({"engine": "vllm", "server": server})
    assert plan.path.startswith("/opt/v/bin:/usr/local/sbin:")
    assert f"export PATH={plan.path}\n" in plan.script
    assert plan.setup == ("module load cuda",)
    assert "{ module load cuda\n} || exit\n" in plan.script


def test_command_of_an_unknown_engine_gets_nothing_but_its_arguments() -> None:
    assert argv("openai", command=["serve", "-p", "1"], args={"fast": True}) == ["serve", "-p", "1", "--fast"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--x"]),
        (False, []),
        (None, []),
        ("", ["--x", ""]),
        ("0.90", ["--x", "0.90"]),
        (8, ["--x", "8"]),
        (["a", "b"], ["--x", "a", "b"]),
        ([], []),
        ({"a": {"b": [1, True, None, "ü"]}}, ["--x", '{"a":{"b":[1,true,null,"ü"]}}']),
    ],
)
def test_argument_becomes_words(value: Any, words: list[str]) -> None:
    assert argv("openai", command=["serve"], args={"x": value}) == ["serve", *words]


def test_argument_with_dashes_of_its_own_keeps_them() -> None:
    assert argv("openai", command=["serve"], args={"-ngl": "0", "--tp": "2"})[1:] == [
        "-ngl",
        "0",
        "--tp",
        "2",
    ]


@pytest.mark.parametrize(
    ("engine", "server", "env", "names"),
    [
        ("sglang", {"model": "/m/Kimi/"}, {}, ("/m/Kimi/", "Kimi")),
        ("vllm", {"model": "org/name"}, {}, ("org/name", "name")),
        ("vllm", {"args": {"served-model-name": ["a", "b"]}}, {}, ("a", "b")),
        ("sglang", {"args": {"--served-model-name": "a"}}, {}, ("a",)),
        ("llamacpp", {"args": {"alias": "a, b"}}, {}, ("a, b", "a", "b")),
        ("llamacpp", {}, {"LLAMA_ARG_ALIAS": "a"}, ("a",)),
        ("vllm", {"served_name": "x", "args": {"served-model-name": "y"}}, {}, ("x",)),
        ("llamacpp", {"args": {"alias": "a, ,b,"}}, {}, ("a, ,b,", "a", "b")),
    ],
)
def test_served_names(
    engine: str, server: dict[str, Any], env: dict[str, str], names: tuple[str, ...]
) -> None:
    full = {"model": "m", "port": 1, **server}
    assert plan_of({"engine": engine, "server": full, "env": env}).served_names == names


@pytest.mark.parametrize(
    ("engine", "server", "kill", "grace_s"),
    [
        ("sglang", {}, {}, 90.0),
        ("vllm", {}, {}, 15.0),
        ("vllm", {"args": {"shutdown-timeout": "120"}}, {}, 135.0),
        ("vllm", {"args": {"shutdown-timeout": "120"}}, {"grace_s": 3}, 3.0),
        ("vllm", {"args": {"shutdown-timeout": "soon"}}, {}, 15.0),
        ("vllm", {"args": {"shutdown-timeout": True}}, {}, 15.0),
        ("sglang", {}, {"grace_s": "0.5"}, 0.5),
    ],
)
def test_grace(engine: str, server: dict[str, Any], kill: dict[str, Any], grace_s: float) -> None:
    plan = plan_of({"engine": engine, "server": {"model": "m", "port": 1, **server}, "kill": kill})
    assert plan.kill.grace_s == grace_s


@pytest.mark.parametrize(
    ("engine", "server", "python"),
    [
        ("sglang", {}, "python3"),
        ("sglang", {"venv": "/v"}, "/v/bin/python"),
        ("vllm", {"python": "python3.12"}, "python3.12"),
        ("vllm", {}, ""),
        ("llamacpp", {}, ""),
    ],
)
def test_interpreter(engine: str, server: dict[str, Any], python: str) -> None:
    assert plan_of({"engine": engine, "server": {"model": "m", "port": 1, **server}}).python == python


def test_only_a_path_must_be_readable() -> None:
    assert plan_of(dumping(server={"model": "/m"})).model_path == "/m"
    assert plan_of(dumping(server={"model": "org/m"})).model_path == ""


def test_api_key_is_a_secret_of_the_engines_variable() -> None:
    data = {"engine": "vllm", "server": {"model": "m", "port": 1, "api_key": {"secret": "K"}}}
    plan = plan_of(data, secrets={"K": "it's"})
    assert plan.secrets == {"VLLM_API_KEY": "it's"}
    assert "it's" not in json.dumps([plan.resolved, plan.argv, plan.script, repr(plan)])


def test_missing_secret_is_told_and_can_be_left_out() -> None:
    profile = Profile.from_plain(dumping(env={"TOKEN": {"secret": "T"}}))
    with pytest.raises(InputError, match="there is no secret T"):
        plan_of(profile.to_plain())
    plan = build(HOST, "tuned", profile, secrets=None, templates=())
    assert plan.secrets == {}
    assert "secrets.env" in plan.script


def test_plan_travels_as_json_and_its_record_gives_the_same_plan() -> None:
    plan = plan_of(dumping(env={"A": "1"}, server={"gpus": [0], "args": {"x": {"y": [1]}}}))
    wire = json.loads(json.dumps(plan.to_wire()))
    again = plan_of(wire["resolved"])
    assert again == plan
    assert wire["profile_hash"] == plan.profile_hash


def template(tmp_path: Path, name: str, text: str) -> str:
    (tmp_path / name).write_text(text)
    return plan_of(dumping(), templates=(tmp_path,)).script


@pytest.mark.parametrize("name", ["launch.sh.j2", "openai.sh.j2", "tuned.sh.j2"])
def test_users_template_is_taken(tmp_path: Path, name: str) -> None:
    assert template(tmp_path, name, "exec {{ argv }} # {{ engine }}\n") == "exec /usr/bin/env -0 # openai\n"


def test_the_more_special_template_wins(tmp_path: Path) -> None:
    template(tmp_path, "launch.sh.j2", "3")
    template(tmp_path, "openai.sh.j2", "2")
    assert template(tmp_path, "tuned.sh.j2", "1") == "1"


def test_mistake_in_a_users_template_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadTemplate, match="'modle' is undefined") as caught:
        template(tmp_path, "launch.sh.j2", "#!/bin/sh\n{{ modle }}\n")
    assert caught.value.where == f"{tmp_path}/launch.sh.j2:2"


def test_names_with_line_breaks_stay_in_the_comment() -> None:
    host = type(HOST)("n\nrm -rf /", {}, (), "")
    script = build(host, "run:1", Profile.from_plain(dumping()), secrets=None, templates=()).script
    assert [line for line in script.splitlines() if "rm -rf" in line] == ["# rm -rf /, slot default"]


@pytest.mark.parametrize(("venv", "python"), [("/opt/v", "/opt/v/bin/python"), (None, "python3")])
def test_what_runs_in_place_of_a_server_has_its_environment_and_nothing_that_only_a_server_has(
    venv: str | None, python: str
) -> None:
    data = {
        "engine": "llamacpp",
        "server": {"model": "/m", "port": 1, "wrap": ["numactl", "-i"], **({"venv": venv} if venv else {})},
        "env": {"NCCL_PROTO": "LL"},
        "expect": {"NCCL_PROTO": "Simple"},
        "hooks": {"after_ready": ["true"]},
    }
    instead = Instead("m-probe", ("{python}", "-c", "print(1)"), get("openai"), KillPolicy(("cmd:x",), 3.0))
    got = build(HOST, "t", Profile.from_plain(data), secrets=None, templates=(), instead=instead)
    assert got.argv == ("numactl", "-i", python, "-c", "print(1)")
    assert (got.slot, got.port, got.python, got.engine.name) == ("m-probe", 0, python, "openai")
    assert got.env == {"NCCL_PROTO": "LL"}
    assert (got.expect, got.hooks.after_ready, got.kill.grace_s) == ({}, (), 3.0)
    assert "STOKER_SLOT=m-probe" in got.script
    assert "print(1)" in got.script
