"""Shell scripts from Jinja2 templates, in which every expression is quoted unless it says otherwise."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from typing import Any

from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, Template
from jinja2.exceptions import SecurityError, TemplateNotFound, TemplateSyntaxError

from stoker.config.templating.sandbox import Bounded, bounded_text, describe, plain
from stoker.config.templating.template import MISTAKES, BadTemplate, Session, line_of, output, say

_OURS = "stoker/"  # what the names of the templates that are shipped begin with, for those who build on them


class Shell(str):
    """Text that is shell on purpose: it goes into a script as it is."""

    __slots__ = ()


def render(names: Sequence[str], folders: Sequence[Path], context: Mapping[str, Any]) -> str:
    """A shell script from a template file, in which every expression is quoted for the shell.

    ``{{ x }}`` gives one quoted word (of a list: quoted words), ``{{ x | shell }}`` the text as it is,
    ``{{ x | comment }}`` a comment, ``{{ argv | words }}`` a command over several lines. No expression
    belongs inside quotes of the template: it brings its own. What a block, a macro or ``super()`` gives is
    shell already and goes in as it is.

    Args:
        names: File names; of these, the first that exists in any folder is taken.
        folders: Searched in order, Stoker's own last: a template that extends its own name extends Stoker's.
        context: Variables of the template, taken literally.

    Raises:
        BadTemplate: With the file and line of the template.
    """
    try:
        template = _environment(tuple(folders)).select_template(list(names))
        return output(template, Session({}, context))
    except (*MISTAKES, OSError) as error:
        raise _script_mistake(error, names) from error


def check(name: str, folders: Sequence[Path]) -> None:
    """Read a template without rendering it.

    Args:
        name: Its file's name.
        folders: Where it lies; what it builds on is searched there too.

    Raises:
        BadTemplate: With the file and line.
    """
    try:
        _environment(tuple(folders)).get_template(name)
    except (*MISTAKES, OSError) as error:
        raise _script_mistake(error, [name]) from error


class _Scripts(Bounded):
    """Templates of scripts: what blocks and macros put out is shell already, each expression in it quoted."""

    concat = staticmethod(lambda parts: Shell(bounded_text(parts)))

    def join_path(self, template: str, parent: str) -> str:
        """The name that ``extends`` or ``include`` means: a template's own name is Stoker's of that name."""
        return _OURS + template if template == parent else template


@lru_cache(maxsize=8)
def _environment(folders: tuple[Path, ...]) -> Bounded:
    """One for all hosts: it keeps what it has compiled, and reads a file again when that has changed."""
    environment = _Scripts(_quoted, trim_blocks=True, lstrip_blocks=True, cache_size=50)
    ours = PrefixLoader({_OURS.rstrip("/"): FileSystemLoader(folders[-1])})
    environment.loader = ChoiceLoader([*(FileSystemLoader(folder) for folder in folders), ours])
    environment.filters |= {"quote": _quote, "shell": Shell, "comment": _comment, "words": _words}
    return environment


def _quoted(value: Any) -> str:
    """What an expression puts out in a script."""
    return value if isinstance(value, Shell) else _quote(value)


def _quote(value: Any) -> Shell:
    words = plain(value)
    if isinstance(words, dict) or words is None:
        raise SecurityError(f"{describe(words)} is no word for a shell")
    return Shell(shlex.join(map(str, words)) if isinstance(words, list) else shlex.quote(str(words)))


def _words(argv: Sequence[str]) -> Shell:
    """A command, each option on a line of its own."""
    quoted = [shlex.quote(word) for word in argv]
    breaks = (" \\\n    " if word.startswith("-") else " " for word in quoted)
    return Shell("".join(map("".join, zip(breaks, quoted, strict=True))).strip())


def _comment(text: str) -> Shell:
    """Each line as a comment, without control characters."""
    lines = str(text).splitlines() or [""]
    return Shell("\n".join("# " + "".join(c if c.isprintable() else " " for c in line) for line in lines))


def _script_mistake(error: BaseException, names: Sequence[str]) -> BadTemplate:
    if isinstance(error, TemplateNotFound):
        return BadTemplate(f"there is no template {error.message}", where=names[0])
    file = error.filename if isinstance(error, TemplateSyntaxError) else _file(error)
    line = line_of(error)
    place = f"{file or names[-1]}:{line}" if line else str(file or names[-1])
    return BadTemplate(say(error), where=place, line=line)


def _file(error: BaseException) -> str | None:
    found = None
    for frame, _ in walk_tb(error.__traceback__):
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            found = template.filename
    return found
