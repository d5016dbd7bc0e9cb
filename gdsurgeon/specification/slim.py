"""slim: keeps the nodes that the signatures need, with new nodes that restore and save their variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.container.files import ASSETS
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.surroundings import Node, Surroundings
from gdsurgeon.specification.extract import cut_down
from gdsurgeon.specification.rows import Rows
from gdsurgeon.specification.savers import add_saver, expect_saver, file_serving, restored_variables
from gdsurgeon.specification.surroundings import Expected

_WITHOUT_STATE = frozenset(("Const", "NoOp"))


def violations(comparison: Comparison, signatures: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows = Rows(comparison.before)
    kept, _ = _kept(rows, signatures)
    intent, faults = cut_down(comparison, rows, kept, ())
    yield from faults
    saved = restored_variables(rows, kept)
    if saved:
        add_saver(comparison.before, saved, intent)
    yield from audit(comparison, intent)


def around(expected: Expected, found: Surroundings, signatures: Sequence[str] = ()) -> Iterator[str]:
    """Changes the expected surroundings; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    rows, values = Rows(expected.graph), expected.values
    serving = file_serving(expected.graph)
    kept, is_initialised = _kept(rows, signatures)
    keys = {place[1] for place in values if place[0] == "signature"}
    expected.drop(*(("signature", key) for key in keys - set(signatures or serving.called)))
    for name in {place[1] for place in values if place[0] == "file"}:  # TensorFlow 1 lists assets in a collection
        expected.move(("file", name), ("asset", name.removeprefix(f"{ASSETS}/"), "content"))
    expected.drop(("object",), ("function",), ("collection",), ("saver",), ("initialiser",))
    version = ("meta info", "tensorflow_version")
    expected.drop(*(place for place in values if place[0] == "meta info" and place != version))
    values["tags",] = values["tags",] or ("serve",)
    run = serving.initialising if is_initialised else None
    if run is not None:
        values["initialiser", MAIN_OP] = tuple(Node(name) for name in run.targets)
    feeds = run.feeds if run is not None else {}
    fed = {os.path.basename(path) for tensor, path in feeds.items() if rows.row(tensor) in kept}
    assets = {place[1] for place in values if place[0] == "asset"}
    expected.drop(*(("asset", name) for name in assets - fed))
    expected.free.update(("asset", name, "tensors") for name in fed)
    saved = restored_variables(rows, kept)
    stored = {item.key.tensor for item in saved}
    if not any(place[0] == "checkpoint" for place in values):  # the checkpoint of a MetaGraph is a different file
        expected.free.add(("checkpoint",))
    expected.drop(*(place for place in values if place[0] == "checkpoint" and place[1] not in stored))
    if saved:
        expect_saver(expected, found, saved)
    yield from ()


def _kept(rows: Rows, signatures: Sequence[str]) -> tuple[set[int], bool]:
    """Returns the rows that `signatures` need, and whether these include initializers of the model."""
    serving = file_serving(rows.graph)
    served = [serving.signatures[key] for key in signatures or serving.called]
    kept = rows.above({rows.row(tensor) for each in served for tensor in each.tensors})
    loading = rows.above(map(rows.row, serving.initialising.targets)) if serving.initialising is not None else set()
    is_initialised = any(rows.op(row) not in _WITHOUT_STATE for row in loading & kept)
    return kept | (loading if is_initialised else set()), is_initialised
