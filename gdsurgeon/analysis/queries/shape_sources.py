"""Which constants shapes follow from, or whether a graph runs at all: axes, sizes, counts, branches.

An input that is always integer by the signature of its op decides about shapes (axes, the shape of a Reshape,
paddings, indices). So do inputs of control flow, the names of features in tf.Examples and of tensors in checkpoints,
and a few more inputs listed here. Tensors from which they are computed by arithmetic lead to shapes as well; results
of a convolution, a product or a look-up are data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.graph.functions import resolve_op
from gdsurgeon.graph.graph import Graph
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
from gdsurgeon.ops.op_defs import Arg, AttrReader, OpDef, arg_dtypes
from gdsurgeon.wire.protos import FunctionDef

_DATA = (
    CONVOLUTIONS | PRODUCTS | READS_SHAPE | FUSED_BATCH_NORMS
    | frozenset(("BiasAdd", "LookupTableFind", "LookupTableFindV2"))
)  # fmt: skip
"""Ops whose results are no arithmetic of shapes, or are the same whatever the values are that they read."""

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
"""Ops that TensorFlow does not run on whole numbers where input 1 is 0."""


class Reader(NamedTuple):
    """A node of a graph or of a function, reduced to the needed facts.

    Attributes:
        name: of the node.
        op: of the node.
        sources: the names of the nodes that it reads, input by input.
        definition: the signature of the op; None where it is unknown.
        attr: gives the plain value of an attr.
        is_call: whether functions are handed the inputs.
    """

    name: str
    op: str
    sources: Sequence[str]
    definition: OpDef | None
    attr: AttrReader
    is_call: bool = False


def shape_sources(graph: Graph) -> set[str]:
    """The names of the nodes that shapes of GRAPH follow from, constants among them."""
    return _leading_to(_readers(graph))


def shape_sources_of(function: FunctionDef, graph: Graph, *, every: bool = False) -> set[str]:
    """The same for the nodes of a function of the library of GRAPH.

    Results that are no floats decide as well; EVERY: all results do, since shapes follow from what a call returns.
    """
    results = [arg for arg in function.signature.output_arg if every or not arg.type or _may_decide(arg.type)]
    roots = [function.ret[arg.name].partition(":")[0] for arg in results]
    return _leading_to(_readers_in(function, graph), roots)


def _readers(graph: Graph) -> Iterator[Reader]:
    for node in graph.nodes():
        definition = node.op_def
        sources = [read.node.name for read in node.inputs]
        yield Reader(node.name, node.op, sources, definition, node.plain_attr, _is_call(node.op, definition, graph))


def _readers_in(function: FunctionDef, graph: Graph) -> Iterator[Reader]:
    from gdsurgeon.graph.attrs import plain

    for node in function.node_def:
        definition = resolve_op(node.op, graph.functions)
        sources = [text.partition(":")[0] for text in node.input if not text.startswith("^")]

        def attr(key: str, attrs: object = node.attr) -> object:
            return plain(attrs[key]) if key in attrs else None  # type: ignore[index, operator]

        yield Reader(node.name, node.op, sources, definition, attr, _is_call(node.op, definition, graph))


def _is_call(op: str, definition: OpDef | None, graph: Graph) -> bool:
    return op in graph.functions or (definition is not None and definition.takes_functions)


def _leading_to(readers: Iterable[Reader], roots: Iterable[str] = ()) -> set[str]:
    """The nodes that deciding inputs are computed from, and ROOTS, by a walk that stops at data."""
    known = {reader.name: reader for reader in readers}
    pending = [*roots, *(name for reader in known.values() for name in _deciding(reader))]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        reader = known.get(name)
        if name in found or reader is None:
            continue
        found.add(name)
        if reader.op not in _DATA:
            pending += reader.sources
    return found


def _deciding(reader: Reader) -> Iterator[str]:
    """What READER reads as a whole number or a branch."""
    sources, definition = reader.sources, reader.definition
    if definition is None:
        yield from sources  # nothing is known of it
        return
    for slot in _DECIDING.get(reader.op, ()):
        yield from sources[slot : slot + 1]
    if reader.op in _DIVISIONS:
        yield from sources[1:2]
    at = 0
    for arg in definition.inputs:
        types = arg_dtypes([arg], definition, reader.attr)
        for dtype, source in zip(types, sources[at:], strict=False):
            is_key = reader.op.startswith("Parse") and arg.name.endswith("_keys")
            if is_key or _takes_whole_numbers(arg, definition) or (reader.is_call and _may_decide(dtype)):
                yield source
        at += len(types)


def _takes_whole_numbers(arg: Arg, definition: OpDef) -> bool:
    """Whether whole numbers are all that ARG can be."""
    attr = definition.attrs.get(arg.type_attr or arg.list_attr)
    types = (arg.dtype,) if arg.dtype else attr.allowed if attr is not None else ()
    return bool(types) and all(_is_whole(dtype) for dtype in types)


def _is_whole(number: int) -> bool:
    dtype = DTYPES.get(base_dtype(number))
    return dtype is not None and dtype.is_integer and not dtype.is_quantized


def _may_decide(number: int) -> bool:
    """Whether a tensor of that dtype may be an axis, a size, a count or a branch."""
    return not number or _is_whole(number) or base_dtype(number) == BOOL
