"""What ``inv status`` shows: a row a server, and below the rows what does not fit in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.fleet.life import differences
from stoker.fleet.shown import process_line
from stoker.screen import Sheet

Cell = str | tuple[str, str]
Line = tuple[str, str]

_COLUMNS = ("host", "slot", "profile", "state", "tuning", "up>", "tok/s>", "reqs", "GPU GiB>")
_STATE = {"up": "green", "busy": "cyan", "starting": "yellow", "stuck": "bold red", "down": "bold red"}
_TUNING = {"in-force": ("in force", "green"), "not-in-force": ("drift", "bold red")}
_MIB_PER_GIB = 1024


def draw(seen: Mapping[str, dict[str, Any]], *, wide: bool) -> Sheet:
    """The table and the lines below it.

    Args:
        seen: Host name to what came of the last look: ``data``, or ``status`` and ``why``.
        wide: Whether there is room for where each server listens.
    """
    rows: list[Sequence[Cell]] = []
    lines: list[Line] = []
    for host, look in seen.items():
        data = look.get("data")
        if data is None:
            rows.append([host, "-", "-", (look["status"], "bold red" if look.get("why") else "dim")])
            lines += [(f"{host}: {look['why']}", "red")] if look.get("why") else []
            continue
        rows += _rows(host, data, wide=wide)
        lines += _lines(host, data)
    columns = (*_COLUMNS, *(("where",) if wide else ()))
    return Sheet(columns, [[*row, *["-"] * (len(columns) - len(row))] for row in rows], lines)


def _rows(host: str, data: dict[str, Any], *, wide: bool) -> Iterator[Sequence[Cell]]:
    shown = {server["launch"]["profile"] for server in data["servers"] if server["launch"]}
    for server in data["servers"]:
        where = f"{server['bind']}:{server['port']}" if server.get("port") else "-"
        yield [*_row(host, data, server), *([where] if wide else [])]
        amiss = _amiss(server)
        if amiss:
            yield ["", "", ("↳ " + amiss, "yellow"), *[""] * (len(_COLUMNS) - 3 + wide)]
    gpus = _memory(data["gpus"])
    for name in data["missing"]:
        if name not in shown:
            yield [host, "-", name, ("not running", "bold red"), "-", "-", "-", "-", gpus]
    if not data["servers"] and not data["missing"]:
        yield [host, "-", "-", ("nothing runs", "dim"), "-", "-", "-", "-", gpus]


def _row(host: str, data: dict[str, Any], server: dict[str, Any]) -> Sequence[Cell]:
    load = server.get("load") or {}
    state = server["state"]
    return [
        host,
        server["slot"] or "-",
        _profile(server),
        (state, _STATE.get(state, "")),
        _tuning(server),
        _age(server.get("uptime_s")),
        _speed(load),
        "-" if load.get("running") is None else f"{load['running']:g}+{load.get('waiting') or 0:g}",
        _memory(_gpus_of(data, server)),
    ]


def _profile(server: dict[str, Any]) -> Cell:
    if server["version"] == "by-hand":
        return "by hand", "yellow"
    return str(server["launch"]["profile"])


def _amiss(server: dict[str, Any]) -> str:
    """What is not as it should be with a server's profile: it stands below the name."""
    if server["version"] == "by-hand":
        return str(server["engine"])
    if server["desired"] and server["desired"] != server["launch"]["profile"]:
        return "other"
    return {"outdated": "outdated", "unknown": "unknown"}.get(server["version"], "")


def _tuning(server: dict[str, Any]) -> Cell:
    proof = server.get("proof")
    if not proof or not (proof["variables"] or proof["verdict"] == "not-in-force"):
        return "-", "dim"
    return _TUNING.get(proof["verdict"], (str(proof["verdict"]), "yellow"))


