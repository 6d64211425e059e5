"""The agent's two threads: requests on the main one, pings, cancels and the end on the other."""

from __future__ import annotations

# What stands above these costs every connection eleven milliseconds and is not needed here.
import _queue
import _signal as signal  # type: ignore[import-not-found]  # typeshed lacks it
import _thread
import os
import pwd
import select
import sys
import time

from . import secretsfile
from .context import AgentError, Context
from .protocol import FrameError, Frames, OversizeError, Wire
from .session import Session

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    More = Callable[[Dict[str, Any]], None]

# A thread that answers pings may not wait for one that writes a long reply to a slow reader.
_PONG_PATIENCE_S = 1.0
_TRACEBACK_LINES = 40

# Operation -> (module of this package, function); a module is imported when it is first asked for.
OPERATIONS = {
    "exec": ("run", "execute"),
    "restart": ("starting.life", "restart"),
    "kill": ("starting.life", "kill"),
    "stop": ("starting.life", "stop"),
    "wait": ("starting.ready", "wait"),
    "prove": ("starting.proof", "prove"),
    "status": ("health.status", "status"),
    "bench": ("measuring.bench", "bench"),
    "probe": ("probing.probe", "probe"),
    "llama-bench": ("measuring.llamabench", "llamabench"),
    "fingerprint": ("evidence.fingerprint", "take"),
    "capture": ("evidence.capture", "capture"),
    "search": ("searching.search", "search"),
    "logs": ("launches.logs", "logs"),
    "manifest": ("files", "manifest"),
    "digests": ("files", "digests"),
    "unlock": ("launches.locks", "unlock"),
    "reserve": ("killing.claim", "reserve"),
    "doctor": ("health.doctor", "doctor"),
    "clock": ("health.doctor", "clock"),
    "persist": ("starting.persist", "persist"),
}


class Agent:
    """One agent process.

    Args:
        read_fd: Where the controller's frames arrive.
        write_fd: Where ours go.
        version: Stoker's version, for the greeting.
        silence_s: Without a byte from the controller for this long, the agent ends.
        more: Takes in the modules that were not sent at the start; None: all are there.
    """

    def __init__(
        self, read_fd: int, write_fd: int, version: str, silence_s: float, more: Optional[More] = None
    ) -> None:
        self._read_fd = read_fd
        self._version = version
        self._silence_s = silence_s
        self._more = more
        self._session = Session(leave=lambda: os._exit(0))
        self._wire = Wire(write_fd, is_lost=lambda: bool(self._session.ending))
        self._requests: _queue.SimpleQueue[Dict[str, Any]] = _queue.SimpleQueue()
        self._contexts: Dict[Any, Context] = {}
        self._running: Optional[Context] = None
        self._signal_fd = _signals_as_bytes()

    def serve(self) -> None:
        """Greet, then work until the end; never returns."""
        self._wire.send({"hello": _hello(self._version)})
        _thread.start_new_thread(self._listen, ())
        while True:
            self._answer(self._requests.get())

    # The main thread: one request after the other.

    def _answer(self, request: Dict[str, Any]) -> None:
        number = request.get("id")
        context = self._contexts[number]
        self._running = context
        reply = {"id": number, **_clean(context, _outcome(lambda: _perform(context, request)))}
        self._session.end_children()
        self._running = None
        self._contexts.pop(number, None)
        try:
            self._wire.send(reply)
        except (TypeError, OversizeError) as error:
            fault = AgentError("fault", "the result cannot be sent: %s" % error)
            self._wire.send({"id": number, "error": fault.to_wire()})

    # The other thread: whatever the controller says, signals, and silence.

    def _listen(self) -> None:
        frames = Frames()
        poll = select.poll()
        poll.register(self._read_fd, select.POLLIN)
        poll.register(self._signal_fd, select.POLLIN)
        heard = time.monotonic()
        while True:
            left = self._silence_s - (time.monotonic() - heard)
            if left <= 0:
                return self._session.end("nothing heard for %g s" % self._silence_s)
            ready = [fd for fd, _ in poll.poll(left * 1000)]
            if self._signal_fd in ready:
                number = os.read(self._signal_fd, 1)[0]
                if number != signal.SIGVTALRM:  # that one is a step's own stop watch
                    self._session.end("signal %d" % number)
            if self._read_fd in ready:
                heard = time.monotonic()
                why = self._receive(frames)
                if why:
                    return self._session.end(why)

    def _receive(self, frames: Frames) -> str:
        """Take in what has arrived; the reason to end, or ``""``."""
        try:
            data = os.read(self._read_fd, 1 << 16)
            if not data:
                return "end of input"
            for message in frames.feed(data):
                self._take(message)
        except OSError as error:
            return "input failed: %s" % error
        except FrameError as error:
            return "not understood: %s" % error
        return ""

    def _take(self, message: Dict[str, Any]) -> None:
        if "ping" in message:
            self._wire.send({"pong": message["ping"]}, patience_s=_PONG_PATIENCE_S)
        elif "cancel" in message:
            self._cancel(message["cancel"])
        elif "modules" in message:
            if self._more is not None:
                self._more(message["modules"])
        else:
            number = message.get("id")
            context = self._contexts[number] = Context(
                lambda event: self._wire.send({"id": number, "event": _clean(context, event)}), self._session
            )
            self._requests.put(message)

    def _cancel(self, number: Any) -> None:
        context = self._contexts.get(number)
        if context is not None and context is self._running:
            context.cancel()
        elif context is not None:
            context.cancelled.set()  # it waits in the queue; the children that run are another's


