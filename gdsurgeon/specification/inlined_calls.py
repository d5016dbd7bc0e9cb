"""What calls come to when the bodies of their functions take their place: which node of which body is which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.kinds import CALLS
from gdsurgeon.wire.protos import AttrValue

Resolved = tuple[str, set[str]]
"""A tensor that is no call's, and the nodes that who reads it waits for besides."""


def function_of(call: Node) -> tuple[str, Mapping[str, AttrValue]]:
    """The function that a call calls, and the values of its attrs."""
    if call.op not in CALLS:
        return call.op, dict(call.attrs())
    value = call.attr("f")
    return (value.func.name, dict(value.func.attr)) if value is not None else ("", {})


class Inlined:
    """A call in whose place its function's body is.

    Args:
        calls: of the file.
        call: which.
        name: what it is called, or was while there was one.
        outer: the call in whose body it is; None: it is one of the file.

    Attributes:
        copies: what the nodes of the body are called now.
        inner: the calls among them.
        device: where its nodes run that ask for none.
    """

    def __init__(self, calls: InlinedCalls, call: Node, name: str, outer: Inlined | None) -> None:
        self.calls, self.call, self.name, self.outer = calls, call, name, outer
        self.body = calls.body(call)
        self.device: str = call.device or (outer.device if outer is not None else "")
        self.copies: dict[Node, str] = {}
        self.inner: dict[Node, Inlined] = {}
        self._arguments = {node: number for number, node in enumerate(self.body.arguments)}

    def waits(self) -> set[str]:
        """What the call waits for."""
        at: Inlined | None = self
        while at is not None and not at.call.inputs and not at.call.controls:
            at = at.outer
        return set() if at is None else at.calls.awaited(at.outer, at.call.controls)

    def argument(self, node: Node) -> int | None:
        """Which argument of the function a node of its body stands for."""
        return self._arguments.get(node)

    def effects(self) -> set[str]:
        """What runs with the call and gives nothing of what it returns."""
        ends = {read.node for read in self.results()}
        return self.calls.awaited(self, (node for node in self.body.control_results.values() if node not in ends))

    def results(self) -> list[Output]:
        """What the function returns, as tensors of its body."""
        return [read for node in self.body.results for read in node.inputs]


class InlinedCalls:
    """The calls of a file in whose place the bodies of their functions are, those inside the bodies included.

    Args:
        graph: as it is in its file.
        calls: which, in the order of the file.
        keep_names: whether the nodes keep the names that they have in the bodies, where these are free.
    """

    def __init__(self, graph: Graph, calls: Sequence[Node], *, keep_names: bool) -> None:
        self._graph = graph
        self._bodies: dict[tuple[str, bytes], Body] = {}
        unique = UniqueNames(lambda name: name in graph)
        self.of = {call.name: Inlined(self, call, call.name, None) for call in calls}
        self.all: list[Inlined] = []
        for first in self.of.values():
            pending = [first]
            while pending:
                work = pending.pop()
                self.all.append(work)
                for node in self.nodes(work):
                    copy = unique(node.name if keep_names else f"{work.name}/{node.name}")
                    work.copies[node] = copy
                    if self.is_call(node):
                        work.inner[node] = Inlined(self, node, copy, work)
                pending += work.inner.values()

    def is_call(self, node: Node) -> bool:
        """Whether a node of a body is a call."""
        return node.op in CALLS or node.op in self._graph.functions

    @staticmethod
    def nodes(work: Inlined) -> Iterator[Node]:
        """The nodes of a body but for those that stand for its arguments and results."""
        return (node for node in work.body.graph.nodes() if node not in work.body.graph.ends)

    def body(self, call: Node) -> Body:
        """The body of the function that a call calls."""
        name, values = function_of(call)
        spelt = sorted((key, value.SerializeToString(deterministic=True)) for key, value in values.items())
        key = name, repr(spelt).encode()
        if key not in self._bodies:
            self._bodies[key] = Body(self._graph, name, values)
        return self._bodies[key]

    def resolved(self, inside: Inlined | None, read: Output) -> Resolved:
        """What a tensor of the file, or INSIDE a body, is now: one that no call gives."""
        gates: set[str] = set()
        ways = list(self._ways(inside, read))
        for where, _, through in ways:
            if through is not None:
                is_left = through is not where
                gates |= self.awaited(where, through.call.controls) if is_left else through.effects()
        where, tensor, _ = ways[-1]
        return format_input(self._name(where, tensor.node), tensor.index), gates

    def _ways(self, inside: Inlined | None, read: Output) -> Iterator[tuple[Inlined | None, Output, Inlined | None]]:
        """The tensors that hand on what READ is, from it to the one that no call gives: where each is, and the call
        that it is an argument or a result of."""
        through: Inlined | None = None
        while True:
            yield inside, read, through
            number = inside.argument(read.node) if inside is not None else None
            if inside is not None and number is not None:
                through, read = inside, inside.call.inputs[number]
                inside = through.outer
                continue
            through = self._call(inside, read.node)
            if through is None:
                return
            inside, read = through, through.results()[read.index]

    def _call(self, inside: Inlined | None, node: Node) -> Inlined | None:
        return self.of.get(node.name) if inside is None else inside.inner.get(node)

    @staticmethod
    def _name(inside: Inlined | None, node: Node) -> str:
        return node.name if inside is None else inside.copies[node]

    def awaited(self, inside: Inlined | None, nodes: Iterable[Node]) -> set[str]:
        """What has to be over where somebody waits for NODES, of the file or INSIDE a body.

        For a call that is what it does and gives; where that is nothing of its own, what it waits for and reads.
        """
        out: set[str] = set()
        pending = [(inside, node) for node in nodes]
        seen: set[tuple[int, Node]] = set()
        while pending:
            place, node = pending.pop()
            if (id(place), node) in seen or (place is not None and place.argument(node) is not None):
                continue  # an argument is there from the beginning
            seen.add((id(place), node))
            call = self._call(place, node)
            if call is None:
                out.add(self._name(place, node))
                continue
            effects = list(call.body.control_results.values())
            pending += [(call, effect) for effect in effects]
            ends = [list(self._ways(call, read))[-1] for read in call.results()]
            out |= {self._name(where, read.node) for where, read, _ in ends}
            if not effects and not any(where is call for where, _, _ in ends):
                pending += [(place, control) for control in call.call.controls]
                pending += [(where, read.node) for given in call.call.inputs
                            for where, read, _ in list(self._ways(place, given))[-1:]]  # fmt: skip
        return out
