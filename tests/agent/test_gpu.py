"""What ``nvidia-smi`` says, in the forms that were seen in the field."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.agent.facts import Facts
from stoker.agent.gpus import gpu, gpurows
from stoker.agent.gpus.gpurows import Gpu, GpuProcess
from stoker.agent.processes import procs
from tests.agent.launched import PROGRAMS

CASES = Path(__file__).parent.parent / "cases" / "h200"
REAL = (CASES / "query-gpu.csv").read_text()
UUID = "GPU-00000000-1111-2222-3333-444444444444"

Ask = Callable[..., gpu.GpuState]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask an ``nvidia-smi`` that answers from a table or says what it is told to say."""

    def query(table: str = REAL, devices: str = "", timeout_s: float = 20.0, **env: str) -> gpu.GpuState:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "nvidia-smi"
        script = PROGRAMS / "nvidia_smi.py"
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S {shlex.quote(str(script))} "$@"\n'
        )
        program.chmod(0o755)
        (tmp_path / "table.csv").write_text(table)
        env["FAKE_TABLE"] = str(tmp_path / "table.csv")
        return gpu.query(Facts(gpu_device_dir=devices), {"PATH": f"{folder}:/bin", **env}, timeout_s)

    return query


def test_a_real_h200_field_by_field(ask: Ask) -> None:
    state = ask()
    assert (state.state, state.why, state.processes) == ("ok", "", [])
    assert state.gpus == [
        Gpu(
            index=0,
            uuid=UUID,
            name="NVIDIA H200",
            pci_bus_id="00000000:00:06.0",
            driver="580.159.04",
            memory_total_mib=143771,
            memory_used_mib=0,
            utilization=0,
            temperature_c=37,
            power_w=78.75,
            power_limit_w=700.0,
            clock_sm_mhz=345,
            clock_sm_max_mhz=1980,
            clock_mem_mhz=3201,
            throttle={"mask": "0x0000000000000001", "reasons": ["gpu_idle"]},
            pcie_gen=5,
            pcie_gen_max=5,
            pcie_width=16,
            pcie_width_max=16,
            ecc_uncorrected=0,
            mig=False,
            persistence=True,
            compute_cap="9.0",
        )
    ]


def test_processes_whose_names_hold_commas(ask: Ask) -> None:
    apps = (
        f"{UUID}, 4242, /opt/a, b/python, 19135\n"
        f"{UUID}, 4243, sglang::scheduler_TP0, [N/A]\n"
        f"{UUID}, [N/A], [Insufficient Permissions], 5\n"
        "MIG-1, 4244, , 7 MiB\n"
    )
    assert ask(FAKE_APPS=apps).processes == [
        GpuProcess(UUID, 4242, "/opt/a, b/python", 19135),
        GpuProcess(UUID, 4243, "sglang::scheduler_TP0", None),
        GpuProcess(UUID, None, "[Insufficient Permissions]", 5),
        GpuProcess("MIG-1", 4244, "", 7),
    ]


def test_a_process_that_was_just_killed_is_a_row_without_a_name(ask: Ask) -> None:
    """An H200 right after ``kill -9`` of a launcher, its workers still alive."""
    apps = f"{UUID}, 988, engine::worker_0, 8810\n{UUID}, 986, [No data], 2430\n"
    assert ask(FAKE_APPS=apps).processes == [
        GpuProcess(UUID, 988, "engine::worker_0", 8810),
        GpuProcess(UUID, 986, "[No data]", 2430),
    ]


def test_a_name_that_pretends_to_be_a_row_is_one_row_of_its_own(ask: Ask) -> None:
    found = ask(FAKE_APPS=f"{UUID}, 1, evil, 4242, name, 3\nevil, 4242, name, 3\n").processes
    assert found == [GpuProcess(UUID, 1, "evil, 4242, name", 3)]


@pytest.mark.parametrize(
    "unknown",
    ["[N/A]", "[Not Supported]", "[Insufficient Permissions]", "N/A", "[Unknown Error]", "Unknown Error", ""],
)
def test_what_the_driver_does_not_know_is_none_never_zero(ask: Ask, unknown: str) -> None:
    state = ask(REAL.replace("78.75 W", unknown).replace("0x0000000000000001", unknown))
    assert state.state == "ok"
    assert (state.gpus[0].power_w, state.gpus[0].throttle) == (None, None)
    assert state.gpus[0].clock_sm_mhz == 345


def test_memory_that_is_not_applicable_is_not_zero(ask: Ask) -> None:
    state = ask(REAL.replace("143771 MiB, 0 MiB", "[N/A], [N/A]"))
    assert state.state == "ok"
    assert (state.gpus[0].memory_total_mib, state.gpus[0].memory_used_mib) == (None, None)


