"""``sweep``: a matrix or a list of settings, each restarted, proven and measured; the best first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError
from stoker.fleet import life, servers
from stoker.fleet.experiments import experiment
from stoker.fleet.experiments.experiment import Experiment, Setting
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measuring import benchrun
from stoker.fleet.measuring.benchflags import BENCH
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from pathlib import Path

    from stoker.plan import LaunchPlan
    from stoker.results.explaining.changes import Change
    from stoker.results.statistics.ranking import Rank

AS_IS = "as it is"
_MOST = 500
_UNSET = "-"

FLAGS = (
    Flag("profile", "The profile to vary (what runs).", "list"),
    Flag("slot", "Slot of the server on the host.", "name"),
    Flag("set", "A variable and its values: NCCL_PROTO=LL,Simple,- (- leaves it out).", "list"),
    Flag("arg", "An engine argument and its values: max-num-seqs=8,16.", "list"),
    Flag("settings", "A YAML file: a list of {env: {…}, args: {…}}, in place of a matrix."),
    Flag("launches", "Of each setting (1).", "whole", least=1),
    Flag("write", "Write the best as a profile of this name."),
    experiment.ANEW,
    life.FORCE,
)


def sweep(job: Job) -> Outcome:
    """Measure every setting of a matrix or list, rank them, and put back what ran.

    The data has ``rows`` (``setting tok_s low high launches ties change``, the best first), ``failed`` and
    ``wrote``.
    """
    from stoker.results.explaining import changes
    from stoker.results.statistics import ranking

    plan = job.plan or servers.must_run(job)
    wanted = _wanted(job)
    into = _target(job, plan.profile)
    settings = [Setting(AS_IS, plan.resolved)]
    settings += [Setting(changes.told(one), changes.applied(plan.resolved, one)) for one in wanted]
    rounds = job.args["launches"] or 1
    told = f"{counts(len(settings), 'setting', 'settings')} × {counts(rounds, 'launch', 'launches')}"
    if job.check:
        named = tuple((setting.name, "") for setting in settings)
        return Outcome(f"would measure {told}, then put back what runs", {"rows": []}, True, lines=named)
    job.session.emit({"type": "note", "text": f"{told}: {', '.join(one.name for one in settings)}"})
    bench = benchrun.bench_of(job, plan)
    question = {"kind": "sweep", "settings": [one.name for one in settings], "hash": plan.profile_hash}
    with experiment.experiment(job, {**question, "rounds": rounds}, plan.profile, bench) as (running, lines):
        measured, failed = _measured(running, settings, rounds)
    ranks = ranking.rank(measured)
    alone = bench.name == "allreduce"
    wrote = _write(job, into, plan, _best(ranks, settings, wanted))
    shown = [
        *_lines(ranks, alone),
        *((f"{name}: does not serve: {why}", "yellow") for name, why in failed.items()),
    ]
    rows = [vars(one) | {"change": one.value / _as_is(ranks) - 1} for one in ranks]
    data = {"rows": rows, "failed": failed, "wrote": wrote, "launches": [vars(x) for x in running.launches]}
    return Outcome(_headline(ranks, wrote, alone), data, True, lines=(*shown, *lines))


def _wanted(job: Job) -> list[tuple[Change, ...]]:
    """The settings as changes: the matrix of --set and --arg, or the list of --settings.

    Raises:
        InputError: None, too many, or one that cannot be read.
    """
    axes = [_axis("env", text, "--set") for text in job.args["set"] or []]
    axes += [_axis("args", text, "--arg") for text in job.args["arg"] or []]
    listed = job.args["settings"]
    if bool(axes) == bool(listed):
        hint = "--set NCCL_PROTO=LL,Simple --arg max-num-seqs=8,16, or --settings FILE"
        raise InputError("say what to vary: either a matrix or a list", next_step=hint)
    wanted = _listed(job.project.root / listed, listed) if listed else [tuple(one) for one in product(*axes)]
    if len(wanted) > _MOST:
        raise InputError(
            f"{len(wanted)} settings are too many, {_MOST} is the most", next_step="narrow the matrix"
        )
    if len(set(map(str, wanted))) != len(wanted):
        raise InputError("a setting is there twice")
    return wanted


def _axis(kind: Any, text: str, flag: str) -> list[Change]:
    """One variable or argument with its values."""
    from stoker.results.explaining.changes import Change

    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values:
        raise InputError(f"{text!r} is no NAME=VALUE,VALUE", where=flag, next_step=f"{flag} NAME=LL,Simple,-")
    return [Change(kind, name.strip().lstrip("-"), _value(kind, value)) for value in values.split(",")]


def _value(kind: str, text: str) -> Any:
    """A value as a profile has it: of arguments ``true`` is the bare flag, ``-`` leaves anything out."""
    if text == _UNSET:
        return None
    return True if kind == "args" and text == "true" else text


def _listed(path: Path, shown: str) -> list[tuple[Change, ...]]:
    """The settings of a file.

    Raises:
        ConfigError: It is not readable, or no list of ``{env: {…}, args: {…}}``; each mistake with its line.
    """
    from stoker.config.files import yamlfile
    from stoker.errors import ConfigError
    from stoker.results.explaining.changes import Change

    document = yamlfile.load(path, shown=shown)
    rows = document.data if isinstance(document.data, list) else []
    wrong = [] if rows else [document.problem((), "a list of {env: {…}, args: {…}} is expected")]
    found = []
    for number, row in enumerate(rows):
        rooms = row if isinstance(row, dict) else {}
        good = rooms and all(k in ("env", "args") and isinstance(v, dict) and v for k, v in rooms.items())
        if not good:
            wrong.append(
                document.problem((number,), "a setting is {env: {NAME: value}, args: {name: value}}")
            )
            continue
        found.append(
            tuple(
                Change(kind, str(name), _plain(kind, value))
                for kind, room in rooms.items()
                for name, value in room.items()
            )
        )
    if wrong:
        raise ConfigError(wrong)
    return found


def _plain(kind: str, value: Any) -> Any:
    """A file's value as a resolved profile has it: exact strings, bare flags, nothing."""
    if value is None or (kind == "args" and isinstance(value, bool)):
        return value or None
    return str(value)


