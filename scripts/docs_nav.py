"""A hook of mkdocs: pages under docs/commands and docs/recipes enter the menu by being there."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Adds to each section of the menu that begins with an index the other pages of its folder, by name."""
    docs = Path(config["docs_dir"])
    for section in config["nav"]:
        for pages in section.values():
            if isinstance(pages, list) and pages[0].endswith("/index.md"):
                folder = (docs / pages[0]).parent
                others = {str(path.relative_to(docs)) for path in folder.glob("*.md")} - set(pages)
                pages.extend(sorted(others))
    return config
