"""The console script ``sglang``."""
