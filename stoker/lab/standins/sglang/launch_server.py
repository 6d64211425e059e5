"""``python -m sglang.launch_server …``."""

import sys

from stoker.lab.standins.sglang.server import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], prog="launch_server.py"))
