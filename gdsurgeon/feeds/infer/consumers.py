"""What becomes of a tensor: the ops that read it, in a graph and in the functions that it calls, in one vocabulary."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

from gdsurgeon.graph.attrs import Shape, functions_in, plain, shape_of
from gdsurgeon.graph.constants import SMALL, Constant, constant, constant_header, decode_tensor
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import INT32, INT64, base_dtype
from gdsurgeon.ops.kinds import CALLED, PASSES_ON, RESOURCE_VARIABLES, SWITCH, VARIABLES
from gdsurgeon.ops.op_defs import arg_count, arg_dtypes
from gdsurgeon.wire.protos import AttrValue, FunctionDef, NodeDef

MOST_NODES = 5000
"""Nodes that are looked at: what an input is for shows near it."""
MOST_CALLS = 20
"""Calls inside calls that are followed."""

_PASSES_ON = PASSES_ON | {"ReadVariableOp"}
# The ops of which each output is a part of the input, and not only the first.
_MANY = SWITCH | {"Split", "SplitV", "Unpack"}


class Place(ABC):
    """A node of a graph, or of a function's body as one call runs it.

    Attributes:
        graph: the graph that it is in, or whose library the function is in.
        op: its op.
        name: its name, in the graph or in the body.
        key: equal for two of them that are the same node of the same call.
    """

    graph: Graph
    op: str
    name: str
    key: Hashable

    @abstractmethod
    def attr(self, key: str) -> AttrValue | None:
        """The AttrValue message of attr KEY, or None."""

    @abstractmethod
    def attrs(self) -> Iterator[AttrValue]:
        """The AttrValue messages of the attrs that can name functions."""

    @abstractmethod
    def source(self, slot: int) -> Outlet | None:
        """What data input SLOT reads; of an argument what the call gives for it. None where that is not known."""

    @abstractmethod
    def readers(self, index: int | None) -> Iterator[tuple[Place, int]]:
        """Who reads output INDEX (None: any), and by which data input."""

    def value(self, key: str) -> object:
        """The plain value of attr KEY, or its default; None where there is neither."""
        found = self.attr(key)
        if found is not None:
            return plain(found)
        definition = self.graph.op_def(self.op)
        return definition.attrs[key].default if definition is not None and key in definition.attrs else None

    def number(self, key: str) -> int:
        """The value of attr KEY where that is a whole number above 0; else 0."""
        found = self.value(key)
        return max(found, 0) if isinstance(found, int) else 0

    def listed(self, key: str) -> list[Any]:
        """The value of attr KEY where that is a list; else an empty one."""
        found = self.value(key)
        return list(found) if isinstance(found, list) else []

    def text(self, key: str) -> str:
        """The value of attr KEY where that is a text; else ''."""
        found = self.value(key)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found if isinstance(found, str) else ""

    def output_dtypes(self) -> list[int] | None:
        """The DataTypes of the outputs, or None where the op is unknown."""
        definition = self.graph.op_def(self.op)
        if definition is None:
            return None
        return [base_dtype(dtype) for dtype in arg_dtypes(definition.outputs, definition, self.value)]

    def origin(self, slot: int) -> Outlet | None:
        """What data input SLOT reads, behind Identity, Enter and the like."""
        outlet = self.source(slot)
        for _ in range(32):
            if outlet is None or outlet.place.op not in _PASSES_ON:
                break
            outlet = outlet.place.source(0)
        return outlet

    def constant(self, slot: int) -> Constant | None:
        """The value of data input SLOT where that is a small constant, or None."""
        outlet = self.origin(slot)
        return outlet.place._constant() if outlet is not None and outlet.place.op == "Const" else None

    def ints(self, slot: int) -> tuple[int, ...]:
        """The elements of data input SLOT where that is a small constant of whole numbers; else none."""
        found = self.constant(slot)
        if found is None or found.dtype not in (INT32, INT64):
            return ()
        return tuple(item for item in found.values if isinstance(item, int))

    def dims(self, slot: int) -> Shape:
        """The shape of data input SLOT, -1 for an unknown dim, where it is a constant, a variable, or inferred."""
        outlet = self.origin(slot)
        if outlet is None:
            return None
        place = outlet.place
        if place.op == "Const":
            return place._constant_dims()
        if place.op in VARIABLES | RESOURCE_VARIABLES:
            stated = place.attr("shape")
            return shape_of(stated.shape) if stated is not None else None
        return place._inferred(outlet.port)

    @abstractmethod
    def _constant(self) -> Constant | None:
        """The value of a Const that is small."""

    @abstractmethod
    def _constant_dims(self) -> Shape:
        """The shape of a Const of any size."""

    def _inferred(self, index: int) -> Shape:
        """The shape of output INDEX by inference."""
        return None


class Outlet(NamedTuple):
    """Output PORT of a place."""

    place: Place
    port: int


class Step(NamedTuple):
    """A consumer that a walk comes to.

    Attributes:
        place: the node.
        slot: the data input by which the walk came to it; -1 where it only is in a function that is called in a way
            that is not known here.
        depth: steps from the beginning.
        before: the step from which the walk came, or None at the beginning.
    """

    place: Place
    slot: int
    depth: int
    before: Step | None

    @property
    def op(self) -> str:
        """The op."""
        return self.place.op

    @property
    def name(self) -> str:
        """The name, in the graph or in the function's body."""
        return self.place.name

    def path(self) -> list[Step]:
        """The steps before this one, the nearest first."""
        out: list[Step] = []
        step = self.before
        while step is not None:
            out.append(step)
            step = step.before
        return out


