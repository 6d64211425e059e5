"""The Jinja2 that values are written in: strict, without side effects, and bounded in time and memory.

Jinja2's own sandbox keeps a template away from Python's internals, but not from eating the machine:
``'x' * 10**9``, nested loops, a method that pads to a width. Here loops are counted, operators that grow
their operands look at the size first, and only filters and methods whose result is bounded by their input
exist.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from jinja2 import StrictUndefined, Undefined, UndefinedError, nodes, pass_context, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from stoker.config.templating.filters import FILTERS
from stoker.config.templating.result_tests import TESTS
from stoker.config.templating.value_tests import VALUE_TESTS

MAX_CHARS = 4_000_000
"""Characters of a text that a template makes."""
MAX_STEPS = 200_000
"""Rounds of loops, and elements of a list, of one rendering."""
MAX_BITS = 10_000
"""Bits of a whole number."""

SESSION = "(session)"  # no name of a template can be this

_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "sum", "title", "trim", "unique", "upper"),
)
_GLOBALS = ("range", "dict", "namespace")
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        {
            *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha"),
            *("isdecimal", "isdigit", "isnumeric", "lower", "lstrip", "partition", "removeprefix"),
            *("removesuffix", "rfind", "rpartition", "rsplit", "rstrip", "split", "splitlines"),
            *("startswith", "strip", "title", "upper"),
        }
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
    date: frozenset(("isoformat",)),
    LoopContext: frozenset(("changed", "cycle")),
}


class UndefinedNameError(UndefinedError):
    """A name or key that is not there.

    Args:
        message: What is undefined.
        name: The name.
        holder: The value that should have held it; ``missing`` for a variable.
        cause: The mistake inside a variable's own template, where that is why.
    """

    def __init__(self, message: str, name: object, holder: object, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.holder = holder
        self.cause = cause


class Strict(StrictUndefined):
    """An undefined value that remembers what was looked for; any use raises."""

    __slots__ = ("_undefined_cause",)

    def __init__(
        self,
        hint: str | None = None,
        obj: object = missing,
        name: str | None = None,
        exc: Any = UndefinedError,
        cause: Exception | None = None,
    ) -> None:
        def undefined(message: str) -> UndefinedNameError:
            return UndefinedNameError(message, name, obj, cause)

        if hint is None:
            hint = f"{name!r} is undefined" if obj is missing else f"{describe(obj)} has no {name!r}"
        super().__init__(hint, obj, name, undefined if exc is UndefinedError else exc)  # type: ignore[arg-type]


class LazyContext(Context):
    """Looks variables up in the session, which renders those that are templates when they are used."""

    def resolve_or_missing(self, key: str) -> Any:
        """A variable's value, or ``missing``."""
        if key in self.vars:
            return self.vars[key]
        value = self.parent[SESSION].lookup(key)
        return self.parent.get(key, missing) if value is missing else value


def bounded_text(parts: Iterable[str]) -> str:
    """The parts in one text.

    Raises:
        SecurityError: It would be longer than MAX_CHARS.
    """
    kept: list[str] = []
    length = 0
    for part in parts:
        length += len(part)
        if length > MAX_CHARS:
            raise SecurityError(f"the text would be longer than {MAX_CHARS} characters")
        kept.append(part)
    return "".join(kept)


