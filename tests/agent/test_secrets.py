"""A secret leaves the host in nothing, whatever the server says and whichever operation is asked."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.secretsfile import of_request, text
from stoker.agent.session import Session
from stoker.agent.variables import is_credential, redacted, without
from stoker.engines.base import Engine
from tests.agent.conftest import Host, eventually
from tests.agent.test_wire import Running

SECRET = 'tok-4f1d2c"9e8b\\7a6'
ENGINE = Engine(
    name="talker",
    health_path="/health",
    completion_path="/v1/completions",
    stream_usage=True,
    api_key_env="TOKEN",
    grace_s=0.5,
)
# It says its token wherever it can: in its log and in its answers. After the first completion it fails.
TALKER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
token = os.environ["TOKEN"]
print("token", token, flush=True)
print(json.dumps({"token": token}), file=sys.stderr, flush=True)

class Handler(BaseHTTPRequestHandler):
    asked = 0

    def log_message(self, *_):
        print("asked with", self.headers["Authorization"], flush=True)

    def do_GET(self):
        self.answer(200, {"data": [{"id": "m"}], "token": token, "note": "with " + token})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Handler.asked += 1
        if Handler.asked > 1:
            return self.answer(500, {"error": "x" * 150 + "it was " + token})
        chunks = [{"model": "m", "choices": [{"text": "a"}]}] * 3 + [{"usage": {"completion_tokens": 3}}]
        body = "".join("data: %s\\n\\n" % json.dumps(chunk) for chunk in chunks)
        self.answer(200, body + "data: [DONE]\\n\\n")

    def answer(self, status, body):
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"""


@pytest.fixture
def agent(host: Host) -> Iterator[Running]:
    running = Running(env=host.env)
    yield running
    running.close()


def planned(host: Host, script: str, **changes: Any) -> dict[str, Any]:
    script = '#!/bin/sh\n. "${0%/*}/secrets.env"\n' + script
    return host.plan(engine=ENGINE, script=script, secrets={"TOKEN": SECRET}, **changes)


def told(agent: Running) -> str:
    """All that ever came over the wire, checked for the secret in each way in which it may be written."""
    everything = json.dumps(agent.told)
    for form in (SECRET, json.dumps(SECRET)[1:-1], json.dumps(json.dumps(SECRET)[1:-1])[1:-1], SECRET[:14]):
        assert form not in everything
    return everything


def test_no_operation_tells_what_a_server_tells_of_its_secret(host: Host, agent: Running) -> None:
    program = host.root / "talker.py"
    program.write_text(TALKER)
    plan = planned(host, f'exec {sys.executable} {program} "$PORT"\n')
    plan["script"] = plan["script"].replace("$PORT", str(plan["port"]))
    bench = {"name": "decode", "runs": 1, "tokens": 4, "concurrency": 2}
    asked: dict[str, dict[str, Any]] = {
        "restart": {"plan": plan},
        "wait": {"plan": plan},
        "prove": {"plan": plan},
        "status": {},
        "logs": {"slot": "stable"},
        "bench": {"slot": "stable", "bench": bench, "run_id": "r1", "salt": "s"},
        "fingerprint": {"slot": "stable", "salt": "s"},
        "exec": {"shell": "cat ~/.stoker/slots/stable/launches/*/server.log"},
    }
    replies = {}
    for op, params in asked.items():
        replies[op] = agent.ask(op, **params, engines=[ENGINE.to_wire()])
        assert "result" in replies[op], replies[op]
    assert "token ***" in told(agent)
    assert "token ***" in str(replies["logs"]["result"])
    assert '{"token": "***"}' in str(replies["logs"]["result"])
    assert "token ***" in replies["exec"]["result"]["stdout"]
    assert "it was ***" in replies["bench"]["result"]["runs"][0]["why"]
    folder = Path(replies["bench"]["result"]["path"])
    for file in folder.iterdir():
        assert SECRET[:14] not in file.read_text(), file.name
    assert "it was ***" in (folder / "requests.jsonl").read_text()
    assert "result" in agent.ask("stop", slot="stable", engines=[ENGINE.to_wire()])
    told(agent)


def test_followed_lines_are_without_it(host: Host, agent: Running) -> None:
    plan = planned(host, 'echo "token $TOKEN"\nexec sleep 60\n')
    launched = agent.ask("restart", plan=plan, engines=[ENGINE.to_wire()])["result"]["launch"]
    eventually(lambda: Path(launched["log"]).read_bytes(), "its first line")
    agent.send({"id": 2, "op": "logs", "params": {"slot": "stable", "follow": True}})
    while "token ***" not in json.dumps(agent.receive()):
        continue
    agent.send({"cancel": 2})
    told(agent)


