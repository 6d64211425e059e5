"""Host patterns: which hosts a --host value means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.inventories import patterns
from stoker.errors import InputError

Written = Callable[[Mapping[str, str]], Path]

HOSTS = dict.fromkeys(("n1", "n2", "n3", "db1", "db2", "a.example.com", "fe80::1", "x9", "both"))
MEMBERS = {
    "all": tuple(HOSTS),
    "ungrouped": ("x9",),
    "node": ("n1", "n2", "n3"),
    "db": ("db1", "db2"),
    "site.a": ("a.example.com", "n3"),
    "both": ("n1",),
    "empty": (),
}


def chosen(*values: str, root: Path = Path()) -> list[str]:
    return list(patterns.select(values, HOSTS, MEMBERS, root=root))


def refusal(*values: str, root: Path = Path()) -> InputError:
    with pytest.raises(InputError) as caught:
        chosen(*values, root=root)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("a, b[1:2] ,,c", ["a", "b[1:2]", "c"]),
        ("a:b", ["a", "b"]),
        ("a:&b:!c", ["a", "&b", "!c"]),
        ("a:b,c", ["a:b", "c"]),
        ("node[1:3]:x", ["node[1:3]", "x"]),
        ("a b", ["a", "b"]),
        ("fe80::1", ["fe80::1"]),
        ("fe80::1,a", ["fe80::1", "a"]),
        ("n1:2222", ["n1:2222"]),
        ("~n[:x]\\d:b", ["~n[:x]\\d", "b"]),
        (" ", []),
    ],
)
def test_a_comma_anywhere_separates_else_colons_do(text: str, terms: list[str]) -> None:
    assert list(patterns.split(text)) == terms


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        (["n2,n1"], ["n2", "n1"]),
        (["n2", "n1", "node"], ["n2", "n1", "n3"]),
        (["all"], list(HOSTS)),
        (["*"], list(HOSTS)),
        (["!node"], ["db1", "db2", "a.example.com", "fe80::1", "x9", "both"]),
        (["!n1:node"], ["n2", "n3"]),
        (["!n2:&node:n1:n2"], ["n1"]),
        (["&node:&site.a"], ["n3"]),
        (["site.a:&node"], ["n3"]),
        (["node:db:!*1"], ["n2", "n3", "db2"]),
        (["node[0]"], ["n1"]),
        (["node[-1]"], ["n3"]),
        (["node[0:1]"], ["n1", "n2"]),
        (["node[1:]"], ["n2", "n3"]),
        (["node[1:99]"], ["n2", "n3"]),
        (["node[0:0]"], ["n1"]),
        (["node:!node[0]"], ["n2", "n3"]),
        (["n?"], ["n1", "n2", "n3"]),
        (["d*[1]"], ["db2"]),
        (["*.example.com"], ["a.example.com"]),
        (["site.*"], ["a.example.com", "n3"]),
        (["~(node|db)$"], ["n1", "n2", "n3", "db1", "db2"]),
        (["~b"], ["n1", "both"]),
        (["n[1:2]"], ["n1", "n2"]),
        (["n[1:3:2]"], ["n1", "n3"]),
        (["!n[1:2]:node"], ["n3"]),
        (["d[b:b]?,x9"], ["db1", "db2", "x9"]),
        (["n*,!n[2:3]"], ["n1"]),
        (["fe80::1"], ["fe80::1"]),
        (["both"], ["both"]),
        (["node:!both"], ["n2", "n3"]),
        (["node:empty"], ["n1", "n2", "n3"]),
        (["node:!empty"], ["n1", "n2", "n3"]),
        (["all", "!node"], ["db1", "db2", "a.example.com", "fe80::1", "x9", "both"]),
        (["node", "!n1"], ["n2", "n3"]),
    ],
)
def test_patterns_choose_as_ansible_does_and_ranges_besides(values: list[str], hosts: list[str]) -> None:
    assert chosen(*values) == hosts


def test_an_exclusion_in_one_value_holds_for_all_values() -> None:
    assert chosen("!n1", "n1,n2") == ["n2"]


def test_a_list_file_holds_a_term_a_line(written: Written) -> None:
    root = written({"lists/some": "\ufeffn2\n\n# a comment\r\n  db:!db2\nn1, n3\n"})
    assert chosen("@lists/some", root=root) == ["n2", "db1", "n1", "n3"]
    assert chosen("@lists/some,!n3", root=root) == ["n2", "db1", "n1"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "the list of hosts is empty"),
        ("# n1\n", "the list of hosts is empty"),
        ("n1\n@more\n", r"a list of hosts cannot name another \(@more\)"),
    ],
)
def test_a_list_file_that_names_nobody_is_refused(written: Written, content: str, what: str) -> None:
    root = written({"some": content})
    with pytest.raises(InputError, match=what):
        chosen("@some", root=root)


def test_a_list_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert (
        str(refusal("@none", root=tmp_path))
        == "@none: the list of hosts cannot be read: No such file or directory"
    )
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert (
        str(refusal("@binary", root=tmp_path))
        == "@binary: the list of hosts cannot be read: is not UTF-8 text"
    )


@pytest.mark.parametrize(
    ("value", "what", "hint"),
    [
        ("n4", "no host or group matches 'n4'", "15 are known, none of them near"),
        ("d[a:b]?", "no host or group matches 'da?'", ""),
        ("n[0:z]", "[0:z] in n[0:z] is no range", "two numbers or two letters"),
        ("nodes", "no host or group matches 'nodes'", "did you mean 'node'?"),
        ("node:!dbs", "no host or group matches 'dbs'", "did you mean 'db'?"),
        ("node:&dbs", "no host or group matches 'dbs'", "did you mean 'db'?"),
        ("noed[0]", "no host or group matches 'noed[0]'", "did you mean 'node'?"),
        ("noed[1:]", "no host or group matches 'noed[1:]'", "did you mean 'node'?"),
        ("z*", "no host or group matches 'z*'", ""),
        ("~z", "no host or group matches '~z'", ""),
        ("N1", "no host or group matches 'N1'", "did you mean 'n1'?"),
        ("n[2:4]", "no host or group matches 'n4'", ""),
        ("m[1:3]", "no host or group matches 'm[1:3]'", ""),
        ("n1:2222", "no host or group matches 'n1:2222'", "n1 is there; its port belongs into the inventory"),
        ("q1,q2,q3,q4,q5,q6,q7", "matches 'q1', 'q2', 'q3', 'q4', 'q5' and 2 more", ""),
        ("node[5]", "node[5] is out of range", "there are 3: [0] to [2]"),
        ("node[-4]", "node[-4] is out of range", "there are 3"),
        ("node[2:1]", "node[2:1] runs backwards", "the smaller index first"),
        ("node[0-1]", "node[0-1] is no pattern", "indices are written node[0:1]"),
        ("q[3:1]", "[3:1] in q[3:1] runs backwards", "write [1:3]"),
        ("~n(", "~n( is no regular expression", "separate terms"),
        ("!", "! names no host", ""),
        ("node:!node", "node:!node: no host is left", ""),
        ("empty", "empty: no host is left", ""),
        ("node[3:]", "node[3:]: no host is left", ""),
        ("", "no host is named", ""),
        (" , ", "no host is named", ""),
    ],
)
def test_what_names_no_host_is_refused_with_the_nearest(value: str, what: str, hint: str) -> None:
    error = refusal(value)
    assert what in str(error)
    assert hint in error.next_step


def test_all_of_an_empty_inventory_is_refused() -> None:
    with pytest.raises(InputError, match="the inventory has no hosts"):
        patterns.select(["all"], {}, {"all": (), "ungrouped": ()}, root=Path())
