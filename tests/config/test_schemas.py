"""The shipped JSON Schemas: current, right of themselves, and of one mind with the loaders."""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.config import invokefile
from stoker.config import settings as stoker_settings
from stoker.config.books import playbook
from stoker.config.inventories import inventory
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from stoker.config.templating import template
from stoker.errors import ConfigError, InputError
from stoker.fleet.books import verbs
from stoker.results.baselines import accepted
from stoker.tasks import schemas
from tests.config.conftest import CASES
from tests.config.fromschema import ANY, documents, mutated

ROOT = Path(__file__).parents[2]
SCHEMAS: dict[str, Any] = {
    name.removesuffix(".json"): json.loads(text) for name, text in schemas.texts().items()
}
HOST = Host("h", {"models": "/m"}, (), "")
MODULES = verbs.modules()
FEW = settings(
    max_examples=int(os.environ.get("STOKER_FUZZ", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

# In what a loader is knowingly stricter; docs/profile.md says so.
STRICTER = {
    "profile": (
        *("is missing", "unknown profile", "names no profile", "extend each other", "is set by"),
        *("are the same argument", "are both set", "shows a key to everybody", "reads no API key"),
        *("is set under env: too", "no regular expression", "no IP address"),
        *("lengths go from", "limited twice", ", ttft goes", ", tpot goes", ", e2e goes"),
        *("is of the benchmark serve", "lasts so long, not both"),
    ),
    "inventory": (
        *(
            "unknown variable",
            "child of",
            "brackets",
            "gives more than",
            "port",
            "range",
            "contain each other",
            "contains itself",
        ),
        *("host name", "both a group and a host", "a host and a group of others"),
    ),
    "variables": ("unknown variable",),
    "playbook": (
        *("there is no file", "is given twice", "needs ", "inside a text", "cannot be the name"),
        *("variable that Stoker sets", "one task with", "open quote", "there is no command", "is no name"),
        *("no regular expression", "neither an age nor a time", "no benchmark", "template in vars_files"),
        *("has no effect on", "is not known", "no handler", "includes itself", "belongs to a loop"),
        *("needs a name", "is one task", "cannot name a file"),
        *("is not a number", "is not a whole number", "is no distribution", "lengths go from"),
        *("no kind of arrivals", "no limit", "limited twice", "is out of bounds,"),
    ),
    "baseline": (),
    "invoke": ("could mean",),
}


def refusals(kind: str, document: Any) -> list[str]:
    """What the loader says against a document, less what it is knowingly stricter in."""
    text = yaml.dump(document, Dumper=_Dumper, default_flow_style=True, width=10**6)
    with tempfile.TemporaryDirectory() as folder:
        try:
            LOADERS[kind](Path(folder), text)
        except ConfigError as error:
            said = [str(problem) for problem in error.problems]
        except InputError as error:
            said = [f"{error} {error.next_step}"]
        else:
            said = []
    return [line for line in said if not any(words in line for words in STRICTER[kind])]


def _profile(folder: Path, text: str) -> None:
    (folder / "it.yml").write_text(text, encoding="utf-8")
    Library(folder, folder).resolve("it", HOST)


def _inventory(folder: Path, text: str) -> None:
    (folder / "hosts.yml").write_text(text, encoding="utf-8")
    inventory.load([folder / "hosts.yml"], root=folder)


def _variables(folder: Path, text: str) -> None:
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "h.yml").write_text(text, encoding="utf-8")
    _inventory(folder, "all: {hosts: {h: null}}")


def _playbook(folder: Path, text: str) -> None:
    (folder / "book.yml").write_text(text, encoding="utf-8")
    playbook.load(folder / "book.yml", MODULES)


def _baseline(folder: Path, text: str) -> None:
    accepted.loads(text, "it.yml")


def _invoke(folder: Path, text: str) -> None:
    (folder / "invoke.yaml").write_text(text, encoding="utf-8")
    defaults: dict[str, Any] = {
        name: {} for name in ("run", "runners", "sudo", "tasks", "timeouts", "stoker")
    }
    found = invokefile.problems({folder / "invoke": "invoke"}, defaults, {})
    if found:
        raise ConfigError(found)
    stoker_settings.load(folder, (yaml.safe_load(text) or {}).get("stoker") or {})


LOADERS: dict[str, Callable[[Path, str], None]] = {
    "profile": _profile,
    "inventory": _inventory,
    "variables": _variables,
    "playbook": _playbook,
    "baseline": _baseline,
    "invoke": _invoke,
}


class _Tagged(str):
    """A secret's name, which YAML writes with its tag and JSON Schema sees as a text."""


class _Dumper(yaml.SafeDumper):
    """Writes values out: no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(_Tagged, lambda dumper, data: dumper.represent_scalar("!secret", str(data)))


def prepared(kind: str, document: Any) -> Any:
    """Without templates, which may say anything; a profile's key as the reference that it is."""
    document = _without_templates(document)
    server = document.get("server") if isinstance(document, dict) and kind == "profile" else None
    if isinstance(server, dict) and isinstance(server.get("api_key"), str):
        server["api_key"] = _Tagged(server["api_key"])
    return document


def _without_templates(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            k: _without_templates(v) for k, v in value.items() if not _is_template(v) and not _is_template(k)
        }
    return [_without_templates(v) for v in value if not _is_template(v)] if isinstance(value, list) else value


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and template.has_template(value)


def is_allowed(kind: str, document: Any) -> bool:
    return bool(jsonschema.Draft7Validator(SCHEMAS[kind]).is_valid(document))


@pytest.mark.parametrize("name", schemas.texts())
def test_the_shipped_schemas_are_current(name: str) -> None:
    assert (schemas.FOLDER / name).read_text() == schemas.texts()[name], "run inv dev.docs"
    jsonschema.Draft7Validator.check_schema(json.loads(schemas.texts()[name]))


def test_no_other_schema_is_shipped() -> None:
    assert {path.name for path in schemas.FOLDER.iterdir()} == set(schemas.texts())


def _files() -> Sequence[tuple[str, Path]]:
    """Every file of the repository's own project, of a new one, and the cases that load.

    Not the case with numbers in odd spellings, which are taken as they are written.
    """
    found = []
    for root in (ROOT, ROOT / "stoker" / "scaffold"):
        found += [("profile", path) for path in root.glob("profiles/*.yml")]
        found += [("playbook", path) for path in root.glob("playbooks/*.yml")]
        found += [("inventory", root / "inventory" / "hosts.yml"), ("invoke", root / "invoke.yaml")]
        found += [("variables", path) for path in root.glob("inventory/*_vars/*.yml")]
    cases = (CASES / "profile" / "resolve").rglob("*.yml")
    found += [("profile", path) for path in cases if "as-written" not in path.parent.name]
    found += [("playbook", path) for path in (CASES / "playbook" / "run").glob("*.yml")]
    return found


class _Loader(yaml.SafeLoader):
    """Reads our tags as the texts that an editor sees."""


_Loader.add_constructor("!secret", lambda loader, node: str(node.value))


@pytest.mark.parametrize(
    ("kind", "path"), _files(), ids=lambda value: value if isinstance(value, str) else value.name
)
def test_files_that_load_are_right_by_the_schema(kind: str, path: Path) -> None:
    document = yaml.load(path.read_text(), _Loader)
    jsonschema.validate(json.loads(json.dumps(document, default=str)), SCHEMAS[kind])


@pytest.mark.parametrize("kind", sorted(LOADERS))
@FEW
@given(data=st.data())
def test_what_a_schema_allows_loads_without_a_mistake_of_shape(kind: str, data: st.DataObject) -> None:
    document = prepared(kind, data.draw(documents(SCHEMAS[kind])))
    if is_allowed(kind, document):
        assert refusals(kind, document) == []


@pytest.mark.parametrize("kind", sorted(LOADERS))
@FEW
@given(data=st.data(), seed=st.integers(0, 2**32), spare=ANY)
def test_what_a_loader_refuses_for_its_shape_is_refused_by_the_schema(
    kind: str, data: st.DataObject, seed: int, spare: Any
) -> None:
    document = data.draw(documents(SCHEMAS[kind]))
    document = prepared(kind, mutated(document, random.Random(seed), spare))
    if refusals(kind, document):
        assert not is_allowed(kind, document)
