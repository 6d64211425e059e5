"""One lab of two hosts for the tests that do not take it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from stoker.lab import lab as control
from stoker.lab.state import LabHost, LabState
from tests.lab.support import PORT, Server, detach

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:
    root = tmp_path_factory.mktemp("lab") / ".lab"
    yield control.up(root, 2, load_s=0.1)
    control.down(root)


@pytest.fixture
def host(lab: LabState) -> Iterator[LabHost]:
    """A host with nothing running on it, before and after."""
    yield lab.hosts[0]
    control.reboot(Path(lab.root), lab.hosts[0].name)


@pytest.fixture
def sglang(lab: LabState, host: LabHost) -> Start:
    """Starts SGLang's stand-in on eight GPUs."""

    def start(*args: str, env: Mapping[str, str] | None = None, model: str = "Kimi-K2.5") -> Server:
        given = ["--model-path", f"{host.home}/models/{model}", "--trust-remote-code", "--tp-size", "8"]
        given += ["--host", host.address, "--port", str(PORT), *args]
        return _start(lab, host, "venvs/sglang/bin/python -m sglang.launch_server", given, env)

    return start


@pytest.fixture
def vllm(lab: LabState, host: LabHost) -> Start:
    """Starts vLLM's stand-in on eight GPUs."""

    def start(*args: str, env: Mapping[str, str] | None = None, model: str = "Kimi-K2.5") -> Server:
        given = [f"{host.home}/models/{model}", "--trust-remote-code", "--tensor-parallel-size", "8"]
        given += ["--host", host.address, "--port", str(PORT), "--served-model-name", "kimi", *args]
        return _start(lab, host, "venvs/vllm/bin/vllm serve", given, env)

    return start


def _start(
    lab: LabState, host: LabHost, program: str, args: list[str], env: Mapping[str, str] | None
) -> Server:
    variables = " ".join(f"{name}={value}" for name, value in (env or {}).items())
    quoted = " ".join(f"'{arg}'" for arg in args)
    return Server(lab, host, detach(lab, host, f"env {variables} {program} {quoted}"))
