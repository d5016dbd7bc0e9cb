"""Edits of the values of constants: freeze-input, quantize and strip-weights."""

from __future__ import annotations

import ast
import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent, Value
from gdsurgeon.container.surroundings import Surroundings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import attr_value, type_value
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header, header_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import BFLOAT16, DTYPES, NUMBERS, STRING, element_size
from gdsurgeon.specification.nodes import unread
from gdsurgeon.specification.surroundings import Expected
from gdsurgeon.wire.protos import AttrValue

if TYPE_CHECKING:
    from numpy.typing import NDArray


Array: TypeAlias = "NDArray[Any]"


class Elements(NamedTuple):
    """The DataType, the dims and the elements of a tensor, as in memory."""

    dtype: int
    shape: tuple[int, ...]
    data: bytes

    def array(self) -> Array:
        """The elements in their shape; bfloat16 as float32."""
        import numpy as np

        if self.dtype == BFLOAT16:
            return (np.frombuffer(self.data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return np.frombuffer(self.data, np.dtype(DTYPES[self.dtype].name)).reshape(self.shape)


def elements(node: Node) -> Elements | None:
    """Returns the elements of a constant; None for other dtypes than numbers."""
    tensor = attr_value(node.attr_bytes("value") or b"").tensor
    kind = DTYPES.get(tensor.dtype)
    if kind is None or not kind.size:
        return None
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    count, data = prod(shape), tensor.tensor_content
    if count and not data:
        code = "H" if kind.field == "half_val" else kind.code
        if not code:
            return None
        values = list(getattr(tensor, kind.field)) or [0]
        data = struct.pack(f"<{len(values)}{code}", *values)
    data += data[-kind.size :] * (count - len(data) // kind.size)
    return Elements(tensor.dtype, shape, data[: count * kind.size])


# -- freeze-input ----------------------------------------------------------------------------------------


def freeze_input(comparison: Comparison, values: Sequence[tuple[str, object]]) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    intent = Intent()
    for name, value in values:
        name = name.removesuffix(":0")
        old, new = before[name], after[name]
        intent.alter(name, {"op": "Const", "inputs": (), "attr shape": None, "attr _output_shapes": None})
        intent.alter(name, {"attr dtype": type_value(old.output.dtype), "attr value": new.attr_bytes("value")})
        found = constant(new)
        if found is not None and not _is(found, value):
            yield f"{quoted(name)} should be {str(value)[:60]}, but is {str(found.values)[:60]}"
    intent.removed = unread(comparison, [name.removesuffix(":0") for name, _ in values])
    yield from audit(comparison, intent)


def around_freeze_input(expected: Expected, found: Surroundings, values: Sequence[tuple[str, object]]) -> None:
    """Removes the inputs that are constants now from the expected signatures."""
    del found
    names = {f"{name.removesuffix(':0')}:0" for name, _ in values}
    for place, value in list(expected.values.items()):
        if place[0] == "signature" and place[2] == "input" and place[-1] == "tensor" and value in names:
            _, key, _, label, _ = place
            expected.drop(place[:4], ("signature", key, "default", label))


def _is(found: Constant, value: object) -> bool:
    """Returns whether a constant has a value. One number also means a tensor of this element with dimensions of 1."""
    if isinstance(value, str) and [_equal(value, item) for item in found.values if isinstance(item, bytes)] == [True]:
        return True  # text, even if it looks like a number
    listed = getattr(value, "tolist", None)
    items: list[object] = []
    _flatten(listed() if listed is not None else value if not isinstance(value, str) else _parsed(value), items)
    return len(items) == len(found.values) and all(map(_equal, items, found.values))


def _parsed(text: str) -> object:
    spelt = re.sub(r"\b(true|false)\b", lambda word: word[0].title(), text.strip(), flags=re.IGNORECASE)
    spelt = re.sub(r"\b(nan|inf)(inity)?\b", lambda word: f"'{word[0]}'", spelt, flags=re.IGNORECASE)
    for parse in (json.loads, ast.literal_eval):  # JSON accepts text that is not UTF-8, literal_eval accepts tuples
        with suppress(ValueError, SyntaxError):
            return cast("object", parse(spelt))
    return text


def _flatten(value: object, out: list[object]) -> None:
    if isinstance(value, (list, tuple)):
        for item in value:
            _flatten(item, out)
    else:
        out.append(value)


def _equal(wanted: object, found: object) -> bool:
    if isinstance(found, bytes):
        return wanted == found or str(wanted) == found.decode("utf-8", "surrogateescape")
    if isinstance(wanted, str):
        try:
            wanted = float(wanted)
        except ValueError:
            return True  # an unknown spelling
    if isinstance(found, float) and isinstance(wanted, (int, float)):
        near = abs(found - wanted) <= 2**-7 * abs(wanted)  # the precision of the coarsest floating-point dtype
        return near or struct.pack("<d", found) == struct.pack("<d", wanted) or found != found
    return wanted == found


# -- quantize --------------------------------------------------------------------------------------------


PRECISION = {"float16": (2.0**-11, 2.0**-25), "bfloat16": (2.0**-8, 2.0**-134)}
"""The largest relative and absolute errors of an element."""


def quantize(
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
    made = {re.sub(r"_\d+$", "", name): name for name in facts.added}  # a number makes a name unique
    for name in facts.altered:
        old = before[name]
        header = constant_header(old) if old.op == "Const" else None
        if header is None or header.elements < least or (pattern is not None and pattern.search(prefix + name)):
            continue
        # New constants, and for int8 a Cast, are named like the parts; the constant itself becomes the last op.
        parts = ("small", "scale", "cast") if to == "int8" else ("small",)
        small, *others = names = [made.get(f"{name}/{part}", f"{name}/{part}") for part in parts]
        wide, narrow = type_value(old.output.dtype), type_value(NUMBERS[to])
        controls, dtypes = [control.name for control in old.controls], {"SrcT": narrow, "DstT": wide}
        intent.add(small, "Const", (), controls, old.device, {"dtype": narrow, "value": None})
        values: dict[str, Value | AttrValue] = {"attr dtype": None, "attr value": None, "controls": ()}
        if others:
            scale, cast = others
            intent.add(scale, "Const", (), controls, old.device, {"dtype": wide, "value": None})
            intent.add(cast, "Cast", [small], (), old.device, dtypes)
            values |= {"op": "Mul", "inputs": (cast, scale), "attr T": wide}
        else:
            values |= {"op": "Cast", "inputs": (small,), **{f"attr {key}": dtype for key, dtype in dtypes.items()}}
        intent.alter(name, values)
        found = [elements(node) for new in names[:2] if (node := after.find(new)) is not None and node.op == "Const"]
        arrays = [held.array() for held in (elements(old), *found) if held is not None]
        if len(arrays) != len(parts[:2]) + 1 or arrays[0].shape != arrays[1].shape:
            yield f"{quoted(name)} is not computed from constants of its shape"
        elif wrong := _wrong_elements(to, *arrays):
            yield f"{quoted(name)} differs in {wrong:,} of {arrays[0].size:,} elements"
    yield from audit(comparison, intent)


def _wrong_elements(to: str, exact: Array, small: Array, scale: Array | None = None) -> int:
    """Returns the number of elements that are not close to those of the original constant."""
    import numpy as np

    with np.errstate(all="ignore"):
        found = small.astype(np.float64)
        if scale is None:
            near, tiny = PRECISION[to]
            allowed = np.abs(exact.astype(np.float64)) * near + tiny
        else:
            found = found * scale.astype(np.float64)
            allowed = np.broadcast_to(np.abs(scale.astype(np.float64)) * 0.5001, exact.shape)
        off = np.abs(exact.astype(np.float64) - found)
        same = (exact == found) | (np.isnan(exact) & np.isnan(found)) | (off <= allowed)
    return int((~same).sum())


# -- strip-weights ---------------------------------------------------------------------------------------


MOST_LEFT, MOST_FLOATS_LEFT = 1024, 8
"""The largest numbers of elements of a constant that stays, and of one that is floating-point."""
MOST_WITH_STRINGS = 64
READS_STRINGS = re.compile("^(Save|Restore|ParseExample|ParseSequenceExample)")
FILLS_TABLE = re.compile("InitializeTable|LookupTableImport")


def strip_weights(comparison: Comparison, keep_strings: bool = False, keep: str = "") -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    yield from _stripped(comparison, comparison.facts.functions.changed)
    for name, inside in comparison.inside.items():
        yield from (f"in the function {quoted(name)} {line}" for line in _stripped(inside, []))
    pattern = re.compile(keep) if keep else None
    yield from _left(comparison.after, keep_strings, pattern)
    for name in comparison.facts.altered:
        if pattern is not None and pattern.search(name):
            yield f"{quoted(name)} should be kept, but was changed"


def _stripped(comparison: Comparison, functions: list[str]) -> Iterator[str]:
    """Yields the violations in a graph, in which `functions` may change, or in the body of a function."""
    intent = Intent(functions=FunctionChanges(changed=[*functions]))
    for name, altered in comparison.facts.altered.items():
        node, old = comparison.after[name], comparison.before[name]
        if set(altered) == {"attr value"} and node.op == "Const":
            intent.alter(name, {"attr value": node.attr_bytes("value")})
            yield from (f"{quoted(name)} {line}" for line in _faults_of_stripped(old, node))
    yield from audit(comparison, intent)


def _faults_of_stripped(old: Node, new: Node) -> Iterator[str]:
    """Yields the faults of the value of a constant."""
    was, now = constant_header(old), constant_header(new)
    if was is None or now is None or (was.dtype, was.dims) != (now.dtype, now.dims):
        yield "has a different dtype or shape"
    elif now.content_bytes or now.values > 1:
        yield "still holds values"
    elif now.elements and not now.values and (now.dtype == STRING or DTYPES[now.dtype].code):
        yield "has no value"
    elif now.values:
        tensor = attr_value(new.attr_bytes("value") or b"").tensor
        if tensor.tensor_content or any(getattr(tensor, DTYPES[tensor.dtype].field)):
            yield "has a value that is not 0"


def _left(graph: Graph, keep_strings: bool, pattern: re.Pattern[str] | None) -> Iterator[str]:
    """Yields constants with too many elements, also in functions."""
    exempt = set()
    for node in graph.nodes():
        if READS_STRINGS.match(node.op) or node.op_def is None or (keep_strings and FILLS_TABLE.match(node.op)):
            exempt |= {read.node.name for read in node.inputs}
    found = [(n.name, constant_header(n)) for n in graph.nodes() if n.op == "Const" and n.name not in exempt]
    for function in graph.functions:
        inner = function.node_def
        exempt = {text.partition(":")[0] for node in inner if READS_STRINGS.match(node.op) for text in node.input}
        for each in (each for each in inner if each.op == "Const" and each.name not in exempt):
            value = each.attr["value"].SerializeToString()
            found.append((f"{function.signature.name}/{each.name}", header_of(value)))
    for name, header in found:
        is_held = header is not None and header.content_bytes + header.values > 1
        is_meant = is_held and pattern is not None and pattern.search(name)
        if header is not None and is_held and not is_meant and _is_too_much(header, keep_strings):
            yield f"{quoted(name)} still holds {header.elements:,} elements"


def _is_too_much(header: TensorHeader, keep_strings: bool) -> bool:
    dtype, count = header.dtype, header.elements
    if keep_strings and (dtype == STRING or count <= MOST_WITH_STRINGS):
        return False
    if dtype == STRING or not element_size(dtype):
        return dtype == STRING and count > 0
    return count > (MOST_FLOATS_LEFT if DTYPES[dtype].is_inexact else MOST_LEFT)
