"""Mounts of a host's own, made in a mount namespace that ends with its sshd."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from tests.sshd import SshServer


@functools.cache
def mounts_refused() -> str:
    """Why nothing can be mounted here; empty where it can."""
    if os.getuid() != 0:
        return "only root mounts"
    if shutil.which("unshare") is None:
        return "util-linux is not installed"
    trial = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    made = subprocess.run(trial, capture_output=True, text=True)
    return f"mount: {made.stderr.strip()}" if made.returncode else ""


def server_with(mounts: str, folder: Path, env: dict[str, str], where: Path) -> SshServer:
    """An SSH server that sees these mounts, and nobody else does.

    Args:
        mounts: Shell commands; ``$1`` is ``where``.
        folder: Of the server.
        env: Of its logins.
        where: A folder.
    """
    script = f'set -e; {mounts}; shift; exec "$@"'
    return SshServer(folder, env=env, within=("unshare", "-m", "/bin/sh", "-c", script, "sh", str(where)))
