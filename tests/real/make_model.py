"""Write a random Llama and its tokenizer, which any engine loads: ``make_model.py FOLDER [WIDTH LAYERS]``.

It is tiny unless told otherwise, never ends an answer by itself, and tells how many parameters it has. Runs
in the engine's own virtual environment (torch, transformers, tokenizers); nothing of ours is imported.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_WIDTH, _LAYERS, _CONTEXT, _END = 256, 2, 2048, 2
_CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def _tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE, learnt from the standard library's source: text that every machine has."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=4096, special_tokens=special, initial_alphabet=alphabet)
    text = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:80]
    raw.train([str(path) for path in text], trainer)
    ends = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, model_max_length=_CONTEXT, chat_template=_CHAT, **ends
    )


def _model(vocabulary: int, width: int, layers: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 64,
        max_position_embeddings=_CONTEXT,
        bos_token_id=1,
        eos_token_id=_END,
        torch_dtype="bfloat16",
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        model.lm_head.weight[_END].zero_()  # of 4096 random scores 0 is never the highest
    return model


if __name__ == "__main__":
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(sys.argv[1])
    width, layers = map(int, sys.argv[2:] or (_WIDTH, _LAYERS))
    model = _model(len(tokenizer), width, layers)
    model.save_pretrained(sys.argv[1])
    print(sum(parameter.numel() for parameter in model.parameters()))
