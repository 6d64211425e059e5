"""Records as a report."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.results.report import causes, load, plays, profiles, runs, speculation, summary, words
from stoker.results.report.gather import Material
from stoker.results.report.model import Report

_SHOWN = 20


def build(material: Material, *, project: str, now: float, chosen: Sequence[str] = ()) -> Report:
    """The whole report.

    Args:
        material: What ``gather`` read.
        project: The project's name.
        now: Unix time.
        chosen: What it was narrowed down to, in words.
    """
    chapters = (summary, runs, profiles, load, speculation, plays, causes)
    sections = [chapter.section(material) for chapter in chapters]
    return Report(
        title=f"Stoker report: {project}",
        facts=tuple(_facts(material, now, chosen)),
        hosts=tuple(dict.fromkeys(one.key.host for one in material.every)),
        sections=tuple(section for section in sections if section.parts),
    )


def _facts(material: Material, now: float, chosen: Sequence[str]) -> list[str]:
    rows = [run for one in material.every for run in one.runs]
    hosts = {one.key.host for one in material.every}
    first, last = min(run.created for run in rows), max(run.created for run in rows)
    counted = f"{words.count(len(rows), 'run')} on {words.count(len(hosts), 'host')}"
    facts = [
        f"{counted}, {words.moment(first)} to {words.moment(last)}; made {words.moment(now)}; times in UTC."
    ]
    if chosen:
        facts.append("Only " + ", ".join(chosen) + ".")
    simulated = sum(run.simulated for run in rows)
    if simulated:
        facts.append(f"{words.count(simulated, 'run')} of a simulated server: no figure of a real one.")
    facts += [f"Left out: {text}" for text in material.left_out[:_SHOWN]]
    if len(material.left_out) > _SHOWN:
        facts.append(f"Left out: {len(material.left_out) - _SHOWN} more; inv results names them.")
    return facts
