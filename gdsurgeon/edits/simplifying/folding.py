"""Constant folding: what is computed of constants, or of shapes that are known, becomes a constant.

Not inside branches and loops, where a constant would be a copy for each of these; not what has a state, draws, or
reaches outside; and not where the file would grow. Which nodes are folded is found in one walk from the ends: the
last ones that somebody reads who cannot be folded himself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from gdsurgeon.analysis.queries.effects import ops_in_functions
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.shapes.inference import Shapes
from gdsurgeon.edits.functions import NO_OPTIMIZER_OF_ITS_OWN
from gdsurgeon.edits.simplifying.draft import BITS, Draft
from gdsurgeon.edits.simplifying.literal import constant_record, constant_size, whole_numbers
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.writing import encoded, node_def
from gdsurgeon.ops.dtypes import DTYPES
from gdsurgeon.ops.kinds import CALLS, LOOPS, PLACEHOLDERS, READS_SHAPE, is_random
from gdsurgeon.ops.reach import NONE, reach_of
from gdsurgeon.runtime.tensor import Tensor
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import FunctionDefLibrary, NodeDef
from gdsurgeon.wire.scan import LIBRARY, NODE, VERSIONS
from gdsurgeon.wire.write import read_chunks, size_of

Evaluate = Callable[[bytes, Sequence[str]], Mapping[str, Tensor]]
"""Called with a serialised GraphDef and nodes of it: what each gives that could be run."""

OF_SHAPES = READS_SHAPE | {"OnesLike", "ZerosLike"}
"""Ops of whose first input nothing counts but the shape."""
CALLING = CALLS | {"StatelessCase", "StatelessIf"}
"""Ops that are run with what they call."""
_ENDLESS = LOOPS | {"StatelessWhile", "While"}
"""Ops of which nobody knows how long they run."""
MOST_TURNS = 8
"""How often what has turned out too large is left to what it reads."""
SPLAT = 1 << 16
"""Bytes of a tensor up to which it is looked at whether it is one number again and again, which takes no room."""


class Folding:
    """What of a graph can be folded, and what has been.

    Args:
        draft: of the graph as it is.
        shapes: of its tensors, where what they say is to be folded.
        evaluate: None: what takes TensorFlow to be known is not folded.
        refused: names of nodes that are not folded; those that turn out too large, or do not run, come to them.
    """

    def __init__(self, draft: Draft, shapes: Shapes | None, evaluate: Evaluate | None, refused: set[str]) -> None:
        self.draft, self.graph, self.top = draft, draft.graph, draft.topology
        self.refused = refused
        self.users = self.top.consumers()
        self.known: dict[int, Tensor] = {}
        self.computed = bytearray(self.top.size)
        self.shaped = bytearray(self.top.size)
        self.of_shapes: list[int] = []
        self.fixed: list[int] = []
        self._evaluate = evaluate
        self._sizes: dict[int, int] = {}
        self._shapes = shapes
        self._classify()

    def _classify(self) -> None:
        """Finds what is computed of constants alone, and what the shapes say of the rest."""
        top, draft = self.top, self.draft
        computed, shaped, ops = self.computed, self.shaped, draft.ops
        for number in draft.order():
            op = ops[number]
            if not draft.harmless[number] or op in PLACEHOLDERS or draft.has_controls(number):
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
        """What SHAPES say that a node of one output gives, where they say all of it."""
        output = node.output
        shape, items = shapes.shape(output), shapes.value(output)
        if shape is None or items is None or min(shape, default=0) < 0 or node.output_count != 1:
            return None
        return whole_numbers(output.dtype, shape, items)

    def _may_run(self, number: int, op: str) -> bool:
        """Whether a node may be run by itself: it reaches nothing, and comes to an end; nor does what it calls."""
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
        """The nodes that are folded, with what they give; the file grows by ROOM bytes at most."""
        for _ in range(MOST_TURNS):
            fronts = self._fronts(room)
            values = self._values(fronts)
            found = self._affordable(values, room)
            lost = [number for number in fronts if number not in found]
            self.refused.update(self.top.name(number) for number in lost)
            if found or not lost:
                return found
        return {}

    def opened(self, room: int) -> dict[int, Tensor]:
        """Shapes for Reshapes alone of which one dim is not known: it follows from the rest, and is -1."""
        values: dict[int, Tensor] = {}
        shapes = self._shapes
        if shapes is None:
            return values
        for number in self.of_shapes:
            if self.draft.kept[number]:
                continue
            if all(self._only_shapes(user, number) for user in self.users[number]) and self.users[number]:
                found = self._open(self.top.node(number), shapes)
                if found is not None and self.top.name(number) not in self.refused:
                    values[number] = found
        return self._affordable(values, room)

    def _only_shapes(self, user: int, number: int) -> bool:
        """Whether USER reads a node as the shape that it reshapes something to, and as nothing else."""
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
        """The nodes that are read by what stays, and need not be computed."""
        draft, fronts = self.draft, []
        needed = bytearray(b"\1") * self.top.size
        most = self._upper_bounds()
        for number in reversed(self.fixed):
            needed[number] = draft.kept[number] or any(map(needed.__getitem__, self.users[number]))
            if needed[number] and self._may_be_front(number, most[number] + room):
                needed[number] = 0  # as far as what it reads is concerned
                fronts.append(number)
        return fronts

    def _upper_bounds(self) -> dict[int, int]:
        """For what is fixed the bytes of all that it is computed of, some of these counted more than once."""
        most: dict[int, int] = {}
        for number in self.fixed:
            reads = [code >> BITS for code in self.top.inputs(number)]
            most[number] = self._size(number) + sum(most[n] if n in most else self._bound(n) for n in reads)
        return most

    def _bound(self, number: int) -> int:
        """The bytes of a constant; 0 for what is not fixed, but by a shape."""
        return self._size(number) if self.computed[number] else 0

    def _may_be_front(self, number: int, most: int) -> bool:
        if self.top.op(number) == "Const" or self.draft.kept[number]:
            return False
        node = self.top.node(number)
        if node.name in self.refused:
            return False
        dtypes = node.output_dtypes
        kind = DTYPES.get(dtypes[0]) if dtypes is not None and len(dtypes) == 1 else None
        if kind is None or not kind.kind:
            return False
        shape = self.draft.shapes().shape(node.output)  # also where they are not folded: they say what is too large
        if shape is None or min(shape, default=0) < 0:
            return True
        size = kind.size
        for dim in shape:
            size *= dim
        return size <= max(most, SPLAT)

    def _values(self, fronts: Sequence[int]) -> dict[int, Tensor]:
        """What FRONTS give, as far as it can be known."""
        values = {number: self.known[number] for number in fronts if number in self.known}
        asked = {self.top.name(number): number for number in fronts if number not in values}
        if asked and self._evaluate is not None:
            found = self._evaluate(self._piece(asked.values()), list(asked))
            values |= {asked[name]: value for name, value in found.items()}
        return values

    def _piece(self, fronts: Iterable[int]) -> bytes:
        """A GraphDef that computes FRONTS."""
        seen, pending = dict.fromkeys(fronts), list(fronts)
        while pending:
            number = pending.pop()
            for code in self.draft.data(number) if number not in self.known else ():
                if code >> BITS not in seen:
                    seen[code >> BITS] = None
                    pending.append(code >> BITS)
        records, called = [], dict[str, None]()
        for number in seen:
            if number in self.known:
                records.append(encode_len(NODE, constant_record(self.top.name(number), "", self.known[number])))
            else:
                records.append(bare_record(self.top.node(number)))
                called |= dict.fromkeys(self._called(number))
        return b"".join([*records, functions_as_written(self.graph, called), versions(self.graph)])

    def _called(self, number: int) -> list[str]:
        """The functions that a node calls, where it is one that is run for that."""
        return functions_of(self.top.node(number)) if self._is_call(self.top.op(number)) else []

    def _is_call(self, op: str) -> bool:
        return op in CALLING or op in self.graph.functions

    def comes_of_calls(self, values: Iterable[int]) -> bool:
        """Whether one of VALUES follows from what a function gives."""
        calls = self.top.with_ops(filter(self._is_call, self.top.ops()))
        above = self.top.upstream(values) if calls else b""
        return any(above[number] for number in calls)

    # -- at what price ---------------------------------------------------------------------------------------

    def _affordable(self, values: Mapping[int, Tensor], room: int) -> dict[int, Tensor]:
        """Those of VALUES for which more bytes go than come, all in all; the cheapest first."""
        prices = ((self._price(number, value), number) for number, value in values.items())
        found, spent = {}, 0
        for price, number in sorted(prices):
            if spent + price <= room:
                spent += price
                found[number] = values[number]
        return found

    def price(self, values: Mapping[int, Tensor]) -> int:
        """The bytes by which the file grows, at most, where VALUES are constants."""
        return sum(self._price(number, value) for number, value in values.items())

    def _price(self, number: int, value: Tensor) -> int:
        node = self.top.node(number)
        return constant_size(node.name, node.device, value) - self._freed(number)

    def _freed(self, front: int) -> int:
        """The bytes of a node, and of what nobody else reads."""
        left: dict[int, int] = {}
        total, pending = 0, [front]
        while pending:
            number = pending.pop()
            total += self._size(number)
            for producer in set(self.top.producers(number)):
                left[producer] = left.get(producer, len(self.users[producer])) - 1
                if not left[producer] and self.may_go(producer):
                    pending.append(producer)
        return total

    def may_go(self, number: int) -> bool:
        """Whether a node is nothing but what it gives."""
        is_input = self.top.op(number) in PLACEHOLDERS
        return bool(self.draft.harmless[number]) and not self.draft.kept[number] and not is_input

    def idle(self, values: Iterable[int]) -> list[int]:
        """What nobody reads any longer, and nothing else is wanted of, once VALUES are constants."""
        left: dict[int, int] = {}
        there, going, pending = {*values}, [], [*values]
        while pending:
            for producer in set(self.top.producers(pending.pop())) - there:
                left[producer] = left.get(producer, len(self.users[producer])) - 1
                if not left[producer] and self.may_go(producer):
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
    """The record of a node that stands anywhere, beside nobody; a call of it runs its function as it is written."""
    if not node.device and not node.has_attr("_class") and node.op not in CALLS:
        return read_chunks(encoded(node))
    definition = node_def(node)
    definition.device = ""
    definition.attr.pop("_class", None)
    _run_as_written(definition)
    return encode_len(NODE, definition.SerializeToString())


def functions_as_written(graph: Graph, names: Iterable[str]) -> bytes:
    """The library field with the functions NAMES, and what they call, run as they are written."""
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
    """What a graph says of versions, as it stands in its file; of a body what the graph around it says."""
    store = (graph if graph.owner is None else graph.owner).store
    return b"".join(store.source.read(field.start, field.end - field.start) for field in store.fields(VERSIONS))
