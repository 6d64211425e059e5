"""Whether a host is fit to serve: the driver's real formats, in health and with each thing that breaks."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.facts import Facts
from stoker.agent.gpus import gpu, gpurows, owners
from stoker.agent.health import doctor, doctorgpus, doctorhost, doctorload, doctorsystem
from stoker.agent.processes import procs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, Host, eventually, free_port, lives
from tests.agent.launched import PROGRAMS
from tests.agent.programs_paced import Paced

CASES = Path(__file__).parent.parent / "cases" / "h200"
REAL = Facts(simulated=True)
IDLE = (CASES / "query-gpu.csv").read_text()

# Field of --query-gpu to its place in ``nvidia-smi -q -x``.
XML = {
    "index": "minor_number",
    "name": "product_name",
    "uuid": "uuid",
    "pci.bus_id": "pci/pci_bus_id",
    "memory.total": "fb_memory_usage/total",
    "memory.used": "fb_memory_usage/used",
    "utilization.gpu": "utilization/gpu_util",
    "temperature.gpu": "temperature/gpu_temp",
    "temperature.gpu.tlimit": "temperature/gpu_temp_tlimit",
    "power.draw": "gpu_power_readings/average_power_draw",
    "power.limit": "gpu_power_readings/requested_power_limit",
    "power.default_limit": "gpu_power_readings/default_power_limit",
    "clocks.current.sm": "clocks/sm_clock",
    "clocks.max.sm": "max_clocks/sm_clock",
    "pcie.link.gen.current": "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
    "pcie.link.gen.max": "pci/pci_gpu_link_info/pcie_gen/max_link_gen",
    "remapped_rows.pending": "remapped_rows/remapped_row_pending",
    "remapped_rows.failure": "remapped_rows/remapped_row_failure",
    "gpu_recovery_action": "gpu_recovery_action",
    "compute_mode": "compute_mode",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "mig.mode.current": "mig_mode/current_mig",
    "persistence_mode": "persistence_mode",
}


def under_load() -> dict[str, str]:
    """The real H200 while a server decoded, as ``--query-gpu`` tells it."""
    found = ElementTree.parse(CASES / "nvidia-smi-q-under-load.xml").getroot().find("gpu")
    assert found is not None
    row = {field: (found.findtext(path) or "").strip() for field, path in XML.items()}
    widths = [found.findtext(f"pci/pci_gpu_link_info/link_widths/{w}_link_width") for w in ("current", "max")]
    row["pcie.link.width.current"], row["pcie.link.width.max"] = (str(w).rstrip("x") for w in widths)
    ecc = found.findall("ecc_errors/volatile/*")
    row["ecc.errors.uncorrected.volatile.total"] = str(
        sum(int(e.text or 0) for e in ecc if "uncorr" in e.tag)
    )
    row["ecc.errors.uncorrected.aggregate.total"] = "0"
    idle = found.findtext("clocks_event_reasons/clocks_event_reason_gpu_idle") == "Active"
    row["clocks_event_reasons.active"] = f"0x{int(idle):016x}"
    return row


def driver_says(host: Host, table: str = "", *, said: str = "", code: int = 0) -> None:
    """Give the host an ``nvidia-smi`` that answers from a table, or says something else."""
    (host.root / "table.csv").write_text(table)
    tool = host.bin / "nvidia-smi"
    env = {"FAKE_TABLE": str(host.root / "table.csv")}
    env.update({"FAKE_SAYS": said, "FAKE_EXIT": str(code)} if said else {})
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    program = f'exec {sys.executable} -S {PROGRAMS}/nvidia_smi.py "$@"\n'
    tool.write_text(f"#!/bin/sh\n{exports}{program}")
    tool.chmod(0o755)


def table(*rows: dict[str, str]) -> str:
    return (
        "\n".join(", ".join(cells) for cells in map(list, (rows[0], *(row.values() for row in rows)))) + "\n"
    )


def judged(*rows: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The checks of GPUs that answer so, without a driver to ask; nothing here holds any of them."""
    rows = tuple({"index": row["index"], **row} for row in rows)
    fields = list(rows[0])
    whole = [name for name in gpurows.fields() if name in fields]
    text = "".join(", ".join(row[name].removesuffix(" MiB") for name in whole) + "\n" for row in rows)
    gpus, complaints = gpurows.parse_gpus(text, whole)
    assert not complaints
    told = "".join(", ".join(row.values()) + "\n" for row in rows)
    state = gpu.GpuState("ok", "", gpus, [])
    checks = doctorgpus.each(doctorgpus.looks(state, gpurows.parse_texts(told, fields), []))
    users = owners.find(procs.snapshot(REAL), {}, state, REAL)
    return {one["name"]: one for one in [*checks, *doctorgpus.memory(state, users)]}