def _measured(
    running: Experiment, settings: Sequence[Setting], rounds: int
) -> tuple[dict[str, list[Sequence[float]]], dict[str, str]]:
    """(setting to its launches, setting to why it does not serve). Every second round goes backwards."""
    measured: dict[str, list[Sequence[float]]] = {setting.name: [] for setting in settings}
    failed: dict[str, str] = {}
    total = rounds * len(settings)
    for turn in range(rounds):
        for index, setting in enumerate(settings if turn % 2 == 0 else reversed(settings), 1):
            if setting.name in failed:
                continue
            one = running.attempt(setting, f"{turn * len(settings) + index}/{total}")
            if one.runs:
                measured[setting.name].append(one.runs)
            else:
                failed[setting.name] = one.why
    return measured, failed


def _as_is(ranks: Sequence[Rank]) -> float:
    """The pace of the profile itself; of the best where that does not serve."""
    return next((one.value for one in ranks if one.name == AS_IS), ranks[0].value)


def _pace(value: float, alone: bool) -> str:
    """Tokens a second; of all-reduces, which are counted a second too, the time of one."""
    return f"{1e6 / value:.1f} µs" if alone else f"{value:.1f} tok/s"


def _lines(ranks: Sequence[Rank], alone: bool) -> list[tuple[str, str]]:
    width = max((len(one.name) for one in ranks), default=0)
    return [
        (
            f"{one.name:<{width}}  {_pace(one.value, alone):>14}"
            f" ({_pace(one.low, alone)} to {_pace(one.high, alone)})"
            f"  {100 * (one.value / _as_is(ranks) - 1):+.1f} %"
            + ("  as good as the first" if one.ties else ""),
            "bold" if one is ranks[0] else "",
        )
        for one in ranks
    ]


def _headline(ranks: Sequence[Rank], wrote: str, alone: bool) -> str:
    if not ranks:
        return "no setting serves"
    best = ranks[0]
    told = f"best: {best.name} ({_pace(best.value, alone)}, {100 * (best.value / _as_is(ranks) - 1):+.1f} %)"
    return told + (f"; written to {wrote}" if wrote else "")


def _best(
    ranks: Sequence[Rank], settings: Sequence[Setting], wanted: Sequence[tuple[Change, ...]]
) -> tuple[Change, ...]:
    """The changes of the best setting; none where the profile is best as it is."""
    by_name = dict(zip((one.name for one in settings[1:]), wanted, strict=True))
    return by_name.get(ranks[0].name, ()) if ranks else ()


def _target(job: Job, profile: str) -> Path | None:
    """Where the best is written to, checked before anything is measured.

    Raises:
        InputError: No profile's name, there is such a profile, or it cannot extend what runs.
    """
    from stoker.config.names import HINT, is_name

    name = job.args["write"]
    if not name:
        return None
    if not is_name(name):
        raise InputError(f"{name!r} is no profile's name", where="--write", next_step=HINT)
    folder = job.project.settings.path("profiles")
    path: Path = folder / f"{name}.yml"
    if path.exists():
        raise InputError(
            "there is such a profile", where=job.project.shown(path), next_step="choose another name"
        )
    if not (folder / f"{profile}.yml").exists():
        raise InputError(f"the best would extend {profile!r}, which is no profile here", where="--write")
    return path


def _write(job: Job, path: Path | None, plan: LaunchPlan, best: Sequence[Change]) -> str:
    """Write the best as a profile that extends the one that was varied; the file as shown, or nothing."""
    from stoker.results.baselines.yamltext import dumps

    if path is None or not best:
        return ""
    data: dict[str, Any] = {"extends": plan.profile}
    for change in best:
        room = data.setdefault("env", {}) if change.kind == "env" else data.setdefault("server", {})
        target = room if change.kind == "env" else room.setdefault("args", {})
        target[change.name] = change.value
    text = "# The best of a sweep: written by `inv sweep`, reviewed by people.\n" + dumps(data)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.rename(path)
    return job.project.shown(path)


SWEEP = Verb("sweep", (*FLAGS, *BENCH), sweep, changes=True, runs="server", wants_secrets=True)
