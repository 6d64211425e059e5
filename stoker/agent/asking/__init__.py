"""Asking a server: HTTP, completions, health, metrics."""
