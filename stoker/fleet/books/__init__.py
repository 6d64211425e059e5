"""Playbooks while they run: plays, tasks and what they may do, journals."""
