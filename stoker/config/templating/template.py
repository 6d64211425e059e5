"""Jinja2's one door: values over host variables, expressions of playbooks. (Scripts: see ``script``.)

A text that is exactly one expression, ``"{{ gpus }}"``, keeps the type of what it gives; any other gives
text.
Variables that are templates themselves are rendered when they are used, and only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import cache, lru_cache
from traceback import walk_tb
from typing import Any, Literal

from jinja2 import Template, Undefined, nodes
from jinja2.exceptions import (
    SecurityError,
    TemplateAssertionError,
    TemplateError,
    TemplateSyntaxError,
)
from jinja2.utils import missing

from stoker.config.templating.sandbox import (
    MAX_STEPS,
    SESSION,
    Bounded,
    Strict,
    UndefinedNameError,
    bounded_text,
    describe,
    plain,
    to_text,
)
from stoker.errors import InputError, nearest

MAX_SOURCE = 100_000
MAX_NESTING = 50
"""Variables that refer to variables that refer to …"""

_MARKS = ("{{", "{%", "{#")
_RESULT = "stoker__result"

# Whatever an expression can raise: the author's mistake, not ours.
MISTAKES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

_Kind = Literal["value", "exact"]


class BadTemplate(InputError):
    """A template that cannot be rendered.

    Args:
        what: What is wrong.
        where: The place given by the caller.
        line: 1-based line inside the template; 0 where unknown.
        name: The undefined name; empty where that is not what is wrong.
        hint: The nearest known names, or what was expected.
        path: Keys and indices from the rendered value to the text that is wrong.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        line: int = 0,
        name: str = "",
        hint: str = "",
        path: tuple[str | int, ...] = (),
    ) -> None:
        super().__init__(what, where=where, next_step=hint)
        self.line = line
        self.name = name
        self.hint = hint
        self.path = path


def has_template(value: Any) -> bool:
    """Whether anything in a value is a template."""
    if isinstance(value, str):
        return any(mark in value for mark in _MARKS)
    if isinstance(value, Mapping):
        return any(has_template(item) for item in value.values())
    return isinstance(value, list | tuple) and any(has_template(item) for item in value)


def render(
    value: Any, variables: Mapping[str, Any], *, where: str, data: Mapping[str, Any] | None = None
) -> Any:
    """A value with every template in it rendered.

    Args:
        value: Text, or lists and mappings of it; anything else comes back as it is. Keys are never templates.
        variables: What people wrote: may be templates themselves.
        where: The value's place, for the message.
        data: Further variables, taken literally: what hosts said belongs here. They win.

    Returns:
        Text, except where a text is one expression and nothing else: then what it gives, as plain data.

    Raises:
        BadTemplate: With the place inside the value.
    """
    return Session(variables, data or {}).tree(value, where, ())


def check(text: str, *, where: str) -> None:
    """Read a template without rendering it.

    Raises:
        BadTemplate: It is no Jinja2, or uses a filter that there is not.
    """
    Session({}, {}).check(text, where)


def render_exact(text: str, variables: Mapping[str, Any], *, where: str) -> str:
    """A text whose every character matters, such as the value of an environment variable.

    Args:
        text: The text.
        variables: As for ``render``.
        where: Its place, for the message.

    Raises:
        BadTemplate: Also where an expression gives something whose spelling YAML has not kept (``no``
            became False, ``1.10`` became 1.1), or no text at all.
    """
    if not has_template(text):
        return text
    return str(Session(variables, {}).text(text, where, (), "exact"))


def evaluate(
    expression: str, variables: Mapping[str, Any], *, where: str, data: Mapping[str, Any] | None = None
) -> Any:
    """What an expression gives (the ``when`` of a playbook), written without braces.

    Raises:
        BadTemplate: It cannot be evaluated.
    """
    return Session(variables, data or {}).text("{{ " + expression + " }}", where, (), "value")


