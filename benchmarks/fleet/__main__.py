"""Stoker on a fleet, beside what people would use instead; the tables of docs/performance.md.

    .venv/bin/python -m benchmarks.fleet [--row NAME …] [--rounds 3] [--figure docs/performance.svg]

Real OpenSSH servers on loopback, a host key each. Every contender is a whole process, start-up and all; they
run in turn (A B C A B C …), so that a machine that changes its speed does so for all. Printed are medians:
wall seconds, CPU seconds of the client (its children and what it leaves behind too) and of the hosts, the
most memory that one of its processes held, and the ratio rival ÷ Stoker within the same round. Where hosts
and client share few cores, wall time follows the CPU time of both. The rivals get a virtual environment of
their own (``benchmarks/fleet/rivals.txt``); one that is absent or fails is named.

``far`` needs root and /dev/net/tun: its hosts sit in a network namespace behind a program that carries each
packet 15 ms late, each way. Each row's figures are kept in a JSON file (``--keep``), so that rows can be
measured one by one; ``--figure`` draws what is kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.fleet.contenders import Contenders
from benchmarks.fleet.figure import draw
from benchmarks.fleet.hosts import Fleet, fleet
from benchmarks.fleet.measure import Line, adopt_orphans, compare, run
from benchmarks.fleet.rivals import Rivals

GROUPS = (100, 300, 1000)
RTT_MS = 30.0


@dataclasses.dataclass(frozen=True)
class Row:
    """One work.

    Args:
        title: As it stands above its table.
        hosts: How many.
        work: Makes its contenders.
        rtt_ms: Round trip to the hosts.
    """

    title: str
    hosts: int
    work: Callable[[Contenders], list[Any]]
    rtt_ms: float = 0


ROWS: Mapping[str, Row] = {
    "once": Row("One command on 100 hosts", 100, lambda on: on.once(100)),
    "once50": Row("One command on 50 hosts", 50, lambda on: on.once(50)),
    "once10": Row("One command on 10 hosts", 10, lambda on: on.once(10)),
    "ten": Row("Ten steps on 50 hosts", 50, lambda on: on.ten(50, fabric=1.5, pyinfra=3)),
    "ansible": Row("Ten steps on 20 hosts", 20, lambda on: on.ten_by_ansible(20)),
    "far": Row(f"Ten steps on 50 hosts, RTT {RTT_MS:g} ms", 50, lambda on: on.far(50), RTT_MS),
    "big": Row("200 MiB from a host", 1, lambda on: on.big()),
    "small": Row("2,000 small files from a host", 1, lambda on: on.small()),
}


def main() -> None:
    """Measure, print, keep, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--row", action="append", choices=[*ROWS, "groups"], help="all, where none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rivals", type=Path, default=Path(".cache/rivals"), help="virtual environment")
    parser.add_argument("--keep", type=Path, default=Path(".cache/fleet.json"))
    parser.add_argument("--figure", type=Path, help="draw what is kept, measure nothing")
    given = parser.parse_args()
    kept: dict[str, Any] = json.loads(given.keep.read_text()) if given.keep.exists() else {}
    if given.figure:
        given.figure.write_text(draw([kept[name] for name in ROWS if name in kept]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts are ended on the way out
    adopt_orphans()
    rivals = Rivals(given.rivals)
    for name in given.row or [*ROWS, "groups"]:
        kept[name] = _groups(rivals) if name == "groups" else _row(ROWS[name], rivals, given.rounds)
        given.keep.parent.mkdir(parents=True, exist_ok=True)
        given.keep.write_text(json.dumps(kept, indent=1) + "\n")


def _row(row: Row, rivals: Rivals, rounds: int) -> dict[str, Any]:
    """Measure one work and print its table."""
    with fleet(row.hosts, row.rtt_ms) as hosts:
        lines, out = compare(row.work(Contenders(hosts, rivals)), hosts.folder, rounds, hosts.meter.seconds)
    print(f"\n### {row.title}\n")
    print("| | wall s | client CPU s | hosts CPU s | MiB | wall ÷ Stoker | asked | client ÷ | all CPU ÷ |")
    print("|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        print(_cells(line))
    for name, why in out.items():
        print(f"| {name} | {why} | | | | | | | |")
    print(flush=True)
    return {"title": row.title, "rounds": rounds, "lines": [vars(line) for line in lines], "out": out}


def _cells(line: Line) -> str:
    ratio = [f"{line.by_wall:.2f}", "", f"{line.by_cpu:.2f}", f"{line.by_all:.2f}"]
    if line.least is not None:
        ratio[1] = f"{line.least:g}"
    if line.name == "stoker":
        ratio = ["", "", "", ""]
    figures = [
        f"{line.wall_s:.2f}",
        f"{line.cpu_s:.2f}",
        f"{line.hosts_s:.2f}",
        f"{line.peak_mib:.0f}",
        *ratio,
    ]
    return f"| {line.name} | " + " | ".join(figures) + " |"


def _groups(rivals: Rivals) -> dict[str, Any]:
    """Stoker alone on more and more hosts, 50 at once: what a host costs, and how much memory is held."""
    sizes: list[dict[str, float]] = []
    with fleet(max(GROUPS)) as hosts:
        contenders = Contenders(hosts, rivals)
        _warm(contenders, hosts, GROUPS[:1])
        print("\n### One command on more and more hosts, 50 at once\n")
        print("| hosts | wall s | client CPU s | CPU ms a host | MiB |\n|---|---|---|---|---|")
        for size in GROUPS:
            sample = run(contenders.group(size), hosts.folder)
            sizes.append({"hosts": size, **vars(sample)})
            each = sample.cpu_s / size * 1000
            print(
                f"| {size} | {sample.wall_s:.1f} | {sample.cpu_s:.1f} | {each:.1f} | {sample.peak_mib:.0f} |"
            )
    print(flush=True)
    return {"title": "Groups", "sizes": sizes}


def _warm(contenders: Contenders, hosts: Fleet, sizes: Sequence[int]) -> None:
    for size in sizes:
        run(contenders.group(size), hosts.folder)


if __name__ == "__main__":
    main()
