"""Stated shapes, arithmetic on shapes, and the interface of shape rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod
from typing import TypeVar

from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import Shape, attr_value, format_shape, shape_of
from gdsurgeon.graph.constants import constant_header, decode_tensor
from gdsurgeon.graph.node import Node, Output, placeholder_shape, same_dtype
from gdsurgeon.ops.dtypes import INT32, INT64, base_dtype, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS, STATED_SHAPES
from gdsurgeon.wire.protos import decode_error


def stated_shape(output: Output) -> Shape:
    """Returns the shape of a placeholder, a constant, or a node with an ``_output_shapes`` attr; else None."""
    node = output.node
    if not node.exists:
        return None
    if node.op in PLACEHOLDERS:
        return placeholder_shape(node)
    if node.op == "Const":
        header = constant_header(node)
        return header.dims if header is not None else None
    value = node.attr(STATED_SHAPES)
    if value is not None and output.index < len(value.list.shape):
        return shape_of(value.list.shape[output.index])
    return None


def compatible(a: Shape, b: Shape) -> bool:
    """Returns whether one tensor can have both shapes; an unknown shape fits all."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and not any(map(differ, a, b))


def includes(shape: Shape, other: Shape) -> bool:
    """Returns whether each tensor that has the shape `other` also has `shape`."""
    if shape is None or other is None:
        return shape is None
    return len(shape) == len(other) and all(a in (-1, b) for a, b in zip(shape, other, strict=True))


def differ(a: int, b: int) -> bool:
    """Returns whether two dims are known and different."""
    return a != b and a >= 0 and b >= 0


def replaced(shape: Sequence[int], at: int, *dims: int) -> tuple[int, ...]:
    """Returns `shape` with `dims` instead of the dim at the axis `at`."""
    return (*shape[:at], *dims, *shape[at + 1 :])


def check_can_replace(old: Output, new: Output, key: str = "replacement") -> None:
    """Raises EditError if the known dtypes or the stated shapes of two tensors differ; its fact `key` names `new`."""
    shapes, has_dtype = (stated_shape(old), stated_shape(new)), same_dtype(old.dtype, new.dtype)
    if has_dtype and compatible(*shapes):
        return
    what = "shape" if has_dtype else "dtype"
    expected, found = (typed(tensor.dtype, shape) for tensor, shape in zip((old, new), shapes, strict=True))
    graph = new.node.graph
    other = quoted(new.name) + (f" of {printable(graph.source_name)}" if graph is not old.node.graph else "")
    message = f"{quoted(old.name)} ({expected}) cannot be replaced by {other} ({found}): {what}s differ"
    facts = {"tensor": old.name, "expected": expected, key: new.name, "found": found}
    raise EditError(message, code=f"{what}-mismatch", facts=facts)


def typed(dtype: int, shape: Shape) -> str:
    """Returns a DataType and a shape, if it is known, as text: ``float32 [?,3]``; ``unknown type`` for DataType 0."""
    if not dtype:
        return "unknown type"
    return dtype_name(base_dtype(dtype)) + (f" {format_shape(shape)}" if shape is not None else "")


UNKNOWN = -1
"""An unknown dim."""

Value = tuple["int | None", ...] | None
"""The elements of an integer tensor in row-major order, None for unknown elements; None if their number is unknown."""

MOST_ELEMENTS = 1024
"""The most elements of a tensor with known values: shape arithmetic needs few."""
MOST_OUTPUTS = 4096
"""The most outputs of a node with inferred shapes; only a broken file has more."""
MOST_REMEMBERED = 4096
"""The most remembered results of a function of shapes: many nodes of a graph have the same shapes."""
SMALL = 16 * MOST_ELEMENTS
"""The most bytes of a constant that is decoded whole, which is faster than skipping its values."""


class Misfit(Exception):
    """The inputs of a node contradict each other or its attrs: TensorFlow would not load it, or not run it.

    Attributes:
        shapes: the shapes of its outputs that are still known.
    """

    def __init__(self, text: str, shapes: Sequence[Shape] = ()) -> None:
        super().__init__(text)
        self.shapes = shapes


