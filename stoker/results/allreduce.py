"""What a profile could gain in decoding by its all-reduces alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.results.figures import percent
from stoker.results.records.latencies import batches, median

if TYPE_CHECKING:
    from stoker.results.records.record import Record

# Under tensor parallelism: one after the attention, one after the MLP or the experts.
PER_LAYER = 2


@dataclass(frozen=True)
class Estimate:
    """What one profile could gain over another in decoding, by its all-reduces alone.

    Args:
        batch: Whose latencies were compared.
        steps: All-reduces a decoding step.
        saved_s: Per step; negative: lost.
        token_s: Measured time per token; None where nothing was measured.
        change: Of tok/s, relative; None likewise.
        line: For people, labelled as an estimate, with its assumption.
    """

    batch: int
    steps: int
    saved_s: float
    token_s: float | None
    change: float | None
    line: str


def layers(record: Record) -> int | None:
    """Of the model, as its ``config.json`` on the host said; None where it did not."""
    for launch in record.launches:
        model = launch.probe.get("model")
        value = model.get("layers") if isinstance(model, dict) else None
        if isinstance(value, int) and value > 0:
            return value
    return None


def estimate(new: Record, old: Record, decode: Record | None) -> Estimate | None:
    """What a profile could gain over another in decoding.

    Args:
        new: All-reduces under the profile in question.
        old: Under the other.
        decode: A measured decoding of the same model; None: only the time that is saved is known.

    Returns:
        None where the model's layers are not known, or the two have no batch size in common.
    """
    count = layers(new) or layers(old)
    common = [b for b in batches(new.launches) if b in batches(old.launches)]
    if count is None or not common:
        return None
    wanted = decode.bench.concurrency if decode else 1
    batch = min(common, key=lambda one: abs(math.log(one / max(wanted, 1))))
    after, before = median(new.launches, batch), median(old.launches, batch)
    if after is None or before is None:
        return None
    steps = PER_LAYER * count
    saved = steps * (before - after)
    token = decode.metrics.get("tpot_s") if decode else None
    token_s = token.value if token else None
    change = _change(token_s, saved, decode is not None and _same_profile(decode, new))
    line = _line(batch, count, before - after, saved, decode if token else None, token_s, change)
    return Estimate(batch, steps, saved, token_s, change, line)


def _same_profile(one: Record, other: Record) -> bool:
    return bool(one.subject.profile_hash) and one.subject.profile_hash == other.subject.profile_hash


def _change(token_s: float | None, saved_s: float, of_new: bool) -> float | None:
    """Of tok/s; None where nothing was measured, or more would be saved than a token takes."""
    if token_s is None:
        return None
    before, after = (token_s + saved_s, token_s) if of_new else (token_s, token_s - saved_s)
    return before / after - 1 if before > 0 and after > 0 else None


def _line(
    batch: int,
    count: int,
    each_s: float,
    saved_s: float,
    decode: Record | None,
    token_s: float | None,
    change: float | None,
) -> str:
    word = "less" if saved_s >= 0 else "more"
    what = f"{PER_LAYER * count} all-reduces a step ({PER_LAYER} × {count} layers, assumed)"
    line = (
        f"estimate, batch {batch}: {what} × {abs(each_s) * 1e6:.1f} µs = {abs(saved_s) * 1e3:.2f} ms {word}"
    )
    if decode is None or token_s is None:
        return f"{line} per token; no decode of this model is recorded to hold it against"
    measured = f"{line} of {token_s * 1e3:.2f} ms per token ({decode.run_id})"
    if change is None:
        return f"{measured}: that is more than a token takes, so the engine does not wait for each of them"
    return f"{measured}: about {percent(change)} tok/s"
