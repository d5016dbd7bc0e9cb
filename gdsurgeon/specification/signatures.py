"""signature and to-savedmodel: the signatures of a model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.surroundings import Node as NodeName
from gdsurgeon.container.surroundings import Place, Surroundings, Tensor
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import PREDICT, Key
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.specification.surroundings import Expected, Saved, add_saver, expect_saver

# -- signature -------------------------------------------------------------------------------------------


SIDES = ("input", "output", "default")


class Labelled(Protocol):
    """A tensor, its label and the key of its signature."""

    @property
    def name(self) -> str: ...
    @property
    def tensor(self) -> str: ...
    @property
    def key(self) -> str: ...


def change_signatures(comparison: Comparison, **asked: object) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # see `around`
    yield from audit(comparison, Intent())


def around_change_signatures(
    expected: Expected,
    found: Surroundings,
    *,
    renamed: Sequence[tuple[str, str]] = (),
    removed: Sequence[str] = (),
    inputs: Sequence[Labelled] = (),
    outputs: Sequence[Labelled] = (),
) -> None:
    """Changes the expected signatures; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    del found
    for item in removed:
        expected.drop(*_places(expected, item))
    for old, new in renamed:
        for place in _places(expected, old):
            expected.move(place, (*place[:-1], new))
    for side, tensors in zip(SIDES, (inputs, outputs), strict=False):
        for tensor in tensors:
            add_tensor(expected, side, tensor)


def add_tensor(expected: Expected, side: str, item: Labelled) -> None:
    """Adds an input or output of a signature, with the dtype and shape that it has in the graph."""
    expected.values.setdefault(("signature", item.key, "method"), PREDICT)
    node, _, index = item.tensor.partition(":")
    expect_tensor(expected, ("signature", item.key, side, item.name), node, index)
    expected.free.add(("signature", item.key, "default", item.name))


def expect_tensor(expected: Expected, place: Place, node: str, index: str) -> None:
    """Adds a tensor at `place`, with the dtype and shape that it has in the graph."""
    named = (*place, "tensor")
    expected.values[named] = Tensor(f"{node}:{index or 0}")
    expected.free.update(((*place, "dtype"), (*place, "shape")))


def _places(expected: Expected, item: str) -> list[Place]:
    """Returns the places of `item`, a key or ``KEY/name``."""
    if ("signature", item, "method") in expected.values:
        return [("signature", item)]
    key, _, name = item.partition("/")
    places: list[Place] = [("signature", key, side, name) for side in SIDES]
    return [place for place in places if any(found[:4] == place for found in expected.values)]


# -- to-savedmodel ---------------------------------------------------------------------------------------


def to_savedmodel(
    comparison: Comparison, unfreeze: str | None = None, init: Sequence[str] = (), **asked: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del asked  # see `around`
    yield from audit(comparison, _expected(comparison.before, unfreeze, init)[0])


def around_to_savedmodel(
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
    expected.values.setdefault(("signature", "serving_default", "method"), PREDICT)


def _expected(before: Graph, unfreeze: str | None, init: Sequence[str]) -> tuple[Intent, list[Saved] | None, str]:
    """Returns the expected changes of the graph, the saved variables, and the node that a loader runs."""
    intent, saved = Intent(), None
    if unfreeze is not None:
        weights = [n for n in before.nodes() if n.op == "Const" and n.output.dtype in FLOATING]
        saved = [_unfrozen(intent, before, node) for node in weights if re.search(unfreeze, node.name)]
        add_saver(before, saved, intent, "save")
    nodes = [name.partition(":")[0] for name in init]
    if len(nodes) < 2:
        return intent, saved, nodes[0] if nodes else ""
    group = UniqueNames(lambda name: name in before or name in intent.added)("init")
    intent.add(group, "NoOp", (), nodes)
    return intent, saved, group


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
