"""The folder of accepted results, reviewed in git: one YAML file a key; unlike never meets unlike."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.errors import ConfigError, InputError, Problem, nearest
from stoker.results.baselines.accepted import Accepted, Baseline, Key, Missing, dumps, hardware_of, loads
from stoker.results.names import is_cosmetic
from stoker.results.records.record import Record

__all__ = ["LAUNCHES", "Accepted", "Baseline", "Baselines", "Key", "Missing"]

LAUNCHES = 3  # of five runs: what a baseline should have, by the rule of the statistics


class Baselines:
    """A folder of accepted results.

    Args:
        folder: It may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: Key) -> Path:
        """The file of a key: the one that holds it, whatever its name, else a readable one of its own."""
        held = (path for path in self._paths() if (found := self._try(path)) is not None and found.key == key)
        return next(held, None) or self._fresh_path(key)

    def _fresh_path(self, key: Key) -> Path:
        model = key.model.rstrip("/").rpartition("/")[2]
        size = key.load or f"{key.tokens}x{key.concurrency}"
        words = [key.where, model, key.engine, f"{key.bench}-{size}"]
        name = "--".join(re.sub(r"[^A-Za-z0-9._]+", "-", word).strip("-.")[:60] or "x" for word in words)
        # The words are shortened and cleaned; the digest keeps two keys apart that read the same.
        whole = repr(key) + key.load + key.hardware
        digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:6]
        return self.folder / f"{name}--{'simulated-' if key.simulated else ''}{digest}.yml"

    def all(self) -> tuple[Baseline, ...]:
        """Every baseline, in the order of their files.

        Raises:
            ConfigError: Every mistake in every file.
        """
        found, problems = self._read()
        if problems:
            raise ConfigError(problems)
        return tuple(found)

    def problems(self) -> tuple[Problem, ...]:
        """Every mistake in every file."""
        return tuple(self._read()[1])

    def find(self, record: Record) -> Baseline | Missing:
        """The baseline that a record is judged against, or what is nearest and why it does not serve.

        Its host's own comes first; without one that of its class of hardware serves.

        Raises:
            ConfigError: The file that would serve is wrong.
        """
        key, of_class = Key.of(record), Key.of(record, by_class=True)
        found, problems = self._read()
        for wanted in (key, *([of_class] if of_class.hardware else [])):
            for baseline in found:
                if baseline.key == wanted:
                    return baseline
            mine = self._shown(self._fresh_path(wanted))
            if any(problem.file == mine for problem in problems):
                raise ConfigError([problem for problem in problems if problem.file == mine])
        near = [one for one in found if one.key.where in (key.host, of_class.hardware)]
        if not near:
            return Missing(key)
        apart = {one.key: one.key.same_of(record).differs(one.key) for one in near}
        nearest = min(near, key=lambda one: (len(apart[one.key]), one.key))
        return Missing(key, nearest, apart[nearest.key])

    def named(self, text: str) -> tuple[Path, Baseline]:
        """One baseline by its file's name, or a unique part of it.

        Raises:
            InputError: There is none, or several.
        """
        every = {path.stem: path for path in self._paths()}
        stem = Path(text).name.removesuffix(".yml").removesuffix(".yaml")
        found = [stem] if stem in every else [name for name in every if stem and stem in name]
        if len(found) != 1:
            hint = (
                f"one of {', '.join(found[:5])}" if found else nearest(stem, every) or "inv baseline --list"
            )
            many = f"names {len(found)} baselines" if found else "names no baseline"
            raise InputError(f"{text!r} {many}", next_step=hint)
        return every[found[0]], self._load(every[found[0]])

    def retire(self, path: Path, *, by: str, why: str, now: float | None = None) -> Path:
        """Put a baseline out of use: its file moves to ``retired``, and says who did that and why.

        Args:
            path: Its file.
            by: Who retires it.
            why: Their reason.
            now: Unix time; None: now.

        Returns:
            Where it lies then.

        Raises:
            InputError: It cannot be written.
        """
        stamp = time.strftime("%Y-%m-%d", time.gmtime(now))
        home = self.folder / "retired"
        to = home / f"{path.stem}--{stamp}{path.suffix}"
        while to.exists():
            to = to.with_name(f"{to.stem}-{secrets.token_hex(2)}{to.suffix}")
        head = "".join(f"# {line}\n" for line in (f"Retired on {stamp} by {by}:", *why.splitlines()))
        try:
            home.mkdir(exist_ok=True)
            to.write_text(head + path.read_text(encoding="utf-8"), encoding="utf-8")
            path.unlink()
        except OSError as error:
            raise InputError(f"cannot be retired: {error.strerror}", where=self._shown(path)) from error
        return to

    def accept(
        self,
        records: Sequence[Record],
        *,
        by: str,
        why: str = "",
        now: float | None = None,
        by_class: bool = False,
    ) -> Baseline:
        """Make records the baseline of what they measured; an earlier one is replaced.

        Args:
            records: Of one key, at least one.
            by: Who accepts.
            why: Their reason.
            now: Unix time; None: now.
            by_class: For every host of their hardware, in place of the one that they ran on.

        Raises:
            InputError: They measured different things, ran with different tuning, are contaminated or have no
                valid run; nothing is written.
        """
        _check(records, by_class)
        latest = max(records, key=lambda record: record.created)
        baseline = Baseline(
            key=Key.of(latest, by_class=by_class),
            launches=tuple(launch for record in _in_order(records) for launch in _accepted(record)),
            profile=latest.profile,
            profile_hash=latest.subject.profile_hash,
            fingerprint=latest.fingerprint,
            accepted_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
            accepted_by=by,
            why=why,
        )
        self._write(baseline)
        return baseline

    def _write(self, baseline: Baseline) -> None:
        path = self.path(baseline.key)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with draft.open("x", encoding="utf-8") as stream:
                stream.write(dumps(baseline))
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(path)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=self._shown(path)) from error
        finally:
            draft.unlink(missing_ok=True)

    def _try(self, path: Path) -> Baseline | None:
        try:
            return self._load(path)
        except ConfigError:
            return None

    def _read(self) -> tuple[list[Baseline], list[Problem]]:
        found: dict[Key, tuple[Baseline, str]] = {}
        problems: list[Problem] = []
        for path in self._paths():
            shown = self._shown(path)
            try:
                baseline = self._load(path)
            except ConfigError as error:
                problems += error.problems
                continue
            if baseline.key in found:
                problems.append(Problem(shown, 0, f"is the baseline of the same as {found[baseline.key][1]}"))
            else:
                found[baseline.key] = (baseline, shown)
        return [baseline for baseline, _ in found.values()], problems

    def _paths(self) -> list[Path]:
        return sorted(p for p in self.folder.glob("*.y*ml") if not p.name.startswith(".") and p.is_file())

    def _shown(self, path: Path) -> str:
        return f"{self.folder.name}/{path.name}"

    def _load(self, path: Path) -> Baseline:
        shown = self._shown(path)
        try:
            return loads(path.read_text(encoding="utf-8"), shown)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([Problem(shown, 0, f"cannot be read: {error}")]) from error


