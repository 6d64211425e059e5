"""Values, expressions and scripts through Jinja2's one door."""

from __future__ import annotations

import threading
import time
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config.files.yamlfile import Secret, Vault
from stoker.config.templating.template import BadTemplate, check, evaluate, render, render_exact

VARIABLES: dict[str, Any] = {
    "models": "/srv/models",
    "kimi": "{{ models }}/Kimi-K2.5",
    "gpus": [0, 1, 2],
    "port": 30000,
    "site": {"rack": "r1", "items": [1, 2], "nested": {"path": "{{ models }}/x"}},
    "a": "{{ b }}",
    "b": "{{ c }}",
    "c": "{{ a }}",
    "broken": "{{ modles }}/x",
    "unclosed": "{{ models",
    "flag": False,
    "version": 1.1,
    "token": Secret("HF_TOKEN"),
    "vaulted": Vault("$ANSIBLE_VAULT;1.1;AES256"),
    "text": "x" * 1000,
}


def fails(value: Any, **variables: Any) -> BadTemplate:
    with pytest.raises(BadTemplate) as caught:
        render(value, {**VARIABLES, **variables}, where="p.yml:3")
    return caught.value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{{ kimi }}", "/srv/models/Kimi-K2.5"),
        ("{{ gpus }}", [0, 1, 2]),
        ("{{ port }}", 30000),
        ("{{ port + 1 }}", 30001),
        ("port {{ port }}", "port 30000"),
        ("{{ flag }}", False),
        ("{{ none }}", None),
        ("{{ gpus | map('string') | join(',') }}", "0,1,2"),
        ("{{ gpus | map('string') }}", ["0", "1", "2"]),
        ("{{ site.items }}", [1, 2]),
        ("{{ site.nested.path }}", "/srv/models/x"),
        ("{{ models.removeprefix('/srv') | upper }}", "/MODELS"),
        ("{% for g in gpus %}{{ loop.index }}{% endfor %}", "123"),
        ("{% if flag %}a{% else %}b{% endif %}", "b"),
        ("{{ broken | default('d') }}", "d"),
        ("{{ 'yes' | bool }}", True),
        ("{{ 2.5 | round }} {{ 1.25 | round(1, 'floor') }}", "2.0 1.2"),
        ("{{ site.nested | tojson }}", '{"path": "/srv/models/x"}'),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("a\n{{ port }}\n", "a\n30000\n"),
        ("plain } text", "plain } text"),
        (["{{ port }}", {"k": "{{ models }}"}], [30000, {"k": "/srv/models"}]),
        ({"{{ key }}": 1}, {"{{ key }}": 1}),
        (None, None),
        (7, 7),
    ],
)
def test_value_is_rendered(value: Any, expected: Any) -> None:
    got = render(value, VARIABLES, where="p.yml:3")
    assert (got, type(got)) == (expected, type(expected))


@given(st.text())
def test_text_without_template_stays_as_it_is(text: str) -> None:
    kept = text.replace("{", "(")
    assert render(kept, {}, where="") == render_exact(kept, {}, where="") == kept


@given(st.text(), st.text())
def test_inserted_text_arrives_character_by_character(value: str, around: str) -> None:
    outside = around.replace("{", "(").replace("\r", "")
    inserted = value.replace("{", "(")
    assert render_exact(f"{outside}{{{{ x }}}}", {"x": inserted}, where="") == outside + inserted


def test_undefined_name_is_told_with_the_nearest_one() -> None:
    error = fails("a\n{{ modles }}")
    assert (error.name, error.line, error.hint) == ("modles", 2, "did you mean 'models'?")
    assert str(error) == "p.yml:3: 'modles' is undefined (line 2 of the template)"


def test_undefined_key_is_told_with_the_nearest_one() -> None:
    assert fails("{{ site.rock }}").hint == "did you mean 'rack'?"


def test_undefined_inside_a_variable_names_that_variable() -> None:
    error = fails("{{ broken }}")
    assert (error.name, error.hint) == ("modles", "did you mean 'models'?")
    assert error.what == "variable 'broken': 'modles' is undefined"


def test_undefined_inside_a_list_of_an_expression_fails() -> None:
    assert fails("{{ [nope] }}").name == "nope"


def test_mistake_in_a_structure_is_told_with_its_path() -> None:
    assert fails({"args": ["ok", "{{ nope }}"]}).path == ("args", 1)


def test_variables_that_refer_to_each_other_are_found() -> None:
    assert "a → b → c → a" in fails("{{ a }}").what


def test_unused_broken_variable_does_no_harm() -> None:
    assert render("{{ models }}", VARIABLES, where="") == "/srv/models"


def test_syntax_error_in_a_variable_is_not_taken_for_undefined() -> None:
    assert "variable 'unclosed'" in fails("{{ unclosed | default('x') }}").what


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("{{ models | uper }}", "did you mean 'upper'?"),
        ("{{ models is strng }}", "did you mean 'string'?"),
    ],
)
def test_unknown_filter_or_test_is_told_with_the_nearest_one(value: str, hint: str) -> None:
    assert fails(value).hint == hint


