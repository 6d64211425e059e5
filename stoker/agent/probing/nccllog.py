"""What NCCL's own log (``NCCL_DEBUG=INFO``) says of a communicator, and whether it honoured the variables."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

_SET = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (.*?)\.?\s*$")
_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_RANKS = re.compile(r"\bnRanks (\d+) nNodes (\d+)")
# Before NCCL 2.17 without those of multicast.
_CHANNELS = re.compile(r"(\d+) coll channels(?:, \d+ collnet channels)?(?:, (\d+) nvls channels)?")
_VIA = re.compile(r"Channel \d+(?:/\d+)? : \S+ -> \S+ (?:\[(?:send|receive)\] )?via (\S+)")
# From NCCL 2.19 on in words, before that in numbers.
_SIZE = re.compile(
    r"NCCL INFO (?:AllReduce: )?(\d+) Bytes -> Algo (\w+) proto (\w+)"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})?"
)
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
# Of what a variable's value was refused, or the library itself warned of.
_INVALID = re.compile(
    r"Invalid (?:value|NCCL_\w+)|Unrecognized element token|No algorithm/protocol available|Could not parse",
    re.IGNORECASE,
)
_WARNED = re.compile(r"NCCL WARN (.*)")
_PREFIX = re.compile(r"^.*?NCCL (?:INFO|WARN) ")
_MOST = 20

Log = Dict[str, Any]


def parse(lines: Iterable[str]) -> Log:
    """One rank's log.

    Returns:
        ``{version, ranks, nodes, channels, nvls_channels, transports: {name: connections}, set: {variable:
        value as read}, sizes: [{bytes, algorithm, protocol, channels}], invalid: [line], warnings: [line]}``;
        null or empty where the log does not say. The latest all-reduce of a size counts.
    """
    found: Log = {"version": "", "ranks": None, "nodes": None, "channels": None, "nvls_channels": None}
    transports: Dict[str, int] = {}
    given: Dict[str, str] = {}
    sizes: Dict[int, Dict[str, Any]] = {}
    invalid: List[str] = []
    warnings: List[str] = []
    for line in lines:
        hit = _SET.search(line)
        if hit:
            given[hit.group(1)] = hit.group(2)
        _general(line, found)
        via = _VIA.search(line)
        if via:
            transports[via.group(1)] = transports.get(via.group(1), 0) + 1
        size = _size(line)
        if size:
            sizes[size["bytes"]] = size
        _add(invalid, line, _INVALID.search(line))
        _add(warnings, line, _WARNED.search(line))
    rows = [sizes[key] for key in sorted(sizes)]
    return {
        **found,
        "transports": transports,
        "set": given,
        "sizes": rows,
        "invalid": invalid,
        "warnings": warnings,
    }


def judged(log: Mapping[str, Any], env: Mapping[str, str]) -> List[Dict[str, str]]:
    """What became of each ``NCCL_`` variable of a profile.

    Args:
        log: Of ``parse``.
        env: What the profile sets.

    Returns:
        ``{name, value, state, why}`` each. ``state`` is ``invalid`` (NCCL refused the value),
        ``contradicted`` (the log shows something else in use), ``honoured`` (the log shows its effect),
        ``read`` (NCCL read it) or ``unmentioned`` (the log says nothing of it: many variables are read
        without a word).
    """
    return [_one(log, name, env[name]) for name in sorted(env) if name.startswith("NCCL_")]


def _one(log: Mapping[str, Any], name: str, value: str) -> Dict[str, str]:
    state, why = "unmentioned", "NCCL's log does not mention it"
    if name in log["set"]:
        state, why = "read", "NCCL read it as %s" % log["set"][name]
    effect = _effect(log, name, value)
    if effect is not None:
        state, why = effect["state"], effect["why"]
    refused = [line for line in log["invalid"] if _names(line, name, value)]
    if refused:
        state, why = "invalid", refused[0]
    return {"name": name, "value": value, "state": state, "why": why}


def _names(line: str, name: str, value: str) -> bool:
    """Whether a line that refuses something means this variable: by its name, or by a part of its value."""
    if name in line:
        return True
    if "No algorithm/protocol available" in line:
        return name in ("NCCL_ALGO", "NCCL_PROTO")
    parts = [part for part in re.split(r"[,;:^\s]+", value) if part]
    quoted = any(re.search(r"(?<![\w])%s(?![\w])" % re.escape(part), line) for part in parts)
    return quoted and not re.search(r"NCCL_[A-Z]", _PREFIX.sub("", line))


def _effect(log: Mapping[str, Any], name: str, value: str) -> Optional[Dict[str, str]]:
    """What the log shows of a variable's effect; None where it shows nothing."""
    if name in ("NCCL_ALGO", "NCCL_PROTO"):
        key = "algorithm" if name == "NCCL_ALGO" else "protocol"
        return _in_use([row[key] for row in log["sizes"]], value)
    if name in ("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS") and value.isdigit() and log["channels"]:
        most, have = name == "NCCL_MAX_NCHANNELS", log["channels"]
        good = have <= int(value) if most else have >= int(value)
        return {"state": "honoured" if good else "contradicted", "why": "%d channels" % have}
    if name == "NCCL_P2P_DISABLE" and value == "1" and log["transports"]:
        direct = [one for one in log["transports"] if one.startswith("P2P")]
        told = "via " + ", ".join(sorted(log["transports"]))
        return {"state": "contradicted" if direct else "honoured", "why": told}
    return None


