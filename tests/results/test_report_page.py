"""The page lets no text of anybody be more than text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser

import pytest

from stoker.config.page import visible
from stoker.results.report.build import build
from stoker.results.report.gather import gather
from stoker.results.report.page import render
from tests.results import hostile

NOW = 1780000000.0


class Elements(HTMLParser):
    """What a browser makes of a page, as far as elements and their attributes go."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.scripts: list[tuple[Mapping[str, str | None], str]] = []
        self.styles: list[str] = []
        self.policy = self.title = ""
        self.elements: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self._in = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.elements.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        given = dict(attrs)
        if tag == "script":
            self.scripts.append((given, ""))
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._in == "style":
            self.styles.append(data)
        elif self._in == "title":
            self.title += data


ELEMENTS = set(
    re.findall(
        r"\w+",
        "html head meta title style body header h1 h2 h3 p nav a label select option main section article"
        " figure figcaption div details summary table thead tbody tr th td script",
    )
)
ATTRIBUTES = set(
    re.findall(
        r"[\w-]+", "lang charset http-equiv content name id class value href for data-host data-plot type"
    )
)


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    store, baselines = hostile.lay(folder)
    material = gather(store, baselines, store.list())
    return render(build(material, project=hostile.NAMES[0], now=NOW))


def test_no_name_becomes_an_element_or_an_attribute(hostile_page: str) -> None:
    found = Elements(hostile_page)
    assert found.elements <= ELEMENTS
    assert {name for name, _ in found.attributes} <= ATTRIBUTES
    assert all(value.startswith("#") for name, value in found.attributes if name == "href")
    classes = {value for name, value in found.attributes if name == "class"}
    assert all(re.fullmatch(r"[a-z0-9 -]*", value) for value in classes)
    assert found.title == f"Stoker report: {hostile.NAMES[0]}"


def test_only_scripts_and_styles_of_ours_are_named_by_their_hash(hostile_page: str) -> None:
    found = Elements(hostile_page)
    data, *run = found.scripts
    assert data[0]["type"] == "application/json"
    assert len(run) == 2
    hashes = {digest(text) for _, text in run}
    rules = dict(rule.strip().split(" ", 1) for rule in found.policy.split(";"))
    assert set(rules["script-src"].split()) == hashes
    assert set(rules["style-src"].split()) == {digest(found.styles[0]), digest("")}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in found.policy
    assert "http" not in found.policy


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_data_of_the_plots_stay_data(hostile_page: str) -> None:
    text = Elements(hostile_page).scripts[0][1]
    assert text.isascii()
    assert not set("<>&") & set(text)
    figures = json.loads(text)
    labels = [trace["name"] for figure in figures for trace in figure["data"] if "name" in trace]
    assert any("&lt;/script&gt;" in label for label in labels)
    assert not any(sign in label for label in labels for sign in "<>\x1b\u202e")


def test_what_hides_or_reorders_text_is_a_visible_sign(hostile_page: str) -> None:
    body = hostile_page.split("<body>")[1].split('<script type="application/json"')[0]
    assert not set(body) & set("\x1b\x07\u2028\u202e\ud800")
    assert "line�break�back" in body
    assert visible("a\ud800b\nc\u200bd") == "a�b�c�d"
    assert "{{ 7 * 7 }} {% raw %} &amp;lt;b&amp;gt;" in body


def test_figures_that_no_server_reaches_are_short(hostile_page: str) -> None:
    assert "1e+149 tok/s" in hostile_page
    assert "0" * 100 not in hostile_page.split("<body>")[1].split('<script type="application/json"')[0]
