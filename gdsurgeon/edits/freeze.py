"""freeze: the variables that some outputs depend on become constants, with the values of the model's checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.arguments import public
from gdsurgeon.edits.change_signatures import DEFAULT_KEY, signature_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.extract import cut_down, needed
from gdsurgeon.edits.handles import Handles, Held
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.errors import EditError, Line, Remark, printable, quoted
from gdsurgeon.graph.attrs import format_shape, shape_of
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.kinds import PLACEHOLDERS, VARIABLES, is_table, is_variable
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry, counted, size


@public
@naming(inputs=of_tensors, outputs=of_tensors)
@edit
def freeze(
    graph: Graph, *, signatures: Sequence[str] = (), outputs: Sequence[str] = (), inputs: Sequence[str] = ()
) -> EditResult:
    """Cuts GRAPH, that of a SavedModel or a MetaGraph, down to what OUTPUTS need, with constants for variables.

    A constant has the name of its variable, and its value is copied from the checkpoint when the graph is written.
    Functions stay: what was handed a variable is handed its value.

    Args:
        graph: changed in place.
        signatures: keys of those that are frozen, where no OUTPUTS are named; none: ``serving_default``, or the one
            that there is.
        outputs: tensors.
        inputs: tensors at which to cut, where OUTPUTS are named; see `gdsurgeon.edits.extract.extract`.

    Raises:
        EditError: no such signature or tensor; a variable has no value in the checkpoint, or one that does not fit; or
            something that the outputs depend on writes to a variable, or takes one in a way that a value does not do.
    """
    serving = serving_of(graph)
    if serving is None:
        raise EditError(
            f"{printable(graph.source_name)} is already a frozen GraphDef; freeze expects a SavedModel, or a "
            ".meta file with its checkpoint",
            code="wrong-format",
            file=graph.source_name,
        )
    if outputs:
        starts, ends = _tensors(graph, inputs), _tensors(graph, outputs)
    else:
        starts, ends = _served(graph, serving, signatures)
    topology = topology_of(graph)
    kept = [topology.node(number) for number in members(needed(topology, starts, ends))]
    variables = [node for node in kept if is_variable(node.op)]
    weights = _weights(graph, serving, variables) if variables else None
    handles = Handles(graph, kept)
    for node in variables:
        assert weights is not None
        handles.hold(node.output, _held(node, weights))
    handles.check()

    nodes, functions = handles.apply()
    constants = _put_constants(graph, kept, variables, weights) if weights is not None else []
    initialisers, groups = _initialisers(graph, serving, kept)
    graph.stand_alone()
    result = cut_down(graph, starts, [_now(graph, end) for end in ends], initialisers)
    intent = result.intent
    intent.added += constants
    intent.removed = [name for name in intent.removed if name not in constants and name in graph.pristine()]
    intent.changed += [name for name in (*nodes, *groups) if name in graph]
    intent.functions.changed = [name for name in functions if name in graph.functions]
    if initialisers:
        result.notes.append(run_first([node.name for node in initialisers], _files(graph, serving)))
    if not outputs:
        result.told += _names(graph, serving, signatures)
    if weights is not None:
        result.told.append(Entry("frozen", f"{counted(len(constants), 'variable')}, {size(weights.source.size)}"))
    return result


def _tensors(graph: Graph, texts: Iterable[str]) -> list[Output]:
    return list(dict.fromkeys(graph.output(text) for text in texts))


def _served(graph: Graph, serving: Serving, keys: Sequence[str]) -> tuple[list[Output], list[Output]]:
    """The inputs and the outputs of the signatures KEYS."""
    meant = [(key, signature_of(graph, serving, key)) for key in keys or [_default(graph, serving)]]
    starts = {key: _tensors(graph, served.inputs.values()) for key, served in meant}
    ends = {key: _tensors(graph, served.outputs.values()) for key, served in meant}
    topology = topology_of(graph)
    for key, tensors in starts.items():
        for other in starts:
            above = needed(topology, starts[other], ends[other])
            cut = [t for t in tensors if t.node.op not in PLACEHOLDERS and t not in starts[other]]
            hit = next((tensor for tensor in cut if above[topology.id_of(tensor.node)]), None)
            if hit is not None:
                raise EditError(
                    f"{quoted(hit.name)} is an input of the signature {quoted(key)}, but {quoted(other)} "
                    "computes it: freeze the signatures separately",
                    code="is-computed",
                    facts={"signature": key, "tensor": hit.name, "other": other},
                )
    unique: dict[Output, None] = dict.fromkeys(tensor for tensors in starts.values() for tensor in tensors)
    return list(unique), list(dict.fromkeys(tensor for tensors in ends.values() for tensor in tensors))


def _default(graph: Graph, serving: Serving) -> str:
    """The signature that is meant where none is named."""
    keys = list(serving.called)
    if DEFAULT_KEY in keys or len(keys) == 1:
        return DEFAULT_KEY if DEFAULT_KEY in keys else keys[0]
    name = printable(graph.source_name)
    if not keys:
        line = Line("{model} has no signatures; use {outputs} to name the tensors to freeze", model=name)
        raise EditError(line, code="no-such-signature", signatures=[])
    there = ", ".join(map(quoted, keys))
    line = Line("{model} has several signatures; select one with {signatures} ({there})", model=name, there=there)
    raise EditError(line, code="ambiguous-signature", signatures=keys)


def _names(graph: Graph, serving: Serving, keys: Sequence[str]) -> Iterator[Entry]:
    """The names that the signatures have for tensors that are inputs and outputs now."""
    for key in keys or [_default(graph, serving)]:
        for side in (serving.signatures[key].inputs, serving.signatures[key].outputs):
            named = [f"{name} = {tensor}" for name, tensor in side.items() if name != tensor]
            if named:
                yield Entry("called", "", named)


def _weights(graph: Graph, serving: Serving, variables: Sequence[Node]) -> Graph:
    """The graph of the constants for VARIABLES."""
    if serving.weights is None:
        raise EditError(
            Line(
                "{model} has no checkpoint, so its {count} variables have no values; name one with {checkpoint}",
                model=printable(graph.source_name),
                count=f"{len(variables):,}",
            ),
            code="no-checkpoint",
            facts={"file": graph.source_name, "count": len(variables)},
        )
    return Graph(serving.weights({_file_name(node): (_dtype(node), node.device) for node in variables}))


def _file_name(node: Node) -> str:
    return node.base_name or node.name


def _dtype(node: Node) -> int:
    value = node.plain_attr("dtype")
    return value if isinstance(value, int) else 0


def _held(node: Node, weights: Graph) -> Held:
    """The value of a variable. Raises EditError where it has another shape than the variable states."""
    constant = weights[_file_name(node)]
    header = constant_header(constant)
    assert header is not None
    stated = node.attr("shape")
    shape = shape_of(stated.shape) if stated is not None else None
    dims = header.dims or ()
    # VariableV2 of an unknown shape states that of a scalar in old graphs; what is written there is the checkpoint's.
    if shape and (len(shape) != len(dims) or any(a not in (-1, b) for a, b in zip(shape, dims, strict=True))):
        raise EditError(
            f"the variable {quoted(node.name)} has the shape {format_shape(shape)}, but its value in the "
            f"checkpoint has {format_shape(dims)}",
            code="shape-mismatch",
            facts={"variable": node.name, "expected": shape, "found": dims},
        )
    return Held(node.name, header.dtype, dims)


def _put_constants(graph: Graph, kept: Sequence[Node], variables: Sequence[Node], weights: Graph) -> list[str]:
    """Gives each of VARIABLES a constant of its name, which those KEPT read; returns the names."""
    names = {node: node.name for node in variables}
    unique = graph.unique_names()
    graph.rename({node: unique(f"{name}/variable") for node, name in names.items()})
    staying = set(kept)
    for node, name in names.items():
        constant = graph.add_copy(name, weights[_file_name(node)], after=node)
        graph.set_controls(constant, node.controls)
        graph.reroute([use for use in graph.uses(node.output) if use.node in staying], constant.output)
        for user in graph.users(node):
            if node in user.controls and user in staying:
                graph.set_controls(user, [constant if control is node else control for control in user.controls])
    return list(names.values())


def _initialisers(graph: Graph, serving: Serving, kept: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """Returns the nodes by which a loader initialises the tables among those KEPT, and the names of changed groups.

    A group, a NoOp of other initialisers, no longer waits for initialisers of other things.
    """
    tables = [node for node in kept if is_table(node.op)]
    topology = topology_of(graph)

    def serves(node: Node) -> bool:
        above = topology.upstream([topology.id_of(node)])
        return any(above[topology.id_of(table)] for table in tables)

    names = serving.initialising.targets if serving.initialising is not None and tables else ()
    found = [node for name in names if (node := graph.find(name)) is not None and serves(node)]
    pending, left = list(found), {}
    for node in pending:  # grows during the loop
        if node.op == "NoOp" and all(user.op == "NoOp" for user in graph.users(node)) and node not in left:
            needed_ones = [control for control in node.controls if serves(control)]
            above = topology.upstream(map(topology.id_of, needed_ones))
            left[node] = [control for control in node.controls if above[topology.id_of(control)]]
            pending += needed_ones
    changed = {node: controls for node, controls in left.items() if len(controls) < len(node.controls)}
    for node, controls in changed.items():
        graph.set_controls(node, controls)
    return found, [node.name for node in changed]


def _files(graph: Graph, serving: Serving) -> dict[str, str]:
    """Returns the files that a loader feeds to initialise tables, by the tensors of GRAPH."""
    feeds = serving.initialising.feeds if serving.initialising is not None else {}
    return {tensor: path for tensor, path in feeds.items() if graph.find(tensor.partition(":")[0]) is not None}


def run_first(initialisers: Sequence[str], fed: Mapping[str, str]) -> Remark:
    """Returns a note that nodes have to run first, FED with files: a GraphDef has no place for initialisers."""
    text = f"run {', '.join(map(quoted, initialisers))} before the graph, to initialize its tables"
    files = "".join(f", and feed {quoted(tensor)} with the path of {printable(path)}" for tensor, path in fed.items())
    return Remark(text + files, "run-before", nodes=list(initialisers), feeds=dict(fed))


def _now(graph: Graph, end: Output) -> Output:
    """An output, and the constant of one that was a variable."""
    if end.node.op not in VARIABLES:
        return end
    return graph[_file_name(end.node)].output
