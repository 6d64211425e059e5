"""All-reduces with a real torch, gloo on the CPU, over a real sshd. Run by ``tests/real/allreduce-gloo``."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.lab import lab
from tests.e2e.conftest import end_all_of
from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import SshServer

TORCH = os.environ.get("STOKER_TORCH_CPU", "")
HIDDEN, LAYERS = 2048, 16
AT = ("bench", "--bench", "allreduce", "--host", "box")
PLAIN = """\
engine: vllm
server:
  name: tiny
  model: "{root}/model"
  bind: 127.0.0.1
  port: 8000
  venv: "{torch}/v"
env: {{OMP_NUM_THREADS: 1}}
bench: {{runs: 3}}
"""
# What a broken profile does to its ranks: in a real torch, whose all-reduces are real but for one.
BROKEN = """\
import os, signal, sys, time
words = getattr(sys, "orig_argv", [])
if "rank" in words and os.environ.get("BREAK"):
    import torch.distributed as dist
    how, rank, real, calls = os.environ["BREAK"], int(words[words.index("rank") + 1]), dist.all_reduce, [0]
    def all_reduce(tensor, *rest, **named):
        calls[0] += 1
        if rank == 1 and calls[0] == 40 and how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and calls[0] == 40 and how == "hang":
            print("rank 1 waits for what never comes", flush=True)
            time.sleep(10_000)
        done = real(tensor, *rest, **named)
        if rank == 1 and how == "wrong" and tensor.numel() > 1000:
            tensor[7] += 1
        return done
    dist.all_reduce = all_reduce
