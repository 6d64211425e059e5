"""The environment that real processes really have."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import stoker
from stoker.agent.processes import liveenv
from tests.agent.launched import PROGRAMS

SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65534
RENAMED = """
import os, sys
from setproctitle import setproctitle
setproctitle("sglang::scheduler_TP0")
os.environ["LATER"] = "x" * 20000
del os.environ["GONE"]
print("up", flush=True)
sys.stdin.read()
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program and wait until it says that it is up."""
    started: list[subprocess.Popen[bytes]] = []

    def run(
        argv: Sequence[str | Path], env: Mapping[bytes | str, bytes | str], user: int | None = None
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv,
            env=env,  # type: ignore[arg-type]  # bytes are fine; the stubs do not know it
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            user=user,
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile the C program with some flags."""
    compiler = shutil.which("gcc") or shutil.which("cc")

    def make(*flags: str) -> Path:
        if not compiler:
            pytest.skip("no C compiler")
        out = tmp_path_factory.mktemp("c") / "environment"
        made = subprocess.run(
            [compiler, "-w", "-O1", *flags, "-o", out, PROGRAMS / "environment.c"], capture_output=True
        )
        if made.returncode:
            pytest.skip(f"cannot build with {flags}")
        return out

    return make


def some_env(**more: str) -> dict[str, str]:
    return {"NCCL_PROTO": "LL", "GONE": "1", "PATH": os.environ["PATH"], **more}


def system_python_env() -> dict[str, str]:
    if not Path(SYSTEM_PYTHON).exists():
        pytest.skip("no system Python")
    env = some_env(PYTHONPATH=sysconfig.get_path("platlib"))
    probe = subprocess.run([SYSTEM_PYTHON, "-c", "import setproctitle"], env=env, capture_output=True)
    if probe.returncode:
        pytest.skip("the system's Python cannot import setproctitle")
    return env


@pytest.mark.parametrize("python", [sys.executable, SYSTEM_PYTHON])
def test_a_renamed_python_is_read_with_what_it_set_and_deleted_since(start: Start, python: str) -> None:
    env = some_env() if python == sys.executable else system_python_env()
    process = start([python, "-c", RENAMED], env)
    assert not Path(f"/proc/{process.pid}/environ").read_bytes().strip(b"\0")  # the trap this is about
    found = liveenv.read(process.pid)
    assert (found.source, found.why) == ("memory", "")
    assert found.env["NCCL_PROTO"] == "LL"
    assert found.env["LATER"] == "x" * 20000
    assert "GONE" not in found.env


@pytest.mark.parametrize(
    "flags",
    [(), ("-no-pie",), ("-static",), ("-static-pie",), ("-s",), ("-no-pie", "-fno-pic", "-rdynamic")],
    ids=lambda flags: " ".join(flags) or "plain",
)
def test_c_programs_however_they_are_linked(
    start: Start, build: Callable[..., Path], flags: list[str]
) -> None:
    process = start([build(*flags), "wipe"], some_env())
    found = liveenv.read(process.pid)
    assert (found.source, found.why) == ("memory", "")
    assert found.env == {"NCCL_PROTO": "LL", "PATH": os.environ["PATH"], "LATER": "1"}


def test_without_symbols_the_environment_of_exec_is_what_is_left(
    start: Start, build: Callable[..., Path]
) -> None:
    process = start([build("-static", "-s"), "keep"], some_env())
    found = liveenv.read(process.pid)
    assert found.source == "exec"
    assert "environ" in found.why or "C library" in found.why
    assert found.env["NCCL_PROTO"] == "LL"


def test_an_overwritten_environment_without_symbols_is_unreadable_not_unset(
    start: Start, build: Callable[..., Path]
) -> None:
    process = start([build("-static", "-s"), "wipe"], some_env())
    found = liveenv.read(process.pid)
    assert (found.source, found.env) == ("unreadable", {})
    assert "overwritten" in found.why


