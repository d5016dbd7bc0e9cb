"""Copying subgraphs, inside a graph or to another, and computing tensors again from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gdsurgeon.analysis.traversal.control_flow import while_frames
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output, same_dtype
from gdsurgeon.graph_editor.control_outputs import ControlOutputs
from gdsurgeon.graph_editor.lists import flatten_tree, get_unique_graph, transform_tree
from gdsurgeon.graph_editor.refusal import Refusal, refusals
from gdsurgeon.graph_editor.select import get_backward_walk_ops, get_forward_walk_ops
from gdsurgeon.graph_editor.subgraph import SubGraphView, make_view
from gdsurgeon.graph_editor.transformer import (
    Transformer,
    TransformerInfo,
    copy_op_handler,
    keep_t_if_possible_handler,
    replace_t_with_placeholder_handler,
    transform_op_if_inside_handler,
    transform_op_in_place,
)
from gdsurgeon.ops.dtypes import base_dtype, dtype_name

__all__ = [
    "Transformer",
    "TransformerInfo",
    "copy",
    "copy_op_handler",
    "copy_with_input_replacements",
    "graph_replace",
    "keep_t_if_possible_handler",
    "replace_t_with_placeholder_handler",
    "transform_op_if_inside_handler",
    "transform_op_in_place",
]


def copy(
    sgv: object, dst_graph: Graph | None = None, dst_scope: str = "", src_scope: str = "", reuse_dst_scope: bool = False
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a subgraph, with placeholders for its inputs. See `Transformer.__call__`.

    Args:
        sgv: a view, or an argument for `make_view`. Tensors that are not inputs of the view are read from where the
            original reads them, if that is the same graph.
        dst_graph: where the copy goes, the same graph by default; `empty_graph` makes a new one.
        dst_scope, src_scope, reuse_dst_scope: see `Transformer.__call__`.
    """
    view = make_view(sgv)
    return Transformer()(view, _destination(view, dst_graph), dst_scope, src_scope, reuse_dst_scope)


def _destination(view: SubGraphView, dst_graph: Graph | None) -> Graph:
    graph = view.graph if dst_graph is None else dst_graph
    if graph is None:
        raise Refusal("the subgraph is empty: there is nothing to copy", code="nothing-selected")
    return graph


def copy_with_input_replacements(
    sgv: object,
    replacement_ts: Mapping[Output, Output],
    dst_graph: Graph | None = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
    """Copies a subgraph that reads other tensors in place of some; the rest it reads where the original does.

    In another graph placeholders stand for the rest. A replacement of a tensor that the subgraph does not read is
    passed over.

    Args:
        sgv: a view, or what `make_view` makes a view of.
        replacement_ts: for inputs of the subgraph, the tensors of the destination that the copy reads instead.
        dst_graph, dst_scope, src_scope, reuse_dst_scope: see `copy`.

    Raises:
        TypeError, ValueError: as `Transformer.__call__` does; or a replacement is of another dtype or of another graph.
    """
    view = make_view(sgv)
    graph = _destination(view, dst_graph)
    for old, new in replacement_ts.items():
        with refusals():
            graph.output(new)
        if not same_dtype(old.dtype, new.dtype):
            raise Refusal(
                f"{quoted(old.name)} ({dtype_name(base_dtype(old.dtype))}) cannot be replaced by {quoted(new.name)} "
                f"({dtype_name(base_dtype(new.dtype))}): dtypes differ",
                code="dtype-mismatch",
                facts={"tensor": old.name, "replacement": new.name},
            )
    copier = Transformer()
    copier.transform_external_input_handler = keep_t_if_possible_handler
    copier.replacements = dict(replacement_ts)
    return copier(view, graph, dst_scope, src_scope, reuse_dst_scope)


def graph_replace(
    target_ts: Any,
    replacement_ts: Mapping[Output, Output],
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """Computes tensors once more from others than before: copies what lies between.

    While loops that are concerned are copied whole. The shapes of the replacements may be others.

    Args:
        target_ts: tensors, in any tree of lists, tuples and dicts.
        replacement_ts: for tensors, their replacements.
        dst_scope, src_scope, reuse_dst_scope: see `copy`.

    Returns:
        A tree like `target_ts`; targets that depend on none of the replaced tensors are unchanged.

    Raises:
        TypeError: a target is no tensor.
        ValueError: no target depends on a replaced tensor; or as `copy_with_input_replacements` does.
    """
    leaves = flatten_tree(target_ts)
    replaced = list(replacement_ts)
    graph = get_unique_graph([*leaves, *replaced], check_types=(Output,))
    assert graph is not None
    targets = [leaf for leaf in leaves if isinstance(leaf, Output)]
    ops = _between(graph, replaced, targets)
    if not ops and not replacement_ts.keys() & set(targets):
        raise Refusal("no target depends on a replaced tensor", code="nothing-to-do")
    transformed: dict[Output, Output] = dict(replacement_ts)
    if ops:
        _, info = copy_with_input_replacements(
            _whole_loops(ops), replacement_ts, graph, dst_scope, src_scope, reuse_dst_scope
        )
        transformed = {**info.transformed_ts, **replacement_ts}
    return transform_tree(target_ts, lambda target: transformed.get(target, target))


def _between(graph: Graph, replaced: list[Output], targets: list[Output]) -> list[Node]:
    """What depends on the replaced tensors and is needed for the targets once they are replaced, in file order."""
    needed = [target for target in targets if target not in set(replaced)]
    behind = set(get_forward_walk_ops(replaced, control_outputs=ControlOutputs(graph)))
    before = get_backward_walk_ops(needed, stop_at_ts=replaced, control_inputs=True)
    topology = topology_of(graph)
    return sorted((node for node in before if node in behind), key=topology.id_of)


def _whole_loops(ops: Iterable[Node]) -> list[Node]:
    """OPS, and all nodes of the while loops that some of them are in."""
    nodes = list(ops)
    topology = topology_of(graph_of(nodes[0]))
    frames = while_frames(topology)
    if not frames.names:
        return nodes
    touched: set[int] = set()
    inside = {topology.id_of(node) for node in nodes}
    for number in inside:
        frame = frames.of[number]
        while frame >= 0:
            touched.add(frame)
            frame = frames.parents[frame]
    added = True
    while added:  # a loop inside one that is touched goes with it
        nested = {frame for frame, parent in enumerate(frames.parents) if parent in touched} - touched
        touched |= nested
        added = bool(nested)
    inside.update(number for number in topology.numbers() if frames.of[number] in touched)
    return [topology.node(number) for number in sorted(inside)]
