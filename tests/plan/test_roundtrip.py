"""Any string without NUL, written into a profile's file, reaches the live process byte for byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from stoker.config.templating.template import has_template
from stoker.plan import LaunchPlan, build
from tests.plan.conftest import Shell
from tests.plan.test_script import Folder

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
HARD = "\n\r\t\x0b\x7f\x85\u2028\ufeff '\"$`\\!#{}[]&*%@|<>=~^é𝄞"
SOME = settings(
    max_examples=int(os.environ.get("STOKER_FUZZ", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def planned(folder: Path, env: dict[str, Any], **variables: str) -> LaunchPlan:
    """The plan of a profile's file, whose server prints its environment."""
    server = {"model": "m", "port": 30000, "command": ["/usr/bin/env", "-0"]}
    # Escaped where it must be: a bare U+0085 is a line break to YAML 1.1.
    text = yaml.safe_dump({"engine": "openai", "server": server, "env": env})
    (folder / "it.yml").write_bytes(text.encode())
    host = Host("box", variables, (), "")
    profile = Library(folder, folder).resolve("it", host)
    return build(host, "it", profile, secrets=None, templates=())


def literal(value: str) -> str:
    """A text as people write it where nothing in it may be read as a template."""
    return value if not has_template(value) else value.replace("{", "{{ '{' }}")


@SOME
@given(values=st.lists(TEXTS, min_size=1, max_size=4))
@example(values=[HARD, "no", "0644", "1.10", "", " ", "~", "null", "!x", "- a", "a: b", "\n\n", "x\n"])
@example(values=["{{", "{% x", "{# y #}", "}}", "{{ models }}"])
def test_a_value_of_a_file_reaches_the_process_as_it_was_written(
    shell: Shell, folder: Folder, values: list[str]
) -> None:
    at = folder()
    env = {f"V{index}": value for index, value in enumerate(values)}
    # What has both a template and a carriage return is refused: Jinja2 would not keep it.
    env = {name: value for name, value in env.items() if not (has_template(value) and "\r" in value)}
    got = shell.environment(at, planned(at, {name: literal(value) for name, value in env.items()}))
    assert {name: got.get(name) for name in env} == env


@SOME
@given(value=TEXTS.filter(lambda text: not has_template(text)))
@example(value=HARD)
def test_a_value_of_a_hosts_variable_reaches_the_process_as_it_is(
    shell: Shell, folder: Folder, value: str
) -> None:
    at = folder()
    got = shell.environment(at, planned(at, {"V": "{{ value }}", "W": "<{{ value }}>"}, value=value))
    assert (got["V"], got["W"]) == (value, f"<{value}>")
