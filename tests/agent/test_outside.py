"""Whatever an HTTP server on the port says is a state that can be told, never a fault of the agent's."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent import outside
from stoker.agent.asking import completion, gate, http, traffic
from stoker.agent.asking.gate import NotYetError
from stoker.agent.asking.sse import Answer, AnswerError, Body
from stoker.agent.context import AgentError
from stoker.agent.starting import ready
from stoker.agent.starting.subject import UNKNOWN_ENGINE
from tests.agent.launched import Launched, free_port, plan

DEEP = b"[" * 100_000
HOSTILE = {
    "a number for a list": b'{"data": 5}',
    "a text for a list": b'{"data": "abc"}',
    "an object for a list": b'{"data": {"id": "tiny"}}',
    "numbers for models": b'{"data": [5, null, "x", [], {"id": 7}, {"id": ["tiny"]}]}',
    "no object": b"[]",
    "nothing": b"null",
    "nested without an end": DEEP,
    "nested": b'{"data": ' + b"[" * 900 + b"]" * 900 + b"}",
    "objects in objects": b'{"a":' * 90 + b"1" + b"}" * 90,
    "a number of a million digits": b'{"data": ' + b"9" * 1_000_000 + b"}",
    "infinity": b'{"data": Infinity}',
    "no UTF-8": b'{"data": "\xff\xfe"}',
    "half a character": b'{"data": [{"id": "\\ud800"}]}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "empty": b"",
    "a page": b"<html>busy</html>",
}
every_body = pytest.mark.parametrize("body", list(HOSTILE.values()), ids=list(HOSTILE))


class Speaker(socketserver.ThreadingTCPServer):
    """Answers every request with the same bytes."""

    allow_reuse_address = daemon_threads = True
    answer = b""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        assert isinstance(self.server, Speaker)
        self.wfile.write(self.server.answer)


@pytest.fixture
def speaker() -> Iterator[Speaker]:
    with Speaker(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@every_body
def test_a_list_of_models_that_is_none_is_waited_for_or_wrong(speaker: Speaker, body: bytes) -> None:
    speaker.answer = whole(body)
    server = gate.Server("127.0.0.1", speaker.server_address[1], UNKNOWN_ENGINE, {})
    try:
        found = gate.find_model(server, ["tiny"], lambda: None)
    except (NotYetError, AgentError) as error:
        assert isinstance(error, NotYetError) or error.kind == "wrong-model"
    else:
        assert found == ("tiny", False), "it lists nothing: its answer has to name the model"


@every_body
def test_an_event_of_a_stream_that_is_no_chunk_is_told_as_that(body: bytes) -> None:
    try:
        chunk = completion.parsed(body)
    except AnswerError as error:
        assert error.kind == "bad-json"
    else:
        assert chunk.tokens is None
        assert not chunk.content


@pytest.mark.parametrize(
    "usage",
    [5, "abc", [1], {"completion_tokens": "9"}, {"completion_tokens": -1}, {"completion_tokens": 1e9}],
)
def test_usage_that_counts_nothing_counts_nothing(usage: Any) -> None:
    try:
        chunk = completion.parsed(json.dumps({"choices": [{"text": "a"}], "usage": usage}).encode())
    except AnswerError as error:
        assert error.kind == "bad-json"
    else:
        assert chunk.tokens is None


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 \u00b2\u00b3\u00b9 OK",  # digits to Python, no number
        "HTTP/1.1 2x0 OK",
        "HTTP/1.1",
        "HTTP/1.1 200 OK\r\nContent-Length: \u00b2",
        "HTTP/1.1 200 OK\r\nContent-Length: -5",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz",
        "SSH-2.0-OpenSSH_9.2",
    ],
)
def test_a_head_that_is_none_is_told(head: str) -> None:
    for reader in (Body(), Answer()):
        with pytest.raises(AnswerError) as caught:
            reader.feed(head.encode("latin-1") + b"\r\n\r\n")
        assert caught.value.kind == "bad-http"


@pytest.mark.parametrize(
    "text", ["", "a{ 1", "x NaN", "vllm:num_requests_running 1e999", "\x00 5", "a " + "9" * 9999]
)
def test_metrics_that_are_none_say_nothing(text: str) -> None:
    names = {"running": ["vllm:num_requests_running"], "waiting": [], "finished": [], "generation_tokens": []}
    assert traffic.parse(text, names).running is None


SAYS = """
import socket, sys
answer = open(sys.argv[2], "rb").read()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    link, _ = listener.accept()
    link.recv(65536)
    link.sendall(answer)
    link.close()
"""


@pytest.mark.parametrize("body", [b'{"data": 5}', DEEP], ids=["a number for a list", "nested"])
def test_a_wait_for_such_a_server_ends_as_any_other(tmp_path: Path, body: bytes) -> None:
    port = free_port()
    (tmp_path / "answer").write_bytes(whole(body))
    argv = [sys.executable, "-c", SAYS, str(port), str(tmp_path / "answer")]
    with Launched(tmp_path, plan(argv, port, timeout_s=1.5)) as server, pytest.raises(AgentError) as caught:
        ready.wait(server.ctx, server.params())
    assert caught.value.kind in ("timeout", "stalled")


def test_what_is_deeper_than_any_answer_is_none() -> None:
    outside.parse("[" * 60 + "]" * 60)
    with pytest.raises(outside.OutsideError, match="nested too deeply"):
        outside.parse("[" * 70 + "]" * 70)
    assert outside.rows({"data": 5}, "data") == []
    with pytest.raises(http.HttpError) as caught:
        http.Response(200, {}, DEEP).json()
    assert caught.value.kind == "protocol"
