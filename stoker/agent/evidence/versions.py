"""Versions of what a server really runs, read from its mappings and from disk: nothing of it is executed."""

from __future__ import annotations

import glob
import mmap
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..processes.procs import Process, read_file

_PACKAGES = re.compile(r"(/\S*?/(?:site|dist)-packages)/")
_NCCL_BYTES = re.compile(rb"NCCL version (\d+\.\d+(?:\.\d+)*)")
_LIBRARY_LIMIT = 2 << 30
_VERSION_LIMIT = 1 << 16


class Disk:
    """The files that one process sees.

    Args:
        process: A worker, or the launcher.
        live: Its live environment.
    """

    def __init__(self, process: Process, live: Mapping[str, str]) -> None:
        self._process = process
        self._live = live
        self._root = "/proc/%d/root" % process.pid
        maps = read_file("/proc/%d/maps" % process.pid, limit=64 << 20).decode("utf-8", "replace")
        paths = (line.split(None, 5)[-1] for line in maps.splitlines() if line.count("/") > 1)
        self.mapped = list(dict.fromkeys(path for path in paths if path.startswith("/")))

    def seen(self, path: str) -> str:
        """A path of the process as a path of ours: it may live in a container."""
        return self._root + path if os.path.isdir(self._root + "/") else path

    def prefix(self) -> str:
        """The virtual environment (or installation) it runs from; empty where nothing tells."""
        for path in self._candidates():
            if os.path.isfile(self.seen(os.path.join(path, "pyvenv.cfg"))):
                return path
        exe = self._process.exe.split(" (deleted)")[0]
        return os.path.dirname(os.path.dirname(exe)) if "python" in os.path.basename(exe) else ""

    def _candidates(self) -> Iterable[str]:
        for word in self._process.argv[:2]:  # the interpreter, or the script that it runs
            if "/" in word:
                path = word if word.startswith("/") else os.path.join(self._cwd(), word)
                yield os.path.dirname(os.path.dirname(os.path.normpath(path)))
        if self._live.get("VIRTUAL_ENV"):
            yield self._live["VIRTUAL_ENV"]
        program = self._process.argv[0] if self._process.argv else ""
        for folder in self._live.get("PATH", "").split(os.pathsep):
            if (
                folder
                and program
                and "/" not in program
                and os.path.lexists(self.seen(folder + "/" + program))
            ):
                yield os.path.dirname(folder)

    def _cwd(self) -> str:
        try:
            return os.readlink("/proc/%d/cwd" % self._process.pid)
        except OSError:
            return "/"

    def packages(self) -> List[str]:
        """Folders of installed distributions, those that it has loaded from first."""
        found = [match.group(1) for match in map(_PACKAGES.match, self.mapped) if match]
        prefix = self.prefix()
        for pattern in (
            "lib/python3*/site-packages",
            "lib64/python3*/site-packages",
            "lib/python3*/dist-packages",
        ):
            if prefix:
                start = self.seen(prefix)
                hits = sorted(glob.glob(os.path.join(glob.escape(start), pattern)))
                found += [prefix + hit[len(start) :] for hit in hits]
        return list(dict.fromkeys(found))

    def distribution(self, name: str) -> str:
        """The version of an installed distribution; empty where it is not installed.

        Args:
            name: As on the index; a pattern may stand for its end, e.g. ``nvidia-nccl-cu*``.
        """
        pattern = re.sub(r"[-_.]+", "[-_.]", name).replace("*", "[^-]*")
        wanted = re.compile(r"%s-([^-]+)\.(dist|egg)-info" % pattern, re.IGNORECASE)
        for folder in self.packages():
            try:
                names = sorted(os.listdir(self.seen(folder)))
            except OSError:
                continue
            for entry in names:
                hit = wanted.fullmatch(entry)
                if hit:
                    return _metadata(self.seen(os.path.join(folder, entry))) or hit.group(1)
        return ""

    def library(self, pattern: str) -> str:
        """Path of the first mapped library whose base name fits; empty where none is mapped."""
        wanted = re.compile(pattern)
        return next((path for path in self.mapped if wanted.match(os.path.basename(path))), "")


