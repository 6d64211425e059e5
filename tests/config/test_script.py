"""Scripts rendered with every expression quoted."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config.templating.script import render
from stoker.config.templating.template import BadTemplate


def script(tmp_path: Path, text: str, **context: Any) -> str:
    (tmp_path / "launch.sh.j2").write_text(text)
    return render(["own.sh.j2", "launch.sh.j2"], [tmp_path], context)


@pytest.mark.parametrize("shell", ["dash", "bash"])
@given(word=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_script_quotes_every_expression(
    tmp_path_factory: pytest.TempPathFactory, shell: str, word: str
) -> None:
    folder = tmp_path_factory.mktemp("t")
    text = script(folder, "printf '%s|' {{ x }} {{ x | quote }} {{ [x, x] }}", x=word)
    run = subprocess.run([shell], input=text.encode(), capture_output=True, check=True)
    assert run.stdout == (word + "|").encode() * 4


def test_script_passes_shell_only_where_asked(tmp_path: Path) -> None:
    assert script(tmp_path, "{{ x | shell }}; {{ x }}\n", x="a b") == "a b; 'a b'\n"


def test_script_comment_cannot_be_left(tmp_path: Path) -> None:
    assert script(tmp_path, "{{ x | comment }}", x="a\nrm -rf /\r\x1b[1m") == "# a\n# rm -rf /\n#  [1m"


def test_script_breaks_a_command_at_its_options(tmp_path: Path) -> None:
    assert (
        script(tmp_path, "{{ x | words }}", x=["a b", "-m", "--n", "1"]) == "'a b' \\\n    -m \\\n    --n 1"
    )


def test_script_may_use_macros_and_includes(tmp_path: Path) -> None:
    (tmp_path / "part").write_text("echo {{ x }}\n")
    text = "{% macro m(y) %}{{ y }}{% endmacro %}{{ m(x) | shell }}\n{% include 'part' %}"
    assert script(tmp_path, text, x="a b") == "'a b'\necho 'a b'\n"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a\n{{ nope }}\n", 2, "'nope' is undefined"),
        ("a\nb\n{% if %}", 3, "xpected"),
        ("{{ d }}", 1, "mapping"),
    ],
)
def test_script_mistake_is_told_with_file_and_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    with pytest.raises(BadTemplate, match=what) as caught:
        script(tmp_path, text, d={"a": 1})
    assert caught.value.where == f"{tmp_path}/launch.sh.j2:{line}"
