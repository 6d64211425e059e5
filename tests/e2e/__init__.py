"""Whole commands as a user types them, against real servers."""
