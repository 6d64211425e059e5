"""What a lab writes for Stoker and ssh to reach it: an inventory, and the hosts' keys."""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from stoker.lab import host as machine
from stoker.lab.state import Folders, LabHost, LabState, write


def publish(places: Folders, state: LabState) -> None:
    """Write both files.

    Args:
        places: The lab.
        state: Its hosts, whose keys exist by now.
    """
    write(places.known_hosts, "".join(_known(places, host) for host in state.hosts))
    entries = {host.name: _variables(places, host, state) for host in state.hosts}
    groups = {name: {"hosts": dict.fromkeys(entries)} for name in ("gpu", "lab")}
    text = yaml.safe_dump({"all": {"hosts": entries, "children": groups}}, sort_keys=False)
    write(places.inventory / "hosts.yml", f"# Written by inv lab.up; changes are lost.\n{text}")


def _known(places: Folders, host: LabHost) -> str:
    kind, key = Path(f"{places.host_key(host.name)}.pub").read_text(encoding="utf-8").split()[:2]
    name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    return f"{name} {kind} {key}\n"


def _variables(places: Folders, host: LabHost, state: LabState) -> dict[str, object]:
    return {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": state.user,
        "ansible_private_key_file": state.key_file,
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={shlex.quote(state.known_hosts)}",
        "stoker_bind": host.address,
        **machine.variables(places, host.name),
    }
