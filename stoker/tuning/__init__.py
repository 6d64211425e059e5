"""Tuning: the catalogue of variables as data, and the rules over an environment."""

from stoker.tuning.catalogue import Catalogue
from stoker.tuning.check import check, codes
from stoker.tuning.model import Family, Overwrite, Remark, Setting, Severity, Variable

__all__ = [
    "Catalogue",
    "Family",
    "Overwrite",
    "Remark",
    "Setting",
    "Severity",
    "Variable",
    "check",
    "codes",
]
