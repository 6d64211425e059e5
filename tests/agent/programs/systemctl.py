"""A stand-in for ``systemctl`` and the manager behind it, where no systemd is the init.

It does for a service what the real one does, with real processes. ``systemctl.py DIR [--user] VERB [--quiet]
[UNIT]``: DIR/units holds unit files, DIR/state what the manager knows. ``start`` runs ExecStart with an
environment of its own and returns at READY=1 (Type=notify, from the main process only) or when that ends;
``stop`` sends SIGTERM to the main process and, after TimeoutStopSec, SIGKILL. A file DIR/refuse holds verbs
that fail. Each call is a line of DIR/calls.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

DIR = Path(sys.argv[1])
UNITS, STATE = DIR / "units", DIR / "state"


def settings(unit: str) -> dict[str, str]:
    lines = (UNITS / unit).read_text().splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def words(command: str) -> list[str]:
    """A command line as systemd reads it: quotes, escapes, specifiers, variables."""
    found, word, quoted, escaped = [], "", False, False
    for char in command + " ":
        if escaped:
            word, escaped = word + char, False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char == " " and not quoted:
            found += [word] if word else []
            word = ""
        else:
            word += char
    return [one.replace("%%", "%").replace("$$", "$") for one in found]


def main_pid(unit: str) -> int:
    """0 where it does not run."""
    with contextlib.suppress(OSError, ValueError):
        pid, start = map(int, (STATE / unit).read_text().split())
        if started(pid) == start:
            return pid
    return 0


def started(pid: int) -> int:
    """Its start time; 0 where it is gone or a zombie."""
    with contextlib.suppress(OSError):
        rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return 0 if rest[0] in b"ZX" else int(rest[19])
    return 0


def start(unit: str) -> int:
    if main_pid(unit):
        return 0
    path = str(DIR / "notify")
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener, open(DIR / "journal", "ab") as journal:
        listener.bind(path)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        listener.settimeout(0.05)
        child = subprocess.Popen(
            words(settings(unit)["ExecStart"]),
            env={
                "NOTIFY_SOCKET": path,
                "PATH": "/usr/bin:/bin",
                "INVOCATION_ID": "0" * 32,
                "LANG": "C.UTF-8",
            },
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            cwd="/",
            start_new_session=True,
        )
        (STATE / unit).write_text(f"{child.pid} {started(child.pid)}")
        while child.poll() is None:
            with contextlib.suppress(TimeoutError):
                data, control, _, _ = listener.recvmsg(4096, 64)
                if b"READY=1" in data and struct.unpack("iii", control[0][2])[0] == child.pid:
                    return 0
    sys.stderr.write(f"Job for {unit} failed because the control process exited with error code.\n")
    return 1


def stop(unit: str) -> int:
    pid = main_pid(unit)
    if not pid:
        return 0
    os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + float(settings(unit)["TimeoutStopSec"])
    while main_pid(unit):
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return 0


def enable(unit: str) -> int:
    settings(unit)
    (DIR / "wants" / unit).touch()
    return 0


def disable(unit: str) -> int:
    (DIR / "wants" / unit).unlink(missing_ok=True)
    return 0


def main() -> int:
    for folder in ("units", "state", "wants"):
        (DIR / folder).mkdir(exist_ok=True)
    given = [word for word in sys.argv[2:] if not word.startswith("-")]
    with open(DIR / "calls", "a") as calls:
        calls.write(" ".join(given) + "\n")
    verb, unit = given[0], (given[1:] or [""])[0]
    if (DIR / "refuse").exists() and verb in (DIR / "refuse").read_text().split():
        sys.stderr.write(f"Failed to {verb} {unit}: Access denied\n")
        return 1
    if verb == "is-active":
        return 0 if main_pid(unit) else 3
    if verb == "is-enabled":
        return 0 if (DIR / "wants" / unit).exists() else 1
    if verb in ("daemon-reload", "reset-failed", "show-environment"):
        return 0
    return {"start": start, "stop": stop, "enable": enable, "disable": disable}[verb](unit)


sys.exit(main())
