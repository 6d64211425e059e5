"""Playbooks as they are written."""
