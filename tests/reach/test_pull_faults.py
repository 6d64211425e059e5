"""What goes wrong while files come: two at once, links cut at the worst moment, hosts that lie."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.agent import files
from stoker.agent.context import Context
from stoker.agent.session import Session
from stoker.errors import HostFailed, HostUnreachable, InputError
from stoker.reach.client import Agent
from stoker.reach.manifest import announced, read_manifest
from stoker.reach.pull import How, OnProgress, fetch, held
from stoker.reach.reach import Reach
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

SIZE = 6 << 20
KEPT = How(resume=True, sync=False)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "remote"
    folder.mkdir()
    (folder / "big").write_bytes(os.urandom(SIZE))
    return folder


def get(agent: Agent, remote: Path, here: Path, on_progress: OnProgress | None = None) -> list[Path]:
    return fetch(agent, announced(agent, str(remote)), here, on_progress, KEPT)


def parts(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".stoker-*.part"))


def stopping_at(size: int) -> OnProgress:
    """Ctrl-C, once so much is here."""

    def progress(name: str, done: int, total: int) -> None:
        if done >= size:
            raise HostFailed("interrupted", host="h1", kind="cancelled")

    return progress


@pytest.mark.parametrize("there", [0, 1 << 20])
def test_two_that_bring_the_same_file_at_once_both_bring_it_whole(
    server: SshServer, agent: Agent, remote: Path, tmp_path: Path, there: int
) -> None:
    here = tmp_path / "here"
    if there:
        with pytest.raises(HostFailed):
            get(agent, remote, here, stopping_at(there))
    failed: list[BaseException] = []

    def second() -> None:
        try:
            with Reach(settings()).connect(target_of(server)) as other:
                get(other, remote, here)
        except BaseException as error:
            failed.append(error)

    begun: list[threading.Thread] = []

    def progress(name: str, done: int, total: int) -> None:
        if done > there + (1 << 20) and not begun:
            begun.append(threading.Thread(target=second))
            begun[0].start()
            begun[0].join(20)

    get(agent, remote, here, progress)
    begun[0].join()
    assert failed == []
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()
    assert parts(here) == []


def test_interruption_before_the_first_further_byte_keeps_what_is_there(
    agent: Agent, remote: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    for size in (1 << 20, 1):
        with pytest.raises(HostFailed):
            get(agent, remote, here, stopping_at(size))
    assert [part.stat().st_size >= 1 << 20 for part in parts(here)] == [True]
    first: list[int] = []
    get(agent, remote, here, lambda name, done, total: first.append(done))
    assert first[0] >= 1 << 20
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()


HOST = """#!{python}
import os, sys
command = sys.argv[2]
if "-ISuc 'import" not in command:
    os.execv("/bin/sh", ["sh", "-c", command])
