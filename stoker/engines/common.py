"""Lines that several engines share: they come from the libraries below them."""

from __future__ import annotations

from stoker.engines.base import FatalLine

PORT_IN_USE = FatalLine(
    pattern=r"(?i)address already in use",
    cause="port-in-use",
    advice="Free the port or choose another one in the profile.",
    final=False,
)
CUDA_MEMORY = FatalLine(
    pattern=r"(?i)CUDA out of memory|CUDA error: out of memory|OutOfMemoryError",
    cause="out-of-memory",
    advice="Free the GPUs, or ask for less: a shorter context, a smaller share of memory, more GPUs.",
    final=False,
)
HOST_MEMORY = FatalLine(
    pattern=r"\bMemoryError\b|Cannot allocate memory|can't allocate memory|std::bad_alloc|\(OOM\) killer",
    cause="host-memory",
    advice="Free the host's memory (RAM, not the GPUs'), or raise the limit of the container or unit.",
    final=False,
)
SHARED_MEMORY = FatalLine(
    pattern=r"(?i)insufficient shared memory|bus error|creating shared memory segment"
    r"|unable to (write to|open|mmap|resize) .{0,40}(/torch_|shared memory|/dev/shm)"
    r"|/dev/shm.{0,120}No space left|No space left.{0,120}/dev/shm",
    cause="shared-memory",
    advice="Make room in /dev/shm: remove what dead servers left there (inv kill), or give the container "
    "more of it (--shm-size, --ipc=host).",
    final=False,
)
DRIVER = FatalLine(
    pattern=r"(?i)CUDA driver version is insufficient|NVIDIA driver on your system is too old"
    r"|Driver/library version mismatch|unsupported display driver / cuda driver combination"
    r"|provided PTX was compiled with an unsupported toolchain|forward compatibility was attempted"
    r"|no kernel image is available for execution",
    cause="driver-mismatch",
    advice="Match the engine's CUDA build to the host's driver and GPUs: another venv, a newer driver, or, "
    "after a driver update, a reboot.",
    final=False,
)
LIBRARY = FatalLine(
    pattern=r"error while loading shared libraries|cannot open shared object file|undefined symbol: "
    r"|version .{1,2}(GLIBC|GLIBCXX|CXXABI)_\S{1,20} not found",
    cause="missing-library",
    advice="Repair the engine's installation: a shared library that it was built for is not there.",
    final=False,
)
NO_CUDA = FatalLine(
    pattern=r"(?i)no CUDA-capable device|Found no NVIDIA driver"
    r"|No CUDA GPUs are available|system not yet initialized|CUDA error: invalid device ordinal",
    cause="gpu-unavailable",
    advice="Check the driver with nvidia-smi on the host, and that the profile's GPUs are there.",
    final=False,
)
NCCL = FatalLine(
    pattern=r"(?i)unhandled (system|cuda) error|ncclSystemError|ncclInternalError|ncclInvalidUsage"
    r"|ncclUnhandledCudaError|ncclRemoteError|NCCL error in:|Watchdog caught collective operation timeout"
    r"|Invalid value .{0,80} for NCCL_",
    cause="nccl",
    advice="Check the profile's NCCL variables; with NCCL_DEBUG=INFO among them NCCL says what it takes.",
    final=False,
)
MODEL_MISSING = FatalLine(
    pattern=r"LocalEntryNotFoundError|RepositoryNotFoundError|HFValidationError|GatedRepoError"
    r"|is not a local folder and is not a valid model identifier"
    r"|does not appear to have a file named config\.json|Invalid repository ID or local directory specified",
    cause="model-missing",
    advice="Check the profile's model: the path must exist on the host, or the hub must be reachable.",
    final=False,
)
MODEL_CORRUPT = FatalLine(
    pattern=r"SafetensorError|Error while deserializing header|UnpicklingError|invalid load key",
    cause="model-corrupt",
    advice="Copy the model again: a file of it is cut or damaged.",
    final=False,
)
NO_SPACE = FatalLine(
    pattern=r"No space left on device|Errno 28\b",
    cause="no-space",
    advice="Make room on the host's disk or in /dev/shm.",
    final=False,
)
BAD_ARGUMENT = FatalLine(
    pattern=r"error: (unrecognized arguments|argument |the following arguments are required|ambiguous option)"
    r"|No such option:|Got unexpected extra argument",
    cause="bad-argument",
    advice="Correct the profile's server args: this version of the engine refuses one of them.",
    final=False,
)
IMPORT = FatalLine(
    pattern=r"^(ModuleNotFoundError|ImportError): |: No module named ",
    cause="import-error",
    advice="Repair the profile's venv or python: the engine does not import there.",
    final=False,
)

# In the order in which they explain each other: full shared memory shows as an error of NCCL, too.
PYTHON_ENGINE = (
    CUDA_MEMORY,
    SHARED_MEMORY,
    HOST_MEMORY,
    DRIVER,
    NO_CUDA,
    NCCL,
    MODEL_MISSING,
    MODEL_CORRUPT,
    NO_SPACE,
    BAD_ARGUMENT,
    LIBRARY,
    IMPORT,
)
