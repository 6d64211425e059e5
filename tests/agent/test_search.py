"""Where variables are set is found in every way of writing it down, within bounds, and no secret is told."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError, Context
from stoker.agent.searching import search as operation
from stoker.agent.searching import searchplaces, searchtext
from stoker.agent.session import Session

CASES = Path(__file__).parents[1] / "cases/search"
LINES = [line.split("\t", 2) for line in (CASES / "lines.txt").read_text().splitlines()]


@pytest.mark.parametrize(("kind", "expected", "line"), LINES, ids=[f"{k}: {t[:40]}" for k, _, t in LINES])
def test_a_line_says_a_value(kind: str, expected: str, line: str) -> None:
    hits = list(searchtext.hits(line, searchtext.pattern(["NCCL_PROTO"]), kind))
    how, _, value = expected.partition("|")
    if how == "-":
        assert hits == []
    else:
        assert [(hit.how, "-" if hit.value is None else hit.value) for hit in hits] == [(how, value)]


@pytest.mark.parametrize("glob", ["", "NCCL PROTO", "NCCL_(a+)+$", "../x", "$X"])
def test_what_is_no_pattern_over_names_is_refused(glob: str, tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="no name of a variable"):
        searched(tmp_path, glob)


def context(home: Path, **env: str) -> Context:
    login = {"HOME": str(home), "PATH": "/nowhere", **env}
    return Context(session=Session(login_env=login))


def searched(home: Path, *patterns: str, **params: Any) -> dict[str, Any]:
    return operation.search(context(home), {"patterns": list(patterns), **params})


def in_folder(folder: Path, *patterns: str, **params: Any) -> dict[str, Any]:
    return searched(folder, *patterns, folders=[str(folder)], only_folders=True, **params)


def told(found: dict[str, Any]) -> list[tuple[str, int, str | None, str]]:
    return [(one["name"], one["line"], one["value"], one["how"]) for one in found["findings"]]


def test_the_note_of_the_story_is_found_in_prose_block_and_table() -> None:
    found = in_folder(CASES / "notes", "NCCL_PROTO", "NCCL_BUFFSIZE")
    assert sorted(told(found)) == [
        ("NCCL_BUFFSIZE", 4, "16777216", "text"),
        ("NCCL_BUFFSIZE", 11, "16777216", "inline"),
        ("NCCL_BUFFSIZE", 17, "16777216", "table row"),
        ("NCCL_PROTO", 4, "LL", "text"),
        ("NCCL_PROTO", 9, "LL", "export"),
        ("NCCL_PROTO", 16, "LL", "table row"),
    ]
    assert {one["value"] for one in in_folder(CASES / "notes", "NCCL_NTHREADS")["findings"]} == {"512"}


def test_a_secret_is_never_told() -> None:
    found = in_folder(CASES / "notes", "HF_*")
    assert told(found) == [("HF_TOKEN", 19, "***", "text")]
    assert found["findings"][0]["hidden"] is True


def test_start_up_files_units_and_conf_files_of_a_home_are_read_and_histories_only_when_asked(
    tmp_path: Path,
) -> None:
    write(tmp_path, ".bashrc", "export MARK_A=1\n")
    write(tmp_path, ".config/systemd/user/x.service.d/10.conf", "[Service]\nEnvironment=MARK_A=2\n")
    write(tmp_path, ".nccl.conf", "MARK_A=3\n")
    write(tmp_path, ".bash_history", "#1700000000\nexport MARK_A=4\n")
    write(tmp_path, "stack/compose.yml", "services:\n  a:\n    environment:\n      MARK_A: 5\n")
    write(tmp_path, "job.sbatch", "#!/bin/sh\nMARK_A=6 srun x\n")
    values = {one["value"] for one in searched(tmp_path, "MARK_A")["findings"]}
    assert values == {"1", "2", "3", "5", "6"}
    found = searched(tmp_path, "MARK_A", history=True)["findings"]
    (typed,) = [one for one in found if one["how"].startswith("history")]
    assert (typed["value"], typed["at"]) == ("4", 1700000000)
    assert found[-1] == typed, "the newest first"


def write(home: Path, name: str, text: str) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_environment_file_of_a_unit_is_read(tmp_path: Path) -> None:
    file = write(tmp_path, "elsewhere/x.vars", "MARK_B=7\n")
    write(tmp_path, ".config/systemd/user/x.service", f"[Service]\nEnvironmentFile=-{file}\n")
    assert told(searched(tmp_path, "MARK_B")) == [("MARK_B", 1, "7", "assignment")]


def test_links_out_devices_and_pipes_are_left_alone(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/x.md", "MARK_C=1\n")
    folder = tmp_path / "notes"
    write(folder, "inside.md", "MARK_C=2\n")
    (folder / "out.md").symlink_to(outside)
    (folder / "up").symlink_to(outside.parent)
    (folder / "in.md").symlink_to(folder / "inside.md")
    (folder / "null.md").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s.md"))
        found = in_folder(folder, "MARK_C")
    assert [one["value"] for one in found["findings"]] == ["2"]
    assert str(folder / "out.md") in {one["path"] for one in found["skipped"]}


def test_what_is_too_large_or_no_text_is_passed_over(tmp_path: Path) -> None:
    with write(tmp_path, "big.txt", "MARK_D=1\n").open("ab") as file:
        file.truncate(operation.MAX_FILE + 1)
    (tmp_path / "binary.txt").write_bytes(b"MARK_D=1\n\0\1")
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe MARK_D=\xe4 \n")
    found = in_folder(tmp_path, "MARK_D")
    assert told(found) == [("MARK_D", 1, "\ufffd", "text")]
    assert [one["path"] for one in found["skipped"]] == [str(tmp_path / "big.txt")]


def test_a_search_ends_in_time_and_says_that_it_was_cut(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, f"{number}.md", "MARK_E=1\n")
    assert in_folder(tmp_path, "MARK_E", deadline_s=1e-9)["cut"] == "no more time"


def test_a_line_made_to_be_slow_is_read_quickly() -> None:
    names = searchtext.pattern(["NCCL_*"])
    begin = time.process_time()
    for line in (
        "NCCL_A=" * 30_000,
        "a=1 " * 60_000 + "NCCL_A=1 x",
        '"' * 90_000,
        "export " * 30_000 + "NCCL_A=1",
    ):
        list(searchtext.hits(line, names, "shell"))
        list(searchtext.hits(line, names, "note"))
    assert time.process_time() - begin < 10


def test_containers_are_asked_where_docker_answers(tmp_path: Path) -> None:
    compose = write(tmp_path, "far/away/stack.yml", "services: {a: {environment: [MARK_F=2]}}\n")
    docker = write(tmp_path, "bin/docker", DOCKER.replace("COMPOSE", str(compose)))
    docker.chmod(0o755)
    ctx = context(tmp_path, PATH=f"{docker.parent}:/usr/bin:/bin")
    found = operation.search(ctx, {"patterns": ["MARK_F", "API_KEY"]})
    assert {(one["path"], one["value"]) for one in found["findings"]} == {
        ("docker:sglang", "1"),
        ("docker:sglang", "***"),
        (str(compose), "2"),
    }


def test_a_docker_that_fails_is_said(tmp_path: Path) -> None:
    docker = write(tmp_path, "bin/docker", "#!/bin/sh\necho permission denied >&2\nexit 1\n")
    docker.chmod(0o755)
    found = operation.search(
        context(tmp_path, PATH=f"{docker.parent}:/usr/bin:/bin"), {"patterns": ["MARK_G"]}
    )
    assert {"path": "docker", "why": "permission denied"} in found["skipped"]


DOCKER = """#!/bin/sh
case $1 in
ps) echo abc ;;
inspect) cat <<'END'
[{"Name": "/sglang", "Created": "2026-01-31T08:00:00.123456789Z", "Config": {
  "Env": ["MARK_F=1", "API_KEY=very-secret-key", "PATH=/bin"],
  "Labels": {"com.docker.compose.project.config_files": "COMPOSE"}}}]
