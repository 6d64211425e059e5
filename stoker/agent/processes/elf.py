"""Where a program keeps ``environ``, from the symbol tables of its ELF files."""

from __future__ import annotations

import os
import struct
from typing import BinaryIO, Iterator, List, NamedTuple, Optional

PAGE = 4096
SYMTAB, DYNSYM = 2, 11
_TABLE_LIMIT = 64 << 20
_NAMES = (b"environ", b"_environ", b"__environ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class ElfError(Exception):
    """The file is no ELF file that can be read here."""


class Section(NamedTuple):
    """What matters of a section header."""

    kind: int
    offset: int
    size: int
    link: int


class Elf:
    """A 64-bit little-endian ELF file.

    Args:
        file: Open for reading; everything in it is taken for hostile.

    Raises:
        ElfError: It is none.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        head = self._read(0, 64)
        if head[:4] != b"\x7fELF":
            raise ElfError("not an ELF file")
        if head[4:6] != b"\x02\x01":
            raise ElfError("not a 64-bit little-endian program")
        (self._segments_at, self._sections_at) = struct.unpack_from("<QQ", head, 32)
        (self._segment_size, self._segment_count) = struct.unpack_from("<HH", head, 54)
        (self._section_size, self._section_count) = struct.unpack_from("<HH", head, 58)
        self.first_page = self._read(0, min(PAGE, self._size))

    def environ(self, kind: int) -> Optional[int]:
        """Distance of the variable ``environ`` from the start of the file's first mapping.

        Args:
            kind: ``DYNSYM``, which programs and libraries share, or ``SYMTAB``, which stripping removes.

        Returns:
            None where that table does not define it.
        """
        sections = self._sections()
        for section in sections:
            if section.kind == kind and section.link < len(sections):
                value = self._symbol(section, sections[section.link])
                if value is not None:
                    return value - self._base()
        return None

    def _symbol(self, table: Section, strings: Section) -> Optional[int]:
        wanted = set(_offsets(self._read(strings.offset, strings.size)))
        if not wanted:
            return None
        raw = self._read(table.offset, table.size - table.size % _SYMBOL.size)
        for name, _, _, home, value, size in _SYMBOL.iter_unpack(raw):
            # Section 0 is "defined elsewhere"; the variable is one pointer (a size of 0: not told).
            if name in wanted and home and value and size in (0, 8):
                return int(value)
        return None

    def _sections(self) -> List[Section]:
        if not self._sections_at or self._section_size != _SECTION.size:
            return []
        raw = self._read(self._sections_at, _SECTION.size * self._section_count)
        return [Section(s[1], s[4], s[5], s[6]) for s in _SECTION.iter_unpack(raw)]

    def _base(self) -> int:
        """Lowest address that the file asks to be loaded at, down to its page."""
        if self._segment_size != _SEGMENT.size:
            raise ElfError("unknown program header")
        raw = self._read(self._segments_at, _SEGMENT.size * self._segment_count)
        loads = [segment[3] & ~(PAGE - 1) for segment in _SEGMENT.iter_unpack(raw) if segment[0] == 1]
        return min(loads, default=0)

    def _read(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or size > _TABLE_LIMIT or offset + size > self._size:
            raise ElfError("cut short or damaged")
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise ElfError("cut short")
        return data


def _offsets(strings: bytes) -> Iterator[int]:
    """Where names of the variable begin in a string table; a linker may share the tail of one name."""
    at = strings.find(b"environ\0")
    while at >= 0:
        for name in _NAMES:
            start = at - (len(name) - len(b"environ"))
            if start >= 0 and strings[start : at + 7] == name:
                yield start
        at = strings.find(b"environ\0", at + 1)
