"""What is wrong, or only looks wrong, before a host is touched."""
