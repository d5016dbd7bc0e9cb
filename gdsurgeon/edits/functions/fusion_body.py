"""The body of a fusion: the function, and what it is called with. With another graph as the body: how the two fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.shapes.stated import describe, mismatch
from gdsurgeon.edits.functions.definition import check_fusible, is_large_constant, make_function, name_function
from gdsurgeon.edits.functions.merge import plan_function_merge, respell_body
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.wire.protos import FunctionDef


@dataclass
class FusionBody:
    """What a selection becomes.

    Attributes:
        function: the FunctionDef.
        inputs: what the call reads; a tensor of another graph is that of a constant that comes along.
        nodes: the nodes in the function.
        library: functions that it calls, to be added.
        dropped: outputs of the selection that it does not return.
        warnings, notes: a line each.
    """

    function: FunctionDef
    inputs: Sequence[Output]
    nodes: Sequence[Node]
    library: Sequence[FunctionDef] = ()
    names: Mapping[Node, str] = field(default_factory=dict)
    dropped: Sequence[Output] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()

    def add_inputs(self, graph: Graph, after: Node, added: list[str]) -> list[Output]:
        """The tensors of GRAPH that the call reads; constants of another graph are copied into it."""
        out: list[Output] = []
        for output in self.inputs:
            if output.node.graph is graph:
                out.append(output)
            else:
                copy = graph.add_copy(self.names[output.node], output.node, after=after)
                added.append(copy.name)
                out.append(copy.output)
        return out


class Hole(NamedTuple):
    """What a function is to take the place of.

    Attributes:
        inputs: tensors that the selection reads, in the order of first use.
        outputs: tensors that the selection gives, in their order.
        optional: those of OUTPUTS that the function need not return.
        name: the beginning of the function's name.
        attrs: bool attrs of the function.
        hands_constants: whether large constants are handed to the function, which in a while loop they cannot be.
    """

    inputs: Sequence[Output]
    outputs: Sequence[Output]
    optional: Collection[Output]
    name: str
    attrs: Mapping[str, bool]
    hands_constants: bool = True


def bind_body(graph: Graph, hole: Hole, body: Graph, mapped: Sequence[tuple[str, str]]) -> FusionBody:
    """BODY as the function that takes the inputs of HOLE (those that it needs) and gives its outputs.

    Args:
        graph: left as it is.
        hole: what the function takes the place of.
        body: a graph; its placeholders stand for inputs, what nobody reads in it for outputs. Pairs are made as MAPPED
            has them, then by equal names, then by order of first use where as many are left on both sides.
        mapped: (tensor of GRAPH, node or tensor of BODY).

    Raises:
        EditError: the two do not fit; the message says which tensors are left, or differ.
    """
    wanted = _BoundaryMap(graph, body, hole, mapped)
    placeholders = wanted.placeholders()
    results = wanted.results()
    warnings: list[str] = []
    for tensor, inner in (*placeholders.items(), *results.items()):
        _check_fits(tensor, inner, body, warnings)
    stand_ins = {placeholder.node for placeholder in placeholders.values()}
    inside = [node for node in body.nodes() if node not in stand_ins]
    constants = {node: None for node in inside if hole.hands_constants and is_large_constant(node)}
    nodes = [node for node in inside if node not in constants]
    _check_nodes(nodes, body)
    merge = plan_function_merge(graph.functions, body.functions)
    handed = [node.output for node in constants]
    inner_outputs = [results[output] for output in hole.outputs if output in results]
    function = make_function(nodes, [*placeholders.values(), *handed], inner_outputs, attrs=hole.attrs)
    respell_body(function, merge.renamed)
    name_function(function, hole.name)
    unique = graph.unique_names()
    names = {node: unique(f"{hole.name}/{node.name}") for node in constants}
    unneeded = [output for output in hole.inputs if output not in placeholders]
    source = printable(body.source_name)
    notes: list[str] = [
        Remark(f"the input {quoted(output.name)} is not used by {source}", "not-needed", tensor=output.name)
        for output in unneeded
    ]
    dropped = [output for output in hole.outputs if output not in results]
    for output in dropped:
        text = f"{quoted(output.name)} is removed: it has no consumers, and {source} does not compute it"
        notes.append(Remark(text, "no-result", tensor=output.name))
    return FusionBody(function, [*placeholders, *handed], nodes, merge.added, names, dropped, warnings, notes)


def _check_nodes(nodes: Iterable[Node], body: Graph) -> None:
    for node in nodes:
        where = f"{quoted(node.name)} of {printable(body.source_name)}"
        if node.op_def is None:
            # A function names the outputs of its ops, and what those are called stands in the op's library alone.
            message = f"{where}: the op {printable(node.op)} is unknown in this version of TensorFlow"
            facts = {"node": node.name, "op": node.op, "file": body.source_name}
            raise EditError(message, code="unknown-op", advice="put-in-place", facts=facts)
        if node.op in PLACEHOLDERS:
            message = f"{where} is a placeholder that is not mapped to an input of the selection"
            raise EditError(message, code="no-such-input", facts={"node": node.name, "file": body.source_name})
        check_fusible(node)


class _BoundaryMap:
    """Which tensor at the boundary stands for which of the body."""

    def __init__(self, graph: Graph, body: Graph, hole: Hole, mapped: Sequence[tuple[str, str]]) -> None:
        self.body = body
        self.inputs, self.outputs, self.optional = hole.inputs, hole.outputs, hole.optional
        self.for_input: dict[Output, Output] = {}
        self.for_output: dict[Output, Output] = {}
        for tensor, inner in mapped:
            self._map(graph.tensor(tensor), body.tensor(inner))

    def _map(self, tensor: Output, inner: Output) -> None:
        if tensor in self.inputs and inner.node.op in PLACEHOLDERS:
            chosen = self.for_input
        elif tensor in self.outputs:
            chosen = self.for_output
        else:
            ends = [output.name for output in (*self.inputs, *self.outputs)]
            listed = ", ".join(map(quoted, ends))
            message = f"{quoted(tensor.name)} is not an input or output of the selection; these are {listed}"
            raise EditError(message, code="not-at-boundary", facts={"tensor": tensor.name, "boundary": ends})
        if tensor in chosen or (chosen is self.for_input and inner in chosen.values()):
            message = f"{quoted(tensor.name)} or {quoted(inner.name)} is mapped twice"
            raise EditError(message, code="given-twice", facts={"tensor": tensor.name, "name": inner.name})
        chosen[tensor] = inner

    def placeholders(self) -> dict[Output, Output]:
        """For the inputs that the body needs, its placeholders."""
        found = self._by_name_and_order(self.inputs, _placeholders(self.body), dict(self.for_input), "input")
        # The call's arguments come in the order of the selection's inputs.
        return {tensor: found[tensor] for tensor in self.inputs if tensor in found}

    def results(self) -> dict[Output, Output]:
        """For each output, the tensor of the body that takes its place."""
        given = [o for node in output_nodes(self.body) for o in node.outputs]
        # A constant that nobody reads is no output, unless it has the name of one.
        namesakes = [self.body.find(tensor.name) for tensor in self.outputs]
        given += [n.output for n in namesakes if n is not None and n.op == "Const" and n.output not in given]
        found = self._by_name_and_order(self.outputs, given, dict(self.for_output), "output")
        missing = [output for output in self.outputs if output not in found and output not in self.optional]
        if missing:
            raise EditError(
                f"{printable(self.body.source_name)} does not compute {_named(missing)}",
                code="no-result",
                facts={"tensors": [output.name for output in missing]},
                advice="map-boundary",
            )
        return found

    def _by_name_and_order(
        self, tensors: Sequence[Output], inner: Sequence[Output], found: dict[Output, Output], what: str
    ) -> dict[Output, Output]:
        free = [o for o in inner if o not in found.values()]
        by_name = {o.name: o for o in free}
        for tensor in tensors:
            if tensor not in found and tensor.name in by_name:
                found[tensor] = by_name[tensor.name]
        free = [o for o in free if o not in found.values()]
        left = [tensor for tensor in tensors if tensor not in found]
        if len(free) != len(left):
            left = [tensor for tensor in left if tensor not in self.optional]
        if len(free) == len(left):
            found.update(zip(left, free, strict=True))
        elif free and (what == "input" or left):
            raise EditError(
                f"{_named(left)} of the selection cannot be matched with {_named(free)} of "
                f"{printable(self.body.source_name)}: their {what}s must be mapped by name",
                code="ambiguous-pairs",
                facts={f"{what}s": [output.name for output in left], "found": [output.name for output in free]},
                advice="map-boundary",
            )
        return found


def _named(outputs: Sequence[Output]) -> str:
    return ", ".join(quoted(output.name) for output in outputs) or "none"


def _placeholders(body: Graph) -> list[Output]:
    """The placeholders of BODY in the order in which its nodes first read them, unread ones last."""
    nodes = list(body.nodes())
    read = {output: None for node in nodes for output in node.inputs if output.node.op in PLACEHOLDERS}
    read.update((node.output, None) for node in nodes if node.op in PLACEHOLDERS)
    return [output for output in read if output.node.op != "PlaceholderWithDefault"]


def _check_fits(tensor: Output, inner: Output, body: Graph, warnings: list[str]) -> None:
    if not tensor.dtype or not inner.dtype:
        text = f"the dtype of {quoted(tensor.name)} or {quoted(inner.name)} is unknown, so they were not compared"
        warnings.append(Remark(text, "unknown-dtype", tensor=tensor.name, name=inner.name))
    if code := mismatch(tensor, inner):
        facts = {"tensor": tensor.name, "expected": describe(tensor), "name": inner.name, "found": describe(inner)}
        raise EditError(
            f"{quoted(tensor.name)} is {describe(tensor)}, but its replacement {quoted(inner.name)} of "
            f"{printable(body.source_name)} is {describe(inner)}",
            code=code,
            facts=facts,
        )
