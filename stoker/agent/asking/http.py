"""A small HTTP client for servers on this host: bounded in time and size, deaf to proxies and redirects.

``urllib`` would follow both, ``http.client`` renews its timeout with every byte and costs 20 ms to import;
neither tells when the bytes arrived.
"""

from __future__ import annotations

import os
import select
import socket
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional

from .. import outside
from .sse import Answer, AnswerError, Body

LIMIT = 8 << 20
STREAM_LIMIT = 1 << 30
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
    """

    def __init__(self, kind: str, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.kind = kind
        self.status = status


class Response(NamedTuple):
    """A whole answer; header names in lower case."""

    status: int
    headers: Dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            HttpError: ``protocol``: it is none.
        """
        try:
            return outside.parse(self.body)
        except outside.OutsideError as error:
            raise HttpError("protocol", f"the answer is no JSON: {error}", self.status) from error


def get(
    address: str,
    port: int,
    path: str,
    timeout_s: float,
    headers: Optional[Mapping[str, str]] = None,
    limit: int = LIMIT,
    poll: Optional[Poll] = None,
) -> Response:
    """GET one path.

    Args:
        address: As the server is bound; a wildcard is reached on the loopback.
        timeout_s: For all of it, from the connect to the last byte.
        limit: Most bytes of body that are taken.
        poll: Called every 0.1 s while waiting; may raise to end it.

    Raises:
        HttpError: No whole answer; an answer of any status is one.
    """
    with Connection(address, port, timeout_s, poll) as connection:
        connection.send(request("GET", path, reachable(address), port, headers or {}))
        return connection.answer(limit)


def reachable(address: str) -> str:
    """Where to connect for a server bound to ``address``: a wildcard is reached on the loopback."""
    return _WILDCARDS.get(address, address.strip("[]"))


def request(
    method: str,
    path: str,
    host: str,
    port: int,
    headers: Mapping[str, str],
    body: bytes = b"",
    keep: bool = False,
) -> bytes:
    """A whole request.

    Args:
        keep: Whether the connection shall stay for another one.

    Raises:
        HttpError: ``request``: its head cannot be sent as one.
    """
    place = f"[{host}]" if ":" in host else host
    lines = [f"{method} {path} HTTP/1.1", f"Host: {place}:{port}"]
    lines += [] if keep else ["Connection: close"]
    lines += ["Accept-Encoding: identity", *(f"{name}: {value}" for name, value in headers.items())]
    if method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    if any(sign in line for line in lines for sign in "\r\n\0") or " " in path:
        raise HttpError("request", "a line break or blank in the request's head")
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + body


class Connection:
    """One connection for one request, with one deadline over all of it.

    Args:
        address: As the server is bound; a wildcard is reached on the loopback.
        timeout_s: For all of it, from the connect to the last byte.
        poll: Called every 0.1 s while waiting; may raise to end it.

    Attributes:
        arrived: When the latest bytes came, by ``time.perf_counter``.

    Raises:
        HttpError: There is no connection.
    """

    def __init__(self, address: str, port: int, timeout_s: float, poll: Optional[Poll]) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._poll = poll
        self._host = reachable(address)
        self._port = port
        self.arrived = time.perf_counter()
        self._socket = self._connect()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; the server sees the request as abandoned."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send a whole request.

        Raises:
            HttpError: The connection was lost.
        """
        while data:
            self._await(select.POLLOUT)
            try:
                data = data[self._socket.send(data) :]
            except OSError as error:
                raise HttpError("closed", f"the connection was lost: {error.strerror}") from error

    def answer(self, limit: int) -> Response:
        """The whole answer.

        Raises:
            HttpError: ``too-large``: more than ``limit`` bytes; ``closed``: it ends before its end; …
        """
        body, parts, taken = Body(), [], 0
        while not body.ended:
            data = self._receive()
            try:
                if not data:
                    body.close()
                parts.append(body.feed(data))
            except AnswerError as error:
                raise _translated(error) from error
            taken += len(parts[-1])
            if taken > limit:
                raise HttpError("too-large", f"the answer is longer than {limit} bytes")
        return Response(body.status, body.headers, b"".join(parts))

    def events(self) -> Iterator[bytes]:
        """The data of each server-sent event, as they arrive.

        Raises:
            HttpError: ``status``: a status other than 2xx, with the begin of its body; else as ``answer``.
        """
        answer, taken = Answer(), 0
        while not answer.ended:
            data = self._receive()
            taken += len(data)
            if taken > STREAM_LIMIT:
                raise HttpError("too-large", f"the answer is longer than {STREAM_LIMIT} bytes")
            try:
                found: List[bytes] = answer.feed(data) if data else answer.close()
            except AnswerError as error:
                raise _translated(error) from error
            yield from found

    def _receive(self) -> bytes:
        self._await(select.POLLIN)
        try:
            data = self._socket.recv(_PIECE)
        except OSError as error:
            raise HttpError("closed", f"the connection was lost: {error.strerror}") from error
        self.arrived = time.perf_counter()
        return data

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


def _translated(error: AnswerError) -> HttpError:
    kind = "status" if error.status else "closed" if error.kind == "cut" else "protocol"
    return HttpError(kind, str(error), error.status)
