"""A whole project, held against itself and against its hosts."""
