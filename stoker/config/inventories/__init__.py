"""Inventories as Ansible writes them, read from every form."""
