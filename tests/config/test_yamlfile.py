"""YAML: values, places, how they were written, and every mistake in a user's words."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config.files import yamltree
from stoker.config.files.yamlfile import MAX_BYTES, Secret, Vault, load, loads, read_as
from stoker.errors import ConfigError

Written = Callable[[Mapping[str, str]], Path]

PROFILE = """\
# a profile
engine: sglang
env:
  NCCL_PROTO: LL
  FLAG: NO
  MODE: 0644
  QUOTED: "0644"
  VERSION: 1.10
  EMPTY:
  BLOCK: |
    one
    two
server:
    args: {tp-size: 8, list: [a, b]}
    gpus:
      - 0
      - 1
"""


def problems(text: str) -> list[str]:
    """What is reported for a text, as line:column what (hint)."""
    with pytest.raises(ConfigError) as caught:
        loads(text, "f.yml")
    assert all(problem.file == "f.yml" for problem in caught.value.problems)
    return [
        f"{problem.line}:{problem.column} {problem.what}" + (f" ({problem.hint})" if problem.hint else "")
        for problem in caught.value.problems
    ]


def test_values_are_those_of_yaml_1_1() -> None:
    assert loads(PROFILE, "p.yml").data == yaml.safe_load(PROFILE)


def test_places_of_values_and_of_keys() -> None:
    document = loads(PROFILE, "p.yml")
    assert (document.line(["env", "FLAG"]), document.column(["env", "FLAG"])) == (5, 9)
    assert (document.line(["env", "FLAG"], key=True), document.column(["env", "FLAG"], key=True)) == (5, 3)
    assert (document.line(["env"]), document.line(["env"], key=True)) == (4, 3)
    assert (document.line(["server", "args", "list", 1]), document.column(["server", "args", "list", 1])) == (
        14,
        34,
    )
    assert document.line(["server", "gpus", 1]) == 17
    assert document.line([]) == 1


def test_a_path_that_leads_nowhere_means_its_nearest_ancestor() -> None:
    document = loads(PROFILE, "p.yml")
    assert document.line(["server", "gpus", 7]) == 16
    assert document.line(["server", "args", "nope", "deeper"]) == 14
    assert document.line(["nope"]) == 1
    assert document.line(["engine", "deeper"], key=True) == 2
    assert document.text(["nope"]) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (["env", "FLAG"], "NO"),
        (["env", "MODE"], "0644"),
        (["env", "QUOTED"], "0644"),
        (["env", "VERSION"], "1.10"),
        (["env", "EMPTY"], ""),
        (["env", "BLOCK"], "one\ntwo\n"),
        (["server", "args", "tp-size"], "8"),
        (["env"], None),
        (["server", "gpus"], None),
    ],
)
def test_text_is_the_scalar_as_it_was_written(path: list[str | int], text: str | None) -> None:
    assert loads(PROFILE, "p.yml").text(path) == text


def test_a_problem_carries_its_place() -> None:
    problem = loads(PROFILE, "p.yml").problem(["env", "MODE"], "wrong", "right", key=True)
    assert (problem.file, problem.line, problem.column, problem.what, problem.hint) == (
        "p.yml",
        6,
        3,
        "wrong",
        "right",
    )


def test_keys_that_are_no_strings_are_kept_and_reported_where_asked() -> None:
    document = loads("env:\n  NO: 1\n  0644: x\n  2024-01-02: y\n  ~: z\n  ok: 1\n", "f.yml")
    assert set(document.data["env"]) >= {False, 420, None, "ok"}
    assert [f"{problem.line}:{problem.column} {problem.what}" for problem in document.odd_keys(["env"])] == [
        "2:3 the key NO was read as false",
        "3:3 the key 0644 was read as 420 (octal)",
        "4:3 the key 2024-01-02 was read as a date",
        "5:3 the key ~ was read as null",
    ]
    assert document.odd_keys() == ()


def test_aliases_and_merge_keys_give_values_and_places() -> None:
    text = (
        "base: &base\n  a: 1\n  b: 2\nmore: &more {b: 3, c: 4}\n"
        "one:\n  <<: *base\n  b: own\nboth:\n  <<: [*more, *base]\nsame: *base\n"
    )
    document = loads(text, "f.yml")
    assert document.data == yaml.safe_load(text)
    assert document.data["one"] == {"a": 1, "b": "own"}
    assert document.data["both"] == {"a": 1, "b": 3, "c": 4}
    assert document.line(["one", "a"]) == 2
    assert document.line(["one", "b"]) == 7
    assert (document.line(["same"]), document.line(["same", "b"])) == (10, 3)


def test_secrets_and_vaults_are_references() -> None:
    document = loads("a: !secret HF_TOKEN\nb: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  3132\n", "f.yml")
    assert document.data["a"] == Secret("HF_TOKEN")
    assert document.data["b"] == Vault("$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    assert "3132" not in repr(document.data)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\ufeff"])
def test_an_empty_file_holds_nothing(written: Written, text: str) -> None:
    path = written({"f.yml": text}) / "f.yml"
    document = load(path)
    assert document.data is None
    assert (document.line([]), document.line(["a"]), document.text([])) in ((1, 1, None), (1, 1, ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\tb: 1\n", "2:1 a tab stands where YAML wants spaces (indent with spaces)"),
        ("a: >\n\tx\n", "2:1 a tab stands where YAML wants spaces (indent with spaces)"),
        ("a: b: c\n", "1:5 a second ': ' on one line (quote a value that contains ': ')"),
        (
            "hosts:\n  n1\n  n2:\n",
            "3:5 this key cannot stand below the line before "
            "(a missing ':' there, or too deep an indentation here)",
        ),
        (
            "a:\n  b: 1\n c: 2\n",
            "3:2 the indentation does not fit the lines above (keys of one mapping begin in one column)",
        ),
        ("a: 1\n- b\n", "2:1 a list item where a key is expected (indent the list below its key)"),
        ("a: 'x\nb: 1\n", "1:4 a quote that is never closed"),
        ('a: "\\d"\n', "1:6 \\d is no escape in double quotes (use single quotes)"),
        ("a: @x\n", "1:4 a value cannot begin with @ (quote it)"),
        ("a: %x\n", "1:4 a value cannot begin with % (quote it)"),
        ('a: "x" y\n', "1:8 text after the end of the value (put the whole value in quotes)"),
        ("a:\n- b\n  c\nd\n", "4:1 a key without ':' (write KEY: VALUE, with a space after the colon)"),
        (
            "a: [1, 2\nb: 1\n",
            "2:2 the YAML cannot be read here: expected ',' or ']', but got ':' "
            "(the list in brackets begins on line 1)",
        ),
        (
            "a: {b: 1\n",
            "2:1 the YAML cannot be read here: expected ',' or '}', but got the end of the file "
            "(the mapping in braces begins on line 1)",
        ),
        (
            "a: !e!x y\n",
            "1:4 what begins with ! is a tag, and this one is not known (quote it if a text is meant)",
        ),
        (
            "a: x\x07\n",
            "1:5 the character U+0007 may not stand in YAML (write it as an escape in double quotes)",
        ),
        ("a: 1\n---\nb: 2\n", "2:1 a second document begins here (one document a file)"),
        ("a: *b\n", "1:4 *b refers to nothing before it (write &NAME at the value that it repeats)"),
        ("a: &x 1\nb: &x 2\n", "2:4 the anchor &x is here twice, first on line 1"),
        ("a: &a\n  b: *a\n", "2:6 *a contains itself"),
        ("- " * 101 + "a\n", "1:201 nested deeper than 100 levels"),
        ("[" * 101, "1:101 nested deeper than 100 levels"),
        ("a: {{ m }}\n", '1:5 a key must be a word, here it is a mapping (quote a template: "{{ … }}")'),
        ("[a]: 1\n", "1:1 a key must be a word, here it is a list"),
        ("a: !secret\n", "1:4 !secret names no secret (write !secret NAME)"),
        ("a: !foo x\n", "1:4 the tag !foo is not known (known: !secret, !vault)"),
        ("a: !!set {x}\n", "1:4 the tag !!set is not known on a mapping"),
        ("a: =\n", '1:4 a lone = has no value (quote it: "=")'),
        ("a: <<\n", '1:4 << is a key that merges mappings, and no value (quote it: "<<")'),
        ("<<: 3\n", "1:5 << merges mappings, here stands a single value (write <<: *NAME)"),
        (
            "a: &a {}\nb: {<<: *a, <<: *a}\n",
            "2:13 a second << in one mapping (merge several at once: <<: [*a, *b])",
        ),
    ],
)
def test_a_mistake_is_told_in_a_users_words_at_its_place(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_code_in_tags_is_never_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    found = problems(f"a: !!python/object/apply:os.mkdir [{mark}]\n")
    assert found == ["1:4 the tag !!python/object/apply:os.mkdir is not known on a list"]
    assert not mark.exists()


def test_an_unquoted_template_is_recognised_when_the_syntax_breaks_at_it() -> None:
    found = problems("model: {{ models }}/Kimi\n")
    assert found[-1].endswith('(quote a value that begins with a template: "{{ … }}")')


def test_duplicate_keys_name_both_lines() -> None:
    assert problems("a: 1\nb:\n  c: 1\n  c: 2\na: 2\n") == [
        "4:3 the key c is here twice, first on line 3",
        "5:1 the key a is here twice, first on line 1",
    ]
    assert problems("1: a\ntrue: b\n") == ["2:1 the key true is here twice, first on line 1 as 1"]


@pytest.mark.parametrize(
    "value", ["2024-02-30", "0b_", "0x_", "!!int x", "!!bool x", "!!timestamp x", "1" * 5000]
)
def test_a_scalar_that_only_looks_like_its_kind_is_reported_not_raised(value: str) -> None:
    found = problems(f"a: {value}\nb: {value}\n")
    assert len(found) == 2
    assert all("and is none" in problem and value not in problem for problem in found)


def test_all_mistakes_before_a_syntax_error_come_with_it() -> None:
    assert [problem.split()[0] for problem in problems("a: 1\na: 2\nb: !x y\nc: [\n")] == [
        "2:1",
        "3:4",
        "5:1",
    ]


def test_aliases_that_multiply_are_stopped_early() -> None:
    lists = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    begin = time.process_time()
    found = problems("a0: &a0 [x, x, x]\n" + lists)
    assert found[0].endswith("aliases repeat more than 1000000 values (write the values out)")
    assert time.process_time() - begin < 5


def test_merges_that_multiply_are_stopped_early() -> None:
    first = "m0: &m0 {" + ", ".join(f"k{n}: 1" for n in range(100)) + "}\n"
    rest = "".join(f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 50)}]}}\n" for n in range(1, 20))
    assert "aliases repeat more than" in problems(first + rest)[0]


def test_a_file_is_named_as_it_is_shown(written: Written) -> None:
    path = written({"f.yml": "a: 1\n"}) / "f.yml"
    assert load(path, shown="profiles/f.yml").file == "profiles/f.yml"
    assert load(path).file == str(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"a: 1\nb: \xff\n",
            "f.yml:2: is not UTF-8: the byte 0xff does not belong here (save the file as UTF-8)",
        ),
        (b"a" * (MAX_BYTES + 1), "f.yml: is larger than 8 MiB"),
    ],
)
def test_bytes_that_are_no_text_are_reported(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "f.yml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(path, shown="f.yml")
    assert [str(problem) for problem in caught.value.problems] == [expected]


@pytest.mark.parametrize(
    ("name", "why"), [("none.yml", "No such file or directory"), (".", "Is a directory"), ("a\0b", "null")]
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"f.yml: cannot be read: .*{why}"):
        load(tmp_path / name, shown="f.yml")


def test_json_with_tabs_and_exponents_is_read_as_json(written: Written) -> None:
    path = written({"f.json": '{\n\t"a": 1e3,\n\t"b": ["no", false]\n}\n'}) / "f.json"
    document = load(path)
    assert document.data == {"a": 1000.0, "b": ["no", False]}
    assert (document.line(["b", 1]), document.text(["a"])) == (3, "1e3")


def test_yaml_in_a_json_file_is_read_as_yaml(written: Written) -> None:
    assert load(written({"f.json": "a: 1\n"}) / "f.json").data == {"a": 1}


def test_a_duplicate_key_in_json_is_an_error(written: Written) -> None:
    with pytest.raises(ConfigError, match=r"f\.json:3: the key a is here twice, first on line 2"):
        load(written({"f.json": '{\n"a": 1,\n"a": 2\n}\n'}) / "f.json", shown="f.json")


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("no", False, "no was read as false"),
        ("22:22", 1342, "22:22 was read as 1342 (base 60)"),
        ("0644", 420, "0644 was read as 420 (octal)"),
        ("0x10", 16, "0x10 was read as 16 (hexadecimal)"),
        ("1.10", 1.1, "1.10 was read as 1.1"),
        ("1000", 1000, "1000 was read as a number"),
        ("", None, "an empty value was read as null"),
        ("~", None, "~ was read as null"),
    ],
)
def test_what_yaml_made_of_a_value_is_named(text: str, value: object, said: str) -> None:
    assert read_as(text, value) == said


_scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates()
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(_values, st.sampled_from([None, True, False]))
def test_whatever_pyyaml_writes_is_read_as_pyyaml_reads_it(value: object, flow: bool | None) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    assert loads(text, "f.yml").data == yaml.safe_load(text)


_PIECES = (
    "a: ", "b:\n  ", "- ", "\n", "\n  ", "&a ", "*a", "<<: ", "{", "}", "[", "]", ", ", ": ", "? ", "x", "~",
    "=", "NO", "0x_", "1:2", "2024-13-01", "!secret ", "!vault ", "!!int ", "!!map ", "!!str ",
    "'", '"', "| \n",
    "---\n", "...\n", "# c",
)  # fmt: skip


class _Reference(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML with our tags; libyaml where it is there, since the two differ in a few texts, as in "0\\t"."""


