"""The kinds of value in a profile: what each takes, and what it says where something else is written.

Scalars come as the text that was written, or as what a template gave. A record's JSON comes with numbers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stoker import benchmarks, engines
from stoker.benchmarks.values import read as read_parameter
from stoker.config import names
from stoker.errors import InputError, nearest

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ARGUMENT = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9._-]*")
GPU_UUID = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")
SECRET = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_MOST = 10**15
_LONGEST = 128 << 10  # of one argument or variable, by Linux
_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}")

# Variables that a POSIX shell or bash keeps for itself: the launch script could not pass them on unchanged.
SHELLS_OWN = frozenset(
    {
        *("_", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "IFS"),
        *("LINENO", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "PIPESTATUS", "PPID", "PS4", "PWD", "RANDOM"),
        *("SECONDS", "SHELLOPTS", "SHLVL", "SRANDOM", "UID", "POSIXLY_CORRECT"),
    }
)


class Wrong(ValueError):
    """A value of the wrong kind.

    Args:
        what: What is wrong.
        hint: What was expected.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True)
class SecretRef:
    """``!secret NAME``.

    Args:
        name: The secret's name.
        place: ``file:line``, for the message when there is no such secret.
    """

    name: str
    place: str = field(default="", compare=False)


def text(value: Any) -> str:
    """Any text that a process can be given."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Wrong(
            f"expected text, not {_shown(value)}", "quote it" if isinstance(value, bool | float) else ""
        )
    written = str(value)
    if "\0" in written:
        raise Wrong("no process can be given a NUL character")
    if len(written.encode("utf-8", "replace")) >= _LONGEST:
        raise Wrong(
            f"is {len(written)} characters long, and no process can be given {_LONGEST} bytes in one text",
            "put it into a file and name that",
        )
    if any("\ud800" <= character <= "\udfff" for character in written):
        raise Wrong("a lone surrogate is no character that UTF-8 has")
    return written


def line(value: Any) -> str:
    """A text that is not empty and has no control characters."""
    written = text(value)
    if not written.strip():
        raise Wrong("expected text, this is empty")
    if any(ord(character) < 32 or ord(character) == 127 for character in written):
        raise Wrong("a line break or control character cannot stand here")
    return written


def name(value: Any) -> str:
    """A slot's name: it stands in a path, and is none of those that Stoker empties."""
    written = line(value)
    if not names.is_name(written):
        raise Wrong(f"{written!r} is no name", names.HINT)
    ours = next((end for end in names.OURS if written.endswith(end)), "")
    if ours:
        what = f"slots that end in {ours} are Stoker's own: it ends what runs there"
        raise Wrong(what, "call it otherwise")
    return written


def engine(value: Any) -> str:
    """An engine's name."""
    written = line(value)
    if written not in engines.names():
        raise Wrong(f"unknown engine {written!r}", nearest(written, engines.names()))
    return written


def benchmark(value: Any) -> str:
    """A benchmark's name."""
    written = line(value)
    if written not in benchmarks.OF_SERVER:
        raise Wrong(f"{written!r} is no benchmark of a server", nearest(written, benchmarks.OF_SERVER))
    return written


def parameter(name: str) -> Callable[[Any], Any]:
    """A parameter of a benchmark, as the benchmark reads it."""

    def read(value: Any) -> Any:
        try:
            return read_parameter(name, value)
        except InputError as error:
            raise Wrong(error.what, error.next_step) from error

    return read


def rates(value: Any) -> tuple[float, ...]:
    """Requests a second: one number, or a list of them."""
    found: tuple[float, ...] = parameter("rate")(value)
    return found


def variable(value: Any) -> str:
    """A name of an environment variable that Stoker may set."""
    written = text(value)
    if not VARIABLE.fullmatch(written):
        raise Wrong(f"{written!r} is no name of a variable", "letters, digits and '_', no digit first")
    if written in SHELLS_OWN or written.startswith("BASH"):
        raise Wrong(f"{written} belongs to the shell that runs the launch script")
    if written.startswith("STOKER_"):
        raise Wrong(f"{written}: names that begin with STOKER_ are Stoker's own")
    return written


def argument(value: Any) -> str:
    """A name of a command-line argument, with or without its dashes."""
    written = text(value)
    if not ARGUMENT.fullmatch(written):
        raise Wrong(f"{written!r} is no name of an argument", "e.g. tp-size, or -ngl")
    return written


def secret(value: Any) -> SecretRef:
    """A reference to a secret, never the secret."""
    if not isinstance(value, SecretRef):
        raise Wrong("a key is never written into a profile", "write !secret NAME")
    if not SECRET.fullmatch(value.name):
        raise Wrong(f"{value.name!r} is no name of a secret", "letters, digits, '.', '_', '-', '/'")
    return value


