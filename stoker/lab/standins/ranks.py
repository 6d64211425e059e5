"""The ranks of a tensor-parallel group: each on its GPU, the first leads."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass

from stoker.lab.standins import pace
from stoker.lab.standins.devices import CONTEXT_MIB, Device, Gpu, Holder

BUSY_PERCENT = 97


class OutOfMemoryError(Exception):
    """What torch or the engine says of a GPU that is too full."""


@dataclass(frozen=True)
class Group:
    """Links between the process that decodes and the other ranks; made before any of them is forked.

    Args:
        links: The leader's end and the follower's own, of each follower.
    """

    links: tuple[tuple[socket.socket, socket.socket], ...]

    def lead(self, own: pace.Pace | None = None) -> pace.Pace:
        """Wait until all followers have reported; the pace of the slowest.

        Args:
            own: The leader's, where it is a rank itself.
        """
        paces = [] if own is None else [own]
        for leader, _ in self.links:
            compute_ms, comm_ms = json.loads(leader.recv(4096))
            paces.append(pace.Pace(compute_ms, comm_ms))
        return max(paces, key=lambda each: each.step_s())

    def tell(self, device: Device | None) -> Callable[[bool], None]:
        """What the leader calls when work begins and ends: all GPUs are busy then, or none.

        Args:
            device: The leader's own, where it is a rank itself.
        """

        def busy(is_busy: bool) -> None:
            percent = BUSY_PERCENT if is_busy else 0
            if device is not None:
                device.load(percent)
            for leader, _ in self.links:
                with contextlib.suppress(OSError):  # a dead rank: its parent will notice
                    leader.send(str(percent).encode())

        return busy

    def follow(self, index: int, own: pace.Pace, device: Device) -> None:
        """Report to the leader, then work as it says until it is gone."""
        link = self.links[index][1]
        link.send(json.dumps([own.compute_ms, own.comm_ms]).encode())
        for leader, _ in self.links:
            leader.close()
        while data := link.recv(16):
            device.load(int(data))

    def close(self) -> None:
        """For a process that is no rank: let go of every link, so that a dead leader is noticed."""
        for pair in self.links:
            for end in pair:
                end.close()


def group(followers: int) -> Group:
    """A group with that many followers."""
    pairs = (socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(followers))
    return Group(tuple(pairs))


@dataclass(frozen=True)
class Memory:
    """One GPU's memory as its rank finds it.

    Args:
        total_mib: Of the GPU.
        free_mib: Left by others and by this rank's own context.
        others: Who holds the rest.
    """

    total_mib: int
    free_mib: int
    others: tuple[Holder, ...]

    def allocate(self, index: int, mib: int) -> int:
        """What is free after allocating so much.

        Raises:
            OutOfMemoryError: There is not so much.
        """
        if mib > self.free_mib:
            used = " ".join(
                f"Process {each.pid} has {each.mib / 1024:.2f} GiB memory in use." for each in self.others
            )
            wanted, total, free = (
                f"{value / 1024:.2f} GiB" for value in (mib, self.total_mib, self.free_mib)
            )
            raise OutOfMemoryError(
                f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU {index} has a "
                f"total capacity of {total} of which {free} is free. {used}".rstrip()
            )
        return self.free_mib - mib


def memory(gpu: Gpu, holders: list[Holder]) -> Memory:
    """The memory of a GPU before this server takes any.

    Args:
        gpu: Which one.
        holders: Who held the host's GPUs when the server started.
    """
    others = tuple(each for each in holders if each.number == gpu.number)
    return Memory(gpu.memory_mib, gpu.memory_mib - CONTEXT_MIB - sum(each.mib for each in others), others)