_Reference.add_constructor("!secret", lambda loader, node: Secret(loader.construct_scalar(node).strip()))
_Reference.add_constructor("!vault", lambda loader, node: Vault(loader.construct_scalar(node)))


@settings(max_examples=500, deadline=None)
@given(
    st.text(alphabet="ab:- \n\t[]{}'\"#&*!|>%@,?<=~0.\\x", max_size=40)
    | st.lists(st.sampled_from(_PIECES), max_size=12).map("".join)
)
def test_no_text_ever_raises_anything_but_a_configuration_error(text: str) -> None:
    try:
        data = loads(text, "f.yml").data
    except ConfigError as error:
        assert all(problem.what and problem.file == "f.yml" for problem in error.problems)
        assert not any(word in str(error) for word in ("block mapping", "scalar", "token", "<block"))
    else:
        assert data == yaml.load(text, Loader=_Reference) or data != data


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
@pytest.mark.parametrize("text", ['a: "\\U00200000"', 'a: "\\UFFFFFFFF"'])
def test_an_escape_beyond_unicode_is_a_mistake(
    text: str, loader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yamltree, "_Loader", loader)
    with pytest.raises(ConfigError):
        loads(text, "f.yml")


@pytest.mark.timeout(10)
def test_a_pipe_in_a_files_place_is_a_mistake_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "profile.yml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is no file"):
        load(pipe)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("signs", ["[", "{", "[{"])
def test_thousands_of_open_brackets_are_a_mistake_at_once(signs: str) -> None:
    with pytest.raises(ConfigError, match="nested"):
        loads("a: 1\nb: " + signs * 20_000, "deep.yml")
