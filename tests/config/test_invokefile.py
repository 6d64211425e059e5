"""What Invoke cannot merge of its configuration is told before it tries; Ctrl-C is quiet from the start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from invoke.config import Config

from stoker.config import invokefile
from stoker.errors import InputError
from stoker.fleet.flags import Flag

DEFAULTS = {**Config.global_defaults(), "stoker": {"forks": None, "secrets": {}}}

TASKS = "from stoker.tasks import mount\n\nns = mount(__file__)\n"
MANY = "a: &a {" + "".join(f"k{n}: 1, " for n in range(200)) + "}\n"
MANY += "".join(f"b{n}: *a\n" for n in range(90))
BROKEN = [
    ("tasks: 5", "invoke.yaml:1"),
    ("run: no", "invoke.yaml:1"),
    ("run:\n  env: 5", "invoke.yaml:2"),
    ("tasks: {executor_class: 5}", "executor_class"),
    ("stoker: {forks: {a: 1}}", "stoker.forks"),
    ("stoker: [1]", "stoker"),
    ("a: [", "invoke.yaml:"),
    ("5: x", "the key 5"),
    ("a: {no: 1}", "the key no"),
    ("- 1", "mapping"),
    ("a: !secret x", "tag"),
    ("run_echo: 1", "INVOKE_RUN_ECHO"),
    ("a: &x {b: *x}", "contains itself"),
    ("a: " + "{b: " * 60 + "1" + "}" * 60, "too deep"),
    (MANY, "too many"),
]


@pytest.mark.parametrize(("text", "word"), BROKEN)
def test_what_invoke_cannot_merge_is_told_by_its_place(
    written: Callable[[Mapping[str, str]], Path], text: str, word: str
) -> None:
    root = written({"invoke.yaml": text})
    found = invokefile.problems({root / "invoke": "invoke"}, DEFAULTS, {})
    assert found
    assert word in "\n".join(map(str, found))


def test_the_first_file_of_a_place_is_read_and_the_later_place_wins(
    written: Callable[[Mapping[str, str]], Path],
) -> None:
    root = written(
        {"a/x.yml": "tasks: 5", "a/x.json": "[]", "b/x.json": '{"mine": {"a": 1}}', "c/x.yaml": ""}
    )
    places = {root / "b" / "x": "b/x", root / "c" / "x": "c/x"}
    assert invokefile.problems(places, DEFAULTS, {}) == ()
    (found,) = invokefile.problems({root / "a" / "x": "a/x", **places}, DEFAULTS, {})
    assert found.file == "a/x.yml"


@pytest.mark.parametrize(
    ("text", "variable", "value", "is_right"),
    [
        ("stoker: {forks: 3}", "INVOKE_STOKER_FORKS", "4", True),
        ("stoker: {forks: 3}", "INVOKE_STOKER_FORKS", "many", False),
        ("mine: [1]", "INVOKE_MINE", "2", False),
        ("", "INVOKE_STOKER_FORKS", "many", True),
        ("", "INVOKE_RUN_WATCHERS", "x", False),
    ],
)
def test_a_variable_replaces_what_it_can_be_made_a_kind_of(
    written: Callable[[Mapping[str, str]], Path], text: str, variable: str, value: str, is_right: bool
) -> None:
    root = written({"invoke.yaml": text})
    found = invokefile.problems({root / "invoke": "invoke"}, DEFAULTS, {variable: value})
    assert (not found) == is_right
    assert all(variable in str(problem) for problem in found)


def run(root: Path, program: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", program, *argv],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("text", ["tasks: 5", "a: [", "run: {env: 1}"])
def test_json_is_given_also_where_no_command_can_begin(
    written: Callable[[Mapping[str, str]], Path], text: str
) -> None:
    done = run(written({"tasks.py": TASKS, "invoke.yaml": text}), "invoke", "hosts", "--json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["command"], document["exit_code"]) == ("hosts", 2)
    assert document["error"]["problems"][0]["file"] == "invoke.yaml"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", [None, "tasks: 5\n", "a: [\n"])
def test_a_home_that_is_wrong_is_told_by_the_console_script(tmp_path: Path, text: str | None) -> None:
    home = tmp_path / "home"
    if text is None:
        home.write_text("a file")
    else:
        home.mkdir()
        (home / ".invoke.yaml").write_text(text)
    code = "from stoker.program import main; import sys; sys.argv = ['stoker', 'hosts', '--json']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2
    assert "Traceback" not in done.stderr


def test_ctrl_c_before_a_command_has_begun_is_130_and_says_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # whatever runs the tests says
        "class Interrupts:\n"  # Ctrl-C arrives while the commands are still being imported
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'invoke.program': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "sys.argv = ['stoker', '--list']\n"
        "from stoker.program import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("kind", "value"), [("regex", "("), ("name", "../x"), ("name", "a b"), ("name", ".."), ("name", "x" * 65)]
)
def test_a_flag_that_no_host_could_take_is_refused_here(kind: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        Flag("it", "", kind).parse(value)  # type: ignore[arg-type]  # a literal
    assert caught.value.where == "--it"


def test_a_number_beyond_its_bounds_is_refused_here() -> None:
    flag = Flag("port", "", "whole", least=1, most=65535)
    assert flag.parse("65535") == 65535
    for value in ("65536", "0", "9" * 5000):
        with pytest.raises(InputError):
            flag.parse(value)
