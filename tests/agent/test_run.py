"""The operation exec: bounded output, a deadline, nothing left behind."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError, Context
from stoker.agent.run import KEEP_BYTES, Kept, execute
from stoker.agent.session import Session
from tests.agent.test_wire import appears, gone
from tests.sshd import descendants


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(session=Session({"HOME": str(tmp_path), "PATH": os.environ["PATH"], "FROM_LOGIN": "1"}))


def run(context: Context, shell: str, **params: Any) -> dict[str, Any]:
    return execute(context, {"shell": shell, **params})


def test_code_streams_and_seconds(context: Context) -> None:
    done = run(context, "echo out; echo err >&2; exit 5")
    assert (done["rc"], done["stdout"], done["stderr"], done["truncated"]) == (5, "out\n", "err\n", False)
    assert 0 < done["seconds"] < 5


def test_arguments_reach_the_program_as_they_are(context: Context) -> None:
    words = ["a b", "$HOME", "'", '"', "\n", "*", "é", ""]
    done = execute(context, {"argv": ["printf", "%s\\0", *words]})
    assert done["stdout"].split("\0")[:-1] == words


def test_environment_is_the_login_s_and_what_is_given(context: Context) -> None:
    done = execute(context, {"argv": ["env", "-0"], "env": {"NEW": "a\nb", "FROM_LOGIN": "2"}})
    shown = set(done["stdout"].split("\0")[:-1])
    assert shown == {
        f"HOME={context.login_env['HOME']}",
        f"PATH={os.environ['PATH']}",
        "FROM_LOGIN=2",
        "NEW=a\nb",
    }


def test_folder_is_the_home_unless_told(context: Context, tmp_path: Path) -> None:
    assert run(context, "pwd")["stdout"].strip() == str(tmp_path)
    assert run(context, "pwd", cwd="/")["stdout"].strip() == "/"


def test_missing_home_is_no_failure(tmp_path: Path) -> None:
    homeless = Context(session=Session({"HOME": str(tmp_path / "gone"), "PATH": os.environ["PATH"]}))
    assert run(homeless, "pwd")["stdout"].strip() == "/"


def test_signal_that_ends_it_is_a_negative_code(context: Context) -> None:
    assert run(context, "kill -TERM $$")["rc"] == -15


def test_long_output_keeps_both_ends(context: Context) -> None:
    done = run(context, "echo first; yes middle | head -c 5000000; echo last")
    assert done["truncated"]
    assert done["stdout"].startswith("first\n") and done["stdout"].endswith("last\n")
    assert "bytes left out" in done["stdout"]
    assert len(done["stdout"]) < KEEP_BYTES + 100


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 149, 150, 151, 1000])
def test_what_is_kept_and_what_is_missing_add_up(size: int) -> None:
    data = bytes(33 + number % 90 for number in range(size))
    kept = Kept(100)
    for start in range(0, size, 7):
        kept.add(data[start : start + 7])
    if size <= 100:
        assert (kept.text(), kept.truncated) == (data.decode(), False)
    else:
        assert (
            kept.text()
            == f"{data[:50].decode()}\n[... {size - 100} bytes left out ...]\n{data[-50:].decode()}"
        )
        assert kept.truncated


def test_deadline_ends_the_whole_group(context: Context, tmp_path: Path) -> None:
    begun = time.monotonic()
    script = f"echo before; (sleep 60 & echo $! > {tmp_path}/pid; wait) & wait"
    done = run(context, script, timeout_s=0.5)
    assert time.monotonic() - begun < 5
    assert (done["timed_out"], done["rc"], done["stdout"]) == (True, -9, "before\n")
    assert gone(int((tmp_path / "pid").read_text()))


def test_background_child_that_holds_the_pipes_is_not_waited_for(context: Context, tmp_path: Path) -> None:
    begun = time.monotonic()
    done = run(context, f"sleep 30 & echo $! > {tmp_path}/pid; echo started")
    assert (done["rc"], done["stdout"], done["timed_out"]) == (0, "started\n", False)
    assert time.monotonic() - begun < 5
    pid = int((tmp_path / "pid").read_text())
    assert not gone(pid, 0.05), "a background child is not ours to end"
    os.kill(pid, 9)


def test_program_that_closes_its_output_and_lives_on_is_waited_for(context: Context) -> None:
    done = run(context, "exec >&- 2>&-; sleep 0.3; exit 6")
    assert done["rc"] == 6
    assert done["seconds"] >= 0.3


def test_cancel_ends_it_and_says_so(context: Context, tmp_path: Path) -> None:
    def cancel() -> None:
        appears(tmp_path / "pid")
        context.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(AgentError) as caught:
        run(context, f"echo $$ > {tmp_path}/p; mv {tmp_path}/p {tmp_path}/pid; exec sleep 60")
    assert caught.value.kind == "cancelled"
    assert gone(int((tmp_path / "pid").read_text()))


def test_input_of_any_size_is_read_or_not(context: Context) -> None:
    assert run(context, "wc -c", stdin="x" * 1_000_000)["stdout"].strip() == "1000000"
    assert run(context, "exit 3", stdin="x" * 1_000_000)["rc"] == 3
    assert run(context, "cat")["stdout"] == ""


def test_output_streams_with_whole_characters(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    context = Context(events.append, Session({"HOME": str(tmp_path), "PATH": os.environ["PATH"]}))
    run(context, r"printf '\342\226'; sleep 0.1; printf '\210\n'; printf '\377' >&2", stream=True)
    texts = {name: "".join(e["text"] for e in events if e["stream"] == name) for name in ("stdout", "stderr")}
    assert texts == {"stdout": "\u2588\n", "stderr": "\ufffd"}
    assert {event["type"] for event in events} == {"output"}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"argv": []},
        {"argv": "ls"},
        {"argv": ["ls", 5]},
        {"argv": ["ls"], "shell": "ls"},
        {"shell": "ls", "env": {"A": 5}},
        {"argv": ["a\0b"]},
    ],
)
def test_wrong_request_is_told(context: Context, params: dict[str, Any]) -> None:
    with pytest.raises(AgentError) as caught:
        execute(context, params)
    assert caught.value.kind == "bad-request"


@pytest.mark.parametrize(
    ("params", "named"),
    [({"argv": ["/no/such"]}, "/no/such"), ({"argv": ["ls"], "cwd": "/no/folder"}, "/no/folder")],
)
def test_what_cannot_be_started_is_named(context: Context, params: dict[str, Any], named: str) -> None:
    with pytest.raises(AgentError) as caught:
        execute(context, params)
    assert (caught.value.kind, named in caught.value.what) == ("io", True)


def test_nothing_is_left(context: Context) -> None:
    run(context, "true")
    children = set(descendants(os.getpid()))
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(5):
        run(context, "true", stdin="x")
        with pytest.raises(AgentError):
            execute(context, {"argv": ["/no/such"]})
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
    assert context.session._children == {}
    assert set(descendants(os.getpid())) <= children


def test_a_folder_that_is_not_there_costs_no_descriptor(context: Context) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(AgentError):
            execute(context, {"argv": ["true"], "cwd": "/nowhere/at/all"})
    assert len(list(Path("/proc/self/fd").iterdir())) == before
