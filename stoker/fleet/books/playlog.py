"""The journal of a playbook's run: what was done on which host, so that it can be taken up again.

JSON lines in ``.stoker/plays``: the run, then each step on each host, then the end. What is hidden by
``no_log`` is not written: such a step is done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

from stoker.config.books.playbooktree import Task
from stoker.errors import HostFailed, InputError
from stoker.fleet.books.result import Result
from stoker.fleet.books.stages import Options

FOLDER = Path(".stoker") / "plays"
_FINISHED = ("ok", "changed", "skipped")


class Journal:
    """One run's journal.

    Args:
        path: The file; None: nothing is written.
        run: What is run: JSON types; the same run has the same.
        before: The lines of the run that is taken up again; none for a new one.
        book: The playbook as shown to people.
    """

    def __init__(
        self,
        path: Path | None,
        run: Mapping[str, Any],
        before: Sequence[Mapping[str, Any]] = (),
        book: str = "",
    ) -> None:
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        self._before = _finished(before)
        self._taken: Counter[str] = Counter()
        if path is not None:
            rows = [row for row in before if "host" in row]
            cuts = [{"host": host, "cut": len(done)} for host, done in self._before.items()]
            self._file = _opened(path, [{"run": dict(run), "book": book, "at_s": time.time()}, *rows, *cuts])

    def recall(self, task: Task, outer: Mapping[str, Any], host: str) -> Result | None:
        """What a step came to in the run before; None from a host's first unfinished step on."""
        rows, taken = self._before.get(host, []), self._taken[host]
        if taken >= len(rows):
            return None
        if rows[taken]["step"] != _step(task, outer):  # the book is another from here on
            del rows[taken:]
            self._write({"host": host, "cut": taken})
            return None
        self._taken[host] += 1
        return _result(rows[taken], host)

    def add(
        self, task: Task, outer: Mapping[str, Any], host: str, result: Result, *, rescued: bool = False
    ) -> None:
        """Write down what a step came to."""
        if self._file is None:
            return
        finished = (result.status in _FINISHED or result.ignored or rescued) and not result.hidden
        row: dict[str, Any] = {
            "host": host,
            "step": _step(task, outer),
            "at": task.place,
            "name": task.name,
            "status": result.status,
            "finished": finished,
            "at_s": round(time.time(), 3),
            "seconds": round(result.seconds, 3),
        }
        if not result.hidden:
            kept = {"data": result.data, "facts": dict(result.facts), "notified": list(result.notified)}
            what = result.error.what if result.error else ""
            row |= {
                **kept,
                "ignored": result.ignored,
                "command": result.command,
                "error": what,
                "code": result.code,
            }
        self._write(row)

    def end(self, exit_code: int) -> None:
        """The run is over."""
        self._write({"end": exit_code, "at_s": time.time()})
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        with self._lock:
            self._file.write(json.dumps(row, default=str) + "\n")
            self._file.flush()


def path_of(root: Path, book: Path) -> Path:
    """Where the journal of a book lies."""
    name = hashlib.sha256(str(book.resolve()).encode()).hexdigest()[:8]
    return root / FOLDER / f"{book.stem}-{name}.jsonl"


def about(options: Options) -> dict[str, Any]:
    """What makes a run the same: its options, values given on the command line by their hash alone."""
    extra = json.dumps(dict(options.extra), sort_keys=True, default=str)
    return {
        "tags": sorted(options.tags),
        "skip_tags": sorted(options.skip_tags),
        "check": options.check,
        "start_at": options.start_at,
        "extra": hashlib.sha256(extra.encode()).hexdigest(),
    }


def read(path: Path, run: Mapping[str, Any]) -> list[Any]:
    """The lines of the last run of a book.

    Raises:
        InputError: There is none, it was finished, it was another run, or it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputError(
            "this book was not run before", where="--resume", next_step="leave --resume out"
        ) from error
    rows = []
    for number, line in enumerate(lines):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            if number < len(lines) - 1:  # only the last can have been cut off
                raise InputError("the journal is damaged", where=f"{path}:{number + 1}") from error
    if not rows or "run" not in rows[0]:
        raise InputError("the journal is damaged", where=str(path), next_step="leave --resume out")
    if rows[-1].get("end") == 0:
        raise InputError("the last run of this book was finished", where="--resume", next_step="leave it out")
    other = [name for name, value in run.items() if rows[0]["run"].get(name) != value]
    if other:
        flags = ", ".join(
            "--" + ("extra-var" if name == "extra" else name.replace("_", "-")) for name in other
        )
        hint = "give what was given then, or leave --resume out"
        raise InputError(f"the last run had other options: {flags}", where="--resume", next_step=hint)
    return rows


def _finished(before: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """By host, its steps up to the first one that is not finished."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in before:
        if "cut" in row:
            del found.get(row["host"], [])[row["cut"] :]
        elif "step" in row:
            found.setdefault(row["host"], []).append(row)
    return {host: list(takewhile(lambda row: row["finished"], rows)) for host, rows in found.items()}


def _opened(path: Path, rows: Sequence[Mapping[str, Any]]) -> TextIO:
    """A new file in place of the one before, by rename: what hosts said is for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")
    file.writelines(json.dumps(row, default=str) + "\n" for row in rows)
    file.flush()
    draft.replace(path)
    return file


def _step(task: Task, outer: Mapping[str, Any]) -> str:
    """A step by its place in the book, its module and name, and the rounds of includes around it."""
    around = json.dumps(dict(outer), sort_keys=True, default=str) if outer else ""
    return f"{task.key} {task.module} {task.name} {around}".strip()


def _result(row: Mapping[str, Any], host: str) -> Result:
    error = HostFailed(row["error"], host=host, kind="failed") if row["error"] else None
    return Result(
        row["status"],
        row["data"],
        "done before",
        error=error,
        ignored=row["ignored"],
        command=row["command"],
        code=row["code"],
        facts=row["facts"],
        notified=tuple(row["notified"]),
    )
