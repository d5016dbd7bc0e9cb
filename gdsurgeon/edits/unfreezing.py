"""Constants that become variables again: handles, reads in their places, and what restores and saves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.bundle import Item, Shard, build_bundle, index_path, shard_path
from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.edits.replacing import check_outside_of_loops
from gdsurgeon.edits.saver import add_restoring, add_saving, saver_in
from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, free_scope
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key, Saver
from gdsurgeon.ops.dtypes import FLOATING
from gdsurgeon.select import compiled, matching_ends
from gdsurgeon.wire.write import size_of

SCOPE = "save"
LARGEST_FILLED = 1 << 28
"""Bytes of a constant in whose place the file says what fills it."""


class Unfrozen(NamedTuple):
    """What was done.

    Attributes:
        saver: what restores and saves the variables.
        intent: what has changed in the graph.
        bytes: how much they hold.
        left: constants that match and are not floating: they are no weights.
    """

    saver: Saver
    intent: Intent
    bytes: int
    left: list[str]


def unfreeze(graph: Graph, pattern: str) -> Unfrozen:
    """Makes the floating constants of GRAPH in whose names PATTERN is found resource variables.

    What reads a constant reads the variable by the same name; `bundle_of` has the values, under that name.

    Raises:
        UsageError: PATTERN is no regular expression.
        EditError: PATTERN matches no such constant; one lies in a while loop, or has a
            value that cannot be copied; GRAPH is as it was.
    """
    constants, left = _matching(graph, pattern)
    items = [_item(node) for node in constants]
    tensors = [node.output for node in constants]
    check_outside_of_loops(topology_of(graph), tensors, ", where variables cannot be read")
    unique = graph.unique_names()
    handles = [_handle(graph, node, item, unique) for node, item in zip(constants, items, strict=True)]
    for node, handle in zip(constants, handles, strict=True):
        graph.set_op(node, "ReadVariableOp")
        graph.set_attr(node, "value", None)
        graph.set_inputs(node, [handle.output])
    scope = free_scope(graph.names(), SCOPE)
    keys = {handle: Key(node.name) for node, handle in zip(constants, handles, strict=True)}
    made = [*handles, *add_restoring(graph, keys, scope), *add_saving(graph, keys, scope)]
    intent = Intent(added=[node.name for node in made], changed=[node.name for node in constants])
    return Unfrozen(saver_in(scope, keys), intent, sum(size_of(item.data) for item in items), left)


def bundle_of(graph: Graph) -> Mapping[str, Shard]:
    """The files, by their paths in the folder of a SavedModel, of the checkpoint of what is no longer frozen in GRAPH.

    Its values are those of the constants in the file, whose bytes are copied from there.
    """
    saver = graph.serving.saver if graph.serving is not None else None
    if saver is None:
        return {}
    before = graph.pristine()
    made = build_bundle(_item(before[saved.key.tensor]) for saved in saver.variables)
    return {index_path(CHECKPOINT): [made.table], shard_path(CHECKPOINT, 0, 1): made.shards[0]}


def _matching(graph: Graph, pattern: str) -> tuple[list[Node], list[str]]:
    """The constants that are meant, and the names of those that match and are not floating."""
    search = compiled(pattern).search
    with matching_ends():
        found = [node for node in graph.nodes() if node.op == "Const" and search(node.name)]
    constants = [node for node in found if node.output.dtype in FLOATING]
    if not constants:
        message = f"no floating-point constant matches {quoted(pattern)}, so there is nothing to make a variable"
        left = [node.name for node in found]
        raise EditError(message, code="nothing-matched", value=pattern, left=left)
    return constants, [node.name for node in found if node.output.dtype not in FLOATING]


def _handle(graph: Graph, node: Node, item: Item, unique: UniqueNames) -> Node:
    attrs = {
        "dtype": type_value(item.dtype).SerializeToString(),
        "shape": shape_value(item.shape).SerializeToString(),
        "shared_name": bytes_value(node.name.encode()).SerializeToString(),
    }
    name = unique(f"{node.name}/handle")
    return graph.add(name, "VarHandleOp", attrs=attrs, device=node.device, after=node)


def _item(node: Node) -> Item:
    """The value of a constant, to be stored under its name; its bytes are those of the file, where they lie in one."""
    try:
        value = values_of(node)
    except InputError as error:
        raise EditError(error.message, code=error.code, facts=error.facts) from error
    if value.stored < value.count and value.nbytes > LARGEST_FILLED:
        message = f"the value of the constant {quoted(node.name)} is too large to be copied"
        raise EditError(message, code="too-large", node=node.name)
    return Item(node.name, value.dtype, value.shape, value.chunks())
