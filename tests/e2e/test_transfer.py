"""``inv put`` and ``inv get``, as a user types them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    home = tmp_path_factory.mktemp("home")
    with SshServer(tmp_path_factory.mktemp("sshd"), env={"HOME": str(home)}) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, server: SshServer) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "project")
    made.write("invoke.yaml", "stoker: {ssh_config: none}\n")
    made.hosts({"h1": server.variables(), "h2": {"ansible_connection": "local"}})
    return made


def test_put_and_get_bring_the_same_bytes_there_and_back(project: ProjectFolder, tmp_path: Path) -> None:
    project.write("models/a/config.json", "{}")
    project.write("models/b.bin", "b" * 100_000)
    there = tmp_path / "there"
    checked = project.inv(
        "put", "--host", "h1", "--src", "models", "--dest", f"{there}/", "--check", "--json"
    )
    assert checked.code == 0, checked.text
    assert checked.json["hosts"]["h1"]["changed"] == "would"
    assert not there.exists()
    done = project.inv("put", "--host", "h1", "--src", "models", "--dest", f"{there}/", "--json")
    assert done.code == 0, done.text
    assert done.json["hosts"]["h1"]["changed"] is True
    assert (there / "models/b.bin").read_text() == "b" * 100_000
    again = project.inv("put", "--host", "h1", "--src", "models", "--dest", f"{there}/models", "--json")
    assert again.json["hosts"]["h1"]["changed"] is False
    got = project.inv("get", "--src", str(there / "models"), "--dest", "back", "--limit-rate", "10M")
    assert got.code == 0, got.text
    for host in ("h1", "h2"):
        assert (project.root / "back" / host / "models/a/config.json").read_text() == "{}"
    one = project.inv("get", "--host", "h1", "--src", str(there / "models/b.bin"))
    assert one.code == 0, one.text
    assert (project.root / "fetched/h1/b.bin").read_text() == "b" * 100_000


def test_more_than_was_allowed_is_not_brought(project: ProjectFolder, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 5000)
    refused = project.inv("get", "--host", "h1", "--src", str(tmp_path / "big"), "--max-bytes", "4K")
    assert refused.code == 3, refused.text
    assert "over the limit" in refused.err
    assert not list((project.root / "fetched").rglob("big")) if (project.root / "fetched").exists() else True


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("sudo"), reason="becomes another user by sudo")
def test_what_may_not_be_read_fails_the_host_behind_all_that_may(project: ProjectFolder) -> None:
    nobody = {"ansible_connection": "local", "ansible_become": True, "ansible_become_user": "nobody"}
    project.hosts({"h1": nobody})
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name)
        logs.chmod(0o755)
        (logs / "open.log").write_text("open")
        (logs / "shut.log").touch(0o600)
        (logs / "link").symlink_to("open.log")
        got = project.inv("get", "--host", "h1", "--src", name)
        told = project.inv("get", "--host", "h1", "--src", name, "--json").json["hosts"]["h1"]["error"]
        (logs / "shut.log").chmod(0o644)
        again = project.inv("get", "--host", "h1", "--src", name)
        logs.chmod(0o700)
        shut = project.inv("get", "--host", "h1", "--src", name)
    assert got.code == 3, got.text
    assert (project.root / "fetched/h1" / logs.name / "open.log").read_text() == "open"
    assert "1 file or folder cannot be read" in got.err
    assert "shut.log: Permission denied" in got.err
    assert f"the rest is here: 1 file, 4 B, in fetched/h1/{logs.name}" in got.err
    assert "skipped link: a link" in got.out
    assert told["detail"]["unreadable"] == [{"path": "shut.log", "why": "Permission denied"}]
    assert told["detail"]["skipped"] == [{"path": "link", "why": "a link"}]
    assert told["detail"]["files"] == [str(project.root / "fetched/h1" / logs.name / "open.log")]
    assert again.code == 0, again.text
    assert (project.root / "fetched/h1" / logs.name / "shut.log").exists()
    assert f"{name}: Permission denied\n  next: read it as a user who may" in shut.err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("put", "--src", "f", "--dest", "/tmp/x"), "must be named"),
        (("put", "--host", "h1", "--dest", "/tmp/x"), "--src is missing"),
        (("put", "--host", "h1", "--src", "nothing", "--dest", "/tmp/x"), "cannot be read"),
        (
            ("put", "--host", "h1", "--src", "f", "--dest", "/tmp/x", "--limit-rate", "fast"),
            "no number of bytes",
        ),
        (("get", "--host", "h1", "--src", "/tmp/x", "--max-bytes", "0"), "no number of bytes"),
    ],
)
def test_wrong_input_touches_nothing(project: ProjectFolder, argv: tuple[str, ...], says: str) -> None:
    project.write("f", "f")
    ended = project.inv(*argv)
    assert ended.code == 2, ended.text
    assert says in ended.err


def test_what_is_not_on_a_host_fails_that_host_alone(project: ProjectFolder, tmp_path: Path) -> None:
    ended = project.inv("get", "--host", "h1", "--src", str(tmp_path / "nothing"), "--json")
    assert ended.code == 3, ended.text
    assert ended.json["hosts"]["h1"]["error"]["kind"] == "io"
