"""Processes and findings as the wire has them, without what looks like a secret."""

from __future__ import annotations

import pwd
import re
from typing import Any, Dict, List, Sequence

from ..processes.procs import Process
from ..variables import is_credential
from .scope import Finding

_SECRET_WORD = re.compile(
    r"\b(sk|hf|ghp|xox[a-z])[-_][A-Za-z0-9_-]{12,}"
    r"|(?<=://)[^/@:\s]{1,1024}:[^/@\s]{1,4096}(?=@)|(?<=[Bb]earer )\s*\S+"
)
# Only where a name begins: anybody's process may have a word of 128 KiB, and this must be linear in it.
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]+)=")
_FIELD = re.compile(r"""("([^"]+)"\s*:\s*)("(?:[^"\\]|\\.)*"|[^",}\]]+)""")
# A process that we cannot see: 0 is nobody's number.
_NOBODY: Dict[str, Any] = {
    **dict.fromkeys(("pid", "start", "ppid"), 0),
    **dict.fromkeys(("uid", "user", "state", "age_s")),
    **dict.fromkeys(("title", "cmdline"), ""),
}
_TITLE_CHARS = 300
_CMDLINE_CHARS = 4000


def process(finding: Finding) -> Dict[str, Any]:
    """A finding as the contract's *process*."""
    shown: Dict[str, Any] = {
        "gpus": list(finding.gpus),
        "ports": list(finding.ports),
        "gpu_mib": finding.gpu_mib,
    }
    shown["reason"] = finding.reason
    if finding.process is None:
        return {**_NOBODY, **shown}
    return {**plain(finding.process), **shown}


def plain(process: Process) -> Dict[str, Any]:
    """What /proc alone says of a process."""
    words = command(process.argv)
    return {
        "pid": process.pid,
        "start": process.start,
        "ppid": process.ppid,
        "uid": process.uid,
        "user": user(process.uid),
        "state": process.state,
        "age_s": round(process.age_s, 2),
        "title": (" ".join(words) or process.title)[:_TITLE_CHARS],
        "cmdline": " ".join(words)[:_CMDLINE_CHARS],
    }


def line(finding: Finding) -> str:
    """A finding as one line of evidence: pid, user, age, what it holds, and why it is told."""
    if finding.process is None:
        return f"port {finding.ports[0]}: {finding.reason}"
    one = plain(finding.process)
    holds = [f"GPU {index}" for index in finding.gpus] + [f"port {port}" for port in finding.ports]
    memory = f" ({finding.gpu_mib} MiB)" if finding.gpu_mib is not None else ""
    held = f" holds {', '.join(holds)}{memory}" if holds else ""
    who = f"process {one['pid']} of {one['user']}, {one['age_s']:.0f} s old ({one['title'][:80]})"
    return f"{who}{held}: {finding.reason}"


def command(argv: Sequence[str]) -> List[str]:
    """A command line as it is shown: with ``***`` in place of what looks like a key."""
    words: List[str] = []
    hiding = False
    for word in argv:
        hiding = hiding and not word.startswith("--")
        words.append("***" if hiding else _word(word))
        hiding = hiding or (word.startswith("-") and "=" not in word and is_credential(word))
    return words


def _word(word: str) -> str:
    """One word of a command line: ``--flag=value``, ``NAME=value``, JSON, or an address with a password."""
    for found in _ASSIGNED.finditer(word):
        if is_credential(found.group(1)):
            return word[: found.end()] + "***"
    word = _FIELD.sub(lambda m: m.group(1) + '"***"' if is_credential(m.group(2)) else m.group(0), word)
    return _SECRET_WORD.sub("***", word)


def user(uid: int) -> str:
    """Name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
