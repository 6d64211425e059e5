"""A driver for tests: GPUs whose users are the processes that hold ``DIR/nvidiaN`` open.

Run as ``nvidia_smi.py STATE.json --query-…``. The state: ``dir``; ``count``; ``mib`` (of each holder);
``mode``: ``host`` (true numbers), ``container`` (the host's numbers: all are ``impostor``), ``hidden`` (no
process is named), ``mismatch`` (driver and library differ); ``charged``: index to MiB that nobody here holds,
until the time ``until``.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def holders(path: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if path in [str(link.readlink()) for link in (folder / "fd").iterdir()]:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def charged(state: dict[str, Any], index: int) -> int:
    """Memory without a holder."""
    if time.time() > state.get("until", time.time()):
        return 0
    return int(state["charged"].get(str(index), 0))


def main() -> None:
    state = json.loads(Path(sys.argv[1]).read_text())
    asked = sys.argv[2]
    if state["mode"] == "mismatch":
        print("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124")
        sys.exit(18)
    users = {index: holders(f"{state['dir']}/nvidia{index}") for index in range(state["count"])}
    if asked.startswith("--query-gpu="):
        for index, pids in users.items():
            known = {
                "index": str(index),
                "uuid": f"GPU-zoo-{index}",
                "name": "Zoo 100",
                "memory.total": "80000",
                "memory.used": str(state["mib"] * len(pids) + charged(state, index)),
                "pci.bus_id": f"00000000:0{index}:00.0",
            }
            print(", ".join(known.get(name, "[N/A]") for name in asked.partition("=")[2].split(",")))
    elif asked.startswith("--query-compute-apps=") and state["mode"] != "hidden":
        for index, pids in users.items():
            for pid in pids:
                shown = state["impostor"] if state["mode"] == "container" else pid
                print(f"GPU-zoo-{index}, {shown}, zoo, worker, {state['mib']}")


main()
