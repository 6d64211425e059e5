"""One command while it runs: load → choose → execute → render → exit code."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.config import settings as settings_file
from stoker.config.settings import Settings
from stoker.errors import ConfigError, InputError, Problem, StokerError, exit_code_of
from stoker.fleet import servers
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.pool import HostResult, fan_out, roll
from stoker.fleet.project import Project
from stoker.screen import Board, Screen, seconds
from stoker.tasks.outcomes import code_of, result_data, told

if TYPE_CHECKING:  # what plans a launch is loaded where one is planned, and SSH where a host is reached
    from stoker.config.inventories.inventory import Host
    from stoker.fleet.session import OnText
    from stoker.plan import LaunchPlan
    from stoker.reach.bare import Finished
    from stoker.reach.client import Agent
    from stoker.reach.reach import Reach


class Run:
    """What a command's body works with.

    Args:
        name: The command's name.
        settings: Typed settings.
        screen: The terminal.
    """

    def __init__(self, name: str, settings: Settings, screen: Screen) -> None:
        self.name = name
        self.settings = settings
        self.screen = screen
        self.args: dict[str, Any] = {}
        self.document: dict[str, Any] = {}
        self.stop = threading.Event()  # set by Ctrl-C: whatever runs on hosts is ended
        self._project: Project | None = None
        self._reach: Reach | None = None
        self._gate: AbstractContextManager[Any] = nullcontext()

    @classmethod
    def begin(cls, name: str, root: Path, values: Mapping[str, Any], screen: Screen) -> Run:
        """Type the settings.

        Raises:
            InputError: A wrong setting.
        """
        return cls(name, settings_file.load(root, values), screen)

    @property
    def project(self) -> Project:
        """The project, loaded piece by piece as it is needed."""
        if self._project is None:
            self._project = Project(self.settings, os.environ, inventory=self.args.get("inventory") or "")
        return self._project

    @property
    def check(self) -> bool:
        """Whether nothing may be touched."""
        return bool(self.args.get("check"))

    def need(self, flag: str, example: str) -> None:
        """A flag that the command cannot do without, and the command with all that it needs.

        Raises:
            InputError: It is absent.
        """
        from stoker.tasks.names import again

        if not self.args[flag]:
            shown = re.findall(r"--([a-z-]+) ('[^']*'|\S+)", example)
            lacks = [
                f"--{name} {value}" for name, value in shown if not self.args.get(name.replace("-", "_"))
            ]
            raise InputError(
                f"--{flag.replace('_', '-')} is missing", next_step=again(example.split()[1], " ".join(lacks))
            )

    def hosts(self, *, demanded: bool = False) -> tuple[Host, ...]:
        """The hosts that are meant.

        Args:
            demanded: The command changes hosts, so they must be named.

        Raises:
            InputError: None named where one must be, or a term that matches nothing.
        """
        from stoker.tasks.names import again

        patterns = self.args["host"]
        if demanded and not patterns:
            typed = again(self.name, "--host NAME")
            raise InputError(
                f"{self.name} may change hosts, so they must be named",
                next_step=f"{typed} (inv hosts lists them; --host all for every one)",
            )
        return self.project.hosts(patterns)

    def on_hosts(
        self,
        verb: Verb,
        *,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        endless: bool = False,
        board: AbstractContextManager[Board] | None = None,
    ) -> list[HostResult]:
        """Do a verb on every host that is meant, with live lines, and keep what came of it in the document.

        Args:
            verb: What to do.
            extra: Host name to more arguments for that host alone.
            endless: It goes on until Ctrl-C: then all hosts at once, and ``--forks`` is how many connect at
                once.
            board: Where it is shown while it runs; None: a line each.

        Returns:
            A result a host; a failed host is a value.

        Raises:
            InputError: Anything that can be found wrong before the first connection.
        """
        jobs = self._jobs(verb)
        self.unlock_keys([host for host, _ in jobs.values()])
        if endless:
            self._gate = threading.BoundedSemaphore(self.args.get("forks") or self.settings.forks)
        with board or self.screen.board(list(jobs)) as shown:
            results = self._execute(verb, list(jobs), jobs, dict(extra or {}), shown, endless)
        self.document["hosts"] = {result.host: result_data(result, check=self.check) for result in results}
        return results

    def _jobs(self, verb: Verb) -> dict[str, tuple[Host, Sequence[LaunchPlan]]]:
        """What is meant on each host, linted; the mistakes of all of them at once."""
        jobs: dict[str, tuple[Host, Sequence[LaunchPlan]]] = {}
        problems: list[Problem] = []
        for host in self.hosts(demanded=verb.changes):
            try:
                jobs[host.name] = (host, servers.meant(self.project, verb, host, self.args))
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems)
        self.tell_warnings()
        return jobs

    def tell_warnings(self) -> None:
        """What the linter has to say about the profiles that it let through, once."""
        told: list[str] = self.document.get("warnings", [])
        for said in (one.place_and_what for one in self.project.warnings):
            if said not in told:
                self.document["warnings"] = told = [*told, said]
                self.screen.aside(("note ", "bold yellow"), said)

    def unlock_keys(self, hosts: Sequence[Host]) -> None:
        """Ask for the passphrases of private keys, where somebody is there to ask; workers never do.

        Raises:
            InputError: What the inventory or ssh_config says is wrong.
        """
        if not sys.stdin.isatty():
            return
        from stoker.fleet.session import target_of

        targets = [target_of(host, self.project.secrets) for host in hosts]
        self.reach.unlock(targets, passphrase)

    def preview(self, verb: Verb) -> list[HostResult]:
        """What a changing verb would do, nothing touched."""
        self.args["check"] = True
        try:
            return self.on_hosts(verb)
        finally:
            self.args["check"] = False

    def confirm(self, question: str) -> None:
        """Ask before something that cannot be undone; ``--yes`` has answered already.

        Raises:
            InputError: No, or nobody there to ask.
        """
        if self.args.get("yes"):
            return
        if not sys.stdin.isatty():
            raise InputError("nobody is there to confirm", next_step="look at the list, then add --yes")
        self.screen.aside(f"{question} [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise InputError("not confirmed; nothing was touched", next_step="answer y, or narrow the choice")

    def end(self, results: Sequence[HostResult]) -> int:
        """Show each host that is not fine, why, and what to do next; return the exit code."""
        for result in results:
            if result.error is not None:
                word = ("interrupted ", "bold yellow") if result.status == "interrupted" else None
                self.screen.error(result.error, word)
        bad = [result for result in results if result.status not in ("ok",)]
        if bad and len(results) > 1:
            names = ", ".join(f"{result.host} ({result.status})" for result in bad)
            self.screen.say((f"{len(results) - len(bad)} of {len(results)} hosts fine; not: {names}", "bold"))
        if any(result.status == "skipped" for result in results):
            self.screen.say(("  next: ", "cyan"), "--serial all goes on with the others where one fails")
        return exit_code_of(code_of(result) for result in results)

    def _execute(
        self,
        verb: Verb,
        names: Sequence[str],
        jobs: Mapping[str, tuple[Host, Sequence[LaunchPlan]]],
        extra: Mapping[str, Mapping[str, Any]],
        board: Board,
        endless: bool,
    ) -> list[HostResult]:
        """Fan out, or roll where the verb changes hosts."""

        def work(name: str) -> list[Outcome]:
            return self._on(verb, *jobs[name], {**self.args, **extra.get(name, {})}, board)

        def done(result: HostResult) -> None:
            self.finished(board, result)

        forks = len(names) if endless else self.args.get("forks") or self.settings.forks
        if not verb.changes or self.check:
            return fan_out(names, work, forks=forks, on_done=done, stop=self.stop)
        serial = self.args.get("serial")
        size = self.settings.serial if serial is None else serial
        return roll(names, work, serial=size or len(names), forks=forks, on_done=done, stop=self.stop)

    def _on(
        self, verb: Verb, host: Host, plans: Sequence[LaunchPlan], args: dict[str, Any], board: Board
    ) -> list[Outcome]:
        """Do a verb on one host; what is a fault of ours is told without secrets.

        Raises:
            StokerError: Of the verb, or the fault.
        """
        from stoker.fleet.session import Session

        session = Session(host, self.connect, board.event, self.bare, self.stop)
        try:
            return verb.on(Job(self.project, session, args, check=self.check), plans)
        except (StokerError, KeyboardInterrupt):
            raise
        except Exception as raised:
            from stoker.tasks import faults

            raise faults.of(raised, self.project.secrets, host.name) from None
        finally:
            session.close()

    def finished(self, board: Board, result: HostResult) -> None:
        """One line (and what the verb has to say) for a host that is done."""
        if result.error is not None or result.data is None:
            what = told(result)
            board.line(result.host, ("✗ ", "bold red"), (f"{self.name}: {what}", "bold red"))
            return
        for outcome in result.data:
            sign = ("✗ ", "bold red") if outcome.exit_code else ("✓ ", "green")
            sign = ("- ", "dim") if outcome.skipped else sign
            took = (f" ({seconds(result.seconds)})", "dim")
            board.line(result.host, sign, (f"{self.name}: {outcome.summary}", "bold"), took)
            for text, style in outcome.lines:
                board.line(result.host, "  ", (text, style))

    @property
    def reach(self) -> Reach:
        """What all connections of this command share.

        Raises:
            InputError: ssh_config cannot be read.
        """
        if self._reach is None:
            from stoker.reach.reach import Reach
            from stoker.reach.target import ReachSettings

            self._reach = Reach(ReachSettings.of(self.settings))
        return self._reach

    def connect(self, host: Host) -> Agent:
        """Open a host's agent; Ctrl-C ends what it is asked to do."""
        from stoker.fleet.session import target_of

        with self._gate:
            return self.reach.connect(target_of(host, self.project.secrets), self.stop)

    def bare(self, host: Host, command: str, timeout_s: float | None, on_text: OnText) -> Finished:
        """Run one shell command on a host, without the agent."""
        from stoker.fleet.session import target_of
        from stoker.reach.bare import run_bare

        target = target_of(host, self.project.secrets)
        return run_bare(target, command, self.reach, timeout_s=timeout_s, on_output=on_text, stop=self.stop)


def passphrase(path: str) -> str:
    """What is typed on the terminal for a key; empty for nothing."""
    import getpass

    try:
        return getpass.getpass(f"Enter passphrase for key '{path}': ")
    except EOFError:
        return ""
