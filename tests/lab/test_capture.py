"""Stand-ins that somebody started by hand on a lab host become profiles, and run on as they did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.lab.state import LabHost, LabState
from tests.e2e.project import Ended, ProjectFolder
from tests.lab.conftest import Start
from tests.lab.support import PORT, SIX

SAME = ("tuning", "arguments", "versions", "gpus", "limits", "environment")  # how busy the host is may differ


class Site:
    """A project over the lab's inventory."""

    def __init__(self, folder: ProjectFolder, lab: LabState, host: LabHost) -> None:
        self.folder, self._lab, self._host = folder, lab, host

    def inv(self, *argv: str) -> Ended:
        inventory = ("--inventory", f"{self._lab.root}/inventory")
        return self.folder.inv(*argv, "--host", self._host.name, *inventory)

    def result(self, *argv: str) -> dict[str, Any]:
        ended = self.inv(*argv, "--json")
        assert ended.code == 0, ended.text
        found: dict[str, Any] = ended.json["hosts"][self._host.name]["results"][0]
        return found

    def text(self, name: str) -> str:
        return (self.folder.root / f"profiles/{name}.yml").read_text()


@pytest.fixture
def site(tmp_path: Path, lab: LabState, host: LabHost) -> Site:
    return Site(ProjectFolder(tmp_path / "project"), lab, host)


def causes(site: Site, new: dict[str, Any], base: dict[str, Any]) -> list[tuple[str, str]]:
    told = site.result("explain", "--run", new["run_id"], "--against", base["run_id"])
    return [
        (c["title"], c["detail"])
        for c in told["causes"]
        if c["category"] in SAME and c["confidence"] != "unlikely"
    ]


def round_trip(site: Site, name: str) -> dict[str, Any]:
    """Measure what runs, capture it, restart it so, measure again; nothing differs."""
    before = site.result("bench", "--port", str(PORT), "--runs", "1", "--tokens", "16")
    captured = site.result("capture", "--port", str(PORT), "--name", name)
    restarted = site.result("restart", "--profile", name)
    assert restarted["proof"]["verdict"] == "in-force", restarted["proof"]
    after = site.result("bench", "--profile", name, "--runs", "1", "--tokens", "16")
    assert causes(site, after, before) == [], site.text(name)
    assert site.inv("kill", "--profile", name).code == 0
    return captured


@pytest.mark.long
def test_sglang_by_hand_runs_on_with_an_equal_fingerprint(site: Site, sglang: Start, host: LabHost) -> None:
    sglang("--enable-metrics", "--random-seed=7", env=SIX).wait_ready()
    round_trip(site, "mine")
    text = site.text("mine")
    assert "gpus: all" in text
    assert f"venv: {host.home}/venvs/sglang" in text
    assert "    tp-size: 8\n" in text
    for name, value in SIX.items():
        assert f"  {name}: {value}\n" in text
    assert "NCCL_CUMEM_ENABLE" not in text.partition("\nenv:")[2], "the engine sets that by itself"


@pytest.mark.long
def test_vllm_by_hand_on_chosen_gpus_runs_on_with_an_equal_fingerprint(
    site: Site, vllm: Start, host: LabHost
) -> None:
    chosen = {
        "CUDA_VISIBLE_DEVICES": "7,6,5,4,3,2,1,0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": "3",
    }
    vllm("--max-num-seqs", "8", env={**SIX, **chosen}).wait_ready()
    round_trip(site, "mine")
    text = site.text("mine")
    assert "gpus: [7, 6, 5, 4, 3, 2, 1, 0]" in text
    assert f"model: {host.home}/models/Kimi-K2.5" in text
    assert "served-model-name: kimi" in text
