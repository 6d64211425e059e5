"""Playbooks run over real agents on this machine: what runs, what is skipped, who leaves, what is told."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.config import extravars
from stoker.config.books.playbook import Task
from stoker.config.inventories.inventory import Host
from stoker.errors import ConfigError, HostFailed, HostUnreachable, InputError, StokerError
from stoker.fleet.books.call import Timed
from stoker.fleet.books.recap import COUNTED, Part, Report
from stoker.fleet.books.verbs import IN_BOOKS, by_hand
from stoker.fleet.session import Session, target_of
from stoker.reach.client import Agent
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings
from tests.fleet.conftest import HERE, Books, typed
from tests.sshd import SshServer

CASES = sorted((Path(__file__).parent.parent / "cases" / "playbook" / "run").glob("*.yml"))
PROFILE = """\
engine: llamacpp
server: {name: NAME, model: /m.gguf, port: 8080, command: [llama-server]}
"""


def head(path: Path) -> tuple[list[str], int, dict[str, str]]:
    """A case's arguments, exit code and recap, from the comments at its head."""
    lines = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
    told = dict(line.split(": ", 1) for line in lines)
    args = told.pop("args", "").replace('{"y":"{{x}}!"}', """'{"y":"{{x}}!"}'""")
    return shlex.split(args), int(told.pop("exit")), told


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_book_ends_as_ansible_ends_it(books: Books, path: Path) -> None:
    """The recaps in the cases' heads were held against ansible-core 2.19 with the same inventory."""
    args, code, recap = head(path)
    report = books.run_file(path, **typed(args, books.folder.root))
    found = {
        host: " ".join(f"{name}={part.counts[name]}" for name in COUNTED)
        for host, part in report.parts.items()
        if any(part.counts.values())
    }
    assert found == {host: _in_order(counts) for host, counts in recap.items()}, books.heard.results
    assert report.exit_code == code


def _in_order(counts: str) -> str:
    given = dict(pair.split("=") for pair in counts.split())
    return " ".join(f"{name}={given.get(name, 0)}" for name in COUNTED)


def test_a_host_is_connected_once_for_the_whole_book_and_only_when_needed(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  tasks: [{debug: }, {command: 'true'}, {command: 'true'}]\n"
        "- hosts: a,b\n  tasks: [{shell: 'true', when: inventory_hostname == 'a'}]\n"
    )
    assert report.exit_code == 0
    assert books.connected == ["a"]


