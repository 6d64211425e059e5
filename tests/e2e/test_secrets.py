"""What a secret leaves on either side: one file that only its owner reads, and no command line."""

from __future__ import annotations

import base64
import contextlib
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.project import Ended, ProjectFolder

# What a credential may look like, and what a shell, a URL and JSON would each write otherwise.
KEY = "sk-9f8A7b6C5d4E3f2A1b0Czz"
TOKEN = "hf_Zk3/Qw+8=x&y z'\"$HOME`id`\\n%41ü"
ASKED = "asked-4711-of-a-command"

PROFILE = """\
extends: plain
server:
  api_key: !secret KEY
env:
  HF_TOKEN: !secret TOKEN
  OTHER_TOKEN: !secret vault/ASKED
"""


def forms(secret: str) -> set[bytes]:
    """The value as any program may have written it."""
    raw = secret.encode()
    found = {raw, quote(secret).encode(), quote(secret, safe="").encode(), raw.hex().encode()}
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + raw).rstrip(b"=")
        found.add(whole[4 if shift else 0 : len(whole) - 2])
    return found


FORMS = {form for secret in (KEY, TOKEN, ASKED) for form in forms(secret)}


def shows(data: bytes) -> bool:
    return any(form in data for form in FORMS)


@contextlib.contextmanager
def watched() -> Iterator[set[str]]:
    """Looks at every process's command line, again and again, and keeps those that show a secret."""
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    with contextlib.suppress(OSError):
                        line = (entry / "cmdline").read_bytes()
                        if shows(line.replace(b"\0", b" ")) or shows(line):
                            seen.add(line.decode(errors="replace"))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.fixture
def keyed(project: ProjectFolder, tmp_path: Path) -> ProjectFolder:
    """A project whose profile has a secret from each of the three places; beside it lie two of them."""
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "token").write_text(TOKEN + "\n")
    (vault / "token").chmod(0o600)
    (vault / "ask").write_text(f"#!/bin/sh\necho asked >> {vault}/log\ncat {vault}/answer\n")
    (vault / "ask").chmod(0o700)
    (vault / "answer").write_text(ASKED + "\nanother line\n")
    project.write("profiles/keyed.yml", PROFILE)
    project.write(
        "invoke.yaml",
        f"stoker:\n  secrets:\n    TOKEN: {{file: {vault}/token}}\n"
        f"    vault/ASKED: {{command: [{vault}/ask]}}\n",
    )
    return project


def left(root: Path, vault: Path) -> list[Path]:
    """Files that show a secret, but for those that are meant to hold one."""
    found = []
    for path in root.rglob("*"):
        if (
            path.is_file()
            and not path.is_symlink()
            and vault not in path.parents
            and shows(path.read_bytes())
        ):
            found.append(path)
    return found


def test_a_secret_is_nowhere_but_in_closed_files(keyed: ProjectFolder, home: Path, tmp_path: Path) -> None:
    env = {"KEY": KEY}
    steps = (
        ("render", "--host", "box", "--profile", "keyed"),
        ("restart", "--host", "box", "--profile", "keyed", "--check", "--diff"),
        ("restart", "--host", "box", "--profile", "keyed", "--json"),
        ("status", "--json"),
        ("bench", "--host", "box", "--profile", "keyed", "--runs", "2", "--json"),
        ("logs", "--host", "box", "--json"),
        ("exec", "--host", "box", "--cmd", "cat ~/.stoker/slots/*/launches/*/*.json"),
        ("results", "--json"),
        ("doctor", "--host", "box", "--json"),
        ("persist", "--host", "box", "--profile", "keyed", "--check"),
        ("restart", "--host", "box", "--profile", "keyed"),
        ("stop", "--host", "box", "--slot", "tiny"),
    )
    with watched() as command_lines:
        ended: dict[str, Ended] = {" ".join(step): keyed.inv(*step, env=env) for step in steps}
    assert {name: end.text for name, end in ended.items() if end.code not in (0, 3)} == {}
    assert [end.code for name, end in ended.items() if name.startswith(("restart", "bench"))] == [0] * 4
    assert command_lines == set()
    assert [name for name, end in ended.items() if shows((end.out + end.err).encode())] == []
    held = left(tmp_path, tmp_path / "vault")
    assert {path.name for path in held} == {"secrets.env"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in held)
    asked = (tmp_path / "vault" / "log").read_text().count("asked")
    assert asked <= len(steps)  # each command at most once


def test_a_secret_that_cannot_be_had_is_told_and_nothing_is_touched(
    keyed: ProjectFolder, home: Path, tmp_path: Path
) -> None:
    token = tmp_path / "vault" / "token"
    token.chmod(0o644)
    ended = keyed.inv("restart", "--host", "box", "--profile", "keyed", env={"KEY": KEY})
    assert ended.code == 2, ended.text
    assert f"chmod 600 {token}" in ended.err
    assert not shows((ended.out + ended.err).encode())
    assert not list(home.iterdir())
