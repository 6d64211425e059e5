"""Records of a host and a profile that would like to run something in whoever reads the report."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.results.baselines.baseline import Baselines
from stoker.results.compare import assess
from stoker.results.records.record import Record, Subject
from stoker.results.records.store import RECORD, Store
from tests.results import made

RUN = "document.title='owned';document.documentElement.setAttribute('data-owned','1')"
NAMES = (
    f"</script><script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"<svg/onload={RUN}>",
    f'<a href="javascript:{RUN}">a profile</a>',
    f"javascript:{RUN}",
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m",
    "line\u2028break\u202eback\ud800",
    "{{ 7 * 7 }} {% raw %} &lt;b&gt; $\\alpha$ %{x} <!--",
    "x" * 5000,
)
MOMENTS = (0.0, 4102444800.0)


def lay(folder: Path) -> tuple[Store, Baselines]:
    """A history with a step and a baseline for each name, and figures that no server reaches."""
    store, baselines = Store(folder / "results"), Baselines(folder / "baselines")
    for number, name in enumerate(NAMES):
        of = made.subject(host=name, profile=name)
        paces = [89.0] * 12 + [63.0] * 6
        for day, pace in enumerate(paces):
            _save(store, baselines, name, of, pace, f"r{number}-{day:03}", 1767268800.0 + 86400 * day)
    for number, at in enumerate(MOMENTS):
        record = made.record([1e149] * 5, run_id=f"huge-{number}", started_at=at, model="huge")
        store.save(record)
    return store, baselines


def _write(store: Store, record: Record) -> None:
    """As a host could have written it: every sign that JSON can name."""
    home = store.path(record.run_id)
    home.mkdir(parents=True)
    (home / RECORD).write_text(json.dumps(record.to_json()), encoding="ascii")


def _save(
    store: Store, baselines: Baselines, name: str, of: Subject, pace: float, run_id: str, at: float
) -> None:
    env = {**made.fingerprint()["env"], name[:500]: name} if pace < 80 else made.fingerprint()["env"]
    fingerprint = made.fingerprint(env=env, unread=[name], args={name[:500]: name, "tp_size": 8})
    record = made.record(
        [pace] * 5,
        of=of,
        run_id=run_id,
        started_at=at,
        model=name,
        engine_version=name,
        fingerprint=fingerprint,
        contaminated=[name] if run_id.endswith("005") else [],
    )
    record = record.judged(assess(record, baselines.find(record)))
    _write(store, record)
    if run_id.endswith("000") and "\ud800" not in name:
        baselines.accept([record], by=name[:80], why=name[:80])
