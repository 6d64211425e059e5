"""A stand-in for SGLang: in the lab's environments this package is importable as ``sglang``."""

__version__ = "0.5.23"
