"""A value in Ansible's vault on its way into a server's environment: it is among the plan's secrets only."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.config import settings
from stoker.errors import InputError
from stoker.fleet.project import Project
from stoker.fleet.session import target_of

pytest.importorskip("ansible", reason="ansible-core, of the extra dev, makes the vault")

TOKEN = "tok-3n-of-the-vault"
PROFILE = """\
engine: openai
server: {model: m, port: 30000, command: [/usr/bin/env]}
env: {HF_TOKEN: "{{ hf_token }}", PLAIN: "{{ plain }}", OTHER: "{{ other }}"}
"""
VARIABLES = "hf_token: '{{ vault_hf_token }}'\nplain: word\nother: !secret OTHER\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "password").write_text("pw of the vault\n")
    (tmp_path / "password").chmod(0o600)
    for name, text in (
        ("inventory/hosts.yml", "gpu: {hosts: {n1: }}\n"),
        ("inventory/group_vars/gpu/vars.yml", VARIABLES),
        ("inventory/group_vars/gpu/vault.yml", f"vault_hf_token: {TOKEN}\nansible_password: {TOKEN}-2\n"),
        ("profiles/it.yml", PROFILE),
        ("ansible.cfg", ""),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = str(Path(sys.executable).with_name("ansible-vault"))
    vault = tmp_path / "inventory/group_vars/gpu/vault.yml"
    environ = {**os.environ, "ANSIBLE_HOME": str(tmp_path / "home"), "LC_ALL": "C.UTF-8"}
    argv = [program, "encrypt", "--vault-password-file", str(tmp_path / "password"), str(vault)]
    subprocess.run(argv, cwd=tmp_path, env=environ, check=True, capture_output=True)
    assert TOKEN not in vault.read_text()
    return tmp_path


def test_a_variable_in_a_vault_is_a_secret_of_the_plan(root: Path) -> None:
    chosen = settings.load(root, {"vault_password_file": "password"})
    project = Project(chosen, {"OTHER": "from the environment"})
    (host,) = project.hosts([])
    plan = project.plan("it", host)
    assert plan.secrets == {"HF_TOKEN": TOKEN, "OTHER": "from the environment"}
    assert plan.env["PLAIN"] == "word"
    open_parts = {**dataclasses.asdict(plan), "secrets": None}
    assert TOKEN not in json.dumps(open_parts, default=str)
    assert target_of(host, project.secrets).password == f"{TOKEN}-2"
    assert {TOKEN, f"{TOKEN}-2"} <= set(project.secrets.values)  # so that they are blotted out


def test_ansibles_own_variable_names_the_password_file(root: Path) -> None:
    environ = {"ANSIBLE_VAULT_PASSWORD_FILE": str(root / "password"), "OTHER": "x-y-z"}
    project = Project(settings.load(root, {}), environ)
    assert project.plan("it", project.hosts([])[0]).secrets["HF_TOKEN"] == TOKEN


def test_a_password_file_that_others_can_read_is_refused(root: Path) -> None:
    (root / "password").chmod(0o644)
    project = Project(settings.load(root, {"vault_password_file": "password"}), {})
    with pytest.raises(InputError, match=r"group_vars/gpu/vault.yml:1: .*can be read or changed by others"):
        project.hosts([])
