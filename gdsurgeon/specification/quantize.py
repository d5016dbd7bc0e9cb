"""quantize: constants are made of smaller ones, by a Cast, or a Cast and a Mul, and nothing else is different.

What each is then is computed here once more from what is written, and held against what it was, element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, FunctionChanges, Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import is_numbered
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import NUMBERS, dtype_name
from gdsurgeon.specification.elements import elements

_PARTS = ("small", "scale", "cast")
"""What constants are called that are made for one, below its name."""
PRECISION = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}
"""By how much of itself an element may be off, and by how much at all where it is next to 0."""


def violations(
    comparison: Comparison, dtype: str, keep: str = "", least: int = 64, tolerance: float | None = None
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del tolerance  # of the proof
    pattern = re.compile(keep) if keep else None
    yield from _different(comparison, dtype, pattern, least, FunctionChanges(changed=list(comparison.inside)), "")
    for name, inside in comparison.inside.items():
        faults = _different(inside, dtype, pattern, least, FunctionChanges(), f"{name}/")
        yield from (f"in the function {quoted(name)} {line}" for line in faults)


def _different(
    comparison: Comparison,
    to: str,
    pattern: re.Pattern[str] | None,
    least: int,
    functions: FunctionChanges,
    prefix: str,
) -> Iterator[str]:
    """What is different about the nodes of a graph, or of a body, and should not be."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    intent = Intent(functions=functions)
    for name in facts.altered:
        old, new = before[name], after[name]
        header = constant_header(old) if old.op == "Const" else None
        if header is None or header.elements < least or (pattern is not None and pattern.search(prefix + name)):
            continue
        intent.changed.append(name)
        intent.altered += _made(new, old.output.dtype, to)
        intent.added += [each for each in facts.added for part in _PARTS if is_numbered(each, f"{name}/{part}")]
        yield from (f"{quoted(name)} {line}" for line in _faults(old, new, to))
    yield from audit(comparison, intent)


def _made(node: Node, wide: int, to: str) -> list[Altered]:
    """What the node is in the place of a constant."""
    types = {"attr T": wide} if to == "int8" else {"attr SrcT": NUMBERS[to], "attr DstT": wide}
    out = [Altered(node.name, what, type_value(number).SerializeToString()) for what, number in types.items()]
    out += [Altered(node.name, what, None) for what in ("attr dtype", "attr value")]
    reads = tuple(read.name for read in node.inputs)
    return [*out, Altered(node.name, "op", "Mul" if to == "int8" else "Cast"), Altered(node.name, "controls", ()),
            Altered(node.name, "inputs", reads)]  # fmt: skip


def _faults(old: Node, new: Node, to: str) -> Iterator[str]:
    """What is wrong with what stands for a constant."""
    import numpy as np

    wide = old.output.dtype
    parts = [read.node for read in new.inputs]
    if to == "int8":
        if len(parts) != 2 or parts[0].op != "Cast" or len(parts[0].inputs) != 1:
            yield "is not computed by a Cast and a scale"
            return
        cast, scale = parts
        types = [cast.plain_attr(key) for key in ("SrcT", "DstT")]
        constants = [cast.inputs[0].node, scale]
        if types != [NUMBERS["int8"], wide] or cast.controls or cast.device != old.device:
            yield "is computed by a wrong Cast"
    else:
        constants = parts
    if any(each.op != "Const" for each in constants) or len(constants) != (2 if to == "int8" else 1):
        yield "is not computed from constants"
        return
    if any(each.controls != _same_nodes(old, new) or each.device != old.device for each in constants):
        yield "has control dependencies, or is on a different device"
    dtypes = [dtype_name(each.output.dtype) for each in constants]
    if dtypes != [to, dtype_name(wide)][: len(constants)]:
        yield f"is computed from {' and '.join(dtypes)}"
        return
    arrays = [held.array() for each in (old, *constants) if (held := elements(each)) is not None]
    if len(arrays) <= len(constants) or arrays[0].shape != arrays[1].shape:
        yield "has a different shape"
        return
    exact, made = arrays[:2]
    with np.errstate(all="ignore"):
        if to != "int8":
            near, tiny = PRECISION[to]
            allowed = np.abs(exact.astype(np.float64)) * near + tiny
            found = made.astype(np.float64)
        else:
            factors = arrays[2].astype(np.float64)
            found = made.astype(np.float64) * factors
            allowed = np.broadcast_to(np.abs(factors) * 0.5001, exact.shape)
        off = np.abs(exact.astype(np.float64) - found)
        same = (exact == found) | (np.isnan(exact) & np.isnan(found)) | (off <= allowed)
    if not same.all():
        yield f"differs in {int((~same).sum()):,} of {same.size:,} elements"


def _same_nodes(old: Node, new: Node) -> tuple[Node, ...]:
    """The nodes of the graph after that OLD, of the graph before, waits for."""
    graph = new.graph
    assert isinstance(graph, Graph)
    return tuple(graph[control.name] for control in old.controls)
