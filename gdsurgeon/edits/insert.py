"""insert: puts a graph with one input and one output between a tensor and its consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.edits.claims import EditResult, SameGiven, SamePart, SameTensors, equation
from gdsurgeon.edits.decorator import edit, of_sites
from gdsurgeon.edits.node_copies import plan_copy
from gdsurgeon.edits.parts import check_fits
from gdsurgeon.edits.replacing import check_outside_of_loops, distinct_outputs, move_uses, unrenamed_outputs
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.select import Selection, nodes_of
from gdsurgeon.text import Entry, counted


class _Site(NamedTuple):
    """A tensor, the graph that is inserted after it, with its input and its output, and the scope of the copy."""

    tensor: Output
    body: Graph
    placeholder: Node
    result: Output
    scope: str


@edit(tensor=of_sites)
def insert(
    graph: Graph,
    tensor: str | Output | Selection | Iterable[str | Output],
    body: Graph | Callable[[Output], Graph],
    *,
    scope: str = "",
) -> EditResult:
    """Makes the consumers of `tensor` read the result of `body` for `tensor`.

    Args:
        graph: changed in place.
        tensor: a tensor, or several, or a selection, which means output 0 of each selected node with consumers. A copy
            of `body` is inserted for each of several tensors, under the name of the tensor.
        body: a graph with one placeholder and one output that have the dtype and shape of `tensor`. It does not change;
            its source must stay open until `graph` is written. Or a function that returns such a graph for a tensor;
            its names are kept.
        scope: the name scope of the copied nodes. Without a scope, names that are taken are made unique. For several
            tensors, it is a scope below the name of the tensor.

    Raises:
        EditError: `body` does not have exactly one input and output, types differ, a name is taken, or `tensor` has no
            consumers. The graph is unchanged.
    """
    is_one = isinstance(tensor, (str, Output))
    result = EditResult()
    tensors = _tensors(graph, tensor, result)
    sites: list[_Site] = []
    for found in tensors:
        own = f"{found.node.name}_{found.index}" if found.index else found.node.name
        below = scope if is_one or not isinstance(body, Graph) else f"{own}/{scope}".strip("/")
        sites.append(_site(graph, found, body if isinstance(body, Graph) else body(found), below, result))

    parts: list[SamePart] = []
    given: dict[str, str] = {}
    for site in sites:
        uses, old = {site.tensor: graph.uses(site.tensor)}, site.tensor.name
        copied = plan_copy(graph, site.body, replace={site.placeholder.output: site.tensor}, scope=site.scope)
        copied.apply(site.tensor.node)
        new, change = copied.output(site.result), copied.intent()
        move_uses(graph, uses, {site.tensor: new}, change)
        result.intent = result.intent.then(change)
        given[old] = new.name
        parts.append(SamePart(site.body, {site.placeholder.name: old}, ((site.result.name, new.name),), change.copied))
        result.notes += copied.notes(site.body)
    statement = equation([f"{printable(old)} := {printable(new)}" for old, new in given.items()])
    outputs = unrenamed_outputs(graph)
    result.decided["bodies"] = [site.body for site in sites]
    if is_one:
        result.claims = (SameTensors(tuple(given)), *parts, SameGiven(given, outputs, statement))
        return result
    # One trial compares all tensors; their consumers read the results of the original.
    pairs = dict.fromkeys([*outputs, *((name, name) for name in given)])
    flow = control_flow_of(graph)
    within: list[SamePart] = []
    separate: list[SamePart] = []
    for site, part in zip(sites, parts, strict=True):
        part.in_place = flow.runs_once(flow.topology.id_of(site.tensor.node))
        (within if part.in_place else separate).append(part)
    result.claims = (SameGiven(given, tuple(pairs), statement, parts=within, sites=tuple(given)), *separate)
    result.told = [Entry("inserted", f"{counted(len(sites), 'graph')}")]
    return result


def _tensors(
    graph: Graph, wanted: str | Output | Selection | Iterable[str | Output], result: EditResult
) -> list[Output]:
    """Returns the tensors; `result` gets a note for each selected node without consumers."""
    if isinstance(wanted, (str, Output)):
        return [graph.output(wanted)]
    if not isinstance(wanted, Selection):
        return distinct_outputs(graph, wanted)
    nodes = [node for node in nodes_of(graph, wanted) if node.output_count]
    found = [node.output for node in nodes if graph.uses(node.output)]
    if not found:
        message = "nothing would change: the selected nodes have no consumers"
        raise EditError(message, code="no-consumers", tensors=[node.name for node in nodes[:10]])
    for name in (node.name for node in nodes if node.output not in found):
        result.note(f"{quoted(name)} has no consumers: nothing is inserted", "no-consumers", node=name)
    return found


def _site(graph: Graph, tensor: Output, body: Graph, scope: str, report: EditResult) -> _Site:
    """Returns the site of a tensor. Raises EditError; see `insert`."""
    placeholders = [node for node in input_nodes(body) if node.op != "PlaceholderWithDefault"]
    results = [output for node in output_nodes(body) for output in node.outputs]
    for what, found in (("placeholder", [p.name for p in placeholders]), ("output", [r.name for r in results])):
        if len(found) != 1:
            listed = f" ({', '.join(map(quoted, found[:5]))})" if found else ""
            message = f"{printable(body.source_name)} has {len(found)} {what}s{listed}; exactly one is required"
            raise EditError(message, code="wrong-count", facts={f"{what}s": found})
    placeholder, result = placeholders[0], results[0]
    check_fits(tensor, graph, placeholder.output, body, report)
    check_fits(result, body, tensor, graph, report)
    if any(not node.inputs and node is not placeholder for node in body.nodes()):
        check_outside_of_loops(graph, [tensor])
    if not graph.uses(tensor):
        message = f"nothing would change: {quoted(tensor.name)} has no consumers"
        hint = "add-postprocessing adds a graph after an output"
        raise EditError(message, code="no-consumers", tensor=tensor.name, hint=hint)
    return _Site(tensor, body, placeholder, result, scope)
