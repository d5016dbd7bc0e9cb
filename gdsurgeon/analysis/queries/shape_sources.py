"""Constants that determine shapes, or whether a graph runs at all: axes, sizes, counts, branches.

An input that is always integer by the signature of its op decides about shapes (axes, the shape of a Reshape, paddings,
indices). So do inputs of control flow, the names of features in tf.Examples and of tensors in checkpoints, and a few
more inputs listed here. Tensors from which they are computed by arithmetic lead to shapes as well; results of a
convolution, a product or a look-up are data.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import BOOL, DTYPES, base_dtype
from gdsurgeon.ops.kinds import (
    CASES,
    CONVOLUTIONS,
    FUSED_BATCH_NORMS,
    IFS,
    PRODUCTS,
    READS_SHAPE,
    RESTORES,
    SAVES,
    SWITCH,
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
    found: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in found and node.exists:
            found.add(node)
            pending += [read.node for read in node.inputs] if node.op not in _DATA else []
    return {node.name for node in found}


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
