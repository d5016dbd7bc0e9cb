"""Published checkpoints: each is read, and every checksum in it is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.bundles import values
from support.desk import Desk
from support.published import FOLDER, needs_models

from gdsurgeon.container.checkpoint.bundle import Bundle
from gdsurgeon.container.checkpoint.edit import as_it_is, edit, relinked
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.table import Table
from gdsurgeon.container.checkpoint.verify import verify
from gdsurgeon.wire.source import BytesSource

pytestmark = needs_models
COMPRESSED = ("serving_half_plus_two_sm", "serving_half_plus_two_tf2_sm")
"""Those whose index is in Snappy."""
INDICES = sorted(FOLDER.rglob("*.index"))


@pytest.mark.parametrize("path", INDICES, ids=lambda path: path.relative_to(FOLDER).parts[0])
def test_published_checkpoints(desk: Desk, path: Path) -> None:
    with open_checkpoint(str(path)) as checkpoint:
        assert isinstance(checkpoint, Bundle)
        found = verify(checkpoint)
        assert (found.faults, found.unused) == ((), 0)
        files = relinked(checkpoint, edit(checkpoint, {}, [], {}))
        assert files.shards == as_it_is(checkpoint).shards
        assert list(Table(BytesSource(files.table)).records()) == list(checkpoint.table.records())
        if path.relative_to(FOLDER).parts[0] not in COMPRESSED:
            assert files.table == as_it_is(checkpoint).table
        held = values(checkpoint)
    first = checkpoint.keys[-1]
    ran = desk.run("checkpoint", str(path), "--drop", f"^{first}$", "-o", "n")
    assert ran.code == 0, ran.err
    with open_checkpoint("n") as written:
        left = values(written)
    for key in left:
        assert key.startswith("_") or left[key] == held[key]
    assert {*held} - {*left} == {first}


def test_there_are_some() -> None:
    assert len(INDICES) >= 4
