"""INI inventories: every mistake at its line; what they mean is judged in test_inventory_ansible."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.inventories import inventory
from stoker.config.inventories.ini import literal
from stoker.errors import ConfigError

Written = Callable[[Mapping[str, str]], Path]


def reported(root: Path, name: str = "hosts.ini") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        inventory.load([root / name], root=root)
    return [str(problem) for problem in caught.value.problems]


def test_every_mistake_of_a_file_is_told_with_its_line(written: Written) -> None:
    text = """\
n1 ansible_prot=22 a=1 a=2
n2 "unpaired
n[3:1]
[web servers]
skipped, as nobody knows whose it is
[web:host]
[web:vars]
a
a = 1
a = 2
ansible_port = 99999
[top:children]
wbe
a=b
all
[db:vars]
a=1
[app]
root@n4
n5 user root
n6 ansible_user=4711
n7 =1
"""
    assert reported(written({"hosts.ini": text})) == [
        "hosts.ini:1: the variable a is here twice",
        "hosts.ini:1: unknown variable ansible_prot (did you mean 'ansible_port'?)",
        "hosts.ini:2: the line cannot be split into words: no closing quotation (pair the quotes)",
        "hosts.ini:3: [3:1] in n[3:1] runs backwards (write [1:3])",
        "hosts.ini:4: [web servers] is no section "
        "(write [group], [group:vars] or [group:children], without blanks)",
        "hosts.ini:6: [web:host] is no section (did you mean 'hosts'?)",
        "hosts.ini:7: [web:vars] is about a group that nothing declares (write [web] with its hosts)",
        "hosts.ini:8: a variable is expected here (write NAME=VALUE)",
        "hosts.ini:10: the variable a is here twice, first on line 9",
        "hosts.ini:11: ansible_port: 99999 is no port (a port is a whole number from 1 to 65535)",
        "hosts.ini:13: group top has the child wbe, which nothing declares (write [wbe] with its hosts)",
        "hosts.ini:14: a=b is no group name (variables stand in [group:vars])",
        "hosts.ini:15: all cannot be the child of a group (it contains every group)",
        "hosts.ini:16: [db:vars] is about a group that nothing declares (write [db] with its hosts)",
        "hosts.ini:19: the host name root@n4 holds a user (write n4 and its variable ansible_user: root)",
        "hosts.ini:20: root is no variable (write NAME=VALUE, one host a line, without blanks around =)",
        "hosts.ini:20: user is no variable (write NAME=VALUE, one host a line, without blanks around =)",
        "hosts.ini:21: ansible_user: 4711 was read as a number "
        "(quote it twice, as the line is split like a shell's: NAME=\"'VALUE'\")",
        "hosts.ini:22: behind a host stand variables "
        "(write NAME=VALUE, one host a line, without blanks around =)",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# only\n; comments\n"])
def test_a_file_that_says_nothing_is_an_error(written: Written, text: str) -> None:
    assert reported(written({"hosts.ini": text})) == [
        "hosts.ini:1: the inventory is empty (write a host's name on a line)"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hosts", "[web]\nn1 ansible_host=10.0.0.1\n"),
        ("hosts", "# hosts\nn1 ansible_host=10.0.0.1\n"),
        ("hosts", "n1:2222\n"),
        ("hosts.inventory", "n1\n"),
        ("production.example", "n1\n"),
    ],
)
def test_a_file_that_is_no_yaml_by_its_name_or_look_is_ini(written: Written, name: str, text: str) -> None:
    root = written({name: text})
    assert list(inventory.load([root / name], root=root).hosts) == ["n1"]


def test_the_places_of_hosts_and_groups_are_known(written: Written) -> None:
    root = written({"hosts.ini": "[web]\nn1\n[top:children]\nweb\n"})
    found = inventory.load([root / "hosts.ini"], root=root)
    assert found.hosts["n1"].source == "hosts.ini:2"
    assert found.groups["top"].source == "hosts.ini:3"


def test_a_group_of_an_earlier_file_is_declared(written: Written) -> None:
    root = written({"inv/10.yml": "web: {hosts: {n1: }}\n", "inv/20.ini": "[web:vars]\na=1\n"})
    assert inventory.load([root / "inv"], root=root).hosts["n1"].vars["a"] == 1


@pytest.mark.parametrize(
    "text", ["[" * 5000, "-" * 100_000 + "1", "(" * 150 + "," + ")" * 150, "{[]: 1}", "'\\ud800'"]
)
def test_a_hostile_value_is_a_text_or_a_mistake(text: str) -> None:
    begin = time.monotonic()
    try:
        value = literal(text)
    except ValueError:
        value = text
    assert value == text
    assert time.monotonic() - begin < 2
