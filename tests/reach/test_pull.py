"""A folder of the host arrives whole or not at all, and nothing a host announces leads outside."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostFailed, HostUnreachable, InputError
from stoker.reach import manifest
from stoker.reach.client import Agent
from stoker.reach.manifest import MAX_BYTES, announced, read_manifest
from stoker.reach.pull import OnProgress, fetch
from stoker.reach.reach import Reach
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

CONTENT = {
    "run.json": b"{}\n",
    "empty": b"",
    "raw/a b.txt": b"spaces\n" * 1000,
    "raw/deep/$(id) 'quoted' -n.bin": bytes(range(256)) * 5000,
    "-rf": b"looks like an option",
    "caf\u00e9": "\u00e9".encode(),
}


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "remote run"
    for name, data in CONTENT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def pull(
    agent: Agent, there: str, here: Path, on_progress: OnProgress | None = None, max_bytes: int = MAX_BYTES
) -> list[Path]:
    """What a command does for a folder: all that is announced."""
    return fetch(agent, announced(agent, there, max_bytes), here, on_progress)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_folder_arrives_whole(agent: Agent, remote: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    files = pull(agent, str(remote), tmp_path / "here", on_progress=lambda *args: seen.append(args))
    assert contents(tmp_path / "here") == CONTENT
    assert sorted(str(file.relative_to(tmp_path / "here")) for file in files) == sorted(CONTENT)
    assert seen[-1][1] == seen[-1][2] == sum(map(len, CONTENT.values()))


def test_home_of_the_login_is_meant_by_a_tilde(agent: Agent, home: Path, tmp_path: Path) -> None:
    (home / ".stoker/runs/r1").mkdir(parents=True, exist_ok=True)
    (home / ".stoker/runs/r1/out").write_text("x")
    pull(agent, "~/.stoker/runs/r1", tmp_path / "here")
    assert contents(tmp_path / "here") == {"out": b"x"}


def test_what_is_here_is_not_brought_again(agent: Agent, remote: Path, tmp_path: Path) -> None:
    pull(agent, str(remote), tmp_path / "here")
    stamp = (tmp_path / "here/run.json").stat().st_mtime_ns
    (tmp_path / "here/empty").write_text("not what it was")
    seen: list[str] = []
    pull(agent, str(remote), tmp_path / "here", on_progress=lambda name, *_: seen.append(name))
    assert contents(tmp_path / "here") == CONTENT
    assert (tmp_path / "here/run.json").stat().st_mtime_ns == stamp
    assert set(seen) <= {"empty"}


def test_noise_of_start_up_files_is_no_part_of_a_file(remote: Path, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text('echo welcome\nread x\necho "got $x" >&2\n')
    with (
        SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}) as server,
        Reach(settings()).connect(target_of(server)) as agent,
    ):
        pull(agent, str(remote), tmp_path / "here")
    assert contents(tmp_path / "here") == CONTENT


def test_links_and_pipes_are_listed_and_not_followed(agent: Agent, remote: Path, tmp_path: Path) -> None:
    (remote / "secrets").symlink_to("/etc")
    (remote / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(remote / "pipe")
    (remote / os.fsdecode(b"no\xfftext")).write_text("x")
    answer = agent.call("manifest", {"path": str(remote)})
    assert {item["path"] for item in answer["files"]} == set(CONTENT)
    assert {item["why"] for item in answer["skipped"]} == {
        "a link",
        "no regular file",
        "its name is no UTF-8",
    }
    pull(agent, str(remote), tmp_path / "here")
    assert contents(tmp_path / "here") == CONTENT


def test_log_that_grows_meanwhile_is_pulled_as_it_was_announced(
    agent: Agent, remote: Path, tmp_path: Path
) -> None:
    manifest = announced(agent, str(remote))
    with (remote / "run.json").open("a") as log:
        log.write("more\n")
    fetch(agent, manifest, tmp_path / "here")
    assert contents(tmp_path / "here") == CONTENT


def test_file_that_was_written_again_comes_as_it_is_now(agent: Agent, remote: Path, tmp_path: Path) -> None:
    manifest = announced(agent, str(remote))
    now = b"S" + (remote / "raw/a b.txt").read_bytes()[1:]
    (remote / "raw/a b.txt").write_bytes(now)
    fetch(agent, manifest, tmp_path / "here")
    assert contents(tmp_path / "here") == {**CONTENT, "raw/a b.txt": now}


def test_file_that_is_written_while_it_is_read_is_not_kept(
    agent: Agent, remote: Path, tmp_path: Path
) -> None:
    (remote / "big").write_bytes(bytes(32 << 20))  # more than lies on the way

    def write(name: str, done: int, total: int) -> None:
        if name == "big":
            with (remote / "big").open("r+b") as file:
                file.write(b"S")

    with pytest.raises(HostFailed) as caught:
        pull(agent, str(remote), tmp_path / "here", on_progress=write)
    assert caught.value.kind == "checksum"
    assert "was written while it was read" in " ".join(caught.value.evidence)
    assert not [name for name in contents(tmp_path / "here") if "big" in name or name.endswith(".part")]


@pytest.mark.parametrize("change", ["shrunk", "gone"])
def test_file_that_is_not_there_any_more_is_not_kept(
    agent: Agent, remote: Path, tmp_path: Path, change: str
) -> None:
    victim = remote / "raw/a b.txt"
    acts: dict[str, Callable[[], object]] = {
        "shrunk": lambda: victim.write_bytes(b"less"),
        "gone": victim.unlink,
    }
    manifest = announced(agent, str(remote))
    acts[change]()
    with pytest.raises(HostFailed) as caught:
        fetch(agent, manifest, tmp_path / "here")
    assert caught.value.kind == "checksum"
    assert "raw/a b.txt" in caught.value.what
    here = contents(tmp_path / "here")
    assert "raw/a b.txt" not in here
    assert all(CONTENT[name] == data for name, data in here.items())
    assert not [name for name in here if name.endswith(".part")]


def test_interrupted_pull_leaves_whole_files_and_is_finished_by_the_next(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    for number in range(4):
        (remote / f"f{number}").write_bytes(os.urandom(4 << 20))
    with SshServer(tmp_path / "sshd") as server:
        agent = Reach(settings()).connect(target_of(server))

        def cut(name: str, done: int, total: int) -> None:
            if name == "f2":
                server.signal_sessions(signal.SIGKILL)

        with pytest.raises(HostUnreachable) as caught:
            pull(agent, str(remote), tmp_path / "here", on_progress=cut)
        assert caught.value.kind == "lost"
        agent.close()
        assert set(contents(tmp_path / "here")) == {"f0", "f1"}
        with Reach(settings()).connect(target_of(server)) as again:
            pull(again, str(remote), tmp_path / "here")
    assert contents(tmp_path / "here") == contents(remote)


def entry(path: Any = "a", size: Any = 1, mtime_ns: Any = 1) -> dict[str, Any]:
    return {"path": path, "size": size, "mtime_ns": mtime_ns}


@pytest.mark.parametrize(
    "item",
    [
        entry("../a"),
        entry("a/../../b"),
        entry("/etc/passwd"),
        entry(""),
        entry("."),
        entry("a//b"),
        entry("a/"),
        entry("./a"),
        entry("a\0b"),
        entry("a\nb"),
        entry("\x1b[2Ja"),
        entry(5),
        entry(size=-1),
        entry(size="1"),
        entry(size=True),
        entry(size=1.5),
        entry(mtime_ns="1"),
        entry(mtime_ns=1.5),
        entry(mtime_ns=None),
        "a",
        None,
        {},
    ],
)
def test_hostile_announcement_is_refused(item: Any) -> None:
    with pytest.raises(HostFailed) as caught:
        read_manifest("h1", {"files": [item]}, 100)
    assert caught.value.kind == "bad-manifest"


@pytest.mark.parametrize(
    "answer",
    [
        {"files": [entry("a"), entry("a")]},
        {"files": [entry("a", 60), entry("b", 60)]},
        {"files": "none"},
        {},
    ],
)
def test_announcement_beyond_measure_is_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(HostFailed) as caught:
        read_manifest("h1", answer, 100)
    assert caught.value.kind == "bad-manifest"


def test_link_here_does_not_lead_a_file_elsewhere(agent: Agent, remote: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here/raw").symlink_to(tmp_path / "outside")
    with pytest.raises(HostFailed) as caught:
        pull(agent, str(remote), tmp_path / "here")
    assert caught.value.kind == "bad-manifest"
    assert contents(tmp_path / "outside") == {}


def test_missing_folder_is_told_by_its_name(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(HostFailed) as caught:
        pull(agent, "/no/such/folder", tmp_path / "here")
    assert caught.value.kind == "io"
    assert "/no/such/folder" in caught.value.what


def test_place_that_cannot_be_written_is_the_user_s_mistake(
    agent: Agent, remote: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").write_text("a file")
    with pytest.raises(InputError):
        pull(agent, str(remote), tmp_path / "here")


@pytest.fixture
def many(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(200):
        (folder / f"{number:04}").write_text(str(number))
    yield folder


def test_many_small_files_arrive(agent: Agent, many: Path, tmp_path: Path) -> None:
    assert len(pull(agent, str(many), tmp_path / "here")) == 200
    assert contents(tmp_path / "here") == contents(many)


def test_checksum_is_of_what_lies_there(agent: Agent, remote: Path) -> None:
    answer = agent.call("manifest", {"path": str(remote)})
    assert {item["path"]: item["size"] for item in answer["files"]} == {n: len(d) for n, d in CONTENT.items()}
    asked = {"root": answer["root"], "paths": [*CONTENT, "no/such/file"]}
    told = agent.call("digests", asked)["sha256"]
    assert told == {name: hashlib.sha256(data).hexdigest() for name, data in CONTENT.items()}
    assert threading.active_count() < 50


def test_what_a_host_says_of_files_it_does_not_give_is_bounded() -> None:
    listed = [{"path": "p" * 9000, "why": "w" * 9000}, "no entry", {"why": "x"}] + [{}] * 30_000
    told = manifest._told(listed)
    assert told[:2] == (("p" * 4096, "w" * 500), ("None", "x"))
    assert len(told) == manifest.MAX_FILES
    assert manifest._told("no list") == ()
