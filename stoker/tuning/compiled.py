"""The catalogue's data files, read from one JSON file where that is of these very files.

A command that launches a profile reads the catalogue before it connects; from YAML it takes twenty times as
long.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "catalogue"
FILE = Path(__file__).parent / "catalogue.json"
"""Written by ``inv dev.docs``; where it is absent, or of other files, the data files themselves are read."""


def load() -> Sequence[Mapping[str, Any]]:
    """What the data files hold, in the order of their names."""
    texts = _texts()
    try:
        found = json.loads(FILE.read_bytes())
        if found["digest"] == _digest(texts):
            return list(found["data"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # it only makes reading faster
    return _parsed(texts)


def dumps() -> str:
    """The text of the JSON file for the data files as they are."""
    texts = _texts()
    return json.dumps({"digest": _digest(texts), "data": _parsed(texts)}, separators=(",", ":")) + "\n"


def _texts() -> list[bytes]:
    return [path.read_bytes() for path in sorted(_FOLDER.glob("*.yml"))]


def _digest(texts: Sequence[bytes]) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def _parsed(texts: Sequence[bytes]) -> list[Mapping[str, Any]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where libyaml is there
    return [yaml.load(text, Loader=loader) for text in texts]  # noqa: S506 both are safe loaders