def test_hosts_wait_for_each_other_at_each_task(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    books.run(
        f"- hosts: a,b\n  tasks:\n"
        f"    - shell: sleep 0.3; echo one >> {log}\n      when: inventory_hostname == 'a'\n"
        f"    - shell: echo two >> {log}\n"
    )
    assert log.read_text().split() == ["one", "two", "two"]


def test_a_command_for_several_hosts_does_them_at_once_as_the_play_does(books: Books) -> None:
    books.run("- hosts: a,b\n  tasks:\n    - {name: end, stop: {slot: none}, ignore_errors: true}\n")
    assert books.heard.tasks == [("end", ["inv stop --host a,b --slot none --serial all"])]


def test_a_step_says_its_command_with_the_hosts_that_do_the_same(books: Books) -> None:
    books.run(
        "- hosts: a,b,c\n  tasks:\n"
        "    - name: say\n"
        "      command: echo {{ inventory_hostname if inventory_hostname == 'c' else 'x' }}\n"
        "    - {name: all, shell: 'echo $HOME', args: {chdir: /tmp}, timeout: 5}\n"
        "    - {name: rounds, command: 'echo {{ item }}', loop: [1, 2], when: inventory_hostname == 'a'}\n"
        "    - {name: none, debug: }\n"
    )
    assert books.heard.tasks == [
        ("say", ["inv exec --host a,b --cmd 'echo x'", "inv exec --host c --cmd 'echo c'"]),
        ("all", ["inv exec --host a,b,c --cmd 'cd /tmp && echo $HOME' --timeout 5.0"]),
        ("rounds", ["inv exec --host a --cmd 'echo 1'"]),
        ("none", []),
    ]
    told = [(host, command) for host, command in books.heard.rounds if command]
    assert told == [("a", "inv exec --host a --cmd 'echo 2'")]


def test_every_printed_command_is_one_that_inv_knows() -> None:
    from stoker.tasks import bundled

    tasks = {name.replace("_", "-"): task for name, task in bundled().tasks.items()}
    for name, verb in IN_BOOKS.items():
        args = {flag.name: _some(flag.kind) for flag in verb.flags}
        args |= {"cmd": "true"} if name in ("command", "shell") else {}
        line = by_hand(name, ["h"], args)
        if not line:
            continue
        words = shlex.split(line)
        known = {flag for arg in tasks[words[1]].get_arguments() for flag in arg.names}
        used = {word[2:].replace("-", "_") for word in words[2:] if word.startswith("--")}
        assert used <= {flag.replace("-", "_") for flag in known}, (line, known)


def _some(kind: str) -> Any:
    return {"list": ["x"], "flag": True, "whole": 2, "number": 2.0}.get(kind, "x")


@pytest.mark.parametrize(
    ("task", "line", "what"),
    [
        ("restart: {profile: nosuch}", 3, "nosuch"),
        ("restart: {profile: '{{ item }}'}\n      loop: [one, nosuch]", 3, "nosuch"),
        ("restart: {profile: '{{ tuning }}'}\n      vars: {tuning: nosuch}", 3, "nosuch"),
        ("start: {profile: [one, same-slot]}", 3, "two profiles for slot"),
        ("start:", 3, "no profile is named"),
        ("restart: {profile: nosuch}\n      when: inventory_hostname == 'b'", 3, "nosuch"),
    ],
)
def test_a_wrong_server_is_found_before_anything_is_connected(
    books: Books, task: str, line: int, what: str
) -> None:
    books.folder.write("profiles/one.yml", PROFILE.replace("NAME", "slot"))
    books.folder.write("profiles/same-slot.yml", PROFILE.replace("NAME", "slot"))
    with pytest.raises(ConfigError) as caught:
        books.run(f"- hosts: a,b\n  tasks:\n    - {task}\n    - command: 'true'\n")
    assert any(what in str(problem) and problem.line == line for problem in caught.value.problems)
    assert books.connected == []


@pytest.mark.parametrize(
    "task",
    [
        "restart: {profile: nosuch}\n      when: inventory_hostname == 'c'",
        "restart: {profile: '{{ chosen }}'}\n      when: chosen is defined",
        "restart: {profile: '{{ item }}'}\n      loop: \"{{ said.results | default([]) }}\"",
    ],
)
def test_what_only_the_run_can_tell_is_no_mistake(books: Books, task: str) -> None:
    report = books.run(
        f"- hosts: a,b\n  tasks:\n    - command: 'true'\n      register: said\n    - {task}\n"
        "    - set_fact: {chosen: x}\n"
    )
    assert report.exit_code == 0


def test_a_profile_that_turns_out_unknown_fails_its_host(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  tasks:\n    - shell: echo nosuch\n      register: said\n"
        "    - restart: {profile: '{{ said.stdout }}'}\n"
    )
    assert report.exit_code == 3
    error = report.parts["a"].error
    assert error is not None
    assert error.what.startswith("book.yml:5: restart: ")
    assert "nosuch" in error.what


@pytest.mark.parametrize(
    ("hosts", "options", "what"),
    [
        ("nosuch", {}, "nosuch"),
        ("all", {"limit": ("node",)}, "node"),
        ("a", {"limit": ("b",)}, "--limit leaves no host"),
        ("a", {"tags": frozenset(("frist",))}, "no task of book.yml has the tag 'frist'"),
        ("'{{ nosuch }}'", {}, "'nosuch' is undefined"),
    ],
)
def test_nothing_to_run_is_wrong_input(
    books: Books, hosts: str, options: Mapping[str, Any], what: str
) -> None:
    with pytest.raises(InputError, match=what):
        books.run(f"- hosts: {hosts}\n  tasks:\n    - command: 'true'\n      tags: first\n", **options)
    assert books.connected == []


def test_a_host_whose_connection_is_misconfigured_is_wrong_input(books: Books) -> None:
    books.folder.hosts({"a": {**HERE, "ansible_port": "ssh"}})
    with pytest.raises(InputError, match="port"):
        books.run("- hosts: a\n  tasks: [{command: 'true'}]\n")


def test_hosts_may_be_named_by_variables(books: Books) -> None:
    text = "- hosts: \"{{ target | default('a') }}\"\n  vars: {x: 1}\n  tasks: [{debug: }]\n"
    books.run(text)
    books.run(text, extra={"target": ["b", "c"]})
    assert [hosts for _, hosts in books.heard.plays] == [["a"], ["b", "c"]]


def test_localhost_needs_no_inventory_entry(books: Books) -> None:
    report = books.run("- hosts: localhost\n  tasks: [{command: 'true'}]\n")
    assert (report.exit_code, books.connected) == (0, ["localhost"])


def test_a_pause_is_made_once_for_all_hosts_and_registered_on_each(books: Books) -> None:
    books.run(
        "- hosts: a,b,c\n  tasks:\n    - pause: {seconds: 0.01}\n      register: waited\n"
        "    - assert: {that: waited.seconds == 0.01}\n"
    )
    assert [host for host, task, _ in books.heard.results if task == "pause"] == ["a"]
    assert [result.status for _, task, result in books.heard.results if task == "assert"] == ["ok"] * 3


def test_what_is_registered_of_a_command_is_documented(books: Books) -> None:
    books.run("- hosts: a\n  tasks: [{name: x, shell: 'printf \"1\\n2\\n\\n\"; echo e >&2'}]\n")
    data = books.heard.result("a", "x").data
    assert {name: data[name] for name in ("rc", "stdout", "stderr", "changed", "failed", "msg")} == {
        "rc": 0,
        "stdout": "1\n2",
        "stderr": "e",
        "changed": True,
        "failed": False,
        "msg": "",
    }
    assert (data["stdout_lines"], data["stderr_lines"]) == (["1", "2"], ["e"])


def test_a_failed_command_shows_its_last_words_and_where_it_stands(books: Books) -> None:
    report = books.run("- hosts: a\n  tasks:\n    - {name: try it, shell: 'echo gone wrong >&2; exit 7'}\n")
    error = report.parts["a"].error
    assert error is not None
    assert (error.what, error.evidence) == ("book.yml:3: try it: exit code 7", ("gone wrong",))
    assert error.next_step == "inv play book.yml --resume"


def test_a_program_that_is_not_there_fails_the_host(books: Books) -> None:
    report = books.run("- hosts: a\n  tasks: [{name: x, command: no-such-program}]\n")
    assert report.exit_code == 3
    assert "no-such-program" in books.heard.result("a", "x").data["msg"]


def test_a_command_past_its_time_is_ended_on_the_host(books: Books, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    report = books.run(
        f"- hosts: a\n  tasks:\n    - {{name: x, shell: 'echo $$ > {pid}; exec sleep 60', timeout: 0.5}}\n"
    )
    assert report.exit_code == 3
    assert books.heard.result("a", "x").data["kind"] == "timeout"
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_an_assertion_names_the_expression_and_says_the_message(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  vars: {speed: 62.9}\n  tasks:\n"
        "    - assert: {that: [true, speed > 80], fail_msg: 'only {{ speed }} tok/s'}\n"
    )
    error = report.parts["a"].error
    assert error is not None
    assert error.what == "book.yml:4: assert: only 62.9 tok/s"
    assert error.evidence == ("false: speed > 80",)
    assert books.heard.result("a", "assert").data["assertion"] == "speed > 80"


def test_nothing_of_a_task_with_no_log_is_told(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  vars: {hide: true, key: abc123}\n  tasks:\n"
        "    - {name: quiet, shell: 'echo {{ key }}; exit {{ item }}', loop: [0, 1], no_log: '{{ hide }}',"
        " register: r}\n"
    )
    result = books.heard.result("a", "quiet")
    assert result.hidden
    assert books.heard.tasks == [("quiet", ["inv exec --host a (arguments not shown: no_log)"])]
    assert books.heard.rounds == [("a", "")]
    error = report.parts["a"].error
    assert error is not None
    assert "abc123" not in f"{error} {error.evidence} {error.next_step}"


def test_no_log_hides_everywhere_in_the_real_command(books: Books) -> None:
    books.folder.write(
        "playbooks/quiet.yml",
        "- hosts: a\n  vars: {key: abc123}\n  tasks:\n"
        "    - {name: ok, command: 'echo {{ key }}', no_log: true, register: r}\n"
        "    - {name: bad, shell: 'echo {{ key }} >&2; exit 1', no_log: true}\n",
    )
    ended = books.folder.inv("play", "quiet", "--json")
    assert ended.code == 3, ended.text
    assert "abc123" not in ended.text
    tasks = ended.json["plays"][0]["tasks"]
    assert [sorted(task["hosts"]["a"]) for task in tasks] == [["seconds", "status"]] * 2


def test_the_json_document_has_plays_results_and_recap(books: Books) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- name: First\n  hosts: a,b\n  tasks:\n"
        "    - {name: 'say {{ x }}', command: echo hello, register: r}\n"
        "    - {fail: {msg: no}, when: inventory_hostname == 'b'}\n",
    )
    ended = books.folder.inv("play", "book", "--json", "--extra-var", "x=it")
    assert ended.code == 3, ended.text
    document = ended.json
    assert (document["command"], document["exit_code"]) == ("play", 3)
    task = document["plays"][0]["tasks"][0]
    assert (task["name"], task["module"], task["at"]) == ("say it", "command", "playbooks/book.yml:4")
    assert task["hosts"]["a"]["result"]["stdout"] == "hello"
    assert task["hosts"]["a"]["command"] == "inv exec --host a --cmd 'echo hello'"
    assert document["recap"]["b"] == {
        **dict.fromkeys(COUNTED, 0),
        "ok": 1,
        "changed": 1,
        "failed": 1,
    }
    assert document["hosts"]["a"] == {"status": "ok"}
    assert document["hosts"]["b"]["error"]["what"] == "playbooks/book.yml:5: fail: no"


def test_the_screen_shows_each_step_and_the_recap(books: Books) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- hosts: a,gone\n  tasks:\n    - command: echo hello\n    - debug: {msg: '{{ 1 + 1 }}'}\n",
    )
    ended = books.folder.inv("play", "playbooks/book.yml")
    assert ended.code == 4, ended.text
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "TASK command inv exec --host a,gone --cmd 'echo hello'" in lines
    assert "RECAP ok changed failed unreachable skipped rescued ignored" in lines
    assert "a 2 1 0 0 0 0 0" in lines
    assert "gone 0 0 0 1 0 0 0" in lines
    assert "error gone: playbooks/book.yml:3: command: " in ended.err


