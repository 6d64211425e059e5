"""In a real browser: the plots are drawn, and nothing that a host or a profile wrote runs."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.results.report.build import build
from stoker.results.report.gather import gather
from stoker.results.report.page import render
from tests.results import hostile

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
needs_chromium = pytest.mark.skipif(
    not CHROMIUM, reason="no Chromium here: apt-get install chromium runs this test"
)


class Opened:
    """A page as the browser has it once its scripts have run.

    Args:
        page: The file.
        profile: A folder for the browser's own files.
    """

    def __init__(self, page: Path, profile: Path) -> None:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        argv = [CHROMIUM, "--headless", *sandbox, "--disable-gpu", f"--user-data-dir={profile}"]
        argv += ["--enable-logging=stderr", "--window-size=1400,1000", "--virtual-time-budget=20000"]
        done = subprocess.run(
            [*argv, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=150
        )
        self.dom = re.sub(r"<(script|style)\b.*?</\1>", "", done.stdout, flags=re.S)
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    @property
    def root(self) -> str:
        """The document's first tag, with its attributes."""
        found = re.search(r"<html[^>]*>", self.dom)
        assert found, self.dom[:200]
        return found.group()

    @property
    def title(self) -> str:
        found = re.search(r"<title>(.*?)</title>", self.dom, re.S)
        assert found
        return html.unescape(found.group(1))


@needs_chromium
def test_the_browser_runs_what_is_not_escaped(tmp_path: Path) -> None:
    """That the next test can fail."""
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><title>mine</title>{hostile.NAMES[1]}")
    opened = Opened(page, tmp_path / "chromium")
    assert opened.title == "owned"
    assert 'data-owned="1"' in opened.root


@needs_chromium
def test_plots_are_drawn_and_no_name_runs(tmp_path: Path) -> None:
    store, baselines = hostile.lay(tmp_path)
    report = build(gather(store, baselines, store.list()), project=hostile.NAMES[0], now=1780000000.0)
    page = tmp_path / "report.html"
    page.write_text(render(report), encoding="utf-8")
    opened = Opened(page, tmp_path / "chromium")
    assert opened.title == f"Stoker report: {hostile.NAMES[0]}"
    assert 'class="scripted"' in opened.root
    assert "data-owned" not in opened.root
    plots = sum(len(part.plots) for section in report.sections for part in section.parts)
    assert plots == len(hostile.NAMES) + 1
    drawn = opened.dom.count('class="main-svg"')
    assert drawn >= plots
    assert "Plots need scripts" not in opened.dom
    links = re.findall(r'<a [^>]*?href="([^"]*)"', opened.dom)
    assert links
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"<(img|iframe|object|embed)\b", opened.dom)
    # The policy stops the style sheet of plotly.js's maps, which are not used, and nothing else.
    assert [line for line in opened.console if "maplibre" not in line and "inline style" not in line] == []
    assert len(opened.console) <= 1
