"""What a list shows of a record."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.results.records.points import Point


@dataclass(frozen=True)
class Summary:
    """What a list shows of a record.

    Args:
        run_id: Its id.
        stamp: Of the file, to see a change.
        created: Unix time.
        host: The inventory's name.
        profile: Empty for a server that was started by hand.
        engine: The engine's name.
        model: As the server reported it.
        bench: The benchmark with its parameters, for people.
        tok_s: Tokens a second, as they are judged; None where no run was valid.
        verdict: As judged when it was made; empty before.
        change: Against the baseline then; None without one.
        simulated: Whether anything of it was pretended.
        contaminated: Whether something disturbed it.
        damage: Why the record cannot be read; empty where it can.
        tokens: Of each request of ``decode``.
        concurrency: Requests at once; 0 where they came at a rate.
        size: What was asked and how much at once, for people: ``500×32``, ``512+128 4/s``.
        measured: What was measured, without how often: one for each series of a history.
        points: The launches that have a valid run.
    """

    run_id: str
    stamp: str
    created: float = 0.0
    host: str = ""
    profile: str = ""
    engine: str = ""
    model: str = ""
    bench: str = ""
    tok_s: float | None = None
    verdict: str = ""
    change: float | None = None
    simulated: bool = False
    contaminated: bool = False
    damage: str = ""
    tokens: int = 0
    concurrency: int = 0
    size: str = ""
    measured: str = ""
    points: tuple[Point, ...] = ()
