"""Launch scripts, run for real: the server gets exactly the environment and the words of its profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.plan.conftest import Shell, dumping, plan_of

FIXED = {"PATH", "LANG", "SPT_NOENV", "STOKER_SLOT"}
SHELLS_OWN = {"PWD", "SHLVL", "_"}

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
many = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Folder = Callable[[], Path]


@many
@given(values=st.lists(texts, min_size=1, max_size=5))
@example(values=["\x81\x82\x83\x84\x85\x86\x87\x88", "'", "'\"'\"'", "\\", "$(id)`id`$HOME", "~", "*"])
@example(values=["a\nb\n", "\n", "\r\n", "\ttab", " ", "", "-n", "a=b", "#c", "!x", "{a,b}", "%s"])
@example(values=["{{ x }}", "{% x %}", "{# x #}", "EOF", "é\u2028\U0001f600"])
def test_any_text_arrives_in_the_process_as_it_is(shell: Shell, folder: Folder, values: list[str]) -> None:
    env = {f"X{index}": value for index, value in enumerate(values)}
    got = shell.environment(folder(), plan_of(dumping(env=env)))
    assert {name: got.get(name) for name in env} == env


@many
@given(value=texts.filter(bool))
@example(value="a\nb'c\\")
def test_any_secret_arrives_and_stands_in_no_script(shell: Shell, folder: Folder, value: str) -> None:
    secret = "s3cret-" + value
    plan = plan_of(dumping(env={"TOKEN": {"secret": "T"}}), secrets={"T": secret})
    assert shell.environment(folder(), plan)["TOKEN"] == secret
    assert "s3cret-" not in plan.script + repr(plan) + json.dumps(plan.resolved)


@many
@given(words=st.lists(texts, min_size=1, max_size=6))
@example(words=["-x", "--y=z", "", "a b", "if", "A=b", "*", "\n"])
def test_any_word_arrives_in_the_command(shell: Shell, folder: Folder, words: list[str]) -> None:
    code = "import sys, os; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    command = [sys.executable, "-ISc", code, *words]
    got = shell.run(folder(), plan_of(dumping(server={"command": command})))
    assert got.split(b"\0") == [word.encode() for word in words]


def test_environment_is_the_minimum_and_the_profile(shell: Shell, folder: Folder) -> None:
    caller = {"HOME": "/", "USER": "u", "LOGNAME": "l", "SHELL": "/bin/x", "PATH": "/evil:/bin:/usr/bin"}
    dirt = {
        "NCCL_PROTO": "Simple",
        "LD_LIBRARY_PATH": "/x",
        "PYTHONPATH": "/y",
        "LC_ALL": "C",
        "OLDPWD": "/z",
    }
    got = shell.environment(folder(), plan_of(dumping(env={"NCCL_ALGO": "Ring"})), {**caller, **dirt})
    assert set(got) - SHELLS_OWN == {"HOME", "USER", "LOGNAME", "SHELL", "NCCL_ALGO"} | FIXED
    assert got["PATH"].startswith("/usr/local/sbin:")
    assert (got["LANG"], got["SPT_NOENV"], got["STOKER_SLOT"]) == ("C.UTF-8", "1", "default")
    assert got["PWD"] == "/"


AWKWARD = {
    "A.B": "dots",
    "1X": "digit first",
    "a-b": "dash",
    "sp ace": "space",
    "-u": "option",
    "*": "glob",
    "ü": "letter",
    "MULTI": "line one\nFAKE=1\nHOME=/nowhere\nno equals sign\n=x\n-u\nA.C=2\n",
    "BASH_FUNC_set%%": "() { echo leaked; }",
    "BASH_FUNC_exec%%": "() { echo leaked; }",
    "BASH_FUNC_export%%": "() { echo leaked; }",
    "BASH_FUNC_unset%%": "() { echo leaked; }",
    "BASH_FUNC_env%%": "() { echo leaked; }",
    "BASH_FUNC_cd%%": "() { echo leaked; }",
    "BASH_FUNC_my_function%%": "() { echo one\n echo two\n}",
    "SHELLOPTS": "braceexpand:hashall:interactive-comments:nounset:noglob",
    "BASHOPTS": "cmdhist:complete_fullquote:extglob",
    "POSIXLY_CORRECT": "y",
    "IFS": "=",
    "ENV": "/nowhere",
    "CDPATH": "/usr",
    "PS4": "$(echo leaked >&2)",
    "LARGE": "x" * 100_000,
    "EMPTY": "",
    "UID": "7",
    "PPID": "7",
}


@pytest.mark.parametrize("chosen", [*AWKWARD, "all of them"])
def test_awkward_variables_of_the_caller_neither_break_nor_leak(
    shell: Shell, folder: Folder, chosen: str
) -> None:
    dirt = {chosen: AWKWARD[chosen]} if chosen in AWKWARD else dict(AWKWARD)
    if chosen == "all of them":
        del dirt["POSIXLY_CORRECT"]  # bash ends before it reads a script: POSIX allows no function named set
    caller = {"PATH": os.environ["PATH"], "HOME": "/tmp", "HF_HOME": "a\nMULTI=x\nb", **dirt}
    profile = dumping(server={"inherit": ["HF_HOME"]}, env={"NCCL_ALGO": "Ring"})
    got = shell.environment(folder(), plan_of(profile), caller)
    assert set(got) - SHELLS_OWN == {"HOME", "HF_HOME", "NCCL_ALGO"} | FIXED
    assert (got["HOME"], got["HF_HOME"]) == ("/tmp", caller["HF_HOME"])


def test_bytes_that_are_no_text_are_inherited_as_they_are(shell: Shell, folder: Folder) -> None:
    caller = {"HF_HOME": os.fsdecode(b"/\xff\xfe'x"), "DIRT": os.fsdecode(b"\xff\nY\xff=1")}
    got = shell.environment(folder(), plan_of(dumping(server={"inherit": ["HF_HOME"]})), caller)
    assert set(got) - SHELLS_OWN == {"HF_HOME"} | FIXED
    assert got["HF_HOME"] == caller["HF_HOME"]


def test_values_of_the_caller_never_stand_on_a_command_line(tmp_path: Path) -> None:
    spy = tmp_path / "env"
    spy.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/argv\nexec /usr/bin/env "$@"\n')
    spy.chmod(0o755)
    plan = plan_of(dumping(env={"TOKEN": {"secret": "T"}}), secrets={"T": "s3cret"})
    (tmp_path / "launch.sh").write_text(plan.script.replace("/usr/bin/env", str(spy)))
    (tmp_path / "secrets.env").write_text("export TOKEN=s3cret\n")
    environ = {"PRIVATE": "hidden", "HOME": "/"}
    subprocess.run(["sh", tmp_path / "launch.sh"], env=environ, check=True, capture_output=True)
    said = (tmp_path / "argv").read_text()
    assert "-u PRIVATE" in said
    assert "hidden" not in said
    assert "s3cret" not in said


def test_launchers_mark_and_gpus_arrive(shell: Shell, folder: Folder) -> None:
    plan = plan_of(dumping(server={"gpus": [0, 1], "name": "kimi"}))
    caller = {"STOKER_LAUNCH": "id-1", "STOKER_GPUS": "GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES": "7"}
    got = shell.environment(folder(), plan, caller)
    assert (got["STOKER_LAUNCH"], got["STOKER_SLOT"]) == ("id-1", "kimi")
    assert (got["CUDA_VISIBLE_DEVICES"], got["CUDA_DEVICE_ORDER"]) == ("GPU-a,GPU-b", "PCI_BUS_ID")
    assert "STOKER_GPUS" not in got


def test_by_hand_the_profiles_own_gpus_are_used(shell: Shell, folder: Folder) -> None:
    got = shell.environment(folder(), plan_of(dumping(server={"gpus": [1, "GPU-abc"]})))
    assert got["CUDA_VISIBLE_DEVICES"] == "1,GPU-abc"


@pytest.mark.parametrize("gpus", ["all", []])
def test_without_a_list_of_gpus_none_are_set(shell: Shell, folder: Folder, gpus: object) -> None:
    caller = {"CUDA_VISIBLE_DEVICES": "7", "STOKER_GPUS": ""}
    got = shell.environment(folder(), plan_of(dumping(server={"gpus": gpus})), caller)
    assert not {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "STOKER_GPUS"} & set(got)


def test_folder_of_the_interpreter_goes_first_on_the_path(shell: Shell, folder: Folder) -> None:
    venv = shell.environment(folder(), plan_of(dumping(server={"venv": "/opt/my venv"})))
    python = shell.environment(folder(), plan_of(dumping(server={"python": "/opt/p/bin/python3"})))
    assert venv["PATH"].startswith("/opt/my venv/bin:/usr/local/sbin:")
    assert python["PATH"].startswith("/opt/p/bin:/usr/local/sbin:")


def test_setup_is_shell_as_written(shell: Shell, folder: Folder) -> None:
    setup = [
        "# why\nulimit -n 256",
        "if true; then\n  export MADE=$(ulimit -n)\nfi # done",
        "cat <<X >/dev/null\n}\nX",
    ]
    got = shell.environment(folder(), plan_of(dumping(server={"setup": setup})))
    assert got["MADE"] == "256"


def run_by_hand(
    place: Path, script: str, *argv: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    (place / "launch.sh").write_text(script)
    command = argv or ("sh", str(place / "launch.sh"))
    return subprocess.run(
        command, cwd=cwd or place, env={"HOME": "/"}, capture_output=True, text=True, timeout=20
    )


def test_setup_that_fails_ends_the_launch(folder: Folder) -> None:
    done = run_by_hand(folder(), plan_of(dumping(server={"setup": ["false", "echo on >&2"]})).script)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_missing_secrets_file_ends_the_launch(folder: Folder) -> None:
    plan = plan_of(dumping(env={"TOKEN": {"secret": "T"}}), secrets={"T": "x"})
    done = run_by_hand(folder(), plan.script)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "secrets.env" in done.stderr


def test_script_finds_its_secrets_from_its_own_folder(folder: Folder) -> None:
    place = folder()
    plan = plan_of(dumping(env={"TOKEN": {"secret": "T"}}), secrets={"T": "x"})
    (place / "secrets.env").write_text("export TOKEN=x\n")
    done = run_by_hand(place, plan.script, "sh", "launch.sh", cwd=place)
    assert "TOKEN=x" in done.stdout.split("\0")


def test_tracing_the_script_shows_no_secret(folder: Folder) -> None:
    place = folder()
    plan = plan_of(dumping(env={"TOKEN": {"secret": "T"}}), secrets={"T": "s3cret"})
    (place / "secrets.env").write_text("export TOKEN=s3cret\n")
    done = run_by_hand(place, plan.script, "sh", "-x", "launch.sh")
    assert "TOKEN=s3cret" in done.stdout.split("\0")
    assert "s3cret" not in done.stderr


def test_home_that_is_gone_does_not_stop_the_launch(folder: Folder) -> None:
    place = folder()
    (place / "launch.sh").write_text(plan_of(dumping()).script)
    done = subprocess.run(
        ["sh", place / "launch.sh"], env={"HOME": "/nowhere"}, capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0
    assert "PWD=/" in done.stdout.split("\0")
