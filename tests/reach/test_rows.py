"""What breaks other tools when they reach hosts, and the test that holds here. Rows of playbooks stand with those.

an unknown host key                    reach/test_known_hosts.py::test_first_key_is_recorded_and_then_known
                                       reach/test_known_hosts.py::test_strict_refuses_a_first_key_and_says_which_line_to_add
                                       reach/test_known_hosts.py::test_server_with_a_changed_key_is_not_logged_in_to
an authority vouches for hosts         reach/test_hostcert.py::test_known_authority_vouches_for_a_host_that_was_never_seen
many new hosts at once                 reach/test_known_hosts.py::test_many_first_connections_at_once_record_one_line
                                       reach/test_known_hosts.py::test_many_processes_lose_no_entry
a prompt from a worker                 reach/test_passphrase.py::test_terminal_is_asked_once_and_the_passphrase_is_not_shown
a server that hangs on its channel     agent/test_shim.py::test_it_tells_the_launcher_and_detaches
                                       reach/test_bare.py::test_background_child_that_holds_the_streams_is_not_waited_for
a process that dies with the channel   agent/test_spawn.py::test_it_leads_a_session_of_its_own
Ctrl-C leaves remote work running      reach/test_call.py::test_ctrl_c_ends_the_step_and_the_agent
                                       reach/test_bare.py::test_stop_ends_the_command_on_the_host
a timeout only closes the channel      reach/test_bare.py::test_deadline_ends_the_command_on_the_host
                                       reach/test_become.py::test_deadline_ends_what_runs_as_another_user
a pattern kills its own shell          agent/test_scope.py::test_the_agents_own_ancestors_are_never_ended
both streams full                      reach/test_bare.py::test_both_streams_full_do_not_block
an exit code that never comes          e2e/test_exec.py::test_host_that_hangs_in_a_command_is_ended_at_the_deadline
a character split over two reads       reach/test_bare.py::test_output_streams_as_it_comes_and_characters_arrive_whole
variables on a command line            plan/test_script.py::test_any_secret_arrives_and_stands_in_no_script
a banner lost to MaxStartups           reach/test_unreachable.py::test_server_that_drops_the_first_connection_is_tried_once_more
                                       reach/test_jump.py::test_hosts_behind_one_jump_host_share_its_connection
MaxSessions                            reach/test_unreachable.py::test_server_that_allows_no_session_refuses_the_channel
Include, Match                         reach/test_route.py::test_what_paramiko_misreads_is_asked_of_ssh_itself
                                       reach/test_route.py::test_what_paramiko_reads_is_what_ssh_reads
ProxyJump none                         reach/test_route.py::test_proxy_jump_none_above_a_wildcard_means_no_jump
RSA with SHA-2, each kind of key       reach/test_unreachable.py::test_keys_of_each_kind_log_in
a key that is not what it seems        reach/test_unreachable.py::test_unusable_key_file_is_named_with_what_is_wrong
                                       reach/test_unreachable.py::test_wrong_key_is_denied_and_named
too many keys                          reach/test_unreachable.py::test_too_many_keys_are_told_as_such
a slow or cut transfer                 reach/test_push.py::test_cut_transfer_is_gone_on_with
                                       reach/test_push.py::test_cut_get_is_gone_on_with
                                       reach/test_push.py::test_thousands_of_small_files_go_in_one_stream
a fetch under sudo                     reach/test_become.py::test_files_are_put_and_brought_as_that_user
sudo's prompt                          reach/test_become.py::test_sudo_with_a_password_answers_its_prompt_under_every_login_shell
                                       reach/test_become.py::test_what_sudo_does_not_allow_is_a_failed_host_with_its_words
one host down ends the run             e2e/test_exec.py::test_one_hung_host_in_twenty_keeps_nobody_waiting
                                       e2e/test_exec.py::test_host_that_reboots_in_the_middle_is_lost_and_the_others_are_kept
exit code 255                          reach/test_bare.py::test_exit_code_255_of_the_command_is_not_taken_for_a_lost_link
                                       reach/test_bare.py::test_unreached_host_is_no_exit_code
two operators on one host              faults/test_host.py::test_two_operators_at_once_leave_one_server_and_no_lock
a thread a host, without an end        fleet/test_pool.py::test_no_more_than_forks_run_at_once_and_that_many_do
                                       fleet/test_pool.py::test_ctrl_c_does_not_wait_for_what_hangs
no keepalive                           reach/test_call.py::test_silent_link_is_lost_within_the_limit
                                       faults/test_link.py::test_a_cable_that_is_put_back_in_time_costs_nothing
Ctrl-C loses what was gathered         e2e/test_exec.py::test_interrupted_fleet_keeps_what_is_done
the old server answers the probe       agent/test_bench.py::test_another_listener_on_the_port_is_no_server_of_ours
"""  # noqa: E501 - a table

from __future__ import annotations

import re
from pathlib import Path


def test_every_row_names_tests_that_exist() -> None:
    named = re.findall(r"(\S+\.py)::(\w+)", __doc__ or "")
    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(), f"{file}::{name}"
