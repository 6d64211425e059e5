"""The command ``profiles``: what each resolves to and where from, what differs, and which hosts run it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError, StokerError, exit_code_of
from stoker.fleet.flags import Flag
from stoker.tasks.command import READING, command

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.config.profiles.origin import Difference, Setting
    from stoker.fleet.pool import HostResult
    from stoker.tasks.run import Run

PROFILE = Flag("profile", "Profiles to show whole, with the place of each value; run:RUN-ID too.", "list")
DIFF = Flag("diff", "What differs between two: --diff A,B, or --diff A --diff B.", "list")
RUNNING = Flag("running", "Ask the hosts, too, which of them run it.", "flag")


@command(*READING, PROFILE, DIFF, RUNNING)
def profiles(run: Run) -> int:
    """The tuning profiles: what each resolves to for a host, where from, and which hosts should run it.

    With --profile every value that is written, with its file:line; with --diff what differs between two; with
    --running also which hosts run it, as they tell. A profile resolves for the first host of --host, else for
    the first that should run it.
    """
    if run.args["diff"]:
        return _diff(run)
    known = run.hosts()
    found = _Found(run, known)
    for name in run.args["profile"] or run.project.library.names():
        found.add(name)
    results = _ask(run) if run.args["running"] else []
    runs_on = _running(results)
    for name, entry in found.entries.items():
        entry["runs_on"] = runs_on.get(name, []) if run.args["running"] else None
    run.document["profiles"] = found.entries
    if run.args["profile"]:
        for name in found.entries:
            _show_whole(run, name, found)
    else:
        run.screen.table(*_listing(found.entries, runs_on if run.args["running"] else None))
    for line in _others(runs_on, found.entries):
        run.screen.say(line)
    for error in found.errors:
        run.screen.error(error)
    return exit_code_of([run.end(results), *(error.exit_code for error in found.errors)])


class _Found:
    """Profiles as resolved, and what could not be.

    Args:
        run: The command.
        known: The hosts that are meant.
    """

    def __init__(self, run: Run, known: Sequence[Host]) -> None:
        self._run = run
        self._known = known
        self.entries: dict[str, dict[str, Any]] = {}
        self.settings: dict[str, tuple[Setting, ...]] = {}
        self.errors: list[StokerError] = []

    def add(self, name: str) -> None:
        """Resolve one, for every host that should run it."""
        should = [host for host in self._known if name in _desired(host)]
        hosts = should or [self._known[0]]
        try:
            plans = [self._run.project.plan(name, host, secrets=False) for host in hosts]
            self.settings[name] = _origin(self._run, name, hosts[0])
        except StokerError as raised:
            self.errors.append(raised)
            return
        self.entries[name] = {
            "host": hosts[0].name,
            "hash": plans[0].profile_hash,
            **plans[0].resolved,
            "should_run_on": {plan.host: plan.profile_hash for plan in plans if should},
            "settings": {one.name: one.to_plain() for one in self.settings[name]},
            "sources": _files(self._run, name),
        }


def _desired(host: Host) -> tuple[str, ...]:
    from stoker.fleet.servers import desired

    return desired(host)


def _origin(run: Run, name: str, host: Host) -> tuple[Setting, ...]:
    from stoker.config.profiles.origin import settings

    if name.startswith("run:"):
        return settings(run.project.profile(name, host), None, name)
    return run.project.library.origin(name, host)


def _files(run: Run, name: str) -> list[str]:
    """The files that a profile comes from, itself last."""
    if name.startswith("run:"):
        return []
    return [run.project.shown(path) for path in run.project.library.sources(name)]


def _listing(
    entries: Mapping[str, Mapping[str, Any]], runs_on: Mapping[str, Sequence[str]] | None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The table of all profiles."""
    columns = ("profile", "engine", "slot", "port>", "vars>", "hash!", "should run on")
    rows: list[tuple[Any, ...]] = []
    for name, entry in entries.items():
        server = entry["server"]
        others = len(set(entry["should_run_on"].values()) - {entry["hash"]})
        rows.append(
            (
                *(name, entry["engine"], server["name"], server["port"]),
                *(len(entry["env"]), entry["hash"] + (f" +{others}" if others else "")),
                ", ".join(entry["should_run_on"]) or "-",
                *(() if runs_on is None else (", ".join(runs_on.get(name, ())) or "-",)),
            )
        )
    return (columns if runs_on is None else (*columns, "runs on")), rows


