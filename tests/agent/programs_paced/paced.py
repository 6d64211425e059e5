"""A server with an exact pace, and with every fault that a load generator must not take for slowness.

``paced.py [--simulated] [--port N] [--key KEY]`` prints ``port N`` when it listens. The model of a request
says how it answers: ``MODE``, ``MODE@PACE`` (tokens a second) or ``MODE@PACE@TTFT`` (seconds). One thread,
one heap of deadlines: token i of a request leaves at its arrival + TTFT + i / PACE, whatever happened before.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import selectors
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(data: object, framed: bool = True) -> bytes:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    body = b"data: " + text + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(body), body) if framed else body


def piece(text: str, framed: bool = True, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return event({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice]}, framed)


def usage(tokens: object) -> bytes:
    return event({"id": "cmpl-1", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}})


END = event(b"[DONE]") + b"0\r\n\r\n"


@dataclass(eq=False)
class Client:
    """One connection and what it shall still get."""

    socket: socket.socket
    inbox: bytes = b""
    began: float = 0.0
    script: Iterator[tuple[float, bytes]] = field(default_factory=lambda: iter(()))
    counted: bool = False
    stays: bool = False  # it asks for more on the same connection


def script(mode: str, pace: float, ttft: float, tokens: int) -> Iterator[tuple[float, bytes]]:
    """(seconds after the request, bytes); b"" hangs up, b"RST" resets."""
    if mode == "close-framed":
        yield 0, CLOSING
        for i in range(tokens):
            yield ttft + i / pace, piece(" word", framed=False)
        done = {"choices": [], "usage": {"completion_tokens": tokens}}
        yield ttft + (tokens - 1) / pace, event(done, framed=False) + event(b"[DONE]", framed=False)
        yield ttft + (tokens - 1) / pace, b""
        return
    if mode == "http-500":
        yield 0, b'HTTP/1.1 500 Internal\r\nContent-Length: 18\r\n\r\n{"error": "broken"}'[:64]
        yield 0, b""
    if mode == "page":
        yield 0, b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n<html>welcome!</html>"
        yield 0, b""
    if mode == "not-http":
        yield 0, b"SSH-2.0-OpenSSH_9.2\r\n"
    if mode == "silent":
        return
    # Many servers begin with a chunk that has no content; not all clients know that it is no token.
    yield 0, CHUNKED if mode == "plain" else CHUNKED + piece("")
    if mode == "no-content":
        yield ttft, piece("") + usage(tokens) + END
        yield ttft, b""
        return
    step = 3 if mode == "speculative" else 1
    for i in range(0, tokens, step):
        at = ttft + i / pace
        if i >= 5 * step and mode == "stops":
            yield at, piece("", finish="stop") + usage(i) + END
            yield at, b""
        if i == 5 and mode in BROKEN:
            yield at, BROKEN[mode]
            yield at, b""
        if i == 5 and mode == "hangs":
            return
        count = 2 if mode == "lies" else 1
        yield at, piece(" word" * min(step, tokens - i)) * count
    last = ttft + (tokens - 1) / pace
    counts: dict[str, bytes] = {"no-usage": b"", "nan-usage": event(b'{"usage": {"completion_tokens": NaN}}')}
    yield last, piece("", finish="length") + counts.get(mode, usage(tokens + (1 if mode == "long" else 0)))
    if mode == "no-mark":
        yield last, b"0\r\n\r\n"
    else:
        yield last, event(b"[DONE]") if mode == "stays" else END
    if mode != "stays":
        yield last, b""


BROKEN = {
    "mid-error": event({"error": {"message": "CUDA error: an illegal memory access", "code": 500}}),
    "garbage": event(b'{"choices": [{"te\xff\xfe'),
    "garbage-list": event([1, 2]),
    "garbage-choice": event({"choices": ["x"]}),
    "bad-chunk": b"zz\r\nwhat\r\n",
    "cut": b"",
    "reset": b"RST",
}


class Server:
    """All connections, one heap of deadlines."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.selector = selectors.DefaultSelector()
        self.heap: list[tuple[float, int, Client, bytes]] = []
        self.order = itertools.count()
        self.running = self.finished = self.tokens = 0
        self.last_end = float("-inf")
        self.prompts: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", args.port), backlog=1024)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def serve(self) -> None:
        print("port", self.listener.getsockname()[1], flush=True)
        while True:
            now = time.perf_counter()
            while self.heap and self.heap[0][0] <= now:
                _, _, client, data = heapq.heappop(self.heap)
                self.give(client, data)
                now = time.perf_counter()
            wait = self.heap[0][0] - now if self.heap else None
            # epoll waits whole milliseconds: the last one is spun away.
            for key, _ in self.selector.select(None if wait is None else max(0.0, wait - 0.001)):
                if key.fileobj is self.listener:
                    self.accept()
                else:
                    self.read(key.data)

    def accept(self) -> None:
        try:
            while True:
                connection, _ = self.listener.accept()
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.selector.register(connection, selectors.EVENT_READ, Client(connection))
        except BlockingIOError:
            pass

    def read(self, client: Client) -> None:
        try:
            data = client.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.hang_up(client)
            return
        client.inbox += data
        head, gap, body = client.inbox.partition(b"\r\n\r\n")
        length = next(
            (int(h[15:]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length:")), 0
        )
        if gap and len(body) >= length:
            client.inbox = b""
            self.answer(client, head.decode("latin-1"), body)

    def answer(self, client: Client, head: str, body: bytes) -> None:
        method, path, _ = head.split("\r\n")[0].split(" ")
        client.began = time.perf_counter()
        client.stays = "\r\nconnection: close" not in head.lower()
        if self.args.key and f"authorization: bearer {self.args.key}" not in head.lower():
            client.script = self.plain(401, {"error": "no key"})
        elif method == "GET":
            client.script = self.get(path)
        elif path != self.args.path:
            client.script = self.plain(404, {"detail": "Not Found"})
        else:
            asked: dict[str, Any] = json.loads(body)
            self.prompts.append(asked.get("prompt") or asked["messages"][0]["content"])
            given: list[str] = asked["model"].split("@")
            mode, pace, ttft = [*given, *("ok", "1000", "0.05")[len(given) :]]
            self.running, client.counted = self.running + 1, True
            client.stays = client.stays and mode in ("ok", "plain")
            client.script = script(mode, float(pace), float(ttft), asked["max_tokens"])
        self.plan(client)

    def get(self, path: str) -> Iterator[tuple[float, bytes]]:
        if path == "/v1/models":
            entry: dict[str, Any] = {"id": self.args.model, "object": "model"}
            if self.args.simulated:
                entry["simulated"] = True
            return self.plain(200, {"object": "list", "data": [entry]})
        if path == "/metrics":
            running = self.running
            if not running and time.perf_counter() - self.last_end < self.args.stale:
                running = 1
            half = running // 2
            text = (
                f'# TYPE t:running gauge\nt:running{{tp="0"}} {half}\n'
                f't:running{{tp="1"}} {running - half}.0\n'
                f"t:waiting {self.args.waiting}\n# a comment\n"
                f't:finished_total{{reason="stop"}} 0.0\n'
                f't:finished_total{{reason="length"}} {self.finished}\n'
                f"t:tokens_total {self.tokens}\n"
            )
            return self.plain(200, text.encode())
        if path == "/prompts":
            return self.plain(200, self.prompts)
        if path == "/info":
            return self.plain(
                200, {"tp_size": 2, "api_key": "sk-secret", "nested": {"hf_token": "t", "depth": 3}}
            )
        return self.plain(200 if path == "/health" else 404, {})

    def plain(self, status: int, body: object) -> Iterator[tuple[float, bytes]]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        yield 0, b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text)
        yield 0, b""

    def plan(self, client: Client) -> None:
        found = next(client.script, None)
        if found is not None:
            heapq.heappush(self.heap, (client.began + found[0], next(self.order), client, found[1]))

    def give(self, client: Client, data: bytes) -> None:
        if data == b"RST":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if data == b"" and client.stays:
            self.count_end(client)
            return
        if data in (b"", b"RST"):
            self.hang_up(client)
            return
        try:
            client.socket.send(data)
        except OSError:
            self.hang_up(client)
            return
        self.tokens += client.counted and b" word" in data
        self.plan(client)

    def count_end(self, client: Client) -> None:
        if client.counted:
            self.running, self.finished = self.running - 1, self.finished + 1
            self.last_end, client.counted = time.perf_counter(), False

    def hang_up(self, client: Client) -> None:
        if client.socket.fileno() < 0:
            return
        self.count_end(client)
        self.selector.unregister(client.socket)
        client.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default="ok")
    parser.add_argument("--key", default="")
    parser.add_argument("--path", default="/v1/completions")
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument("--stale", type=float, default=0.0)
    parser.add_argument("--simulated", action="store_true")
    Server(parser.parse_args()).serve()


if __name__ == "__main__":
    main()
