"""simplify: a smaller graph that gives the same, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import Claim, EditResult, SameGiven, SameOutputs, equation
from gdsurgeon.edits.copying.replacing import drop_colocations
from gdsurgeon.edits.functions.unused import drop_unused_functions
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.edits.simplifying.conditions import conditions
from gdsurgeon.edits.simplifying.control_edges import control_edges
from gdsurgeon.edits.simplifying.draft import BITS, CHECKS, CONTROL, Draft, Pass
from gdsurgeon.edits.simplifying.equal_nodes import equal_nodes
from gdsurgeon.edits.simplifying.identities import checks, identities, stop_gradients
from gdsurgeon.edits.simplifying.inlining import inlined, joined, written
from gdsurgeon.edits.simplifying.neutral import neutral
from gdsurgeon.edits.simplifying.pairs import pairs
from gdsurgeon.edits.simplifying.roots import fetched_by_savers, initialising, lasting, served_nodes
from gdsurgeon.edits.simplifying.unread import unread
from gdsurgeon.errors import EditError, NothingToDo, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output, check_reads
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import edit
from gdsurgeon.text import counted, near_miss

FUNCTIONS = "functions"
"""The pass that takes functions out of the library which nobody calls; it comes last."""
INLINE = "inline"
"""The pass that comes first, and once: what it leaves are calls that stay."""
PASSES: dict[str, Pass | None] = {
    INLINE: None,
    "unread": unread,
    "control-edges": control_edges,
    "conditions": conditions,
    "checks": checks,
    "stop-gradients": stop_gradients,
    "identities": identities,
    "neutral": neutral,
    "pairs": pairs,
    "equal-nodes": equal_nodes,
    FUNCTIONS: None,
}
"""What is done, in this order, again and again."""
MOST_OPS = 12
"""Ops of which it is told how many nodes there were and are."""


@naming(outputs=of_tensors)
@edit
def simplify(
    graph: Graph, outputs: Sequence[str | Output] = (), *, passes: Sequence[str] = (), skip: Sequence[str] = ()
) -> EditResult:
    """Makes a graph smaller, until nothing is left to be done. What it gives stays the same, bit for bit.

    Inputs and outputs keep their names, and so does what a model's signatures and savers name. What lasts (an
    assignment, a print) stays, but for what no output needs where OUTPUTS are given.

    Args:
        graph: changed in place.
        outputs: tensors that it is there for; by default what nobody reads, or what a model's signatures give.
        passes: what is to be done, some of `PASSES`; all by default.
        skip: what is not to be done.

    Raises:
        EditError: there is no such pass or tensor, or a node reads what is not there; the graph is as it was.
        NothingToDo: there is nothing to be made simpler.
    """
    chosen = _chosen(passes, skip)
    ends = list(dict.fromkeys(graph.output(item) for item in outputs))
    named = [end.name for end in ends]
    topology = topology_of(graph)
    for number in topology.numbers():
        if topology.reads_missing(number):
            check_reads(topology.node(number))
    was = Counter(map(topology.op, topology.numbers()))
    first = None
    if INLINE in chosen:
        rest = [name for name in chosen if name != INLINE]
        first = inlined(graph, _named(graph, ends), lambda other: _after_inlining(other, named, rest))
    before = graph.pristine() if first is None else written(graph)
    result = _simplified(graph, [graph.output(name) for name in named], chosen, was)
    return result if first is None else joined(first, before, result)


def _after_inlining(graph: Graph, ends: Sequence[str], passes: Sequence[str]) -> None:
    """Has the other passes done on a copy of a graph, to see what it comes to."""
    with suppress(NothingToDo):
        simplify(graph, ends, passes=passes)


def _simplified(graph: Graph, ends: Sequence[Output], chosen: Sequence[str], was: Counter[str]) -> EditResult:
    """All but inlining. WAS: how many nodes there were of each op."""
    topology = topology_of(graph)
    draft = Draft(graph, map(topology.id_of, _named(graph, ends)), keeps_checks="checks" not in chosen)
    for number in fetched_by_savers(draft):
        draft.kept[number] = 1
    draft.roots = [number for number, flag in enumerate(draft.kept) if flag]
    draft.roots += initialising(draft) if ends else lasting(draft)
    _run(draft, [found for name in chosen if (found := PASSES[name]) is not None])
    now = _ops(draft)
    intent = _carry_out(draft)
    if FUNCTIONS in chosen:
        intent.functions.removed = drop_unused_functions(graph)
        draft.counts[FUNCTIONS] = len(intent.functions.removed)
    if not graph.is_changed:
        raise NothingToDo("nothing would change: there is nothing to be made simpler")
    claim: Claim = SameOutputs(deployed=True)
    if ends:
        claim = SameGiven({}, tuple((end.name, end.name) for end in ends), equation(()), deployed=True)
    return EditResult(intent, (claim,), _warnings(was, now), told=[*_told(draft), *_table(was, now)])


def _chosen(passes: Sequence[str], skip: Sequence[str]) -> list[str]:
    for name in (*passes, *skip):
        if name not in PASSES:
            raise EditError(f"there is no pass {quoted(name)}.{near_miss(name, PASSES)}")
    return [name for name in PASSES if name in (passes or PASSES) and name not in skip]


def _named(graph: Graph, ends: Sequence[Output]) -> list[Node]:
    """The nodes whose names stay, with what they give."""
    topology = topology_of(graph)
    inputs = [topology.node(number) for number in topology.with_ops(PLACEHOLDERS)]
    outputs = [end.node for end in ends] or output_nodes(graph)
    return list(dict.fromkeys([*inputs, *outputs, *served_nodes(graph)]))


def _run(draft: Draft, passes: Sequence[Pass]) -> None:
    """Runs PASSES, until none of them finds anything. Each turn leaves fewer nodes or edges than there were."""
    done = -1
    while done != draft.counts.total():
        done = draft.counts.total()
        for each in passes:
            each(draft)


def _carry_out(draft: Draft) -> Intent:
    """Has the graph be as the draft is."""
    graph, topology = draft.graph, topology_of(draft.graph)
    numbers = sorted(number for number in draft.changed if not draft.gone[number])
    nodes = {number: topology.node(number) for number in numbers}
    going = [topology.node(number) for number in topology.numbers() if draft.gone[number]]
    intent = Intent(removed=[node.name for node in going])
    for number, node in nodes.items():
        codes = list(draft.topology.inputs(number))
        inputs = [Output(topology.node(c >> BITS), c & CONTROL) for c in codes if c & CONTROL != CONTROL]
        controls = [topology.node(code >> BITS) for code in codes if code & CONTROL == CONTROL]
        if list(node.controls) != controls or number in draft.merges:
            intent.changed.append(node.name)
        if number not in draft.merges:
            slots = enumerate(zip(node.inputs, inputs, strict=True))
            intent.rewired += [Rewired(node.name, i, old.name, new.name) for i, (old, new) in slots if old != new]
        graph.set_inputs(node, inputs)
        graph.set_controls(node, controls)
    for number in draft.merges:
        if not draft.gone[number]:
            _become_identity(graph, topology.node(number))
    drop_colocations(graph, going)
    graph.remove(going)
    return intent


def _become_identity(graph: Graph, node: Node) -> None:
    graph.set_op(node, "Identity")
    for key in ("N", "_output_shapes"):
        if node.has_attr(key):
            graph.set_attr(node, key, None)


# -- what is told ---------------------------------------------------------------------------------------------


def _ops(draft: Draft) -> Counter[str]:
    return Counter(draft.topology.op(number) for number in draft.topology.numbers() if not draft.gone[number])


def _told(draft: Draft) -> list[tuple[str, str]]:
    counts = [f"{name} {draft.counts[name]:,}" for name in PASSES if draft.counts[name]]
    return [("passes", ", ".join(counts))] if counts else []


def _table(was: Counter[str], now: Counter[str]) -> list[tuple[str, str]]:
    """The ops of which there are fewer, or more, those first that have lost most."""
    changed = sorted((op for op in was | now if was[op] != now[op]), key=lambda op: (now[op] - was[op], op))
    wide = max(map(len, changed[:MOST_OPS]), default=0)
    lines = [("ops", f"{printable(op):<{wide}}  {was[op]:,}  ->  {now[op]:,}") for op in changed[:MOST_OPS]]
    more = [("ops", f"and {counted(len(changed) - MOST_OPS, 'other op')}")] if len(changed) > MOST_OPS else []
    return lines + more


def _warnings(was: Counter[str], now: Counter[str]) -> list[str]:
    """That checks are gone."""
    lost = [f"{was[op] - now[op]:,} {op}" for op in sorted(CHECKS) if now[op] < was[op]]
    return [f"{' and '.join(lost)} gone: what was refused in a run is computed now"] if lost else []
