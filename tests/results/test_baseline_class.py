"""Baselines of a whole class of hardware, and baselines that are no longer in use."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import InputError
from stoker.results.baselines.accepted import hardware_of
from stoker.results.baselines.baseline import Baseline, Baselines, Missing
from stoker.results.compare import assess
from stoker.results.explaining.explain import explain
from stoker.results.records.record import Record
from tests.results.made import bad, fingerprint, good, subject

NOW = 1769947200.0


@pytest.fixture
def baselines(tmp_path: Path) -> Baselines:
    return Baselines(tmp_path / "baselines")


def on(host: str, run: Record, **of_fingerprint: Any) -> Record:
    """The same, measured on another host."""
    found = dataclasses.replace(run.fingerprint, **of_fingerprint)
    return dataclasses.replace(run, subject=dataclasses.replace(run.subject, host=host), fingerprint=found)


def test_a_class_is_the_number_and_the_model_of_the_gpus() -> None:
    assert hardware_of(good().fingerprint) == "8 × NVIDIA RTX PRO 6000"
    assert hardware_of(good(fingerprint=fingerprint(gpus=[])).fingerprint) == ""
    assert hardware_of(good(fingerprint=fingerprint(gpus=[{"index": 0}])).fingerprint) == ""


def test_a_host_without_a_baseline_uses_that_of_its_class_and_the_verdict_says_so(
    baselines: Baselines,
) -> None:
    baselines.accept([good(0), on("node175", good(1)), good(2)], by="me", by_class=True)
    slow = on("node200", bad())
    found = baselines.find(slow)
    assert isinstance(found, Baseline)
    verdict = assess(slow, found)
    assert verdict.verdict == "regressed"
    assert verdict.line.endswith("; the baseline is of its class, 8 × NVIDIA RTX PRO 6000")
    assert explain(slow, found).unlike == ()


def test_a_host_with_a_baseline_of_its_own_keeps_to_that(baselines: Baselines) -> None:
    baselines.accept([good(0)], by="me", by_class=True)
    baselines.accept([good(1)], by="me")
    found = baselines.find(bad())
    assert isinstance(found, Baseline)
    assert (found.key.host, found.key.hardware) == ("node174", "")
    assert len(baselines.all()) == 2


def test_a_gpu_fewer_is_another_class_and_it_is_said(baselines: Baselines) -> None:
    baselines.accept([good(0)], by="me", by_class=True)
    seven = on("node200", bad(), gpus=bad().fingerprint.gpus[:7])
    found = baselines.find(seven)
    assert isinstance(found, Missing)
    assert found.nearest is None


def test_another_model_on_the_same_class_says_what_differs(baselines: Baselines) -> None:
    baselines.accept([good(0)], by="me", by_class=True)
    found = baselines.find(dataclasses.replace(on("node200", bad()), model="/models/other"))
    assert isinstance(found, Missing)
    assert found.differs == ("model: /models/other, /models/Kimi-K2.5",)


def test_without_gpus_there_is_no_class(baselines: Baselines) -> None:
    blind = good(fingerprint=fingerprint(gpus=[]))
    with pytest.raises(InputError, match="class of node174's hardware is not known"):
        baselines.accept([blind], by="me", by_class=True)
    assert isinstance(baselines.find(blind), Missing)


def test_the_file_of_a_class_names_no_host_and_reads_back(baselines: Baselines) -> None:
    wrote = baselines.accept([good(0)], by="me", by_class=True)
    path = baselines.path(wrote.key)
    assert "host: node174" not in path.read_text().partition("fingerprint")[0]
    assert yaml.safe_load(path.read_text())["key"]["hardware"] == "8 × NVIDIA RTX PRO 6000"
    assert baselines.all() == (wrote,)


def test_a_retired_baseline_serves_for_nothing_and_keeps_who_and_why(baselines: Baselines) -> None:
    kept = baselines.accept([good(0)], by="me")
    path, found = baselines.named("node174")
    assert found == kept
    text = path.read_text()
    to = baselines.retire(path, by="ann@desk", why="driver 590 is 4 % faster\nsee the note", now=NOW)
    assert isinstance(baselines.find(bad()), Missing)
    assert baselines.all() == ()
    assert (
        to.read_text()
        == f"# Retired on 2026-02-01 by ann@desk:\n# driver 590 is 4 % faster\n# see the note\n{text}"
    )
    to.rename(path)
    assert baselines.all() == (kept,), "moved back it serves again"


def test_two_that_are_retired_on_a_day_are_both_kept(baselines: Baselines) -> None:
    for _ in range(2):
        baselines.accept([good(0)], by="me")
        baselines.retire(baselines.named("node174")[0], by="me", why="x", now=NOW)
    assert len(list((baselines.folder / "retired").iterdir())) == 2


def test_a_name_that_means_none_or_several_is_refused(baselines: Baselines) -> None:
    baselines.accept([good(0)], by="me")
    baselines.accept([dataclasses.replace(good(1), subject=subject(host="node175"))], by="me")
    with pytest.raises(InputError, match="names 2 baselines"):
        baselines.named("node17")
    with pytest.raises(InputError, match="names no baseline"):
        baselines.named("node9")
    with pytest.raises(InputError, match="names no baseline"):
        baselines.named("")
