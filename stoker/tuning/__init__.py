"""Tuning: the catalogue of variables as data, and the rules over an environment."""

from stoker.tuning.catalogue import Catalogue
from stoker.tuning.check import check
from stoker.tuning.model import Remark, Setting, Severity, Variable

__all__ = ["Catalogue", "Remark", "Setting", "Severity", "Variable", "check"]
