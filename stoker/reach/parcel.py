"""What is sent of the agent: at once what a command needs, the rest before the first other request."""

from __future__ import annotations

import base64
import functools
import marshal
import sys
import threading
import zlib
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import Any

import stoker

# The operations for which the first part is enough, and all modules that these may ever import.
CORE_OPERATIONS = frozenset(("exec", "manifest", "digests"))
CORE = (
    "main",
    "context",
    "session",
    "protocol",
    "quickjson",
    "secretsfile",
    "run",
    "spawn",
    "blot",
    "variables",
    "facts",
    "files",
)
# Of these, which every connection or command imports, the code goes too: to compile them takes as long as to
# start Python. It serves a host whose Python has the same bytecode; any other compiles the source.
COMPILED = CORE[:8]

# The modules are imported from memory, under the names they have here; tracebacks show their lines.
_BOOT = """
def cut(data, slices):
    return {name: data[start:end] for name, (start, end) in slices.items()}

def more(found):
    import binascii
    sources.update(cut(binascii.a2b_base64(found["data"]), found["sources"]))

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in sources:
            return None
        origin = "<agent>/" + name.replace(".", "/") + ".py"
        spec = type(sys.__spec__)(name, Finder, origin=origin, is_package=name in packages)
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def get_source(name):
        return zlib.decompress(sources[name]).decode()

    @staticmethod
    def is_package(name):
        return name in packages

    @staticmethod
    def exec_module(module):
        spec = module.__spec__
        if spec.name in codes:
            code = marshal.loads(zlib.decompress(codes[spec.name]))
        else:
            code = compile(Finder.get_source(spec.name), spec.origin, "exec", dont_inherit=True)
        exec(code, module.__dict__)

codes = cut(packed, codes) if is_same else {}
sources = cut(packed, sources)
sys.meta_path.insert(0, Finder)
from stoker.agent import main
main.main(read_fd, write_fd, version, silence_s, more)
"""

_packing = threading.Lock()


def first(silence_s: float) -> tuple[bytes, bytes]:
    """(how to import with what is where, the modules): the same for every host.

    A cache alone does not keep fifty threads that start together from each doing the work.
    """
    with _packing:
        return _first(silence_s)


def rest() -> dict[str, Any]:
    """The message with every other module; the same for every host, and for the host harmless twice."""
    with _packing:
        return _rest()


@functools.cache
def _first(silence_s: float) -> tuple[bytes, bytes]:
    packed = _Packed()
    packages = ("stoker", "stoker.agent", *(_full(room) for room in _rooms()))
    sources = {name: packed.add(b"") for name in packages}
    codes = {}
    for module in CORE:
        sources[_full(module)] = packed.add(_source(module))
    for module in COMPILED:
        origin = "<agent>/" + _full(module).replace(".", "/") + ".py"
        code = compile(_source(module), origin, "exec", dont_inherit=True, optimize=0)
        codes[_full(module)] = packed.add(marshal.dumps(code))
    tag = sys.implementation.cache_tag
    head = {"tag": tag, "magic": MAGIC_NUMBER, "packages": packages, "sources": sources, "codes": codes}
    booted = marshal.dumps(compile(_BOOT, "<boot>", "exec", dont_inherit=True, optimize=0))
    whole = {**head, "boot": _BOOT, "booted": booted, "version": stoker.__version__, "silence_s": silence_s}
    return zlib.compress(repr(whole).encode(), 6), bytes(packed.data)


@functools.cache
def _rest() -> dict[str, Any]:
    packed = _Packed()
    sources = {_full(name): packed.add(_source(name)) for name in modules() if name not in CORE}
    return {"modules": {"sources": sources, "data": base64.b64encode(packed.data).decode()}}


class _Packed:
    """Texts one behind the other, each compressed by itself: most of them are never read."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, text: bytes) -> tuple[int, int]:
        """Where it stands now."""
        start = len(self.data)
        self.data += zlib.compress(text, 6)
        return start, len(self.data)


def modules() -> list[str]:
    """Names of all modules of the agent: ``main``, ``starting.life``."""
    paths = (path.relative_to(_folder()).with_suffix("") for path in _folder().rglob("*.py"))
    return sorted(".".join(path.parts) for path in paths if path.name != "__init__")


def _rooms() -> list[str]:
    """Names of the packages in the agent's."""
    return sorted(path.parent.name for path in _folder().glob("*/__init__.py"))


def _folder() -> Path:
    return Path(stoker.__file__).parent / "agent"


def _source(module: str) -> bytes:
    return _folder().joinpath(*module.split(".")).with_suffix(".py").read_bytes()


def _full(module: str) -> str:
    return f"stoker.agent.{module}"