def examine(host: Host, **params: Any) -> dict[str, dict[str, Any]]:
    found = doctor.doctor(host.context(), {"engines": ENGINES, "plans": [], **params})
    checks = found["checks"]
    assert all(set(one) == {"name", "state", "evidence", "remedy"} for one in checks)
    assert all(one["evidence"] for one in checks)
    assert len({one["name"] for one in checks}) == len(checks), "a check is there twice"
    return {one["name"]: one for one in checks}


def test_a_real_h200_that_idles_has_no_fault_and_its_clocks_are_not_judged(host: Host) -> None:
    driver_says(host, IDLE)
    found = examine(host)
    assert found["driver"]["evidence"] == "580.159.04, 1 × NVIDIA H200"
    assert found["PCIe link"]["evidence"] == "GPU 0: Gen5 x16"
    assert (found["clocks"]["state"], found["clocks"]["evidence"]) == ("unknown", "GPU 0: idle, not judged")
    assert "--load" in found["clocks"]["remedy"]
    of_gpus = ("driver", "ECC", "throttling", "temperature", "PCIe link", "persistence", "MIG", "GPU memory")
    assert {name: found[name]["state"] for name in of_gpus} == dict.fromkeys(of_gpus, "ok")


def test_a_real_h200_that_decodes_is_judged_although_its_utilisation_shows_zero(host: Host) -> None:
    row = under_load()
    assert row["utilization.gpu"] == "0 %"
    driver_says(host, table(row))
    found = examine(host)
    assert (found["clocks"]["state"], found["clocks"]["evidence"]) == ("ok", "GPU 0: 1980 of 1980 MHz busy")
    assert found["power cap"]["evidence"] == "GPU 0: 700 W"
    assert found["fabric"]["state"] == "ok"
    assert found["compute mode"]["evidence"] == "GPU 0: Default"


@pytest.mark.parametrize(
    ("changed", "name", "state", "words"),
    [
        ({"pcie.link.gen.current": "1"}, "PCIe link", "warn", "Gen1 x16 of Gen5 x16 busy"),
        ({"pcie.link.width.current": "8"}, "PCIe link", "warn", "Gen5 x8 of Gen5 x16 busy"),
        (
            {"pcie.link.gen.current": "1", "clocks_event_reasons.active": "0x1"},
            "PCIe link",
            "unknown",
            "Gen1 x16 of Gen5 x16: idle, not judged",
        ),
        ({"pcie.link.gen.current": "[N/A]"}, "PCIe link", "unknown", "not told"),
        ({"clocks.current.sm": "600 MHz"}, "clocks", "warn", "600 of 1980 MHz"),
        ({"ecc.errors.uncorrected.volatile.total": "2"}, "ECC", "fail", "2 uncorrected errors"),
        ({"ecc.errors.uncorrected.volatile.total": "[N/A]"}, "ECC", "unknown", "not told"),
        ({"ecc.errors.uncorrected.aggregate.total": "1"}, "ECC", "ok", "1 in its life"),
        ({"remapped_rows.pending": "Yes"}, "ECC", "warn", "waits for a reset"),
        ({"remapped_rows.failure": "Yes"}, "ECC", "fail", "could not be remapped"),
        ({"gpu_recovery_action": "Reboot"}, "ECC", "fail", "Reboot"),
        ({"clocks_event_reasons.active": "0x40"}, "throttling", "fail", "hw_thermal_slowdown"),
        ({"clocks_event_reasons.active": "0x2"}, "throttling", "warn", "applications_clocks_setting"),
        ({"clocks_event_reasons.active": "0x4"}, "throttling", "ok", "sw_power_cap"),
        ({"clocks_event_reasons.active": "[N/A]"}, "throttling", "unknown", "not told"),
        ({"temperature.gpu.tlimit": "3"}, "temperature", "warn", "3 °C below its limit"),
        ({"temperature.gpu.tlimit": "-1"}, "temperature", "fail", "-1 °C"),
        ({"temperature.gpu.tlimit": "N/A", "temperature.gpu": "88"}, "temperature", "warn", "88 °C"),
        ({"power.limit": "400.00 W"}, "power cap", "warn", "400 W of 700 W"),
        ({"power.default_limit": "[N/A]"}, "power cap", "unknown", "not told"),
        ({"persistence_mode": "Disabled"}, "persistence", "warn", "off"),
        ({"mig.mode.current": "Enabled"}, "MIG", "warn", "on"),
        ({"mig.mode.current": "[N/A]"}, "MIG", "ok", "not there"),
        ({"compute_mode": "Prohibited"}, "compute mode", "fail", "nothing may compute"),
        ({"compute_mode": "Exclusive_Process"}, "compute mode", "warn", "one process"),
        ({"fabric.state": "Completed", "fabric.status": "Success"}, "fabric", "ok", "Completed"),
        ({"fabric.state": "In Progress", "fabric.status": "N/A"}, "fabric", "fail", "In Progress"),
        (
            {"fabric.state": "Completed", "fabric.status": "Insufficient Resources"},
            "fabric",
            "fail",
            "Insuff",
        ),
        ({"memory.used": "[N/A]"}, "GPU memory", "unknown", "not told"),
        ({"memory.used": "11637 MiB"}, "GPU memory", "fail", "no process here holds it"),
    ],
)
def test_what_can_be_wrong_with_a_gpu(changed: dict[str, str], name: str, state: str, words: str) -> None:
    found = judged({**under_load(), **changed})[name]
    assert found["state"] == state
    assert words in found["evidence"]
    assert bool(found["remedy"]) or state in ("ok", "unknown")