@dataclass(eq=False, repr=False, slots=True)
class Call:
    """A node, as the argument of a shape rule.

    Attributes:
        op: its op.
        find: returns the node.
        shapes: the shapes of its data inputs.
        values: the values of its data inputs.
        results: the shapes of its outputs, after its shape rule has returned them.
        found: the node, if it was requested.
    """

    op: str
    find: Callable[[], Node]
    shapes: list[Shape]
    values: list[Value]
    results: Sequence[Shape] = ()
    found: Node | None = None
    _constant: tuple[int, Shape, Value] | None = None

    @property
    def node(self) -> Node:
        """The node itself."""
        if self.found is None:
            self.found = self.find()
        return self.found

    def attr(self, key: str) -> object:
        """Returns the plain value of an attr, or its default; None if neither exists."""
        return self.node.setting(key)

    def text(self, key: str) -> str:
        """Returns the value of a string attr, or its default; '' if neither exists."""
        value = self.attr(key)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")

    def stated(self, key: str = "shape") -> Shape:
        """Returns the shape in an attr; None if it is unknown or missing."""
        value = self.node.attr(key)
        return shape_of(value.shape) if value is not None and value.WhichOneof("value") == "shape" else None

    def number(self, key: str, otherwise: int = 0) -> int:
        """Returns the value of an int, bool or type attr, or its default; `otherwise` if neither exists."""
        value = self.attr(key)
        return value if isinstance(value, int) else otherwise

    def ints(self, key: str) -> list[int]:
        """Returns the value of a list(int) attr, or its default; [] if neither exists."""
        value = self.attr(key)
        return [int(item) for item in value] if isinstance(value, list) else []

    def dtype(self, output: int = 0) -> int:
        """Returns the DataType of an output, 0 if unknown."""
        if self._constant is not None:
            return self._constant[0]
        found = self.node.output_dtypes
        return base_dtype(found[output]) if found is not None and output < len(found) else 0

    @property
    def constant(self) -> tuple[int, Shape, Value]:
        """The DataType and the shape of a Const, and its elements if they are few ints."""
        if self._constant is None:
            self._constant = read_constant(self.node)
        return self._constant

    def shape(self, index: int) -> Shape:
        """Returns the shape of a data input; unknown if the input does not exist."""
        return self.shapes[index] if -len(self.shapes) <= index < len(self.shapes) else None

    def known(self, index: int) -> tuple[int, ...]:
        """Returns the shape of a data input.

        Raises:
            LookupError: its rank is unknown. The outputs of the node are then unknown.
        """
        shape = self.shape(index)
        if shape is None:
            raise LookupError(f"input {index}")
        return shape

    def elements(self, index: int) -> tuple[int | None, ...]:
        """Returns the value of a data input.

        Raises:
            LookupError: even its size is unknown. The outputs of the node are then unknown.
        """
        value = self.value(index)
        if value is None:
            raise LookupError(f"input {index}")
        return value

    def vector(self, index: int) -> tuple[int | None, ...]:
        """Returns the value of a data input with one dim. Raises LookupError as `elements`, or if its rank is not 1."""
        if len(self.known(index)) != 1:
            raise LookupError(f"input {index}")
        return self.elements(index)

    def value(self, index: int) -> Value:
        """Returns the value of a data input; None if it is unknown or the input does not exist."""
        return self.values[index] if -len(self.values) <= index < len(self.values) else None

    def scalar(self, index: int) -> int | None:
        """Returns the element of a data input with one element; None if unknown."""
        value = self.value(index)
        return value[0] if value is not None and len(value) == 1 else None

    def size(self, index: int) -> int:
        """Returns the value of a data input with one element, as a dim; `UNKNOWN` if unknown."""
        value = self.scalar(index)
        return UNKNOWN if value is None else value

    def dims(self, index: int) -> Shape:
        """Returns the shape that a data input holds as its value; unknown or negative numbers become unknown dims."""
        value = self.value(index)
        if value is not None:
            return as_dims(value)
        length = self.length(index)
        return None if length is None else (UNKNOWN,) * length

    def length(self, index: int) -> int | None:
        """Returns the number of elements of a data input; None if unknown or more than `MOST_ELEMENTS`."""
        value = self.value(index)
        if value is not None:
            return len(value)
        return small_count(self.shape(index))

    def ranked(self, index: int, rank: int) -> tuple[int, ...]:
        """Returns the shape of a data input that must have `rank` dims. Raises Misfit if its rank differs."""
        return ranked(self.shape(index), rank)


def read_constant(node: Node) -> tuple[int, Shape, Value]:
    """Returns the DataType and the shape of a Const, and its elements if they are few ints; weights are not read."""
    start, end = node.header.attrs.get("value", (0, 0)) if node.record is not None else (0, 0)
    if end - start > SMALL:
        header = constant_header(node)
        return (header.dtype, header.dims, None) if header is not None else (0, None, None)
    data = node.attr_bytes("value")
    try:
        tensor = attr_value(data or b"").tensor
    except decode_error():
        return 0, None, None
    shape = shape_of(tensor.tensor_shape)
    elements = count(shape)
    if tensor.dtype not in (INT32, INT64) or elements is None or not 0 <= elements <= MOST_ELEMENTS:
        return tensor.dtype, shape, None
    found = decode_tensor(tensor)
    return tensor.dtype, shape, found and tuple(item for item in found.values if isinstance(item, int))


