"""What differs between the hosts of two runs: restarts, profiles, versions, neighbours, limits, files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stoker.results.explaining.causes import (
    CONF_FILES,
    CONTEXT,
    LIKELY,
    LIMITS,
    NEIGHBOURS,
    POSSIBLE,
    PROFILE,
    RESTART,
    UNLIKELY,
    VERSIONS,
    Cause,
    Findings,
    Side,
    Unknown,
    count,
    why_unread,
)

# In the order in which a change is most often felt.
_VERSIONS = ("engine", "nccl", "torch", "cuda", "driver", "kernel", "python")
_BUSY = 0.5  # of the CPUs


def restarts(new: Side, base: Side) -> Findings:
    """Whether the host or its container was restarted in between."""
    was, now = base.fingerprint.host, new.fingerprint.host
    missing = [s for s in (base, new) if not s.fingerprint.host.get("boot_id")]
    if missing:
        return Findings(unknown=(Unknown("restart of the host", why_unread(missing[0], "boot")),))
    same_boot = was["boot_id"] == now["boot_id"]
    known = [n for n in ("init_start", "pid_ns") if was.get(n) and now.get(n)]
    changed = [name for name in known if was[name] != now[name]]
    if same_boot and not changed:
        return Findings(equal=("no restart of the host in between",))
    lost = sorted({*base.fingerprint.env} - {*new.fingerprint.env})
    reason = "what was set by hand in a shell does not outlive it"
    if lost and new.fingerprint.env_source != "unreadable":
        reason += f": that is how {count(len(lost), 'variable')} can have got lost"
    what = "the host was restarted in between" if not same_boot else "the container was restarted in between"
    detail = f"boot {_short(was['boot_id'])} → {_short(now['boot_id'])}"
    if same_boot:
        detail = "; ".join(f"{_NAMES[name]} {was[name]} → {now[name]}" for name in changed)
    return Findings(
        (Cause(RESTART, what, detail, CONTEXT, reason, name="boot_id" if not same_boot else changed[0]),)
    )


_NAMES = {"init_start": "start of PID 1", "pid_ns": "pid namespace"}


def _short(boot_id: object) -> str:
    text = str(boot_id)
    return text[:8] + "…" if len(text) > 12 else text


def profiles(new: Side, base: Side) -> Findings:
    """Whether the server was started from another profile, or from the same one edited."""
    was, now = base.profile or "started by hand", new.profile or "started by hand"
    if was != now:
        cause = Cause(
            PROFILE, "another profile", f"{was} → {now}", CONTEXT, "what it changes is listed by itself"
        )
        return Findings((cause,))
    if base.profile_hash != new.profile_hash:
        detail = f"{base.profile_hash} → {new.profile_hash}"
        reason = "what the edit changes is listed by itself"
        return Findings((Cause(PROFILE, f"profile {now} was edited", detail, CONTEXT, reason),))
    return Findings(equal=(f"profile {now}",) if base.profile else ())


def versions(new: Side, base: Side) -> Findings:
    """Compare the versions of everything that computes."""
    was, now = base.fingerprint.versions, new.fingerprint.versions
    causes, equal, unknown = [], [], []
    for weight, name in enumerate(dict.fromkeys((*_VERSIONS, *sorted({*was, *now})))):
        if name in was and name in now:
            if was[name] == now[name]:
                equal.append(f"{name} {now[name]}")
                continue
            confidence = UNLIKELY if name == "python" else POSSIBLE
            reason = "another version can be slower or read its settings otherwise"
            detail = f"{was[name]} → {now[name]}"
            causes.append(Cause(VERSIONS, f"another {name}", detail, confidence, reason, weight, name))
        elif name in was or name in now:
            side = base if name not in was else new
            unknown.append(Unknown(f"version of {name}", why_unread(side, name)))
    return Findings(tuple(causes), tuple(equal), tuple(unknown))


def neighbours(new: Side, base: Side) -> Findings:
    """Other processes on the GPUs, and how busy the host was."""
    was, now = base.fingerprint.strangers, new.fingerprint.strangers
    causes = [
        Cause(
            NEIGHBOURS,
            _stranger(process),
            "was not there → shares the GPU",
            LIKELY,
            "it takes its part of the GPU",
        )
        for process in now
        if _who(process) not in {_who(p) for p in was}
    ]
    equal = () if now or not new.fingerprint.gpus else ("no other process on the GPUs",)
    return Findings((*causes, *_load(new, base)), equal)


def _who(process: dict[str, Any]) -> tuple[object, object]:
    return process.get("title"), process.get("user")


def _stranger(process: dict[str, Any]) -> str:
    held = ",".join(str(index) for index in process.get("gpus") or ())
    title = str(process.get("title") or process.get("cmdline") or "a process of another container")[:60]
    return f"{title} (pid {process.get('pid')}) is on GPU {held or '?'}"


def _load(new: Side, base: Side) -> Iterator[Cause]:
    was, now, cpus = base.fingerprint.host.get("load1"), new.fingerprint.host.get("load1"), _cpus(new)
    if was is None or now is None or not cpus:
        return
    if now - was > _BUSY * cpus and now > _BUSY * cpus:
        detail = f"load {was:.1f} → {now:.1f} on {cpus} CPUs"
        yield Cause(
            NEIGHBOURS, "the host was busier", detail, POSSIBLE, "the engine may have waited for a CPU", 1
        )


def _cpus(side: Side) -> int:
    value = side.fingerprint.host.get("cpus")
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def limits(new: Side, base: Side) -> Findings:
    """What the kernel lets the workers have."""
    was, now = base.fingerprint.process, new.fingerprint.process
    causes, equal = [], []
    for name, text in _LIMITS.items():
        if was.get(name) is None or now.get(name) is None:
            continue
        if was[name] == now[name]:
            equal.append(f"{text} {now[name]}")
            continue
        reason = "the workers get other shares of the machine"
        detail = f"{was[name]} → {now[name]}"
        confidence = POSSIBLE if name == "memlock" else LIKELY
        causes.append(Cause(LIMITS, f"another limit: {text}", detail, confidence, reason, name=name))
    return Findings(tuple(causes), tuple(equal))


_LIMITS = {"cpus_allowed": "CPUs", "cpu_max": "CPU quota", "nice": "niceness", "memlock": "locked memory"}


def conf_files(new: Side, base: Side) -> Findings:
    """The files that tune NCCL without a variable."""
    was, now = base.fingerprint.conf_files, new.fingerprint.conf_files
    causes, equal = [], []
    for path in sorted({*was, *now}):
        unread = [s for s in (base, new) if any(path in line for line in s.fingerprint.unread)]
        if was.get(path) == now.get(path):
            equal.append(path)
        elif unread:
            return Findings(unknown=(Unknown(path, why_unread(unread[0], path)),))
        else:
            kind = "is new" if path not in was else "is gone" if path not in now else "has another content"
            detail = f"{was.get(path, 'none')[:12]} → {now.get(path, 'none')[:12]}"
            causes.append(
                Cause(CONF_FILES, f"{path} {kind}", detail, LIKELY, "NCCL reads it at each start", name=path)
            )
    if not (was or now) and not any(re.search(r"nccl\S*\.conf", line) for line in new.fingerprint.unread):
        equal.append("no NCCL configuration file")
    return Findings(tuple(causes), tuple(equal))
