"""vLLM, read from whole real logs of its 0.32.0 CPU build and from its source.

The API server keeps its command line; the engine core and the workers rename themselves, and survive a
SIGKILL of the API server. ``/health`` says that the engine has not died, without generating anything.
"""

from __future__ import annotations

from stoker.engines import common
from stoker.engines.base import ArgvShape, Engine, FatalLine, Metrics, Speculation, Stage

_STAGES = (
    Stage("reading arguments", r"non-default args:", 0.01),
    Stage("starting the engine core", r"Initializing a V\d LLM engine", 0.08),
    Stage("joining the ranks", r"distributed_init_method=", 0.12),
    Stage(
        "loading weights",
        r"Starting to load model|Loading \w[\w ]{0,40} shards:\s+(?P<percent>\d{1,3})% Completed",
        0.15,
    ),
    Stage("profiling and compiling", r"Loading weights took|Model loading took", 0.55),
    Stage("allocating the KV cache", r"KV cache size: [\d,]+ tokens", 0.75),
    Stage("capturing CUDA graphs", r"Capturing CUDA graphs?.{0,60}?\s(?P<percent>\d{1,3})%\|", 0.78),
    Stage("warming up", r"init engine \(profile", 0.90),
    Stage("starting the HTTP server", r"Starting vLLM (API )?server", 0.95),
)

_ABOVE = (
    "Read the traceback of EngineCore or a Worker above; where there is none, it was killed: look for the "
    "kernel's out-of-memory killer (dmesg)."
)
_FATAL = (
    common.PORT_IN_USE,
    FatalLine(
        r"(?i)No available memory for the cache blocks|less than desired GPU memory utilization"
        r"|is less than requested memory for kv"
        r"|larger than the (available|maximum number of tokens).{0,60}KV cache",
        "out-of-memory",
        "Ask for less KV cache (max-model-len, kv-cache-memory-bytes), or give it more memory "
        "(gpu-memory-utilization, more GPUs).",
        final=False,
    ),
    *common.PYTHON_ENGINE,
    FatalLine(
        r"Not enough allowed NUMA nodes",
        "bad-argument",
        "Lower tensor-parallel-size, or bind the threads by VLLM_CPU_OMP_THREADS_BIND.",
        final=False,
    ),
    FatalLine(
        r"ValidationError: \d+ validation errors? for",
        "bad-argument",
        "Correct the profile's server args: the engine's configuration refuses them.",
        final=False,
    ),
    FatalLine(
        r"Engine core initialization failed\. See root cause above",
        "engine-failed",
        _ABOVE,
    ),
    FatalLine(
        r"EngineCore failed to start|Worker proc \S+ died unexpectedly",
        "engine-failed",
        _ABOVE,
        final=False,
    ),
    FatalLine(
        r"EngineDeadError|engine core exited unexpectedly",
        "engine-died",
        "Look for the kernel's out-of-memory killer (dmesg) and read the log above: the engine core is gone.",
    ),
)

VLLM = Engine(
    name="vllm",
    shapes=(
        ArgvShape(program="vllm", subcommand="serve"),
        ArgvShape(module="vllm.entrypoints.openai.api_server"),
        ArgvShape(module="vllm.entrypoints.cli.main", subcommand="serve"),
    ),
    titles=(
        r"VLLM::EngineCore(_\S*)?",
        r"VLLM::Worker(_\S*)?",
        r"VLLM::DPCoordinator",
        r"VLLM::APIServer(_\S*)?",
    ),
    workers=(r"VLLM::EngineCore(_\S*)?", r"VLLM::Worker(_\S*)?"),
    command=("vllm", "serve"),
    api_key_env="VLLM_API_KEY",
    import_name="vllm",
    distribution="vllm",
    grace_s=15.0,
    stages=_STAGES,
    ready=r"Application startup complete\.",
    fatal=_FATAL,
    completion_extra={"ignore_eos": True},
    info_paths=("/server_info?config_format=json", "/version"),
    metrics=Metrics(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        finished=("vllm:request_success_total",),
        generation_tokens=("vllm:generation_tokens_total",),
        cached=("vllm:prefix_cache_hits_total",),
        looked_up=("vllm:prefix_cache_queries_total",),
        drafted=("vllm:spec_decode_num_draft_tokens_total",),
        accepted=("vllm:spec_decode_num_accepted_tokens_total",),
    ),
    speculation=Speculation(
        args=("speculative-config", "sc"),
        steps=(("args", "speculative-config.num_speculative_tokens", 0),),
    ),
    flush_path="/reset_prefix_cache",
    rewrites={
        "OMP_NUM_THREADS": "",
        "VLLM_WORKER_MULTIPROC_METHOD": "",
        "NCCL_CUMEM_ENABLE": "0",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "CUDA_MODULE_LOADING": "LAZY",
    },
    env_prefixes=("VLLM_", "FLASHINFER_", "TORCHINDUCTOR_"),
    shm_prefixes=("psm_", "sem.mp-", "nccl-", "vllm_"),
    aliases={
        "-q": "--quantization",
        "-n": "--nnodes",
        "-r": "--node-rank",
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-dpl": "--data-parallel-size-local",
        "-dpa": "--data-parallel-address",
        "-dpp": "--data-parallel-rpc-port",
        "-dpb": "--data-parallel-backend",
        "-dcp": "--decode-context-parallel-size",
        "-pcp": "--prefill-context-parallel-size",
        "-ep": "--enable-expert-parallel",
        "-sc": "--speculative-config",
    },
    repeats=("--middleware",),
)
