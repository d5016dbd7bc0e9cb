"""to-savedmodel: adds signatures to a graph, and optionally makes constants variables, for a SavedModel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.queries.signature import signature
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.bundle import Item, Shard, build_bundle
from gdsurgeon.container.files import CHECKPOINT
from gdsurgeon.edits.change_signatures import Named, pairs, resolved, told, with_added
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit, of_field, of_nodes, of_tensors
from gdsurgeon.edits.replacing import check_outside_of_loops
from gdsurgeon.edits.saver import add_saver
from gdsurgeon.errors import EditError, InputError, quoted
from gdsurgeon.graph.attrs import bytes_value, shape_value, type_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import free_scope
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import PREDICT, Key, Restoring, Served, Serving
from gdsurgeon.ops.dtypes import FLOATING, STRING, base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.select import matching
from gdsurgeon.text import Entry, counted, named, size
from gdsurgeon.wire.write import size_of

SCOPE = "save"
LARGEST_FILLED = 1 << 28
"""The largest number of bytes of a constant that the file stores as one repeated element."""


class Asset(NamedTuple):
    """A file that the model reads, and the tensor that a loader feeds with its path."""

    tensor: str
    path: str


@edit(inputs=of_field("tensor", of_tensors), outputs=of_field("tensor", of_tensors), init=of_nodes)
def to_savedmodel(
    graph: Graph,
    inputs: Sequence[Named],
    outputs: Sequence[Named],
    *,
    init: Sequence[str] = (),
    assets: Sequence[Asset] = (),
    unfreeze: str | None = None,
) -> EditResult:
    """Adds signatures to the graph, which otherwise changes only with `unfreeze`.

    Args:
        graph: a frozen graph; changed in place.
        inputs: the inputs of signatures; by default all placeholders except those fed with a path, with their names.
        outputs: the outputs of signatures, at least one for each; by default all outputs, with their names.
        init: nodes that a loader runs first, which initialise tables. A loader runs one node, so a node that depends on
            several nodes is added for them.
        assets: the files of the model.
        unfreeze: a regular expression (searched): the floating-point constants with matching names become variables,
            whose values are written to a checkpoint.

    Raises:
        EditError: no such tensor, node or constant; a name is given twice; a tensor cannot be fed or fetched; a
            signature has no outputs; or its outputs depend on a variable, whose value is not in the graph.
    """
    found = signature(graph)
    fed: dict[str, str] = {}
    for asset in assets:
        tensor = graph.tensor(asset.tensor)
        if base_dtype(tensor.dtype) != STRING or tensor.node.op not in PLACEHOLDERS | {"Const"}:
            line = f"{quoted(tensor.name)} is not a constant or placeholder of a string, so no path can be fed to it"
            raise EditError(line, code="unfeedable", tensor=tensor.name)
        fed[tensor.name] = asset.path
    inputs = inputs or [Named(tensor.name, tensor.name) for tensor in found.inputs if tensor.name not in fed]
    outputs = outputs or [Named(tensor.name, tensor.name) for tensor in found.outputs]
    keys = dict.fromkeys(item.key for item in (*inputs, *outputs))
    added = {key: with_added(Served({}, {}, PREDICT), key, inputs, outputs) for key in keys}
    signatures = {key: resolved(graph, key, served, is_frozen=True) for key, served in added.items()}
    first = tuple(graph[name].name for name in init)

    initialising = Restoring(fed, first) if first or fed else None
    serving = Serving(kind="SavedModel", signatures=signatures, initialising=initialising)
    result = EditResult(Intent(), (SameGiven({}, pairs(signatures), equation(())),))
    result.told = [told(key, served) for key, served in signatures.items()]
    if unfreeze is not None:
        serving = _unfreeze(graph, unfreeze, serving, result)
    if len(first) > 1:
        group = graph.add(graph.unique_names()("init"), "NoOp", controls=[graph[name] for name in first])
        result.intent.added.append(group.name)
        serving = serving._replace(main_op=group.name)
    graph.serving = serving
    return result


# -- constants that become variables -----------------------------------------------------------------------


def _unfreeze(graph: Graph, pattern: str, serving: Serving, result: EditResult) -> Serving:
    """Makes floating-point constants with matching names resource variables, and extends `result`.

    The consumers of a constant read the variable from a node with the same name. Returns the new description of the
    model.

    Raises:
        UsageError: `pattern` is not a valid regular expression.
        EditError: no such constant; a constant is in a while loop, or its value cannot be copied.
    """
    found = matching([pattern], (node for node in graph.nodes() if node.op == "Const"), lambda node: node.name)
    constants = [node for node in found if node.output.dtype in FLOATING]
    left = [node.name for node in found if node.output.dtype not in FLOATING]
    if not constants:
        message = f"no floating-point constant matches {quoted(pattern)}, so there is nothing to make a variable"
        raise EditError(message, code="nothing-matched", value=pattern, left=left)
    items = [_item(node) for node in constants]
    tensors = [node.output for node in constants]
    check_outside_of_loops(graph, tensors, ", where variables cannot be read")
    unique = graph.unique_names()
    keys: dict[Node, Key] = {}
    for node, item in zip(constants, items, strict=True):
        attrs = {"dtype": type_value(item.dtype), "shape": shape_value(item.shape)}
        attrs["shared_name"] = bytes_value(node.name.encode())
        name = unique(f"{node.name}/handle")
        keys[graph.add(name, "VarHandleOp", attrs=attrs, device=node.device, after=node)] = Key(node.name)
    for node, handle in zip(constants, keys, strict=True):
        graph.replace_op(node, "ReadVariableOp", [handle.output], {"value": None})
    saver, nodes = add_saver(graph, keys, free_scope(graph.names(), SCOPE))
    result.intent.added = [node.name for node in (*keys, *nodes)]
    result.intent.changed = [node.name for node in constants]
    if left:
        result.notes.append(f"{named(left, 3, quoted)}: still constant, because it is not floating-point")
    stored = sum(size_of(item.data) for item in items)
    result.told.append(Entry("unfrozen", f"{counted(len(keys), 'variable')}, {size(stored)}"))
    return serving._replace(saver=saver, keys={saved.variable: saved.key for saved in saver.variables})


def bundle_of(graph: Graph) -> Mapping[str, Shard]:
    """Returns the files of the checkpoint for unfrozen variables, by their paths in the folder of a SavedModel.

    Their values are copied from the constants in the file of the graph.
    """
    saver = graph.serving.saver if graph.serving is not None else None
    if saver is None:
        return {}
    before = graph.pristine()
    return build_bundle(_item(before[saved.key.tensor]) for saved in saver.variables).at(CHECKPOINT)


def _item(node: Node) -> Item:
    """Returns the value of a constant as an item of a checkpoint; its bytes are copied from the file."""
    try:
        value = values_of(node)
    except InputError as error:
        raise EditError(error.message, code=error.code, facts=error.facts) from error
    if value.stored < value.count and value.nbytes > LARGEST_FILLED:
        message = f"the value of the constant {quoted(node.name)} is too large to be copied"
        raise EditError(message, code="too-large", node=node.name)
    return Item(node.name, value.dtype, value.shape, value.chunks())
