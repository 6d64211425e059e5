"""The rules over environments: each case is a file under tests/cases/tuning; add a file, get a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.config.inventories import inventory
from stoker.config.profiles.profile import Library
from stoker.tuning import Catalogue, Setting, check, codes

CASES = Path(__file__).parent.parent / "cases" / "tuning"
PROJECT = Path(__file__).parent.parent.parent
NAMES = [v.name for v in Catalogue.load().all()]


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yml")), ids=lambda p: p.stem)
def test_a_case_has_exactly_its_remarks(path: Path) -> None:
    case = read(path)
    found = check(case["env"], Setting(**case.get("setting", {})))
    assert [{"name": r.name, "code": r.code, "severity": r.severity} for r in found] == case["expect"]
    for remark in found:
        assert remark.what and remark.reason and remark.source


def test_every_code_has_a_case_and_every_case_a_code() -> None:
    seen = {e["code"] for path in CASES.glob("*.yml") for e in read(path)["expect"]}
    assert seen == codes()


@pytest.mark.parametrize(
    ("name", "value", "setting", "end"),
    [
        (
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            {"engine": "sglang"},
            "never gets in force: sglang sets it to '8'",
        ),
        (
            "NCCL_CUMEM_ENABLE",
            "0",
            {"engine": "sglang", "args": {"enable-symm-mem": True}},
            "never gets in force: sglang sets it to '1' under enable-symm-mem",
        ),
    ],
)
def test_what_an_engine_overwrites_is_told_with_the_argument_under_which_it_does(
    name: str, value: str, setting: dict[str, Any], end: str
) -> None:
    (found,) = [r for r in check({name: value}, Setting(**setting)) if r.code.endswith("-overwritten")]
    assert found.what == f"{name}={value!r} {end}"


def test_remarks_come_by_name_and_then_by_severity() -> None:
    env = {"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1", "CUDA_LAUNCH_BLOCKING": "1", "NCCL_BUFSIZE": "1"}
    found = check(env, Setting())
    order = {"error": 0, "warning": 1, "advice": 2}
    assert [(r.name, order[r.severity]) for r in found] == sorted((r.name, order[r.severity]) for r in found)
    assert [r.severity for r in found if r.name == "NCCL_P2P_LEVEL"] == ["error", "advice"]


@pytest.mark.parametrize(
    ("env", "mend"),
    [
        ({"NCCL_BUFSIZE": "1"}, "NCCL_BUFFSIZE"),
        ({"NCCL_BUFFSIZE": "16M"}, "16777216"),
        ({"NCCL_BUFFSIZE": "1 GiB"}, "1073741824"),
        ({"NCCL_MAX_NCHANNELS": "016"}, "16"),
        ({"NCCL_NTHREADS": "500"}, "512"),
        ({"NCCL_P2P_LEVEL": "sys"}, "SYS"),
        ({"NCCL_PROTO": " LL,Simple,"}, "LL,Simple"),
        ({"NCCL_ALGO": "Tree"}, "allreduce:Tree"),
        ({"VLLM_USE_DEEP_GEMM": "yes"}, "1"),
        ({"LLAMA_ARG_FLASH_ATTN": "True"}, "true"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size:512"}, "max_split_size_mb:512"),
    ],
)
def test_the_mend_is_what_to_write_and_then_that_mistake_is_gone(env: dict[str, str], mend: str) -> None:
    first = next(r for r in check(env, Setting()) if r.mend == mend)
    name = first.mend if first.code.endswith("unknown-name") else first.name
    again = check({name: first.mend if name == first.name else "4194304"}, Setting())
    assert first.code not in {r.code for r in again}


def test_the_story_has_no_error_and_two_advices() -> None:
    host = inventory.load([PROJECT / "inventory"], root=PROJECT).hosts["node174"]
    resolved = Library(PROJECT / "profiles", PROJECT).resolve("nccl-tuned", host)
    env = {name: str(value) for name, value in resolved.env.items()}
    found = check(env, Setting(engine=resolved.engine, gpus=8, args=resolved.server.args))
    assert [(r.name, r.severity) for r in found] == [
        ("NCCL_BUFFSIZE", "advice"),
        ("NCCL_P2P_LEVEL", "advice"),
    ]


@pytest.mark.parametrize("name", ["HF_TOKN", "VLLM_API_KE"])
def test_an_unknown_name_does_not_show_its_value(name: str) -> None:
    found = check({name: "hf_abcdefghijkl"}, Setting())
    assert found and "hf_abcdefghijkl" not in str(found)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=30), st.text(max_size=40), max_size=6),
    st.dictionaries(st.sampled_from(["nccl", "vllm", "sglang", "torch"]), st.text(max_size=8)),
    st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.integers() | st.text(max_size=4)),
)
def test_no_text_makes_it_raise(env: dict[str, str], versions: dict[str, str], args: dict[str, Any]) -> None:
    for engine in ("", "sglang", "vllm"):
        found = check(env, Setting(engine=engine, versions=versions, args=args, gpus=1))
        assert found == check(dict(reversed(env.items())), Setting(engine, versions, 1, args))
        assert {r.name for r in found} <= set(env)
        assert {r.code for r in found} <= codes()


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(NAMES), st.text("0123456789-+xkMG ,;:^=|~$[]trueTRUEoffLl\x00\n", max_size=24))
def test_no_value_of_a_known_name_makes_it_raise(name: str, value: str) -> None:
    for remark in check({name: value}, Setting()):
        assert remark.name == name and remark.what and remark.reason and remark.source


def test_a_long_value_is_cut_and_costs_little() -> None:
    found = check({"NCCL_PROTO": "x" * 100_000, "NCCL_" + "X" * 100_000: "1"}, Setting())
    assert len(found) == 2
    assert len(found[-1].what) < 400
