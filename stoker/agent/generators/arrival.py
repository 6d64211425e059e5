"""When bytes came to this host: by the kernel's stamp, not by when somebody got round to reading them.

A generator of load shares the host's processors with the server that it measures; what it reads late would
else look late.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import Optional, Tuple

_STAMP = 35  # SO_TIMESTAMPNS; the kernel's message has the same number
_FORM = "qq"
_BYTES = struct.calcsize(_FORM)
_ROOM = socket.CMSG_SPACE(_BYTES)


def ask(connection: socket.socket) -> None:
    """Have the kernel tell it with what is read; some cannot."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, _STAMP, 1)


def read(connection: socket.socket, most: int) -> Tuple[bytes, Optional[float]]:
    """What can be read.

    Returns:
        With how many seconds ago the last of it came; None: the kernel does not tell. The stamp is of the
        clock of the day, which may have been set meanwhile.
    """
    data, told, _, _ = connection.recvmsg(most, _ROOM)
    for level, kind, value in told:
        if (level, kind, len(value)) == (socket.SOL_SOCKET, _STAMP, _BYTES):
            seconds, nanos = struct.unpack(_FORM, value)
            return data, max(0.0, time.time() - seconds - 1e-9 * nanos)
    return data, None
