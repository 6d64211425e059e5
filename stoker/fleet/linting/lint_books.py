"""What is wrong in playbooks and baselines, as far as it can be known without a host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stoker import engines
from stoker.config.books import playbook
from stoker.config.files import yamlfile
from stoker.config.linting.lint import Finding, finding
from stoker.config.templating.template import BadTemplate
from stoker.errors import ConfigError, InputError, Problem, nearest
from stoker.fleet.books.rehearse import rehearse
from stoker.fleet.books.scope import HostVars, own
from stoker.fleet.books.stages import Options, Stage, stages
from stoker.fleet.books.verbs import modules
from stoker.fleet.linting.lint_files import told_at
from stoker.results.baselines import accepted
from stoker.results.baselines.accepted import Baseline, Key

if TYPE_CHECKING:
    from stoker.config.books.playbooktree import Playbook
    from stoker.config.files.yamlfile import Document
    from stoker.fleet.project import Project


def playbooks(project: Project) -> tuple[int, list[Finding]]:
    """How many playbooks there are, and every mistake in them and in what they would start."""
    files = _files(project.settings.path("playbooks"))
    found = []
    for file in files:
        shown = project.shown(file)
        for problem in _of_playbook(project, file, shown):
            code = "profile-invalid" if problem.file.startswith(_profiles(project)) else "playbook-invalid"
            found.append(finding(problem, code))
    return len(files), found


def _profiles(project: Project) -> str:
    return project.shown(project.settings.path("profiles")) + "/"


def _of_playbook(project: Project, file: Path, shown: str) -> Iterator[Problem]:
    try:
        book = playbook.load(file, modules(), shown=shown, open_vault=project.open_vault)
    except ConfigError as error:
        yield from error.problems
        return
    chosen: list[Stage] = []
    for play in book.plays:
        try:
            chosen += stages(replace(book, plays=(play,)), project, Options())
        except InputError as error:
            yield from _told(error, play.place, project)
    try:
        _rehearse(project, book, chosen)
    except InputError as error:
        yield from _told(error, shown, project)


def _told(error: InputError, place: str, project: Project) -> Iterator[Problem]:
    """The mistakes that an error tells; none where it only waits for what a command line would say."""
    if isinstance(error, ConfigError):
        yield from error.problems
    elif isinstance(error, BadTemplate) and error.name:
        return  # it waits for an --extra-var
    elif project.inventory.hosts:  # else no pattern can be right
        yield told_at(error.where or place, error.what, error.next_step)


def _rehearse(project: Project, book: Playbook, chosen: Sequence[Stage]) -> None:
    """What ``inv play`` finds in a book before its first connection.

    Raises:
        InputError: It found something.
    """
    options = Options(check=True)
    everybody = HostVars(project.inventory.hosts, {})
    values = own(check=True, diff=False, hosts=(), active=(), folder=str(book.path.parent), others=everybody)
    rehearse(chosen, project, options, values)


def baselines(project: Project) -> tuple[int, list[Finding]]:
    """How many baselines there are, and what is wrong with them or no longer fits the project."""
    files = _files(project.settings.path("baselines"))
    found: list[Finding] = []
    seen: dict[Key, str] = {}
    for file in files:
        shown = project.shown(file)
        try:
            document = yamlfile.load(file, shown=shown)
            baseline = accepted.loads(file.read_text(encoding="utf-8"), shown)
        except ConfigError as error:
            found += [finding(problem, "baseline-invalid") for problem in error.problems]
            continue
        if baseline.key in seen:
            problem = Problem(shown, 0, f"is the baseline of the same as {seen[baseline.key]}", "remove one")
            found.append(finding(problem, "baseline-invalid"))
        seen.setdefault(baseline.key, shown)
        found += _of_baseline(project, document, baseline)
    return len(files), found


def _of_baseline(project: Project, document: Document, baseline: Baseline) -> Iterator[Finding]:
    """What a baseline is of, and is no longer there."""
    key, hosts = baseline.key, project.inventory.hosts
    if hosts and key.host not in hosts and not key.simulated:  # a lab's hosts stand in its own inventory
        yield _gone(document, ("key", "host"), f"no host is called {key.host!r}", hosts, "baseline-host")
    if key.engine not in engines.names():
        what = f"no engine is called {key.engine!r}"
        yield _gone(document, ("key", "engine"), what, engines.names(), "baseline-engine")
    known = project.library.names()
    if baseline.profile and baseline.profile not in known and not baseline.profile.startswith("run:"):
        what = f"no profile is called {baseline.profile!r}"
        yield _gone(document, ("profile",), what, known, "baseline-profile")


def _gone(document: Document, path: tuple[str, ...], what: str, known: Iterable[str], code: str) -> Finding:
    hint = nearest(str(document.text(path)), known)
    return finding(document.problem(path, what, hint if hint.startswith("did you") else ""), code)


def _files(folder: Path) -> list[Path]:
    """The YAML files of a folder."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.glob("*.y*ml") if p.is_file() and not p.name.startswith("."))


def unseen(found: Iterable[Finding], before: Sequence[Finding]) -> list[Finding]:
    """What was not told of the same place already: a playbook's rehearsal meets profiles again."""
    places = {(one.file, one.line, one.column) for one in before}
    return [one for one in found if (one.file, one.line, one.column) not in places]
