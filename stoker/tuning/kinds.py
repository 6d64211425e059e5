"""The kinds of values: how each is read, what can be wrong with it, how it is to be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from stoker.tuning import lists, numbers, words
from stoker.tuning.words import Reader


@dataclass(frozen=True)
class Kind:
    """A way of reading values.

    Args:
        read: Says what is wrong with a value of a variable.
        written: How to write it, for people.
        rules: Which rules it can find broken.
    """

    read: Reader
    written: str
    rules: frozenset[str]


def _kind(read: Reader, written: str, rules: str = "bad-value") -> Kind:
    return Kind(read, written, frozenset(rules.split()))


_C = "bad-value size-suffix leading-zero hexadecimal blank"
_LIST = "bad-value empty-element negation blank"
_TORCH = words.spelled("1 true t yes y", "0 false f no n")
_SGLANG = words.spelled("1 true yes y", "0 false no n")
_HF = words.spelled("1 on yes true", "0 off no false")
_LLAMA = words.spelled("on enabled true 1", "off disabled false 0", any_case=False)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "text": _kind(words.text, "text", ""),
        "path": _kind(words.text, "path", ""),
        "plain-path": _kind(words.plain_path, "path, without ~ and $NAME", "unexpanded"),
        "flag": _kind(words.choice, "0 or 1"),
        "choice": _kind(words.choice, "one of", "bad-value wrong-case"),
        "choice-any-case": _kind(words.choice_any_case, "one of"),
        "c-integer": _kind(numbers.c_integer, "whole number in digits", _C),
        "c-number": _kind(numbers.c_number, "one of", _C),
        "c-plain": _kind(numbers.plain_integer, "whole number in digits"),
        "stoi-integer": _kind(numbers.stoi, "whole number in digits", "bad-value size-suffix"),
        "stof-number": _kind(numbers.stof, "number"),
        "python-integer": _kind(numbers.python_integer, "whole number in digits"),
        "python-number": _kind(numbers.python_number, "number"),
        "sglang-integer": _kind(numbers.python_integer, "whole number in digits"),
        "sglang-number": _kind(numbers.python_number, "number"),
        "threads": _kind(numbers.threads, "positive numbers, with commas between the levels"),
        "omp-size": _kind(numbers.size_with_unit, "whole number, with B, K, M or G behind it"),
        "int-bool": _kind(numbers.int_bool, "0 or 1; words are an error"),
        "torch-bool": _kind(_TORCH, "0 or 1, or words"),
        "sglang-bool": _kind(_SGLANG, "0 or 1, or words"),
        "hf-bool": _kind(_HF, "0 or 1, or words"),
        "omp-bool": _kind(words.spelled("true", "false"), "true or false"),
        "llama-bool": _kind(_LLAMA, "on or off, in small letters", "bad-value wrong-case"),
        "llama-flag": _kind(words.llama_flag, "on; off is to leave it out"),
        "llama-off": _kind(words.llama_off, "anything: it is off as soon as this is set", "always-off"),
        "refused": _kind(words.refused, "nothing", "refused"),
        "true-words": _kind(words.true_words, "0 or 1, or words; on only as"),
        "one-only": _kind(words.one_only, "0 or 1"),
        "level": _kind(lists.level, "one of, in capitals", "bad-value wrong-case blank legacy-level"),
        "algorithms": _kind(lists.by_function, "words with commas between, ^ excludes, func:words;…", _LIST),
        "protocols": _kind(lists.by_function, "words with commas between, ^ excludes, func:words;…", _LIST),
        "subsystems": _kind(lists.subsystems, "words with commas between, ^ excludes", _LIST),
        "policies": _kind(lists.policies, "words with | between"),
        "interfaces": _kind(lists.selection, "prefixes with commas between; ^ excludes, = is exact", _LIST),
        "adapters": _kind(lists.selection, "prefixes with commas between; ^ excludes, = is exact", _LIST),
        "devices": _kind(lists.devices, "numbers or UUIDs with commas between"),
        "bind": _kind(lists.binding, "words with commas between"),
        "allocator": _kind(lists.allocator, "key:value pairs with commas between"),
    }
)
