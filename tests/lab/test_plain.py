"""A plain lab: this machine itself behind the lab's SSH server, nothing pretended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stoker.agent import facts
from stoker.errors import InputError
from stoker.lab import lab as control
from stoker.lab.state import LabState
from tests.lab.support import detach, eventually, ssh


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabState]:
    root = tmp_path_factory.mktemp("plain") / ".lab"
    yield control.up(root, 1, plain=True)
    control.down(root)


def test_a_login_sees_no_pretended_facts_and_no_pretended_driver(plain: LabState) -> None:
    host = plain.hosts[0]
    found = dict(line.split("=", 1) for line in ssh(plain, host, "exec env").stdout.decode().splitlines())
    assert "STOKER_HOST_FACTS" not in found
    assert not any(folder.startswith(plain.root) for folder in found["PATH"].split(":"))
    assert facts.load(found) == facts.real()
    assert found["HOME"] == host.home


def test_the_inventory_names_an_interpreter_and_no_pretended_engines(plain: LabState) -> None:
    text = (Path(plain.inventory) / "hosts.yml").read_text()
    (variables,) = yaml.safe_load(text)["all"]["hosts"].values()
    assert Path(variables["ansible_python_interpreter"]).is_file()
    assert not {"models", "sglang_venv", "vllm_venv"} & set(variables)


def test_it_is_this_machine_so_there_is_one_of_it_and_it_cannot_restart(plain: LabState) -> None:
    root = Path(plain.root)
    with pytest.raises(InputError, match="one host"):
        control.up(root, 2, plain=True)
    with pytest.raises(InputError, match="cannot pretend to restart"):
        control.reboot(root, plain.hosts[0].name)
    with pytest.raises(InputError, match="other kind"):
        control.up(root, 1)


def test_what_was_started_there_ends_with_the_lab(tmp_path: Path) -> None:
    root = tmp_path / ".lab"
    state = control.up(root, 1, plain=True)
    pid = detach(state, state.hosts[0], "sleep 300")
    assert eventually(lambda: control.status(root).hosts[0].processes == 1)
    control.down(root)
    assert not Path(f"/proc/{pid}").exists()