def test_mistakes_of_a_book_end_with_2_and_every_line(books: Books) -> None:
    books.folder.write("playbooks/book.yml", "- hosts: a\n  throttle: 1\n  tasks:\n    - {comand: x}\n")
    ended = books.folder.inv("play", "book")
    assert ended.code == 2
    assert "playbooks/book.yml:2: throttle is not supported" in ended.err
    assert "did you mean 'command'?" in ended.err


def test_lists_connect_nothing(books: Books) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- name: First\n  hosts: all\n  tasks:\n    - {name: one, command: x, tags: t}\n    - debug:\n",
    )
    ended = books.folder.inv(
        "play", "book", "--list-tasks", "--list-hosts", "--limit", "a,gone", "--tags", "t", "--json"
    )
    assert ended.code == 0, ended.text
    assert ended.json["plays"] == [
        {
            "name": "First",
            "at": "playbooks/book.yml:1",
            "hosts": ["a", "gone"],
            "tasks": [{"name": "one", "module": "command", "at": "playbooks/book.yml:4", "tags": ["t"]}],
        }
    ]


def test_ctrl_c_ends_the_step_on_the_host_and_the_book(books: Books, tmp_path: Path) -> None:
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    books.folder.write(
        "playbooks/book.yml",
        f"- hosts: a\n  tasks:\n    - shell: echo $$ > {fifo}; exec sleep 600\n    - debug: {{msg: on}}\n",
    )
    process = books.folder.start("play", "book", "--json")
    pid = fifo.read_text().strip()  # the step has begun
    os.kill(process.pid, 2)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert not Path("/proc", pid).exists()
    assert '"status": "interrupted"' in out
    assert "TASK debug" not in err


