"""The document of ``--json``: what the standard library would say, with what is short on one line."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stoker.tasks import jsontext

KEYS = st.text() | st.integers() | st.booleans() | st.none()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.tuples(inner),
)


@given(VALUES)
def test_it_says_what_the_standard_library_says(value: object) -> None:
    # Pairs: where 1 and "1" are both keys, JSON holds both.
    def read(text: str) -> object:
        return json.loads(text, object_pairs_hook=list)

    assert read(jsontext.text(value)) == read(json.dumps(value))


def test_what_is_no_json_type_is_its_own_text() -> None:
    assert json.loads(jsontext.text({"at": Path("a/b")})) == {"at": "a/b"}


def test_what_is_short_stands_on_one_line() -> None:
    assert jsontext.text({"a": [1, 2], "b": {}}) == '{"a": [1, 2], "b": {}}'
    long = jsontext.text({"a": ["x" * 60, "y" * 60], "b": 1})
    assert long.split("\n")[1:3] == ['  "a": [', f'    "{"x" * 60}",']
