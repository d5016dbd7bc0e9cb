"""freeze: replaces the variables that some outputs depend on by constants, with the values of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.analysis.traversal.walks import members
from gdsurgeon.edits.change_signatures import DEFAULT_KEY, signature_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.edits.extract import cut_down, needed
from gdsurgeon.edits.handles import FrozenValue, HandleConversion
from gdsurgeon.errors import EditError, Line, Remark, printable, quoted
from gdsurgeon.graph.attrs import format_shape, shape_of
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.kinds import PLACEHOLDERS, VARIABLES, is_table, is_variable
from gdsurgeon.text import Entry, counted, size


@edit(inputs=of_tensors, outputs=of_tensors)
def freeze(
    graph: Graph, *, signatures: Sequence[str] = (), outputs: Sequence[str] = (), inputs: Sequence[str] = ()
) -> EditResult:
    """Reduces the graph of a SavedModel or MetaGraph to what `outputs` need, with constants instead of variables.

    A constant has the name of its variable. Its value is copied from the checkpoint when the graph is written.
    Functions stay; their arguments become values instead of variables.

    Args:
        graph: changed in place.
        signatures: the keys of the signatures to freeze if `outputs` is empty. By default ``serving_default``, or the
            only signature.
        outputs: tensors.
        inputs: tensors at which to cut, for `outputs`; see `gdsurgeon.edits.extract.extract`.

    Raises:
        EditError: no such signature or tensor; a variable has no value in the checkpoint, or a value of a different
            shape; a needed node writes to a variable, or needs its handle.
    """
    serving = serving_of(graph)
    if serving is None:
        raise EditError(
            f"{printable(graph.source_name)} is already a frozen GraphDef; freeze expects a SavedModel, or a "
            ".meta file with its checkpoint",
            code="wrong-format",
            file=graph.source_name,
        )
    keys = () if outputs else tuple(signatures or (_default(graph, serving),))
    if outputs:
        starts, ends = _tensors(graph, inputs), _tensors(graph, outputs)
    else:
        starts, ends = _served(graph, serving, keys)
    topology = topology_of(graph)
    kept = [topology.node(number) for number in members(needed(topology, starts, ends))]
    variables = [node for node in kept if is_variable(node.op)]
    weights = _weights(graph, serving, variables) if variables else None
    handles = HandleConversion(graph, kept)
    for node in variables:
        assert weights is not None
        handles.convert_handle(node.output, _value(node, weights))
    handles.check()

    nodes, functions = handles.apply()
    constants = _put_constants(graph, kept, variables, weights) if weights is not None else []
    initialisers, groups = _initialisers(graph, serving, kept)
    graph.stand_alone()
    ends = [graph[_file_name(end.node)].output if end.node.op in VARIABLES else end for end in ends]
    result = cut_down(graph, starts, ends, initialisers)
    intent = result.intent
    intent.added += constants
    intent.removed = [name for name in intent.removed if name not in constants and name in graph.pristine()]
    intent.changed += [name for name in (*nodes, *groups) if name in graph]
    intent.functions.changed = [name for name in functions if name in graph.functions]
    if initialisers:
        feeds = serving.initialising.feeds if serving.initialising is not None else {}
        files = {tensor: path for tensor, path in feeds.items() if graph.find(tensor.partition(":")[0]) is not None}
        result.notes.append(run_first([node.name for node in initialisers], files))
    for key in keys:  # the tensors that have different names in the signature
        for side in (serving.signatures[key].inputs, serving.signatures[key].outputs):
            if named := [f"{name} = {tensor}" for name, tensor in side.items() if name != tensor]:
                result.told.append(Entry("called", "", named))
    if weights is not None:
        result.told.append(Entry("frozen", f"{counted(len(constants), 'variable')}, {size(weights.source.size)}"))
    return result


def _tensors(graph: Graph, texts: Iterable[str]) -> list[Output]:
    return list(dict.fromkeys(graph.output(text) for text in texts))


def _served(graph: Graph, serving: Serving, keys: Sequence[str]) -> tuple[list[Output], list[Output]]:
    """Returns the inputs and the outputs of the signatures `keys`."""
    found = {key: signature_of(graph, serving, key) for key in keys}
    starts = {key: _tensors(graph, served.inputs.values()) for key, served in found.items()}
    ends = {key: _tensors(graph, served.outputs.values()) for key, served in found.items()}
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
                    signature=key,
                    tensor=hit.name,
                    other=other,
                )
    unique = dict.fromkeys(tensor for tensors in starts.values() for tensor in tensors)
    return list(unique), list(dict.fromkeys(tensor for tensors in ends.values() for tensor in tensors))


def _default(graph: Graph, serving: Serving) -> str:
    """Returns the key of the default signature."""
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


def _weights(graph: Graph, serving: Serving, variables: Sequence[Node]) -> Graph:
    """Returns a graph of constants with the values of the variables."""
    if serving.weights is None:
        raise EditError(
            Line(
                "{model} has no checkpoint, so its {count} variables have no values; name one with {checkpoint}",
                model=printable(graph.source_name),
                count=f"{len(variables):,}",
            ),
            code="no-checkpoint",
            file=graph.source_name,
            count=len(variables),
        )
    dtypes = {node: dtype if isinstance(dtype := node.plain_attr("dtype"), int) else 0 for node in variables}
    return Graph(serving.weights({_file_name(node): (dtype, node.device) for node, dtype in dtypes.items()}))


def _file_name(node: Node) -> str:
    return node.base_name or node.name


def _value(node: Node, weights: Graph) -> FrozenValue:
    """Returns the value of a variable. Raises EditError if its shape differs from the stated shape."""
    header = constant_header(weights[_file_name(node)])
    assert header is not None
    stated = node.attr("shape")
    shape = shape_of(stated.shape) if stated is not None else None
    dims = header.dims or ()
    # In old graphs, a VariableV2 of unknown shape states the shape of a scalar; the checkpoint has the shape then.
    if shape and (len(shape) != len(dims) or any(a not in (-1, b) for a, b in zip(shape, dims, strict=True))):
        raise EditError(
            f"the variable {quoted(node.name)} has the shape {format_shape(shape)}, but its value in the "
            f"checkpoint has {format_shape(dims)}",
            code="shape-mismatch",
            variable=node.name,
            expected=shape,
            found=dims,
        )
    return FrozenValue(node.name, header.dtype, dims)


def _put_constants(graph: Graph, kept: Sequence[Node], variables: Sequence[Node], weights: Graph) -> list[str]:
    """Adds a constant with the name of each variable, and connects it to the `kept` consumers. Returns the names."""
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
    """Returns the nodes that a loader runs to initialise the `kept` tables, and the names of changed groups.

    A group is a NoOp that depends on initialisers. It loses its control inputs that initialise other things.
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


def run_first(initialisers: Sequence[str], fed: Mapping[str, str]) -> Remark:
    """Returns a note that the user runs `initialisers` first, and feeds them with files: a GraphDef has no place for
    this information."""
    text = f"run {', '.join(map(quoted, initialisers))} before the graph, to initialize its tables"
    files = "".join(f", and feed {quoted(tensor)} with the path of {printable(path)}" for tensor, path in fed.items())
    return Remark(text + files, "run-before", nodes=list(initialisers), feeds=dict(fed))
