"""Shapes that are inferred on demand, and updated while a graph is edited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gdsurgeon.analysis.shapes.arithmetic import RULES, Value
from gdsurgeon.analysis.shapes.inference import Inference, Shapes
from gdsurgeon.analysis.traversal.order import Worklist
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.node import Output
from gdsurgeon.ops.kinds import MERGE


class KeptShapes:
    """The shapes of the tensors of a graph, as `infer_shapes` gives them without what attrs state.

    Only requested shapes are inferred, and after an edit only those that may have changed.

    Args:
        topology: of the graph.
        order: its nodes in topological order.
        places: for each node its place in that; -1: it has none.
    """

    def __init__(self, topology: Topology, order: Sequence[int], places: Sequence[int]) -> None:
        self._topology, self._places = topology, places
        self._inference = Inference(topology.graph, {}, use_stated=False, settle=None, base=Shapes(topology, order))
        self._is_known = bytearray(topology.size)

    def shape(self, output: Output) -> Shape:
        """The shape of a tensor; see `Shapes`."""
        self._ask(self._topology.id_of(output.node))
        return self._inference.found.shape(output)

    def value(self, output: Output) -> Value:
        """The elements of a small integer tensor; see `Shapes`."""
        self._ask(self._topology.id_of(output.node))
        return self._inference.found.value(output)

    def keep_up(
        self, topology: Topology, order: Sequence[int], places: Sequence[int], edited: Iterable[int]
    ) -> list[int]:
        """Updates the shapes after an edit; returns the nodes with changed shapes.

        Args:
            topology: of the graph as it is now, with the same numbers for the same nodes.
            order, places: as at first.
            edited: the nodes that read something else or are of another op, and perhaps others.
        """
        self._topology, self._places = topology, places
        self._inference.keep_up(topology, order)
        agenda = Worklist(order, places)
        agenda.add(number for number in edited if self._is_known[number])
        found: list[int] = []
        for number in agenda:
            before = self._inference.take_back(number)
            self._is_known[number] = 0
            self._ask(number)
            if self._inference.known_of(number) != before:
                found.append(number)
                agenda.add(user for user in topology.users(number) if self._is_known[user])
        return found

    def _ask(self, number: int) -> None:
        """Infers a node and its inputs if needed; nodes after a cycle stay unknown."""
        if self._is_known[number] or self._places[number] < 0:
            return
        pending = [number]
        while pending:
            number = pending[-1]
            lacking = [] if self._is_known[number] else self._lacking(number)
            if lacking:
                pending += lacking
                continue
            pending.pop()
            if not self._is_known[number]:
                self._is_known[number] = 1
                self._infer(number)

    def _infer(self, number: int) -> None:
        """Infers a node; values that return in a loop are unknown at the start of the loop."""
        is_head = self._topology.op(number) in MERGE
        above = self._topology.data_producers(number) if is_head else ()
        held = {n: self._inference.take_back(n) for n in above if self._places[n] >= self._places[number]}
        self._inference.infer(number)
        for back, known in held.items():
            self._inference.put_back(back, known)

    def _lacking(self, number: int) -> list[int]:
        """What has to be inferred before a node."""
        if self._topology.op(number) not in RULES:
            return []
        place = self._places[number]
        above = self._topology.data_producers(number)
        return [n for n in above if not self._is_known[n] and 0 <= self._places[n] < place]
