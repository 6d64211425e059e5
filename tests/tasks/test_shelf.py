"""Commands that a command line does not name are there by name, and whole as soon as they are used."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from stoker.tasks import names, shelf
from tests.e2e.project import ProjectFolder

WITH_A_TASK = """\
from invoke.tasks import task
from stoker.tasks import mount

ns = mount(__file__)


@task
def mine(c):
    ns["hosts"](c, json=True)


ns.add_task(mine)
"""


@pytest.mark.parametrize("shelves", [names.SHELF, names.LAB, names.OWN])
def test_the_shelf_names_every_command_in_order(shelves: dict[str, tuple[str, ...]]) -> None:
    for module, listed in shelves.items():
        commands = import_module(f"stoker.tasks.{module}").COMMANDS
        assert tuple(command.name for command in commands) == listed


def test_only_the_module_of_a_named_command_is_loaded(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path)
    project.write("inventory/hosts.yml", "all: {hosts: {here: {ansible_connection: local}}}\n")
    spy = "import atexit, gc, sys\n"
    spy += "atexit.register(lambda: print(gc.get_threshold()[0], *sorted(sys.modules), file=sys.stderr))\n"
    project.write("tasks.py", spy + "from stoker.tasks import mount\n\nns = mount(__file__)\n")
    ended = project.inv("exec", "--host", "here", "--cmd", "true")
    assert ended.code == 0, ended.text
    threshold, *modules = ended.err.split()
    assert int(threshold) > 10_000  # a start is no time to look for garbage
    loaded = set(modules)
    assert "stoker.tasks.execute" in loaded
    unwanted = ("stoker.tasks.life", "stoker.fleet.measure", "jinja2", "pydantic", "scipy", "rich")
    assert not loaded & set(unwanted)


def test_a_task_of_the_project_may_call_a_command_that_is_not_named(tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path)
    project.write("inventory/hosts.yml", "all: {hosts: {here: {ansible_connection: local}}}\n")
    project.write("tasks.py", WITH_A_TASK)
    ended = project.inv("exec", "--host", "here", "--cmd", "true", "mine")
    assert ended.code == 0, ended.text
    assert '"here"' in ended.out


def test_a_listing_is_whole_whatever_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["inv", "--list", "ping"])
    assert all(command.__doc__ for command in shelf.commands(names.SHELF))


def test_only_what_is_named_has_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["inv", "lab.up"])
    assert not any(command.flags for command in shelf.commands(names.SHELF))
    assert [command.name for command in shelf.commands(names.LAB, "lab.") if command.flags] == [
        "up",
        "down",
        "status",
        "reboot",
    ]