def _show_whole(run: Run, name: str, found: _Found) -> None:
    """One profile: each value that was written, and where."""
    entry = found.entries[name]
    run.screen.say((name, "bold"), f" on {entry['host']}, hash {entry['hash']}")
    if entry["sources"]:
        run.screen.say("from ", " → ".join(entry["sources"]))
    run.screen.say("should run on ", ", ".join(entry["should_run_on"]) or "no host")
    if entry["runs_on"] is not None:
        run.screen.say("runs on ", ", ".join(entry["runs_on"]) or "no host")
    rows = [
        (one.name, ("unset", "dim") if one.is_unset else shown(one.value), _place(one))
        for one in found.settings[name]
        if one.source
    ]
    run.screen.table(("setting", "value", "from"), rows)
    defaults = sum(not one.source for one in found.settings[name])
    run.screen.say((f"{defaults} more are at their defaults (--json has them)", "dim"))


def _place(setting: Setting) -> str:
    over = f", over {setting.over[0]}" if setting.over else ""
    return setting.source + over


def shown(value: Any) -> str:
    """A setting's value for people: text as it is, anything else as JSON."""
    if isinstance(value, dict) and list(value) == ["secret"]:
        return f"!secret {value['secret']}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _diff(run: Run) -> int:
    """What differs between two profiles on one host."""
    from stoker.config.profiles.origin import differences

    names = [name.strip() for text in run.args["diff"] for name in text.split(",") if name.strip()]
    if len(names) != 2 or run.args["profile"] or run.args["running"]:
        raise InputError("--diff takes two profiles, and nothing else", next_step="--diff A,B --host NAME")
    hosts = run.hosts()
    host = next((h for h in hosts if set(names) & set(_desired(h))), hosts[0])
    a, b = (_origin(run, name, host) for name in names)
    found = differences(a, b)
    run.document.update(
        {
            "host": host.name,
            "a": names[0],
            "b": names[1],
            "differences": {d.name: {"a": _plain(d.a), "b": _plain(d.b)} for d in found},
        }
    )
    if not found:
        run.screen.say(f"{names[0]} and {names[1]} are the same on {host.name}")
    else:
        run.screen.say(f"on {host.name}: {len(found)} settings differ")
        _show_sides(run, found, names)
    return exit_code_of(())


def _plain(setting: Setting | None) -> dict[str, Any] | None:
    return None if setting is None else setting.to_plain()


def _show_sides(run: Run, found: Sequence[Difference], names: Sequence[str]) -> None:
    """Each setting with a line for either profile."""
    width = max(map(len, names))
    for one in found:
        run.screen.say((one.name, "bold"))
        for name, style, side in ((names[0], "red", one.a), (names[1], "green", one.b)):
            is_unset = side is None or side.is_unset
            value = ("unset", "dim") if is_unset or side is None else (shown(side.value), style)
            place = "" if side is None else _place(side) or "default"
            run.screen.say(f"  {name:<{width}}  ", value, (f"  {place}", "dim"))


def _ask(run: Run) -> list[HostResult]:
    """The status of every host that is meant."""
    from stoker.fleet import look

    status = next(verb for verb in look.VERBS if verb.name == "status")
    kept = run.args
    run.args = {**{k: v for k, v in kept.items() if k != "profile"}, "slot": None, "watch": None}
    try:
        return run.on_hosts(status)
    finally:
        run.args = kept


def _running(results: Sequence[HostResult]) -> dict[str, list[str]]:
    """Profile to the hosts where a living server was launched with it; an outdated one says so."""
    found: dict[str, list[str]] = {}
    for result in results:
        for outcome in result.data or ():
            for server in outcome.data["servers"]:
                launch = server.get("launch")
                if not server["alive"]:
                    continue
                name = launch["profile"] if launch else ""
                old = " (outdated)" if server.get("version") == "outdated" else ""
                found.setdefault(str(name), []).append(result.host + old)
    return found


def _others(runs_on: Mapping[str, Sequence[str]], entries: Mapping[str, Any]) -> Iterator[str]:
    """What runs and is none of the profiles that are shown."""
    for name, hosts in runs_on.items():
        if name not in entries:
            what = f"{name}, which is not among these," if name else "a server started by hand"
            yield f"{what} runs on {', '.join(hosts)}"


COMMANDS = (profiles,)
