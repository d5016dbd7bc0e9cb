"""Detaches, connects and bypasses subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.edits.replacing import known_shapes
from gdsurgeon.graph.graph import graph_of
from gdsurgeon.graph.node import Output, check_typed
from gdsurgeon.graph_editor.reroute import (
    apply,
    keep_controls,
    may_change_inputs,
    may_change_outputs,
    paired,
    planned,
    swap_inputs,
    swap_outputs,
)
from gdsurgeon.graph_editor.select import check_cios
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.util import (
    ControlOutputs,
    check_graphs,
    check_type,
    consumers,
    make_placeholder,
    placeholder_name,
)

__all__ = [
    "bypass", "connect", "detach", "detach_control_inputs", "detach_control_outputs", "detach_inputs",
    "detach_outputs",
]  # fmt: skip


def detach_control_inputs(sgv: object) -> None:
    """Removes the control inputs of a subgraph that are outside nodes. For errors see `make_view`."""
    view = make_view(sgv)
    members = set(view.nodes)
    for node in view.nodes:
        keep_controls(node, members.__contains__)


def detach_control_outputs(sgv: object, control_outputs: ControlOutputs) -> None:
    """Removes the control inputs of outside nodes that are nodes of a subgraph.

    Raises:
        TypeError: `control_outputs` is not a ControlOutputs; or see `make_view`.
    """
    check_type(control_outputs, ControlOutputs)
    members = set((view := make_view(sgv)).nodes)
    for user in dict.fromkeys(user for node in view.nodes for user in control_outputs.get(node)):
        if user not in members:
            keep_controls(user, lambda control: control not in members)


def detach_inputs(sgv: object, control_inputs: bool = False) -> tuple[SubGraphView, list[Output]]:
    """Makes a subgraph read new placeholders instead of its inputs.

    Args:
        sgv: a view, which changes with the graph, or an argument for `make_view`.
        control_inputs: also remove control inputs from outside.

    Returns:
        The view, and the placeholders in the order of the replaced inputs.

    Raises:
        TypeError, ValueError: see `make_view`; or the dtype of an input is unknown. The graph is unchanged.
    """
    view = make_view(sgv)
    placeholders = _placeholders(view, view.inputs)
    if placeholders:
        swap_inputs(view, placeholders)
    if control_inputs:
        detach_control_inputs(view)
    return view, placeholders


def detach_outputs(sgv: object, control_outputs: ControlOutputs | None = None) -> tuple[SubGraphView, list[Output]]:
    """Makes the consumers of the outputs of a subgraph read new placeholders instead.

    Args:
        sgv: a view, or an argument for `make_view`.
        control_outputs: also remove control dependencies of outside nodes on the subgraph.

    Returns:
        A view of the outputs that outside nodes had read, and the placeholder for each of them.

    Raises:
        TypeError, ValueError: see `make_view`; or the dtype of an output is unknown. The graph is unchanged.
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
    """Adds a placeholder for each tensor."""
    _check_replaceable(tensors)
    if view.graph is None:
        return []
    shapes = known_shapes(view.graph, tensors)
    return [
        make_placeholder(view.graph, placeholder_name(t), t.dtype, shapes[t], uniquify_name=True).output
        for t in tensors
    ]


def _check_replaceable(tensors: Iterable[Output]) -> None:
    for tensor in tensors:
        graph_of(tensor.node).output(tensor)
        check_typed(tensor)


def detach(
    sgv: object,
    control_inputs: bool = False,
    control_outputs: ControlOutputs | None = None,
    control_ios: ControlOutputs | None = None,
) -> tuple[SubGraphView, list[Output], list[Output]]:
    """Does `detach_inputs` and `detach_outputs`.

    Returns:
        The view, the placeholders of the inputs, the placeholders of the outputs.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    view = make_view(sgv)
    _check_replaceable([*view.inputs, *_read_outside(view)])
    _, inputs = detach_inputs(view, control_inputs)
    _, outputs = detach_outputs(view, control_outputs)
    return view, inputs, outputs


def connect(sgv0: object, sgv1: object, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """Makes the subgraph `sgv1` read the outputs of `sgv0` instead of its inputs.

    Only the nodes of `sgv1` change, and the consumers of its passthrough tensors. Its view changes with the graph.

    Args:
        sgv0, sgv1: views, or arguments for `make_view`.
        disconnect_first: first make the consumers of the outputs of `sgv0` read placeholders.

    Raises:
        TypeError, ValueError: see `make_view` and `swap_ts`; the graph is unchanged.
    """
    a, b = make_view(sgv0), make_view(sgv1)
    check_graphs(a, b)
    pairs = paired(a.outputs, b.inputs)
    slots = planned(pairs, may_change_inputs(b), swap=False)
    if disconnect_first:
        members = set(b.nodes)
        for read, output in pairs:  # present connections must remain
            for use in graph_of(output.node).uses(output) if output == read else ():
                if use.node in members:
                    slots.setdefault(use.node, {}).setdefault(use.slot, output)
        detach_outputs(a)
    apply(slots)
    b.take_inputs([new for _, new in pairs])
    return a, b


def bypass(sgv: object) -> tuple[SubGraphView, list[Output]]:
    """Makes the consumers of the outputs of a subgraph read its inputs, and the subgraph itself placeholders.

    Args:
        sgv: a view with equally many inputs and outputs, or an argument for `make_view`.

    Returns:
        The view, which changes with the graph, and the placeholders.

    Raises:
        TypeError, ValueError: see `make_view` and `swap_ts`; the graph is unchanged.
    """
    view = make_view(sgv)
    pairs = paired(view.inputs, view.outputs)
    _check_replaceable(view.inputs)
    apply(planned(pairs, may_change_outputs(view), swap=False))
    return detach_inputs(view)
