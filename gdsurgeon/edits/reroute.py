"""reroute: consumers of one tensor read another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.shapes.stated import describe, mismatch
from gdsurgeon.analysis.traversal.order import find_cycle, spelt_cycle
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.arguments import Pairs, pairs_of, public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.naming import naming, of_tensors
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.select import compiled, matching_ends
from gdsurgeon.specification.asked import edit

Slots = dict[Node, dict[int, Output]]


@public
@naming(pairs=of_tensors)
@edit
def reroute(
    graph: Graph,
    pairs: Pairs[str | Output, str | Output],
    *,
    swap: bool = False,
    only: str | None = None,
    exclude: str | None = None,
) -> EditResult:
    """Has every consumer of tensor OLD read tensor NEW.

    All input slots are decided from the graph as it is before the edit, so that pairs do not see each other's
    changes. Control inputs are not data and are left alone. What NEW itself is made of keeps reading OLD, where it
    does: an Identity on OLD can take OLD's place for everybody else.

    Args:
        graph: changed in place.
        pairs: (old, new), as names or as outputs of this graph.
        swap: consumers of NEW read OLD as well.
        only: a regular expression (searched); other consumers than those whose names match are left alone.
        exclude: a regular expression; consumers whose names match are left alone.

    Raises:
        UsageError: ONLY or EXCLUDE is no regular expression.
        EditError: no such tensor, dtypes or known shapes differ, nothing would change, or a cycle would come about;
            the graph is as it was.
    """
    allowed = _consumer_filter(only, exclude)
    resolved = [(graph.output(old), graph.output(new)) for old, new in pairs_of(pairs)]
    directed = resolved + ([(new, old) for old, new in resolved] if swap else [])
    if len({old for old, _ in directed}) != len(directed):
        twice = [old.name for old, count in Counter(old for old, _ in directed).items() if count > 1]
        raise EditError("a tensor is rerouted to two different tensors", code="given-twice", tensors=twice)
    warnings: list[str] = []
    for old, new in resolved:
        _check_types(old, new, warnings)
    slots: Slots = {}
    skipped: list[Remark] = []
    topology = topology_of(graph)
    with matching_ends():
        uses = {old: [use for use in graph.uses(old) if allowed(use.node.name)] for old, _ in directed}
    for old, new in directed:
        if old == new:
            continue
        above = topology.upstream([topology.id_of(new.node)], through_loops=False)
        for use in uses[old]:
            if above[topology.id_of(use.node)]:
                skipped.append(_kept(use.node, old, new))
            else:
                slots.setdefault(use.node, {})[use.slot] = new
    if not slots:
        raise _nothing_changed(resolved, skipped, is_filtered=bool(only or exclude))
    if len(directed) > 1:
        check_acyclic(topology, slots)
    intent = Intent(rewired=list(_rewired(slots)))
    graph.set_slots(slots)
    return EditResult(intent, warnings=warnings, notes=sorted(set(skipped)))


def _consumer_filter(only: str | None, exclude: str | None) -> Callable[[str], bool]:
    wanted, unwanted = (None if pattern is None else compiled(pattern) for pattern in (only, exclude))

    def allowed(name: str) -> bool:
        if wanted is not None and not wanted.search(name):
            return False
        return unwanted is None or not unwanted.search(name)

    return allowed


def _check_types(old: Output, new: Output, warnings: list[str]) -> None:
    for output in (old, new):
        if not output.dtype:
            text = (
                f"the dtype of {quoted(output.name)} ({printable(output.node.op)}) is unknown, so it was not compared"
            )
            warnings.append(Remark(text, "unknown-dtype", tensor=output.name, op=output.node.op))
    check_can_replace(old, new)


def check_can_replace(old: Output, new: Output) -> None:
    """Raises EditError where the dtypes of two tensors, or their stated shapes, differ: as far as they are known."""
    if code := mismatch(old, new):
        raise EditError(
            f"{quoted(old.name)} ({describe(old)}) cannot be replaced by {quoted(new.name)} "
            f"({describe(new)}): {'dtypes' if code == 'dtype-mismatch' else 'shapes'} differ",
            code=code,
            facts={"tensor": old.name, "expected": describe(old), "replacement": new.name, "found": describe(new)},
        )


def _kept(node: Node, old: Output, new: Output) -> Remark:
    text = f"{quoted(node.name)} still reads {quoted(old.name)}, because {quoted(new.name)} depends on this node"
    return Remark(text, "would-cycle", node=node.name, tensor=old.name, replacement=new.name)


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
    """Tries new inputs out.

    Several pairs together may close a cycle that none of them closes alone.

    Raises:
        EditError: they would; the path is in the message.
    """
    topology = topology.draft()
    for node, changes in slots.items():
        reads = [changes.get(slot, read) for slot, read in enumerate(node.inputs)]
        edges = [(read.node, read.index) for read in reads] + [(n, Table.CONTROL_PORT) for n in node.controls]
        codes = [topology.id_of(producer) << Table.PORT_BITS | port for producer, port in edges if producer.exists]
        topology.set_inputs(topology.id_of(node), codes)
    cycle = find_cycle(topology)
    if cycle:
        raise EditError(
            f"rerouting would make a cycle: {spelt_cycle(topology, cycle)}",
            code="would-cycle",
            nodes=[topology.name(number) for number in cycle],
        )


def _rewired(slots: Mapping[Node, Mapping[int, Output]]) -> Iterable[Rewired]:
    for node, changes in slots.items():
        for slot, output in changes.items():
            yield Rewired(node.name, slot, node.inputs[slot].name, output.name)
