"""The judge is Ansible itself: generated inventories and patterns mean the same to both, or Stoker refuses.

What Stoker refuses and Ansible takes is in docs/inventory.md. What Ansible refuses Stoker must refuse too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from stoker.config.inventories import inventory
from stoker.config.inventories import listing as inventory_listing
from stoker.config.inventories.vars import MAGIC
from stoker.errors import ConfigError, InputError
from tests.config.conftest import CASES
from tests.config.judge import Judge

pytest.importorskip("ansible", reason="ansible-core, of the extra dev, is the judge")

EXAMPLES = int(os.environ.get("STOKER_FUZZ", "150"))
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),  # a smaller number is no smaller inventory
)
LEAST = 2000  # comparisons a run

GROUPS = ("web", "db", "gpu", "rack-1", "eu_west", "h200", "all", "ungrouped")
HOSTS = ("n1", "n2", "n10", "db1", "a.example.com", "10.0.0.7", "x-y")
ENTRIES = (*HOSTS, "n[1:3]", "n[01:04]", "r[a:c]-[1:2]", "m[0:8:4]", "q[5:6].example.com", "p7:2222")
NAMES = ("a", "b", "c", "d", "ansible_user", "ansible_host")
VALUES = (
    "1",
    "x",
    "a b",
    "True",
    "yes",
    "0644",
    "1.10",
    "[1, 2]",
    "{'k': 'v'}",
    "'q'",
    "None",
    "x # y",
    "a=b",
)
PARTS = ("web", "db", "gpu", "rack-1", "all", "ungrouped", "n1", "n2", "db1", "a.example.com", "10.0.0.7")
TERMS = (
    *(*PARTS, "n*", "*", "w*", "*.example.com", "?1", "[nd]*", "~n[0-9]+", "~(web|db)$", "~.*1", "~w"),
    *(
        "web[0]",
        "web[-1]",
        "web[0:1]",
        "web[1:]",
        "all[2]",
        "all[-2]",
        "n*[0]",
        "db[0:0]",
        "gpu[7]",
        "nobody",
    ),
)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(tmp_path_factory.mktemp("ansible")) as one:
        yield one


def group_trees(seed: Random) -> dict[str, dict[str, Any]]:
    """Groups with hosts, variables and children; a child comes after its parent, so without loops."""
    groups: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(GROUPS):
        if seed.random() < 0.5:
            continue
        below = [child for child in GROUPS[number + 1 :] if child not in ("all", "ungrouped")]
        body: dict[str, Any] = {
            "hosts": {entry: variables(seed, 2) for entry in some(seed, ENTRIES, 4)},
            "vars": variables(seed, 3),
            "children": some(seed, below, 2),
        }
        if name not in ("all", "ungrouped") and seed.random() < 0.25:
            body["priority"] = seed.randint(-1, 20)
        groups[name] = body
    return groups


def some(seed: Random, among: Sequence[str], most: int) -> list[str]:
    return seed.sample(among, min(len(among), seed.randint(0, most)))


def variables(seed: Random, most: int) -> dict[str, str]:
    return {name: seed.choice(VALUES) for name in some(seed, NAMES, most)}


def usable(given: Mapping[str, str], *, yml: bool) -> dict[str, str]:
    """Without values that Stoker refuses for what they are: a user or an address that is no text."""
    odd = {"1", "True", "None", "[1, 2]", "{'k': 'v'}"} | ({"yes", "0644", "1.10"} if yml else {"1.10"})
    return {n: v for n, v in given.items() if not (n.startswith("ansible_") and v in odd)}


def in_yaml(groups: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, body in groups.items():
        lines.append(f"{name}:")
        given = usable(body["vars"], yml=True) | (
            {"ansible_group_priority": str(body["priority"])} if "priority" in body else {}
        )
        lines += ["  vars:", *(f"    {n}: {_scalar(v)}" for n, v in given.items())] if given else []
        lines += ["  children:", *(f"    {child}:" for child in body["children"])] if body["children"] else []
        lines += ["  hosts:"] if body["hosts"] else []
        for entry, of_host in body["hosts"].items():
            lines.append(f"    {entry if ':' not in entry else repr(entry)}:")
            lines += [f"      {n}: {_scalar(v)}" for n, v in usable(of_host, yml=True).items()]
    return "\n".join(lines) + "\n"


def _scalar(value: str) -> str:
    return "'x # y'" if "#" in value else value


def in_ini(groups: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, body in groups.items():
        if name != "all":
            lines.append(f"[{name}]")
            for entry, of_host in body["hosts"].items():
                given = (f'{n}="{v}"' for n, v in usable(of_host, yml=False).items())
                lines.append(" ".join((entry, *given)))
        given_vars = usable(body["vars"], yml=False)
        if "priority" in body:
            given_vars["ansible_group_priority"] = str(body["priority"])
        lines += [f"[{name}:vars]", *(f"{n} = {v}" for n, v in given_vars.items())] if given_vars else []
        lines += [f"[{name}:children]", *body["children"]] if body["children"] else []
    declared = {name for name in groups if name != "all"}
    missing = {child for body in groups.values() for child in body["children"]} - declared
    return "\n".join((*lines, *(f"[{name}]" for name in sorted(missing)), "")) or "\n"


def project(seed: Random) -> dict[str, str]:
    """Files below ``inventory`` and ``playbooks`` by path."""
    files: dict[str, str] = {}
    for name, write in (("10.yml", in_yaml), ("20-hosts", in_ini), ("30.ini", in_ini)):
        if seed.random() < 0.5 and (groups := group_trees(seed)):
            files[f"inventory/{name}"] = write(groups)
    if not files:
        files["inventory/hosts.ini"] = "n1\nn2\n[web]\nn1\n"
    for folder in ("inventory", "playbooks"):
        for kind, names in (("group_vars", GROUPS), ("host_vars", HOSTS)):
            for name in some(seed, names, 2):
                ending = seed.choice(("", ".yml", ".yaml", ".json", "/a.yml"))
                values = dict.fromkeys(some(seed, "abcd", 3), f"{folder} {name}")
                files[f"{folder}/{kind}/{name}{ending}"] = yaml.safe_dump(values, default_flow_style=True)
    return files


def choice(seed: Random) -> str:
    """A pattern of one to three terms."""
    terms = (seed.choice(("", "", "!", "&")) + term for term in seed.choices(TERMS, k=seed.randint(1, 3)))
    return seed.choice((":", ",")).join(terms)


def meaning(found: inventory.Inventory) -> tuple[dict[str, Any], dict[str, Any]]:
    own = {"group_names", "inventory_hostname_short"}
    hosts = {
        name: {key: value for key, value in host.vars.items() if key not in MAGIC or key in own}
        for name, host in found.hosts.items()
    }
    return hosts, {name: list(group.members) for name, group in found.groups.items()}


def lay(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def hold_all_to(said: Mapping[str, Any], found: inventory.Inventory, patterns: Sequence[str]) -> None:
    """Hosts, variables, groups and what patterns choose are as Ansible says.

    In which order a group has the hosts of its children's children is random in Ansible (it walks a set).
    Where that shows, orders are not compared.
    """
    hosts, groups = meaning(found)
    assert hosts == said["hosts"]
    assert list(hosts) == list(said["hosts"])
    ordered = groups == said["groups"]
    assert ordered or {n: set(m) for n, m in groups.items()} == {n: set(m) for n, m in said["groups"].items()}
    for pattern in patterns:
        if ordered or "[" not in pattern:
            hold_to(said["select"], found, pattern, ordered=ordered)


def hold_to(said: Mapping[str, Any], found: inventory.Inventory, pattern: str, *, ordered: bool) -> None:
    """A pattern chooses what Ansible says, or is refused for a reason that Ansible's answers show."""
    try:
        chosen = [host.name for host in found.select([pattern])]
    except InputError as error:
        text = str(error)
        if "no host or group matches" in text:
            assert any(not said[term] or isinstance(said[term], str) for term in terms_of(pattern)), text
        elif "out of range" in text:
            assert isinstance(said[pattern], str), text
        else:
            assert "no host is left" in text or "has no hosts" in text
            assert said[pattern] == []
        return
    assert chosen == said[pattern] or (not ordered and set(chosen) == set(said[pattern])), pattern


