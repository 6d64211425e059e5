"""The table that ``nvidia-smi`` shows when it is asked for nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stoker.lab.standins import devices
from stoker.lab.standins.smi.reading import POWER_LIMIT_W, Reading

_WIDE = 89
_TOP = "+-----------------------------------------+------------------------+----------------------+"
_HEAD = """\
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
_PROCESSES = """\
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
_NOBODY = "|  No running processes found                                                             |\n"
_NAME = 27
_PROGRAM = 37


def render(machine: devices.Machine, readings: Sequence[Reading]) -> str:
    """The whole table."""
    edge = "+" + "-" * _WIDE + "+\n"
    versions = f"Driver Version: {machine.driver:<14} CUDA Version: {machine.cuda:<9}"
    version = f"| NVIDIA-SMI {machine.driver:<22} {versions}|\n"
    parts = [time.strftime("%a %b %d %H:%M:%S %Y") + "       \n", edge, version, _TOP + "\n", _HEAD]
    parts += [_gpu(reading) for reading in readings]
    apps = [(reading.gpu.number, app) for reading in readings for app in reading.apps]
    rows = [_app(number, app.pid, app.name, app.mib) for number, app in apps]
    return "".join([*parts, "\n", edge, _PROCESSES, *(rows or [_NOBODY]), edge])


def _gpu(r: Reading) -> str:
    name = r.gpu.name if len(r.gpu.name) <= _NAME else r.gpu.name.removeprefix("NVIDIA ")
    power = f"{r.power_w:.0f}W /  {POWER_LIMIT_W:.0f}W"
    memory = f"{r.used_mib}MiB / {r.gpu.memory_mib}MiB"
    load = f"{r.percent:>6}%      Default"
    rows = (
        f"| {r.gpu.number:>3}  {name:<{_NAME}.{_NAME}}    On  |   {r.gpu.bus_id} Off | {0:>20} |",
        f"| N/A {r.temperature_c:>4}C {r.pstate:>5} {power:>22}  | {memory:>22} | {load} |",
        "|                                         |                        |             Disabled |",
        _TOP,
    )
    return "".join(row + "\n" for row in rows)


def _app(number: int, pid: int, name: str, mib: int) -> str:
    shown = name if len(name) <= _PROGRAM else "..." + name[3 - _PROGRAM :]
    return f"|  {number:>3}   N/A  N/A {pid:>14}      C   {shown:<{_PROGRAM}}{f'{mib}MiB':>10} |\n"
