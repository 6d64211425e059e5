"""The environment that a process really has: libc's ``environ``, read from its memory.

``/proc/PID/environ`` shows the bytes given at exec: what the program set later is not in it, and a program
that renames itself overwrites it. The memory tells the truth, to root or (where ptrace is allowed) to the
same user.
"""

from __future__ import annotations

import os
import re
import struct
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from . import elf

MAX_ENTRIES = 1 << 16
MAX_BYTES = 8 << 20
MAX_STRING = 2 << 20
_ATTEMPTS = 3
_WINDOW = 8192
_LIBC = re.compile(r"(libc[.-]|ld-musl|libuClibc)")


class LiveEnv(NamedTuple):
    """The environment of one process.

    Args:
        env: Name to value; bytes that are no UTF-8 are kept by surrogate escapes.
        source: ``memory``: as it is now; ``exec``: as it was given at exec; ``unreadable``: nothing is known.
        why: Why it is not from memory; empty where it is.
    """

    env: Dict[str, str]
    source: str
    why: str


class UnreadableError(Exception):
    """What was asked for cannot be read; the message says why."""


class Mapping(NamedTuple):
    """The first mapping of one file in a process."""

    start: int
    range: str
    offset: int
    device: str
    inode: str
    path: str


class Reader:
    """Reads many processes; what it learns of a library serves them all."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[str, str, int], Optional[int]] = {}

    def read(self, pid: int) -> LiveEnv:
        """The live environment of one process, or the one of its exec where the memory is closed to us."""
        try:
            return LiveEnv(self._from_memory(pid), "memory", "")
        except (OSError, UnreadableError) as error:
            why = _reason(error)
        try:
            return LiveEnv(at_exec(f"/proc/{pid}/environ"), "exec", why)
        except (OSError, UnreadableError) as error:
            return LiveEnv({}, "unreadable", f"{why}; {_reason(error)}")

    def given(self, pid: int) -> Optional[Dict[str, str]]:
        """What a process was given at exec; where a title was written over that, what its memory holds.

        Returns:
            None where neither can be read: unreadable is not unset.
        """
        try:
            return at_exec(f"/proc/{pid}/environ")
        except (OSError, UnreadableError):
            pass  # a title, or it may not be looked into
        try:
            return self._from_memory(pid)
        except (OSError, UnreadableError):
            return None

    def _from_memory(self, pid: int) -> Dict[str, str]:
        why = "it keeps changing"
        for _ in range(_ATTEMPTS):
            before = _image(pid)
            try:
                raw = self._entries(pid)
            except UnreadableError as error:
                why = str(error)
                continue  # it may have been changing its environment or calling exec just then
            if _image(pid) == before:
                return _parsed(raw)
        raise UnreadableError(why)

    def _entries(self, pid: int) -> List[bytes]:
        mappings = _mappings(pid)
        fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            memory = Memory(fd)
            pointer = self._pointer(pid, mappings, memory)
            return memory.strings(pointer)
        finally:
            os.close(fd)

    def _pointer(self, pid: int, mappings: List[Mapping], memory: Memory) -> int:
        """Value of ``environ``: of the table in the order in which the dynamic linker would look."""
        program = _program(pid, mappings)
        libraries = [m for m in mappings if _LIBC.match(os.path.basename(m.path))]
        candidates = [(m, elf.DYNSYM) for m in program + libraries]
        candidates += [(m, elf.SYMTAB) for m in libraries + program]
        why = "no C library is mapped"
        for mapping, table in candidates:
            try:
                distance = self._distance(pid, mapping, table, memory)
                if distance is None:
                    why = f"{os.path.basename(mapping.path)} has no symbol environ"
                    continue
                (pointer,) = struct.unpack("<Q", memory.read(mapping.start + distance, 8))
            except (OSError, elf.ElfError, UnreadableError) as error:
                why = f"{mapping.path}: {_reason(error)}"
                continue
            if pointer:
                return int(pointer)
            why = "environ is not set up"
        raise UnreadableError(why)

    def _distance(self, pid: int, mapping: Mapping, table: int, memory: Memory) -> Optional[int]:
        key = (mapping.device, mapping.inode, table)
        if key not in self._known:
            self._known[key] = _look_up(pid, mapping, table, memory)
        return self._known[key]


class Memory:
    """The memory of one process, by an open ``/proc/PID/mem``."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._window = (0, b"")  # strings lie close together: one read serves many

    def some(self, at: int, size: int) -> bytes:
        """From 1 to ``size`` bytes: never past the first page that cannot be read."""
        if not 0 < at < 1 << 63:
            raise UnreadableError(f"{at:#x} is no address")
        try:
            data = os.pread(self._fd, size, at)
        except OSError:
            data = b""
        if not data:
            try:
                data = os.pread(self._fd, min(size, elf.PAGE - at % elf.PAGE), at)
            except OSError as error:
                raise UnreadableError(f"{at:#x}: {error.strerror}") from error
        if not data:
            raise UnreadableError(f"{at:#x}: the process has ended")
        return data

    def read(self, at: int, size: int) -> bytes:
        """Exactly ``size`` bytes."""
        data = self.some(at, size)
        while len(data) < size:
            data += self.some(at + len(data), size - len(data))
        return data

    def strings(self, array: int) -> List[bytes]:
        """The strings of an array of pointers that ends with a null pointer."""
        found: List[bytes] = []
        total = 0
        for pointer in self._pointers(array):
            found.append(self._string(pointer))
            total += len(found[-1]) + 1
            if total > MAX_BYTES:
                raise UnreadableError(f"more than {MAX_BYTES} bytes")
        return found

    def _pointers(self, array: int) -> List[int]:
        raw = b""
        while len(raw) < MAX_ENTRIES * 8:
            raw += self.some(array + len(raw), 1024)
            whole = len(raw) - len(raw) % 8
            pointers = struct.unpack_from(f"<{whole // 8}Q", raw)
            if 0 in pointers:
                return list(pointers[: pointers.index(0)])
        raise UnreadableError(f"more than {MAX_ENTRIES} entries")

    def _string(self, at: int) -> bytes:
        start, window = self._window
        if not start <= at < start + len(window):
            start, window = self._window = at, self.some(at, _WINDOW)
        end = window.find(b"\0", at - start)
        if end >= 0:
            return window[at - start : end]
        return self._long_string(at)

    def _long_string(self, at: int) -> bytes:
        data = b""
        while len(data) < MAX_STRING:
            more = self.some(at + len(data), 1 << 16)
            end = more.find(b"\0")
            if end >= 0:
                return data + more[:end]
            data += more
        raise UnreadableError(f"a value of more than {MAX_STRING} bytes")


