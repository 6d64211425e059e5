"""The report: what came back, as one page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE, InputError
from stoker.fleet.flags import Flag
from stoker.tasks.command import JSON, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run

NAME = "report.html"


@command(
    Flag("host", "Only of these hosts.", "list"),
    Flag("profile", "Only of these profiles.", "list"),
    Flag("since", "Only runs since then.", "since"),
    Flag("output", f"The file ({NAME} in the results' folder); an earlier report there is replaced."),
    JSON,
)
def report(run: Run) -> int:
    """What came back as one HTML page that opens offline: history, verdicts, profiles, what differed."""
    from stoker.fleet.books import played
    from stoker.results.report import file
    from stoker.results.report.build import build
    from stoker.results.report.gather import gather
    from stoker.results.report.page import render
    from stoker.tasks import selection

    path = _path(run)
    file.check(path)
    chosen = selection.of(run)
    rows = selection.rows(run, chosen)
    plays = () if chosen.profiles else played.read(run.project.root, since=chosen.since, hosts=chosen.hosts)
    material = gather(run.project.store, run.project.baselines, rows, plays)
    page = build(material, project=run.project.root.name, now=time.time(), chosen=chosen.words)
    size = file.write(path, render(page))
    shown = run.project.shown(path)
    run.document["report"] = {
        "file": str(path),
        "bytes": size,
        "runs": len(rows),
        "left_out": material.left_out,
    }
    for text in material.left_out:
        run.screen.say(("left out ", "bold yellow"), text)
    run.screen.say(
        ("✓ ", "green"), f"{shown}: {len(rows)} runs in {size / 1e6:.1f} MB (most of it draws the plots)"
    )
    return EXIT_DONE


def _path(run: Run) -> Path:
    """Where the page goes.

    Raises:
        InputError: A folder.
    """
    typed = run.args["output"]
    if not typed:
        return run.project.settings.path("results") / NAME
    path = run.project.root / Path(typed).expanduser()
    if path.is_dir():
        raise InputError("is a folder", where="--output", next_step=f"--output {typed.rstrip('/')}/{NAME}")
    return path


COMMANDS = (report,)
