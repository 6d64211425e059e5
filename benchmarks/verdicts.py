"""How often the verdict errs: the rule as it is built, over simulated launches.

    .venv/bin/python -m benchmarks.verdicts [--times 4000]

For each noise (σ within a launch, τ between launches): false alarms where nothing changed, how often a loss
of 10 % and the story's 29 % are found, and how often ``ok`` is said where nothing changed. Three launches of
five runs are the baseline, one launch of five runs is judged; then what one more A/B pair makes of it.
"""

from __future__ import annotations

import argparse
import math
import random

from stoker.results.statistics import stats
from stoker.results.statistics.stats import judge

NOISES = ((0.005, 0.005), (0.01, 0.01), (0.02, 0.0), (0.02, 0.01), (0.02, 0.02))
BASELINE, RUNS = 3, 5


def launches(
    dice: random.Random, count: int, within: float, between: float, loss: float = 0.0
) -> list[list[float]]:
    """Launches around 88.8 tok/s, less a loss."""
    made = []
    for _ in range(count):
        centre = math.log(88.8 * (1 - loss)) + dice.gauss(0, between)
        made.append([math.exp(centre + dice.gauss(0, within)) for _ in range(RUNS)])
    return made


def row(within: float, between: float, times: int) -> str:
    """Percentages of one noise."""
    dice = random.Random(f"{within}/{between}")
    false = confirmed = small = large = fine = 0
    for _ in range(times):
        base = launches(dice, BASELINE, within, between)
        same = launches(dice, 1, within, between)
        verdict = judge(base, same).verdict
        fine += verdict == stats.OK
        if verdict == stats.REGRESSED:
            false += 1
            pair = (launches(dice, 1, within, between), launches(dice, 1, within, between))
            confirmed += judge(base + pair[0], same + pair[1]).verdict == stats.REGRESSED
        small += judge(base, launches(dice, 1, within, between, 0.10)).verdict == stats.REGRESSED
        large += judge(base, launches(dice, 1, within, between, 0.293)).verdict == stats.REGRESSED
    counts = (false, confirmed, small, large, fine)
    return f"  {100 * within:>4.1f} {100 * between:>4.1f}" + "".join(
        f"{100 * n / times:>14.2f}" for n in counts
    )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=4000)
    times = parser.parse_args().times
    print(f"{BASELINE} × {RUNS} against 1 × {RUNS}, {times} times a row; all in %")
    heads = ("false alarm", "… confirmed", "10 % found", "29 % found", "ok if equal")
    print(f"  {'σ':>4} {'τ':>4}" + "".join(f"{head:>14}" for head in heads))
    for within, between in NOISES:
        print(row(within, between, times), flush=True)


if __name__ == "__main__":
    main()
