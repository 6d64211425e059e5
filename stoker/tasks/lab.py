"""Commands of the embedded lab, and the demo that tells the story on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE, InputError
from stoker.fleet.flags import Flag
from stoker.tasks.command import JSON, command

if TYPE_CHECKING:
    from pathlib import Path

    from stoker.tasks.run import Run


_NO_LAB = "there is no lab here: inv lab.up starts one"

_STORY = "nccl-tuned"


@command(Flag("hosts", "How many hosts (1).", "whole", least=1), JSON)
def up(run: Run) -> int:
    """Start the lab's hosts: real SSH servers on loopback, simulated GPUs, no root needed."""
    from stoker.lab import lab

    profile = _profile(run)
    state = lab.up(_folder(run), run.args["hosts"] or 1)
    run.document["lab"] = state.to_plain()
    for host in state.hosts:
        run.screen.say(("+ ", "green"), f"{host.name}  {host.address}:{host.port}  (simulated)")
    inventory = run.project.shown(_folder(run) / "inventory")
    run.screen.quote(
        f"next: inv restart --inventory {inventory} --host {state.hosts[0].name} --profile {profile}"
    )
    run.screen.say((f"without --inventory {inventory} the real hosts of the same names are meant", "yellow"))
    return EXIT_DONE


@command(JSON)
def down(run: Run) -> int:
    """Stop the lab and everything that runs on its hosts."""
    from stoker.lab import lab

    is_there = bool(lab.status(_folder(run)).hosts)
    ended = lab.down(_folder(run))
    run.document["ended"] = ended
    down = "the lab is down" + (f", {ended} processes ended" if ended else "")
    run.screen.say(down if is_there else _NO_LAB)
    if stays := _stays(run):
        run.screen.say((f"left in the project, marked as simulated: {stays}", "dim"))
    return EXIT_DONE


def _stays(run: Run) -> str:
    """What was measured of simulated servers and lies in the project: ``2 results, 1 baseline``."""
    from stoker.fleet.shown import counts

    results = sum(row.simulated for row in run.project.store.list())
    accepted = sum(one.key.simulated for one in run.project.baselines.all())
    found = [(results, "result", "results"), (accepted, "baseline", "baselines")]
    return " and ".join(counts(number, one, many) for number, one, many in found if number)


@command(JSON)
def status(run: Run) -> int:
    """What of the lab runs."""
    from stoker.lab import lab

    state = lab.status(_folder(run))
    run.document["lab"] = state.to_plain()
    rows = [
        (h.name, f"{h.address}:{h.port}", ("up", "green") if state.running else ("down", "red"))
        for h in state.hosts
    ]
    if rows:
        run.screen.table(("host", "reached at", "state"), rows)
    else:
        run.screen.say(_NO_LAB)
    return EXIT_DONE


@command(Flag("host", "Which host.", "text"), JSON)
def reboot(run: Run) -> int:
    """Pretend that a host restarts: its processes end, its boot id is a new one."""
    from stoker.lab import lab

    run.need("host", "inv lab.reboot --host node174")
    lab.reboot(_folder(run), run.args["host"])
    run.screen.say(f"{run.args['host']} has restarted (simulated)")
    return EXIT_DONE


def _profile(run: Run) -> str:
    """Name of a profile to try on the lab: the story's, where the project has it.

    Raises:
        InputError: There is no project here, and nothing that a lab could run.
    """
    root = run.settings.root
    if not any((root / name).exists() for name in ("profiles", "tasks.py", "invoke.yaml")):
        raise InputError(
            "this is no project, and the lab would have nothing to run",
            where=str(root),
            next_step="change to a project's folder, or lay a new one: stoker init DIR",
        )
    names = sorted(path.stem for path in (root / "profiles").glob("*.yml"))
    return _STORY if _STORY in names or not names else names[0]


def _folder(run: Run) -> Path:
    """The lab's folder, in the project."""
    return run.settings.root / ".lab"


COMMANDS = (up, down, status, reboot)
