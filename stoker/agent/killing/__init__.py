"""The clean kill: what it claims, finds, decides, ends and proves."""