class Session:
    """One rendering: its variables, those rendered so far, and what it may still spend.

    Args:
        variables: May be templates.
        data: Taken literally.
    """

    def __init__(self, variables: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._variables = variables
        self._data = data
        self._rendered: dict[str, Any] = {}
        self._open: list[str] = []
        self._steps = 0

    @property
    def names(self) -> list[str]:
        """Every variable's name."""
        return [*self._variables, *self._data]

    def step(self) -> None:
        """Count a round of a loop."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SecurityError(f"its loops take more than {MAX_STEPS} rounds")

    def lookup(self, name: str) -> Any:
        """A variable, rendered; ``missing`` where there is none."""
        for known in (self._data, self._rendered):
            if name in known:
                return known[name]
        if name not in self._variables:
            return missing
        value = self._variables[name]
        if not has_template(value):
            return value
        if name in self._open or len(self._open) >= MAX_NESTING:
            raise SecurityError("variables refer to each other: " + " → ".join([*self._open, name]))
        self._open.append(name)
        try:
            self._rendered[name] = self.tree(value, f"variable {name!r}", ())
        except BadTemplate as error:
            if not error.name:
                raise
            return Strict(f"{error.where}: {error.what}", name=error.name, cause=error)
        finally:
            self._open.pop()
        return self._rendered[name]

    def check(self, source: str, where: str) -> None:
        """Read a template."""
        try:
            _compiled(source, "value")
        except MISTAKES as error:
            raise _mistake(error, where, (), self) from error

    def tree(self, value: Any, where: str, path: tuple[str | int, ...]) -> Any:
        """A value with the templates in it rendered."""
        if isinstance(value, str):
            return self.text(value, where, path, "value") if has_template(value) else value
        if isinstance(value, Mapping):
            return {key: self.tree(item, where, (*path, key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item, where, (*path, index)) for index, item in enumerate(value)]
        return value

    def text(self, source: str, where: str, path: tuple[str | int, ...], kind: _Kind) -> Any:
        """One template rendered."""
        try:
            template, is_expression = _compiled(source, kind)
            return _result(template, self) if is_expression else output(template, self)
        except BadTemplate as error:  # of a variable that this one uses
            what = f"{error.where}: {error.what}" if error.where != where else error.what
            raise BadTemplate(what, where=where, name=error.name, hint=error.hint, path=path) from error
        except MISTAKES as error:
            raise _mistake(error, where, path, self) from error


@cache
def _environment(kind: _Kind) -> Bounded:
    return Bounded(_exact if kind == "exact" else _checked)


@lru_cache(maxsize=2048)
def _compiled(source: str, kind: _Kind) -> tuple[Template, bool]:
    """The template, and whether it is one expression whose value is kept as it is."""
    if len(source) > MAX_SOURCE:
        raise SecurityError(f"a template cannot be longer than {MAX_SOURCE} characters")
    if "\r" in source:
        raise SecurityError("Jinja2 does not keep a carriage return: write it as {{ '\\r' }}")
    environment = _environment(kind)
    tree = environment.parse(source)
    expression = _only_expression(tree)
    if kind == "exact" or expression is None:
        return environment.from_string(tree), False
    body: list[nodes.Node] = [nodes.Assign(nodes.Name(_RESULT, "store"), expression, lineno=1)]
    return environment.from_string(nodes.Template(body, lineno=1)), True


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    children = tree.body[0].nodes
    return None if len(children) != 1 or isinstance(children[0], nodes.TemplateData) else children[0]


def output(template: Template, session: Session) -> str:
    """What a template puts out."""
    context = template.new_context({SESSION: session})
    return bounded_text(template.root_render_func(context))


def _result(template: Template, session: Session) -> Any:
    context = template.new_context({SESSION: session})
    for _ in template.root_render_func(context):
        pass
    value = plain(context.vars[_RESULT])
    return bounded_text([value]) if isinstance(value, str) else value


def _checked(value: Any) -> Any:
    """What an expression puts out, in a value."""
    return value if isinstance(value, str | int) else to_text(value)


def _exact(value: Any) -> Any:
    """What an expression puts out where every character matters."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, Undefined):
        str(value)  # raises
    advice = ": quote it where it is defined" if isinstance(value, bool | float | date) else ""
    raise SecurityError(f"the expression gives {describe(value)}, not text{advice}")


def _mistake(error: BaseException, where: str, path: tuple[str | int, ...], session: Session) -> BadTemplate:
    line = line_of(error)
    what, hint, name = say(error), "", ""
    if isinstance(error, UndefinedNameError):
        name = str(error.name)
        hint = _near(error, session)
    elif isinstance(error, TemplateAssertionError):
        hint = _near_builtin(what)
    elif "Ansible Vault" in what:
        hint = "pass it whole: to a command by environment or stdin, to a server by its profile's env"
    if line > 1:
        what = f"{what} (line {line} of the template)"
    return BadTemplate(what, where=where, line=line, name=name, hint=hint, path=path)


def _near(error: UndefinedNameError, session: Session) -> str:
    if isinstance(error.cause, BadTemplate):
        return error.cause.hint
    if error.holder is missing:
        return nearest(str(error.name), session.names)
    return nearest(str(error.name), map(str, error.holder)) if isinstance(error.holder, Mapping) else ""


def _near_builtin(what: str) -> str:
    """The nearest filter or test for ``No filter named 'x'.``"""
    environment = _environment("value")
    known = environment.filters if "filter" in what else environment.tests
    return nearest(what.partition("'")[2].rpartition("'")[0], known)


def say(error: BaseException) -> str:
    """An error's own words; the kind where it has none."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it needs too much memory"
    text = (error.message if isinstance(error, TemplateError) else str(error)) or type(error).__name__
    return text.strip().rstrip(".")


def line_of(error: BaseException) -> int:
    """Line of the template in which an error arose; 0 where unknown."""
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    found = 0
    for frame, line in walk_tb(error.__traceback__):
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            found = template.get_corresponding_lineno(line)
    return found
