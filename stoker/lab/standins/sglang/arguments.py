"""SGLang's command line, as strict as the real one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from stoker.lab.standins import flags
from stoker.lab.standins.sglang.flags import FLAGS

DEFAULT_MEM_FRACTION = 0.88
_DEFAULT_RUNNING = 48
_EAGLE = ("EAGLE", "EAGLE3", "NEXTN")
_SECRET = ("api_key", "admin_api_key", "ssl_keyfile_password")


def parse(argv: Sequence[str], prog: str) -> argparse.Namespace:
    """The arguments.

    Raises:
        SystemExit: With status 2 where the real parser would refuse them.
    """
    parser = argparse.ArgumentParser(prog=prog)
    flags.add(parser, FLAGS)
    args = parser.parse_args(list(argv))
    if args.model_path is None:
        parser.error("the following arguments are required: --model-path/--model")
    if args.tp_size < 1 or args.pp_size != 1 or args.nnodes != 1 or args.dp_size != 1:
        parser.error("the lab's stand-in serves one tensor-parallel group on one host")
    if args.mem_fraction_static is None:
        args.mem_fraction_static = DEFAULT_MEM_FRACTION
    if args.max_running_requests is None:
        args.max_running_requests = _DEFAULT_RUNNING
    if args.served_model_name is None:
        args.served_model_name = args.model_path
    _speculation(parser, args)
    return args


def drafts(args: argparse.Namespace) -> int:
    """Tokens drafted in one speculative step; 0 without speculation."""
    if args.speculative_algorithm is None:
        return 0
    return min(int(args.speculative_num_steps), int(args.speculative_num_draft_tokens) - 1)


def shown(args: argparse.Namespace) -> str:
    """The line that the log begins with; keys are not shown there."""
    values = {name: "******" if name in _SECRET and value else value for name, value in vars(args).items()}
    return f"server_args=ServerArgs({', '.join(f'{name}={value!r}' for name, value in values.items())})"


def _speculation(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    if args.speculative_algorithm is None:
        return
    args.speculative_algorithm = args.speculative_algorithm.upper()
    if args.speculative_algorithm not in _EAGLE:
        parser.error(f"the lab's stand-in speculates with {', '.join(_EAGLE)} only")
    if args.speculative_num_steps is None:
        args.speculative_num_steps, args.speculative_eagle_topk = 3, args.speculative_eagle_topk or 1
    if args.speculative_num_draft_tokens is None:
        args.speculative_num_draft_tokens = args.speculative_num_steps + 1
    if args.speculative_num_steps < 1 or args.speculative_num_draft_tokens < 2:
        parser.error("speculative decoding needs at least one step and two draft tokens")
