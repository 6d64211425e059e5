"""The console script ``vllm``."""
