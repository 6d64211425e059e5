"""The story, told live: the very commands a user types, run one after another on the embedded lab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.config import scaffold
from stoker.errors import EXIT_DONE, EXIT_FAULT, EXIT_REGRESSED, InputError, StokerError, nearest
from stoker.fleet.flags import quote
from stoker.lab import lab
from stoker.screen import Screen

HOST = "node174"
# engine: the tuned profile, the plain one, and a size of the benchmark that tells quickly and surely
STORIES = {
    "sglang": ("nccl-tuned", "kimi-k25", ("--tokens", "100")),
    "llamacpp": ("tiny-tuned", "tiny-plain", ("--tokens", "128")),
}


@dataclass(frozen=True)
class Scene:
    """One command of the story.

    Args:
        says: What the operator thinks, one line; empty for none.
        argv: Command and arguments after ``inv``.
        code: The exit code that the story expects.
    """

    says: str
    argv: tuple[str, ...]
    code: int = EXIT_DONE


def tell(folder: Path, engine: str, screen: Screen, *, keep: bool = False) -> int:
    """Tell the story.

    Args:
        folder: The lab's folder; the demo's own project lies in it.
        engine: ``sglang`` (a stand-in, simulated) or ``llamacpp`` (real, on the CPU).
        screen: Where to tell it.
        keep: Leave the lab and the server up at the end.

    Returns:
        0 when every command ended as the story says.

    Raises:
        StokerError: The lab cannot be had.
    """
    scenes = _scenes(engine)
    begin = time.monotonic()
    with _lab(folder / "lab", screen, keep=keep):
        project = _project(folder, engine)
        for scene in scenes:
            code = _play(scene, project, screen)
            if code != scene.code:
                told = f"inv {scene.argv[0]} ended with {code}, the story expects {scene.code}"
                screen.error(StokerError(told, next_step=_after_failure(project)))
                return EXIT_FAULT
    screen.say(("the end ", "bold green"), f"({time.monotonic() - begin:.0f} s)")
    if not keep:
        shown = quote(os.path.relpath(project))
        screen.say(f"what it measured is in {shown}: inv results, show, compare and report work there")
        screen.say("next: inv lab.up starts a simulated host that stays, for what you want to try")
    return EXIT_DONE


def _after_failure(project: Path) -> str:
    """What to do about a story that went otherwise: most often the machine was too busy to measure on."""
    load, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
    looked = f"look at what it measured in {quote(os.path.relpath(project))} (inv results, show, explain)"
    if load <= cpus:
        return looked
    return (
        f"this machine is busy (load {load:.0f} on {cpus} CPUs): tell it again when it is idle, or {looked}"
    )


def _scenes(engine: str) -> Sequence[Scene]:
    """The story with an engine's profiles.

    Raises:
        InputError: No story is told with that engine.
    """
    if engine not in STORIES:
        raise InputError(
            f"no story is told with {engine!r}", where="--engine", next_step=nearest(engine, STORIES)
        )
    tuned, plain, size = STORIES[engine]
    at = ("--host", HOST)
    bench = ("bench", *at, *size)
    return (
        Scene(
            "The server as it should be. What it measures becomes the baseline.",
            ("restart", *at, "--profile", tuned),
        ),
        Scene("", bench),
        Scene("", ("baseline", *at, "--why", "measured on the tuned server")),
        Scene(
            "The host restarts, and somebody starts the plain server: the variables are gone.",
            ("lab.reboot", *at),
        ),
        Scene("", ("start", *at, "--profile", plain)),
        Scene("Is it as fast as it was?", bench, EXIT_REGRESSED),
        Scene("Why not?", ("explain", *at)),
        Scene("Restart it as tuned, and prove it.", ("restart", *at, "--profile", tuned)),
        Scene("", bench),
        Scene("", ("status", *at)),
    )


def _play(scene: Scene, project: Path, screen: Screen) -> int:
    """Show a command and run it, exactly as a user would."""
    if scene.says:
        screen.say()
        screen.say((scene.says, "italic"))
    screen.say()
    screen.say(("$ ", "bold cyan"), ("inv " + " ".join(quote(word) for word in scene.argv), "bold"))
    screen.console.file.flush()
    return subprocess.run([sys.executable, "-m", "invoke", *scene.argv], cwd=project, check=False).returncode


def _project(folder: Path, engine: str) -> Path:
    """A fresh project whose inventory is the lab's."""
    project = folder / "project"
    if project.exists():
        shutil.rmtree(project)
    scaffold.lay(project)
    hosts = (folder / "lab" / "inventory" / "hosts.yml").read_text()
    shutil.rmtree(project / "inventory")
    (project / "inventory" / "host_vars").mkdir(parents=True)
    (project / "inventory" / "hosts.yml").write_text(hosts)
    wanted = STORIES[engine][0]
    (project / "inventory" / "host_vars" / f"{HOST}.yml").write_text(f"stoker_profiles: [{wanted}]\n")
    (project / ".lab").symlink_to(folder / "lab")
    if engine == "llamacpp":
        _real_engine(project, folder / "lab")
    return project


def _real_engine(project: Path, lab_folder: Path) -> None:
    """Profiles for a real llama-server and a tiny model that is made here."""
    from stoker.lab import realengine

    server, model = realengine.prepare(lab_folder)
    for name, text in realengine.profiles(server, model).items():
        (project / "profiles" / name).write_text(text)


@contextmanager
def _lab(folder: Path, screen: Screen, *, keep: bool) -> Iterator[None]:
    """The lab, up; down again at the end, whatever happens."""
    lab.down(folder)
    shutil.rmtree(folder, ignore_errors=True)  # a story begins on a host that knows none yet
    state = lab.up(folder, 1)
    screen.say(f"one lab host is up: {state.hosts[0].name} at {state.hosts[0].address}:{state.hosts[0].port}")
    try:
        yield
    finally:
        if not keep:
            lab.down(folder)
