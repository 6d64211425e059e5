"""Somebody else's load generator, run beside the server: what it leaves is kept, and read by data."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
import time
from typing import Any, Callable, Dict, List, Mapping, Match, NamedTuple, Optional, Sequence

from .. import outside, run
from ..context import AgentError, Context
from ..generators.load import WARMUP, Measured

_TIMEOUT_S = 7200.0
_MOST_BYTES = 64 << 20
_OFF = 0.02  # tokens counted against those asked for: beyond, the tool counts otherwise than the server
_LINES = 15
_NAME = re.compile(r"\{([a-z]+)\}")


class Asked(NamedTuple):
    """What is asked of the tool.

    Args:
        tool: ``argv``, ``file``, ``tokens``, ``seconds``, ``completed``, ``figures``, ``env``,
            ``key_variable`` and ``left_out`` of the controller's.
        runs: How often, after a warm-up.
        requests: Of a run.
        output: Tokens of each.
        values: What stands for the names in ``argv``.
    """

    tool: Mapping[str, Any]
    runs: int
    requests: int
    output: int
    values: Mapping[str, str]


def measure(
    ctx: Context, asked: Asked, env: Mapping[str, str], report: Callable[[Dict[str, Any]], None]
) -> Measured:
    """Run it once for nothing and then as often as is wanted.

    Args:
        asked: What.
        env: Its environment: of the server, so that it finds that engine's programs.
        report: Gets each run when it ends.

    Returns:
        What was measured, with what the tool said and left as ``raw``.

    Raises:
        AgentError: ``io``: it is not there, or left nothing that can be read; ``cancelled``.
    """
    raw: Dict[str, str] = {}
    found: List[Dict[str, Any]] = []
    for index in range(WARMUP, asked.runs):
        found.append(_once(ctx, asked, env, index, raw))
        report(found[-1])
    return Measured(found[0], found[1:], [], 0.0, 0.0, raw)


def _once(
    ctx: Context, asked: Asked, env: Mapping[str, str], index: int, raw: Dict[str, str]
) -> Dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="stoker-tool-")
    name = "warmup" if index == WARMUP else "run-%d" % (index + 1)
    # Prompts that were asked before would come out of the prefix cache.
    seed = str(int(asked.values["seed"]) + index + 1)
    values = {**asked.values, "seed": seed, "out": folder}
    argv = [filled(word, values) for word in asked.tool["argv"]]
    began = time.monotonic()
    try:
        ended = run.execute(ctx, {"argv": argv, "env": dict(env), "cwd": folder, "timeout_s": _TIMEOUT_S})
        text = _text(os.path.join(folder, asked.tool["file"]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raw["%s.log" % name] = ended["stdout"] + ended["stderr"]
    if ended["rc"] != 0 or text is None:
        what = "%s ended with status %d after %.0f s" % (argv[0], ended["rc"], time.monotonic() - began)
        said = (ended["stderr"] or ended["stdout"]).splitlines()[-_LINES:]
        raise AgentError("io", what if ended["rc"] else "%s left no result" % argv[0], said)
    found = read(text, asked, index)
    raw["%s.json" % name] = _kept(text, asked.tool["left_out"])
    return found


def filled(word: str, values: Mapping[str, str]) -> str:
    """A word of the command with what stands for each ``{name}``; a value is never looked into again.

    What a server calls its model must not become an option: within a word that is JSON a value stays a part
    of its string.
    """
    of_json = word.startswith('{"')

    def value(found: Match[str]) -> str:
        text = values[found.group(1)]
        return json.dumps(text)[1:-1] if of_json else text

    return _NAME.sub(value, word)


def _kept(text: str, left_out: Sequence[str]) -> str:
    """What it left, without what must not lie about."""
    data = outside.mapping(outside.parse(text)) if left_out else {}
    if not set(left_out) & set(data):
        return text
    return json.dumps({name: value for name, value in data.items() if name not in left_out}) + "\n"


def _text(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if len(data) <= _MOST_BYTES else None


def read(text: str, asked: Asked, index: int) -> Dict[str, Any]:
    """One run out of what the tool left.

    Args:
        text: Its file.
        asked: What was asked, and where the figures stand.
        index: Of the run; −1 for the warm-up.

    Returns:
        A run of the contract; ``valid`` only where every request ended well and as many tokens were counted
        as were asked for.

    Raises:
        AgentError: ``io``: it is no JSON.
    """
    try:
        data = outside.parse(text)
    except outside.OutsideError as error:
        raise AgentError("io", "the tool's result is no JSON: %s" % error) from error
    tool = asked.tool
    figures = {}
    for name, (place, factor) in tool["figures"].items():
        value = _quotient(data, place)
        if value is not None:
            figures[name] = value * factor
    tokens, seconds, completed = (at(data, tool[name]) for name in ("tokens", "seconds", "completed"))
    wanted = asked.requests * asked.output
    why = _wrong(tokens, seconds, completed, asked)
    return {
        "index": index,
        "tokens": int(tokens or 0),
        "requested": wanted,
        "seconds": None if why else seconds,
        "tok_s": None if why or not (tokens and seconds) else tokens / seconds,
        "ttft_s": None if why else figures.get("ttft_s"),
        "tpot_s": None if why else figures.get("tpot_s"),
        "valid": not why,
        "why": why,
        "figures": {} if why else figures,
        "errors": {},
    }


def _wrong(
    tokens: Optional[float], seconds: Optional[float], completed: Optional[float], asked: Asked
) -> str:
    """Why it is no measurement; empty where it is one."""
    if tokens is None or seconds is None or completed is None or seconds <= 0:
        return "the tool does not tell its tokens, its time or its requests"
    if completed < asked.requests:
        return "%d of %d requests failed" % (asked.requests - completed, asked.requests)
    wanted = asked.requests * asked.output
    if abs(tokens - wanted) > _OFF * wanted:
        return "the tool counts %d tokens where %d were asked for" % (tokens, wanted)
    return ""


def _quotient(data: Any, places: str) -> Optional[float]:
    """The number at a place, or that of the first by that of the second."""
    place, slash, divisor = places.partition("/")
    value, by = at(data, place), at(data, divisor) if slash else 1.0
    return None if value is None or not by else value / by


def at(data: Any, place: str) -> Optional[float]:
    """The number at a place: names and indices with dots between; None where there is none."""
    for name in place.split("."):
        if isinstance(data, list) and name.isdigit() and int(name) < len(data):
            data = data[int(name)]
        elif isinstance(data, dict):
            data = data.get(name)
        else:
            return None
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
        return None
    return float(data)
