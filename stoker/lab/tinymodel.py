"""A tiny Llama as a GGUF file, made on the spot: a real engine needs a model, and no hub is at hand.

It says the same few words again and again, as code and tables do: what it says next hangs on its last word
alone, since what its random layers compute is kept too small to matter. So drafting from what was said before
pays, on any processor: one pass over the weights checks many words, where each alone waits for the memory.

The vocabulary holds ASCII only: with bytes from 128 up, random output would be invalid UTF-8, which the
server answers with 500.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

_SPACE = "Ġ"  # GPT-2's byte-level alphabet writes a blank like this
_LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3
# After so many tokens it says the same again.
_PERIOD = 16
# Of what the layers add to the word itself.
_WHISPER = 0.1
_CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write(path: Path, *, hidden: int, layers: int, vocabulary: int = 2048) -> None:
    """Write the model.

    Args:
        path: The file.
        hidden: Width, a multiple of 64; 256 is quick, 512 slow enough to measure.
        layers: Transformer blocks.
        vocabulary: Tokens; at least 200.
    """
    import gguf
    import numpy as np

    random = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, gguf, hidden, layers, vocabulary)

    def weights(name: str, *shape: int, scale: float = 0.02) -> None:
        writer.add_tensor(name, random.standard_normal(shape, dtype=np.float32) * np.float32(scale))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(hidden, np.float32))

    words = random.standard_normal((vocabulary, hidden), dtype=np.float32)
    follows = np.zeros_like(words)
    np.add.at(follows, _successors(vocabulary), words)
    writer.add_tensor("token_embd.weight", words)
    ones("output_norm.weight")
    writer.add_tensor("output.weight", follows)
    for layer in range(layers):
        block = f"blk.{layer}."
        for norm in ("attn_norm", "ffn_norm"):
            ones(f"{block}{norm}.weight")
        for square in ("attn_q", "attn_k", "attn_v"):
            weights(f"{block}{square}.weight", hidden, hidden)
        weights(f"{block}attn_output.weight", hidden, hidden, scale=0.02 * _WHISPER)
        for wide in ("ffn_gate", "ffn_up"):
            weights(f"{block}{wide}.weight", 3 * hidden, hidden)
        weights(f"{block}ffn_down.weight", hidden, 3 * hidden, scale=0.02 * _WHISPER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _successors(vocabulary: int) -> list[int]:
    """What follows each token: circles of the letters' pairs and triples; all other tokens lead into one."""
    first = len(_alphabet()) + 3
    last = first + (vocabulary - first) // _PERIOD * _PERIOD
    circles = [range(start, start + _PERIOD) for start in range(first, last, _PERIOD)]
    follows = [circles[token % len(circles)][0] for token in range(vocabulary)]
    for circle in circles:
        for token in circle:
            follows[token] = circle[(token - circle[0] + 1) % _PERIOD]
    return follows


def _describe(writer: Any, gguf: Any, hidden: int, layers: int, vocabulary: int) -> None:
    """The header: sizes and the tokenizer."""
    heads = max(1, hidden // 64)
    tokens, types, merges = _tokenizer(vocabulary)
    writer.add_name("tiny-llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(3 * hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_CHAT)


def _tokenizer(vocabulary: int) -> tuple[list[str], list[int], list[str]]:
    """A byte-level BPE: the ASCII bytes, then pairs and triples of letters until it is full.

    Returns:
        Tokens, their types, and the merges that make them.
    """
    tokens = ["<unk>", "<s>", "</s>", *_alphabet()]
    types = [_UNKNOWN, _CONTROL, _CONTROL] + [_NORMAL] * (len(tokens) - 3)
    merges = []
    firsts = [_SPACE, *_LETTERS]
    pairs = [(a, b) for a, b in product(firsts, _LETTERS)]
    triples = [(a + b, c) for a, b, c in product(firsts, _LETTERS, _LETTERS)]
    for left, right in (pairs + triples)[: vocabulary - len(tokens)]:
        merges.append(f"{left} {right}")
        tokens.append(left + right)
        types.append(_NORMAL)
    return tokens, types, merges


def _alphabet() -> list[str]:
    """GPT-2's printable stand-ins of the bytes 0 to 127: unprintable ones are shifted to 256 and up."""
    printable = set(range(33, 127)) | set(range(161, 173)) | set(range(174, 256))
    shifted = {byte: 256 + index for index, byte in enumerate(b for b in range(256) if b not in printable)}
    return [
        chr(shifted.get(byte, byte)) for byte in [*range(33, 127), *(b for b in range(128) if b in shifted)]
    ]
