"""A graph as text, for a comparison line by line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gdsurgeon.analysis.queries.attr_text import format_attr_bytes
from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.shapes.arithmetic import typed
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.side import Form, forms_in
from gdsurgeon.errors import EditError, InputError, printable
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input

MOST_ELEMENTS = 8
"""The number of elements up to which a constant is printed; larger ones have a digest."""
LONGEST = 200
"""The largest number of printed characters of an element."""


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
