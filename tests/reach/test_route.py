"""Inventory over ssh_config over settings: where a connection goes, as whom and with what."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stoker.config.settings import Settings
from stoker.errors import InputError
from stoker.reach.reach import Reach
from stoker.reach.route import SYSTEM_KNOWN_HOSTS, Hop, resolve
from stoker.reach.sshconfig import SshConfig
from stoker.reach.target import ReachSettings, Target

ME = pwd.getpwuid(os.getuid()).pw_name


def route(config: str = "", /, name: str = "node174", *, folder: Path | None = None, **given: Any) -> Hop:
    """The way to a host with these variables under this ssh_config."""
    changes = {key: given.pop(key) for key in list(given) if not key.startswith("ansible_")}
    setting = "none"
    if folder is not None:
        (folder / "config").write_text(config)
        setting = str(folder / "config")
    settings = ReachSettings(ssh_config=setting, **changes)
    return resolve(Target.of(name, given), settings, SshConfig(setting))


def mistake(config: str = "", /, folder: Path | None = None, **given: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        route(config, folder=folder, **given)
    return caught.value


# What the inventory says.


def test_name_alone_is_the_address() -> None:
    hop = route()
    assert (hop.address, hop.port, hop.user) == ("node174", 22, ME)
    assert hop.known_hosts == (Path("~/.ssh/known_hosts").expanduser(), *SYSTEM_KNOWN_HOSTS)
    assert not hop.identities_only


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("root@10.1.230.174", ("10.1.230.174", 22, "root")),
        ("10.1.230.174:2222", ("10.1.230.174", 2222, ME)),
        ("root@node:22", ("node", 22, "root")),
        ("root@[fe80::1%eth0]:2222", ("fe80::1%eth0", 2222, "root")),
        ("::1", ("::1", 22, ME)),
    ],
)
def test_name_may_be_an_address_with_user_and_port(name: str, where: tuple[str, int, str]) -> None:
    hop = route(name=name)
    assert (hop.address, hop.port, hop.user) == where


@pytest.mark.parametrize("prefix", ["ansible_", "ansible_ssh_"])
def test_both_spellings_of_variables_are_read(prefix: str) -> None:
    given = {"host": "10.0.0.1", "port": "2222", "user": "ops", "private_key_file": "/keys/k"}
    variables: dict[str, Any] = {prefix + key: value for key, value in given.items()}
    hop = route(**variables)
    assert (hop.address, hop.port, hop.user) == ("10.0.0.1", 2222, "ops")
    assert (hop.identities, hop.identities_only) == (("/keys/k",), True)


def test_ssh_arguments_in_all_their_spellings() -> None:
    args = (
        "-o StrictHostKeyChecking=yes -oConnectTimeout=3 -o 'UserKnownHostsFile /a /b' "
        "-i ~/k1 -i/k2 -p2200 -l ops -C -o ControlMaster=auto -o ControlPersist=60s"
    )
    hop = route(ansible_ssh_common_args=args, ansible_ssh_extra_args="-o IdentitiesOnly=yes")
    assert (hop.port, hop.user, hop.strict, hop.connect_timeout_s) == (2200, "ops", True, 3.0)
    assert hop.identities == (str(Path("~/k1").expanduser()), "/k2")
    assert hop.identities_only
    assert hop.known_hosts[:2] == (Path("/a"), Path("/b"))


def test_what_ssh_config_may_say_the_arguments_may_say_too_and_win(tmp_path: Path) -> None:
    config = "Host *\n  HostName 10.0.0.1\n  HostKeyAlias theirs\n  HashKnownHosts no\n  IdentityAgent none\n"
    said = "-o HostName=10.0.0.2 -o HostKeyAlias=ours -o HashKnownHosts=yes -o IdentityAgent=/run/agent"
    hop = route(config, folder=tmp_path, ansible_ssh_common_args=said)
    assert (hop.address, hop.key_name, hop.hash_known_hosts) == ("10.0.0.2", "ours", True)
    assert hop.identity_agent == "/run/agent"
    assert route(config, folder=tmp_path).key_name == "theirs"
    assert route(ansible_ssh_extra_args="-o HostName=%h.internal").address == "node174.internal"


def test_a_configuration_that_the_arguments_name_is_read_for_that_host(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("Host *\n  Port 2200\n")
    reach = Reach(ReachSettings(ssh_config="none"))
    named = Target.of("a", {"ansible_ssh_common_args": f"-F {tmp_path}/theirs"})
    assert (reach.route(named).port, reach.route(Target.of("b", {})).port) == (2200, 22)
    with pytest.raises(InputError, match="cannot be read"):
        reach.route(Target.of("c", {"ansible_ssh_common_args": f"-F {tmp_path}/nowhere"}))


def test_a_choice_of_algorithms_is_refused_and_says_where_they_stand() -> None:
    refused = mistake(ansible_ssh_common_args="-o Ciphers=3des-cbc")
    assert "Ciphers" in refused.what and "docs/ssh.md" in refused.next_step


def test_first_mention_counts_as_for_ssh() -> None:
    assert route(ansible_ssh_common_args="-p 1 -p 2", ansible_ssh_extra_args="-p 3").port == 1


def test_variable_beats_ssh_argument() -> None:
    assert route(ansible_port=4, ansible_ssh_common_args="-p 1").port == 4


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ("-o ForwardAgent=yes", "ForwardAgent"),
        ("-A", "-A"),
        ("-L 1:2:3", "-L"),
        ("-o Prot", "Prot"),
        ("-o StrictHostKeyChecking=perhaps", "perhaps"),
        ("-p 0", "'0'"),
        ("-o ConnectTimeout=soon", "soon"),
        ("-J", "-J"),
        ("host", "host"),
        ("-o 'broken", "quotation"),
    ],
)
def test_unsupported_or_wrong_ssh_argument_is_refused_by_name(args: str, named: str) -> None:
    error = mistake(ansible_ssh_common_args=args)
    assert named in error.what
    assert (error.where, error.exit_code) == ("node174", 2)


def test_misspelt_option_gets_the_nearest_name() -> None:
    assert "ProxyJump" in mistake(ansible_ssh_common_args="-o ProxyJmup=x").next_step


@pytest.mark.parametrize(
    "given",
    [
        {"ansible_port": 70000},
        {"ansible_port": True},
        {"ansible_port": "22:22"},
        {"ansible_host": "a b"},
        {"ansible_host": "-oProxyCommand=x"},
        {"ansible_host": "$(id)"},
        {"ansible_host": 5},
        {"ansible_user": "root;id"},
        {"ansible_user": "-l"},
        {"ansible_connection": "winrm"},
        {"ansible_python_interpreter": "/usr/bin/python3\nid"},
        {"ansible_python_interpreter": "$(id)"},
        {"ansible_become": True, "ansible_become_method": "su"},
    ],
)
def test_wrong_value_names_the_host(given: dict[str, Any]) -> None:
    assert mistake(**given).where == "node174"


def test_variables_that_say_nothing_are_right() -> None:
    hop = route(ansible_become=False, ansible_port="", ansible_user=None, ansible_python_interpreter="auto")
    assert (hop.port, hop.user) == (22, ME)


# What ssh_config says.


def test_ssh_config_says_what_the_inventory_does_not(tmp_path: Path) -> None:
    config = """
    Host node174
        HostName 10.0.0.1
        User ops
        Port 2222
        IdentityFile /keys/a
        IdentityFile "/keys/b c"
        HostKeyAlias cluster
        StrictHostKeyChecking yes
        UserKnownHostsFile ~/k1 /k2
        ConnectTimeout 7
        HashKnownHosts yes
    """
    hop = route(config, folder=tmp_path)
    assert (hop.address, hop.port, hop.user, hop.key_name) == ("10.0.0.1", 2222, "ops", "cluster")
    assert (hop.identities, hop.identities_only) == (("/keys/a", "/keys/b c"), False)
    assert (hop.strict, hop.connect_timeout_s, hop.hash_known_hosts) == (True, 7.0, True)
    assert hop.known_hosts[:2] == (Path("~/k1").expanduser(), Path("/k2"))


def test_inventory_beats_ssh_config(tmp_path: Path) -> None:
    config = "Host *\n Port 2222\n User ops\n IdentityFile /keys/a\n ProxyJump bastion\n"
    hop = route(
        config,
        folder=tmp_path,
        ansible_port=22,
        ansible_user="root",
        ansible_private_key_file="/keys/mine",
        ansible_ssh_common_args="-o ProxyJump=none",
    )
    assert (hop.port, hop.user, hop.identities, hop.via) == (22, "root", ("/keys/mine",), None)


def test_address_of_the_inventory_is_what_is_looked_up(tmp_path: Path) -> None:
    config = "Host gpu\n HostName 10.9.9.9\n"
    assert route(config, folder=tmp_path, ansible_host="gpu").address == "10.9.9.9"


def test_setting_of_known_hosts_beats_ssh_config_and_not_the_inventory(tmp_path: Path) -> None:
    config, own = "Host *\n UserKnownHostsFile /from/config\n", (Path("/from/setting"),)
    assert route(config, folder=tmp_path, known_hosts=own).known_hosts == own
    args = "-o UserKnownHostsFile=/from/inventory"
    hop = route(config, folder=tmp_path, known_hosts=own, ansible_ssh_common_args=args)
    assert hop.known_hosts[0] == Path("/from/inventory")


@pytest.mark.parametrize(
    ("policy", "said", "strict"),
    [
        ("accept-new", "no", False),
        ("accept-new", "ask", False),
        ("accept-new", "yes", True),
        ("strict", "no", True),
        ("strict", "accept-new", True),
    ],
)
def test_stricter_of_setting_and_configuration_holds(
    tmp_path: Path, policy: str, said: str, strict: bool
) -> None:
    config = f"Host *\n StrictHostKeyChecking {said}\n"
    assert route(config, folder=tmp_path, host_key_policy=policy).strict is strict


def test_proxy_jump_none_above_a_wildcard_means_no_jump(tmp_path: Path) -> None:
    config = "Host node174\n ProxyJump none\nHost *\n ProxyJump bastion\n"
    assert route(config, folder=tmp_path).via is None


def test_first_of_proxy_jump_and_proxy_command_counts(tmp_path: Path) -> None:
    config = "Host *\n ProxyCommand nc %h %p\n ProxyJump bastion\n"
    hop = route(config, folder=tmp_path)
    assert (hop.via, hop.proxy_command) == (None, "nc node174 22")


def test_tokens_of_a_proxy_command_are_the_final_values_quoted(tmp_path: Path) -> None:
    config = "Host *\n Port 1\n User a\n ProxyCommand relay --100%% %h:%p %r %n\n"
    hop = route(config, folder=tmp_path, ansible_port=2222, ansible_user="o\\ps", ansible_host="node")
    assert hop.proxy_command == "relay --100% node:2222 'o\\ps' node"


def test_chain_of_jump_hosts_with_their_own_configuration(tmp_path: Path) -> None:
    config = """
    Host outer
        HostName 10.0.0.1
        User gate
    Host inner
        Port 2200
        ProxyJump ignored-since-it-is-reached-through-outer
    """
    hop = route(
        config,
        folder=tmp_path,
        ansible_user="root",
        ansible_private_key_file="/keys/mine",
        ansible_ssh_common_args="-J outer,ops@inner -o UserKnownHostsFile=/known",
        ansible_ssh_extra_args="-o StrictHostKeyChecking=yes",
    )
    inner = hop.via
    assert inner is not None and inner.via is not None
    assert (inner.address, inner.port, inner.user) == ("inner", 2200, "ops")
    assert (inner.via.address, inner.via.port, inner.via.user) == ("10.0.0.1", 22, "gate")
    for each in (hop, inner, inner.via):
        assert each.strict
        assert each.known_hosts[0] == Path("/known")
        assert each.identities == ("/keys/mine",)


def test_jump_host_s_own_jump_is_followed(tmp_path: Path) -> None:
    config = "Host node174\n ProxyJump b\nHost b\n ProxyJump a\n"
    hop = route(config, folder=tmp_path)
    assert hop.via is not None and hop.via.via is not None
    assert (hop.via.address, hop.via.via.address) == ("b", "a")


def test_wildcard_that_matches_the_jump_host_itself_is_no_circle(tmp_path: Path) -> None:
    hop = route("Host *\n ProxyJump bastion\n", folder=tmp_path)
    assert hop.via is not None
    assert (hop.via.address, hop.via.via) == ("bastion", None)


def test_circle_of_jump_hosts_is_refused(tmp_path: Path) -> None:
    config = "Host node174\n ProxyJump a\nHost a\n ProxyJump b\nHost b\n ProxyJump c\nHost c\n ProxyJump a\n"
    assert "circle" in mistake(config, folder=tmp_path).what


def test_a_configuration_for_all_hosts_is_applied_to_each(tmp_path: Path) -> None:
    config = SshConfig(str(_written(tmp_path, "Port 2200\nHost *\n  User ops\n  IdentityFile ~/k\n")))
    for name in ("a", "b"):
        found = config.lookup(name)
        assert (found.address, found.options.port, found.options.user) == (name, 2200, "ops")
    assert SshConfig(str(_written(tmp_path, "HostName one.internal\n"))).lookup("a").address == "one.internal"
    tokens = SshConfig(str(_written(tmp_path, "Host *\n  HostName %h.internal\n")))
    assert [tokens.lookup(name).address for name in ("a", "b")] == ["a.internal", "b.internal"]
    some = SshConfig(str(_written(tmp_path, "Host a\n  Port 1\nHost *\n  Port 2\n")))
    assert [some.lookup(name).options.port for name in ("a", "b")] == [1, 2]


def _written(folder: Path, text: str) -> Path:
    (folder / "written").write_text(text)
    return folder / "written"


def test_include_is_followed_and_ends_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "extra.conf").write_text("User included\nHost other\n Port 1\n")
    config = f"Include {tmp_path}/extra*.conf\nPort 2222\n"
    hop = route(config, folder=tmp_path)
    assert (hop.user, hop.port) == ("included", 2222)


def test_include_inside_a_block_holds_for_that_block(tmp_path: Path) -> None:
    (tmp_path / "extra.conf").write_text("User included\n")
    config = f"Host node*\n Include {tmp_path}/extra.conf\n Port 2222\nHost *\n User other\n"
    assert (route(config, folder=tmp_path).user, route(config, folder=tmp_path).port) == ("included", 2222)
    assert route(config, "gpu", folder=tmp_path).user == "other"


def test_missing_include_is_nothing_and_a_circle_is_a_mistake(tmp_path: Path) -> None:
    assert route("Include /no/such/file\nPort 7\n", folder=tmp_path).port == 7
    error = mistake(f"Include {tmp_path}/config\n", folder=tmp_path)
    assert error.where == f"{tmp_path}/config:1"


BEYOND_PARAMIKO = [
    "Match final all\n User final\nHost *\n Port 2222\n",
    "Match originalhost node174 final\n User final\n",
    "Host node*\n Include {folder}/nested.conf\n Port 2222\n",
    'Match host="node174"\n User quoted\n',
    'Match exec "test %h = node174"\n Port 4\n',
    "CanonicalizeHostname yes\nCanonicalDomains invalid\nHost *\n User x\n",
]


@pytest.mark.parametrize("config", BEYOND_PARAMIKO)
def test_what_paramiko_misreads_is_asked_of_ssh_itself(tmp_path: Path, config: str) -> None:
    (tmp_path / "nested.conf").write_text("Host node174\n User nested\nHost gpu\n User other\n")
    text = config.replace("{folder}", str(tmp_path))
    hop = route(text, folder=tmp_path)
    asked = ssh_g(tmp_path / "config", "node174")
    assert (hop.user, str(hop.port), hop.address) == (asked["user"], asked["port"], asked["hostname"])
    assert hop.identities == ()
    assert hop.known_hosts[0] == Path("~/.ssh/known_hosts").expanduser()


@pytest.mark.parametrize(
    "config",
    [
        "Host !node174 *\n Port 1\nHost node17?\n Port 2\n",
        "Match host node174 user root\n Port 3\n",
        "Match !host gpu\n Port 5\n",
        "Port=6\n",
        "Port   =   7\n",
        "Match all\n Port 8\n",
        "Host gpu\n Port 1\nMatch originalhost node174\n Port 9\n",
    ],
)
def test_what_paramiko_reads_is_what_ssh_reads(tmp_path: Path, config: str) -> None:
    hop = route(config, folder=tmp_path)
    assert str(hop.port) == ssh_g(tmp_path / "config", "node174")["port"]


def ssh_g(config: Path, name: str) -> dict[str, str]:
    done = subprocess.run(["ssh", "-G", "-F", config, name], capture_output=True, text=True, check=True)
    return dict(reversed([line.partition(" ")[::2] for line in done.stdout.splitlines()]))


def test_without_openssh_it_is_a_mistake_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    error = mistake("Port 22\n\nMatch final all\n User x\n", folder=tmp_path)
    assert error.where == f"{tmp_path}/config:3"
    assert "OpenSSH" in error.next_step


@pytest.mark.parametrize(
    ("config", "number"),
    [("Port 22\nNonsense\n", 2), ("# x\nHost 'a\n", 2), ("Match host\n", 1), ("Match all host x\n", 1)],
)
def test_what_cannot_be_understood_is_named_by_file_and_line(
    tmp_path: Path, config: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert mistake(config, folder=tmp_path).where == f"{tmp_path}/config:{number}"


def test_wrong_value_in_ssh_config_is_a_mistake(tmp_path: Path) -> None:
    error = mistake("Host *\n Port many\n", folder=tmp_path)
    assert "many" in error.what and "ssh_config" in error.where


def test_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        SshConfig(str(tmp_path / "nowhere"))
    assert caught.value.where == str(tmp_path / "nowhere")


def test_unknown_policy_is_a_mistake_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        ReachSettings(host_key_policy="accept_new")
    assert "accept-new" in caught.value.next_step


def test_project_settings_are_relative_to_the_project(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, known_hosts=("keys/known", "~/k"), ssh_config="conf")
    reach = ReachSettings.of(settings)
    assert reach.known_hosts == (tmp_path / "keys/known", Path("~/k").expanduser())
    assert reach.ssh_config == str(tmp_path / "conf")
    assert ReachSettings.of(Settings(root=tmp_path, ssh_config="none")).ssh_config == "none"
