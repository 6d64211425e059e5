"""``vllm serve MODEL …`` and ``vllm --version``."""

import argparse
import sys

from stoker.lab.standins.vllm import __version__
from stoker.lab.standins.vllm.server import main as serve


def main() -> int:
    """Run the subcommand of the command line."""
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("-v", "--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="subcommand", required=True)
    commands.add_parser("serve", help="Launch a local OpenAI-compatible API server.", add_help=False)
    _, rest = parser.parse_known_args()
    return serve(rest)


if __name__ == "__main__":
    sys.exit(main())
