"""Nodes as lists: the result of `select`, and a graph as text for comparison line by line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from gdsurgeon.analysis.queries.attr_text import format_attr_bytes
from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.queries.signature import tensor_info
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.compare.side import Form, forms_in
from gdsurgeon.errors import EditError, InputError, Json, printable
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input
from gdsurgeon.graph.node import Node, Output


def lines(
    topology: Topology, groups: Iterable[Iterable[int]], *, tensors: bool, levels: bool, escaped: bool = False
) -> Iterator[str]:
    """Yields the names, one per line, or with `levels` one group per line, separated by spaces.

    Names are exact for programs; with `escaped`, control characters are escaped for a terminal.
    """
    for group in groups:
        names = _tensors(topology, group) if tensors else map(topology.name, group)
        names = map(printable, names) if escaped else names
        if levels:
            yield " ".join(names)
        else:
            yield from names


def as_json(topology: Topology, groups: Iterable[Iterable[int]], levels: bool) -> list[str]:
    """Returns the nodes with their ops and outputs; with `levels`, a list of lists."""
    import json

    found = [[_described(topology.node(number)) for number in group] for group in groups]
    return [json.dumps(found if levels else [node for group in found for node in group], indent=2)]


def _tensors(topology: Topology, group: Iterable[int]) -> Iterator[str]:
    for number in group:
        node = topology.node(number)
        yield from (output.name for output in _outputs(node))


def _outputs(node: Node) -> list[Output]:
    dtypes = node.output_dtypes
    return [Output(node, index) for index in range(1 if dtypes is None else len(dtypes))]


def _described(node: Node) -> dict[str, Json]:
    outputs = [tensor_info(output).as_json() for output in _outputs(node)]
    for output in outputs:
        del output["op"]
    return {
        "name": node.name,
        "op": node.op,
        "inputs": [read.name for read in node.inputs] + [f"^{control.name}" for control in node.controls],
        "outputs": outputs,
    }


MOST_ELEMENTS = 8
"""Elements of a constant that are printed; of one with more its digest."""
LONGEST = 200
"""Characters of an element that are printed."""


def graph_lines(graph: Graph) -> Iterator[str]:
    """Yields the nodes of a graph and of its functions, sorted by name: ``name = Op(input, ...) attr=...``.

    A large constant is shown by its shape and a digest. Redundant facts are left out: shapes recorded by an exporter,
    attrs with default values.
    """
    yield from _nodes(graph, "")
    for name in sorted(function.signature.name for function in graph.functions):
        yield f"function {printable(name)}"
        try:
            yield from _nodes(Body(graph, name, lenient=True).graph, "  ")
        except EditError as error:
            yield f"  {printable(error.message)}"


def _nodes(graph: Graph, indent: str) -> Iterator[str]:
    topology, forms = topology_of(graph), forms_in(graph)
    for number in sorted(topology.numbers(), key=topology.name):
        form, name = forms[number], topology.name(number)
        reads = [
            format_input(topology.name(producer), port) if port >= 0 else f"^{topology.name(producer)}"
            for producer, port in topology.reads(number)
        ]
        reads += ["a missing node"] * topology.reads_missing(number)
        inputs = ", ".join(map(printable, reads))
        what = _constant(graph, name, form) if form.op == "Const" else _attrs(form)
        device = f" @{printable(form.device)}" if form.device else ""
        yield f"{indent}{printable(name)} = {printable(form.op)}({inputs}){what}{device}"


def _attrs(form: Form) -> str:
    found = {key: format_attr_bytes(data) for key, data in form.attrs.items()}
    found |= {key: ",".join(names) for key, names in form.functions.items()}
    kind = f" {typed(*form.tensor)}" if form.tensor is not None else ""
    return kind + "".join(f" {printable(key)}={printable(text)}" for key, text in sorted(found.items()))


def _constant(graph: Graph, name: str, form: Form) -> str:
    kind = typed(*form.tensor) if form.tensor is not None else "unreadable"
    try:
        values = values_of(graph[name])
        if values.count <= MOST_ELEMENTS:
            return f" {kind} {', '.join(printable(str(item))[:LONGEST] for item in values.first(MOST_ELEMENTS))}"
    except InputError:
        pass  # its digest tells as much
    digest = hashlib.blake2b(repr(form.content).encode(), digest_size=6).hexdigest()
    return f" {kind} #{digest}"
