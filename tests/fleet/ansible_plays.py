"""What ansible-core makes of playbooks: one process that runs each of them in a fork of itself.

    python tests/fleet/ansible_plays.py FOLDER OUT [NAME…]

runs ``FOLDER/*.yml``, or those of these names, and writes the outcomes, with Ansible's version, into ``OUT``.
Ansible's own program would load for a second and a half each time.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CALLBACKS = Path(__file__).parent / "ansible_callbacks"
_AT_ONCE = 2
_FLAGS = {"--extra-var": "--extra-vars", "--start-at": "--start-at-task"}


def inventory() -> dict[str, Any]:
    """The hosts of the cases: a, b and c are this machine, ``gone`` answers nobody."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_connection": "ssh"}
    return {"all": {"hosts": {"a": here, "b": here, "c": here, "gone": gone}}}


def arguments(path: Path) -> list[str]:
    """A case's flags, from its first line."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    return shlex.split(first.removeprefix("# args:")) if first.startswith("# args:") else []


def main(folder: Path, out: Path, names: Sequence[str] = ()) -> None:
    """Run the cases of a folder, and write the outcomes."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ |= {
            "ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS),
            "ANSIBLE_STDOUT_CALLBACK": "judge",
            "ANSIBLE_HOME": scratch,
            "ANSIBLE_LOCAL_TEMP": scratch + "/local",
            "ANSIBLE_REMOTE_TEMP": scratch + "/remote",
            "ANSIBLE_RETRY_FILES_ENABLED": "false",
            "ANSIBLE_HOST_KEY_CHECKING": "false",
            "ANSIBLE_CONFIG": scratch + "/ansible.cfg",
            "ANSIBLE_LOCALHOST_WARNING": "false",
        }
        (Path(scratch) / "ansible.cfg").touch()
        hosts = Path(scratch) / "hosts.json"
        hosts.write_text(json.dumps(inventory()), encoding="utf-8")
        from ansible import __version__  # type: ignore[import-untyped]
        from ansible.cli.playbook import PlaybookCLI  # type: ignore[import-untyped]  # noqa: F401

        cases = [case for case in sorted(folder.glob("*.yml")) if not names or case.stem in names]
        found = _all(cases, hosts, Path(scratch))
    outcomes = {case.stem: outcome for case, outcome in zip(cases, found, strict=True)}
    rows = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in outcomes.items()
    )
    out.write_text(f'{{"ansible-core": "{__version__}", "outcomes": {{\n{rows}\n}}}}\n', encoding="utf-8")


def _all(cases: Sequence[Path], hosts: Path, scratch: Path) -> list[dict[str, Any]]:
    """Every case, a few at once."""
    running: dict[int, Path] = {}
    found: dict[Path, dict[str, Any]] = {}
    left = list(reversed(cases))
    while left or running:
        if left and len(running) < _AT_ONCE:
            case = left.pop()
            running[_begin(case, hosts, scratch)] = case
            continue
        pid, status = os.wait()
        case = running.pop(pid)
        found[case] = _outcome(case, scratch, os.waitstatus_to_exitcode(status))
    return [found[case] for case in cases]


def _begin(case: Path, hosts: Path, scratch: Path) -> int:
    """One case, in a child of its own."""
    argv = [_FLAGS.get(word, word) for word in arguments(case)]
    child = os.fork()
    if child == 0:
        out, log = scratch / f"{case.stem}.out", scratch / f"{case.stem}.log"
        _child(["ansible-playbook", "-i", str(hosts), *argv, str(case)], out, log)
    return child


def _outcome(case: Path, scratch: Path, code: int) -> dict[str, Any]:
    out = scratch / f"{case.stem}.out"
    if not out.exists():
        raise RuntimeError(f"{case}: {code}\n{(scratch / (case.stem + '.log')).read_text()}")
    outcome: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return {**outcome, "well": code == 0}


def _child(argv: Sequence[str], out: Path, log: Path) -> None:
    """Become ``ansible-playbook``; never returns."""
    code = 70
    try:
        os.environ["JUDGE_OUT"] = str(out)
        to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(to, number)
        from ansible.cli.playbook import PlaybookCLI

        cli = PlaybookCLI(list(argv))
        cli.parse()
        code = cli.run()
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
