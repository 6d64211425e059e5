"""What is kept of launches: records, slots, locks, units, and how a server ended."""