def _age(seconds: float | None) -> str:
    """``42s``, ``12m05``, ``3h20``, ``5d03h``: at most six signs."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02d}h"


def _speed(load: Mapping[str, Any]) -> str:
    """Tokens a second; ``~`` where they are worked out of decoding steps."""
    speed = load.get("tok_s")
    if speed is None:
        return "-"
    return f"{'~' if load.get('tok_s_from') == 'steps' else ''}{speed:.{0 if speed >= 1000 else 1}f}"


def _gpus_of(data: dict[str, Any], server: dict[str, Any]) -> list[dict[str, Any]]:
    """The GPUs that a server holds, else those it was launched on."""
    held = {index for process in server["processes"] for index in process.get("gpus") or ()}
    held = held or set((server["launch"] or {}).get("gpus") or ())
    return [gpu for gpu in data["gpus"] if gpu["index"] in held]


def _memory(gpus: Sequence[Mapping[str, Any]]) -> str:
    """``571/640``: in use, and all; unknown is not zero."""
    if not gpus:
        return "-"
    sums = [[gpu[name] for gpu in gpus] for name in ("memory_used_mib", "memory_total_mib")]
    told = ["?" if None in values else f"{sum(values) / _MIB_PER_GIB:.0f}" for values in sums]
    return "/".join(told)


def _lines(host: str, data: dict[str, Any]) -> Iterator[Line]:
    """What is to be known besides, the bad first."""
    if data["gpu_state"] in ("unhealthy", "unknown"):
        yield f"{host}: GPUs {data['gpu_state']}: {data['gpu_why']}", "bold red"
    for server in data["servers"]:
        place = f"{host} {server['slot'] or server['engine']}"
        yield from ((f"{place}: {text}", style) for text, style in _about(server))
    for index, why in data["gpu_unknown"].items():
        yield f"{host}: GPU {index}: {why}", "yellow"
    for word in ("strays", "holders"):
        for process in data[word]:
            yield f"{host}: {word[:-1]} {process_line(process).strip()}", "yellow"
    if data["host"].get("simulated"):
        yield f"{host}: simulated: its GPUs are pretended", "dim"


def _about(server: dict[str, Any]) -> Iterator[Line]:
    style = "" if server["state"] in ("up", "busy", "starting") else "red"
    ended = _ended(server.get("exit"))
    told = "; ".join(text for text in (ended, server.get("why")) if text)
    if told:
        yield f"{server['state']}: {told}", style
    if server["desired"] and (server["launch"] or {}).get("profile") not in (None, server["desired"]):
        yield f"the profile that should run here is {server['desired']}", "yellow"
    if server["version"] == "outdated":
        yield from ((text, "yellow") for text in _outdated(server["changes"]))
    if server["version"] == "unknown":
        yield f"the project has no profile {server['launch']['profile']} for this host", "yellow"
    if server.get("proof"):
        yield from ((f"drift: {text}", "yellow") for text in differences(server["proof"]))
    if server["containment"] not in ("shim+cgroup", "shim", "family") and server["alive"]:
        yield f"its supervisor is gone; its processes are found by {server['containment']}", "dim"
    starts = server.get("starts") or {}
    if starts.get("launches", 0) > 1:
        yield _restarts(starts), "dim"
    load = server.get("load") or {}
    if server["alive"] and server["port"] and load.get("why"):
        yield f"load unknown: {load['why']}", "dim"


def _restarts(starts: Mapping[str, Any]) -> str:
    """How often it was started: since the host's boot, and over how many boots."""
    now = f"{starts['this_boot']} since the host's boot"
    boots = f", over {starts['boots']} boots" if starts["boots"] > 1 else ""
    return f"started {starts['launches']} times as far as is kept{boots}; {now}"


def _outdated(changes: Mapping[str, Sequence[str | None]]) -> Iterator[str]:
    if not changes:
        yield "outdated: the profile has changed since the launch, its variables have not"
    for name, (runs, says) in changes.items():
        yield f"outdated: {name} is {_value(runs)}; the profile says {_value(says)}"


def _value(value: str | None) -> str:
    return "unset" if value is None else repr(value)


def _ended(how: Any) -> str:
    """How it ended, as the shim saw it."""
    if isinstance(how, dict):
        return f"ended by signal {how['signal']}" if "signal" in how else f"ended with exit {how.get('code')}"
    return ""
