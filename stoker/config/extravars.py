"""Variables given on the command line: ``NAME=VALUE``, a mapping in JSON or YAML, or ``@FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stoker.config.books.playbookvalues import Values
from stoker.config.files import yamlfile
from stoker.config.secrecy import vault
from stoker.errors import ConfigError, InputError

_WHERE = "--extra-var"


def parse(texts: Sequence[str], root: Path, *, open_vault: vault.Open | None = None) -> dict[str, Any]:
    """The variables; of equal names the last.

    Args:
        texts: As typed. A value behind ``=`` is text, up to the end.
        root: What ``@FILE`` is relative to.
        open_vault: Opens files that Ansible Vault encrypted; None: they are refused.

    Raises:
        InputError: A text of another shape.
        ConfigError: Mistakes in a file or mapping: a broken name, a broken template.
    """
    found: dict[str, Any] = {}
    for text in texts:
        found.update(_one(text, root, open_vault))
    return found


def _one(text: str, root: Path, open_vault: vault.Open | None) -> dict[str, Any]:
    if text.startswith("@"):
        document = yamlfile.load(root / text[1:], shown=text[1:])
        return _checked(Values(vault.unsealed(document, open_vault)))
    if text.lstrip().startswith("{"):
        return _checked(Values(yamlfile.loads(text, _WHERE)))
    name, equals, value = text.partition("=")
    if not equals:
        hint = "write NAME=VALUE, a mapping {…}, or @FILE"
        raise InputError(f"{text!r} sets no variable", where=_WHERE, next_step=hint)
    values = Values(yamlfile.loads("", _WHERE))
    found = {values.variable((), name.strip()): values.value((), value)}
    return _without_problems(values, found)


def _checked(values: Values) -> dict[str, Any]:
    return _without_problems(values, values.variables((), values.document.data, "what it holds"))


def _without_problems(values: Values, found: dict[str, Any]) -> dict[str, Any]:
    if values.problems:
        raise ConfigError(values.problems)
    return found
