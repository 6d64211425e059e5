"""The stand-in's ranks: the first one is the hub, over a socket beside the store's file."""

# mypy: ignore-errors
from __future__ import annotations

import json
import os
import socket
import time


class ReduceOp:
    SUM, MAX = "sum", "max"


class FileStore:
    def __init__(self, path, world):
        self.path = path


class _World:
    rank = world = calls = 0
    links = ()


_here = _World()


def init_process_group(backend, store, rank, world_size, timeout):
    _here.rank, _here.world = rank, world_size
    # A socket's path may have 107 bytes: it is named from within its folder.
    folder, name = os.path.split(store.path)
    os.chdir(folder)
    path = name + ".hub"
    if rank == 0:
        hub = socket.socket(socket.AF_UNIX)
        hub.bind(path)
        hub.listen(world_size)
        _here.links = [hub.accept()[0].makefile("rwb") for _ in range(world_size - 1)]
        return
    while True:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(path)
            _here.links = [link.makefile("rwb")]
            return
        except OSError:
            time.sleep(0.01)


def _misbehave(values):
    _here.calls += 1
    if _here.calls != 10 or _here.rank != _here.world - 1:
        return values
    way = os.environ.get("STANDIN_TORCH")
    if way == "hang":
        print("NCCL WARN stuck in a kernel", flush=True)
        time.sleep(3600)
    if way == "die":
        os.abort()
    if way == "raise":
        raise RuntimeError("NCCL error in: ProcessGroup.cpp:1, unhandled cuda error\nmore")
    return [value + 1 for value in values] if way == "wrong" else values


def _send(link, values):
    link.write(json.dumps(values).encode() + b"\n")
    link.flush()


def _read(link):
    line = link.readline()
    if not line:
        raise RuntimeError("Connection closed by peer")
    return json.loads(line)


def all_reduce(tensor, op=ReduceOp.SUM):
    mine = _misbehave(tensor.pattern)
    if _here.rank:
        (link,) = _here.links
        _send(link, mine)
        tensor.pattern = _read(link)
        return
    every = [mine, *(_read(link) for link in _here.links)]
    tensor.pattern = [(max if op == ReduceOp.MAX else sum)(values) for values in zip(*every, strict=True)]
    for link in _here.links:
        _send(link, tensor.pattern)


def barrier():
    from torch import zeros

    all_reduce(zeros(1))


def get_backend():
    return "gloo"


def destroy_process_group():
    pass
