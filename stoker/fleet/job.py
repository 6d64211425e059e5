"""The unit of work of a fleet command: one verb, one host, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from stoker.errors import EXIT_DONE
from stoker.fleet.flags import Flag, command_line

if TYPE_CHECKING:  # the heavy ones: a listing of the commands needs none of them
    from stoker.config.inventories.inventory import Host
    from stoker.fleet.project import Project
    from stoker.fleet.session import Session
    from stoker.plan import LaunchPlan


@dataclass(frozen=True)
class Job:
    """What a verb works with on one host.

    Args:
        project: The wiring.
        session: The host's connection.
        args: Every flag of the verb, typed.
        plan: The server that is meant; None where the verb needs none or only the host can tell.
        check: Say what would be done; touch nothing.
        plans: Of all servers that are meant on the host.
        env: Variables added to the environment of what is run there.
        user: As whom it is run; empty for the login's.
        secrets: What is masked in what a command says.
    """

    project: Project
    session: Session
    args: dict[str, Any]
    plan: LaunchPlan | None = None
    check: bool = False
    plans: tuple[LaunchPlan, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    secrets: tuple[str, ...] = ()

    @property
    def host(self) -> Host:
        """The host."""
        return self.session.host

    def on(self, plan: LaunchPlan | None) -> Job:
        """The same job for another server of the host."""
        return replace(self, plan=plan)


@dataclass(frozen=True)
class Outcome:
    """What a verb did on one host.

    Args:
        summary: One line for people.
        data: JSON types for programs.
        changed: Whether the host was changed (or would be, under ``--check``).
        exit_code: 0, or 5 where a regression was found; failures are raised instead.
        skipped: Nothing was done, since ``--check`` cannot say what would come of it.
        lines: More for people, (text, style) each.
    """

    summary: str
    data: dict[str, Any] = field(default_factory=dict)
    changed: bool = False
    exit_code: int = EXIT_DONE
    lines: tuple[tuple[str, str], ...] = ()
    skipped: bool = False


@dataclass(frozen=True)
class Book:
    """How a verb is written as a playbook's module.

    Args:
        free: The argument that a bare value is; empty where a mapping is demanded.
        needs: Of each of these groups, one argument must be there.
        pairs: Arguments that Ansible would take out of a bare text where it says ``NAME=…``.
        later: Arguments that Ansible's module of this name has and this one has not.
        any_name: Any other name is an argument too, the name of a variable.
        once: It runs once for all hosts of a play.
        elsewhere: It can be done as another user, on another host, and with an environment of its own.
        fixed: It neither looks at nor changes a host.
    """

    free: str = ""
    needs: tuple[tuple[str, ...], ...] = ()
    pairs: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    any_name: bool = False
    once: bool = False
    elsewhere: bool = False
    fixed: bool = False


@dataclass(frozen=True)
class Typed:
    """The command that does by hand what a verb does.

    Args:
        name: As typed.
        flags: Its own.
        args: Makes its arguments out of the verb's.
        on_hosts: Whether it takes ``--host``.
    """

    name: str
    flags: tuple[Flag, ...] = ()
    args: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    on_hosts: bool = True

    def line(self, hosts: Sequence[str], args: Mapping[str, Any]) -> str:
        """The whole command line.

        Args:
            hosts: Names of hosts.
            args: The verb's arguments, typed.

        Raises:
            InputError: They cannot be made into the command's.
        """
        on = ",".join(hosts) if self.on_hosts else ""
        return command_line(self.name, on, self.flags, self.args(args))

    def hidden(self, hosts: Sequence[str]) -> str:
        """The same without its arguments."""
        on = ",".join(hosts) if self.on_hosts else ""
        return command_line(self.name, on, (), {}) + " (arguments not shown: no_log)"


@dataclass(frozen=True)
class Verb:
    """Something Stoker can do on a host: a command and a playbook module of the same name.

    Args:
        name: As typed.
        flags: Its own arguments, besides those every host command has.
        work: Does it on one host.
        changes: Whether it changes hosts: then it demands ``--host``, rolls, and knows ``--check``.
        runs: Once a ``host``; once for each ``server`` that is meant; or once for each server that is
            ``named``, and for the whole host where none is.
        wants_secrets: Whether a plan must hold its server's secrets: it launches, or asks the server.
        each_profile: Whether it takes the profiles one after the other, several for one slot.
        in_check: Under ``--check``, ``asks`` what would be done (or reads only), or is ``skipped``: it would
            load the server, wait for what was not started, write results, or do who knows what.
        book: How it is written in a playbook.
        by_hand: The command that does the same; None: the one of its name. An empty name: there is none.
    """

    name: str
    flags: tuple[Flag, ...]
    work: Callable[[Job], Outcome]
    changes: bool = False
    runs: Literal["host", "server", "named"] = "host"
    wants_secrets: bool = False
    each_profile: bool = False
    in_check: Literal["asks", "skipped"] = "asks"
    book: Book = Book()
    by_hand: Typed | None = None

    @property
    def typed(self) -> Typed:
        """The command that does the same by hand."""
        return self.by_hand or Typed(self.name, self.flags)

    def on(self, job: Job, plans: Sequence[LaunchPlan]) -> list[Outcome]:
        """Do it on a host: the one place where verbs are run.

        Args:
            job: For the host as a whole.
            plans: Of the servers that are meant there.

        Returns:
            An outcome for each time that it ran.

        Raises:
            StokerError: As its work.
        """
        if job.check and self.in_check == "skipped":
            return [Outcome("not done under --check", skipped=True)]
        job = replace(job, plans=tuple(plans))
        several = self.runs == "server" or (self.runs == "named" and bool(job.args.get("profile")))
        return [self.work(job.on(plan)) for plan in plans] if several and plans else [self.work(job)]
