"""The operation ``search``: where on a host variables are or were set."""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from typing import Any, Dict, Iterator, List, Mapping, Pattern, Set, Tuple

from ..context import AgentError, Context
from ..killing import describe
from ..variables import is_credential, shown
from . import searchdocker, searchplaces, searchtext
from .searchplaces import Place

MAX_FILES = 50_000
MAX_READ = 256 << 20
MAX_FILE = 8 << 20
MAX_FINDINGS = 5_000
_DEADLINE_S = 60.0
_MAX_SKIPPED = 100
_ENV_FILE = re.compile(r"^\s*EnvironmentFile\s*=\s*-?(/\S+)", re.MULTILINE)
_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.")  # a JWT, under whatever name
_FORBIDDEN = ("/proc/", "/sys/", "/dev/")


class _Enough(Exception):
    """A bound is reached; the message says which."""


class _Search:
    """One search while it runs: what was found, and what it may still spend.

    Args:
        ctx: Its cancelling is looked at with every file.
        names: What finds the names.
    """

    def __init__(self, ctx: Context, names: Pattern[str], deadline_s: float) -> None:
        self._ctx = ctx
        self._names = names
        self._end = time.monotonic() + deadline_s
        self._seen: Set[Tuple[int, int]] = set()
        self._more: List[Place] = []
        self.looked = 0
        self.read = 0
        self.files = 0
        self.findings: List[Dict[str, Any]] = []
        self.skipped: List[Dict[str, str]] = []

    def step(self) -> None:
        """Count a file that is looked at.

        Raises:
            _Enough: Too many, or too long.
            AgentError: ``cancelled``.
        """
        self.looked += 1
        if self.looked % 64 == 0:
            self._ctx.check_cancelled()
        if self.looked > MAX_FILES:
            raise _Enough("more than %d files" % MAX_FILES)
        self._in_time()

    def _in_time(self) -> None:
        if time.monotonic() > self._end:
            raise _Enough("no more time")

    def all_of(self, places: Iterator[Place]) -> None:
        """Read files, and those that they name."""
        for place in places:
            self._take(place)
            while self._more:
                self._take(self._more.pop())

    def _take(self, place: Place) -> None:
        self.step()
        try:
            text, changed = self._text(place)
        except FileNotFoundError:
            return
        except OSError as error:
            self.skip(place.path, error.strerror or str(error))
            return
        if not text:
            return
        if place.kind == "unit":
            for path in _ENV_FILE.findall(text):
                self._more.append(Place(path, "shell", os.path.dirname(path)))
        for hit in searchtext.hits(text, self._names, place.kind, self._in_time):
            self.found(place.path, hit.line, hit.name, hit.value, hit.how, hit.at or changed)

    def _text(self, place: Place) -> Tuple[str, float]:
        """A regular file's text, and when it was changed; empty where it was read before, or is no text.

        Raises:
            OSError: It cannot be read.
        """
        path = os.path.realpath(place.path)
        root = os.path.realpath(place.root)
        if path.startswith(_FORBIDDEN):
            return "", 0.0
        if not path.startswith(root.rstrip("/") + "/"):
            if place.kind != "unit":  # units link to each other, in folders that are all read
                self.skip(place.path, "a link out of %s" % place.root)
            return "", 0.0
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return "", 0.0  # to open a device can already do something
        fd = os.open(path, flags)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            key = (status.st_dev, status.st_ino)
            if not stat.S_ISREG(status.st_mode) or key in self._seen:
                return "", 0.0
            self._seen.add(key)
            if status.st_size > MAX_FILE:
                self.skip(place.path, "larger than %d MiB" % (MAX_FILE >> 20))
                return "", 0.0
            raw = file.read(MAX_FILE)
        self.files += 1
        self.read += len(raw)
        if self.read > MAX_READ:
            raise _Enough("more than %d MiB" % (MAX_READ >> 20))
        return ("" if b"\0" in raw[:4096] else raw.decode("utf-8", "replace")), status.st_mtime

    def found(self, path: str, line: int, name: str, value: Any, how: str, at: float) -> None:
        """Note one finding, without what looks like a secret."""
        hidden = value is not None and _is_secret(name, value)
        self.findings.append(
            {
                "path": shown(path),
                "line": line,
                "name": name,
                "value": None if value is None else "***" if hidden else shown(value),
                "hidden": hidden,
                "how": how,
                "at": round(at, 3),
            }
        )
        if len(self.findings) >= MAX_FINDINGS:
            raise _Enough("more than %d places" % MAX_FINDINGS)

    def skip(self, path: str, why: str) -> None:
        """Note a file that could not be read."""
        if len(self.skipped) < _MAX_SKIPPED:
            self.skipped.append({"path": shown(path), "why": why})

    def containers(self) -> str:
        """Variables of containers, and the compose files that they were made by; why not, else empty."""
        found, why = searchdocker.look(self._ctx)
        for one in found:
            for entry in one.env:
                name, equals, value = entry.partition("=")
                if equals and self._names.fullmatch(name):
                    self.found("docker:" + one.name, 0, name, value, "docker inspect", one.at)
        files = [path for one in found for path in one.files]
        self.all_of(iter([Place(path, "yaml", os.path.dirname(path)) for path in dict.fromkeys(files)]))
        return why


