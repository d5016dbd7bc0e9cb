"""import: another graph beside a model, in one file."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.edits.claims import EditResult, SameOutputs, SamePart, SameTensors
from gdsurgeon.edits.copying.copy_in import plan_copy
from gdsurgeon.edits.copying.parts import check_fits, check_outside_of_loops, no_placeholder
from gdsurgeon.edits.naming import naming, of_olds, of_tensors
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import scope_prefix
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import edit


@naming(connect=of_olds(of_tensors))
@edit
def import_graph(
    graph: Graph,
    other: Graph,
    *,
    scope: str = "",
    connect: Sequence[tuple[str, str]] = (),
) -> EditResult:
    """Copies the nodes of OTHER into GRAPH.

    Args:
        graph: changed in place.
        other: left as it is; its source must stay open until GRAPH is written.
        scope: the name scope that the nodes come under; it must not be in use. Without one they keep their names, and
            a name that is taken is made unique.
        connect: (tensor of GRAPH, placeholder of OTHER): what read the placeholder reads the tensor.

    Raises:
        EditError: the scope is in use, no such tensor or placeholder, or types differ; GRAPH is as it was.
    """
    prefix = scope_prefix(scope)
    if prefix and any(name.startswith(prefix) or name == prefix[:-1] for name in graph.names()):
        raise EditError(f"the scope {quoted(prefix[:-1])} is in use", code="name-taken", facts={"scope": prefix[:-1]})
    if other is graph:
        other = graph.pristine()
    warnings: list[str] = []
    replace: dict[Node, Output] = {}
    for tensor, placeholder in connect:
        node = _placeholder(other, placeholder)
        if node in replace:
            message = f"the placeholder {quoted(node.name)} is connected twice"
            raise EditError(message, code="given-twice", facts={"placeholder": node.name})
        replace[node] = graph.tensor(tensor)
        check_fits(replace[node], graph, node.output, other, warnings)
        check_outside_of_loops(graph, replace[node])
    has_outputs = bool(output_nodes(graph))
    names = {node: prefix + node.name for node in other.nodes() if node not in replace} if prefix else {}
    copied = plan_copy(graph, other, replace=replace, names=names).apply()
    served = [output for node in output_nodes(other) for output in node.outputs]
    intent = copied.intent()
    part = SamePart(
        other,
        {node.name: tensor.name for node, tensor in replace.items()},
        tuple((output.name, copied.output(output).name) for output in served if output.node not in replace),
        intent.copied,
    )
    read = tuple(dict.fromkeys(tensor.name for tensor in replace.values()))
    claims = (*((SameOutputs(),) if has_outputs else ()), *((SameTensors(read),) if read else ()), part)
    return EditResult(intent, claims, warnings, copied.notes(other))


def _placeholder(other: Graph, name: str) -> Node:
    node = other[name.removesuffix(":0")]
    if node.op not in PLACEHOLDERS:
        raise no_placeholder(node)
    return node
