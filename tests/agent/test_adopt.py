"""A server that somebody started by hand is found by its port, its GPU, or what its engine looks like."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from stoker import engines
from stoker.agent.context import AgentError
from stoker.agent.evidence import serverinfo
from stoker.agent.starting import subject
from stoker.agent.starting.subject import Subject
from tests.agent.conftest import ENGINES, Host, free_port

# Some program with an OpenAI API whose kind nobody knows; it holds what it is told to.
SERVING = """
import http.server, sys
held = [open(path) for path in sys.argv[2:]]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers(); self.wfile.write(b'{"data": [{"id": "m"}]}')
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("up", flush=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def alone(host: Host) -> None:
    """Nothing else that runs on this machine counts."""
    host.gpus()


def find(host: Host, **params: Any) -> Subject:
    return subject.find(host.context(), {"engines": ENGINES, **params})


def refused(host: Host, **params: Any) -> AgentError:
    with pytest.raises(AgentError) as caught:
        find(host, **params)
    return caught.value


def serving(host: Host, *held: str) -> tuple[int, int]:
    """Pid and port of a server that no engine of ours is."""
    port = free_port()
    return host.python(SERVING, str(port), *held), port


def engine(host: Host) -> tuple[int, int]:
    """Pid and port of the zoo's engine with an API."""
    port = free_port()
    program = host.root / "zooserve"
    program.write_text(SERVING.replace("sys.argv[2:]", "()").replace("sys.argv[1]", "sys.argv[2]"))
    child = host.spawn([sys.executable, str(program), "serve", str(port)])
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return child.pid, port


def test_by_its_port_any_server_is_found(host: Host) -> None:
    pid, port = serving(host)
    found = find(host, port=port)
    assert (found.launcher.pid, found.port, found.launch) == (pid, port, None)
    assert found.address == "127.0.0.1"


@pytest.mark.parametrize("words", ["tiny", "--model tiny", "--model=tiny", ""])
def test_a_server_by_hand_that_cannot_list_its_model_serves_what_its_command_line_says(
    host: Host, words: str
) -> None:
    """``transformers serve MODEL`` lists the hub's cache, not what it serves."""
    program = host.root / "transformers"
    program.write_text(SERVING.replace("sys.argv[2:]", "()").replace("sys.argv[1]", "sys.argv[-1]"))
    port = free_port()
    argv = [sys.executable, str(program), "serve", *words.split(), "--port", str(port)]
    child = host.spawn(argv)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    known = [engines.get("transformers").to_wire()]
    ctx = host.context()
    found = subject.find(ctx, {"engines": known, "port": port})
    assert found.engine["name"] == "transformers"
    asked = serverinfo.ask(ctx, found)
    assert asked.model == ("tiny" if words else "")
    assert bool(words) != any(why.startswith("model: ") for why in asked.unread)


def test_by_what_its_engine_looks_like_the_only_one_is_found(host: Host) -> None:
    pid, port = engine(host)
    serving(host)  # holds nothing, and nobody knows what it is
    found = find(host)
    assert (found.launcher.pid, found.port, found.engine["name"]) == (pid, port, "zoo")


def test_by_its_gpu_the_only_one_is_found_whatever_it_is(host: Host) -> None:
    pid, port = serving(host, host.device(1))
    serving(host)
    found = find(host)
    assert (found.launcher.pid, found.port) == (pid, port)


def test_of_several_none_is_guessed_and_all_are_named(host: Host) -> None:
    (_, one), (_, two) = engine(host), serving(host, host.device(0))
    error = refused(host)
    assert error.kind == "bad-request"
    assert [choice.partition(" (")[0] for choice in error.evidence] == [f"port {one}", f"port {two}"]
    assert "--port" in error.next_step


def test_where_nothing_serves_that_is_said(host: Host) -> None:
    host.serve()  # an engine of the zoo that listens nowhere
    assert refused(host).kind == "no-server"
    assert refused(host, port=free_port()).kind == "no-server"
