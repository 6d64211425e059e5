"""Secrets come from the environment or a command, and from nowhere into a message."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import settings
from stoker.config.secrecy.mask import MASK, Mask
from stoker.config.secrecy.secrets import MAX_BYTES, Secrets
from stoker.config.secrecy.secretsources import FromCommand, FromFile
from stoker.errors import InputError
from stoker.tasks import faults

PATH = {"PATH": os.environ["PATH"]}


def command(code: str) -> list[str]:
    return [sys.executable, "-Sc", code]


def fails(secrets: Secrets, name: str = "TOKEN") -> InputError:
    with pytest.raises(InputError) as caught:
        secrets.value(name, where="profiles/a.yml:3")
    assert caught.value.where == "profiles/a.yml:3"
    assert name in caught.value.what
    return caught.value


def chain(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said += f"{error!r} {vars(error)}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


def test_value_of_the_environment_wins_over_the_command() -> None:
    secrets = Secrets({**PATH, "TOKEN": "a\nb "}, command("print('other')"))
    assert secrets.value("TOKEN", where="") == "a\nb "


def test_command_gets_the_name_last_and_its_first_line_is_the_value() -> None:
    code = "import sys; print(sys.argv[-1] + ' ü', 'more', sep='\\n')"
    assert Secrets(PATH, command(code)).value("hf/TOKEN", where="") == "hf/TOKEN ü"


def test_command_is_asked_once() -> None:
    secrets = Secrets(PATH, command("import time; print(time.time_ns())"))
    assert secrets.value("TOKEN", where="") == secrets.value("TOKEN", where="")


def test_command_that_prints_much_is_not_cut_off() -> None:
    code = "import sys; sys.stdout.write('key\\n' + 'x' * 10**6)"
    assert Secrets(PATH, command(code)).value("TOKEN", where="") == "key"


@pytest.mark.parametrize("written", ["print('key', flush=True)", "print('key', end='', flush=True)"])
def test_command_that_leaves_an_agent_behind_is_not_waited_for(written: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    code = f"""{written}
import os, signal
child = os.fork()
if not child:
    signal.pause()