@pytest.mark.parametrize("raw", [b"title\0A=1\0", b"\0\0\0A=1\0", b"A=1\0\0\0", b"\0" * 50, b""])
def test_a_damaged_environment_of_exec_is_not_believed(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "environ"
    path.write_bytes(raw)
    with pytest.raises(liveenv.UnreadableError):
        liveenv.at_exec(str(path))


def test_the_empty_environment_is_empty_and_known(start: Start, build: Callable[..., Path]) -> None:
    process = start([build(), "keep"], {})
    assert liveenv.read(process.pid) == liveenv.LiveEnv({}, "memory", "")


def test_bytes_that_are_no_utf8_are_kept(start: Start, build: Callable[..., Path]) -> None:
    process = start([build(), "keep"], {b"X": b"a\xffb", b"Y": "é".encode()})
    found = liveenv.read(process.pid).env
    assert os.fsencode(found["X"]) == b"a\xffb"
    assert found["Y"] == "é"


def test_a_process_that_is_gone_is_unreadable(start: Start, build: Callable[..., Path]) -> None:
    process = start([build(), "keep"], some_env())
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    zombie = liveenv.read(process.pid)
    process.wait()
    for found in (zombie, liveenv.read(process.pid), liveenv.read(2**22 - 1)):
        assert (found.source, found.env) == ("unreadable", {})
        assert "has ended" in found.why


def test_a_kernel_thread_is_unreadable() -> None:
    assert liveenv.read(2).source == "unreadable" or Path("/proc/2/exe").exists()


def test_an_environment_without_end_is_refused(start: Start) -> None:
    code = (
        "import os, sys\nfor i in range(10): os.environ[f'B{i}'] = 'x' * 1000000\n"
        "print('up', flush=True)\nsys.stdin.read()"
    )
    process = start([sys.executable, "-S", "-c", code], some_env())
    found = liveenv.read(process.pid)
    assert found.source == "exec"
    assert "more than" in found.why


def test_an_environment_that_changes_all_the_time_is_right_or_not_there(
    start: Start, build: Callable[..., Path]
) -> None:
    process = start([build(), "churn"], some_env())
    sources = set()
    for _ in range(300):
        found = liveenv.read(process.pid)
        sources.add(found.source)
        assert found.env["NCCL_PROTO"] == "LL"
    assert "memory" in sources


def test_a_process_that_calls_exec_is_never_read_half_and_half(
    start: Start, build: Callable[..., Path]
) -> None:
    program = build()
    process = start([program, "again", "0"], {"X": "0", "Y": "0"})
    seen = set()
    for _ in range(400):
        found = liveenv.read(process.pid)
        if found.source == "memory":
            assert found.env["X"] == found.env["Y"]
            seen.add(found.env["X"])
    assert len(seen) > 10


def test_many_workers_are_read_quickly(start: Start, build: Callable[..., Path]) -> None:
    program = build()
    env = {f"VARIABLE_{i}": "value" * 4 for i in range(120)}
    workers = [start([program, "wipe"], env) for _ in range(64)]
    began = time.perf_counter()
    found = liveenv.read_all(process.pid for process in workers)
    seconds = time.perf_counter() - began
    assert {one.source for one in found.values()} == {"memory"}
    assert all(len(one.env) == 121 for one in found.values())
    assert seconds < 1.0  # about 0.05 s on a quiet machine


def test_check_may_end_reading_many() -> None:
    def stop() -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        liveenv.read_all([os.getpid()], stop)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def read_as_nobody(pid: int) -> liveenv.LiveEnv:
    """What an agent without root reads."""
    code = (
        "import json, sys\nfrom stoker.agent.processes import liveenv\n"
        "print(json.dumps(liveenv.read(int(sys.argv[1]))))"
    )
    root = str(Path(stoker.__file__).parent.parent)
    done = subprocess.run(
        [SYSTEM_PYTHON, "-S", "-c", code, str(pid)],
        env={"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        user=NOBODY,
        capture_output=True,
    )
    if done.returncode:
        pytest.skip(f"no Python for another user: {done.stderr[-200:]!r}")
    return liveenv.LiveEnv(*json.loads(done.stdout))


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")


@needs_root
def test_the_same_user_may_read_without_root(
    start: Start, build: Callable[..., Path], open_folder: Path
) -> None:
    program = shutil.copy(build(), open_folder / "p")
    found = read_as_nobody(start([program, "wipe"], some_env(), NOBODY).pid)
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if scope.exists() and scope.read_text().strip() != "0":
        pytest.skip("ptrace is restricted here")
    assert (found.source, found.env.get("NCCL_PROTO")) == ("memory", "LL")


@needs_root
def test_another_users_process_is_unreadable_and_says_what_it_takes(
    start: Start, build: Callable[..., Path]
) -> None:
    found = read_as_nobody(start([build(), "keep"], some_env()).pid)
    assert found.source == "unreadable"
    assert "takes root" in found.why


@needs_root
@pytest.mark.parametrize("reader", [liveenv.read, read_as_nobody])
def test_a_program_whose_file_was_replaced_is_read_from_the_old_one(
    start: Start, build: Callable[..., Path], open_folder: Path, reader: Callable[[int], liveenv.LiveEnv]
) -> None:
    program = open_folder / "p"
    shutil.copy(build("-static"), program)
    process = start([program, "wipe"], some_env(), NOBODY)
    program.unlink()
    shutil.copy(build("-static", "-DOTHER", "-O3", "-pg"), program)  # the same path, other addresses
    found = reader(process.pid)
    assert (found.source, found.env.get("NCCL_PROTO"), found.env.get("LATER")) == ("memory", "LL", "1")


@needs_root
def test_a_library_that_was_replaced_is_never_taken_for_the_one_in_memory(
    start: Start, build: Callable[..., Path], open_folder: Path
) -> None:
    libc = next(
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line
    )
    copy = open_folder / "libc.so.6"
    shutil.copy(libc, copy)
    program = shutil.copy(build(), open_folder / "p")
    process = start([program, "wipe"], some_env(LD_LIBRARY_PATH=str(open_folder)), NOBODY)
    assert str(copy) in Path(f"/proc/{process.pid}/maps").read_text()
    copy.unlink()
    shutil.copy(build("-shared", "-fPIC", "-Dmain=entry"), copy)
    assert liveenv.read(process.pid).env["LATER"] == "1"
    found = read_as_nobody(process.pid)
    assert found.source == "memory" or (found.source == "unreadable" and "replaced" in found.why)


def test_a_stopped_process_can_be_read(start: Start, build: Callable[..., Path]) -> None:
    process = start([build(), "wipe"], some_env())
    process.send_signal(signal.SIGSTOP)
    assert liveenv.read(process.pid).env["LATER"] == "1"