def _in_use(used: Sequence[str], value: str) -> Optional[Dict[str, str]]:
    """Whether what all-reduces used is among what was allowed; None where that cannot be told."""
    mine = _of_allreduce(value)
    if not used or not mine:
        return None
    excluded = mine.startswith("^")
    names = {_plain(part) for part in mine.lstrip("^").split(",")}
    known = {_plain(name) for name in (*_ALGORITHMS, *_PROTOCOLS)}
    if not names <= known:
        return None  # what it does with a name that it does not know, only its own lines tell
    odd = sorted({name for name in used if (_plain(name) in names) == excluded})
    told = ", ".join(sorted(set(used)))
    return {"state": "contradicted" if odd else "honoured", "why": "in use: %s" % told}


def _of_allreduce(value: str) -> str:
    """The part of ``ring;allreduce:tree,ring`` that is about all-reduces; empty where none is."""
    general = ""
    for clause in value.split(";"):
        function, colon, names = clause.rpartition(":")
        if colon and _plain(function) == "ALLREDUCE":
            return names.strip()
        general = general if colon else clause.strip()
    return general


def _plain(name: str) -> str:
    return name.replace("_", "").strip().upper()


def _general(line: str, found: Log) -> None:
    hit = _VERSION.search(line)
    if hit:
        found["version"] = hit.group(1)
    hit = _RANKS.search(line)
    if hit:
        found["ranks"], found["nodes"] = int(hit.group(1)), int(hit.group(2))
    hit = _CHANNELS.search(line)
    if hit:
        found["channels"], found["nvls_channels"] = int(hit.group(1)), int(hit.group(2) or 0)


def _size(line: str) -> Optional[Dict[str, Any]]:
    hit = _SIZE.search(line)
    if not hit:
        return None
    size, algorithm, protocol, low, high = hit.groups()
    return {
        "bytes": int(size),
        "algorithm": _word(algorithm, _ALGORITHMS),
        "protocol": _word(protocol, _PROTOCOLS),
        "channels": int(high) - int(low) + 1 if high else None,
    }


def _word(text: str, known: Sequence[str]) -> str:
    """A name; a number stands for its place in the library's own list."""
    return known[int(text)] if text.isdigit() and int(text) < len(known) else text.upper()


def _add(lines: List[str], line: str, hit: Any) -> None:
    text = _PREFIX.sub("", line.strip())[:300]
    if hit and text not in lines and len(lines) < _MOST:
        lines.append(text)
