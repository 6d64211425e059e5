"""The reference pages that are made out of the code: commands and profiles."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module

from pydantic import BaseModel

from stoker.config import meanings
from stoker.fleet.flags import Flag
from stoker.tasks import lab
from stoker.tasks.command import CHANGING, READING, Command
from stoker.tasks.lintpage import page as lint_page
from stoker.tasks.names import SHELF
from stoker.tasks.tuningpage import page as tuning

_HEAD = """\
# Commands

Made from the code by `inv dev.docs`. `inv NAME` in a project and `stoker NAME` are the same program.

Exit codes: 0 done; 1 a fault in Stoker itself (and Invoke's own usage errors); 2 the input is wrong and
nothing was touched; 3 a host failed; 4 a host was unreachable and none failed; 5 a regression was found; 130
interrupted once a command had begun. Several at once: 3 before 4 before 5.

Under `--check`, `changed` in the document of `--json` is `would` where something would be changed.
"""

# Heading to the modules whose commands stand under it; what none names comes at the end.
_SECTIONS = {
    "The project and its hosts": (
        "project",
        "execute",
        "trust",
        "transfer",
        "lint",
        "profiles",
        "capture",
        "doctor",
    ),
    "The life of a server": ("life", "persist", "look"),
    "Measure, judge, explain": ("measure", "results", "experiments", "report"),
    "Runbooks": ("play",),
    "The lab": ("demo",),
}


def pages() -> dict[str, str]:
    """File name in docs/ to the page."""
    return {"commands.md": commands(), "profile.md": profile(), "lint.md": lint_page(), "tuning.md": tuning()}


def commands() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD, "## Flags that commands share\n\n" + _table(CHANGING)]
    parts.append("Reading commands have the first four; commands that change hosts have them all.\n")
    placed = {name for names in _SECTIONS.values() for name in names}
    sections = {**_SECTIONS, "More": tuple(name for name in SHELF if name not in placed)}
    for title, names in sections.items():
        tasks = [task for name in names for task in import_module(f"stoker.tasks.{name}").COMMANDS]
        parts += _section(title, tasks) if tasks else ()
    parts += _section("", lab.COMMANDS, prefix="lab.")
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str, tasks: Iterable[Command], *, prefix: str = "") -> Iterator[str]:
    if title:
        yield f"## {title}\n"
    for task in tasks:
        flags = task.flags
        changes, reads = set(CHANGING) <= set(flags), set(READING) <= set(flags)
        shared = CHANGING if changes else READING if reads else ()
        note = " *(changes hosts)*" if changes else ""
        own = [flag for flag in flags if flag not in shared]
        words = "".join(f" {flag.name.upper()}" for flag in own if flag.positional)
        yield f"### `inv {prefix}{task.name}{words}`{note}\n"
        yield inspect.getdoc(task.body) or ""
        rest = [flag for flag in own if not flag.positional]
        yield "\n" + _table(rest) if rest else ""


def _table(flags: Iterable[Flag]) -> str:
    """Flags with what they take and what they mean."""
    takes = {"list": "TEXT, repeatable", "flag": "", "whole": "NUMBER", "number": "NUMBER"}
    takes |= {"text": "TEXT", "regex": "REGEX", "since": "AGE or TIME", "name": "NAME"}
    rows = [
        f"| `{f.spelled}` | {takes[f.kind]}{'' if f.alone is None else ', or nothing'} "
        f"| {f.help.replace('|', chr(92) + '|')} |"
        for f in flags
    ]
    return "\n".join(["| flag | takes | |", "|---|---|---|", *rows]) + "\n"


_PROFILE_HEAD = """\
# Profiles

Made from the code by `inv dev.docs`. A profile is a YAML file `profiles/NAME.yml`; the name is the file's.

- `extends` names one parent or a list; later ones win; mappings are merged key by key, lists replace,
  `null` unsets.
- Values may use Jinja2 over the host's variables, sandboxed and strict: `model: "{{ models }}/Kimi-K2.5"`.
- Values of `env` reach the process as exactly the strings written: `NO` stays `NO`, `0644` stays `0644`.
- `args`: `true` is the bare flag; `false` and `null` leave it out; a list is several values; a mapping is
  JSON.
- Secrets come by reference, `!secret NAME`: from the controller's environment, else from where `invoke.yaml`
  says, `stoker: {secrets: {NAME: {command: [pass, show, hf]}}}` (the first line that it prints) or
  `{file: PATH}` (all of a file that only its owner can read), else from the command that the setting
  `stoker.secret_command` names. Each is asked once a run. On the host they lie in one 0600 file beside the
  launch script.
- `expect` states what an engine is known to turn a variable into, so that the proof does not complain.
- The launch script is rendered from a template, of which a project may override blocks; see below.
- `run:RUN-ID` in place of a name is what that run had: a record is also a profile.
- `inv capture --host HOST --port PORT --name NAME` writes the profile of a server that somebody started by
  hand, and says in comments what it could not know; with `--search 'NCCL_*' --notes docs` in place of a port
  it makes one of what notes and start-up files say. What it writes is there to be read before it is used.

## Launch templates

The first of `PROFILE.sh.j2`, `ENGINE.sh.j2` and `launch.sh.j2` in `profiles/templates/` is taken in place of
Stoker's `launch.sh.j2`. It lays blocks over it, and keeps the rest, also of a newer Stoker:

```
{% extends "launch.sh.j2" %}
{% block setup %}
ulimit -n 65536
{{ super() }}{% endblock %}
```

A `launch.sh.j2` that extends its own name extends Stoker's, which is `stoker/launch.sh.j2` everywhere.

| block | what it does |
|---|---|
| `clean` | begins again without the caller's variables |
| `basics` | `PATH`, `LANG` and what marks the slot |
| `gpus` | which GPUs it may use |
| `tuning` | the profile's `env` |
| `secrets` | reads `secrets.env`, where there are any |
| `folder` | goes to the home folder |
| `setup` | the profile's `server.setup`; what fails ends the launch |
| `run` | becomes the server |

| variable | |
|---|---|
| `profile` `hash` `host` `slot` `engine` | names, and the resolved profile's hash |
| `kept` | names of variables that survive `clean` |
| `path` | the server's `PATH` |
| `gpus` | indices and UUIDs; empty for all, or none |
| `env` | name to value |
| `secrets` | whether there are any |
| `setup` | shell commands |
| `argv` | the server's command, a list |

Every `{{ x }}` comes out as quoted words and never belongs inside quotes; `| shell` passes text as it is,
`| comment` makes a comment, `| words` breaks a command at its options. What a block, a macro or `super()`
gives is shell already. Templates are sandboxed: they see these variables and the files of
`profiles/templates/` alone, and one that does not end is ended. A mistake is told with the template's file
and line.

## Schemas

The first line of each file, `# yaml-language-server: $schema=…`, names the JSON Schema by which editors
complete and check it. The schemas lie in the project's `schemas/`; `inv init . --schemas` lays those of a
newer Stoker. What a schema allows has no mistake of shape. In this the loader is stricter:

- names must exist, be set once and fit each other: profiles that are extended, groups in groups, files of
  variables, modules with what they need, arguments that Stoker sets itself;
- what templates, expressions, patterns of hosts and regular expressions say is read; IPv6 addresses too;
- `api_key` is a reference, `!secret NAME`: a schema sees a text, and an editor needs `!secret scalar` among
  its custom tags;
- a value is taken as it is written: `30000.0` is no whole number, and `0644` is a text.
"""


def profile() -> str:
    """The page about profiles, its fields out of the models."""
    from stoker.config.profiles import model as profile_model
    from stoker.config.profiles import sections as profile_sections

    parts = [_PROFILE_HEAD, "## Fields\n", _fields("", profile_model.Profile)]
    for name, section in (
        ("server", profile_sections.Server),
        ("hooks", profile_sections.Hooks),
        ("ready", profile_sections.Ready),
        ("kill", profile_sections.Kill),
        ("bench", profile_sections.Bench),
    ):
        parts += [f"## `{name}`\n", _fields(f"{name}.", section)]
    return "\n".join(parts).rstrip() + "\n"


def _fields(prefix: str, model: type[BaseModel]) -> str:
    """A model's fields with what its docstring says of them and what they are by default."""
    rows = [
        f"| `{prefix}{name}` | {meaning} | {_default(model, name)} |"
        for name, meaning in meanings.of(model).items()
    ]
    return "\n".join(["| field | | by default |", "|---|---|---|", *rows]) + "\n"


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "must be there"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel) or value in (None, "", (), {}):
        return ""
    return f"`{value}`"
