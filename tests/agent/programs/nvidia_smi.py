"""Answers as the real ``nvidia-smi`` does, from a table captured on a real host.

FAKE_TABLE is a CSV with header and units (``--query-gpu … --format=csv``), asked field by field; lines that
are no row are printed as they are. FAKE_APPS is what ``--query-compute-apps`` prints. FAKE_SAYS replaces
every answer, FAKE_EXIT the exit status; with FAKE_HANGS it never ends.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

UNITS = (" MiB", " %", " W", " MHz")


def table() -> tuple[list[str], list[list[str]]]:
    rows = Path(os.environ["FAKE_TABLE"]).read_text().splitlines()
    header = [cell.split(" [")[0] for cell in rows[0].split(", ")]
    return header, [row.split(", ") for row in rows[1:]]


def bare(value: str) -> str:
    for unit in UNITS:
        if value.endswith(unit):
            return value[: -len(unit)]
    return value


def main() -> int:
    if os.environ.get("FAKE_HANGS"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.pause()
    said = os.environ.get("FAKE_SAYS")
    if said is not None:
        print(said)
        return int(os.environ.get("FAKE_EXIT", "0"))
    query = sys.argv[1]
    assert sys.argv[2] == "--format=csv,noheader,nounits"
    if query.startswith("--query-compute-apps="):
        assert query.endswith("=gpu_uuid,pid,process_name,used_memory")
        print(os.environ.get("FAKE_APPS", ""), end="")
        return int(os.environ.get("FAKE_APPS_EXIT", "0"))
    header, rows = table()
    fields = query.partition("=")[2].split(",")
    for field in fields:
        if field not in header:
            print(f'Field "{field}" is not a valid field to query.\n')
            return 2
    for row in rows:
        whole = len(row) == len(header)
        print(", ".join(bare(row[header.index(field)]) for field in fields) if whole else ", ".join(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
