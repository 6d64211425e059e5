"""The lab's SSH servers: one process, a listener and a host key for each host.

They behave like OpenSSH's in what Stoker relies on: raw bytes, a session and process group of its own for
each command, a minimal environment, signals, exit statuses, a command that outlives its connection. One thing
differs: the exit status is told when the command's pipes are closed too, so a background child that holds
them delays it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import asyncssh
from asyncssh.channel import SSHChannel

from stoker.lab import host as hosts
from stoker.lab.state import Folders, LabHost, folders, load, login_name, write

_CHUNK = 1 << 16
_BASH = shutil.which("bash") or "/bin/sh"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_ACCEPTED = ("LANG", "LC_")  # what a client may send, as Debian's sshd has it


@dataclass
class _Machine:
    """A host as its server sees it: the connections are dropped when its boot id has changed."""

    places: Folders
    name: str
    user: str
    key: asyncssh.SSHKey
    boot_id: str
    connections: set[asyncssh.SSHServerConnection] = field(default_factory=set)

    @property
    def home(self) -> str:
        return str(self.places.home(self.name))

    def environment(self, channel: asyncssh.SSHServerChannel[bytes]) -> dict[str, str]:
        """What a login starts with."""
        peer, own = channel.get_extra_info("peername"), channel.get_extra_info("sockname")
        sent = {
            name: value for name, value in channel.get_environment().items() if name.startswith(_ACCEPTED)
        }
        pretended = {
            "PATH": f"{self.home}/.lab-bin:{_SYSTEM_PATH}",
            "STOKER_HOST_FACTS": str(self.places.facts(self.name)),
        }
        plain = hosts.is_plain(self.places, self.name)
        return {
            **sent,
            "HOME": self.home,
            "USER": self.user,
            "LOGNAME": self.user,
            "SHELL": _BASH,
            "SSH_CLIENT": f"{peer[0]} {peer[1]} {own[1]}",
            "SSH_CONNECTION": f"{peer[0]} {peer[1]} {own[0]} {own[1]}",
            "STOKER_LAB_HOST": self.name,
            **({"PATH": _SYSTEM_PATH} if plain else pretended),
        }


class _Server(asyncssh.SSHServer):
    """One connection: lets in the lab's user with the lab's key, and nobody else."""

    def __init__(self, machine: _Machine) -> None:
        self._machine = machine
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._machine.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._machine.connections.discard(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == self._machine.user and key.public_data == self._machine.key.public_data

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        return _Exec(self._machine)


class _Exec(asyncssh.SSHServerProcess[bytes]):
    """One session: a command through the shell, or SFTP."""

    def __init__(self, machine: _Machine) -> None:
        super().__init__(self._serve, self._sftp, 3, False)
        self._machine = machine
        self._child: asyncio.subprocess.Process | None = None

    def _sftp(self, channel: SSHChannel[bytes]) -> asyncssh.SFTPServer:
        return _Sftp(channel, self._machine.home)

    def signal_received(self, signal: str) -> None:
        """At once, even while the command's input is stuck; to the whole process group, as OpenSSH does."""
        self._signal_child(signal)

    def break_received(self, msec: int) -> bool:
        return False

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Nothing to do: there are no terminals."""

    def _signal_child(self, name: str) -> None:
        number = getattr(signal, f"SIG{name}", None)
        if self._child is not None and number is not None and self._child.returncode is None:
            os.killpg(self._child.pid, number)

    async def _serve(self, _: asyncssh.SSHServerProcess[bytes]) -> None:
        command = self.channel.get_command()
        child = self._child = await asyncio.create_subprocess_exec(
            *([_BASH, "-c", command] if command else [_BASH]),
            env=self._machine.environment(self.channel),
            cwd=self._machine.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        if child.stdin is None or child.stdout is None or child.stderr is None:
            raise RuntimeError("a pipe was asked for")
        pump = asyncio.ensure_future(_feed(self.stdin, child.stdin))
        try:
            await asyncio.gather(_drain(child.stdout, self.stdout), _drain(child.stderr, self.stderr))
            status = await child.wait()
        finally:
            pump.cancel()
        if status < 0:
            self.exit_with_signal(signal.Signals(-status).name[3:])
        else:
            self.exit(status)


async def _feed(source: asyncssh.SSHReader[bytes], sink: asyncio.StreamWriter) -> None:
    """The client's bytes into the command; its end, or the connection's, closes the command's input."""
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    except (asyncssh.Error, OSError):
        pass  # the client is gone, or the command reads no more
    finally:
        sink.close()


async def _drain(source: asyncio.StreamReader, sink: asyncssh.SSHWriter[bytes]) -> None:
    """The command's bytes to the client; where the client is gone, the command gets EPIPE, as from sshd."""
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    except (asyncssh.Error, OSError):
        transport: asyncio.ReadTransport = source._transport  # type: ignore[attr-defined]  # no public way
        transport.close()


class _Sftp(asyncssh.SFTPServer):
    """Relative paths start at home."""

    def __init__(self, channel: SSHChannel[bytes], home: str) -> None:
        super().__init__(cast("asyncssh.SSHServerChannel[bytes]", channel))
        self._home = Path(home)

    def map_path(self, path: bytes) -> bytes:
        return os.fsencode(self._home / os.fsdecode(path))


def main(root: Path, port: int, ready: int) -> int:
    """Serve until killed.

    Args:
        root: The lab's folder; its note names the hosts.
        port: The port of all of them.
        ready: Descriptor that gets one line of JSON: ``{"guardian", "server"}`` (pids) or ``{"error"}``.
    """
    try:
        asyncio.run(_serve(root, port, ready))
    except OSError as error:
        os.write(ready, json.dumps({"error": str(error)}).encode() + b"\n")
        print(error, file=sys.stderr)
        return 1
    return 0


async def _serve(root: Path, port: int, ready: int) -> None:
    places = folders(root)
    key = _key(places.key)
    machines = [_machine(places, host, key) for host in load(places).hosts]
    listeners = [await _listen(machine, address, port) for machine, address in machines]
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, lambda: _drop_rebooted([m for m, _ in machines]))
    os.write(ready, json.dumps({"guardian": os.getppid(), "server": os.getpid()}).encode() + b"\n")
    os.close(ready)
    await asyncio.gather(*(listener.wait_closed() for listener in listeners))


def _machine(places: Folders, host: LabHost, key: asyncssh.SSHKey) -> tuple[_Machine, str]:
    user = login_name()
    return _Machine(places, host.name, user, key, hosts.boot_id(places, host.name)), host.address


async def _listen(machine: _Machine, address: str, port: int) -> asyncssh.SSHAcceptor:
    return await asyncssh.listen(
        address,
        port,
        server_factory=lambda: _Server(machine),
        server_host_keys=[_key(machine.places.host_key(machine.name))],
        encoding=None,
        line_editor=False,
        allow_pty=False,
        agent_forwarding=False,
        x11_forwarding=False,
        compression_algs=None,
        gss_host=None,
        reuse_address=True,
    )


def _drop_rebooted(machines: list[_Machine]) -> None:
    for machine in machines:
        now = hosts.boot_id(machine.places, machine.name)
        if now != machine.boot_id:
            machine.boot_id = now
            for connection in list(machine.connections):
                connection.abort()


def _key(path: Path) -> asyncssh.SSHKey:
    """The private key of that file, made with its public half where there is none."""
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="stoker-lab")
        key.write_public_key(f"{path}.pub")
        write(path, key.export_private_key().decode(), mode=0o600)
    return asyncssh.read_private_key(path)
