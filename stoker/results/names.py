"""What the name of a variable or an argument tells about how much it can matter."""

from __future__ import annotations

import re

_COMMUNICATION = ("NCCL_", "UCX_", "TORCH_NCCL_", "RCCL_")
# What one engine alone reads. What several read (FLASHINFER_, TORCHINDUCTOR_) is nobody's.
_OF_ENGINE = {
    "SGLANG_": "sglang",
    "SGL_": "sglang",
    "VLLM_": "vllm",
    "LLAMA_": "llamacpp",
    "GGML_": "llamacpp",
    "TRANSFORMERS_": "transformers",
}
# Places, identities and chatter: they differ from launch to launch and from login to login.
_COSMETIC = re.compile(
    r".*_(DIR|HOME|ROOT|PATH|ID|UUID|PID|PORT|ADDR|HOST|NONCE|USAGE_STATS|TIMESTAMP|VERSION)"
    r"|.*_(LOG|LOGGING|LOGLEVEL|LOGS|VERBOSE|VERBOSITY|TELEMETRY|PROGRESS|COLORS?|DEBUG_FILE)(_.*)?"
    r"|VLLM_DIST_IDENT|.*_SHM_BUFFER_NAME"  # drawn anew at each launch
    r"|CUDA_DEVICE_ORDER|(LOCAL_|GROUP_|NODE_)?RANK|LOCAL_WORLD_SIZE|MASTER_.*|TORCHELASTIC_.*",
)
# A login's own variables.
_SESSION = re.compile(
    r"_|PWD|OLDPWD|SHLVL|HOME|USER|LOGNAME|MAIL|SHELL|TERM|TERMINFO|COLORTERM|LS_COLORS|LESS.*|EDITOR|PAGER|HIST.*"
    r"|SSH_.*|XDG_.*|DBUS_.*|TMUX.*|STY|WINDOW|PS1|PROMPT.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|MEMORY_PRESSURE_.*"
    r"|SUDO_.*|HOSTNAME|LINES|COLUMNS|DISPLAY|WAYLAND_.*|MOTD_.*|DEBUGINFOD_.*|KUBERNETES_.*|.*_PORT_\d+_TCP.*"
    r"|.*_SERVICE_(HOST|PORT).*|OMPI_.*|SLURM_.*|LC_.*|LANG|LANGUAGE|TZ"
)
# Hashed, yet known to change how fast a program is.
_WEIGHTY = re.compile(
    r"LD_.*|MALLOC_.*|GLIBC_TUNABLES|PYTHON(OPTIMIZE|MALLOC|PATH|HOME)|VIRTUAL_ENV|PATH|GOMP_.*|KMP_.*"
    r"|MKL_.*|OPENBLAS_.*|BLIS_.*|NUMA.*|TRITON_.*|XLA_.*|HF_HUB_ENABLE.*|NVIDIA_.*|ROCR?_.*|HIP_.*|HSA_.*"
)
_OURS = re.compile(r"STOKER_.*|SPT_NOENV")

_VOLATILE_ARG = re.compile(
    r"(.*\.)?(port|host|random_seed|seed|nccl_port|dist_init_addr|nccl_init_addr|launch_id|status|uptime|start(ed)?_?time"
    r"|.*_time(stamp)?|pid|.*_pid|file_storage_path|log_.*|.*_log|show_time_cost|crash_dump_folder|last_gen_throughput"
    r"|internal_states.*|(media_)?marker|.*memory_usage.*|.*avail_mem.*|.*free_mem.*|id_task|id|slots|total_slots_busy|is_sleeping)"
)


def is_communication(name: str) -> bool:
    """Whether it tunes what GPUs say to each other: nothing, on a server with one GPU."""
    return name.startswith(_COMMUNICATION)


def engine_of(name: str) -> str:
    """The one engine that reads it; empty: any may."""
    return next((engine for prefix, engine in _OF_ENGINE.items() if name.startswith(prefix)), "")


def is_cosmetic(name: str) -> bool:
    """Whether a tuning variable names a place, an identity or chatter: hardly a cause."""
    return _COSMETIC.fullmatch(name) is not None


def is_session(name: str) -> bool:
    """Whether it comes with a login and leaves with it."""
    return _SESSION.fullmatch(name) is not None


def is_weighty(name: str) -> bool:
    """Whether a variable that is recorded by hash only is known to change how fast a program is."""
    return _WEIGHTY.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether Stoker itself sets it, anew for each launch."""
    return _OURS.fullmatch(name) is not None


def is_volatile_argument(name: str) -> bool:
    """Whether an argument that a server reports differs from launch to launch by its nature."""
    return _VOLATILE_ARG.fullmatch(name) is not None
