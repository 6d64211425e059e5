"""A server's process tree: a launcher whose workers rename themselves and change their environment.

    tree.py [--workers N] [--title PREFIX] [--set NAME=VALUE[@RANK]] [--unset NAME[@RANK]] [--spawn]

It says "up" when every worker is what it will be, and ends when it is killed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--title", default="")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--unset", action="append", default=[])
    parser.add_argument("--spawn", action="store_true")
    return parser.parse_args()


def meant(changes: list[str], rank: int) -> list[tuple[str, str]]:
    """Name and value of those changes that this rank makes."""
    found = []
    for change in changes:
        pair, _, only = change.partition("@")
        if only in ("", str(rank)):
            name, _, value = pair.partition("=")
            found.append((name, value))
    return found


def worker(rank: int, o: argparse.Namespace, up: int) -> None:
    if o.title:
        from setproctitle import setproctitle

        setproctitle(f"{o.title}{rank}")
    for name, value in meant(o.set, rank):
        os.environ[name] = value
    for name, _ in meant(o.unset, rank):
        os.environ.pop(name, None)
    os.write(up, b".")
    signal.pause()


def main() -> None:
    o = options()
    down, up = os.pipe()
    os.set_inheritable(up, True)
    if o.spawn:
        multiprocessing.resource_tracker.ensure_running()
        spawn = multiprocessing.get_context("spawn")
        link = spawn.Pipe(duplex=False)
        for rank in range(o.workers):
            spawn.Process(target=spawned, args=(rank, o, link[1]), daemon=True).start()
        for _ in range(o.workers):
            link[0].recv()
    else:
        for rank in range(o.workers):
            if os.fork() == 0:
                worker(rank, o, up)
        for _ in range(o.workers):
            os.read(down, 1)
    print("up", flush=True)
    signal.pause()


def spawned(rank: int, o: argparse.Namespace, link: object) -> None:
    link.send("up")  # type: ignore[attr-defined]
    worker(rank, o, os.open(os.devnull, os.O_WRONLY))


if __name__ == "__main__":
    main()
