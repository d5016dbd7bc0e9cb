"""insert: a graph with one input and one output, spliced into a tensor."""

from __future__ import annotations

from gdsurgeon.analysis.queries.signature import input_nodes, output_nodes
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.claims import EditResult, SameGiven, SamePart, SameTensors, equation
from gdsurgeon.edits.copying.copy_in import plan_copy
from gdsurgeon.edits.copying.outputs import unrenamed_outputs
from gdsurgeon.edits.copying.parts import check_fits, check_outside_of_loops
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import scope_prefix
from gdsurgeon.graph.node import Output
from gdsurgeon.specification.asked import edit


@naming(tensor=of_tensors)
@edit
def insert(graph: Graph, tensor: str | Output, body: Graph, *, scope: str = "") -> EditResult:
    """Has everything that reads TENSOR read what BODY makes of it.

    Args:
        graph: changed in place.
        tensor: of GRAPH.
        body: a graph with one placeholder and one output, of the dtype and shape of TENSOR; left as it is; its source
            must stay open until GRAPH is written.
        scope: the name scope that the nodes of BODY come under; a name that is taken is made unique.

    Raises:
        EditError: BODY has more or fewer than one input and output, types differ, or nobody reads TENSOR; GRAPH is as
            it was.
    """
    output = graph.output(tensor)
    placeholders = [node for node in input_nodes(body) if node.op != "PlaceholderWithDefault"]
    results = [output for node in output_nodes(body) for output in node.outputs]
    for what, found in (("placeholder", [p.name for p in placeholders]), ("output", [r.name for r in results])):
        if len(found) != 1:
            listed = f" ({', '.join(map(quoted, found[:5]))})" if found else ""
            message = f"{printable(body.source_name)} has {len(found)} {what}s{listed}: it must have one"
            raise EditError(message, code="wrong-count", facts={f"{what}s": found})
    placeholder, result = placeholders[0], results[0]
    warnings: list[str] = []
    check_fits(output, graph, placeholder.output, body, warnings)
    check_fits(result, body, output, graph, warnings)
    if any(not node.inputs and node is not placeholder for node in body.nodes()):
        check_outside_of_loops(graph, output)
    uses = graph.uses(output)
    if not uses:
        raise EditError(
            f"nothing would change: nobody reads {quoted(output.name)}",
            code="no-consumers",
            facts={"tensor": output.name},
            hint="add-postprocessing puts a graph behind an output",
        )
    prefix = scope_prefix(scope)
    names = {node: prefix + node.name for node in body.nodes() if node is not placeholder} if prefix else {}
    taken = [name for name in names.values() if name in graph]
    if taken:
        message = f"the name {quoted(taken[0])} is taken: another scope than {quoted(scope)} is needed"
        raise EditError(message, code="name-taken", facts={"name": taken[0]})
    after = output.node
    copied = plan_copy(graph, body, replace={placeholder: output}, names=names).apply(after)
    new = copied.output(result)
    intent = copied.intent()
    intent.rewired = [Rewired(use.node.name, use.slot, output.name, new.name) for use in uses]
    graph.reroute(uses, new)
    claims = (
        SameTensors((output.name,)),
        SamePart(body, {placeholder.name: output.name}, ((result.name, new.name),), intent.copied),
        SameGiven(
            {output.name: new.name},
            unrenamed_outputs(graph),
            equation([f"{printable(output.name)} := {printable(new.name)}"]),
        ),
    )
    return EditResult(intent, claims, warnings, copied.notes(body))