def test_eight_gpus_are_told_in_one_line_and_the_odd_one_first() -> None:
    rows = [{**under_load(), "index": str(i), "uuid": f"GPU-{i}"} for i in range(8)]
    rows[3]["pcie.link.width.current"] = "4"
    found = judged(*rows)["PCIe link"]
    assert found["evidence"] == "GPU 3: Gen5 x4 of Gen5 x16 busy; GPU 0-2, 4-7: Gen5 x16"


def test_a_link_that_is_slow_while_a_server_was_made_to_decode_is_a_fault() -> None:
    gpus, _ = gpurows.parse_gpus("0, GPU-1, 1, 5, 16, 16, 0x0\n", _LINK)
    state = gpu.GpuState("ok", "", gpus, [])
    (seen,) = doctorgpus.looks(state, {}, [gpus[0].to_wire()])
    assert seen.load == "under load"
    (found,) = [one for one in doctorgpus.each([seen]) if one["name"] == "PCIe link"]
    assert (found["state"], found["evidence"]) == ("fail", "GPU 0: Gen1 x16 of Gen5 x16 under load")


_LINK = [
    "index",
    "uuid",
    *(f"pcie.link.{m}" for m in ("gen.current", "gen.max", "width.current", "width.max")),
]
_LINK += ["clocks_event_reasons.active"]


@pytest.mark.parametrize(
    ("said", "code", "evidence", "remedy"),
    [
        (
            "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error",
            255,
            "0000:0B:00.0",
            "reboot",
        ),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
            18,
            "570.124",
            "reboot the host",
        ),
        ("No devices were found", 6, "No devices", "dkms"),
        ("Failed to initialize NVML: Insufficient Permissions", 4, "Permissions", "/dev/nvidia"),
        ("Segmentation fault", 139, "Segmentation", "dmesg"),
    ],
)
def test_a_broken_driver_fails_with_its_own_words_and_what_to_do(
    host: Host, said: str, code: int, evidence: str, remedy: str
) -> None:
    driver_says(host, said=said, code=code)
    found = examine(host)
    assert found["driver"]["state"] == "fail"
    assert evidence in found["driver"]["evidence"]
    assert remedy in found["driver"]["remedy"]
    assert "PCIe link" not in found, "no GPU answered, so none is judged"


def test_a_warning_of_the_driver_is_a_warning(host: Host) -> None:
    driver_says(host, IDLE + "WARNING: infoROM is corrupted at gpu 0000:3B:00.0\n")
    assert "infoROM" in examine(host)["driver"]["evidence"]


def test_a_host_without_gpus_is_fit_unless_a_profile_wants_some(host: Host) -> None:
    assert examine(host)["driver"]["state"] == "ok"
    found = examine(host, plans=[host.plan(gpus=(0,))])
    assert found["driver"]["state"] == "fail"
    assert found["zebra: gpus"]["state"] == "fail"


