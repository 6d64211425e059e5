"""llama.cpp's ``llama-server``: one native process, settings by flags or by ``LLAMA_ARG_*`` variables."""

from __future__ import annotations

from stoker.engines import common
from stoker.engines.base import ArgvShape, Engine, FatalLine, Metrics, Stage

_STAGES = (
    Stage("loading the model", r"load_model: loading model", 0.05),
    Stage("allocating the KV cache", r"initializing(, n_slots| slots)|llama_(new_)?context:", 0.80),
    Stage("starting the HTTP server", r": model loaded", 0.90),
)

_FATAL = (
    FatalLine(
        r"couldn't bind (HTTP server socket|to (host|port))",
        "port-in-use",
        "Free the port or choose another one in the profile.",
        final=False,
    ),
    common.LIBRARY,
    FatalLine(
        r"failed to open (GGUF|gguf) file|No such file or directory",
        "model-missing",
        "Check the profile's model: the path must exist on the host and be readable.",
        final=False,
    ),
    FatalLine(
        r"model is corrupted or incomplete|invalid magic"
        r"|failed to read (magic|key-value pairs|tensor info|tensor data)",
        "model-corrupt",
        "Copy the model again: the file is cut or damaged.",
        final=False,
    ),
    FatalLine(
        r"(?i)out of ?(device)? ?memory|failed to allocate|unable to allocate|OutOfDeviceMemory",
        "out-of-memory",
        "Ask for less: a smaller ctx-size, fewer n-gpu-layers, a quantised cache.",
        final=False,
    ),
    FatalLine(
        r"error: (invalid|unknown) argument|error while handling (argument|environment variable)"
        r"|expected value for argument",
        "bad-argument",
        "Correct the profile's server args or its LLAMA_ARG_ variables: this version refuses one of them.",
        final=False,
    ),
    common.HOST_MEMORY,
    common.DRIVER,
    common.NO_SPACE,
    FatalLine(
        r"exiting due to (model loading|HTTP server) error",
        "load-failed",
        "Read the lines above.",
    ),
)

LLAMACPP = Engine(
    name="llamacpp",
    shapes=(ArgvShape(program="llama-server"),),
    command=("llama-server",),
    model_flag="--model",
    api_key_env="LLAMA_API_KEY",
    version_argv=("llama-server", "--version"),
    grace_s=10.0,
    stages=_STAGES,
    ready=r"listening on http",
    fatal=_FATAL,
    completion_extra={"ignore_eos": True, "cache_prompt": False},
    info_paths=("/props",),
    metrics=Metrics(
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        generation_tokens=("llamacpp:tokens_predicted_total",),
        steps=("llamacpp:n_decode_total",),
    ),
    env_prefixes=("LLAMA_ARG_", "LLAMA_LOG_", "GGML_"),
)