def outlet_of(node: Node) -> Outlet:
    """Output 0 of NODE."""
    return Outlet(_GraphPlace(node), 0)


def downstream(start: Outlet, goes_on: Callable[[Place], bool] = lambda _: True) -> Iterator[Step]:
    """All that depends on START, nearest first, inside called functions too; not beyond what GOES_ON is false for."""
    return _Walk(goes_on, None).run(start)


def following(start: Outlet, passing: Mapping[str, Container[int]]) -> Iterator[Step]:
    """The consumers of START, and of what the ops PASSING make of it by the inputs listed there; nearest first."""
    return _Walk(None, passing).run(start)


def through_identities(node: Node) -> Node:
    """The node behind Identity, Enter and the like: a frozen weight is read through them."""
    for _ in range(16):
        if node.exists and node.op in _PASSES_ON and node.inputs:
            node = node.inputs[0].node
        else:
            break
    return node


# -- places ----------------------------------------------------------------------------------------------


class _GraphPlace(Place):
    def __init__(self, node: Node) -> None:
        self.node = node
        self.graph = graph_of(node)
        self.op = node.op
        self.name = node.name
        self.key = node

    def attr(self, key: str) -> AttrValue | None:
        return self.node.attr(key)

    def attrs(self) -> Iterator[AttrValue]:
        definition = self.node.op_def
        if definition is None or definition.takes_functions:
            yield from (value for _, value in self.node.attrs())

    def source(self, slot: int) -> Outlet | None:
        if not 0 <= slot < len(self.node.inputs):
            return None
        read = self.node.inputs[slot]
        return Outlet(_GraphPlace(read.node), read.index) if read.node.exists else None

    def readers(self, index: int | None) -> Iterator[tuple[Place, int]]:
        for user in self.graph.users(self.node):
            for slot, read in enumerate(user.inputs):
                if read.node is self.node and index in (None, read.index):
                    yield _GraphPlace(user), slot

    def _constant(self) -> Constant | None:
        return constant(self.node)

    def _constant_dims(self) -> Shape:
        header = constant_header(self.node)
        return header.dims if header is not None else None

    def _inferred(self, index: int) -> Shape:
        from gdsurgeon.analysis.shapes.inference import infer_shapes
        from gdsurgeon.graph.node import Output

        output = Output(self.node, index)
        return infer_shapes(self.graph, wanted=[output]).shape(output)


class _Body:
    """A function as one call runs it.

    Args:
        call: the node that calls it.
        function: its FunctionDef.
        first: the data input of CALL that is the first argument; -1 where it is not known what the arguments are.
        returns: whether the outputs of the function are those of the call.
        depth: calls that are around it.
    """

    def __init__(self, call: Place, function: FunctionDef, first: int, returns: bool, depth: int) -> None:
        self.call = call
        self.function = function
        self.first = first
        self.depth = depth
        self.nodes = {node.name: node for node in function.node_def}
        self.arguments = [arg.name for arg in function.signature.input_arg]
        self.reads: dict[str, list[tuple[NodeDef, int, str]]] = {}
        for node in function.node_def:
            for slot, text in enumerate(text for text in node.input if not text.startswith("^")):
                self.reads.setdefault(text.split(":")[0], []).append((node, slot, text))
        self.returned: dict[str, list[tuple[int, str]]] = {}
        for i, arg in enumerate(function.signature.output_arg if returns else ()):
            text = function.ret.get(arg.name, "")
            self.returned.setdefault(text.split(":")[0], []).append((i, text))

    def readers_of(self, producer: str, matches: Callable[[str], bool]) -> Iterator[tuple[Place, int]]:
        """Who reads the tensors of PRODUCER (a node or an argument) whose spelling MATCHES."""
        for node, slot, text in self.reads.get(producer, ()):
            if matches(text):
                yield _BodyPlace(self, node), slot
        for index, text in self.returned.get(producer, ()):
            if matches(text):
                yield from self.call.readers(index)


