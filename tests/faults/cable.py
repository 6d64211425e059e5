"""The way to a host that a test can cut without a word: no FIN, no RST, as a cable that is pulled out."""

from __future__ import annotations

import errno
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.sshd import SshServer

_PORT = 2222


@functools.cache
def namespaces_refused() -> str:
    """Why no network namespace can be made here; empty where it can."""
    if os.getuid() != 0:
        return "only root makes network namespaces"
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    name = f"stk{secrets.token_hex(3)}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"ip netns: {made.stderr.strip()}"
    try:
        pair = ["ip", "link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b"]
        veth = subprocess.run([*pair, "netns", name], capture_output=True, text=True)
        return f"ip link: {veth.stderr.strip()}" if veth.returncode else ""
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


class Namespace:
    """A host in a network namespace of its own, joined to ours by one pair of interfaces."""

    def __init__(self) -> None:
        self._name = f"stk{secrets.token_hex(3)}"
        net = f"10.{64 + secrets.randbelow(64)}.{secrets.randbelow(256)}"
        self.address = f"{net}.2"
        near, self._far = f"{self._name}a", f"{self._name}b"
        _ip("netns", "add", self._name)
        _ip("link", "add", near, "type", "veth", "peer", "name", self._far, "netns", self._name)
        _ip("addr", "add", f"{net}.1/30", "dev", near)
        _ip("link", "set", near, "up")
        _ip("-n", self._name, "addr", "add", f"{self.address}/30", "dev", self._far)
        _ip("-n", self._name, "link", "set", "lo", "up")
        self.mend()

    def serve(self, folder: Path, env: dict[str, str]) -> SshServer:
        """An OpenSSH server behind the cable."""
        inside = ("ip", "netns", "exec", self._name)
        return SshServer(folder, address=self.address, env=env, within=inside, port=_PORT)

    def cut(self) -> None:
        """From now on nothing passes, and nobody is told."""
        _ip("-n", self._name, "link", "set", self._far, "down")

    def mend(self) -> None:
        """Put the cable back, and wait until something passes: the kernel looks at a link once a second."""
        _ip("-n", self._name, "link", "set", self._far, "up")
        end = time.monotonic() + 20
        while _answers(self.address) in (errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EAGAIN):
            if time.monotonic() > end:
                raise AssertionError(f"nothing passes to {self.address} though the cable is back")
            time.sleep(0.1)

    def remove(self) -> None:
        """Take the namespace away, and the interfaces with it."""
        _ip("netns", "del", self._name)


class Stopped:
    """The next best where no namespace is to be had: the host's sshd is stopped and says nothing."""

    def __init__(self) -> None:
        self._server: SshServer | None = None
        self._stopped: list[int] = []

    def serve(self, folder: Path, env: dict[str, str]) -> SshServer:
        """An OpenSSH server on loopback."""
        self._server = SshServer(folder, env=env)
        return self._server

    def cut(self) -> None:
        """Stop the listener, then every session."""
        assert self._server is not None
        for pid in (self._server.process.pid, *reversed(self._server.sessions())):
            os.kill(pid, signal.SIGSTOP)
            self._stopped.append(pid)

    def mend(self) -> None:
        """Let them go on; those that were cut stay cut, as after a change of address."""
        assert self._server is not None
        listener = self._server.process.pid
        for pid in self._stopped:
            try:
                os.kill(pid, signal.SIGCONT if pid == listener else signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._stopped.clear()

    def remove(self) -> None:
        """Nothing of it stays once the server is stopped."""


Cable = Namespace | Stopped


def _answers(address: str) -> int:
    """What a connection to a port there ends with: 0, or refused, once packets pass."""
    with socket.socket() as link:
        link.settimeout(1.0)
        return link.connect_ex((address, _PORT))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
