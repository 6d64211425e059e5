"""Text and YAML files with the place of each value."""
