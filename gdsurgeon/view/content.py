"""The visible content of one graph in columns, without node objects: two graphs can be shown as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import NamedTuple

from gdsurgeon.analysis.queries.attr_text import format_attr, format_element, format_float
from gdsurgeon.analysis.queries.constants import values_of
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.analysis.traversal.order import depth_first, places_in
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.errors import GdsurgeonError, InputError, Remark
from gdsurgeon.graph.attrs import Shape, attr_value, format_shape, functions_in, shape_of
from gdsurgeon.graph.constants import TensorHeader, constant, constant_header
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.records import forms_of
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import DTYPES, FLOAT64, STRING, base_dtype, dtype_name
from gdsurgeon.ops.kinds import ENTER, MERGE, NEXT_ITERATION, RESHAPES, VARIABLE_READS, is_variable
from gdsurgeon.values import Data
from gdsurgeon.wire.protos import AttrValue, decode_error

HIDDEN = frozenset(("_output_shapes", "_class", "value", "_XlaAlreadyClustered"))
"""Attrs that are shown as something else, or are of no interest to a person."""


@dataclass(eq=False, repr=False)
class Content(Data):
    """The visible content of a graph or of the body of a function, with one row for each node.

    Attributes:
        title: the name of the graph.
        names: the name of each node.
        ops: the op of each node.
        inputs: the data inputs of each node: the row of the producer and the output index, without missing ones.
        controls: the rows of the control inputs of each node.
        outputs: dtype and shape of each output, ``float32 [?,224,224,3]``.
        attrs: key and value as text, without `HIDDEN`.
        devices: the requested device of each node, or ''.
        calls: the functions that each node calls.
        parameters: the number of trainable elements of each node: elements of floating-point and 8-bit constants, and
            of variables; with signatures, only of nodes that they need.
        flops: the floating-point operations of each node; see `flops`.
        order: the rows, producers first.
        is_weight: whether the node is a constant or a variable, or only forwards one, and has consumers: a picture
            shows it in its consumer.
        faults: the fault of a node, by its row.
        value: returns the value of a small constant as text, by its row; '' for every other node. It is read on demand.
        statistics: the same for the statistics of a large constant.
    """

    title: str
    names: list[str]
    ops: list[str]
    inputs: list[Sequence[tuple[int, int]]]
    controls: list[Sequence[int]]
    outputs: list[Sequence[str]]
    attrs: list[Sequence[tuple[str, str]]]
    devices: list[str]
    calls: list[tuple[str, ...]]
    parameters: list[int]
    flops: list[int]
    order: list[int]
    is_weight: bytearray
    faults: dict[int, str]
    value: Callable[[int], str] = lambda _: ""
    statistics: Callable[[int], str] = lambda _: ""

    def __len__(self) -> int:
        return len(self.names)

    def places(self) -> Sequence[int]:
        """Returns for each row its place in the order."""
        return places_in(self.order, len(self))

    def readers(self) -> list[list[int]]:
        """Returns the consumers of each row, each once; control edges are left out."""
        out: list[list[int]] = [[] for _ in self.names]
        for row, inputs in enumerate(self.inputs):
            for producer in dict.fromkeys(producer for producer, _ in inputs):
                out[producer].append(row)
        return out


def content_of(graph: Graph, title: str, faults: Iterable[Remark] = ()) -> Content:
    """Returns the content of `graph`; of a broken graph, the readable part.

    Faults of the structural check are added to their nodes.
    """
    top, shapes, library = topology_of(graph), infer_shapes(graph), graph.functions
    has_functions = next(iter(library), None) is not None
    forms = [] if graph.is_edited else _forms(graph)
    form_of = forms if len(forms) == top.size else [-1] * top.size
    known: dict[int, _Facts] = {}  # facts of equal nodes, by form
    texts: dict[object, Sequence[str]] = {}  # of equal outputs
    is_served = _served(graph, top)
    numbers = list(top.numbers())
    row_of = dict(zip(numbers, range(len(numbers)), strict=True))
    constants: dict[int, Node] = {}
    values = Values(constants)
    out = Content(
        title=title,
        names=[top.name(number) for number in numbers],
        ops=[top.op(number) for number in numbers],  # a node with an illegal name is not found by its name
        inputs=[], controls=[], outputs=[], attrs=[], devices=[], calls=[], parameters=[], flops=[],
        order=[], is_weight=bytearray(len(numbers)), faults={},
        value=values.text, statistics=values.statistics,
    )  # fmt: skip
    for row, number in enumerate(numbers):
        node, op, form = top.node(number), out.ops[row], form_of[number]
        if op == "Const":
            constants[row] = node
        reads = top.reads(number)
        out.inputs.append(tuple([(row_of[p], slot) for p, slot in reads if slot >= 0 and p in row_of]))
        out.controls.append(tuple([row_of[p] for p, slot in reads if slot < 0 and p in row_of]))
        if top.reads_missing(number):
            out.faults[row] = "reads a node that does not exist"
        facts, outputs = _Facts(), ()  # type: tuple[_Facts, Sequence[str]]
        try:
            facts = known[form] if form in known else _facts_of(node, library, has_functions)
            if form >= 0:
                known[form] = facts
            shaped = tuple([(dtype, shapes.shape(Output(node, k))) for k, dtype in enumerate(facts.dtypes)])
            if shaped not in texts:
                texts[shaped] = tuple([tensor_text(dtype, shape) for dtype, shape in shaped])
            outputs = texts[shaped]
        except GdsurgeonError as error:
            out.faults[row] = str(error)
            facts = _Facts()
        out.devices.append(facts.device)
        out.outputs.append(outputs)
        out.attrs.append(facts.attrs)
        out.calls.append(facts.calls)
        is_sound = row not in out.faults
        out.flops.append(flops(op, node, shapes) if is_sound else 0)
        out.parameters.append(_parameters(node, values.header(row)) if is_sound and is_served[number] else 0)
        node.release()  # a million headers are a gigabyte
    out.order = order_of(out)
    find_weights(out)
    rows = {name: row for row, name in enumerate(out.names)} if faults else {}
    for fault in faults:
        named = fault.facts.get("nodes", [fault.facts.get("node")])  # all nodes of a cycle
        if "function" not in fault.facts and isinstance(named, list):
            for row in (rows[name] for name in named if name in rows):
                out.faults.setdefault(row, fault)
    return out


def tensor_text(dtype: int, shape: Shape) -> str:
    """Returns ``float32 [?,224,224,3]``; for a reference, the dtype that it refers to."""
    return f"{dtype_name(base_dtype(dtype))} {format_shape(shape)}" if dtype else "?"


def short_tensor(text: str) -> str:
    """Returns ``f32[?,224,224,3]`` for the result of `tensor_text`."""
    dtype, _, shape = text.partition(" ")
    for name, letter in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if dtype.startswith(name):
            return letter + dtype.removeprefix(name) + shape
    return dtype + shape


class _Facts(NamedTuple):
    """Facts of a node without its name and inputs: attrs as text, functions called, dtypes of outputs, its device."""

    attrs: tuple[tuple[str, str], ...] = ()
    calls: tuple[str, ...] = ()
    dtypes: tuple[int, ...] = ()
    device: str = ""


def _forms(graph: Graph) -> list[int]:
    """Returns a number for each node, equal for nodes that differ only in names and inputs; -1 for irregular nodes.

    An empty list if the file is corrupt.
    """
    numbers: dict[bytes, int] = {}
    try:
        return [
            numbers.setdefault(form, len(numbers)) if isinstance(form, bytes) else -1 for form in forms_of(graph.source)
        ]
    except InputError:
        return []


def _facts_of(node: Node, library: FunctionLibrary, has_functions: bool) -> _Facts:
    values = [(key, _decoded(node.attr_bytes(key) or b"")) for key in sorted(node.attr_keys) if key not in HIDDEN]
    named = [func.name for _, value in values for func in functions_in(value)] if has_functions else ()
    calls = tuple(name for name in dict.fromkeys((node.op, *named)) if name in library)
    return _Facts(
        tuple([(key, format_attr(value)) for key, value in values]), calls, tuple(node.output_dtypes or ()), node.device
    )


def _parameters(node: Node, constant: TensorHeader | None) -> int:
    """Returns the number of trainable elements of a constant or a variable."""
    if constant is not None:
        return constant.elements if _can_be_trained(constant.dtype) else 0
    if not is_variable(node.op):
        return 0
    shape, dtype = node.attr("shape"), node.plain_attr("dtype")
    sizes = shape_of(shape.shape) if shape is not None else None
    if sizes is None or min(sizes, default=0) < 0 or not isinstance(dtype, int) or not _can_be_trained(dtype):
        return 0
    return prod(sizes)


def _decoded(data: bytes) -> AttrValue:
    try:
        return attr_value(data)
    except decode_error():
        raise InputError("an attr is corrupt") from None


def _served(graph: Graph, top: Topology) -> bytearray:
    """Returns for each node whether its weights count: all, or, in a model with signatures, those that these need.

    The others are slots of an optimizer, or copies that Keras keeps.
    """
    serving = serving_of(graph)
    texts = {text for served in serving.signatures.values() for text in served.outputs.values()} if serving else set()
    outputs = [found for text in texts if (found := graph.find(parse_tensor(text).node)) is not None]
    return top.upstream([top.id_of(node) for node in outputs]) if outputs else bytearray(b"\1") * top.size


def _can_be_trained(dtype: int) -> bool:
    """Returns whether weights can have `dtype`: floating-point, complex, quantized or 8-bit integer."""
    kind = DTYPES.get(base_dtype(dtype))
    return kind is not None and (kind.is_inexact or kind.is_quantized or (kind.is_integer and kind.size == 1))


def order_of(content: Content) -> list[int]:
    """Returns the rows in depth-first order from the nodes without consumers; each row comes after its inputs.

    Therefore connected nodes are close together, and weights come before their consumers. Edges that close a loop are
    left out; on an illegal cycle one edge is left out.
    """
    sources = [
        [*(p for p, _ in inputs), *controls] for inputs, controls in zip(content.inputs, content.controls, strict=True)
    ]
    for row, op in enumerate(content.ops):
        if op in MERGE:
            sources[row] = [p for p in sources[row] if content.ops[p] not in NEXT_ITERATION]
    is_read = bytearray(len(content))
    for found in sources:
        for source in found:
            is_read[source] = 1
    roots = sorted(range(len(content)), key=is_read.__getitem__)
    return depth_first(roots, len(content), sources.__getitem__)


def find_weights(content: Content) -> None:
    """Marks constants, variables, and nodes that only forward one: reads, reshapes, casts from a smaller dtype."""
    flags = content.is_weight
    for row in content.order:
        op, inputs = content.ops[row], content.inputs[row]
        if op == "Const" or is_variable(op):
            flags[row] = True  # its control inputs only determine its frame or branch
        elif op in _PASSES and inputs and not content.controls[row] and row not in content.faults:
            flags[row] = all(flags[source] for source, _ in inputs)
    read = {source for inputs in content.inputs for source, _ in inputs}
    for row in range(len(content)):
        flags[row] = flags[row] and row in read  # without consumers it is an output, not an inner value


_PASSES = VARIABLE_READS | ENTER | RESHAPES | {"Cast", "Dequantize"}


MOST = 16
"""Elements of a constant that is small."""
MOST_SUMMED = 4 << 20
"""The maximum number of elements, of all constants together, that are read for statistics: some tenths of a second."""


class Values:
    """The values of constants as text.

    Args:
        constants: nodes by row. The statistics of large constants end after `MOST_SUMMED` elements.
    """

    def __init__(self, constants: Mapping[int, Node]) -> None:
        self._constants = constants
        self._headers: dict[int, TensorHeader | None] = {}
        self._left = MOST_SUMMED

    def header(self, row: int) -> TensorHeader | None:
        """Returns the header of the constant in a row; None if it is missing or corrupt."""
        if row in self._constants and row not in self._headers:
            try:
                self._headers[row] = constant_header(self._constants[row])
            except GdsurgeonError:
                self._headers[row] = None
        return self._headers.get(row)

    def text(self, row: int) -> str:
        """Returns the value of a small constant: ``0.5``, ``[[1,2],[3,4]]``; '' for other nodes."""
        header = self.header(row)
        if header is None or header.elements > MOST:
            return ""
        try:
            value = constant(self._constants[row])
        except GdsurgeonError:
            return ""
        return "" if value is None else _nested([_element(item, value.dtype) for item in value.values], value.shape)

    def statistics(self, row: int) -> str:
        """Returns statistics of a large numeric constant, or '' for other nodes.

        For example ``-0.53 to 0.61, mean 0.001, standard deviation 0.05, 3 zero``.
        """
        header = self.header(row)
        if header is None or not MOST < header.elements <= self._left or header.dtype == STRING:
            return ""
        self._left -= header.elements
        try:
            return ", ".join(
                text if label != "mean" else f"mean {text}"
                for label, text in values_of(self._constants[row]).statistics.lines()
            )
        except GdsurgeonError:
            return ""


def _element(item: int | float | bytes, dtype: int) -> str:
    return format_float(item) if isinstance(item, float) and dtype != FLOAT64 else format_element(item)


def _nested(texts: list[str], shape: Sequence[int]) -> str:
    """Returns `texts` in brackets, according to `shape`."""
    for size in reversed(shape):
        if not size:
            return "[]"
        texts = [f"[{','.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
    return texts[0] if texts else ""


Sizes = Sequence[int]


def flops(op: str, node: Node, shapes: Shapes) -> int:
    """Returns the number of floating-point operations of `node`; 0 for ops that are not counted, or with unknown
    shapes.

    A dim that is not known (a batch, mostly) counts as one.
    """
    count = _COUNTS.get(op)
    if count is None:
        return 0
    found = [shapes.shape(tensor) for tensor in (*node.inputs, node.output)]
    *inputs, output = [[max(size, 1) for size in shape] for shape in found if shape is not None] or [[]]
    return count(node, inputs, output) if len(inputs) >= 2 and len(inputs) == len(node.inputs) else 0


def _product(node: Node, inputs: Sequence[Sizes], output: Sizes) -> int:
    if len(inputs[0]) < 2:
        return 0
    turned = any(node.plain_attr(key) for key in ("transpose_a", "adj_x"))
    return 2 * prod(output) * inputs[0][-2 if turned else -1]


def _einsum(node: Node, inputs: Sequence[Sizes], _output: Sizes) -> int:
    """Returns the product of the sizes of all labels; the dimensions of an ellipsis are broadcast."""
    size_of: dict[str, int] = {}
    broadcast: list[list[int]] = []
    for term, sizes in zip(node.text_attr("equation").split("->")[0].split(","), inputs, strict=False):
        before, dots, after = term.strip().partition("...")
        stop = len(sizes) - len(after)
        named = [*zip(before, sizes, strict=False), *(zip(after, sizes[stop:], strict=False) if dots else ())]
        for label, size in named:
            size_of[label] = max(size_of.get(label, 1), size)
        if dots:
            broadcast.append(list(reversed(sizes[len(before) : stop])))
    leading = (max(dims) for dims in zip_longest(*broadcast, fillvalue=1))
    return 2 * prod(size_of.values()) * prod(leading)


_COUNTS: dict[str, Callable[[Node, Sequence[Sizes], Sizes], int]] = {
    # Each element of the output is a sum over a window and the input channels; for depthwise, of one channel.
    **dict.fromkeys(
        ("Conv2D", "Conv3D", "_FusedConv2D", "QuantizedConv2D"),
        lambda _, inputs, output: 2 * prod(output) * prod(inputs[1][:-1]),
    ),
    "DepthwiseConv2dNative": lambda _, inputs, output: 2 * prod(output) * prod(inputs[1][:-2]),
    # Each element of input 2 is added to a window and to the output channels of the filter.
    **dict.fromkeys(
        ("Conv2DBackpropInput", "Conv3DBackpropInputV2"),
        lambda _, inputs, output: 2 * prod(inputs[2]) * prod(inputs[1][:-1]) if len(inputs) > 2 else 0,
    ),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "_FusedMatMul"), _product),
    "Einsum": _einsum,
}
