"""Fabric's ThreadingGroup: ``python rival_fabric.py USER@ADDRESS:PORT,… KEY COMMANDS``."""

import sys

from fabric import Connection, ThreadingGroup

hosts, key, times = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
given = {"key_filename": key, "look_for_keys": False, "allow_agent": False}
group = ThreadingGroup.from_connections([Connection(host, connect_kwargs=given) for host in hosts])
for _ in range(times):
    group.run("true", hide=True, in_stream=False)
group.close()
