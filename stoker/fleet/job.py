"""The unit of work of a fleet command: one verb, one host, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE
from stoker.fleet.flags import Flag

if TYPE_CHECKING:  # the heavy ones: a listing of the commands needs none of them
    from stoker.config.inventory import Host
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
    """

    project: Project
    session: Session
    args: dict[str, Any]
    plan: LaunchPlan | None = None
    check: bool = False

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
        lines: More for people, (text, style) each.
    """

    summary: str
    data: dict[str, Any] = field(default_factory=dict)
    changed: bool = False
    exit_code: int = EXIT_DONE
    lines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Verb:
    """Something Stoker can do on a host: a command and a playbook module of the same name.

    Args:
        name: As typed.
        flags: Its own arguments, besides those every host command has.
        work: Does it on one host.
        changes: Whether it changes hosts: then it demands ``--host``, rolls, and knows ``--check``.
        wants_plan: Whether it works on one server: it then runs once for each plan that is meant.
        wants_secrets: Whether that plan must hold the server's secrets: it launches, or asks the server.
        each_profile: Whether it takes the profiles one after the other, several for one slot.
    """

    name: str
    flags: tuple[Flag, ...]
    work: Callable[[Job], Outcome]
    changes: bool = False
    wants_plan: bool = False
    wants_secrets: bool = False
    each_profile: bool = False
