"""A value in Ansible's vault on its way into a server or a command: it is nowhere to be seen."""

from __future__ import annotations

import dataclasses
import hashlib
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
from tests.e2e.project import ProjectFolder

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


BOOK = """\
- hosts: n1
  vars_files: [secret.yml]
  vars:
    inline: !vault |
      INLINE
    through: "{{ from_file }}"
  tasks:
    - shell: printf '%s,%s,%s' "$A" "$B" "$C" | sha256sum; echo "it is $A"
      environment: {A: "{{ inline }}", B: "{{ through }}", C: "{{ deep_token }}", D: plain}
      register: said
    - shell: cat
      args: {stdin: "{{ from_file }}"}
      register: read
    - shell: echo "$D $(printf %s "$A" | wc -c)" >&2; false
      environment: [{D: "{{ said.rc }}"}, {A: "{{ inline }}"}]
      register: failing
      ignore_errors: true
"""


def encrypt(root: Path, text: str) -> str:
    """A text as ``ansible-vault`` seals it."""
    program = str(Path(sys.executable).with_name("ansible-vault"))
    environ = {**os.environ, "ANSIBLE_HOME": str(root / "home"), "LC_ALL": "C.UTF-8"}
    argv = [program, "encrypt", "--vault-password-file", str(root / "password"), "--output", "-"]
    return subprocess.run(
        argv, cwd=root, env=environ, check=True, capture_output=True, input=text, text=True
    ).stdout


@pytest.fixture
def book(root: Path) -> ProjectFolder:
    folder = ProjectFolder(root)
    folder.write("inventory/hosts.yml", "gpu: {hosts: {n1: {ansible_connection: local}}}\n")
    folder.write("inventory/group_vars/gpu/vars.yml", "deep_token: '{{ vault_hf_token }}'\n")
    folder.write("playbooks/secret.yml", encrypt(root, "from_file: of-the-file\n"))
    inline = encrypt(root, "of-the-line").replace("\n", "\n      ").rstrip()
    folder.write("playbooks/book.yml", BOOK.replace("INLINE", inline))
    folder.write("invoke.yaml", "stoker: {vault_password_file: password}\n")
    return folder


def test_what_is_in_vaults_reaches_a_command_and_is_never_shown(book: ProjectFolder) -> None:
    ended = book.inv("play", "book", "--json")
    assert ended.code == 0, ended.text
    said, read, failing = (task["hosts"]["n1"] for task in ended.json["plays"][0]["tasks"])
    whole = hashlib.sha256(f"of-the-line,of-the-file,{TOKEN}".encode()).hexdigest()
    assert said["result"]["stdout_lines"] == [f"{whole}  -", "it is ***"]
    assert read["result"]["stdout"] == "***"
    assert failing["result"]["stderr"] == "0 11"
    assert said["command"].count("***") == 3
    kept = "".join(path.read_text() for path in book.root.rglob(".stoker/plays/*"))
    for secret in ("of-the-line", "of-the-file", TOKEN):
        assert secret not in ended.text
        assert secret not in kept
    page = book.inv("play", "book", "--runbook")
    assert page.code == 0, page.text
    assert "***" in page.out


def test_without_the_password_nothing_is_begun(book: ProjectFolder) -> None:
    book.write("invoke.yaml", "stoker: {}\n")
    book.write("inventory/group_vars/gpu/vault.yml", "vault_hf_token: word\n")
    book.write("playbooks/secret.yml", "from_file: word\n")
    refused = book.inv("play", "book")
    assert refused.code == 2, refused.text
    assert "playbooks/book.yml:13: there is no secret ANSIBLE_VAULT_PASSWORD" in refused.text
    assert "TASK" not in refused.out
    book.write("playbooks/secret.yml", "$ANSIBLE_VAULT;1.1;AES256\n3132\n")
    assert "playbooks/secret.yml:1: there is no secret" in book.inv("play", "book").text


def test_a_vault_is_refused_where_it_would_be_seen(book: ProjectFolder) -> None:
    book.write(
        "playbooks/open.yml",
        "- hosts: n1\n  tasks:\n    - command: 'echo {{ vault_hf_token }}'\n    - debug: {msg: !vault x}\n",
    )
    refused = book.inv("play", "open")
    assert refused.code == 2, refused.text
    assert "playbooks/open.yml:4" in refused.text
    assert "!vault cannot stand here (make it a variable, and pass that by environment" in refused.text
    book.write("playbooks/open.yml", "- hosts: n1\n  tasks:\n    - command: 'echo {{ vault_hf_token }}'\n")
    failed = book.inv("play", "open")
    assert failed.code == 3, failed.text
    assert TOKEN not in failed.text
    assert "environment or stdin" in failed.text


def test_variables_of_the_command_line_may_be_a_vault(book: ProjectFolder) -> None:
    book.write("extra.yml", encrypt(book.root, "from_file: of-the-extra\n"))
    ended = book.inv("play", "book", "--json", "--extra-var", "@extra.yml")
    assert ended.code == 0, ended.text
    whole = hashlib.sha256(f"of-the-line,of-the-extra,{TOKEN}".encode()).hexdigest()
    assert whole in ended.text