open({str(agent)!r}, "w").write(str(child))"""
    begin = time.monotonic()
    try:
        assert Secrets(PATH, command(code)).value("TOKEN", where="") == "key"
        assert time.monotonic() - begin < 20  # a command has 30 s
    finally:
        os.kill(int(agent.read_text()), signal.SIGKILL)


def test_missing_secret_names_the_place_and_what_to_do() -> None:
    error = fails(Secrets({}))
    assert "export TOKEN=" in error.next_step
    assert "secret_command" in error.next_step


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import sys; print('hidden'); sys.exit(3)", "ended with 3"),
        ("import sys; sys.stdout.buffer.write(b'hidden\\xff\\n')", "not UTF-8"),
        ("print('hidden\\0')", "NUL"),
        (f"print('hidden' * {MAX_BYTES})", "longer than"),
        ("print()", "is empty"),
        ("pass", "is empty"),
        ("print('hidden', flush=True); import os; os.kill(os.getpid(), 9)", "ended with -9"),
    ],
)
def test_command_that_fails_is_told_without_the_value(code: str, what: str) -> None:
    error = fails(Secrets(PATH, command(code)))
    assert what in error.what
    assert "hidden" not in chain(error)


@pytest.mark.parametrize(
    "code",
    [
        "import time; print('hidden', flush=True); time.sleep(60)",
        "while True: print('hidden' * 1000)",
        "import os; os.close(1); import time; time.sleep(60)",
    ],
)
def test_command_that_goes_on_is_ended(code: str) -> None:
    begin = time.monotonic()
    error = fails(Secrets(PATH, command(code), timeout_s=1.0))
    assert "took longer than 1 s" in error.what
    assert "hidden" not in chain(error)
    assert time.monotonic() - begin < 10


def test_command_that_is_not_there_is_told() -> None:
    assert "cannot be run" in fails(Secrets(PATH, ["/nowhere/pass"])).what


@pytest.mark.parametrize("value", ["hidden\0", "hidden\udc80", "hidden" * MAX_BYTES])
def test_value_that_no_process_can_be_given_is_refused(value: str) -> None:
    assert "hidden" not in chain(fails(Secrets({"TOKEN": value})))


def test_secrets_do_not_show_themselves() -> None:
    assert "hidden" not in repr(Secrets({"TOKEN": "hidden"}))


def from_file(path: Path, timeout_s: float = 30.0) -> Secrets:
    return Secrets(PATH, sources={"TOKEN": FromFile(path)}, timeout_s=timeout_s)


def test_a_named_source_is_asked_before_the_common_command_and_after_the_environment() -> None:
    own = {"TOKEN": FromCommand(tuple(command("print('own')")))}
    common = command("import sys; print('common', sys.argv[-1])")
    secrets = Secrets({**PATH, "SET": "here"}, common, sources={**own, "SET": own["TOKEN"]})
    assert [secrets.value(n, where="") for n in ("TOKEN", "OTHER", "SET")] == ["own", "common OTHER", "here"]


@pytest.mark.parametrize(
    ("content", "value"),
    [("k\n", "k"), ("k\r\n", "k"), ("k", "k"), (" k \n\n", " k \n"), ("two\nlines\n", "two\nlines")],
)
def test_a_file_gives_all_that_stands_in_it_but_its_last_line_break(
    tmp_path: Path, content: str, value: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content.encode())
    path.chmod(0o600)
    assert from_file(path).value("TOKEN", where="") == value


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o777, 0o610])
def test_a_file_that_others_may_use_is_refused_with_the_mend(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text("hidden")
    path.chmod(mode)
    error = fails(from_file(path))
    assert (f"{mode:04o}" in error.what, error.next_step) == (True, f"chmod 600 {path}")
    assert "hidden" not in chain(error)


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "empty", "large", "latin-1"])
def test_a_file_that_holds_no_secret_is_told_and_nothing_hangs(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "token"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind != "missing":
        content = {"empty": b"", "large": b"hidden" * MAX_BYTES, "latin-1": b"hidden\xe4"}[kind]
        path.write_bytes(content)
        path.chmod(0o600)
    error = fails(from_file(path))
    assert "hidden" not in chain(error)


def test_many_threads_ask_a_command_once(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); import time; time.sleep(0.2); print('key')"
    secrets = Secrets(PATH, sources={"TOKEN": FromCommand(tuple(command(code)))})
    got: list[str] = []
    ask = lambda: got.append(secrets.value("TOKEN", where=""))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["key"] * 8
    assert (tmp_path / "asked").read_text() == "x"


def test_a_command_that_fails_is_asked_once_too_and_each_place_is_told(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'asked')!r}, 'a').write('x'); raise SystemExit(3)"
    secrets = Secrets(PATH, command(code))
    for place in ("a.yml:1", "b.yml:2"):
        with pytest.raises(InputError, match="ended with 3") as caught:
            secrets.value("TOKEN", where=place)
        assert caught.value.where == place
    assert (tmp_path / "asked").read_text() == "x"


def test_sources_are_read_from_the_settings(tmp_path: Path) -> None:
    given_ = {"A": {"command": ["pass", "show", "hf"]}, "B": {"file": "keys/b"}, "C": {"file": "/k"}}
    got = settings.load(tmp_path, {"secrets": given_}).secrets
    assert got == {
        "A": FromCommand(("pass", "show", "hf")),
        "B": FromFile(tmp_path / "keys" / "b"),
        "C": FromFile(Path("/k")),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        *("hidden", ["hidden"], {"A": "hidden"}, {"A": {}}, {"A": {"comand": ["hidden"]}}),
        *({"A": {"command": []}}, {"A": {"command": "pass show hidden"}}, {"A": {"command": [{}, "hidden"]}}),
        *({"A": {"file": ["hidden"]}}, {"A": {"file": ""}}, {"A": {"file": "~nobody-of-that-name/hidden"}}),
        *({"A": {"file": "a\0hidden"}}, {"A": {"command": ["a\0hidden"]}}),
        {"A": {"file": "a", "command": ["b"]}},
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(InputError) as caught:
        settings.load(tmp_path, {"secrets": wrong})
    assert caught.value.where.startswith("setting stoker.secrets")
    assert "hidden" not in str(caught.value)


@given(
    value=st.text(st.characters(codec="utf-8"), min_size=8),
    before=st.text(max_size=4),
    after=st.text(max_size=4),
)
def test_a_mask_covers_a_value_in_the_forms_that_programs_print(value: str, before: str, after: str) -> None:
    mask = Mask([value])
    raw = value.encode()
    for form in (value, repr(value)[1:-1], json.dumps(value), quote(value, safe=""), raw.hex()):
        assert value not in mask.text(form)
        assert MASK in mask.text(form)
    around = base64.b64encode(before.encode() + raw + after.encode()).decode()
    assert MASK in mask.text(around)
    assert mask.tree({"a": [value, 1, None]}) == {"a": [MASK, 1, None]}


def test_a_value_too_short_to_hide_tears_no_text() -> None:
    assert Mask(["abc", ""]).text("abc abc") == "abc abc"


def test_a_fault_is_told_without_the_secrets_that_were_looked_up() -> None:
    secrets = Secrets({"TOKEN": "hidden/value 1"})
    secrets.value("TOKEN", where="")
    try:
        raise RuntimeError("it broke over hidden/value 1 and hidden%2Fvalue%201")
    except RuntimeError as raised:
        error, text = faults.of(raised, secrets, "box"), faults.trace(raised, secrets)
    assert "it broke over" in error.what
    assert error.exit_code == 1
    assert "RuntimeError" in "".join(error.evidence)
    assert "hidden" not in chain(error) + text.replace('raise RuntimeError("it broke over hidden', "")