def test_an_unknown_error_in_a_vital_field_is_a_broken_gpu(ask: Ask) -> None:
    state = ask(REAL.replace("143771 MiB, 0 MiB", "[Unknown Error], [Unknown Error]"))
    assert state.state == "unhealthy"
    assert "00000000:00:06.0" in state.why


@pytest.mark.parametrize("sign", ["[GPU is lost]", "[GPU requires reset]"])
def test_a_lost_gpu_is_unhealthy_and_named(ask: Ask, sign: str) -> None:
    state = ask(REAL.replace("78.75 W", sign))
    assert state.state == "unhealthy"
    assert "GPU 0" in state.why


def test_throttle_reasons_are_named(ask: Ask) -> None:
    throttle = ask(REAL.replace("0x0000000000000001", "0x0000000000000044")).gpus[0].throttle
    assert throttle == {"mask": "0x0000000000000044", "reasons": ["sw_power_cap", "hw_thermal_slowdown"]}


def test_a_name_with_a_comma_stays_whole() -> None:
    fields = ["index", "uuid", "name"]
    gpus, complaints = gpurows.parse_gpus("0, GPU-1, Odd, Name\n", fields)
    assert (gpus[0].name, complaints) == ("Odd, Name", [])


def test_a_driver_that_does_not_know_some_fields_still_tells_the_rest(ask: Ask) -> None:
    old = REAL.replace("clocks_event_reasons.active", "clocks_throttle_reasons.active")
    old = old.replace(", compute_cap", ", not_yet_invented").replace("pcie.link.gen.max", "pcie.gen.of.old")
    state = ask(old)
    assert state.state == "ok"
    assert state.gpus[0].throttle is not None
    assert (state.gpus[0].compute_cap, state.gpus[0].pcie_gen_max) == (None, None)
    assert state.gpus[0].pcie_width_max == 16


def test_the_real_refusal_of_a_field_is_understood() -> None:
    text = (CASES / "query-bad.txt").read_text()
    assert gpu.REFUSED.search(text)


@pytest.mark.parametrize(
    ("said", "code", "state", "why"),
    [
        (
            "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
            255,
            "unhealthy",
            "0000:0B:00.0",
        ),
        ("No devices were found", 6, "unhealthy", "No devices"),
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure …",
            9,
            "unhealthy",
            "couldn't communicate",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
            18,
            "unknown",
            "NVML library version: 570.124",
        ),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "unknown", "Insufficient Permissions"),
        ("", 1, "unknown", "exit status 1"),
        ("", 0, "unknown", "no GPU"),
        ("Segmentation fault", 139, "unknown", "Segmentation fault"),
    ],
)
def test_what_it_says_instead_of_rows(ask: Ask, said: str, code: int, state: str, why: str) -> None:
    found = ask(FAKE_SAYS=said, FAKE_EXIT=str(code))
    assert found.state == state
    assert why in found.why
    assert found.gpus == []


def test_one_broken_gpu_among_others_makes_the_host_unhealthy(ask: Ask) -> None:
    broken = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error"
    state = ask(REAL + broken + "\n")
    assert state.state == "unhealthy"
    assert [one.index for one in state.gpus] == [0]


def test_a_warning_beside_the_rows_is_told_and_does_not_make_it_unhealthy(ask: Ask) -> None:
    state = ask(REAL.rstrip("\n") + "\n" + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert state.state == "ok"
    assert "infoROM" in state.why


def test_a_driver_that_says_the_same_without_end_is_not_told_whole(ask: Ask) -> None:
    state = ask(REAL + "Unable to determine the device handle for GPU 0\n" * 5_000)
    assert state.state == "unhealthy"
    assert state.why.endswith("; and 4984 lines more")
    assert len(state.why) < 2_000


def test_processes_that_cannot_be_listed_are_unknown_not_none(ask: Ask) -> None:
    assert ask(FAKE_APPS="Insufficient Permissions\n", FAKE_APPS_EXIT="4").state == "unknown"


def test_a_driver_that_hangs_is_unknown_and_nothing_of_it_is_left(ask: Ask) -> None:
    began = time.monotonic()
    state = ask(FAKE_HANGS="1", timeout_s=0.5)
    assert (state.state, state.gpus) == ("unknown", [])
    assert time.monotonic() - began < 3.0
    mine = procs.snapshot(Facts()).descendants(os.getpid())
    assert not [process.title for process in mine if "nvidia" in process.title]


def test_without_nvidia_smi_there_is_none(tmp_path: Path) -> None:
    facts = Facts(simulated=True, gpu_device_dir=str(tmp_path))
    assert gpu.query(facts, {"PATH": str(tmp_path)}).state == "none"


def test_devices_without_nvidia_smi_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidiactl").touch()
    facts = Facts(simulated=True, gpu_device_dir=str(tmp_path))
    state = gpu.query(facts, {"PATH": str(tmp_path)})
    assert state.state == "unknown"
    assert state.why.endswith("nvidia0")
