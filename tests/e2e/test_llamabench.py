"""``llama-bench`` in a server's place, over a real sshd: the real one where it is on the PATH.

Else a small program takes the same arguments and writes what the real one wrote for other numbers.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PLAIN
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port

AT = ("bench", "--bench", "llama-bench", "--host", "box", "--profile", "plain")
ASKED = ("--input", "64", "--output", "32", "--runs", "3")
STANDIN = f"""\
#!{sys.executable}
import json, sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert asked["-o"] == "jsonl" and asked["--threads"] == "1" and asked["--device"] == "none", asked
if asked["-p"] == "77":
    sys.exit("llama_bench: error: failed to load model: unable to allocate CPU buffer")
for line in open({str(Path(__file__).parents[1] / "cases/benchmarks/llama-bench/cpu.jsonl")!r}):
    print(line.strip(), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path, box: SshServer, tiny_model: Path, llama_server: Path) -> ProjectFolder:
    """A host with a llama-bench beside its llama-server."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "llama-server").symlink_to(llama_server)
    real = shutil.which("llama-bench")
    if real:
        (programs / "llama-bench").symlink_to(real)
    else:
        (programs / "llama-bench").write_text(STANDIN)
        (programs / "llama-bench").chmod(0o755)
    folder = ProjectFolder(tmp_path / "project")
    folder.hosts({"box": box.variables()})
    text = PLAIN.format(model=tiny_model, server=programs / "llama-server", port=free_port("127.0.0.1"))
    folder.write("profiles/plain.yml", text)
    folder.write("profiles/vllm.yml", "engine: vllm\nserver: {model: /m, port: 1, name: v}\n")
    return folder


def result(document: dict[str, Any]) -> dict[str, Any]:
    (found,) = document["hosts"]["box"]["results"]
    return dict(found)


def test_a_model_is_measured_without_its_server(project: ProjectFolder, home: Path) -> None:
    ended = project.inv(*AT, *ASKED, "--json")
    assert ended.code == 0, ended.text
    found = result(ended.json)
    assert found["bench"] == {"name": "llama-bench", "runs": 3, "input": "64", "output": "32"}
    assert found["tok_s"] == pytest.approx(found["metrics"]["decode_tok_s"]["value"], rel=0.01)
    assert found["metrics"]["prefill_tok_s"]["unit"] == "tok/s"
    assert found["metrics"]["prefill_tok_s"]["value"] > found["tok_s"]
    assert found["contaminated"] == []
    assert "prefill of 64 tokens" in ended.err
    assert "of the profile's settings llama-bench has not: --ctx-size, --metrics" in ended.err
    assert not list((home / ".stoker" / "slots").iterdir()), "nothing of it is left"

    folder = project.root / "results" / found["run_id"]
    assert {"run.json", "bench.json", "launch.sh", "result.jsonl"} <= {path.name for path in folder.iterdir()}
    record = json.loads((folder / "run.json").read_text())
    assert record["launches"][0]["probe"]["proof"]["verdict"] == "in-force"
    assert len(record["launches"][0]["runs"]) == 3


@pytest.mark.long
def test_a_record_of_it_is_accepted_judged_and_shown_as_any_other(project: ProjectFolder) -> None:
    found = result(project.inv(*AT, *ASKED, "--json").json)
    accepted = project.inv("baseline", "--run", found["run_id"])
    assert accepted.code == 0, accepted.text
    again = project.inv(*AT, *ASKED, "--json")
    assert result(again.json)["verdict"] != "no-baseline", again.text
    assert "pp64+tg32" in project.inv("results").out
    assert "prefill_tok_s" in project.inv("show", found["run_id"]).out
    assert project.inv("report").code == 0
    swept = project.inv("sweep", *AT[1:], *ASKED, "--arg", "threads=1", "--json")
    assert swept.code == 0, swept.text
    assert {row["name"] for row in result(swept.json)["rows"]} >= {"as it is"}


@pytest.mark.long
def test_beside_the_server_of_its_profile_it_refuses_and_with_force_it_is_marked(
    project: ProjectFolder,
) -> None:
    assert project.inv("start", "--host", "box", "--profile", "plain").code == 0
    refused = project.inv(*AT, *ASKED)
    assert refused.code == 3
    assert "loads the model a second time" in refused.text
    assert "inv stop ends it, --force measures beside it" in refused.text
    forced = project.inv(*AT, *ASKED, "--force", "--json")
    assert forced.code == 0, forced.text
    assert "measured beside a server: the server of slot tiny runs" in result(forced.json)["contaminated"][0]
    assert "1 server up" in project.inv("status", "--host", "box").out
    assert project.inv("stop", "--host", "box", "--slot", "tiny").code == 0


@pytest.mark.long
def test_a_profile_of_another_engine_is_refused_before_anything_runs(project: ProjectFolder) -> None:
    other = project.inv("bench", "--bench", "llama-bench", "--host", "box", "--profile", "vllm")
    assert (other.code, "llama-bench is of llama.cpp" in other.text) == (2, True)
    assert project.inv(*AT, "--confirm").code == 2


@pytest.mark.long
def test_one_that_is_not_there_says_where_it_belongs(project: ProjectFolder, home: Path) -> None:
    (project.root.parent / "programs" / "llama-bench").unlink()
    ended = project.inv(*AT, *ASKED)
    assert ended.code == 3
    assert "beside llama-server" in ended.text
    assert not list((home / ".stoker" / "slots").iterdir())
