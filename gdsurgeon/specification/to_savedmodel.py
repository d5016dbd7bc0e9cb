"""to-savedmodel: the graph stays as it is, but for constants that are variables now, which are restored and saved.

The surroundings name the tensors, nodes and files that were asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Intent, made
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
from gdsurgeon.specification.savers import Saved, expect_saver, say_saver
from gdsurgeon.specification.surroundings import Expected


def violations(
    comparison: Comparison, unfreeze: str | None = None, init: Sequence[str] = (), **asked: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # see `around`
    yield from audit(comparison, _made(comparison.before, unfreeze, init)[0])


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
    """Has EXPECTED be what was asked for; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    values, free = expected.values, expected.free
    values["tags",] = ("serve",)
    free.add(("meta info", "tensorflow_version"))
    for side, items in (("input", inputs), ("output", outputs)):
        for item in items:
            add_tensor(expected, side, item)
        if not items:
            yield from _named_alike(expected, found, side)
    _, saved, run_first = _made(expected.graph, unfreeze, init)
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


def _named_alike(expected: Expected, found: Surroundings, side: str) -> Iterator[str]:
    """Without names, the default signature has tensors by their own names."""
    for place, value in found.items():
        if place[0] == "signature" and place[2] == side:
            if place[-1] == "tensor":
                node, _, index = str(value).partition(":")
                if place[1] != "serving_default" or place[3] != (node if index == "0" else value):
                    yield f"the signature {place[1]!r} should name {str(value)!r}"
            expected.free.add(place)
    expected.values.setdefault(("signature", "serving_default", "method"), "tensorflow/serving/predict")


def _made(before: Graph, unfreeze: str | None, init: Sequence[str]) -> tuple[Intent, list[Saved] | None, str]:
    """What is to be different about the graph, the variables that are saved, and the node that a loader runs."""
    intent, saved = Intent(), None
    if unfreeze is not None:
        saved = _unfrozen(intent, before, unfreeze)
        say_saver(before, saved, intent, "save")
    nodes = [name.partition(":")[0] for name in init]
    if len(nodes) < 2:
        return intent, saved, nodes[0] if nodes else ""
    group = UniqueNames(lambda name: name in before or name in intent.added)("init")
    intent.added.append(group)
    intent.altered += made(group, "NoOp", (), nodes)
    return intent, saved, group


def _unfrozen(intent: Intent, before: Graph, unfreeze: str) -> list[Saved]:
    """The variables that constants of BEFORE become, which INTENT is to say."""
    nodes = [node for node in before.nodes() if node.op == "Const" and re.search(unfreeze, node.name)]
    constants = [node for node in nodes if node.output.dtype in FLOATING]
    handles = _variables(intent, before, constants)
    return [Saved(handle, node.name, Key(node.name)) for node, handle in zip(constants, handles, strict=True)]


def _variables(intent: Intent, before: Graph, constants: list[Node]) -> list[str]:
    """Has INTENT say that each of CONSTANTS is read from a variable; returns the names of the handles."""
    handles: list[str] = []
    unique = UniqueNames(lambda name: name in before)
    for node in constants:
        handles.append(name := unique(f"{node.name}/handle"))
        header = constant_header(node)
        dims = header.dims if header is not None else None
        attrs = {"dtype": type_value(node.output.dtype), "shape": shape_value(dims),
                 "shared_name": bytes_value(node.name.encode())}  # fmt: skip
        own = {key: value.SerializeToString() for key, value in attrs.items()}
        intent.added.append(name)
        intent.altered += made(name, "VarHandleOp", device=node.device, attrs=own)
        intent.changed.append(node.name)
        kept = tuple(sorted(set(node.attr_keys) - {"value"}))
        intent.altered += [
            Altered(node.name, "op", "ReadVariableOp"),
            Altered(node.name, "inputs", (name,)),
            Altered(node.name, "attrs", kept),
            Altered(node.name, "attr value", None),
        ]
    return handles
