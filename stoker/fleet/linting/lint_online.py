"""What the engines on the hosts themselves say they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.config.linting.arguments import Known
from stoker.engines import arguments
from stoker.engines.arguments import Arguments
from stoker.errors import InputError, StokerError
from stoker.fleet.hostdata import reading

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.config.profiles.profile import Examined
    from stoker.fleet.pool import HostResult
    from stoker.fleet.project import Project
    from stoker.fleet.session import Session
    from stoker.plan import LaunchPlan

TIMEOUT_S = 180.0  # SGLang imports CUDA for its help: half a minute on a host that has just begun
_FEW = 3  # hosts that are written out
_LEAST = 5  # arguments; what names fewer is no engine's help


class Survey:
    """Each engine of each host, asked once.

    Args:
        project: The wiring.
        wanted: By host, the profiles whose engines are asked, as they are resolved there.
    """

    def __init__(self, project: Project, wanted: Iterable[tuple[Host, Mapping[str, Examined]]]) -> None:
        self.hosts: dict[str, Host] = {}
        self._plans: dict[str, dict[str, LaunchPlan]] = {}
        self._known: dict[tuple[str, str], Known] = {}
        self._silent: dict[str, list[str]] = {}
        for host, profiles in wanted:
            tried = {name: _plan(project, host, name, one) for name, one in profiles.items()}
            plans = {name: plan for name, plan in tried.items() if plan is not None}
            if plans:
                self.hosts[host.name], self._plans[host.name] = host, plans

    def ask(self, session: Session) -> None:
        """Ask the engines of one host; from any thread.

        Raises:
            HostUnreachable: It cannot be reached.
            HostFailed: It was, and nothing could be run there.
        """
        host = session.host.name
        for command, plan in {_command(plan): plan for plan in self._plans[host].values()}.items():
            try:
                self._known[host, command] = _help(session, plan)
            except InputError as error:
                self._silent.setdefault(host, []).append(error.what)

    def known(self, host: Host, name: str) -> Known | None:
        """What the engine of a profile on a host told; None where it told nothing."""
        plan = self._plans.get(host.name, {}).get(name)
        return self._known.get((host.name, _command(plan))) if plan else None

    def notes(self, results: Iterable[HostResult]) -> list[str]:
        """What was not told, and why; the same of several hosts once."""
        said: dict[str, list[str]] = {}
        for result in results:
            whys = self._silent.get(result.host, [])
            whys = [*whys, result.error.what] if result.error is not None else whys
            for why in whys or ([] if result.status == "ok" else [result.status]):
                said.setdefault(why, []).append(result.host)
        return [f"{_some(hosts)}: {why}; the stored list was used" for why, hosts in said.items()]


def _some(hosts: Sequence[str]) -> str:
    return ", ".join(hosts) if len(hosts) <= _FEW else f"{len(hosts)} hosts"


def _plan(project: Project, host: Host, name: str, examined: Examined) -> LaunchPlan | None:
    """The plan of a profile whose engine can be asked.

    A command of the profile's own is not run: it may be anything, and need not know ``--help``.
    """
    if examined.profile is None or examined.problems or examined.profile.server.command:
        return None
    try:
        plan = project.plan(name, host, secrets=False)
    except InputError:  # told by the linter
        return None
    return plan if _command(plan) else None


def _command(plan: LaunchPlan) -> str:
    return " ".join(arguments.help_argv(plan.engine, plan.python))


def _help(session: Session, plan: LaunchPlan) -> Known:
    """One engine's help.

    Raises:
        InputError: It told none.
    """
    argv = list(arguments.help_argv(plan.engine, plan.python))
    params: dict[str, Any] = {
        "argv": argv,
        "timeout_s": TIMEOUT_S,
        "env": {"PATH": plan.path, "COLUMNS": "100"},
    }
    try:
        done = session.call("exec", params)
    except StokerError as error:
        if getattr(error, "kind", "") != "io":  # else it is only not there
            raise
        raise InputError(error.what) from error
    with reading(session.host.name, "its engine's help"):
        text, code = str(done["stdout"]), done["rc"]
    items = arguments.parse(text)
    if code != 0 or len(items) < _LEAST:
        why = "took too long" if done.get("timed_out") else f"ended with {code} and told no help"
        raise InputError(f"{argv[0]} {why}")
    stored = arguments.load(plan.engine.name)
    habits = (stored.reads, stored.hidden) if stored else (frozenset[str](), ())
    source = f"{' '.join(argv)} on the host"
    return Known(Arguments("", source, *habits, items), proved=True)
