"""What a folder on the host holds, so that it can be pulled and checked."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

from .context import AgentError, Context

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

MAX_FILES = 20000
MAX_DEPTH = 200
# The sizes there are no sizes: what is brought of it would be empty, or shorter than it says.
_MADE = ("/proc/", "/sys/")
_MADE_WHY = "the kernel makes it when it is read: cat it (inv exec)"
_BLOCK = 1 << 20


def manifest(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """Every regular file of a folder with its size; none of them is read.

    Links are not followed; they, other files than regular ones, names that are no UTF-8 or have control
    characters, what lies deeper than any program can go, and what the kernel makes up (/proc, /sys) are
    listed as skipped. What may not be read is listed too: of a folder the rest can be brought all the same.

    Args:
        ctx: The operation's context.
        params: ``path``: the folder; ``~/`` is the login's home. ``max_bytes`` (null: no limit): a file that
            is larger by itself is skipped, and files that are together are refused.
            ``single``: the path may be a file too.

    Returns:
        ``{files: [{path, size, mtime_ns}], skipped: [{path, why}], unreadable: [{path, why}], root}``; paths
        are relative, in order; ``root`` is the folder's absolute path. Of a file its folder and itself, and
        ``single`` is true.

    Raises:
        AgentError: ``bad-request``, ``io`` (no such folder, it cannot be read, too many or too large),
            ``cancelled``.
    """
    path = params.get("path")
    if not isinstance(path, str) or not path or "\0" in path:
        raise AgentError("bad-request", "manifest wants the path of a folder")
    root = os.path.abspath(_expand(path, ctx))
    most = params.get("max_bytes")
    if params.get("single") and os.path.isfile(root):
        return _single(os.path.realpath(root), most)
    found = _Found(root, most if isinstance(most, int) else None)
    try:
        found.look(ctx)
    except OSError as error:
        raise _refused(root, error) from error
    return {"files": found.files, "skipped": found.skipped, "unreadable": found.unreadable, "root": root}


def digests(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The checksums of some files of a folder.

    Args:
        ctx: The operation's context.
        params: ``root``: the folder; ``paths``: relative.

    Returns:
        ``{sha256: {path: 64 hex digits}}``; a file that cannot be read any more is left out.

    Raises:
        AgentError: ``bad-request``, ``cancelled``.
    """
    root, paths = params.get("root"), params.get("paths")
    if not isinstance(root, str) or not isinstance(paths, list):
        raise AgentError("bad-request", "digests wants the path of a folder, and files of it")
    found: Dict[str, str] = {}
    for path in paths:
        try:
            found[path] = _digest(ctx, os.path.join(root, path))
        except (OSError, ValueError):
            continue
    return {"sha256": found}


def _single(path: str, most: Any) -> Dict[str, Any]:
    """One file as if it were alone in its folder.

    Raises:
        AgentError: ``io``: it cannot be read, or is too large.
    """
    folder, name = os.path.split(path)
    if _misnamed(name):
        raise AgentError("io", "%s: %s" % (ascii(path)[1:-1], _misnamed(name)))
    if path.startswith(_MADE):
        raise AgentError("io", "%s: %s" % (path, _MADE_WHY))
    try:
        info = _readable(path)
    except OSError as error:
        raise _refused(path, error) from error
    if isinstance(most, int) and info.st_size > most:
        raise AgentError("io", "%s: its %d bytes are over the limit of %d" % (path, info.st_size, most))
    return {"files": [_entry(name, info)], "skipped": [], "unreadable": [], "root": folder, "single": True}


def _entry(name: str, info: os.stat_result) -> Dict[str, Any]:
    return {"path": name, "size": info.st_size, "mtime_ns": info.st_mtime_ns}


