"""The verb ``persist``: a reboot brings the same server back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stoker
from stoker.errors import HostFailed
from stoker.fleet import servers
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.life import PROFILE, SLOT

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

REMOVE = Flag("remove", "Take unit and files away; what runs is left running.", "flag")

_TEMPLATES = (Path(stoker.__file__).parent / "templates",)
# After the grace: SIGTERM and SIGKILL to what is left, and the proof that all is released.
_AFTER_GRACE_S = 60
Lines = tuple[tuple[str, str], ...]


def persist(job: Job) -> Outcome:
    """Install a unit that starts the same server at boot; without systemd, lay the entry point to use."""
    if job.args["remove"]:
        return _remove(job)
    plan = servers.planned(job)
    asked = {"plan": plan.to_wire(), "owner": job.project.owner}
    there = job.session.call("persist", {**asked, "do": "look"}, timeout_s=60)
    unit, entry = texts(plan, there)
    differs = (*_diff(there["text"], unit, there["path"]), *_diff(there["entry"], entry, "start.sh"))
    shown: Lines = differs if job.args.get("diff") else ()
    if job.check:
        data = {**there, "text": unit, "entry": entry}
        what = f"would install {there['unit']}" if there["manager"] else "would lay an entry point"
        return Outcome(what, data, changed=bool(differs) or not _is_same(plan, there), lines=shown)
    done = job.session.call(
        "persist",
        {
            **asked,
            "do": "put",
            "unit": unit or None,
            "entry": entry,
            "engines": job.project.engines,
            "modules": _modules(),
        },
        timeout_s=120,
    )
    data = {**done, "cron": _cron(done), "entry": f"{done['folder']}/start.sh"}
    return Outcome(_summary(done), data, changed=done["changed"], lines=(*shown, *_advice(plan, data)))


def _remove(job: Job) -> Outcome:
    slot = servers.slot(job)
    if job.check:
        there = job.session.call("persist", {"slot": slot, "do": "look"}, timeout_s=60)
        what = (
            f"would remove {there['path'] or there['folder']}" if there["installed"] else "nothing is there"
        )
        return Outcome(what, there, changed=bool(there["installed"]))
    params = {"slot": slot, "do": "remove", "owner": job.project.owner}
    done = job.session.call("persist", params, timeout_s=120)
    lines: Lines = ()
    if done["running"]:
        lines = ((f"process {done['running']['pid']} runs on: inv stop ends it", "dim"),)
    return Outcome("removed" if done["changed"] else "nothing was there", done, done["changed"], lines=lines)


def _is_same(plan: LaunchPlan, there: Mapping[str, Any]) -> bool:
    return bool(there["installed"]) and there["installed"]["profile_hash"] == plan.profile_hash


def _summary(done: Mapping[str, Any]) -> str:
    if not done["manager"]:
        return f"no unit ({done['why']}): {done['folder']}/start.sh is the entry point"
    state = "enabled" if done["enabled"] else "not enabled"
    return f"{done['unit']} {state}" + ("" if done["changed"] else ", as it was")


def _advice(plan: LaunchPlan, data: Mapping[str, Any]) -> Lines:
    """What is left to do, and what runs meanwhile."""
    lines = []
    running = data["running"]
    if not data["manager"]:
        lines.append((f"a container's entry point: {data['entry']}", ""))
        lines.append((f"or a line for crontab -e:   {data['cron']}", ""))
    elif not data["linger"]:
        lines.append(("it starts at the account's first login only: loginctl enable-linger", "yellow"))
    if running and running["profile_hash"] != plan.profile_hash:
        lines.append((f"{running['profile']} runs there now and was left alone; inv restart replaces it", ""))
    elif running and data["manager"] and not running.get("unit"):
        lines.append(("the same server runs there now, outside of the unit, and was left alone", "dim"))
    elif not running:
        lines.append(("nothing runs there now: inv start starts it", "dim"))
    return tuple(lines)


def texts(plan: LaunchPlan, there: Mapping[str, Any]) -> tuple[str, str]:
    """The unit file (empty where nobody keeps services) and the entry point's script.

    Args:
        plan: The server.
        there: What the operation's ``look`` told.

    Raises:
        HostFailed: A path of the host cannot stand in a unit file.
    """
    return _unit(plan, there), _entry(plan, there)


def _unit(plan: LaunchPlan, there: Mapping[str, Any]) -> str:
    from stoker.config.templating import script

    if not there["manager"]:
        return ""
    mounts = [there["home"], *([plan.model_path] if plan.model_path else [])]
    context = {
        **_named(plan),
        "description": _plain(f"{plan.engine.name} server of slot {plan.slot} (Stoker, {plan.profile})"),
        "system": there["manager"] == "system",
        "mounts": " ".join(_word(path, plan.host, in_command=False) for path in mounts),
        "command": " ".join(_word(word, plan.host) for word in _command(there)),
        "stop_s": int(plan.kill.grace_s) + _AFTER_GRACE_S + int(plan.hooks.drain_s),
        "limits": {name: ":".join(pair) for name, pair in there["limits"].items()},
        "target": "multi-user.target" if there["manager"] == "system" else "default.target",
        "folder": there["folder"],
    }
    return script.render(["server.service.j2"], _TEMPLATES, context)


def _entry(plan: LaunchPlan, there: Mapping[str, Any]) -> str:
    from stoker.config.templating import script

    return script.render(["entry.sh.j2"], _TEMPLATES, {**_named(plan), "command": _command(there)})


def _named(plan: LaunchPlan) -> dict[str, Any]:
    return {
        "profile": _plain(plan.profile),
        "hash": plan.profile_hash,
        "host": plan.host,
        "slot": plan.slot,
    }


def _command(there: Mapping[str, Any]) -> list[str]:
    return [there["python"], "-I", "-S", there["archive"], there["folder"]]


def _cron(done: Mapping[str, Any]) -> str:
    """The line of a crontab, in which a percent sign means something else."""
    start, log = (shlex.quote(f"{done['folder']}/{name}") for name in ("start.sh", "start.log"))
    return f"@reboot {start} >>{log} 2>&1".replace("%", r"\%")


def _word(word: str, host: str, *, in_command: bool = True) -> str:
    """A word as systemd reads it back: specifiers and, in commands, variables have no meaning in it.

    Raises:
        HostFailed: It holds what a unit file cannot.
    """
    if not word.isprintable():
        hint = "use a path of printable characters"
        raise HostFailed(f"{word!r} cannot stand in a unit file", host=host, kind="io", next_step=hint)
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if in_command else text}"'


def _plain(text: str) -> str:
    """One line of a unit file that is only read by people."""
    return "".join(char if char.isprintable() else " " for char in text).replace("%", "%%").replace("\\", "/")


def _diff(old: str, new: str, name: str) -> Lines:
    import difflib

    style = {"+": "green", "-": "red", "@": "cyan"}
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{name} (there)", f"{name} (here)", lineterm=""
    )
    return tuple((line, style.get(line[:1], "")) for line in lines)


def _modules() -> Sequence[str]:
    """Names of the agent's modules, as ``starting.life``."""
    from stoker.reach.parcel import modules

    return modules()


VERBS = (Verb("persist", (PROFILE, SLOT, REMOVE), persist, changes=True, runs="server", wants_secrets=True),)
