"""Detaching, connecting and bypassing subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.edits.replacing import known_shapes
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Output, check_typed
from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.lists import check_graphs
from gdsurgeon.graph_editor.make import make_placeholder
from gdsurgeon.graph_editor.names import placeholder_name
from gdsurgeon.graph_editor.refusal import WrongType, refusals
from gdsurgeon.graph_editor.reroute import (
    apply,
    keep_controls,
    may_change_inputs,
    may_change_outputs,
    paired,
    planned,
    rewire,
    swap_inputs,
    swap_outputs,
)
from gdsurgeon.graph_editor.select import check_cios
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.view import consumers


def detach_control_inputs(sgv: object) -> None:
    """Has the nodes of a subgraph no longer wait for nodes outside. Raises as `make_view` does."""
    members = set((view := make_view(sgv)).nodes)
    for node in view.nodes:
        keep_controls(node, members.__contains__)


def detach_control_outputs(sgv: object, control_outputs: ControlOutputs) -> None:
    """Has no node outside wait any longer for nodes of a subgraph.

    Raises:
        TypeError: `control_outputs` is not a ControlOutputs; or see `make_view`.
    """
    if not isinstance(control_outputs, ControlOutputs):
        raise WrongType("ControlOutputs", control_outputs)
    members = set((view := make_view(sgv)).nodes)
    waiting = dict.fromkeys(user for node in view.nodes for user in control_outputs.get(node))
    for user in waiting:
        if user not in members:
            keep_controls(user, lambda control: control not in members)


def detach_inputs(sgv: object, control_inputs: bool = False) -> tuple[SubGraphView, list[Output]]:
    """Has a subgraph read new placeholders instead of its inputs.

    Args:
        sgv: a view, which changes along, or what `make_view` makes a view of.
        control_inputs: whether its control inputs from outside go as well.

    Returns:
        The view, and the placeholders in the order of the inputs that they stand for.

    Raises:
        TypeError: as `make_view` does.
        ValueError: likewise, or the dtype of an input is not known; the graph is as it was.
    """
    view = make_view(sgv)
    placeholders = _placeholders(view, view.inputs)
    if placeholders:
        swap_inputs(view, placeholders)
    if control_inputs:
        detach_control_inputs(view)
    return view, placeholders


def detach_outputs(sgv: object, control_outputs: ControlOutputs | None = None) -> tuple[SubGraphView, list[Output]]:
    """Has what reads the outputs of a subgraph read new placeholders instead.

    Args:
        sgv: a view, or what `make_view` makes a view of.
        control_outputs: also remove control dependencies of outside nodes on the subgraph.

    Returns:
        A view of the outputs that outside nodes had read, and the placeholder for each of them.

    Raises:
        TypeError: as `make_view` does.
        ValueError: likewise, or the dtype of an output is not known; the graph is as it was.
    """
    view = make_view(sgv)
    read = _read_outside(view)
    out = view.remap_outputs(read)
    placeholders = _placeholders(view, read)
    if placeholders:
        swap_outputs(out, placeholders)
    if control_outputs is not None:
        detach_control_outputs(out, control_outputs)
    return out, placeholders


def _read_outside(view: SubGraphView) -> list[Output]:
    """Returns the outputs of a view that outside nodes read, each once."""
    members = set(view.nodes)
    return [output for output in dict.fromkeys(view.outputs) if not members.issuperset(consumers(output))]


def _placeholders(view: SubGraphView, tensors: Sequence[Output]) -> list[Output]:
    """A new placeholder for each of TENSORS."""
    _check_replaceable(view, tensors)
    if view.graph is None:
        return []
    shapes = known_shapes(view.graph, tensors)
    made = [make_placeholder(view.graph, placeholder_name(t), t.dtype, shapes[t], uniquify_name=True) for t in tensors]
    return [node.output for node in made]


def _check_replaceable(view: SubGraphView, tensors: Iterable[Output]) -> None:
    for tensor in tensors:
        with refusals():
            graph_of(tensor.node).output(tensor)
            check_typed(tensor)


def detach(
    sgv: object,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> tuple[SubGraphView, list[Output], list[Output]]:
    """`detach_inputs` and `detach_outputs`.

    Returns:
        The view, the placeholders of the inputs, those of the outputs.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    view = make_view(sgv)
    _check_replaceable(view, [*view.inputs, *_read_outside(view)])
    _, inputs = detach_inputs(view, control_inputs)
    _, outputs = detach_outputs(view, control_outputs)
    return view, inputs, outputs


def connect(sgv0: object, sgv1: object, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """Has the subgraph SGV1 read the outputs of SGV0 instead of its inputs.

    Only the nodes of SGV1 change, and what reads its passthrough tensors. Its view changes along.

    Args:
        sgv0, sgv1: views, or what `make_view` makes views of.
        disconnect_first: have what reads the outputs of SGV0 read placeholders before.

    Raises:
        TypeError, ValueError: as `make_view` and `swap_ts` do; the graph is as it was.
    """
    a, b = make_view(sgv0), make_view(sgv1)
    check_graphs(a, b)
    pairs = paired(a.outputs, b.inputs)
    slots = planned(pairs, may_change_inputs(b), swap=False)
    if disconnect_first:
        members = set(b.nodes)
        for output, read in pairs:  # present connections must remain
            for use in graph_of(output.node).uses(output) if output == read else ():
                if use.node in members:
                    slots.setdefault(use.node, {}).setdefault(use.slot, output)
        detach_outputs(a)
    apply(slots)
    b.take_inputs([new for new, _ in pairs])
    return a, b


def bypass(sgv: object) -> tuple[SubGraphView, list[Output]]:
    """Has what reads the outputs of a subgraph read its inputs, one for one, and itself placeholders.

    Args:
        sgv: a view with as many inputs as outputs, or what `make_view` makes one of.

    Returns:
        The view, which has changed along, and the placeholders.

    Raises:
        TypeError, ValueError: as `make_view` and `swap_ts` do; the graph is as it was.
    """
    view = make_view(sgv)
    pairs = paired(view.inputs, view.outputs)
    _check_replaceable(view, view.inputs)
    rewire(pairs, may_change_outputs(view), swap=False)
    _, placeholders = detach_inputs(view)
    return view, placeholders
