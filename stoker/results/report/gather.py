"""What a report is made from: series of the index, and the few records that are needed whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from stoker.errors import ConfigError, InputError
from stoker.results.baselines.baseline import Baseline, Baselines, Key
from stoker.results.history import Series, SeriesKey, series
from stoker.results.records.record import Record
from stoker.results.records.store import Store
from stoker.results.records.summary import Summary
from stoker.results.report.played import Played
from stoker.results.report.words import natural
from stoker.results.trials import AGE_S, SPEC, Trial, trials


@dataclass(frozen=True)
class Material:
    """Everything that the sections draw on.

    Args:
        series: Every one, in order, but those of ``inv spec``, whose points are of several settings.
        records: By id, whole: the latest of each series and those on both sides of each step.
        baselines: By series, where there is one of what it measures.
        left_out: What could not be read, a line each.
        weighing: The series of ``inv spec``.
        trials: What it found, the newest of each profile on each host.
        plays: The last run of each runbook.
    """

    series: tuple[Series, ...]
    records: Mapping[str, Record]
    baselines: Mapping[SeriesKey, Baseline]
    left_out: tuple[str, ...]
    weighing: tuple[Series, ...] = ()
    trials: tuple[Trial, ...] = ()
    plays: tuple[Played, ...] = ()

    @property
    def every(self) -> tuple[Series, ...]:
        """All series that the report rests on."""
        return self.series + self.weighing

    @property
    def profiles(self) -> tuple[str, ...]:
        """Every profile, in order: its place is its colour on the whole page."""
        return tuple(sorted({one.key.profile for one in self.series}))

    def latest(self, one: Series) -> Record | None:
        """The newest record of a series; None where it has vanished meanwhile."""
        return self.records.get(one.latest.run_id)


def groups(several: Iterable[Series]) -> list[tuple[SeriesKey, list[Series]]]:
    """Series that one plot shows, as they differ in the profile alone; each with the key of its first."""
    order = sorted(several, key=lambda one: (*map(natural, _but_profile(one.key)), one.key))
    grouped = [list(group) for _, group in groupby(order, key=lambda one: _but_profile(one.key))]
    return [(group[0].key, group) for group in grouped]


def _but_profile(key: SeriesKey) -> tuple[str, ...]:
    return key.host, key.measured, key.engine, key.model, "simulated" if key.simulated else ""


def gather(
    store: Store, baselines: Baselines, rows: Iterable[Summary], plays: tuple[Played, ...] = ()
) -> Material:
    """Read what a report of these rows needs.

    Args:
        store: Where their records lie.
        baselines: Accepted results.
        rows: As the store lists them.
        plays: The last run of each runbook.
    """
    found = series(rows)
    records, left_out = _whole(store, sorted({run_id for one in found for run_id in _wanted(one)}))
    left_out += [f"{damaged.path}: {damaged.what}" for damaged in store.damaged()]
    try:
        accepted = {baseline.key: baseline for baseline in baselines.all()}
    except ConfigError as error:
        accepted = {}
        left_out += [f"no baseline is shown: {problem}" for problem in error.problems]
    keys = {one.key: Key.of(records[one.latest.run_id]) for one in found if one.latest.run_id in records}
    shown = {mine: accepted[key] for mine, key in keys.items() if key in accepted}
    weighing = tuple(one for one in found if one.key.profile.endswith(SPEC))
    others = tuple(one for one in found if one not in weighing)
    weighed = trials(record for record in records.values() if record.profile.endswith(SPEC))
    return Material(others, records, shown, tuple(left_out), weighing, weighed, plays)


def _wanted(one: Series) -> Iterator[str]:
    yield one.latest.run_id
    if one.key.profile.endswith(SPEC):  # an experiment is all its launches
        yield from (run.run_id for run in one.runs if one.latest.created - run.created <= AGE_S)
    for step in one.steps:
        yield step.last.run.run_id
        yield step.first.run.run_id


def _whole(store: Store, ids: Iterable[str]) -> tuple[dict[str, Record], list[str]]:
    """Records by id, and what could not be read."""
    records, bad = {}, []
    for run_id in ids:
        try:
            records[run_id] = store.load(run_id)
        except InputError as error:
            bad.append(str(error))
    return records, bad
