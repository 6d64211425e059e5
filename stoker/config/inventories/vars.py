"""Mistakes in variables: what YAML made of a value, and names that are nearly ones we know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from stoker.config.files.yamlfile import Document, Secret, Vault, read_as
from stoker.errors import Problem

PRIORITY = "ansible_group_priority"
MAGIC = (
    "inventory_hostname",
    "inventory_hostname_short",
    "inventory_file",
    "inventory_dir",
    "group_names",
    "groups",
)
"""Variables that every host has of itself."""

TEXTS = frozenset({
    "ansible_host",
    "ansible_user",
    "ansible_password",
    "ansible_private_key_file",
    "ansible_connection",
    "ansible_ssh_host",
    "ansible_ssh_user",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_private_key_file",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_python_interpreter",
    "ansible_become_user",
    "ansible_become_password",
    "ansible_become_pass",
    "stoker_bind",
})  # fmt: skip
PORTS = frozenset({"ansible_port", "ansible_ssh_port"})
PROFILES = "stoker_profiles"
_KNOWN = (*sorted(TEXTS | PORTS), "ansible_become", PRIORITY, PROFILES)
_OTHERS_OF_ANSIBLE = frozenset(
    {"ansible_scp_extra_args", "ansible_ssh_pkcs11_provider", "ansible_su_pass", "ansible_su_user"}
)
_SWITCH_WORDS = frozenset({"yes", "no", "true", "false", "on", "off", "1", "0"})


class Holder(Enum):
    """Where variables stand."""

    GROUP = auto()
    GROUP_FILE = auto()
    HOST = auto()


def mistakes(document: Document, path: tuple[str | int, ...], holder: Holder) -> Iterator[Problem]:
    """Every mistake in a mapping of variables.

    Args:
        document: The file.
        path: The mapping in it.
        holder: Whose variables they are.
    """
    yield from document.odd_keys(path)
    variables = document.data
    for step in path:
        variables = variables[step]
    for name, value in variables.items():
        if isinstance(name, str):
            yield from _mistakes_of_one(document, (*path, name), name, value, holder)


def _mistakes_of_one(
    document: Document, path: tuple[str | int, ...], name: str, value: Any, holder: Holder
) -> Iterator[Problem]:
    if name in MAGIC:
        yield document.problem(path, f"{name} cannot be set: every host has it of itself", key=True)
    elif name == PRIORITY:
        if (fault := _priority_fault(value, holder)) is not None:
            yield document.problem(path, *fault)
    elif (fault := _value_fault(document, path, name, value)) is not None:
        yield document.problem(path, *fault)
    elif (name.startswith("stoker_") or not isinstance(value, Mapping | list)) and (near := near_name(name)):
        # A list or mapping under e.g. ansible_users is the user's own, no slip of a connection variable.
        yield document.problem(path, f"unknown variable {name}", f"did you mean {near!r}?", key=True)


def _priority_fault(value: Any, holder: Holder) -> tuple[str, str] | None:
    if holder is not Holder.GROUP:
        return f"{PRIORITY} has no effect here", "it stands in a group's vars in the inventory file"
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{PRIORITY} must be a whole number", "e.g. 10; the highest wins, 1 is usual"
    return None


def _value_fault(
    document: Document, path: tuple[str | int, ...], name: str, value: Any
) -> tuple[str, str] | None:
    """(what, hint) for a value that is of no use for the variable; None where it is right."""
    if value is None or isinstance(value, Secret | Vault) or (isinstance(value, str) and "{{" in value):
        return None
    if name in TEXTS and not isinstance(value, str):
        return _no_text(name, value, document.text(path))
    if name in PORTS:
        return _no_port(name, value, document.text(path))
    if name == "ansible_become" and not _is_switch(value):
        return f"{name} must be true or false", ""
    if name == PROFILES:
        return _no_profiles(value)
    return None


def _no_text(name: str, value: Any, text: str | None) -> tuple[str, str]:
    if isinstance(value, Mapping | list):
        return f"{name} must be a text, here stands a {_kind(value)}", ""
    if "pass" in name:  # no password in a message
        return f"{name} was not read as a text", "quote it"
    return f"{name}: {read_as(text, value)}", "quote it"


def _no_port(name: str, value: Any, text: str | None) -> tuple[str, str] | None:
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
    hint = "a port is a whole number from 1 to 65535"
    if isinstance(value, Mapping | list):
        return f"{name} must be a number, here stands a {_kind(value)}", hint
    if isinstance(value, bool) or not isinstance(number, int):
        return f"{name}: {value!r} is no port" if isinstance(
            value, str
        ) else f"{name}: {read_as(text, value)}", hint
    if isinstance(value, int) and text is not None and text != str(value):
        return f"{name}: {read_as(text, value)}", hint
    return None if 1 <= number <= 65535 else (f"{name}: {number} is no port", hint)


def _no_profiles(value: Any) -> tuple[str, str] | None:
    names = value if isinstance(value, list) else [value]
    if all(isinstance(name, str) for name in names):
        return None
    return (
        f"{PROFILES} must be a list of profile names",
        "e.g. [nccl-tuned]; quote what YAML reads as a number",
    )


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool) or value in (0, 1) or str(value).lower() in _SWITCH_WORDS


def _kind(value: Any) -> str:
    return "mapping" if isinstance(value, Mapping) else "list"


@lru_cache(maxsize=1024)
def near_name(name: str) -> str:
    """The variable that a name is a slip of; empty where it is right, or a variable of the user's own."""
    if name in _KNOWN or name in _OTHERS_OF_ANSIBLE or name.rstrip("0123456789") in _KNOWN:
        return ""
    best = ""
    least = 3
    for known in _KNOWN:
        prefix = known[: known.index("_") + 1]
        stems = (
            (name.removeprefix(prefix), known.removeprefix(prefix))
            if name.startswith(prefix)
            else (name, known)
        )
        slips = _slips(*stems, limit=1 if min(map(len, stems)) <= 5 else 2)
        if slips < least:
            best, least = known, slips
    return best


def _slips(one: str, other: str, limit: int) -> int:
    """How many letters were missed, added, changed, or swapped with the next one; 3 where over the limit."""
    if abs(len(one) - len(other)) > limit:
        return 3
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1] if last[-1] <= limit else 3
