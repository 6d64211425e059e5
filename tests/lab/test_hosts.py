"""Lab hosts as OpenSSH's client sees them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import asyncssh
import pytest
import yaml

from stoker.agent import facts as agent_facts
from stoker.lab import lab as control
from stoker.lab import procfs
from stoker.lab.state import LabHost, LabState
from tests.lab.support import detach, eventually, ssh, ssh_argv


def test_a_login_gets_a_minimal_environment(lab: LabState, host: LabHost) -> None:
    done = ssh(lab, host, "exec env")
    found = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "SSH_CONNECTION", "SSH_CLIENT"} <= set(found)
    assert {"STOKER_HOST_FACTS", "STOKER_LAB_HOST"} <= set(found)
    assert set(found) <= {*_LOGIN, *_SHELL}
    assert found["HOME"] == host.home
    assert found["PATH"].startswith(f"{host.home}/.lab-bin:")
    assert found["STOKER_LAB_HOST"] == host.name


_LOGIN = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "SSH_CONNECTION", "SSH_CLIENT"),
    *("STOKER_HOST_FACTS", "STOKER_LAB_HOST"),
)
_SHELL = ("PWD", "SHLVL", "_", "OLDPWD")


def test_another_key_is_refused(lab: LabState, host: LabHost, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    done = subprocess.run([*ssh_argv(lab, host, key=str(key)), "true"], capture_output=True, timeout=30)
    assert done.returncode == 255
    assert b"Permission denied (publickey)" in done.stderr


def test_another_user_is_refused(lab: LabState, host: LabHost) -> None:
    done = subprocess.run([*ssh_argv(lab, host, user="somebody"), "true"], capture_output=True, timeout=30)
    assert (done.returncode, b"Permission denied" in done.stderr) == (255, True)


@pytest.mark.parametrize("status", [0, 1, 7, 127, 255])
def test_the_exit_status_is_the_commands(lab: LabState, host: LabHost, status: int) -> None:
    assert ssh(lab, host, f"exit {status}").returncode == status


def test_three_megabytes_go_through_both_ways_and_stay_bytes(lab: LabState, host: LabHost) -> None:
    data = bytes(range(256)) * 12288
    done = ssh(lab, host, "tee /dev/stderr", data)
    assert (done.returncode, done.stdout == data, done.stderr == data) == (0, True, True)


def test_two_hosts_are_apart(lab: LabState) -> None:
    one, other = lab.hosts
    ssh(lab, one, "echo here > ~/mark")
    assert ssh(lab, one, "cat ~/mark").stdout == b"here\n"
    assert ssh(lab, other, "cat ~/mark").returncode != 0
    assert one.address != other.address
    assert len(set(Path(lab.known_hosts).read_text().split()[2::3])) == 2, "host keys differ"
    facts = [json.loads(ssh(lab, each, 'cat "$STOKER_HOST_FACTS"').stdout) for each in lab.hosts]
    for name in ("boot_id", "gpu_device_dir", "shm_dir", "lock_dir", "process_env"):
        assert facts[0][name] != facts[1][name]


def test_the_agent_takes_the_host_facts(lab: LabState, host: LabHost) -> None:
    path = ssh(lab, host, "echo -n $STOKER_HOST_FACTS").stdout.decode()
    facts = agent_facts.load({"STOKER_HOST_FACTS": path})
    assert facts.simulated
    assert facts.process_env == {"HOME": host.home}
    assert sorted(path.name for path in Path(facts.gpu_device_dir).iterdir()) == [
        f"nvidia{i}" for i in range(8)
    ]
    assert Path(facts.shm_dir).is_dir()
    assert Path(facts.lock_dir).is_dir()


def test_a_detached_process_outlives_its_connection_and_is_counted(lab: LabState, host: LabHost) -> None:
    pid = detach(lab, host, "sleep 60")
    assert procfs.look(pid) is not None

    def counted() -> dict[str, int]:
        return {each.name: each.processes for each in control.status(Path(lab.root)).hosts}

    # What an earlier connection started may still be on its way out.
    assert eventually(lambda: counted() == {host.name: 1, lab.hosts[1].name: 0}), counted()


def test_a_lost_client_ends_the_commands_input(lab: LabState, host: LabHost) -> None:
    mark = Path(host.home) / "ended"
    argv = [*ssh_argv(lab, host), "echo up; cat; echo > ended"]
    client = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdin is not None
    assert client.stdout.readline() == b"up\n"
    client.kill()
    client.communicate()
    assert eventually(mark.exists)
    mark.unlink()


def test_a_signal_reaches_the_commands_process_group(lab: LabState, host: LabHost) -> None:
    async def scene() -> object:
        connection = await asyncssh.connect(
            host.address,
            host.port,
            username=lab.user,
            client_keys=[lab.key_file],
            known_hosts=lab.known_hosts,
        )
        process = await connection.create_process("echo up; sleep 60 | sleep 60")
        await process.stdout.readline()
        process.send_signal("TERM")
        done = await process.wait()
        connection.close()
        await connection.wait_closed()
        return done.exit_signal

    assert asyncio.run(asyncio.wait_for(scene(), 20)) == ("TERM", False, "", "en-US")
    assert eventually(lambda: control.status(Path(lab.root)).hosts[0].processes == 0)


def test_sftp_starts_at_home(lab: LabState, host: LabHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\xff" * 5000)
    argv = ["sftp", "-b", "-", *ssh_argv(lab, host)[1:]]
    argv[argv.index("-p")] = "-P"
    batch = f"put {tmp_path}/file there\nget there {tmp_path}/back\nrm there\n"
    subprocess.run(argv, input=batch.encode(), check=True, capture_output=True, timeout=30)
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


def test_the_inventory_says_how_to_reach_each_host_and_what_it_has(lab: LabState) -> None:
    data = yaml.safe_load((Path(lab.inventory) / "hosts.yml").read_text())["all"]
    assert list(data["hosts"]) == [host.name for host in lab.hosts] == ["node174", "node175"]
    assert {name: list(group["hosts"]) for name, group in data["children"].items()} == {
        "gpu": ["node174", "node175"],
        "lab": ["node174", "node175"],
    }
    for host in lab.hosts:
        found = data["hosts"][host.name]
        assert (found["ansible_host"], found["ansible_port"]) == (host.address, host.port)
        assert found["stoker_bind"] == host.address
        assert found["stoker_profiles"] == ["nccl-tuned"]
        assert Path(found["ansible_private_key_file"]).stat().st_mode & 0o777 == 0o600
        assert lab.known_hosts in found["ansible_ssh_common_args"]
        assert (Path(found["models"]) / "Kimi-K2.5" / "config.json").exists()
        for engine in ("sglang", "vllm"):
            python = f"{found[f'{engine}_venv']}/bin/python"
            code = f"import {engine}, importlib.metadata as m; print(m.version('{engine}'))"
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
            assert done.stdout.strip() in ("0.5.23", "0.33.0")


def test_a_reboot_changes_the_boot_id_and_ends_that_hosts_processes_only(lab: LabState) -> None:
    rebooted, other = lab.hosts
    gone, stays = detach(lab, rebooted, "sleep 60"), detach(lab, other, "sleep 60")
    argv = [*ssh_argv(lab, rebooted), "echo up; sleep 60"]
    client = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert client.stdout is not None
    client.stdout.readline()
    before = agent_facts.load({"STOKER_HOST_FACTS": f"{lab.root}/machines/{rebooted.name}/facts.json"})

    state = control.reboot(Path(lab.root), rebooted.name)

    after = agent_facts.load({"STOKER_HOST_FACTS": f"{lab.root}/machines/{rebooted.name}/facts.json"})
    assert state.boot_id == after.boot_id != before.boot_id
    assert after.init_start != before.init_start
    assert client.wait(10) == 255, "its connection is gone too"
    client.stdout.close()
    assert procfs.look(gone) is None or procfs.look(gone).gone  # type: ignore[union-attr]  # just looked
    assert procfs.look(stays) is not None
    os.kill(stays, signal.SIGKILL)
    assert ssh(lab, rebooted, "true").returncode == 0, "and it is up again"
