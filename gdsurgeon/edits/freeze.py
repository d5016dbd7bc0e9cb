"""freeze: replaces the variables that some outputs depend on by constants, with the values of the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.shapes.arithmetic import compatible
from gdsurgeon.analysis.traversal.topology import forward_walk, members, topology_of
from gdsurgeon.edits.change_signatures import DEFAULT_KEY, signature_of
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.edits.extract import cut_down, needed
from gdsurgeon.edits.replacing import add_constant, distinct_outputs, move_controls, use_value
from gdsurgeon.errors import EditError, Line, Remark, printable, quoted
from gdsurgeon.graph.attrs import format_shape, shape_of, shape_value, type_value
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import constant_header, tensor_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import INT32, RESOURCE
from gdsurgeon.ops.kinds import (
    CALLS,
    CASES,
    IFS,
    PLACEHOLDERS,
    REFERENCE_OPS,
    STATED_SHAPES,
    VALUE_OPS,
    VARIABLES,
    WHILES,
    is_table,
    is_variable,
)
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
        starts, ends = distinct_outputs(graph, inputs), distinct_outputs(graph, outputs)
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


def _served(graph: Graph, serving: Serving, keys: Sequence[str]) -> tuple[list[Output], list[Output]]:
    """Returns the inputs and the outputs of the signatures `keys`."""
    found = {key: signature_of(graph, serving, key) for key in keys}
    starts = {key: distinct_outputs(graph, served.inputs.values()) for key, served in found.items()}
    ends = {key: distinct_outputs(graph, served.outputs.values()) for key, served in found.items()}
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
    if shape and not compatible(shape, dims):
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
        move_controls(graph, (n for n in graph.users(node) if node in n.controls and n in staying), {node: [constant]})
    return list(names.values())


def _initialisers(graph: Graph, serving: Serving, kept: Sequence[Node]) -> tuple[list[Node], list[str]]:
    """Returns the nodes that a loader runs to initialise the `kept` tables, and the names of changed groups.

    A group is a NoOp that depends on initialisers. It loses its control inputs that initialise other things.
    """
    tables = [node for node in kept if is_table(node.op)]
    topology = topology_of(graph)
    below = forward_walk(topology, map(topology.id_of, tables), control=True)

    def serves(node: Node) -> bool:
        return bool(below[topology.id_of(node)])

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


# -- handles of variables become values, in the graph and in the functions that it calls --------------------


class FrozenValue(NamedTuple):
    """The value that replaces the handle of a variable.

    Attributes:
        variable: the name of the variable's node.
        dtype, shape: of the value.
    """

    variable: str
    dtype: int
    shape: tuple[int, ...]


_VALUE_OPS = {**VALUE_OPS, "DisableCopyOnRead": "NoOp", "ResourceGather": "GatherV2"}
_FORWARDING = frozenset(REFERENCE_OPS.values())
_CHOICES = IFS | CASES
_LIST = dict.fromkeys(CALLS | _CHOICES, "Tin") | dict.fromkeys(WHILES, "T")
"""The attr that lists the dtypes of the arguments of functions."""
_NOTES = ("_read_only_resource_inputs", "_handle_dtypes", "_handle_shapes")
_WRITING = ("Assign", "Scatter", "ResourceScatter", "ResourceApply", "ResourceSparse", "Apply", "SparseApply")
"""How the names of the ops begin that change a variable."""


class HandleConversion:
    """Converts the consumers of handles, which become values, in a graph and in the functions that it calls.

    Args:
        graph: the graph of the variables.
        kept: its nodes that matter. The caller removes the other nodes later.
    """

    def __init__(self, graph: Graph, kept: Iterable[Node]) -> None:
        self._graph = graph
        self._kept = dict.fromkeys(kept)
        self._bodies: dict[str, Body] = {}
        self._body_of: dict[Graph, Body] = {}
        self._values: dict[Output, FrozenValue] = {}
        self._read: dict[Node, dict[int, FrozenValue]] = {}
        self._callers: dict[Body, dict[Node, None]] = {}
        self._returned: dict[Body, dict[int, None]] = {}
        self._pending: list[Output] = []

    def convert_handle(self, tensor: Output, value: FrozenValue) -> None:
        """Marks a tensor as a value."""
        if tensor not in self._values:
            self._values[tensor] = value
            self._pending.append(tensor)

    def check(self) -> None:
        """Follows the marked tensors to their consumers.

        Raises:
            EditError: a node writes to a variable; a node of an unknown op uses a handle; or the calls of a function
                pass a value and a handle for one argument.
        """
        while self._pending:
            tensor = self._pending.pop()
            graph = graph_of(tensor)
            for node, slot in graph.uses(tensor):
                if graph is not self._graph or node in self._kept:
                    self._follow(node, slot, self._values[tensor])
        for nodes in (self._kept, *(body.graph.nodes() for body in self._bodies.values())) if self._bodies else ():
            for node in nodes:
                self._check_call(node)

    def apply(self) -> tuple[list[str], list[str]]:
        """Converts all consumers. Returns the names of the changed nodes, and of the changed functions."""
        for node, slots in self._read.items():
            self._convert(node, slots)
        for body in self._bodies.values():
            for argument in body.arguments:
                if (value := self._values.get(argument.output)) is not None:
                    body.retype(argument, value.dtype, value.shape)
            body.commit()
        changed = (node for node in self._read if graph_of(node) is self._graph)
        return [node.name for node in changed if node.name in self._graph], list(self._bodies)

    # -- following ---------------------------------------------------------------------------------------------

    def _where(self, node: Node) -> tuple[str | None, str]:
        """Returns the name of the function that contains a node, and the same as text; None and '' for the graph."""
        body = self._body_of.get(graph_of(node))
        return (None, "") if body is None else (body.name, f" in the function {quoted(body.name)}")

    def _follow(self, node: Node, slot: int, value: FrozenValue) -> None:
        """Notes that a node reads a value in `slot`, and marks the outputs that forward this value."""
        if slot in self._read.get(node, {}):
            return
        forwarded = self._forwarded(node, slot, value)
        if forwarded is None:
            return  # the op accepts a value as well as a reference
        self._read.setdefault(node, {})[slot] = value
        for index in forwarded:
            self.convert_handle(Output(node, index), value)

    def _forwarded(self, node: Node, slot: int, value: FrozenValue) -> Iterable[int] | None:
        """Returns the outputs of a node that become values if `slot` does; None if the node need not change."""
        op, body = node.op, self._body_of.get(graph_of(node))
        if body is not None and node in body.results:
            index = body.results.index(node)
            self._returned[body][index] = None
            for call in self._callers[body]:
                self.convert_handle(Output(call, index), value)
            return ()
        if op in _VALUE_OPS:
            return ()
        if op in REFERENCE_OPS or (op in _FORWARDING and node.plain_attr("T") == RESOURCE):
            return (0, 1) if op.endswith("Switch") else (0,)
        function, where = self._where(node)
        if op in _LIST or op in node.graph.functions:
            at = _argument(node, slot)
            if at < 0:
                message = f"{quoted(node.name)}{where} uses the handle of a variable as its condition"
                raise EditError(message, code="needs-handle", node=node.name, function=function)
            return self._into_functions(node, at, value)
        definition = node.op_def
        if (
            definition is not None
            and node.inputs[slot].dtype != RESOURCE
            and not any(argument.is_ref for argument in definition.inputs[: slot + 1])
        ):
            return None
        writes = op.startswith(_WRITING)
        what, without = ("writes to", "") if writes else ("needs the handle of", " without a handle")
        raise EditError(
            f"{quoted(node.name)} ({printable(op)}){where} {what} the variable {quoted(value.variable)}, "
            f"which would become a constant{without}",
            code="is-written" if writes else "needs-handle",
            node=node.name,
            op=op,
            function=function,
            variable=value.variable,
        )

    def _into_functions(self, node: Node, at: int, value: FrozenValue) -> Iterable[int]:
        """Follows the argument number `at` of functions. Returns the outputs of the call that forward it."""
        out = {at: None} if node.op in WHILES else {}
        for name in _functions(node):
            body = self._bodies.get(name)
            if body is None:
                body = self._bodies[name] = Body(self._graph, name)
                self._body_of[body.graph] = body
                self._callers[body], self._returned[body] = {}, {}
            self._callers[body][node] = None
            self.convert_handle(body.arguments[at].output, value)
            out |= self._returned[body]
        return out

    def _check_call(self, node: Node) -> None:
        """Raises EditError if a call passes a handle for an argument that has become a value."""
        for name in _functions(node):
            body = self._bodies.get(name)
            for at, argument in enumerate(body.arguments if body is not None else ()):
                expected = self._values.get(argument.output)
                if expected is not None and at + (node.op in _CHOICES) not in self._read.get(node, {}):
                    raise EditError(
                        f"{quoted(node.name)}{self._where(node)[1]} calls {quoted(name)} with a handle that is not "
                        f"the handle of {quoted(expected.variable)}; one argument cannot be both a value and a handle",
                        code="needs-handle",
                        node=node.name,
                        function=name,
                        variable=expected.variable,
                    )

    # -- converting --------------------------------------------------------------------------------------------

    def _convert(self, node: Node, slots: Mapping[int, FrozenValue]) -> None:
        graph, op, value = graph_of(node), node.op, next(iter(slots.values()))
        body = self._body_of.get(graph)
        if body is not None and node in body.results:
            body.retype(node, value.dtype)
        elif op in _VALUE_OPS:
            inputs: Sequence[Output] | None = () if op == "DisableCopyOnRead" else None
            if op == "ResourceGather":  # a GatherV2 has the axis 0 as a third input
                graph.set_attr(node, "Taxis", type_value(INT32))
                name = graph.unique_names()(f"{node.name}/axis")
                inputs = (*node.inputs[:2], add_constant(graph, name, tensor_value(INT32, (), [0]), node).output)
            use_value(graph, node, _VALUE_OPS[op], value.dtype, inputs)
        elif op in REFERENCE_OPS:
            graph.set_op(node, REFERENCE_OPS[op])
        elif op in _FORWARDING:
            graph.replace_op(node, op, attrs={"T": type_value(value.dtype), STATED_SHAPES: None})
        elif op in _LIST:
            dtypes = node.attr(_LIST[op])
            assert dtypes is not None
            for slot, found in slots.items():
                dtypes.list.type[_argument(node, slot)] = found.dtype
            graph.set_attr(node, _LIST[op], dtypes)
            if op in WHILES:
                for key in ("output_shapes", STATED_SHAPES):
                    shapes = node.attr(key)
                    if shapes is not None and shapes.list.shape:
                        for slot, found in slots.items():
                            shapes.list.shape[slot].CopyFrom(shape_value(found.shape).shape)
                        graph.set_attr(node, key, shapes)
            elif any(Output(node, index) in self._values for index in range(node.output_count or 0)):
                graph.set_attr(node, STATED_SHAPES, None)
        for key in _NOTES:
            if node.has_attr(key):
                graph.set_attr(node, key, None)


def _argument(node: Node, slot: int) -> int:
    """Returns the index of the function argument that an input becomes; -1 for the condition of an If or Case."""
    return slot - 1 if node.op in _CHOICES else slot


def _functions(node: Node) -> list[str]:
    """Returns the functions that a node calls with its inputs as arguments."""
    if node.op in node.graph.functions:
        return [node.op]
    return functions_of(node) if node.op in _LIST else []
