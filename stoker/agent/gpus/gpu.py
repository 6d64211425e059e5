"""GPUs as ``nvidia-smi`` tells them; what it does not know is None, never 0."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..facts import Facts
from ..processes.procs import read_file
from . import gpurows
from .gpurows import ALIASES, UNHEALTHY, Gpu, GpuProcess

_FORMAT = "--format=csv,noheader,nounits"
_SAID = 500
_LINES = 16  # twice the GPUs of most hosts
TIMEOUT_S = 30.0  # without persistence mode every GPU is set up anew, seconds each
# A login over SSH does not see what a container's image put on the PATH.
_USUAL_FOLDERS = ("/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/opt/bin")
REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')


class GpuState(NamedTuple):
    """What is known of a host's GPUs.

    Args:
        state: ``ok``; ``none``: no GPU and no driver; ``unhealthy``: a GPU or the driver is broken;
            ``unknown``: the driver cannot be asked.
        why: In the driver's words where it said something; with ``ok``, its warnings.
        gpus: Those that answered.
        processes: Those that the driver lists.
    """

    state: str
    why: str
    gpus: List[Gpu]
    processes: List[GpuProcess]


class _Answer(NamedTuple):
    code: int
    text: str
    aside: str


class _HungError(Exception):
    """``nvidia-smi`` did not end in time."""


def query(facts: Facts, env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> GpuState:
    """Ask the driver once.

    Args:
        facts: Of the host: where its device files are, and whether they are pretended.
        env: The login's environment; ``nvidia-smi`` is looked for on its PATH.
        timeout_s: For each call of ``nvidia-smi``; a driver that hangs is ``unknown``.
    """
    program = _find(facts, env)
    if not program:
        devices = _devices(facts.gpu_device_dir)
        if devices:
            return GpuState("unknown", f"no nvidia-smi, but {', '.join(devices)}", [], [])
        return GpuState("none", "nvidia-smi is not on the PATH", [], [])
    try:
        return _ask(program, facts, env, timeout_s)
    except _HungError:
        return GpuState("unknown", f"nvidia-smi did not answer within {timeout_s:g} s", [], [])
    except OSError as error:
        return GpuState("unknown", f"{program}: {error.strerror}", [], [])


def details(
    facts: Facts, env: Mapping[str, str], wanted: Sequence[str], timeout_s: float = TIMEOUT_S
) -> Dict[int, Dict[str, str]]:
    """More of each GPU, in the driver's own words.

    Args:
        wanted: Names of fields, none of whose values holds a comma.

    Returns:
        GPU index to field to text. What this driver does not know, or has no value for, is absent.
    """
    program = _find(facts, env)
    if not program:
        return {}
    try:
        fields, answer = _query_gpus(program, env, timeout_s, ["index", *wanted])
    except (_HungError, OSError):
        return {}
    return gpurows.parse_texts(answer.text, fields)


def _ask(program: str, facts: Facts, env: Mapping[str, str], timeout_s: float) -> GpuState:
    fields, answer = _query_gpus(program, env, timeout_s, gpurows.fields())
    gpus, complaints = gpurows.parse_gpus(answer.text, fields)
    faults = [line for line in complaints if not line.startswith("WARNING:")]
    if answer.code or not gpus:
        faults = faults or [answer.aside.strip()[:_SAID] or f"it listed no GPU (exit status {answer.code})"]
    if faults:
        said = "; ".join(faults)
        broken = UNHEALTHY.search(said) or (gpus and not answer.code)
        why = _first_of(faults) + _module(said, facts)
        return GpuState("unhealthy" if broken else "unknown", why, gpus, [])
    argv = [program, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", _FORMAT]
    listing = _run(argv, env, timeout_s)
    if listing.code:
        why = f"the list of processes cannot be read: {(listing.text + listing.aside).strip()[:_SAID]}"
        return GpuState("unknown", why, gpus, [])
    return GpuState("ok", _first_of(complaints), gpus, gpurows.parse_processes(listing.text))


def _query_gpus(
    program: str, env: Mapping[str, str], timeout_s: float, wanted: Sequence[str]
) -> Tuple[List[str], _Answer]:
    """Ask for every field that this driver knows: old ones refuse the whole question for one new name."""
    fields = list(wanted)
    while True:
        answer = _run([program, "--query-gpu=" + ",".join(fields), _FORMAT], env, timeout_s)
        refused = REFUSED.search(answer.text + answer.aside)
        if not refused or refused.group(1) not in fields or len(fields) == 1:
            return fields, answer
        at = fields.index(refused.group(1))
        fields[at : at + 1] = [ALIASES[fields[at]]] if fields[at] in ALIASES else []


def _first_of(lines: Sequence[str]) -> str:
    """Lines as one text; a broken driver may say the same thousands of times."""
    more = [f"and {len(lines) - _LINES} lines more"] if len(lines) > _LINES else []
    return "; ".join([*lines[:_LINES], *more])


def _module(said: str, facts: Facts) -> str:
    """The kernel module's own version, where the library is another one: jobs that run go on with it."""
    if "version mismatch" not in said or facts.simulated:
        return ""
    version = re.search(
        rb"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)", read_file("/proc/driver/nvidia/version")
    )
    return f"; kernel module: {version.group(1).decode()}" if version else ""


def _find(facts: Facts, env: Mapping[str, str]) -> Optional[str]:
    folders = [env.get("PATH", os.defpath), *(() if facts.simulated else _USUAL_FOLDERS)]
    return shutil.which("nvidia-smi", path=os.pathsep.join(folders))


def _devices(folder: str) -> List[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted(os.path.join(folder, name) for name in names if re.fullmatch(r"nvidia\d+", name))


def _run(argv: List[str], env: Mapping[str, str], timeout_s: float) -> _Answer:
    """Run to the end; one that cannot even be killed (state D in the driver) is left behind."""
    process = subprocess.Popen(
        argv,
        env={**env, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise _HungError from error
    finally:
        if process.returncode is None:
            _abandon(process)
    return _Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _abandon(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
