"""Log lines as SGLang writes them."""

from __future__ import annotations

import time

from stoker.lab.standins import stages


def line(text: str, rank: str = "") -> None:
    """One line with SGLang's prefix.

    Args:
        text: What it says.
        rank: e.g. ``TP3``; empty for the launcher.
    """
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    stages.write(f"[{stamp}{' ' + rank if rank else ''}] {text}\n")


def uvicorn(text: str) -> None:
    """One line of the HTTP server's, which SGLang gives a stamp."""
    line(f"INFO:     {text}")
