"""What a folder on the host holds, so that it can be pulled and checked."""

from __future__ import annotations

import hashlib
import os
import stat

from .context import AgentError, Context

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

MAX_FILES = 20000
_BLOCK = 1 << 20


def manifest(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """Every regular file of a folder with size and checksum.

    Links are not followed; they, other files than regular ones, and names that are no UTF-8 are listed as
    skipped. Of a file that grows meanwhile, as many bytes count as it had when it was opened.

    Args:
        ctx: The operation's context.
        params: ``path``: the folder; ``~/`` is the login's home. ``max_bytes`` (null: no limit): a file that
            is larger by itself is skipped, and files that are together are refused, before one is read.
            ``single``: the path may be a file too.

    Returns:
        ``{files: [{path, size, sha256}], skipped: [{path, why}], root}``; paths are relative, in order;
        ``root`` is the folder's absolute path. Of a file its folder and itself, and ``single`` is true.

    Raises:
        AgentError: ``bad-request``, ``io`` (no such folder, a file cannot be read, too many or too large),
            ``cancelled``.
    """
    path = params.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        raise AgentError("bad-request", "manifest wants the path of a folder")
    root = os.path.abspath(_expand(path, ctx))
    most = params.get("max_bytes")
    if params.get("single") and os.path.isfile(root):
        return _single(ctx, os.path.realpath(root), most)
    try:
        sizes, skipped = _looked(ctx, root, most if isinstance(most, int) else None)
        files = [{"path": name, **_digest(ctx, os.path.join(root, name))} for name in sizes]
    except OSError as error:
        raise AgentError("io", "%s: %s" % (error.filename or root, error.strerror)) from error
    return {"files": files, "skipped": skipped, "root": root}


def _single(ctx: Context, path: str, most: Any) -> Dict[str, Any]:
    """One file as if it were alone in its folder.

    Raises:
        AgentError: ``io``: it cannot be read, or is too large.
    """
    folder, name = os.path.split(path)
    try:
        size = os.stat(path).st_size
        if isinstance(most, int) and size > most:
            raise AgentError("io", "%s: its %d bytes are over the limit of %d" % (path, size, most))
        return {
            "files": [{"path": name, **_digest(ctx, path)}],
            "skipped": [],
            "root": folder,
            "single": True,
        }
    except OSError as error:
        raise AgentError("io", "%s: %s" % (path, error.strerror)) from error


def _looked(ctx: Context, root: str, most: Optional[int]) -> Tuple[Dict[str, int], List[Dict[str, Any]]]:
    """Every file with its size, and what is skipped; nothing is read.

    Raises:
        AgentError: ``io``: too many, or together too large; ``cancelled``.
    """
    sizes: Dict[str, int] = {}
    skipped: List[Dict[str, Any]] = []
    for name, odd in _walk(root):
        ctx.check_cancelled()
        size = 0 if odd else os.lstat(os.path.join(root, name)).st_size
        large = most is not None and size > most
        if odd or large:
            why = odd or "its %d bytes are over the limit of %s" % (size, most)
            skipped.append({"path": name, "why": why})
        else:
            sizes[name] = size
        if len(sizes) + len(skipped) > MAX_FILES:
            raise AgentError("io", "%s holds more than %d files" % (root, MAX_FILES))
    total = sum(sizes.values())
    if most is not None and total > most:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
        raise AgentError(
            "io",
            "the files of %s are %d bytes, over the limit of %d" % (root, total, most),
            ["%s: %d bytes" % (name, sizes[name]) for name in largest],
            next_step="pull a folder of it (--path), or take away there what nobody needs",
        )
    return sizes, skipped


def _expand(path: str, ctx: Context) -> str:
    """``~/`` is the folder that holds ``.stoker``: the login's home, whatever HOME says later."""
    if path == "~" or path.startswith("~/"):
        return os.path.dirname(ctx.home) + path[1:]
    return path


def _walk(root: str, inside: str = "") -> Iterator[Tuple[str, str]]:
    """(relative name, why it is skipped or ``""``) of everything below, in order."""
    with os.scandir(os.path.join(root, inside)) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        name = os.path.join(inside, entry.name)
        if not _is_text(entry.name):
            yield name, "its name is no UTF-8"
        elif entry.is_symlink():
            yield name, "a link"
        elif entry.is_dir(follow_symlinks=False):
            for below in _walk(root, name):
                yield below
        elif entry.is_file(follow_symlinks=False):
            yield name, ""
        else:
            yield name, "no regular file"


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _digest(ctx: Context, path: str) -> Dict[str, Any]:
    """``{size, sha256}`` of one file, read only as far as it went when it was opened."""
    # Without blocking: it may have become a pipe since it was listed.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise AgentError("io", "%s is no regular file any more" % path)
        left, digest = info.st_size, hashlib.sha256()
        while left:
            ctx.check_cancelled()
            block = os.read(fd, min(left, _BLOCK))
            if not block:
                break  # it shrank: the size we report is what was read
            digest.update(block)
            left -= len(block)
        return {"size": info.st_size - left, "sha256": digest.hexdigest()}
    finally:
        os.close(fd)
