"""``sglang serve MODEL …`` and ``sglang version``."""

import argparse
import sys

from stoker.lab.standins.sglang import __version__
from stoker.lab.standins.sglang.server import main as serve


def main() -> int:
    """Run the subcommand of the command line."""
    parser = argparse.ArgumentParser(prog="sglang")
    commands = parser.add_subparsers(dest="subcommand", required=True)
    commands.add_parser("serve", help="Launch an SGLang server.", add_help=False)
    commands.add_parser("version", help="Show the version information.")
    known, rest = parser.parse_known_args()
    if known.subcommand == "version":
        sys.stdout.write(f"sglang version: {__version__}\n")
        return 0
    if rest and not rest[0].startswith("-"):
        rest = ["--model-path", *rest]
    return serve(rest, prog="sglang serve")
