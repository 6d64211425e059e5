"""Inventories that are programs: what they print, and everything that they may do wrong."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.inventories import inventory
from stoker.config.inventories import program as inventory_program
from stoker.config.inventories.model import Definitions
from stoker.config.inventories.vars import MAGIC
from stoker.errors import ConfigError

Written = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def program(written: Written) -> Callable[[str], Path]:
    """Writes an executable shell script ``dyn`` and returns its path."""

    def write(text: str) -> Path:
        path = written({"dyn": f"#!/bin/sh\n{text}\n"}) / "dyn"
        path.chmod(0o755)
        return path

    return write


def printing(answer: object) -> str:
    return f"cat <<'EOF'\n{json.dumps(answer)}\nEOF"


def variables(found: inventory.Inventory) -> dict[str, dict[str, object]]:
    return {n: {k: v for k, v in h.vars.items() if k not in MAGIC} for n, h in found.hosts.items()}


def test_groups_hosts_and_variables_come_from_one_answer(program: Callable[[str], Path]) -> None:
    answer = {
        "_meta": {"hostvars": {"n1": {"a": 1}, "stranger": {"b": 1}}},
        "web": {"hosts": ["n1", "n2"], "vars": {"ansible_port": 2222, "ansible_group_priority": 7}},
        "db": ["n3"],
        "top": {"children": ["web", "later"]},
        "empty": {},
    }
    path = program(f'[ "$*" = --list ] || exit 9\n{printing(answer)}')
    found = inventory.load([path], root=path.parent)
    assert variables(found) == {
        "n1": {"ansible_port": 2222, "a": 1},
        "n2": {"ansible_port": 2222},
        "n3": {},
    }
    assert found.groups["web"].priority == 7
    assert found.groups["top"].children == ("web", "later")
    assert found.hosts["n1"].vars["inventory_file"] == str(path)
    assert found.hosts["n1"].source == "dyn"


def test_without_meta_each_host_is_asked_for(program: Callable[[str], Path]) -> None:
    path = program(
        'if [ "$1" = --list ]; then echo \'{"web": ["n1", "n2"]}\'\n'
        'elif [ "$2" = n1 ]; then echo \'{"me": "n1"}\'\nfi'
    )
    found = inventory.load([path], root=path.parent)
    assert variables(found) == {"n1": {"me": "n1"}, "n2": {}}


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo no token >&2; exit 3", "dyn: dyn --list ended with 3 (no token)"),
        ("kill -9 $$", "dyn: dyn --list was ended by signal 9"),
        ("echo '[]'", "dyn: dyn --list prints a list, an object of groups is expected"),
        ("echo", "dyn: dyn --list prints no JSON: Expecting value: line 2 column 1 (char 1)"),
        ("printf '\\377'", "dyn: dyn --list prints something that is not UTF-8"),
        ("head -c 100000 /dev/zero | tr '\\0' '['", "dyn: dyn --list prints no JSON: "),
        ("yes", "dyn: dyn --list prints more than 32 MiB"),
    ],
)
def test_a_program_that_fails_is_told_by_why(
    program: Callable[[str], Path], script: str, problem: str
) -> None:
    path = program(script)
    with pytest.raises(ConfigError) as caught:
        inventory.load([path], root=path.parent)
    assert [str(one)[: len(problem)] for one in caught.value.problems] == [problem]


def test_every_mistake_in_an_answer_is_told(program: Callable[[str], Path]) -> None:
    answer = {
        "_meta": {"hostvars": {"n1": {"ansible_prot": 22}, "n2": []}},
        "web": {"hosts": ["n1", "n2", 7, "a b"], "vars": []},
        "db": {"hosts": {"n1": {}}, "children": ["all", "x:y"]},
        "old": {"hots": []},
        "odd": 7,
        "a b": [],
    }
    path = program(printing(answer))
    with pytest.raises(ConfigError) as caught:
        inventory.load([path], root=path.parent)
    assert [str(one) for one in caught.value.problems] == [
        "dyn: 'a b' is no group name",
        "dyn: 'all' cannot be the child of group db",
        "dyn: 'x:y' cannot be the child of group db",
        "dyn: group odd is a single value (an object with hosts, vars and children is expected)",
        "dyn: group old has neither hosts nor vars nor children (hosts is a list of names)",
        "dyn: host n1: unknown variable ansible_prot (did you mean 'ansible_port'?)",
        "dyn: host n2: an object is expected, here stands a list",
        "dyn: hosts of group db: a list of names is expected, here stands an object",
        "dyn: hosts of group web: a name is expected, here stands a single value",
        "dyn: the host name 'a b' holds a space (is a ':' missing after a?)",
        "dyn: vars of group web: an object is expected, here stands a list",
    ]


def test_one_that_hangs_is_ended_with_what_it_started(program: Callable[[str], Path]) -> None:
    path = program('sleep 600 &\necho $! >"$0.pid"\nwait')
    begin = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        inventory_program.read(path, "dyn", Definitions(), deadline_s=0.5)
    assert time.monotonic() - begin < 5
    assert str(caught.value.problems[0]) == "dyn: dyn --list took longer than 0.5 s"
    pid = int(Path(f"{path}.pid").read_text())
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([ended], [], [], 5)[0]
    os.close(ended)


def test_an_agent_that_it_leaves_behind_is_not_waited_for(program: Callable[[str], Path]) -> None:
    path = program(f'{printing({"web": ["n1"]})}\nsleep 600 &\necho $! >"$0.pid"')
    into = Definitions()
    try:
        inventory_program.read(path, "dyn", into, deadline_s=20.0)
        assert "n1" in into.hosts
    finally:
        os.kill(int(Path(f"{path}.pid").read_text()), signal.SIGKILL)


def test_what_is_marked_executable_and_is_no_program_is_text(written: Written) -> None:
    root = written({"hosts.yml": "web: {hosts: {n1: }}\n", "hosts": "[web]\nn2\n"})
    for name in ("hosts.yml", "hosts"):
        (root / name).chmod(0o755)
    assert list(inventory.load([root / "hosts.yml", root / "hosts"], root=root).hosts) == ["n1", "n2"]


def test_no_terminal_and_no_input_are_given(program: Callable[[str], Path]) -> None:
    path = program('read line && exit 1\n(: </dev/tty) 2>/dev/null && exit 2\necho "{}"')
    assert os.access(path, os.X_OK)
    assert inventory.load([path], root=path.parent).hosts == {}
