"""What a stand-in says: words, one a token, the same for the same request."""

from __future__ import annotations

_WORDS = tuple(
    "the river carries light over stone and every morning a door opens where quiet engines hum below long "  # noqa: SIM905
    "halls of glass so that numbers fall like rain on paper while someone counts them twice".split()
)


def text(rid: int, position: int, count: int) -> str:
    """``count`` tokens of request ``rid``, from ``position``."""
    return "".join(
        f" {_WORDS[(rid * 7 + n * 11 + n // 5) % len(_WORDS)]}" for n in range(position, position + count)
    )


def count_tokens(prompt: object) -> int:
    """How many tokens a prompt has: its length where it is a list of numbers, else four characters each."""
    if isinstance(prompt, list) and prompt and all(isinstance(item, int) for item in prompt):
        return len(prompt)
    if isinstance(prompt, list):
        return sum(count_tokens(item) for item in prompt)
    return max(1, -(-len(str(prompt)) // 4))


def natural_length(prompt: str) -> int:
    """After how many tokens the model would stop by itself."""
    return 48 + sum(prompt.encode()) % 64
