"""The modules that a runbook needs beside the verbs: command, shell, assert, debug, set_fact, fail, pause.

What they put into a registered variable, besides ``changed``, ``failed`` and ``msg``:

=================  ====================================================================================
command, shell     ``cmd``, ``rc``, ``stdout``, ``stderr``, ``stdout_lines``, ``stderr_lines``, ``seconds``
assert             when it fails: ``assertion``, ``evaluated_to``
debug              the variable's expression and its value, or ``msg``
set_fact           ``ansible_facts``
=================  ====================================================================================
"""

from __future__ import annotations

import functools
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker.errors import HostFailed, InputError, nearest
from stoker.fleet import daily
from stoker.fleet.flags import Flag
from stoker.fleet.job import Book, Job, Outcome, Typed, Verb

_EVIDENCE_LINES = 10
META = ("flush_handlers", "noop", "end_host", "end_play")


@dataclass(frozen=True)
class Argument(Flag):
    """An argument that no command line has.

    Args:
        holds: ``value``: anything that YAML can say. ``expressions``: one or a list, written without braces;
            the module gets them as ``Evaluated``. ``words``: a command, split as a shell would.
    """

    holds: Literal["value", "expressions", "words"] = "value"

    def parse(self, value: Any, where: str = "") -> Any:
        """The value as it is; words are tried.

        Raises:
            InputError: Words with an open quote, or none at all.
        """
        if self.holds == "words" and value is not None:
            _split(str(value), where)
            return str(value)
        return value


@dataclass(frozen=True)
class Choice(Flag):
    """One of a few words.

    Args:
        words: Those.
    """

    words: tuple[str, ...] = ()

    def parse(self, value: Any, where: str = "") -> Any:
        """The word.

        Raises:
            InputError: Another one.
        """
        if value is not None and value not in self.words:
            raise InputError(
                f"{value!r} is not known", where=where, next_step=nearest(str(value), self.words)
            )
        return value


@dataclass(frozen=True)
class Evaluated:
    """An expression and what it gave.

    Args:
        expression: As written.
        value: Plain data; None where it could not be evaluated.
        error: Why it could not; empty where it could.
    """

    expression: str
    value: Any = None
    error: str = ""


def command(job: Job) -> Outcome:
    """Run a program with its arguments, without a shell."""
    argv = job.args["argv"] or _split(job.args["cmd"] or "", "cmd")
    return _ran(job, argv, {"argv": argv})


def shell(job: Job) -> Outcome:
    """Run a command line in /bin/sh."""
    return _ran(job, job.args["cmd"], {"shell": job.args["cmd"]})


def assert_(job: Job) -> Outcome:
    """Fail where one of the expressions is false."""
    for item in job.args["that"]:
        if item.error or not isinstance(item.value, bool):
            what = item.error or f"{item.expression} is neither true nor false, but {_shown(item.value)}"
            raise HostFailed(
                what, host=job.host.name, kind="assertion", detail={"assertion": item.expression}
            )
        if not item.value:
            told = {"assertion": item.expression, "evaluated_to": False}
            what = job.args["fail_msg"] or job.args["msg"]
            evidence = [f"false: {item.expression}"] if what else []
            what = str(what or f"assertion failed: {item.expression}")
            raise HostFailed(what, host=job.host.name, kind="assertion", detail=told, evidence=evidence)
    return Outcome(job.args["success_msg"] or "All assertions passed")


def debug(job: Job) -> Outcome:
    """Show a message or a variable."""
    if job.args["var"]:
        item = job.args["var"][0]
        value = item.value if not item.error else f"({item.error})"
        text = f"{item.expression}: {_shown(value)}"
        return Outcome("", {item.expression: value}, lines=_lines(text))
    message = "Hello world!" if job.args["msg"] is None else job.args["msg"]
    return Outcome("", {"msg": message}, lines=_lines(_shown(message)))


def set_fact(job: Job) -> Outcome:
    """Set variables of the host for the rest of the book."""
    return Outcome(", ".join(job.args), {"ansible_facts": dict(job.args)})


