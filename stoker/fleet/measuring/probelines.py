"""A record of all-reduces for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stoker.fleet.measuring import benchlines

if TYPE_CHECKING:
    from stoker.results.baselines.baseline import Baseline
    from stoker.results.records.record import Record

Line = tuple[str, str]
_STYLES = {
    "honoured": "green",
    "read": "",
    "unmentioned": "dim",
    "invalid": "bold red",
    "contradicted": "bold red",
}


def data(record: Record, base: Baseline | None = None) -> dict[str, Any]:
    """What a playbook registers and --json prints."""
    last = record.launches[-1].probe
    return {
        **benchlines.data(record, base),
        "tok_s": None,
        "latency_us": record.metrics["latency_us"].value,
        "sizes": last.get("sizes", []),
        "nccl": last.get("nccl"),
        "engine": last.get("engine"),
        "proof": last.get("proof"),
        "estimate": None,
    }


def curve(record: Record) -> list[Line]:
    """A line a power of two, of the last launch."""
    from stoker.results.records.latencies import sizes

    last = record.launches[-1]
    used = {row.get("bytes"): row for row in _rows(_mapping(last.probe.get("nccl")).get("sizes"))}
    found = []
    for row in sizes(last):
        values = [row.get(name) for name in ("p50_s", "algbw_gb_s", "busbw_gb_s")]
        if not row["batch"] and values[0]:
            text = f"{row['bytes']:>19} B: {1e6 * values[0]:>8.1f} µs{_band(*values[1:])}"
            found.append((text + _used(used.get(row["bytes"])), "dim"))
    return found


def _band(algbw: object, busbw: object) -> str:
    """Both bandwidths; nothing where they are none, as of one rank."""
    known = isinstance(algbw, int | float) and isinstance(busbw, int | float) and busbw
    return f", {algbw:.3g} GB/s, bus {busbw:.3g} GB/s" if known else ""


def lines(record: Record, rewrites: Mapping[str, str], env: Mapping[str, str]) -> list[Line]:
    """A line a batch size with what NCCL used for it, then what NCCL, the proof and the engine say.

    Args:
        record: Of all-reduces.
        rewrites: Variables that the engine itself sets, and the probe does not.
        env: What the profile sets.
    """
    found = record.launches[-1].probe
    return [
        *_sizes(record, _mapping(found.get("nccl"))),
        *_variables(_mapping(found.get("nccl"))),
        *_proof(_mapping(found.get("proof"))),
        *_engine(_mapping(found.get("engine"))),
        *(_rewritten(rewrites, env) if found.get("nccl") else []),  # on a CPU no such variable is read
    ]


def _sizes(record: Record, nccl: Mapping[str, Any]) -> list[Line]:
    from stoker.results.records.latencies import batches, median, sizes

    used = {row.get("bytes"): row for row in _rows(nccl.get("sizes"))}
    shown = []
    for batch in batches(record.launches):
        every = [row for launch in record.launches for row in sizes(launch)]
        row = next(one for one in every if one["batch"] == batch)
        marks = [median(record.launches, batch, mark) for mark in ("p50_s", "p10_s", "p90_s")]
        middle, low, high = ("-" if one is None else f"{1e6 * one:.1f}" for one in marks)
        band = _band(*(median(record.launches, batch, name) for name in ("algbw_gb_s", "busbw_gb_s")))
        text = f"batch {batch:>3} {row['bytes']:>9} B: {middle:>8} µs ({low} to {high}){band}"
        shown.append((text + _used(used.get(row["bytes"])), ""))
    return shown


def _used(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    channels = f" × {row['channels']}" if row.get("channels") else ""
    return f"  {row.get('algorithm')}/{row.get('protocol')}{channels}"


def _variables(nccl: Mapping[str, Any]) -> list[Line]:
    if not nccl:
        return []
    transports = ", ".join(f"{name} ({count})" for name, count in _mapping(nccl.get("transports")).items())
    channels = nccl.get("channels")
    head = f"NCCL {nccl.get('version') or '?'}: {channels or '?'} channels"
    shown: list[Line] = [(f"{head}, via {transports}" if transports else head, "dim")]
    for row in _rows(nccl.get("variables")):
        state = str(row.get("state"))
        shown.append(
            (f"{row.get('name')}={row.get('value')}: {state} ({row.get('why')})", _STYLES.get(state, ""))
        )
    refused = [
        one
        for one in _texts(nccl.get("invalid"))
        if not any(one == r.get("why") for r in _rows(nccl.get("variables")))
    ]
    shown += [(f"NCCL refuses: {text}", "bold red") for text in refused]
    shown += [(f"NCCL warns: {text}", "yellow") for text in _texts(nccl.get("warnings"))]
    return shown


def _proof(proof: Mapping[str, Any]) -> list[Line]:
    verdict = proof.get("verdict")
    if verdict is None:
        return []
    count = len(_rows(proof.get("workers")))
    style = "" if verdict == "in-force" else "yellow"
    return [(f"the profile's variables in {count} ranks: {verdict}", style)]


def _engine(engine: Mapping[str, Any]) -> list[Line]:
    evidence = "; ".join(_texts(engine.get("lines"))[:2])
    if engine.get("way") == "own":
        told = "the engine's own all-reduce does not go through NCCL, so its decoding may not follow"
        text = f"{told}: {evidence}"
        return [(text, "yellow")]
    if engine.get("way") == "nvls":
        told = "the engine reduces by NVLink multicast (NVLS), the probe only if the profile asks for that"
        return [(f"{told}: {evidence}", "yellow")]
    return [(f"the engine reduces through NCCL: {evidence}", "dim")] if engine.get("way") == "nccl" else []


def _rewritten(rewrites: Mapping[str, str], env: Mapping[str, str]) -> list[Line]:
    names = [f"{n}={v}" if v else n for n, v in rewrites.items() if n.startswith("NCCL_") and n not in env]
    if not names:
        return []
    return [
        (f"the engine itself sets {', '.join(names)}: the probe does not, unless the profile does", "dim")
    ]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
