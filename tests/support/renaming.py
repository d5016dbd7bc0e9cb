"""The edit that tests of files run: y becomes q."""

from __future__ import annotations

import os

from gdsurgeon.edits.rename import rename
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.write import read_chunks

QUICK = ("--validate", "structure")


RENAME = ("rename", "model.pb", "y=q", *QUICK)


TO_OUT = (*RENAME, "-o", "out.pb")


EARLIER = b"an earlier output"


as_root = os.geteuid() == 0


def renamed(model: bytes, **names: str) -> bytes:
    """What renaming must give; y becomes q unless NAMES say otherwise."""
    graph = from_bytes(model)
    rename(graph, list((names or {"y": "q"}).items()))
    return read_chunks(graph.chunks())


RULE = "letters, digits"


RENAME_TWO = ("rename", "model.pb", "y=q", "v=r", *QUICK)
