"""Tables of nccl-tests as its builds write them; each case says where its layout is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.probing import ncclperf, probesheet
from stoker.benchmarks import allreduce

CASES = Path(__file__).parents[1] / "cases" / "nccl-tests"
Row = tuple[int, float, int | None]
TODAY: list[Row] = [(14336, 11.58, 0), (28672, 11.49, 0), (16777216, 145.8, 0)]
# Bytes, microseconds in place, wrong elements.
ROWS: dict[str, list[Row]] = {
    "2019-res": [(14336, 29.0, 0), (28672, 30.0, 0), (1048576, 67.0, 0)],
    "2019-unchecked": [(14336, 29.0, None), (28672, 30.0, None), (1048576, 67.0, None)],
    "2021-error": [(8, 32.08, 0), (65536, 44.1, 0), (2097152, 128.9, 0)],
    "2021-error-failed": [(8, 32.08, 0), (65536, 44.1, 1), (2097152, 128.9, 1)],
    "2023-wrong": [(14336, 11.58, 0), (524288, 569.4, 237858 + 238038), (917504, 16.96, 3)],
    "2023-unchecked": [(14336, 11.58, None), (28672, 11.49, None)],
    "2023-cputime": [(14336, 6.02, 0)],
    "2026": TODAY,
    "2026-timestamp": TODAY,
    "2026-per-iteration": TODAY,
    "nccl-debug": [(14336, 11.58, 0), (28672, 11.49, 0), (57344, 11.04, 0)],
    "failed": [(14336, 11.58, 0)],
}


def case(name: str) -> str:
    return (CASES / f"{name}.txt").read_text()


def test_every_case_is_told() -> None:
    assert {path.stem for path in CASES.iterdir()} == set(ROWS)
    assert all(case(name).startswith("# (a case: the layout is that of") for name in ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_a_table_is_read_as_its_build_writes_it(name: str) -> None:
    found = ncclperf.parse(case(name))
    assert [(row["bytes"], row["wrong"]) for row in found] == [(size, wrong) for size, _, wrong in ROWS[name]]
    assert [row["p50_s"] for row in found] == [pytest.approx(us * 1e-6) for _, us, _ in ROWS[name]]


@pytest.mark.parametrize("name", ROWS)
def test_a_table_that_is_cut_anywhere_gives_rows_or_none(name: str) -> None:
    text = case(name)
    whole = len(ROWS[name])
    for end in range(0, len(text), 7):
        assert len(ncclperf.parse(text[:end])) <= whole


def told(batches: str, runs: int = 1) -> dict[str, object]:
    bench = allreduce.merged({}, {"runs": runs, "batches": batches, "hidden": 7168, "dtype": "bfloat16"})
    return probesheet.settings({**bench.to_wire(), "tool": "nccl-tests"}, None, 2)


def run_of(tmp_path: Path, batches: str, text: str, curve: str = "") -> dict[str, object]:
    """The first run, of what the program printed."""
    (tmp_path / "nccl-tests.measure.0.txt").write_text(text)
    (tmp_path / "nccl-tests.measure.curve.txt").write_text(curve)
    asked = told(batches)
    return probesheet.runs_of(probesheet.perf_rows(str(tmp_path), asked), asked)[0]


def test_sums_that_are_right_make_a_run(tmp_path: Path) -> None:
    assert run_of(tmp_path, "1,2", case("2026"), case("2026"))["valid"] is True


def test_a_size_that_the_program_did_not_reach_makes_it_none(tmp_path: Path) -> None:
    assert run_of(tmp_path, "1,2", case("failed"))["why"] == "1 sizes were not measured"


def test_sums_that_nobody_checked_make_it_none(tmp_path: Path) -> None:
    assert run_of(tmp_path, "1,2", case("2023-unchecked"))["why"] == "the sums were not checked"


def test_a_wrong_sum_of_the_curve_alone_makes_it_none(tmp_path: Path) -> None:
    why = run_of(tmp_path, "1,2", case("2026"), case("2023-wrong"))["why"]
    assert why == "wrong sums: 475896 elements of 524288 bytes and more"
