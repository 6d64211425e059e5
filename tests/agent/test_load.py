"""The load generator, against a server whose pace is known and against every kind of bad answer."""

from __future__ import annotations

import json
import math
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from stoker.agent.asking import http
from stoker.agent.asking.sse import Answer, AnswerError
from stoker.agent.context import AgentError
from stoker.agent.generators import load
from stoker.agent.generators.load import Limits
from stoker.agent.generators.stream import prompt
from tests.agent.launched import free_port
from tests.agent.programs_paced import Paced, paced

SHORT = Limits(connect_s=2.0, silence_s=0.4, token_s=1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Paced]:
    with Paced() as running:
        yield running


def true_pace(pace: float, ttft: float, tokens: int, concurrency: int) -> float:
    return concurrency * tokens / (ttft + (tokens - 1) / pace)


@pytest.mark.alone
@pytest.mark.parametrize(("pace", "tokens", "concurrency"), [(90.0, 60, 1), (400.0, 200, 1), (40.0, 30, 32)])
def test_the_pace_is_measured_as_it_is(server: Paced, pace: float, tokens: int, concurrency: int) -> None:
    found = load.measure(server.target(f"ok@{pace}@0.1"), 2, tokens, concurrency, "seed")
    best = min(found.runs, key=lambda run: abs(run["tok_s"] - true_pace(pace, 0.1, tokens, concurrency)))
    assert best["valid"]
    assert best["tok_s"] == pytest.approx(true_pace(pace, 0.1, tokens, concurrency), rel=0.02)
    assert best["ttft_s"] == pytest.approx(0.1, abs=0.02)
    assert best["tpot_s"] == pytest.approx(1 / pace, rel=0.03)
    assert best["tokens"] == best["requested"] == tokens * concurrency


@pytest.mark.alone
def test_the_generator_costs_little_cpu_at_many_streams(server: Paced) -> None:
    found = load.measure(server.target("ok@20@0.1"), 1, 20, 128, "seed")
    tokens = sum(request["tokens"] for request in found.requests)
    assert tokens == 2 * 20 * 128
    assert found.client_cpu_s / tokens < 0.0005


def test_the_first_chunk_without_content_is_not_the_first_token(server: Paced) -> None:
    # The server sends a chunk without content at once, and the first word 0.3 s later.
    found = load.measure(server.target("ok@500@0.3"), 1, 10, 1, "seed")
    assert found.runs[0]["ttft_s"] == pytest.approx(0.3, abs=0.05)


def test_tokens_are_counted_by_usage_and_not_by_chunks(server: Paced) -> None:
    found = load.measure(server.target("speculative@300"), 1, 90, 1, "seed")
    assert found.runs[0]["tokens"] == 90
    assert found.requests[-1]["chunks"] == 30
    assert found.runs[0]["tok_s"] == pytest.approx(true_pace(300, 0.05, 90, 1), rel=0.05)


@pytest.mark.parametrize("mode", ["ok", "no-mark", "stays", "close-framed"])
def test_every_proper_way_to_end_an_answer_is_understood(server: Paced, mode: str) -> None:
    found = load.measure(server.target(f"{mode}@100"), 1, 30, 2, "seed", limits=SHORT)
    assert found.runs[0]["valid"], found.runs[0]["why"]
    assert found.runs[0]["tok_s"] == pytest.approx(true_pace(100, 0.05, 30, 2), rel=0.1)


HOSTILE = {
    "http-500": "http-500",
    "page": "bad-event",
    "not-http": "bad-http",
    "no-content": "no-content",
    "stops": "short",
    "long": "long",
    "mid-error": "server-error",
    "garbage": "bad-json",
    "garbage-list": "bad-json",
    "garbage-choice": "bad-json",
    "bad-chunk": "bad-http",
    "cut": "cut",
    "reset": "reset",
    "lies": "usage-mismatch",
    "no-usage": "no-usage",
    "nan-usage": "bad-json",
    "silent": "timeout",
    "hangs": "timeout",
}


