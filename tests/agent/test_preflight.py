"""What the checks before a launch say."""

from __future__ import annotations

from stoker.agent.gpus.gpu import GpuState
from stoker.agent.gpus.gpurows import Gpu
from stoker.agent.starting import preflight


def test_gpus_of_one_kind_are_told_in_few_words() -> None:
    names = ["H200", "H200", "H200", "L4", "H200"]
    gpus = [Gpu(index=i, uuid=f"GPU-{i}", name=name) for i, name in enumerate(names)]
    told = preflight._gpus({"gpus": list(range(5))}, GpuState("ok", "", gpus, []))
    assert told == "0-2, 4: H200; 3: L4"
