"""One host while a command works on it: the connection is made when it is first needed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stoker.config.files.yamlfile import Secret, Vault
from stoker.config.inventories.inventory import Host
from stoker.errors import StokerError
from stoker.fleet.shown import process_line
from stoker.reach.bare import Finished
from stoker.reach.client import Agent
from stoker.reach.target import PASSWORDS, Target

if TYPE_CHECKING:
    from stoker.config.secrecy.secrets import Secrets

Emit = Callable[[str, dict[str, Any]], None]
OnText = Callable[[str, str], None]
Bare = Callable[[Host, str, float | None, OnText], Finished]


def target_of(host: Host, secrets: Secrets | None = None) -> Target:
    """Where a host is reached: its connection variables, rendered.

    Args:
        host: The host.
        secrets: Where a password that is ``!secret NAME`` is looked up; None: it is left out.

    Raises:
        InputError: A variable is wrong, or there is no such secret.
    """
    values = {name: value for name, value in host.vars.items() if name.startswith("ansible_")}
    kept = {name: values.pop(name) for name in PASSWORDS if isinstance(values.get(name), Secret | Vault)}
    if any("{" in str(value) for value in values.values()):
        from stoker.config.templating import template

        values = {name: template.render(text, host.vars, where=host.source) for name, text in values.items()}
    return Target.of(host.name, {**values, **_revealed(kept, host, secrets)})


def _revealed(kept: Mapping[str, Any], host: Host, secrets: Secrets | None) -> dict[str, str]:
    """Passwords that stand elsewhere.

    Raises:
        InputError: There is no such secret, or a vault that cannot be opened.
    """
    found: dict[str, str] = {}
    for name, value in kept.items():
        where = f"{host.name}: {name}"
        if secrets is not None and isinstance(value, Vault):
            found[name] = secrets.opened(value, where=where)
        elif secrets is not None:
            found[name] = secrets.value(value.name, where=where)
    return found


class Session:
    """A host's one connection and agent, opened at the first call.

    Args:
        host: The host.
        connect: Opens the agent; raises ``HostUnreachable`` or ``HostFailed``.
        emit: Gets (host name, event) for everything the host tells; may be called from any thread.
        bare: Runs one shell command without the agent; None where nothing needs that.
        stop: Set by Ctrl-C; None: nobody will.
    """

    def __init__(
        self,
        host: Host,
        connect: Callable[[Host], Agent],
        emit: Emit,
        bare: Bare | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.host = host
        self._connect = connect
        self._emit = emit
        self._bare = bare
        self._agent: Agent | None = None
        self.stop = stop or threading.Event()
        self.doing = ""  # said again once the host is connected

    @property
    def agent(self) -> Agent:
        """The agent's client, connected."""
        if self._agent is None:
            self.note("connecting")
            self._agent = self._connect(self.host)
            self.note(self.doing or "at work")
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

    def bare(self, command: str, timeout_s: float | None, *, quiet: bool = False) -> Finished:
        """Run one command in the host's login shell, over a bare channel, telling its output as it comes.

        Args:
            command: As the shell gets it.
            timeout_s: Until it must have ended; None: no limit.
            quiet: Its output is not told.

        Raises:
            HostFailed: It was not done in time.
            HostUnreachable: Not reached, or lost on the way.
        """
        if self._bare is None:
            raise StokerError("this command has no bare channel", where=self.host.name)

        def told(stream: str, text: str) -> None:
            if not quiet:
                self.emit({"type": "output", "stream": stream, "text": text})

        return self._bare(self.host, command, timeout_s, told)

    def emit(self, event: dict[str, Any]) -> None:
        """Pass an event of this host on; who is about to be ended is told line by line."""
        if event.get("type") == "doomed":
            for process in event["processes"]:
                self._emit(self.host.name, {"type": "note", "text": f"end    {process_line(process)}"})
            return
        self._emit(self.host.name, event)

    def note(self, activity: str) -> None:
        """Say what is being done now, where there is a bar to say it on."""
        self.emit({"type": "activity", "name": activity})

    def leave(self) -> None:
        """Tell the agent to end without waiting for it; :meth:`close` does."""
        if self._agent is not None:
            with contextlib.suppress(OSError):
                self._agent.leave()

    def close(self) -> None:
        """End the agent and the connection; a second time is harmless."""
        agent, self._agent = self._agent, None
        if agent is not None:
            with contextlib.suppress(OSError):
                agent.close()
