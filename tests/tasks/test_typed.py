"""What cannot be read of a command line is named, with what to type instead; nothing is begun."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from invoke.program import Program

from stoker.tasks import console
from tests.e2e.project import TASKS, ProjectFolder

OWN_TASK = """
from invoke.tasks import task

@task
def mine(c, size=1):
    print('mine', size)

ns.add_task(mine)
"""


class Typist:
    """Types in a project, in this process; every call is a new program, as ``inv`` is."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def type(self, *words: str, program: str = "inv") -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self.monkeypatch.setattr(sys, "argv", [program, *words])
        kinds = {"inv": Program, "stoker": console.StokerProgram}
        try:
            kinds[program](binary=program, binary_names=[program]).run([program, *words])
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        told = self.capsys.readouterr()
        return code, told.out, told.err


def test_a_list_of_hosts_is_no_inventory_and_says_where_it_goes(typist: Typist) -> None:
    code, _, err = typist.type("ping", "--inventory", "10.0.0.1,10.0.0.2,")
    assert code == 2
    assert "--host 10.0.0.1,10.0.0.2," in err


@pytest.fixture
def typist(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typist:
    ProjectFolder(tmp_path).write("tasks.py", TASKS + OWN_TASK)
    monkeypatch.chdir(tmp_path)
    return Typist(capsys, monkeypatch)


WRONG = {
    "doctorr": ("there is no command 'doctorr'", "did you mean 'doctor'?"),
    "reboot": ("there is no command 'reboot'", "did you mean 'lab.reboot'?"),
    "qqqqq": ("there is no command 'qqqqq'", "inv --list names every command"),
    "--help doctorr": ("there is no command 'doctorr'", "did you mean 'doctor'?"),
    "--inventory x hosts": ("no flag '--inventory' before a command", "inv status --inventory"),
    "restart --hots a": ("restart has no flag '--hots'", "did you mean '--host'?"),
    "restart node174": ("restart takes no word 'node174'", "inv restart --host node174"),
    "restart --host a benhc": ("restart takes no word 'benhc'", "did you mean the command 'bench'?"),
    "exec uptime": ("exec takes no word 'uptime'", "inv exec --cmd uptime"),
    "put a.md /b.md": ("put takes no word 'a.md'", "inv put --src a.md"),
    "lab.reboot --inventory x": ("lab.reboot has no flag '--inventory'", "--host"),
    "bench --launches": ("bench: --launches needs a value", "inv --help bench"),
    "play book --limit": ("play: --limit needs a value", "inv --help play"),
    "play book --limit --list-hosts": ("play: --limit needs a value", "inv --help play"),
    "hosts --host a --host --graph": ("hosts: --host needs a value", "inv --help hosts"),
    "compare one": ("compare needs B", "inv compare A B"),
    "show": ("show needs RUN-ID", "inv show RUN-ID"),
    "play --chekc book": ("play has no flag '--chekc'", "did you mean '--check'?"),
    "init --forse": ("init has no flag '--forse'", "inv --help init"),
    "mine --sizes 3": ("mine has no flag '--sizes'", "did you mean '--size'?"),
}


@pytest.mark.parametrize("typed", WRONG)
def test_a_mistake_is_named_with_what_to_type(typist: Typist, tmp_path: Path, typed: str) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, err = typist.type(*typed.split())
    what, after = WRONG[typed]
    assert code == 2, err
    assert what in err.splitlines()[0], err
    assert after in err.splitlines()[-1], err
    assert err.splitlines()[-1].startswith("  next: ")
    assert not out
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("typed", "after"),
    [
        ("capture --host node174", "inv capture --host node174 --name PROFILE"),
        ("exec", "inv exec --host NAME --cmd 'uptime'"),
        ("get --host a --json", "inv get --host a --json --src /PATH"),
        ("put --src 'a b' --host a", "inv put --src 'a b' --host a --dest "),
        ("lab.reboot", "inv lab.reboot --host node174"),
    ],
)
def test_what_a_command_lacks_is_added_to_what_was_typed(
    typist: Typist, tmp_path: Path, typed: str, after: str
) -> None:
    ProjectFolder(tmp_path).hosts({"node174": {}, "a": {}})
    code, _, err = typist.type(*shlex.split(typed))
    assert code == 2
    assert f"  next: {after}" in err


@pytest.mark.parametrize("typed", ["init --help", "--help init", "init -h", "help init", "init x --help"])
def test_help_is_help_wherever_it_stands(typist: Typist, tmp_path: Path, typed: str) -> None:
    before = sorted(tmp_path.iterdir())
    code, out, err = typist.type(*typed.split())
    assert (code, err) == (0, "")
    assert out.startswith("Usage: inv init FOLDER [--flags]\n")
    assert "--schemas" in out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert sorted(tmp_path.iterdir()) == before, "a folder of that name was made"


@pytest.mark.parametrize("words", [(), ("help",)])
@pytest.mark.parametrize("program", ["inv", "stoker"])
def test_nothing_typed_tells_where_to_begin(typist: Typist, program: str, words: tuple[str, ...]) -> None:
    code, out, err = typist.type(*words, program=program)
    assert (code, err) == (0, "")
    assert f"{program} --list " in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_help_of_the_program_begins_with_where_to_begin(typist: Typist) -> None:
    code, out, err = typist.type("--help", program="stoker")
    assert (code, err) == (0, "")
    first, _, flags = out.partition("Core options:")
    assert "stoker --list " in first
    assert "--version" in flags


def test_a_program_reads_the_mistake_as_json(typist: Typist) -> None:
    code, out, _ = typist.type("doctorr", "--json", program="stoker")
    document = json.loads(out)
    assert code == document["exit_code"] == 2
    assert document["error"]["what"] == "there is no command 'doctorr'"
    assert "'doctor'" in document["error"]["next"]


@pytest.mark.parametrize(
    ("typed", "after"),
    [
        ("exec --cmd uptime", "inv exec --cmd uptime --host NAME"),
        ("restart --profile x --check", "inv restart --profile x --check --host NAME"),
        ("stop --forks=2", "inv stop --forks=2 --host NAME"),
        ("stop start", "inv stop --host NAME"),
    ],
)
def test_a_command_without_hosts_is_shown_as_it_was_typed(typist: Typist, typed: str, after: str) -> None:
    code, _, err = typist.type(*typed.split())
    assert code == 2
    assert f"next: {after} (inv hosts" in err


def test_what_is_right_still_runs(typist: Typist) -> None:
    assert typist.type("mine", "--size", "3") == (0, "mine 3\n", "")


def test_a_program_of_somebodys_own_keeps_its_words(typist: Typist) -> None:
    class Own(Program):
        """As Fabric's is."""

    typist.monkeypatch.setattr(sys, "argv", ["own", "doctorr"])
    with pytest.raises(SystemExit) as left:
        Own(binary="own", binary_names=["own"]).run(["own", "doctorr"])
    assert left.value.code == 1
    assert "No idea what" in typist.capsys.readouterr().err
