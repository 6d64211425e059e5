"""What a book's check costs: hosts alike in all that it looks at are planned once, and no mistake is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import playbooks
from stoker.config import settings
from stoker.config.books import playbook
from stoker.config.inventories.inventory import Host
from stoker.config.layers import Kinds, Layers, Watched
from stoker.errors import ConfigError
from stoker.fleet.books import play as playing
from stoker.fleet.books.stages import Options, stages
from stoker.fleet.books.verbs import modules
from stoker.fleet.project import Project
from stoker.plan import LaunchPlan
from tests.e2e.project import ProjectFolder

PROFILE = "engine: llamacpp\nserver: {name: it, model: /m.gguf, port: 8080, command: [llama-server]}\n"


class Counting(Project):
    """A project that counts what it plans."""

    planned = 0

    def plan(self, name: str, host: Host, *, secrets: bool = True) -> LaunchPlan:
        self.planned += 1
        return super().plan(name, host, secrets=secrets)


def check(folder: ProjectFolder, text: str, **options: Any) -> int:
    """Check a book; how many plans that took."""
    project, given = Counting(settings.load(folder.root, {}), {}), Options(**options)
    path = folder.write("playbooks/book.yml", text)
    book = playbook.load(path, modules(), shown=path.name)
    playing.check(book, stages(book, project, given), project, given)
    return project.planned


@pytest.fixture
def fleet(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path)
    folder.hosts({f"n{number}": {"ansible_host": f"10.0.0.{number}"} for number in range(40)})
    folder.write("profiles/it.yml", PROFILE)
    return folder


def test_hosts_that_differ_in_nothing_that_is_looked_at_are_planned_once(fleet: ProjectFolder) -> None:
    assert check(fleet, "- hosts: all\n  tasks:\n    - restart: {profile: it}\n") == 1


def test_each_host_is_planned_where_something_that_differs_is_looked_at(fleet: ProjectFolder) -> None:
    fleet.write("profiles/it.yml", PROFILE + "env: {WHERE: '{{ ansible_host }}'}\n")
    assert check(fleet, "- hosts: all\n  tasks:\n    - restart: {profile: it}\n") == 40


def test_a_launch_template_of_ones_own_is_told_the_hosts_name(fleet: ProjectFolder) -> None:
    fleet.write("profiles/templates/it.sh.j2", '{% extends "launch.sh.j2" %}\n')
    assert check(fleet, "- hosts: all\n  tasks:\n    - restart: {profile: it}\n") == 40


@pytest.mark.parametrize(
    "written",
    [
        "env: {WHERE: '{{ rack }}'}",  # one host lacks it
        "env: {WHERE: '{{ where }}'}",  # a variable of a variable
    ],
)
def test_the_one_host_that_a_profile_does_not_fit_is_found(fleet: ProjectFolder, written: str) -> None:
    rows: dict[str, dict[str, object]] = {f"n{number}": {"rack": 1} for number in range(40)}
    rows["n33"] = {}
    fleet.hosts(rows)
    fleet.write("inventory/group_vars/all.yml", "where: 'rack {{ rack }}'\n")
    fleet.write("profiles/it.yml", PROFILE + written + "\n")
    with pytest.raises(ConfigError, match="'rack' is undefined for host n33"):
        check(fleet, "- hosts: all\n  tasks:\n    - restart: {profile: it}\n")


def test_a_profile_that_is_named_by_the_host_is_looked_for_on_each(fleet: ProjectFolder) -> None:
    for number in range(39):
        fleet.write(f"profiles/p-n{number}.yml", PROFILE)
    with pytest.raises(ConfigError, match="unknown profile 'p-n39'"):
        check(fleet, "- hosts: all\n  tasks:\n    - restart: {profile: 'p-{{ inventory_hostname }}'}\n")


def test_every_host_with_the_same_mistake_is_named(fleet: ProjectFolder) -> None:
    with pytest.raises(ConfigError) as raised:
        check(fleet, "- hosts: n1,n2\n  tasks:\n    - restart:\n")
    assert [problem.what.partition(":")[0] for problem in raised.value.problems] == ["n1", "n2"]


def test_the_condition_of_a_task_is_asked_of_each_host(fleet: ProjectFolder) -> None:
    """The unknown profile is wanted on one host alone."""
    book = "- hosts: all\n  tasks:\n    - restart: {profile: nope}\n      when: inventory_hostname == 'n7'\n"
    with pytest.raises(ConfigError, match="unknown profile 'nope'"):
        check(fleet, book)


def test_true_is_another_kind_than_1() -> None:
    def host(name: str, **variables: object) -> Host:
        return Host(name, variables, (), "")

    seen = Watched({"a": 1, "b": 2})
    assert (seen["a"], "c" in seen) == (1, False)
    kinds = Kinds()
    fine, other = kinds.of_task(), kinds.of_task()
    fine.add(host("one", a=1, b=2), seen.asked)
    assert fine.has(host("two", a=1, b=3))
    assert not fine.has(host("three", a=True))
    assert not fine.has(host("four", a=1, c=None))
    assert not other.has(host("two", a=1, b=3)), "of another task nothing is known"


UNDEFINED = """\
- hosts: n1,n2
  vars: {chain: "{{ nobody_defines }}", item_of: {a: 1}}
  tasks:
    - {command: "echo {{ nowhere }}"}                                        # line 4
    - {debug: {msg: "{{ chain }}"}}                                          # line 5
    - {command: ls, when: nowhere_either == 1}                               # line 6
    - {command: "echo {{ item.x }} {{ nobody }}", loop: [{x: 1}]}            # line 7
    - {command: ls, environment: {X: "{{ no_env }}"}}                        # line 8
    - {command: "echo {{ known_later }}", register: r}
    - {set_fact: {known_later: 1}}
    - {debug: {msg: "{{ nowhere }}"}, ignore_errors: true}
    - {debug: {msg: "{{ nowhere }}"}, when: r is changed}
    - {debug: {msg: "{{ nowhere }}"}, when: nowhere is defined}
    - {debug: {msg: "{{ nowhere | default('x') }} {{ item_of.b | default('y') }} {{ only | default('z') }}"}}
    - block: [{debug: {msg: "{{ nowhere }}"}}]
      rescue: [{debug: {msg: "{{ nowhere }} {{ ansible_failed_task.name }}"}}]
    - {debug: {msg: "{{ only }}"}, when: inventory_hostname == 'n1'}
    - {debug: {msg: "{{ only }}"}}                                           # line 18
    - {assert: {that: [nowhere is defined]}}
    - {debug: {msg: "{{ nowhere }}"}}
