"""How fast inventories load, beside ``ansible-inventory --list`` of the same files in the same run.

    .venv/bin/python -m benchmarks.inventory [--rounds 5]

Each is a process of its own, from its start to its end, its output dropped; printed are medians, and how many
times as long Ansible took. What ``load`` takes without the start of Python stands beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stoker.config.inventories import inventory

SIZES = (100, 1000, 10_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'hosts':>6} {'kind':5} {'load':>8} {'inv hosts':>10} {'--json':>8} {'ansible':>9} {'ratio':>6}")
    for size in SIZES:
        for kind, write in (("yaml", in_yaml), ("ini", in_ini)):
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                write(root / "inventory", size)
                (root / "tasks.py").write_text("from stoker.tasks import mount\n\nns = mount(__file__)\n")
                print(row(root, size, kind, rounds), flush=True)


def row(root: Path, size: int, kind: str, rounds: int) -> str:
    """One line of the table."""
    folder = Path(sys.executable).parent
    argv = [str(folder / "inv"), "hosts"]
    ansible = [str(folder / "ansible-inventory"), "-i", str(root / "inventory"), "--list"]
    loads, hosts, documents, theirs = [], [], [], []
    for _ in range(rounds):  # interleaved: what else the machine does meets all alike
        begin = time.perf_counter()
        inventory.load([root / "inventory"], root=root)
        loads.append(time.perf_counter() - begin)
        hosts.append(seconds(argv, root))
        documents.append(seconds([*argv, "--json"], root))
        theirs.append(seconds(ansible, root))
    load, table, document, other = map(statistics.median, (loads, hosts, documents, theirs))
    ratio = other / document
    return f"{size:>6} {kind:5} {load:>7.3f}s {table:>9.2f}s {document:>7.2f}s {other:>8.2f}s {ratio:>5.1f}x"


def seconds(argv: Sequence[str], root: Path) -> float:
    """How long a command takes."""
    environ = {**os.environ, "ANSIBLE_HOME": str(root / ".ansible"), "LC_ALL": "C.UTF-8"}
    begin = time.perf_counter()
    subprocess.run(
        argv, cwd=root, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - begin


def in_yaml(folder: Path, size: int) -> None:
    """Racks of 20 hosts, each with an address and a profile; variables of groups beside them."""
    lines = ["racks:", "  children:"]
    for rack in range(size // 20):
        lines += [f"    rack{rack}:", "      hosts:"]
        lines += [f"        n{n}:\n          ansible_host: {address(n)}" for n in hosts_of(rack)]
    _lay(folder, "hosts.yml", lines)


def in_ini(folder: Path, size: int) -> None:
    """The same as INI."""
    lines = []
    for rack in range(size // 20):
        lines += [f"[rack{rack}]", *(f"n{n} ansible_host={address(n)}" for n in hosts_of(rack))]
    _lay(folder, "hosts.ini", [*lines, "[racks:children]", *(f"rack{rack}" for rack in range(size // 20))])


def hosts_of(rack: int) -> range:
    """The numbers of a rack's hosts."""
    return range(rack * 20, rack * 20 + 20)


def address(number: int) -> str:
    """A host's address."""
    return f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"


def _lay(folder: Path, name: str, lines: Sequence[str]) -> None:
    for path, text in (
        (name, "\n".join(lines) + "\n"),
        ("group_vars/all.yml", "ansible_user: root\nmodels: /models\n"),
        ("group_vars/racks.yml", "stoker_profiles: [nccl-tuned]\n"),
        ("host_vars/n7.yml", "ansible_port: 2222\n"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main()
