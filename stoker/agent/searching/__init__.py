"""Where on a host variables are or were set."""
