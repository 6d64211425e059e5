"""What is accepted of results, reviewed in git."""
