#!/usr/bin/env python3
"""Makes docs/pictures: screenshots, in a headless Chromium, of pages that `view` and `diff` write for the fixtures.

scripts/make_pictures.py        needs the packages of the extra `dev`, and Chromium
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
MODEL, DECODER = (str(ROOT / "fixtures" / name) for name in ("classifier.pb", "decode_jpeg.pb"))
SIZE = {"width": 1380, "height": 640}


def main() -> None:
    """Writes `view.png` and `diff.png`."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        view, served, diff = (str(Path(folder) / name) for name in ("view.html", "served.pb", "diff.html"))
        gdsurgeon("view", MODEL, "-o", view)
        gdsurgeon("add-preprocessing", MODEL, DECODER, "-o", served, "--validate", "structure")
        gdsurgeon("diff", MODEL, served, "-o", diff, accepted=(0, 1))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        take(page, view, "view.png", select="MobilenetV2/Conv/Conv2D")
        take(page, diff, "diff.png")
        browser.close()


def gdsurgeon(*arguments: str, accepted: tuple[int, ...] = (0,)) -> None:
    """Runs the command line with ARGUMENTS. Raises RuntimeError: its exit code is not one of ACCEPTED."""
    done = subprocess.run([sys.executable, "-m", "gdsurgeon", *arguments, "-q"], cwd=ROOT, check=False)
    if done.returncode not in accepted:
        raise RuntimeError(f"exit code {done.returncode}: gdsurgeon {' '.join(arguments)}")


def take(page: Page, file: str, name: str, select: str = "") -> None:
    """Saves a screenshot of the page in FILE as NAME, after a click on the node SELECT."""
    page.goto(Path(file).as_uri())
    page.wait_for_selector("html[data-state=ready]")
    if select:
        page.locator(f'g.box[data-name="{select}"] > .frame text').first.click()
    page.wait_for_timeout(1000)  # animations end
    page.screenshot(path=PICTURES / name)


if __name__ == "__main__":
    main()
