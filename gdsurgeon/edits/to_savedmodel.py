"""to-savedmodel: a graph gets signatures, so that it can be written as a SavedModel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import signature
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, equation
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.graph.serving import PREDICT, Restoring, Served, Serving
from gdsurgeon.ops.dtypes import REF, RESOURCE, STRING, VARIANT, base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS, RESOURCE_VARIABLES, UNSET_PLACEHOLDERS, VARIABLES
from gdsurgeon.specification.asked import edit

DEFAULT_KEY = "serving_default"


class Named(NamedTuple):
    """A tensor of a signature: the key of that, what callers call the tensor, and which it is."""

    name: str
    tensor: str
    key: str = DEFAULT_KEY


class Asset(NamedTuple):
    """A file that the model reads, and the tensor that a loader feeds with its path."""

    tensor: str
    path: str


@edit
def to_savedmodel(
    graph: Graph,
    inputs: Sequence[Named],
    outputs: Sequence[Named],
    *,
    init: Sequence[str] = (),
    assets: Sequence[Asset] = (),
) -> EditResult:
    """Gives GRAPH, which stays as it is, the signatures with which it is served.

    Args:
        graph: a frozen graph.
        inputs: what signatures take; none: all placeholders, by their names.
        outputs: what they give; each signature gives something. None: all outputs, by their names.
        init: nodes that a loader runs first, which initialise tables.
        assets: files that go with the model.

    Raises:
        EditError: no such tensor or node; a name is given twice; a tensor cannot be fed or fetched; a signature gives
            nothing; or the graph has variables, whose values are not in it.
    """
    found = signature(graph)
    inputs = inputs or [Named(tensor.name, tensor.name) for tensor in found.inputs]
    outputs = outputs or [Named(tensor.name, tensor.name) for tensor in found.outputs]
    variables = [node.name for node in graph.nodes() if node.op in VARIABLES or node.op in RESOURCE_VARIABLES]
    if variables:
        raise EditError(f"{quoted(variables[0])} is a variable, whose value is not in {printable(graph.source_name)}")
    taken = {(item.key, item.name): _fed(graph, item) for item in _once(inputs, "input")}
    given = {(item.key, item.name): _fetched(graph, item) for item in _once(outputs, "output")}
    keys = list(dict.fromkeys(item.key for item in (*inputs, *outputs)))
    for key in keys:
        if not any(key == of for of, _ in given):
            raise EditError(f"the signature {quoted(key)} gives nothing: name an output of it")
        _check_fed(graph, key, taken, given)
    first = tuple(graph[name].name for name in init)
    fed = {_path_of(graph, asset).name: asset.path for asset in assets}

    graph.serving = Serving(
        kind="SavedModel",
        signatures={
            key: Served(
                {name: tensor.name for (of, name), tensor in taken.items() if of == key},
                {name: tensor.name for (of, name), tensor in given.items() if of == key},
                PREDICT,
            )
            for key in keys
        },
        initialising=Restoring(fed, first) if first or fed else None,
    )
    pairs = tuple(dict.fromkeys((tensor.name, tensor.name) for tensor in given.values()))
    told = [("serves", f"{printable(key)}({_side(taken, key)}) -> {_side(given, key)}") for key in keys]
    return EditResult(Intent(), (SameGiven({}, pairs, equation(())),), told=told)


def _check_fed(
    graph: Graph, key: str, taken: dict[tuple[str, str], Output], given: dict[tuple[str, str], Output]
) -> None:
    """Raises EditError where the outputs of the signature KEY depend on a placeholder that it does not take."""
    topology = topology_of(graph)
    starts = [tensor for (of, _), tensor in taken.items() if of == key]
    ends = [topology.id_of(tensor.node) for (of, _), tensor in given.items() if of == key]
    above = topology.upstream(ends, given={topology.code(tensor) for tensor in starts})
    for number in topology.with_ops(UNSET_PLACEHOLDERS):
        node = topology.node(number)
        if above[number] and node.output not in starts:
            raise EditError(
                f"the outputs of the signature {quoted(key)} depend on {quoted(node.name)}, which is none of its inputs"
            )


def _side(tensors: dict[tuple[str, str], Output], key: str) -> str:
    named = [(name, tensor.name) for (of, name), tensor in tensors.items() if of == key]
    return ", ".join(printable(name if name == tensor else f"{name} = {tensor}") for name, tensor in named)


def _once(items: Sequence[Named], what: str) -> Sequence[Named]:
    seen: set[tuple[str, str]] = set()
    for item in items:
        if (item.key, item.name) in seen:
            raise EditError(f"the signature {quoted(item.key)} has two {what}s {quoted(item.name)}")
        seen.add((item.key, item.name))
    return items


def _fed(graph: Graph, item: Named) -> Output:
    tensor = graph.tensor(item.tensor)
    _check_dense(tensor, "fed")
    if tensor.node.op == "Const":
        raise EditError(f"{quoted(tensor.name)} is a constant: what callers give would not be what they think it is")
    return tensor


def _fetched(graph: Graph, item: Named) -> Output:
    tensor = graph.tensor(item.tensor)
    _check_dense(tensor, "fetched")
    return tensor


def _check_dense(tensor: Output, done: str) -> None:
    if tensor.dtype > REF or base_dtype(tensor.dtype) in (RESOURCE, VARIANT):
        raise EditError(f"{quoted(tensor.name)} is a reference, a resource or a variant, which cannot be {done}")


def _path_of(graph: Graph, asset: Asset) -> Output:
    tensor = graph.tensor(asset.tensor)
    if base_dtype(tensor.dtype) != STRING or tensor.node.op not in PLACEHOLDERS | {"Const"}:
        raise EditError(f"{quoted(tensor.name)} is no constant or placeholder of a string: no path can be fed to it")
    return tensor
