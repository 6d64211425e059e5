"""Of the agent goes at the start what a command needs, and the rest before anything else is asked."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import stoker
from stoker.agent.main import OPERATIONS
from stoker.errors import HostFailed
from stoker.reach import parcel
from stoker.reach.reach import Reach
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

AGENT = Path(stoker.__file__).parent / "agent"


def imported(module: str) -> set[str]:
    """The agent's modules that a module imports, wherever in it."""
    found: set[str] = set()
    *room, _ = module.split(".")
    for node in ast.walk(ast.parse((AGENT / f"{module.replace('.', '/')}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*room[: len(room) + 1 - node.level], *(node.module or "").split(".")]
            within = ".".join(part for part in base if part)
            names = {within, *(f"{within}.{alias.name}".lstrip(".") for alias in node.names)}
            found |= names & set(parcel.modules())
    return found


def test_what_is_sent_first_is_all_that_a_command_may_import() -> None:
    waiting = {"main"} | {OPERATIONS[name][0] for name in parcel.CORE_OPERATIONS}
    needed: set[str] = set()
    while waiting:
        module = waiting.pop()
        needed.add(module)
        waiting |= imported(module) - needed
    assert set(parcel.CORE) == needed


@pytest.mark.parametrize("bytecode", ["the same", "another"])
def test_a_command_and_then_anything_else(
    server: SshServer, bytecode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bytecode == "another":
        monkeypatch.setattr(parcel, "MAGIC_NUMBER", b"none")
    parcel._first.cache_clear()
    try:
        with Reach(settings()).connect(target_of(server, ansible_python_interpreter=sys.executable)) as agent:
            assert agent.call("exec", {"argv": ["echo", "hello"]})["stdout"] == "hello\n"
            assert agent.call("clock", {})["time"] > 0
            assert agent.call("exec", {"argv": ["echo", "again"]})["stdout"] == "again\n"
            assert list(agent.call("unlock", {"check": True})) == ["locks"]
    finally:
        parcel._first.cache_clear()


def test_a_traceback_of_sent_bytecode_shows_its_lines(server: SshServer) -> None:
    target = target_of(server, ansible_python_interpreter=sys.executable)
    with Reach(settings()).connect(target) as agent, pytest.raises(HostFailed) as caught:
        agent.call("exec", {"argv": ["true"], "timeout_s": "no number"})
    lines = "\n".join(caught.value.evidence)
    assert 'File "<agent>/stoker/agent/run.py"' in lines
    assert "end = began + timeout_s" in lines


@pytest.mark.parametrize("module", parcel.COMPILED)
def test_what_every_connection_imports_does_without_slow_modules(module: str) -> None:
    slow = {"json", "threading", "subprocess", "contextlib", "enum", "signal", "typing", "queue", "re"}
    found: set[str] = set()
    for node in ast.parse((AGENT / f"{module}.py").read_text()).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    assert not found & slow
