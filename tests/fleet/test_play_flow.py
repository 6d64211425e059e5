"""What a playbook's run leaves behind and takes up again; handlers that are lost; who asks, who is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.errors import ConfigError, InputError
from tests.fleet.conftest import Books

THREE = """\
- hosts: a,b
  tasks:
    - {{name: one, shell: 'echo {{{{ inventory_hostname }}}} >> {log}', register: said}}
    - {{name: two, shell: 'echo word; test -e {flag} -o {{{{ inventory_hostname }}}} = a', register: said}}
    - {{name: three, shell: 'echo {{{{ said.stdout }}}} >> {log}'}}
"""


@pytest.fixture
def three(tmp_path: Path) -> tuple[str, Path, Path]:
    """A book whose second task fails on b until a file is there; that file, and what it writes."""
    flag, log = tmp_path / "flag", tmp_path / "log"
    return THREE.format(flag=flag, log=log), flag, log


def test_a_run_is_taken_up_at_each_hosts_first_unfinished_step(
    books: Books, three: tuple[str, Path, Path]
) -> None:
    text, flag, log = three
    first = books.run(text)
    assert first.exit_code == 3
    assert sorted(log.read_text().split()) == ["a", "b", "word"]
    flag.touch()
    again = books.resume(text)
    assert again.exit_code == 0, again.parts["b"].error
    assert sorted(log.read_text().split()) == [
        "a",
        "b",
        "word",
        "word",
    ]  # three of b, which is told what two said
    assert [part.recap["ok"] for part in again.parts.values()] == [3, 3]
    assert books.connected == ["a", "b", "b"]


def test_a_book_may_be_corrected_behind_the_step_that_failed(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    head = f"- hosts: a\n  tasks:\n    - {{name: one, shell: 'echo one >> {log}'}}\n"
    assert books.run(head + "    - {name: two, command: 'false'}\n").exit_code == 3
    assert books.resume(head + "    - {name: two, command: 'true'}\n").exit_code == 0
    assert log.read_text().split() == ["one"]


def test_a_rescued_failure_is_not_done_again(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = (
        f"- hosts: a\n  tasks:\n    - block:\n        - shell: echo try >> {log}; exit 1\n"
        f"      rescue:\n        - shell: echo save >> {log}\n    - shell: test -e {tmp_path}/flag\n"
    )
    assert books.run(text).exit_code == 3
    (tmp_path / "flag").touch()
    again = books.resume(text)
    assert (again.exit_code, again.parts["a"].recap["rescued"]) == (0, 1)
    assert log.read_text().split() == ["try", "save"]


def test_handlers_that_were_asked_for_before_are_run_after_it(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = (
        f"- hosts: a\n  handlers:\n    - {{name: reload, shell: 'echo reload >> {log}'}}\n  tasks:\n"
        f"    - {{command: 'true', notify: reload}}\n    - shell: test -e {tmp_path}/flag\n"
    )
    first = books.run(text)
    assert first.parts["a"].pending == ("reload",)
    assert not log.exists()
    (tmp_path / "flag").touch()
    assert books.resume(text).parts["a"].pending == ()
    assert log.read_text().split() == ["reload"]


def test_what_no_log_hides_is_not_written_and_done_again(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = (
        f"- hosts: a\n  tasks:\n    - shell: echo abc123; echo x >> {log}\n"
        "      no_log: true\n      register: r\n"
        f"    - shell: test -e {tmp_path}/flag\n"
    )
    books.run(text)
    (written,) = (books.folder.root / ".stoker" / "plays").iterdir()
    assert "abc123" not in written.read_text()
    assert written.stat().st_mode & 0o777 == 0o600
    (tmp_path / "flag").touch()
    assert books.resume(text).exit_code == 0
    assert log.read_text().split() == ["x", "x"]


@pytest.mark.parametrize(
    ("before", "options", "what"),
    [
        ("", {}, "was not run before"),
        ("- hosts: a\n  tasks: [{debug: }]\n", {}, "was finished"),
        ("- hosts: a\n  tasks: [{fail: }]\n", {"extra": {"x": "1"}}, "other options: --extra-var"),
    ],
)
def test_what_cannot_be_resumed_is_wrong_input(
    books: Books, before: str, options: dict[str, object], what: str
) -> None:
    if before:
        books.run(before)
    with pytest.raises(InputError, match=what):
        books.resume(before or "- hosts: a\n  tasks: [{debug: }]\n", **options)


def test_a_damaged_journal_is_told_with_its_line_and_a_cut_off_one_is_read(books: Books) -> None:
    text = "- hosts: a\n  tasks: [{debug: }, {fail: }]\n"
    books.run(text)
    (log,) = (books.folder.root / ".stoker" / "plays").iterdir()
    rows = log.read_text().splitlines(keepends=True)
    log.write_text("".join(rows[:-1]) + '{"host": "a", "st')
    assert books.resume(text).exit_code == 3
    rows = log.read_text().splitlines(keepends=True)
    log.write_text("".join([rows[0], "{]\n", *rows[1:]]))
    with pytest.raises(InputError, match="damaged") as caught:
        books.resume(text)
    assert caught.value.where.endswith(":2")


def test_a_mistake_in_an_included_file_is_told_there_and_connects_nothing(books: Books) -> None:
    books.folder.write("playbooks/steps/more.yml", "- debug: {mgs: x}\n- include_tasks: more.yml\n")
    with pytest.raises(ConfigError) as caught:
        books.run("- hosts: a\n  tasks:\n    - command: 'true'\n    - include_tasks: steps/more.yml\n")
    told = [str(problem) for problem in caught.value.problems]
    assert any("steps/more.yml:1" in line and "msg" in line for line in told), told
    assert any("steps/more.yml:2" in line and "includes itself" in line for line in told), told
    assert books.connected == []


def test_a_host_that_is_lost_in_a_rescue_does_not_go_on(books: Books) -> None:
    report = books.run(
        "- hosts: a,gone\n  tasks:\n    - block:\n        - fail:\n      rescue:\n"
        "        - {name: saving, command: 'true'}\n      always:\n        - {name: last, debug: }\n"
    )
    assert report.exit_code == 4
    assert report.parts["gone"].recap["unreachable"] == 1
    assert [host for host, task, _ in books.heard.results if task == "last"] == ["a"]


def test_a_template_that_breaks_in_the_middle_fails_its_host_at_its_line(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  tasks:\n    - debug:\n    - debug: {msg: '{{ 1 / (hostvars.a.nosuch) }}'}\n"
    )
    error = report.parts["a"].error
    assert error is not None
    assert report.exit_code == 3
    assert error.what.startswith("book.yml:4: debug: ")
    assert "nosuch" in error.what


def test_a_template_for_serial_that_gives_no_number_starts_nothing(books: Books) -> None:
    with pytest.raises(InputError, match="neither a number of hosts nor a percentage"):
        books.run("- hosts: a\n  serial: '{{ many }}'\n  vars: {many: some}\n  tasks: [{command: 'true'}]\n")
    assert books.connected == []


def test_tries_are_told_and_the_last_failure_names_the_condition(books: Books) -> None:
    report = books.run(
        "- hosts: a\n  tasks:\n"
        "    - {name: x, debug: , until: r.msg == 'y', retries: 2, delay: 0, register: r}\n"
    )
    assert books.heard.tries == [("a", 2), ("a", 1)]
    error = report.parts["a"].error
    assert error is not None
    assert "r.msg == 'y'" in error.what


def test_a_command_by_hand_says_as_whom_where_and_with_what(books: Books) -> None:
    books.run(
        "- hosts: a\n  tasks:\n    - name: x\n      shell: echo $X; id -un\n      delegate_to: b\n"
        "      environment: {X: 'one two'}\n      register: r\n    - {debug: {var: r.stdout}}\n"
    )
    assert books.heard.tasks[0] == (
        "x",
        ["inv exec --host b --cmd 'export X='\"'\"'one two'\"'\"'; echo $X; id -un'"],
    )
    assert books.heard.result("a", "x").data["stdout_lines"][0] == "one two"


def test_as_the_user_that_it_is_already_nothing_is_asked_of_sudo(books: Books) -> None:
    import getpass

    books.run(
        f"- hosts: a\n  become: true\n  become_user: {getpass.getuser()}\n  tasks:\n"
        "    - {name: x, command: 'sh -c \"id -un\"'}\n"
    )
    assert books.heard.result("a", "x").data["stdout"] == getpass.getuser()


def test_hosts_of_a_free_play_do_not_wait_for_each_other(books: Books, tmp_path: Path) -> None:
    log = tmp_path / "log"
    books.run(
        f"- hosts: a,b\n  strategy: free\n  tasks:\n"
        f"    - shell: while ! test -e {log}; do sleep 0.05; done\n      when: inventory_hostname == 'a'\n"
        f"      timeout: 20\n    - shell: echo {{{{ inventory_hostname }}}} >> {log}\n"
    )
    assert log.read_text().split() == ["b", "a"]


def test_lists_and_checks_and_the_page_connect_nothing(books: Books) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- name: First\n  hosts: a,gone\n  serial: 1\n  handlers: [{name: h, command: reload}]\n  tasks:\n"
        "    - block:\n"
        "        - {name: 'say {{ x }}', command: 'echo {{ x }}', notify: h, when: x is defined}\n"
        "      rescue:\n        - {name: save, shell: 'echo {{ ansible_failed_result.msg }}'}\n",
    )
    page = books.folder.inv("play", "book", "--runbook", "--extra-var", "x=hello")
    assert page.code == 0, page.text
    for words in (
        "# First",
        "Hosts: a, gone, 1 at a time.",
        "1. say hello (only if `x is defined`)",
        "inv exec --host a,gone --cmd 'echo hello'",
        "**If one of these fails:**",
        "echo {{ ansible_failed_result.msg }}",
        "**At the end, where a step above has asked for it:**",
    ):
        assert words in page.out, page.text
    checked = books.folder.inv("play", "book", "--syntax-check")
    assert checked.code == 0, checked.text
    assert "1 play, 2 tasks, no mistake" in checked.out
    refused = books.folder.inv("play", "book", "--step")
    assert refused.code == 2, refused.text
    assert "nobody is there to be asked" in refused.err
    untagged = books.folder.inv("play", "book", "--tags", "", "--list-tasks")
    assert untagged.code == 2, untagged.text
    assert "no tag is named" in untagged.err


def test_the_page_has_the_commands_of_each_host_and_of_each_round(books: Books) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- hosts: a,b\n  pre_tasks: [debug: {msg: begin}]\n  tasks:\n"
        "    - {name: 'on {{ inventory_hostname }}', command: 'touch {{ inventory_hostname }}'}\n"
        "    - {command: 'echo {{ item.x }}', loop: [{x: 1}, {x: two}], environment: {X: y}}\n"
        "    - shell: echo 'it is {{ unknown.stdout }}'\n"
        "    - {command: echo here, delegate_to: localhost}\n"
        "    - {command: echo willing, when: inventory_hostname != 'a'}\n"
        "    - {debug: {msg: 'of {{ inventory_hostname }}'}}\n",
    )
    page = books.folder.inv("play", "book", "--runbook")
    assert page.code == 0, page.text
    for words in (
        "2. on {{ inventory_hostname }}\n",
        "inv exec --host a --cmd 'touch a'\n   inv exec --host b --cmd 'touch b'\n",
        'for each of `{"x": 1}`, `{"x": "two"}`',
        "inv exec --host a,b --cmd 'export X=y; echo 1'\n",
        "inv exec --host a,b --cmd 'export X=y; echo two'\n",
        "inv exec --host b --cmd 'echo willing'\n",
        """inv exec --host a,b --cmd 'echo '"'"'it is {{ unknown.stdout }}'"'"''""",
        "inv exec --host localhost --cmd 'echo here'\n",
        "Look at: of {{ inventory_hostname }}",
    ):
        assert words in page.out, page.text
    listed = books.folder.inv("play", "book", "--list-tasks", "--json").json["plays"][0]["tasks"]
    assert [task["module"] for task in listed] == [
        "debug",
        *["command"] * 2,
        "shell",
        *["command"] * 2,
        "debug",
    ]


def test_a_run_of_the_command_can_be_resumed_and_says_what_was_lost(books: Books, tmp_path: Path) -> None:
    books.folder.write(
        "playbooks/book.yml",
        "- hosts: a\n  handlers: [{name: reload it, debug: }]\n  tasks:\n"
        f"    - {{command: 'true', notify: reload it}}\n    - shell: test -e {tmp_path}/flag\n",
    )
    first = books.folder.inv("play", "book", "--json")
    assert first.code == 3, first.text
    assert first.json["hosts"]["a"]["pending"] == ["reload it"]
    assert "handlers that did not run: reload it" in first.err
    (tmp_path / "flag").touch()
    again = books.folder.inv("play", "book", "--resume", "--json")
    assert again.code == 0, again.text
    assert again.json["recap"]["a"]["ok"] == 3
    rows = [
        json.loads(line) for path in (books.folder.root / ".stoker/plays").iterdir() for line in path.open()
    ]
    assert rows[-1]["end"] == 0
    assert [row["status"] for row in rows if "step" in row] == ["changed", "failed", "changed", "ok"]


def test_each_host_tells_what_it_does_now_also_once_it_is_connected(books: Books) -> None:
    books.run(
        "- hosts: a\n  tasks:\n    - {name: Look, command: 'true'}\n    - {command: 'true', no_log: true}\n"
    )
    doing = [event["name"] for host, event in books.heard.events if event["type"] == "activity"]
    assert doing[:3] == ["Look", "connecting", "Look"]
    assert set(doing[3:]) <= {"command"}
