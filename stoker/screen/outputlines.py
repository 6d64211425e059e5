"""A command's output as whole lines, whatever pieces it arrives in."""

from __future__ import annotations

import time

from stoker.screen.words import LONGEST

_CUT = "…"
# More than a line is looked at of one: escapes in it take room and are not shown.
_MOST = 2 * LONGEST


class OutputLines:
    """One stream of one host, cut into lines as a terminal shows them.

    A progress bar that redraws itself with carriage returns is its last state. Of a line longer than can be
    shown only the beginning is kept, with an ellipsis, so that memory is bounded.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._since = 0.0
        self._told = False  # the line's beginning was shown before its end came

    def add(self, text: str) -> list[str]:
        """The lines that are complete with this piece."""
        self._since = time.monotonic()
        head, *more = text.split("\n")
        self._keep(head)
        lines: list[str] = []
        for piece in more:
            line, told = self._taken(), self._told
            self._told = False
            if line or not told:
                lines.append(line)
            self._keep(piece)
        return lines

    def rest(self) -> str:
        """The beginning of a line whose end has not come: shown now, and not again."""
        rest = self._taken()
        self._told = self._told or bool(rest)
        return rest

    @property
    def waits_s(self) -> float | None:
        """For how long nothing came to the unfinished line; None where there is none."""
        return time.monotonic() - self._since if self._size else None

    def _keep(self, piece: str) -> None:
        redrawn = piece.rstrip("\r").rfind("\r") + 1
        if redrawn or (piece and self._parts and self._parts[-1].endswith("\r")):
            self._parts, self._size = [], 0
            piece = piece[redrawn:]
        room = _MOST - self._size
        if room > 0 and piece:
            self._parts.append(piece[:room])
            self._size += len(piece[:room])

    def _taken(self) -> str:
        line = "".join(self._parts).rstrip("\r")
        cut = self._size >= _MOST
        self._parts, self._size = [], 0
        return line + _CUT if cut else line
