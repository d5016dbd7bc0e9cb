"""Constant folding: nodes that depend only on constants or known shapes become constants.

Nodes in branches and loops are not folded, because each of them would need a copy; neither are nodes with state or
randomness.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import prod

from gdsurgeon.analysis.queries.effects import ops_in_functions
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.functions import NO_OPTIMIZER_OF_ITS_OWN
from gdsurgeon.edits.simplifying.graph_view import BITS, GraphView
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import TENSOR, constant_in, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import LIBRARY, NODE, VERSIONS
from gdsurgeon.graph.writing import encoded, node_def
from gdsurgeon.ops.dtypes import DTYPES, INT32, INT64, STRING, element_size
from gdsurgeon.ops.kinds import CALLS, LOOPS, PLACEHOLDERS, READS_SHAPE, is_random
from gdsurgeon.ops.reach import NONE, reach_of
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import LEN, encode_len, encode_varint
from gdsurgeon.wire.node_record import encode_node
from gdsurgeon.wire.protos import FunctionDefLibrary, NodeDef
from gdsurgeon.wire.write import read_chunks, size_of

TENSOR_CONTENT = 4
_CODES: dict[int, str] = {INT32: "i", INT64: "q"}


def whole_numbers(dtype: int, shape: Sequence[int], items: Sequence[int | None]) -> Tensor | None:
    """Returns a tensor of int32 or int64; None if an item is unknown, or if the number of items is not that
    of `shape`.
    """
    code = _CODES.get(dtype)
    known = [item for item in items if item is not None]
    if code is None or len(known) != len(items) or len(known) != prod(shape):
        return None
    try:
        return Tensor(dtype, shape, struct.pack(f"={len(known)}{code}", *known))
    except struct.error:
        return None


def _parts(value: Tensor) -> list[bytes | memoryview]:
    """Returns the parts of the AttrValue of a Const, without a copy of the elements, which may be many."""
    if isinstance(value.data, list):
        return [tensor_value(STRING, value.shape, value.data).SerializeToString()]
    size, data = element_size(value.dtype), memoryview(value.data).cast("B")
    if size and len(data) > 2 * size and data[size:] == data[:-size]:
        once = _splat(value, bytes(data[:size]))
        if once is not None:
            return [once]
    head = raw_value(value.dtype, value.shape)
    if not data:
        return [head.SerializeToString()]
    tensor = head.tensor.SerializeToString()
    start = encode_varint(TENSOR_CONTENT << 3 | LEN) + encode_varint(len(data))
    inner = len(tensor) + len(start) + len(data)
    return [encode_varint(TENSOR << 3 | LEN) + encode_varint(inner) + tensor + start, data]


def constant_attrs(value: Tensor) -> dict[str, bytes]:
    """Returns the attrs of a Const."""
    return {"dtype": type_value(value.dtype).SerializeToString(), "value": b"".join(_parts(value))}


def constant_size(name: str, device: str, value: Tensor) -> int:
    """Returns the size in bytes of a Const in a GraphDef, without serializing it."""
    attrs = {"dtype": type_value(value.dtype).SerializeToString()}
    entry = _field_size(len(b"value")) + _field_size(sum(map(len, _parts(value))))
    return _field_size(len(encode_node(name, "Const", (), device, attrs)) + _field_size(entry))


def _field_size(length: int) -> int:
    """Returns the size in bytes of a field with a number below 16 and `length` bytes."""
    return 1 + len(encode_varint(length)) + length


def _splat(value: Tensor, element: bytes) -> bytes | None:
    """Returns `value` stored as one element; None if the bits would not be the same."""
    code = DTYPES[value.dtype].code
    if not code:
        return None
    (number,) = struct.unpack(f"={code}", element)
    if number != number:
        return None  # which of the many it is gets lost
    once = tensor_value(value.dtype, value.shape, [number]).SerializeToString()
    found = constant_in(tensor_value(value.dtype, (1,), [number]).SerializeToString())
    return once if found is not None and struct.pack(f"={code}", found.values[0]) == element else None


Evaluate = Callable[[bytes, Sequence[str]], Mapping[str, Tensor]]
"""A function of a serialized GraphDef and names of its nodes; returns the value of each node that could be run."""

OF_SHAPES = READS_SHAPE | {"OnesLike", "ZerosLike"}
"""Ops that use only the shape of their first input."""
CALLING = CALLS | {"StatelessCase", "StatelessIf"}
"""Ops that are evaluated together with their functions."""
_ENDLESS = LOOPS | {"StatelessWhile", "While"}
"""Ops whose running time is not known."""
MOST_TURNS = 8
"""How many times nodes are folded closer to their inputs because their values are too large."""
SPLAT = 1 << 16
"""The size in bytes up to which a tensor is checked for equal elements, which need almost no space."""


class Folding:
    """The foldable part of a graph.

    Args:
        view: of the graph.
        shapes: of its tensors, to fold known shapes.
        evaluate: computes values; if None, only values that need no TensorFlow are folded.
        refused: the names of nodes that are not folded; nodes that are too large or cannot be run are added.
    """

    def __init__(self, view: GraphView, shapes: Shapes | None, evaluate: Evaluate | None, refused: set[str]) -> None:
        self.view, self.graph, self.top = view, view.graph, view.topology
        self.refused = refused
        self.known: dict[int, Tensor] = {}
        self.computed = bytearray(self.top.size)
        self.shaped = bytearray(self.top.size)
        self.of_shapes: list[int] = []
        self.fixed: list[int] = []
        self._evaluate = evaluate
        self._sizes: dict[int, int] = {}
        self._shapes = shapes
        self._classify()

    @cached_property
    def users(self) -> list[list[int]]:
        """The consumers of each node."""
        return self.top.consumers()

    def _classify(self) -> None:
        """Finds the nodes that depend only on constants, and the values that known shapes determine."""
        top, view = self.top, self.view
        computed, shaped, ops = self.computed, self.shaped, view.ops
        for number in view.order():
            op = ops[number]
            if not view.pure_cone[number] or op in PLACEHOLDERS or number in view.waiting:
                continue
            if op == "Const":
                computed[number] = shaped[number] = 1
                continue
            reads = [code >> BITS for code in top.inputs(number)]
            if reads and (op in OF_SHAPES or all(map(shaped.__getitem__, reads))):
                shaped[number] = 1
                self.of_shapes.append(number)
                if self._shapes is not None:
                    value = self._said(top.node(number), self._shapes)
                    if value is not None:
                        self.known[number] = value
            if self._evaluate is not None and all(computed[n] or n in self.known for n in reads):
                computed[number] = self._may_run(number, op)
            if computed[number] or number in self.known:
                self.fixed.append(number)

    @staticmethod
    def _said(node: Node, shapes: Shapes) -> Tensor | None:
        """Returns the value of a node with one output if known shapes determine all of it; otherwise None."""
        output = node.output
        shape, items = shapes.shape(output), shapes.value(output)
        if shape is None or items is None or min(shape, default=0) < 0 or node.output_count != 1:
            return None
        return whole_numbers(output.dtype, shape, items)

    def _may_run(self, number: int, op: str) -> bool:
        """Returns whether a node, and the functions that it calls, can be run: no external effects, no
        endless loops.
        """
        definition, functions = self.graph.op_def(op), self.graph.functions
        if definition is None:
            return False
        ops = {op}
        if definition.takes_functions or op in functions:
            if op not in CALLING and op not in functions:
                return False
            ops |= ops_in_functions(self.top.node(number))
        return not any(each in _ENDLESS or reach_of(each).kind != NONE or is_random(each)
                       for each in ops if each not in functions)  # fmt: skip

    # -- which ---------------------------------------------------------------------------------------------

    def fold(self, room: int) -> dict[int, Tensor]:
        """Returns the folded nodes with their values; the file grows by `room` bytes at most."""
        for _ in range(MOST_TURNS):
            fronts = self._fronts(room)
            found = self._affordable(self._values(fronts), room)
            if found or not fronts:
                return found
            self.refused.update(map(self.top.name, fronts))
        return {}

    def opened(self, room: int) -> dict[int, Tensor]:
        """Returns shapes that only Reshape nodes read and that have one unknown dim, which becomes -1."""
        values: dict[int, Tensor] = {}
        shapes = self._shapes
        if shapes is None:
            return values
        for number in self.of_shapes:
            if self.view.kept[number]:
                continue
            if all(self._only_shapes(user, number) for user in self.users[number]) and self.users[number]:
                found = self._open(self.top.node(number), shapes)
                if found is not None and self.top.name(number) not in self.refused:
                    values[number] = found
        return self._affordable(values, room)

    def _only_shapes(self, user: int, number: int) -> bool:
        """Returns whether `user` is a Reshape that reads a node only as its shape."""
        if self.top.op(user) != "Reshape":  # others may read very many
            return False
        return [slot for slot, code in enumerate(self.top.inputs(user)) if code >> BITS == number] == [1]

    @staticmethod
    def _open(node: Node, shapes: Shapes) -> Tensor | None:
        items = shapes.value(node.output)
        if items is None or node.output_count != 1 or items.count(None) != 1:
            return None
        if any(item is not None and item <= 0 for item in items):
            return None
        return whole_numbers(node.output.dtype, (len(items),), [-1 if item is None else item for item in items])

    def _fronts(self, room: int) -> list[int]:
        """Returns the foldable nodes with consumers that are not folded."""
        view, fronts = self.view, []
        needed = bytearray(b"\1") * self.top.size
        most: dict[int, int] = {}  # the bytes of all nodes upstream; some are counted several times
        for number in self.fixed:
            reads = [code >> BITS for code in self.top.inputs(number)]
            sizes = (most[n] if n in most else self._size(n) if self.computed[n] else 0 for n in reads)
            most[number] = self._size(number) + sum(sizes)
        for number in reversed(self.fixed):
            needed[number] = view.kept[number] or any(map(needed.__getitem__, self.users[number]))
            if needed[number] and self._may_be_front(number, most[number] + room):
                needed[number] = 0  # for its inputs
                fronts.append(number)
        return fronts

    def _may_be_front(self, number: int, most: int) -> bool:
        if self.top.op(number) == "Const" or self.view.kept[number]:
            return False
        node = self.top.node(number)
        if node.name in self.refused:
            return False
        dtypes = node.output_dtypes
        kind = DTYPES.get(dtypes[0]) if dtypes is not None and len(dtypes) == 1 else None
        if kind is None or not kind.kind:
            return False
        shape = self.view.shapes().shape(node.output)  # needed to find values that are too large
        if shape is None or min(shape, default=0) < 0:
            return True
        size = kind.size
        for dim in shape:
            size *= dim
        return size <= max(most, SPLAT)

    def _values(self, fronts: Sequence[int]) -> dict[int, Tensor]:
        """Returns the known values of the nodes `fronts`."""
        values = {number: self.known[number] for number in fronts if number in self.known}
        asked = {self.top.name(number): number for number in fronts if number not in values}
        if asked and self._evaluate is not None:
            found = self._evaluate(self._piece(asked.values()), list(asked))
            values |= {asked[name]: value for name, value in found.items()}
        return values

    def _piece(self, fronts: Iterable[int]) -> bytes:
        """Returns a GraphDef that computes `fronts`."""
        seen, pending = dict.fromkeys(fronts), list(fronts)
        while pending:
            number = pending.pop()
            for code in self.view.data(number) if number not in self.known else ():
                if code >> BITS not in seen:
                    seen[code >> BITS] = None
                    pending.append(code >> BITS)
        records, called = [], dict[str, None]()
        for number in seen:
            if number in self.known:
                attrs = constant_attrs(self.known[number])
                records.append(encode_len(NODE, encode_node(self.top.name(number), "Const", (), "", attrs)))
                continue
            node = self.top.node(number)
            records.append(bare_record(node))
            called |= dict.fromkeys(functions_of(node) if self._is_call(node.op) else ())
        return b"".join([*records, functions_as_written(self.graph, called), versions(self.graph)])

    def _is_call(self, op: str) -> bool:
        return op in CALLING or op in self.graph.functions

    def comes_of_calls(self, values: Iterable[int]) -> bool:
        """Returns whether one of `values` depends on the result of a function."""
        calls = self.top.with_ops(filter(self._is_call, self.top.ops()))
        above = self.top.upstream(values) if calls else b""
        return any(above[number] for number in calls)

    # -- sizes -----------------------------------------------------------------------------------------------

    def _affordable(self, values: Mapping[int, Tensor], room: int) -> dict[int, Tensor]:
        """Returns those of `values` that together do not let the file grow by more than `room` bytes, the cheapest
        first.
        """
        prices = ((self._price(number, value), number) for number, value in values.items())
        found, spent = {}, 0
        for price, number in sorted(prices):
            if spent + price <= room:
                spent += price
                found[number] = values[number]
        return found

    def price(self, values: Mapping[int, Tensor]) -> int:
        """Returns by how many bytes the file grows at most if `values` become constants."""
        return sum(self._price(number, value) for number, value in values.items())

    def _price(self, number: int, value: Tensor) -> int:
        node = self.top.node(number)
        return constant_size(node.name, node.device, value) - sum(map(self._size, (number, *self.idle([number]))))

    def idle(self, values: Iterable[int]) -> list[int]:
        """Returns the nodes that are unused once `values` are constants."""
        left: dict[int, int] = {}
        there, going, pending = {*values}, [], [*values]
        while pending:
            for producer in set(self.top.producers(pending.pop())) - there:
                left[producer] = left.get(producer, len(self.users[producer])) - 1
                if left[producer] or self.view.kept[producer] or not self.view.pure_cone[producer]:
                    continue
                if self.top.op(producer) not in PLACEHOLDERS:
                    going.append(producer)
                    pending.append(producer)
        return going

    def _size(self, number: int) -> int:
        if number not in self._sizes:
            node = self.top.node(number)
            record = node.record
            is_old = record is not None and not node.is_rebuilt
            self._sizes[number] = record.end - record.start if is_old and record else size_of(encoded(node))
        return self._sizes[number]


def bare_record(node: Node) -> bytes:
    """Returns the record of a node without device and colocation; a call does not optimize its function."""
    if not node.device and not node.has_attr("_class") and node.op not in CALLS:
        return read_chunks(encoded(node))
    definition = node_def(node)
    definition.device = ""
    definition.attr.pop("_class", None)
    _run_as_written(definition)
    return encode_len(NODE, definition.SerializeToString())


def functions_as_written(graph: Graph, names: Iterable[str]) -> bytes:
    """Returns a library field with the functions `names` and all that they call; calls in them do not optimize
    functions.
    """
    library = FunctionDefLibrary()
    for name in graph.functions.reachable(names):
        function = library.function.add()
        function.CopyFrom(graph.functions[name])
        for node in function.node_def:
            _run_as_written(node)
    return encode_len(LIBRARY, library.SerializeToString()) if library.function else b""


def _run_as_written(node: NodeDef) -> None:
    if node.op in CALLS:
        node.attr["config_proto"].s = NO_OPTIMIZER_OF_ITS_OWN


def versions(graph: Graph) -> bytes:
    """Returns the version fields of a graph's file; for a function body, those of the graph that contains it."""
    store = (graph if graph.owner is None else graph.owner).store
    return b"".join(store.source.read(field.start, field.end - field.start) for field in store.fields(VERSIONS))
