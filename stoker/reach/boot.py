"""Start the agent on a host: find a Python, send the agent's source, wait for its greeting.

Everything goes over one exec channel. The command line carries a small loader, in base64 so that no login
shell can misread it; the loader reads the agent's modules from its input. Whatever the host's start-up files
print or swallow before that does no harm: both sides look for a marker that nobody else knows.
"""

from __future__ import annotations

import base64
import functools
import secrets
import shlex
import zlib
from dataclasses import dataclass, field

from stoker.errors import HostFailed
from stoker.reach import parcel
from stoker.reach.door import Unreachable
from stoker.reach.transport import Channel, Deadline

# The patterns are the shell's: they cost nothing, where the link /usr/bin/python3 costs a process to follow.
# /usr/bin first: a version manager's shim costs 200 ms.
_SYSTEM_PYTHONS = "/usr/bin/python3.1[0-9] /usr/bin/python3.[89]"
PYTHONS = (
    "/usr/bin/python3",
    "python3",
    "/usr/local/bin/python3",
    *(f"python3.{minor}" for minor in range(14, 7, -1)),
)
_MOST_NOISE = 1 << 20
_EVIDENCE_LINES = 8

# Runs under Python 3.8 with -I -S. It answers the marker, skips its input up to a line that begins with the
# marker, and takes exactly as many bytes as that line says: how to import, what is where, and the modules.
# Then the wire is moved out of the way of whatever prints. What was compiled here serves the same bytecode.
_LOADER = """
import marshal,os,sys,zlib
mark=sys.argv[1].encode()
os.write(1,b"\\n"+mark+b" ready\\n")
def take(n):
 b=bytearray()
 while len(b)<n:
  c=os.read(0,n-len(b))
  if not c:os._exit(3)
  b+=c
 return bytes(b)
line=b""
while not line.startswith(mark):
 line=take(1)
 while line[-1:]!=b"\\n":line+=take(1)
sizes=line.split()[1:]
globals().update(eval(zlib.decompress(take(int(sizes[0])))))
packed=take(int(sizes[1]))
read_fd=os.dup(0)
write_fd=os.dup(1)
null=os.open(os.devnull,os.O_RDWR)
os.dup2(null,0)
os.dup2(2,1)
os.close(null)
found=getattr(sys.modules.get("_frozen_importlib_external"),"MAGIC_NUMBER",b"")
is_same=(sys.implementation.cache_tag,found)==(tag,magic)
exec(marshal.loads(booted) if is_same else compile(boot,"<boot>","exec"))
"""

# No exclamation mark, backslash or single quote in it: it stands in single quotes, and csh reads even those.
# A system's own /usr/bin/python3.11 with its library is believed; any other Python is asked, which costs its
# start (a version manager's file of that name is a script that may find nothing).
_FIND = (
    'for p in "$@"; do case "$p" in "~/"*) p="$HOME/${p#??}";; esac; '
    'case "$p" in /usr/bin/python3) r=$(readlink -f "$p");; *) r="$p";; esac; '
    'case "$r" in /usr/bin/python3.[89]|/usr/bin/python3.1[0-9]) n="${r##*/}"; '
    'if [ -x "$r" ] && [ -d "/usr/lib/$n/json" -o -d "/usr/lib64/$n/json" ]; '
    'then exec "$p" -ISuc "$0" MARK; fi;; esac; '
    '"$p" -ISc "import sys,zlib;sys.exit(sys.version_info<(3,8))" 2>/dev/null && exec "$p" -ISuc "$0" MARK; '
    'done; echo; echo MARK none; for p in "$@"; do echo "$p: $("$p" -V 2>&1)"; done; exit 127'
)


@functools.cache
def _loader() -> str:
    packed = base64.b64encode(zlib.compress(_LOADER.encode(), 9)).decode()
    return f'import zlib,binascii;exec(zlib.decompress(binascii.a2b_base64("{packed}")))'