def test_what_keeps_a_profile_from_starting_is_found_before_anybody_starts_it(host: Host) -> None:
    good = examine(host, plans=[host.plan()])
    assert {one["state"] for name, one in good.items() if name.startswith("zebra: ")} == {"ok"}
    bad = examine(host, plans=[host.plan(model_path="/no/such/model", argv=("/no/such/program",))])
    assert "/no/such/model" in bad["zebra: model"]["evidence"]
    assert bad["zebra: program"]["state"] == "fail"


def test_a_port_is_free_or_our_own_servers_and_otherwise_a_fault(host: Host) -> None:
    plan = host.plan()
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    assert "held by this profile's server" in examine(host, plans=[plan])["zebra: address"]["evidence"]
    other = free_port()
    host.serve("--port", str(other))
    assert examine(host, plans=[host.plan(port=other)])["zebra: address"]["state"] == "fail"


def test_what_dead_servers_left_and_what_somebody_started_is_told(host: Host) -> None:
    assert examine(host)["leftovers"]["evidence"] == "none"
    pid = host.serve("--hold-on", "--port", str(free_port()))
    assert f"process {pid}" in examine(host)["leftovers"]["evidence"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(pid), "its end")
    found = examine(host)["leftovers"]
    assert (found["state"], "inv kill" in found["remedy"]) == ("warn", True)


def test_the_servers_decode_while_the_driver_is_asked(host: Host) -> None:
    driver_says(host, table({**under_load(), "pcie.link.gen.current": "1"}))
    host.declare(process_env={})
    engine = {**ENGINES[0], "name": "openai", "shapes": [], "titles": []}
    with Paced("--model", "ok@400") as server:
        one = {"alive": True, "slot": None, "port": server.port}
        loaded = doctorload.drive(host.context(), [engine], [one])
    assert loaded.failed == []
    assert loaded.driven[0].startswith(f"port {server.port}: ")
    (sampled,) = loaded.gpus
    assert sampled["samples"] >= 3


def test_a_server_that_does_not_answer_is_told_and_the_other_checks_stand(host: Host) -> None:
    host.serve("--port", str(free_port()))
    found = doctor.doctor(host.context(), {"engines": ENGINES, "plans": [], "load": True})
    assert found["loaded"] == []
    assert len(found["checks"]) > 8
    (step,) = [
        e for e in host.events if e["type"] == "step" and e["name"] == "load the servers" and "seconds" in e
    ]
    assert step["detail"]


def test_a_cancel_ends_the_load(host: Host) -> None:
    host.declare(process_env={})
    ctx = host.context()
    with Paced("--model", "ok@400") as server:
        ctx.cancel()
        with pytest.raises(AgentError) as caught:
            doctorload.drive(ctx, [], [{"alive": True, "slot": None, "port": server.port}])
    assert caught.value.kind == "cancelled"


# What the system tells, from files as they are on such hosts.


def put(root: Path, texts: dict[str, str]) -> str:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


