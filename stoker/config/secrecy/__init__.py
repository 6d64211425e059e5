"""Secrets and vaults: where they stand, and that nobody sees them."""
