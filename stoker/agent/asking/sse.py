"""One HTTP answer, taken in piece by piece as it arrives: head, body framing, server-sent events."""

from __future__ import annotations

import re
from typing import Dict, List, Optional

_HEAD_LIMIT = 64 << 10
_HEADER_LIMIT = 200
_EVENT_LIMIT = 4 << 20
_ERROR_BYTES = 4096
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class AnswerError(Exception):
    """The answer cannot be used.

    Args:
        kind: ``bad-http``, ``bad-event``, ``cut`` or ``http-STATUS``; of what an event says, ``bad-json`` or
            ``server-error``.
        status: The status code, where that is what is wrong; else 0.
    """

    def __init__(self, kind: str, what: str, status: int = 0) -> None:
        super().__init__(what)
        self.kind = kind
        self.status = status


class Body:
    """An answer while it arrives: feed it bytes, it gives what of them is body.

    Attributes:
        status: 0 until the head has come.
        headers: Names in lower case.
        ended: Whether the body's end has come.
    """

    __slots__ = ("_framing", "_keeps", "_left", "_raw", "ended", "headers", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: Dict[str, str] = {}
        self.ended = False
        self._raw = b""  # bytes before any framing is understood
        self._framing = ""  # "chunked", "length" or "close"; empty until the head has come
        self._left = 0  # bytes of this chunk, or of the body
        self._keeps = False  # whether the server stays for another request

    def feed(self, data: bytes) -> bytes:
        """Take in what has arrived.

        Raises:
            AnswerError: ``bad-http``.
        """
        self._raw = self._raw + data if self._raw else data
        if not self._framing and not self._head():
            return b""
        if self.ended:
            return b""
        if self._framing == "chunked":
            return self._chunks()
        raw, self._raw = self._raw, b""
        if self._framing == "length":
            raw, self._raw = raw[: self._left], raw[self._left :]
            self._left -= len(raw)
            self.ended = self._left == 0
        return raw

    @property
    def reusable(self) -> Optional[bool]:
        """Whether another request can be sent on the connection; None: the last bytes have not come."""
        if not self.ended:
            return None
        if not self._keeps:
            return False
        if self._framing == "length":
            return not self._raw
        return None if self._raw in (b"", b"\r") else self._raw in (b"\r\n", b"\n")

    def close(self) -> None:
        """The peer has closed the connection.

        Raises:
            AnswerError: ``cut``: the body, or even the head, is not whole.
        """
        if self._framing == "close":
            self.ended = True
        if not self.ended:
            raise AnswerError("cut", "the server closed the connection before the end of its answer")

    # The head.

    def _head(self) -> bool:
        while True:
            end = _HEAD_END.search(self._raw)
            if len(self._raw[: end.start() if end else None]) > _HEAD_LIMIT:
                raise AnswerError("bad-http", f"no HTTP answer: a head of more than {_HEAD_LIMIT} bytes")
            if self._raw and self._raw[:7] != b"HTTP/1."[: len(self._raw)]:
                raise AnswerError("bad-http", f"no HTTP answer: {self._raw[:40]!r}")
            if end is None:
                return False
            lines = self._raw[: end.start()].decode("latin-1").split("\n")
            self._raw = self._raw[end.end() :]
            self._understand([line.rstrip("\r") for line in lines])
            if self._framing:  # an interim answer is followed by the real one
                return True

    def _understand(self, lines: List[str]) -> None:
        code = lines[0].split(" ")[1] if " " in lines[0] else ""
        if len(code) != 3 or not (code.isascii() and code.isdigit()) or len(lines) > _HEADER_LIMIT:
            raise AnswerError("bad-http", f"no HTTP answer: {lines[0][:40]!r}")
        pairs = (line.partition(":") for line in lines[1:])
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if int(code) < 200:
            return
        self.status, self.headers = int(code), headers
        said = headers.get("connection", "").lower()
        stays = "close" not in said if lines[0].startswith("HTTP/1.1") else "keep-alive" in said
        self._keeps = stays and "trailer" not in headers
        if self.status in (204, 304):
            self._framing, self.ended = "length", True
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self._framing = "chunked"
        elif "content-length" in headers:
            self._framing, self._left = "length", _number(headers["content-length"], 10)
            self.ended = self._left == 0
        else:
            self._framing, self._keeps = "close", False

    # The body's framing.

    def _chunks(self) -> bytes:
        raw, at, size = self._raw, 0, len(self._raw)
        parts: List[bytes] = []
        while at < size and not self.ended:
            if not self._left:
                end = raw.find(b"\n", at)
                if end < 0:
                    break
                at = self._chunk_size(raw[at:end], end + 1)
                continue
            # Two more bytes than the chunk has: the line end behind it.
            if self._left > 2:
                part = raw[at : at + self._left - 2]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
            else:
                skipped = min(self._left, size - at)
                if raw[at : at + skipped].strip(b"\r\n"):
                    raise AnswerError("bad-http", "a chunk does not end where it says")
                at += skipped
                self._left -= skipped
        self._raw = raw[at:]
        if len(self._raw) > _HEAD_LIMIT:
            raise AnswerError("bad-http", "a chunk's size is longer than a line may be")
        return b"".join(parts)

    def _chunk_size(self, line: bytes, at: int) -> int:
        digits = line.rstrip(b"\r")
        if not digits.isalnum():  # blanks, or an extension
            digits = line.split(b";")[0].strip()
        size = _number(digits.decode("latin-1"), 16)
        self._left = size + 2 if size else 0
        # Trailers may follow the last chunk. Nobody needs them, and some servers leave even their end out.
        self.ended = not size
        return at


class Events:
    """Server-sent events while they arrive: feed it the body, it gives the data of each that is complete."""

    __slots__ = ("_data", "_line", "_size")

    def __init__(self) -> None:
        self._line = b""  # a line that has only begun
        self._data: List[bytes] = []  # data lines of an event that has only begun
        self._size = 0

    def feed(self, body: bytes) -> List[bytes]:
        """Data of the events that are complete now; other fields and comments are passed over.

        Raises:
            AnswerError: ``bad-event``: it is no event stream.
        """
        lines = (self._line + body).split(b"\n")
        self._line = lines.pop()
        found: List[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[6 if line[5:6] == b" " else 5 :].rstrip(b"\r"))
                self._size += len(line)
            elif self._data and not line.strip():
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data, self._size = [], 0
            elif line[:1] in (b"{", b"<"):
                # Not an event stream at all: JSON or a page, sent with status 200.
                raise AnswerError("bad-event", f"no event stream: {line[:60]!r}")
        if len(self._line) + self._size > _EVENT_LIMIT:
            raise AnswerError("bad-event", f"an event of more than {_EVENT_LIMIT} bytes")
        return found


class Answer:
    """A stream of events while it arrives.

    Attributes:
        ended: Whether its end has come.
    """

    __slots__ = ("_body", "_error", "_events", "ended")

    def __init__(self) -> None:
        self.ended = False
        self._body = Body()
        self._events = Events()
        self._error = b""  # begin of the body of an answer that is no stream

    @property
    def reusable(self) -> Optional[bool]:
        """As of its body."""
        return self._body.reusable

    def feed(self, data: bytes) -> List[bytes]:
        """Take in what has arrived.

        Returns:
            The data of the events that are complete now.

        Raises:
            AnswerError: It is no HTTP, a status other than 2xx, or no event stream.
        """
        return self._take(self._body.feed(data))

    def close(self) -> List[bytes]:
        """The peer has closed the connection.

        Returns:
            The data of a last event that lacks only its blank line.

        Raises:
            AnswerError: ``cut``: the body, or even the head, is not whole; or as ``feed``.
        """
        if self.ended:
            return []
        self._body.close()
        return self._take(b"")

    def _take(self, body: bytes) -> List[bytes]:
        status, self.ended = self._body.status, self._body.ended
        if not body and not self.ended:
            return []
        if status and not 200 <= status < 300:
            self._error += body[: _ERROR_BYTES - len(self._error)]
            if self.ended or len(self._error) >= _ERROR_BYTES:
                said = " ".join(self._error.decode("utf-8", "replace").split())[:200]
                what = f"the server answered {status}" + (f": {said}" if said else "")
                raise AnswerError(f"http-{status}", what, status)
            return []
        # What a body leaves unfinished at its end counts too: a last event may lack its blank line.
        return self._events.feed(body + b"\n\n" if self.ended else body)


def _number(text: str, base: int) -> int:
    digits = text.strip()
    try:
        number: Optional[int] = int(digits, base) if digits.isalnum() and len(digits) < 16 else None
    except ValueError:
        number = None
    if number is None:
        raise AnswerError("bad-http", f"{digits[:40]!r} is no length")
    return number
