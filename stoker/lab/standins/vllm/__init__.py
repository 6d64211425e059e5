"""A stand-in for vLLM: in the lab's environments this package is importable as ``vllm``."""

__version__ = "0.33.0"
