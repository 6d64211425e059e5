"""What processes hold open: sockets and GPU devices, from /proc/PID/fd, /proc/PID/maps and /proc/net."""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

LISTENING = "0A"
ESTABLISHED = "01"


class Descriptors(NamedTuple):
    """What one walk over every readable /proc/PID/fd found.

    Args:
        sockets: Inode to the pids that hold it.
        devices: GPU device number to the pids that hold it.
    """

    sockets: Dict[int, Set[int]]
    devices: Dict[int, Set[int]]


class Connection(NamedTuple):
    """One side of an established TCP connection: addresses with their ports."""

    local: Tuple[str, int]
    remote: Tuple[str, int]
    inode: int


def read_file(path: str, limit: int = 1 << 22) -> bytes:
    """Content of a small file; empty where it cannot be read, or is none: a pipe would keep us waiting."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    parts: List[bytes] = []
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        while limit > 0:
            part = os.read(fd, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
    except OSError:
        return b"".join(parts)  # the process ended meanwhile
    finally:
        os.close(fd)
    return b"".join(parts)


def overlap(one: str, other: str) -> bool:
    """Whether two numeric addresses meet on the same port: equal, or one is a wildcard that covers the other.

    ``::`` is taken to cover IPv4 too: /proc does not tell whether the socket is for IPv6 only.
    """
    if one == other or "::" in (one, other):
        return True
    return "0.0.0.0" in (one, other) and ":" not in one + other


def addresses(bind: str) -> Tuple[str, ...]:
    """The numeric addresses that a bind means on this host: of a name all, for a server may take any of them.

    Returns:
        Empty where it means none.
    """
    name = bind.strip("[]")
    try:
        rows = socket.getaddrinfo(
            None if name == "*" else name or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))


def walk(pids: Iterable[int], device_dir: str) -> Descriptors:
    """What these processes hold, as far as we may look.

    Args:
        device_dir: Folder of the GPUs' device files; empty: sockets only.
    """
    found = Descriptors({}, {})
    has_devices = bool(device_dir) and any(_device(device_dir, p) is not None for p in _paths_in(device_dir))
    for pid in pids:
        holds_device = False
        for link in _links(pid):
            if link.startswith("socket:["):
                found.sockets.setdefault(int(link[8:-1]), set()).add(pid)
            elif has_devices:
                number = _device(device_dir, link)
                if number is not None:
                    holds_device = True
                    found.devices.setdefault(number, set()).add(pid)
        if has_devices and not holds_device:
            for number in _mapped_devices(pid, device_dir):
                found.devices.setdefault(number, set()).add(pid)
    return found


def is_hidden(pid: int) -> bool:
    """Whether a process lets nobody of its own user see what it holds: one with capabilities, for example."""
    try:
        os.listdir(f"/proc/{pid}/fd")
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _paths_in(folder: str) -> List[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return []


def _links(pid: int) -> Iterable[str]:
    folder = f"/proc/{pid}/fd"
    for path in _paths_in(folder):
        try:
            yield os.readlink(path)
        except OSError:
            continue


def _device(device_dir: str, path: str) -> Optional[int]:
    prefix = device_dir.rstrip("/") + "/nvidia"
    if not path.startswith(prefix):
        return None
    number = path[len(prefix) :].split(" ")[0]  # "(deleted)" may follow
    return int(number) if number.isdigit() else None


def _mapped_devices(pid: int, device_dir: str) -> Set[int]:
    raw = read_file(f"/proc/{pid}/maps")
    if b"/nvidia" not in raw:
        return set()
    lines = raw.decode("utf-8", "replace").splitlines()
    paths = (line.split(None, 5)[-1] for line in lines if "/nvidia" in line)
    return {number for number in (_device(device_dir, path) for path in paths) if number is not None}


def listening(name: str) -> List[Tuple[str, int, int, int]]:
    """(address, port, inode, uid) of each listening socket in /proc/net/``name``."""
    return [
        (*_place(fields[1]), int(fields[9]), int(fields[7]))
        for fields in _sockets(name)
        if fields[3] == LISTENING
    ]


def connections(name: str) -> List[Connection]:
    """Each side of each established connection in /proc/net/``name`` that is on this host."""
    return [
        Connection(_place(fields[1]), _place(fields[2]), int(fields[9]))
        for fields in _sockets(name)
        if fields[3] == ESTABLISHED
    ]


def _sockets(name: str) -> Iterable[List[str]]:
    for line in read_file(f"/proc/net/{name}", 1 << 26).decode("ascii", "replace").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9:
            yield fields


def _place(text: str) -> Tuple[str, int]:
    address, _, port = text.partition(":")
    return _numeric(address), int(port, 16)


def _numeric(text: str) -> str:
    """The kernel's hexadecimal words in host order, as a usual address; mapped IPv4 as IPv4."""
    words = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = struct.pack("=%dI" % len(words), *words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    address = socket.inet_ntop(socket.AF_INET6, packed)
    return address[7:] if address.startswith("::ffff:") and "." in address else address
