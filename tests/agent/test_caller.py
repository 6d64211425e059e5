"""A command about this very machine, over SSH: it never ends whoever asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import Host, lives
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer

SLEEP = "import signal; print('up', flush=True); signal.pause()"


@pytest.mark.parametrize("hops", [0, 1])
def test_a_pattern_that_stands_in_our_own_command_line_spares_who_asked(
    host: Host, tmp_path: Path, hops: int
) -> None:
    """``inv kill --match X`` has X in its arguments, and runs on the host that it asks, maybe by a jump."""
    tag = f"tag-{host.mark}"
    victim = host.python(SLEEP, tag)
    project = ProjectFolder(tmp_path / "project")
    with (
        SshServer(tmp_path / "far", env={"HOME": str(host.home)}) as far,
        SshServer(tmp_path / "near") as near,
    ):
        (near.folder / "authorized_keys").write_text(far.key_file.with_suffix(".pub").read_text())
        known = tmp_path / "known"
        known.write_text(far.known_hosts.read_text() + near.known_hosts.read_text())
        by = f"-J {near.user}@{near.address}:{near.port} " if hops else ""
        args = f"{by}-o UserKnownHostsFile={known}"
        project.hosts({"box": {**far.variables(), "ansible_ssh_common_args": args}})
        done = project.inv("kill", "--host", "box", "--match", tag, "--yes", "--json")
    assert done.code == 0, done.text
    (report,) = done.json["hosts"]["box"]["results"]
    assert [process["pid"] for process in report["ended"]] == [victim]
    assert not lives(victim)
