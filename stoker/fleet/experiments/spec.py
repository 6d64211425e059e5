"""``spec``: does speculative decoding pay? Against the same server without it, at an equal batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError
from stoker.fleet import life, servers
from stoker.fleet.experiments import experiment
from stoker.fleet.experiments.experiment import Experiment, Setting
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measuring.benchflags import BENCH
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.engines.base import Speculation
    from stoker.fleet.experiments.journal import Measured
    from stoker.results.statistics.speculation import Weighed

_MOST_STEPS = 64

_OF_DECODE = ("bench", "runs", "tokens", "concurrency")

FLAGS = (
    Flag("profile", "The profile that speculates (what runs).", "list"),
    Flag("slot", "Slot of the server on the host.", "name"),
    Flag("steps", "Tokens drafted in a step, several in turn: 1,2,3 (as the profile has it)."),
    Flag("launches", "Of each setting (1).", "whole", least=1),
    *(flag for flag in BENCH if flag.name in _OF_DECODE and flag.name != "bench"),
    experiment.ANEW,
    life.FORCE,
)


def spec(job: Job) -> Outcome:
    """Measure a profile with its speculation and without, at each batch size, and say whether it pays.

    The data has ``rows``: of each number of steps and batch size the acceptance length and rate, the time of
    a step on both sides, the acceptance length from which on it pays, the speed-up, and the word for it.
    """
    plan = job.plan or servers.must_run(job)
    settings = _settings(job, plan.resolved, plan.engine.speculation)
    sizes = _sizes(job, plan.bench)
    rounds = job.args["launches"] or 1
    told = f"{counts(len(settings), 'setting', 'settings')} × {counts(rounds, 'launch', 'launches')}"
    told += f", at {', '.join(one.level for one in sizes)}"
    if job.check:
        named = tuple((setting.name, "") for setting in settings)
        return Outcome(f"would measure {told}, then put back what runs", {"rows": []}, True, lines=named)
    job.session.emit({"type": "note", "text": f"{told}: {', '.join(one.name for one in settings)}"})
    question: dict[str, Any] = {
        "kind": "spec",
        "settings": [one.name for one in settings],
        "hash": plan.profile_hash,
    }
    question |= {"rounds": rounds, "sizes": [one.to_wire() for one in sizes]}
    with experiment.experiment(job, question, plan.profile, sizes[0]) as (running, lines):
        found = _measured(job, running, settings, sizes, rounds)
    rows = _weighed(job, found, settings, sizes)
    data = {"rows": [_plain(row) for row in rows], "launches": [vars(one) for one in running.launches]}
    return Outcome(_headline(rows), data, True, lines=(*_lines(rows), *lines))


_Found = dict[tuple[str, int], list["Measured"]]


def _measured(
    job: Job, running: Experiment, settings: Sequence[Setting], sizes: Sequence[Bench], rounds: int
) -> _Found:
    """(setting, batch size) to its launches; the order turns round, so that a drift hits all alike."""
    found: _Found = {}
    total = rounds * len(settings)
    for turn in range(rounds):
        for number, setting in enumerate(settings if turn % 2 == 0 else reversed(settings), 1):
            launches = running.under(setting, sizes, f"{turn * len(settings) + number}/{total}")
            for size, one in zip(sizes, launches, strict=True):
                found.setdefault((setting.name, size.concurrency), []).append(one)
            if setting is settings[0] and turn == 0:
                _check_sound(job, launches)
    return found


def _check_sound(job: Job, launches: Sequence[Measured]) -> None:
    """See that the server without speculation is as fast as it was accepted, where it was.

    Raises:
        HostFailed: ``regressed``: what is compared with it would look better than it is.
    """
    from stoker.results.baselines.baseline import Missing
    from stoker.results.compare import assess

    for one in launches:
        record = job.project.store.load(one.run_id)
        base = job.project.baselines.find(record)
        if isinstance(base, Missing):
            continue
        verdict = assess(record, base, max_loss=job.project.settings.max_loss)
        if verdict.verdict == "regressed":
            raise HostFailed(
                f"{record.bench.level}: without speculation it is itself slower than was accepted, so that"
                " nothing can be said of speculation",
                host=job.host.name,
                kind="regressed",
                evidence=[verdict.line],
                next_step=f"inv explain --host {job.host.name} --run {record.run_id}",
            )


def _weighed(job: Job, found: _Found, settings: Sequence[Setting], sizes: Sequence[Bench]) -> list[Weighed]:
    from stoker.results.statistics import speculation

    rows = []
    for size in sizes:
        batch = size.concurrency
        plain = [one.runs for one in found[settings[0].name, batch]]
        for setting in settings[1:]:
            launches = found[setting.name, batch]
            records = [job.project.store.load(one.run_id) for one in launches]
            seen = speculation.acceptance([one.machine for record in records for one in record.launches])
            with_it = [one.runs for one in launches]
            rows.append(speculation.weigh(setting.name, batch, plain, with_it, seen))
    return rows


def _sizes(job: Job, profile: Mapping[str, Any]) -> tuple[Bench, ...]:
    """What each launch is measured with: ``decode``, at each batch size."""
    from stoker.benchmarks import levels

    kept = {name: value for name, value in profile.items() if name in _OF_DECODE and name != "bench"}
    given = {name: job.args[name] for name in _OF_DECODE if name != "bench"}
    return levels({**kept, "name": "decode"}, given)


def _settings(job: Job, resolved: Mapping[str, Any], how: Speculation) -> list[Setting]:
    """The server without speculation, then with it, as often as there are numbers of steps.

    Raises:
        InputError: It does not speculate, or the number of its steps cannot be set.
    """
    from stoker.engines.speculation import WITHOUT, with_steps, without

    plain = without(resolved, how)
    if plain == resolved:
        hint = "name a profile that does: inv spec --profile NAME"
        raise InputError("this profile does not decode speculatively", next_step=hint)
    numbers = _numbers(job.args["steps"])
    with_it = [Setting(counts(n, "step", "steps"), with_steps(resolved, how, n)) for n in numbers]
    return [Setting(WITHOUT, plain), *(with_it or [Setting("as it is", resolved)])]


def _numbers(text: str | None) -> list[int]:
    found = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in found:
        if not (part.isascii() and part.isdigit()) or not 1 <= int(part) <= _MOST_STEPS:
            what = f"{part[:20]!r} is no number of steps from 1 to {_MOST_STEPS}"
            raise InputError(what, where="--steps", next_step="write 1,2,3")
    return list(dict.fromkeys(map(int, found)))


def _plain(row: Weighed) -> dict[str, Any]:
    return {**vars(row), "acceptance": vars(row.acceptance)}


def _lines(rows: Sequence[Weighed]) -> list[tuple[str, str]]:
    return [(_line(row), {"pays": "green", "costs": "red"}.get(row.word, "")) for row in rows]


def _line(row: Weighed) -> str:
    """``batch 8, 3 steps: pays: 1.25 × as fast (…); a step yields 2.31, it pays from 1.85 on; …``."""
    seen = row.acceptance
    told = [f"{row.speedup:.2f} × as fast ({row.plain_tok_s:.1f} → {row.tok_s:.1f} tok/s)"]
    if seen.length is None or row.break_even is None or row.step_s is None:
        told.append("the server does not tell what it accepts")
    else:
        rate = "" if seen.rate is None else f" ({100 * seen.rate:.0f} % of what is drafted)"
        told.append(f"a step yields {seen.length:.2f}{rate}, it pays from {row.break_even:.2f} on")
        told.append(f"a step takes {1000 * row.plain_step_s:.2f} → {1000 * row.step_s:.2f} ms")
    return f"batch {row.batch}, {row.setting}: {row.word}: {'; '.join(told)}; {row.line}"


def _headline(rows: Sequence[Weighed]) -> str:
    """Plainly, for each batch size, whether it pays, and with how many steps best."""
    told = []
    for batch in dict.fromkeys(row.batch for row in rows):
        best = max((row for row in rows if row.batch == batch), key=lambda row: row.speedup)
        told.append(f"batch {batch}: {best.word} ({best.setting}, {best.speedup:.2f} ×)")
    return "speculation: " + "; ".join(told)


SPEC = Verb("spec", FLAGS, spec, changes=True, runs="server", wants_secrets=True)
