"""The pages as a whole: the site has all options, links lead somewhere, README is short."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.browsing import browser
from support.paths import ROOT
from test_layers import ROOMS

from gdsurgeon.cli.main import main as program
from gdsurgeon.registry import COMMANDS
from gdsurgeon.steps.catalog import catalog


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_menu_has_every_page(site: Path) -> None:
    menu = (site / "index.html").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        path = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / path).exists()
        assert f'href="{path}"' in menu or page.name == "index.md", f"{path} is in no menu"


def test_the_site_has_every_command_option_and_step(site: Path) -> None:
    index = (site / "commands" / "index.html").read_text()
    group = program.make_context("gdsurgeon", ["help"])
    for name in COMMANDS:
        assert f'href="{name}.html"><code>{name}</code>' in index
        page = (site / "commands" / f"{name}.html").read_text()
        command = program.get_command(group, name)
        assert command is not None
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        names = [option.opts[0] for option in options] + ([] if name != "steps" else list(catalog()))
        assert [option for option in names if option not in page] == [], name


def test_a_dead_link_keeps_the_site_from_building(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Home\n\n[gone](gone.md)\n")
    settings = re.sub(r"^(hooks|nav):\n(?: .*\n)+", "", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    (tmp_path / "mkdocs.yml").write_text(settings)
    done = run("-m", "mkdocs", "build", "--strict", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode != 0
    assert "gone.md" in done.stdout + done.stderr


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]*)"', page.read_text())
        assert loaded == []


@pytest.mark.browser
@pytest.mark.slow
def test_no_page_scrolls_sideways_and_tables_fit_a_screen(site: Path) -> None:
    script = """() => [document.documentElement.scrollWidth - document.documentElement.clientWidth,
        ...[...document.querySelectorAll(".md-typeset__scrollwrap")].map(e => e.scrollWidth - e.clientWidth)]"""
    with browser() as chromium:
        page = chromium.new_page()
        for file in sorted(site.rglob("*.html")):
            page.goto(file.as_uri())
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 800})
                beyond, *beyond_of_tables = page.evaluate(script)
                assert beyond <= 0, f"{file.name} at {width} pixels"
                assert width < 1280 or max(beyond_of_tables, default=0) <= 1, f"a table of {file.name}"


def test_readme_is_short_and_names_files_that_exist() -> None:
    """Its links are absolute: a package index shows README without the repository. Pictures are the exception."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert sum((ROOT / picture).stat().st_size for picture in pictures) < 600_000
    assert [link for link in re.findall(r"(?<!!)\[[^]]+\]\(([^)]+)", text) if not link.startswith("https://")] == []
    paths = re.findall(r"`((?:docs|scripts)/[^` ]*)`", text)
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []


def test_architecture_names_the_rooms() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", text[text.index("## Packages") : text.index("## What")], re.MULTILINE)
    assert [name.strip("`/") for row in rows for name in row.split(", ")] == list(ROOMS)
