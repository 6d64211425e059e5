"""An experiment on one host: a server launched with one setting after another, each proven and measured.

What was measured is in a journal, so that after an interruption the same command goes on where it stopped. At
the end, whatever it was, the host runs again what ran before.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import IN_PLACE
from stoker.errors import HostFailed, InputError, StokerError
from stoker.fleet import aftermath, judge, life
from stoker.fleet.experiments import putback
from stoker.fleet.experiments.journal import Journal, Measured, unfinished
from stoker.fleet.flags import Flag
from stoker.fleet.measuring import benchrun, llamabench, probe, serverbench
from stoker.fleet.reserve import give_up, reserve

if TYPE_CHECKING:
    from pathlib import Path

    from stoker.benchmarks import Bench
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan
    from stoker.results.records.record import Record

ANEW = Flag("anew", "Measure from the start, though an interrupted run of it could be gone on with.", "flag")

# How a launch fails for which its setting is to blame, and the next one may well serve.
_ITS_FAULT = frozenset(("died", "stalled", "timeout", "not-in-force", "wrong-model", "invalid", "preflight"))
# For connect, kill and proof: measured on loopback, with some air.
_AROUND_S = 10.0
# After so long a machine is another one: what was measured before is not gone on with.
_FRESH_S = 24 * 3600.0


@dataclass(frozen=True)
class Setting:
    """A server as it is launched in an experiment.

    Args:
        name: For people; no two of an experiment share it.
        resolved: Its resolved profile, as plain data.
        profile: Of a setting that is none of our making, the name of its profile: it is launched and recorded
            as that; empty for a trial.
    """

    name: str
    resolved: Mapping[str, Any]
    profile: str = ""


class Experiment:
    """The launches of one question.

    Args:
        job: Of the host.
        kind: ``verify``, ``bisect``, ``sweep``, …
        profile: Whose variations they are.
        bench: What each launch is measured with.
        journal: What was measured before.
    """

    def __init__(self, job: Job, kind: str, profile: str, bench: Bench, journal: Journal) -> None:
        self._job = replace(job, args={**job.args, **benchrun.said_of(bench)})
        self._alone = bench.name in IN_PLACE  # beside the servers: none is restarted for it
        self._bench = bench.name
        self._label = f"{profile}{judge.TRIAL}{kind}"
        self._journal = journal
        self.touched: dict[str, str] = {}
        self.launches: list[Measured] = []

    def launch(self, setting: Setting, note: str) -> Measured:
        """Restart with a setting, prove and measure it; or recall that from before the interruption.

        Args:
            setting: The setting.
            note: Where in the experiment this is, for people: ``2/4``.

        Raises:
            HostFailed: It does not serve, or the host failed.
        """
        if not self._alone:
            self._touch(setting, setting.profile or self._label)
        found = self._journal.recall(setting.name)
        if found is None:
            self._say(f"{note} {setting.name}: {'measure' if self._alone else 'restart and measure'}")
            found = self._measure(setting)
            self._journal.add(found)
        self.launches.append(found)
        self._say(f"{note} {setting.name}: {_pace(found, self._bench)}")
        return found

    def attempt(self, setting: Setting, note: str) -> Measured:
        """The same; a setting that does not serve is an answer too.

        Raises:
            HostFailed: The host failed.
        """
        try:
            return self.launch(setting, note)
        except HostFailed as error:
            if error.kind not in _ITS_FAULT:
                raise
            failed = Measured(setting.name, time.time(), (), why=error.what)
            self._journal.add(failed)
            self.launches.append(failed)
            self._say(f"{note} {setting.name}: {error.what}")
            return failed

    def under(self, setting: Setting, benches: Sequence[Bench], note: str) -> list[Measured]:
        """Restart once with a setting, and measure it under several loads; or recall what was measured.

        Raises:
            HostFailed: It does not serve, or the host failed.
        """
        self._touch(setting, self._label)
        at: Job | None = None
        found: list[Measured] = []
        for bench in benches:
            name = f"{setting.name}, {bench.level}"
            one = self._journal.recall(name)
            if one is None:
                at = at or self._restarted(setting, note)
                begin = time.monotonic()
                record = serverbench.launch(replace(at, args={**at.args, **benchrun.said_of(bench)}))
                took = round(time.monotonic() - begin, 1)
                one = Measured(name, record.created, record.samples[0], record.run_id, took)
                self._journal.add(one)
            self._say(f"{note} {name}: {_pace(one, self._bench)}")
            found.append(one)
        self.launches += found
        return found

    def _touch(self, setting: Setting, name: str) -> None:
        """From now on what this setting's server uses is ours: nobody else's experiment takes turns with it.

        Raises:
            HostFailed: ``lock-held``: somebody else works there; nothing of this one is to be put back yet.
        """
        plan = plan_of(self._job, name, setting.resolved)
        reserve(self._job, plan, f"experiment {self._label}")
        self.touched[plan.slot] = name

    def _restarted(self, setting: Setting, note: str) -> Job:
        self._say(f"{note} {setting.name}: restart and measure")
        at = self._job.on(plan_of(self._job, self._label, setting.resolved))
        life.restart(at)
        return at

    def _measure(self, setting: Setting) -> Measured:
        begin = time.monotonic()
        plan = plan_of(self._job, setting.profile or self._label, setting.resolved)
        at = self._job.on(plan)
        if self._alone:
            record = (llamabench if self._bench == llamabench.NAME else probe).launch(at)
        else:
            life.restart(at)
            record = serverbench.launch(at)
        took = round(time.monotonic() - begin, 1)
        return Measured(setting.name, record.created, record.samples[0], record.run_id, took)

    def _say(self, text: str) -> None:
        self._job.session.emit({"type": "note", "text": text})


def _pace(found: Measured, bench: str) -> str:
    if not found.runs:
        return found.why
    mean = sum(found.runs) / len(found.runs)
    return f"{1e6 / mean:.1f} µs" if bench == "allreduce" else f"{mean:.1f} tok/s"


def plan_of(job: Job, name: str, resolved: Mapping[str, Any]) -> LaunchPlan:
    """The plan of a resolved profile on the job's host."""
    return job.project.plan_again({"profile": name, "resolved": dict(resolved)}, job.host)


