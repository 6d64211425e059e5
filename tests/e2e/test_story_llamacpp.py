"""The story with a real engine over a real sshd: tuned, lost, found, explained, restored."""

from __future__ import annotations

import socket

import pytest

from tests.e2e.project import ProjectFolder

pytestmark = pytest.mark.engine


@pytest.mark.alone
def test_a_lost_variable_is_found_explained_and_restored(project: ProjectFolder) -> None:
    restarted = project.inv("restart", "--host", "box", "--profile", "tuned", "--json")
    assert restarted.code == 0, restarted.text
    ready = restarted.json["hosts"]["box"]["results"][0]
    assert ready["proof"]["verdict"] == "in-force"
    assert ready["proof"]["variables"] == ["LLAMA_ARG_SPEC_TYPE"]
    assert ready["completion"]["tokens"] >= 2

    measured = project.inv("bench", "--host", "box", "--json")
    assert measured.code == 0, measured.text
    first = measured.json["hosts"]["box"]["results"][0]
    assert first["verdict"] == "no-baseline"
    assert first["simulated"] is False
    assert project.inv("baseline", "--host", "box", "--why", "a test").code == 0

    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    second = project.inv("bench", "--host", "box", "--json")
    assert second.code == 5, second.text
    assert second.json["hosts"]["box"]["results"][0]["verdict"] == "regressed"
    explained = project.inv("explain", "--json")
    assert explained.code == 0, explained.text
    found = explained.json["hosts"]["box"]["results"][0]
    likely = [cause["name"] for cause in found["causes"] if cause["confidence"] == "likely"]
    assert likely == ["LLAMA_ARG_SPEC_TYPE"]

    again = project.inv("restart", "--host", "box", "--profile", f"run:{first['run_id']}", "--json")
    assert again.code == 0, again.text
    assert again.json["hosts"]["box"]["results"][0]["proof"]["verdict"] == "in-force"

    folder = project.root / "results" / first["run_id"]
    assert {"run.json", "bench.json", "requests.jsonl", "server.log", "launch.sh"} <= {
        path.name for path in folder.iterdir()
    }

    killed = project.inv("kill", "--host", "box", "--profile", "plain", "--json")
    assert killed.code == 0, killed.text
    assert killed.json["hosts"]["box"]["results"][0]["released"]["port"] is True


def test_port_of_a_stranger_stops_the_restart_with_the_list(project: ProjectFolder) -> None:
    port = _port(project)
    with socket.create_server(("127.0.0.1", port)):
        ended = project.inv("restart", "--host", "box", "--profile", "plain", "--json")
    assert ended.code == 3, ended.text
    error = ended.json["hosts"]["box"]["error"]
    assert error["kind"] == "blocked"
    assert str(port) in error["what"] + " ".join(error["evidence"])


@pytest.mark.parametrize("fault", ["missing", "truncated"])
def test_a_bad_model_ends_the_start_with_its_cause(project: ProjectFolder, fault: str) -> None:
    text = (project.root / "profiles/plain.yml").read_text()
    line = next(line for line in text.splitlines() if "model:" in line)
    path = line.split('"')[1]
    bad = project.root / f"{fault}.gguf"
    if fault == "truncated":
        with open(path, "rb") as whole:
            bad.write_bytes(whole.read(200_000))
    project.write("profiles/plain.yml", text.replace(path, str(bad)))
    ended = project.inv("start", "--host", "box", "--profile", "plain", "--json")
    assert ended.code == 3, ended.text
    error = ended.json["hosts"]["box"]["error"]
    if fault == "missing":
        assert error["kind"] == "preflight"
        assert str(bad) in error["what"] + " ".join(error["evidence"])
    else:
        assert error["kind"] == "died"
        assert "corrupted or incomplete" in "\n".join(error["evidence"])


def _port(project: ProjectFolder) -> int:
    text = (project.root / "profiles/plain.yml").read_text()
    return int(text.split("port:")[1].split()[0])
