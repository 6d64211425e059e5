"""The floor: one paramiko connection a host and an exec channel a command, nothing else.

python floor.py USER@ADDRESS:PORT,… KEY KNOWN_HOSTS COMMANDS
"""

from __future__ import annotations

import queue
import socket
import sys
import threading

import paramiko

FORKS = 50


def main() -> None:
    """Run ``true`` so many times on each host; exit code 1 where one did not end well."""
    names, key_file, known_hosts, commands = sys.argv[1:]
    key = paramiko.Ed25519Key.from_private_key_file(key_file)
    known = _known(known_hosts)
    hosts: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names.split(","):
        hosts.put(name)
    bad: list[str] = []

    def work() -> None:
        while True:
            try:
                name = hosts.get_nowait()
            except queue.Empty:
                return
            if not _on(name, key, known, int(commands)):
                bad.append(name)

    threads = [threading.Thread(target=work) for _ in range(FORKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(1 if bad else 0)


def _known(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as lines:
        return {fields[0]: fields[2] for fields in map(str.split, lines)}


def _on(name: str, key: paramiko.PKey, known: dict[str, str], commands: int) -> bool:
    user, _, place = name.partition("@")
    address, _, port = place.partition(":")
    link = socket.create_connection((address, int(port)))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = paramiko.Transport(link)
    options = transport.get_security_options()
    options.kex = ("curve25519-sha256@libssh.org",)
    options.ciphers = ("aes128-gcm@openssh.com",)
    transport.start_client()
    if transport.get_remote_server_key().get_base64() != known[f"[{address}]:{port}"]:
        return False
    transport.auth_publickey(user, key)
    ended = [_run(transport) for _ in range(commands)]
    transport.close()
    return not any(ended)


def _run(transport: paramiko.Transport) -> int:
    channel = transport.open_session()
    channel.exec_command("true")
    while channel.recv(1000):
        continue
    status = channel.recv_exit_status()
    channel.close()
    return status


if __name__ == "__main__":
    main()