@contextmanager
def experiment(
    job: Job, question: Mapping[str, Any], profile: str, bench: Bench
) -> Iterator[tuple[Experiment, list[tuple[str, str]]]]:
    """An experiment, and the lines that putting the host back adds at its end.

    Args:
        job: Of the host.
        question: JSON types, with ``kind``: the same question goes on with the same journal.
        profile: Whose variations are launched.
        bench: What each launch is measured with.

    Raises:
        HostInterrupted: Ctrl-C: what was measured is kept, and it says how to put the host back.
        HostFailed: A launch failed; the host was put back.
    """
    # What a command of one restart may be told, an experiment of many is not.
    job = replace(job, args={**job.args, "profile": [], "slot": None, "port": None, "rollback": False})
    folder = job.project.root / ".stoker" / "experiments"
    whole = {**question, "host": job.host.name, "profile": profile, "bench": bench.to_wire()}
    with _alone(folder, job.host.name):
        journal = Journal(folder, whole, anew=bool(job.args.get("anew")))
        before = _before(job, journal, folder)
        running = Experiment(job, str(question["kind"]), profile, bench, journal)
        lines: list[tuple[str, str]] = []
        try:
            yield running, lines
        except StokerError as error:
            if getattr(error, "kind", "") == "cancelled":  # nothing more is begun on a host told to stop
                raise putback.left(job, before, running.touched, error) from error
            for text, _ in putback.put_back(job, before, running.touched):
                job.session.emit({"type": "note", "text": text})
            raise
        else:
            journal.end()
            lines += putback.put_back(job, before, running.touched)
        finally:
            if running.touched:
                give_up(job)


@contextmanager
def _alone(folder: Path, host: str) -> Iterator[None]:
    """One experiment of a project at a time on a host: two would take each other's trials for what ran.

    Raises:
        InputError: Another one is under way.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{hashlib.sha256(host.encode()).hexdigest()[:12]}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "wait until it has ended"
            raise InputError(f"an experiment is under way on {host}", next_step=hint) from error
        yield


def _before(job: Job, journal: Journal, folder: Path) -> list[dict[str, Any]]:
    """What is to run again at the end: what ran before the experiment, never a trial of an interrupted one.

    Raises:
        InputError: A trial runs, and nobody here knows what ran before it.
    """
    alive = aftermath.alive(job)
    trials = {server["slot"] for server in alive if _is_trial(server)}
    if journal.before is not None and journal.age_s < _FRESH_S and not _changed(journal.before, alive):
        told = f"going on with the {journal.pending} launches measured before the interruption"
        job.session.emit({"type": "note", "text": told})
        return journal.before
    known = [*(journal.before or []), *unfinished(folder, job.host.name)]
    was = {server.get("slot"): server for server in reversed(known) if not _is_trial(server)}
    lost = sorted(slot for slot in trials if slot not in was and not _began_empty(folder, job.host.name))
    if lost:
        raise InputError(
            f"what runs in slot {', '.join(lost)} is the trial of an experiment that did not end",
            where=job.host.name,
            next_step=f"start what should run there: inv restart --host {job.host.name} --profile NAME",
        )
    before = [server for server in alive if not _is_trial(server)]
    journal.begin(before + [was[slot] for slot in sorted(trials) if slot in was])
    return journal.before or []


def _is_trial(server: Mapping[str, Any]) -> bool:
    return judge.TRIAL in str((server.get("launch") or {}).get("profile") or "")


def _changed(before: Sequence[Mapping[str, Any]], alive: Sequence[Mapping[str, Any]]) -> bool:
    """Whether somebody started another server since, in a slot of ours."""
    was = {server.get("slot"): (server.get("launch") or {}).get("profile_hash") for server in before}
    return any(
        (server.get("launch") or {}).get("profile_hash") != was.get(server.get("slot"))
        for server in alive
        if server.get("launch") and not _is_trial(server)
    )


def _began_empty(folder: Path, host: str) -> bool:
    """Whether an experiment here that did not end began on a host where nothing of ours ran."""
    return folder.exists() and not any(server.get("launch") for server in unfinished(folder, host))


def resolved_of(record: Record) -> dict[str, Any]:
    """The profile that a run had.

    Raises:
        InputError: It was measured on a server that somebody started by hand.
    """
    if not record.resolved:
        hint = f"inv capture --host {record.host} --name NAME writes a profile of it; then restart and bench"
        raise InputError(f"{record.run_id} was measured on a server that was started by hand", next_step=hint)
    return record.resolved


def cost(record: Record, restarts: int) -> str:
    """What so many launches will take, for people: ``5 restarts, about 12 minutes``.

    Args:
        record: A run of the same server, for how long it loads and measures.
        restarts: How many, the one that puts back what ran among them.
    """
    launch = record.launches[-1]
    loading = launch.launch.get("ready_s")
    loading = float(loading) if isinstance(loading, int | float) else 0.0
    runs = [run.seconds or 0.0 for run in launch.runs] + [
        launch.warmup.seconds or 0.0 if launch.warmup else 0.0
    ]
    total = restarts * (loading + sum(runs) + _AROUND_S)
    minutes = "less than a minute" if total < 60 else f"about {total / 60:.0f} minutes"
    return f"{restarts} restarts, {minutes}"
