"""Daily small verbs: ping, exec, the script that lies there, locks."""

from __future__ import annotations

import time
from typing import Any

from stoker.errors import HostFailed
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb

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
    done = job.session.bare(job.args["cmd"], job.args["timeout"])
    data = {"rc": done.rc, "stdout": done.stdout, "stderr": done.stderr}
    if done.rc != 0:
        raise HostFailed(
            f"the command ended with {done.rc}",
            host=job.host.name,
            kind="exit",
            evidence=(done.stderr or done.stdout).splitlines()[-5:],
            detail=data,
        )
    return Outcome("exit 0", data)


def script(job: Job) -> Outcome:
    """The launch scripts that lie on the host, by slot."""
    done = job.session.call("exec", {"shell": _READ_SCRIPTS, "timeout_s": 10})
    parts = done["stdout"].split("\0")[:-1]
    return Outcome(f"{len(parts) // 2} scripts", {"scripts": dict(zip(parts[::2], parts[1::2], strict=True))})


def unlock(job: Job) -> Outcome:
    """Who holds the locks; one without a living holder does not exist, so breaking it ends its holder."""
    params = {"check": job.check or not job.args["yes"]}
    data = job.session.call("unlock", params, timeout_s=30)
    return Outcome(_locks(data["locks"]), data)


def _locks(locks: list[dict[str, Any]]) -> str:
    held = [
        f"{lock['name']} by {lock['owner']} for {lock['age_s']:.0f} s" for lock in locks if lock.get("alive")
    ]
    return "no lock is held" if not held else "held: " + ", ".join(held)


PING = Verb("ping", (), ping)
EXEC = Verb("exec", (Flag("cmd", "The command."), Flag("timeout", "Seconds.", "number")), exec_)
SCRIPT = Verb("script", (), script)
UNLOCK = Verb("unlock", (Flag("yes", "Break it.", "flag"),), unlock, changes=False)