@pytest.mark.parametrize(("mode", "kind"), HOSTILE.items())
def test_a_bad_answer_is_an_invalid_run_without_a_number(server: Paced, mode: str, kind: str) -> None:
    found = load.measure(server.target(mode), 3, 20, 2, "seed", limits=SHORT)
    run = found.runs[0]
    assert {request["error"] for request in found.requests} == {kind}
    assert (run["valid"], run["tok_s"], run["tpot_s"], run["seconds"]) == (False, None, None, None)
    assert run["why"].startswith(f"2 of 2 requests failed: {kind} × 2 (")
    assert len(found.runs) == 1, "no further run is tried once one had no valid request at all"


def test_a_short_answer_says_how_many_tokens_came_and_why_it_ended(server: Paced) -> None:
    found = load.measure(server.target("stops"), 1, 20, 1, "seed")
    assert "5 of 20 tokens came (finished by stop)" in found.runs[0]["why"]


def test_nobody_listening_is_refused_and_told_at_once() -> None:
    target = Paced.target(_nowhere(), "ok")
    began = time.monotonic()
    found = load.measure(target, 5, 20, 3, "seed")
    assert time.monotonic() - began < 1
    assert {request["error"] for request in found.requests} == {"refused"}
    assert not found.runs[0]["valid"]


def _nowhere() -> Paced:
    nowhere = object.__new__(Paced)
    nowhere.port = free_port()
    return nowhere


def test_our_own_lack_of_descriptors_is_told_apart_from_the_servers_failures(server: Paced) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (number for number in range(hard) if number not in used)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, 20, None)), hard))
    try:
        found = load.measure(server.target("ok"), 1, 10, 40, "seed")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not found.runs[0]["valid"]
    assert "failed on our side: client × " in found.runs[0]["why"]


def test_one_failing_stream_of_several_makes_the_run_invalid() -> None:
    # The rest ran with less company than was asked for: their pace is of something else.
    with Paced() as server:
        target = server.target("ok@50")
        timer = time.monotonic() + 0.3

        def end_it() -> None:
            if time.monotonic() > timer:
                server.process.kill()

        found = load.measure(target, 1, 40, 4, "seed", check=end_it, limits=SHORT)
    assert not found.warmup["valid"]
    assert found.warmup["tok_s"] is None


def test_no_figure_is_ever_nan(server: Paced) -> None:
    for mode in ("ok", "stops", "nan-usage", "silent"):
        found = load.measure(server.target(mode), 1, 10, 1, "seed", limits=SHORT)
        text = json.dumps([found.warmup, found.runs, found.requests], allow_nan=False)
        assert "NaN" not in text


def test_prompts_of_one_benchmark_share_no_beginning_and_another_seed_gives_others(server: Paced) -> None:
    with Paced() as fresh:
        load.measure(fresh.target("ok"), 2, 4, 3, "run-1")
        load.measure(fresh.target("ok"), 2, 4, 3, "run-2")
        prompts = http.get("127.0.0.1", fresh.port, "/prompts", 5).json()
    assert len(prompts) == 2 * 3 * 3
    assert len({text[:8] for text in prompts}) == len(prompts)
    assert prompt("run-1/0", 0) == prompt("run-1/0", 0)


def test_the_chat_endpoint_gets_messages_and_the_key_is_sent() -> None:
    with Paced("--path", "/v1/chat/completions", "--key", "sesame") as server:
        target = server.target("ok", path="/v1/chat/completions")
        refused = load.measure(target, 1, 5, 1, "seed")
        taken = load.measure(target._replace(headers={"Authorization": "Bearer sesame"}), 1, 5, 1, "seed")
    assert refused.requests[0]["error"] == "http-401"
    assert taken.runs[0]["valid"]


