"""Give a server two workers that hold memory and go by another name: ``crew.py WHERE MIB COMMAND…``.

Engines with several GPUs look like this: a launcher, and renamed workers that hold the GPUs. They are this
process's children, and it becomes the command. Stoker runs it as a profile's ``wrap``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(where: str, mib: str, command: list[str]) -> None:
    """Start the workers, wait until they hold their memory, become the command."""
    holder = str(Path(__file__).with_name("holder.py"))
    for rank in range(2):
        worker = subprocess.Popen(
            [sys.executable, holder, where, mib, f"engine::worker_{rank}"], stdout=subprocess.PIPE
        )
        if worker.stdout is None or not worker.stdout.readline():
            sys.exit(f"worker {rank} did not get its memory")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
