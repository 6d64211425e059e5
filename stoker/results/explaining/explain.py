"""Why a server is slower than it was: what differs between two fingerprints, the likeliest cause first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.results.baselines.baseline import LAUNCHES, Baseline, Key
from stoker.results.explaining import look_args, look_env, look_gpus, look_host
from stoker.results.explaining.causes import CONTEXT, LIKELY, UNLIKELY, Cause, Side, Unknown, count, merged
from stoker.results.records.record import Record

__all__ = ["Cause", "Explanation", "Unknown", "explain"]

_LOOKS = (
    look_env.look,
    look_host.restarts,
    look_host.profiles,
    look_args.look,
    look_host.versions,
    look_gpus.look,
    look_host.neighbours,
    look_host.limits,
    look_host.conf_files,
)


@dataclass(frozen=True)
class Explanation:
    """What differs between two measurements.

    Args:
        new: The one to explain.
        base: The one it is compared with.
        headline: The gist, on one line.
        unlike: What keeps the speeds from being compared (``host: a, b``); empty where nothing does.
        causes: Ranked, the likeliest first; ``context`` among them tells how a cause came about.
        equal: What was checked and found equal.
        unknown: What could not be compared, and why.
        advice: What to do next, where the causes do not tell.
    """

    new: Side
    base: Side
    headline: str
    unlike: tuple[str, ...]
    causes: tuple[Cause, ...]
    equal: tuple[str, ...]
    unknown: tuple[Unknown, ...]
    advice: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON types, the fingerprints left out."""
        lists = {name: [vars(item) for item in getattr(self, name)] for name in ("causes", "unknown")}
        texts = {name: list(getattr(self, name)) for name in ("unlike", "equal", "advice")}
        return {
            "run": self.new.label,
            "against": self.base.label,
            "headline": self.headline,
            **lists,
            **texts,
        }


def explain(new: Record, base: Record | Baseline) -> Explanation:
    """Compare what was in force in two measurements.

    Args:
        new: The one to explain.
        base: What it is compared with: another run, or an accepted baseline.
    """
    mine, theirs = side_of(new), side_of(base)
    found = merged(look(mine, theirs) for look in _LOOKS)
    key = base.key if isinstance(base, Baseline) else Key.of(base)
    return Explanation(
        new=mine,
        base=theirs,
        headline=_headline(found.causes),
        unlike=key.differs(key.same_of(new)),
        causes=found.causes,
        equal=found.equal,
        unknown=found.unknown,
        advice=_advice(new, found.causes, found.unknown),
    )


def side_of(run: Record | Baseline) -> Side:
    """A run or a baseline as one side of a comparison."""
    if isinstance(run, Baseline):
        label = f"the baseline of {run.accepted_at[:10] or run.run_ids[-1]}"
        return Side(label, run.fingerprint, run.key.engine, run.profile, run.profile_hash, run.tok_s)
    pace = run.pace
    return Side(
        run.run_id,
        run.fingerprint,
        run.engine,
        run.profile,
        run.subject.profile_hash,
        pace.value if pace else None,
    )


def _headline(causes: tuple[Cause, ...]) -> str:
    """``6 tuning variables are gone; the host was restarted in between``."""
    likely = [cause for cause in causes if cause.confidence == LIKELY]
    gone = [
        cause for cause in likely if cause.title == f"{cause.name} is gone" and cause.category == "tuning"
    ]
    if len(gone) > 1:
        parts = [f"{len(gone)} tuning variables are gone"]
        parts += [cause.title for cause in likely if cause not in gone][:2]
    else:
        parts = [cause.title for cause in likely][:3]
    more = len(likely) - (len(gone) + len(parts) - 1 if len(gone) > 1 else len(parts))
    parts += [f"{more} more"] if more > 0 else []
    parts += [cause.title for cause in causes if cause.confidence == CONTEXT and cause.category == "restart"]
    if parts:
        return "; ".join(parts)
    rest = [cause for cause in causes if cause.confidence != CONTEXT]
    if not rest:
        return "nothing that Stoker sees differs"
    if all(cause.confidence == UNLIKELY for cause in rest):
        return "nothing that matters is known to differ"
    return "; ".join(cause.title for cause in rest[:2])


def _advice(new: Record, causes: tuple[Cause, ...], unknown: tuple[Unknown, ...]) -> tuple[str, ...]:
    """What to look at next, where no likely cause was found."""
    if any(cause.confidence == LIKELY for cause in causes):
        return ()
    steps = [f"make it readable and measure again: {item.what} ({item.why})" for item in unknown[:3]]
    launches = len(new.samples)
    if launches < LAUNCHES:
        have = count(launches, "launch", "launches")
        steps.append(f"measure more launches: this is {have}, and a restart shifts the mean")
    steps.append("measure the baseline's profile again: the old figure may be what is wrong")
    steps.append(f"see whether the host is fit: inv doctor --host {new.host}")
    return tuple(steps)
