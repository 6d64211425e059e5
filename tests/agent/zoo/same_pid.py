"""Start ``sleep 60`` under a given process number, as a host does whose numbers have come round.

Run as ``same_pid.py PID``; prints the number once the program runs, and waits for it. It needs the right to
choose (root in the pid namespace, kernel 5.5); without it, it ends with status 3.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

SYS_CLONE3 = 435


def main() -> None:
    wanted = ctypes.c_int(int(sys.argv[1]))
    where = ctypes.addressof(wanted)
    # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
    arguments = ctypes.create_string_buffer(
        struct.pack("=11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, where, 1, 0)
    )
    pid = ctypes.CDLL(None, use_errno=True).syscall(SYS_CLONE3, arguments, 88)
    if pid < 0:
        sys.exit(3)
    if pid == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "60"])
    print(pid, flush=True)
    os.waitpid(pid, 0)


main()