def test_ctrl_c_says_of_each_host_whether_the_book_was_through_with_it(books: Books, tmp_path: Path) -> None:
    fifo = tmp_path / "begun"
    os.mkfifo(fifo)
    books.folder.write(
        "playbooks/book.yml",
        "- hosts: c\n  tasks: [{debug: }]\n"
        f"- hosts: a,b\n  serial: 1\n  tasks:\n    - block: [{{shell: exit 3}}]\n"
        f"      rescue: [{{shell: 'echo $$ > {fifo}; exec sleep 600'}}]\n",
    )
    process = books.folder.start("play", "book", "--json")
    fifo.read_text()  # the step has begun
    os.kill(process.pid, 2)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    hosts = {name: host["status"] for name, host in json.loads(out)["hosts"].items()}
    assert hosts == {"c": "ok", "a": "interrupted", "b": "interrupted"}
    assert "lost" not in err  # it was not for lost hosts that the book ended
    assert "what had begun on a host was ended, launched servers go on" in err


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_ctrl_c_ends_a_pause(books: Books, monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    def begin(*_: object) -> bool:
        books.stop.set()
        return True

    monkeypatch.setattr(books.heard, "begin", begin)
    report = books.run(f"- hosts: a,b\n  strategy: {strategy}\n  tasks: [{{pause: {{minutes: 10}}}}]\n")
    assert report.exit_code == 130
    assert {part.status for part in report.parts.values()} == {"interrupted"}


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_ctrl_c_says_what_it_could_not_end(books: Books, tmp_path: Path, strategy: str) -> None:
    with SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}) as server:
        books.folder.hosts({"box": server.variables()})
        fifo = tmp_path / "begun"
        os.mkfifo(fifo)
        shell = f"echo $$ > {fifo}; exec sleep 600"
        book = f"- hosts: box\n  strategy: {strategy}\n  tasks: [{{shell: '{shell}'}}]\n"
        books.folder.write("playbooks/book.yml", book)
        process = books.folder.start("play", "book", "--json")
        pid = int(fifo.read_text())
        server.signal_sessions(signal.SIGSTOP)
        for _ in range(2):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.3)  # two at once are one
        out, err = process.communicate(timeout=30)
        os.kill(pid, signal.SIGKILL)
    assert process.returncode == 130, out + err
    assert json.loads(out)["hosts"] == {"box": {"status": "interrupted"}}
    assert "cut short: what was begun there may still go on" in err
    assert "of box: see above" in err


