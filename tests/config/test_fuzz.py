"""Files that people write, generated and broken: a command ends with 0 or 2, soon, and touches nothing.

Few in CI; ``inv dev.fuzz`` runs ten thousand.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invoke.config import Config
from invoke.context import Context
from invoke.exceptions import Exit

from stoker.config.secrecy.secrets import Secrets
from stoker.config.secrecy.secretsources import FromFile
from stoker.errors import InputError
from stoker.results.baselines.baseline import Baselines
from stoker.tasks import check_settings_files, lint, play, profiles, project, schemas
from tests.config.fromschema import ANY, documents, mutated

ROOT = Path(__file__).parents[2]
MANY = settings(
    max_examples=int(os.environ.get("STOKER_FUZZ", "15")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
SOON_S = 10.0

SCHEMAS: dict[str, Any] = {
    name.removesuffix(".json"): json.loads(text) for name, text in schemas.texts().items()
}
BASELINE = """\
schema: 1
key: {host: node174, model: m, engine: sglang, bench: decode, tokens: 500, concurrency: 1, simulated: false}
launches:
- {run_id: r, launch_id: l, created: 1.5, tok_s: [88.5, 89.1]}
fingerprint: {env: {NCCL_ALGO: Ring}, gpus: [{index: 0}]}
"""
INI = """\
# more
[gpu]
n7 ansible_host=10.0.0.7 note="two words" list="[1, 2]"
n[1:3]:2222 a=1
[gpu:vars]
b={'k': [1, True, None]}
[top:children]
gpu
"""
FILES = {
    "inventory": "inventory/hosts.yml",
    "ini": "inventory/more.ini",
    "variables": "inventory/group_vars/gpu.yml",
    "profile": "profiles/nccl-tuned.yml",
    "playbook": "playbooks/restart-and-compare.yml",
    "invoke": "invoke.yaml",
    "baseline": "baselines/one.yml",
    "template": "profiles/templates/launch.sh.j2",
    "secret": "token",
}
# What breaks parsers, quoting, templates, encodings, limits.
ODD = (
    *(b"{{", b"}}", b"{% for i in range(10**9) %}", b"{{ 'x' * 10**10 }}", b"{% include 'launch.sh.j2' %}"),
    *(
        b"!secret X",
        b"!!python/object:os.system",
        b"!vault |\n  x",
        b"&a [*a]",
        b"*a",
        b"<<: *a",
        b"\t",
        b"\0",
    ),
    *(
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"---\n",
        b"...\n",
        b"%YAML 9\n",
        b"\n",
        b"\0",
    ),
    *(b"- ", b"null", b"~", b"no", b"0644", b"1e999", b".nan", b"9" * 400, b"2024-02-30", b"[" * 200),
    *(b"{a: " * 200, b"\\", b"'", b'"', b"\r", b"$(id)", b"`id`", b"../../x", b"x" * 5000, b"? ", b": "),
    *(b"[1:99999999]", b"node[1:3]", b"all", b"(?P<", b"(a+)+$", b"cmd:(", b"null: null", b"hosts:", b"  "),
    *(b"[all:vars]", b"[x:children]", b"a='", b"=", b"[" * 99, b"(" * 99, b"#", b"{1: {2}}", b"b'\\xff'"),
    *(b"extends: nccl-tuned", b"vars:"),
)


@pytest.fixture(scope="module")
def good() -> Iterator[Path]:
    """A project in which everything is right."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        shutil.copytree(ROOT / "stoker" / "scaffold", root, ignore=shutil.ignore_patterns("*.in", "dot-*"))
        (root / "baselines").mkdir(exist_ok=True)
        (root / FILES["baseline"]).write_text(BASELINE)
        (root / "profiles" / "templates").mkdir()
        template = '{% extends "launch.sh.j2" %}{% block run %}{{ super() }}{% endblock %}'
        (root / FILES["template"]).write_text(template)
        (root / FILES["secret"]).write_text("s3cret\n")
        (root / FILES["ini"]).write_text(INI)
        yield root


