"""What Ansible Vault encrypted on its way into a command: by environment or input, never by its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.config.files.yamlfile import Vault
from stoker.config.secrecy.mask import MASK
from stoker.fleet.books.scope import Scope

_ONE_VARIABLE = re.compile(r"\s*\{\{\s*([A-Za-z_]\w*)\s*\}\}\s*")


class Opened(str):
    """What stood in a vault: no template, and not to be shown."""

    __slots__ = ()


Open = Callable[[Vault, str], Opened]
"""Gets a vault and the place that refers to it; raises InputError."""


def closed(_vault: Vault, _where: str) -> Opened:
    """In place of what stands in a vault, where nobody needs it."""
    return Opened(MASK)


def sealed(value: Any, scope: Scope) -> Vault | None:
    """The vault that a value is, or that it names by one variable and nothing else; None where it is none."""
    seen: set[str] = set()
    while isinstance(value, str) and (match := _ONE_VARIABLE.fullmatch(value)) is not None:
        name = match[1]
        if name in seen or name in scope.data:
            return None
        seen.add(name)
        value = scope.variables.get(name)
    return value if isinstance(value, Vault) else None


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """Variables as they may be shown."""
    return {name: MASK if isinstance(value, Opened) else value for name, value in env.items()}


def hidden(values: Iterable[Any]) -> tuple[str, ...]:
    """Of these values what stood in vaults."""
    return tuple(value for value in values if isinstance(value, Opened))
