"""add-postprocessing: a graph behind a model's outputs; what is served keeps its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.arguments import public
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult, Interface, Postprocessed
from gdsurgeon.edits.naming import naming, of_field, of_tensors
from gdsurgeon.edits.node_copies import plan_copy
from gdsurgeon.edits.parts import Binding, Mapped, bind, check_fits
from gdsurgeon.edits.replacing import hand_on
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, check_typed
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import edit

SUFFIX = "_postprocessed"
RAW_SUFFIX = "_raw"


@public
@naming(mapped=of_field("model", of_tensors))
@edit
def add_postprocessing(graph: Graph, post: Graph, *, mapped: Sequence[Mapped] = ()) -> EditResult:
    """Puts POST behind the outputs of GRAPH.

    Every Placeholder ``X`` of POST must be a node of GRAPH, and POST must hold ``X_postprocessed``. The result is
    served under the name ``X``; the raw value stays available as ``X_raw`` (made unique), and what reads ``X`` inside
    GRAPH keeps reading the raw value. A mapping can name ``X:1``; the other outputs of ``X`` keep their values.

    Args:
        graph: changed in place.
        post: left as it is; its source must stay open until GRAPH is written.
        mapped: bindings that do not follow the convention.

    Raises:
        EditError: the graphs do not fit; which tensor of which graph, and what was expected, is in the message;
            GRAPH is as it was.
    """
    bindings = bind(graph, post, SUFFIX, mapped)
    warnings: list[str] = []
    for binding in bindings:
        _check_served(graph, post, binding, warnings)
    served = {b: b.node.name for b in bindings}
    unique = graph.unique_names()
    raws = {node: unique(node.name + RAW_SUFFIX) for node in dict.fromkeys(b.node for b in bindings)}
    raw = {b: raws[b.node] for b in bindings}
    direct = _named_directly(bindings)
    plan = plan_copy(
        graph,
        post,
        replace={b.placeholder: b.output for b in bindings},
        names={b.result.node: served[b] for b in bindings if b in direct},
        reserved=(*served.values(), *raw.values()),
    )
    for binding in bindings:
        if binding not in direct:
            check_typed(binding.result)

    names = {node: node.name for node in raws}
    graph.rename(raws)
    copied = plan.apply()
    intent = copied.intent()
    intent.renamed = {names[node]: name for node, name in raws.items()}
    for node, name in names.items():
        behind = {b.output: copied.output(b.result) for b in bindings if b.node is node and b not in direct}
        if behind:
            hand_on(graph, name, [behind.get(output, output) for output in node.outputs])
            intent.added.append(name)
    claim = Postprocessed(
        post,
        tuple(Interface(b.called(served[b]), b.placeholder.name, b.result.name, b.called(raw[b])) for b in bindings),
    )
    notes: list[str] = [
        Remark(f"the raw value of {quoted(old)} is now {quoted(new)}", "renamed", name=old, found=new)
        for old, new in ((served[b], raw[b]) for b in bindings if not _is_raw(b))
    ]
    notes += _unseen(graph, post, bindings, intent) + copied.notes(post)
    return EditResult(intent, (claim,), warnings, notes)


def _is_raw(binding: Binding) -> bool:
    """Whether what is served is the raw value still: POST gives more beside it."""
    result = binding.result.node
    return result.op == "Identity" and result.inputs[0] == binding.placeholder.output


def _unseen(graph: Graph, post: Graph, bindings: Sequence[Binding], intent: Intent) -> list[str]:
    """A note on what POST gives besides, where callers see only what signatures give."""
    serving = serving_of(graph)
    if serving is None or not serving.called:
        return []
    results = {binding.result.node for binding in bindings}
    besides = [intent.copied[n.name] for n in output_nodes(post) if n not in results and n.name in intent.copied]
    return [
        Remark(
            f"no signature returns {quoted(name)}; the command signature can add this output", "not-served", name=name
        )
        for name in besides
    ]


def _check_served(graph: Graph, post: Graph, binding: Binding, warnings: list[str]) -> None:
    node = binding.node
    outputs = node.output_dtypes
    where = f"{quoted(node.name)} of {printable(graph.source_name)} ({_op(node)})"
    if node.op in PLACEHOLDERS:
        message = f"{where} is an input of the model; postprocessing is added after an output"
        raise EditError(message, code="is-input", node=node.name)
    if not (outputs is None or outputs):
        message = f"{where} has no output; postprocessing needs a node with an output"
        raise EditError(message, code="wrong-count", facts={"node": node.name, "expected": 1, "found": 0})
    check_fits(binding.output, graph, binding.placeholder.output, post, warnings)


def _named_directly(bindings: Sequence[Binding]) -> set[Binding]:
    """The bindings whose result can be a node of the served name; the others are served by an Identity."""
    results = Counter(binding.result.node for binding in bindings)
    placeholders = {binding.placeholder for binding in bindings}
    return {
        b
        for b in bindings
        if b.result.index == 0
        and results[b.result.node] == 1
        and b.result.node not in placeholders
        and len(b.result.node.outputs) == 1
        and len(b.node.outputs) <= 1
    }


def _op(node: Node) -> str:
    return printable(node.op)