def ranked(shape: Shape, rank: int) -> tuple[int, ...]:
    """Returns `shape`, which must have `rank` dims; unknown dims if it is None. Raises Misfit if its rank differs."""
    if shape is None:
        return (UNKNOWN,) * rank
    if len(shape) != rank:
        raise Misfit(f"{format_shape(shape)} has {len(shape)} dimensions, but must have {rank}")
    return shape


@lru_cache(MOST_REMEMBERED)
def count(shape: Shape) -> int | None:
    """Returns the number of elements of a tensor of this shape, or None if the number is unknown."""
    if shape is None:
        return None
    return prod(shape) if UNKNOWN not in shape else (0 if 0 in shape else None)


@lru_cache(MOST_REMEMBERED)
def small_count(shape: Shape) -> int | None:
    """Returns the number of elements of a tensor of this shape; None if unknown or more than `MOST_ELEMENTS`."""
    found = count(shape)
    return found if found is not None and found <= MOST_ELEMENTS else None


def as_dims(numbers: Iterable[int | None]) -> tuple[int, ...]:
    """Returns `numbers` as dims; unknown or negative numbers become unknown dims."""
    return tuple(UNKNOWN if number is None or number < 0 else number for number in numbers)


def known_product(dims: Iterable[int]) -> int:
    """Returns the product of the known `dims`."""
    return prod(dim for dim in dims if dim >= 0)


def axis_of(axis: int, rank: int) -> int:
    """Returns `axis`, counted from the front. Raises Misfit if a tensor with `rank` dims does not have the axis."""
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} does not exist: there are {rank} dimensions")
    return axis % rank


def merge_dims(a: int, b: int) -> int:
    """Returns the dim that satisfies both statements. Raises Misfit if they differ."""
    if differ(a, b):
        raise Misfit(f"{a} and {b} differ")
    return a if a >= 0 else b


def merge(a: Shape, b: Shape) -> Shape:
    """Returns the shape that satisfies both statements. Raises Misfit if they differ."""
    if a is None or b is None:
        return b if a is None else a
    if not compatible(a, b):
        raise Misfit(f"{format_shape(a)} and {format_shape(b)} differ")
    return tuple(map(merge_dims, a, b))


def merge_all(shapes: Iterable[Shape]) -> Shape:
    """Returns the shape that satisfies all statements. Raises Misfit if they differ."""
    return reduce(merge, shapes, None)


def agreed(shapes: Sequence[Shape]) -> Shape:
    """Returns the common facts of several shapes, for a tensor that has one of them."""
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return tuple(dims[0] if len(set(dims)) == 1 else UNKNOWN for dims in zip(*known, strict=True))


@lru_cache(MOST_REMEMBERED)
def broadcast(a: Shape, b: Shape) -> Shape:
    """Returns the shape to which two shapes broadcast, by NumPy's rules. Raises Misfit if they cannot broadcast."""
    if a is None or b is None:
        return None
    if a == b and UNKNOWN not in a:
        return a
    rank = max(len(a), len(b))
    out: list[int] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == 1 or y == 1:
            out.append(y if x == 1 else x)
        elif differ(x, y):
            raise Misfit(f"{format_shape(a)} and {format_shape(b)} cannot be broadcast to one shape")
        else:
            out.append(max(x, y))  # a known dim other than 1 determines the result
    return tuple(out)


R = TypeVar("R")


class Rules(dict[str, Callable[[Call], Sequence[R]]]):
    """The rule of each op: it returns the shapes, or the values, of a node's outputs.

    Missing ones at the end are unknown. A rule raises Misfit if the inputs contradict each other.
    """

    def of(self, ops: str) -> Callable[[Callable[[Call], Sequence[R]]], Callable[[Call], Sequence[R]]]:
        """Returns a decorator that registers a function as the rule of `ops`, which are separated by white space."""

        def register(function: Callable[[Call], Sequence[R]]) -> Callable[[Call], Sequence[R]]:
            self.update(dict.fromkeys(ops.split(), function))
            return function

        return register

    def add(self, table: Mapping[str, Callable[[Call], Sequence[R]]]) -> None:
        """Registers functions as the rules of ops; the keys of `table` are as for `of`."""
        for ops, function in table.items():
            self.of(ops)(function)


RULES: Rules[Shape] = Rules()
"""The rules for shapes."""
VALUE_RULES: Rules[Value] = Rules()
"""The rules for values, called after the shapes of the outputs are inferred. Only int32 and int64 values are kept."""
