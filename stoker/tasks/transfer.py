"""Commands that carry files to hosts and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.fleet import transfer
from stoker.tasks.command import CHECK, READING, SERIAL, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(*READING, CHECK, SERIAL, *transfer.PUT_FLAGS)
def put(run: Run) -> int:
    """Put a file or folder on hosts: checked by sha256, replaced at once, gone on with where it was cut."""
    example = "inv put --host NAME --src FILE --dest /PATH"
    run.need("src", example)
    run.need("dest", example)
    run.hosts(demanded=True)
    return run.end(run.on_hosts(transfer.putting(transfer.source(run.project.root, run.args["src"]))))


@command(*READING, *transfer.GET_FLAGS)
def get(run: Run) -> int:
    """Bring a file or folder of hosts here, into DEST/HOST/: checked, and gone on with where it was cut."""
    run.need("src", "inv get --host NAME --src /PATH")
    return run.end(run.on_hosts(transfer.GET))


COMMANDS = (put, get)
