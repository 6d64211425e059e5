"""How long a list of many results takes.

    .venv/bin/python -m benchmarks.results [--records 10000] [--times 5]

Writes so many records of the tests' story into a folder of its own, then prints how long a look takes with no
index and with one (the median), and the whole command ``stoker results``, with its CPU time (the mean).
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stoker.results.records.store import RECORD, Store
from tests.results.made import bad, good

_HOSTS = 20
_LISTED = 20  # by the command


def fill(store: Store, count: int) -> None:
    """Records of several hosts, a minute apart; written plainly, since a sync for each takes minutes."""
    for number in range(count):
        run = bad() if number % 5 == 0 else good(number % 3)
        run_id = f"20260101-{number:06d}-node{number % _HOSTS}-{number % 65536:04x}"
        subject = dataclasses.replace(run.subject, host=f"node{number % _HOSTS}")
        made = dataclasses.replace(run, run_id=run_id, created=1767268800.0 + 60 * number, subject=subject)
        home = store.path(run_id)
        home.mkdir(parents=True)
        (home / RECORD).write_text(made.dumps(), encoding="utf-8")


def took(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Print the three times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10000)
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-results-") as folder:
        project = Path(folder)
        store = Store(project / "results")
        fill(store, args.records)
        command = [str(Path(sys.executable).with_name("stoker")), "results"]
        print(f"{args.records} records, median of {args.times}")
        print(f"  a look without an index {took(store.look):8.2f} s (once)")
        warm = statistics.median(took(store.look) for _ in range(args.times))
        print(f"  a look at all with one  {warm:8.2f} s")
        few = statistics.median(took(lambda: store.look(most=_LISTED)) for _ in range(args.times))
        print(f"  at the newest {_LISTED}        {few:8.2f} s")
        output = (project / "told").open("w")
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = [
            took(lambda: subprocess.run(command, cwd=project, check=True, stdout=output))
            for _ in range(args.times)
        ]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if len((project / "told").read_text().splitlines()) < _LISTED * args.times:
            raise SystemExit("the command listed nothing")
        cpu_s = after.ru_utime + after.ru_stime - spent.ru_utime - spent.ru_stime
        print(f"  stoker results          {statistics.median(whole):8.2f} s, CPU {cpu_s / args.times:.2f} s")


if __name__ == "__main__":
    main()
