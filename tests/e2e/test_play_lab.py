"""The shipped runbooks and profiles on hosts of the lab: eight simulated GPUs, SGLang's stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.lab import lab as control
from tests.e2e.project import Ended, ProjectFolder

ROOT = Path(__file__).parents[2]
BOOK = "- hosts: node175\n  tasks:\n    - restart: {profile: nccl-tuned}\n"
SHORT = ("--extra-var", "{runs: 2, tokens: 24}")


class Fleet:
    """A project whose hosts are a lab's.

    Args:
        folder: The project.
        lab: The lab's folder.
    """

    def __init__(self, folder: ProjectFolder, lab: Path) -> None:
        self.folder = folder
        self.lab = lab

    def inv(self, *argv: str, code: int = 0) -> Ended:
        """Run a command that ends with this code."""
        return self.folder.done(*argv, code=code)

    def runs(self) -> dict[str, list[str]]:
        """The profiles that run on each host."""
        hosts = self.inv("status", "--json").json["hosts"]
        servers = {name: one["results"][0]["servers"] for name, one in hosts.items()}
        return {
            name: [one["launch"]["profile"] for one in found if one["launch"] and one["alive"]]
            for name, found in servers.items()
        }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("books") / ".lab"
    control.up(folder, 3, load_s=0.1)
    yield folder
    control.down(folder)


@pytest.fixture
def fleet(lab: Path, tmp_path: Path) -> Iterator[Fleet]:
    """Nothing runs on its hosts, before and after."""
    yield Fleet(ProjectFolder.on_lab(tmp_path, lab, "profiles", "playbooks"), lab)
    for host in ("node174", "node175", "node176"):
        control.reboot(lab, host)


def steps(ended: Ended, host: str) -> dict[str, str]:
    """What each step of a book came to on a host."""
    tasks = [task for play in ended.json["plays"] for task in play["tasks"]]
    return {task["name"]: task["hosts"][host]["status"] for task in tasks if host in task["hosts"]}


@pytest.mark.timeout(200)
def test_after_a_reboot_the_host_is_whole_serves_with_its_tuning_and_is_measured(fleet: Fleet) -> None:
    fleet.inv("start", "--host", "node174", "--profile", "nccl-tuned")
    control.reboot(fleet.lab, "node174")
    assert fleet.runs()["node174"] == []
    after = fleet.inv("play", "after-reboot", *SHORT, "--json")
    assert steps(after, "node174") == {
        "The driver answers": "ok",
        "All 8 GPUs are there": "ok",
        "The server runs; where it does not, it is started": "changed",
        "It is ready, with its tuning in force": "ok",
        "No worker lacks a variable": "ok",
        "Measure it": "ok",
        "It is as fast as before the reboot": "skipped",
        "There is nothing to hold it against": "ok",
    }
    assert fleet.runs()["node174"] == ["nccl-tuned"]
    lame = fleet.inv("play", "after-reboot", "--tags", "host", "--extra-var", "gpus=9", code=3)
    assert "8 GPUs instead of 9" in lame.text


@pytest.mark.long
def test_diff_shows_what_changes_in_the_launch_script_by_hand_and_in_a_book(fleet: Fleet) -> None:
    at = ("--host", "node175", "--profile", "nccl-tuned", "--check", "--diff")
    seen = fleet.inv("restart", *at)
    assert "+++ kimi (here)" in seen.out
    assert "+NCCL_PROTO=LL" in seen.out.replace("export ", "")
    found = fleet.inv("start", *at, "--json").json["hosts"]["node175"]["results"][0]["diff"]
    assert found[:2] == ["--- kimi (there)", "+++ kimi (here)"]
    fleet.folder.write(
        "playbooks/one.yml", "- hosts: node175\n  tasks:\n    - restart: {profile: nccl-tuned}\n"
    )
    told = fleet.inv("play", "one", "--check", "--diff")
    assert "+++ kimi (here)" in told.out
    assert "+++ kimi (here)" not in fleet.inv("play", "one", "--check").out


@pytest.mark.long
@pytest.mark.timeout(200)
def test_every_night_the_fleet_is_measured_and_what_does_not_serve_spoils_nothing(fleet: Fleet) -> None:
    for host in ("node174", "node176"):
        fleet.inv("start", "--host", host, "--profile", "nccl-tuned")
    night = fleet.inv("play", "nightly", *SHORT, "--json")
    measured = {
        host: steps(night, host).get("Measure what runs") for host in ("node174", "node175", "node176")
    }
    assert measured == {"node174": "ok", "node175": "ignored", "node176": "ok"}
    page = (fleet.folder.root / "results" / "report.html").read_text()
    assert "node174" in page
    assert "node176" in page


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_a_roll_ends_at_its_canary_where_that_is_slower_and_puts_it_back(fleet: Fleet) -> None:
    everywhere = ("--host", "all", "--serial", "all")
    fleet.inv("restart", *everywhere, "--profile", "nccl-tuned")
    fleet.inv("bench-all", "--runs", "3", "--tokens", "60")
    fleet.inv("baseline", "--host", "all", "--why", "as tuned")
    given = ("--extra-var", "{target: gpu, profile: kimi-k25, runs: 3, tokens: 60}")
    rolled = fleet.inv("play", "rolling-restart", *given, "--json", code=3)
    canary = steps(rolled, "node174")
    assert canary["It is as fast as it should be"] == "failed"
    assert canary["Put back what ran before"] == "changed", rolled.text
    assert steps(rolled, "node175") == {}, "the roll ended before it"
    assert fleet.runs() == {host: ["nccl-tuned"] for host in ("node174", "node175", "node176")}

    good = ("--extra-var", "{target: gpu, profile: nccl-tuned, runs: 3, tokens: 60}")
    whole = fleet.inv("play", "rolling-restart", *good, "--json")
    for host in ("node174", "node175", "node176"):
        assert steps(whole, host)["It is as fast as it should be"] == "ok", whole.text


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_two_profiles_are_measured_in_turn_and_what_ran_before_runs_again(fleet: Fleet) -> None:
    fleet.inv("start", "--host", "node175", "--profile", "kimi-k25")
    given = ("--extra-var", "{target: node175, runs: 3, tokens: 60}")
    ended = fleet.inv("play", "compare-profiles", *given, "--json")
    names = [task["name"] for task in ended.json["plays"][0]["tasks"]]
    assert [name for name in names if name.startswith("Measure")] == [
        *("Measure kimi-k25", "Measure nccl-tuned", "Measure nccl-tuned", "Measure kimi-k25")
    ]
    assert "improved" in ended.text
    assert fleet.runs()["node175"] == ["kimi-k25"]


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(300)
def test_the_break_even_of_eagle3_is_told_for_each_batch_size(fleet: Fleet) -> None:
    fleet.inv("start", "--host", "node174", "--profile", "nccl-tuned")
    planned = fleet.inv("play", "eagle3-break-even", "--check", "--json")
    assert set(steps(planned, "node174").values()) == {"changed", "skipped"}
    given = ("--extra-var", '{steps: "1,3", concurrency: "1,2", runs: 3, tokens: 60}')
    ended = fleet.inv("play", "eagle3-break-even", *given, "--json")
    weighed, rows, advice = ended.json["plays"][0]["tasks"]
    found = weighed["hosts"]["node174"]["result"]["rows"]
    assert [(row["batch"], row["setting"]) for row in found] == [
        *((1, "1 step"), (1, "3 steps"), (2, "1 step"), (2, "3 steps"))
    ]
    three = found[1]
    # The stand-in's documented model: three drafts yield 2.31 tokens a step and break even at 1.84.
    assert three["acceptance"]["length"] == pytest.approx(2.31, abs=0.15)
    assert three["break_even"] == pytest.approx(1.84, abs=0.2)
    assert len(rows["hosts"]["node174"]["result"]["results"]) == 4
    pays = sorted({str(row["batch"]) for row in found if row["word"] == "pays"})
    advised = advice["hosts"]["node174"]["result"]["msg"]
    assert advised.startswith(f"it pays at batch {', '.join(pays)}" if pays else "no size is surely faster")
    assert fleet.runs()["node174"] == ["nccl-tuned"]
