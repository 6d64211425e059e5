"""An odd record is named and left out; no list, comparison or explanation falls over one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stoker.errors import InputError
from stoker.results.baselines.baseline import Baselines
from stoker.results.compare import assess, compare
from stoker.results.explaining.explain import explain
from stoker.results.inforce import in_force
from stoker.results.records.fromjson import build, loads
from stoker.results.records.record import Record
from stoker.results.records.store import Store
from tests.e2e.project import ProjectFolder
from tests.results import made

GOOD = build([made.result([80.0] * 5)], made.subject())
WHOLE: dict[str, Any] = json.loads(GOOD.dumps())
STRANGER = {"pid": 7, "title": "train", "user": "u", "gpus": [0], "cmdline": "python train.py"}
WHOLE["fingerprint"]["strangers"] = [STRANGER]
WHOLE["fingerprint"]["env_differs"] = {"NCCL_PROTO": {"1": "LL", "2": None}}
ODD = st.one_of(
    st.sampled_from([1e18, -1, 10**30, 1e400, float("nan"), [1], {}, [], "", "1e9", "\ud800", None, True]),
    st.recursive(st.none() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2), max_leaves=5),
    st.integers(),
    st.floats(),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


PLACES = list(places(WHOLE))


def changed(path: tuple[Any, ...], odd: Any) -> str:
    """The record's text with another value in one place."""
    whole = copy.deepcopy(WHOLE)
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = odd
    return json.dumps(whole)


def used(record: Record, folder: Path) -> None:
    """Everything that is done with a record."""
    json.dumps(record.to_json())
    record.dumps().encode()
    in_force(record)
    for one, other in ((GOOD, record), (record, GOOD), (record, record)):
        json.dumps(compare(one, other).to_json(), allow_nan=False)
        compare(one, other).rows()
        explain(one, other).to_json()
    baselines = Baselines(folder)
    try:
        accepted = baselines.accept([record], by="ann")
    except InputError:
        return  # it says why it cannot be one
    assert baselines.all() == (accepted,)
    assess(record, accepted)
    explain(record, accepted)
    baselines.path(accepted.key).unlink()


@example(path=("metrics", "ttft_s", "value"), odd=2.2250738585e-313)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PLACES), odd=ODD)
def test_a_record_with_any_odd_value_is_used_or_refused_by_its_place(
    tmp_path: Path, path: tuple[Any, ...], odd: Any
) -> None:
    try:
        record = loads(changed(path, odd), "run.json")
    except InputError as error:
        assert error.what
        return
    used(record, tmp_path / "baselines")


CASES = {
    "a time that no calendar knows": changed(("created",), 1e18),
    "a list where a number belongs": changed(("fingerprint", "host", "load1"), [1]),
    "no number": changed(("metrics", "decode_tok_s", "value"), float("nan")),
    "a text where a number belongs": changed(("launches", 0, "runs", 0, "tok_s"), "80"),
    "deep nesting": changed(("resolved",), {}).replace(
        '"resolved": {}', '"resolved": ' + '{"a":' * 500 + "1" + "}" * 500
    ),
    "a giant number": changed(("launches", 0, "runs", 0, "tokens"), 10**30),
    "not even that": "\ud800[1, 2".encode("utf-8", "surrogatepass").decode("latin-1"),
}


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "project")
    folder.hosts({"node174": {}})
    Store(folder.root / "results").save(GOOD)
    for number, text in enumerate(CASES.values()):
        folder.write(f"results/odd-{number}/run.json", text.replace(GOOD.run_id, f"odd-{number}"))
    with (folder.root / "results" / "odd-0" / "run.json").open("a") as file:
        file.write(" ")
    large = folder.write("results/odd-large/run.json", "{}")
    with large.open("r+b") as raw:
        raw.truncate(3 << 30)  # a hole: nobody should read it
    return folder


def test_a_list_names_the_odd_ones_and_shows_the_others(project: ProjectFolder) -> None:
    store = Store(project.root / "results")
    assert [summary.run_id for summary in store.list()] == [GOOD.run_id]
    assert len(store.damaged()) == len(CASES) + 1
    ended = project.inv("results")
    assert ended.code == 0, ended.text
    assert GOOD.run_id.rpartition("-")[2] in ended.out
    assert ended.out.count("damaged") == len(CASES) + 1
    for command in (("show",), ("compare", GOOD.run_id), ("explain", "--run"), ("baseline", "--run")):
        ended = project.inv(*command, "odd-0")
        assert (ended.code, "created should be a Unix time" in ended.err) == (2, True), ended.text
