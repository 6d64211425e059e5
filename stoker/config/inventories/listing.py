"""An inventory as people and programs read it: in the shapes of ``ansible-inventory``."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from stoker.config.files.yamlfile import Secret, Vault
from stoker.config.inventories.inventory import Host, Inventory
from stoker.config.inventories.vars import MAGIC
from stoker.errors import InputError

MAX_LINES = 200_000


def listing(inventory: Inventory, hosts: Collection[Host]) -> dict[str, Any]:
    """What ``ansible-inventory --list`` prints: groups by name, and under ``_meta`` each host's variables.

    Args:
        inventory: Whose groups.
        hosts: The hosts that are meant; others are left out of the groups, as are then empty groups.

    Returns:
        JSON types; secrets, vaults and passwords as words.
    """
    chosen = {host.name for host in hosts}
    hostvars = {host.name: variables for host in hosts if (variables := shown_vars(host))}
    found: dict[str, Any] = {"_meta": {"hostvars": hostvars, "profile": "inventory_legacy"}}
    for name, group in inventory.groups.items():
        own = [host for host in group.hosts if host in chosen] if name != "all" else []
        body = {"children": list(group.children), "hosts": own}
        if own or group.children:
            found[name] = {key: value for key, value in body.items() if value}
    return found


def graph(inventory: Inventory, hosts: Collection[Host], *, variables: bool = False) -> Iterator[str]:
    """What ``ansible-inventory --graph`` prints, line by line; a group reached twice stands there twice.

    Args:
        inventory: Whose groups.
        hosts: The hosts that are meant; others are left out.
        variables: Each host's variables below it.

    Raises:
        InputError: After ``MAX_LINES``: groups that share groups, level by level, make a graph without end.
    """
    chosen = {host.name: host for host in hosts}
    stack = [("@all", 0)]
    lines = 0
    while stack:
        name, depth = stack.pop()
        if (lines := lines + 1) > MAX_LINES:
            raise InputError(f"the graph has more than {MAX_LINES} lines", next_step="name fewer by --host")
        yield _branch(f"{name}:" if name[0] == "@" else name, depth)
        if name[0] != "@":
            if variables:
                for key, value in sorted(shown_vars(chosen[name]).items()):
                    yield _branch(f"{{{key} = {value}}}", depth + 1)
            continue
        group = inventory.groups[name[1:]]
        own = [host for host in group.hosts if host in chosen] if group.name != "all" else []
        below = [*(f"@{child}" for child in group.children), *own]
        stack.extend((one, depth + 1) for one in reversed(below))


def shown_vars(host: Host) -> dict[str, Any]:
    """A host's variables without those that every host has of itself; secrets, vaults, passwords as words."""
    return {
        name: "(password)" if _is_password(name) and isinstance(value, str) else _shown(value)
        for name, value in host.vars.items()
        if name not in MAGIC
    }


def _is_password(name: str) -> bool:
    return name.startswith("ansible_") and name.endswith(("_pass", "_password"))


def _shown(value: Any) -> Any:
    if isinstance(value, Secret):
        return f"(secret {value.name})"
    if isinstance(value, Vault):
        return "(vault)"
    if isinstance(value, dict):
        return {key if _is_json_key(key) else str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value


def _is_json_key(key: Any) -> bool:
    return key is None or isinstance(key, str | int | float)


def _branch(text: str, depth: int) -> str:
    return f"{'  |' * depth}--{text}" if depth else text
