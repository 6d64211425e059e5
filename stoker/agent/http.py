"""A small HTTP client for servers on this host: bounded in time and size, deaf to proxies and redirects.

``urllib`` would follow both, ``http.client`` renews its timeout with every byte and costs 20 ms to import;
neither tells when the bytes arrived.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .httpwire import Connection, HttpError, Poll, reachable

__all__ = ["LIMIT", "HttpError", "Poll", "Response", "Stream", "get", "post_json", "reachable", "stream_json"]

LIMIT = 8 << 20
STREAM_LIMIT = 1 << 30
_EVENT_LIMIT = 4 << 20
_ERROR_BYTES = 4096


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
            return json.loads(self.body)
        except ValueError as error:
            raise HttpError("protocol", f"the answer is no JSON: {error}", self.status, self.body) from error


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
        connection.request("GET", path, headers or {}, b"")
        return _whole(connection, limit)


def post_json(
    address: str,
    port: int,
    path: str,
    body: Any,
    timeout_s: float,
    headers: Optional[Mapping[str, str]] = None,
    limit: int = LIMIT,
    poll: Optional[Poll] = None,
) -> Response:
    """POST a JSON document; else as ``get``."""
    with Connection(address, port, timeout_s, poll) as connection:
        connection.request("POST", path, _json_headers(headers), json.dumps(body).encode("utf-8"))
        return _whole(connection, limit)


def stream_json(
    address: str,
    port: int,
    path: str,
    body: Any,
    timeout_s: float,
    headers: Optional[Mapping[str, str]] = None,
    limit: int = STREAM_LIMIT,
    poll: Optional[Poll] = None,
) -> Stream:
    """POST a JSON document and take the answer as server-sent events, as they arrive.

    Returns:
        An iterator over the events; the request was sent and answered with a status of 2xx.

    Raises:
        HttpError: ``status`` for any other status, with the begin of its body; else as ``get``.
    """
    connection = Connection(address, port, timeout_s, poll)
    try:
        connection.request("POST", path, _json_headers(headers), json.dumps(body).encode("utf-8"))
        return Stream(connection, limit)
    except BaseException:
        connection.close()
        raise


class Stream:
    """Server-sent events: iterate for ``(data, arrived)``; closed at its end, on an error, or by ``close``.

    Attributes:
        status: Of the answer.
        headers: Of the answer, names in lower case.
        sent_at: When the request had been handed to the kernel, by ``time.perf_counter``; ``arrived`` is of
            the same clock.
    """

    def __init__(self, connection: Connection, limit: int) -> None:
        self._connection = connection
        self.sent_at = connection.sent_at
        connection.head()
        self.status, self.headers = connection.status, connection.headers
        if not 200 <= self.status < 300:
            raise HttpError("status", f"the server answered {self.status}", self.status, _begin(connection))
        self._events = _events(connection, connection.body(limit))

    def __iter__(self) -> Iterator[Tuple[str, float]]:
        return self

    def __next__(self) -> Tuple[str, float]:
        try:
            return next(self._events)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up; the server sees the request as abandoned."""
        self._connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _events(connection: Connection, pieces: Iterator[bytes]) -> Iterator[Tuple[str, float]]:
    """Events out of an event stream: the data lines of each, with the time when its last byte came."""
    rest = b""
    data: List[str] = []
    for piece in pieces:
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            text = line.rstrip(b"\r").decode("utf-8", "replace")
            if text.startswith("data:"):
                data.append(text[5:][1:] if text[5:].startswith(" ") else text[5:])
            elif not text and data:
                yield "\n".join(data), connection.arrived
                data = []
        if len(rest) > _EVENT_LIMIT:
            raise HttpError("too-large", f"an event of more than {_EVENT_LIMIT} bytes")
    text = rest.rstrip(b"\r").decode("utf-8", "replace")
    if text.startswith("data:"):
        data.append(text[5:].lstrip(" "))
    if data:
        yield "\n".join(data), connection.arrived


def _whole(connection: Connection, limit: int) -> Response:
    connection.head()
    body = b"".join(connection.body(limit))
    return Response(connection.status, connection.headers, body)


def _begin(connection: Connection) -> bytes:
    """The begin of a body, for a message."""
    found = b""
    try:
        for piece in connection.body(LIMIT):
            found += piece
            if len(found) >= _ERROR_BYTES:
                break
    except HttpError:
        pass  # what came is enough: the status is the news
    return found[:_ERROR_BYTES]


def _json_headers(headers: Optional[Mapping[str, str]]) -> Dict[str, str]:
    return {"Content-Type": "application/json", **(headers or {})}
