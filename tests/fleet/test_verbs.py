"""Verbs on a host: which server is meant, how often they run, what --check leaves, what bad answers are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.config import settings
from stoker.config.inventories.inventory import Host
from stoker.errors import HostFailed, InputError
from stoker.fleet import daily, life, matrix, servers
from stoker.fleet.books.verbs import VERBS, by_hand, by_hand_hidden
from stoker.fleet.flags import at_inventory, command_line, parse_all
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.project import Project
from stoker.fleet.session import Session, target_of
from stoker.reach.client import Agent
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings
from tests.e2e.project import ProjectFolder

PROFILE = """\
engine: openai
server: {name: NAME, model: none, port: PORT, command: [/bin/sleep, '600']}
kill: {protect: [NAME-keeper]}
"""


class Heard(Session):
    """A session with this machine that keeps what was asked of it.

    Args:
        answers: Operation to what is answered in the host's place; absent ones are really run.
    """

    def __init__(self, variables: Mapping[str, Any], answers: Mapping[str, Any] | None = None) -> None:
        host = Host("a", {"ansible_connection": "local", **variables}, (), "hosts.yml:1")
        super().__init__(host, _connect, lambda name, event: None)
        self.answers = dict(answers or {})
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, op: str, params: dict[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        self.asked.append((op, params))
        if op in self.answers:
            answer: dict[str, Any] = self.answers[op]
            return answer
        return super().call(op, params, timeout_s=timeout_s)


def _connect(host: Host) -> Agent:
    return Reach(ReachSettings(ssh_config="none")).connect(target_of(host))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(tmp_path))
    # Locks of its own: those of the machine are held by whatever else runs there.
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps({"lock_dir": str(tmp_path / "locks")}))
    monkeypatch.setenv("STOKER_HOST_FACTS", str(facts))
    folder = ProjectFolder(tmp_path / "project")
    for number, name in enumerate(("one", "two")):
        text = PROFILE.replace("NAME", name).replace("PORT", str(18880 + number))
        folder.write(f"profiles/{name}.yml", text)
    return Project(settings.load(folder.root, {}), {})


def _do(
    project: Project, verb: Verb, session: Session, *, check: bool = False, **given: Any
) -> list[Outcome]:
    """What a command does on one host."""
    args = {flag.name: flag.default for flag in verb.flags} | {"host": ["a"]} | given
    plans = servers.meant(project, verb, session.host, args)
    try:
        return verb.on(Job(project, session, args, check=check), plans)
    finally:
        session.close()


def test_kill_ends_the_remains_of_every_profile_that_is_named(project: Project) -> None:
    session = Heard({})
    done = _do(project, VERBS["kill"], session, check=True, profile=["one", "two"])
    assert [params["plan"]["slot"] for _, params in session.asked] == ["one", "two"]
    assert len(done) == 2


def test_kill_of_a_whole_host_spares_what_any_of_its_profiles_protects(project: Project) -> None:
    session = Heard({"stoker_profiles": ["one", "two"]})
    _do(project, VERBS["kill"], session, check=True)
    ((_, params),) = session.asked
    assert (params["plan"], params["protect"]) == (None, ["one-keeper", "two-keeper"])


@pytest.mark.parametrize("name", ["bench", "fetch", "wait", "command", "shell"])
def test_what_check_cannot_know_is_skipped_without_a_connection(project: Project, name: str) -> None:
    session = Heard({"ansible_port": "never"})
    (outcome,) = _do(project, VERBS[name], session, check=True, cmd="touch /nowhere")
    assert outcome.skipped
    assert not outcome.changed
    assert session.asked == []


def test_a_matrix_under_check_only_asks(project: Project) -> None:
    session = Heard({})
    (outcome,) = _do(project, matrix.BENCH_PROFILES, session, check=True, profile=["one", "two"])
    assert [(op, params["check"]) for op, params in session.asked] == [("restart", True)] * 2
    assert "would restart and measure one, two" in outcome.summary
    assert not (project.root / "results").exists()


@pytest.mark.parametrize(
    ("name", "args", "known"),
    [
        ("restart", {}, False),
        ("restart", {"slot": "one"}, False),  # to launch takes a whole profile
        ("restart", {"profile": ["one"]}, True),
        ("stop", {}, True),  # the only one that runs, which the host knows
        ("stop", {"slot": "one"}, True),
        ("kill", {}, True),
        ("wait", {}, True),  # the host can tell
        ("bench", {}, True),
    ],
)
def test_a_verb_that_launches_knows_what_before_it_connects(
    project: Project, name: str, args: dict[str, Any], known: bool
) -> None:
    host = Host("a", {}, (), "")
    given = {"profile": [], "slot": None, **args}
    if known:
        servers.meant(project, VERBS[name], host, given)
    else:
        with pytest.raises(InputError, match="no profile is named"):
            servers.meant(project, VERBS[name], host, given)


def test_locks_are_told_also_where_their_age_is_unknown(project: Project) -> None:
    lock = {"name": "gpu-0", "owner": "ann@desk", "pid": 1, "what": "", "host": "", "alive": True}
    told = [{**lock, "age_s": None}, {**lock, "name": "gpu-1", "age_s": 3.2, "alive": False}]
    (outcome,) = _do(project, daily.LOCKS, Heard({}, {"unlock": {"locks": told}}))
    assert outcome.summary == (
        "gpu-0: held by ann@desk for an unknown time; gpu-1: left behind by ann@desk for 3 s"
    )


def test_to_show_locks_asks_only_and_to_break_them_changes_hosts(project: Project) -> None:
    session = Heard({})
    (outcome,) = _do(project, daily.LOCKS, session)
    assert (outcome.summary, session.asked) == ("no lock is held", [("unlock", {"check": True})])
    assert not daily.LOCKS.changes
    assert daily.UNLOCK.changes
    (outcome,) = _do(project, daily.UNLOCK, Heard({}))
    assert (outcome.summary, outcome.changed) == ("no lock is held", False)


def test_a_changed_credential_is_told_without_its_values() -> None:
    worker = {"source": "memory", "title": "w", "missing": [], "changed": {"API_KEY": {}, "X": _CHANGE}}
    proof = {"verdict": "not-in-force", "variables": ["API_KEY", "X"], "workers": [worker]}
    assert life.differences(proof) == ["API_KEY has another value (w)", "X is '1', not '2' (w)"]


_CHANGE = {"want": "2", "have": "1"}


@pytest.mark.parametrize(
    "result",
    [{}, {"run_id": "../x"}, {"launch": ["x"]}, {"launch": {"resolved": 3}}, {"launch": {"resolved": "x"}}],
)
def test_a_benchmark_that_cannot_be_read_is_the_hosts_failure(
    project: Project, result: dict[str, Any]
) -> None:
    session = Heard({}, {"status": {"servers": []}, "bench": result})
    with pytest.raises(HostFailed) as caught:
        _do(project, VERBS["bench"], session)
    assert (caught.value.kind, caught.value.host) == ("bad-result", "a")
    assert caught.value.next_step


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"servers": [{"alive": True, "launch": {"profile": "x"}}] * 2},
        {"servers": [{"alive": True, "launch": {"profile": "x", "resolved": {"engine": "no"}}}]},
        {"servers": [{"alive": True, "launch": "x"}]},
    ],
)
def test_a_status_that_cannot_be_read_is_the_hosts_failure(project: Project, found: dict[str, Any]) -> None:
    with pytest.raises(HostFailed) as caught:
        _do(project, VERBS["wait"], Heard({}, {"status": found}))
    assert caught.value.kind == "bad-result"


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_recorded(
    project: Project, tmp_path: Path
) -> None:
    from tests.results import made

    for run_id, text in (("20260101-000000-a-0000", "[" * 100_000), ("20260101-000001-a-0001", None)):
        folder = tmp_path / ".stoker" / "runs" / run_id
        folder.mkdir(parents=True)
        whole = json.dumps(made.result([80.0], run_id=run_id))
        (folder / "bench.json").write_text(whole if text is None else text)
    with pytest.raises(HostFailed) as caught:
        _do(project, VERBS["fetch"], Heard({}))
    assert caught.value.kind == "bad-result"
    assert "20260101-000000-a-0000/bench.json" in caught.value.what
    assert [summary.run_id for summary in project.store.list()] == ["20260101-000001-a-0001"]


def test_a_command_without_hosts_is_typed_without_them() -> None:
    assert by_hand("compare", ["a"], {"a": "baseline", "b": "x y"}) == "inv compare baseline 'x y'"
    assert by_hand_hidden("compare", ["a"]) == "inv compare (arguments not shown: no_log)"
    assert by_hand_hidden("shell", ["a", "b"]) == "inv exec --host a,b (arguments not shown: no_log)"
    assert command_line("wait", "a", VERBS["wait"].flags, {"slot": "s"}) == "inv wait --host a --slot s"


def _regressed(project: Project) -> str:
    """A run that was judged and lost against an accepted one; both are of host a."""
    from stoker.results.compare import assess
    from stoker.results.records.fromjson import build
    from tests.results import made

    of = made.subject(host="a")
    good = build([made.result([80.0] * 5, run_id="20260101-000000-a-0000")], of)
    project.store.save(good)
    project.baselines.accept([good], by="ann")
    bad = build([made.result([60.0] * 5, run_id="20260101-000001-a-0001")], of)
    project.store.save(bad.judged(assess(bad, project.baselines.find(bad))))
    return bad.run_id


def test_a_regressed_run_becomes_no_baseline_unless_it_is_forced(project: Project) -> None:
    run = _regressed(project)
    for check in (True, False):
        with pytest.raises(InputError, match=f"{run} is regressed") as caught:
            _do(project, VERBS["baseline"], Heard({}), run=[run], check=check)
        assert "--force" in caught.value.next_step
    (outcome,) = _do(project, VERBS["baseline"], Heard({}), run=[run], force=True)
    assert ": 80.0 → 60.0 tok/s (-25.0 %)" in outcome.summary
    assert "accepted 1 launch, 5 runs into" in outcome.summary
    assert (outcome.data["replaced_tok_s"], outcome.data["tok_s"]) == (80.0, 60.0)


def test_what_a_run_is_compared_with_says_when_it_is_the_run_itself(project: Project) -> None:
    run = _regressed(project)
    (other,) = _do(project, VERBS["explain"], Heard({}), run=run)
    (own,) = _do(project, VERBS["explain"], Heard({}), run="20260101-000000-a-0000")
    told = "this run is what it is compared with"
    assert [any(told in text for text, _ in one.lines) for one in (own, other)] == [True, False]


def test_a_comparison_without_a_baseline_names_only_what_it_takes(project: Project) -> None:
    from stoker.results.records.fromjson import build
    from tests.results import made

    project.store.save(
        build([made.result([80.0] * 5, run_id="20260101-000000-a-0000")], made.subject(host="a"))
    )
    with pytest.raises(InputError, match="no baseline") as caught:
        _do(project, VERBS["compare"], Heard({}), a="baseline", b="20260101-000000-a-0000")
    assert "--against" not in caught.value.next_step
    assert "inv compare RUN 20260101-000000-a-0000" in caught.value.next_step
    with pytest.raises(InputError, match="no baseline") as caught:
        _do(project, VERBS["explain"], Heard({}))
    assert "--against RUN" in caught.value.next_step


def test_nothing_there_is_nothing_to_pull_and_a_file_is_no_folder(project: Project, tmp_path: Path) -> None:
    (outcome,) = _do(project, VERBS["fetch"], Heard({}))
    assert outcome.summary.startswith("nothing to pull")
    file = tmp_path / "one" / "file"
    file.parent.mkdir()
    file.write_text("x")
    with pytest.raises(HostFailed, match="is a file, and a folder is pulled") as caught:
        _do(project, VERBS["fetch"], Heard({}), path=str(file))
    assert caught.value.next_step == f"--path {file.parent}"
    with pytest.raises(HostFailed, match="there is no folder"):
        _do(project, VERBS["fetch"], Heard({}), path=str(tmp_path / "no"))
    (outcome,) = _do(project, VERBS["fetch"], Heard({}), path=str(file.parent))
    assert outcome.summary == "1 file in results/fetched-a, 0 new records"


@pytest.mark.parametrize("name", ["match", "slot"])
def test_an_empty_word_does_not_mean_the_whole_host(name: str) -> None:
    with pytest.raises(InputError, match="empty"):
        parse_all(VERBS["kill"].flags, {name: ""})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("inv restart --host n1 --profile p", "inv restart --inventory .lab/inventory --host n1 --profile p"),
        ("a; inv play book --limit n1", "a; inv play --inventory .lab/inventory book --limit n1"),
        (
            "inv stop --host n1 && inv wait --host n1",
            "inv stop --inventory .lab/inventory --host n1 && inv wait --inventory .lab/inventory --host n1",
        ),
        ("inv results --host n1", "inv results --host n1"),
        ("inv hosts lists them", "inv hosts lists them"),
        ("inv status --inventory x --host n1", "inv status --inventory x --host n1"),
    ],
)
def test_a_command_that_is_told_means_the_hosts_that_were_meant(text: str, said: str) -> None:
    assert at_inventory(text, ".lab/inventory") == said
    assert at_inventory(text, "") == text
