"""Profiles written from servers that run."""
