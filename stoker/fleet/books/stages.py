"""What of a playbook is to run: the hosts of each play, and its tasks by their tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.config.books.playbooktree import Block, Entry, Play, Playbook
from stoker.config.inventories import inventory as inventories
from stoker.config.inventories.inventory import Host
from stoker.config.templating import template
from stoker.errors import ConfigError, InputError, nearest
from stoker.fleet.books.startat import starting_at

if TYPE_CHECKING:
    from stoker.fleet.project import Project

_SPECIAL_TAGS = frozenset(("all", "always", "never", "tagged", "untagged"))


@dataclass(frozen=True)
class Options:
    """How a playbook is to run.

    Args:
        limit: Patterns that restrict the hosts of every play; empty for no restriction.
        tags: Only tasks with one of these; empty for all.
        skip_tags: No task with one of these.
        extra: Variables that beat all others.
        check: Touch nothing.
        forks: Hosts worked on at once.
        diff: Show what changes.
        start_at: Begin at the task of this name, which may hold ``*``; empty for the first.
        free: No host waits for another.
    """

    limit: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    skip_tags: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)
    check: bool = False
    forks: int = 20
    diff: bool = False
    start_at: str = ""
    free: bool = False


@dataclass(frozen=True)
class Stage:
    """A play with the hosts and tasks that are to run.

    Args:
        play: The play.
        hosts: May be empty, by ``--limit``.
        tasks: May be empty, by tags.
    """

    play: Play
    hosts: tuple[Host, ...]
    tasks: tuple[Entry, ...]


def stages(book: Playbook, project: Project, options: Options) -> tuple[Stage, ...]:
    """Choose hosts and tasks of every play.

    Raises:
        InputError: A pattern or limit that matches nothing, an unknown tag, or nothing left to do.
    """
    _check_tags(book, options)
    if options.start_at:
        book = starting_at(book, options.start_at)
    limit = None if not options.limit else {host.name for host in project.hosts(options.limit)}
    chosen = []
    for play in book.plays:
        hosts = tuple(h for h in _hosts(play, project, options) if limit is None or h.name in limit)
        tasks = _chosen(play.tasks, options)
        chosen.append(Stage(play, hosts, tasks))
    if not any(stage.hosts for stage in chosen):
        hint = "inv play BOOK --list-hosts shows the hosts of each play"
        raise InputError("--limit leaves no host of any play", where=book.shown, next_step=hint)
    return tuple(chosen)


def _chosen(entries: Sequence[Entry], options: Options) -> tuple[Entry, ...]:
    """A list of tasks without those that the tags leave out, and without blocks that are empty then."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Block):
            parts = [_chosen(part, options) for part in (entry.tasks, entry.rescue, entry.always)]
            if any(parts):
                found.append(replace(entry, tasks=parts[0], rescue=parts[1], always=parts[2]))
        elif is_chosen(entry.tags, options.tags, options.skip_tags):
            inner = _chosen(entry.included, options)
            found.append(entry if inner == entry.included else replace(entry, included=inner))
    return tuple(found)


def is_chosen(tags: frozenset[str], only: frozenset[str], skip: frozenset[str]) -> bool:
    """Whether a task runs, by Ansible's rules.

    Args:
        tags: The task's.
        only: ``--tags``; empty for ``all``.
        skip: ``--skip-tags``.
    """
    mine = tags or frozenset(("untagged",))
    is_never = "never" in mine
    if "always" in mine or mine & (only or frozenset(("all",))):
        runs = True
    elif not only or "all" in only:
        runs = not is_never
    else:
        runs = "tagged" in only and bool(tags) and not is_never
    if not runs or not skip:
        return runs
    if "all" in skip:
        return "always" in mine and "always" not in skip
    return not mine & skip and not ("tagged" in skip and tags)


def _check_tags(book: Playbook, options: Options) -> None:
    """An unknown tag would silently choose nothing.

    Raises:
        InputError: With the nearest tag.
    """
    for flag, given in (("--tags", options.tags), ("--skip-tags", options.skip_tags)):
        for tag in sorted(given - book.tags - _SPECIAL_TAGS):
            hint = nearest(tag, book.tags) or "it has no tags"
            raise InputError(f"no task of {book.shown} has the tag {tag!r}", where=flag, next_step=hint)


def local_or_known(name: str, project: Project) -> Host:
    """A host by its name; ``localhost`` is this machine where the inventory has none.

    Raises:
        InputError: There is no such host.
    """
    known = project.inventory.hosts
    if name == "localhost" and name not in known:
        (host,) = inventories.adhoc("localhost,").hosts.values()
        return replace(host, vars={**host.vars, "ansible_connection": "local"})
    if name not in known:
        raise InputError(f"there is no host {name!r}", where="delegate_to", next_step=nearest(name, known))
    return known[name]


def _hosts(play: Play, project: Project, options: Options) -> Sequence[Host]:
    """The hosts that a play names.

    Raises:
        InputError: With the play's place.
    """
    where = f"{play.place}: hosts"
    patterns = template.render(list(play.hosts), {**play.vars, **options.extra}, where=where)
    flat = [str(p) for given in patterns for p in (given if isinstance(given, list) else [given])]
    if flat == ["localhost"]:
        return (local_or_known("localhost", project),)
    try:
        return project.hosts(flat)
    except ConfigError:  # the inventory's own mistakes have places of their own
        raise
    except InputError as error:
        said = f"{error.where}: {error.what}" if error.where else error.what
        raise InputError(said, where=where, evidence=error.evidence, next_step=error.next_step) from error
