"""Stated shapes, arithmetic on shapes, and the interface of shape rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from gdsurgeon.graph.attrs import Shape, attr_value, format_shape, shape_of
from gdsurgeon.graph.constants import constant_header, decode_tensor
from gdsurgeon.graph.node import Node, Output, placeholder_shape, same_dtype
from gdsurgeon.ops.dtypes import INT32, INT64, base_dtype, dtype_name
from gdsurgeon.ops.kinds import PLACEHOLDERS, STATED_SHAPES
from gdsurgeon.wire.messages import decode_error


def stated_shape(output: Output) -> Shape:
    """The shape of a placeholder, a constant, or a node with an ``_output_shapes`` attr; else None (unknown)."""
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
    return len(a) == len(b) and all(x == y or x < 0 or y < 0 for x, y in zip(a, b, strict=True))


def may_be_one(a: Output, b: Output) -> bool:
    """Returns whether one tensor can replace the other, by their known dtypes and stated shapes."""
    return not mismatch(a, b)


def mismatch(a: Output, b: Output) -> str:
    """The code of the error that one tensor cannot stand for the other, or '' where it can; see `may_be_one`."""
    if not same_dtype(a.dtype, b.dtype):
        return "dtype-mismatch"
    return "" if compatible(stated_shape(a), stated_shape(b)) else "shape-mismatch"


def describe(output: Output) -> str:
    """``float32 [?,3]``: dtype and stated shape of a tensor; ``unknown`` where neither is known."""
    return typed(output.dtype, stated_shape(output))


def typed(dtype: int, shape: Shape) -> str:
    """The same of a DataType, 0 where it is not known, and a shape."""
    if not dtype:
        return "unknown type"
    return dtype_name(base_dtype(dtype)) + (f" {format_shape(shape)}" if shape is not None else "")


UNKNOWN = -1
"""An unknown dim."""

Value = tuple["int | None", ...] | None
"""The elements of an integer tensor in row-major order, None for an unknown one; None where even their number is."""

MOST_ELEMENTS = 1024
"""Elements up to which the values of a tensor are followed: shape arithmetic is on a few."""
MOST_OUTPUTS = 4096
"""Outputs up to which the shapes of a node are stated; more there are only in a broken file."""
SMALL = 16 * MOST_ELEMENTS
"""Bytes up to which a constant is decoded whole, which is quicker than to skip its values."""


class Misfit(Exception):
    """The inputs of a node contradict each other or its attrs: TensorFlow would not load or not run it.

    Attributes:
        shapes: the shapes of its outputs that are known nevertheless.
    """

    def __init__(self, text: str, shapes: Sequence[Shape] = ()) -> None:
        super().__init__(text)
        self.shapes = shapes


class Call:
    """A node as a rule sees it.

    Attributes:
        op: its op.
        shapes: of its data inputs.
        values: of its data inputs.
        results: the shapes of its outputs, once its rule has stated them.
    """

    __slots__ = ("_constant", "_find", "_node", "op", "results", "shapes", "values")

    def __init__(self, op: str, find: Callable[[], Node], shapes: list[Shape], values: list[Value]) -> None:
        self.op = op
        self.shapes = shapes
        self.values = values
        self.results: Sequence[Shape] = ()
        self._find = find
        self._node: Node | None = None
        self._constant: tuple[int, Shape, Value] | None = None

    @property
    def node(self) -> Node:
        """The node itself."""
        if self._node is None:
            self._node = self._find()
        return self._node

    def attr(self, key: str) -> object:
        """The plain value of an attr, or its default; None where there is neither."""
        return self.node.setting(key)

    def text(self, key: str) -> str:
        """The value of a string attr, or its default; '' where there is neither."""
        value = self.attr(key)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")

    def number(self, key: str, otherwise: int = 0) -> int:
        """The value of an attr that is an int, a bool or a type, or its default; OTHERWISE where there is neither."""
        value = self.attr(key)
        return value if isinstance(value, int) else otherwise

    def ints(self, key: str) -> list[int]:
        """The value of an attr that is a list of ints, or its default; [] where there is neither."""
        value = self.attr(key)
        return [int(item) for item in value] if isinstance(value, list) else []

    def dtype(self, output: int = 0) -> int:
        """The DataType of an output, 0 where it is not known."""
        if self._constant is not None:
            return self._constant[0]
        found = self.node.output_dtypes
        return base_dtype(found[output]) if found is not None and output < len(found) else 0

    @property
    def constant(self) -> tuple[int, Shape, Value]:
        """Of a Const the DataType, the shape and, where they are few, the elements."""
        if self._constant is None:
            self._constant = read_constant(self.node)
        return self._constant

    def shape(self, index: int) -> Shape:
        """The shape of a data input; unknown where there is no such input."""
        return self.shapes[index] if -len(self.shapes) <= index < len(self.shapes) else None

    def known(self, index: int) -> tuple[int, ...]:
        """The shape of a data input. Raises LookupError where its rank is unknown: nothing is stated then."""
        shape = self.shape(index)
        if shape is None:
            raise LookupError(f"input {index}")
        return shape

    def elements(self, index: int) -> tuple[int | None, ...]:
        """The value of a data input. Raises LookupError where not even its size is known: nothing is stated then."""
        value = self.value(index)
        if value is None:
            raise LookupError(f"input {index}")
        return value

    def vector(self, index: int) -> tuple[int | None, ...]:
        """The same of one that must have one dim, else nothing is stated."""
        if len(self.known(index)) != 1:
            raise LookupError(f"input {index}")
        return self.elements(index)

    def value(self, index: int) -> Value:
        """The value of a data input."""
        return self.values[index] if -len(self.values) <= index < len(self.values) else None

    def scalar(self, index: int) -> int | None:
        """The value of a data input that has one element."""
        value = self.value(index)
        return value[0] if value is not None and len(value) == 1 else None

    def size(self, index: int) -> int:
        """The dim that is the value of a data input."""
        value = self.scalar(index)
        return UNKNOWN if value is None else value

    def dims(self, index: int) -> Shape:
        """Returns the shape that a data input holds as its value; unknown or negative numbers become unknown dims."""
        value = self.value(index)
        if value is not None:
            return tuple(UNKNOWN if item is None or item < 0 else item for item in value)
        length = self.length(index)
        return None if length is None else (UNKNOWN,) * length

    def length(self, index: int) -> int | None:
        """How many elements a data input has; None where that is not known, or more than are followed."""
        value = self.value(index)
        if value is not None:
            return len(value)
        found = count(self.shape(index))
        return found if found is not None and found <= MOST_ELEMENTS else None

    def ranked(self, index: int, rank: int) -> tuple[int, ...]:
        """The shape of a data input that must have RANK dims. Raises Misfit where it has others."""
        return ranked(self.shape(index), rank)


def read_constant(node: Node) -> tuple[int, Shape, Value]:
    """The DataType of a Const, its shape and, where they are few ints, its elements; weights are not read."""
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
    """SHAPE, which must have RANK dims. Raises Misfit where it has others."""
    if shape is None:
        return (UNKNOWN,) * rank
    if len(shape) != rank:
        raise Misfit(f"{format_shape(shape)} has {len(shape)} dimensions, but must have {rank}")
    return shape


def count(shape: Shape) -> int | None:
    """How many elements a tensor has, or None where its shape does not say."""
    if shape is None:
        return None
    return prod(shape) if UNKNOWN not in shape else (0 if 0 in shape else None)


def known_product(dims: Iterable[int]) -> int:
    """Returns the product of the known `dims`."""
    return prod(dim for dim in dims if dim >= 0)


def axis_of(axis: int, rank: int) -> int:
    """AXIS counted from the front. Raises Misfit where a tensor of RANK dims has no such axis."""
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} does not exist: there are {rank} dimensions")
    return axis % rank


def merge_dims(a: int, b: int) -> int:
    """Returns the dim that satisfies both statements. Raises Misfit if they differ."""
    if a >= 0 and b >= 0 and a != b:
        raise Misfit(f"{a} and {b} differ")
    return a if a >= 0 else b


def merge(a: Shape, b: Shape) -> Shape:
    """Returns the shape that satisfies both statements. Raises Misfit if they differ."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x >= 0 and y >= 0 and x != y for x, y in zip(a, b, strict=True)):
        raise Misfit(f"{format_shape(a)} and {format_shape(b)} differ")
    return tuple(map(merge_dims, a, b))