def broken(text: bytes, seed: random.Random) -> bytes:
    """A file with a few things done to it: taken out, doubled, swapped, odd ones put in."""
    for _ in range(seed.randint(1, 4)):
        at, end = sorted(seed.randrange(len(text) + 1) for _ in range(2))
        how = seed.randrange(6)
        if how == 0:
            text = text[:at] + text[end:][: 10**5]
        elif how == 1:
            text = text[:end] + text[at:]
        elif how == 2:
            lines = text.splitlines(keepends=True)
            seed.shuffle(lines)
            text = b"".join(lines)
        elif how == 3:
            text = text[:at] + seed.randbytes(seed.randint(1, 8)) + text[at:]
        else:
            text = text[:at] + seed.choice(ODD) + text[at:]
    return text[: 2 * 10**5]


@st.composite
def contents(draw: st.DrawFn, kind: str, original: bytes) -> bytes:
    """A file of a kind: out of its schema, out of a good one, or out of nothing."""
    seed = random.Random(draw(st.integers(0, 2**32)))
    how = draw(st.sampled_from(("schema", "mutated", "broken", "broken", "bytes")))
    if how == "bytes":
        return draw(st.binary(max_size=200))
    if how == "broken" or kind not in SCHEMAS:
        return broken(original, seed)
    document = draw(documents(SCHEMAS[kind]))
    if how == "mutated":
        document = mutated(document, seed, draw(ANY))
    text = yaml.safe_dump(document, allow_unicode=draw(st.booleans())).encode()
    return broken(text, seed) if draw(st.booleans()) else text


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def ended(call: Callable[[], object]) -> int:
    """A command's exit code; anything but an orderly end is raised."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            call()
    except Exit as end:
        code = int(end.code or 0)
    except InputError as error:
        code = error.exit_code
    else:
        code = 0
    said = out.getvalue() + err.getvalue()
    assert "Traceback" not in said, said
    return code


def commands(kind: str, root: Path) -> Iterator[Callable[[], object]]:
    """What reads a file of this kind."""
    if kind == "secret":
        (root / "token").chmod(0o600)
        yield lambda: Secrets({}, sources={"T": FromFile(root / "token")}).value("T", where="x")
        return
    if kind == "baseline":
        yield Baselines(root / "baselines").all
    try:
        values = yaml.safe_load((root / "invoke.yaml").read_bytes()) if kind == "invoke" else None
    except (yaml.YAMLError, ValueError, RecursionError):
        values = None
    stoker = values.get("stoker") if isinstance(values, dict) else None
    if kind == "invoke":
        yield lambda: check_settings_files(root)
    config = {"stoker_root": str(root), "stoker": stoker if isinstance(stoker, dict) else {}}

    def run(command: Any, *given: Any, **named: Any) -> Callable[[], object]:
        def call() -> object:
            if kind == "invoke":
                check_settings_files(root)  # before Invoke merges what is in it
            return command(Context(Config(overrides=config)), *given, **named)

        return call

    none: dict[str, Any] = {"host": [], "inventory": None, "json": True}
    if kind in ("inventory", "ini", "variables", "invoke"):
        yield run(project.hosts, **none)
    if kind in ("variables", "profile", "template", "inventory", "ini"):
        shown: dict[str, Any] = {"forks": None, "running": False, "diff": []}
        yield run(profiles.profiles, **none, **shown, profile=["nccl-tuned"])
        yield run(project.render, **{**none, "host": ["all"]}, profile=["nccl-tuned"], diff=False)
    if kind == "playbook":
        more: dict[str, Any] = {"forks": None, "check": False, "list_tasks": True, "list_hosts": False}
        lists: dict[str, Any] = {name: [] for name in ("limit", "tags", "skip_tags", "extra_var")}
        yield run(play.play, book="restart-and-compare", inventory=None, json=True, **more, **lists)
    yield run(lint.lint, **none, forks=None, profile=[], online=False, format=None)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", sorted(FILES))
@MANY
@given(data=st.data())
def test_no_file_makes_a_command_fail_or_hang(kind: str, good: Path, data: st.DataObject) -> None:
    original = (good / FILES[kind]).read_bytes()
    content = data.draw(contents(kind, original))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "p"
        shutil.copytree(good, root)
        (root / FILES[kind]).write_bytes(content)
        before = snapshot(root)
        for call in commands(kind, root):
            begin = time.monotonic()
            assert ended(call) in (0, 2)
            assert time.monotonic() - begin < SOON_S
        assert snapshot(root) == before


@pytest.mark.parametrize("kind", sorted(FILES))
def test_the_good_project_is_right(kind: str, good: Path) -> None:
    assert {ended(call) for call in commands(kind, good)} == {0}
