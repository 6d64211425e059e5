"""How long reading and checking a long playbook takes: 2,000 lines, 1,000 hosts. The goal: a second.

    python benchmarks/playbooks.py [HOSTS] [LINES]

Prints seconds of this process's own time, each the best of three: for reading the inventory, for the book,
for finding what can be known before the first connection. Then the whole command,
``inv play BOOK --syntax-check``, from its start to its end: its own time, and by the clock.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.config import settings
from stoker.config.books import playbook
from stoker.fleet.books import play
from stoker.fleet.books.stages import Options, stages
from stoker.fleet.books.verbs import modules
from stoker.fleet.project import Project

_PROFILE = "engine: llamacpp\nserver: {name: it, model: /m.gguf, port: 8080, command: [llama-server]}\n"
_STEP = """\
    - name: Step {n}
      block:
        - name: Say {n}
          command: echo {{{{ word }}}} {n}
          when: word is defined and {n} > 0
          register: said
          changed_when: false
        - name: Look at {n}
          assert: {{that: said.rc == 0, fail_msg: "{{{{ said.stdout }}}}"}}
          tags: [look]
      rescue:
        - debug: {{msg: "{{{{ ansible_failed_result.msg }}}}"}}
"""


def lay(root: Path, hosts: int, lines: int) -> Path:
    """A project with so many hosts, and a book of so many lines."""
    (root / "inventory").mkdir(parents=True)
    (root / "profiles").mkdir()
    (root / "tasks.py").write_text("from stoker.tasks import mount\n\nns = mount(__file__)\n")
    (root / "profiles" / "it.yml").write_text(_PROFILE)
    rows = "".join(f"    node{n:04}: {{ansible_host: 10.0.{n // 250}.{n % 250}}}\n" for n in range(hosts))
    (root / "inventory" / "hosts.yml").write_text(f"all:\n  vars: {{word: hello}}\n  hosts:\n{rows}")
    step = len(_STEP.splitlines())
    head = "- hosts: all\n  tasks:\n    - restart: {profile: it}\n"
    book = root / "book.yml"
    book.write_text(head + "".join(_STEP.format(n=n) for n in range((lines - 3) // step)))
    return book


def best(work: Callable[[], Any]) -> tuple[float, Any]:
    """The least time of three, and what came of the last."""
    took, found = [], None
    for _ in range(3):
        begin = time.process_time()
        found = work()
        took.append(time.process_time() - begin)
    return min(took), found


def command(book: Path) -> tuple[float, float]:
    """The whole command on a book in its project's folder: its own seconds and the clock's, best of three.

    Raises:
        CalledProcessError: It found a mistake.
    """
    argv = [str(Path(sys.executable).parent / "inv"), "play", book.name, "--syntax-check"]
    took = []
    for _ in range(3):
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(argv, cwd=book.parent, check=True, stdout=subprocess.DEVNULL)
        clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, clock))
    return min(took)


def main(hosts: int, lines: int) -> float:
    """Measure, and tell; returns the whole command's seconds by the clock."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        book_file = lay(root, hosts, lines)
        given = Options()

        def project() -> Project:
            made = Project(settings.load(root, {}), {})
            made.hosts(("all",))
            return made

        inventory_s, made = best(project)
        read_s, book = best(lambda: playbook.load(book_file, modules()))

        def check() -> None:
            play.check(book, stages(book, made, given), made, given)

        check_s, _ = best(check)
        own_s, clock_s = command(book_file)
    print(f"{hosts} hosts, {lines} lines")
    for name, seconds in (("inventory", inventory_s), ("book", read_s), ("check on every host", check_s)):
        print(f"  {name:<20} {seconds:6.3f} s")
    print(f"  {'together':<20} {inventory_s + read_s + check_s:6.3f} s")
    print(f"  {'whole command':<20} {own_s:6.3f} s, by the clock {clock_s:.3f} s")
    return clock_s


if __name__ == "__main__":
    counts = [int(word) for word in sys.argv[1:]]
    main(*(counts + [1000, 2000][len(counts) :]))