def merge_all(shapes: Iterable[Shape]) -> Shape:
    """Returns the shape that satisfies all statements. Raises Misfit if they differ."""
    out: Shape = None
    for shape in shapes:
        out = merge(out, shape)
    return out


def agreed(shapes: Sequence[Shape]) -> Shape:
    """Returns the common facts of several shapes; a tensor has one of them."""
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return tuple(dims[0] if len(set(dims)) == 1 else UNKNOWN for dims in zip(*known, strict=True))


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that two shapes are broadcast to, as numpy has it. Raises Misfit where they cannot be."""
    if a is None or b is None:
        return None
    if a == b and UNKNOWN not in a:
        return a
    rank = max(len(a), len(b))
    out: list[int] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x == 1 or y == 1:
            out.append(y if x == 1 else x)
        elif x >= 0 and y >= 0 and x != y:
            raise Misfit(f"{format_shape(a)} and {format_shape(b)} cannot be broadcast to one shape")
        else:
            out.append(max(x, y))  # one that is known and not 1 decides
    return tuple(out)


Rule = Callable[[Call], Sequence[Shape]]
"""Returns the shapes of a node's outputs; missing ones at the end are unknown. Raises Misfit."""

RULES: dict[str, Rule] = {}
"""The rule of each op."""


def rule(ops: str) -> Callable[[Rule], Rule]:
    """Makes a function the rule of OPS, which are separated by white space."""

    def register(function: Rule) -> Rule:
        for op in ops.split():
            RULES[op] = function
        return function

    return register


def rules(table: Mapping[str, Rule]) -> None:
    """Makes functions the rules of ops: by what `rule` takes."""
    for ops, function in table.items():
        rule(ops)(function)