def test_hosts_that_hang_at_the_end_of_a_book_are_waited_for_side_by_side(
    books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.reach.client.GOODBYE_S", 1.0)
    names = [f"h{number}" for number in range(8)]
    hung_at = []
    with SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}) as server:
        books.folder.hosts({name: server.variables() for name in names})

        def begin(task: Task, *_: object) -> bool:
            if task.module == "debug":
                server.signal_sessions(signal.SIGSTOP)
                hung_at.append(time.monotonic())
            return True

        monkeypatch.setattr(books.heard, "begin", begin)
        report = books.run(f"- hosts: {','.join(names)}\n  tasks: [{{shell: 'true'}}, {{debug: }}]\n")
        took_s = time.monotonic() - hung_at[0]
    assert report.exit_code == 0
    assert took_s < 6  # one behind the other they take 8 s


def test_a_book_runs_over_one_login_to_a_real_sshd(books: Books, tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}) as server:
        books.folder.hosts({"box": server.variables()})
        report = books.run(
            "- hosts: box\n  tasks:\n    - {command: echo one, register: r}\n"
            "    - {shell: 'echo {{ r.stdout }} >&2; cat', args: {stdin: two}, register: r}\n"
            "    - {assert: {that: [r.stderr == 'one', r.stdout == 'two']}}\n"
            "- hosts: box\n  tasks: [{command: 'true'}]\n"
        )
        assert report.exit_code == 0, report.parts["box"].error
        assert server.log.read_text().count("Accepted publickey") == 1


