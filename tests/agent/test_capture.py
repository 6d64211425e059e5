"""What is captured of a server: how it was called, what it was given, what wraps it; and never a secret."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.evidence import capture as operation
from tests.agent.conftest import ENGINES, Host, free_port
from tests.agent.test_adopt import SERVING

SECRET = "sk-verysecretvalue"


@pytest.fixture(autouse=True)
def alone(host: Host) -> None:
    """Nothing else that runs on this machine counts."""
    host.gpus()


def captured(host: Host, **params: Any) -> dict[str, Any]:
    found = operation.capture(host.context(), {"engines": ENGINES, **params})
    json.dumps(found)
    assert SECRET not in json.dumps(found)
    return found


def program(host: Host) -> Path:
    """The zoo's engine with an API: ``zooserve serve PORT …``."""
    path = host.root / "zooserve"
    path.write_text(SERVING.replace("sys.argv[2:]", "()").replace("sys.argv[1]", "sys.argv[2]"))
    return path


def engine(host: Host, *before: str, words: tuple[str, ...] = (), **options: Any) -> int:
    """Start it by hand, behind some words; its port, once it is up."""
    port = free_port()
    argv = [*before, sys.executable, str(program(host)), "serve", str(port), *words]
    child = host.spawn(argv, **options)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    return port


def test_how_it_was_called_and_what_it_was_given_is_told_without_secrets(host: Host) -> None:
    env = {
        **host.env,
        "NCCL_ALGO": "Ring",
        "NEW": "1",
        "HF_TOKEN": SECRET,
        "COPY": SECRET,
        "PROXY": f"http://me:{SECRET}@h",
    }
    words = ("--api-key", SECRET, "--x", "a b=c\n'd'")
    port = engine(host, words=words, env=env)
    found = captured(host, port=port)
    assert found["engine"] == "zoo"
    assert found["argv"][2:] == ["serve", str(port), "--api-key", "***", "--x", "a b=c\n'd'"]
    assert (found["head"], found["withheld"]) == (2, [5])
    assert (found["bind"], found["port"], found["model"]) == ("127.0.0.1", port, "m")
    assert found["program"] == str(host.root / "zooserve")
    assert found["python"] == sys.executable
    assert (found["env"]["NCCL_ALGO"], found["env"]["NEW"], found["env_source"]) == ("Ring", "1", "exec")
    assert found["credentials"] == ["COPY", "HF_TOKEN", "PROXY"]
    assert found["tuning"] == ["NCCL_ALGO"]
    assert {"HOME", "PATH"} <= set(found["as_login"])
    assert not {"NCCL_ALGO", "NEW"} & set(found["as_login"])


def test_bytes_that_are_no_text_are_named(host: Host) -> None:
    env = {**{name.encode(): value.encode() for name, value in host.env.items()}, b"ODD": b"a\xff"}
    found = captured(host, port=engine(host, env=env))
    assert found["odd"] == {"ODD": "a\\xff"}
    assert "ODD" not in found["env"]


def test_paths_as_seen_from_its_folder_are_told(host: Host) -> None:
    (host.root / "models").mkdir()
    (host.root / "models/m").touch()
    words = ("--model", "models/m", "--template=models/m", "--other", "nothing", str(host.root))
    found = captured(host, port=engine(host, words=words, cwd=host.root))
    assert found["cwd"] == str(host.root)
    assert found["relative"] == ["models/m", "models/m"]


def test_programs_that_became_it_or_stayed_its_parent_are_told(host: Host) -> None:
    first = min(os.sched_getaffinity(0))
    before = ["timeout", "1h", "nice", "-n", "3", "taskset", "-c", str(first)]
    found = captured(host, port=engine(host, "env", "A=1", *before))
    around = found["around"]
    assert found["env"]["A"] == "1"
    assert around["wrap"][:2] == ["timeout", "1h"]
    assert around["nice"] == 3
    if len(os.sched_getaffinity(0)) > 1:
        assert around["cpus"] == str(first)


def test_a_shell_around_it_is_no_wrapper(host: Host) -> None:
    port = free_port()
    line = f"export B=2; {sys.executable} {program(host)} serve {port}; true"
    child = host.spawn(["/bin/bash", "-c", line])
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    found = captured(host, port=port)
    assert (found["env"]["B"], found["around"]["wrap"]) == ("2", [])


def test_of_several_none_is_guessed(host: Host) -> None:
    ports = {engine(host), engine(host)}
    with pytest.raises(AgentError) as caught:
        captured(host)
    assert caught.value.kind == "bad-request"
    assert {int(choice.split()[1]) for choice in caught.value.evidence} == ports


def test_nothing_there_is_said(host: Host) -> None:
    with pytest.raises(AgentError, match="no process"):
        captured(host, port=free_port())


def test_an_engine_that_nobody_knows_is_captured_by_its_port(host: Host) -> None:
    port = free_port()
    host.python(SERVING, str(port))
    found = captured(host, port=port)
    assert (found["engine"], found["model"]) == ("openai", "m")
    assert found["argv"][:2] == [sys.executable, "-c"]


@pytest.mark.skipif(
    os.getuid() != 0, reason="only root can start a server of another user and then be nobody"
)
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv gives up root")
def test_of_another_users_server_is_told_what_can_be_read(host: Host) -> None:
    """An agent without rights over it: the command line is open to all, the environment is not."""
    host.declare()
    port = free_port()
    (host.root / "zooserve").write_text(program(host).read_text())
    argv = [sys.executable, str(host.root / "zooserve"), "serve", str(port)]
    child = host.spawn(argv)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    code = (
        "import json, sys\nfrom stoker.agent.evidence import capture\n"
        "from stoker.agent.context import Context\n"
        "from stoker.agent.session import Session\n"
        "params = json.load(sys.stdin)\n"
        "print(json.dumps(capture.capture(Context(session=Session(params['env'])), params)))"
    )
    env = {"HOME": "/", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code],
        input=json.dumps({"engines": ENGINES, "port": port, "env": env}),
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    if "Permission denied" in done.stderr:
        pytest.skip("nobody cannot run this interpreter")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["argv"] == argv
    assert (found["env_source"], found["env"], found["foreign"]) == ("unreadable", {}, True)
    assert any("not permitted" in line for line in found["unread"])
