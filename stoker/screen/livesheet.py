"""A table that is kept current while hosts tell how they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stoker.screen.board import Board
from stoker.screen.grid import table_of
from stoker.screen.shapes import DIM, Draw, Sheet, line_of

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live

    from stoker.screen.paper import Paper


class LiveSheet(Board):
    """A board that is one table, kept current; see :meth:`Screen.live`.

    Args:
        console: Where it is drawn.
        show: Prints a whole sheet, where nothing can be drawn over.
        hosts: Their names.
        event: The type of the events that count.
        draw: Makes the sheet out of the latest such event of each host.
    """

    def __init__(
        self,
        console: Console | Paper,
        show: Callable[[Sheet], None],
        hosts: Sequence[str],
        event: str,
        draw: Draw,
    ) -> None:
        super().__init__(console, max((len(host) for host in hosts), default=0))
        self._show = show
        self._hosts = set(hosts)
        self._event = event
        self._draw = draw
        self._seen: dict[str, dict[str, Any]] = {}
        self._fresh: set[str] = set()
        self._live = self._start() if self._console.is_interactive else None

    def __enter__(self) -> LiveSheet:
        if self._live is not None:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def event(self, host: str, event: dict[str, Any]) -> None:
        """Draw anew where it is what counts."""
        if event.get("type") != self._event:
            return
        with self._lock:
            self._seen[host] = event
            self._fresh.add(host)
            if self._live is not None:
                self._live.update(self._render(), refresh=True)
            elif self._fresh >= self._hosts:
                self._fresh.clear()
                self._show(self._draw(self._seen))

    def line(self, host: str, *parts: str | tuple[str, str]) -> None:
        """What a host has to say stands in the table."""

    def _start(self) -> Live:
        from rich.live import Live

        console: Any = self._console  # Rich's own, where it is interactive
        return Live(self._render(), console=console, auto_refresh=False, screen=False)

    def _render(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        sheet = self._draw(self._seen)
        now = Text(time.strftime("%H:%M:%S  (Ctrl-C ends it)"), style=DIM)
        return Group(table_of(sheet.columns, sheet.rows), *(line_of([line]) for line in sheet.lines), now)
