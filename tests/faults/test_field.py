"""Small inputs from the field, each reported in public by people who do this job; where each is tested.

GPU
 1 a lost GPU is the only output      agent/test_gpu.py::test_what_it_says_instead_of_rows
                                      e2e/test_doctor.py::test_a_broken_driver_is_a_failed_host_in_a_table_of_80_columns
 2 driver/library version mismatch    agent/test_kill.py::test_a_driver_that_does_not_match_its_library_stops_everything
                                      agent/test_doctor.py::test_a_broken_driver_fails_with_its_own_words_and_what_to_do
 3 MIG rows with no permission        agent/test_gpu.py::test_what_the_driver_does_not_know_is_none_never_zero
 4 memory [N/A], processes listed     agent/test_gpu.py::test_memory_that_is_not_applicable_is_not_zero
                                      agent/test_scope.py::test_memory_that_the_driver_does_not_tell_is_not_zero_but_no_proof_either
 5 a comma in a process's name        agent/test_gpu.py::test_processes_whose_names_hold_commas
 6 memory used, nobody listed         agent/test_kill.py::test_memory_that_nobody_here_holds_stops_everything
 7 the fabric never completed         agent/test_doctor.py::test_what_can_be_wrong_with_a_gpu
Processes
 8 environ of NUL bytes               agent/test_liveenv.py::test_an_overwritten_environment_without_symbols_is_unreadable_not_unset
                                      agent/test_proof.py::test_what_cannot_be_read_from_memory_is_unproven_never_unset
 9 a title over the arguments         agent/test_procs.py::test_a_title_comes_without_the_padding_and_the_rest_of_the_arguments
10 pkill -f ends its own shell        agent/test_scope.py::test_the_agents_own_ancestors_are_never_ended
                                      agent/test_zoo.py::test_the_agent_and_what_it_came_in_by_are_never_ended
Inventory, SSH
11 a key twice                        config/test_yamlfile.py::test_duplicate_keys_name_both_lines
12 no, 22:22, 0777, 1.10              config/test_yamlfile.py::test_what_yaml_made_of_a_value_is_named
13 ProxyJump none above a wildcard    reach/test_route.py::test_proxy_jump_none_above_a_wildcard_means_no_jump
14 Match, Include                     reach/test_route.py::test_what_paramiko_misreads_is_asked_of_ssh_itself
                                      reach/test_route.py::test_include_is_followed_and_ends_with_its_file
15 a second factor                    reach/test_unreachable.py::test_second_factor_is_told_quickly
16 a message of the day               reach/test_boot.py::test_noise_of_start_up_files_does_no_harm
17 ~/.ssh/rc or BASH_ENV prints       faults/test_field.py::test_what_prints_before_every_command_gets_into_nothing
                                      faults/test_field.py::test_an_rc_of_sshd_that_prints_gets_into_nothing
18 another login shell, set -u        faults/test_field.py::test_another_login_shell_is_as_good
                                      faults/test_field.py::test_a_start_up_file_that_fails_costs_nothing
19 a sign split over two reads, \\r    agent/test_logtail.py::test_a_sign_cut_in_two_writes_stays_whole
                                      agent/test_logs.py::test_of_a_progress_bar_only_its_last_state_is_shown
                                      reach/test_bare.py::test_output_streams_as_it_comes_and_characters_arrive_whole
20 past MaxSessions                   faults/test_field.py::test_one_session_is_enough_for_all_but_a_pull_which_says_so
                                      reach/test_unreachable.py::test_server_that_allows_no_session_refuses_the_channel
Engine, NCCL
21 healthy, the scheduler dead        agent/test_ready.py::test_200_without_tokens_is_not_ready
22 the job's own limits               agent/test_doctor.py::test_limits_are_those_of_the_server_that_runs
                                      agent/test_fingerprint.py::test_the_host_and_the_limits_of_the_workers_are_told
Benchmarks
23 NaN, nothing completed, client     agent/test_load.py::test_no_figure_is_ever_nan
                                      agent/test_load.py::test_our_own_lack_of_descriptors_is_told_apart_from_the_servers_failures
                                      results/test_record.py::test_without_a_valid_run_there_is_no_number_at_all
24 a result of another schema         results/test_record.py::test_an_answer_of_another_shape_is_refused_by_field
25 a stranger on the GPU              agent/test_bench.py::test_requests_of_others_during_the_run_contaminate_it
                                      results/test_explain.py::test_a_stranger_on_the_gpus_is_likely
"""  # noqa: E501 - a table