"""


def test_a_variable_that_nobody_defines_is_told_before_the_first_connection(fleet: ProjectFolder) -> None:
    fleet.write("inventory/host_vars/n1.yml", "only: here\n")
    with pytest.raises(ConfigError) as raised:
        check(fleet, UNDEFINED)
    told = [(one.line, one.what.rpartition(": ")[2]) for one in raised.value.problems]
    assert told == [
        (4, "'nowhere' is undefined"),
        (5, "'nobody_defines' is undefined"),
        (6, "'nowhere_either' is undefined"),
        (7, "'nobody' is undefined"),
        (8, "'no_env' is undefined"),
        (18, "'only' is undefined"),
    ]
    names = ("nowhere", "nobody_defines", "nowhere_either", "nobody", "no_env", "only")
    check(fleet, UNDEFINED, extra=dict.fromkeys(names, "given"))


def test_of_layers_the_first_wins() -> None:
    layers = Layers({"a": 1}, {"a": 2, "b": 3})
    assert dict(layers) == {"a": 1, "b": 3}
    assert (len(layers), "b" in layers, layers.get("c")) == (2, True, None)


@pytest.mark.long
def test_the_speed_of_a_long_book_is_measured_by_the_whole_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 < playbooks.main(20, 100) < 60
    assert "whole command" in capsys.readouterr().out
