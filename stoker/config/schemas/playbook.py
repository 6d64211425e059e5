"""The JSON Schema of playbooks, out of the keywords and a table of the modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.config import schema_parts as parts
from stoker.config.books import playbookwords as words
from stoker.config.schema_parts import Schema

BUILTIN = "ansible.builtin."

_TEXT = parts.text(flags=True)
_NAMES = parts.one_or_many(parts.text(r"\S"))
_HOSTS: Schema = {**_NAMES["anyOf"][1], "minItems": 1}
_EXPRESSION: Schema = {
    "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^(?![\s\S]*\{[{%#])[\s\S]*\S"}]
}
CONDITIONS = parts.one_or_many(_EXPRESSION)
_TRUTH = parts.template_or({"type": "boolean"})
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)"
_VARIABLES: Schema = {"anyOf": [parts.named({}, _VARIABLE), parts.NULL]}
_COUNT: Schema = parts.template_or({"type": "integer", "minimum": 0})
_SHARE: Schema = {"anyOf": [_COUNT, {"type": "string", "pattern": r"^\s*[0-9]+\s*%?\s*$(?!\n)"}]}
_ENVIRONMENT: Schema = parts.one_or_many({"anyOf": [{"type": "object"}, parts.TEMPLATE]})
_SECONDS: Schema = {"anyOf": [{"type": "number", "minimum": 0}, parts.TEMPLATE, parts.NULL]}

_LOOP_CONTROL: Schema = {
    "type": "object",
    "properties": {
        "loop_var": parts.text(_VARIABLE, numbers=False),
        "index_var": parts.text(_VARIABLE, numbers=False),
        "label": {},
        "pause": _SECONDS,
    },
    "additionalProperties": False,
}

# What each keyword takes; one that is not here may hold anything.
_KEYWORDS: Mapping[str, tuple[str, Schema]] = {
    "name": ("For people; a template may stand in it.", {"anyOf": [*_TEXT["anyOf"], parts.NULL]}),
    "hosts": ("Patterns: names, groups, ranges.", {"anyOf": [_NAMES["anyOf"][0], _HOSTS]}),
    "vars": ("Variables.", _VARIABLES),
    "vars_files": (
        "Files with variables, relative to the playbook.",
        {"anyOf": [*_NAMES["anyOf"], parts.NULL]},
    ),
    "tags": ("A tag, several with commas, or a list.", _NAMES),
    "gather_facts": ("Stoker gathers none.", {"enum": [False, None]}),
    "when": ("Runs where this holds; written without braces.", CONDITIONS),
    "failed_when": ("Fails where this holds, in place of the module's own judgement.", CONDITIONS),
    "changed_when": ("Has changed something where this holds.", CONDITIONS),
    "loop": ("Once for each; `item` is it.", parts.template_or({"type": "array"})),
    "register": ("Variable that holds what came of it.", parts.text(_VARIABLE, numbers=False)),
    "ignore_errors": ("A failure does not end the host's part.", _TRUTH),
    "no_log": ("Its arguments and results are not shown.", _TRUTH),
    "timeout": ("Seconds.", _SECONDS),
    "args": ("More arguments of the module.", {"type": ["object", "null"]}),
    "until": ("Tried again until this holds.", CONDITIONS),
    "retries": ("How often it is tried again; 3 where only until is given.", _COUNT),
    "delay": ("Seconds between two tries; 5.", _SECONDS),
    "loop_control": ("How the loop names its rounds.", _LOOP_CONTROL),
    "notify": ("Handlers to run at the end where it changes something.", _NAMES),
    "listen": ("What a handler is notified by, besides its name.", _NAMES),
    "environment": ("Variables for commands.", _ENVIRONMENT),
    "ignore_unreachable": ("A lost host goes on with the next task.", _TRUTH),
    "run_once": ("Runs on the first host for all of them.", _TRUTH),
    "any_errors_fatal": ("A failure on one host ends all.", _TRUTH),
    "delegate_to": (
        "The host that does it in place of the play's.",
        {"anyOf": [*_TEXT["anyOf"], parts.NULL]},
    ),
    "become": ("Commands are run as another user, by sudo.", _TRUTH),
    "become_user": ("That user; root.", {"anyOf": [*_TEXT["anyOf"], parts.NULL]}),
    "become_method": ("How.", {"enum": ["sudo"]}),
    "check_mode": ("In place of --check.", _TRUTH),
    "diff": ("In place of --diff.", _TRUTH),
    "serial": ("Hosts at a time: a number, a percentage, or a list of them.", parts.one_or_many(_SHARE)),
    "max_fail_percentage": ("The play ends where more of the hosts fail.", _SECONDS),
    "strategy": ("Whether hosts wait for each other at each task.", {"enum": ["linear", "free"]}),
    "force_handlers": ("Hosts that failed run their handlers too.", _TRUTH),
}
_TASKS: Schema = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/entry"}}, parts.NULL]}
_HANDLERS: Schema = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/handler"}}, parts.NULL]}


@dataclass(frozen=True)
class Module:
    """What is known of a module.

    Args:
        meaning: One line.
        arguments: Schema of each.
        free: The argument that a bare value is; empty where a mapping is demanded.
        needs: Of each of these groups, one argument must be there.
        any_name: Any other name is an argument too.
    """

    meaning: str
    arguments: Mapping[str, Schema]
    free: str = ""
    needs: tuple[tuple[str, ...], ...] = field(default=())
    any_name: bool = False


def schema(modules: Mapping[str, Module]) -> Schema:
    """The whole schema.

    Args:
        modules: What a task may do, by name.
    """
    sections = ("tasks", "pre_tasks", "post_tasks")
    plays = {name: _keyword(name) for name in sorted(words.PLAY - {*sections, "handlers"})}
    plays |= {name: {"description": "In order.", **_TASKS} for name in sections}
    plays["handlers"] = {"description": "Run where they are notified.", **_HANDLERS}
    play = parts.closed(plays, required=["hosts"])
    imports = {name: _keyword(name) for name in sorted(words.IMPORT)}
    blocks = {name: _keyword(name) for name in sorted(words.BLOCK - {"block", "rescue", "always"})}
    blocks |= {name: {"description": "In order.", **_TASKS} for name in ("block", "rescue", "always")}
    return parts.whole_file(
        "Stoker: a playbook",
        "A runbook in Ansible's shape.",
        {
            "type": "array",
            "items": {
                "if": {"type": "object", "required": ["import_playbook"]},
                "then": {"$ref": "#/$defs/import"},
                "else": {"$ref": "#/$defs/play"},
            },
            "minItems": 1,
            "$defs": {
                "play": play,
                "import": parts.closed(imports, required=["import_playbook"]),
                "entry": {
                    "if": {
                        "type": "object",
                        "anyOf": [{"required": [name]} for name in ("block", "rescue", "always")],
                    },
                    "then": {"$ref": "#/$defs/block"},
                    "else": {"$ref": "#/$defs/task"},
                },
                "block": parts.closed(blocks, required=["block"]),
                "handler": _task(modules, words.HANDLER, "handler"),
                "task": _task(modules, words.TASK, "task"),
            },
        },
    )


def _keyword(name: str) -> Schema:
    if name not in _KEYWORDS:
        return {}
    meaning, schema = _KEYWORDS[name]
    return {"description": meaning, **schema}


def _task(modules: Mapping[str, Module], known: frozenset[str], of: str) -> Schema:
    """A task: its keywords, and exactly one module, with or without Ansible's prefix."""
    bodies = {name: _body(module) for name, module in sorted(modules.items())}
    named = {**bodies, **{BUILTIN + name: {"$ref": f"#/$defs/{of}/properties/{name}"} for name in bodies}}
    keywords = {name: _keyword(name) for name in sorted(known)}
    return parts.closed({**keywords, **named}, oneOf=[_only(name, of) for name in named])


def _only(name: str, of: str) -> Schema:
    """That a task has this module, whose arguments may stand under ``args`` too."""
    body = name.removeprefix(BUILTIN)
    return {"required": [name], "properties": {"args": {"$ref": f"#/$defs/{of}/properties/{body}"}}}


def _body(module: Module) -> Schema:
    """What stands under a module's name."""
    spelled = dict(module.arguments)
    spelled |= {name.replace("_", "-"): value for name, value in module.arguments.items()}
    mapping: Schema = {"type": "object", "properties": spelled, "additionalProperties": False}
    if module.any_name:
        mapping |= {"additionalProperties": {}, "propertyNames": {"pattern": _VARIABLE}}
    choices: list[Schema] = [mapping, parts.NULL]
    if module.free:
        own = module.arguments[module.free]
        choices.append({"allOf": [own, {"not": {"type": ["object", "array", "null"]}}]})
    return {"description": module.meaning, "anyOf": choices}
