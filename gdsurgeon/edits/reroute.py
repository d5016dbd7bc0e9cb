"""reroute: makes the consumers of a tensor read a different tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.order import find_cycle, spelt_cycle
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import Pairs, pairs_of
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.decorator import edit, of_tensors
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.select import compiled, matching_ends

Slots = dict[Node, dict[int, Output]]


@edit(pairs=of_tensors)
def reroute(
    graph: Graph,
    pairs: Pairs[str | Output, str | Output],
    *,
    swap: bool = False,
    only: str | None = None,
    exclude: str | None = None,
) -> EditResult:
    """Makes the consumers of tensor OLD read tensor NEW.

    All changes refer to the graph before the edit, so pairs do not affect each other. Control inputs do not change.
    Nodes that NEW depends on keep reading OLD, which avoids a cycle.

    Args:
        graph: changed in place.
        pairs: pairs (old, new) of names or outputs of this graph.
        swap: the consumers of NEW also read OLD.
        only: a regular expression (searched); only consumers with matching names change.
        exclude: a regular expression; consumers with matching names do not change.

    Raises:
        UsageError: `only` or `exclude` is not a valid regular expression.
        EditError: no such tensor, dtypes or known shapes differ, nothing would change, or the graph would have a cycle.
            The graph is unchanged.
    """
    wanted, unwanted = (None if pattern is None else compiled(pattern) for pattern in (only, exclude))
    resolved = [(graph.output(old), graph.output(new)) for old, new in pairs_of(pairs)]
    directed = resolved + ([(new, old) for old, new in resolved] if swap else [])
    twice = [old.name for old, count in Counter(old for old, _ in directed).items() if count > 1]
    if twice:
        raise EditError("a tensor is rerouted to two different tensors", code="given-twice", tensors=twice)
    result = EditResult()
    for old, new in resolved:
        for output in (old, new):
            if not output.dtype:
                name, op = output.name, output.node.op
                text = f"the dtype of {quoted(name)} ({printable(op)}) is unknown, so it was not compared"
                result.warn(text, "unknown-dtype", tensor=name, op=op)
        check_can_replace(old, new)

    def allowed(node: Node, _: Output) -> bool:
        return (wanted is None or wanted.search(node.name) is not None) and not (
            unwanted is not None and unwanted.search(node.name)
        )

    with matching_ends():
        slots, upstream = plan_reroute(directed, allowed)
    skipped: list[Remark] = []
    for node, old, new in upstream:
        text = f"{quoted(node.name)} still reads {quoted(old.name)}, because {quoted(new.name)} depends on this node"
        skipped.append(Remark(text, "would-cycle", node=node.name, tensor=old.name, replacement=new.name))
    if not slots:
        raise _nothing_changed(resolved, skipped, is_filtered=bool(only or exclude))
    if len(directed) > 1:
        check_acyclic(topology_of(graph), slots)
    result.intent.rewired = [
        Rewired(node.name, slot, node.inputs[slot].name, output.name)
        for node, changes in slots.items()
        for slot, output in changes.items()
    ]
    graph.set_slots(slots)
    result.notes = [*sorted(set(skipped))]
    return result


def plan_reroute(
    pairs: Iterable[tuple[Output, Output]], allowed: Callable[[Node, Output], bool], *, keep_upstream: bool = True
) -> tuple[Slots, list[tuple[Node, Output, Output]]]:
    """Returns the new inputs of consumers, for pairs (old, new) of tensors of one graph.

    If several pairs change one input slot, the first applies.

    Args:
        pairs: the tensors.
        allowed: returns whether the consumer of a tensor may change.
        keep_upstream: nodes that NEW depends on keep reading OLD; they are returned with OLD and NEW.
    """
    slots: Slots = {}
    upstream: list[tuple[Node, Output, Output]] = []
    for old, new in pairs:
        graph = graph_of(old.node)
        uses = [use for use in graph.uses(old) if allowed(use.node, old)] if old != new else []
        if uses and keep_upstream and (new.node.inputs or new.node.controls):
            topology = topology_of(graph)
            above = topology.upstream([topology.id_of(new.node)], through_loops=False)
            upstream += [(use.node, old, new) for use in uses if above[topology.id_of(use.node)]]
            uses = [use for use in uses if not above[topology.id_of(use.node)]]
        for use in uses:
            slots.setdefault(use.node, {}).setdefault(use.slot, new)
    return slots, upstream


def _nothing_changed(
    pairs: Sequence[tuple[Output, Output]], skipped: Sequence[Remark], *, is_filtered: bool
) -> EditError:
    if skipped:
        text = f"rerouting would make a cycle: {skipped[0]}"
        return EditError(text, code=skipped[0].code, facts=skipped[0].facts)
    if all(old == new for old, new in pairs):
        return EditError("nothing would change: OLD and NEW are the same tensor", code="same-tensor")
    tensors = [old.name for old, _ in pairs]
    names = ", ".join(map(quoted, tensors))
    if is_filtered:
        text = f"nothing would change: no consumer of {names} is selected"
        return EditError(text, code="nothing-selected", tensors=tensors)
    return EditError(f"nothing would change: {names} has no consumers", code="no-consumers", tensors=tensors)


def check_acyclic(topology: Topology, slots: Mapping[Node, Mapping[int, Output]]) -> None:
    """Raises EditError with the cycle that the new inputs would make together."""
    reads = {
        node: ([changes.get(slot, read) for slot, read in enumerate(node.inputs)], node.controls)
        for node, changes in slots.items()
    }
    topology = draft_with(topology, reads)
    cycle = find_cycle(topology)
    if cycle:
        raise EditError(
            f"rerouting would make a cycle: {spelt_cycle(topology, cycle)}",
            code="would-cycle",
            nodes=[topology.name(number) for number in cycle],
        )


def draft_with(topology: Topology, reads: Mapping[Node, tuple[Iterable[Output], Iterable[Node]]]) -> Topology:
    """Returns a draft of `topology` in which nodes have the given data inputs and control inputs."""
    draft = topology.draft()
    for node, (inputs, controls) in reads.items():
        edges = [(read.node, read.index) for read in inputs] + [(n, Table.CONTROL_PORT) for n in controls]
        codes = [draft.id_of(producer) << Table.PORT_BITS | port for producer, port in edges if producer.exists]
        draft.set_inputs(draft.id_of(node), codes)
    return draft
