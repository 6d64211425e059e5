"""parallel-ssh: ``python rival_pssh.py USER@ADDRESS:PORT,… KEY COMMANDS``."""

import sys

from pssh.clients import ParallelSSHClient
from pssh.config import HostConfig

names, key, times = sys.argv[1].split(","), sys.argv[2], int(sys.argv[3])
places = [name.partition("@")[2].partition(":") for name in names]
client = ParallelSSHClient(
    [address for address, _, _ in places],
    user=names[0].partition("@")[0],
    pkey=key,
    pool_size=50,
    host_config=[HostConfig(port=int(port)) for _, _, port in places],
    allow_agent=False,
)
for _ in range(times):
    outputs = client.run_command("true")
    client.join(outputs)
    if any(output.exit_code for output in outputs):
        sys.exit(1)
