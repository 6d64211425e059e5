"""Whether a host's key is the one it should be: the same judgement for every hop of every connection."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Sequence
from pathlib import Path

from stoker.reach.door import Unreachable
from stoker.reach.hostcert import HostCertificate
from stoker.reach.hostkeys import Entry, HostKey, KeyFile
from stoker.reach.route import SSH_PORT, Hop

# Others append to the same file: that often it is read anew before it is given up.
_RACES = 5


class KnownHosts:
    """Known host keys, each file read once and shared by all connections and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Path, KeyFile] = {}
        self._together: dict[tuple[Path, ...], tuple[KeyFile, ...]] = {}

    def kinds(self, hop: Hop) -> tuple[str, ...]:
        """The kinds of key that are known of a server: it should be asked for those first."""
        with self._lock:
            found = self._entries(hop.known_hosts, _names(hop))
        return tuple(dict.fromkeys(entry.key.kind for entry in found if not entry.marker))

    def verify(self, hop: Hop, key: HostKey) -> None:
        """Accept a server's key, record it where it is the first, or refuse it.

        Args:
            hop: The server.
            key: What it shows.

        Raises:
            Unreachable: ``host-key-changed``, ``host-key-revoked``, or ``host-key-unknown`` (under
                ``strict``, or where it cannot be recorded).
        """
        with self._lock:
            for _ in range(_RACES):
                if self._is_known(hop, key):
                    return
                if hop.strict:
                    raise _unknown(hop, key)
                if not hop.known_hosts or self._record(hop, key):
                    return
        raise Unreachable(
            "host-key-unknown", f"{hop}: {hop.known_hosts[0]} changes faster than it can be read"
        )

    def authorities(self, hop: Hop) -> tuple[Entry, ...]:
        """Who may vouch for a server by a certificate."""
        with self._lock:
            found = self._entries(hop.known_hosts, _names(hop))
        return tuple(entry for entry in found if entry.marker == "cert-authority")

    def verify_certificate(self, hop: Hop, certificate: HostCertificate) -> None:
        """Accept a server by its certificate, or else by its key alone.

        Raises:
            Unreachable: As :meth:`verify`; ``host-key-unknown`` also where a known authority's certificate is
                not right, and the key itself is not known.
        """
        vouching = [entry for entry in self.authorities(hop) if entry.key == certificate.authority]
        if not vouching:
            self.verify(hop, certificate.key)
            return
        self.compared(hop, (certificate.key, certificate.authority))  # neither may be revoked
        name = hop.key_name.lower() or hop.address.lower()
        flaw = certificate.flaw(name)
        if flaw and not self.compared(hop, (certificate.key,))[1]:
            raise _flawed(hop, certificate, vouching[0], flaw)

    def compared(self, hop: Hop, keys: Sequence[HostKey]) -> tuple[tuple[Entry, ...], bool]:
        """What the files say of the keys that a server shows.

        Returns:
            The lines with other keys of it, and whether all that it shows are known.

        Raises:
            Unreachable: ``host-key-revoked``.
        """
        with self._lock:
            found = self._entries(hop.known_hosts, _names(hop)[:1])
            vouching = found + self._entries(hop.known_hosts, _names(hop)[1:])
        for entry in vouching:
            for key in keys:
                if entry.marker == "revoked" and entry.key.blob == key.blob:
                    raise _revoked(hop, key, entry)
        others = tuple(entry for entry in found if not entry.marker and entry.key not in keys)
        known = {entry.key for entry in vouching if not entry.marker}
        return others, known >= set(keys)

    def trust(self, hop: Hop, keys: Sequence[HostKey]) -> list[Entry]:
        """Record a server's keys on purpose, in place of all others in the file that we write.

        Returns:
            Lines with other keys of it that stay: patterns, and those of other files.

        Raises:
            Unreachable: ``host-key-unknown``: there is no file, or it cannot be written.
        """
        if not hop.known_hosts:
            raise Unreachable(
                "host-key-unknown",
                f"{hop}: no known_hosts file is set, so that nothing can be recorded",
                next_step="name one in the setting known_hosts",
            )
        with self._lock:
            file = self._file(hop.known_hosts[0])
            try:
                file.replace(_names(hop)[0], keys, hop.hash_known_hosts)
            except OSError as error:
                raise _unwritable(hop, file.path, keys, error) from error
        return list(self.compared(hop, keys)[0])

    def _is_known(self, hop: Hop, key: HostKey) -> bool:
        """Whether the key is known; False where nothing is known of the server.

        Raises:
            Unreachable: Another key is known, or this one is revoked.
        """
        name, *looser = _names(hop)
        found = self._entries(hop.known_hosts, (name,))
        # As for ssh, the bare name's line may vouch for a server on another port, not speak against it.
        vouching = found + self._entries(hop.known_hosts, looser)
        for entry in vouching:
            if entry.marker == "revoked" and entry.key.blob == key.blob:
                raise _revoked(hop, key, entry)
        if any(not entry.marker and entry.key == key for entry in vouching):
            return True
        others = [entry for entry in found if not entry.marker]
        if others:
            raise _changed(hop, key, others, name)
        return False

    def _record(self, hop: Hop, key: HostKey) -> bool:
        """Write a first key down; False where the file had changed meanwhile: it must be judged again."""
        file = self._file(hop.known_hosts[0])
        try:
            return file.append(_names(hop)[0], key, hop.hash_known_hosts)
        except OSError as error:
            raise _unwritable(hop, file.path, [key], error) from error

    def _entries(self, paths: Sequence[Path], names: Sequence[str]) -> list[Entry]:
        return [entry for file in self._all(tuple(paths)) for name in names for entry in file.find(name)]

    def _all(self, paths: tuple[Path, ...]) -> tuple[KeyFile, ...]:
        if paths not in self._together:
            self._together[paths] = tuple(map(self._file, paths))
        return self._together[paths]

    def _file(self, path: Path) -> KeyFile:
        if path not in self._files:
            self._files[path] = KeyFile(path)
        return self._files[path]


