"""One streamed completion: what was asked, when its tokens came, and whether it is a measurement."""

from __future__ import annotations

import errno
import random
import socket
import time
from array import array
from typing import Any, Mapping, NamedTuple, Optional, Tuple

from ..asking import completion, http
from ..asking.completion import Chunk
from ..asking.sse import Answer, AnswerError
from . import arrival

_PIECE = 64 << 10
WORDS = (
    "amber anchor basin beacon candle canyon cedar cinder cobalt copper coral crater delta ember falcon "
    "fern garnet glacier granite harbor hazel heron indigo island ivory jasper juniper kestrel lagoon "
    "lantern linden lotus maple marble meadow mercury mosaic nectar nickel oasis olive onyx opal orchid "
    "pebble pepper pine prairie quarry quartz raven ribbon river saffron sierra silver slate summit "
    "thicket timber topaz tundra velvet violet"
)
# Short: it is the decoding that is measured, and a prompt of many tokens would hide it.
_PROMPT_WORDS = 4
_STALE_S = 1.0
_CLIENT_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL)


class Target(NamedTuple):
    """Where completions are asked for.

    Args:
        address: Numeric, reachable.
        headers: With the API key, where there is one.
        path: The endpoint; one that ends in ``/chat/completions`` gets messages.
        model: Its id.
        extra: Fields the engine accepts, e.g. ``{"ignore_eos": true}``.
        stream_usage: Whether it takes ``stream_options``.
    """

    address: str
    port: int
    headers: Mapping[str, str]
    path: str
    model: str
    extra: Mapping[str, Any]
    stream_usage: bool = True

    def request(self, prompt: str, tokens: int, keep: bool = False) -> bytes:
        """A whole request; ``keep``: the connection shall stay for another one."""
        body = completion.body(self.path, self.model, prompt, tokens, self.extra, self.stream_usage)
        headers = {**completion.HEADERS, **self.headers}
        return http.request("POST", self.path, self.address, self.port, headers, body, keep)


def prompt(seed: str, index: int) -> str:
    """A prompt that shares its beginning with no other: a prefix cache cannot serve it."""
    dice = random.Random("%s/%d" % (seed, index))
    known = WORDS.split()
    words = [dice.choice(known) for _ in range(_PROMPT_WORDS)]
    return "%08x %s." % (dice.getrandbits(32), " ".join(words))


