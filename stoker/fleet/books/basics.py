"""The modules that a runbook needs beside the verbs and the shell: assert, debug, set_fact, fail, pause, …

What they put into a registered variable, besides ``changed``, ``failed`` and ``msg``:

=================  ====================================================================================
assert             when it fails: ``assertion``, ``evaluated_to``
debug              the variable's expression and its value, or ``msg``
set_fact           ``ansible_facts``
=================  ====================================================================================
"""

from __future__ import annotations

import json
import time
from typing import Any

from stoker.errors import HostFailed
from stoker.fleet.books.arguments import Argument, Choice
from stoker.fleet.flags import Flag
from stoker.fleet.job import Book, Job, Outcome, Typed, Verb
from stoker.fleet.pool import LOOK_S

META = ("flush_handlers", "noop", "end_host", "end_play")


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
    if job.args["verbosity"]:  # nobody asks for more here than for all
        return Outcome("", {"skipped_reason": "Verbosity threshold not met."}, skipped=True)
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
    """Wait; once for all hosts, which wait for each other anyway.

    Raises:
        HostFailed: ``cancelled``.
    """
    seconds = (job.args["minutes"] or 0) * 60 + (job.args["seconds"] or 0)
    end = time.monotonic() + seconds
    while (left_s := end - time.monotonic()) > 0:
        if job.session.stop.wait(min(left_s, LOOK_S)):
            raise HostFailed("the pause was interrupted", host=job.host.name, kind="cancelled")
    return Outcome(f"waited {seconds:g} s", {"seconds": seconds})


def include(job: Job) -> Outcome:
    """The steps of the file follow; the run itself does them."""
    return Outcome(str(job.args["file"]), {"include": job.args["file"]})


def meta(job: Job) -> Outcome:
    """What the run itself does, where the conditions hold."""
    return Outcome(str(job.args["action"]))


def _shown(value: Any) -> str:
    """A value for people: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _lines(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((line, "") for line in text.splitlines() or [""])


_NONE = Typed("")
VERBS = (
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
            Flag("verbosity", "From which verbosity on; a run here has 0.", "whole", least=0),
        ),
        debug,
        book=Book("msg", pairs=("msg", "var", "verbosity"), fixed=True),
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
