"""``serve``, against a server of a known pace: what is asked, when, and what of it is a measurement."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import select
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from stoker.agent.asking import completion, http
from stoker.agent.asking.sse import AnswerError
from stoker.agent.asking.traffic import Traffic
from stoker.agent.context import AgentError
from stoker.agent.generators import figures, serve, workload
from stoker.agent.generators.load import Limits, Measured
from stoker.agent.generators.stream import Stream, Target
from stoker.agent.measuring import bench, prefixcache
from stoker.benchmarks import lengths, merge
from stoker.results.records.fromjson import build
from stoker.results.records.record import Subject
from tests.agent.programs_paced import Paced, paced
from tests.agent.test_bench import ENGINE, RUN_ID, context

SHORT = Limits(connect_s=2.0, silence_s=0.4, token_s=1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Paced]:
    with Paced() as running:
        yield running


def wanted(**fields: Any) -> workload.Serve:
    given = {"runs": 1, "requests": 12, "input": "20", "output": "10", **fields}
    return workload.wanted(merge({"name": "serve", **given}).to_wire())


def measure(server: Paced, model: str = "ok@400@0.02", **fields: Any) -> Measured:
    return serve.measure(server.target(model), wanted(**fields), "seed", limits=SHORT)


def rows(found: Measured, run: int = 0) -> list[dict[str, Any]]:
    return [request for request in found.requests if request["run"] == run]


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"rate": 60}, {"rate": 60, "arrivals": "fixed"}])
def test_every_token_is_counted(server: Paced, load: dict[str, Any]) -> None:
    found = measure(server, output="5-20", runs=2, **load)
    assert [run["index"] for run in found.runs] == [0, 1]
    for run in found.runs:
        mine = rows(found, run["index"])
        assert (run["valid"], run["errors"], len(mine)) == (True, {}, 12)
        assert run["tokens"] == run["requested"] == sum(row["tokens"] for row in mine)
        assert all(5 <= row["tokens"] <= 20 for row in mine)
        assert run["tok_s"] == pytest.approx(run["tokens"] / run["seconds"], rel=1e-3)
        assert run["figures"]["req_s"] == pytest.approx(12 / run["seconds"], rel=1e-3)


def test_every_run_has_the_same_lengths_and_arrivals_and_other_words(server: Paced) -> None:
    with Paced() as fresh:
        found = measure(fresh, "ok@400@0.02", output="5-20", input="10-90", runs=2, rate=60)
        prompts = http.get("127.0.0.1", fresh.port, "/prompts", 5).json()
    one, two = (sorted(rows(found, run), key=lambda row: int(row["index"])) for run in (0, 1))
    assert [row["requested"] for row in one] == [row["requested"] for row in two]
    assert [row["due_s"] for row in one] == pytest.approx([row["due_s"] for row in two], abs=1e-5)
    assert len({text[:8] for text in prompts}) == len(prompts)


def test_at_a_rate_requests_do_not_wait_for_each_other(server: Paced) -> None:
    # Each takes 0.3 s and they come 50 times a second: one after the other they would take 6 s.
    found = measure(server, "ok@1000@0.3", rate=50, arrivals="fixed", requests=20)
    dues = [row["due_s"] for row in rows(found)]
    assert dues == pytest.approx([index / 50 for index in range(20)], abs=1e-5)
    assert found.runs[0]["seconds"] < 3


def test_poisson_arrivals_have_the_rate_and_the_spread_that_are_asked() -> None:
    drawn = list(workload.orders(wanted(rate=10, requests=20000)))
    at = [order.at_s or 0.0 for order in drawn]
    gaps = [b - a for a, b in pairwise(at)]
    assert statistics.fmean(gaps) == pytest.approx(0.1, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(0.1, rel=0.05)


def test_seconds_bound_the_arrivals() -> None:
    drawn = list(workload.orders(wanted(rate=10, arrivals="fixed", requests=None, seconds=3)))
    assert len(drawn) == 30


def test_a_closed_loop_of_seconds_begins_nothing_after_them(server: Paced) -> None:
    found = measure(server, concurrency=2, requests=None, seconds=1)
    mine = rows(found)
    assert max(row["due_s"] for row in mine) < 1
    assert len(mine) > 4


def test_never_more_than_so_many_at_once(server: Paced) -> None:
    found = rows(measure(server, concurrency=3, output="5-20"))
    # One begins at the very moment at which another has ended; rows are rounded.
    ends = [(row["due_s"] + row["seconds"] - 1e-4, -1) for row in found]
    running = most = 0
    for _, step in sorted([(row["due_s"], 1) for row in found] + ends):
        running += step
        most = max(most, running)
    assert most == 3


def test_a_request_that_is_sent_late_is_charged_from_when_it_was_due(server: Paced) -> None:
    # The generator itself is held up for 0.3 s: what came due meanwhile waited, and that counts.
    held: list[bool] = []

    def check() -> None:
        if len(held) < 3:
            held.append(True)
            time.sleep(0.3)

    asked = wanted(rate=100, arrivals="fixed", requests=80)
    found = serve.measure(server.target("ok@1000@0.01"), asked, "seed", check, limits=SHORT)
    late = [row for row in rows(found) if row["late_s"] > 0.05]
    assert late
    assert all(row["ttft_s"] >= row["late_s"] + 0.009 for row in late)
    assert found.runs[0]["figures"]["late_p99_s"] == pytest.approx(
        figures.percentile(sorted(row["late_s"] for row in rows(found)), 0.99), abs=1e-5
    )


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("stops", "short"), ("http-500", "http-500"), ("reset", "reset"), ("silent", "timeout"), ("cut", "cut")],
)
def test_a_bad_answer_is_no_measurement_and_its_kind_is_counted(server: Paced, mode: str, kind: str) -> None:
    found = measure(server, mode, concurrency=2, requests=4)
    run = found.runs[0]
    assert (run["valid"], run["tok_s"], run["figures"]) == (False, None, {})
    assert set(run["errors"]) == {kind}
    assert "requests failed: " + kind in run["why"]


def test_good_requests_are_those_within_every_limit(server: Paced) -> None:
    easy = measure(server, concurrency=2, goodput="ttft=5,tpot=1,e2e=9").runs[0]["figures"]
    none = measure(server, concurrency=2, goodput="ttft=5,tpot=0.0001").runs[0]["figures"]
    assert easy["good_req_s"] == easy["req_s"]
    assert none["good_req_s"] == 0


def test_at_a_rate_the_clients_pace_counts_the_wait(server: Paced) -> None:
    found = measure(server, "ok@1000@0.1", rate=40, requests=10)
    waits = sum(row["seconds"] for row in rows(found))
    assert found.runs[0]["user_tok_s"] == pytest.approx(100 / waits, rel=1e-3)
    assert measure(server, concurrency=2).runs[0]["user_tok_s"] is None


def test_chunks_of_several_tokens_are_counted_by_usage(server: Paced) -> None:
    run = measure(server, "speculative@900@0.02", concurrency=2, output="90", requests=4).runs[0]
    assert (run["valid"], run["tokens"]) == (True, 360)


@pytest.mark.parametrize("text", ["7", "3-9", "normal:60:20", "lognormal:300:200", "normal:50:10:45-55"])
def test_lengths_are_drawn_as_they_are_written(text: str) -> None:
    asked = lengths.parse(text, "", least=1)
    draw, dice = workload.drawing(asked.text, 1), random.Random(1)
    drawn = [draw(dice) for _ in range(4000)]
    assert asked.least <= min(drawn) <= max(drawn) <= asked.most
    assert statistics.fmean(drawn) == pytest.approx(asked.mean or asked.least, rel=0.06)


@pytest.mark.parametrize(
    "fields",
    [
        {"rate": True},
        {"rate": float("inf")},
        {"requests": 0},
        {"concurrency": 10**9},
        {"input": "normal:1:1"},
        {"output": "9-3"},
        {"goodput": "ttft=nan"},
        {"goodput": "x=1"},
        {"seed": None},
    ],
)
def test_the_wire_is_not_believed(fields: dict[str, Any]) -> None:
    with pytest.raises(AgentError):
        workload.wanted({**merge({"name": "serve"}).to_wire(), **fields})


def test_words_are_as_long_as_the_server_counts_them() -> None:
    prompts = workload.Prompts("seed")
    prompts.learn([(4, 5 + 3 * 4), (24, 5 + 3 * 24)])
    assert prompts.words(5 + 3 * 100) == 100
    assert len(prompts.text(5000).split()) == 5001
    prompts.learn([(4, 9), (24, 9)])  # a server that does not really count
    assert prompts.words(305) > 0


def test_percentiles_lie_between_values_in_proportion() -> None:
    assert figures.percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert figures.percentile([1.0], 0.99) == 1.0
    assert figures.spread("x", []) == {}


def test_the_hit_share_is_what_grew_meanwhile() -> None:
    names = {"cached": ["v:hits"], "looked_up": ["v:asked"]}
    before = Traffic(page=(("v:asked", 1000.0), ("v:hits", 900.0)))
    after = Traffic(page=(("v:asked", 2000.0), ("v:hits", 950.0)))
    assert prefixcache.hit_share(names, before, after) == 0.05
    assert prefixcache.hit_share(names, after, before) is None
    assert prefixcache.hit_share({}, before, after) is None


def test_descriptors_are_had_for_a_long_queue_and_given_back() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with serve.descriptors():
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65536)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(soft, 256)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_operations_result_is_a_record_of_one_load(tmp_path: Any) -> None:
    asked = merge({"name": "serve", "rate": 50, "requests": 10, "runs": 3, "input": "20", "output": "8"})
    with Paced("--model", "ok@400@0.02") as running:
        params = {"port": running.port, "engines": [ENGINE], "bench": asked.to_wire(), "run_id": RUN_ID}
        found = json.loads(json.dumps(bench.bench(context(tmp_path), params)))
    record = build([found], Subject("here", "openai"))
    assert record.bench == asked
    assert record.contaminated == ()
    assert list(record.metrics)[:3] == ["user_tok_s", "output_tok_s", "req_s"]
    assert record.metrics["ttft_p99_s"].unit == "s"
    assert record.samples == (tuple(run["user_tok_s"] for run in found["runs"]),)
    assert record.pace == record.metrics["user_tok_s"]


VLLM = (
    b'{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"%s",'
    b'"logprobs":null,"finish_reason":%s,"stop_reason":null}],"usage":%s}'
)
CHAT = b'{"choices": [{"delta": {"role": "assistant", "content": "%s"}, "finish_reason": %s}], "usage": %s}'
TEXTS = [b" word", b"", b"a\\nb", b'q\\"q', b"\\u00e4", "ä".encode(), b"\\", b'"', b"\xff", b"a\nb", b"}"]
ENDS = [(b"null", b"null"), (b'"length"', b"null"), (b"null", b'{"completion_tokens": 3}'), (b"nul", b"null")]


def _told(read: Any, event: bytes) -> Any:
    try:
        return read(event)
    except AnswerError as error:
        return error.kind


@pytest.mark.parametrize("shape", [VLLM, CHAT])
def test_what_is_parsed_once_says_what_parsing_all_would(shape: bytes) -> None:
    dice = random.Random(3)
    events = [shape % (text, *end) for text in TEXTS for end in ENDS]
    reader = completion.Reader()
    for _ in range(3000):
        event = dice.choice(events)
        if dice.random() < 0.3:  # something changed anywhere
            at = dice.randrange(len(event))
            event = event[:at] + dice.choice([b"", b'"', b"x", b"\\", b"{"]) + event[at + dice.randrange(3) :]
        told = _told(reader.read, event)
        assert told == _told(completion.parsed, event), event


def test_a_word_after_another_is_not_parsed_again() -> None:
    reader = completion.Reader()
    first = reader.read(VLLM % (b" one", b"null", b"null"))
    assert reader.read(VLLM % (b" two", b"null", b"null")) is first
    assert reader.read(VLLM % (b"", b"null", b"null")) is not first


Serving = Callable[[socket.socket, int], bool]


class Door:
    """A server that has a say in when a connection ends.

    Args:
        serving: Gets a connection and how many requests came on it before, with the request read; whether it
            stays for another one.

    Attributes:
        connections: For each one, how many requests came on it.
    """

    def __init__(self, serving: Serving) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.connections: list[int] = []
        self._serving = serving
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def target(self) -> Target:
        return Target("127.0.0.1", self.port, {}, "/v1/completions", "m", {})

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        number = len(self.connections)
        self.connections.append(0)
        with connection, contextlib.suppress(OSError):
            while self._read(connection):
                self.connections[number] += 1
                if not self._serving(connection, self.connections[number] - 1):
                    return

    @staticmethod
    def _read(connection: socket.socket) -> bool:
        data = b""
        while b'"stream": true' not in data or not data.rstrip().endswith(b"}"):
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        return True

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


HEAD, BODY = paced.CHUNKED, paced.piece(" word") * 2 + paced.usage(2) + paced.event(b"[DONE]")


def whole(connection: socket.socket, before: int) -> bool:
    connection.sendall(HEAD + BODY + b"0\r\n\r\n")
    return True


def in_pieces(connection: socket.socket, before: int) -> bool:
    """As llama.cpp ends its answers: the last line end comes by itself."""
    time.sleep(0.02)
    for piece in (HEAD + BODY, b"0\r\n", b"\r\n"):
        connection.sendall(piece)
        time.sleep(0.001)
    return True


def with_a_length(connection: socket.socket, before: int) -> bool:
    text = paced.piece(" word", framed=False) * 2 + paced.event({"usage": {"completion_tokens": 2}}, False)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    return True


@pytest.mark.parametrize("serving", [whole, in_pieces, with_a_length])
def test_a_connection_serves_one_request_after_the_other(serving: Serving) -> None:
    with Door(serving) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=3, requests=30), "seed", limits=SHORT
        )
        assert (found.runs[0]["valid"], found.runs[0]["why"]) == (True, "")
        assert sum(door.connections) == len(found.requests) == 2 + 8 + 30
        assert found.connections == {"opened": len(door.connections), "resent": 0}
        assert len(door.connections) < 20


def says_close(connection: socket.socket, before: int) -> bool:
    connection.sendall(HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + BODY + b"0\r\n\r\n")
    return False


def of_an_old_version(connection: socket.socket, before: int) -> bool:
    connection.sendall(HEAD.replace(b"1.1", b"1.0") + BODY + b"0\r\n\r\n")
    return False


def without_its_end(connection: socket.socket, before: int) -> bool:
    """It leaves out the line end behind the last chunk, and stays."""
    connection.sendall(HEAD + BODY + b"0\r\n")
    return True


def with_trailers(connection: socket.socket, before: int) -> bool:
    connection.sendall(HEAD + BODY + b"0\r\nX-Took: 5\r\n\r\n")
    return True


def with_a_surplus(connection: socket.socket, before: int) -> bool:
    connection.sendall(HEAD + BODY + b"0\r\n\r\nHTTP/1.1 408 Timeout\r\n\r\n")
    return True


@pytest.mark.parametrize(
    "serving", [says_close, of_an_old_version, without_its_end, with_trailers, with_a_surplus]
)
def test_a_connection_is_used_again_only_after_a_clean_end(serving: Serving) -> None:
    with Door(serving) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=2, requests=6), "seed", limits=SHORT
        )
        assert (found.runs[0]["valid"], found.runs[0]["why"]) == (True, "")
        assert set(door.connections) == {1}
        assert found.connections["resent"] == 0


def hangs_up_after(connection: socket.socket, before: int) -> bool:
    """Three answers, then it leaves without a word."""
    whole(connection, before)
    return before < 2


def half_closes(connection: socket.socket, before: int) -> bool:
    """It says that nothing more comes, and still takes what is sent."""
    whole(connection, before)
    connection.shutdown(socket.SHUT_WR)
    return True


def leaves_a_request_unanswered(connection: socket.socket, before: int) -> bool:
    """The end of an idle connection and a request cross on the way: it is not answered."""
    return not before and whole(connection, before)


def resets_a_request(connection: socket.socket, before: int) -> bool:
    if not before:
        return whole(connection, before)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


@pytest.mark.parametrize("serving", [hangs_up_after, half_closes])
def test_an_idle_connection_that_ended_is_not_used(serving: Serving) -> None:
    with Door(serving) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=2, requests=12), "seed", limits=SHORT
        )
        assert (found.runs[0]["valid"], found.runs[0]["why"]) == (True, "")
        assert len(door.connections) > 4


@pytest.mark.parametrize("serving", [leaves_a_request_unanswered, resets_a_request])
def test_a_request_that_an_idle_connection_lost_is_sent_again_and_is_no_error(serving: Serving) -> None:
    with Door(serving) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=1, requests=6), "seed", limits=SHORT
        )
        assert (found.runs[0]["valid"], found.runs[0]["errors"]) == (True, {})
        assert found.connections["resent"] > 2
        assert all(row["late_s"] < row["ttft_s"] for row in rows(found))


def answers_late_with_nothing(connection: socket.socket, before: int) -> bool:
    if before:
        time.sleep(1.05)
        return False
    return whole(connection, before)


def begins_and_leaves(connection: socket.socket, before: int) -> bool:
    if before:
        connection.sendall(HEAD[:20])
        return False
    return whole(connection, before)


@pytest.mark.parametrize("serving", [answers_late_with_nothing, begins_and_leaves])
def test_a_failure_on_a_used_connection_is_one_and_not_sent_again(serving: Serving) -> None:
    limits = Limits(connect_s=2.0, silence_s=5.0, token_s=5.0)
    with Door(serving) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=1, requests=2), "seed", limits=limits
        )
        assert {row["error"] for row in found.requests} == {None, "cut"}
        assert found.connections["resent"] == 0


def test_a_request_is_sent_again_once_only() -> None:
    """Every connection after the first one ends without an answer."""
    used: list[int] = []

    def first_only(connection: socket.socket, before: int) -> bool:
        used.append(before)
        return len(used) == 1 and whole(connection, before)

    with Door(first_only) as door:
        found = serve.measure(
            door.target(), wanted(output="2", concurrency=1, requests=2), "seed", limits=SHORT
        )
        assert [row["error"] for row in found.requests[:2]] == [None, "cut"]
        assert found.connections["resent"] == 1


def test_what_came_while_the_generator_was_held_up_has_the_time_at_which_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = Target("127.0.0.1", int(listener.getsockname()[1]), {}, "/v1/completions", "m", {})
        stream = Stream(0, target.request("hello", 2), 2, time.perf_counter())
        stream.connect(target)
        assert stream.socket is not None
        with listener.accept()[0] as connection, contextlib.closing(stream):
            connection.sendall(HEAD + BODY + b"0\r\n\r\n")
            select.select([stream.socket], [], [])
            came = time.perf_counter()
            time.sleep(0.5)
            stream.receive(time.perf_counter())
    assert stream.over
    assert stream.first_at is not None
    assert stream.sent_at <= stream.first_at < came + 0.2
