"""What Ansible makes of inventories: a line of JSON in, a line of JSON out. The tests run it as a process.

A question is ``{"sources": [PATH…], "basedir": PATH or null, "patterns": [TEXT…]}``. The answer is
``{"hosts": {NAME: VARIABLES}, "groups": {NAME: [HOST…]}, "select": {PATTERN: [HOST…] or ERROR}, "failed":
[TEXT…]}``, where ``failed`` holds what Ansible warned of: some source may not have been read.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ansible import constants  # type: ignore[import-untyped]
from ansible.inventory.manager import InventoryManager  # type: ignore[import-untyped]
from ansible.parsing.dataloader import DataLoader  # type: ignore[import-untyped]
from ansible.plugins.loader import init_plugin_loader  # type: ignore[import-untyped]
from ansible.plugins.vars import host_group_vars  # type: ignore[import-untyped]
from ansible.utils.display import Display  # type: ignore[import-untyped]
from ansible.vars.manager import VariableManager  # type: ignore[import-untyped]

_WARNED: list[str] = []
_OWN = ("inventory_hostname_short", "group_names")


def main() -> None:
    """Answer until the questions end."""
    init_plugin_loader([])
    for name in ("warning", "error", "error_as_warning", "display", "deprecated"):
        setattr(Display, name, _keep)
    for line in sys.stdin:
        _WARNED.clear()
        print(json.dumps(_answer(json.loads(line)), default=str), flush=True)


def _keep(_self: Any, msg: object = "", *args: object, **kwargs: object) -> None:
    _WARNED.append(f"{msg or ''}{kwargs.get('exception', '')}")


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    for cache in (host_group_vars.CANONICAL_PATHS, host_group_vars.FOUND, host_group_vars.NAK):
        cache.clear()
    loader = DataLoader()
    if question.get("basedir"):
        loader.set_basedir(question["basedir"])
    inventory = InventoryManager(loader=loader, sources=question["sources"])
    failed = list(_WARNED)
    variables = VariableManager(loader=loader, inventory=inventory)
    hosts = {}
    for name, host in inventory.hosts.items():
        found = variables.get_vars(host=host, include_hostvars=False, stage="all")
        hosts[name] = {k: v for k, v in found.items() if k in _OWN or k not in constants.INTERNAL_STATIC_VARS}
    groups = {name: [host.name for host in group.get_hosts()] for name, group in inventory.groups.items()}
    select = {pattern: _select(inventory, pattern) for pattern in question["patterns"]}
    return {"hosts": hosts, "groups": groups, "select": select, "failed": failed}


def _select(inventory: Any, pattern: str) -> Any:
    try:
        return [host.name for host in inventory.get_hosts(pattern)]
    except Exception as error:  # Ansible's own errors, and those of re
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