END
esac
"""


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for folder in ("relative", str(tmp_path / "none"), "/proc/self"):
        with pytest.raises(AgentError):
            searched(tmp_path, "X", folders=[folder])


def test_homes_are_those_of_all_users_and_no_system_folder(tmp_path: Path) -> None:
    found = searchplaces.homes({"HOME": str(tmp_path)})
    assert found[0] == str(tmp_path)
    assert not {"/", "/bin", "/nonexistent"} & set(found)


@pytest.mark.parametrize(
    "value",
    [
        "--api-key s3cr3tkey123",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.abcdefgh",
        "x --hf-token=abcdefgh1",
    ],
)
def test_a_secret_in_another_variables_value_is_not_told(tmp_path: Path, value: str) -> None:
    (tmp_path / ".bashrc").write_text(f"export VLLM_Z='{value}'\n")
    found = searched(tmp_path, "VLLM_*")
    assert "s3cr3tkey123" not in str(found) and "abcdefgh" not in str(found), found


def test_lines_of_blanks_cost_no_time() -> None:
    text = ("NCCL_PROTO: LL" + " " * 19_000 + "x\n") * 12
    begin = time.process_time()
    found = list(searchtext.hits(text, searchtext.pattern(["NCCL_*"]), "yaml"))
    assert len(found) == 12
    assert time.process_time() - begin < 2
