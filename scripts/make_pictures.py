#!/usr/bin/env python3
"""Makes docs/pictures: screenshots of pages that `view` and `diff` write for the fixtures, and the packages as a graph.

scripts/make_pictures.py        needs the packages of the extra `dev`, and Chromium
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
MODEL, DECODER = (str(ROOT / "fixtures" / name) for name in ("classifier.pb", "decode_jpeg.pb"))
SIZE = {"width": 1380, "height": 640}


def main() -> None:
    """Writes `view.png`, `diff.png` and `packages.svg`."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        view, served, diff = (str(Path(folder) / name) for name in ("view.html", "served.pb", "diff.html"))
        packages = Path(folder) / "packages.pbtxt"
        packages.write_text(package_graph())
        gdsurgeon("view", str(packages), "-o", str(PICTURES / "packages.svg"))
        gdsurgeon("view", MODEL, "-o", view)
        gdsurgeon("add-preprocessing", MODEL, DECODER, "-o", served, "--validate", "structure")
        gdsurgeon("diff", MODEL, served, "-o", diff, accepted=(0, 1))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        take(page, view, "view.png", select="MobilenetV2/Conv/Conv2D")
        take(page, diff, "diff.png")
        browser.close()


def package_graph() -> str:
    """Returns the packages as a GraphDef in text format: the inputs of a package are the packages that it imports.

    An import that others imply is left out.
    """
    folders = sorted(path.parent for path in (ROOT / "gdsurgeon").glob("*/__init__.py"))
    uses = {folder.name: {*imports(folder)} - {folder.name} for folder in folders}
    uses = {name: used & uses.keys() for name, used in uses.items()}
    below: dict[str, set[str]] = {}
    while len(below) < len(uses):  # packages after those that they import
        for name in sorted(uses.keys() - below.keys()):
            if uses[name] <= below.keys():
                below[name] = uses[name].union(*(below[used] for used in uses[name]))
    out = []
    for name in below:
        inputs = sorted(used for used in uses[name] if not any(used in below[other] for other in uses[name]))
        reads = " ".join(f'input: "{each}"' for each in inputs)
        out.append(f'node {{ name: "{name}" op: "package" {reads} }}')
    return "\n".join(out)


def imports(folder: Path) -> Iterator[str]:
    """Yields the packages that the modules in a folder import."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gdsurgeon."):
                yield str(node.module).split(".")[1]


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
