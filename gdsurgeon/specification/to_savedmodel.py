"""to-savedmodel: some constants become variables, which are restored and saved; the rest of the graph is unchanged.

The surroundings contain the requested tensors, nodes and files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.surroundings import Node as NodeName
from gdsurgeon.container.surroundings import Surroundings, Tensor
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.specification.change_signatures import Labelled, add_tensor
from gdsurgeon.specification.savers import Saved, add_saver, expect_saver
from gdsurgeon.specification.surroundings import Expected


def violations(
    comparison: Comparison, unfreeze: str | None = None, init: Sequence[str] = (), **asked: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # see `around`
    yield from audit(comparison, _expected(comparison.before, unfreeze, init)[0])


def around(
    expected: Expected,
    found: Surroundings,
    inputs: Sequence[Labelled] = (),
    outputs: Sequence[Labelled] = (),
    *,
    init: Sequence[str] = (),
    assets: Sequence[Any] = (),
    unfreeze: str | None = None,
) -> Iterator[str]:
    """Changes the expected surroundings; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    values, free = expected.values, expected.free
    values["tags",] = ("serve",)
    free.add(("meta info", "tensorflow_version"))
    for side, items in (("input", inputs), ("output", outputs)):
        for item in items:
            add_tensor(expected, side, item)
        if not items:
            yield from _named_by_tensors(expected, found, side)
    _, saved, run_first = _expected(expected.graph, unfreeze, init)
    if run_first:
        values["initialiser", MAIN_OP] = (NodeName(run_first),)
    for asset in assets:
        name = os.path.basename(asset.path)
        node, _, index = asset.tensor.partition(":")
        place = ("asset", name, "tensors")
        values[place] = (*values.get(place, ()), {"name": Tensor(f"{node}:{index or 0}")})  # type: ignore[misc]
        free.add(("asset", name, "content"))
    if saved is not None:
        expect_saver(expected, found, saved, "save")
        free.add(("checkpoint",))


def _named_by_tensors(expected: Expected, found: Surroundings, side: str) -> Iterator[str]:
    """Yields a line if the default signature, without requested names, does not use the names of the tensors."""
    for place, value in found.items():
        if place[0] == "signature" and place[2] == side:
            if place[-1] == "tensor":
                node, _, index = str(value).partition(":")
                if place[1] != "serving_default" or place[3] != (node if index == "0" else value):
                    yield f"the signature {place[1]!r} should name {str(value)!r}"
            expected.free.add(place)
    expected.values.setdefault(("signature", "serving_default", "method"), "tensorflow/serving/predict")


def _expected(before: Graph, unfreeze: str | None, init: Sequence[str]) -> tuple[Intent, list[Saved] | None, str]:
    """Returns the expected changes of the graph, the saved variables, and the node that a loader runs."""
    intent, saved = Intent(), None
    if unfreeze is not None:
        saved = [_unfrozen(intent, before, node) for node in before.nodes() if _is_weight(node, unfreeze)]
        add_saver(before, saved, intent, "save")
    nodes = [name.partition(":")[0] for name in init]
    if len(nodes) < 2:
        return intent, saved, nodes[0] if nodes else ""
    group = UniqueNames(lambda name: name in before or name in intent.added)("init")
    intent.add(group, "NoOp", (), nodes)
    return intent, saved, group


def _is_weight(node: Node, pattern: str) -> bool:
    return node.op == "Const" and re.search(pattern, node.name) is not None and node.output.dtype in FLOATING


def _unfrozen(intent: Intent, before: Graph, node: Node) -> Saved:
    """Declares that a constant is read from a variable; returns the variable."""
    name = UniqueNames(lambda name: name in before or name in intent.added)(f"{node.name}/handle")
    header = constant_header(node)
    dims = header.dims if header is not None else None
    attrs = {"dtype": type_value(node.output.dtype), "shape": shape_value(dims)}
    attrs["shared_name"] = bytes_value(node.name.encode())
    intent.add(name, "VarHandleOp", device=node.device, attrs=attrs)
    kept = tuple(sorted(set(node.attr_keys) - {"value"}))
    intent.alter(node.name, {"op": "ReadVariableOp", "inputs": (name,), "attrs": kept, "attr value": None})
    return Saved(name, node.name, Key(node.name))
