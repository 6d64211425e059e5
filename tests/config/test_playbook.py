"""Playbooks as people write them: what is read, and what is told about every mistake."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.books import playbook
from stoker.config.books.playbook import Playbook
from stoker.config.books.playbooktree import Entry, Task
from stoker.errors import EXIT_INPUT, ConfigError, InputError
from stoker.fleet.books.verbs import modules
from tests.config.conftest import CASES

BAD = sorted((CASES / "playbook" / "bad").glob("*.yml"))
GOOD = CASES / "playbook" / "good" / "every-keyword.yml"

Written = Callable[[Mapping[str, str]], Path]


def _task(entry: Entry) -> Task:
    """An entry that is no block."""
    assert isinstance(entry, Task)
    return entry


def load(path: Path) -> Playbook:
    return playbook.load(path, modules(), shown=path.name)


def mistakes(path: Path) -> dict[int, list[str]]:
    """Line to what is wrong there."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    found: dict[int, list[str]] = {}
    for problem in caught.value.problems:
        assert problem.file == path.name
        found.setdefault(problem.line, []).append(f"{problem.what} ({problem.hint})")
    assert caught.value.exit_code == EXIT_INPUT
    return found


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_every_marked_mistake_is_told_at_its_line_and_no_other(path: Path) -> None:
    """A case's line says what is expected behind ``# !``: parts separated by ``;``, choices by ``|``."""
    expected = {
        number: line.partition("# ! ")[2].strip()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "# ! " in line
    }
    found = mistakes(path)
    assert sorted(found) == sorted(expected), found
    for line, texts in found.items():
        for part in expected[line].split("; "):
            assert any(choice in text for choice in part.split("|") for text in texts), (line, part, texts)


def test_all_that_is_built_is_read() -> None:
    book = load(GOOD)
    first, last = book.plays
    assert first.hosts == ("all", "!{{ left_out }}")
    assert first.vars == {"left_out": "node175", "word": "{{ later }}", "runs": 3}
    task = _task(first.tasks[0])
    assert task.place == "every-keyword.yml:8"
    assert task.args == {"cmd": "echo {{ item }} NAME=value if=x", "chdir": "/tmp", "stdin": "{{ word }}"}
    assert task.when == ("word is defined", "item != 'three'", True)
    assert task.tags == {"book", "first", "second", "third", "fourth"}
    assert (task.no_log, task.timeout, task.register) == (True, 10, "said")
    assert [_task(task).args for task in last.tasks] == [
        {"cmd": "curl timeout=5 cmd=x verbosity=1"},
        {"msg": "a text with x=1 in it"},
    ]


def test_names_and_words_are_taken_as_they_are_written() -> None:
    tasks = {task.line: task for task in load(GOOD).plays[0].tasks}
    args = [_task(task).args for task in tasks.values()]
    assert {"argv": ["echo", "1.10", "no"]} in args
    assert {"profile": ["1.10", "kimi-k25"]} in args
    assert {"slot": "no"} in args


def test_a_collections_name_of_a_builtin_module_is_the_module() -> None:
    assert [_task(task).module for task in load(GOOD).plays[0].tasks].count("shell") == 1


def test_mistakes_in_a_file_of_variables_are_told_at_that_file(written: Written) -> None:
    folder = written(
        {
            "books/b.yml": "- hosts: all\n  vars_files: [../v.yml, list.yml, broken.yml]\n",
            "v.yml": "a: 1\nb: '{{ x'\n",
            "books/list.yml": "- a\n",
            "books/broken.yml": "a: 1\na: 2\n",
        }
    )
    with pytest.raises(ConfigError) as caught:
        playbook.load(folder / "books/b.yml", modules(), shown="books/b.yml")
    places = {(problem.file, problem.line) for problem in caught.value.problems}
    assert places == {("v.yml", 2), ("books/list.yml", 1), ("books/broken.yml", 2)}


def test_a_later_file_of_variables_beats_an_earlier_one_and_the_plays_own(written: Written) -> None:
    folder = written(
        {
            "b.yml": "- hosts: all\n  vars: {a: play, b: play}\n  vars_files: [one.yml, two.yml]\n",
            "one.yml": "b: one\nc: one\n",
            "two.yml": "c: two\n",
        }
    )
    assert load(folder / "b.yml").plays[0].vars == {"a": "play", "b": "one", "c": "two"}


@pytest.mark.parametrize("name", ["restart", "restart.yml", "playbooks/restart.yml", "playbooks/restart"])
def test_a_book_is_found_by_name_or_path(written: Written, name: str) -> None:
    folder = written({"playbooks/restart.yml": "[]"})
    found = playbook.find(name, folder / "playbooks", folder)
    assert found == folder / "playbooks/restart.yml"


def test_an_unknown_book_is_named_with_the_nearest(written: Written) -> None:
    folder = written({"playbooks/restart-bench.yml": "[]"})
    with pytest.raises(InputError, match="there is no playbook 'restart-bnech'") as caught:
        playbook.find("restart-bnech", folder / "playbooks", folder)
    assert caught.value.next_step == "did you mean 'restart-bench'?"


def test_checking_a_long_book_takes_less_than_a_second(written: Written) -> None:
    task = "    - command: echo {{ item }} number %d\n      when: x == %d\n      loop: [1, 2]\n"
    tasks = "".join(task % (n, n) for n in range(660))
    folder = written({"b.yml": "- hosts: all\n  tasks:\n" + tasks})
    begin = time.process_time()
    assert len(load(folder / "b.yml").plays[0].tasks) == 660
    assert time.process_time() - begin < 5  # a busy machine; alone it is a tenth of that


def test_no_mistake_mentions_python(written: Written) -> None:
    for path in BAD:
        for texts in mistakes(path).values():
            assert not re.search(r"None|NoneType|<class|Traceback|dict|'list'", " ".join(texts)), texts
