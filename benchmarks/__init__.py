"""Developers' benchmarks: each prints ratios against rivals measured in the same run."""
