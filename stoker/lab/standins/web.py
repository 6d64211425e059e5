"""A small HTTP/1.1 server for a stand-in's API: keep-alive, chunked streams, uvicorn's log lines."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

_HEAD_LIMIT = 1 << 16
_BODY_LIMIT = 1 << 26


@dataclass(frozen=True)
class Request:
    """One request.

    Args:
        method, path, query: Of its first line.
        headers: Names in lower case.
        body: Whole.
        gone: Says whether the client has closed the connection.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    gone: Callable[[], bool]

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.body)


@dataclass(frozen=True)
class Response:
    """One response.

    Args:
        status: HTTP status.
        body: Whole; unused with ``stream``.
        kind: Content type.
        stream: Chunks, sent as they come.
    """

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    stream: AsyncGenerator[bytes, None] | None = field(default=None)


Handler = Callable[[Request], Awaitable[Response]]


def reply(data: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(status, json.dumps(data, ensure_ascii=False).encode())


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to that address, not yet listening.

    Raises:
        OSError: The address is in use or not ours.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


async def serve(sock: socket.socket, handler: Handler, access: Callable[[str], None]) -> asyncio.Server:
    """Listen on a bound socket.

    Args:
        sock: From ``bound``.
        handler: Answers each request; an exception is a 500.
        access: Gets uvicorn's access line of each answer.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _converse(reader, writer, handler, access)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass  # the client went away, or speaks something else
        finally:
            writer.close()

    sock.listen(2048)
    return await asyncio.start_server(connected, sock=sock, limit=_HEAD_LIMIT)


async def _converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    handler: Handler,
    access: Callable[[str], None],
) -> None:
    peer = writer.get_extra_info("peername") or ("-", 0)
    while (request := await _read(reader, writer)) is not None:
        try:
            response = await handler(request)
        except Exception as error:  # as the real servers do: the request fails, the server lives
            response = Response(500, f"Internal Server Error: {error!r}".encode(), "text/plain")
        phrase = HTTPStatus(response.status).phrase
        target = request.path + (f"?{request.query}" if request.query else "")
        access(f'{peer[0]}:{peer[1]} - "{request.method} {target} HTTP/1.1" {response.status} {phrase}')
        await _write(writer, response, phrase)
        if request.headers.get("connection", "").lower() == "close":
            return


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    line = await reader.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    length = min(int(headers.get("content-length", "0")), _BODY_LIMIT)
    body = await reader.readexactly(length)
    url = urlsplit(target)

    def gone() -> bool:
        return reader.at_eof() or writer.is_closing()

    return Request(method, url.path, url.query, headers, body, gone)


async def _write(writer: asyncio.StreamWriter, response: Response, phrase: str) -> None:
    head = f"HTTP/1.1 {response.status} {phrase}\r\nserver: uvicorn\r\ncontent-type: {response.kind}\r\n"
    if response.stream is None:
        head += f"content-length: {len(response.body)}\r\n\r\n"
        writer.write(head.encode() + response.body)
        await writer.drain()
        return
    writer.write((head + "transfer-encoding: chunked\r\n\r\n").encode())
    try:
        async for chunk in response.stream:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
    finally:
        await response.stream.aclose()  # where the client is gone, this aborts the request
    writer.write(b"0\r\n\r\n")
    await writer.drain()
