"""The catalogue as data: complete, consistent, each entry with its source."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from stoker import engines
from stoker.tuning import Catalogue, Variable, check
from stoker.tuning.kinds import KINDS
from stoker.tuning.model import Setting
from stoker.tuning.versions import numbers

KNOWN = Catalogue.load()
ALL = KNOWN.all()


def test_every_entry_is_whole() -> None:
    for variable in ALL:
        _is_whole(variable)


def _is_whole(variable: Variable) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*", variable.name)
    assert variable.kind in KINDS
    assert variable.source
    assert all(numbers(v) for v in (variable.since, variable.until) if v)
    assert not variable.renamed_to or KNOWN.find(variable.renamed_to)
    assert all(engines.get(change.engine) for change in variable.overwritten)
    assert all(KNOWN.find(change.variable) for change in variable.overwritten if change.variable)


def test_a_default_may_be_written() -> None:
    found = check({v.name: v.default for v in ALL if v.default and not v.until}, Setting())
    assert [r for r in found if r.severity == "error"] == []


def test_what_a_choice_offers_may_be_written() -> None:
    for variable in ALL:
        for word in (
            variable.values if variable.kind in {"choice", "choice-any-case", "level", "c-number"} else ()
        ):
            wrong = [r for r in check({variable.name: word}, Setting()) if r.severity == "error"]
            assert wrong == [], (variable.name, word)


def test_there_are_enough_of_each_family() -> None:
    described = Counter(v.family for v in ALL if v.effect)
    least = {
        "nccl": 60,
        "cuda": 20,
        "torch": 25,
        "sglang": 30,
        "vllm": 40,
        "llamacpp": 100,
        "omp": 15,
        "hf": 10,
    }
    assert {family: described[family] >= count for family, count in least.items()} == dict.fromkeys(
        least, True
    )


def test_a_prefix_belongs_to_one_family() -> None:
    prefixes = Counter(p for family in KNOWN.families.values() for p in family.prefixes)
    assert set(prefixes.values()) == {1}
    assert frozenset(prefixes) == KNOWN.prefixes


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NCCL_BUFSIZE", "NCCL_BUFFSIZE"),
        ("NCCL_MAX_NCHANNEL", "NCCL_MAX_NCHANNELS"),
        ("nccl_proto", "NCCL_PROTO"),
        ("NCCL_FANCY_KNOB", ""),
        ("NCCL_TREE_TRESHOLD", ""),
        ("VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL"),
        ("LLAMA_ARG_CTXSIZE", "LLAMA_ARG_CTX_SIZE"),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(written: str, meant: str) -> None:
    assert KNOWN.near(written) == meant


def test_it_is_read_once() -> None:
    assert Catalogue.load() is Catalogue.load()


def test_what_an_engine_always_sets_is_known_to_the_engine_too() -> None:
    for variable in ALL:
        for change in variable.overwritten:
            if not (change.argument or change.variable):
                assert engines.get(change.engine).rewrites[variable.name] == change.value
