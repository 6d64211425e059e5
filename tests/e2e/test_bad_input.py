"""What a user gets wrong, and what a host does wrong: a clear end, the documented code, the others served."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import SshServer, make_key


def _clear(ended: Ended, code: int, *words: str) -> None:
    """The documented code, every word somewhere in what is said, and never a traceback."""
    assert ended.code == code, ended.text
    assert "Traceback" not in ended.out + ended.err, ended.text
    for word in words:
        assert word in ended.out + ended.err, ended.text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("restart", "--host", "bxo", "--profile", "plain"), ("no host or group matches 'bxo'", "'box'")),
        (("restart", "--host", "box", "--profile", "plian"), ("unknown profile 'plian'", "'plain'")),
        (("restart", "--profile", "plain"), ("must be named",)),
        (("restart", "--host", "box"), ("no profile is named",)),
        (
            ("restart", "--host", "box", "--profile", "plain", "--profile", "tuned"),
            ("two profiles for slot",),
        ),
        (("ping", "--forks", "abc"), ("--forks", "'abc'")),
        (("ping", "--inventory", "nowhere"), ("nowhere",)),
        (("play", "nothing"), ("nothing",)),
        (("show", "20260101"), ("no run",)),
        (("compare", "a", "b"), ("no run",)),
        (("explain",), ("nothing was measured",)),
        (("demo", "--engine", "sglnag"), ("sglang",)),
        (("lab.reboot",), ("--host is missing",)),
    ],
)
def test_a_wrong_word_is_told_with_the_right_one_and_nothing_is_touched(
    project: ProjectFolder, home: Path, argv: tuple[str, ...], words: tuple[str, ...]
) -> None:
    _clear(project.inv(*argv), 2, *words)
    assert not list(home.iterdir())


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("profiles/plain.yml", "", ("profiles/plain.yml",)),
        ("profiles/plain.yml", "engine: [llamacpp\n", ("profiles/plain.yml:",)),
        ("profiles/plain.yml", "engine: llamacppp\nserver: {model: x, port: 1}\n", (":1:", "'llamacpp'")),
        ("inventory/hosts.yml", "", ("inventory/hosts.yml",)),
        ("inventory/hosts.yml", "all:\n  hostss:\n    box:\n", ("inventory/hosts.yml:2", "'hosts'")),
        ("invoke.yaml", "stoker: {forks: many}\n", ("forks", "'many'")),
        ("invoke.yaml", "stoker: {frks: 3}\n", ("frks", "'forks'")),
        ("invoke.yaml", "stoker: [\n", ("invoke.yaml",)),
    ],
)
def test_a_broken_file_is_told_by_its_place(
    project: ProjectFolder, home: Path, name: str, text: str, words: tuple[str, ...]
) -> None:
    project.write(name, text)
    _clear(project.inv("restart", "--host", "box", "--profile", "plain"), 2, *words)
    assert not list(home.iterdir())


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_hosts_that_cannot_be_reached_are_told_apart_and_the_others_are_served(
    project: ProjectFolder, box: SshServer, silent: int, tmp_path: Path
) -> None:
    stranger = tmp_path / "another"
    make_key(stranger)
    changed = tmp_path / "changed_hosts"
    other_key = stranger.with_suffix(".pub").read_text().split()[:2]
    changed.write_text(f"[127.0.0.1]:{box.port} {' '.join(other_key)}\n")
    with socket.socket() as refused:
        refused.bind(("127.0.0.1", 0))
        project.hosts(
            {
                "box": box.variables(),
                "refused": {**box.variables(), "ansible_port": refused.getsockname()[1]},
                "silent": {**box.variables(), "ansible_port": silent},
                "denied": {**box.variables(), "ansible_private_key_file": str(stranger)},
                "changed": {
                    **box.variables(),
                    "ansible_ssh_common_args": f"-o UserKnownHostsFile={changed}",
                },
                "nopython": {**box.variables(), "ansible_python_interpreter": "/no/such/python"},
            }
        )
        project.write("invoke.yaml", "stoker: {login_timeout_s: 3, connect_timeout_s: 3}\n")
        ended = project.inv("ping", "--json")
    _clear(ended, 3)
    found = {
        name: (host["status"], host.get("error", {}).get("kind"))
        for name, host in ended.json["hosts"].items()
    }
    assert found == {
        "box": ("ok", None),
        "refused": ("unreachable", "refused"),
        "silent": ("unreachable", "banner"),
        "denied": ("unreachable", "login-denied"),
        "changed": ("unreachable", "host-key-changed"),
        "nopython": ("failed", "no-python"),
    }
    assert all(host["error"]["next"] for name, host in ended.json["hosts"].items() if name != "box")


def test_ctrl_c_in_a_wait_ends_with_130_and_leaves_the_server(project: ProjectFolder, home: Path) -> None:
    """A server that never gets ready: an 'openai' engine that only sleeps."""
    _sleeper(project)
    process = project.start("restart", "--host", "box", "--profile", "sleeper")
    pid = _launched(home)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert Path(f"/proc/{pid}").exists(), out + err
    again = project.inv("kill", "--host", "box", "--profile", "sleeper", "--json")
    _clear(again, 0)
    assert not Path(f"/proc/{pid}").exists()


def test_a_second_operator_is_refused_while_the_first_one_waits(project: ProjectFolder, home: Path) -> None:
    _sleeper(project)
    first = project.start("restart", "--host", "box", "--profile", "sleeper")
    _launched(home)
    second = project.inv("restart", "--host", "box", "--profile", "sleeper", "--json")
    os.killpg(first.pid, signal.SIGINT)
    first.communicate(timeout=30)
    _clear(second, 3)
    assert second.json["hosts"]["box"]["error"]["kind"] == "lock-held"


def test_a_server_that_listens_on_another_port_is_told_where(project: ProjectFolder) -> None:
    plain = (project.root / "profiles/plain.yml").read_text()
    port = plain.split("port:")[1].split()[0]
    text = plain.replace(f"port: {port}", "port: 1").replace("timeout_s: 30", "timeout_s: 6")
    server = text.split('command: ["')[1].split('"]')[0]
    model = text.split('model: "')[1].split('"')[0]
    command = f'[{server}, "-m", "{model}", --host, 127.0.0.1, --port, "{port}", --device, none]'
    project.write(
        "profiles/elsewhere.yml",
        f'engine: openai\nserver: {{name: tiny, model: "{model}", port: 18999, command: {command}}}\n'
        "ready: {timeout_s: 6, stall_s: 5}\n",
    )
    ended = project.inv("start", "--host", "box", "--profile", "elsewhere", "--json")
    _clear(ended, 3)
    error = ended.json["hosts"]["box"]["error"]
    assert port in error["what"] + " ".join(error["evidence"]), ended.text


def _sleeper(project: ProjectFolder) -> None:
    project.write(
        "profiles/sleeper.yml",
        "engine: openai\n"
        "server: {name: sleeper, model: none, port: 18998, command: [/bin/sleep, '600']}\n"
        "ready: {timeout_s: 300, stall_s: 200}\n"
        "kill: {grace_s: 1}\n",
    )


def _launched(home: Path) -> int:
    """Wait until the launch has begun; the launcher's pid."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for path in home.glob(".stoker/slots/sleeper/launches/*/launcher"):
            text = path.read_text().strip()
            if text:
                return int(text.split()[0])
        time.sleep(0.05)
    raise AssertionError("nothing was launched")