import json, hashlib, signal, time
mark = command.split()[-1]
out, err = sys.stdout.buffer, sys.stderr.buffer
out.write(mark.encode() + b"\\n")
out.flush()
sys.stdin.readline()
order = json.loads(sys.stdin.readline()[len(mark):])
item = order["files"][0]
data = open(os.path.join(order["root"], item["path"]), "rb").read()
rest, digest = data[item["offset"]:item["size"]], hashlib.sha256(data).digest()
{act}
"""


def lying(folder: Path, act: str) -> SshServer:
    """A host whose carrier is another program."""
    script = folder / "carrier"
    script.write_text(HOST.format(python=sys.executable, act=act))
    script.chmod(0o755)
    return SshServer(folder / "sshd", shell=str(script))


CUT = "out.write(rest + digest[:31]); out.flush(); os.kill(os.getpid(), signal.SIGKILL)"
ENDLESS = "\nwhile True: err.write(b'\\x1b[2Jno' * 4096 + b'\\n')"


def test_link_that_is_cut_in_the_checksum_costs_no_byte_of_the_file(
    server: SshServer, remote: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    with (
        lying(tmp_path, CUT) as liar,
        Reach(settings()).connect(target_of(liar)) as agent,
        pytest.raises(HostUnreachable),
    ):
        get(agent, remote, here)
    (part,) = parts(here)
    before = part.stat()
    assert before.st_size == SIZE
    with Reach(settings()).connect(target_of(server)) as agent:
        get(agent, remote, here)
    assert (here / "big").stat().st_ino == before.st_ino
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()


@pytest.mark.parametrize(
    "act",
    [
        "out.write(rest + bytes(32))",
        "out.write(rest[:-1] + b'x' + digest)",
        "out.write(rest[:-9] + digest)",
        "out.write(rest + rest + digest)",
        "out.write(rest + digest[:31])",
        "out.write(rest + hashlib.sha256(b'').digest())",
        "",
        "err.write(b'\\x1b]0;x\\x07' * 100000)",
        "\nwhile True: out.write(bytes(65536))",
        pytest.param(ENDLESS, id="endless-complaints"),
    ],
)
def test_host_that_lies_brings_nothing(remote: Path, tmp_path: Path, act: str) -> None:
    here = tmp_path / "here"
    with (
        lying(tmp_path, act) as liar,
        Reach(settings()).connect(target_of(liar)) as agent,
        pytest.raises((HostFailed, HostUnreachable)) as caught,
    ):
        get(agent, remote, here)
    assert caught.value.kind in ("checksum", "io", "lost")
    assert not (here / "big").exists()
    assert sum(len(line) for line in caught.value.evidence) < 10000


def test_rest_that_fits_is_brought_where_the_whole_would_not(
    agent: Agent, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    with pytest.raises(HostFailed):
        get(agent, remote, here, stopping_at(SIZE // 2))
    real = shutil.disk_usage(here)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=SIZE * 3 // 4))
    get(agent, remote, here)
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()


@pytest.mark.parametrize(
    "path", ["\ud800", "a\udcff", "a\ud83d/b", "n" * 256, "\u00e9" * 128, "a/" * 2048 + "a", "a/" * 201 + "a"]
)
def test_name_that_no_file_here_can_have_is_refused(path: str) -> None:
    with pytest.raises(HostFailed) as caught:
        read_manifest("h1", {"files": [{"path": path, "size": 1, "mtime_ns": 1}]}, 100)
    assert caught.value.kind == "bad-manifest"


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b"), ("a", "a/b/c")])
def test_what_is_a_file_and_a_folder_is_refused(paths: tuple[str, ...]) -> None:
    items = [{"path": path, "size": 1, "mtime_ns": 1} for path in paths]
    with pytest.raises(HostFailed) as caught:
        read_manifest("h1", {"files": items}, 100)
    assert caught.value.kind == "bad-manifest"


def test_place_that_cannot_be_looked_at_is_told(agent: Agent, remote: Path, tmp_path: Path) -> None:
    (remote / ("n" * 200)).mkdir()
    here = tmp_path / "here"
    here.mkdir()
    (here / "big").symlink_to("big")
    manifest = announced(agent, str(remote))
    with pytest.raises(InputError):
        held(agent, manifest, here)


def test_part_of_what_changed_since_is_cleared_away(agent: Agent, remote: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    with pytest.raises(HostFailed):
        get(agent, remote, here, stopping_at(1 << 20))
    with (remote / "big").open("ab") as log:
        log.write(b"more")
    get(agent, remote, here)
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()
    assert parts(here) == []


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "long", "pipe", "other"])
def test_odd_part_is_not_gone_on_with(agent: Agent, remote: Path, tmp_path: Path, kind: str) -> None:
    here = tmp_path / "here"
    with pytest.raises(HostFailed):
        get(agent, remote, here, stopping_at(1 << 20))
    (part,) = parts(here)
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    part.unlink()
    if kind == "link":
        part.symlink_to(outside)
    elif kind == "dangling":
        part.symlink_to(tmp_path / "nowhere")
    elif kind == "folder":
        part.mkdir()
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.write_bytes(os.urandom(SIZE + 1 if kind == "long" else SIZE // 2))
    try:
        get(agent, remote, here)
    except HostFailed as error:
        assert kind == "other" and error.kind == "checksum"
        get(agent, remote, here)
    assert (here / "big").read_bytes() == (remote / "big").read_bytes()
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "link to a folder"])
def test_what_became_something_else_since_it_was_announced_is_told(
    agent: Agent, remote: Path, tmp_path: Path, kind: str
) -> None:
    (remote / "f").write_text("secret")
    manifest = announced(agent, str(remote))
    (remote / "f").rename(tmp_path / "f")
    acts: dict[str, Callable[[], object]] = {
        "folder": (remote / "f").mkdir,
        "pipe": lambda: os.mkfifo(remote / "f"),
        "link": lambda: (remote / "f").symlink_to(tmp_path / "f"),
        "link to a folder": lambda: (remote / "f").symlink_to(tmp_path),
    }
    acts[kind]()
    with pytest.raises(HostFailed) as caught:
        fetch(agent, manifest, tmp_path / "here", None, KEPT)
    (said,) = caught.value.evidence
    assert said.endswith(
        ": Too many levels of symbolic links" if "link" in kind else "f: is no regular file any more"
    )
    assert not (tmp_path / "here/f").exists()


def test_what_lies_too_deep_is_skipped_and_the_rest_comes(agent: Agent, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    for depth in (200, 250):
        below = remote.joinpath(*"d" * depth)
        below.mkdir(parents=True)
        (below / "f").write_text("deep")
    manifest = announced(agent, str(remote))
    assert [file.path for file in manifest.files] == ["d/" * 200 + "f"]
    assert manifest.skipped == (("d/" * 200 + "d", "it lies more than 200 folders deep"),)
    fetch(agent, manifest, tmp_path / "here")
    assert (tmp_path / "here" / ("d/" * 200) / "f").read_text() == "deep"


def test_file_that_goes_while_its_folder_is_read_is_left_out(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the agent's own descriptors, that by which the folder is read is listed, and gone."""
    monkeypatch.setattr(files, "_MADE", ("/nowhere",))
    ctx = Context(lambda event: None, Session({**os.environ, "HOME": str(tmp_path)}))
    assert files.manifest(ctx, {"path": "/proc/self/fdinfo"})["files"]


