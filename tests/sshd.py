"""Real OpenSSH servers on loopback for tests: own host key, key login, no root needed."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

SSHD = "/usr/sbin/sshd"
_START_S = 10.0


class SshServer:
    """One ``sshd``, running from construction to :meth:`stop`.

    Args:
        folder: Where its keys, configuration and log lie; made when missing.
        address: A loopback address to listen on.
        env: Environment of every login (``SetEnv``), e.g. ``{"HOME": "/tmp/h"}``.
        shell: Program that runs each command in place of the account's login shell (``SHELL -c COMMAND``).
        options: Further lines of ``sshd_config``; the first mention of a keyword wins, so these come first.
        authorized: Whether the key in :attr:`key_file` may log in.
        within: What runs it somewhere else and becomes it, e.g. ``("ip", "netns", "exec", "h1")``.
        port: To listen on; 0: one that is free here.

    Attributes:
        address, port, user: Where and as whom to log in.
        key_file: Private key that may log in.
        known_hosts: A file with this server's host key, and no other.
        host_key: The public host key's line (``ssh-ed25519 AAAA…``).
        log: Path of the server's log.
        process: The listening process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        address: str = "127.0.0.1",
        env: Mapping[str, str] | None = None,
        shell: str = "",
        options: Sequence[str] = (),
        authorized: bool = True,
        within: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.address = address
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.key_file = self.folder / "login_key"
        self.known_hosts = self.folder / "known_hosts"
        self.log = self.folder / "sshd.log"
        make_key(self.key_file)
        make_key(self.folder / "host_key")
        self.host_key = public_of(self.folder / "host_key")
        keys = self.key_file.with_suffix(".pub").read_text() if authorized else ""
        (self.folder / "authorized_keys").write_text(keys)
        self._lines = list(options) + self._config(env or {}, shell)
        self._within = list(within)
        self.port, self.process = self._start(port)
        self.known_hosts.write_text(f"{known_name(address, self.port)} {self.host_key}\n")

    def _config(self, env: Mapping[str, str], shell: str) -> list[str]:
        lines = [
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            "PrintMotd no",
            "LogLevel VERBOSE",
            "MaxStartups 100:30:200",
        ]
        if env:
            lines.append("SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()))
        if shell:
            lines.append(f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"')
        return lines

    def _start(self, wanted: int) -> tuple[int, subprocess.Popen[bytes]]:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # a server that root starts wants it
        for _ in range(5):
            port = wanted or free_port(self.address)
            config = self.folder / "sshd_config"
            config.write_text(
                "\n".join([f"ListenAddress {self.address}", f"Port {port}", *self._lines]) + "\n"
            )
            process = subprocess.Popen(
                [*self._within, SSHD, "-D", "-f", str(config), "-E", str(self.log)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self._is_up(process, port):
                return port, process
        raise RuntimeError("sshd did not start:\n" + self.log.read_text())

    def _is_up(self, process: subprocess.Popen[bytes], port: int) -> bool:
        """True once it greets; False when it ended, as when another test took the port in between."""
        end = time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < end:
            try:
                with socket.create_connection((self.address, port), 1) as link:
                    if link.recv(4) == b"SSH-":
                        return True
            except OSError:
                time.sleep(0.01)
        process.kill()
        process.wait()
        return False

    def variables(self) -> dict[str, object]:
        """The same as the variables of a host in an inventory."""
        return {
            "ansible_host": self.address,
            "ansible_port": self.port,
            "ansible_user": self.user,
            "ansible_private_key_file": str(self.key_file),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.known_hosts}",
        }

    def sessions(self) -> list[int]:
        """Processes that serve connections now (not what runs inside them), children before parents."""
        below = descendants(self.process.pid)
        return [pid for pid in reversed(below) if program_of(pid).startswith("sshd")]

    def signal_sessions(self, number: int) -> None:
        """SIGKILL cuts every connection; SIGSTOP makes them silent, as a cable pulled out does."""
        for pid in self.sessions():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def stop(self) -> None:
        """End the server and every connection to it."""
        sessions = self.sessions()
        self.process.kill()
        self.process.wait()
        for pid in sessions:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def __enter__(self) -> SshServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def make_key(path: Path, kind: str = "ed25519", *options: str) -> None:
    """A new key pair without a passphrase (unless ``options`` has ``-N``), replacing what is there."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    phrase = () if "-N" in options else ("-N", "")
    command = ["ssh-keygen", "-q", "-t", kind, "-C", "stoker test", *phrase, *options, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def public_of(path: Path) -> str:
    """``TYPE BASE64`` of a key pair."""
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def known_name(address: str, port: int) -> str:
    """How known_hosts names an address and port."""
    return address if port == 22 else f"[{address}]:{port}"


def free_port(address: str = "127.0.0.1") -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        listener.bind((address, 0))
        return int(listener.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Every process below this one, parents before children."""
    parents: dict[int, list[int]] = {}
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    rest = list(parents.get(pid, ()))
    while rest:
        child = rest.pop(0)
        found.append(child)
        rest += parents.get(child, ())
    return found


def program_of(pid: int) -> str:
    """The process's short name; empty when it is gone."""
    try:
        return Path("/proc", str(pid), "comm").read_text().strip()
    except OSError:
        return ""
