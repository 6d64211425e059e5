"""One host while a command works on it: the connection is made when it is first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from stoker.config.inventory import Host
from stoker.reach.client import Agent

Emit = Callable[[str, dict[str, Any]], None]


class Session:
    """A host's one connection and agent, opened at the first call.

    Args:
        host: The host.
        connect: Opens the agent; raises ``HostUnreachable`` or ``HostFailed``.
        emit: Gets (host name, event) for everything the host tells; may be called from any thread.
    """

    def __init__(self, host: Host, connect: Callable[[Host], Agent], emit: Emit) -> None:
        self.host = host
        self._connect = connect
        self._emit = emit
        self._agent: Agent | None = None

    @property
    def agent(self) -> Agent:
        """The agent's client, connected."""
        if self._agent is None:
            self.note("connecting")
            self._agent = self._connect(self.host)
        return self._agent

    def call(self, op: str, params: dict[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Run one operation on the host.

        Args:
            op: Name of the operation.
            params: JSON types.
            timeout_s: Deadline of ours over the whole; None where the operation has its own.

        Returns:
            The operation's result.

        Raises:
            HostFailed: The operation failed there.
            HostUnreachable: Not reached, or lost on the way.
        """
        return self.agent.call(op, params, on_event=self.emit, timeout_s=timeout_s)

    def emit(self, event: dict[str, Any]) -> None:
        """Pass an event of this host on."""
        self._emit(self.host.name, event)

    def note(self, activity: str) -> None:
        """Say what is being done now, where there is a bar to say it on."""
        self.emit({"type": "activity", "name": activity})

    def close(self) -> None:
        """End the agent and the connection; a second time is harmless."""
        agent, self._agent = self._agent, None
        if agent is not None:
            with contextlib.suppress(OSError):
                agent.close()
