"""Stoker tends inference engines on GPU hosts: restart, prove, measure, explain."""

__version__ = "0.1.0"
