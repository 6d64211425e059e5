"""Where the console script ``stoker`` begins."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from stoker.errors import EXIT_INTERRUPTED


def main() -> None:
    """Run a command line; leaves through ``SystemExit`` with the documented code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell said nohup
        signal.signal(signal.SIGINT, _leave)
    from stoker.tasks import console  # most of a start is imports, and Ctrl-C ends them without a word

    console.main()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End without a word: no command has begun yet."""
    sys.exit(EXIT_INTERRUPTED)
