"""What the catalogue says of llama.cpp's variables, held against the real program."""

from __future__ import annotations

import os
import re
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from stoker.lab import realengine
from stoker.tuning import Catalogue, Setting, check

pytestmark = pytest.mark.engine
REFUSED = "error while handling environment variable"


@pytest.fixture(scope="module")
def server() -> Path:
    return realengine.program()


def run(server: Path, *arguments: str, **env: str) -> str:
    surroundings = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(server.parent), **env}
    done = subprocess.run([server, *arguments], capture_output=True, text=True, env=surroundings, timeout=60)
    return done.stdout + done.stderr


def test_it_names_the_variables_that_the_help_names(server: Path) -> None:
    told = set(re.findall(r"\(env: (LLAMA_ARG_\w+)\)", run(server, "--help")))
    known = {v.name for v in Catalogue.load().all() if v.family == "llamacpp" and "--help" in v.source}
    assert told == {name for name in known if name.startswith("LLAMA_ARG_")}


@pytest.mark.parametrize(
    "written",
    [
        "LLAMA_ARG_CTX_SIZE=abc",
        "LLAMA_ARG_CTX_SIZE=4096",
        "LLAMA_ARG_N_GPU_LAYERS=many",
        "LLAMA_ARG_N_GPU_LAYERS=all",
        "LLAMA_ARG_MMAP=yes",
        "LLAMA_ARG_MMAP=True",
        "LLAMA_ARG_MMAP=disabled",
        "LLAMA_ARG_FLASH_ATTN=ON",
        "LLAMA_ARG_FLASH_ATTN=auto",
        "LLAMA_ARG_FIT=auto",
        "LLAMA_ARG_SPLIT_MODE=rows",
        "LLAMA_ARG_CACHE_TYPE_K=Q8_0",
        "LLAMA_ARG_CACHE_TYPE_K=q8_0",
        "LLAMA_ARG_ROPE_SCALE=abc",
        "LLAMA_ARG_NUMA=isolate",
        "LLAMA_ARG_DRAFT_MAX=4",
    ],
)
def test_an_error_is_what_the_server_refuses(server: Path, written: str) -> None:
    name, _, value = written.partition("=")
    said = run(server, "--model", "/nonexistent.gguf", "--port", "1", **{name: value})
    errors = [r for r in check({name: value}, Setting(engine="llamacpp")) if r.severity == "error"]
    assert bool(errors) == (REFUSED in said), said[-500:]


def loading(server: Path, model: Path, **env: str) -> str:
    """What it says while it loads the model; it is ended as soon as it has."""
    command = [str(server), "--model", str(model), "--port", "0", "--host", "127.0.0.1", "--device", "none"]
    surroundings = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(server.parent), **env}
    loud = [*command, "--verbosity", "5"]
    with subprocess.Popen(loud, stderr=subprocess.PIPE, text=True, env=surroundings) as started:
        assert started.stderr
        try:
            return "".join(takewhile(lambda line: "model loaded" not in line, started.stderr))
        finally:
            started.kill()


def test_a_negated_variable_switches_off_whatever_its_value(server: Path, tmp_path: Path) -> None:
    _, model = realengine.prepare(tmp_path)
    assert "mmap = true" in loading(server, model, LLAMA_ARG_MMAP="1")
    assert "mmap = true" not in loading(server, model, LLAMA_ARG_NO_MMAP="0")
    assert [r.code for r in check({"LLAMA_ARG_NO_MMAP": "0"}, Setting())] == ["llamacpp-always-off"]
