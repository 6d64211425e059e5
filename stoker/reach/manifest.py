"""What a host announces of a folder before it is pulled: nothing of it is believed unchecked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stoker.errors import HostFailed
from stoker.reach.client import Agent

MAX_BYTES = 8 << 30
MAX_FILES = 20_000
_MOST_DEPTH = 200  # as the agent; pathlib makes folders by recursion
NEXT = "look at that folder on the host; what was pulled before is whole, and running it again goes on"
_NO_NAMES = frozenset(("", ".", ".."))
_MOST_EVIDENCE = 8
_MOST_NAME, _MOST_PATH = 255, 4096  # bytes
_MOST_WHY = 500
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class RemoteFile:
    """One file as the host announces it.

    Args:
        path: Relative, checked to stay inside the folder.
        size: Bytes.
        mtime_ns: When it was last written, by the host's clock.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Manifest:
    """What a host announces of a folder.

    Args:
        root: The folder's path there, links followed.
        files: Every regular file in it.
        skipped: (path, why) of what the host leaves out: links, odd names, too large files.
        is_file: Whether a file was named, and not a folder.
        unreadable: (path, why) of files and folders in it that the account may not read.
    """

    root: str
    files: tuple[RemoteFile, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    is_file: bool = False
    unreadable: tuple[tuple[str, str], ...] = ()


def announced(
    agent: Agent, path: str, max_bytes: int = MAX_BYTES, *, single: bool = False, partly: bool = False
) -> Manifest:
    """What there is to pull; the host reads none of it for that.

    Args:
        agent: The host.
        path: Its folder.
        max_bytes: More than that is refused, before anything is written here.
        single: The path may be a file, which is then the only one of its folder.
        partly: What can be read is of use without the rest.

    Raises:
        HostFailed: ``io``, also where not all can be read; ``bad-manifest``: a name that leaves the folder,
            a size over the limit.
        HostUnreachable: Lost on the way.
    """
    answer = agent.call("manifest", {"path": path, "max_bytes": max_bytes, "single": single})
    files = read_manifest(agent.host, answer, max_bytes)
    skipped, unreadable = _told(answer.get("skipped")), _told(answer.get("unreadable"))
    is_file = single and answer.get("single") is True and len(files) == 1
    found = Manifest(str(answer.get("root") or path), tuple(files), skipped, is_file, unreadable)
    if unreadable and not partly:
        raise not_all(agent.host, found)
    return found


def not_all(host: str, manifest: Manifest, brought: str = "", **detail: object) -> HostFailed:
    """What of a folder cannot be read.

    Args:
        host: The host.
        manifest: What it announced.
        brought: What of it is here now; empty: nothing.
        detail: For programs, beside all that cannot be read.
    """
    many = len(manifest.unreadable)
    what = (
        f"{manifest.root}: {'1 file or folder' if many == 1 else f'{many} files or folders'} cannot be read"
    )
    evidence = [f"{path}: {why}" for path, why in manifest.unreadable[:_MOST_EVIDENCE]]
    evidence += [f"and {many - _MOST_EVIDENCE} more"] if many > _MOST_EVIDENCE else []
    evidence += [f"the rest is here: {brought}"] if brought else []
    hint = "read it as a user who may (ansible_become, ansible_become_user), or name what can be read"
    told = {**detail, "unreadable": [{"path": path, "why": why} for path, why in manifest.unreadable]}
    return HostFailed(what, host=host, kind="io", evidence=evidence, next_step=hint, detail=told)


def _told(listed: Any) -> tuple[tuple[str, str], ...]:
    """A list of paths and reasons, whatever the host made of it."""
    items = [item for item in (listed if isinstance(listed, list) else []) if isinstance(item, dict)]
    return tuple(
        (str(item.get("path"))[:_MOST_PATH], str(item.get("why"))[:_MOST_WHY]) for item in items[:MAX_FILES]
    )


def read_manifest(host: str, answer: dict[str, Any], max_bytes: int) -> list[RemoteFile]:
    """What a host announces, nothing of it believed unchecked.

    Raises:
        HostFailed: ``bad-manifest``.
    """
    files, seen, folders, total = [], set[str](), set[str](), 0
    listed = answer.get("files")
    for item in listed if isinstance(listed, list) else [None]:
        file = _announced(item)
        if file is None or file.path in seen:
            raise refused(host, f"announces a file that is none of its folder's: {item!r:.200}")
        seen.add(file.path)
        folders.update(_above(file.path, folders))
        total += file.size
        files.append(file)
    if both := seen & folders:
        raise refused(host, f"announces {min(both)!r:.200} as a file and as a folder")
    if total > max_bytes or len(files) > MAX_FILES:
        raise refused(host, f"{len(files)} files of {total} bytes are over the limit ({max_bytes} bytes)")
    return files


def _above(path: str, known: set[str]) -> Iterator[str]:
    """The folders that a path leads through, as far as they are not known yet."""
    above = path.rpartition("/")[0]
    while above and above not in known:
        yield above
        above = above.rpartition("/")[0]


def _announced(item: Any) -> RemoteFile | None:
    """A manifest's entry; None for one that is not right."""
    if not isinstance(item, dict):
        return None
    path, size, written = item.get("path"), item.get("size"), item.get("mtime_ns")
    if not isinstance(path, str) or type(size) is not int or type(written) is not int or size < 0:
        return None
    parts = path.split("/")
    inside = not _NO_NAMES.intersection(parts)  # an absolute path begins with an empty one
    is_name = inside and not _CONTROL.search(path) and _fits(path, parts)
    return RemoteFile(path, size, written) if is_name else None


def _fits(path: str, parts: list[str]) -> bool:
    """Whether a file system of Linux can have it; half a surrogate pair is in no name."""
    try:
        if len(path.encode()) > _MOST_PATH or len(parts) > _MOST_DEPTH + 1:
            return False
    except UnicodeEncodeError:
        return False
    return (len(path) <= _MOST_NAME and path.isascii()) or all(
        len(part.encode()) <= _MOST_NAME for part in parts
    )


def refused(host: str, what: str) -> HostFailed:
    """What a host announces cannot be believed."""
    return HostFailed(what, host=host, kind="bad-manifest", next_step=NEXT)
