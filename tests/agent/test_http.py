"""The HTTP client against real sockets, honest and hostile."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stoker.agent.asking import http
from stoker.agent.asking.http import HttpError
from tests.agent.launched import free_port

Answer = Callable[[socket.socket, bytes], None]


class Peer:
    """Accepts connections, reads each request to its end and lets ``answer`` reply.

    Attributes:
        requests: What came, one entry a connection.
    """

    def __init__(self, answer: Answer, address: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, 0), family=family)
        self.port = int(self._socket.getsockname()[1])
        self.requests: list[bytes] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                request = self._read(connection)
                self.requests.append(request)
                try:
                    self._answer(connection, request)
                except OSError:
                    continue

    @staticmethod
    def _read(connection: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return data
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        wanted = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        while len(body) < wanted:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def start(answer: Answer | bytes, address: str = "127.0.0.1") -> Peer:
        raw = answer

        def reply(connection: socket.socket, _: bytes) -> None:
            assert isinstance(raw, bytes)
            connection.sendall(raw)

        peers.append(Peer(reply if isinstance(answer, bytes) else answer, address))
        return peers[-1]

    yield start
    for one in peers:
        one.close()


def get(port: int, **options: Any) -> http.Response:
    return http.get("127.0.0.1", port, "/x", options.pop("timeout_s", 5.0), **options)


@contextlib.contextmanager
def posted(port: int, body: bytes = b"{}", **headers: str) -> Iterator[http.Connection]:
    with http.Connection("127.0.0.1", port, 5.0, None) as connection:
        connection.send(http.request("POST", "/x", "127.0.0.1", port, headers, body))
        yield connection


def events(port: int) -> list[bytes]:
    with posted(port) as connection:
        return list(connection.events())


def stream_of(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body


def test_a_body_of_a_given_length(peer: Callable[..., Peer]) -> None:
    answer = get(peer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello, and more").port)
    assert (answer.status, answer.body, answer.headers["x-y"]) == (200, b"hello", "z")


def test_a_body_in_chunks_with_extensions_and_without_a_proper_end(peer: Callable[..., Peer]) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    assert get(peer(head + b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\n").port).body == b"hello!"


def test_a_body_until_the_server_hangs_up(peer: Callable[..., Peer]) -> None:
    assert get(peer(b"HTTP/1.0 200 OK\r\n\r\nhello").port).body == b"hello"


def test_interim_answers_are_passed_over(peer: Callable[..., Peer]) -> None:
    raw = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    assert get(peer(raw).port) == http.Response(204, {}, b"")


def test_other_statuses_are_answers_too(peer: Callable[..., Peer]) -> None:
    assert get(peer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").port).status == 503


def test_a_redirect_is_not_followed(peer: Callable[..., Peer]) -> None:
    one = peer(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    assert get(one.port).status == 302
    assert len(one.requests) == 1


def test_proxies_of_the_environment_are_ignored(
    peer: Callable[..., Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert get(peer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").port).status == 200


def test_the_request_is_whole_and_names_its_host(peer: Callable[..., Peer]) -> None:
    one = peer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    with posted(one.port, "é".encode(), Authorization="Bearer k") as connection:
        assert connection.answer(10).body == b"{}"
    head, _, body = one.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % one.port)
    assert b"\r\nAuthorization: Bearer k" in head
    assert body == "é".encode()


@pytest.mark.parametrize("bind", ["0.0.0.0", "", "*", "localhost"])
def test_wildcards_are_reached_on_the_loopback(peer: Callable[..., Peer], bind: str) -> None:
    one = peer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert http.get(bind, one.port, "/", 5.0).status == 200


@pytest.mark.parametrize("bind", ["::", "::1", "[::1]"])
def test_ipv6(peer: Callable[..., Peer], bind: str) -> None:
    try:
        one = peer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "::1")
    except OSError:
        pytest.skip("no IPv6 here")
    assert http.get(bind, one.port, "/", 5.0).status == 200
    assert b"Host: [::1]:" in one.requests[0]


@pytest.mark.parametrize("header", [{"X": "a\r\nY: b"}, {"X\n": "a"}])
def test_a_line_break_does_not_become_another_header(
    peer: Callable[..., Peer], header: dict[str, str]
) -> None:
    one = peer(b"")
    with pytest.raises(HttpError) as caught:
        http.get("127.0.0.1", one.port, "/", 5.0, header)
    assert caught.value.kind == "request"


def test_refused() -> None:
    with pytest.raises(HttpError) as caught:
        get(free_port())
    assert caught.value.kind == "refused"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "protocol"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", "protocol"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 2000, "too-large"),
    ],
)
def test_an_answer_that_cannot_be_used_has_its_kind(peer: Callable[..., Peer], raw: bytes, kind: str) -> None:
    with pytest.raises(HttpError) as caught:
        get(peer(raw).port, limit=1000)
    assert caught.value.kind == kind


def test_a_body_that_is_no_json(peer: Callable[..., Peer]) -> None:
    with pytest.raises(HttpError) as caught:
        get(peer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").port).json()
    assert caught.value.kind == "protocol"


def test_one_deadline_holds_over_an_answer_that_drips(peer: Callable[..., Peer]) -> None:
    def drip(connection: socket.socket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _number in range(100):
            time.sleep(0.05)
            connection.sendall(b"x")

    began = time.monotonic()
    with pytest.raises(HttpError) as caught:
        get(peer(drip).port, timeout_s=0.4)
    assert caught.value.kind == "timeout"
    assert 0.3 < time.monotonic() - began < 1.0


def test_poll_may_end_a_wait(peer: Callable[..., Peer]) -> None:
    def silence(connection: socket.socket, _: bytes) -> None:
        connection.recv(1)

    calls = []

    def poll() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("enough")

    began = time.monotonic()
    with pytest.raises(KeyError):
        get(peer(silence).port, poll=poll)
    assert time.monotonic() - began < 1.5


def test_events_arrive_one_by_one_with_their_time(peer: Callable[..., Peer]) -> None:
    def pace(connection: socket.socket, _: bytes) -> None:
        connection.sendall(stream_of(b""))
        for number in range(3):
            time.sleep(0.1)
            connection.sendall(f'data: {{"n": {number}}}\n\n'.encode())
        connection.sendall(b"data: [DONE]\n\n")

    with posted(peer(pace).port) as connection:
        sent_at = time.perf_counter()
        found = [(event, connection.arrived) for event in connection.events()]
        gaps = [at - sent_at for _, at in found]
    assert [event for event, _ in found] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}', b"[DONE]"]
    assert gaps == sorted(gaps)
    assert gaps[:3] == pytest.approx([0.1, 0.2, 0.3], abs=0.08)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"data: a\r\n\r\ndata:b\n\n", [b"a", b"b"]),
        (b": ping\n\nevent: x\nid: 1\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: cut", [b"a", b"cut"]),
        (b"data:  two blanks\n\n", [b" two blanks"]),
        (b"", []),
    ],
)
def test_event_streams(peer: Callable[..., Peer], raw: bytes, found: list[bytes]) -> None:
    assert events(peer(stream_of(raw)).port) == found


def test_a_sign_cut_in_two_pieces_is_one(peer: Callable[..., Peer]) -> None:
    def cut(connection: socket.socket, _: bytes) -> None:
        raw = stream_of("data: é█\n\n".encode())
        for index in range(len(raw)):
            connection.sendall(raw[index : index + 1])

    assert events(peer(cut).port) == ["é█".encode()]


def test_what_is_no_event_stream_is_told(peer: Callable[..., Peer]) -> None:
    with pytest.raises(HttpError, match="no event stream") as caught:
        events(peer(stream_of(b'{"not": "a stream"}')).port)
    assert caught.value.kind == "protocol"


def test_a_blank_line_in_the_body_does_not_end_the_head(peer: Callable[..., Peer]) -> None:
    raw = b"HTTP/1.1 200 OK\nContent-Length: 9\n\nab\r\n\r\ncde"
    assert get(peer(raw).port).body == b"ab\r\n\r\ncde"


def test_a_stream_that_is_refused_tells_status_and_body(peer: Callable[..., Peer]) -> None:
    raw = b'HTTP/1.1 422 No\r\nContent-Length: 16\r\n\r\n{"detail": "no"}'
    with pytest.raises(HttpError) as caught:
        events(peer(raw).port)
    assert (caught.value.kind, caught.value.status) == ("status", 422)
    assert '{"detail": "no"}' in str(caught.value)


def test_closing_a_stream_hangs_up(peer: Callable[..., Peer]) -> None:
    gone = threading.Event()

    def endless(connection: socket.socket, _: bytes) -> None:
        connection.sendall(stream_of(b"data: a\n\n"))
        if not connection.recv(1):
            gone.set()

    with posted(peer(endless).port) as connection:
        assert next(connection.events()) == b"a"
    assert gone.wait(2.0)