def fail(job: Job) -> Outcome:
    """Fail on purpose."""
    message = str(job.args["msg"] or "Failed as requested from task")
    raise HostFailed(message, host=job.host.name, kind="failed", next_step="")


def pause(job: Job) -> Outcome:
    """Wait; once for all hosts, which wait for each other anyway."""
    seconds = (job.args["minutes"] or 0) * 60 + (job.args["seconds"] or 0)
    time.sleep(seconds)
    return Outcome(f"waited {seconds:g} s", {"seconds": seconds})


def include(job: Job) -> Outcome:
    """The steps of the file follow; the run itself does them."""
    return Outcome(str(job.args["file"]), {"include": job.args["file"]})


def meta(job: Job) -> Outcome:
    """What the run itself does, where the conditions hold."""
    return Outcome(str(job.args["action"]))


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
    return _as_shell({**args, "cmd": shlex.join(args["argv"] or _split(args["cmd"] or "", "cmd"))})


@functools.lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    """A command's words: every host of a task asks for those of the same command, more than once."""
    return tuple(shlex.split(text))


def _split(text: str, where: str) -> list[str]:
    """A command in words.

    Raises:
        InputError: An open quote, or no word.
    """
    try:
        words = list(_words(text))
    except ValueError as error:
        raise InputError(f"{text!r} has an open quote or escape", where=where) from error
    if not words:
        raise InputError("there is no command", where=where)
    return words


def _first_line(lines: Sequence[str]) -> str:
    """A command's output in one line."""
    if not lines:
        return "done"
    return lines[0] if len(lines) == 1 else f"{lines[0]}  (+{len(lines) - 1} lines)"


def _shown(value: Any) -> str:
    """A value for people: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((line, "") for line in text.splitlines() or [""])


_RUN = (
    Flag("chdir", "Folder to run in."),
    Flag("stdin", "Text for its standard input."),
    Flag("timeout", "Seconds.", "number"),
)
_RUN_LATER = ("creates", "executable", "removes", "stdin_add_newline", "strip_empty_ends")
_RUN_PAIRS = ("chdir", "stdin", *_RUN_LATER)
# What a command registers under ``--check``, as Ansible's does.
_UNRUN = {"rc": 0, "stdout": "", "stderr": "", "stdout_lines": [], "stderr_lines": []}
_NONE = Typed("")
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
    Verb(
        "assert",
        (
            Argument("that", "What must hold.", holds="expressions"),
            Flag("fail_msg", "What to say where it does not."),
            Flag("msg", "The same."),
            Flag("success_msg", "What to say where it does."),
            Flag("quiet", "Say only what is false.", "flag"),
        ),
        assert_,
        book=Book(needs=(("that",),), fixed=True),
        by_hand=_NONE,
    ),
    Verb(
        "debug",
        (
            Argument("msg", "What to show."),
            Argument("var", "A variable to show.", holds="expressions"),
        ),
        debug,
        book=Book("msg", pairs=("msg", "var", "verbosity"), later=("verbosity",), fixed=True),
        by_hand=_NONE,
    ),
    Verb("set_fact", (), set_fact, book=Book(later=("cacheable",), any_name=True, fixed=True), by_hand=_NONE),
    Verb("fail", (Flag("msg", "What to say."),), fail, book=Book(fixed=True), by_hand=_NONE),
    Verb(
        "pause",
        (Flag("seconds", "Seconds.", "number"), Flag("minutes", "Minutes.", "number")),
        pause,
        book=Book(later=("echo", "prompt"), once=True, fixed=True),
        by_hand=_NONE,
    ),
    Verb(
        "include_tasks",
        (Flag("file", "A file of tasks, relative to this one."),),
        include,
        book=Book("file", (("file",),), later=("apply",), fixed=True),
        by_hand=_NONE,
    ),
    Verb(
        "import_tasks",
        (Flag("file", "A file of tasks, relative to this one."),),
        include,
        book=Book("file", (("file",),), fixed=True),
        by_hand=_NONE,
    ),
    Verb(
        "meta",
        (Choice("action", "What the run itself does.", words=META),),
        meta,
        book=Book("action", (("action",),), fixed=True),
        by_hand=_NONE,
    ),
)
