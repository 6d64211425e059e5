"""The pretended nvidia-smi, held against what a real one said (identifiers replaced)."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.lab.state import LabHost, LabState
from tests.lab.conftest import Start
from tests.lab.support import completion, ssh

REAL = Path(__file__).parent.parent / "cases" / "h200"
Ask = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ask(host: LabHost) -> Ask:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([f"{host.home}/.lab-bin/nvidia-smi", *args], capture_output=True, text=True)

    return run


def real(name: str) -> str:
    return (REAL / name).read_text()


def shape(text: str) -> str:
    """A line with its values taken out: digits and letters that differ between GPUs."""
    return re.sub(
        r"[0-9A-Fa-f]+", "#", re.sub(r"NVIDIA H200|NVIDIA RTX PRO 6000 \(simulated\)", "NAME", text)
    )


def test_the_list(ask: Ask) -> None:
    lines = ask("-L").stdout.splitlines()
    assert len(lines) == 8
    assert all(
        re.fullmatch(r"GPU \d: NVIDIA .*simulated.* \(UUID: GPU-[0-9a-f-]{36}\)", line) for line in lines
    )
    assert len({line.split("UUID")[1] for line in lines}) == 8
    assert re.fullmatch(r"GPU \d: NVIDIA .* \(UUID: GPU-[0-9a-f-]{36}\)", real("L.txt").strip())


def test_a_query_has_the_header_and_the_value_formats_of_the_real_one(ask: Ask) -> None:
    header, row = real("query-gpu.csv").splitlines()
    names = [re.sub(r" \[.*\]", "", name) for name in header.split(", ")]
    lines = ask(f"--query-gpu={','.join(names)}", "--format=csv").stdout.splitlines()
    assert lines[0] == header
    assert len(lines) == 9
    forms = [re.sub(r"[\d.]+|0x[0-9a-f]+", "#", value) for value in row.split(", ")]
    for line in lines[1:]:
        found = [re.sub(r"[\d.]+|0x[0-9a-f]+", "#", value) for value in line.split(", ")]
        for name, one, other in zip(names, found, forms, strict=True):
            if name not in ("name", "uuid", "pci.bus_id"):
                assert one == other, name


def test_units_and_header_can_be_left_out(ask: Ask) -> None:
    done = ask("--query-gpu=memory.total,power.limit,name", "--format=csv,noheader,nounits", "-i", "3")
    assert done.stdout == "97887, 600.00, NVIDIA RTX PRO 6000 (simulated)\n"


def test_an_alias_has_the_canonical_header(ask: Ask) -> None:
    done = ask("--query-gpu=gpu_name,clocks.sm,clocks_throttle_reasons.active", "--format=csv")
    assert done.stdout.splitlines()[0] == "name, clocks.current.sm [MHz], clocks_event_reasons.active"


def test_every_field_of_the_real_one_can_be_asked(ask: Ask) -> None:
    names = re.findall(r'^"([\w.]+)"(?: or "([\w.]+)")?$', real("help-query-gpu.txt"), re.M)
    every = [name for pair in names for name in pair if name]
    assert len(every) > 200
    done = ask(f"--query-gpu={','.join(every)}", "--format=csv,noheader", "--id=0")
    assert done.returncode == 0
    assert done.stdout.count(", ") == len(every) - 1


def test_an_unknown_field_is_refused_as_by_the_real_one(ask: Ask) -> None:
    done = ask("--query-gpu=index,no_such_field", "--format=csv")
    assert f"{done.stdout}rc={done.returncode}\n" == real("query-bad.txt")


@pytest.mark.parametrize(
    ("args", "status", "word"),
    [
        (["-i", "99"], 6, "No devices were found"),
        (["--nonsense"], 1, "Invalid combination of input arguments"),
        (["--query-gpu=index"], 2, "--format="),
    ],
)
def test_wrong_arguments(ask: Ask, args: list[str], status: int, word: str) -> None:
    done = ask(*args)
    assert (done.returncode, word in done.stdout) == (status, True)


def test_the_table_has_the_real_lines(ask: Ask) -> None:
    lines, model = ask().stdout.splitlines(), real("nvidia-smi.txt").splitlines()
    assert {len(line) for line in lines[1:] if line} == {len(line) for line in model[1:] if line} == {91}
    assert lines[1:8] == model[1:8], "up to the first GPU, the versions included"
    assert shape(lines[10]) == shape(model[10])
    assert [line for line in lines if "|==" in line] == [line for line in model if "|==" in line]
    assert lines[-7:] == model[-7:]
    assert sum("(simulated)" in line for line in lines) == 8


def test_the_xml_has_elements_of_the_real_one_only(ask: Ask) -> None:
    def paths(element: ET.Element, above: str = "") -> set[str]:
        here = f"{above}/{element.tag}"
        return {here}.union(*(paths(child, here) for child in element))

    found = ET.fromstring(ask("-q", "-x").stdout)
    assert len(found.findall("gpu")) == 8
    assert paths(found) <= paths(ET.fromstring(real("nvidia-smi-q-under-load.xml")))
    for path in ("uuid", "fb_memory_usage/used", "pci/pci_gpu_link_info/pcie_gen/current_link_gen"):
        assert found.findtext(f"gpu/{path}")


def test_the_report_has_labels_of_the_real_one_only(ask: Ask) -> None:
    def labels(text: str) -> set[str]:
        return {line.split(" : ")[0].rstrip() for line in text.splitlines() if line.startswith(" ")}

    assert labels(ask("-q").stdout) <= labels(real("nvidia-smi-q.txt"))
    column = real("nvidia-smi-q.txt").splitlines()[3].index(":")
    assert {line.index(":") for line in ask("-q").stdout.splitlines() if " : " in line} == {column}


def test_a_process_that_holds_a_gpu_is_seen_with_its_memory(ask: Ask, lab: LabState, host: LabHost) -> None:
    assert ask("--query-compute-apps=pid", "--format=csv,noheader").stdout == ""
    device = Path(lab.root) / "machines" / host.name / "dev" / "nvidia5"
    with device.open() as held, subprocess.Popen(["sleep", "60"], stdin=held) as stray:
        apps = ask("--query-compute-apps=pid,name,used_memory", "--format=csv").stdout.splitlines()
        stray.kill()
    assert apps[0] == "pid, process_name, used_gpu_memory [MiB]"
    assert f"{stray.pid}, sleep, 518 MiB" in apps
    assert ask("--query-gpu=memory.used", "--format=csv,noheader", "-i", "5").stdout == "0 MiB\n"


def test_link_and_clocks_are_down_when_idle_and_up_under_load(
    sglang: Start, ask: Ask, lab: LabState, host: LabHost
) -> None:
    server = sglang().wait_ready()
    fields = "pcie.link.gen.current,clocks.sm,utilization.gpu,clocks_event_reasons.gpu_idle"

    def seen() -> set[str]:
        done = ssh(lab, host, f"nvidia-smi --query-gpu={fields} --format=csv,noheader,nounits")
        return set(done.stdout.decode().splitlines())

    assert seen() == {"1, 180, 0, Active"}
    stream = server.stream("/v1/completions", completion(200))
    next(stream)
    assert seen() == {"5, 2340, 97, Not Active"}, "on all eight"
    apps = ask("--query-compute-apps=process_name", "--format=csv,noheader").stdout.splitlines()
    assert apps == [f"sglang::scheduler_TP{rank}" for rank in range(8)]
