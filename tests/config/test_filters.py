"""Ansible's filters and tests: what they give, held against Ansible's own, and that they end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config.templating import lists as filters_lists
from stoker.config.templating import template, value_tests
from stoker.config.templating import text as filters_text
from stoker.errors import InputError

FEW = settings(max_examples=60, deadline=None)
SCALARS = st.one_of(st.integers(-9, 9), st.text("abxyz .,/", max_size=6), st.booleans())
LISTS = st.lists(SCALARS, max_size=6)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=8)
MAPPINGS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), SCALARS | LISTS, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner | LISTS, max_size=3),
    max_leaves=6,
)
TEXTS = st.text("ab1 ./\n", max_size=20)
VERSIONS = st.from_regex(r"[0-9]{1,2}(\.[0-9]{1,3}){0,3}", fullmatch=True)


def say(expression: str, **variables: Any) -> Any:
    """What an expression gives."""
    return template.evaluate(expression, {}, where="here", data=variables)


@pytest.fixture(scope="module")
def core() -> Any:
    """Ansible's own filters."""
    pytest.importorskip("ansible")
    from ansible.plugins.filter import core  # type: ignore[import-untyped]

    return core


@pytest.fixture(scope="module")
def judge() -> Any:
    """Ansible's own tests."""
    pytest.importorskip("ansible")
    from ansible.plugins.test import core  # type: ignore[import-untyped]

    return core


@FEW
@given(items=st.lists(VALUES, max_size=5), levels=st.none() | st.integers(0, 3))
def test_flatten_is_ansibles(core: Any, items: list[Any], levels: int | None) -> None:
    assert filters_lists.flatten(items, levels) == core.flatten(items, levels)


@FEW
@given(
    low=MAPPINGS,
    high=MAPPINGS,
    recursive=st.booleans(),
    lists=st.sampled_from(("replace", "keep", "append", "prepend")),
)
def test_combine_is_ansibles(
    core: Any, low: dict[str, Any], high: dict[str, Any], recursive: bool, lists: str
) -> None:
    mine = filters_lists.combine(low, high, recursive=recursive, list_merge=lists)
    assert mine == core.combine(low, high, recursive=recursive, list_merge=lists)


@FEW
@given(text=TEXTS, pattern=st.sampled_from(("a", "[ab]", "a|b", r"(a)(b)?", "^a", "b$", r"\s", "", "1*")))
def test_regular_expressions_are_ansibles(core: Any, text: str, pattern: str) -> None:
    as_lists = [list(one) if isinstance(one, tuple) else one for one in core.regex_findall(text, pattern)]
    assert filters_text.regex_findall(text, pattern) == as_lists
    assert filters_text.regex_search(text, pattern) == core.regex_search(text, pattern)
    assert filters_text.regex_replace(text, pattern, r"<\g<0>>") == core.regex_replace(
        text, pattern, r"<\g<0>>"
    )


@FEW
@given(mapping=MAPPINGS)
def test_entries_and_back_are_ansibles(core: Any, mapping: dict[str, Any]) -> None:
    entries = filters_lists.dict2items(mapping)
    assert entries == core.dict_to_list_of_dict_key_value_elements(mapping)
    assert filters_lists.items2dict(entries) == mapping


@FEW
@given(
    left=VERSIONS, right=VERSIONS, operator=st.sampled_from(("==", "!=", "<", "<=", ">", ">=", "lt", "ge"))
)
def test_versions_are_compared_as_ansible_does(judge: Any, left: str, right: str, operator: str) -> None:
    assert value_tests.version(left, right, operator) == judge.version_compare(left, right, operator)


@FEW
@given(text=TEXTS, pattern=st.sampled_from(("a", "^b", "1$", "a.b")), several=st.booleans())
def test_matching_is_ansibles(judge: Any, text: str, pattern: str, several: bool) -> None:
    assert value_tests.match(text, pattern, False, several) == judge.match(text, pattern, False, several)
    assert value_tests.search(text, pattern, False, several) == judge.search(text, pattern, False, several)


@FEW
@given(left=LISTS, right=LISTS)
def test_lists_are_taken_as_sets_in_the_order_of_the_first(left: list[Any], right: list[Any]) -> None:
    union = filters_lists.union(left, right)
    assert all(union.count(item) == 1 for item in union)
    assert set(map(repr, filters_lists.intersect(left, right))) <= set(map(repr, left))
    assert [item for item in union if item in left] == filters_lists.union(left, [])
    assert not filters_lists.intersect(filters_lists.difference(left, right), right)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'tok/s 91.5' | regex_search('tok.s ([0-9.]+)', '\\\\1')", ["91.5"]),
        ("'x' | regex_search('y')", None),
        ("[{'n': 'a', 'l': [1, 2]}] | subelements('l') | map('last') | list", [1, 2]),
        ("'a\nb' | indent(2)", "a\n  b"),
        ("{'b': 1, 'a': [1]} | to_nice_json", '{\n    "a": [\n        1\n    ],\n    "b": 1\n}'),
        ("'%Y' | strftime(86400, true)", "1970"),
        ("nosuch | default('x') | mandatory", "x"),
        ("1.0 | type_debug", "float"),
        ("['a', 'b'] | zip([1, 2]) | map('join', '=') | list", ["a=1", "b=2"]),
        ("'yes' is truthy(convert_bool=true) and 'off' is falsy(convert_bool=true)", True),
        ("{'a': [1]} | to_yaml | from_yaml", {"a": [1]}),
        ("'a.tar' | splitext", ["a", ".tar"]),
    ],
)
def test_what_a_filter_gives(expression: str, value: Any) -> None:
    assert say(expression) == value


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("nosuch | mandatory('give x')", "give x"),
        ("'aaaa' | regex_search('(a+)+$')", "could take for ever"),
        ("'a' | regex_search('(')", "no regular expression"),
        ("'a' | hash('crc')", "no hash"),
        ("'a' | indent(100000)", "columns"),
        ("('x' * 100000) | regex_replace('x', 'y' * 100)", "would be longer"),
        ("'1' is version('2', 'near')", "compares nothing"),
        ("[1] | combine({})", "mappings"),
        ("'a: [' | from_yaml", "from_yaml"),
    ],
)
def test_a_filter_that_cannot_be_told_what_it_needs_says_so(expression: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        say(expression)
