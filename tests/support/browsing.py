"""Pages in a real browser: their content, actions of a user, and errors in the background."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gdsurgeon.view.content import content_of
from gdsurgeon.view.outline import Outlines
from support import graphs

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


def outlines(*records: bytes, trailer: bytes = graphs.VERSIONS, title: str = "model.pb") -> Outlines:
    """Returns the outlines of a graph."""
    found = graphs.graph(*records, trailer=trailer)
    return Outlines(found, content_of(found, title))


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium; without it or without playwright, the test is skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium here")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


class Shown:
    """A page that is open in a browser; boxes are called by the names of their nodes and scopes.

    Attributes:
        page: playwright's.
        troubles: errors, warnings, dialogs, and requests for anything but the page.
    """

    def __init__(self, page: Any, file: Path) -> None:
        self.page = page
        self.troubles: list[str] = []
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.troubles.append(message.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", lambda request: self._requested(request.url))
        page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
        self.url = file.as_uri()
        page.goto(self.url)
        page.wait_for_selector("html[data-state=ready]")

    def _requested(self, url: str) -> None:
        if url != self.url and not url.startswith(("data:", "blob:")):
            self.troubles.append(f"asked for {url}")

    def box(self, name: str) -> Any:
        """The elements of the picture with this NAME; several if a function is called more than once."""
        return self.page.locator(f'g.box[data-name="{name}"]')

    def names(self, within: str = "#world") -> list[str]:
        """The visible names, in the order of the picture."""
        found: list[str] = self.page.eval_on_selector_all(
            f"{within} g.box", "boxes => boxes.map(box => box.dataset.name)"
        )
        return found

    def click(self, name: str) -> None:
        """Clicks on the box called NAME: on its title, if it is open."""
        self.box(name).first.locator("> .frame text").first.click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def selected(self) -> str | None:
        """The name of the box that is selected."""
        found = self.page.locator("g.box.selected")
        return found.get_attribute("data-name") if found.count() else None

    def texts(self, name: str) -> list[str]:
        """The lines in the frame of a box."""
        found: list[str] = self.box(name).first.locator("> .frame text").all_text_contents()
        return found

    def classes(self, name: str) -> set[str]:
        return set((self.box(name).first.get_attribute("class") or "").split())

    def pane(self) -> str:
        """The text of the pane."""
        return re.sub(r"\n+", "\n", self.page.locator("#pane").inner_text())

    def matches(self) -> list[str]:
        """The results of the search."""
        found: list[str] = self.page.locator("#matches .match > span:first-child").all_text_contents()
        return found

    def export(self) -> str:
        """The file that is saved."""
        with self.page.expect_download() as download:
            self.press("e")
        return Path(download.value.path()).read_text(encoding="utf-8")
