"""All that is in force around a server that runs."""
