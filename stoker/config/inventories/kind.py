"""Which kind of inventory a file is, by its mark and its first bytes."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

_STARTS = (b"#!", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_LIKE_YAML = re.compile(r"---|\$ANSIBLE_VAULT|%YAML|- |\s|\{|[^\s\[{][^=]*:(\s|$)")


def is_program(path: Path) -> bool:
    """Whether a file is executable and a program; one that is only marked so (as on some mounts) is text."""
    return os.access(path, os.X_OK) and _begins_with(path, _STARTS)


def is_unmarked(path: Path) -> bool:
    """Whether a file without the mark of a program names in its first line what should run it."""
    return not os.access(path, os.X_OK) and _begins_with(path, (b"#!/",))


def _begins_with(path: Path, starts: tuple[bytes, ...]) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would keep us waiting
    except (OSError, ValueError):
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.read(descriptor, 4).startswith(starts)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def is_like_ini(path: Path) -> bool:
    """Whether a file without ending is meant as INI, by its first line that says something."""
    if path.suffix:
        return False
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = file.read(65536).splitlines()
    except (OSError, ValueError):
        return False
    first = next((line for line in lines if line.strip() and line[0] not in "#;"), None)
    return first is not None and _LIKE_YAML.match(first) is None