def read(
    launcher: Process, worker: Optional[Process], live: Mapping[str, str], engine: Mapping[str, Any]
) -> Tuple[Dict[str, str], List[str]]:
    """Versions of the engine and of what it computes with.

    Args:
        launcher: Its program and virtual environment.
        worker: Where the libraries are mapped; None: the launcher.
        live: Live environment.
        engine: ``Engine.to_wire()``.

    Returns:
        ``engine python torch cuda nccl kernel`` as far as known, and what could not be read, and why.
    """
    home, disk = Disk(launcher, live), Disk(worker or launcher, live)
    found = {"kernel": os.uname().release}
    unread: List[str] = []
    if engine["distribution"]:
        found["engine"] = home.distribution(engine["distribution"])
        if not found["engine"]:
            unread.append("version of the engine: %s is in no folder it loads from" % engine["distribution"])
    if "python" in os.path.basename(launcher.exe):
        found["python"] = _python(home)
        found["torch"] = home.distribution("torch")
        found["cuda"] = _cuda(home, disk)
        nccl, why = _nccl(disk)
        found["nccl"] = nccl
        unread += [why] if why else []
        unread += [f"version of {n}: it is not installed there" for n in ("torch", "cuda") if not found[n]]
    return {name: version for name, version in found.items() if version}, unread


def _metadata(folder: str) -> str:
    for name in ("METADATA", "PKG-INFO"):
        text = read_file(os.path.join(folder, name), _VERSION_LIMIT).decode("utf-8", "replace")
        hit = re.search(r"^Version:\s*(\S+)", text, re.MULTILINE)
        if hit:
            return hit.group(1)
    return ""


def _python(disk: Disk) -> str:
    text = read_file(os.path.join(disk.seen(disk.prefix()), "pyvenv.cfg")).decode("utf-8", "replace")
    hit = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", text, re.MULTILINE)
    if hit:
        return hit.group(1)
    for folder in disk.packages():
        hit = re.search(r"/python(3\.\d+)/", folder + "/")
        if hit:
            return hit.group(1)
    return ""


def _cuda(home: Disk, disk: Disk) -> str:
    """The CUDA runtime: as mapped, as torch was built for, as installed beside it."""
    path = disk.library(r"libcudart\.so")
    hit = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)", os.path.basename(_resolved(disk, path))) if path else None
    if hit:
        return hit.group(1)
    for folder in home.packages():
        text = read_file(home.seen(folder + "/torch/version.py"), _VERSION_LIMIT).decode("utf-8", "replace")
        hit = re.search(r"^cuda[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
        if hit:
            return hit.group(1)
    return home.distribution("nvidia-cuda-runtime-cu*") or home.distribution("nvidia-cuda-runtime")


def _nccl(disk: Disk) -> Tuple[str, str]:
    """(the version of the NCCL that is really mapped, why it is not known)."""
    path = disk.library(r"libnccl\.so")
    if not path:
        return "", "version of nccl: no libnccl is mapped by the worker"
    hit = re.search(r"\.so\.(\d+\.\d+\.\d+)", os.path.basename(_resolved(disk, path)))
    if hit:
        return hit.group(1), ""
    version = _in_library(disk.seen(path))
    if not version and "/site-packages/nvidia/nccl/" in path:
        version = disk.distribution("nvidia-nccl-cu*")
    return version, "" if version else "version of nccl: %s does not tell it" % path


def _resolved(disk: Disk, path: str) -> str:
    """The file behind a chain of links, by its name."""
    target = path
    for _ in range(8):
        try:
            link = os.readlink(disk.seen(target))
        except OSError:
            return target
        target = os.path.normpath(os.path.join(os.path.dirname(target), link))
    return target


def _in_library(path: str) -> str:
    """The version that the library prints at its start, out of its strings."""
    try:
        with open(path, "rb") as file:
            if not 0 < os.fstat(file.fileno()).st_size < _LIBRARY_LIMIT:
                return ""
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                hit = _NCCL_BYTES.search(content)
                return hit.group(1).decode("ascii") if hit else ""
    except (OSError, ValueError):
        return ""


def said_by_server(args: Mapping[str, Any]) -> str:
    """The engine's version as the server itself reports it; empty where it does not."""
    for name in ("version", "build_info", "sglang_version", "vllm_version"):
        value = args.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def conf_files(process: Process, live: Mapping[str, str]) -> Tuple[Sequence[str], str]:
    """Files that NCCL reads in this process, most important first, and the root that it sees them under."""
    own = live.get("NCCL_CONF_FILE") or (live["HOME"] + "/.nccl.conf" if live.get("HOME") else "")
    return [path for path in (own, "/etc/nccl.conf") if path.startswith("/")], "/proc/%d/root" % process.pid
