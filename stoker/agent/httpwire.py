"""One HTTP request on one connection, with one deadline over all of it."""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

LINE_LIMIT = 64 << 10
HEADER_LIMIT = 200
_PIECE = 64 << 10
_POLL_S = 0.1
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1", "[::]": "::1"}

Poll = Callable[[], None]


class HttpError(Exception):
    """No answer, or none that can be used.

    Args:
        kind: ``refused``, ``timeout``, ``closed``, ``io``, ``protocol``, ``too-large``, ``status`` or
        ``request``.
        what: One sentence.
        status: The status code of a ``status``; else 0.
        body: Begin of the answer's body, where there is one.
    """

    def __init__(self, kind: str, what: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(what)
        self.kind = kind
        self.status = status
        self.body = body


def reachable(address: str) -> str:
    """Where to connect for a server bound to ``address``: a wildcard is reached on the loopback."""
    return _WILDCARDS.get(address, address.strip("[]"))


class Connection:
    """One connection for one request.

    Args:
        address: As the server is bound; a wildcard is reached on the loopback.
        timeout_s: For all of it, from the connect to the last byte.
        poll: Called every 0.1 s while waiting; may raise to end it.

    Attributes:
        status: Of the answer, once ``head`` has returned.
        headers: Of the answer, names in lower case.
        sent_at: When the whole request had been handed to the kernel, by ``time.perf_counter``.
        arrived: When the latest bytes came, by the same clock.

    Raises:
        HttpError: There is no connection.
    """

    def __init__(self, address: str, port: int, timeout_s: float, poll: Optional[Poll]) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._poll = poll
        self._buffer = b""
        self._host = reachable(address)
        self._port = port
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.arrived = self.sent_at = time.perf_counter()
        self._socket = self._connect()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Send the whole request.

        Raises:
            HttpError: ``request``: its head cannot be sent as one; or the connection was lost.
        """
        host = f"[{self._host}]" if ":" in self._host else self._host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{self._port}", "Connection: close"]
        lines += ["Accept-Encoding: identity", *(f"{name}: {value}" for name, value in headers.items())]
        if method != "GET":
            lines.append(f"Content-Length: {len(body)}")
        if any(sign in line for line in lines for sign in "\r\n\0") or " " in path:
            raise HttpError("request", "a line break or blank in the request's head")
        self._send("\r\n".join([*lines, "", ""]).encode("utf-8") + body)
        self.sent_at = time.perf_counter()

    def head(self) -> None:
        """Read the answer's status and headers; interim answers are passed over."""
        self._read_head()
        while 100 <= self.status < 200:
            self._read_head()

    def body(self, limit: int) -> Iterator[bytes]:
        """The body's pieces as they arrive.

        Raises:
            HttpError: ``too-large``: more than ``limit`` bytes; ``closed``: it ends before its end.
        """
        taken = 0
        for piece in self._pieces():
            taken += len(piece)
            if taken > limit:
                raise HttpError("too-large", f"the answer is longer than {limit} bytes")
            yield piece

    def _pieces(self) -> Iterator[bytes]:
        if self.status in (204, 304):
            return
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            yield from self._chunks()
        elif "content-length" in self.headers:
            yield from self._exactly(_number(self.headers["content-length"], 10))
        else:
            piece = self._take(_PIECE)
            while piece:
                yield piece
                piece = self._take(_PIECE)

    def _chunks(self) -> Iterator[bytes]:
        size = _number(self._line().partition(";")[0], 16)
        while size:
            yield from self._exactly(size)
            if self._line():
                raise HttpError("protocol", "a chunk does not end where it says")
            size = _number(self._line().partition(";")[0], 16)
        # Trailers may follow. Nobody needs them, and some servers leave even their end out.

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._take(min(size, _PIECE))
            if not piece:
                raise HttpError("closed", f"the server closed the connection {size} bytes before the end")
            size -= len(piece)
            yield piece

    def _read_head(self) -> None:
        version, _, rest = self._line().partition(" ")
        code = rest.split(" ")[0]
        if not version.startswith("HTTP/1.") or not (code.isdigit() and len(code) == 3):
            raise HttpError("protocol", f"no HTTP answer: {(version + ' ' + rest)[:80]!r}")
        self.status, self.headers = int(code), {}
        for _ in range(HEADER_LIMIT):
            line = self._line()
            if not line:
                return
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        raise HttpError("protocol", f"more than {HEADER_LIMIT} header lines")

    def _line(self) -> str:
        while b"\n" not in self._buffer:
            if len(self._buffer) > LINE_LIMIT:
                raise HttpError("protocol", f"a line of more than {LINE_LIMIT} bytes")
            piece = self._receive()
            if not piece:
                raise HttpError("closed", "the server closed the connection without a whole answer")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r").decode("latin-1")

    def _take(self, size: int) -> bytes:
        data = self._buffer or self._receive()
        self._buffer = data[size:]
        return data[:size]

    def _receive(self) -> bytes:
        self._await(select.POLLIN)
        try:
            data = self._socket.recv(_PIECE)
        except OSError as error:
            raise HttpError("closed", f"the connection was lost: {error.strerror}") from error
        self.arrived = time.perf_counter()
        return data

    def _send(self, data: bytes) -> None:
        while data:
            self._await(select.POLLOUT)
            try:
                data = data[self._socket.send(data) :]
            except OSError as error:
                raise HttpError("closed", f"the connection was lost: {error.strerror}") from error

    def _await(self, event: int) -> None:
        """Wait until the socket is ready.

        Raises:
            HttpError: ``timeout``.
        """
        poller = select.poll()
        poller.register(self._socket, event)
        while True:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise HttpError("timeout", f"no answer within {self._timeout_s:g} s")
            if poller.poll(max(1, int(min(left, _POLL_S if self._poll else left) * 1000))):
                return
            if self._poll:
                self._poll()

    def _connect(self) -> socket.socket:
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise HttpError("io", f"{self._host}: {error}") from error
        failure: Optional[HttpError] = None
        for family, kind, protocol, _, place in found:
            try:
                return self._connect_to(family, kind, protocol, place)
            except OSError as error:
                name = "refused" if isinstance(error, ConnectionRefusedError) else "io"
                failure = HttpError(name, f"{self._host}:{self._port}: {error.strerror or error}")
        raise failure or HttpError("io", f"{self._host} has no address")

    def _connect_to(self, family: int, kind: int, protocol: int, place: Any) -> socket.socket:
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self._socket.connect_ex(place)
            if code:
                self._await(select.POLLOUT)
                code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            return self._socket
        except BaseException:
            self._socket.close()
            raise


def _number(text: str, base: int) -> int:
    digits = text.strip()
    try:
        if not digits.isalnum():
            raise ValueError(digits)
        return int(digits, base)
    except ValueError as error:
        raise HttpError("protocol", f"{digits[:40]!r} is no length") from error
