"""Inventories: the same hosts and variables as Ansible's, and every mistake at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.files.yamlfile import Secret, Vault
from stoker.config.inventories import inventory
from stoker.config.inventories.vars import MAGIC, near_name
from stoker.errors import ConfigError, InputError
from tests.config.conftest import CASES

Written = Callable[[Mapping[str, str]], Path]

GOOD = sorted((CASES / "inventory" / "good").glob("*.json"))
BAD = sorted((CASES / "inventory" / "bad").iterdir())


def reported(path: Path, root: Path) -> list[str]:
    """What loading an inventory reports, as file:line text (hint)."""
    with pytest.raises(ConfigError) as caught:
        inventory.load([path], root=root)
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def load_case(case: Path) -> inventory.Inventory:
    folder = case.with_suffix("")
    hosts = folder / "hosts.yml"
    return inventory.load([hosts if hosts.exists() else folder], root=folder)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.stem)
def test_hosts_and_variables_are_those_that_ansible_gives(case: Path) -> None:
    expected = json.loads(case.read_text())
    found = load_case(case)
    own = {"group_names", "inventory_hostname_short"}
    variables = {
        name: {key: value for key, value in host.vars.items() if key not in MAGIC or key in own}
        for name, host in found.hosts.items()
    }
    assert variables == expected["hosts"]
    assert list(found.hosts) == list(expected["hosts"])
    assert {name: list(group.members) for name, group in found.groups.items()} == expected["groups"]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.stem)
def test_patterns_choose_the_hosts_that_ansible_chooses(case: Path) -> None:
    expected = json.loads(case.read_text())["select"]
    found = load_case(case)
    assert {pattern: [host.name for host in found.select([pattern])] for pattern in expected} == expected


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.stem)
def test_every_mistake_of_a_file_is_reported_at_its_place(case: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        inventory.load([case], root=case.parent)
    found = [
        f"# {problem.line}:{problem.column} {problem.what}" + (f" ({problem.hint})" if problem.hint else "")
        for problem in caught.value.problems
    ]
    assert found == [line for line in case.read_text().splitlines() if line.startswith("# ")]


def test_hosts_know_themselves_and_their_groups(written: Written) -> None:
    text = "web:\n  hosts:\n    a.example.com:\n    10.0.0.1:\ntop:\n  children:\n    web:\n"
    root = written({"inventory/hosts.yml": text})
    found = inventory.load([Path("inventory/hosts.yml")], root=root)
    host = found.hosts["a.example.com"]
    assert host.vars["inventory_hostname"] == "a.example.com"
    assert host.vars["inventory_hostname_short"] == "a"
    assert found.hosts["10.0.0.1"].vars["inventory_hostname_short"] == "10.0.0.1"
    assert host.vars["group_names"] == ["top", "web"]
    assert host.vars["groups"]["top"] == ["a.example.com", "10.0.0.1"]
    assert host.vars["inventory_dir"] == str(root / "inventory")
    assert host.vars["inventory_file"] == str(root / "inventory" / "hosts.yml")
    assert host.groups == ("top", "web")
    assert host.source == "inventory/hosts.yml:3"
    assert found.groups["web"].source == "inventory/hosts.yml:1"
    assert (found.groups["web"].depth, found.groups["top"].children) == (2, ("web",))


def test_templates_and_references_stay_as_they_are_written(written: Written) -> None:
    text = (
        "all:\n  hosts:\n    n1:\n      ansible_port: '{{ base + 1 }}'\n      model: '{{ models }}/k'\n"
        "      ansible_password: !secret SSH_PASSWORD\n      token: !vault |\n        $ANSIBLE_VAULT;1.1\n"
    )
    root = written({"hosts.yml": text})
    variables = inventory.load([root / "hosts.yml"], root=root).hosts["n1"].vars
    assert variables["ansible_port"] == "{{ base + 1 }}"
    assert variables["model"] == "{{ models }}/k"
    assert variables["ansible_password"] == Secret("SSH_PASSWORD")
    assert variables["token"] == Vault("$ANSIBLE_VAULT;1.1\n")


def test_passwords_show_neither_in_a_host_nor_in_a_message(written: Written) -> None:
    root = written({"hosts.yml": "a: {hosts: {n1: {ansible_password: hunter2}}}\n"})
    found = inventory.load([root / "hosts.yml"], root=root)
    assert "hunter2" not in repr(found)
    root = written({"hosts.yml": "a: {hosts: {n1: {ansible_password: 8675309, ansible_become_pass: 0b_}}}\n"})
    assert "8675309" not in str(reported(root / "hosts.yml", root))
    assert "0b_" not in str(reported(root / "hosts.yml", root))


def test_several_inventories_add_up_and_the_later_one_wins(written: Written) -> None:
    root = written(
        {
            "one/hosts.yml": "web: {hosts: {n1: {a: 1, b: 1}}}\n",
            "one/group_vars/web.yml": "c: 1\nd: 1\n",
            "two/hosts.yml": "web: {hosts: {n1: {b: 2}, n2: }}\n",
            "two/group_vars/all.yml": "c: 2\n",
            "two/group_vars/web.yml": "d: 2\n",
        }
    )
    found = inventory.load([Path("one/hosts.yml"), Path("two/hosts.yml")], root=root)
    variables = found.hosts["n1"].vars
    # A group's file wins over all's, of whichever inventory; so says ansible-core 2.19.
    assert [variables[name] for name in "abcd"] == [1, 2, 1, 2]
    assert list(found.hosts) == ["n1", "n2"]


def test_variables_beside_the_playbooks_win_over_those_beside_the_inventory(written: Written) -> None:
    root = written(
        {
            "inventory/hosts.yml": "web: {hosts: {n1: {a: 1, b: 1, c: 1, d: 1}}}\n",
            "inventory/group_vars/web.yml": "e: 2\nf: 2\n",
            "inventory/host_vars/n1.yml": "a: 2\nb: 2\n",
            "playbooks/group_vars/all.yml": "e: 3\n",
            "playbooks/group_vars/web.yml": "a: 3\nf: 3\n",
            "playbooks/host_vars/n1.yml": "b: 4\n",
        }
    )
    found = inventory.load([Path("inventory")], root=root, playbooks=Path("playbooks"))
    # A host's inline variables win over any group's; a group's file over all's, wherever they lie.
    assert [found.hosts["n1"].vars[name] for name in "abcdef"] == [2, 4, 1, 1, 2, 3]


def test_a_host_may_be_called_as_the_group_that_it_is_alone_in(written: Written) -> None:
    root = written({"hosts.yml": "gate: {hosts: {gate: {a: 1}}}\nweb: {hosts: {n1: }}\n"})
    found = inventory.load([root / "hosts.yml"], root=root)
    assert found.hosts["gate"].vars["a"] == 1
    assert found.groups["gate"].vars == {"a": 1}  # so does Ansible, which warns


def test_a_host_called_as_a_group_of_others_is_refused(written: Written) -> None:
    root = written({"hosts.yml": "gate: {hosts: {n1: }}\nweb: {hosts: {gate: {a: 1}}}\n"})
    assert reported(root / "hosts.yml", root) == [
        "hosts.yml:1: a host and a group of others are called gate "
        "(rename one: Ansible takes the variables of the host for those of the group)"
    ]


def test_mistakes_of_all_files_come_at_once(written: Written) -> None:
    root = written(
        {
            "inventory/10.yml": "web:\n  host: {n1: }\n",
            "inventory/20.yml": "db:\n  hosts:\n    n2\n    n3:\n",
            "inventory/30.ini": "[web]\nn1 user\n",
            "inventory/40.yml": "web: {hosts: {n4: }}\n",
            "inventory/group_vars/web.yml": "- a\n",
            "inventory/group_vars/all.yml": "a: 1\na: 2\nansible_usr: root\n",
            "inventory/host_vars/n4.yml": "ansible_group_priority: 1\nansible_host: yes\n",
            "inventory/host_vars/n5.yml": "[never read: there is no such host\n",
        }
    )
    assert reported(Path("inventory"), root) == [
        "inventory/10.yml:2: unknown key host in group web (did you mean 'hosts'?)",
        "inventory/20.yml:4: this key cannot stand below the line before "
        "(a missing ':' there, or too deep an indentation here)",
        "inventory/30.ini:2: user is no variable "
        "(write NAME=VALUE, one host a line, without blanks around =)",
        "inventory/group_vars/all.yml:2: the key a is here twice, first on line 1",
        "inventory/group_vars/web.yml:1: a mapping of variables is expected, here stands a list "
        "(write NAME: VALUE)",
        "inventory/host_vars/n4.yml:1: ansible_group_priority has no effect here "
        "(it stands in a group's vars in the inventory file)",
        "inventory/host_vars/n4.yml:2: ansible_host: yes was read as true (quote it)",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#!/bin/sh\necho {}\n", "hosts:1: is a program, and not executable (chmod +x hosts)"),
        ("all:\n  hosts:\n   n1: [\n", "hosts:4: the YAML cannot be read here"),
        ("plugin: aws_ec2\n", "hosts:1: inventory plugins are not run (list the hosts here)"),
        ("", "hosts:1: the inventory is empty (write e.g. all: with hosts: below it)"),
        ("---\n# nothing\n", "hosts:1: the inventory is empty (write e.g. all: with hosts: below it)"),
        ("- n1\n", "hosts:1: groups are expected at the top level, here stands a list"),
        (
            "$ANSIBLE_VAULT;1.1;AES256\n3132\n",
            "hosts:1: the file is encrypted by Ansible Vault, which is not read",
        ),
    ],
)
def test_what_is_no_inventory_is_called_by_its_name(written: Written, text: str, problem: str) -> None:
    root = written({"hosts": text})
    found = reported(root / "hosts", root)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_a_missing_inventory_and_an_empty_folder_are_named(written: Written) -> None:
    root = written({"empty/group_vars/all.yml": "a: 1\n"})
    assert reported(Path("inventory"), root) == ["inventory: cannot be read: No such file or directory"]
    assert reported(Path("empty"), root)[0].startswith("empty: holds no inventory file")


def test_a_path_outside_the_project_is_shown_whole(written: Written) -> None:
    root = written({"elsewhere/hosts.yml": "a: []\n", "project/x": ""})
    assert reported(root / "elsewhere/hosts.yml", root / "project")[0].startswith(
        f"{root}/elsewhere/hosts.yml:1: "
    )


def test_a_variable_file_that_is_never_read_is_an_error(written: Written) -> None:
    root = written(
        {
            "hosts.yml": "web: {hosts: {n1: }}\n",
            "group_vars/web/a.yml": "a: 1\n",
            "group_vars/web.yml": "a: 2\n",
        }
    )
    assert reported(root / "hosts.yml", root) == [
        "group_vars/web.yml: is never read: group_vars/web comes first (move it into a folder web/)"
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_reported(written: Written) -> None:
    root = written(
        {"hosts.yml": "web: {hosts: {n1: }}\n", "group_vars/web.yml": "a: 1\n", "inv/hosts.yml": ""}
    )
    for folder in ("group_vars", "inv"):
        (root / folder).chmod(0)
    assert reported(root / "hosts.yml", root) == ["group_vars: cannot be read: Permission denied"]
    assert reported(root / "inv", root) == ["inv: cannot be read: Permission denied"]


def test_variable_files_of_other_kinds_are_named_and_empty_ones_pass(written: Written) -> None:
    root = written(
        {
            "hosts.yml": "web: {hosts: {n1: }, vars: , children: }\n",
            "group_vars/web/empty.yml": "# nothing\n",
            "group_vars/web/vault.yml": "$ANSIBLE_VAULT;1.1;AES256\n3132\n",
            "group_vars/web/word": "word\n",
            "group_vars/web/folder.d/a.yml": "[folders with an ending are passed over, as by Ansible\n",
        }
    )
    assert reported(root / "hosts.yml", root) == [
        "group_vars/web/vault.yml:1: the file is encrypted by Ansible Vault, and there is no password "
        "(see vault_password_file)",
        "group_vars/web/word:1: a mapping of variables is expected, here stands a single value "
        "(write NAME: VALUE)",
    ]


def test_an_unreadable_entry_in_a_folder_is_reported(written: Written) -> None:
    root = written({"inventory/hosts.yml": "web: {hosts: {n1: }}\n"})
    (root / "inventory" / "gone.yml").symlink_to(root / "nowhere")
    (root / "inventory" / "host_vars").mkdir()
    (root / "inventory" / "host_vars" / "n1.yml").symlink_to("n1.yml")
    assert reported(Path("inventory"), root) == [
        "inventory/gone.yml: cannot be read: No such file or directory",
        "inventory/host_vars/n1.yml: cannot be read: Too many levels of symbolic links",
    ]


def test_a_group_may_contain_one_group_by_two_ways(written: Written) -> None:
    text = "a: {children: {b: , c: }}\nb: {children: {d: }}\nc: {children: {d: }}\nd: {hosts: {n1: }}\n"
    root = written({"hosts.yml": text})
    found = inventory.load([root / "hosts.yml"], root=root)
    assert found.groups["a"].members == ("n1",)
    assert found.groups["d"].depth == 3


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ansible_hsot", "ansible_host"),
        ("ansible_prot", "ansible_port"),
        ("ansible_usr", "ansible_user"),
        ("ansible_python_interpretor", "ansible_python_interpreter"),
        ("ansiblehost", "ansible_host"),
        ("stoker_profile", "stoker_profiles"),
        ("stoker-bind", "stoker_bind"),
        ("ansible_host", ""),
        ("ansible_host2", ""),
        ("ansible_hostname", ""),
        ("ansible_become_exe", ""),
        ("ansible_ssh_args", ""),
        ("ansible_su_user", ""),
        ("ansible_facts", ""),
        ("stoker_color", ""),
        ("host", ""),
        ("models", ""),
    ],
)
def test_only_slips_of_known_variables_are_taken_for_mistakes(name: str, meant: str) -> None:
    assert near_name(name) == meant


def test_lists_under_a_near_name_are_a_variable_of_the_users_own(written: Written) -> None:
    root = written({"hosts.yml": "a: {hosts: {n1: {ansible_users: [x], ansible_hosts: {a: 1}}}}\n"})
    assert inventory.load([root / "hosts.yml"], root=root).hosts["n1"].vars["ansible_users"] == ["x"]


def test_adhoc_hosts_have_their_user_and_port() -> None:
    found = inventory.adhoc("root@10.1.230.174, b.example.com:2222,[fe80::1]:22,n[1:2],::1,")
    own = {
        name: {key: value for key, value in host.vars.items() if key not in MAGIC}
        for name, host in found.hosts.items()
    }
    assert own == {
        "10.1.230.174": {"ansible_host": "10.1.230.174", "ansible_user": "root"},
        "b.example.com": {"ansible_host": "b.example.com", "ansible_port": 2222},
        "fe80::1": {"ansible_host": "fe80::1", "ansible_port": 22},
        "n1": {"ansible_host": "n1"},
        "n2": {"ansible_host": "n2"},
        "::1": {"ansible_host": "::1"},
    }
    assert found.hosts["n1"].source == "command line"
    assert found.hosts["n1"].vars["inventory_dir"] is None
    assert [host.name for host in found.select(["all"])] == list(found.hosts)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (",", "no host is named"),
        ("@host,", "names no user before the @"),
        ("-oProxyCommand=x@host,", "names no user before the @"),
        ("-v,", "is no host name"),
        ("a:0,", "is no port"),
        ("root@a,me@a", "a is named twice, and differently"),
        ("n[2:1],", "runs backwards"),
        ("a b,", "holds a space"),
    ],
)
def test_a_broken_adhoc_list_is_refused(text: str, what: str) -> None:
    with pytest.raises(InputError, match=what) as caught:
        inventory.adhoc(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "adhoc"), [("a,", True), ("root@h, ", True), ("a,b", False), ("all", False)]
)
def test_a_trailing_comma_makes_a_list_of_its_own(text: str, adhoc: bool) -> None:
    assert inventory.is_adhoc(text) is adhoc


def test_ten_thousand_hosts_load_in_time_that_grows_with_their_number(written: Written) -> None:
    def seconds(hosts: int) -> float:
        entries = "".join(f"    n{n}: {{ansible_host: 10.0.0.1, ansible_user: root}}\n" for n in range(hosts))
        root = written({"hosts.yml": f"web:\n  hosts:\n{entries}    r[00001:{hosts:05}]:\n"})
        begin = time.process_time()
        found = inventory.load([root / "hosts.yml"], root=root)
        assert len(found.select(["all", "!n1", "&web"])) == 2 * hosts - 1
        return time.process_time() - begin

    small = min(seconds(1000) for _ in range(3))
    assert (
        seconds(10_000) < 40 * small
    )  # ten times the hosts; quadratic work would take a hundred times as long
