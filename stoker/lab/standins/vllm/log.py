"""Log lines as vLLM writes them."""

from __future__ import annotations

import os
import time

from stoker.lab.standins import stages


def line(process: str, where: str, text: str, level: str = "INFO") -> None:
    """One line, or several with the same prefix.

    Args:
        process: e.g. ``APIServer``, ``Worker_TP0``.
        where: File and line of the real engine's source.
        text: What it says.
        level: ``INFO``, ``WARNING``, ``ERROR``.
    """
    stamp = time.strftime("%m-%d %H:%M:%S")
    prefix = f"({process} pid={os.getpid()}) {level} {stamp} [{where}] "
    stages.write("".join(f"{prefix}{part}\n" for part in text.splitlines()))


def api(where: str, text: str, level: str = "INFO") -> None:
    """A line of the API server's."""
    line("APIServer", where, text, level)


def core(where: str, text: str, level: str = "INFO") -> None:
    """A line of the engine core's."""
    line("EngineCore", where, text, level)


def uvicorn(text: str) -> None:
    """A line of the HTTP server's."""
    stages.write(f"INFO:     {text}\n")