class _BodyPlace(Place):
    def __init__(self, body: _Body, node: NodeDef) -> None:
        self.body = body
        self.node = node
        self.graph = body.call.graph
        self.op = node.op
        self.name = node.name
        self.key = (id(body), node.name)

    def attr(self, key: str) -> AttrValue | None:
        return self.node.attr.get(key)

    def attrs(self) -> Iterator[AttrValue]:
        yield from self.node.attr.values()

    def source(self, slot: int) -> Outlet | None:
        inputs = [text for text in self.node.input if not text.startswith("^")]
        if not 0 <= slot < len(inputs):
            return None
        producer = inputs[slot].split(":")[0]
        if producer in self.body.nodes:
            place = _BodyPlace(self.body, self.body.nodes[producer])
            return Outlet(place, place._index(inputs[slot]))
        if producer in self.body.arguments and self.body.first >= 0:
            return self.body.call.source(self.body.first + self.body.arguments.index(producer))
        return None

    def readers(self, index: int | None) -> Iterator[tuple[Place, int]]:
        return self.body.readers_of(self.name, lambda text: index is None or self._index(text) == index)

    def _index(self, text: str) -> int:
        """The number of the output that is spelt ``node:output:number`` in a body."""
        _, _, rest = text.partition(":")
        output, _, number = rest.partition(":")
        definition = self.graph.op_def(self.op)
        before = 0
        for arg in definition.outputs if definition is not None else ():
            if arg.name == output:
                break
            before += arg_count((arg,), definition, self.value)
        return before + (int(number) if number.isdecimal() else 0)

    def _constant(self) -> Constant | None:
        value = self.attr("value")
        return decode_tensor(value.tensor) if value is not None and value.ByteSize() <= 2 * SMALL else None

    def _constant_dims(self) -> Shape:
        value = self.attr("value")
        return shape_of(value.tensor.tensor_shape) if value is not None else None


# -- the walk --------------------------------------------------------------------------------------------


class _Walk:
    """One walk: everything that GOES_ON lets through, or along PASSING only."""

    def __init__(self, goes_on: Callable[[Place], bool] | None, passing: Mapping[str, Container[int]] | None) -> None:
        self.goes_on = goes_on
        self.passing = passing
        self.bodies: dict[tuple[Hashable, str], _Body] = {}
        self.opened: set[str] = set()  # functions of which all nodes have been looked at
        self.queue: list[tuple[Callable[[], Iterator[tuple[Place, int]]], int, Step | None]] = []

    def run(self, start: Outlet) -> Iterator[Step]:
        self.queue.append((lambda: start.place.readers(start.port), 0, None))
        seen: set[tuple[Hashable, int]] = set()
        walked: set[tuple[Hashable, int | None]] = set()
        for readers, depth, before in self.queue:  # grows while it is walked
            for place, slot in readers():
                if (place.key, slot) in seen or len(seen) > MOST_NODES:
                    continue
                seen.add((place.key, slot))
                step = Step(place, slot, depth + 1, before)
                yield step
                self._enter(step)
                for index in self._outputs(place, slot):
                    if (place.key, index) not in walked:
                        walked.add((place.key, index))
                        self.queue.append((_readers(place, index), depth + 1, step))

    def _outputs(self, place: Place, slot: int) -> tuple[int | None, ...]:
        """The outputs of PLACE that the walk goes on from, having come by SLOT; None: all of them."""
        if self.passing is None:
            return (None,) if self.goes_on is None or self.goes_on(place) else ()
        if place.op not in self.passing or slot not in self.passing[place.op]:
            return ()
        return (None,) if place.op in _MANY else (slot if place.op == "IdentityN" else 0,)

    def _enter(self, step: Step) -> None:
        """Goes into the functions that a step calls, by the argument that it reads."""
        place = step.place
        library = place.graph.functions
        depth = place.body.depth + 1 if isinstance(place, _BodyPlace) else 1
        if depth > MOST_CALLS:
            return
        keys, first = CALLED.get(place.op, ((), 0))
        values = [(key, place.attr(key)) for key in keys]
        names = [(f.name, key != "cond") for key, value in values if value is not None for f in functions_in(value)]
        if place.op in library:
            names = [(place.op, True)]
        for name, returns in names:
            argument = step.slot - first
            function = library.get(name)
            if function is None or step.slot < 0 or not 0 <= argument < len(function.signature.input_arg):
                continue
            body = self.bodies.get((place.key, name))
            if body is None:
                body = self.bodies[place.key, name] = _Body(place, function, first, returns, depth)
            self.queue.append((_argument(body, argument), step.depth, step))
        if self.passing is None and (not names or step.slot < 0):
            for value in place.attrs():
                for func in functions_in(value):
                    if func.name not in self.opened and (function := library.get(func.name)) is not None:
                        self.opened.add(func.name)
                        self.queue.append((_all(_Body(place, function, -1, False, depth)), step.depth, step))


def _readers(place: Place, index: int | None) -> Callable[[], Iterator[tuple[Place, int]]]:
    return lambda: place.readers(index)


def _argument(body: _Body, number: int) -> Callable[[], Iterator[tuple[Place, int]]]:
    return lambda: body.readers_of(body.arguments[number], lambda _: True)


def _all(body: _Body) -> Callable[[], Iterator[tuple[Place, int]]]:
    return lambda: ((_BodyPlace(body, node), -1) for node in body.function.node_def)
