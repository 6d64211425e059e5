"""SGLang, read from its 0.5.23 source and from public logs.

The launcher keeps its command line; its children rename themselves. A scheduler has no handler for SIGTERM,
so only the launcher may get one; it then waits for requests in flight, 15 s more, and kills its tree, which
can take 60 s.
"""

from __future__ import annotations

from stoker.engines import common
from stoker.engines.base import ArgvShape, Engine, FatalLine, Metrics, Speculation, Stage

_STAGES = (
    Stage("reading arguments", r"server_args=", 0.01),
    Stage("joining the ranks", r"Init torch distributed begin", 0.04),
    Stage(
        "loading weights",
        r"Load weight begin|Loading \w[\w ]{0,40} shards:\s+(?P<percent>\d{1,3})% Completed",
        0.08,
    ),
    Stage("allocating the KV cache", r"Load weight end|KV Cache is allocated", 0.60),
    Stage(
        "capturing CUDA graphs",
        r"(?i)Capture .{0,40}graph (capture )?begin"
        r"|Capturing (batches|num tokens).{0,120}\| (?P<done>\d+)/(?P<total>\d+) \["
        r"|DeepGEMM warmup:\s+\d{1,3}%",
        0.66,
    ),
    Stage("starting the HTTP server", r"max_total_num_tokens=\d+, |Started server process", 0.92),
    Stage("warming up", r"Application startup complete|Uvicorn running on", 0.95),
)

_FATAL = (
    FatalLine(
        r"error while attempting to bind on address|(?i:port \d+ is already in use\b(?!, trying))",
        "port-in-use",
        "Free the port or choose another one in the profile.",
        final=False,
    ),
    FatalLine(
        r"Not enough memory\. Please try to (in|de)crease --mem-fraction-static",
        "out-of-memory",
        "Raise mem-fraction-static in the profile's args, or free the GPUs.",
        final=False,
    ),
    *common.PYTHON_ENGINE,
    FatalLine(
        r"Capture .{0,40}graph failed",
        "graph-capture",
        "Lower cuda-graph-max-bs or mem-fraction-static in the profile's args.",
        final=False,
    ),
    FatalLine(
        r"Rank \d+ scheduler died during initialization",
        "worker-died",
        "Look for the kernel's out-of-memory killer (dmesg) and read the worker's traceback above.",
    ),
    FatalLine(
        r"Initialization failed\. warmup error",
        "warmup-failed",
        "Read the traceback above: the first request failed.",
    ),
    FatalLine(
        r"(Scheduler|DetokenizerManager|TokenizerManager|DataParallelController) hit an exception",
        "worker-died",
        "Read the traceback in the log: a worker failed.",
    ),
    FatalLine(
        r"Received sigquit from a child process",
        "worker-died",
        "Read the traceback of the child above: the launcher only reports its end.",
    ),
)

SGLANG = Engine(
    name="sglang",
    shapes=(ArgvShape(module="sglang.launch_server"), ArgvShape(program="sglang", subcommand="serve")),
    titles=(
        r"sglang::scheduler(_\S*)?",
        r"sglang::detokenizer(_router)?",
        r"sglang::data_parallel_controller",
        r"sglang::tokenizer_worker:\d+",
    ),
    workers=(r"sglang::scheduler(_\S*)?",),
    command=("{python}", "-m", "sglang.launch_server"),
    model_flag="--model-path",
    import_name="sglang",
    distribution="sglang",
    grace_s=90.0,
    stages=_STAGES,
    ready=r"The server is fired up and ready to roll!",
    fatal=_FATAL,
    completion_extra={"ignore_eos": True},
    info_paths=("/server_info", "/get_server_info"),
    metrics=Metrics(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        finished=("sglang:num_requests_total",),
        generation_tokens=("sglang:generation_tokens_total",),
        throughput=("sglang:gen_throughput",),
        cached=("sglang:cached_tokens_total",),
        looked_up=("sglang:prompt_tokens_total",),
        accept_length=("sglang:spec_accept_length",),
        accept_rate=("sglang:spec_accept_rate",),
    ),
    speculation=Speculation(
        args=("speculative-*",),
        steps=(("args", "speculative-num-steps", 0), ("args", "speculative-num-draft-tokens", 1)),
    ),
    flush_path="/flush_cache",
    rewrites={
        "NCCL_CUMEM_ENABLE": "0",
        "NCCL_NVLS_ENABLE": "0",
        "CUDA_DEVICE_MAX_CONNECTIONS": "8",
        "NCCL_GRAPH_MIXING_SUPPORT": "",
        "TRTLLM_ENABLE_PDL": "1",
        "SGLANG_RUN_ID": "",
    },
    env_prefixes=("SGLANG_", "SGL_", "FLASHINFER_", "TRTLLM_", "DG_"),
    shm_prefixes=("psm_", "sem.mp-", "nccl-", "sglang_loads_"),
    aliases={
        "--model": "--model-path",
        "--tp": "--tp-size",
        "--tensor-parallel-size": "--tp-size",
        "--pp": "--pp-size",
        "--pipeline-parallel-size": "--pp-size",
        "--dp": "--dp-size",
        "--data-parallel-size": "--dp-size",
        "--ep": "--ep-size",
        "--expert-parallel-size": "--ep-size",
        "--context-len": "--context-length",
        "--speculative-draft-model": "--speculative-draft-model-path",
    },
)
