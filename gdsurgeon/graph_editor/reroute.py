"""Rewiring: the consumers of tensors, of whole subgraphs, and control inputs.

The order of the arguments is that of the older libraries, the new source first: ``reroute_ts(new, old)``. gdsurgeon's
own `reroute` takes pairs (OLD, NEW).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.reroute import check_acyclic, check_can_replace
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.graph_editor.lists import check_graphs, get_unique_graph, make_list_of_op, make_list_of_t
from gdsurgeon.graph_editor.refusal import Refusal, WrongType, refusals
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view

Allowed = Callable[[Node, Output], bool]
"""Whether a node may read something else in place of a tensor."""
Pairs = Sequence[tuple[Output, Output]]
Slots = dict[Node, dict[int, Output]]


def swap_ts(ts0: object, ts1: object, can_modify: object = None, cannot_modify: object = None) -> int:
    """Has the consumers of each tensor of TS0 read its counterpart in TS1, and the other way round.

    All input slots are decided from the graph as it is before. Control inputs are left alone. A tensor and one that is
    made of it cannot be exchanged, for that one would have to read itself: `swap_ios` exchanges nodes on one path.

    Args:
        ts0, ts1: tensors of one graph, as many here as there.
        can_modify: the only nodes that may change; None: all, [] none.
        cannot_modify: nodes that may not.

    Returns:
        The number of input slots that have changed.

    Raises:
        TypeError: something that is no tensor or node is given.
        ValueError: there are more of one than of the other, they are of two graphs, dtypes or known shapes differ, or
            a cycle would come about; the graph is as it was.
    """
    return _reroute_ts(ts0, ts1, can_modify, cannot_modify, swap=True)


def reroute_ts(ts0: object, ts1: object, can_modify: object = None, cannot_modify: object = None) -> int:
    """Has the consumers of each tensor of TS1 read its counterpart in TS0; see `swap_ts`.

    Nodes that a tensor is computed from are never made to read that tensor. The tensors of `ts1` lose their other
    consumers, but are not removed.
    """
    return _reroute_ts(ts0, ts1, can_modify, cannot_modify, swap=False)


def _reroute_ts(ts0: object, ts1: object, can_modify: object, cannot_modify: object, *, swap: bool) -> int:
    pairs = paired(make_list_of_t(ts0), make_list_of_t(ts1))
    only = None if can_modify is None else frozenset(make_list_of_op(can_modify))
    never = frozenset(() if cannot_modify is None else make_list_of_op(cannot_modify))
    return rewire(pairs, lambda node, _: (only is None or node in only) and node not in never, swap=swap)


def paired(ts0: Sequence[Output], ts1: Sequence[Output]) -> Pairs:
    """Pairs of TS0 and TS1. Raises ValueError where they do not fit: see `swap_ts`."""
    if len(ts0) != len(ts1):
        raise Refusal(f"the lists have different sizes: {len(ts0)} and {len(ts1)}", code="wrong-count",
                      facts={"expected": len(ts0), "found": len(ts1)})  # fmt: skip
    get_unique_graph([*ts0, *ts1], none_if_empty=True)
    pairs = list(zip(ts0, ts1, strict=True))
    with refusals():
        for a, b in pairs:
            for tensor in (a, b):
                graph_of(tensor.node).output(tensor)
            check_can_replace(b, a)
    return pairs


def rewire(pairs: Pairs, allowed: Allowed, *, swap: bool) -> int:
    """Makes the changes of `planned`; returns the number of input slots that have changed."""
    return apply(planned(pairs, allowed, swap=swap))


def apply(slots: Slots) -> int:
    """Makes planned changes; returns the number of input slots that have changed."""
    return graph_of(next(iter(slots))).set_slots(slots) if slots else 0


def planned(pairs: Pairs, allowed: Allowed, *, swap: bool) -> Slots:
    """The changes by which what reads the second of each pair reads the first, and with SWAP the other way round.

    Where several pairs claim an input slot the first has it.

    Raises:
        ValueError: a cycle would come about.
    """
    return _checked(_exchanged(pairs, allowed) if swap else _replaced(pairs, allowed))


def _exchanged(pairs: Pairs, allowed: Allowed) -> Slots:
    slots: Slots = {}
    for new, old in _both_ways(pairs):
        _claim(slots, new, [use for use in graph_of(old.node).uses(old) if new != old and allowed(use.node, old)])
    return slots


def _replaced(pairs: Pairs, allowed: Allowed) -> Slots:
    """What a tensor is made of keeps reading what it reads."""
    slots: Slots = {}
    for new, old in pairs:
        graph = graph_of(old.node)
        uses = [use for use in graph.uses(old) if allowed(use.node, old)] if new != old else []
        if uses and _has_inputs(new):
            topology = topology_of(graph)
            above = topology.upstream([topology.id_of(new.node)], through_loops=False)
            uses = [use for use in uses if not above[topology.id_of(use.node)]]
        _claim(slots, new, uses)
    return slots


def _claim(slots: Slots, new: Output, uses: Iterable[Use]) -> None:
    for use in uses:
        slots.setdefault(use.node, {}).setdefault(use.slot, new)


def _has_inputs(tensor: Output) -> bool:
    """Whether TENSOR depends on something: only such a one can come to depend on itself."""
    return bool(tensor.node.inputs or tensor.node.controls)


def _checked(slots: Slots) -> Slots:
    """SLOTS. Raises ValueError where a cycle would come about."""
    if any(_has_inputs(new) for changes in slots.values() for new in changes.values()):
        with refusals():
            check_acyclic(topology_of(graph_of(next(iter(slots)))), slots)
    return slots


def swap_inputs(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """Has each of two subgraphs read the inputs of the other.

    Only their own nodes change, and what reads their passthrough tensors. The views change along with the graph.

    Args:
        sgv0, sgv1: views, or what `make_view` makes views of.

    Raises:
        TypeError, ValueError: as `make_view` and `swap_ts` do; the graph is as it was.
    """
    return _reroute_inputs(sgv0, sgv1, swap=True)


def reroute_inputs(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """Has the subgraph SGV1 read the inputs of SGV0; see `swap_inputs`."""
    return _reroute_inputs(sgv0, sgv1, swap=False)


def swap_outputs(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """Has what reads the outputs of each of two subgraphs read those of the other; nodes of the two never change.

    Args:
        sgv0, sgv1: views, or what `make_view` makes views of.

    Raises:
        TypeError, ValueError: as `make_view` and `swap_ts` do; the graph is as it was.
    """
    return _reroute_outputs(sgv0, sgv1, swap=True)


def reroute_outputs(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """Has what reads the outputs of the subgraph SGV1 read those of SGV0; see `swap_outputs`."""
    return _reroute_outputs(sgv0, sgv1, swap=False)


def swap_ios(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """`swap_outputs` and `swap_inputs` at once: each of two subgraphs stands where the other stood.

    They may lie on one path, and one may read the other.
    """
    return _reroute_ios(sgv0, sgv1, swap=True)


def reroute_ios(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    """`reroute_outputs` and `reroute_inputs`."""
    return _reroute_ios(sgv0, sgv1, swap=False)


def _views(sgv0: object, sgv1: object) -> tuple[SubGraphView, SubGraphView]:
    views = make_view(sgv0), make_view(sgv1)
    check_graphs(*views)
    return views


def may_change_inputs(*views: SubGraphView) -> Allowed:
    """Allows nodes of VIEWS to read something else, and everybody in place of their passthrough tensors."""
    nodes = {node for view in views for node in view.nodes}
    through = {tensor for view in views for tensor in view.passthroughs}
    return lambda node, tensor: node in nodes or tensor in through


def may_change_outputs(*views: SubGraphView) -> Allowed:
    """Allows all but nodes of VIEWS to read something else."""
    nodes = {node for view in views for node in view.nodes}
    return lambda node, _: node not in nodes


def _reroute_inputs(sgv0: object, sgv1: object, *, swap: bool) -> tuple[SubGraphView, SubGraphView]:
    a, b = _views(sgv0, sgv1)
    inputs = tuple(a.inputs), tuple(b.inputs)
    rewire(paired(*inputs), may_change_inputs(a, b), swap=swap)
    b.take_inputs(inputs[0])
    if swap:
        a.take_inputs(inputs[1])
    return a, b


def _reroute_outputs(sgv0: object, sgv1: object, *, swap: bool) -> tuple[SubGraphView, SubGraphView]:
    a, b = _views(sgv0, sgv1)
    rewire(paired(a.outputs, b.outputs), may_change_outputs(a, b), swap=swap)
    return a, b


def _reroute_ios(sgv0: object, sgv1: object, *, swap: bool) -> tuple[SubGraphView, SubGraphView]:
    a, b = _views(sgv0, sgv1)
    inputs, outputs = paired(a.inputs, b.inputs), paired(a.outputs, b.outputs)
    change = _exchanged if swap else _replaced
    reading = change(inputs, may_change_inputs(a, b))
    read = change(outputs, may_change_outputs(a, b))
    place: dict[Output, Output] = {}
    if swap:
        # If one of the two reads the other, it takes its place; tensors that pass through pass through there.
        through = {*a.passthroughs, *b.passthroughs}
        place = {old: new for new, old in _both_ways(outputs) if old not in through}
        reading = _substituted(reading, place)
        read = _substituted(read, {old: new for new, old in _both_ways(inputs) if old in through})
    apply(_checked({node: reading.get(node, {}) | read.get(node, {}) for node in (*reading, *read)}))
    b.take_inputs([place.get(new, new) for new, _ in inputs])
    if swap:
        a.take_inputs([place.get(new, new) for _, new in inputs])
    return a, b


def _both_ways(pairs: Pairs) -> Pairs:
    return [way for pair in pairs for way in (pair, pair[::-1])]


def _substituted(slots: Slots, names: Mapping[Output, Output]) -> Slots:
    return {node: {slot: names.get(new, new) for slot, new in changes.items()} for node, changes in slots.items()}


# Control inputs.


def add_control_inputs(op: Node, cops: object) -> None:
    """Has OP wait for the nodes COPS too.

    Raises:
        TypeError: something that is no node is given.
        ValueError: it waits for one of them already, they are of another graph, or a cycle would come about; the graph
            is as it was.
    """
    nodes = _control_inputs(op, cops)
    for node in nodes:
        if node in op.controls:
            raise Refusal(f"{quoted(node.name)} is already a control input of {quoted(op.name)}", code="given-twice",
                          facts={"node": op.name, "input": node.name})  # fmt: skip
    topology = topology_of(graph_of(op))
    above = topology.upstream([topology.id_of(node) for node in nodes], through_loops=False)
    if above[topology.id_of(op)]:
        names = ", ".join(quoted(node.name) for node in nodes)
        text = f"{quoted(op.name)} cannot have a control dependency on {names}: that would make a cycle"
        raise Refusal(text, code="would-cycle",
                      facts={"node": op.name, "inputs": [node.name for node in nodes]})  # fmt: skip
    graph_of(op).set_controls(op, [*op.controls, *nodes])


def remove_control_inputs(op: Node, cops: object) -> None:
    """Has OP no longer wait for the nodes COPS.

    Raises:
        TypeError: something that is no node is given.
        ValueError: it does not wait for one of them; the graph is as it was.
    """
    nodes = _control_inputs(op, cops)
    for node in nodes:
        if node not in op.controls:
            raise Refusal(f"{quoted(node.name)} is not a control input of {quoted(op.name)}", code="no-such-input",
                          facts={"node": op.name, "input": node.name})  # fmt: skip
    keep_controls(op, lambda control: control not in nodes)


def _control_inputs(op: object, cops: object) -> list[Node]:
    if not isinstance(op, Node):
        raise WrongType("Node", op)
    nodes = make_list_of_op(cops, allow_graph=False)
    get_unique_graph([op, *nodes])
    return nodes


def keep_controls(op: Node, keep: Callable[[Node], bool]) -> None:
    """Takes from OP the control inputs that are not to be kept."""
    left: Iterable[Node] = [control for control in op.controls if keep(control)]
    if tuple(left) != op.controls:
        graph_of(op).set_controls(op, left)
