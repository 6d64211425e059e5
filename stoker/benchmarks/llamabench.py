"""The benchmark ``llama-bench``: a model under a profile's settings, without its server, by llama.cpp."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.benchmarks.bench import Bench, settled
from stoker.benchmarks.values import BOUNDS
from stoker.errors import InputError

NAME = "llama-bench"
FOLDER = "llama-bench"
_OWN = ("runs", "input", "output")
_MOST_TOKENS = 1_000_000
_ALL_LAYERS = "999"
# What both programs call alike and take alike.
_ALIKE = (
    *("--threads", "--batch-size", "--ubatch-size", "--cache-type-k", "--cache-type-v", "--split-mode"),
    *("--main-gpu", "--n-cpu-moe", "--numa", "--cpu-mask", "--cpu-strict", "--poll", "--prio"),
)
# The server reads these variables, llama-bench none of them.
_VARIABLES = {
    "LLAMA_ARG_THREADS": "--threads",
    "LLAMA_ARG_BATCH": "--batch-size",
    "LLAMA_ARG_UBATCH": "--ubatch-size",
    "LLAMA_ARG_CACHE_TYPE_K": "--cache-type-k",
    "LLAMA_ARG_CACHE_TYPE_V": "--cache-type-v",
    "LLAMA_ARG_SPLIT_MODE": "--split-mode",
    "LLAMA_ARG_MAIN_GPU": "--main-gpu",
    "LLAMA_ARG_N_CPU_MOE": "--n-cpu-moe",
    "LLAMA_ARG_NUMA": "--numa",
    "LLAMA_ARG_N_GPU_LAYERS": "--n-gpu-layers",
    "LLAMA_ARG_FLASH_ATTN": "--flash-attn",
    "LLAMA_ARG_TENSOR_SPLIT": "--tensor-split",
    "LLAMA_ARG_DEVICE": "--device",
    "LLAMA_ARG_OVERRIDE_TENSOR": "--override-tensor",
}
_FLASH = {
    "on": "1",
    "enabled": "1",
    "true": "1",
    "1": "1",
    "off": "0",
    "disabled": "0",
    "false": "0",
    "0": "0",
}


@dataclass(frozen=True)
class LlamaBench(Bench):
    """So many tokens are read as one prompt, and so many generated one by one; each so many times."""

    name: str = NAME
    tokens: int = 0
    concurrency: int = 0
    input: str = "512"
    output: str = "128"

    def to_wire(self) -> dict[str, Any]:
        """The same as JSON types."""
        return {name: getattr(self, name) for name in ("name", *_OWN)}

    @property
    def title(self) -> str:
        """For people: ``llama-bench 5 × pp512+tg128``."""
        return f"{self.name} {self.runs} × {self.size}"

    @property
    def level(self) -> str:
        """There is but one."""
        return self.size

    @property
    def size(self) -> str:
        """How many tokens are read and generated, as llama-bench itself calls its tests: ``pp512+tg128``."""
        return f"pp{self.input}+tg{self.output}"

    @property
    def load(self) -> str:
        """All that tells two of them apart, on one line."""
        return f"input {self.input}, output {self.output}"

    @property
    def judged(self) -> str:
        """The pace of what is generated."""
        return "decode_tok_s"


@dataclass(frozen=True)
class Settings:
    """What of a server's settings llama-bench has.

    Args:
        argv: As it takes them.
        left: Arguments and variables of the server that it has not.
    """

    argv: tuple[str, ...]
    left: tuple[str, ...]


def merged(profile: Mapping[str, Any], overrides: Mapping[str, Any]) -> LlamaBench:
    """The benchmark as it was asked for; of a profile's other benchmark only the number of runs is taken.

    Args:
        profile: The profile's ``bench``, or that of a record.
        overrides: What the command line says.

    Raises:
        InputError: Not a parameter of it, or a value that is none or out of bounds.
    """
    return LlamaBench(**settled(NAME, profile, overrides, _value))


def _value(name: str, value: object, where: str) -> Any:
    if name not in _OWN:
        hint = "it has --runs, --input and --output, and the profile's settings"
        raise InputError(f"{name} is not of {NAME}", where=where, next_step=hint)
    text = str(value).strip()
    least, most = BOUNDS["runs"] if name == "runs" else (1, _MOST_TOKENS)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise InputError(f"{text[:40]!r} is not a whole number", where=where)
    if len(text) > 12 or not least <= int(text) <= most:
        raise InputError(f"{text[:20]} is out of bounds, {name} goes from {least} to {most}", where=where)
    return int(text) if name == "runs" else str(int(text))


def settings(args: Mapping[str, Any], env: Mapping[str, str], aliases: Mapping[str, str]) -> Settings:
    """A server's settings as llama-bench takes them; an argument wins over a variable, as with the server.

    Args:
        args: The server's arguments: flag to value.
        env: The profile's variables.
        aliases: Other names of its flags.
    """
    said = [(name, _VARIABLES.get(name, ""), env[name]) for name in env if name.startswith("LLAMA_ARG_")]
    said += [(flag, aliases.get(flag, flag), value) for flag, value in args.items() if value != ()]
    found: dict[str, tuple[str, ...]] = {}
    left: list[str] = []
    for name, flag, value in said:
        words = _words(flag, value)
        if words is None:
            left.append(name)
        else:
            found[flag] = words
    return Settings(tuple(word for words in found.values() for word in words), tuple(left))


def _words(flag: str, value: Any) -> tuple[str, ...] | None:
    """A setting of the server as its words; None where llama-bench has no such thing.

    A comma between two of its values means that both are measured, so lists are written otherwise.
    """
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if flag in _ALIKE:
        return flag, text
    if flag == "--n-gpu-layers":
        return () if text == "auto" else (flag, _ALL_LAYERS if text == "all" else text)
    if flag == "--flash-attn":
        known = _FLASH.get(text.lower())
        return (flag, known) if known else ()
    if flag in ("--tensor-split", "--device"):
        return flag, text.replace(",", "/")
    if flag == "--override-tensor":
        return flag, text.replace(",", ";")
    return (flag, "1") if flag == "--no-kv-offload" else None


def program(command: Sequence[str]) -> str:
    """The program beside the server's; by its name alone where the server is found on the PATH, too."""
    server = next((word for word in command if posixpath.basename(word) == "llama-server"), "")
    return posixpath.join(posixpath.dirname(server), NAME)


def command(bench: Bench, model: str, program: str, slot: str, settings: Settings) -> tuple[str, ...]:
    """What is run in the server's place: it waits at a gate until it was looked at, and writes lines of JSON.

    Args:
        bench: What is asked for.
        model: The model's file.
        program: As of :func:`program`.
        slot: Of the launch: gate and result lie in its folder.
        settings: As of :func:`settings`.
    """
    place = f"~/.stoker/slots/{shlex.quote(slot)}/{FOLDER}"
    script = f': > {place}/ready; : < {place}/go; exec "$0" "$@" > {place}/result.jsonl'
    asked = ("-m", model, "-p", bench.input, "-n", bench.output, "-r", str(bench.runs), "-o", "jsonl")
    return ("sh", "-c", script, program, *asked, *settings.argv)
