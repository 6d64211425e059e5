"""What people see: Rich's one door. Tables, live lines, errors; host text is cleaned before it is shown."""

from stoker.screen.board import Board
from stoker.screen.livesheet import LiveSheet
from stoker.screen.shapes import Draw, Sheet
from stoker.screen.terminal import Screen
from stoker.screen.words import VERDICT_STYLE, clean, clean_line, seconds

__all__ = ["VERDICT_STYLE", "Board", "Draw", "LiveSheet", "Screen", "Sheet", "clean", "clean_line", "seconds"]
