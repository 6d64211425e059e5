"""The JSON Schemas of inventory files and of the files in group_vars/ and host_vars/."""

from __future__ import annotations

from stoker.config import schema_parts as parts
from stoker.config.inventories import names as inventory_names
from stoker.config.inventories import vars as inventory_vars
from stoker.config.schema_parts import Schema

_TOLD = {
    "ansible_host": "Name or address to connect to; the host's own name where it is not set.",
    "ansible_port": "Port of its SSH server.",
    "ansible_user": "Login.",
    "ansible_private_key_file": "Private key to log in with.",
    "ansible_connection": "`ssh`, or `local` for this machine.",
    "ansible_python_interpreter": "Python that the agent runs on; found by itself where it is not set.",
    "stoker_bind": "Address that servers listen on; 127.0.0.1 unless set.",
    "stoker_profiles": "Profiles that should run there: what `inv status` compares with.",
}
_END = r"$(?!\n)"
_PORT = parts.template_or(parts.whole(1, 65535), parts.text(r"^[1-9][0-9]{0,3}" + _END, numbers=False))
_PROFILES = parts.one_or_many({"type": "string"})
_GROUP = inventory_names.GROUP.pattern
_SWITCH: Schema = {"type": "boolean"}


def inventory() -> Schema:
    """Of an inventory file: groups by name, each with hosts, vars and children."""
    group = parts.closed(
        {
            "hosts": {"description": "Hosts by name; ranges such as node[01:10] too.", **_names("host")},
            "vars": {"description": "Variables of its hosts.", **_or_none({"$ref": "#/$defs/group_vars"})},
            "children": {"description": "Groups in it.", **_names("group")},
        }
    )
    group_vars = _variables({inventory_vars.PRIORITY: {"type": "integer"}})
    definitions = {"group": _or_none(group), "vars": _variables({}), "group_vars": group_vars}
    return parts.whole_file(
        "Stoker: an inventory",
        "The hosts, in Ansible's shape.",
        {
            **parts.named(
                {"$ref": "#/$defs/group"}, f"^(?!(?:hosts|vars|children|plugin){_END}){_GROUP}{_END}"
            ),
            "minProperties": 1,
            "$defs": definitions,
        },
    )


def variables() -> Schema:
    """Of a file of variables of a group or a host."""
    return parts.whole_file(
        "Stoker: variables", "Variables of a group or a host, by name.", _or_none(_variables({}))
    )


def _names(of: str) -> Schema:
    """Hosts with their variables, or groups with what is in them; a bare name stands for one of them."""
    if of == "group":
        body = parts.named({"$ref": "#/$defs/group"}, f"^(?!all{_END}){_GROUP}{_END}")
    else:
        body = parts.named(_or_none({"$ref": "#/$defs/vars"}), r"^[\w:\[]")
    return _or_none(body)


def _or_none(schema: Schema) -> Schema:
    return {"anyOf": [schema, parts.NULL]}


def _variables(more: dict[str, Schema]) -> Schema:
    """Variables by name: those that Stoker reads have their kind."""
    known: dict[str, Schema] = {name: parts.text(numbers=False) for name in sorted(inventory_vars.TEXTS)}
    known |= dict.fromkeys(sorted(inventory_vars.PORTS), _PORT)
    known |= {inventory_vars.PROFILES: _PROFILES, "ansible_become": _SWITCH, **more}
    refused = [*inventory_vars.MAGIC, *({inventory_vars.PRIORITY} - set(more))]
    told = {name: {"description": meaning, **known[name]} for name, meaning in _TOLD.items()}
    return {
        "type": "object",
        "properties": {name: parts.nullable(schema) for name, schema in {**known, **told}.items()},
        "propertyNames": {"not": {"enum": refused}},
    }
