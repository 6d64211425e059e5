"""A captured server becomes a profile that reads back as exactly what ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker import engines, plan
from stoker.config import yamlwrite
from stoker.config.drafts import draft, draftargs
from stoker.config.files import yamlfile
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library, Profile
from stoker.config.templating import template

PROCESS = {"pid": 7, "user": "ann"}
AROUND: dict[str, Any] = {"wrap": [], "cpus": "", "memory": [], "nice": 0}
HOST = Host("h", {}, (), "")


def captured(**said: Any) -> dict[str, Any]:
    """vLLM as somebody started it, and whatever else is said."""
    whole: dict[str, Any] = {
        "engine": "vllm", "version": "1", "launch": None, "process": PROCESS, "withheld": [], "head": 2,
        "foreign": False,
        "argv": ["/v/bin/python", "/v/bin/vllm", "serve", "/m/x", "--port", "8000"], "module": "",
        "program": "/v/bin/vllm", "python": "/v/bin/python", "venv": "/v", "cwd": "/w", "relative": [],
        "container": False, "model": "/m/x", "said": {}, "bind": "0.0.0.0", "port": 8000, "gpus": [],
        "gpu_count": 0, "gpu_why": [], "env": {}, "env_source": "exec", "credentials": [], "odd": {},
        "as_login": [], "tuning": [], "changed": {}, "around": AROUND, "unread": [],
    }  # fmt: skip
    return {**whole, **said}


def made(tmp_path: Path, path: bool = False, **said: Any) -> tuple[draft.Draft, Profile]:
    """The draft, and the profile that it reads back as."""
    told = captured(**said)
    found = draft.of_server("x", "h", told, engines.get(told["engine"]), knows=lambda _: False, path=path)
    (tmp_path / "x.yml").write_text(found.text)
    return found, Library(tmp_path, tmp_path).resolve("x", HOST)


def argv(profile: Profile) -> list[str]:
    return list(plan.build(HOST, "x", profile, secrets=None, templates=[]).argv)


def serve(*words: str) -> list[str]:
    return ["/v/bin/python", "/v/bin/vllm", "serve", *words]


def test_words_of_every_kind_come_out_as_they_were(tmp_path: Path) -> None:
    words = [
        "--a",
        "x=y",
        "--b=c=d",
        "--odd",
        "a \"b\" 'c'\n{{ d }}",
        "--no",
        "NO",
        "--mode",
        "0644",
        "--n",
        "-1",
    ]
    words += ["--bare", "--many", "1", "2", "--json", '{"a":[1,2.5],"b":{"c":true}}', "--null", '{"a":null}']
    words += [
        "--empty",
        "",
        "--true",
        "true",
        "--O3",
        "--e",
        "1e-05",
        "--hash",
        "# no comment",
        "--dash",
        "- x",
    ]
    _, profile = made(tmp_path, argv=serve("/m/x", "--port", "8000", *words))
    assert argv(profile) == [
        *("vllm", "serve", "/m/x", "--host", "0.0.0.0", "--port", "8000"),
        *(word for one in words for word in (["--b", "c=d"] if one == "--b=c=d" else [one])),
    ]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_is_written_so_that_it_reads_back(value: str) -> None:
    document = yamlfile.loads(f"x: {yamlwrite.text(value)}\n", shown="x")
    assert template.render_exact(document.text(("x",)) or "", {}, where="x") == value
    assert document.data["x"] is not None


@pytest.mark.parametrize(
    "value", ["{{ x }}", "{% if", "{#", "a\r\n{{", "'{{'\\", "{{ 'é\U0001f600' }}", "{{" * 50]
)
def test_what_looks_like_a_template_reads_back(value: str, tmp_path: Path) -> None:
    _, profile = made(tmp_path, env={"ODD": value}, argv=serve("/m/x", "--odd", value))
    assert profile.env["ODD"] == value
    assert profile.server.args["odd"] == value


def test_short_forms_become_long_and_of_a_repeated_flag_the_last_counts_unless_it_adds_up(
    tmp_path: Path,
) -> None:
    words = ("-tp", "2", "--seed", "1", "--seed", "2", "--middleware", "a", "--middleware", "b")
    found, profile = made(tmp_path, argv=serve("/m/x", *words))
    assert profile.server.args == {"tensor-parallel-size": "2", "seed": "2", "middleware": ("a", "b")}
    assert argv(profile)[-4:] == ["--middleware", "a", "--middleware", "b"]
    assert any("--seed was given 2 times" in note for note in found.notes)


@pytest.mark.parametrize("flag", ["enforce-eager", "of-a-later-version"])
@pytest.mark.parametrize("served", ["/m/x", "x"])
def test_a_model_behind_a_bare_flag_is_the_model(tmp_path: Path, flag: str, served: str) -> None:
    _, profile = made(tmp_path, model=served, argv=serve(f"--{flag}", "/m/x", "--port", "8000"))
    assert (profile.server.model, profile.server.args) == ("/m/x", {flag: True})


def test_a_relative_model_becomes_absolute_and_other_relative_paths_keep_their_folder(tmp_path: Path) -> None:
    words = serve("models/x", "--chat-template", "t/a b.jinja")
    found, profile = made(tmp_path, argv=words, cwd="/w d", relative=["models/x", "t/a b.jinja"])
    assert profile.server.model == "/w d/models/x"
    assert profile.server.setup == ("cd '/w d'",)
    assert profile.server.args == {"chat-template": "t/a b.jinja"}
    assert any("relative to the folder" in note for note in found.notes)


def test_noise_goes_what_differs_stays_and_what_the_login_has_is_inherited(tmp_path: Path) -> None:
    env = {
        "SHLVL": "1",
        "SSH_TTY": "x",
        "PWD": "/",
        "LS_COLORS": "x",
        "LC_ALL": "C",
        "HOME": "/h",
        "PATH": "/bin",
        "NCCL_ALGO": "Ring",
        "LD_LIBRARY_PATH": "/l",
        "MY": "1",
        "KUBERNETES_PORT_443_TCP": "x",
        "STOKER_SLOT": "s",
        "BASH_FUNC_x%%": "() {}",
        "a.b": "1",
    }
    login = ["HOME", "PATH", "NCCL_ALGO", "LD_LIBRARY_PATH"]
    found, profile = made(tmp_path, env=env, as_login=login, tuning=["NCCL_ALGO"])
    assert profile.env == {"NCCL_ALGO": "Ring", "MY": "1"}
    assert profile.server.inherit == ("LD_LIBRARY_PATH",)
    assert [note for note in found.notes if "a.b" in note]


def test_what_the_engine_sets_goes_out_only_where_it_cannot_have_been_given(tmp_path: Path) -> None:
    env = {"NCCL_CUMEM_ENABLE": "0", "OMP_NUM_THREADS": "4"}
    _, given_ = made(tmp_path, env=env, tuning=list(env), changed={"OMP_NUM_THREADS": "1"})
    assert given_.env == env
    assert given_.expect == {"OMP_NUM_THREADS": "1"}
    found, profile = made(tmp_path, env=env, tuning=list(env), env_source="memory")
    assert profile.env == {}
    assert len([note for note in found.notes if "sets it by itself" in note]) == 2


def test_secrets_are_references_and_bytes_that_are_no_text_are_said(tmp_path: Path) -> None:
    words = serve("/m/x", "--api-key", "***", "--hf-token=***")
    found, profile = made(
        tmp_path, argv=words, withheld=[5, 6], credentials=["HF_TOKEN", "WANDB_API_KEY"],
        as_login=["WANDB_API_KEY"], odd={"BYTES": "a\\xff"},
    )  # fmt: skip
    assert profile.server.api_key is not None
    assert profile.server.api_key.name == "VLLM_API_KEY"
    assert "HF_TOKEN: !secret HF_TOKEN" in found.text
    assert profile.server.inherit == ("WANDB_API_KEY",)
    assert profile.server.args == {}
    assert found.secrets == ("HF_TOKEN", "VLLM_API_KEY")
    assert any("--hf-token holds a secret" in note for note in found.notes)
    assert any("BYTES is left out: its value is no UTF-8 (it reads a\\xff)" in note for note in found.notes)


def test_an_engine_that_takes_its_key_on_the_command_line_only_is_said_aloud(tmp_path: Path) -> None:
    words = ["/v/bin/python", "-m", "sglang.launch_server", "--model", "/m/x", "--api-key", "***"]
    found, profile = made(
        tmp_path, engine="sglang", argv=words, head=3, module="sglang.launch_server", program="", withheld=[6]
    )
    assert profile.server.api_key is None
    assert any("WITHOUT one" in note for note in found.notes)
    assert argv(profile)[:5] == ["/v/bin/python", "-m", "sglang.launch_server", "--model-path", "/m/x"]


@pytest.mark.parametrize(
    ("env", "held", "count", "gpus", "left"),
    [
        ({}, [0, 1], 2, ("all",), {}),
        ({}, [0, 1], 8, (0, 1), {}),
        ({}, [], 8, (), {}),
        ({"CUDA_VISIBLE_DEVICES": "1,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0, 1], 8, (1, 0), {}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b"}, [4, 5], 8, ("GPU-a", "GPU-b"), {}),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, [2, 3], 8, (2, 3), {}),
        ({"CUDA_VISIBLE_DEVICES": ""}, [], 8, (), {"CUDA_VISIBLE_DEVICES": ""}),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, [], 8, (), {"CUDA_VISIBLE_DEVICES": "-1"}),
    ],
)
def test_gpus_are_those_that_it_was_told_else_those_that_it_holds(
    tmp_path: Path,
    env: dict[str, str],
    held: list[int],
    count: int,
    gpus: tuple[Any, ...],
    left: dict[str, str],
) -> None:
    rows = [{"index": index, "uuid": f"GPU-{index}"} for index in held]
    _, profile = made(tmp_path, env=env, gpus=rows, gpu_count=count, tuning=list(env))
    assert profile.server.gpus == gpus
    assert profile.env == left


def test_an_engine_that_nobody_knows_keeps_its_command_word_by_word(tmp_path: Path) -> None:
    words = ["python3", "serve.py", "--x", "{{ y }}", "a b"]
    said: dict[str, Any] = {
        "engine": "openai",
        "argv": words,
        "head": 2,
        "venv": "",
        "program": "/w/serve.py",
        "model": "m",
    }
    found, profile = made(tmp_path, **said, python="/usr/bin/python3.11", relative=["serve.py"])
    assert argv(profile) == ["/usr/bin/python3.11", *words[1:]]
    assert profile.server.setup == ("cd /w",)
    assert any("no engine that Stoker knows" in note for note in found.notes)


def test_what_wraps_it_is_put_before_it(tmp_path: Path) -> None:
    around = {"wrap": ["timeout", "1d"], "cpus": "0-3", "memory": ["interleave", "0-1"], "nice": 5}
    _, profile = made(tmp_path, around=around)
    assert profile.server.wrap == (
        *("timeout", "1d", "numactl", "--interleave=0-1", "taskset", "-c", "0-3", "nice", "-n", "5"),
    )


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ({}, ["vllm", "serve"]),
        ({"venv": "", "python": "/usr/bin/python3", "program": "/usr/bin/vllm"}, ["vllm", "serve"]),
        ({"venv": "", "python": "/opt/p/bin/python3", "program": "/home/a/vllm"}, ["/home/a/vllm", "serve"]),
    ],
)
def test_a_program_is_called_so_that_the_same_one_is_found(
    tmp_path: Path, said: dict[str, Any], command: list[str]
) -> None:
    _, profile = made(tmp_path, **said)
    assert argv(profile)[:2] == command


def test_a_path_that_does_not_lead_to_the_program_is_no_way_to_it(tmp_path: Path) -> None:
    _, profile = made(tmp_path, path=True, env={"PATH": "/usr/bin:/bin", "SSH_TTY": "x"}, as_login=["PATH"])
    assert profile.env == {"PATH": "/usr/bin:/bin"}
    assert argv(profile)[:2] == ["/v/bin/vllm", "serve"]


def test_an_interpreter_with_options_keeps_them(tmp_path: Path) -> None:
    words = ["/v/bin/python", "-u", "-X", "dev", "-m", "sglang.launch_server", "--model-path", "/m/x"]
    _, profile = made(
        tmp_path, engine="sglang", argv=words, head=6, module="sglang.launch_server", program=""
    )
    assert argv(profile)[:6] == words[:6]


def test_the_flags_of_a_command_line_are_read_as_its_engine_reads_them() -> None:
    found = draftargs.read(["m", "-c", "1", "--x", "-5", "--y", "-z"], [], engines.get("llamacpp"))
    assert found.flags == {"--ctx-size": [["1"]], "--x": [["-5"]], "--y": [[]], "-z": [[]]}
    assert found.extra == ["m"]