@pytest.mark.parametrize(
    ("texts", "state"),
    [
        ({}, "ok"),
        ({"run/systemd/system/x": "", "etc/systemd/logind.conf": "[Login]\n#KillUserProcesses=yes\n"}, "ok"),
        ({"run/systemd/system/x": "", "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}, "fail"),
        (
            {
                "run/systemd/system/x": "",
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
                "usr/lib/systemd/logind.conf.d/50-x.conf": "[Login]\nKillUserProcesses=no\n",
            },
            "ok",
        ),
        (
            {
                "run/systemd/system/x": "",
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=root ada\n",
            },
            "ok",
        ),
        (
            {
                "run/systemd/system/x": "",
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillOnlyUsers=bob\n",
            },
            "ok",
        ),
        ({"proc/self/cgroup": "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n"}, "warn"),
        (
            {
                "run/systemd/system/x": "",
                "etc/passwd": "ada:x:1000:1000::/home/ada:/bin/sh\n",
                "home/ada/.config/systemd/user/stoker-kimi.service": "",
            },
            "warn",
        ),
        (
            {
                "run/systemd/system/x": "",
                "etc/passwd": "ada:x:1000:1000::/home/ada:/bin/sh\n",
                "home/ada/.config/systemd/user/stoker-kimi.service": "",
                "var/lib/systemd/linger/ada": "",
            },
            "ok",
        ),
    ],
)
def test_whether_the_end_of_a_login_ends_its_servers(
    tmp_path: Path, texts: dict[str, str], state: str
) -> None:
    assert doctorsystem.logins("ada", 1000, put(tmp_path, texts))["state"] == state


@pytest.mark.parametrize(
    ("scope", "capabilities", "state"),
    [
        ("0", "0", "ok"),
        ("1", "0", "warn"),
        ("1", "80000", "ok"),
        ("3", "1ffffffffff", "warn"),
        (None, "0", "ok"),
    ],
)
def test_whether_a_proof_is_possible(
    tmp_path: Path, scope: str | None, capabilities: str, state: str
) -> None:
    texts = {"proc/self/status": f"Name:\tx\nCapEff:\t{capabilities:0>16}\n"}
    texts.update({} if scope is None else {"proc/sys/kernel/yama/ptrace_scope": f"{scope}\n"})
    assert doctorsystem.ptrace(put(tmp_path, texts))["state"] == state


def limits_of(memlock: str, files: int) -> str:
    real = Path("/proc/self/limits").read_text().splitlines()
    rows = [line for line in real if not line.startswith(("Max locked memory", "Max open files"))]
    rows.append(f"Max locked memory         {memlock:<20} {memlock:<20} bytes")
    rows.append(f"Max open files            {files:<20} {files:<20} files")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("memlock", "files", "rdma", "state"),
    [
        ("65536", 65536, True, "warn"),
        ("65536", 65536, False, "ok"),
        ("unlimited", 65536, True, "ok"),
        ("unlimited", 1024, False, "warn"),
    ],
)
def test_limits_are_those_of_the_server_that_runs(
    tmp_path: Path, memlock: str, files: int, rdma: bool, state: str
) -> None:
    texts = {"proc/77/limits": limits_of(memlock, files)}
    texts.update({"dev/infiniband/uverbs0": ""} if rdma else {})
    found = doctorsystem.limits({"kimi": 77}, put(tmp_path, texts))
    assert (found["state"], "kimi" in found["evidence"]) == (state, True)


def test_limits_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    assert doctorsystem.limits({"kimi": 77}, str(tmp_path))["state"] == "unknown"


XID = (
    "<4>[ 9000.500000] NVRM: Xid (PCI:0000:3b:00): {number}, pid='<unknown>', name=<unknown>, "
    "GPU has fallen off the bus.\n"
)


@pytest.mark.parametrize(
    ("number", "now", "state"), [(79, 9100.0, "fail"), (79, 200000.0, "warn"), (31, 9100.0, "warn")]
)
def test_xid_errors_of_the_kernels_log(number: int, now: float, state: str) -> None:
    log = "<6>[    1.000000] Linux version 6\n" + XID.format(number=number)
    found = doctorsystem.xids(log, now)
    assert found["state"] == state
    assert f"Xid {number} on 0000:3b:00" in found["evidence"]
    assert "fallen off the bus" in found["evidence"]


def test_a_log_without_xid_errors_is_fine_and_one_that_may_not_be_read_is_unknown() -> None:
    assert doctorsystem.xids("<6>[    1.000000] Linux version 6\n", 5.0)["state"] == "ok"
    assert doctorsystem.xids(None, 5.0)["state"] == "unknown"


def test_the_kernels_log_is_read_where_it_may_be() -> None:
    log = doctorsystem.kernel_log()
    allowed = os.geteuid() == 0 or Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() == "0"
    if log is None:
        assert not allowed or subprocess.run(["dmesg"], capture_output=True, check=False).returncode != 0
    else:
        assert "[" in log


def config_space(control: int) -> bytes:
    """PCIe configuration space: an AER capability, then ACS with this control register."""
    space = bytearray(4096)
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x150 << 20).to_bytes(4, "little")
    space[0x150:0x154] = (0x000D | 1 << 16).to_bytes(4, "little")
    space[0x156:0x158] = control.to_bytes(2, "little")
    return bytes(space)


@pytest.mark.parametrize(
    ("group", "control", "level", "state", "words"),
    [
        ("DMA", 0, "SYS", "warn", "IOMMU translates"),
        ("DMA-FQ", 0, "", "ok", "IOMMU translates"),
        ("identity", 0, "SYS", "ok", "neither"),
        ("identity", 0x1D, "SYS", "warn", "0000:00:01.0"),
        ("identity", 0x1D, "", "ok", "0000:00:01.0"),
    ],
)
def test_what_stands_between_gpus_matters_where_p2p_is_forced(
    tmp_path: Path, group: str, control: int, level: str, state: str, words: str
) -> None:
    gpus = "sys/kernel/iommu_groups/7"
    put(
        tmp_path,
        {
            f"{gpus}/type": f"{group}\n",
            f"{gpus}/devices/0000:3b:00.0/vendor": "0x10de\n",
            f"{gpus}/devices/0000:3b:00.0/class": "0x030200\n",
            "sys/bus/pci/devices/0000:00:01.0/class": "0x060400\n",
        },
    )
    (tmp_path / "sys/bus/pci/devices/0000:00:01.0/config").write_bytes(config_space(control))
    found = doctorsystem.iommu(level, str(tmp_path))
    assert found["state"] == state
    assert words in found["evidence"]