def read(pid: int) -> LiveEnv:
    """The live environment of one process; of many, by one ``Reader`` or ``read_all``."""
    return Reader().read(pid)


def read_all(pids: Iterable[int], check: Callable[[], None] = lambda: None) -> Dict[int, LiveEnv]:
    """The live environments of many processes.

    Args:
        check: Called between two of them; may raise to end it.
    """
    reader = Reader()
    found: Dict[int, LiveEnv] = {}
    for pid in pids:
        check()
        found[pid] = reader.read(pid)
    return found


def _look_up(pid: int, mapping: Mapping, table: int, memory: Memory) -> Optional[int]:
    """The symbol's place, from the file that is mapped: the path may lead to its successor by now."""
    why = UnreadableError("its file cannot be opened")
    for path in _sources(pid, mapping):
        try:
            with open(path, "rb") as file:
                image = elf.Elf(file)
                if memory.read(mapping.start, len(image.first_page)) != image.first_page:
                    raise UnreadableError("its file has been replaced since it was loaded")
                return image.environ(table)
        except OSError as error:
            why = UnreadableError(f"its file cannot be opened: {error.strerror}")
        except (elf.ElfError, UnreadableError) as error:
            why = UnreadableError(str(error))
    raise why


def _sources(pid: int, mapping: Mapping) -> List[str]:
    """Ways to a mapped file; the first two lead to it even when it was deleted, the first takes root."""
    ways = [f"/proc/{pid}/map_files/{mapping.range}"]
    if mapping.path == os.readlink(f"/proc/{pid}/exe"):
        ways.append(f"/proc/{pid}/exe")
    return [*ways, f"/proc/{pid}/root{mapping.path}", mapping.path]


def _mappings(pid: int) -> List[Mapping]:
    """The first mapping of each file, where that is the file's begin."""
    seen: Dict[Tuple[str, str], Mapping] = {}
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[4] != "0" and (fields[3], fields[4]) not in seen:
                path = fields[5].rstrip("\n").replace("\\012", "\n")
                start, end = (int(number, 16) for number in fields[0].split("-"))
                mapping = Mapping(start, f"{start:x}-{end:x}", int(fields[2], 16), fields[3], fields[4], path)
                seen[fields[3], fields[4]] = mapping
    if not seen:
        raise UnreadableError("nothing is mapped")
    return [mapping for mapping in seen.values() if mapping.offset == 0]


def _program(pid: int, mappings: List[Mapping]) -> List[Mapping]:
    path = os.readlink(f"/proc/{pid}/exe")
    return [mapping for mapping in mappings if mapping.path == path][:1]


def _image(pid: int) -> Tuple[str, ...]:
    """What changes when a process calls exec or its pid passes on: start time, code and stack addresses."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    if fields[0] in "ZXx":
        raise UnreadableError("the process has ended")
    return fields[19], fields[23], fields[25]


def at_exec(path: str) -> Dict[str, str]:
    """The environment as it was given at exec.

    Args:
        path: ``/proc/PID/environ``.

    Raises:
        UnreadableError: A title was written over it, in whole or in part.
        OSError: It may not be read.
    """
    with open(path, "rb") as file:
        raw = file.read(MAX_BYTES + 1)
    entries = raw[:-1].split(b"\0") if raw.endswith(b"\0") else raw.split(b"\0")
    if not raw.strip(b"\0"):
        raise UnreadableError(
            "its environment at exec was overwritten" if raw else "its environment at exec is empty"
        )
    # A title that runs into the environment leaves text without "=" and NUL bytes up to the old length.
    if len(raw) > MAX_BYTES or not all(b"=" in entry for entry in entries):
        raise UnreadableError("its environment at exec was overwritten in part")
    return _parsed(entries)


def _parsed(entries: List[bytes]) -> Dict[str, str]:
    """As ``getenv`` sees them: the first of two entries of one name counts, and one without ``=`` is none."""
    env: Dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.decode("utf-8", "surrogateescape").partition("=")
        if equals:
            env.setdefault(name, value)
    if entries and not env:
        raise UnreadableError("what is in its place is no environment")
    return env


def _reason(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return "not permitted: it takes root, or the same user where kernel.yama.ptrace_scope is 0"
    if isinstance(error, (FileNotFoundError, ProcessLookupError)):
        return "the process has ended"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
