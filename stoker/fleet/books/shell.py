"""The modules command and shell: a program on the host, as a runbook's task.

What they put into a registered variable, besides ``changed``, ``failed`` and ``msg``: ``cmd``, ``rc``,
``stdout``, ``stderr``, ``stdout_lines``, ``stderr_lines`` and ``seconds``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.config.secrecy.mask import Mask
from stoker.errors import HostFailed
from stoker.fleet import daily
from stoker.fleet.books import vaulted
from stoker.fleet.books.arguments import Argument, Place, split
from stoker.fleet.flags import Flag
from stoker.fleet.job import Book, Job, Outcome, Typed, Verb

_EVIDENCE_LINES = 10


def command(job: Job) -> Outcome:
    """Run a program with its arguments, without a shell."""
    argv = job.args["argv"] or split(job.args["cmd"] or "", "cmd")
    return _unneeded(job, argv) or _ran(job, argv, {"argv": argv})


def shell(job: Job) -> Outcome:
    """Run a command line in /bin/sh, or in the shell that is named."""
    cmd, program = job.args["cmd"], job.args["executable"]
    what: dict[str, Any] = {"argv": [program, "-c", cmd]} if program else {"shell": cmd}
    return _unneeded(job, cmd) or _ran(job, cmd, what)


def _unneeded(job: Job, cmd: str | Sequence[str]) -> Outcome | None:
    """What comes of it without being run: by ``creates``, ``removes`` and ``--check``; None: run it."""
    for name, unless in (("creates", True), ("removes", False)):
        pattern = job.args[name]
        if pattern is not None and _is_there(job, pattern) is unless:
            state = "exists" if unless else "does not exist"
            why = f"{'Would' if job.check else 'Did'} not run command since '{pattern}' {state}"
            skipped = f"skipped, since {pattern} {state}"
            data = {**UNRUN, "cmd": cmd, "stdout": skipped, "stdout_lines": [skipped], "msg": why}
            return Outcome(skipped, data)
    if not job.check:
        return None
    data = {**UNRUN, "cmd": cmd, "msg": "Command would have run if not in check mode"}
    if job.args["creates"] is None and job.args["removes"] is None:
        return Outcome("not done under --check", data, skipped=True)
    return Outcome("would run", data, changed=True)


def _is_there(job: Job, pattern: str) -> bool:
    """Whether anything on the host has such a path; relative ones begin where the command runs.

    Raises:
        HostFailed: The host did not say.
    """
    look = {"argv": ["/bin/sh", "-c", _LOOK, "sh", pattern]}
    done = _exec(job, look)
    if done["stdout"] not in ("there\n", "gone\n"):
        evidence = done["stderr"].splitlines()[-_EVIDENCE_LINES:]
        what = f"cannot look for {pattern}: exit code {done['rc']}"
        raise HostFailed(what, host=job.host.name, kind="exit", evidence=evidence, detail={"rc": done["rc"]})
    return bool(done["stdout"] == "there\n")


def _ran(job: Job, cmd: str | Sequence[str], what: dict[str, Any]) -> Outcome:
    """Run something on the host.

    Raises:
        HostFailed: It ended with another code than 0, or did not end in time.
    """
    stdin = job.args["stdin"]
    ending = "" if job.args["stdin_add_newline"] is False else "\n"
    done = _exec(job, what, None if stdin is None else stdin + ending)
    data = {"cmd": cmd, "rc": done["rc"], "seconds": done["seconds"], "truncated": done["truncated"]}
    for stream in ("stdout", "stderr"):
        text = done[stream]
        text = text if job.args["strip_empty_ends"] is False else text.rstrip("\r\n")
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


def _exec(job: Job, what: dict[str, Any], stdin: str | None = None) -> dict[str, Any]:
    """Run it where, as whom and with what environment the task says."""
    params = {
        **_as_user(what, job),
        "timeout_s": job.args["timeout"],
        "stdin": stdin,
        "cwd": job.args["chdir"],
        "env": dict(job.env) or None,
    }
    given = {name: value for name, value in params.items() if value is not None}
    done: dict[str, Any] = Mask(job.secrets).tree(job.session.call("exec", given))
    return done


# A pattern's matches, dangling links among them; nothing but the signs of a pattern is read by the shell.
_LOOK = """IFS=; pattern=$1
case $pattern in "~") pattern=$HOME;; "~/"*) pattern=$HOME/${pattern#"~/"};; esac
for one in $pattern; do if [ -e "$one" ] || [ -L "$one" ]; then echo there; exit; fi; done; echo gone
"""
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
    if args.get("executable"):
        text = f"{shlex.quote(args['executable'])} -c {shlex.quote(text)}"
    for name, sign in (("removes", ""), ("creates", "! ")):
        if args.get(name):
            text = f"if {sign}ls -d -- {_pattern(args[name])} >/dev/null 2>&1; then {text}; fi"
    if args.get("env"):
        shown = vaulted.masked(args["env"])
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in shown.items())
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


def _pattern(text: str) -> str:
    """A pattern for a shell, in which only the signs of one mean something."""
    begin = "~/" if text.startswith("~/") else ""
    signs = (
        sign if sign.isalnum() or sign in "*?[]-_./" else shlex.quote(sign) for sign in text[len(begin) :]
    )
    return begin + "".join(signs)


def _first_line(lines: Sequence[str]) -> str:
    """A command's output in one line."""
    if not lines:
        return "done"
    return lines[0] if len(lines) == 1 else f"{lines[0]}  (+{len(lines) - 1} lines)"


_RUN = (
    Flag("chdir", "Folder to run in."),
    Place("creates", "A path or pattern: where it is there, nothing is run."),
    Place("removes", "A path or pattern: where it is not there, nothing is run."),
    Argument("stdin", "Text for its standard input.", holds="sealed"),
    Argument("stdin_add_newline", "Whether a line break is added to it (true).", holds="switch"),
    Argument(
        "strip_empty_ends", "Whether line breaks at the end of its output are dropped (true).", holds="switch"
    ),
    Flag("timeout", "Seconds.", "number"),
)
_RUN_PAIRS = ("chdir", "creates", "executable", "removes", "stdin", "stdin_add_newline", "strip_empty_ends")
# What a command registers that was not run, as Ansible's does.
UNRUN = {"rc": 0, "stdout": "", "stderr": "", "stdout_lines": [], "stderr_lines": []}
VERBS = (
    Verb(
        "command",
        (
            Argument("cmd", "The program and its arguments.", holds="words"),
            Flag("argv", "The same as a list.", "list"),
            *_RUN,
        ),
        command,
        book=Book(
            "cmd", (("cmd", "argv"),), _RUN_PAIRS, ("executable", "expand_argument_vars"), elsewhere=True
        ),
        by_hand=Typed("exec", daily.EXEC.flags, _as_command),
    ),
    Verb(
        "shell",
        (Flag("cmd", "The command line."), *_RUN, Flag("executable", "The shell (/bin/sh), a whole path.")),
        shell,
        book=Book("cmd", (("cmd",),), _RUN_PAIRS, elsewhere=True),
        by_hand=Typed("exec", daily.EXEC.flags, _as_shell),
    ),
)
