"""Rewires the consumers of tensors and of whole subgraphs, and control inputs.

As in the older libraries, the new source is the first argument: ``reroute_ts(new, old)``. gdsurgeon's own `reroute`
expects pairs (old, new).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.shapes.arithmetic import check_can_replace
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.reroute import Slots, check_acyclic, plan_reroute
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.util import (
    check_graphs,
    check_one_graph,
    check_type,
    make_list_of_op,
    make_list_of_t,
)

__all__ = [
    "add_control_inputs", "remove_control_inputs", "reroute_inputs", "reroute_ios", "reroute_outputs", "reroute_ts",
    "swap_inputs", "swap_ios", "swap_outputs", "swap_ts",
]  # fmt: skip

Allowed = Callable[[Node, Output], bool]
"""Returns whether the input of a node that is a certain tensor may change."""
Pairs = Sequence[tuple[Output, Output]]
"""Pairs (old, new)."""
Views = tuple[SubGraphView, SubGraphView]


def swap_ts(ts0: object, ts1: object, can_modify: object = None, cannot_modify: object = None) -> int:
    """Exchanges the consumers of each tensor of `ts0` and of its counterpart in `ts1`.

    All changes refer to the graph before. Control inputs do not change. A tensor cannot be exchanged with a tensor that
    depends on it, because this tensor would have to read itself; `swap_ios` exchanges nodes on one path.

    Args:
        ts0, ts1: equally many tensors of one graph.
        can_modify: the only nodes that may change; None: all.
        cannot_modify: nodes that must not change.

    Returns:
        The number of changed input slots.

    Raises:
        TypeError: an argument is not a tensor or node.
        ValueError: the numbers of tensors differ, they belong to different graphs, dtypes or known shapes differ, or
            the graph would have a cycle; the graph is unchanged.
    """
    return _reroute_ts(ts0, ts1, can_modify, cannot_modify, swap=True)


def reroute_ts(ts0: object, ts1: object, can_modify: object = None, cannot_modify: object = None) -> int:
    """Makes the consumers of each tensor of `ts1` read its counterpart in `ts0`; see `swap_ts`.

    Nodes that a tensor is computed from are never made to read that tensor. The tensors of `ts1` lose their other
    consumers, but are not removed.
    """
    return _reroute_ts(ts0, ts1, can_modify, cannot_modify, swap=False)


def _reroute_ts(ts0: object, ts1: object, can_modify: object, cannot_modify: object, *, swap: bool) -> int:
    pairs = paired(make_list_of_t(ts0), make_list_of_t(ts1))
    only = None if can_modify is None else frozenset(make_list_of_op(can_modify))
    never = frozenset(() if cannot_modify is None else make_list_of_op(cannot_modify))
    return apply(planned(pairs, lambda node, _: (only is None or node in only) and node not in never, swap=swap))


def paired(new: Sequence[Output], old: Sequence[Output]) -> Pairs:
    """Returns pairs of tensors. Raises ValueError if a tensor cannot replace its counterpart; see `swap_ts`."""
    if len(new) != len(old):
        line = f"the lists have different sizes: {len(new)} and {len(old)}"
        raise EditError(line, code="wrong-count", expected=len(new), found=len(old))
    check_one_graph([*new, *old])
    pairs = list(zip(old, new, strict=True))
    for pair in pairs:
        for tensor in reversed(pair):
            graph_of(tensor.node).output(tensor)
        check_can_replace(*pair)
    return pairs


def planned(pairs: Pairs, allowed: Allowed, *, swap: bool) -> Slots:
    """Returns the changes that make the consumers of old tensors read the new ones, with `swap` also vice versa.

    If several pairs change one input slot, the first applies.

    Raises:
        ValueError: the graph would have a cycle.
    """
    return _checked(_planned(pairs, allowed, swap=swap))


def _planned(pairs: Pairs, allowed: Allowed, *, swap: bool) -> Slots:
    return plan_reroute(_both_ways(pairs) if swap else pairs, allowed, keep_upstream=not swap)[0]


def _checked(slots: Slots) -> Slots:
    """Returns `slots`. Raises ValueError if the graph would have a cycle."""
    if any(new.node.inputs or new.node.controls for changes in slots.values() for new in changes.values()):
        check_acyclic(topology_of(graph_of(next(iter(slots)))), slots)
    return slots


def apply(slots: Slots) -> int:
    """Makes planned changes; returns the number of changed input slots."""
    return graph_of(next(iter(slots))).set_slots(slots) if slots else 0


def _both_ways(pairs: Pairs) -> Pairs:
    return [way for pair in pairs for way in (pair, pair[::-1])]


# -- subgraphs ---------------------------------------------------------------------------------------------


def swap_inputs(sgv0: object, sgv1: object) -> Views:
    """Makes each of two subgraphs read the inputs of the other.

    Only their own nodes change, and the consumers of their passthrough tensors. The views change with the graph.

    Args:
        sgv0, sgv1: views, or arguments for `make_view`.

    Raises:
        TypeError, ValueError: see `make_view` and `swap_ts`; the graph is unchanged.
    """
    return _reroute(sgv0, sgv1, "inputs", swap=True)


def reroute_inputs(sgv0: object, sgv1: object) -> Views:
    """Makes the subgraph `sgv1` read the inputs of `sgv0`; see `swap_inputs`."""
    return _reroute(sgv0, sgv1, "inputs", swap=False)


def swap_outputs(sgv0: object, sgv1: object) -> Views:
    """Exchanges the consumers of the outputs of two subgraphs; nodes of the two subgraphs do not change.

    Args:
        sgv0, sgv1: views, or arguments for `make_view`.

    Raises:
        TypeError, ValueError: see `make_view` and `swap_ts`; the graph is unchanged.
    """
    return _reroute(sgv0, sgv1, "outputs", swap=True)


def reroute_outputs(sgv0: object, sgv1: object) -> Views:
    """Makes the consumers of the outputs of `sgv1` read the outputs of `sgv0`; see `swap_outputs`."""
    return _reroute(sgv0, sgv1, "outputs", swap=False)


def swap_ios(sgv0: object, sgv1: object) -> Views:
    """Exchanges two subgraphs: `swap_outputs` and `swap_inputs` at once.

    They may be on one path, and one may read the other.
    """
    return _reroute(sgv0, sgv1, "inputs outputs", swap=True)


def reroute_ios(sgv0: object, sgv1: object) -> Views:
    """Does `reroute_outputs` and `reroute_inputs` at once."""
    return _reroute(sgv0, sgv1, "inputs outputs", swap=False)


def may_change_inputs(*views: SubGraphView) -> Allowed:
    """Allows changes of nodes of `views`, and of all consumers of their passthrough tensors."""
    nodes = {node for view in views for node in view.nodes}
    through = {tensor for view in views for tensor in view.passthroughs}
    return lambda node, tensor: node in nodes or tensor in through


def may_change_outputs(*views: SubGraphView) -> Allowed:
    """Allows changes of all nodes except those of `views`."""
    nodes = {node for view in views for node in view.nodes}
    return lambda node, _: node not in nodes


def _reroute(sgv0: object, sgv1: object, sides: str, *, swap: bool) -> Views:
    a, b = make_view(sgv0), make_view(sgv1)
    check_graphs(a, b)
    inputs = paired(a.inputs, b.inputs) if "inputs" in sides else []
    outputs = paired(a.outputs, b.outputs) if "outputs" in sides else []
    of_inputs = _planned(inputs, may_change_inputs(a, b), swap=swap)
    of_outputs = _planned(outputs, may_change_outputs(a, b), swap=swap)
    moved: dict[Output, Output] = {}
    if swap:
        # If one subgraph reads the other, it is exchanged with it; passthrough tensors pass through the other one.
        through = {*a.passthroughs, *b.passthroughs}
        moved = {old: new for old, new in _both_ways(outputs) if old not in through}
        of_inputs = _substituted(of_inputs, moved)
        of_outputs = _substituted(of_outputs, {old: new for old, new in _both_ways(inputs) if old in through})
    apply(_checked({node: of_inputs.get(node, {}) | of_outputs.get(node, {}) for node in (*of_inputs, *of_outputs)}))
    if "inputs" in sides:
        b.take_inputs([moved.get(new, new) for _, new in inputs])
    if "inputs" in sides and swap:
        a.take_inputs([moved.get(old, old) for old, _ in inputs])
    return a, b


def _substituted(slots: Slots, names: Mapping[Output, Output]) -> Slots:
    return {node: {slot: names.get(new, new) for slot, new in changes.items()} for node, changes in slots.items()}


# -- control inputs ----------------------------------------------------------------------------------------


def add_control_inputs(op: Node, cops: object) -> None:
    """Adds control dependencies of `op` on the nodes `cops`.

    Raises:
        TypeError: an argument is not a node.
        ValueError: a control dependency exists already, the nodes belong to different graphs, or the graph would have a
            cycle; the graph is unchanged.
    """
    nodes = _control_inputs(op, cops)
    _check_controls(op, [node for node in nodes if node in op.controls], "already", "given-twice")
    topology = topology_of(graph_of(op))
    above = topology.upstream([topology.id_of(node) for node in nodes], through_loops=False)
    if above[topology.id_of(op)]:
        names = [node.name for node in nodes]
        listed = ", ".join(map(quoted, names))
        text = f"{quoted(op.name)} cannot have a control dependency on {listed}: that would make a cycle"
        raise EditError(text, code="would-cycle", node=op.name, inputs=names)
    graph_of(op).set_controls(op, [*op.controls, *nodes])


def remove_control_inputs(op: Node, cops: object) -> None:
    """Removes the control dependencies of `op` on the nodes `cops`.

    Raises:
        TypeError: an argument is not a node.
        ValueError: a control dependency does not exist; the graph is unchanged.
    """
    nodes = _control_inputs(op, cops)
    _check_controls(op, [node for node in nodes if node not in op.controls], "not", "no-such-input")
    keep_controls(op, lambda control: control not in nodes)


def _check_controls(op: Node, wrong: Iterable[Node], how: str, code: str) -> None:
    for node in wrong:
        line = f"{quoted(node.name)} is {how} a control input of {quoted(op.name)}"
        raise EditError(line, code=code, node=op.name, input=node.name)


def _control_inputs(op: Node, cops: object) -> list[Node]:
    check_type(op, Node)
    nodes = make_list_of_op(cops, allow_graph=False)
    check_one_graph([op, *nodes])
    return nodes


def keep_controls(op: Node, keep: Callable[[Node], bool]) -> None:
    """Removes the control inputs of `op` for which `keep` is false."""
    kept = tuple(filter(keep, op.controls))
    if kept != op.controls:
        graph_of(op).set_controls(op, kept)
