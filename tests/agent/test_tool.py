"""Somebody else's load generator: what it really left is read, and what is no measurement is none."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.measuring import measuring, tool
from stoker.benchmarks import others
from tests.agent.test_bench import context

CASES = Path(__file__).parents[1] / "cases/benchmarks"


FILES = {
    "sglang-serving": "sglang-serving/llamacpp.jsonl",
    "aiperf": "aiperf/llamacpp.json",
    "guidellm": "guidellm/llamacpp.json",
}


def asked(name: str = "vllm-serve", requests: int = 16, output: int = 32) -> tool.Asked:
    spec = others.TOOLS[name].to_wire()
    return tool.Asked(spec, 1, requests, output, {})


def case(name: str, **changes: Any) -> str:
    data = json.loads((CASES / name).read_text())
    return json.dumps({**data, **changes})


def test_a_result_is_read_into_our_figures_and_units() -> None:
    """Of vLLM 0.32 against a real vLLM server."""
    run = tool.read(case("vllm-serve/vllm.json"), asked(), 0)
    assert run["valid"], run["why"]
    assert run["tokens"] == run["requested"] == 16 * 32
    assert run["tok_s"] == pytest.approx(json.loads(case("vllm-serve/vllm.json"))["output_throughput"])
    assert 0 < run["ttft_s"] <= run["figures"]["ttft_p90_s"] <= run["figures"]["ttft_p99_s"]
    assert 0 < run["tpot_s"] < run["figures"]["e2e_s"] < run["seconds"]
    assert run["figures"]["req_s"] == pytest.approx(16 / run["seconds"])
    assert run["figures"]["input_tokens"] == 1026 / 16, "of a request, as our own benchmark tells it"
    assert {f"{n}{p}_s" for n in ("ttft", "tpot", "itl", "e2e") for p in ("", "_p90", "_p99")} <= {
        *run["figures"]
    }


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("sglang-serving", lambda data: data["median_ttft_ms"]),
        ("aiperf", lambda data: data["time_to_first_token"]["p50"]),
        (
            "guidellm",
            lambda data: data["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["median"],
        ),
    ],
)
def test_the_results_of_other_tools_are_read_too(name: str, first: Callable[[Any], float]) -> None:
    """Of SGLang 0.5.23's, aiperf 0.13 and GuideLLM 0.8 against llama-server.

    GuideLLM's is without what is not read.
    """
    text = (CASES / FILES[name]).read_text()
    run = tool.read(text, asked(name), 0)
    assert (run["valid"], run["why"]) == (True, "")
    assert run["tokens"] == run["requested"] == 16 * 32
    assert run["ttft_s"] == pytest.approx(first(json.loads(text)) / 1000)
    figures = run["figures"]
    assert 0 < run["ttft_s"] <= figures["ttft_p90_s"] <= figures["ttft_p99_s"] < figures["e2e_p99_s"]
    # A request is its first token, and then 31 at its pace.
    assert figures["e2e_s"] == pytest.approx(run["ttft_s"] + 31 * run["tpot_s"], rel=0.3)
    assert figures["req_s"] == pytest.approx(16 / run["seconds"], rel=0.03)
    assert 30 < figures["input_tokens"] < 45


def test_what_a_server_says_of_itself_is_not_kept(tmp_path: Path) -> None:
    """SGLang's benchmark copies it all, and a key that only an administrator has is among it."""
    program = tmp_path / "generator.py"
    text = case("sglang-serving/llamacpp.jsonl", server_info={"admin_api_key": "a-key-of-theirs"})
    program.write_text(f"import sys\nopen(sys.argv[1], 'w').write({text!r})\n")
    spec = {
        **others.TOOLS["sglang-serving"].to_wire(),
        "argv": [sys.executable, str(program), "{out}/result.jsonl"],
    }
    said = tool.Asked(spec, 1, 16, 32, {"seed": "1"})
    found = tool.measure(context(tmp_path), said, {}, lambda run: None)
    assert [run["valid"] for run in found.runs] == [True]
    assert "a-key-of-theirs" not in str(found.raw)
    assert json.loads(found.raw["run-1.json"])["completed"] == 16


@pytest.mark.parametrize(("name", "place"), [("aiperf", "request_count"), ("guidellm", "request_totals")])
def test_a_request_that_failed_another_tool_is_no_measurement_either(name: str, place: str) -> None:
    data = json.loads(case(f"{name}/llamacpp.json"))
    told = data[place] if name == "aiperf" else data["benchmarks"][0]["metrics"][place]
    told["avg" if name == "aiperf" else "successful"] = 14
    assert tool.read(json.dumps(data), asked(name), 0)["why"] == "2 of 16 requests failed"


def test_what_a_server_calls_its_model_is_no_option_of_the_tool() -> None:
    odd = 'm","target":"http://elsewhere.example","x":"{url}'
    values = {"url": "http://127.0.0.1:1", "model": odd, "tokenizer": "/t", "out": "/o"}
    values |= dict.fromkeys(("requests", "concurrency", "input", "output", "seed"), "8")
    argv = [tool.filled(word, values) for word in others.TOOLS["guidellm"].argv]
    backend = json.loads(argv[argv.index("--backend") + 1])
    assert (backend["model"], backend["target"]) == (odd, "http://127.0.0.1:1")
    assert json.loads(argv[argv.index("--profile") + 1]) == {"kind": "concurrent", "streams": [8]}


