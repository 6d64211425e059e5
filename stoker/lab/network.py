"""Where a lab's hosts listen: a network of loopback addresses of its own, and a port."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence

from stoker.errors import StokerError
from stoker.lab.state import SSH_PORT, Folders, LabHost

_TRIES = 20  # networks that others hold already


def choose(places: Folders, names: Sequence[str], former: Sequence[LabHost]) -> tuple[LabHost, ...]:
    """Hosts with addresses that are free: the former ones where possible, so that known hosts stay valid.

    Args:
        places: The lab.
        names: The hosts' names.
        former: The hosts it had before.

    Raises:
        StokerError: Nothing is free.
    """
    # 127.1.0.0 and up: every lab has a network of its own, so that their servers never meet on a port.
    start = int.from_bytes(hashlib.sha256(str(places.root).encode()).digest()[:4], "big")
    tries = [(f"127.{1 + n // 256 % 254}.{n % 256}", SSH_PORT) for n in range(start, start + _TRIES)]
    if former:
        tries.insert(0, (former[0].address.rpartition(".")[0], former[0].port))
    for prefix, port in tries:
        hosts = tuple(
            LabHost(name, f"{prefix}.{number}", port, str(places.home(name)))
            for number, name in enumerate(names, 1)
        )
        if all(_free(host.address, host.port) for host in hosts):
            return hosts
    raise StokerError(
        f"no free loopback addresses for {len(names)} hosts on port {SSH_PORT}",
        where=str(places.root),
        next_step="See what listens there: ss -ltnp",
    )


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True
