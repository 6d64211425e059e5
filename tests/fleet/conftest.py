"""A project whose playbooks are run in the test's own process, over real agents on this machine."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stoker.config import extravars, settings
from stoker.config.books import playbook
from stoker.config.books.playbook import Play, Task
from stoker.config.inventories.inventory import Host
from stoker.fleet.books import play as playing
from stoker.fleet.books import playlog
from stoker.fleet.books.recap import Report
from stoker.fleet.books.result import Result
from stoker.fleet.books.stages import Options, stages
from stoker.fleet.books.verbs import modules
from stoker.fleet.project import Project
from stoker.fleet.session import target_of
from stoker.reach.client import Agent
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings
from tests.e2e.project import ProjectFolder

HERE = {"ansible_connection": "local", "host_var": "{{ inventory_hostname }}"}
HOSTS: dict[str, dict[str, object]] = {
    "a": dict(HERE),
    "b": dict(HERE),
    "c": dict(HERE),
    "gone": {"ansible_host": "127.0.0.1", "ansible_port": 9, **HERE, "ansible_connection": "ssh"},
}


@dataclass
class Heard:
    """Everything that a run tells, in order; it is told by several threads."""

    plays: list[tuple[str, list[str]]] = field(default_factory=list)
    tasks: list[tuple[str, list[str]]] = field(default_factory=list)
    tries: list[tuple[str, int]] = field(default_factory=list)
    rounds: list[tuple[str, str]] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    results: list[tuple[str, str, Result]] = field(default_factory=list)

    def play(self, play: Play, hosts: Sequence[str]) -> None:
        self.plays.append((play.name, list(hosts)))

    def begin(self, task: Task, title: str, commands: Sequence[str]) -> bool:
        self.tasks.append((title, list(commands)))
        return True

    def again(self, host: str, task: Task, left: int, result: Result) -> None:
        self.tries.append((host, left))

    def round(self, host: str, task: Task, command: str) -> None:
        self.rounds.append((host, command))

    def event(self, host: str, event: dict[str, Any]) -> None:
        self.events.append((host, event))

    def ended(self, host: str, task: Task, result: Result) -> None:
        self.results.append((host, task.name, result))

    def result(self, host: str, task: str) -> Result:
        """What came of a task (of its last round) on a host."""
        return [result for name, title, result in self.results if (name, title) == (host, task)][-1]


class Books:
    """A project whose books are run in this process.

    Args:
        folder: The project's.
    """

    def __init__(self, folder: ProjectFolder) -> None:
        self.folder = folder
        self.heard = Heard()
        self.connected: list[str] = []
        self.stop = threading.Event()
        self.resuming = False
        self.folder.hosts(HOSTS)

    def run(self, text: str, **options: Any) -> Report:
        """Run a book, given by its text."""
        return self.run_file(self.folder.write("playbooks/book.yml", text), **options)

    def resume(self, text: str, **options: Any) -> Report:
        """Go on with the last run of a book, whose text may be another by now."""
        self.resuming = True
        return self.run(text, **options)

    def run_file(self, path: Path, **options: Any) -> Report:
        """Run a book, given by its file."""
        project = Project(settings.load(self.folder.root, {"connect_timeout_s": 5}), {})
        reach = Reach(ReachSettings.of(project.settings))

        def open_agent(host: Host) -> Agent:
            self.connected.append(host.name)
            return reach.connect(target_of(host), self.stop)

        book = playbook.load(path, modules(), shown=path.name)
        given = Options(**options)
        chosen = stages(book, project, given)
        playing.check(book, chosen, project, given)
        log, about = playlog.path_of(self.folder.root, path), playlog.about(given)
        journal = playlog.Journal(log, about, playlog.read(log, about) if self.resuming else ())
        return playing.run(book, chosen, project, given, open_agent, self.heard, self.stop, journal)


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Books]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    yield Books(ProjectFolder(tmp_path / "project"))


def typed(args: Sequence[str], root: Path) -> dict[str, Any]:
    """A case's arguments as options."""
    options: dict[str, Any] = {"check": "--check" in args}
    pairs = list(itertools.pairwise(args))
    options["start_at"] = next((value for flag, value in pairs if flag == "--start-at"), "")
    for flag, name in (("--tags", "tags"), ("--skip-tags", "skip_tags")):
        options[name] = frozenset(tag for f, value in pairs if f == flag for tag in value.split(","))
    options["limit"] = tuple(value for f, value in pairs if f == "--limit")
    options["extra"] = extravars.parse([value for f, value in pairs if f == "--extra-var"], root)
    return options