@pytest.mark.parametrize(
    "value",
    [
        "{{ models",
        "{# never closed",
        "{{ 1 / 0 }}",
        "{{ models + 1 }}",
        "{% include 'x' %}",
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ models | attr('__class__') }}",
        "{{ site.update({'a': 1}) }}",
        "{{ range }}",
        "{{ models.upper }}",
        "{{ token }}",
        "key={{ vaulted }}",
        "a\rb{{ port }}",
        "{{ cycler('a') }}",
    ],
)
def test_what_is_no_value_fails_cleanly(value: str) -> None:
    assert fails(value).where == "p.yml:3"


@pytest.mark.parametrize(
    "value",
    [
        "{{ 'x' * 10**9 }}",
        "{{ [0] * 10**9 }}",
        "{{ range(10**9) }}",
        "{{ range(99999) | list + range(99999) | list + range(99999) | list }}",
        "{{ 9**9**9**9**9 }}",
        "{% set n = namespace(x=99) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
        "{% set n = namespace(x=text) %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x=text) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set a = [0] * 1000 %}{% set b = [a] * 1000 %}{% set c = [b] * 1000 %}{{ c }}",
        "{% set a = [0] * 1000 %}{% set b = [a] * 1000 %}{% set c = [b] * 1000 %}{{ c | tojson }}",
        "{{ ([text] * 100000) | join }}",
        "{{ (text * 4000) | replace('x', text) }}",
        "{{ text * 3000 }}{{ text * 3000 }}",
        "{% set n = namespace(x=text) %}{% for i in range(99) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}"
        "{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set n = namespace(x=text) %}{% for i in range(99) %}"
        "{% set n.x = m(n.x) %}{% endfor %}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a' | center(10**9) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ '{:>999999999}' | format(1) }}",
        "{{ 1.5 | round(10**9, 'ceil') }}",
        "{{ lipsum(n=10**9) }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ " + "1 + " * 5000 + "1 }}",
        "{{ '" + "x" * 200_000 + "' }}",
    ],
)
def test_runaway_template_fails_in_bounded_time(value: str) -> None:
    begin = time.monotonic()
    assert fails(value).what
    assert time.monotonic() - begin < 20


def test_variables_that_double_fail_in_bounded_time() -> None:
    doubling = {f"v{i}": f"{{{{ v{i + 1} }}}}{{{{ v{i + 1} }}}}" for i in range(40)}
    assert "longer" in fails("{{ v0 }}", **doubling, v40="x" * 10).what


def test_data_from_a_host_is_never_a_template() -> None:
    data = {"out": {"stdout": "{{ models }}"}}
    assert render("{{ out.stdout }}", VARIABLES, where="", data=data) == "{{ models }}"
    assert render("{{ models }}", VARIABLES, where="", data={"models": "{{ x }}"}) == "{{ x }}"


def test_expression_is_evaluated_without_braces() -> None:
    data = {"run": {"tok_s": 88.8, "values": []}}
    assert evaluate("run.tok_s > 80 and not flag", VARIABLES, where="", data=data) is True
    assert evaluate("run.values", VARIABLES, where="", data=data) == []
    with pytest.raises(BadTemplate, match="'rnu' is undefined"):
        evaluate("rnu.tok_s > 80", VARIABLES, where="book.yml:7", data=data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{{ port }}", "30000"), ("{{ models }}\n", "/srv/models\n"), ("{{ flag | string }}", "False")],
)
def test_exact_text(text: str, expected: str) -> None:
    assert render_exact(text, VARIABLES, where="") == expected


@pytest.mark.parametrize("name", ["flag", "version", "day"])
def test_exact_text_refuses_what_yaml_has_respelled(name: str) -> None:
    with pytest.raises(BadTemplate, match="quote it where it is defined"):
        render_exact(f"x{{{{ {name} }}}}", {**VARIABLES, "day": date(2024, 2, 3)}, where="p.yml:3")


@pytest.mark.parametrize("name", ["gpus", "site", "none", "token", "range(3)"])
def test_exact_text_refuses_what_is_no_text(name: str) -> None:
    with pytest.raises(BadTemplate, match="not text"):
        render_exact(f"x{{{{ {name} }}}}", VARIABLES, where="p.yml:3")


def test_templates_are_rendered_from_many_threads_at_once() -> None:
    results: list[str] = []
    names = [f"host{i}" for i in range(16)]

    def work(name: str) -> None:
        results.append(render("{% for i in range(500) %}{{ name }} {% endfor %}", {"name": name}, where=""))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({text.split()[0] for text in results}) == sorted(names)
    assert all(len(set(text.split())) == 1 for text in results)


@pytest.mark.parametrize("text", ["{{ nope }}", "{{ nope.x | upper }}", "plain"])
def test_check_reads_without_rendering(text: str) -> None:
    check(text, where="")


@pytest.mark.parametrize("text", ["{{ nope", "{{ x | uper }}", "{% if %}"])
def test_check_finds_what_is_no_template(text: str) -> None:
    with pytest.raises(BadTemplate):
        check(text, where="")