@pytest.mark.parametrize("name", others.TOOLS)
def test_a_key_is_given_in_the_environment_or_not_at_all(name: str) -> None:
    spec = others.TOOLS[name].to_wire()
    assert measuring.key_for({}, spec) == {}
    headers = {"Authorization": "Bearer k1"}
    if name in ("vllm-serve", "sglang-serving"):
        assert measuring.key_for(headers, spec) == {"OPENAI_API_KEY": "k1"}
        return
    with pytest.raises(AgentError, match="command line only") as raised:
        measuring.key_for(headers, spec)
    assert "k1" not in str(vars(raised.value))


def test_tokens_that_the_tool_counts_otherwise_than_asked_are_no_measurement() -> None:
    """Of vLLM 0.32 against llama-server: without a usage it tokenises the text once more."""
    run = tool.read(case("vllm-serve/tokens-counted-anew.json"), asked(), 0)
    assert not run["valid"]
    assert run["why"] == "the tool counts 877 tokens where 512 were asked for"
    assert run["tok_s"] is None
    assert run["figures"] == {}


def test_a_failed_request_is_no_measurement() -> None:
    run = tool.read(case("vllm-serve/vllm.json", completed=15), asked(), 0)
    assert run["why"] == "1 of 16 requests failed"


@pytest.mark.parametrize(
    "change", [{"duration": None}, {"duration": 0}, {"completed": "all"}, {"duration": True}]
)
def test_a_result_that_lacks_what_counts_says_so(change: dict[str, Any]) -> None:
    run = tool.read(case("vllm-serve/vllm.json", **change), asked(), 0)
    assert run["why"] == "the tool does not tell its tokens, its time or its requests"


@pytest.mark.parametrize("text", ["", "{", "[" * 2000, '{"duration": ' + "9" * 5000 + "}"])
def test_what_is_no_json_is_said(text: str) -> None:
    with pytest.raises(AgentError, match="no JSON"):
        tool.read(text, asked(), 0)


@pytest.mark.parametrize(
    ("place", "value"), [("a.1.b", 3.0), ("a.2.b", None), ("a.b", None), ("a.1.c", None), ("x", None)]
)
def test_a_figure_stands_at_a_place(place: str, value: float | None) -> None:
    assert tool.at({"a": [1, {"b": 3, "c": "3"}]}, place) == value


def test_every_tool_has_the_name_that_is_typed() -> None:
    from stoker import benchmarks

    assert set(others.TOOLS) == set(benchmarks.TOOLS)


PROGRAM = """\
import json, os, sys
out, requests, output, seed, key = sys.argv[1:5] + [os.environ["OPENAI_API_KEY"]]
print("asked with seed", seed, "and", len(key), "letters of a key")
json.dump({"tokens": int(requests) * int(output), "took": {"s": 2.0}, "done": int(requests), "ms": [5, 8]},
          open(os.path.join(out, "r.json"), "w"))
sys.exit(int(os.environ.get("FAIL", "0")))
"""


def small(folder: Path, **changes: Any) -> tool.Asked:
    """A small load generator of another form."""
    program = folder / "generator.py"
    program.write_text(PROGRAM)
    spec = others.Tool(
        argv=(sys.executable, str(program), "{out}", "{requests}", "{output}", "{seed}"),
        file="r.json",
        tokens="tokens",
        seconds="took.s",
        completed="done",
        figures={"ttft_s": ("ms.1", 0.001)},
        env={},
    ).to_wire()
    values = {"requests": "4", "output": "10", "seed": "7"}
    return tool.Asked({**spec, **changes}, 2, 4, 10, values)


def test_a_tool_warms_up_and_runs_with_other_prompts_each_time_and_its_output_is_kept(tmp_path: Path) -> None:
    seen: list[int] = []
    env = {"OPENAI_API_KEY": "k" * 20}
    found = tool.measure(context(tmp_path), small(tmp_path), env, lambda run: seen.append(run["index"]))
    assert seen == [-1, 0, 1]
    assert [run["tok_s"] for run in found.runs] == [20.0, 20.0]
    assert found.runs[0]["ttft_s"] == 0.008
    assert set(found.raw) == {f"{n}.{k}" for n in ("warmup", "run-1", "run-2") for k in ("json", "log")}
    assert [found.raw[f"{n}.log"].split()[3] for n in ("warmup", "run-1", "run-2")] == ["7", "8", "9"]
    assert not list(Path(tempfile.gettempdir()).glob("stoker-tool-*")), "nothing is left behind"


def test_a_tool_that_fails_or_is_not_there_says_so(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": "", "FAIL": "3"}
    with pytest.raises(AgentError, match="ended with status 3") as failed:
        tool.measure(context(tmp_path), small(tmp_path), env, lambda run: None)
    assert "asked with seed 7" in failed.value.evidence[-1]
    with pytest.raises(AgentError, match="no-such-tool"):
        tool.measure(context(tmp_path), small(tmp_path, argv=["no-such-tool"]), env, lambda run: None)
    with pytest.raises(AgentError, match="left no result"):
        tool.measure(context(tmp_path), small(tmp_path, file="other"), {**env, "FAIL": "0"}, lambda run: None)
