"""One streamed HTTP answer, taken in piece by piece as it arrives: head, body framing, server-sent events."""

from __future__ import annotations

from typing import Dict, List, Optional

_HEAD_LIMIT = 64 << 10
_EVENT_LIMIT = 4 << 20
_ERROR_BYTES = 4096


class AnswerError(Exception):
    """The answer cannot be used.

    Args:
        kind: ``bad-http``, ``bad-event``, ``cut`` or ``http-STATUS``.
    """

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


class Answer:
    """An answer while it arrives: feed it bytes, it gives the data of each event that is complete.

    Attributes:
        status: 0 until the head has come.
        ended: Whether the body's end has come.
    """

    __slots__ = ("_body", "_data", "_error", "_framing", "_left", "_line", "_raw", "ended", "status")

    def __init__(self) -> None:
        self.status = 0
        self.ended = False
        self._raw = b""  # bytes before any framing is understood
        self._framing = ""  # "chunked", "length" or "close"; empty until the head has come
        self._left = 0  # bytes of this chunk, or of the body
        self._body: List[bytes] = []
        self._line = b""  # an event's line that has only begun
        self._data: List[bytes] = []  # data lines of an event that has only begun
        self._error = b""  # begin of the body of an answer that is no stream

    def feed(self, data: bytes) -> List[bytes]:
        """Take in what has arrived.

        Returns:
            The data of the events that are complete now.

        Raises:
            AnswerError: It is no HTTP, a status other than 2xx, or no event stream.
        """
        self._raw = self._raw + data if self._raw else data
        if not self._framing and not self._head():
            return []
        body = self._unframed()
        if not 200 <= self.status < 300:
            self._refuse(body)
        # What a body leaves unfinished at its end counts too: a last event may lack its blank line.
        return self._events(body + b"\n\n" if self.ended else body)

    def close(self) -> List[bytes]:
        """The peer has closed the connection.

        Returns:
            The data of a last event that lacks only its blank line.

        Raises:
            AnswerError: ``cut``: the body, or even the head, is not whole; or as ``feed``.
        """
        if self._framing == "close" and not self.ended:
            self.ended = True
            if not 200 <= self.status < 300:
                self._refuse(b"")
            return self._events(b"\n\n")
        if not self.ended:
            raise AnswerError("cut", "the server closed the connection before the end of its answer")
        return []

    def _refuse(self, body: bytes) -> None:
        self._error += body[: _ERROR_BYTES - len(self._error)]
        if self.ended or len(self._error) >= _ERROR_BYTES:
            said = " ".join(self._error.decode("utf-8", "replace").split())[:200]
            raise AnswerError(f"http-{self.status}", f"the server answered {self.status}: {said}")

    # The head.

    def _head(self) -> bool:
        while True:
            end, gap = self._raw.find(b"\r\n\r\n"), 4
            if end < 0:
                end, gap = self._raw.find(b"\n\n"), 2
            if end < 0:
                if len(self._raw) > _HEAD_LIMIT or (self._raw and not b"HTTP/1.".startswith(self._raw[:7])):
                    raise AnswerError("bad-http", f"no HTTP answer: {self._raw[:40]!r}")
                return False
            lines = self._raw[:end].decode("latin-1").splitlines()
            self._raw = self._raw[end + gap :]
            self._understand(lines)
            if self.status >= 200:  # an interim answer is followed by the real one
                return True

    def _understand(self, lines: List[str]) -> None:
        words = lines[0].split(None, 2) if lines else []
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise AnswerError("bad-http", f"no HTTP answer: {' '.join(words)[:40]!r}")
        headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        self.status = int(words[1])
        if self.status < 200:
            return
        length = _number(headers.get("content-length", ""), 10)
        if "chunked" in headers.get("transfer-encoding", "").lower():
            self._framing = "chunked"
        elif length is not None:
            self._framing, self._left = "length", length
            self.ended = length == 0
        else:
            self._framing = "close"

    # The body's framing.

    def _unframed(self) -> bytes:
        """What of the raw bytes is body."""
        if self._framing == "chunked":
            return self._chunks()
        raw, self._raw = self._raw, b""
        if self._framing == "length":
            raw = raw[: self._left]
            self._left -= len(raw)
            self.ended = self._left == 0
        return raw

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
        size = _number(line.split(b";")[0].decode("latin-1"), 16)
        if size is None:
            raise AnswerError("bad-http", f"{line[:40]!r} is no size of a chunk")
        self._left = size + 2 if size else 0
        # Trailers may follow the last chunk. Nobody needs them, and some servers leave even their end out.
        self.ended = not size
        return at

    # The events.

    def _events(self, body: bytes) -> List[bytes]:
        """Data of the complete events; other fields and comments are passed over."""
        lines = (self._line + body).split(b"\n")
        self._line = lines.pop()
        found: List[bytes] = []
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif self._data and not line.strip():
                found.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
            elif line[:1] in (b"{", b"<"):
                # Not an event stream at all: JSON or a page, sent with status 200.
                raise AnswerError("bad-event", f"no event stream: {line[:60]!r}")
        if len(self._line) > _EVENT_LIMIT:
            raise AnswerError("bad-event", f"an event of more than {_EVENT_LIMIT} bytes")
        return found


def _number(text: str, base: int) -> Optional[int]:
    digits = text.strip()
    try:
        return int(digits, base) if digits.isalnum() and len(digits) < 16 else None
    except ValueError:
        return None
