"""Baselines: what may be accepted, how the file reads, and that unlike never meets unlike."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import ConfigError, InputError
from stoker.results.baselines.baseline import Baseline, Baselines, Key, Missing
from stoker.results.baselines.yamltext import dumps
from stoker.results.compare import assess, compare
from stoker.results.records.fromjson import build
from tests.results.made import bad, fingerprint, good, invalid, record, result, subject


@pytest.fixture
def baselines(tmp_path: Path) -> Baselines:
    return Baselines(tmp_path / "baselines")


def accepted(baselines: Baselines, **fields: Any) -> Baseline:
    runs = [good(n, **fields) for n in range(3)]
    return baselines.accept(runs, by="ada@desk", why="new kernel", now=0.0)


def test_what_was_accepted_is_found_whole(baselines: Baselines) -> None:
    made = accepted(baselines)
    assert baselines.find(bad()) == made
    assert made.samples == tuple(good(n).samples[0] for n in range(3))
    assert made.run_ids == tuple(good(n).run_id for n in range(3))
    assert (made.accepted_by, made.accepted_at, made.why) == (
        "ada@desk",
        "1970-01-01T00:00:00Z",
        "new kernel",
    )
    assert made.fingerprint == good().fingerprint


def test_the_file_is_readable_and_one_for_each_key(baselines: Baselines) -> None:
    made = accepted(baselines)
    path = baselines.path(made.key)
    assert path.name.startswith("node174--Kimi-K2.5--sglang--decode-500x1--")
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=../schemas/baseline.json\n# An accepted result")
    assert '  host: "node174"\n' in text
    assert "tok_s: [90.6, 90.6" in text
    assert text.index("launches:") < text.index("fingerprint:")
    accepted(baselines)
    assert [p.name for p in baselines.folder.iterdir()] == [path.name]


def test_a_key_that_reads_the_same_has_a_file_of_its_own(baselines: Baselines) -> None:
    one = accepted(baselines, model="/models/a/Kimi").key
    other = accepted(baselines, model="/models/b/Kimi").key
    assert baselines.path(one) != baselines.path(other)
    assert len(baselines.all()) == 2


def test_the_number_of_runs_is_evidence_and_no_part_of_the_key(baselines: Baselines) -> None:
    accepted(baselines)
    three = record([62.9, 62.9, 62.8])
    assert isinstance(baselines.find(three), Baseline)


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"simulated": True}, "simulated: True, False"),
        ({"model": "other"}, "model: other, /models/Kimi-K2.5"),
        ({"bench": {"name": "decode", "runs": 5, "tokens": 100, "concurrency": 1}}, "tokens: 100, 500"),
        ({"bench": {"name": "decode", "runs": 5, "tokens": 500, "concurrency": 8}}, "concurrency: 8, 1"),
        ({"of": subject(engine="vllm")}, "engine: vllm, sglang"),
    ],
)
def test_unlike_is_never_compared_and_the_difference_is_named(
    baselines: Baselines, fields: dict[str, Any], differs: str
) -> None:
    made = accepted(baselines)
    found = baselines.find(record([62.9] * 5, **fields))
    assert isinstance(found, Missing)
    assert found.nearest == made
    assert found.differs == (differs,)
    assert differs in found.line
    assert assess(record([62.9] * 5, **fields), found).verdict == "no-baseline"


def test_the_baseline_of_another_host_is_not_even_near(baselines: Baselines) -> None:
    accepted(baselines)
    found = baselines.find(record([62.9] * 5, of=subject(host="node175")))
    assert isinstance(found, Missing)
    assert found.nearest is None
    assert "node175" in found.line


def test_simulated_and_real_have_files_of_their_own(baselines: Baselines) -> None:
    accepted(baselines)
    accepted(baselines, simulated=True)
    names = sorted(path.name for path in baselines.folder.iterdir())
    assert len(names) == 2
    assert sum("--simulated-" in name for name in names) == 1
    assert isinstance(baselines.find(bad(simulated=True)), Baseline)


def test_a_renamed_file_still_serves_and_is_replaced_in_place(baselines: Baselines) -> None:
    made = accepted(baselines)
    baselines.path(made.key).rename(baselines.folder / "kimi.yml")
    assert baselines.find(bad()) == made
    baselines.accept([good()], by="b")
    assert [path.name for path in baselines.folder.iterdir()] == ["kimi.yml"]


def test_what_has_no_valid_run_is_not_accepted(baselines: Baselines) -> None:
    with pytest.raises(InputError, match="no valid run"):
        baselines.accept([build([result([], runs=[invalid(0)])], subject())], by="x")
    assert not baselines.folder.exists()


def test_what_was_disturbed_is_not_accepted(baselines: Baselines) -> None:
    with pytest.raises(InputError, match="was disturbed: a stranger"):
        baselines.accept([good(), good(1, contaminated=["a stranger"])], by="x")


def test_runs_of_different_tuning_are_not_one_baseline(baselines: Baselines) -> None:
    env = {**fingerprint()["env"], "NCCL_ALGO": "Tree"}
    with pytest.raises(InputError, match="different tuning: NCCL_ALGO"):
        baselines.accept([good(), good(1, fingerprint=fingerprint(env=env))], by="x")


def test_what_the_engine_sets_itself_may_differ_between_the_launches_of_a_baseline(
    baselines: Baselines,
) -> None:
    env = {**fingerprint()["env"], "NCCL_CUMEM_ENABLE": "1"}
    again = good(1, fingerprint=fingerprint(env=env))
    assert len(baselines.accept([good(), again], by="x").launches) == 2


def test_a_restart_between_the_launches_of_a_baseline_is_fine(baselines: Baselines) -> None:
    host = {**fingerprint()["host"], "boot_id": "boot-z"}
    env = {**fingerprint()["env"], "VLLM_HOST_PORT": "3"}
    again = good(1, fingerprint=fingerprint(host=host, env=env))
    assert len(baselines.accept([good(), again], by="x").launches) == 2


def test_runs_of_different_things_are_not_one_baseline(baselines: Baselines) -> None:
    with pytest.raises(InputError, match="measured different things"):
        baselines.accept([good(), good(1, simulated=True)], by="x")
    with pytest.raises(InputError, match="no run to accept"):
        baselines.accept([], by="x")


def test_the_same_run_twice_is_one_launch(baselines: Baselines) -> None:
    assert len(baselines.accept([good(), good()], by="x").launches) == 1


DAMAGE = {
    "schema: 1": ("schema: 2", ":1: was accepted by a newer Stoker"),
    "tok_s: [": ("tok_s: [.nan, ", ":13: launches[0].tok_s should be a list of positive numbers"),
    '  host: "node174"\n': ("", ":5: key.host is missing"),
    "  tokens: 500": ("  tokens: -1", ":9: key.tokens should be in bounds"),
    "key:": ("key: [", ":6: the YAML cannot be read here"),
}


@pytest.mark.parametrize(("good_text", "harm"), DAMAGE.items())
def test_a_damaged_file_is_a_problem_with_its_name(
    baselines: Baselines, good_text: str, harm: tuple[str, str]
) -> None:
    path = baselines.path(accepted(baselines).key)
    assert good_text in path.read_text()
    path.write_text(path.read_text().replace(good_text, harm[0], 1))
    (problem,) = baselines.problems()[:1]
    assert problem.file == f"baselines/{path.name}"
    assert harm[1] in str(problem)
    with pytest.raises(ConfigError):
        baselines.all()


def test_a_baseline_that_would_serve_but_is_damaged_is_not_passed_over(baselines: Baselines) -> None:
    path = baselines.path(accepted(baselines).key)
    path.write_text("nonsense")
    with pytest.raises(ConfigError):
        baselines.find(bad())


def test_two_files_for_one_key_are_a_problem(baselines: Baselines) -> None:
    path = baselines.path(accepted(baselines).key)
    (baselines.folder / "copy.yml").write_text(path.read_text())
    assert "the baseline of the same as" in str(baselines.problems()[0])


def test_what_is_written_by_hand_in_plain_yaml_serves(baselines: Baselines) -> None:
    key = accepted(baselines).key
    path = baselines.path(key)
    data = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(data))
    assert isinstance(baselines.find(bad()), Baseline)


# The verdict against it.


def test_the_story_regresses_against_its_baseline(baselines: Baselines) -> None:
    verdict = assess(bad(), accepted(baselines))
    assert verdict.verdict == "regressed"
    assert verdict.change == pytest.approx(-0.293, abs=0.01)
    assert verdict.line.startswith("1 launch × 5 runs against 3 × 5; loss 29.")


def test_a_disturbed_run_decides_nothing(baselines: Baselines) -> None:
    verdict = assess(bad(contaminated=["another process is on GPU 0: train.py"]), accepted(baselines))
    assert verdict.verdict == "inconclusive"
    assert "contaminated: another process is on GPU 0" in verdict.line


def test_a_run_without_numbers_is_inconclusive_and_says_why(baselines: Baselines) -> None:
    made = build([result([], runs=[invalid(0)])], subject())
    verdict = assess(made, accepted(baselines))
    assert (verdict.verdict, verdict.change) == ("inconclusive", None)
    assert "nothing came" in verdict.line


def test_a_stricter_maximal_loss_is_passed_on(baselines: Baselines) -> None:
    made = accepted(baselines)
    assert assess(good(1), made, max_loss=0.10).verdict == "ok"
    assert assess(good(1), made, max_loss=0.03).verdict == "inconclusive"


def test_two_runs_side_by_side(baselines: Baselines) -> None:
    found = compare(good(), bad())
    assert found.verdict.verdict == "regressed"
    assert found.rows()[0] == ("decode_tok_s", "90.62 tok/s", "62.9 tok/s", "-30.6 %")
    assert found.to_json()["metrics"][0]["name"] == "decode_tok_s"
    assert found.metrics[0].change == found.verdict.change, "one figure, whatever line it stands in"
    assert found.to_json()["explanation"]["causes"][0]["name"] == "NCCL_ALGO"


def test_a_run_beside_a_baseline(baselines: Baselines) -> None:
    found = compare(accepted(baselines), bad())
    assert found.verdict.verdict == "regressed"
    assert [row.a for row in found.metrics] == [pytest.approx(89.0, abs=0.1), None, None]


def test_different_hosts_may_be_compared_on_purpose_and_it_is_said(baselines: Baselines) -> None:
    found = compare(good(), record([62.9] * 5, of=subject(host="node175")))
    assert found.verdict.verdict == "regressed"
    assert found.explanation.unlike == ("host: node174, node175",)


def test_different_benchmarks_are_shown_but_not_judged(baselines: Baselines) -> None:
    other = record([88.0] * 5, bench={"name": "decode", "runs": 5, "tokens": 100, "concurrency": 1})
    found = compare(good(), other)
    assert found.verdict.verdict == "no-baseline"
    assert "tokens: 500, 100" in found.verdict.line


# The file's text.


def _anything(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 3 else 6)
    if kind < 3:
        signs = "abc:#-{}[]!&*?|>'\"%@`\\\n\t\x00\x1b\x85\u2028\ufeff é😀0yn~,"
        return "".join(dice.choice(signs) for _ in range(dice.randrange(12)))
    if kind == 3:
        return dice.choice([0, -7, 10**18, True, False, None])
    if kind in (4, 5):
        return dice.choice([0.1, -1e-9, 1e300, 5e-324, 3.0, dice.random() * 1e6])
    if kind == 6:
        return [_anything(dice, depth + 1) for _ in range(dice.randrange(4))]
    return {_key(dice): _anything(dice, depth + 1) for _ in range(dice.randrange(4))}


def _key(dice: random.Random) -> str:
    return dice.choice(["a", "NO", "y", "null", "1", "a-b", "_", "x y", "", "ключ", "-", "a:", "~", "1.5"])


@pytest.mark.parametrize("seed", range(40))
def test_any_plain_data_reads_back_as_itself(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(25):
        data = {_key(dice): _anything(dice) for _ in range(dice.randrange(1, 5))}
        for packed in ((), tuple(data)):
            text = dumps(data, packed)
            assert yaml.safe_load(text) == data, text


def test_a_key_is_what_two_results_must_share() -> None:
    key = Key.of(good())
    assert key.differs(key) == ()
    assert key.differs(dataclasses.replace(key, tokens=9)) == ("tokens: 500, 9",)


def test_a_launch_is_a_line_for_the_reviewer_and_so_is_a_gpu(baselines: Baselines) -> None:
    made = accepted(baselines)
    lines = baselines.path(made.key).read_text().splitlines()
    assert sum("tok_s: [" in line for line in lines) == len(made.launches)
    assert sum('uuid: "GPU-' in line for line in lines) == len(made.fingerprint.gpus) == 8
    assert sum("NCCL_PROTO" in line or "NCCL_ALGO" in line for line in lines) == 2, "tuning reads by name"
    assert len(lines) < 80
    assert baselines.all() == (made,)