def test_a_server_that_says_its_secret_and_dies_at_once_does_not_say_it_here(
    host: Host, agent: Running
) -> None:
    plan = planned(host, 'printf "no such token: %s\\\\n" "$TOKEN"; exit 3\n')
    error = agent.ask("restart", plan=plan, engines=[ENGINE.to_wire()])["error"]
    assert error["kind"] == "died"
    assert error["evidence"] == ["no such token: ***"]
    waited = agent.ask("wait", plan=plan, engines=[ENGINE.to_wire()])["error"]
    assert waited["evidence"] == ["no such token: ***"]
    assert "no such token: ***" in str(agent.ask("logs", slot="stable")["result"])
    told(agent)


def test_the_log_of_an_older_launch_does_not_tell_a_secret_that_was_changed_or_removed(
    host: Host, agent: Running
) -> None:
    plan = planned(host, 'printf "token %s\\n" "$TOKEN"\nexec sleep 60\n')
    first = agent.ask("restart", plan=plan, engines=[ENGINE.to_wire()])["result"]["launch"]
    eventually(lambda: b"token" in Path(first["log"]).read_bytes(), "its first line")
    for secrets in ({"TOKEN": "another-value-2"}, {}):
        script = plan["script"] if secrets else "#!/bin/sh\nexec sleep 60\n"
        new = {**plan, "secrets": secrets, "script": script}
        assert "result" in agent.ask("restart", plan=new, engines=[ENGINE.to_wire()])
        logs = agent.ask("logs", slots=["stable"], launch_id=first["launch_id"])["result"]["logs"]
        assert logs[0]["lines"] == ["token ***"]
    told(agent)
    kept = Path(first["log"]).with_name("secrets.env")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_is_split_over_two_outputs_is_not_told(host: Host, agent: Running) -> None:
    plan = planned(host, "exec sleep 60\n")
    assert "result" in agent.ask("restart", plan=plan, engines=[ENGINE.to_wire()])
    parts = [shlex.quote("token " + SECRET[:9]), shlex.quote(SECRET[9:]), "' end'"]
    shell = "; sleep 0.3; ".join(f"printf %s {part}" for part in parts)
    agent.send({"id": 7, "op": "exec", "params": {"shell": shell, "stream": True}})
    texts = []
    while "result" not in (said := agent.receive()):
        texts.append(said["event"]["text"])
    assert "".join(texts) == "token *** end"
    told(agent)


def test_what_the_slots_keep_counts_where_a_request_has_no_plan(tmp_path: Path) -> None:
    home = Session({"HOME": str(tmp_path)}).home
    for slot, value in {"a": "first 'one'", "b": "line one\nline two"}.items():
        folder = Path(home) / "slots" / slot
        folder.mkdir(parents=True)
        (folder / "secrets.env").write_text(text({"KEY": value, "EMPTY": ""}))
    assert of_request(home, "logs", {"slot": "a"}) == ["first 'one'"]
    assert sorted(of_request(home, "status", {})) == ["first 'one'", "line one\nline two"]
    assert of_request(home, "logs", {"slot": "../slots/a"}) == of_request(home, "logs", {})
    assert of_request(home, "status", {"plans": {"c": {"secrets": {"K": "third"}}}, "slot": "none"}) == [
        "third"
    ]
    assert of_request(home, "manifest", {"path": home}) == [], "names of files are what a pull goes by"


def test_a_secret_is_found_in_the_forms_in_which_logs_have_it() -> None:
    lines = "-----BEGIN\nMIIEvQIBADANBg\nkqhkiG9w0\n"
    assert redacted("read MIIEvQIBADANBg", [lines]) == "read ***"
    assert redacted('{"k": "a\\"bcd"}', ['a"bcd']) == '{"k": "***"}'
    assert redacted("cut: abcdefghijklmno)", ["abcdefghijklmnopqrstuvwxyz"]) == "cut: ***)"
    assert redacted("abc", ["abc"]) == "abc", "too short to hide anything"


def test_a_short_secret_does_not_take_the_words_away_that_programs_go_by() -> None:
    launch = {"slot": "test", "resolved": {"server": {"name": "test"}}, "title": "a test", "test": 1}
    assert without(["test"], launch) == {**launch, "title": "a ***"}
    long = "hf_0123456789abcdef"
    assert without([long], {"slot": long, long: [long]}) == {"slot": "***", "***": ["***"]}


@pytest.mark.parametrize(
    "name",
    (
        *("HF_TOKEN", "hf-token", "--api-key", "apiKey", "--ssl-key-password", "--passphrase", "--auth"),
        *(
            "--cookie",
            "--openai_api_keys",
            "AWS_SECRET_ACCESS_KEY",
            "x-authorization",
            "db.password",
            "APIKEY",
        ),
    ),
)
def test_a_credential_is_known_by_its_name_in_any_spelling(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize(
    "name",
    (
        *("--max-num-batched-tokens", "--tokenizer", "--ssl-keyfile", "--speculative-token-map"),
        *("kv_cache_dtype", "NCCL_PROTO", "--authors", "monkey", "--keyboard"),
    ),
)
def test_what_only_looks_like_a_credential_is_shown(name: str) -> None:
    assert not is_credential(name)
