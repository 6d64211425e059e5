"""Which files of a host may say what a variable is: start-up files, units, job scripts, modules, notes."""

from __future__ import annotations

import fnmatch
import os
import pwd
from typing import Callable, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

_MAX_USERS = 500
_DEEPEST = 12
_SHELL = (
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".xprofile",
    ".pam_environment",
    ".ssh/environment",
    ".ssh/rc",
    ".config/fish/config.fish",
)
_HISTORY = (
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".histfile",
    ".history",
    ".ash_history",
    ".sh_history",
    ".local/share/fish/fish_history",
)
_OF_HOST = (
    "/etc/environment",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zshenv",
    "/etc/zsh/zshenv",
    "/etc/zsh/zshrc",
    "/etc/zsh/zprofile",
    "/etc/zprofile",
    "/etc/zshrc",
    "/etc/csh.cshrc",
    "/etc/csh.login",
    "/etc/security/pam_env.conf",
    "/etc/rc.local",
    "/root/.nccl.conf",
)
# (folder, how its files are read, how deep, what their names look like)
_FOLDERS: Sequence[Tuple[str, str, int, str]] = (
    ("/etc/profile.d", "shell", 1, "*"),
    ("/etc/environment.d", "shell", 1, "*.conf"),
    ("/etc/default", "shell", 1, "*"),
    ("/etc/sysconfig", "shell", 1, "*"),
    ("/etc/systemd", "unit", 4, "*"),
    ("/run/systemd/system", "unit", 3, "*"),
    ("/usr/local/lib/systemd", "unit", 4, "*"),
    ("/usr/lib/systemd/system", "unit", 2, "*"),
    ("/lib/systemd/system", "unit", 2, "*"),
    ("/etc/slurm", "shell", 4, "*"),
    ("/etc/slurm-llnl", "shell", 4, "*"),
    ("/usr/local/etc/slurm", "shell", 4, "*"),
    ("/opt/slurm/etc", "shell", 4, "*"),
)
_MODULES = (
    "/etc/modulefiles",
    "/usr/share/modules/modulefiles",
    "/usr/share/Modules/modulefiles",
    "/opt/modulefiles",
    "/opt/modules",
)
_COMPOSE = ("compose*.y*ml", "docker-compose*.y*ml")
_JOBS = ("*.sh", "*.sbatch", "*.slurm", "*.job", "*.env", ".env", "Dockerfile*")
_KINDS = {
    **dict.fromkeys((".md", ".markdown", ".mdx", ".txt", ".rst", ".org", ".adoc", ".text", ".log"), "note"),
    **dict.fromkeys((".yml", ".yaml"), "yaml"),
    **dict.fromkeys((".json", ".jsonl"), "json"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".env", ".sbatch", ".slurm", ".job", ".fish", ".lua"), "shell"),
    **dict.fromkeys((".service", ".conf"), "unit"),
}
_NOTES = ("README*", "NOTES*", "TODO*", "CHANGELOG*", "Dockerfile*", "Makefile", ".env*")
_SKIPPED = frozenset((".git", ".hg", ".svn", "node_modules", "__pycache__", "site-packages", ".venv", "venv"))


class Place(NamedTuple):
    """A file to read.

    Args:
        path: Absolute.
        kind: As ``searchtext.hits`` reads it.
        root: A link out of this folder is not followed.
    """

    path: str
    kind: str
    root: str


def of_host(login: Mapping[str, str], history: bool, step: Callable[[], None]) -> Iterator[Place]:
    """Every file of a host that sets variables by its place.

    Args:
        login: The login's environment: its home, ``MODULEPATH`` and ``NCCL_CONF_FILE``.
        history: Whether shells' histories are read.
        step: Called at each file that is looked at; may raise.
    """
    for path in _OF_HOST:
        yield Place(path, "conf" if path.endswith("nccl.conf") else "shell", os.path.dirname(path))
    yield Place("/etc/nccl.conf", "conf", "/etc")
    if login.get("NCCL_CONF_FILE", "").startswith("/"):
        path = login["NCCL_CONF_FILE"]
        yield Place(path, "conf", os.path.dirname(path))
    for folder, kind, depth, name in _FOLDERS:
        for path in _below(folder, depth, step):
            if fnmatch.fnmatchcase(os.path.basename(path), name):
                yield Place(path, kind, folder)
    for folder in (*_MODULES, *filter(os.path.isabs, login.get("MODULEPATH", "").split(":"))):
        yield from (Place(path, "shell", folder) for path in _below(folder, 5, step))
    for home in homes(login):
        yield from _of_home(home, history, step)
    for folder in ("/opt", "/srv"):
        yield from _composed(folder, 2, step)


def homes(login: Mapping[str, str]) -> List[str]:
    """The homes of all users, the login's own first."""
    found = [login.get("HOME", "")]
    for count, user in enumerate(pwd.getpwall()):
        if count >= _MAX_USERS:
            break
        found.append(user.pw_dir)
    system = ("/", "/bin", "/usr", "/dev", "/nonexistent", "/usr/sbin", "/sbin", "/etc", "/proc")
    return [
        home
        for home in dict.fromkeys(found)
        if os.path.isabs(home) and (home.rstrip("/") or "/") not in system
    ]


def _of_home(home: str, history: bool, step: Callable[[], None]) -> Iterator[Place]:
    for name in _SHELL:
        yield Place(os.path.join(home, name), "shell", home)
    yield Place(os.path.join(home, ".nccl.conf"), "conf", home)
    for name in _HISTORY if history else ():
        yield Place(os.path.join(home, name), "history", home)
    for folder, kind in ((".config/systemd/user", "unit"), (".config/environment.d", "shell")):
        yield from (Place(path, kind, home) for path in _below(os.path.join(home, folder), 3, step))
    for path in _below(home, 1, step):
        if _fits(os.path.basename(path), _JOBS):
            yield Place(path, "shell", home)
    yield from _composed(home, 2, step)


def _composed(folder: str, depth: int, step: Callable[[], None]) -> Iterator[Place]:
    for path in _below(folder, depth, step):
        if _fits(os.path.basename(path), _COMPOSE):
            yield Place(path, "yaml", folder)


def of_notes(folder: str, step: Callable[[], None]) -> Iterator[Place]:
    """Notes, scripts and configuration below a folder."""
    for path in _below(folder, _DEEPEST, step):
        name = os.path.basename(path)
        kind = _KINDS.get(os.path.splitext(name)[1].lower(), "")
        if not kind and _fits(name, _NOTES):
            kind = "shell" if name.startswith(("Dockerfile", ".env", "Makefile")) else "note"
        if kind:
            yield Place(path, kind, folder)


def _below(folder: str, depth: int, step: Callable[[], None]) -> Iterator[str]:
    """Files below a folder, links among them, folders behind links not."""
    step()
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        step()
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
        except OSError:
            continue
        if not is_folder:
            yield entry.path
        elif depth > 1 and entry.name not in _SKIPPED and entry.path not in ("/proc", "/sys", "/dev"):
            yield from _below(entry.path, depth - 1, step)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
