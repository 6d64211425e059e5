"""What a stand-in is told besides its arguments: by the lab in ``standin.json``, by ``STANDIN_*`` variables.

============================  ========  =================================================================
variable                      default   meaning
============================  ========  =================================================================
``STANDIN_LOAD_S``            the lab's  seconds from the start until the server is warm
``STANDIN_POLL_S``            0.2       pause between looks at requests in flight after SIGTERM
                                        (the real SGLang: 5 s)
``STANDIN_ESCAPE``            unset     ``1``: SGLang's workers outlive their launcher, as is reported
``STANDIN_FAULT``             unset     ``die``: a worker fails while loading; ``stall``: loading never ends;
                                        ``wrong-port``: it listens on the next port
============================  ========  =================================================================
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.lab.standins import devices

FAULTS = ("", "die", "stall", "wrong-port")


@dataclass(frozen=True)
class Settings:
    """How this stand-in behaves.

    Args:
        host: Name of the lab host.
        machine: Its pretended hardware.
        launch: Number of this launch on the host, from 1: the seed of what differs between launches.
        load_s: Seconds until the server is warm.
        poll_s: Pause between looks at requests in flight after SIGTERM.
        escape: Whether workers outlive their launcher where the real ones do not.
        fault: One of ``FAULTS``.
    """

    host: str
    machine: devices.Machine
    launch: int
    load_s: float
    poll_s: float
    escape: bool
    fault: str


def load(env: Mapping[str, str]) -> Settings:
    """The settings of the environment that this interpreter runs in.

    Args:
        env: The process's environment.

    Raises:
        SystemExit: Not inside a lab's environment, or a ``STANDIN_*`` value makes no sense.
    """
    try:
        with open(f"{sys.prefix}/standin.json", encoding="utf-8") as file:
            told = json.load(file)
    except OSError:
        raise SystemExit(
            "a stand-in runs only in a virtual environment of Stoker's lab (inv lab.up)"
        ) from None
    fault = env.get("STANDIN_FAULT", "")
    if fault not in FAULTS:
        raise SystemExit(f"STANDIN_FAULT={fault!r}: known are {', '.join(filter(None, FAULTS))}")
    return Settings(
        host=told["host"],
        machine=devices.load(told["machine"]),
        launch=_count(f"{told['machine']}/launches"),
        load_s=_seconds(env, "STANDIN_LOAD_S", told["load_s"]),
        poll_s=_seconds(env, "STANDIN_POLL_S", 0.2),
        escape=env.get("STANDIN_ESCAPE") == "1",
        fault=fault,
    )


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        return max(0.0, float(env.get(name, default)))
    except ValueError:
        raise SystemExit(f"{name}={env[name]!r}: a number of seconds is expected") from None


def _count(path: str) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with open(fd, "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        number = int(file.read() or 0) + 1
        file.seek(0)
        file.write(str(number))
    return number
