"""A small HTTP server that behaves, or misbehaves, as its options say."""

from __future__ import annotations

import argparse
import json
import os
import socket
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler


def say(text: str) -> None:
    print(text, flush=True)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    o: argparse.Namespace

    def log_message(self, format: str, *args: object) -> None:
        if self.o.access_log:
            say(f'INFO:     127.0.0.1 - "{args[0]}" {args[1]}')

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(self.o.health, {})
        elif self.path == "/v1/models" and self.o.list_status:
            self.answer(self.o.list_status, {})
        elif self.path == "/v1/models" and self.allowed():
            self.answer(200, {"data": [{"id": name} for name in self.o.model if name != "none"]})
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        if self.path not in self.o.endpoint:
            self.answer(404, {"error": "no such endpoint"})
        elif self.o.strict and set(body) - {
            "model",
            "max_tokens",
            "temperature",
            "stream",
            "prompt",
            "messages",
        }:
            self.answer(422, {"detail": "Unexpected fields in the request"})
        elif self.o.hang:
            time.sleep(3600)
        elif self.o.broken:
            self.answer(500, {"error": "the scheduler is dead"})
        else:
            self.stream(body)

    def allowed(self) -> bool:
        if self.o.key and self.headers.get("Authorization") != "Bearer " + self.o.key:
            self.answer(401, {"error": "Unauthorized"})
            return False
        return True

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, body: dict[str, object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for _ in range(min(self.o.tokens, int(str(body["max_tokens"])))):
            time.sleep(self.o.pace)
            self.event({"model": self.o.answers_as or body["model"], "choices": [{"text": " tok"}]})
        if body.get("stream_options"):
            self.event({"choices": [], "usage": {"completion_tokens": self.o.tokens}})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def event(self, data: object) -> None:
        self.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        if Handler.o.share:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", action="append", default=None)
    parser.add_argument("--list-status", type=int, default=0, help="of the list of models, in place of it")
    parser.add_argument("--answers-as", default="")
    parser.add_argument("--health", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--endpoint", action="append", default=None)
    parser.add_argument("--key", default="")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--hang", action="store_true")
    parser.add_argument("--broken", action="store_true")
    parser.add_argument("--share", action="store_true", help="listen with SO_REUSEPORT")
    parser.add_argument("--access-log", action="store_true")
    parser.add_argument("--load", type=float, default=0.0, help="seconds before it listens")
    parser.add_argument("--busy", action="store_true", help="compute while it loads")
    parser.add_argument("--fork", action="store_true", help="a child that left the session listens")
    parser.add_argument("--say", action="append", default=[], help="a line for the log, before it listens")
    parser.add_argument("--exit", type=int, default=None, help="end instead of listening")
    parser.add_argument("--signal", type=int, default=None, help="die by that signal instead of listening")
    found = parser.parse_args()
    found.model = found.model or ["tiny"]
    found.endpoint = found.endpoint or ["/v1/completions"]
    return found


def main() -> None:
    o = Handler.o = options()
    for line in o.say:
        say(line)
    end = time.monotonic() + o.load
    while time.monotonic() < end:
        if not o.busy:
            time.sleep(end - time.monotonic())
    if o.exit is not None:
        sys.exit(o.exit)
    if o.signal is not None:
        os.kill(os.getpid(), o.signal)
    if o.fork and os.fork():
        os.wait()
    elif o.fork:
        os.setsid()
    Server.address_family = socket.AF_INET6 if ":" in o.host else socket.AF_INET
    with Server((o.host, o.port), Handler) as server:
        say(f"listening at {time.time():.3f}")
        server.serve_forever()


if __name__ == "__main__":
    main()
