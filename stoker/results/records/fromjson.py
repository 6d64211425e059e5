"""Records out of JSON: of what a host measured, and of ``run.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.benchmarks import merge
from stoker.errors import InputError
from stoker.results.records import fingerprint as fingerprints
from stoker.results.records.identity import SCHEMA, is_safe_id
from stoker.results.records.metric import Metric
from stoker.results.records.metrics import metrics_of
from stoker.results.records.record import Launch, Record, Run, Subject
from stoker.results.records.shape import Shape, parse
from stoker.results.statistics.stats import VERDICTS, Need, Verdict

_MAX_BYTES = 64 << 20  # of a record or a raw result; a thousand runs are less than a hundredth of it


def build(results: Sequence[Mapping[str, Any]], subject: Subject, *, where: str = "") -> Record:
    """The record of what a host measured.

    Args:
        results: The ``bench`` operation's results, one a launch; the first one's ``run_id`` names the record.
        subject: What was measured.
        where: The host, for messages.

    Raises:
        InputError: A result that is not of the contract's shape, or results of different things.
    """
    shapes = [Shape(result, where or subject.host) for result in results]
    if not shapes:
        raise InputError("there is no result to record", where=where or subject.host)
    first, last = shapes[0], shapes[-1]
    launches = tuple(_launch(shape, shape.shape("launch")) for shape in shapes)
    bench = merge(first.mapping("bench"))
    for shape in shapes[1:]:
        if (shape.text("model"), merge(shape.mapping("bench"))) != (first.text("model"), bench):
            raise InputError("the launches measured different things", where=where or subject.host)
    return Record(
        run_id=_id(first),
        created=first.time("started_at"),
        subject=subject,
        engine_version=last.text("engine_version", ""),
        model=first.text("model"),
        bench=bench,
        launches=launches,
        metrics=metrics_of(bench, launches),
        fingerprint=fingerprints.read(last.shape("fingerprint")),
        simulated=any(shape.flag("simulated", False) for shape in shapes),
        contaminated=tuple(text for shape in shapes for text in shape.texts("contaminated")),
    )


def loads(text: str, where: str) -> Record:
    """A record out of ``run.json``.

    Args:
        text: The file's text.
        where: The file, for messages.

    Raises:
        InputError: Damaged, or written by a newer version; the message names the field.
    """
    shape = Shape(parse(text, where), where)
    schema = shape.whole("schema")
    if schema > SCHEMA:
        raise InputError(
            f"was written by a newer Stoker (schema {schema}, this one reads up to {SCHEMA})",
            where=where,
            next_step="update Stoker to read it",
        )
    return Record(
        run_id=_id(shape),
        created=shape.time("created"),
        subject=_subject(shape),
        engine_version=shape.text("engine_version", ""),
        model=shape.text("model"),
        bench=merge(shape.mapping("bench")),
        launches=tuple(_launch(item, item.shape("launch")) for item in shape.shapes("launches")),
        metrics={name: _metric(shape.shape("metrics").shape(name)) for name in shape.mapping("metrics")},
        fingerprint=fingerprints.read(shape.shape("fingerprint")),
        simulated=shape.flag("simulated"),
        contaminated=shape.texts("contaminated"),
        verdict=_verdict(shape.shape("verdict")) if shape.has("verdict") else None,
    )


def text_of(file: Path) -> str:
    """The text of a record's file, or of a raw result.

    Raises:
        InputError: It cannot be read, or is larger than any of ours.
    """
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise InputError(f"is larger than {_MAX_BYTES >> 20} MiB, and no record", where=str(file))
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"cannot be read: {why}", where=str(file)) from error


def _verdict(shape: Shape) -> Verdict:
    """A verdict out of JSON.

    Raises:
        InputError: Not one of the known ones, or a field of another kind.
    """
    name = shape.text("verdict")
    if name not in VERDICTS:
        raise shape.wrong("verdict", "one of " + ", ".join(VERDICTS), name)
    need = shape.shape("need") if shape.has("need") else None
    return Verdict(
        name,
        change=shape.maybe("change"),
        threshold=shape.maybe("threshold"),
        ruled_out=shape.maybe("ruled_out"),
        need=Need(need.text("what"), need.whole("count")) if need else None,
        why=shape.text("why", ""),
        line=shape.text("line", ""),
    )


def _id(shape: Shape) -> str:
    run_id = shape.text("run_id")
    if not is_safe_id(run_id):
        raise shape.wrong("run_id", "letters, digits, . _ -", run_id)
    return run_id


def _subject(shape: Shape) -> Subject:
    return Subject(
        host=shape.text("host"),
        engine=shape.text("engine"),
        profile=shape.text("profile", ""),
        profile_hash=shape.text("profile_hash", ""),
        slot=shape.text("slot", ""),
        resolved=shape.mapping("resolved"),
    )


def _launch(shape: Shape, launch: Shape) -> Launch:
    return Launch(
        launch_id=launch.text("launch_id", ""),
        started_at=shape.time("started_at"),
        launch=shape.mapping("launch"),
        warmup=_run(shape.shape("warmup")) if shape.has("warmup") else None,
        runs=tuple(_run(item) for item in shape.shapes("runs")),
        machine=shape.mapping("machine"),
        probe=shape.mapping("probe"),
    )


def _run(shape: Shape) -> Run:
    run = Run(
        index=shape.whole("index"),
        tokens=shape.whole("tokens"),
        requested=shape.whole("requested"),
        seconds=shape.maybe("seconds"),
        tok_s=shape.maybe("tok_s"),
        ttft_s=shape.maybe("ttft_s"),
        tpot_s=shape.maybe("tpot_s"),
        valid=shape.flag("valid"),
        why=shape.text("why", ""),
        user_tok_s=shape.maybe("user_tok_s"),
        figures={name: shape.shape("figures").number(name) for name in shape.mapping("figures")},
        errors={name: shape.shape("errors").whole(name) for name in shape.mapping("errors")},
    )
    if run.user_tok_s is not None and run.user_tok_s <= 0:
        raise shape.wrong("user_tok_s", "a positive number", run.user_tok_s)
    if run.valid and not (run.tok_s and run.tok_s > 0 and run.seconds and run.seconds > 0):
        raise shape.wrong("tok_s", "a positive number in a valid run", run.tok_s)
    return run


def _metric(shape: Shape) -> Metric:
    return Metric(shape.number("value"), shape.text("unit"))
