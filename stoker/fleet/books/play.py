"""A playbook running: play by play, task by task, the hosts of a play side by side and in step."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.config.books.playbooktree import Playbook
from stoker.config.inventories.inventory import Host
from stoker.errors import ConfigError, HostInterrupted
from stoker.fleet.books import serial, undefined
from stoker.fleet.books.acts import Acts
from stoker.fleet.books.flow import Flow
from stoker.fleet.books.playlog import Journal
from stoker.fleet.books.recap import Part, PlayReport, Report
from stoker.fleet.books.rehearse import late_names, reachable, rehearse
from stoker.fleet.books.scope import Frame, HostVars, own
from stoker.fleet.books.stages import Options, Stage, local_or_known
from stoker.fleet.books.step import Setting
from stoker.fleet.books.watch import Watch
from stoker.fleet.crew import Crew
from stoker.fleet.pool import fan_out
from stoker.fleet.session import Session

if TYPE_CHECKING:
    from stoker.fleet.project import Project
    from stoker.reach.client import Agent


def run(
    book: Playbook,
    stages: Sequence[Stage],
    project: Project,
    options: Options,
    connect: Callable[[Host], Agent],
    watch: Watch,
    stop: threading.Event | None = None,
    journal: Journal | None = None,
) -> Report:
    """Run a playbook.

    Args:
        book: The book.
        stages: What of it is to run.
        project: The wiring.
        options: How.
        connect: Opens a host's agent; called once a host at most.
        watch: Told what happens.
        stop: Set by Ctrl-C; what ``connect`` opens ends its calls by it.
        journal: Keeps what is done; None: nothing is kept.

    Returns:
        What came of it; a failed host is a value in it.

    Raises:
        InputError: What can be found wrong before the first connection.
    """
    one = _Run(
        book, project, options, connect, watch, stop or threading.Event(), journal or Journal(None, {})
    )
    with one.crew:
        return one.all(stages)


def check(book: Playbook, stages: Sequence[Stage], project: Project, options: Options) -> None:
    """Find out before the first connection what can be found out.

    Raises:
        ConfigError: Every mistake found, at the tasks' lines.
        InputError: A host's connection variables are wrong, or a template of a play gives something else.
    """
    everybody = HostVars(project.inventory.hosts, {})
    folder = str(book.path.parent)
    values = own(check=options.check, diff=options.diff, hosts=(), active=(), folder=folder, others=everybody)
    reachable(host for stage in stages for host in stage.hosts)
    problems = undefined.found(stages, options, values, late_names(stages))
    try:
        rehearse(stages, project, options, values)
    except ConfigError as error:
        problems = [*error.problems, *problems]
    if problems:
        raise ConfigError(problems)
    for stage in stages:
        frame = Frame(stage.play.vars, options.extra, values)
        serial.batches(stage, frame)
        serial.most(stage, frame)
        serial.force(stage, frame)


@dataclass(frozen=True)
class _Run:
    """One run of a book."""

    book: Playbook
    project: Project
    options: Options
    connect: Callable[[Host], Agent]
    watch: Watch
    stop: threading.Event
    journal: Journal
    report: Report = field(default_factory=Report, init=False)
    _facts: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    # How many plays a host has yet to come through.
    _due: Counter[str] = field(default_factory=Counter, init=False)
    crew: Crew = field(default_factory=Crew, init=False)

    def all(self, stages: Sequence[Stage]) -> Report:
        """Every play; sessions are closed however it ends."""
        check(self.book, stages, self.project, self.options)
        self._due.update(host.name for stage in stages for host in stage.hosts)
        try:
            for stage in stages:
                if not self._play(stage) and not self.report.interrupted:
                    self.report.ended_at = stage.play
                if self.report.ended_at or self.report.interrupted:
                    break
        except KeyboardInterrupt:
            self.report.interrupted = True
        finally:
            self._leave()
            self.journal.end(self.report.exit_code)
        for name, part in self.report.parts.items():
            part.interrupted = part.interrupted or (self.report.interrupted and self._due[name] > 0)
        return self.report

    def _leave(self) -> None:
        """Close every connection, side by side: one that hangs is waited for, and the others meanwhile."""
        parts, hurry = self.report.parts, threading.Event()
        sessions = {name: (part.session, *part.delegates.values()) for name, part in parts.items()}

        def close(name: str) -> None:
            for session in sessions[name]:
                session.close()

        try:
            for session in (one for several in sessions.values() for one in several):
                session.leave()
            fan_out(list(sessions), close, forks=len(sessions), stop=hurry, grace_s=0, crew=self.crew)
        except KeyboardInterrupt:
            hurry.set()
        self.report.interrupted = self.report.interrupted or hurry.is_set()

    def _play(self, stage: Stage) -> bool:
        """One play; False where a batch of it lost all of its hosts, which ends the book as in Ansible."""
        for host in stage.hosts:
            self._join(host)
        report = PlayReport(stage.play, tuple(host.name for host in stage.hosts))
        self.report.plays.append(report)
        batches = serial.batches(stage, self._frame(stage, report.hosts, report.hosts))
        if not batches:
            self.watch.play(stage.play, ())
        return all(self._batch(stage, report, names) for names in batches)

    def _batch(self, stage: Stage, report: PlayReport, names: Sequence[str]) -> bool:
        """One batch of a play's hosts; False where it ends the book."""
        parts = {name: self.report.parts[name] for name in names}
        left = [name for name, part in parts.items() if part.error is not None]
        there = [name for name in names if name not in left]
        self.watch.play(stage.play, there)
        frame = self._frame(stage, report.hosts, names)
        acts = Acts(
            lambda active: self._setting(stage, report.hosts, names, active),
            self.report,
            report,
            self._for(stage),
            self.watch,
            self.journal,
            self.stop,
            self.book.shown,
            self.crew,
        )
        flow = Flow(stage, names, left, acts, serial.most(stage, frame), serial.force(stage, frame))
        self._due.subtract(self._go(stage, flow))
        for name in flow.down:
            parts[name].error = parts[name].error or parts[name].trouble
        for name, pending in flow.pending().items():
            parts[name].pending = (*parts[name].pending, *pending)
        lost = sum(part.error is not None for part in parts.values()) - len(left)
        return not flow.broken and not self.report.interrupted and (not parts or lost < len(parts))

    def _go(self, stage: Stage, flow: Flow) -> set[str]:
        """Take a batch through its play; the hosts that came to its end, before any Ctrl-C."""
        through: set[str] = set()
        try:
            if stage.play.strategy == "free":
                flow.run_free(lambda work, names: self._each(work, names, through))
            else:
                flow.run()
        except KeyboardInterrupt:
            self.stop.set()
        self.report.interrupted = self.report.interrupted or self.stop.is_set()
        return through | set(flow.gone) if self.report.interrupted else set(flow.names)

    def _each(self, work: Callable[[str], None], names: Sequence[str], through: set[str]) -> None:
        """Something for each host, side by side; who was through with it before Ctrl-C is noted."""

        def whole(name: str) -> None:
            work(name)
            if not self.stop.is_set():
                through.add(name)

        for result in fan_out(list(names), whole, forks=self.options.forks, stop=self.stop):
            part, error = self.report.parts[result.host], result.error
            if result.status == "failed":  # a fault of ours: what a task raises is a value by then
                part.error = error
            elif isinstance(error, HostInterrupted):  # cut short: its own thread cannot tell
                part.goes_on = True
                self._pass_on(result.host, {"type": "note", "text": f"{error.what}; {error.next_step}"})

    def _for(self, stage: Stage) -> Options:
        return replace(self.options, free=stage.play.strategy == "free")

    def _join(self, host: Host) -> None:
        if host.name not in self.report.parts:
            part = Part(Session(host, self.connect, self._pass_on, stop=self.stop))
            self.report.parts[host.name] = part
            self._facts[host.name] = part.facts

    def _pass_on(self, host: str, event: dict[str, Any]) -> None:
        part = self.report.parts.get(host)
        if part is None or not part.silent:
            self.watch.event(host, event)

    def _elsewhere(self, host: str, at: str) -> Session:
        """A connection of its own to the host that a task is delegated to.

        Raises:
            InputError: There is no such host.
        """
        part = self.report.parts[host]
        if at == host:
            return part.session
        if at not in part.delegates:
            part.delegates[at] = Session(
                local_or_known(at, self.project),
                self.connect,
                lambda _, event: self._pass_on(host, event),
                stop=self.stop,
            )
        return part.delegates[at]

    def _setting(
        self, stage: Stage, hosts: Sequence[str], batch: Sequence[str], active: Sequence[str]
    ) -> Setting:
        lost = {one for one in hosts if one not in batch and self.report.parts[one].error is not None}
        left = [one for one in hosts if one in active or not (one in batch or one in lost)]
        frame = self._frame(stage, hosts, active, left)
        return Setting(
            self.project, frame, self.options.check, self.watch, self.stop, self._elsewhere, self.options.diff
        )

    def _frame(
        self, stage: Stage, hosts: Sequence[str], active: Sequence[str], left: Sequence[str] = ()
    ) -> Frame:
        return Frame(stage.play.vars, self.options.extra, self._own(hosts, active, left))

    def _own(self, hosts: Sequence[str], active: Sequence[str], left: Sequence[str]) -> dict[str, Any]:
        everybody = HostVars(self.project.inventory.hosts, self._facts)
        folder = str(self.book.path.parent)
        given = self.options
        return own(
            check=given.check,
            diff=given.diff,
            hosts=hosts,
            left=left,
            active=active,
            folder=folder,
            others=everybody,
        )