"""


class Site:
    """A host with a real torch, and a project that knows it; what commands say is noted."""

    def __init__(self, project: ProjectFolder, home: Path) -> None:
        self.project, self.home = project, home
        self.notes = Path(TORCH) / "allreduce.md"

    def inv(self, *argv: str) -> Ended:
        begin = time.monotonic()
        ended = self.project.inv(*argv, timeout_s=900)
        said = ended.err if "--json" in argv else ended.out
        self.note(f"$ inv {' '.join(argv)}\n{said}exit {ended.code}, {time.monotonic() - begin:.1f} s")
        return ended

    def note(self, text: str) -> None:
        """Keep text as evidence, without places of this machine."""
        for place, name in ((str(self.project.root.parent), "…"), (TORCH, "TORCH")):
            text = text.replace(place, name)
        with self.notes.open("a") as file:
            file.write(text.rstrip() + "\n\n")


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "model").mkdir()
    sizes = {"text_config": {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "torch_dtype": "bfloat16"}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(sizes))
    project = ProjectFolder(tmp_path / "project")
    project.write("profiles/plain.yml", PLAIN.format(root=tmp_path, torch=TORCH))
    project.write("profiles/tuned.yml", "extends: plain\nenv: {NCCL_PROTO: LL}\n")
    project.write("profiles/absent.yml", "extends: plain\nserver: {venv: null, python: /usr/bin/python3}\n")
    project.write("profiles/gpus.yml", "extends: plain\nserver: {gpus: [0, 1]}\n")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(BROKEN)
    for how in ("hang", "die", "wrong"):
        text = f"extends: plain\nenv: {{BREAK: {how}, PYTHONPATH: {tmp_path}/broken}}\n"
        project.write(f"profiles/{how}.yml", text)
    project.write("profiles/unlinked.yml", "extends: plain\nenv: {GLOO_SOCKET_IFNAME: no-such-link}\n")
    with SshServer(tmp_path / "sshd", env={"HOME": str(home)}) as server:
        project.hosts({"box": server.variables()})
        place = Site(project, home)
        code = "import torch; print(torch.__version__)"
        version = subprocess.run(
            [f"{TORCH}/v/bin/python", "-c", code], capture_output=True, text=True, check=True
        )
        stamp = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        kernel = platform.release().partition("-")[0]
        versions = f"torch {version.stdout.strip()}, {os.cpu_count()} CPUs, kernel {kernel}"
        place.note(f"# {request.node.name}, {stamp}, {versions}")
        yield place
    end_all_of(home)


def rows(ended: Ended) -> list[dict[str, Any]]:
    assert ended.code == 0, ended.text
    found = ended.json["hosts"]["box"]["results"][-1]
    return list(found.get("rows", [found]))


def nothing_is_left(site: Site) -> bool:
    return not list((site.home / ".stoker" / "slots").iterdir())


@pytest.mark.parametrize("ranks", [2, 4])
def test_two_profiles_are_proven_in_every_rank_and_measured(site: Site, ranks: int) -> None:
    words = ("--profile", "plain", "--profile", "tuned", "--ranks", str(ranks), "--json")
    plain, tuned = rows(site.inv(*AT, *words))
    for row in (plain, tuned):
        assert row["simulated"] is False
        assert row["proof"]["verdict"] == "in-force"
        assert len(row["proof"]["workers"]) == ranks
        assert [one["bytes"] for one in row["sizes"] if one["batch"]] == [HIDDEN * 2 << n for n in range(7)]
        assert not any(one["wrong"] for one in row["sizes"])
        for one in row["sizes"]:
            assert 0 < one["p10_s"] <= one["p50_s"] <= one["p90_s"]
            assert one["busbw_gb_s"] == pytest.approx(one["algbw_gb_s"] * 2 * (ranks - 1) / ranks)
    assert tuned["estimate"]["steps"] == 2 * LAYERS
    assert nothing_is_left(site)
    compared = site.inv("compare", plain["run_id"], tuned["run_id"])
    assert "NCCL_PROTO is new" in compared.out


def test_records_are_accepted_judged_explained_and_shown(site: Site) -> None:
    (first,) = rows(site.inv(*AT, "--profile", "plain", "--launches", "2", "--json"))
    assert site.inv("baseline", "--run", first["run_id"]).code == 0
    second = site.inv(*AT, "--profile", "tuned", "--launches", "2", "--json")
    assert second.code in (0, 5), second.text  # two CPUs that others use, too, may well make it slower
    row = second.json["hosts"]["box"]["results"][-1]
    assert row["verdict"] in ("ok", "improved", "regressed", "inconclusive", "unstable")
    assert site.inv("show", row["run_id"]).code == 0
    assert site.inv("explain", "--run", row["run_id"]).code == 0
    assert site.inv("results", "--history").code == 0
    assert site.inv("report").code == 0
    page = (site.project.root / "results" / "report.html").read_text()
    assert row["run_id"] in page


def test_a_sweep_ranks_settings(site: Site) -> None:
    ended = site.inv("sweep", *AT[1:], "--profile", "plain", "--set", "OMP_NUM_THREADS=1,2", "--json")
    assert {row["name"] for row in rows(ended)} == {"as it is", "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=2"}


@pytest.mark.parametrize(
    ("profile", "kind", "told"),
    [
        ("absent", "preflight", "cannot import torch"),
        ("gpus", "preflight", ""),
        ("unlinked", "died", "no-such-link"),
        ("hang", "timeout", "the probe of hang was not done within 60 s"),
        ("die", "died", "rank 1 of the probe of die was ended by signal 9"),
        ("wrong", "invalid", "sums are wrong under wrong: 2048 bytes: "),
    ],
)
def test_what_fails_is_told_and_leaves_nothing(site: Site, profile: str, kind: str, told: str) -> None:
    ended = site.inv(*AT, "--profile", profile, "--deadline", "60", "--json")
    error = ended.json["hosts"]["box"]["error"]
    assert (ended.code, error["kind"]) == (3, kind), ended.text
    assert told in error["what"]
    assert nothing_is_left(site)


def test_gpus_that_torch_does_not_see_are_too_few(site: Site, tmp_path: Path) -> None:
    state = lab.up(tmp_path / "lab", 1, gpus=2)
    try:
        site.project.write("inventory/hosts.yml", (Path(state.inventory) / "hosts.yml").read_text())
        words = (
            "bench",
            "--bench",
            "allreduce",
            "--host",
            state.hosts[0].name,
            "--profile",
            "gpus",
            "--json",
        )
        error = site.inv(*words).json["hosts"][state.hosts[0].name]["error"]
    finally:
        lab.down(tmp_path / "lab")
    assert error["kind"] == "preflight"
    assert "torch sees 0 GPUs, 2 are wanted" in error["what"]


def test_an_interrupt_ends_the_ranks(site: Site) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it ignored
    begun = site.project.start(*AT, "--profile", "plain", "--runs", "1000", "--deadline", "600")
    assert begun.stdout is not None
    for line in begun.stdout:
        if "prove the environment" in line:
            break
    os.killpg(begun.pid, signal.SIGINT)
    out, err = begun.communicate(timeout=120)
    site.note(f"$ inv bench --bench allreduce … # interrupted\n{out}{err}exit {begun.returncode}")
    assert begun.returncode == 130, out + err
    assert nothing_is_left(site)
    ranks = subprocess.run(["pgrep", "-f", "probe.py rank"], capture_output=True, text=True)
    mine = [pid for pid in ranks.stdout.split() if str(site.home) in environ_of(pid)]
    assert mine == []


def environ_of(pid: str) -> str:
    """Of a process; empty where it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""