class _Found:
    """What a folder holds: files with their sizes, what is skipped, what may not be read.

    Args:
        root: The folder.
        most: Bytes, of a file and of all together; None: no limit.
    """

    def __init__(self, root: str, most: Optional[int]) -> None:
        self.files: List[Dict[str, Any]] = []
        self.skipped: List[Dict[str, Any]] = []
        self.unreadable: List[Dict[str, Any]] = []
        self._root = root
        self._most = most

    def look(self, ctx: Context) -> None:
        """Walk through it.

        Raises:
            AgentError: ``io``: too many, or together too large; ``cancelled``.
            OSError: The folder itself cannot be read.
        """
        made = _MADE_WHY if os.path.realpath(self._root).startswith(_MADE) else ""
        for name, why in self._walk(ctx):
            self._take(name, why or made)
            if len(self.files) + len(self.skipped) + len(self.unreadable) > MAX_FILES:
                raise AgentError("io", "%s holds more than %d files" % (self._root, MAX_FILES))
        total = sum(file["size"] for file in self.files)
        if self._most is not None and total > self._most:
            raise _too_large(self._root, self.files, total, self._most)

    def _take(self, name: str, odd: str) -> None:
        """One of its files."""
        if odd:
            self.skipped.append({"path": name, "why": odd})
            return
        try:
            info = _readable(os.path.join(self._root, name))
        except FileNotFoundError:
            return  # it went since its folder was read
        except OSError as error:
            self._refuse(name, error)
            return
        if self._most is not None and info.st_size > self._most:
            large = "its %d bytes are over the limit of %s" % (info.st_size, self._most)
            self.skipped.append({"path": name, "why": large})
        else:
            self.files.append(_entry(name, info))

    def _refuse(self, name: str, error: OSError) -> None:
        self.unreadable.append({"path": name, "why": error.strerror or str(error)})

    def _walk(self, ctx: Context) -> Iterator[Tuple[str, str]]:
        """(relative name, why it is skipped or ``""``) of everything below, in order."""
        rest = _inside(self._root, "")
        while rest:
            ctx.check_cancelled()
            name, odd = rest.pop()
            if odd is not None:
                yield name, odd
            elif name.count("/") >= MAX_DEPTH:
                yield name, "it lies more than %d folders deep" % MAX_DEPTH
            else:
                rest += self._below(name)

    def _below(self, folder: str) -> List[Tuple[str, Optional[str]]]:
        """What one of its folders holds, as :func:`_inside`."""
        try:
            return _inside(self._root, folder)
        except (FileNotFoundError, NotADirectoryError):
            return []  # it went since the folder above was read, or is a folder no longer
        except OSError as error:
            self._refuse(folder, error)
            return []


def _readable(path: str) -> os.stat_result:
    """What there is to know of a file that can be read.

    Raises:
        OSError: It cannot.
    """
    info = os.lstat(path)
    if not os.access(path, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    return info


def _refused(path: str, error: OSError) -> AgentError:
    is_ours = error.errno in (errno.EACCES, errno.EPERM)
    hint = "read it as a user who may (ansible_become, ansible_become_user)" if is_ours else ""
    return AgentError("io", "%s: %s" % (path, error.strerror), next_step=hint)


def _too_large(root: str, files: List[Dict[str, Any]], total: int, most: int) -> AgentError:
    largest = sorted(files, key=lambda file: -file["size"])[:5]
    return AgentError(
        "io",
        "the files of %s are %d bytes, over the limit of %d" % (root, total, most),
        ["%s: %d bytes" % (file["path"], file["size"]) for file in largest],
        next_step="bring a folder of it alone, or take away there what nobody needs",
    )


def _expand(path: str, ctx: Context) -> str:
    """``~/`` is the folder that holds ``.stoker``: the login's home, whatever HOME says later."""
    if path == "~" or path.startswith("~/"):
        return os.path.dirname(ctx.home) + path[1:]
    return path


def _inside(root: str, folder: str) -> List[Tuple[str, Optional[str]]]:
    """(relative name, why it is skipped or ``""``; None for a folder) of what a folder holds, last first."""
    with os.scandir(os.path.join(root, folder)) as entries:
        found = sorted(entries, key=lambda entry: entry.name, reverse=True)
    return [(os.path.join(folder, entry.name), _odd(entry)) for entry in found]


def _odd(entry: os.DirEntry[str]) -> Optional[str]:
    if _misnamed(entry.name):
        return _misnamed(entry.name)
    if entry.is_symlink():
        return "a link"
    if entry.is_dir(follow_symlinks=False):
        return None
    return "" if entry.is_file(follow_symlinks=False) else "no regular file"


def _misnamed(name: str) -> str:
    """Why nobody takes a file of that name; empty for any other."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is no UTF-8"
    is_odd = not name.isprintable() and any(c < " " or "\x7f" <= c <= "\x9f" for c in name)
    return "its name has control characters" if is_odd else ""


def _digest(ctx: Context, path: str) -> str:
    """The checksum of one file, read only as far as it went when it was opened."""
    # Without blocking: it may have become a pipe since it was listed.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "no regular file any more", path)
        left, digest = info.st_size, hashlib.sha256()
        while left:
            ctx.check_cancelled()
            block = os.read(fd, min(left, _BLOCK))
            if not block:
                break  # it shrank
            digest.update(block)
            left -= len(block)
        return digest.hexdigest()
    finally:
        os.close(fd)
