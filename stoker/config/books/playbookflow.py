"""The keywords of plays, blocks and tasks: what is handed on, how often a task runs, how it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.config.books import playbookwords as words
from stoker.config.books.playbookargs import Arguments
from stoker.config.books.playbooktree import Conditions, LoopControl
from stoker.config.books.playbookvalues import Path as At
from stoker.config.books.playbookvalues import kind
from stoker.config.templating import template
from stoker.errors import nearest


@dataclass(frozen=True)
class Handed:
    """What a play or a block hands on to what stands in it.

    Args:
        tags: All apply.
        when: All must hold.
        vars: The inner ones win.
        environment: The inner ones win.
        notify: The nearest wins.
        keywords: The others, by name; the nearest wins.
        handlers: Names and topics that can be notified; None where only the run can tell.
    """

    tags: tuple[str, ...] = ()
    when: Conditions = ()
    vars: Mapping[str, Any] = field(default_factory=dict)
    environment: tuple[Any, ...] = ()
    notify: tuple[str, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    handlers: frozenset[str] | None = frozenset()


class Flow(Arguments):
    """Reads the keywords."""

    def handed(self, path: At, entry: Mapping[Any, Any], outer: Handed) -> Handed:
        """What applies inside a play, block or task: its own keywords over those around it."""
        own = self.tags((*path, "tags"), entry["tags"]) if "tags" in entry else ()
        when = self.conditions((*path, "when"), entry["when"]) if "when" in entry else ()
        notify = self._notify((*path, "notify"), entry["notify"], outer) if "notify" in entry else ()
        environment = self._environment((*path, "environment"), entry.get("environment"))
        if entry.get("become_method", "sudo") != "sudo":
            self.note((*path, "become_method"), "only sudo is supported", "write become_method: sudo")
        given = {name: self._keyword((*path, name), entry[name]) for name in words.HANDED_ON & entry.keys()}
        return replace(
            outer,
            tags=(*outer.tags, *own),
            when=(*outer.when, *when),
            vars={**outer.vars, **self.variables((*path, "vars"), entry.get("vars"), "vars")},
            environment=(*outer.environment, *environment),
            notify=notify if "notify" in entry else outer.notify,
            keywords={**outer.keywords, **given},
        )

    def flow(self, path: At, task: Mapping[Any, Any]) -> dict[str, Any]:
        """How often a task runs, and how what comes of it is judged."""
        flow: dict[str, Any] = {
            name: self.conditions((*path, name), task[name])
            for name in ("failed_when", "changed_when", "until")
            if name in task
        }
        if "loop" in task:
            flow["loop"] = self._loop((*path, "loop"), task["loop"])
        if "loop_control" in task:
            flow["loop_control"] = self._loop_control((*path, "loop_control"), task)
        if "register" in task:
            flow["register"] = self.variable((*path, "register"), task["register"])
        if "retries" in task:
            flow["retries"] = self.whole((*path, "retries"), task["retries"])
        if "delay" in task:
            flow["delay"] = self.seconds((*path, "delay"), task["delay"])
        if "listen" in task:
            flow["listen"] = self.texts((*path, "listen"), task["listen"])
        return flow

    def _loop(self, at: At, value: Any) -> Any:
        if not isinstance(value, list) and not (isinstance(value, str) and template.has_template(value)):
            self.note(at, f"loop takes a list, here is {kind(value)}", "write [one, two], or a template")
            return []
        return self.value(at, value)

    def _loop_control(self, at: At, task: Mapping[Any, Any]) -> LoopControl:
        """How the loop names its rounds."""
        given = self.mapping(at, task["loop_control"], "loop_control")
        if "loop" not in task:
            self.note(at, "loop_control belongs to a loop", key=True)
        for name in given:
            if name not in words.LOOP_CONTROL:
                self.note(
                    (*at, name),
                    f"loop_control has no {name!r}",
                    nearest(str(name), words.LOOP_CONTROL),
                    key=True,
                )
        named = {
            name: self.variable((*at, name), given[name])
            for name in ("loop_var", "index_var")
            if name in given and given[name] != "item"
        }
        return LoopControl(
            **named,
            label=self.value((*at, "label"), given.get("label")),
            pause=self.seconds((*at, "pause"), given.get("pause")) or 0,
        )

    def _keyword(self, at: At, value: Any) -> Any:
        """The value of a keyword that is handed on."""
        name = at[-1]
        if name == "timeout":
            return self.seconds(at, value)
        if name in ("delegate_to", "become_user"):
            return self.text(at, value)
        return self.truth(at, value)

    def _environment(self, at: At, value: Any) -> tuple[Any, ...]:
        """Mappings of variables, or templates of them."""
        found = []
        several = isinstance(value, list)
        for index, one in enumerate(value if several else [] if value is None else [value]):
            place = (*at, index) if several else at
            if isinstance(one, dict):
                self.odd_keys(place)
                found.append(
                    {
                        name: self.value((*place, name), self.exact((*place, name), text), vaults=True)
                        for name, text in one.items()
                    }
                )
            elif isinstance(one, str) and template.has_template(one):
                found.append(self.value(place, one))
            else:
                self.note(place, f"environment is a mapping, here is {kind(one)}", "write NAME: VALUE")
        return tuple(found)

    def _notify(self, at: At, value: Any, outer: Handed) -> tuple[str, ...]:
        """Names of handlers, or topics that they listen to."""
        names = self.texts(at, value)
        for index, name in enumerate(names):
            if outer.handlers is None or template.has_template(name) or name in outer.handlers:
                continue
            place = (*at, index) if isinstance(value, list) else at
            self.note(
                place, f"the play has no handler {name!r}", nearest(name, outer.handlers) or "it has none"
            )
        return names


def kept(handed: Handed) -> dict[str, Any]:
    """A task's part of what is handed on."""
    return {
        "tags": frozenset(handed.tags),
        "when": handed.when,
        "vars": handed.vars,
        "environment": handed.environment,
        "notify": handed.notify,
        **handed.keywords,
    }
