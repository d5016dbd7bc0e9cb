"""strip-weights: constants have only a dtype and a shape, or are small; nothing else is different."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import DTYPES, STRING, element_size
from gdsurgeon.wire.protos import TensorProto

MOST_LEFT, MOST_FLOATS_LEFT = 1024, 8
"""The largest numbers of elements of a constant that stays, and of one that is floating-point."""
MOST_WITH_STRINGS = 64
READS_STRINGS = re.compile("^(Save|Restore|ParseExample|ParseSequenceExample)")
FILLS_TABLE = re.compile("InitializeTable|LookupTableImport")
ONE_VALUE = 16
"""The largest size in bytes of a tensor with one value, without its shape."""


def violations(comparison: Comparison, keep_strings: bool = False, keep: str = "") -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    facts, intent = comparison.facts, Intent()
    for name, altered in facts.altered.items():
        node, old = comparison.after[name], comparison.before[name]
        if set(altered) == {"attr value"} and node.op == "Const":
            intent.alter(name, {"attr value": node.attr_bytes("value")})
            yield from (f"{quoted(name)} {line}" for line in _faults(old, node))
    intent.functions.changed = [*facts.functions.changed]
    yield from audit(comparison, intent)
    for name, inside in comparison.inside.items():
        changed = [node for node, altered in inside.facts.altered.items() if set(altered) == {"attr value"}]
        faults = [
            f"{quoted(node)} {line}" for node in changed for line in _faults(inside.before[node], inside.after[node])
        ]
        lines = (*audit(inside, Intent(changed=changed)), *faults)
        yield from (f"in the function {quoted(name)} {line}" for line in lines)
    pattern = re.compile(keep) if keep else None
    yield from _left(comparison.after, keep_strings, pattern)
    for name in facts.altered:
        if pattern is not None and pattern.search(name):
            yield f"{quoted(name)} should be kept, but was changed"


def _faults(old: Node, new: Node) -> Iterator[str]:
    """Yields the faults of the value of a constant."""
    was, now = constant_header(old), constant_header(new)
    if was is None or now is None or (was.dtype, was.dims) != (now.dtype, now.dims):
        yield "has a different dtype or shape"
    elif now.content_bytes or now.values > 1:
        yield "still holds values"
    elif now.values and not _is_zero(attr_value(new.attr_bytes("value") or b"").tensor):
        yield "has a value that is not 0"


def _is_zero(tensor: TensorProto) -> bool:
    """Returns whether the only value of a tensor is 0, False or an empty string."""
    dtype = DTYPES[tensor.dtype]
    values = list(getattr(tensor, dtype.field))
    return not tensor.tensor_content and len(values) == 1 and not values[0]


def _left(graph: Graph, keep_strings: bool, pattern: re.Pattern[str] | None) -> Iterator[str]:
    """Yields constants with too many elements, also in functions."""
    exempt = set()
    for node in graph.nodes():
        if READS_STRINGS.match(node.op) or node.op_def is None or (keep_strings and FILLS_TABLE.match(node.op)):
            exempt |= {read.node.name for read in node.inputs}
    for node in graph.nodes():
        header = constant_header(node) if node.op == "Const" else None
        if header is None or header.content_bytes + header.values <= 1 or node.name in exempt:
            continue
        is_meant = pattern is not None and pattern.search(node.name)
        if not is_meant and _is_too_much(header.dtype, header.elements, keep_strings):
            yield f"{quoted(node.name)} still holds {header.elements:,} elements"
    for function in graph.functions:
        readers = [inner for inner in function.node_def if READS_STRINGS.match(inner.op)]
        exempt = {text.partition(":")[0] for inner in readers for text in inner.input}
        for inner in function.node_def:
            name = f"{function.signature.name}/{inner.name}"
            tensor = inner.attr["value"].tensor if inner.op == "Const" else None
            if tensor is None or inner.name in exempt or (pattern is not None and pattern.search(name)):
                continue
            count = prod(dim.size for dim in tensor.tensor_shape.dim)
            dims = sum(dim.ByteSize() + 2 for dim in tensor.tensor_shape.dim)
            if tensor.ByteSize() - dims > ONE_VALUE and _is_too_much(tensor.dtype, count, keep_strings):
                yield f"{quoted(name)} still holds {count:,} elements"


def _is_too_much(dtype: int, elements: int, keep_strings: bool) -> bool:
    if keep_strings and (dtype == STRING or elements <= MOST_WITH_STRINGS):
        return False
    if dtype == STRING or not element_size(dtype):
        return dtype == STRING and elements > 0
    return elements > (MOST_FLOATS_LEFT if DTYPES[dtype].is_inexact else MOST_LEFT)
