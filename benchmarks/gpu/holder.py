"""A process that does nothing but hold memory: ``holder.py WHERE MIB TITLE [orphan]``.

``WHERE`` is ``cuda`` or ``cpu``. It names itself ``TITLE``, prints its number once it holds the memory, and
stays until it is ended. With ``orphan`` nobody owns it: it has left the process that started it.
"""

from __future__ import annotations

import os
import signal
import sys

import setproctitle


def main(where: str, mib: int, title: str, kind: str = "") -> None:
    """Hold the memory."""
    if kind == "orphan" and not _orphaned():
        return
    import torch  # type: ignore[import-not-found]  # only now: a CUDA context does not survive a fork

    block = torch.ones(mib << 20, dtype=torch.uint8, device=where)
    if where == "cuda":
        torch.cuda.synchronize()
    setproctitle.setproctitle(title)
    print(os.getpid(), flush=True)
    os.close(1)
    while block.numel():
        signal.pause()


def _orphaned() -> bool:
    """Whether this is the grandchild, in a session that nobody leads any more; the others return at once."""
    if os.fork():
        return False
    os.setsid()
    return os.fork() == 0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
