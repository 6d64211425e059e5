"""The command line of ``vllm serve``, as strict as the real one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from stoker.lab.standins import flags
from stoker.lab.standins.vllm.flags import FLAGS

DEFAULT_UTILIZATION = 0.92
_DEFAULT_SEQS = 256


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; names may be written with underscores too.

    Raises:
        SystemExit: With status 2 where the real parser would refuse them.
    """
    parser = argparse.ArgumentParser(prog="vllm", usage="vllm serve [model_tag] [options]")
    parser.add_argument("model_tag", nargs="?")
    flags.add(parser, FLAGS)
    args = parser.parse_args([_dashed(argument) for argument in argv])
    if args.model_tag is not None:
        args.model = args.model_tag
    if (args.pipeline_parallel_size or 1) != 1 or (args.data_parallel_size or 1) != 1:
        parser.error("the lab's stand-in serves one tensor-parallel group on one host")
    args.tensor_parallel_size = args.tensor_parallel_size or 1
    args.host = args.host or "0.0.0.0"  # noqa: S104  # as the real one: every address
    args.drafts = _drafts(parser, args.speculative_config)
    return args


def utilization(args: argparse.Namespace) -> float:
    """Share of a GPU for weights and cache."""
    return float(args.gpu_memory_utilization or DEFAULT_UTILIZATION)


def max_running(args: argparse.Namespace) -> int:
    """Requests that decode together."""
    return int(args.max_num_seqs or _DEFAULT_SEQS)


def given(argv: Sequence[str], args: argparse.Namespace) -> dict[str, object]:
    """What the log calls the non-default arguments: those that were given."""
    names = [argument.lstrip("-").partition("=")[0].replace("-", "_") for argument in argv]
    shown: dict[str, object] = {"model_tag": args.model_tag, "model": args.model}
    shown.update((name, getattr(args, name)) for name in names if hasattr(args, name))
    return shown


def _dashed(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value if argument.startswith("--") else argument


def _drafts(parser: argparse.ArgumentParser, text: str | None) -> int:
    if text is None:
        return 0
    try:
        config = json.loads(text)
        return int(config["num_speculative_tokens"])
    except (ValueError, KeyError, TypeError):
        parser.error(
            f"argument --speculative-config/-sc: Value {text} cannot be converted to SpeculativeConfig."
        )
