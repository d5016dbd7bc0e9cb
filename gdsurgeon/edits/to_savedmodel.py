"""to-savedmodel: a graph gets signatures, and variables perhaps, so that it can be written as a SavedModel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import signature
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.change_signatures import Named, pairs, resolved, told, with_added
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.edits.decorator import edit, of_field, of_nodes, of_tensors
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.serving import PREDICT, Restoring, Served, Serving
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS, is_variable
from gdsurgeon.text import Entry, counted, named, size


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
    """Gives GRAPH the signatures with which it is served; it stays as it is, but for what is no longer frozen.

    Args:
        graph: a frozen graph; changed in place where something is no longer frozen.
        inputs: what signatures take; none: all placeholders, by their names, without those that are fed with a path.
        outputs: what they give; each signature gives something. None: all outputs, by their names.
        init: nodes that a loader runs first, which initialise tables. A loader runs one node, so for several nodes one
            is added that waits for them.
        assets: files that go with the model.
        unfreeze: a regular expression (searched): the floating-point constants in whose names it is found become
            variables, which a checkpoint beside the graph gives their values.

    Raises:
        EditError: no such tensor, node or constant; a name is given twice; a tensor cannot be fed or fetched; a
            signature gives nothing; or what it gives depends on a variable, whose value is not in the graph.
    """
    found = signature(graph)
    fed = {_path_of(graph, asset).name: asset.path for asset in assets}
    inputs = inputs or [Named(tensor.name, tensor.name) for tensor in found.inputs if tensor.name not in fed]
    outputs = outputs or [Named(tensor.name, tensor.name) for tensor in found.outputs]
    keys = dict.fromkeys(item.key for item in (*inputs, *outputs))
    named = {key: with_added(Served({}, {}, PREDICT), key, inputs, outputs) for key in keys}
    signatures = {key: resolved(graph, key, served) for key, served in named.items()}
    for served in signatures.values():
        _check_constant(graph, served)
    first = tuple(graph[name].name for name in init)

    initialising = Restoring(fed, first) if first or fed else None
    serving = Serving(kind="SavedModel", signatures=signatures, initialising=initialising)
    result = EditResult(Intent(), (SameGiven({}, pairs(signatures), equation(())),))
    result.told = [told(key, served) for key, served in signatures.items()]
    if unfreeze is not None:
        serving = _unfrozen(graph, unfreeze, serving, result)
    if len(first) > 1:
        group = graph.add(graph.unique_names()("init"), "NoOp", controls=[graph[name] for name in first])
        result.intent.added.append(group.name)
        serving = serving._replace(main_op=group.name)
    graph.serving = serving
    return result


def _check_constant(graph: Graph, served: Served) -> None:
    """Raises EditError where what is SERVED depends on a variable."""
    starts, ends = ([graph.tensor(text) for text in side.values()] for side in (served.inputs, served.outputs))
    topology = topology_of(graph)
    above = topology.upstream(
        [topology.id_of(end.node) for end in ends if end not in starts],
        given={topology.code(start) for start in starts},
    )
    variable = next((topology.node(number) for number in members(above) if is_variable(topology.op(number))), None)
    if variable is not None:
        message = f"{quoted(variable.name)} is a variable, but {printable(graph.source_name)} does not hold its value"
        raise EditError(message, code="is-variable", node=variable.name)


def _unfrozen(graph: Graph, pattern: str, serving: Serving, result: EditResult) -> Serving:
    """Makes variables of constants, which RESULT says; returns how the graph is served then."""
    from gdsurgeon.edits.unfreezing import unfreeze

    made = unfreeze(graph, pattern)
    result.intent = made.intent
    if made.left:
        result.notes.append(f"{named(made.left, 3, quoted)}: still constant, because it is not floating-point")
    variables = made.saver.variables
    result.told.append(Entry("unfrozen", f"{counted(len(variables), 'variable')}, {size(made.bytes)}"))
    return serving._replace(saver=made.saver, keys={saved.variable: saved.key for saved in variables})


def _path_of(graph: Graph, asset: Asset) -> Output:
    tensor = graph.tensor(asset.tensor)
    if base_dtype(tensor.dtype) != STRING or tensor.node.op not in PLACEHOLDERS | {"Const"}:
        message = f"{quoted(tensor.name)} is not a constant or placeholder of a string, so no path can be fed to it"
        raise EditError(message, code="unfeedable", tensor=tensor.name)
    return tensor
