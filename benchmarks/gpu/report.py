"""What happened, as it is written down: commands, output, checks; and nothing that names the place."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_CGROUP = re.compile(r"/sys/fs/cgroup/\S*?/stoker-")
_SPACE_AT_END = re.compile(r"[ \t]+$", re.MULTILINE)
_LONG = 12_000  # characters of one command's output


@dataclass
class Report:
    """A Markdown document in the making.

    Args:
        hidden: Text that must not be shown, to what stands there instead; longer ones are replaced first.
    """

    hidden: dict[str, str]
    parts: list[str] = field(default_factory=list)
    checks: list[tuple[str, bool]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def title(self, text: str) -> None:
        """A heading, also on the screen, with the seconds since the start."""
        print(f"[{time.monotonic() - self.began:5.0f} s] {text}", flush=True)
        self.parts.append(f"## {text}")

    def text(self, text: str) -> None:
        """A paragraph."""
        self.parts.append(self._clean(text))

    def ran(self, command: str, output: str, seconds: float, code: int) -> None:
        """A command with what it printed."""
        shown = self._clean(output.strip("\n"))
        if len(shown) > _LONG:
            shown = f"{shown[:_LONG]}\n… {len(shown) - _LONG} more characters"
        mark = "" if code == 0 else f", exit {code}"
        self.parts.append(f"```console\n$ {self._clean(command)}\n{shown}\n```\n{seconds:.1f} s{mark}")

    def listing(self, text: str, kind: str = "text") -> None:
        """Text as it is."""
        self.parts.append(f"```{kind}\n{self._clean(text.strip())}\n```")

    def check(self, what: str, holds: bool) -> None:
        """Something that must be so."""
        self.checks.append((self._clean(what), holds))
        print(f"          {'ok  ' if holds else 'FAIL'} {what}", flush=True)
        self.parts.append(f"- **{'holds' if holds else 'DOES NOT HOLD'}**: {self._clean(what)}")

    def failed(self) -> Sequence[str]:
        """What does not hold."""
        return [what for what, holds in self.checks if not holds]

    def write(
        self,
        path: Path,
        heading: str,
        versions: Sequence[tuple[str, str]],
        *,
        program: str = "python3 -m benchmarks.gpu",
    ) -> None:
        """The document, versions first."""
        rows = "\n".join(f"| {name} | {self._clean(value)} |" for name, value in versions)
        failed = "\n".join(f"- {what}" for what in self.failed())
        count = f"{len(self.checks) - len(self.failed())} of {len(self.checks)} checks hold."
        how = f"Written by `{program}`, which runs every command shown here. `$WORK`, `$PYTHON` "
        how += "and `<uuid>` stand for what names the machine."
        head = [f"# {heading}", how, f"| | |\n|---|---|\n{rows}", f"{count}\n{failed}".strip()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_SPACE_AT_END.sub("", "\n\n".join([*head, *self.parts])) + "\n", encoding="utf-8")

    def _clean(self, text: str) -> str:
        for secret in sorted(filter(None, self.hidden), key=len, reverse=True):
            text = text.replace(secret, self.hidden[secret])
        return _CGROUP.sub("/sys/fs/cgroup/…/stoker-", _UUID.sub("<uuid>", text))