def _names(hop: Hop) -> tuple[str, ...]:
    """How known_hosts calls a server; after the right name those that may vouch for it too."""
    if hop.key_name:
        return (hop.key_name.lower(),)
    bare = hop.address.lower()
    return (bare,) if hop.port == SSH_PORT else (f"[{bare}]:{hop.port}", bare)


def _changed(hop: Hop, key: HostKey, known: Sequence[Entry], name: str) -> Unreachable:
    lines = [f"{entry.place}: known is {entry.key.kind} {entry.key.fingerprint}" for entry in known]
    old = known[0]
    fix = f"ssh-keygen -f {shlex.quote(str(old.file))} -R {shlex.quote(name)}"
    if not all(entry.removable for entry in known):
        fix = "take " + ", ".join(entry.place for entry in known) + " out"
    return Unreachable(
        "host-key-changed",
        f"{hop}: its host key is not the one recorded at {old.place}",
        evidence=[*lines, f"now it shows {key.kind} {key.fingerprint}"],
        next_step=f"find out why; if the new key is right: {fix}",
    )


def _revoked(hop: Hop, key: HostKey, entry: Entry) -> Unreachable:
    return Unreachable(
        "host-key-revoked",
        f"{hop}: its host key is marked @revoked at {entry.place}",
        evidence=[f"it shows {key.kind} {key.fingerprint}"],
        next_step="give the host a new key, and find out who has the old one",
    )


def _flawed(hop: Hop, certificate: HostCertificate, entry: Entry, flaw: str) -> Unreachable:
    return Unreachable(
        "host-key-unknown",
        f"{hop}: its certificate {flaw}",
        evidence=[
            f"certificate {certificate.key_id!r} of {certificate.key.kind} {certificate.key.fingerprint}",
            f"{entry.place}: its authority is {entry.key.kind} {entry.key.fingerprint}",
        ],
        next_step="have the host's key signed anew (ssh-keygen -s CA -h -n NAME), or record it: inv trust",
    )


def _unwritable(hop: Hop, path: Path, keys: Sequence[HostKey], error: OSError) -> Unreachable:
    return Unreachable(
        "host-key-unknown",
        f"{hop}: its key cannot be recorded in {path}: {error.strerror}",
        evidence=[f"{key.kind} {key.fingerprint}" for key in keys],
        next_step="make that file writable, or name another one in the setting known_hosts",
    )


def _unknown(hop: Hop, key: HostKey) -> Unreachable:
    files = ", ".join(str(path) for path in hop.known_hosts) or "no file at all"
    return Unreachable(
        "host-key-unknown",
        f"{hop}: its host key is in none of the known_hosts files, and the policy is strict",
        evidence=[f"it shows {key.kind} {key.fingerprint}", f"read: {files}"],
        next_step="compare the fingerprint, then record it: inv trust --host NAME; or add the line: "
        f"{_names(hop)[0]} {key.kind} {key.blob}",
    )