def text_or_secret(value: Any) -> str | SecretRef:
    """An environment variable's value."""
    return secret(value) if isinstance(value, SecretRef) else text(value)


def whole(least: int, most: int = _MOST) -> Callable[[Any], int]:
    """A check for whole numbers from ``least`` to ``most``."""

    def check(value: Any) -> int:
        written = str(value)
        if isinstance(value, bool) or not _WHOLE.fullmatch(written):
            raise Wrong(f"expected a whole number, not {_shown(value)}")
        if not least <= int(written) <= most:
            raise Wrong(
                f"{written} is out of range", f"{least} to {most}" if most < _MOST else f"at least {least}"
            )
        return int(written)

    return check


def seconds(value: Any) -> float:
    """A time in seconds."""
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if isinstance(value, bool) or not 0 <= number <= 1e7:
        raise Wrong(f"expected seconds, not {_shown(value)}", "a number from 0 to 10000000")
    return number


def address(value: Any) -> str:
    """An IP address to listen on."""
    written = line(value)
    try:
        ipaddress.ip_address(written)
    except ValueError:
        hint = "write 127.0.0.1" if written == "localhost" else "e.g. 127.0.0.1, or 0.0.0.0 for all"
        raise Wrong(f"{written!r} is no IP address", hint) from None
    return written


def model(value: Any) -> str:
    """A path on the host, or a name in a hub."""
    written = line(value)
    if written[0] in "~-" or written != written.strip():
        raise Wrong(f"{written!r} is no model", "an absolute path (~ is not expanded), or a hub's name")
    return written


def absolute(value: Any) -> str:
    """An absolute path on the host."""
    written = line(value)
    if not written.startswith("/"):
        raise Wrong(f"expected an absolute path, not {written!r}", "~ and relative paths are not expanded")
    return written


def program(value: Any) -> str:
    """An absolute path, or a name that is found on the PATH."""
    written = line(value)
    return written if "/" not in written and written[0] not in "~-" else absolute(written)


def command(value: Any) -> str:
    """Shell that does something: neither empty nor a mere comment."""
    written = text(value)
    if all(not part.strip() or part.lstrip().startswith("#") for part in written.splitlines() or [""]):
        raise Wrong("expected a shell command")
    return written


def protected(value: Any) -> str:
    """A process name, or ``cmd:REGEX``."""
    written = line(value)
    if written.startswith("cmd:"):
        try:
            re.compile(written[4:])
        except re.error as error:
            raise Wrong(f"{written[4:]!r} is no regular expression: {error}") from None
    return written


def gpus(value: Any) -> tuple[int | str, ...]:
    """Indices and UUIDs, or ``all``."""
    if value == "all" or value == ["all"] or value == ("all",):
        return ("all",)
    found = tuple(_gpu(item) for item in listed(value, "e.g. [0, 1], or all"))
    if len(set(found)) < len(found):
        raise Wrong("the same GPU stands here twice")
    return found


def listed(value: Any, hint: str = "write [one, two]") -> list[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        raise Wrong(f"expected a list, not {_shown(value)}", hint)
    return list(value)


def one_or_more(value: Any) -> list[Any]:
    """A list, or one text that stands for a list of it."""
    return list(value) if isinstance(value, list | tuple) else [value]


def arguments(value: Any) -> Any:
    """A mapping without those that are left out: ``false`` and ``null``."""
    if not isinstance(value, dict):
        return value
    return {key: item for key, item in value.items() if item is not None and item is not False}


def argument_value(value: Any) -> Any:
    """``True``: the bare flag; text; a tuple of texts; a mapping for JSON."""
    if value is True:
        return True
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple):
        return tuple(_word(item) for item in value)
    if isinstance(value, SecretRef):
        raise Wrong(
            "a secret never stands on a command line", "set it under env:, if the engine reads it there"
        )
    return _word(value)


def _word(value: Any) -> str:
    if isinstance(value, float):  # what a template gave
        return repr(value)
    return text(value)


def _gpu(value: Any) -> int | str:
    written = str(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise Wrong(f"expected a GPU's index or UUID, not {_shown(value)}")
    if _WHOLE.fullmatch(written) and int(written) < 1024:
        return int(written)
    if not GPU_UUID.fullmatch(written):
        raise Wrong(f"{written!r} is neither a GPU's index nor its UUID", "nvidia-smi -L shows both")
    return written


def _shown(value: Any) -> str:
    """What stands there, for people."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str | int | float):
        written = repr(value)
        return written if len(written) <= 60 else written[:59] + "…"
    kinds = {dict: "a mapping", list: "a list", tuple: "a list", SecretRef: "a secret", type(None): "nothing"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def plain_secret(value: str | SecretRef) -> str | dict[str, str]:
    """A secret in a record: by its name."""
    return {"secret": value.name} if isinstance(value, SecretRef) else value
