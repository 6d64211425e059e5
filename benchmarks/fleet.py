"""One command, and ten, on many hosts: Stoker beside plain Fabric and ``ssh`` under xargs.

    .venv/bin/python -m benchmarks.fleet [--rounds 5] [--hosts 10,50,100]

Real OpenSSH servers on loopback, one host key each. Every contender is a whole process, start-up and all, run
in turn (A B C A B C …), so that a machine that changes its speed does so for all. Printed are medians of
wall seconds and of the client's CPU seconds, and the ratio rival ÷ Stoker.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.sshd import SshServer, make_key

FABRIC = """
import sys
from fabric import ThreadingGroup, Connection
hosts, key, times = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
links = [Connection(h, connect_kwargs={"key_filename": key, "look_for_keys": False, "allow_agent": False})
         for h in hosts]
group = ThreadingGroup.from_connections(links)
for _ in range(times):
    group.run("true", hide=True, in_stream=False)
group.close()
"""

FORKS = 50


@dataclass(frozen=True)
class Sample:
    """One run of one contender: wall and client CPU (user + system, children too), in seconds."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Fleet:
    """Hosts that are up, and a project of Stoker's that knows them."""

    servers: Sequence[SshServer]
    folder: Path

    def contenders(self, hosts: int, commands: int) -> Mapping[str, list[str]]:
        """What is run, by name; the first is Stoker."""
        chosen = self.servers[:hosts]
        (self.folder / "hosts").write_text("\n".join(server.address for server in chosen) + "\n")
        names = [f"{server.user}@{server.address}:{server.port}" for server in chosen]
        inv = [sys.executable, "-m", "invoke"]
        limit = f"bench[0:{hosts - 1}]"
        once = [*inv, "exec", "--host", limit, "--cmd", "true", "--forks", str(FORKS)]
        ten = [*inv, "play", "ten.yml", "--limit", limit, "--forks", str(FORKS)]
        shell = (
            f"i=0; while [ $i -lt {commands} ]; do ssh -F ssh_config {{}} true </dev/null; i=$((i+1)); done"
        )
        return {
            "stoker": once if commands == 1 else ten,
            "fabric": [sys.executable, "fabric_rival.py", ",".join(names), "key", str(commands)],
            "ssh, xargs": ["sh", "-c", f"xargs -P {FORKS} -I{{}} sh -c '{shell}' < hosts"],
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--hosts", default="10,50,100")
    given = parser.parse_args()
    sizes = [int(size) for size in given.hosts.split(",")]
    with _fleet(max([*sizes, 50])) as fleet:
        for hosts, commands in [*((size, 1) for size in sizes), (50, 10)]:
            _compare(fleet, hosts, commands, given.rounds)


def _compare(fleet: Fleet, hosts: int, commands: int, rounds: int) -> None:
    contenders = fleet.contenders(hosts, commands)
    samples: dict[str, list[Sample]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, argv in contenders.items():
            sample = _run(argv, fleet.folder)
            if number:  # the first round warms caches
                samples[name].append(sample)
    print(f"\n{commands} command(s) on {hosts} hosts, {FORKS} at once, medians of {rounds}")
    print(f"  {'':<12}{'wall s':>9}{'CPU s':>9}{'wall ÷ stoker':>16}{'CPU ÷ stoker':>15}")
    for name, runs in samples.items():
        wall = statistics.median(run.wall_s for run in runs)
        cpu = statistics.median(run.cpu_s for run in runs)
        by_wall = statistics.median(r.wall_s / s.wall_s for r, s in zip(runs, samples["stoker"], strict=True))
        by_cpu = statistics.median(r.cpu_s / s.cpu_s for r, s in zip(runs, samples["stoker"], strict=True))
        print(f"  {name:<12}{wall:>9.2f}{cpu:>9.2f}{by_wall:>16.2f}{by_cpu:>15.2f}", flush=True)


def _run(argv: Sequence[str], folder: Path) -> Sample:
    """One whole process; a failure ends the benchmark, since its time would mean nothing."""
    # An installed program has its bytecode: where the developer's shell forbids writing it, we lack it.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    process = subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv[:6]} ended with {process.returncode}")
    return Sample(wall, usage.ru_utime + usage.ru_stime)


@contextmanager
def _fleet(hosts: int) -> Iterator[Fleet]:
    """Servers with one login key among them, and the project."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    home = folder / "home"
    home.mkdir()
    make_key(folder / "key")
    public = (folder / "key.pub").read_text()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        servers = []
        for number in range(hosts):
            address = f"127.0.{10 + number // 200}.{1 + number % 200}"
            server = SshServer(folder / f"h{number}", address=address, env={"HOME": str(home)})
            stack.callback(server.stop)
            (server.folder / "authorized_keys").write_text(public)
            servers.append(server)
        _project(folder, servers)
        yield Fleet(servers, folder)


def _project(folder: Path, servers: Sequence[SshServer]) -> None:
    """The files that Stoker, Fabric and ssh read."""
    (folder / "tasks.py").write_text("from stoker.tasks import mount\n\nns = mount(__file__)\n")
    (folder / "inventory").mkdir()
    (folder / "known_hosts").write_text("".join(server.known_hosts.read_text() for server in servers))
    lines = ["bench:", "  vars:", f"    ansible_user: {servers[0].user}"]
    lines += [f"    ansible_private_key_file: {folder}/key"]
    lines += [f"    ansible_ssh_common_args: -o UserKnownHostsFile={folder}/known_hosts", "  hosts:"]
    lines += [f'    "{server.address}": {{ansible_port: {server.port}}}' for server in servers]
    (folder / "inventory" / "hosts.yml").write_text("\n".join(lines) + "\n")
    tasks = "\n".join("    - command: 'true'" for _ in range(10))
    (folder / "playbooks").mkdir()
    (folder / "playbooks" / "ten.yml").write_text(f"- hosts: bench\n  tasks:\n{tasks}\n")
    (folder / "fabric_rival.py").write_text(FABRIC)
    config = [f"Host {server.address}\n  Port {server.port}" for server in servers]
    config += [f"Host *\n  User {servers[0].user}\n  IdentityFile {folder}/key\n  IdentitiesOnly yes"]
    config += [f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n  BatchMode yes"]
    config += ["  KexAlgorithms curve25519-sha256\n  LogLevel ERROR"]
    (folder / "ssh_config").write_text("\n".join(config) + "\n")


if __name__ == "__main__":
    main()
