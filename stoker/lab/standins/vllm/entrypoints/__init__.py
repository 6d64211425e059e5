"""vLLM's entry points."""