def main(read_fd: int, write_fd: int, version: str, silence_s: float, more: Optional[More] = None) -> None:
    """Run the agent on two descriptors; never returns."""
    Agent(read_fd, write_fd, version, silence_s, more).serve()


def _perform(context: Context, request: Dict[str, Any]) -> Dict[str, Any]:
    """Check a request and run its operation.

    Raises:
        AgentError: ``bad-request``, ``cancelled``, or what the operation raises.
    """
    name, params = request.get("op"), request.get("params", {})
    if name not in OPERATIONS:
        raise AgentError("bad-request", "there is no operation %r" % (name,))
    if not isinstance(params, dict):
        raise AgentError("bad-request", "params of %r must be an object" % name)
    context.check_cancelled()
    context.hide(secretsfile.of_request(context.home, name, params))
    module, function = OPERATIONS[name]
    operation = getattr(__import__(__package__ + "." + module, fromlist=[function]), function)
    result = operation(context, params)
    if not isinstance(result, dict):
        raise TypeError("%s returned %r, not a mapping" % (name, type(result)))
    return result


def _outcome(work: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """``{"result": …}``, or ``{"error": …}`` for whatever was raised: the agent lives on."""
    try:
        return {"result": work()}
    except AgentError as error:
        return {"error": error.to_wire()}
    except BaseException as error:
        import traceback  # a few milliseconds of every start, for what should never happen

        lines = traceback.format_exc().splitlines()[-_TRACEBACK_LINES:]
        what = "fault of the agent: %s: %s" % (type(error).__name__, error)
        return {"error": AgentError("fault", what, lines).to_wire()}


def _clean(context: Context, value: Dict[str, Any]) -> Dict[str, Any]:
    """What leaves the host: whatever the server said, its secrets are not in it."""
    if not context.secrets:
        return value
    from .variables import without

    cleaned: Dict[str, Any] = without(context.secrets, value)
    return cleaned


def _hello(version: str) -> Dict[str, Any]:
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "pid": os.getpid(),
        "uid": os.getuid(),
        "user": _user(os.getuid()),
        "executable": sys.executable,
        "version": version,
    }


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _signals_as_bytes() -> int:
    """A descriptor on which HUP, INT and TERM arrive as bytes, whatever the main thread is busy with.

    The handlers do nothing themselves; being handlers, they are reset in every program that the agent starts,
    where an ignored signal would stay ignored.
    """
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    return read_fd
