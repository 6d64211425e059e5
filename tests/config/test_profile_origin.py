"""Where the values of a profile come from, and what differs between two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.inventories.inventory import Host
from stoker.config.profiles.origin import Setting, differences
from stoker.config.profiles.profile import Library

HOST = Host("h", {"models": "/m"}, (), "")
FILES = {
    "profiles/base.yml": """\
engine: vllm
server:
  model: "{{ models }}/x"
  port: 1
  args: {a: 1, b: [1, 2], c: {k: 1}}
env:
  A: one
  B: two
  KEY: !secret HF
""",
    "profiles/mid.yml": "extends: base\nenv:\n  A: three\n  C: four\nserver:\n  args:\n    a: 2\n",
    "profiles/top.yml": "extends: [mid]\nenv: {B: null, A: five}\nserver: {gpus: [0, 1]}\n",
}


@pytest.fixture
def library(written: Callable[[Mapping[str, str]], Path]) -> Library:
    root = written(FILES)
    return Library(root / "profiles", root)


def by_name(library: Library, name: str) -> dict[str, Setting]:
    return {setting.name: setting for setting in library.origin(name, HOST)}


@pytest.mark.parametrize(
    ("name", "value", "source", "over"),
    [
        ("engine", "vllm", "profiles/base.yml:1", ()),
        ("server.model", "/m/x", "profiles/base.yml:3", ()),
        ("server.args.a", "2", "profiles/mid.yml:7", ("profiles/base.yml:5",)),
        ("server.args.b", ["1", "2"], "profiles/base.yml:5", ()),
        ("server.args.c", {"k": 1}, "profiles/base.yml:5", ()),
        ("env.A", "five", "profiles/top.yml:2", ("profiles/mid.yml:3", "profiles/base.yml:7")),
        ("env.KEY", {"secret": "HF"}, "profiles/base.yml:9", ()),
        ("server.gpus", [0, 1], "profiles/top.yml:3", ()),
        ("bench.runs", 5, "", ()),
    ],
)
def test_each_value_has_the_place_where_it_was_written_and_those_that_it_replaced(
    library: Library, name: str, value: object, source: str, over: tuple[str, ...]
) -> None:
    found = by_name(library, "top")[name]
    assert (found.value, found.source, found.over) == (value, source, over)


def test_a_template_is_shown_as_it_was_written(library: Library) -> None:
    found = by_name(library, "top")
    assert found["server.model"].written == "{{ models }}/x"
    assert found["env.A"].written == ""


def test_what_null_took_away_is_told_with_its_place(library: Library) -> None:
    found = by_name(library, "top")["env.B"]
    assert (found.is_unset, found.value, found.source) == (True, None, "profiles/top.yml:2")
    assert found.over == ("profiles/base.yml:8",)


def test_every_value_of_the_resolved_profile_is_there_once(library: Library) -> None:
    resolved = library.resolve("top", HOST).to_plain()
    names = [setting.name for setting in library.origin("top", HOST)]
    assert len(names) == len(set(names))
    assert {name.split(".")[0] for name in names} == {key for key, value in resolved.items() if value != {}}
    assert {f"server.{key}" for key in resolved["server"]} - {"server.args"} <= set(names)


def test_differences_are_those_of_the_values_not_of_the_files(library: Library) -> None:
    found = {d.name: d for d in differences(library.origin("base", HOST), library.origin("top", HOST))}
    assert set(found) == {"server.args.a", "env.A", "env.B", "env.C", "server.gpus"}
    c = found["env.C"]
    assert c.a is None
    assert c.b is not None
    assert (c.b.value, c.b.source) == ("four", "profiles/mid.yml:4")
    b = found["env.B"]
    assert b.a is not None
    assert b.b is not None
    assert (b.a.value, b.b.is_unset) == ("two", True)
    assert differences(library.origin("top", HOST), library.origin("top", HOST)) == ()
