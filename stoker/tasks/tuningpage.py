"""The page about tuning variables, made out of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stoker.tuning import Catalogue, Family, Variable, codes
from stoker.tuning.kinds import KINDS

_HEAD = """\
# Tuning variables

Made from the catalogue by `inv dev.docs`: every variable that Stoker knows, how its value is read, and where
that is known from. A variable of a profile's `env` is held against it: misspelt names, values that will not
be read as they are meant, conflicts, settings without effect, risks, and values that an engine replaces.

- *since* is the first version that reads it; *until* the first that no longer does. Where nothing is said,
  the source does not say.
- A value reaches the process exactly as it is written: no shell expands `~` or `$NAME`.
- The letter at the end names the source, below the table.
"""


def page() -> str:
    """The whole page, in Markdown."""
    known = Catalogue.load()
    parts = [_HEAD]
    for family in sorted(known.families.values(), key=lambda f: f.title.lower()):
        mine = [v for v in known.all() if v.family == family.name]
        parts += _section(family, mine)
    parts.append("## Codes of remarks\n\n" + ", ".join(f"`{code}`" for code in sorted(codes())) + "\n")
    return "\n".join(parts).rstrip() + "\n"


def _section(family: Family, variables: Sequence[Variable]) -> Iterator[str]:
    described = [v for v in variables if v.effect]
    letters = {source: chr(ord("a") + i) for i, source in enumerate(sorted({v.source for v in variables}))}
    begin = ", ".join(f"`{p}`" for p in family.prefixes)
    yield f"## {family.title}\n\nNames begin with {begin}. An unknown name: {family.ignored}.\n"
    yield "| variable | value | by default | since | what it does | |\n|---|---|---|---|---|---|"
    yield "\n".join(_row(v, letters[v.source]) for v in described) + "\n"
    yield "\n".join(f"- {letter}: {source}" for source, letter in letters.items()) + "\n"
    rest = [f"`{v.name}`" for v in variables if not v.effect]
    if rest:
        yield "Known by name, and by how they are read:\n\n" + ", ".join(rest) + "\n"


def _row(variable: Variable, letter: str) -> str:
    cells = (
        f"`{variable.name}`",
        _value(variable),
        f"`{variable.default}`" if variable.default else "",
        _versions(variable),
        _effect(variable),
        letter,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(variable: Variable) -> str:
    written = KINDS[variable.kind].written
    words = ", ".join(f"`{v}`" for v in variable.values) if variable.kind != "flag" else ""
    if variable.lowest is None and variable.highest is None:
        return f"{written}: {words}" if words else written
    most = f"to {variable.highest}" if variable.highest is not None else "or more"
    return f"{written}, {variable.lowest} {most}" + (f", or {words}" if words else "")


def _versions(variable: Variable) -> str:
    return variable.since + (f" until {variable.until}" if variable.until else "")


def _effect(variable: Variable) -> str:
    said = variable.effect
    if variable.renamed_to:
        said += f"; now `{variable.renamed_to}`"
    if variable.risk:
        where = " or ".join(f"`{v}`" for v in variable.risky)
        said += f". *Risk*{' at ' + where if where else ''}: {variable.risk}"
    for change in variable.overwritten:
        cause = change.argument or change.variable
        value = f"to `{change.value}`" if change.value else "itself"
        said += f". {change.engine} sets it {value}" + (f" under `{cause}`" if cause else "")
    return said
