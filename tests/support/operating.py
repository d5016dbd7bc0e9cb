"""Short ways to operate on small graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.operation.edit import Outcome, Request, operate
from gdsurgeon.operation.sequence import Edit
from gdsurgeon.proof.settings import Settings
from support.graphs import Builder


def operated(
    folder: Path,
    model: Builder | bytes,
    edit: Edit,
    *,
    overrides: Overrides | None = None,
    level: str = "run",
    dry_run: bool = False,
    **settings: Any,
) -> Outcome:
    """Operates on MODEL, written to FOLDER; the output is ``out.pb`` there."""
    path = folder / "model.pb"
    path.write_bytes(model if isinstance(model, bytes) else model.bytes())
    request = Request(
        str(path),
        out=str(folder / "out.pb"),
        level=level,
        dry_run=dry_run,
        settings=Settings(**settings),
        overrides=overrides or Overrides(),
    )
    return operate(request, edit)


def refused(folder: Path, model: Builder | bytes, edit: Edit, **options: Any) -> GdsurgeonError:
    """The error of `operated`, with which nothing but the input may be left in FOLDER."""
    others = sorted(p.name for p in folder.iterdir() if p.name != "model.pb")
    with pytest.raises(GdsurgeonError) as caught:
        operated(folder, model, edit, **options)
    assert sorted(p.name for p in folder.iterdir() if p.name != "model.pb") == others
    assert (folder / "model.pb").read_bytes() == (model if isinstance(model, bytes) else model.bytes())
    return caught.value
