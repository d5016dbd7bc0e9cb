"""Nodes whose values decide: constants that determine shapes, and scores from which nodes choose."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gdsurgeon.analysis.queries.signature import output_nodes
from gdsurgeon.analysis.traversal.control_flow import ControlFlow, control_flow_of
from gdsurgeon.analysis.traversal.topology import depending_on, topology_of
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import BOOL, DTYPES, base_dtype, is_inexact
from gdsurgeon.ops.kinds import (
    CASES,
    CONVOLUTIONS,
    FUSED_BATCH_NORMS,
    IDENTITY,
    IFS,
    PLACEHOLDERS,
    PRODUCTS,
    READS_SHAPE,
    RESTORES,
    SAVES,
    SWITCH,
    TENSOR_ARRAYS,
)
from gdsurgeon.ops.op_defs import Arg, OpDef, arg_dtypes

_DATA = (
    CONVOLUTIONS | PRODUCTS | READS_SHAPE | FUSED_BATCH_NORMS
    | frozenset(("BiasAdd", "LookupTableFind", "LookupTableFindV2"))
)  # fmt: skip
"""Ops whose results are not shape arithmetic, or do not depend on the values of their inputs."""

_DECIDING = {
    **dict.fromkeys(SWITCH, (1,)),
    **dict.fromkeys(RESTORES, (0, 1, 2)),
    **{op: tuple(range(first)) for op, first in SAVES.items()},
    "Assert": (0,),
    "LinSpace": (0, 1, 2),
    "LoopCond": (0,),
    "Range": (0, 1, 2),
    **dict.fromkeys(CASES | IFS, (0,)),
}
"""Deciding inputs in addition to those that are always integers."""
_DIVISIONS = frozenset(("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"))
"""Ops that TensorFlow refuses to run on integers if input 1 is 0."""


def shape_sources(graph: Graph, *, every: bool = False) -> set[str]:
    """Returns the names of the nodes from which shapes of a graph follow, including constants.

    Results of a function that are not floats decide as well. With `every` all results do, because shapes follow from
    the results of a call.
    """
    ends = (end for end in graph.ends if end.inputs)
    pending: list[Node] = [end for end in ends if every or _may_decide(end.inputs[0].dtype)]
    pending += [read.node for node in graph.nodes() for read in _deciding(node)]
    found = closure(pending, lambda node: [r.node for r in node.inputs] if node.exists and node.op not in _DATA else ())
    return {node.name for node in found if node.exists}


def _deciding(node: Node) -> Iterator[Output]:
    """Yields the inputs that a node reads as a whole number or a branch."""
    inputs, definition = node.inputs, node.op_def
    if definition is None:
        yield from inputs  # any of them may decide
        return
    for slot in (*_DECIDING.get(node.op, ()), *((1,) if node.op in _DIVISIONS else ())):
        yield from inputs[slot : slot + 1]
    is_call = node.op in node.graph.functions or definition.takes_functions
    at = 0
    for arg in definition.inputs:
        types = arg_dtypes([arg], definition, node.plain_attr)
        is_key = node.op.startswith("Parse") and arg.name.endswith("_keys")
        for dtype, read in zip(types, inputs[at:], strict=False):
            if is_key or _takes_whole_numbers(arg, definition) or (is_call and _may_decide(dtype)):
                yield read
        at += len(types)


def _takes_whole_numbers(arg: Arg, definition: OpDef) -> bool:
    """Returns whether all dtypes allowed for `arg` are integers."""
    attr = definition.attrs.get(arg.type_attr or arg.list_attr)
    types = (arg.dtype,) if arg.dtype else attr.allowed if attr is not None else ()
    return bool(types) and all(_is_whole(dtype) for dtype in types)


def _is_whole(number: int) -> bool:
    dtype = DTYPES.get(base_dtype(number))
    return dtype is not None and dtype.is_integer and not dtype.is_quantized


def _may_decide(number: int) -> bool:
    """Returns whether a tensor of that dtype may be an axis, a size, a count or a branch."""
    return not number or _is_whole(number) or base_dtype(number) == BOOL


MOST_SCORES = 16
_MOST_NODES = 2000
"""The maximum number of nodes that are searched: the deciding nodes are near the output."""

_OF_THE_SHAPE = READS_SHAPE | PLACEHOLDERS | {"TensorArraySizeV3", "Const"}
"""Ops whose result does not depend on the values of their inputs."""


def deciding_nodes(outputs: Iterable[Node]) -> list[Node]:
    """Returns the nearest float nodes upstream of the nodes in `outputs` without float outputs; at most `MOST_SCORES`.

    Most changes of a weight do not change a predicted class, so a comparison of classes passes for almost any change.
    The scores from which the class is chosen show even small changes.
    """
    discrete = [node for node in outputs if node.output_dtypes and not any(map(is_inexact, node.output_dtypes))]
    seen = set(discrete)
    found: dict[Node, None] = {}
    pending = list(discrete)
    for node in pending:  # grows while it is walked
        if node.op in _OF_THE_SHAPE or len(seen) > _MOST_NODES:
            continue
        for read in node.inputs:
            if not read.node.exists:
                continue
            if is_inexact(read.dtype):
                if read.node.op not in _OF_THE_SHAPE:
                    found[read.node] = None
            elif read.node not in seen:
                seen.add(read.node)
                pending.append(read.node)
        if len(found) >= MOST_SCORES:
            break
    return list(found)[:MOST_SCORES]


CHOOSES = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK)")
"""Ops that sort their inputs."""
PICKS = re.compile("^(NonMaxSuppression|CombinedNonMaxSuppression|TopK|ArgMax$|ArgMin$)")
"""The same, and ops that return the position of a maximum or minimum."""
SCORED = re.compile("^(LogSoftmax|Softmax)$")
MOST_SOURCES = 32
MOST_NODES = 4000
"""The maximum number of nodes that are searched upstream of a node: a loop is not large."""
_NOTHING = PLACEHOLDERS | {"Const"}
_PASSED_BY = IDENTITY | TENSOR_ARRAYS | {"TensorArrayScatter", "TensorArrayScatterV2", "TensorArrayScatterV3"}
"""Ops that forward their inputs, for example into a loop."""


def chosen_from(graph: Graph, *, picks: bool = False) -> list[str]:
    """Returns the names of the producers of the float inputs of Softmax, NonMaxSuppression and TopK nodes.

    With `picks`, also those of ArgMax and ArgMin nodes. A producer in a loop or in a branch cannot be fetched; it is
    replaced by the nearest nodes upstream that run once. At most `MOST_SOURCES` names are returned.
    """
    flow = control_flow_of(graph)
    found: dict[str, None] = {}
    chooses = PICKS if picks else CHOOSES
    for node in _nodes(graph, lambda op: bool(chooses.match(op) or SCORED.match(op))):
        for read in node.inputs[: 2 if "Suppression" in node.op else 1]:
            for source in _fetchable(flow, read):
                found[source.name] = None
        if len(found) >= MOST_SOURCES:
            break
    return list(found)[:MOST_SOURCES]


def _fetchable(flow: ControlFlow, read: Output) -> Iterator[Node]:
    """Yields the producer of `read`, or the nearest upstream nodes that output floats and run once."""
    seen, pending = {read.node}, [read]
    for read in pending:  # grows while it is walked
        node = read.node
        if len(seen) > MOST_NODES or not node.exists or node.op in _NOTHING:
            continue
        is_inner = node.op in _PASSED_BY or not flow.runs_once(flow.topology.id_of(node))
        if not is_inner and is_inexact(read.dtype):
            yield node
        elif is_inner:
            new = [above for above in node.inputs if above.node not in seen]
            seen.update(above.node for above in new)
            pending += new


def reordered(graph: Graph, nodes: Iterable[str] = (), *, picks: bool = False) -> dict[str, str]:
    """Returns the compared tensors whose order a small error may change, with the reason not to compare each.

    Args:
        graph: the graph.
        nodes: the names of nodes that are compared in addition to the outputs.
        picks: whether ArgMax and ArgMin are treated like NonMaxSuppression and TopK.
    """
    chooses = PICKS if picks else CHOOSES
    choosing = _nodes(graph, lambda op: bool(chooses.match(op)))
    chosen = depending_on(graph, [node.name for node in choosing]) if choosing else frozenset()
    why = "not compared, because a small error may change its order; the values it is chosen from are compared"
    compared = dict.fromkeys([*(node.name for node in output_nodes(graph)), *nodes])
    return {output.name: why for name in compared if name in chosen for output in graph[name].outputs}


def _nodes(graph: Graph, is_meant: Callable[[str], bool]) -> list[Node]:
    topology = topology_of(graph)
    wanted = [op for op in topology.ops() if is_meant(op)]
    return [topology.node(number) for number in topology.with_ops(wanted)]
