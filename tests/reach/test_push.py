"""Files brought to hosts, over real OpenSSH and the local connection."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import HostFailed, HostUnreachable, InputError
from stoker.reach.carrier import Pace
from stoker.reach.client import Agent
from stoker.reach.manifest import announced
from stoker.reach.pull import How, fetch
from stoker.reach.push import load, push
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

NAMES = ("plain.txt", "sub/a b.txt", "sub/deep/$(id) 'quoted' -n.bin", "sub/empty", "ünï")


@pytest.fixture(params=["ssh", "local"])
def agent(request: pytest.FixtureRequest, server: SshServer) -> Iterator[Agent]:
    target = target_of(server)
    if request.param == "local":
        target = Target.of("h1", {"ansible_connection": "local"})
    with Reach(settings()).connect(target) as running:
        yield running


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    for number, name in enumerate(NAMES):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name.endswith("empty") else os.urandom(1 + 70_000 * number))
        path.chmod(0o640 if number % 2 else 0o755)
    (folder / "sub").chmod(0o750)
    (folder / "void").mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    return folder


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_folder_arrives_whole_with_its_modes(agent: Agent, source: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    what = load(source)
    done = push(agent, what, str(there))
    assert tree(there) == tree(source)
    assert (there / "sub").stat().st_mode & 0o777 == 0o750
    assert (there / "void").is_dir()
    assert (done.sent, done.same, done.root) == (len(NAMES), 0, str(there))
    assert dict(what.skipped) == {"link": "a link", "pipe": "no regular file"}
    assert not list(there.rglob("*.part"))


def test_what_is_there_is_not_sent_again_and_what_differs_is_replaced(
    agent: Agent, source: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    push(agent, load(source), str(there))
    kept = (there / "ünï").stat().st_ino
    (there / "plain.txt").write_text("x")
    (there / "sub/empty").write_text("not empty")
    (there / "ünï").chmod(0o600)
    (there / "own.txt").write_text("stays")
    assert push(agent, load(source), str(there), check=True).sent == 2
    assert (there / "plain.txt").read_text() == "x"
    done = push(agent, load(source), str(there))
    assert (done.sent, done.same) == (2, len(NAMES) - 2)
    assert (there / "ünï").stat().st_ino == kept
    assert {**tree(source), "own.txt": tree(there)["own.txt"]} == tree(there)


def test_single_file_is_replaced_at_once_and_a_link_in_its_place_is_not_followed(
    agent: Agent, tmp_path: Path
) -> None:
    source, there, other = tmp_path / "new", tmp_path / "there", tmp_path / "other"
    source.write_text("new")
    source.chmod(0o751)
    other.write_text("other")
    there.symlink_to(other)
    push(agent, load(source), str(there))
    assert not there.is_symlink()
    assert (there.read_text(), there.stat().st_mode & 0o777) == ("new", 0o751)
    assert other.read_text() == "other"


def test_home_of_the_login_is_meant_by_a_tilde(server: SshServer, home: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("f")
    with Reach(settings()).connect(target_of(server)) as agent:
        assert push(agent, load(tmp_path / "f"), "~/put/here").root == str(home / "put/here")
    assert (home / "put/here").read_text() == "f"


@pytest.mark.parametrize("case", ["folder in the way", "file in the way", "read-only"])
def test_place_that_cannot_be_written_is_a_failed_host(agent: Agent, tmp_path: Path, case: str) -> None:
    (tmp_path / "f").write_text("f")
    place = {"folder in the way": tmp_path, "file in the way": tmp_path / "f/g", "read-only": Path("/proc/f")}
    with pytest.raises(HostFailed) as failed:
        push(agent, load(tmp_path / "f"), str(place[case]))
    assert failed.value.kind == "io"
    assert str(place[case].parent) in failed.value.what


def test_more_than_fits_is_told_before_a_byte_is_sent(agent: Agent, tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as huge:
        huge.truncate(1)
    what = load(tmp_path / "f")
    huge_file = type(what.files[0])("", 1 << 60, 0o644, what.files[0].sha256)
    with pytest.raises(HostFailed) as failed:
        push(agent, type(what)(what.source, (), (huge_file,)), str(tmp_path / "there"))
    assert "do not fit" in failed.value.what
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("change", ["longer", "shorter", "other", "gone"])
def test_file_that_changes_here_meanwhile_is_not_put(agent: Agent, tmp_path: Path, change: str) -> None:
    source = tmp_path / "f"
    source.write_bytes(b"x" * 1000)
    what = load(source)
    data = {"longer": b"x" * 2000, "shorter": b"x" * 10, "other": b"y" * 1000, "gone": b""}[change]
    source.write_bytes(data)
    if change == "gone":
        source.unlink()
    there = tmp_path / "there/f"
    if change == "longer":
        push(agent, what, str(there))
        assert there.read_bytes() == b"x" * 1000  # as it was announced
        return
    with pytest.raises(HostFailed) as failed:
        push(agent, what, str(there))
    assert failed.value.kind == ("io" if change == "other" else "checksum")
    assert not there.exists()
    agent.call("exec", {"argv": ["true"]})  # and the agent is well


def test_cut_transfer_is_gone_on_with(tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(os.urandom(24 << 20))
    what, there = load(source), tmp_path / "there"
    with SshServer(tmp_path / "sshd") as server:
        agent = Reach(settings()).connect(target_of(server))

        def cut(name: str, done: int, total: int) -> None:
            if done > 16 << 20:
                server.signal_sessions(signal.SIGKILL)

        with pytest.raises(HostUnreachable) as failed:
            push(agent, what, str(there), on_progress=cut)
        assert failed.value.kind == "lost"
        agent.close()
        assert not there.exists()
        with Reach(settings()).connect(target_of(server)) as again:
            done = push(again, what, str(there))
    assert there.read_bytes() == source.read_bytes()
    assert done.size < source.stat().st_size  # the first part was not sent again
    assert not list(tmp_path.glob("*.part"))


def test_cut_get_is_gone_on_with(tmp_path: Path) -> None:
    remote, here = tmp_path / "remote", tmp_path / "here"
    remote.write_bytes(os.urandom(24 << 20))
    with SshServer(tmp_path / "sshd") as server:
        agent = Reach(settings()).connect(target_of(server))

        def cut(name: str, done: int, total: int) -> None:
            if done > 4 << 20:
                server.signal_sessions(signal.SIGKILL)

        manifest = announced(agent, str(remote), single=True)
        with pytest.raises(HostUnreachable):
            fetch(agent, manifest, here, cut, How(resume=True))
        agent.close()
        (part,) = here.glob("*.part")
        before = part.stat()
        with Reach(settings()).connect(target_of(server)) as again:
            fetch(again, manifest, here, None, How(resume=True))
    assert before.st_size >= 4 << 20
    assert (here / "remote").stat().st_ino == before.st_ino, "the same file, filled up"
    assert (here / "remote").read_bytes() == remote.read_bytes()
    assert not part.exists()


def test_damaged_rest_of_a_cut_get_is_brought_anew(agent: Agent, tmp_path: Path) -> None:
    remote, here = tmp_path / "remote", tmp_path / "here"
    remote.write_bytes(os.urandom(2 << 20))
    manifest = announced(agent, str(remote), single=True)

    def stop(name: str, done: int, total: int) -> None:
        if done:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fetch(agent, manifest, here, stop, How(rate=50_000, resume=True))
    (part,) = here.glob("*.part")
    part.write_bytes(b"damaged")
    with pytest.raises(HostFailed) as failed:
        fetch(agent, manifest, here, None, How(resume=True))
    assert failed.value.kind == "checksum"
    fetch(agent, manifest, here, None, How(resume=True))
    assert (here / "remote").read_bytes() == remote.read_bytes()


def test_a_get_that_was_cut_before_the_first_byte_is_no_obstacle(agent: Agent, tmp_path: Path) -> None:
    remote, here = tmp_path / "remote", tmp_path / "here"
    remote.write_bytes(os.urandom(2 << 20))
    manifest = announced(agent, str(remote), single=True)

    def stop(name: str, done: int, total: int) -> None:
        if done:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fetch(agent, manifest, here, stop, How(resume=True))
    (part,) = here.glob("*.part")
    part.write_bytes(b"")
    fetch(agent, manifest, here, None, How(resume=True))
    assert [(path.name, path.read_bytes()) for path in here.iterdir()] == [("remote", remote.read_bytes())]


@pytest.mark.parametrize("way", ["put", "get"])
def test_rate_is_kept(agent: Agent, tmp_path: Path, way: str) -> None:
    source = tmp_path / "f"
    source.write_bytes(os.urandom(600_000))
    begun = time.monotonic()
    if way == "put":
        push(agent, load(source), str(tmp_path / "there"), rate=600_000)
    else:
        fetch(agent, announced(agent, str(source), single=True), tmp_path / "here", None, How(600_000))
    assert 0.7 < time.monotonic() - begun < 5


def test_pace_makes_up_for_no_pause() -> None:
    pace = Pace(1000)
    time.sleep(0.5)
    begun = time.monotonic()
    for _ in range(5):
        pace.passed(100)
    assert time.monotonic() - begun > 0.2


def test_thousands_of_small_files_go_in_one_stream(agent: Agent, tmp_path: Path) -> None:
    source = tmp_path / "many"
    source.mkdir()
    for number in range(2000):
        (source / f"{number:05}").write_text(str(number))
    begun = time.monotonic()
    assert push(agent, load(source), str(tmp_path / "there")).sent == 2000
    assert tree(tmp_path / "there") == tree(source)
    assert time.monotonic() - begun < 30


def test_noise_of_start_up_files_is_no_answer(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("echo noise; echo more >&2; read -r line\n")
    (tmp_path / "f").write_text("f")
    with (
        SshServer(tmp_path / "sshd", env={"HOME": str(home)}) as server,
        Reach(settings()).connect(target_of(server)) as agent,
    ):
        push(agent, load(tmp_path / "f"), str(tmp_path / "there"))
    assert (tmp_path / "there").read_text() == "f"


def test_what_is_not_there_is_the_user_s_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load(tmp_path / "nothing")
