"""Daily small verbs: ping, exec, the script that lies there, locks."""

from __future__ import annotations

import time
from typing import Any

from stoker.errors import HostFailed
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.shown import counts

# The prefix names what to read; nothing of a user or a host is in this text.
_READ_SCRIPTS = (
    "cd ~/.stoker/slots 2>/dev/null || exit 0; "
    'for d in *; do printf "%s\\0" "$d"; cat "$d/launch.sh"; printf "\\0"; done'
)


def ping(job: Job) -> Outcome:
    """Reach, login, Python, latency of a call."""
    hello = dict(job.session.agent.hello)
    begin = time.perf_counter()
    job.session.call("exec", {"argv": ["true"], "timeout_s": 10})
    ms = (time.perf_counter() - begin) * 1000
    hello["latency_ms"] = round(ms, 2)
    return Outcome(f"Python {hello['python']} as {hello['user']}, a call takes {ms:.1f} ms", hello)


def exec_(job: Job) -> Outcome:
    """One shell command over a bare channel, without the agent.

    Raises:
        HostFailed: It ended with another code than 0.
    """
    done = job.session.bare(job.args["cmd"], job.args["timeout"], quiet=bool(job.args.get("fold")))
    data = {"rc": done.rc, "stdout": done.stdout, "stderr": done.stderr}
    if done.rc != 0:
        raise HostFailed(
            f"the command ended with {done.rc}",
            host=job.host.name,
            kind="exit",
            evidence=(done.stderr or done.stdout).splitlines()[-5:],
            next_step="correct the command; the whole of its output is in --json",
            detail=data,
        )
    return Outcome("exit 0", data)


def script(job: Job) -> Outcome:
    """The launch scripts that lie on the host, by slot."""
    done = job.session.call("exec", {"shell": _READ_SCRIPTS, "timeout_s": 10})
    parts = done["stdout"].split("\0")[:-1]
    return Outcome(
        counts(len(parts) // 2, "script", "scripts"),
        {"scripts": dict(zip(parts[::2], parts[1::2], strict=True))},
    )


def locks(job: Job) -> Outcome:
    """Who holds the locks; nothing is touched."""
    data = job.session.call("unlock", {"check": True}, timeout_s=30)
    return Outcome("; ".join(map(_lock, data["locks"])) or "no lock is held", data)


def unlock(job: Job) -> Outcome:
    """Take away the locks that dead holders left.

    Raises:
        HostFailed: ``lock-held``: a living holder is left; it is named.
    """
    data = job.session.call("unlock", {"check": False}, timeout_s=30)
    freed = [lock["name"] for lock in data["locks"]]
    what = "taken away: " + ", ".join(freed) if freed else "no lock is held"
    return Outcome(what, data, changed=bool(freed))


def _lock(lock: dict[str, Any]) -> str:
    """A lock in a few words."""
    word = "held" if lock.get("alive") else "left behind"
    age = lock.get("age_s")
    since = "an unknown time" if age is None else f"{age:.0f} s"
    return f"{lock['name']}: {word} by {lock.get('owner') or 'an unknown owner'} for {since}"


PING = Verb("ping", (), ping)
EXEC = Verb(
    "exec",
    (
        Flag("cmd", "The command, as typed in the host's login shell."),
        Flag("timeout", "Seconds.", "number"),
    ),
    exec_,
)
SCRIPT = Verb("script", (), script)
LOCKS = Verb("locks", (), locks)
UNLOCK = Verb("unlock", (), unlock, changes=True)
