"""Benchmarks beside a server and in place of it."""
