"""What is accepted of results, and how its file reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.benchmarks import NAMES, merge
from stoker.config.files import yamlfile
from stoker.errors import ConfigError, InputError
from stoker.results.baselines.yamltext import dumps as yaml_text
from stoker.results.records import fingerprint as fingerprints
from stoker.results.records.fingerprint import Fingerprint
from stoker.results.records.record import Record
from stoker.results.records.shape import Shape, ShapeError, is_usable

SCHEMA = 1
_ABSENT = ("load", "hardware", "host")  # of a key, where they are empty
_PACKED = ("env_hashed", "versions", "host", "process", "conf_files")
_HEAD = (
    "# yaml-language-server: $schema=../schemas/baseline.json\n"
    "# An accepted result: written by `inv baseline`, reviewed by people.\n"
)


@dataclass(frozen=True, order=True)
class Key:
    """What two results must share to be compared.

    The number of runs is not in it: it is how much evidence there is, and not what is measured.

    Args:
        host: The inventory's name.
        model: As the server reported it.
        engine: The engine's name.
        bench: The benchmark's name.
        tokens: Of each request.
        concurrency: Requests at once.
        simulated: Pretended and real never meet.
        load: All other parameters of ``serve`` and ``allreduce``, on one line; empty for ``decode``.
        hardware: Of a whole class of hosts, in place of the host: ``8 × NVIDIA H200``; empty for one host.
    """

    host: str
    model: str
    engine: str
    bench: str
    tokens: int
    concurrency: int
    simulated: bool
    load: str = field(default="", repr=False)  # the names of older files are made of what it is without
    hardware: str = field(default="", repr=False)

    @classmethod
    def of(cls, record: Record, *, by_class: bool = False) -> Key:
        """The key of a record.

        Args:
            record: The run.
            by_class: Of its hardware, in place of its host.
        """
        bench = record.bench
        measured = (bench.name, bench.tokens, bench.concurrency, record.simulated, bench.load)
        host, hardware = ("", hardware_of(record.fingerprint)) if by_class else (record.host, "")
        return cls(host, record.model, record.engine, *measured, hardware)

    def same_of(self, record: Record) -> Key:
        """The key of a record, of its host or its class as this one is."""
        return Key.of(record, by_class=bool(self.hardware))

    @property
    def where(self) -> str:
        """The host, or the class of hosts."""
        return self.host or self.hardware

    @property
    def judged(self) -> str:
        """The metric that its samples are, as ``Bench.judged`` names it."""
        if self.bench in ("decode", "llama-bench"):
            return "decode_tok_s"
        if self.bench == "allreduce":
            return "allreduces_per_s"
        return "output_tok_s" if self.concurrency else "user_tok_s"

    @property
    def unit(self) -> str:
        """Of its samples."""
        return "1/s" if self.bench == "allreduce" else "tok/s"

    def differs(self, other: Key) -> tuple[str, ...]:
        """What keeps two results from being compared, ``name: mine, theirs``; empty where nothing does."""
        mine, theirs = asdict(self), asdict(other)
        return tuple(f"{k}: {mine[k]}, {theirs[k]}" for k in mine if mine[k] != theirs[k])


@dataclass(frozen=True)
class Accepted:
    """The samples of one accepted launch.

    Args:
        run_id: The record it comes from.
        launch_id: Empty for a server that was started by hand.
        created: Unix time.
        tok_s: Of each valid run, in order.
    """

    run_id: str
    launch_id: str
    created: float
    tok_s: tuple[float, ...]

    @property
    def samples(self) -> tuple[float, ...]:
        """tok/s of each valid run."""
        return self.tok_s


@dataclass(frozen=True)
class Baseline:
    """What a host is known to reach.

    Args:
        key: What it is the baseline of.
        launches: The accepted launches.
        profile: Of the latest accepted run; empty for a server that was started by hand.
        profile_hash: Likewise.
        fingerprint: Likewise.
        accepted_at: ISO time, UTC.
        accepted_by: Who accepted it.
        why: Their reason; may be empty.
    """

    key: Key
    launches: tuple[Accepted, ...]
    profile: str
    profile_hash: str
    fingerprint: Fingerprint
    accepted_at: str
    accepted_by: str
    why: str

    @property
    def samples(self) -> tuple[tuple[float, ...], ...]:
        """tok/s, by launch."""
        return tuple(launch.tok_s for launch in self.launches)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The records it comes from, in order."""
        return tuple(dict.fromkeys(launch.run_id for launch in self.launches))

    @property
    def tok_s(self) -> float:
        """Mean over the launches' means."""
        means = [sum(launch.tok_s) / len(launch.tok_s) for launch in self.launches]
        return sum(means) / len(means)


