"""The modules command and shell: a program on the host, as a runbook's task.

What they put into a registered variable, besides ``changed``, ``failed`` and ``msg``: ``cmd``, ``rc``,
``stdout``, ``stderr``, ``stdout_lines``, ``stderr_lines`` and ``seconds``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.errors import HostFailed
from stoker.fleet import daily
from stoker.fleet.arguments import Argument, split
from stoker.fleet.flags import Flag
from stoker.fleet.job import Book, Job, Outcome, Typed, Verb

_EVIDENCE_LINES = 10


def command(job: Job) -> Outcome:
    """Run a program with its arguments, without a shell."""
    argv = job.args["argv"] or split(job.args["cmd"] or "", "cmd")
    return _ran(job, argv, {"argv": argv})


def shell(job: Job) -> Outcome:
    """Run a command line in /bin/sh."""
    return _ran(job, job.args["cmd"], {"shell": job.args["cmd"]})


def _ran(job: Job, cmd: str | Sequence[str], what: dict[str, Any]) -> Outcome:
    """Run something on the host.

    Raises:
        HostFailed: It ended with another code than 0, or did not end in time.
    """
    stdin = job.args["stdin"]
    params = {
        **_as_user(what, job),
        "timeout_s": job.args["timeout"],
        "stdin": None if stdin is None else stdin + "\n",
        "cwd": job.args["chdir"],
        "env": dict(job.env) or None,
    }
    done = job.session.call("exec", {name: value for name, value in params.items() if value is not None})
    data = {"cmd": cmd, "rc": done["rc"], "seconds": done["seconds"], "truncated": done["truncated"]}
    for stream in ("stdout", "stderr"):
        text = done[stream].rstrip("\r\n")
        data |= {stream: text, f"{stream}_lines": text.splitlines()}
    if done["timed_out"] or done["rc"] != 0:
        kind = "timeout" if done["timed_out"] else "exit"
        message = (
            f"not done after {job.args['timeout']:g} s" if done["timed_out"] else f"exit code {done['rc']}"
        )
        evidence = (data["stderr_lines"] or data["stdout_lines"])[-_EVIDENCE_LINES:]
        detail = {**data, "changed": not done["timed_out"]}
        raise HostFailed(message, host=job.host.name, kind=kind, evidence=evidence, detail=detail)
    return Outcome(_first_line(data["stdout_lines"]), {**data, "msg": ""}, changed=True)


# As the user already: sudo may not even be there. The words are the command's own, never read by the shell.
_SUDO = """user=$1 keep=$2; shift 2
if [ "$(id -un)" = "$user" ]; then exec "$@"; fi
exec sudo -n -H ${keep:+"--preserve-env=$keep"} -u "$user" -- "$@"
"""


def _as_user(what: dict[str, Any], job: Job) -> dict[str, Any]:
    """What is to run, as another user through sudo, which must ask for nothing."""
    if not job.user:
        return what
    words = what["argv"] if "argv" in what else ["/bin/sh", "-c", what["shell"]]
    return {"argv": ["/bin/sh", "-c", _SUDO, "sh", job.user, ",".join(job.env), *words]}


def _as_shell(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the ``inv exec`` that does the same as shell; ``stdin`` has no place in it."""
    text = args["cmd"]
    if args.get("env"):
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in args["env"].items())
        text = f"export {given}; {text}"
    if args.get("user"):
        text = f"sudo -n -H -u {shlex.quote(args['user'])} -- /bin/sh -c {shlex.quote(text)}"
    if args["chdir"]:
        text = f"cd {shlex.quote(args['chdir'])} && {text}"
    return {"cmd": text, "timeout": args["timeout"]}


def _as_command(args: Mapping[str, Any]) -> dict[str, Any]:
    """The same for command.

    Raises:
        InputError: A command that cannot be split into words.
    """
    return _as_shell({**args, "cmd": shlex.join(args["argv"] or split(args["cmd"] or "", "cmd"))})


def _first_line(lines: Sequence[str]) -> str:
    """A command's output in one line."""
    if not lines:
        return "done"
    return lines[0] if len(lines) == 1 else f"{lines[0]}  (+{len(lines) - 1} lines)"


_RUN = (
    Flag("chdir", "Folder to run in."),
    Flag("stdin", "Text for its standard input."),
    Flag("timeout", "Seconds.", "number"),
)
_RUN_LATER = ("creates", "executable", "removes", "stdin_add_newline", "strip_empty_ends")
_RUN_PAIRS = ("chdir", "stdin", *_RUN_LATER)
# What a command registers under ``--check``, as Ansible's does.
_UNRUN = {"rc": 0, "stdout": "", "stderr": "", "stdout_lines": [], "stderr_lines": []}
VERBS = (
    Verb(
        "command",
        (
            Argument("cmd", "The program and its arguments.", holds="words"),
            Flag("argv", "The same as a list.", "list"),
            *_RUN,
        ),
        command,
        in_check="skipped",
        book=Book(
            "cmd",
            (("cmd", "argv"),),
            _RUN_PAIRS,
            (*_RUN_LATER, "expand_argument_vars"),
            elsewhere=True,
            unrun=_UNRUN,
        ),
        by_hand=Typed("exec", daily.EXEC.flags, _as_command),
    ),
    Verb(
        "shell",
        (Flag("cmd", "The command line."), *_RUN),
        shell,
        in_check="skipped",
        book=Book("cmd", (("cmd",),), _RUN_PAIRS, _RUN_LATER, elsewhere=True, unrun=_UNRUN),
        by_hand=Typed("exec", daily.EXEC.flags, _as_shell),
    ),
)