def search(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    """The operation ``search``: files are read, nothing is changed.

    Args:
        params: ``patterns`` (names, with ``*`` and ``?``), ``history`` (shells' histories, too), ``folders``
            (of notes; absolute, or ``~/``), ``only_folders`` (nothing else), ``deadline_s``.

    Returns:
        ``{findings: [{path, line, name, value, hidden, how, at}], looked: {files, bytes}, skipped: [{path,
        why}], cut: why not everything was looked at, else empty}``: by name, the newest first. ``at`` is Unix
        time: of the line where it tells, else of its file. ``value`` is null where it is unset there.

    Raises:
        AgentError: ``bad-request``: a pattern or folder that cannot be; ``cancelled``.
    """
    try:
        names = searchtext.pattern([str(one) for one in params["patterns"]])
    except ValueError as error:
        raise AgentError("bad-request", str(error)) from error
    work = _Search(ctx, names, float(params.get("deadline_s") or _DEADLINE_S))
    folders = [_folder(ctx, str(one)) for one in params.get("folders") or ()]
    cut = ""
    try:
        for folder in folders:
            work.all_of(searchplaces.of_notes(folder, work.step))
        if not params.get("only_folders"):
            work.all_of(searchplaces.of_host(ctx.login_env, bool(params.get("history")), work.step))
            why = work.containers()
            if why:
                work.skip("docker", why)
    except _Enough as error:
        cut = str(error)
    work.findings.sort(key=lambda one: (one["name"], -one["at"], one["path"], one["line"]))
    looked = {"files": work.files, "bytes": work.read}
    return {"findings": work.findings, "looked": looked, "skipped": work.skipped, "cut": cut}


def _folder(ctx: Context, path: str) -> str:
    """An absolute folder.

    Raises:
        AgentError: ``bad-request``.
    """
    if path == "~" or path.startswith("~/"):
        path = os.path.dirname(ctx.home) + path[1:]
    if not os.path.isabs(path) or not os.path.isdir(path):
        raise AgentError(
            "bad-request", "%s is no folder there" % shown(path), next_step="give an absolute path"
        )
    if (os.path.realpath(path) + "/").startswith(_FORBIDDEN):
        raise AgentError("bad-request", "%s holds no notes" % shown(path))
    return path


def _is_secret(name: str, value: str) -> bool:
    words = _words(value)
    return is_credential(name) or describe.command(words) != words or bool(_TOKEN.search(value))


def _words(value: str) -> List[str]:
    """A value as the command line that it may be."""
    try:
        return shlex.split(value) or [value]
    except ValueError:
        return value.split() or [value]
