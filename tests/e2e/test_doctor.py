"""``inv doctor`` as a user has it: a table of 80 columns, its exit codes, a lab whose GPUs idle and work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import SshServer

ROOT = Path(__file__).parents[2]
LAB = ("--inventory", ".lab/inventory", "--host", "node174")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[ProjectFolder]:
    folder = ProjectFolder(tmp_path / "project")
    shutil.copytree(ROOT / "profiles", folder.root / "profiles")
    up = folder.inv("lab.up", "--hosts", "1", timeout_s=60)
    assert up.code == 0, up.text
    yield folder
    folder.inv("lab.down", timeout_s=60)


def found(ended: Ended, host: str) -> dict[str, Any]:
    of_host = ended.json["hosts"][host]
    whole = of_host["results"][0] if of_host["results"] else of_host["error"]["detail"]
    return {check["name"]: check for check in whole["checks"]}


@pytest.mark.timeout(120)
@pytest.mark.long
def test_links_and_clocks_are_judged_once_a_server_decodes(lab: ProjectFolder) -> None:
    idle = lab.inv("doctor", *LAB, "--profile", "nccl-tuned", "--json", timeout_s=60)
    assert idle.code == 0, idle.text
    checks = found(idle, "node174")
    assert {checks[name]["state"] for name in ("PCIe link", "clocks")} == {"unknown"}
    assert "idle, not judged" in checks["PCIe link"]["evidence"]
    assert checks["Xid errors"]["state"] == "unknown", "a simulated host has no kernel of its own"
    assert checks["nccl-tuned: program"]["state"] == "ok"
    started = lab.inv("restart", *LAB, "--profile", "nccl-tuned", timeout_s=90)
    assert started.code == 0, started.text
    loaded = lab.inv("doctor", *LAB, "--profile", "nccl-tuned", "--load", "--json", timeout_s=60)
    assert loaded.code == 0, loaded.text
    checks = found(loaded, "node174")
    assert {checks[name]["state"] for name in ("PCIe link", "clocks")} == {"ok"}, checks
    assert checks["clocks"]["evidence"].endswith("under load")


def test_a_broken_driver_is_a_failed_host_in_a_table_of_80_columns(tmp_path: Path, home: Path) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    said = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"
    tool.write_text(f"#!/bin/sh\necho '{said}'\nexit 255\n")
    tool.chmod(0o755)
    env = {"HOME": str(home), "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    folder = ProjectFolder(tmp_path / "project")
    with SshServer(tmp_path / "sshd", env=env) as box:
        folder.hosts({"box": box.variables()})
        ended = folder.inv("doctor", timeout_s=30, env={"COLUMNS": "80"})
    assert ended.code == 3, ended.text
    table = ended.out.split("what was found")[1]
    assert "0000:0B:00.0" in table
    assert "reboot" in table
    assert max(map(len, table.splitlines())) <= 80, ended.text
    assert "not fit to serve: driver" in ended.err
