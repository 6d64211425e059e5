"""Carries packets between this machine and a network namespace, each late by half a round trip.

    python wire.py NAMESPACE NET RTT_MS

Kernels without ``sch_netem`` cannot delay packets themselves. It makes two tun devices, moves one into the
namespace with the addresses NET.0.1 … NET.3.250, prints ``up``, and works until it is ended.
"""

from __future__ import annotations

import collections
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

_TUNSETIFF = 0x400454CA
_TUN_WITHOUT_HEADER = 0x1001
_PACKET = 1 << 16
_ADDRESSES = 4 * 250


def main() -> None:
    """Lay the wire and carry."""
    namespace, net, rtt_ms = sys.argv[1:]
    near, far = f"n{os.getpid()}", f"f{os.getpid()}"
    ends = [_tun(near), _tun(far)]
    _ip("link", "set", far, "netns", namespace)
    _ip("addr", "add", f"{net}.255.1/16", "dev", near)
    _ip("link", "set", near, "up")
    inside = ["-n", namespace]
    _ip(*inside, "link", "set", "lo", "up")
    batch = [f"addr add {net}.{n // 250}.{1 + n % 250}/32 dev {far}" for n in range(_ADDRESSES)]
    batch += [f"link set {far} up", f"route add {net}.0.0/16 dev {far}"]
    subprocess.run(["ip", *inside, "-b", "-"], input="\n".join(batch) + "\n", text=True, check=True)
    print("up", flush=True)
    _carry(ends, float(rtt_ms) / 2000)


def _tun(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TUN_WITHOUT_HEADER))
    return fd


def _carry(ends: list[int], delay_s: float) -> None:
    """Every packet that comes in at one end goes out at the other, in order."""
    waiting: collections.deque[tuple[float, int, bytes]] = collections.deque()
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    while True:
        left_ms = max((waiting[0][0] - time.monotonic()) * 1000, 0) if waiting else None
        for end, _ in poll.poll(left_ms):
            other = ends[1] if end == ends[0] else ends[0]
            try:
                for _ in range(64):
                    packet = os.read(end, _PACKET)
                    if packet[0] >> 4 == 4:
                        waiting.append((time.monotonic() + delay_s, other, packet))
            except BlockingIOError:
                continue
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, packet = waiting.popleft()
            try:
                os.write(end, packet)
            except OSError:
                continue  # as a wire does, it drops what is not taken


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


if __name__ == "__main__":
    main()
