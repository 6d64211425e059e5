"""A project's own launch templates: blocks over Stoker's, mistakes with file and line, a sandbox."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import jinja2
import pytest
from jinja2 import meta

from stoker import plan as plans
from stoker.config.inventories.inventory import Host
from stoker.config.profiles.profile import Library
from stoker.config.templating.template import BadTemplate

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "stoker" / "templates" / "launch.sh.j2"
PROFILE = """\
engine: openai
server:
  model: m
  port: 30000
  command: [/usr/bin/env, "-0"]
  args: {some: "a b"}
env: {WORDS: "it's $HOME `here`"}
"""


def built(tmp_path: Path, **files: str) -> plans.LaunchPlan:
    """A plan with a project's templates; ``launch_sh_j2`` is the file ``launch.sh.j2``."""
    folder = tmp_path / "profiles" / "templates"
    folder.mkdir(parents=True)
    (tmp_path / "profiles" / "it.yml").write_text(PROFILE)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    host = Host("box", {}, (), "")
    profile = Library(tmp_path / "profiles", tmp_path).resolve("it", host)
    return plans.build(host, "it", profile, secrets=None, templates=[folder])


def shell(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-n"], input=script, capture_output=True, text=True, timeout=10)


@pytest.mark.parametrize("name", ["launch_sh_j2", "openai_sh_j2", "it_sh_j2"])
def test_a_template_lays_blocks_over_stokers(tmp_path: Path, name: str) -> None:
    plain = built(tmp_path / "plain").script
    text = (
        '{% extends "launch.sh.j2" %}\n'
        "{% block setup %}\nulimit -n {{ '4096' }}\n{{ super() }}{% endblock %}\n"
        "{% block run %}\nexec nice {{ argv | words }}\n{% endblock %}\n"
    )
    own = built(tmp_path / "own", **{name: text}).script
    added = [line for line in own.splitlines() if line not in plain.splitlines()]
    assert added[0] == "ulimit -n 4096"
    assert added[1].startswith("exec nice /usr/bin/env")
    gone = [line for line in plain.splitlines() if line not in own.splitlines()]
    assert gone == ["exec /usr/bin/env \\"]
    assert shell(own).returncode == 0


def test_what_a_block_had_is_shell_already_and_not_quoted_again(tmp_path: Path) -> None:
    same = '{% extends "launch.sh.j2" %}{% block tuning %}{{ super() }}{% endblock %}'
    assert built(tmp_path / "a", it_sh_j2=same).script == built(tmp_path / "b").script


def test_templates_build_on_each_other_down_to_stokers(tmp_path: Path) -> None:
    script = built(
        tmp_path,
        launch_sh_j2='{% extends "launch.sh.j2" %}{% block gpus %}# all\n{{ super() }}{% endblock %}',
        openai_sh_j2='{% extends "launch.sh.j2" %}{% block folder %}# engine\n{{ super() }}{% endblock %}',
        it_sh_j2='{% extends "openai.sh.j2" %}{% block secrets %}# mine\n{{ super() }}{% endblock %}',
    ).script
    assert [line for line in script.splitlines() if line in ("# all", "# engine", "# mine")] == [
        *("# all", "# mine", "# engine")
    ]


def test_a_script_of_blocks_runs_by_hand_as_it_stands(tmp_path: Path) -> None:
    text = (
        '{% extends "launch.sh.j2" %}{% block tuning %}{{ super() }}export MORE={{ "x y" }}\n{% endblock %}'
    )
    script = built(tmp_path, it_sh_j2=text).script.replace(" --some 'a b'", "").replace("\\\n", "")
    path = tmp_path / "launch.sh"
    path.write_text(re.sub(r"\n    --(host|port|some) .*", "", script))
    done = subprocess.run(["/bin/sh", str(path)], capture_output=True, timeout=10)
    environ = dict(pair.split(b"=", 1) for pair in done.stdout.split(b"\0") if b"=" in pair)
    assert environ[b"WORDS"] == b"it's $HOME `here`", done.stderr
    assert environ[b"MORE"] == b"x y"


@pytest.mark.parametrize(
    ("files", "place", "what"),
    [
        ({"it_sh_j2": "#!/bin/sh\n{{ nope }}\n"}, "it.sh.j2:2", "'nope' is undefined"),
        (
            {"it_sh_j2": '{% extends "launch.sh.j2" %}\n{% block run %}\n{{ env.NOPE }}\n{% endblock %}'},
            *("it.sh.j2:3", "NOPE"),
        ),
        ({"it_sh_j2": '{% extends "launch.sh.j2" %}\n{% block run %}\n'}, "it.sh.j2:", "endblock"),
        (
            {"it_sh_j2": '{% extends "openai.sh.j2" %}', "openai_sh_j2": "a\nb\n{{ x.y }}"},
            *("openai.sh.j2:3", "'x' is undefined"),
        ),
        ({"it_sh_j2": "a\n{% include 'nope' %}"}, "it.sh.j2", "nope"),
        ({"it_sh_j2": "{{ env.__class__ }}"}, "it.sh.j2:1", "not for templates"),
        ({"it_sh_j2": "{{ ''.__class__.__mro__ }}"}, "it.sh.j2:1", "not for templates"),
        ({"it_sh_j2": "{{ self.__init__ }}"}, "it.sh.j2:1", ""),
        ({"it_sh_j2": "{% include '/etc/passwd' %}"}, "it.sh.j2", "passwd"),
        ({"it_sh_j2": "{% include '../it.yml' %}"}, "it.sh.j2", "it.yml"),
    ],
)
def test_a_mistake_is_told_with_the_templates_file_and_line(
    tmp_path: Path, files: dict[str, str], place: str, what: str
) -> None:
    with pytest.raises(BadTemplate, match=re.escape(what)) as caught:
        built(tmp_path, **files)
    assert place in caught.value.where


DOUBLING = "".join(
    f"{{% block b{n} %}}{{{{ self.b{n + 1}() }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}" for n in range(40)
)


@pytest.mark.parametrize(
    "files",
    [
        {"it_sh_j2": DOUBLING + "{% block b40 %}x{% endblock %}"},
        {"it_sh_j2": "{% block a %}{{ self.a() }}{% endblock %}"},
        {"it_sh_j2": "{% include 'o.j2' %}{% include 'o.j2' %}", "o_j2": "{% include 'it.sh.j2' %}"},
        {"it_sh_j2": "{% extends 'o.j2' %}", "o_j2": "{% extends 'it.sh.j2' %}"},
        {"it_sh_j2": "{% include 'o.j2' %}", "o_j2": "{% import 'it.sh.j2' as m %}"},
        {"it_sh_j2": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"},
        {"it_sh_j2": "{% for a in range(10**5) %}{% for b in range(10**5) %}x{% endfor %}{% endfor %}"},
    ],
    ids=["blocks double", "a block in itself", "includes", "extends", "imports", "macros", "loops"],
)
def test_a_template_without_end_is_ended(tmp_path: Path, files: dict[str, str]) -> None:
    begin = time.monotonic()
    with pytest.raises(BadTemplate):
        built(tmp_path, **files)
    assert time.monotonic() - begin < 20


def test_every_block_and_variable_of_stokers_template_is_documented() -> None:
    environment = jinja2.Environment()
    environment.filters |= dict.fromkeys(("comment", "shell", "words"), str)
    tree = environment.parse(SHIPPED.read_text())
    page = (ROOT / "docs" / "profile.md").read_text().partition("## Launch templates")[2]
    blocks = {block.name for block in tree.find_all(jinja2.nodes.Block)}
    assert blocks
    assert blocks | meta.find_undeclared_variables(tree) <= set(re.findall(r"`(\w+)`", page))
