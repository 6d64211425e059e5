"""One command on one bare channel."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from stoker.errors import HostFailed, HostUnreachable
from stoker.reach.bare import run_bare
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings, target_of
from tests.reach.test_call import gone
from tests.sshd import SshServer, free_port


@pytest.fixture(params=["ssh", "local"])
def target(request: pytest.FixtureRequest, server: SshServer) -> Target:
    return target_of(server, ansible_connection=request.param)


def test_code_and_both_streams_come_back(target: Target) -> None:
    rc, stdout, stderr = run_bare(target, "echo out; echo err >&2; exit 7", Reach(settings()))
    assert (rc, stdout, stderr) == (7, "out\n", "err\n")


def test_both_streams_full_do_not_block(target: Target) -> None:
    done = run_bare(
        target, "yes o | head -c 3000000; yes e | head -c 3000000 >&2", Reach(settings()), timeout_s=30
    )
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


def test_output_streams_as_it_comes_and_characters_arrive_whole(target: Target) -> None:
    seen: list[tuple[str, str]] = []
    done = run_bare(
        target,
        r"printf '\342\226'; sleep 0.1; printf '\210'; printf '\377'",
        Reach(settings()),
        on_output=lambda stream, text: seen.append((stream, text)),
    )
    assert "".join(text for _, text in seen) == done.stdout == "\u2588\ufffd"


def test_input_reaches_the_command(target: Target) -> None:
    done = run_bare(target, "wc -c", Reach(settings()), stdin=b"x" * 500_000)
    assert done.stdout.strip() == "500000"


def test_command_that_reads_no_input_is_no_failure(target: Target) -> None:
    assert run_bare(target, "exit 4", Reach(settings()), stdin=b"x" * 3_000_000).rc == 4


def test_deadline_ends_the_command_on_the_host(target: Target, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(HostFailed) as caught:
        run_bare(target, f"echo working; echo $$ > {file}; exec sleep 60", Reach(settings()), timeout_s=0.5)
    assert time.monotonic() - begun < 5
    assert (caught.value.kind, caught.value.evidence) == ("timeout", ("working",))
    assert gone(int(file.read_text()), within_s=3)


def test_stop_ends_the_command_on_the_host(target: Target, tmp_path: Path) -> None:
    file, stop = tmp_path / "pid", threading.Event()

    def on_output(stream: str, text: str) -> None:
        stop.set()

    with pytest.raises(HostFailed) as caught:
        command = f"echo $$ > {file}; echo go; exec sleep 60"
        run_bare(target, command, Reach(settings()), on_output=on_output, stop=stop)
    assert caught.value.kind == "cancelled"
    assert gone(int(file.read_text()), within_s=3)


def test_background_child_that_holds_the_streams_is_not_waited_for(target: Target, tmp_path: Path) -> None:
    file, begun = tmp_path / "pid", time.monotonic()
    done = run_bare(target, f"sleep 20 & echo $! > {file}; echo started", Reach(settings()))
    assert (done.rc, done.stdout) == (0, "started\n")
    assert time.monotonic() - begun < 5
    run_bare(target, f"kill {file.read_text()}", Reach(settings()))


def test_end_by_a_signal_is_minus_one(target: Target) -> None:
    assert run_bare(target, "kill -9 $$", Reach(settings())).rc == -1


def test_unreached_host_is_no_exit_code() -> None:
    target = Target.of("h1", {"ansible_host": "127.0.0.1", "ansible_port": free_port()})
    with pytest.raises(HostUnreachable) as caught:
        run_bare(target, "true", Reach(settings()))
    assert caught.value.kind == "refused"


def test_exit_code_255_of_the_command_is_not_taken_for_a_lost_link(target: Target) -> None:
    assert run_bare(target, "exit 255", Reach(settings())).rc == 255
