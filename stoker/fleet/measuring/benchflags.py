"""The arguments of what measures: the benchmark's own, and how sure to be."""

from __future__ import annotations

from functools import partial

from stoker.benchmarks.values import BOUNDS, NAMES, TOOLS, read
from stoker.fleet.flags import Flag


def _flag(name: str, help_: str) -> Flag:
    """A parameter of a benchmark: what it takes is the benchmark's to say."""
    return Flag(name, help_, check=partial(read, name))


BENCH = (
    Flag("bench", f"Which benchmark: {', '.join(NAMES[:-1])} or {NAMES[-1]} (decode)."),
    Flag("runs", "Measured runs, after one warm-up.", "whole", least=BOUNDS["runs"][0]),
    Flag("tokens", "Tokens of each request of decode.", "whole", least=BOUNDS["tokens"][0]),
    _flag("concurrency", "Requests at once; of serve also several loads in turn: 1,8,32."),
    _flag("rate", "Of serve: requests a second, several loads in turn: 1,2,4 (without: closed loop)."),
    _flag("arrivals", "At a rate: poisson or fixed (poisson)."),
    Flag("requests", "Of a run of serve (100).", "whole", least=1, most=BOUNDS["requests"][1]),
    _flag("seconds", "How long requests of a run of serve arrive, in place of their number."),
    _flag("input", "Prompt tokens: 512, 256-768, normal:512:128, lognormal:512:300:16-4096 (512)."),
    _flag("output", "Tokens asked for, likewise (128)."),
    Flag("seed", "Of lengths and arrivals (0).", "whole", most=BOUNDS["seed"][1]),
    _flag("goodput", "Limits of a good request, in seconds: ttft=0.5,tpot=0.05,e2e=10."),
    Flag("tokenizer", f"Of {', '.join(TOOLS)}: folder there with the tokenizer (the model's)."),
    Flag("batches", "Of allreduce: sequences that decode at once (1,2,4,8,16,32,64)."),
    Flag("hidden", "Of allreduce: hidden size (of the model's config.json on the host).", "whole", least=1),
    Flag("dtype", "Of allreduce: bfloat16, float16 or float32 (as the model's)."),
    Flag("ranks", "Of allreduce, where the profile has no GPUs (2).", "whole", least=1),
    Flag("tool", "Of allreduce: torch, or nccl-tests (all_reduce_perf on the PATH) (torch)."),
    Flag("deadline", "Of allreduce: seconds until a probe that hangs is ended (120).", "whole", least=5),
)
PORT = Flag("port", "Port of the server, where somebody started it by hand.", "whole", least=1, most=65535)
MAX_LOSS = Flag("max_loss", "Loss that an ok must rule out, 0..1 (0.10).", "number")
MOST_LAUNCHES = 6
SURER = (
    Flag(
        "confirm",
        "Launch the accepted setting and this one again where it regressed, and judge both.",
        "flag",
    ),
    Flag("until_sure", "Launch both again, in turn, until it is decided.", "flag"),
    Flag(
        "max_launches",
        f"Of --until-sure: launches of what runs, in all ({MOST_LAUNCHES}).",
        "whole",
        least=2,
        most=50,
    ),
    Flag("run", "With --confirm or --until-sure: a run measured already, in place of measuring first."),
    Flag("anew", "Of these: from the start, though an interrupted one could be gone on with.", "flag"),
)