def _check(records: Sequence[Record], by_class: bool) -> None:
    if not records:
        raise InputError("there is no run to accept", next_step="measure one with `inv bench`")
    first = records[0]
    for record in records:
        if record.contaminated:
            raise InputError(
                f"{record.run_id} was disturbed: {record.contaminated[0]}", next_step="measure again"
            )
        if not record.samples:
            raise InputError(f"{record.run_id} has no valid run", next_step="measure again")
        if by_class and not hardware_of(record.fingerprint):
            hint = "accept it for its host: without --by-class"
            raise InputError(f"the class of {record.host}'s hardware is not known", next_step=hint)
        differs = Key.of(first, by_class=by_class).differs(Key.of(record, by_class=by_class))
        if differs:
            apart = "; ".join(differs)
            raise InputError(f"{first.run_id} and {record.run_id} measured different things ({apart})")
        names = _tuning_apart(first, record)
        if names:
            what = f"{first.run_id} and {record.run_id} ran with different tuning: {', '.join(names)}"
            raise InputError(what, next_step="accept runs of one tuning")


def _tuning_apart(one: Record, other: Record) -> list[str]:
    """Tuning variables that differ between two runs, where both could be read."""
    a, b = one.fingerprint, other.fingerprint
    if "unreadable" in (a.env_source, b.env_source):
        return []
    # What the engine sets is its own affair, and a port or an id differs from launch to launch.
    names = {n for n in {*a.env, *b.env} - {*a.engine_set, *b.engine_set} if not is_cosmetic(n)}
    return sorted(n for n in names if a.env.get(n) != b.env.get(n))


def _in_order(records: Sequence[Record]) -> list[Record]:
    unique = {record.run_id: record for record in records}
    return sorted(unique.values(), key=lambda record: (record.created, record.run_id))


def _accepted(record: Record) -> list[Accepted]:
    return [
        Accepted(record.run_id, launch.launch_id, launch.started_at, launch.samples)
        for launch in record.launches
        if launch.samples
    ]
