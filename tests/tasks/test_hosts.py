"""inv hosts: a table, a tree, variables, and the document of ansible-inventory; no secret in any of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder

HOSTS = """\
gpu:
  children:
    h200:
      hosts:
        n[1:2]: {models: /models, token: !secret HF}
  vars: {ansible_password: hunter2, ansible_user: root}
spare:
  hosts:
    s1:
"""


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path)
    folder.write("inventory/hosts.yml", HOSTS)
    return folder


def test_the_tree_shows_groups_hosts_and_variables(project: ProjectFolder) -> None:
    ended = project.inv("hosts", "--graph", "--vars", "--host", "n1,s1")
    assert ended.code == 0, ended.text
    assert ended.out.splitlines() == [
        "@all:",
        "  |--@ungrouped:",
        "  |--@gpu:",
        "  |  |--@h200:",
        "  |  |  |--n1",
        "  |  |  |  |--{ansible_password = (password)}",
        "  |  |  |  |--{ansible_user = root}",
        "  |  |  |  |--{models = /models}",
        "  |  |  |  |--{token = (secret HF)}",
        "  |--@spare:",
        "  |  |--s1",
    ]


def test_variables_stand_below_the_table(project: ProjectFolder) -> None:
    ended = project.inv("hosts", "--vars")
    assert ended.code == 0, ended.text
    lines = ended.out.splitlines()
    at = lines.index("  no variables")
    assert lines[at - 1] == "s1"
    assert lines[at + 7 :] == [
        '  ansible_password: "(password)"',
        '  ansible_user: "root"',
        '  models: "/models"',
        '  token: "(secret HF)"',
    ]


def test_the_document_holds_what_ansible_inventory_lists(project: ProjectFolder) -> None:
    ended = project.inv("hosts", "--json", "--host", "n1")
    n1 = {"ansible_password": "(password)", "ansible_user": "root", "models": "/models"}
    assert ended.json["inventory"] == {
        "_meta": {"hostvars": {"n1": {**n1, "token": "(secret HF)"}}, "profile": "inventory_legacy"},
        "all": {"children": ["ungrouped", "gpu", "spare"]},
        "gpu": {"children": ["h200"]},
        "h200": {"hosts": ["n1"]},
    }
    assert "hunter2" not in ended.text


def test_an_adhoc_list_is_an_inventory_of_its_own(project: ProjectFolder) -> None:
    ended = project.inv("hosts", "--graph", "--host", "root@10.0.0.7,")
    assert ended.out.splitlines() == ["@all:", "  |--@ungrouped:", "  |  |--10.0.0.7"]