def meminfo(available: int, swap_used: int = 0) -> str:
    return (
        f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {available << 10} kB\n"
        f"SwapTotal: {8 << 20} kB\nSwapFree: {(8192 - swap_used) << 10} kB\n"
    )


@pytest.mark.parametrize(("available", "state"), [(60000, "ok"), (1000, "warn")])
def test_free_memory(tmp_path: Path, available: int, state: str) -> None:
    assert doctorhost.memory(put(tmp_path, {"proc/meminfo": meminfo(available)}))["state"] == state


def test_a_server_that_was_swapped_out_is_named(tmp_path: Path) -> None:
    root = put(tmp_path, {"proc/meminfo": meminfo(60000, 100), "proc/5/status": "VmSwap:\t  51200 kB\n"})
    found = doctorhost.swap([5], root)
    assert (found["state"], "process 5 50 MiB" in found["evidence"]) == ("warn", True)
    assert doctorhost.swap([], root)["state"] == "ok"
    assert doctorhost.swap([], put(tmp_path, {"proc/meminfo": meminfo(60000, 4000)}))["state"] == "warn"


@pytest.mark.parametrize(
    ("used", "kills", "state"), [(1 << 30, 0, "ok"), (31 << 30, 0, "warn"), (1 << 30, 2, "warn")]
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_memory_limit_of_the_group_above(
    tmp_path: Path, used: int, kills: int, state: str, version: int
) -> None:
    base = "sys/fs/cgroup/memory" if version == 1 else "sys/fs/cgroup"
    names = (
        ("memory.limit_in_bytes", "memory.usage_in_bytes")
        if version == 1
        else ("memory.max", "memory.current")
    )
    events = "memory.oom_control" if version == 1 else "memory.events"
    line = "4:memory:/box/inner\n" if version == 1 else "0::/box/inner\n"
    root = put(
        tmp_path,
        {
            "proc/meminfo": meminfo(60000),
            "proc/self/cgroup": line,
            f"{base}/box/{names[0]}": f"{32 << 30}\n",
            f"{base}/box/{names[1]}": f"{used}\n",
            f"{base}/box/inner/{names[0]}": "max\n" if version == 2 else "9223372036854771712\n",
            f"{base}/box/inner/{events}": f"oom 3\noom_kill {kills}\n",
        },
    )
    found = doctorhost.cgroup_memory([], root)
    assert found["state"] == state
    assert "32768 MiB" in found["evidence"]


def test_nccl_files_that_set_something_are_told_with_what_nccl_does_not_understand(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert doctorhost.nccl_files(str(home), [], str(tmp_path))["state"] == "ok"
    (home / ".nccl.conf").write_text("# tuned\nNCCL_ALGO=Ring\nexport NCCL_PROTO=LL\nNCCL_DEBUG = INFO\n")
    found = doctorhost.nccl_files(str(home), [], str(tmp_path))
    assert found["state"] == "warn"
    assert "sets NCCL_ALGO" in found["evidence"]
    assert "export NCCL_PROTO=LL" in found["evidence"]
    assert "'NCCL_DEBUG = INFO'" in found["evidence"]
    named = doctorhost.nccl_files(str(home), ["/no/such.conf"], str(tmp_path))
    assert ("does not exist" in named["evidence"], "ALGO" in named["evidence"]) == (True, False)


def test_shared_memory_and_disk_are_judged_by_their_room(tmp_path: Path) -> None:
    assert doctorhost.shm(str(tmp_path / "none"), 8)["state"] == "fail"
    assert doctorhost.shm(str(tmp_path / "none"), 0)["state"] == "warn"
    assert doctorhost.shm(str(tmp_path), 8)["state"] == "ok"
    assert doctorhost.disk({"home": str(tmp_path / "not" / "yet")})["state"] in ("ok", "warn")
    full = doctorhost.disk({"home": "/proc"})
    assert (full["state"], "0 MiB free" in full["evidence"]) == ("fail", True)
