"""All-reduces alone, over a real sshd. Torch is a stand-in that says so; the real one is in tests/real."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer

STANDIN = Path(__file__).parents[1] / "standin_torch"
AT = ("bench", "--bench", "allreduce", "--host", "box")
PROFILE = """\
engine: vllm
server:
  name: tiny
  model: "{root}/model"
  bind: 127.0.0.1
  port: 8000
  python: "{python}"
env: {{PYTHONPATH: "{standin}"}}
bench: {{runs: 2}}
"""


@pytest.fixture
def probes(tmp_path: Path, box: SshServer) -> ProjectFolder:
    """A project with profiles that differ in a variable, one of which makes a rank die."""
    folder = ProjectFolder(tmp_path / "project")
    folder.hosts({"box": box.variables()})
    (tmp_path / "model").mkdir()
    sizes = {"hidden_size": 64, "num_hidden_layers": 4, "torch_dtype": "bfloat16"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(sizes))
    text = PROFILE.format(root=tmp_path, python=sys.executable, standin=STANDIN)
    folder.write("profiles/plain.yml", text)
    folder.write("profiles/ll.yml", "extends: plain\nenv: {NCCL_PROTO: LL}\n")
    folder.write("profiles/dies.yml", "extends: plain\nenv: {STANDIN_TORCH: die}\n")
    folder.write("profiles/corrupts.yml", "extends: plain\nenv: {STANDIN_TORCH: wrong}\n")
    return folder


def result(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = document["hosts"]["box"]["results"]
    return dict(found)


def test_profiles_are_probed_compared_and_judged(probes: ProjectFolder, home: Path) -> None:
    ended = probes.inv(*AT, "--profile", "plain", "--profile", "ll", "--json")
    assert ended.code == 0, ended.text
    plain, tuned = result(ended.json)["rows"]
    assert (plain["profile"], tuned["profile"]) == ("plain", "ll")
    assert tuned["proof"]["verdict"] == "in-force"
    assert "NCCL_PROTO" in tuned["proof"]["variables"]
    assert plain["estimate"] is None
    assert tuned["estimate"]["steps"] == 8  # two a layer
    assert "estimate, batch 1: 8 all-reduces a step (2 × 4 layers, assumed)" in ended.err
    assert plain["simulated"] is True
    assert [row["bytes"] for row in plain["sizes"] if row["batch"]] == [128 << n for n in range(7)]

    folder = probes.root / "results" / tuned["run_id"]
    assert {"run.json", "bench.json", "launch.sh"} <= {path.name for path in folder.iterdir()}
    assert "probe/probe.py" in (folder / "launch.sh").read_text()
    assert not list((home / ".stoker" / "slots").iterdir()), "nothing of the probe is left"

    compared = probes.inv("compare", plain["run_id"], tuned["run_id"])
    assert "NCCL_PROTO is new" in compared.out, compared.text
    assert "µs" in probes.inv("results").out
    accepted = probes.inv("baseline", "--run", plain["run_id"])
    assert accepted.code == 0, accepted.text
    again = probes.inv(*AT, "--profile", "ll", "--launches", "2", "--json")
    assert result(again.json)["verdict"] != "no-baseline", again.text
    shown = probes.inv("show", tuned["run_id"])
    assert "1048576 B:" in shown.out, "the curve"
    assert probes.inv("report").code == 0
    page = (probes.root / "results" / "report.html").read_text()
    figures = re.findall(r"[0-9] (all-reduces/s|tok/s)", page[page.index("<body") :])
    assert figures
    assert set(figures) == {"all-reduces/s"}


def test_a_profile_that_fails_is_named_and_the_others_are_measured(probes: ProjectFolder) -> None:
    words = ("--profile", "dies", "--profile", "corrupts", "--profile", "plain")
    ended = probes.inv(*AT, *words, "--json")
    assert ended.code == 3, ended.text
    error = ended.json["hosts"]["box"]["error"]
    assert "2 of 3 profiles could not be probed: dies: rank 1 of the probe of dies" in error["what"]
    assert error["detail"]["failed"]["corrupts"].startswith("sums are wrong under corrupts: ")
    assert [row["profile"] for row in error["detail"]["rows"]] == ["plain"]
    assert [row["profile"] for row in probes.inv("results", "--json").json["results"]] == ["plain"]


def test_a_sweep_ranks_settings_without_a_restart(probes: ProjectFolder, home: Path) -> None:
    ended = probes.inv("sweep", *AT[1:], "--profile", "plain", "--set", "NCCL_PROTO=LL,Simple", "--json")
    assert ended.code == 0, ended.text
    found = result(ended.json)
    assert {row["name"] for row in found["rows"]} == {"as it is", "NCCL_PROTO=LL", "NCCL_PROTO=Simple"}
    assert "µs" in ended.err
    assert not list((home / ".stoker" / "slots").iterdir())


def test_what_cannot_be_asked_is_refused_before_anything_runs(probes: ProjectFolder) -> None:
    assert probes.inv(*AT).code == 2
    assert probes.inv(*AT, "--profile", "plain", "--dtype", "int8").code == 2
    assert probes.inv(*AT, "--profile", "plain", "--batches", "none").code == 2
    assert probes.inv("bench", "--host", "box", "--profile", "plain", "--hidden", "5").code == 2
    assert probes.inv("bench", "--bench", "allreduce", "--profile", "plain").code == 2
