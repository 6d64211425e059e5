"""What a lab is: its folder, its hosts, and the note about it that stays on disk."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SSH_PORT = 2222
FIRST_HOST = 174  # the story's host is node174


@dataclass(frozen=True)
class LabHost:
    """One host of a lab.

    Args:
        name: e.g. ``node174``.
        address: Its own loopback address.
        port: Where its SSH server listens.
        home: The login's home folder.
        boot_id: Identity of its present boot; changed by a reboot.
        processes: How many processes run on it now, SSH sessions included.
    """

    name: str
    address: str
    port: int
    home: str
    boot_id: str = ""
    processes: int = 0


@dataclass(frozen=True)
class LabState:
    """A lab as it is now.

    Args:
        root: The lab's folder.
        running: Whether its SSH servers run.
        user: Who logs in.
        hosts: In the order of their names; also of a lab that is down.
        key_file: The private key that may log in.
        known_hosts: File with the hosts' keys.
        inventory: Folder for ``--inventory``.
        log: The lab's own log.
        guardian: pid and start of the process that keeps the lab; zeros while it is down.
        server: pid and start of the process that serves SSH; zeros while it is down.
        started_at: Unix time; 0 while it is down.
    """

    root: str
    running: bool = False
    user: str = ""
    hosts: tuple[LabHost, ...] = ()
    key_file: str = ""
    known_hosts: str = ""
    inventory: str = ""
    log: str = ""
    guardian: tuple[int, int] = (0, 0)
    server: tuple[int, int] = (0, 0)
    started_at: float = 0.0

    def to_plain(self) -> dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Folders:
    """Where everything of a lab lies.

    Args:
        root: The lab's folder (``.lab`` of a project), absolute.
    """

    root: Path
    state: Path = field(init=False)
    lock: Path = field(init=False)
    log: Path = field(init=False)
    key: Path = field(init=False)
    known_hosts: Path = field(init=False)
    inventory: Path = field(init=False)

    def __post_init__(self) -> None:
        names = {
            "state": "state.json",
            "lock": "lock",
            "log": "lab.log",
            "key": "id_ed25519",
            "known_hosts": "known_hosts",
            "inventory": "inventory",
        }
        for name, file in names.items():
            object.__setattr__(self, name, self.root / file)

    def home(self, host: str) -> Path:
        """The login's home on a host."""
        return self.root / "hosts" / host

    @property
    def own(self) -> tuple[Path, ...]:
        """What a process of this lab is known by; the demo's lab lies in ``root`` too, and is another one."""
        return (self.root / "hosts", self.root / "machines", self.state)

    def machine(self, host: str) -> Path:
        """What belongs to a host but lies in nobody's home: host key, facts, GPU devices, shared memory."""
        return self.root / "machines" / host

    def facts(self, host: str) -> Path:
        """The host-facts file that the agent reads."""
        return self.machine(host) / "facts.json"

    def host_key(self, host: str) -> Path:
        """The host's private SSH key."""
        return self.machine(host) / "ssh_host_ed25519_key"


def folders(root: Path) -> Folders:
    """The places of the lab in ``root``."""
    return Folders(Path(os.path.realpath(root)))


def load(places: Folders) -> LabState:
    """The note as it was last written; an empty one where there is none, or where it cannot be read."""
    try:
        data = json.loads(places.state.read_text(encoding="utf-8"))
        data["hosts"] = tuple(LabHost(**host) for host in data["hosts"])
        data["guardian"], data["server"] = tuple(data["guardian"]), tuple(data["server"])
        return LabState(**{**data, "root": str(places.root)})
    except (OSError, ValueError, TypeError, KeyError):
        return LabState(root=str(places.root))


def save(places: Folders, state: LabState) -> None:
    """Write the note, whole or not at all."""
    write(places.state, json.dumps(state.to_plain(), indent=2) + "\n")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file under a temporary name and rename it; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    draft.chmod(mode)
    draft.rename(path)


def login_name() -> str:
    """The name of the user who runs the lab, who is also who logs in."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"  # a container's number without an entry