class Bounded(ImmutableSandboxedEnvironment):
    """A sandboxed environment whose templates end.

    Args:
        finalize: What becomes of each expression before it is put out.
    """

    intercepted_binops = frozenset(("*", "**", "+", "%"))
    context_class = LazyContext
    concat = staticmethod(bounded_text)  # what generated code joins the output of blocks and macros with

    def __init__(self, finalize: Callable[[Any], Any], **options: Any) -> None:
        super().__init__(
            undefined=Strict,
            finalize=finalize,
            keep_trailing_newline=True,
            autoescape=False,  # no HTML here; scripts are quoted by finalize
            optimized=False,
            **{"cache_size": 0, **options},
        )
        self.globals = {name: self.globals[name] for name in _GLOBALS}
        self.filters = {name: self.filters[name] for name in _FILTERS}
        self.filters |= {"join": _join, "replace": _replace, "round": _round}
        self.filters |= FILTERS
        self.tests |= {**TESTS, **VALUE_TESTS}
        self.filters |= {"string": to_text, "tojson": _tojson, "bool": _bool}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """The syntax tree, with loops counted and growth watched."""
        tree: nodes.Template = _Guard().visit(super()._parse(source, name, filename))
        return tree

    @pass_context
    def step(self, context: Context) -> str:
        """Count one round of a loop."""
        context.parent[SESSION].step()
        return ""

    def tilde(self, *parts: Any) -> str:
        """``a ~ b``."""
        return bounded_text(map(to_text, parts))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """An operator whose result can be much larger than its operands."""
        _check_growth(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``obj.attribute``; of a mapping its key first, so that ``result.items`` is what was meant."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Data, and methods whose result is bounded."""
        if callable(value) and not any(isinstance(obj, kind) and attr in ok for kind, ok in _METHODS.items()):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Raises when it is used."""
        what = f"{attribute!r} of {describe(obj)} is not for templates"
        return self.undefined(what, name=attribute, obj=obj, exc=SecurityError)

    def wrap_str_format(self, value: Any) -> None:
        """No ``format``: it pads to any width."""
        return


class _Guard(NodeTransformer):
    """Counts the rounds of loops and the calls of macros, and watches ``~``."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802  (Jinja2's naming)
        """Count each round."""
        self.generic_visit(node)
        node.body.insert(0, _call("step", [], node.lineno, statement=True))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        """Count each call."""
        self.generic_visit(node)
        node.body.insert(0, _call("step", [], node.lineno, statement=True))
        return node

    def visit_Block(self, node: nodes.Block) -> nodes.Node:  # noqa: N802
        """Count each time that a block is put out: blocks may call each other."""
        self.generic_visit(node)
        node.body.insert(0, _call("step", [], node.lineno, statement=True))
        return node

    def visit_Include(self, node: nodes.Include) -> list[nodes.Node]:  # noqa: N802
        """Count each time that a file is put in: files may include each other."""
        self.generic_visit(node)
        return [_call("step", [], node.lineno, statement=True), node]

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        """Join with a look at the size."""
        self.generic_visit(node)
        return _call("tilde", node.nodes, node.lineno)


def _call(method: str, args: list[nodes.Expr], lineno: int, *, statement: bool = False) -> nodes.Node:
    call = nodes.Call(nodes.EnvironmentAttribute(method), args, [], None, None, lineno=lineno)
    return nodes.ExprStmt(call, lineno=lineno) if statement else call


def plain(value: Any, budget: list[int] | None = None) -> Any:
    """A value as plain data: what a template may hand out.

    Args:
        value: What an expression gave.
        budget: Elements left; one list shared by the recursion.

    Returns:
        Text, number, boolean, None, date, or lists and dicts of them.

    Raises:
        UndefinedNameError: The value, or one inside, is undefined.
        SecurityError: It is too large, or not data.
    """
    budget = [MAX_STEPS] if budget is None else budget
    budget[0] -= 1
    if budget[0] < 0:
        raise SecurityError(f"the value has more than {MAX_STEPS} elements")
    if isinstance(value, Undefined):
        str(value)  # raises
    if value is None or isinstance(value, str | int | float | date):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item, budget) for key, item in value.items()}
    if isinstance(value, Iterable):  # the filters map and select give generators
        return [plain(item, budget) for item in value]
    raise SecurityError(f"{describe(value)} cannot stand in a template")


def to_text(value: Any) -> str:
    """A value as text."""
    return value if isinstance(value, str) else str(plain(value))


def describe(value: object) -> str:
    """What a value is, for people."""
    kinds = {bool: "a boolean", float: "a fraction", type(None): "null", dict: "a mapping", list: "a list"}
    words = {
        "Secret": "a secret",
        "Vault": "a value encrypted by Ansible Vault",
        "str": "a text",
        "int": "a number",
    }
    kind = type(value)
    return kinds.get(kind) or words.get(kind.__name__) or f"a {kind.__name__}"


def _check_growth(operator: str, left: Any, right: Any) -> None:
    sized = [item for item in (left, right) if isinstance(item, str | list | tuple)]
    if operator == "%" and isinstance(left, str):
        raise SecurityError("a template cannot format by %: join with ~")
    if operator == "*" and sized:
        times = max([item for item in (left, right) if isinstance(item, int)], default=1)
        _check_size(sized[0], len(sized[0]) * times)
    elif operator == "+" and len(sized) == 2:
        _check_size(left, len(left) + len(right))
    elif operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
        times = left.bit_length() * max(right, 0)
        bits = times if operator == "**" else left.bit_length() + right.bit_length()
        if bits > MAX_BITS:
            raise SecurityError(f"the number would have more than {MAX_BITS} bits")


def _check_size(value: Any, size: int) -> None:
    if isinstance(value, str) and size > MAX_CHARS:
        raise SecurityError(f"the text would be longer than {MAX_CHARS} characters")
    if not isinstance(value, str) and size > MAX_STEPS:
        raise SecurityError(f"the list would have more than {MAX_STEPS} elements")


@pass_environment
def _join(environment: Bounded, value: Any, d: str = "", attribute: str | None = None) -> str:
    """The elements in one text, ``d`` between them."""
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    separated = (piece for item in items for piece in (d, to_text(item)))
    next(separated, None)
    return bounded_text(separated)


def _replace(text: Any, old: str, new: str, count: int = -1) -> str:
    """``old`` replaced by ``new``."""
    source = to_text(text)
    found = source.count(old) if count < 0 else min(count, source.count(old))
    _check_size(source, len(source) + found * (len(new) - len(old)))
    return source.replace(old, new, count)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    """Rounded to at most 15 places; ``method`` is ``common``, ``ceil`` or ``floor``."""
    if method not in ("common", "ceil", "floor") or not 0 <= precision <= 15:
        raise ValueError("round takes 0 to 15 places, and 'common', 'ceil' or 'floor'")
    if method == "common":
        return round(float(value), precision)
    return float(getattr(math, method)(value * 10**precision) / 10**precision)


def _tojson(value: Any) -> str:
    """As JSON on one line."""
    return bounded_text(json.JSONEncoder(ensure_ascii=False).iterencode(plain(value)))


def _bool(value: Any) -> bool:
    """True for true, 1, and the words true, yes, on, in any case."""
    return str(plain(value)).lower() in ("true", "yes", "on", "1")