from __future__ import annotations

import pwd
import re
import shutil
from os import getuid
from pathlib import Path

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.client import Agent
from stoker.reach.manifest import announced
from stoker.reach.pull import fetch
from stoker.reach.reach import Reach
from tests.faults.mounts import mounts_refused, server_with
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

NOISE = "echo 0000 welcome; printf 'no line end'; echo complaint >&2\n"


def serves(server: SshServer, folder: Path) -> None:
    """An agent answers, and a file arrives whole, whatever is printed around them."""
    (folder / "there").mkdir()
    (folder / "there" / "file").write_bytes(bytes(range(256)) * 40)
    with Reach(settings()).connect(target_of(server)) as agent:
        assert said_by(agent, "echo fine") == "fine\n"
        (pulled,) = fetch(agent, announced(agent, str(folder / "there")), folder / "here")
    assert pulled.read_bytes() == bytes(range(256)) * 40


def said_by(agent: Agent, command: str) -> str:
    return str(agent.call("exec", {"shell": command})["stdout"])


def test_the_table_names_25_items_and_tests_that_exist() -> None:
    text = __doc__ or ""
    assert re.findall(r"^ ?(\d+) ", text, re.M) == [str(number) for number in range(1, 26)]
    for file, name in re.findall(r"(\S+\.py)::(\w+)", text):
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(), f"{file}::{name}"


def test_what_prints_before_every_command_gets_into_nothing(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    noisy.write_text(NOISE)
    env = {"HOME": str(tmp_path), "BASH_ENV": str(noisy)}
    with SshServer(tmp_path / "sshd", env=env, shell=shutil.which("bash") or "bash") as server:
        serves(server, tmp_path)


@pytest.mark.skipif(bool(mounts_refused()), reason=mounts_refused() or "-")
def test_an_rc_of_sshd_that_prints_gets_into_nothing(tmp_path: Path) -> None:
    """It lies in the account's real home, so that is another one for this server alone."""
    (tmp_path / "rc").write_text(f"touch {tmp_path}/ran\n{NOISE}")
    home = pwd.getpwuid(getuid()).pw_dir
    mounts = f'mount -t tmpfs none {home}; mkdir -m 700 {home}/.ssh; cp "$1/rc" {home}/.ssh/rc'
    with server_with(mounts, tmp_path / "sshd", {"HOME": str(tmp_path)}, tmp_path) as server:
        serves(server, tmp_path)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", ["csh", "tcsh", "fish", "zsh", "dash", "busybox"])
def test_another_login_shell_is_as_good(tmp_path: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    program = f"{found} sh" if shell == "busybox" else found
    with SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}, shell=program) as server:
        serves(server, tmp_path)


def test_a_start_up_file_that_fails_costs_nothing(tmp_path: Path) -> None:
    # Under `set -u` bash ends the file there; the option itself holds on in the login shell.
    (tmp_path / ".bashrc").write_text('set -u\nfalse\nPS1="$UNSET_BY_NOBODY"\necho not reached\n')
    (tmp_path / "env").write_text("set -u\n")
    env = {"HOME": str(tmp_path), "ENV": str(tmp_path / "env"), "BASH_ENV": str(tmp_path / "env")}
    with SshServer(tmp_path / "sshd", env=env, shell="/bin/bash") as server:
        serves(server, tmp_path)


def test_one_session_is_enough_for_all_but_a_pull_which_says_so(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("x")
    with (
        SshServer(tmp_path / "sshd", options=["MaxSessions 1"]) as server,
        Reach(settings()).connect(target_of(server)) as agent,
    ):
        assert said_by(agent, "echo fine") == "fine\n"
        with pytest.raises(HostUnreachable) as caught:
            fetch(agent, announced(agent, str(tmp_path / "there")), tmp_path / "here")
        assert (caught.value.kind, "MaxSessions" in caught.value.next_step) == ("refused", True)
        assert said_by(agent, "echo still here") == "still here\n"
    assert not list((tmp_path / "here").glob("*"))
