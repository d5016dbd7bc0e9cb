"""quantize: a Cast, or a Cast and a Mul, computes constants from smaller constants.

The written values are computed here again, and compared with the original values element by element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent, Value
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import constant_header
from gdsurgeon.graph.names import is_numbered
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import NUMBERS, dtype_name
from gdsurgeon.specification.elements import elements

_PARTS = ("small", "scale", "cast")
"""The names of the added nodes, under the name of the constant."""
PRECISION = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}
"""The largest relative and absolute errors of an element."""


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
    """Yields the violations in a graph or in the body of a function."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    intent = Intent(functions=functions)
    for name in facts.altered:
        old, new = before[name], after[name]
        header = constant_header(old) if old.op == "Const" else None
        if header is None or header.elements < least or (pattern is not None and pattern.search(prefix + name)):
            continue
        types = (
            {"attr T": old.output.dtype} if to == "int8" else {"attr SrcT": NUMBERS[to], "attr DstT": old.output.dtype}
        )
        values: dict[str, Value] = {key: type_value(dtype).SerializeToString() for key, dtype in types.items()}
        values |= {"op": "Mul" if to == "int8" else "Cast", "attr dtype": None, "attr value": None, "controls": ()}
        intent.alter(name, {**values, "inputs": tuple(read.name for read in new.inputs)})
        intent.added += [each for each in facts.added for part in _PARTS if is_numbered(each, f"{name}/{part}")]
        yield from (f"{quoted(name)} {line}" for line in _faults(old, new, to))
    yield from audit(comparison, intent)


def _faults(old: Node, new: Node, to: str) -> Iterator[str]:
    """Yields the faults of the replacement of a constant."""
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
    controls = [control.name for control in old.controls]
    if any([c.name for c in each.controls] != controls or each.device != old.device for each in constants):
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
