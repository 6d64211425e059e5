"""Hosts to reach: real OpenSSH servers on loopback, or behind a wire that takes its time."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.sshd import SshServer, free_port, known_name, make_key

# More servers than this, and the machine is busy with them; each then answers for several hosts.
MOST_SERVERS = 200
_FAR = "10.79"


@dataclass(frozen=True)
class Place:
    """Where one host is reached."""

    address: str
    port: int
    user: str

    def __str__(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


class Meter:
    """The CPU time of the hosts' side, where root can make a control group for it."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        name = f"stoker-bench-{os.getpid()}"
        for parent in (Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")):
            if (parent / "cpuacct.usage").exists() or (parent / "cgroup.controllers").exists():
                with contextlib.suppress(OSError):
                    (parent / name).mkdir(exist_ok=True)
                    self._folder = parent / name
                    return

    def add(self, pid: int) -> None:
        """Count a process from now on, and whatever it starts."""
        if self._folder is not None:
            (self._folder / "cgroup.procs").write_text(str(pid))

    def seconds(self) -> float:
        """So far; not a number where nobody counts."""
        if self._folder is None:
            return math.nan
        usage = self._folder / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return int((self._folder / "cpu.stat").read_text().split()[1]) / 1e6

    def close(self) -> None:
        """Take the group away; while something ends in it, the kernel keeps it."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()


@dataclass(frozen=True)
class Fleet:
    """Hosts that are up, and a project of Stoker's that knows them.

    Args:
        places: Of each host.
        folder: The project: inventory, playbooks, ``key``, ``known_hosts``, ``ssh_config``; ``home`` is what
            every host's login has for a home.
        meter: What the hosts' side takes.
    """

    places: Sequence[Place]
    folder: Path
    meter: Meter


@contextmanager
def fleet(hosts: int, rtt_ms: float = 0) -> Iterator[Fleet]:
    """So many hosts with one login key among them.

    Args:
        hosts: How many; where there are more than servers, each server has several addresses.
        rtt_ms: Round trip between them and us; needs root and ``ip``.
    """
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        (folder / "home").mkdir()
        make_key(folder / "key")
        meter = Meter()
        stack.callback(meter.close)
        within = stack.enter_context(_wire(rtt_ms)) if rtt_ms else ()
        places, lines = [], []
        for number, addresses in enumerate(_addresses(hosts, _FAR if rtt_ms else "127.30")):
            server, port = _server(folder, number, addresses, within)
            stack.callback(server.stop)
            meter.add(server.process.pid)
            places += [Place(address, port, server.user) for address in addresses]
            lines += [f"{known_name(address, port)} {server.host_key}\n" for address in addresses]
        (folder / "known_hosts").write_text("".join(lines))
        _project(folder, places)
        yield Fleet(places, folder, meter)


def _addresses(hosts: int, net: str) -> list[list[str]]:
    """The addresses of each server."""
    named = [f"{net}.{number // 250}.{1 + number % 250}" for number in range(hosts)]
    servers = min(hosts, MOST_SERVERS)
    return [named[number::servers] for number in range(servers)]


def _server(
    folder: Path, number: int, addresses: Sequence[str], within: Sequence[str]
) -> tuple[SshServer, int]:
    port = 2222 if within else free_port(addresses[0])
    also = [f"ListenAddress {address}:{port}" for address in addresses[1:]]
    server = SshServer(
        folder / f"h{number}",
        address=addresses[0],
        port=port,
        env={"HOME": str(folder / "home")},
        options=[*also, "Subsystem sftp internal-sftp"],
        within=within,
    )
    (server.folder / "authorized_keys").write_text((folder / "key.pub").read_text())
    return server, server.port


@contextmanager
def _wire(rtt_ms: float) -> Iterator[Sequence[str]]:
    """A namespace for the hosts, and a program that carries each packet, late; how to run in there."""
    name = f"stkfar{free_port()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    wire = Path(__file__).with_name("wire.py")
    carrying = subprocess.Popen(
        ["nice", "-n", "-10", sys.executable, str(wire), name, _FAR, str(rtt_ms)], stdout=subprocess.PIPE
    )
    try:
        if carrying.stdout is None or carrying.stdout.readline() != b"up\n":
            raise SystemExit("no wire could be laid to the far hosts (it takes root, /dev/net/tun and ip)")
        yield ("ip", "netns", "exec", name)
    finally:
        carrying.terminate()
        carrying.wait()
        subprocess.run(["ip", "netns", "del", name], check=True)


def _project(folder: Path, places: Sequence[Place]) -> None:
    """The files that Stoker and ssh read."""
    (folder / "tasks.py").write_text("from stoker.tasks import mount\n\nns = mount(__file__)\n")
    (folder / "inventory").mkdir()
    lines = ["bench:", "  vars:", f"    ansible_user: {places[0].user}"]
    lines += [f"    ansible_private_key_file: {folder}/key"]
    lines += [f"    ansible_ssh_common_args: -o UserKnownHostsFile={folder}/known_hosts", "  hosts:"]
    lines += [f'    "{place.address}": {{ansible_port: {place.port}}}' for place in places]
    (folder / "inventory" / "hosts.yml").write_text("\n".join(lines) + "\n")
    (folder / "playbooks").mkdir()
    tasks = "\n".join("    - command: 'true'" for _ in range(10))
    (folder / "playbooks" / "ten.yml").write_text(f"- hosts: bench\n  tasks:\n{tasks}\n")
    config = [f"Host {place.address}\n  Port {place.port}" for place in places]
    config += [f"Host *\n  User {places[0].user}\n  IdentityFile {folder}/key\n  IdentitiesOnly yes"]
    config += [f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n  BatchMode yes"]
    config += ["  LogLevel ERROR"]
    (folder / "ssh_config").write_text("\n".join(config) + "\n")
