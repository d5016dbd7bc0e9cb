"""The parts of a model outside its graph: variables and the sources of their values, assets, collections."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.checkpoint.open import open_checkpoint
from gdsurgeon.checkpoint.stored import Checkpoint
from gdsurgeon.container.container import Container
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import Shape, shape_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import INIT, Key, Served, Serving
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import TEMPORARY, is_variable

BY_NODES, BY_OBJECTS, INITIALISED, BY_NOTHING = "restored", "restored by objects", "initialised", "not restored"
"""How a variable gets its value."""


class ShippedVariable(NamedTuple):
    """A variable.

    Attributes:
        name: of its node.
        dtype, shape: as the node states them, or the checkpoint; None where neither knows the shape.
        key: the key of its value in the checkpoint; None if it has none.
        by: how it gets its value: `BY_NODES` and so on.
        signatures: keys of the signatures that need it.
    """

    name: str
    dtype: int
    shape: Shape
    key: Key | None
    by: str
    signatures: tuple[str, ...]


class Asset(NamedTuple):
    """A file of the model, the tensor that is fed with its path, and whether it is there."""

    path: str
    tensor: str
    is_there: bool


class Contents(NamedTuple):
    """The parts of a model outside its graph.

    Attributes:
        collections: how many entries each has.
        checkpoint: its open checkpoint; None if none can be read.
        unreadable: why that is so, where there should be one.
        signatures: how many are called.
    """

    variables: list[ShippedVariable]
    assets: list[Asset]
    collections: dict[str, int]
    checkpoint: Checkpoint | None
    unreadable: str
    signatures: int


def contents(container: Container) -> Contents:
    """Returns the parts of `container` outside its graph, as in its files. Raises InputError: it is corrupt."""
    graph, serving = container.graph.pristine(), container.graph.serving or Serving()
    checkpoint, unreadable = _opened(container.checkpoint)
    collections = container.meta.around.collection_def.items()
    return Contents(
        _variables(graph, serving, checkpoint),
        [
            Asset(path, tensor, os.path.isfile(path))
            for tensor, path in (serving.initialising.feeds if serving.initialising is not None else {}).items()
        ],
        {key: len(getattr(held, held.WhichOneof("kind") or "node_list").value) for key, held in sorted(collections)},
        checkpoint,
        unreadable,
        len(serving.called),
    )


def _opened(prefix: str) -> tuple[Checkpoint | None, str]:
    try:
        return (open_checkpoint(prefix) if prefix else None), ""
    except InputError as error:
        return None, error.message


def _variables(graph: Graph, serving: Serving, checkpoint: Checkpoint | None) -> list[ShippedVariable]:
    topology = topology_of(graph)
    numbers = topology.with_ops(op for op in topology.ops() if is_variable(op) and op not in TEMPORARY)
    if not numbers:
        return []
    targets = serving.initialising.targets if serving.initialising is not None else ()
    loading = topology.upstream([topology.id_of(node) for name in targets if (node := graph.find(name)) is not None])
    needed = {key: topology.upstream(map(topology.id_of, named(graph, s))) for key, s in serving.called.items()}
    out = []
    for number in numbers:
        node = topology.node(number)
        key = serving.keys.get(node.name)
        by = BY_NOTHING if not loading[number] else INITIALISED
        if key is not None:
            by = BY_OBJECTS if node.name in serving.apart else BY_NODES
        dtype = node.plain_attr("dtype")
        signatures = tuple(signature for signature, above in needed.items() if above[number])
        shape = _shape(node, key, checkpoint)
        out.append(ShippedVariable(node.name, _number(dtype), shape, key, by, signatures))
    return out


def _number(dtype: object) -> int:
    return base_dtype(dtype) if isinstance(dtype, int) else 0


def named(graph: Graph, served: Served) -> Iterable[Node]:
    """The nodes of GRAPH that a signature names."""
    found = (graph.find(text.partition(":")[0]) for text in served.tensors)
    return dict.fromkeys(node for node in found if node is not None)


def _shape(node: Node, key: Key | None, checkpoint: Checkpoint | None) -> Shape:
    stated = node.attr("shape")
    shape = shape_of(stated.shape) if stated is not None else None
    if shape is None and key is not None and not key.slice and checkpoint is not None and key.tensor in checkpoint:
        with suppress(InputError):  # which its reader will report
            return checkpoint.tensor(key.tensor).shape
    return shape


def called_keys(serving: Serving) -> list[str]:
    """Returns the keys of all signatures for callers, whichever are selected."""
    return [key for key in serving.signatures if key != INIT]