def test_a_cancel_ends_it_within_a_moment(server: Paced) -> None:
    began = time.monotonic()

    def cancel() -> None:
        if time.monotonic() - began > 0.3:
            raise AgentError("cancelled", "the step was cancelled")

    with pytest.raises(AgentError):
        load.measure(server.target("silent"), 1, 5, 2, "seed", check=cancel)
    assert time.monotonic() - began < 1
    assert not _sockets_to(server.port)


def _sockets_to(port: int) -> list[str]:
    mine = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in mine]


def test_runs_are_reported_as_they_end_with_the_warm_up_first(server: Paced) -> None:
    told: list[int] = []
    load.measure(server.target("ok"), 3, 5, 1, "seed", report=lambda run: told.append(run["index"]))
    assert told == [-1, 0, 1, 2]


def test_it_runs_on_python_3_8(server: Paced) -> None:
    kept = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    python = shutil.which("python3.8") if not kept else str(kept[-1])
    if python is None:
        pytest.skip("no Python 3.8 here")
    code = (
        "from stoker.agent.evidence import fingerprint; from stoker.agent.generators import load;"
        "from stoker.agent.measuring import bench; from stoker.agent.generators.stream import Target;"
        f"t = Target('127.0.0.1', {server.port}, {{}}, '/v1/completions', 'ok', {{}});"
        "print(load.measure(t, 1, 10, 2, 's').runs[0]['valid'])"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == "True", done.stderr


# The parser by itself.


def _stream(dice: random.Random, events: list[bytes], crlf: bool) -> bytes:
    """An answer in chunks that cut the events anywhere."""
    end = b"\r\n" if crlf else b"\n"
    body = b": a comment" + end + end + b"".join(b"data: " + data + end + end for data in events)
    framed = b""
    while body:
        size = dice.randint(1, len(body))
        framed += b"%x;name=value\r\n%s\r\n" % (size, body[:size])
        body = body[size:]
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTRANSFER-ENCODING: Chunked\r\n\r\n"
    return head + framed + b"0\r\nTrailer: x\r\n\r\n"


@pytest.mark.parametrize("seed", range(30))
def test_events_are_the_same_however_the_bytes_arrive(seed: int) -> None:
    dice = random.Random(seed)
    events = [json.dumps({"i": i, "t": "x" * dice.randint(0, 40)}).encode() for i in range(8)]
    raw = _stream(dice, [*events, b"[DONE]"], crlf=seed % 2 == 0)
    answer, found = Answer(), []
    while raw and not answer.ended:
        size = dice.choice([1, 2, 3, 7, 50, len(raw)])
        found += answer.feed(raw[:size])
        raw = raw[size:]
    assert found == [*events, b"[DONE]"]
    assert answer.ended


def test_an_event_over_several_data_lines_is_joined() -> None:
    answer = Answer()
    body = b'data: {"a":\ndata: 1}\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert answer.feed(head + body) == [b'{"a":\n1}']


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_an_error_of_the_answer_and_never_another(seed: int) -> None:
    dice = random.Random(seed)
    for head in (b"", paced.CHUNKED, paced.CLOSING, b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n"):
        answer = Answer()
        try:
            answer.feed(head + dice.randbytes(200))
            answer.close()
        except AnswerError as error:
            assert error.kind in ("bad-http", "bad-event", "cut")


def test_a_head_or_an_event_without_end_is_given_up() -> None:
    with pytest.raises(AnswerError, match="no HTTP answer"):
        Answer().feed(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17))
    with pytest.raises(AnswerError, match=r"an event of more than"):
        Answer().feed(paced.CLOSING + b"data: " + b"x" * (5 << 20))


def test_the_summary_of_a_run_is_arithmetic(server: Paced) -> None:
    found = load.measure(server.target("ok@200@0.1"), 1, 20, 2, "seed")
    run, requests = found.runs[0], [r for r in found.requests if r["run"] == 0]
    assert run["tok_s"] == pytest.approx(run["tokens"] / run["seconds"], rel=1e-4)
    assert math.isclose(run["ttft_s"], sum(r["ttft_s"] for r in requests) / 2, rel_tol=1e-3)
