"""The command ``lint``: every mistake of a project, with no host touched."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, EXIT_INPUT, InputError, nearest
from stoker.fleet.flags import Flag
from stoker.tasks.command import FORKS, HOST, INVENTORY, JSON, command

if TYPE_CHECKING:
    from stoker.config.linting.lint import Finding
    from stoker.fleet.linting.lint import Report, Scope
    from stoker.fleet.linting.lint_files import PaperProject
    from stoker.tasks.run import Run

_FORMATS = ("text", "sarif", "github")
_STYLES = {"error": "bold red", "warning": "bold yellow", "advice": "cyan"}
_FEW = 3  # names that are written out
_INDENT = "    "


@command(
    HOST,
    INVENTORY,
    FORKS,
    JSON,
    Flag("profile", "Only these profiles: for --host, else for the hosts that they are meant for.", "list"),
    Flag("online", "Hold arguments against the help of the hosts' own engines.", "flag"),
    Flag("format", "How findings are told: text, sarif or github."),
    forgiving=True,
)
def lint(run: Run) -> int:
    """Every mistake in settings, inventory, profiles, templates, playbooks, baselines: file:line:column.

    Nothing is changed, and without --online no host is asked. It ends with 2 where there is an error.
    """
    from stoker.fleet.linting import lint as linter
    from stoker.fleet.linting.lint_files import PaperProject

    form = _form(run)
    project = PaperProject(run.settings, {}, inventory=run.args["inventory"] or "")
    scope = linter.Scope(tuple(run.args["profile"]), tuple(run.args["host"]))
    notes: list[str] = []
    if run.args["online"]:
        scope, notes = _online(run, project, scope)
    report = linter.lint(project, scope)
    _tell(run, report, form, notes)
    return EXIT_INPUT if any(one.severity == "error" for one in report.findings) else EXIT_DONE


def _form(run: Run) -> str:
    """How it is told.

    Raises:
        InputError: No such format, or two at once.
    """
    form = run.args["format"] or "text"
    if form not in _FORMATS:
        raise InputError(f"{form!r} is no format", where="--format", next_step=nearest(form, _FORMATS))
    if run.screen.json and form != "text":
        raise InputError("--json is a format of its own", where="--format", next_step="leave one of them out")
    return str(form)


def _online(run: Run, project: PaperProject, scope: Scope) -> tuple[Scope, list[str]]:
    """The scope with what the hosts' engines told, and a note for each that told nothing."""
    from dataclasses import replace

    from stoker.fleet.linting import lint as linter
    from stoker.fleet.linting import lint_online
    from stoker.fleet.pool import fan_out
    from stoker.fleet.session import Session

    survey = lint_online.Survey(project, linter.engines_of(project, scope))

    def work(name: str) -> None:
        session = Session(survey.hosts[name], run.connect, nobody, run.bare, run.stop)
        try:
            survey.ask(session)
        finally:
            session.close()

    run.unlock_keys(list(survey.hosts.values()))
    forks = run.args["forks"] or run.settings.forks
    results = fan_out(list(survey.hosts), work, forks=forks, stop=run.stop)
    return replace(scope, ask=survey.known), survey.notes(results)


def nobody(host: str, event: dict[str, Any]) -> None:
    """Asking for a help has no progress to show."""


def _tell(run: Run, report: Report, form: str, notes: Sequence[str]) -> None:
    """Show the findings, and keep them in the document."""
    from stoker.tasks import lintforms

    if form == "sarif":
        json.dump(lintforms.sarif(report.findings), sys.stdout, indent=2)
        sys.stdout.write("\n")
    elif form == "github":
        sys.stdout.writelines(f"{line}\n" for line in lintforms.github(report.findings))
    else:
        _show(run, report, notes)
    run.document["findings"] = [lintforms.as_json(one) for one in report.findings]
    run.document["counts"] = _counts(report)
    run.document["checked"] = report.checked
    run.document["notes"] = list(notes)


def _show(run: Run, report: Report, notes: Sequence[str]) -> None:
    """Text, file by file, as a compiler has it."""
    file, told = None, set[str]()
    for one in report.findings:
        if file not in (None, one.file):
            run.screen.say("")
        file = one.file
        _head(run, one)
        reason = f"{one.reason.removesuffix('.')} ({one.source})" if one.source else one.reason
        about = [(_about(one), "dim"), ("" if reason in told else reason, "dim")]
        told.add(reason)  # the same reason again would only hide what is new
        for text, style in (*about, (f"→ {one.mend}" if one.mend else "", "cyan")):
            for line in _wrapped(run, f"{_INDENT}{text}") if text else ():
                run.screen.say((line, style))
    for note in notes:
        run.screen.say(("note: ", "cyan"), note)
    if report.findings:
        run.screen.say("")
    run.screen.say((_summary(report), "bold"))


def _head(run: Run, one: Finding) -> None:
    """Where it is, how grave, what it is."""
    place, said, code = f"{one.place}: ", f"{one.severity}: ", f"[{one.code}]"
    first, *others = _wrapped(run, f"{place}{said}{one.what}  {code}")
    if not first.startswith(place + said):  # a place that is wider than the terminal
        first, others = f"{place}{said}{one.what}  {code}", []
    lines = [first.removeprefix(place + said), *others]
    styled = [(("", line) if code not in line else (line.removesuffix(code), code)) for line in lines]
    for index, (text, rest) in enumerate(styled):
        begin = [(place, "bold"), (said, _STYLES[one.severity])] if index == 0 else []
        shown = (text, (rest, "dim")) if rest == code else (rest,)
        run.screen.say(*begin, *shown)


def _about(one: Finding) -> str:
    """In which profiles and on which hosts it is, where its file does not say that already."""
    about = []
    own_file = len(one.profiles) == 1 and one.file.rpartition("/")[2].partition(".")[0] == one.profiles[0]
    if one.profiles and not own_file:
        about.append(f"in {_some(one.profiles, 'profiles')}")
    if one.hosts:
        about.append(f"on {_some(one.hosts, 'hosts')}")
    return " ".join(about)


def _some(names: Sequence[str], word: str) -> str:
    return ", ".join(names) if len(names) <= _FEW else f"{len(names)} {word}"


def _wrapped(run: Run, text: str) -> list[str]:
    """As one line; on a terminal broken where that ends, and indented from the second line on."""
    if not run.screen.console.is_interactive:
        return [text]
    width = max(40, run.screen.width - 1)
    return textwrap.wrap(text, width, subsequent_indent=_INDENT, break_on_hyphens=False)


def _counts(report: Report) -> dict[str, int]:
    """How many findings of each severity."""
    said = [one.severity for one in report.findings]
    return {"errors": said.count("error"), "warnings": said.count("warning"), "advices": said.count("advice")}


def _summary(report: Report) -> str:
    found = ", ".join(_count(number, word) for word, number in _counts(report).items())
    looked = ", ".join(_count(number, word) for word, number in report.checked.items())
    return f"{found} in {looked}"


def _count(number: int, words: str) -> str:
    return f"{number or 'no'} {words if number != 1 else words.removesuffix('s')}"


COMMANDS = (lint,)
