"""Constants that become variables again: handles, reads in their places, and what restores and saves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.traversal.control_flow import while_frames
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.checkpoint.bundle import index_path, shard_path
from gdsurgeon.checkpoint.write import Item, build_bundle
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.edits.copying.saver import add_restoring, add_saving, free_scope, saver_in
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.constants import TENSOR, Constant, constant_header, decode_tensor
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key, Saver
from gdsurgeon.ops.dtypes import CONTENT, DTYPES, FLOATING
from gdsurgeon.select import compiled, matching_ends
from gdsurgeon.wire.fields import LEN, fields
from gdsurgeon.wire.write import Chunk, SourceSpan, size_of

SCOPE = "save"
LARGEST_LIST = 1 << 28
"""Bytes of a constant that is not written as its bytes lie in memory: it is decoded whole."""


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
    _check_outside_of_loops(graph, constants)
    unique = graph.unique_names()
    handles = [_handle(graph, node, item, unique) for node, item in zip(constants, items, strict=True)]
    for node, handle in zip(constants, handles, strict=True):
        graph.set_op(node, "ReadVariableOp")
        graph.set_attr(node, "value", None)
        graph.set_inputs(node, [handle.output])
    scope = free_scope(graph, SCOPE)
    keys = {handle: Key(node.name) for node, handle in zip(constants, handles, strict=True)}
    made = [*handles, *add_restoring(graph, keys, scope), *add_saving(graph, keys, scope)]
    intent = Intent(added=[node.name for node in made], changed=[node.name for node in constants])
    return Unfrozen(saver_in(scope, keys), intent, sum(size_of(item.data) for item in items), left)


def bundle_of(graph: Graph) -> Mapping[str, Sequence[Chunk]]:
    """The files, by their paths in the folder of a SavedModel, of the checkpoint of what is no longer frozen in GRAPH.

    Its values are those of the constants in the file, whose bytes are copied from there.
    """
    saver = graph.serving.saver if graph.serving is not None else None
    if saver is None:
        return {}
    before = graph.pristine()
    made = build_bundle(_item(before[saved.key.tensor]) for saved in saver.variables)
    return {index_path(CHECKPOINT): [made.table], shard_path(CHECKPOINT, 0, 1): made.data}


def _matching(graph: Graph, pattern: str) -> tuple[list[Node], list[str]]:
    """The constants that are meant, and the names of those that match and are not floating."""
    search = compiled(pattern).search
    with matching_ends():
        found = [node for node in graph.nodes() if node.op == "Const" and search(node.name)]
    constants = [node for node in found if node.output.dtype in FLOATING]
    if not constants:
        raise EditError(f"{quoted(pattern)} matched 0 floating-point constants: nothing would be a variable")
    return constants, [node.name for node in found if node.output.dtype not in FLOATING]


def _check_outside_of_loops(graph: Graph, nodes: Sequence[Node]) -> None:
    topology = topology_of(graph)
    frames = while_frames(topology)
    for node in nodes:
        frame = frames.of[topology.id_of(node)]
        if frame >= 0:
            loop = quoted(frames.names[frame])
            raise EditError(f"{quoted(node.name)} lies inside the while loop {loop}: no variable is read there")


def _handle(graph: Graph, node: Node, item: Item, unique: UniqueNames) -> Node:
    attrs = {
        "dtype": type_value(item.dtype).SerializeToString(),
        "shape": shape_value(item.shape).SerializeToString(),
        "shared_name": bytes_value(node.name.encode()).SerializeToString(),
    }
    name = unique(f"{node.name}/handle")
    return graph.add(name, "VarHandleOp", attrs=attrs, device=node.device, after=node)


# -- values -----------------------------------------------------------------------------------------------------


def _item(node: Node) -> Item:
    """The value of a constant, to be stored under its name; its bytes are those of the file, where they lie in one."""
    header = constant_header(node)
    if header is None or header.dims is None or min(header.dims, default=0) < 0:
        raise EditError(f"{quoted(node.name)} is a constant without a value of a known shape")
    dtype = DTYPES[header.dtype]
    size = header.elements * dtype.size
    if header.content_bytes == size:
        return Item(node.name, dtype, header.dims, _content(node))
    found = None
    if size <= LARGEST_LIST and header.content_bytes == 0:
        value = node.attr("value")
        found = decode_tensor(value.tensor) if value is not None else None
    if found is None:
        raise EditError(f"{quoted(node.name)} is a constant whose value cannot be copied")
    return Item(node.name, dtype, header.dims, [_packed(found)])


def _content(node: Node) -> list[Chunk]:
    """The bytes of the elements of a constant that is written as they lie in memory."""
    value = node.header.attrs.get("value") if node.record is not None and "value" not in node.changed_attrs else None
    if value is None or node.record is None:
        changed = node.attr("value")
        return [changed.tensor.tensor_content] if changed is not None else []
    record, buffer = node.record, node.record.buffer()
    for attr in fields(buffer, *value):
        if attr.number == TENSOR and attr.wire_type == LEN:
            for field in fields(buffer, attr.value, attr.end):
                if field.number == CONTENT and field.wire_type == LEN and record.data is None:
                    return [SourceSpan(record.source, record.body + field.value, record.body + field.end)]
                if field.number == CONTENT and field.wire_type == LEN:
                    return [buffer[field.value : field.end]]
    return []


def _packed(value: Constant) -> bytes:
    import struct

    return struct.pack(f"<{len(value.values)}{DTYPES[value.dtype].code}", *value.values)
