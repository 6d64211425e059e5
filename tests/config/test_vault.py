"""Vaults as ansible-vault makes them: opened where the password is known, and never shown."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stoker.config.files.yamlfile import Vault
from stoker.config.inventories import inventory
from stoker.config.inventories.listing import shown_vars
from stoker.config.secrecy import vault
from stoker.config.secrecy.mask import Mask
from stoker.config.secrecy.secrets import Secrets
from stoker.errors import ConfigError, InputError

pytest.importorskip("ansible", reason="ansible-core, of the extra dev, makes the vaults")

Written = Callable[[Mapping[str, str]], Path]

PASSWORD = "correct horse"
CONTENTS = {
    "word": "hunter2-hunter2",
    "empty": "",
    "long": "ä" * 5000 + "\n",
    "block": "x" * 16,
    "vars.yml": (
        "vault_token: s3cret-token\nport: 2222\nnested: {key: [inner-value]}\nansible_become_password: pw-1\n"
    ),
    "list.yml": "- no variables\n",
    "broken.yml": "a: [hidden-text\n",
}


@pytest.fixture(scope="module")
def vaults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The contents, each encrypted by ansible-vault itself."""
    folder = tmp_path_factory.mktemp("vaults")
    for name, text in CONTENTS.items():
        (folder / name).write_text(text)
    (folder / "password").write_text(f"{PASSWORD}\n")
    (folder / "ansible.cfg").touch()
    environ = {**os.environ, "ANSIBLE_HOME": str(folder), "ANSIBLE_CONFIG": str(folder / "ansible.cfg")}
    program = str(Path(sys.executable).with_name("ansible-vault"))
    argv = [program, "encrypt", "--vault-id", f"prod@{folder / 'password'}", *CONTENTS]
    subprocess.run(argv, cwd=folder, env={**environ, "LC_ALL": "C.UTF-8"}, check=True, capture_output=True)
    return {name: (folder / name).read_text() for name in CONTENTS}


def known(password: str = PASSWORD) -> Secrets:
    return Secrets({vault.PASSWORD: password})


def tagged(text: str) -> str:
    return "!vault |\n" + "".join(f"          {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("name", CONTENTS)
def test_what_ansible_vault_encrypted_is_read(vaults: dict[str, str], name: str) -> None:
    assert "1.2;AES256;prod" in vaults[name]
    assert vault.decrypted(vaults[name], PASSWORD) == CONTENTS[name]
    folded = " ".join(vaults[name].split())  # as YAML reads a file that holds nothing else
    assert vault.decrypted(folded, PASSWORD) == CONTENTS[name]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text, "is a vault of another password"),
        (lambda text: text.rstrip()[:-2] + "30", "is a vault of another password"),
        (lambda text: text[:-9], "is a"),
        (lambda text: text + "zz", "is a damaged vault"),
        (lambda text: text.split("\n")[0], "is a damaged vault"),
        (lambda text: text.replace("AES256", "AES"), "is no vault of ansible-vault 1.1 or 1.2"),
        (lambda _: "", "is no vault"),
    ],
)
def test_a_damaged_vault_or_a_wrong_password_is_told(
    vaults: dict[str, str], change: Callable[[str], str], what: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        vault.decrypted(change(vaults["word"]), "wrong")
    assert CONTENTS["word"] not in str(caught.value)


def test_an_opened_vault_is_masked(vaults: dict[str, str]) -> None:
    secrets = known()
    assert secrets.opened(Vault(vaults["word"]), where="here") == CONTENTS["word"]
    assert Mask(secrets.values).text(f"<{CONTENTS['word']}> {PASSWORD}") == "<***> ***"


def test_without_a_password_it_is_said_how_to_give_one(vaults: dict[str, str]) -> None:
    with pytest.raises(InputError, match="there is no secret ANSIBLE_VAULT_PASSWORD"):
        Secrets({}).opened(Vault(vaults["word"]), where="here")


def test_a_file_that_is_a_vault_gives_variables_that_nobody_sees(
    written: Written, vaults: dict[str, str]
) -> None:
    root = written(
        {
            "hosts.yml": f"web:\n  hosts:\n    n1:\n      token: {tagged(vaults['word'])}",
            "group_vars/web/vault.yml": vaults["vars.yml"],
        }
    )
    secrets = known()
    found = inventory.load(
        [root / "hosts.yml"], root=root, open_vault=lambda one, where: secrets.opened(one, where=where)
    ).hosts["n1"]
    assert shown_vars(found) == {
        "token": "(vault)",
        "vault_token": "(vault)",
        "port": "(vault)",
        "nested": {"key": ["(vault)"]},
        "ansible_become_password": "(vault)",
    }
    assert "s3cret" not in repr(found.vars)
    assert secrets.opened(found.vars["vault_token"], where="x") == "s3cret-token"
    assert secrets.opened(found.vars["port"], where="x") == "2222"
    assert secrets.opened(found.vars["nested"]["key"][0], where="x") == "inner-value"
    assert secrets.referred("ansible-vault/token", found.vars, where="x") == CONTENTS["word"]
    with pytest.raises(InputError, match="there is no secret ansible-vault/nothing"):
        secrets.referred("ansible-vault/nothing", found.vars, where="x")


@pytest.mark.parametrize(
    ("name", "password", "what"),
    [
        ("vars.yml", None, "the file is encrypted by Ansible Vault, and there is no password"),
        ("vars.yml", "wrong", "is a vault of another password"),
        ("list.yml", PASSWORD, "what is encrypted here is no mapping of variables"),
        ("broken.yml", PASSWORD, "what is encrypted here is no mapping of variables"),
    ],
)
def test_a_file_that_cannot_be_opened_is_a_mistake_without_its_content(
    written: Written, vaults: dict[str, str], name: str, password: str | None, what: str
) -> None:
    root = written({"hosts.yml": "web: {hosts: {n1: }}\n", "group_vars/web.yml": vaults[name]})
    secrets = known(password or "")
    open_vault: vault.Open = lambda one, where: secrets.opened(one, where=where)  # noqa: E731
    with pytest.raises(ConfigError) as caught:
        inventory.load([root / "hosts.yml"], root=root, open_vault=open_vault if password else None)
    (problem,) = map(str, caught.value.problems)
    assert problem.startswith(f"group_vars/web.yml:1: {what}")
    assert "hidden" not in problem and "no variables" not in problem


def test_the_password_comes_from_a_closed_file_or_a_program(tmp_path: Path, vaults: dict[str, str]) -> None:
    held, printed = tmp_path / "held", tmp_path / "printed"
    held.write_text(f"{PASSWORD}\n")
    printed.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
    printed.chmod(0o700)
    for path in (held, printed):
        if path == held:
            path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        secrets = Secrets(os.environ, sources={vault.PASSWORD: vault.source(path.name, tmp_path)})
        assert secrets.opened(Vault(vaults["word"]), where="here") == CONTENTS["word"]
