"""What an experiment has measured so far, on disk, so that an interrupted one is taken up again."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stoker.errors import InputError


@dataclass(frozen=True)
class Measured:
    """One launch of an experiment.

    Args:
        setting: Which one, by its name.
        at_s: When it was measured, Unix time.
        runs: tok/s of each valid run; none where the setting does not serve.
        run_id: The record; empty where there is none.
        seconds: Restart and measurement together.
        why: Why it does not serve; empty where it does.
    """

    setting: str
    at_s: float
    runs: tuple[float, ...]
    run_id: str = ""
    seconds: float = 0.0
    why: str = ""


class Journal:
    """JSON lines: the question, each launch, the end. One file a question, in ``.stoker/experiments``.

    Args:
        folder: Where it lies.
        question: JSON types: the same question is the same file.
        anew: Forget what was measured for it before.

    Attributes:
        before: What ran on the host when the experiment began; None until :meth:`begin`.

    Raises:
        InputError: A journal that cannot be read.
    """

    def __init__(self, folder: Path, question: Mapping[str, Any], *, anew: bool = False) -> None:
        text = json.dumps(question, sort_keys=True)
        name = f"{question['kind']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.jsonl"
        self.path = folder / name
        self.before: list[dict[str, Any]] | None = None
        self._question = json.loads(text)
        self._done: list[Measured] = []
        self._next = 0
        if anew or not self._read():
            self.before, self._done = None, []

    @property
    def pending(self) -> int:
        """Launches that were measured before an interruption and have not been asked for again."""
        return len(self._done) - self._next

    @property
    def age_s(self) -> float:
        """Since the last launch was measured; 0 where none was."""
        return max(0.0, time.time() - self._done[-1].at_s) if self._done else 0.0

    def begin(self, before: list[dict[str, Any]]) -> None:
        """Write the question down, and what runs on the host; nothing is measured yet."""
        self.before, self._done, self._next = before, [], 0
        self._write()

    def recall(self, setting: str) -> Measured | None:
        """The next launch, where it was measured already; behind another one all that is left is dropped."""
        if self.pending and self._done[self._next].setting == setting:
            self._next += 1
            return self._done[self._next - 1]
        del self._done[self._next :]
        return None

    def add(self, measured: Measured) -> None:
        """Write a launch down."""
        self._done.append(measured)
        self._next = len(self._done)
        self._write()

    def end(self) -> None:
        """It is answered: asked again, it is measured anew."""
        self._write({"end": True})

    def _write(self, *more: Mapping[str, Any]) -> None:
        """The whole file, by rename: it may hold what was dropped, or a line that was cut off."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        rows = [{"question": self._question, "before": self.before}, *map(asdict, self._done), *more]
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with temporary.open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path)

    def _read(self) -> bool:
        """Take in an unfinished journal; False where there is none."""
        try:
            rows = _rows(self.path)
            if not rows or rows[0]["question"] != self._question or "end" in rows[-1]:
                return False
            self.before = _servers(rows[0]["before"])
            self._done = [_measured(row) for row in rows[1:]]
        except FileNotFoundError:
            return False
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            hint = "add --anew: it is measured from the start"
            raise InputError(
                "the experiment's journal is damaged", where=str(self.path), next_step=hint
            ) from error
        return True


def unfinished(folder: Path, host: str) -> list[dict[str, Any]]:
    """What ran on a host before the experiments there that have not ended; the latest one first.

    Args:
        folder: Where journals lie.
        host: The inventory's name.
    """
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True):
        try:
            rows = _rows(path)
            if rows and rows[0]["question"]["host"] == host and "end" not in rows[-1]:
                found += _servers(rows[0]["before"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue  # whoever asks its question is told
    return found


def _rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; the last one may have been cut off while it was written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines[:-1]] + _last(lines)


def _servers(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("no list of servers")
    return value


def _measured(row: dict[str, Any]) -> Measured:
    made = Measured(**{**row, "runs": tuple(float(value) for value in row["runs"])})
    texts = (made.setting, made.run_id, made.why)
    if not all(isinstance(text, str) for text in texts) or not isinstance(made.at_s, int | float):
        raise TypeError("a field of another kind")
    return made


def _last(lines: list[str]) -> list[Any]:
    """The last line, unless it was cut off while it was written."""
    try:
        return [json.loads(lines[-1])] if lines else []
    except ValueError:
        return []
