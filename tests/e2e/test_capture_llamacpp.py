"""A real llama-server that somebody started by hand becomes a profile, and runs on as it did."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import free_port

pytestmark = pytest.mark.engine

LOGIN = {"SHLVL": "1", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22", "TERM": "xterm", "LS_COLORS": "di=1"}
SAME = ("tuning", "arguments", "versions", "gpus", "limits", "environment")  # how busy the host is may differ
KEY = "sk-a-very-secret-key"
TOKEN = "hf_secretsecret"
ODD = "a \"b\" {{ c }} {% d %} 'e'\n\tf\\"


@contextmanager
def by_hand(
    argv: Sequence[str], home: Path, port: int, env: Mapping[str, str], cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server as somebody starts it in a shell, up when it answers."""
    whole = {"HOME": str(home), "PATH": os.environ["PATH"], "USER": "me", **LOGIN, **env}
    with (home / "by-hand.log").open("wb") as log:
        server = subprocess.Popen(
            list(argv), env=whole, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        _up(server, port, home / "by-hand.log")
        yield server
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text()[-2000:])


def result(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.text
    found: dict[str, Any] = ended.json["hosts"]["box"]["results"][0]
    return found


def profile(project: ProjectFolder, name: str) -> Any:
    return Library(project.root / "profiles", project.root).resolve(name, Host("box", {}, (), ""))


def test_a_captured_server_runs_on_with_an_equal_fingerprint(
    project: ProjectFolder, home: Path, llama_server: Path, tiny_model: Path
) -> None:
    port = free_port("127.0.0.1")
    argv = [
        str(llama_server),
        "-m",
        str(tiny_model),
        "--port",
        str(port),
        "-t",
        "1",
        "-dev",
        "none",
        "-ngl",
        "0",
    ]
    argv += ["-c", "4096", "--metrics", "--slot-save-path", f"{home}/", "--override-kv", "a.x=int:1"]
    argv += ["--chat-template-kwargs", '{"enable_thinking": false, "n": 3}', "--override-kv", "a.y=int:2"]
    env = {
        "LLAMA_ARG_N_PARALLEL": "3",
        "LLAMA_ARG_TAGS": "NO",
        "GGML_ODD": ODD,
        "MY_MODE": "0644",
        "HF_TOKEN": TOKEN,
    }
    size = ("--runs", "1", "--tokens", "16", "--json")
    with by_hand(argv, home, port, env):
        first = result(project.inv("bench", "--host", "box", "--port", str(port), *size))
        captured = project.inv("capture", "--host", "box", "--port", str(port), "--name", "mine", "--json")
        told = result(captured)
        text = (project.root / "profiles/mine.yml").read_text()
        assert told["written"] is True
        assert told["text"] == text
        assert "hf_secret" not in captured.text + text
        found = profile(project, "mine")
        assert found.engine == "llamacpp"
        assert found.server.model == str(tiny_model)
        assert (found.server.bind, found.server.port) == ("127.0.0.1", port)
        assert found.server.args["ctx-size"] == "4096"
        assert found.server.args["metrics"] is True
        assert found.server.args["override-kv"] == ("a.x=int:1", "a.y=int:2")
        assert found.server.args["chat-template-kwargs"] == {"enable_thinking": False, "n": 3}
        assert {name: value for name, value in found.env.items() if name in env and name != "HF_TOKEN"} == {
            name: value for name, value in env.items() if name != "HF_TOKEN"
        }
        assert not set(found.env) & set(LOGIN)
        assert "HF_TOKEN: !secret HF_TOKEN" in text
        restarted = project.inv(
            "restart",
            "--host",
            "box",
            "--profile",
            "mine",
            "--force",
            "--json",
            env={"HF_TOKEN": TOKEN},
        )
        assert result(restarted)["proof"]["verdict"] == "in-force"
    second = result(project.inv("bench", "--host", "box", *size, env={"HF_TOKEN": TOKEN}))
    told = result(project.inv("explain", "--run", second["run_id"], "--against", first["run_id"], "--json"))
    causes = [
        (c["name"], c["title"], c["detail"])
        for c in told["causes"]
        if c["confidence"] in ("likely", "possible")
    ]
    assert causes == [], told["causes"]
    assert project.inv("kill", "--host", "box", "--profile", "mine").code == 0


@pytest.mark.long
def test_a_server_called_as_people_do_runs_on(
    project: ProjectFolder, home: Path, llama_server: Path, tiny_model: Path
) -> None:
    """Behind wrappers, from its folder, with a key on the command line and a name with blanks."""
    port = free_port("127.0.0.1")
    (home / "models").mkdir()
    (home / "models/m.gguf").symlink_to(tiny_model)
    (home / "t.jinja").write_text("{{ messages }}")
    line = f"cd {home} && exec env LLAMA_ARG_THREADS=1 nice -n 2 timeout 1h {llama_server} -m models/m.gguf "
    line += f"-a 'a b' --port {port} -dev none -ngl 0 -c 2048 --api-key {KEY} "
    line += "--chat-template-file t.jinja --jinja"
    with by_hand(["/bin/bash", "-c", line], home, port, {}):
        checked = project.inv("capture", "--host", "box", "--port", str(port), "--name", "mine", "--check")
        assert checked.code == 0, checked.text
        assert not (project.root / "profiles/mine.yml").exists()
        told = result(
            project.inv("capture", "--host", "box", "--port", str(port), "--name", "mine", "--json")
        )
        assert told["text"] in checked.out.replace("\n\n", "\n") or "LLAMA_ARG_THREADS" in checked.out
        assert KEY not in checked.text + told["text"]
        found = profile(project, "mine")
        assert found.server.model == f"{home}/models/m.gguf"
        assert found.server.setup == (f"cd {home}",)
        assert found.server.wrap == ("timeout", "1h", "nice", "-n", "2")
        assert found.server.args["alias"] == "a b"
        assert found.server.api_key.name == "LLAMA_API_KEY"
        restarted = project.inv(
            "restart", "--host", "box", "--profile", "mine", "--json", env={"LLAMA_API_KEY": KEY}
        )
        assert result(restarted)["proof"]["verdict"] == "in-force", restarted.text
    again = result(project.inv("capture", "--host", "box", "--slot", "mine", "--name", "again", "--json"))
    assert any("Stoker launched it: profile mine" in note for note in again["notes"])
    ours = profile(project, "again")
    assert ours.server.name == "mine"
    assert {**ours.to_plain(), "description": ""} == {**found.to_plain(), "description": ""}
    assert project.inv("kill", "--host", "box", "--profile", "mine").code == 0
