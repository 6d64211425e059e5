"""Secrets come from the environment or a command, and from nowhere into a message."""

from __future__ import annotations

import os
import sys
import time

import pytest

from stoker.config.secrets import MAX_BYTES, Secrets
from stoker.errors import InputError

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
        "import os, time; print('hidden', flush=True); os.fork() or time.sleep(3)",
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