@dataclass
class Booting:
    """One agent on its way up.

    Args:
        host: The inventory's name.
        python: The one interpreter to use; empty: looked for.
        silence_s: Without a word from us for this long the agent ends.
        mark: What both sides look for.
    """

    host: str
    python: str = ""
    silence_s: float = 45.0
    mark: str = field(default_factory=lambda: "stoker-" + secrets.token_hex(8))
    _noise: bytearray = field(default_factory=bytearray)
    _errors: bytearray = field(default_factory=bytearray)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The interpreters that are tried, in order."""
        return (self.python,) if self.python else PYTHONS

    @property
    def command(self) -> str:
        """For the login shell, of whatever kind it is."""
        find = _FIND.replace("MARK", self.mark)
        if not self.python:
            find = f'set -- {_SYSTEM_PYTHONS} "$@"; {find}'
        names = " ".join(shlex.quote(name) for name in self.candidates)
        return f"exec /bin/sh -c '{find}' '{_loader()}' {names}"

    @property
    def input(self) -> bytes:
        """Sent at once. The empty line is for a start-up file that reads one."""
        head, modules = parcel.first(self.silence_s)
        return b"\n%s %d %d\n" % (self.mark.encode(), len(head), len(modules)) + head + modules

    def wait(self, channel: Channel, deadline: Deadline) -> bytes:
        """Wait until the loader runs.

        Args:
            channel: Where the command was started and the input sent.
            deadline: Until then.

        Returns:
            What came after the marker: the beginning of the first frame.

        Raises:
            HostFailed: ``no-python``, ``no-shell``, or ``timeout``, with what the host said instead.
            Unreachable: The link is gone.
        """
        ready, none = (b"%s %s\n" % (self.mark.encode(), word) for word in (b"ready", b"none"))
        while not deadline.passed:
            said = channel.read(min(deadline.left_s, 1.0))
            if said is None:
                continue
            stream, data = said
            if stream == "stderr":
                self._errors = (self._errors + data)[-8192:]
                continue
            self._noise += data
            if ready in self._noise:
                return bytes(self._noise.partition(ready)[2])
            if not data:
                raise self._no_python() if none in self._noise else self._no_shell(channel)
            if len(self._noise) > _MOST_NOISE:
                raise self._failed(
                    "no-shell", "the login shell prints without end", "look at its start-up files"
                )
        raise self._failed(
            "timeout",
            f"logged in, but no command was run within {deadline.seconds:g} s",
            "look at the login shell's start-up files: does one ask something, or start another shell?",
        )

    def _no_python(self) -> HostFailed:
        answers = self._noise.decode(errors="replace").partition(f"{self.mark} none\n")[2]
        answers = answers.replace(_loader(), "sh")  # sh calls itself by its $0
        tried = ", ".join(self.candidates)
        return HostFailed(
            f"no Python 3.8 or newer was found (tried {tried})",
            host=self.host,
            kind="no-python",
            evidence=[line for line in answers.splitlines() if line.strip()][:_EVIDENCE_LINES],
            next_step="install python3 there, or set ansible_python_interpreter to one",
        )

    def _no_shell(self, channel: Channel) -> HostFailed:
        status = channel.exit_status(1.0)
        if status is None:
            raise Unreachable("lost", "the connection ended before a command was run")
        ended = "was ended by a signal" if status < 0 else f"ended with status {status}"
        return self._failed(
            "no-shell",
            f"logged in, but the login shell {ended} before a command was run",
            "log in by hand with the same account and see what happens",
        )

    def _failed(self, kind: str, what: str, next_step: str) -> HostFailed:
        said = (self._noise[-8192:] + b"\n" + self._errors).decode(errors="replace")
        lines = [line for line in said.splitlines() if line.strip()]
        return HostFailed(
            what, host=self.host, kind=kind, evidence=lines[-_EVIDENCE_LINES:], next_step=next_step
        )
