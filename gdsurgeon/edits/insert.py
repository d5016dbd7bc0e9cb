"""insert: a graph with one input and one output, spliced into a tensor, or into each of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.analysis.traversal.control_flow import control_flow_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, SameGiven, SamePart, SameTensors, equation
from gdsurgeon.edits.naming import naming, of_sites
from gdsurgeon.edits.node_copies import NodeCopy, plan_copy
from gdsurgeon.edits.parts import check_fits
from gdsurgeon.edits.replacing import check_outside_of_loops, unrenamed_outputs
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import scope_prefix
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.select import Selection, nodes_of
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import Entry, counted


class _Site(NamedTuple):
    """Where a graph is spliced in.

    Attributes:
        tensor: whose consumers read what BODY returns for it.
        uses: they.
        body: the graph, with its `placeholder` and its `result`.
        scope: that its nodes come under.
    """

    tensor: Output
    uses: list[Use]
    body: Graph
    placeholder: Node
    result: Output
    scope: str

    def plan(self, graph: Graph) -> NodeCopy:
        """The copy of the body. Raises EditError: a name is taken or illegal."""
        prefix = scope_prefix(self.scope)
        own = (node for node in self.body.nodes() if node is not self.placeholder)
        names = {node: prefix + node.name for node in own} if prefix else {}
        taken = [name for name in names.values() if name in graph]
        if taken:
            message = f"the name {quoted(taken[0])} is taken; choose a different scope than {quoted(self.scope)}"
            raise EditError(message, code="name-taken", name=taken[0])
        return plan_copy(graph, self.body, replace={self.placeholder: self.tensor}, names=names)


@public
@naming(tensor=of_sites)
@edit
def insert(
    graph: Graph,
    tensor: str | Output | Selection | Iterable[str | Output],
    body: Graph | Callable[[Output], Graph],
    *,
    scope: str = "",
) -> EditResult:
    """Makes the consumers of TENSOR read the result of BODY for TENSOR.

    Args:
        graph: changed in place.
        tensor: of GRAPH; or several, or a selection, which means the first output of each selected node that has
            consumers. Of several, each gets a copy of BODY under its own name.
        body: a graph with one placeholder and one output, of the dtype and shape of TENSOR; left as it is; its source
            must stay open until GRAPH is written. Or a function that returns it for a tensor, whose names are kept.
        scope: the name scope that the nodes of BODY come under; without one, a name that is taken is made unique. If
            BODY is inserted several times, the scope comes below the name of each tensor.

    Raises:
        EditError: BODY has more or fewer than one input and output, types differ, a name is taken, or TENSOR has no
            consumers; GRAPH is as it was.
    """
    tensors, notes = _tensors(graph, tensor)
    is_one = isinstance(tensor, (str, Output))
    warnings: list[str] = []
    of_many = not is_one and isinstance(body, Graph)
    sites = [_site(graph, found, body, _scope(found, scope) if of_many else scope, warnings) for found in tensors]
    for site in sites:
        site.plan(graph)
    intent = Intent()
    parts: list[SamePart] = []
    given: dict[str, str] = {}
    for site in sites:
        copied = site.plan(graph).apply(site.tensor.node)
        new, old = copied.output(site.result), site.tensor.name
        own = copied.intent()
        own.rewired = [Rewired(use.node.name, use.slot, old, new.name) for use in site.uses]
        graph.reroute(site.uses, new)
        intent = intent.then(own)
        given[old] = new.name
        parts.append(SamePart(site.body, {site.placeholder.name: old}, ((site.result.name, new.name),), own.copied))
        notes += copied.notes(site.body)
    statement = equation([f"{printable(old)} := {printable(new)}" for old, new in given.items()])
    outputs = unrenamed_outputs(graph)
    result = EditResult(intent, warnings=warnings, notes=notes)
    result.decided["bodies"] = [site.body for site in sites]
    if is_one:
        result.claims = (SameTensors(tuple(given)), *parts, SameGiven(given, outputs, statement))
        return result
    # In one trial, in which each tensor is compared and what reads it is given another.
    pairs = dict.fromkeys([*outputs, *((name, name) for name in given)])
    flow = control_flow_of(graph)
    plain = [flow.runs_once(flow.topology.id_of(site.tensor.node)) for site in sites]
    within = [part for part, once in zip(parts, plain, strict=True) if once]
    for part in within:
        part.in_place = True
    claim = SameGiven(given, tuple(pairs), statement, parts=within, sites=tuple(given))
    result.claims = (claim, *(part for part, once in zip(parts, plain, strict=True) if not once))
    result.told = [Entry("inserted", f"{counted(len(sites), 'graph')}")]
    return result


def _tensors(graph: Graph, wanted: str | Output | Selection | Iterable[str | Output]) -> tuple[list[Output], list[str]]:
    """The tensors that are WANTED, and a note for each selected node that has no consumers of its first output."""
    if isinstance(wanted, (str, Output)):
        return [graph.output(wanted)], []
    if not isinstance(wanted, Selection):
        return list(dict.fromkeys(graph.output(item) for item in wanted)), []
    nodes = [node for node in nodes_of(graph, wanted) if node.output_count]
    found = [node.output for node in nodes if graph.uses(node.output)]
    if not found:
        raise EditError(
            "nothing would change: the selected nodes have no consumers",
            code="no-consumers",
            tensors=[node.name for node in nodes[:10]],
        )
    idle = [node.name for node in nodes if node.output not in found]
    return found, [
        Remark(f"{quoted(name)} has no consumers: nothing is inserted", "no-consumers", node=name) for name in idle
    ]


def _scope(tensor: Output, scope: str) -> str:
    """The scope of a copy for one of several tensors."""
    own = f"{tensor.node.name}_{tensor.index}" if tensor.index else tensor.node.name
    return f"{own}/{scope}".strip("/")


def _site(
    graph: Graph, tensor: Output, wanted: Graph | Callable[[Output], Graph], scope: str, warnings: list[str]
) -> _Site:
    """TENSOR as a site. Raises EditError: see `insert`."""
    body = wanted if isinstance(wanted, Graph) else wanted(tensor)
    placeholders = [node for node in input_nodes(body) if node.op != "PlaceholderWithDefault"]
    results = [output for node in output_nodes(body) for output in node.outputs]
    for what, found in (("placeholder", [p.name for p in placeholders]), ("output", [r.name for r in results])):
        if len(found) != 1:
            listed = f" ({', '.join(map(quoted, found[:5]))})" if found else ""
            message = f"{printable(body.source_name)} has {len(found)} {what}s{listed}; exactly one is required"
            raise EditError(message, code="wrong-count", facts={f"{what}s": found})
    placeholder, result = placeholders[0], results[0]
    check_fits(tensor, graph, placeholder.output, body, warnings)
    check_fits(result, body, tensor, graph, warnings)
    if any(not node.inputs and node is not placeholder for node in body.nodes()):
        check_outside_of_loops(topology_of(graph), [tensor])
    uses = graph.uses(tensor)
    if not uses:
        raise EditError(
            f"nothing would change: {quoted(tensor.name)} has no consumers",
            code="no-consumers",
            tensor=tensor.name,
            hint="add-postprocessing adds a graph after an output",
        )
    return _Site(tensor, uses, body, placeholder, result, scope)
