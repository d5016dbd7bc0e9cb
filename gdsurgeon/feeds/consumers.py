"""The consumers of a tensor, also in called functions."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.attrs import Shape, functions_in, shape_of
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import INT32, INT64, RESOURCE, STRING, VARIANT, base_dtype
from gdsurgeon.ops.kinds import CALLED, PASSES_ON, SWITCH, is_variable
from gdsurgeon.wire.protos import AttrValue

MOST_NODES = 5000
"""The number of nodes to search: the purpose of an input shows near it."""
MOST_CALLS = 20
"""The number of nested calls that are followed."""

_PASSES_ON = PASSES_ON | {"ReadVariableOp"}
_SPLITS = SWITCH | {"Split", "SplitV", "Unpack"}
"""Ops whose outputs are all parts of the input, not only the first output."""

T = TypeVar("T")


class Call(NamedTuple):
    """A function in a particular call.

    Attributes:
        caller: the node that calls it.
        body: the function.
        first: the data input of the node that is the first argument; -1 if the arguments are unknown.
        returns: whether the outputs of the function are the outputs of the node.
        depth: the number of enclosing calls.
    """

    caller: Consumer
    body: Body
    first: int
    returns: bool
    depth: int


@dataclass(eq=False)
class Consumer:
    """A node of a graph, or of a function in a particular call, as a search reaches it.

    Attributes:
        node: the node.
        call: the call; None in a graph.
        slot: the data input through which the search reaches the node; -1 if it is unknown.
        before: the previous node of the search; None at the start.
        op: its op.
        key: is equal for the same node in the same call.
    """

    node: Node
    call: Call | None = None
    slot: int = -1
    before: Consumer | None = None

    def __post_init__(self) -> None:
        self.op = self.node.op
        self.key: Hashable = (self.node, id(self.call))

    def path(self) -> Iterator[Consumer]:
        """Yields the previous nodes of the search, nearest first."""
        step = self.before
        while step is not None:
            yield step
            step = step.before

    def readers(self, port: int | None) -> Iterator[Consumer]:
        """Yields the consumers of an output (None: of all outputs)."""
        call = self.call
        for user in graph_of(self.node).users(self.node):
            for slot, read in enumerate(user.inputs):
                if read.node is not self.node or port not in (None, read.index):
                    continue
                if call is None or user not in call.body.results:
                    yield Consumer(user, call, slot)
                elif call.returns:
                    yield from call.caller.readers(call.body.results.index(user))

    def source(self, slot: int) -> tuple[Consumer, int] | None:
        """Returns the tensor that a data input reads, as a node and the number of its output.

        For an argument of a function this is the tensor of the call; None if it is unknown.
        """
        if not 0 <= slot < len(self.node.inputs):
            return None
        read, call = self.node.inputs[slot], self.call
        if not read.node.exists:
            return None
        if call is not None and read.node in call.body.arguments:
            return call.caller.source(call.first + call.body.arguments.index(read.node)) if call.first >= 0 else None
        return Consumer(read.node, call), read.index

    def origin(self, slot: int) -> tuple[Consumer, int] | None:
        """Returns the tensor that a data input reads through Identity, Enter and the like."""
        found = self.source(slot)
        for _ in range(32):
            if found is None or found[0].op not in _PASSES_ON:
                break
            found = found[0].source(0)
        return found

    def setting(self, key: str, default: T) -> T:
        """Returns the value of an attribute, a text as str; `default` if its type is not that of `default`."""
        found = self.node.setting(key)
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        return found if isinstance(found, type(default)) else default

    def constant(self, slot: int) -> Constant | None:
        """Returns the value of a data input that is a small constant, or None."""
        found = self.origin(slot)
        return constant(found[0].node) if found is not None else None

    def ints(self, slot: int) -> tuple[int, ...]:
        """Returns the elements of a data input that is a small integer constant; otherwise ()."""
        found = self.constant(slot)
        if found is None or found.dtype not in (INT32, INT64):
            return ()
        return tuple(item for item in found.values if isinstance(item, int))

    def weights(self, slot: int) -> tuple[int, ...]:
        """Returns the shape of a data input that is a constant or a variable; () for other inputs."""
        found = self.origin(slot)
        is_weight = found is not None and (found[0].op == "Const" or is_variable(found[0].op))
        dims = self.dims(slot) if is_weight else None
        return dims if dims is not None and min(dims, default=0) >= 0 else ()

    def dims(self, slot: int) -> Shape:
        """Returns the shape of a data input, -1 for an unknown dimension, if it is constant, a variable or inferred."""
        found = self.origin(slot)
        if found is None:
            return None
        node, port = found[0].node, found[1]
        if node.op == "Const":
            return stated_shape(node.output)
        if is_variable(node.op):
            stated = node.attr("shape")
            return shape_of(stated.shape) if stated is not None else None
        from gdsurgeon.analysis.shapes.inference import infer_shapes

        output = Output(node, port)
        return infer_shapes(graph_of(node), wanted=[output]).shape(output)


def following(
    start: Consumer, port: int = 0, passing: Mapping[str, Container[int]] | None = None
) -> Iterator[Consumer]:
    """Yields the consumers of an output of `start`, and of the results of its consumers; nearest first.

    The search continues at the results of the ops `passing` that it reaches through these data inputs. Without
    `passing` it continues at all nodes whose outputs can be, or contain, texts, and in functions whose calls are
    unknown.
    """
    graph = graph_of(start.node)
    queue: list[tuple[Iterator[Consumer], Consumer | None]] = [(start.readers(port), None)]
    calls: dict[tuple[Hashable | None, str], Call] = {}
    seen: set[tuple[Hashable, int | None]] = set()
    walked: set[tuple[Hashable, int | None]] = set()
    for readers, before in queue:  # grows during the search
        for user in readers:
            if (user.key, user.slot) in seen or len(seen) > MOST_NODES:
                continue
            seen.add((user.key, user.slot))
            user.before = before
            yield user
            queue += [(inside, user) for inside in _in_functions(graph, user, calls, everywhere=passing is None)]
            for index in _outputs(user, passing):
                if (user.key, index) not in walked:
                    walked.add((user.key, index))
                    queue.append((user.readers(index), user))


def _outputs(user: Consumer, passing: Mapping[str, Container[int]] | None) -> tuple[int | None, ...]:
    """Returns the outputs at which a search continues; None stands for all of them."""
    if passing is None:
        types = user.node.output_dtypes
        texts = (0, STRING, RESOURCE, VARIANT)
        carries_texts = not types or any(base_dtype(dtype) in texts for dtype in types)
        return (None,) if carries_texts or user.op.startswith("TensorArray") else ()
    if user.slot not in passing.get(user.op, ()):
        return ()
    return (None,) if user.op in _SPLITS else (user.slot if user.op == "IdentityN" else 0,)


def _in_functions(
    graph: Graph, user: Consumer, calls: dict[tuple[Hashable | None, str], Call], *, everywhere: bool
) -> Iterator[Iterator[Consumer]]:
    """Yields the consumers in the functions that a node calls, at the argument that it passes.

    `everywhere`: in functions that a node only names, such as the map of a data set, yields all nodes.
    """
    depth = user.call.depth + 1 if user.call is not None else 1
    if depth > MOST_CALLS:
        return
    keys, first = CALLED.get(user.op, ((), 0))
    functions: list[tuple[str, Mapping[str, AttrValue], bool]] = [
        (func.name, func.attr, key != "cond")
        for key in keys
        if (value := user.node.attr(key)) is not None
        for func in functions_in(value)
    ]
    if user.op in graph.functions:
        functions = [(user.op, dict(user.node.attrs()), True)]
    argument = user.slot - first
    for name, values, returns in functions:
        body = _body(graph, name, values)
        if body is not None and 0 <= argument < len(body.arguments):
            call = calls.setdefault((user.key, name), Call(user, body, first, returns, depth))
            yield Consumer(body.arguments[argument], call).readers(0)
    if not everywhere or (functions and user.slot >= 0):
        return
    for _, value in user.node.attrs():
        for func in functions_in(value):
            if (None, func.name) not in calls and (body := _body(graph, func.name, func.attr)) is not None:
                call = calls[None, func.name] = Call(user, body, -1, False, depth)
                ends = body.graph.ends
                yield iter([Consumer(node, call) for node in body.graph.nodes() if node not in ends])


def _body(graph: Graph, name: str, values: Mapping[str, AttrValue]) -> Body | None:
    """Returns a function with these attributes; None if it is missing or unreadable."""
    known = graph.derived(_bodies)
    key = name, tuple(sorted((key, value.SerializeToString()) for key, value in values.items()))
    if key not in known:
        try:
            known[key] = Body(graph, name, values, lenient=True)
        except EditError:
            known[key] = None
    return known[key]


def _bodies(graph: Graph) -> dict[Hashable, Body | None]:
    """Returns the cache of the functions of `graph` that searches have read; empty at first."""
    del graph
    return {}
