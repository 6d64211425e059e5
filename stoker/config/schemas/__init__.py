"""JSON Schemas that editors complete from."""