def terms_of(pattern: str) -> list[str]:
    separator = "," if "," in pattern else r":(?![^\[]*\])"
    return [term.lstrip("!&") for term in re.split(separator, pattern)]


def test_generated_inventories_and_patterns_mean_what_they_mean_to_ansible(judge: Judge) -> None:
    compared = 0

    @MANY
    @given(number=st.integers(0, 2**32))
    def holds(number: int) -> None:
        nonlocal compared
        seed = Random(number)
        files, patterns = project(seed), sorted({choice(seed) for _ in range(16)})
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            lay(root, files)
            sources, playbooks = [root / "inventory"], root / "playbooks"
            alone = {term for pattern in patterns for term in terms_of(pattern)}
            said = judge.ask(sources, sorted({*patterns, *alone}), playbooks)
            assert not any("Failed to parse" in text for text in said["failed"]), said["failed"]
            found = inventory.load(sources, root=root, playbooks=playbooks)
            hold_all_to(said, found, patterns)
            compared += 2 + len(patterns)

    holds()
    assert compared >= LEAST


LINES = (
    *(
        "[web]",
        "[db:vars]",
        "[web:vars]",
        "[top:children]",
        "[web:children]",
        "[all:vars]",
        "[x y]",
        "[web:no]",
    ),
    *(
        "web",
        "db",
        "n1",
        "n[1:3]",
        "n1:22 a=1",
        "n1 a='x y' b=\"[1,2]\"",
        "n2 a",
        "n3 a= b=#c",
        "a=1",
        "a = 'q'",
    ),
    *("b=[1,", "c={'a': (1, b'x')}", "d=...", "e=1j", "f=0x1F", "g=1_000", "h=None # x", "i='a' 'b'", "j=-5"),
    *("# c", "; c", "n4 # c", "n5 a=1#c", "[web] # c", "db # c", "[", "]", "n[1-3]", "n[3:1]", "  n6  x=1  "),
    *(
        "[web:children]x",
        "---",
        "n7:",
        "k==v",
        "l=",
        "=v",
        "n8 =v",
        "n9 a=1 a=2",
        "m=\\n",
        'o="',
        "n\\ 1",
        "''",
    ),
)