def test_a_verb_with_a_time_limit_ends_in_time(books: Books) -> None:
    host = Host("a", HERE, (), "")
    session = Session(host, lambda one: Reach(ReachSettings()).connect(target_of(one)), books.heard.event)
    try:
        session.call("exec", {"argv": ["true"]})
        timed = Timed(session, 0.3)
        with pytest.raises(HostFailed) as caught:
            timed.call("exec", {"argv": ["sleep", "60"]})
        assert caught.value.kind == "timeout"
        with pytest.raises(HostFailed, match="not done after"):
            timed.call("exec", {"argv": ["true"]})
        assert session.call("exec", {"argv": ["true"]})["rc"] == 0
    finally:
        session.close()


@pytest.mark.parametrize(
    ("left", "code"),
    [
        ({"a": (None, 0), "b": (None, 5)}, 5),
        ({"a": (HostUnreachable("x", host="a", kind="lost"), 5), "b": (None, 5)}, 4),
        (
            {
                "a": (HostUnreachable("x", host="a", kind="lost"), 0),
                "b": (HostFailed("x", host="b", kind="x"), 0),
            },
            3,
        ),
        ({"a": (StokerError("a fault"), 0), "b": (None, 5)}, 1),
    ],
)
def test_the_worst_host_gives_the_exit_code(
    left: dict[str, tuple[StokerError | None, int]], code: int
) -> None:
    def never(host: Host) -> Agent:
        raise AssertionError(host)

    report = Report()
    for name, (error, verdict) in left.items():
        session = Session(Host(name, {}, (), ""), never, lambda host, event: None)
        report.parts[name] = Part(session, error=error, code=verdict)
    assert report.exit_code == code
    report.interrupted = True
    assert report.exit_code == 130


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["a=1", "b=x y=z"], {"a": "1", "b": "x y=z"}),
        (['{"a": 1, "b": [true]}'], {"a": 1, "b": [True]}),
        (["{a: 1}", "a=2"], {"a": "2"}),
        (["@more.yml"], {"w": 1}),
        (["a="], {"a": ""}),
    ],
)
def test_extra_variables_are_pairs_mappings_or_files(
    tmp_path: Path, texts: list[str], found: dict[str, Any]
) -> None:
    (tmp_path / "more.yml").write_text("w: 1\n")
    assert extravars.parse(texts, tmp_path) == found


@pytest.mark.parametrize("text", ["a", "1a=1", "item=1", "{a: {{ x }}", "@nosuch.yml", "a={{ x", "{a}}: 1"])
def test_a_wrong_extra_variable_is_wrong_input(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        extravars.parse([text], tmp_path)