class Stream:
    """One request on one connection; driven by the readiness of its socket.

    Args:
        keep: Whether the connection shall stay for another request: the answer is over with its last byte,
            and not where the server has hung up or said all that counts.

    Attributes:
        sent_at: When it was sent, ``time.perf_counter``; as the other times.
        first_at: First chunk with content; None: none yet.
        last_at: Latest chunk with content.
        ended_at: The end of the answer, or of the attempt.
        heard_at: Latest byte.
        chunks: Chunks with content. One may hold several tokens.
        tokens: As the server counts them; None: it has not said.
        error: Kind of what went wrong; empty: nothing did.
        why: The same in words.
        over: Whether nothing more is expected.
        stale: Whether the connection had been idle and had ended before the request came there: that is
            nobody's failure, and the request can be sent anew.
        due_at: When it should have been sent: its latencies count from there, so that none is hidden.
        gaps: Seconds between chunks with content; None: they are not kept.
        usage: What the server counted.
        timings: What llama.cpp tells of the whole answer.
    """

    __slots__ = (
        "_answer",
        "_idle",
        "_keep",
        "_reader",
        "_request",
        "_unsent",
        "chunks",
        "due_at",
        "ended_at",
        "error",
        "finish",
        "first_at",
        "gaps",
        "heard_at",
        "index",
        "last_at",
        "over",
        "requested",
        "sent_at",
        "socket",
        "stale",
        "timings",
        "tokens",
        "usage",
        "why",
    )

    def __init__(self, index: int, request: bytes, requested: int, now: float, keep: bool = False) -> None:
        self.index = index
        self.requested = requested
        self.socket: Optional[socket.socket] = None
        self.sent_at = self.heard_at = self.due_at = now
        self.first_at: Optional[float] = None
        self.last_at: Optional[float] = None
        self.ended_at: Optional[float] = None
        self.chunks = 0
        self.tokens: Optional[int] = None
        self.finish = ""
        self.error = ""
        self.why = ""
        self.over = self.stale = False
        self.gaps: Optional[array[float]] = None
        self.usage: Mapping[str, Any] = {}
        self.timings: Mapping[str, Any] = {}
        self._answer = Answer()
        self._reader = completion.Reader()
        self._keep, self._idle = keep, False
        self._request = self._unsent = request

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent on the connection."""
        return not self.error and self._answer.reusable is True

    def take(self, idle: socket.socket) -> None:
        """Use a connection that stands, and had been used before."""
        self.socket, self._idle = idle, True

    def connect(self, target: Target) -> None:
        """Begin to connect; also after ``stale``, for the same request."""
        self._unsent, self._idle, self.stale = self._request, False, False
        try:
            family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
            self.socket = socket.socket(family, socket.SOCK_STREAM)
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            arrival.ask(self.socket)
            code = self.socket.connect_ex((target.address, target.port))
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, errno.errorcode.get(code, str(code)))
        except OSError as error:
            self.fail(_kind(error), "cannot connect: %s" % (error.strerror or error), self.sent_at)

    def connected(self, now: float) -> bool:
        """Whether the connection stands, once the socket is writable."""
        if self.socket is None:
            return False
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            error = OSError(code, errno.errorcode.get(code, str(code)))
            self.fail(_kind(error), "cannot connect: %s" % error.strerror, now)
        return not code

    def send(self, now: float) -> bool:
        """Send what is left of the request; whether all of it has gone."""
        if self.socket is None:
            return False
        try:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(_kind(error), "the connection was lost: %s" % error.strerror, now)
        return not self._unsent

    def receive(self, now: float) -> None:
        """Take in what has arrived.

        Args:
            now: When the socket was found readable: what is read then had arrived, where the kernel does not
                tell when.
        """
        if self.socket is None:
            return
        try:
            data, ago = arrival.read(self.socket, _PIECE)
            if (
                ago is not None
            ):  # the clock of the day may have been set: nothing came before what was read before
                now = max(self.heard_at, time.perf_counter() - ago)
            if not data and self._is_stale(now):
                self.stale = True
                return
            self.heard_at, self._idle = now, False
            for event in self._answer.feed(data) if data else self._answer.close():
                self._take(event, now)
            if self._answer.ended:
                self._complete(now)
                self.over = not data or not self._keep or self._answer.reusable is not None
        except BlockingIOError:
            pass
        except AnswerError as error:
            self.fail(error.kind, str(error), now)
        except OSError as error:
            self._lost(_kind(error), "the connection was lost: %s" % error.strerror, now)

    def _lost(self, kind: str, why: str, now: float) -> None:
        if self._is_stale(now):
            self.stale = True
        else:
            self.fail(kind, why, now)

    def _is_stale(self, now: float) -> bool:
        """Whether the end of the connection says nothing of the request.

        A server hangs up what is idle whenever it likes, at the very moment too at which a request is under
        way to it. It then shows at once and without a byte of an answer; what shows later was a failure.
        """
        return self._idle and now - self.sent_at < _STALE_S

    def fail(self, kind: str, why: str, now: float) -> None:
        """It is over, and no measurement; what had been complete before stays so."""
        self.over = True
        if self.ended_at is None:
            self.error, self.why, self.ended_at = kind, why, now

    def close(self) -> None:
        """Hang up."""
        if self.socket is not None:
            self.socket.close()

    def _take(self, event: bytes, now: float) -> None:
        if event == completion.DONE:
            return self._complete(now)
        chunk = self._reader.read(event)
        if chunk.usage:
            self._count(chunk)
        if chunk.timings:
            self.timings = chunk.timings
        if chunk.content:
            self.chunks += 1
            if self.last_at is None:
                self.first_at = now
            elif self.gaps is not None:
                self.gaps.append(now - self.last_at)
            self.last_at = now
        self.finish = chunk.finish or self.finish
        return None

    def _count(self, chunk: Chunk) -> None:
        if chunk.tokens is None:
            raise AnswerError("bad-json", "usage without completion_tokens: %s" % str(chunk.usage)[:60])
        self.tokens, self.usage = chunk.tokens, chunk.usage

    def _complete(self, now: float) -> None:
        """The answer is whole: what it measures is settled."""
        if self.ended_at is None:
            self.ended_at = now
            self.error, self.why = self._flaw()

    def _flaw(self) -> Tuple[str, str]:
        """What keeps a whole answer from being a measurement: kind and words; two empty ones for nothing."""
        if self.first_at is None:
            return "no-content", "no chunk with content came"
        if self.tokens is None:
            return "no-usage", "the server did not say how many tokens it sent"
        if self.tokens != self.requested:
            ended = " (finished by %s)" % self.finish if self.finish else ""
            kind = "short" if self.tokens < self.requested else "long"
            return kind, "%d of %d tokens came%s" % (self.tokens, self.requested, ended)
        if self.chunks > self.tokens:
            what = "%d chunks with content came for %d tokens" % (self.chunks, self.tokens)
            return "usage-mismatch", what
        return "", ""


def _kind(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError) or error.errno == errno.ECONNREFUSED:
        return "refused"
    if error.errno in _CLIENT_ERRORS:
        return "client"
    if error.errno in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED):
        return "reset"
    return "timeout" if error.errno == errno.ETIMEDOUT else "io"