@dataclass(frozen=True)
class Missing:
    """There is no baseline of a key.

    Args:
        key: What was looked for.
        nearest: The one that has most in common; None where there is none on that host.
        differs: What keeps that one from being compared.
    """

    key: Key
    nearest: Baseline | None = None
    differs: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """For people."""
        if self.nearest is None:
            return f"no baseline of {self.key.host} is accepted yet"
        return "the nearest baseline is of something else (" + "; ".join(self.differs) + ")"


def hardware_of(found: Fingerprint) -> str:
    """The class of a host: how many of which GPUs the server has; empty where that is not known.

    Without GPUs nothing in a fingerprint tells one machine's speed from another's.
    """
    names = Counter(str(gpu.get("name") or "") for gpu in found.gpus)
    if not names or "" in names:
        return ""
    return " + ".join(f"{count} × {name}" for name, count in sorted(names.items()))


def dumps(baseline: Baseline) -> str:
    """The text of its file: what people review first, the long fingerprint last."""
    data: dict[str, Any] = {"schema": SCHEMA} | asdict(baseline)
    data["key"] = {name: value for name, value in data["key"].items() if value != "" or name not in _ABSENT}
    data["fingerprint"] = {name: value for name, value in data.pop("fingerprint").items() if value}
    return _HEAD + yaml_text(data, packed=_PACKED)


def loads(text: str, shown: str) -> Baseline:
    """A baseline out of its file's text.

    Args:
        text: YAML.
        shown: The file as shown to people.

    Raises:
        ConfigError: What is wrong in it.
    """
    document = yamlfile.loads(text, shown)
    try:
        return _baseline(Shape(document.data, shown))
    except ShapeError as error:
        raise ConfigError([document.problem(error.path, error.what)]) from error
    except InputError as error:
        raise ConfigError([document.problem((), error.what, error.next_step)]) from error


def _baseline(shape: Shape) -> Baseline:
    if shape.whole("schema") > SCHEMA:
        raise InputError("was accepted by a newer Stoker", next_step="update Stoker to read it")
    key = shape.shape("key")
    _check_bench(key)
    launches = tuple(_launch(item) for item in shape.shapes("launches"))
    if not launches:
        raise InputError("launches is missing")
    return Baseline(
        key=Key(
            host=key.text("host") if not key.text("hardware", "") else key.text("host", ""),
            model=key.text("model"),
            engine=key.text("engine"),
            bench=key.text("bench"),
            tokens=key.whole("tokens"),
            concurrency=key.whole("concurrency"),
            simulated=key.flag("simulated"),
            load=key.text("load", ""),
            hardware=key.text("hardware", ""),
        ),
        launches=launches,
        profile=shape.text("profile", ""),
        profile_hash=shape.text("profile_hash", ""),
        fingerprint=fingerprints.read(shape.shape("fingerprint")),
        accepted_at=shape.text("accepted_at", ""),
        accepted_by=shape.text("accepted_by", ""),
        why=shape.text("why", ""),
    )


def _check_bench(key: Shape) -> None:
    if key.text("bench") in NAMES and key.text("bench") != "decode":
        # Its load is compared as a whole: what no run of this version can have measured serves for none.
        if not key.text("load"):
            raise key.wrong("load", "a text", "")
        return
    for name, value in (("name", key.text("bench")), *((n, key.whole(n)) for n in ("tokens", "concurrency"))):
        try:
            merge({name: value})
        except InputError as error:
            raise key.wrong("bench" if name == "name" else name, "in bounds", value) from error


def _launch(shape: Shape) -> Accepted:
    values = shape.items("tok_s")
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or value <= 0 or not is_usable(value):
            raise shape.wrong("tok_s", "a list of positive numbers", value)
    if not values:
        raise shape.wrong("tok_s", "a list of positive numbers", values)
    return Accepted(
        shape.text("run_id"), shape.text("launch_id", ""), shape.number("created"), tuple(map(float, values))
    )
