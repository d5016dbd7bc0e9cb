"""slim: what the signatures need is there as it was, with nodes that restore and save variables; all else is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.container.files import ASSETS
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.surroundings import Node, Surroundings
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Serving
from gdsurgeon.specification.extract import above, cut_down
from gdsurgeon.specification.savers import each_once, expect_saver, say_saver
from gdsurgeon.specification.surroundings import Expected

_ALIKE = frozenset(("Const", "NoOp"))
"""Ops of nodes by which two parts of a graph do not belong together."""


def violations(comparison: Comparison, signatures: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before = comparison.before
    serving, kept, _ = _kept(before, signatures)
    intent, faults = cut_down(comparison, kept, ())
    yield from faults
    saved = each_once(before, serving, kept)
    if saved:
        say_saver(before, saved, intent)
    yield from audit(comparison, intent)


def around(expected: Expected, found: Surroundings, signatures: Sequence[str] = ()) -> Iterator[str]:
    """Has EXPECTED be what was asked for; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    before, values = expected.graph, expected.values
    serving, kept, is_initialised = _kept(before, signatures)
    keys = {place[1] for place in values if place[0] == "signature"}
    meant = set(signatures or serving.called)
    expected.drop(*(("signature", key) for key in keys - meant))
    for name in {place[1] for place in values if place[0] == "file"}:  # TensorFlow 1 lists assets in a collection
        expected.move(("file", name), ("asset", name.removeprefix(f"{ASSETS}/"), "content"))
    expected.drop(("object",), ("function",), ("collection",), ("saver",), ("initialiser",))
    version = ("meta info", "tensorflow_version")
    expected.drop(*(place for place in values if place[0] == "meta info" and place != version))
    values["tags",] = values["tags",] or ("serve",)
    run = serving.initialising
    if run is not None and is_initialised:
        values["initialiser", MAIN_OP] = tuple(Node(name) for name in run.targets)
    rows = before.store.table.rows
    fed = {os.path.basename(path) for tensor, path in (run.feeds if run is not None and is_initialised else {}).items()
           if rows[tensor.partition(":")[0]] in kept}  # fmt: skip
    assets = {place[1] for place in values if place[0] == "asset"}
    expected.drop(*(("asset", name) for name in assets - fed))
    expected.free.update(("asset", name, "tensors") for name in fed)
    saved = each_once(before, serving, kept)
    wanted = {item.key.tensor for item in saved}
    if not any(place[0] == "checkpoint" for place in values):  # a MetaGraph's is not part of its file
        expected.free.add(("checkpoint",))
    expected.drop(*(place for place in values if place[0] == "checkpoint" and place[1] not in wanted))
    if saved:
        expect_saver(expected, found, saved)
    yield from ()


def _kept(before: Graph, signatures: Sequence[str]) -> tuple[Serving, set[int], bool]:
    """How BEFORE is served, the rows that SIGNATURES need, and whether what initialises the model is among them."""
    serving = before.serving or Serving()
    serving = serving.before or serving
    table = before.store.table
    meant = [serving.signatures[key] for key in signatures or serving.called]
    tensors = chain.from_iterable(served.tensors for served in meant)
    kept = above(table, {table.rows[tensor.partition(":")[0]] for tensor in tensors})
    is_initialised = False
    if serving.initialising is not None:
        loading = above(table, {table.rows[name] for name in serving.initialising.targets})
        is_initialised = any(table.op(row) not in _ALIKE for row in loading & kept)
        if is_initialised:
            kept |= loading
    return serving, kept, is_initialised
