"""Why starts fail: lines as the libraries below the engines write them, and what each is taken for."""

from __future__ import annotations

import pytest

from stoker import engines
from stoker.agent.logfiles.logtail import Matcher

PYTHON = ("sglang", "vllm", "transformers", "openai")
LINES = [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "out-of-memory"),
    ("RuntimeError: CUDA error: out of memory", "out-of-memory"),
    ("OSError: [Errno 12] Cannot allocate memory", "host-memory"),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 117440512 bytes.",
        "host-memory",
    ),
    ("MemoryError", "host-memory"),
    (
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
        "memory (shm).",
        "shared-memory",
    ),
    (
        "RuntimeError: unable to write to file </torch_91_2715_0>: No space left on device (28)",
        "shared-memory",
    ),
    (
        "node174:91:455 [3] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-Kd7eZ3 (size 9637888), error: No space left on device (28)",
        "shared-memory",
    ),
    ("OSError: [Errno 28] No space left on device: '/root/.cache/x'", "no-space"),
    (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1269, unhandled system "
        "error (run with NCCL_DEBUG=INFO for details)",
        "nccl",
    ),
    ("[rank3]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)", "nccl"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "driver-mismatch"),
    ("Failed to initialize NVML: Driver/library version mismatch", "driver-mismatch"),
    ("Error 803: system has unsupported display driver / cuda driver combination", "driver-mismatch"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "driver-mismatch"),
    ("RuntimeError: Found no NVIDIA driver on your system.", "gpu-unavailable"),
    ("RuntimeError: No CUDA GPUs are available", "gpu-unavailable"),
    (
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "missing-library",
    ),
    (
        "ImportError: /usr/lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required "
        "by /opt/v/lib/x.so)",
        "missing-library",
    ),
    ("ImportError: /opt/v/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14S", "missing-library"),
    ("ModuleNotFoundError: No module named 'torch'", "import-error"),
    ("vllm: error: unrecognized arguments: --tensor-paralel-size 2", "bad-argument"),
    ("OSError: [Errno 98] Address already in use", "port-in-use"),
]


def cause_of(engine: str, *lines: str) -> str:
    matcher = Matcher(engines.get(engine).to_wire())
    for line in lines:
        matcher.feed(line)
    assert matcher.ended is None, "a line that only names the cause ended the wait"
    return matcher.cause.cause if matcher.cause else ""


@pytest.mark.parametrize("engine", PYTHON)
@pytest.mark.parametrize(("line", "cause"), LINES, ids=[str(number) for number in range(len(LINES))])
def test_a_line_names_its_cause_whatever_engine_runs(engine: str, line: str, cause: str) -> None:
    if cause == "port-in-use" and engine == "sglang":
        line = "[Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address in use"
    assert cause_of(engine, line) == cause


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "llama-server: error while loading shared libraries: libcublas.so.12: cannot open",
            "missing-library",
        ),
        ("what():  std::bad_alloc", "host-memory"),
        ("ggml_cuda_init: failed: CUDA driver version is insufficient for CUDA runtime", "driver-mismatch"),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 99 MiB: cudaMalloc failed: out of memory",
            "out-of-memory",
        ),
    ],
)
def test_a_line_of_llama_cpp_names_its_cause(line: str, cause: str) -> None:
    assert cause_of("llamacpp", line) == cause


def test_of_a_chain_of_errors_the_first_link_is_the_cause() -> None:
    """NCCL only reports what full shared memory did to it."""
    chain = [LINES[9][0], LINES[7][0]]
    assert cause_of("vllm", *chain) == cause_of("vllm", *reversed(chain)) == "shared-memory"


@pytest.mark.parametrize("engine", engines.names())
def test_each_cause_says_what_to_do(engine: str) -> None:
    for fatal in engines.get(engine).fatal:
        assert fatal.advice.endswith(".")
        assert len(fatal.advice) > 20