def test_what_the_kernel_makes_up_does_not_come_empty(agent: Agent) -> None:
    with pytest.raises(HostFailed, match="when it is read"):
        announced(agent, "/proc/sys/kernel/random/boot_id", single=True)
    folder = announced(agent, "/proc/sys/kernel/random")
    assert folder.files == ()
    assert any("when it is read" in why for _, why in folder.skipped)


def test_names_that_are_refused_here_are_skipped_there(agent: Agent, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    odd = ("new\nline", "esc\x1b[2J", "del\x7f", "nel\x85", "tab\t")
    for name in (*odd, "fine", "\u202egnp", "line\u2028", " ", "e\u0301"):
        (remote / name).write_text(name)
    (remote / "fol\rder").mkdir()
    (remote / "fol\rder/inside").write_text("x")
    manifest = announced(agent, str(remote))
    assert {file.path for file in manifest.files} == {"fine", "\u202egnp", "line\u2028", " ", "e\u0301"}
    assert {path for path, why in manifest.skipped} == {*odd, "fol\rder"}
    with pytest.raises(HostFailed, match="control characters"):
        announced(agent, str(remote / "tab\t"), single=True)


def test_file_whose_name_is_no_text_is_told_as_that(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"no\xfftext")).write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / os.fsdecode(b"no\xfftext"))
    with pytest.raises(HostFailed, match="no UTF-8") as caught:
        announced(agent, str(tmp_path / "link"), single=True)
    assert caught.value.kind == "io"


@pytest.mark.long
def test_host_waits_while_our_disk_is_slow(server: SshServer, remote: Path, tmp_path: Path) -> None:
    (remote / "big").write_bytes(bytes(32 << 20))  # more than lies on the way
    slept: list[str] = []

    def sync(name: str, done: int, total: int) -> None:
        if done > SIZE and not slept:
            slept.append(name)
            time.sleep(4.0)

    with Reach(settings(silence_s=1.5)).connect(target_of(server)) as agent:
        get(agent, remote, tmp_path / "here", sync)
    assert (tmp_path / "here/big").stat().st_size == 32 << 20


@pytest.mark.long
def test_we_wait_while_the_host_reads_what_is_here(server: SshServer, remote: Path, tmp_path: Path) -> None:
    here, size = tmp_path / "here", 1 << 30
    os.truncate(remote / "big", size)
    with Reach(settings()).connect(target_of(server)) as agent, pytest.raises(HostFailed):
        get(agent, remote, here, stopping_at(SIZE))
    os.truncate(parts(here)[0], size)
    with Reach(settings(silence_s=1.0)).connect(target_of(server)) as agent:
        get(agent, remote, here)
    assert (here / "big").stat().st_size == size
    assert parts(here) == []