@MANY
@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
def test_an_ini_file_that_stoker_takes_means_the_same_to_ansible(judge: Judge, lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hosts.ini"
        path.write_text("\n".join(lines) + "\n")
        try:
            found = inventory.load([path], root=Path(folder))
        except ConfigError:
            return  # stricter, or wrong for both; that both agree on what is right holds the test above
        said = judge.ask([path])
        assert not any("Failed to parse" in text for text in said["failed"]), said["failed"]
        assert meaning(found) == (said["hosts"], said["groups"])


REAL = sorted(path for path in (CASES / "inventory" / "real").iterdir())


@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_inventories_of_real_size_and_mess_mean_what_they_mean_to_ansible(judge: Judge, case: Path) -> None:
    patterns = (case / "patterns").read_text().splitlines()
    alone = {term for pattern in patterns for term in terms_of(pattern)}
    sources, playbooks = [case / "inventory"], case / "playbooks"
    said = judge.ask(sources, sorted({*patterns, *alone}), playbooks)
    assert not any("Failed to parse" in text for text in said["failed"]), said["failed"]
    found = inventory.load(sources, root=case, playbooks=playbooks)
    hold_all_to(said, found, patterns)


@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_the_listing_and_the_graph_are_those_of_ansible_inventory(case: Path, tmp_path: Path) -> None:
    found = inventory.load([case / "inventory"], root=case)
    mine = inventory_listing.listing(found, found.select(["all"]))
    theirs = json.loads(ansible_inventory(tmp_path, case, "--list"))
    assert mine == theirs
    graph = ansible_inventory(tmp_path, case, "--graph").splitlines()
    assert list(inventory_listing.graph(found, found.select(["all"]))) == graph


def test_a_listing_of_some_hosts_is_ansibles_of_that_limit(tmp_path: Path) -> None:
    case = REAL[0]
    found = inventory.load([case / "inventory"], root=case)
    mine = inventory_listing.listing(found, found.select(["h200", "cp1"]))
    assert mine == json.loads(ansible_inventory(tmp_path, case, "--list", "--limit", "h200,cp1"))


def ansible_inventory(home: Path, case: Path, *words: str) -> str:
    (home / "ansible.cfg").touch()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environ |= {"ANSIBLE_HOME": str(home), "ANSIBLE_CONFIG": str(home / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
    program = Path(sys.executable).with_name("ansible-inventory")
    argv = [str(program), "-i", str(case / "inventory"), *words]
    return subprocess.run(argv, env=environ, cwd=home, check=True, text=True, stdout=subprocess.PIPE).stdout
