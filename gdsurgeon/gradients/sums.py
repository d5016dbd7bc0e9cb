"""Sums of many gradients (AddN): their order, and their computation in parts.

AddN's kernel begins with the first input that it may overwrite, so the last bits of a sum of three or more inputs
depend on other readers of the inputs. `Sums` keeps the order in a rewritten step.

AddN waits for all of its inputs, and all of them exist at the same time. If they are many and large, `with_early_sums`
adds them in parts, like the eager tape. In a graph, whose executor runs all nodes that can run, later inputs must also
wait for the sum of earlier inputs. The parts have AddN's own order, so the bits are equal: the kernel adds the first 2
to 9 inputs, and then eight at a time. If the first overwritten input is not known, the sum is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.gradients.step_graph import StepGraph, TensorSize, step_of
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.ops.kinds import LOWERED, READS_SHAPE, SOURCES, may_have
from gdsurgeon.wire.protos import GraphDef, NodeDef


def may_share(step: StepGraph, number: int) -> Iterator[int]:
    """Yields the producers of inputs of a node whose buffers its outputs may share."""
    made = [size.nbytes for size in step.sizes[number]]
    is_alone = step.ops[number] == "AddN" and len(step.reads[number]) == 1  # which forwards its input
    for tensor in step.reads[number]:
        if is_alone or may_have(step.ops[number], step.size(tensor).nbytes, made):
            yield tensor[0]


class _Family(NamedTuple):
    """Nodes that share a buffer, other nodes that read it, and the sums that may begin with it."""

    sharing: set[int]
    readers: set[int]
    totals: list[int]


class Sums:
    """The sums of three or more inputs of a step.

    AddN's kernel begins with the first input whose buffer no other node needs. For uncertain inputs before a certain
    input, other nodes must need the buffers at the time of the sum exactly as in the given step.

    Args:
        step: forward and backward pass.
        is_backward: for each node whether it belongs to the backward pass.
        seeds: the gradients of the targets.
    """

    def __init__(self, step: StepGraph, is_backward: Sequence[bool], seeds: Iterable[int]) -> None:
        self._step = step
        self.is_backward = is_backward
        self._carries_gradient = step.inherited(dict.fromkeys(seeds, 1), step.order(), control=False)
        self._consumers = step.consumers(control=False)
        self._all = [number for number, op in enumerate(step.ops) if op == "AddN" and len(step.reads[number]) > 2]
        self._uncertain = {total: found for total in self._all if (found := self._uncertain_inputs(total))}

    def __bool__(self) -> bool:
        """Returns whether there are sums whose first input is not known."""
        return bool(self._uncertain)

    def computed_once(self) -> set[int]:
        """Returns the forward nodes that must not be recomputed: the sums, and nodes that affect their order.

        A buffer that the backward pass certainly reads after the sum is always needed until then. No recomputed node
        may read any other buffer, and the readers of other buffers must not wait.
        """
        out = set(self._all)
        for family in self._families:
            out |= family.sharing
            if not self._is_needed_late(family):
                out |= family.readers
        pending = list(self.prompt())
        while pending:
            read = {producer for producer, _ in self._step.reads[pending.pop()]} - out
            out |= read
            pending += [producer for producer in read if self.is_backward[producer]]
        return {number for number in out if not self.is_backward[number]}

    def prompt(self) -> set[int]:
        """Returns the backward nodes that must not wait: a sum of the forward pass may overwrite a buffer they read."""
        found = {r for family in self._families if not self._is_needed_late(family) for r in family.readers}
        return {number for number in found if self.is_backward[number] and not self._carries_gradient[number]}

    def come_before_gradients(self) -> bool:
        """Returns whether all gradients that read inputs of sums of the forward pass always run after these sums."""
        return all(
            not self._carries_gradient[reader] or self._depends_on(reader, total)
            for family in self._families
            for total in family.totals
            if not self.is_backward[total]
            for reader in family.readers
        )

    @cached_property
    def _families(self) -> list[_Family]:
        out: list[_Family] = []
        known: dict[int, _Family] = {}
        for total, producers in self._uncertain.items():
            for producer in producers:
                if producer not in known:
                    sharing = self._sharing(producer)
                    readers = {reader for number in sharing for reader in self._consumers[number]} - sharing
                    out.append(_Family(sharing, readers, []))
                    known |= dict.fromkeys(sharing, out[-1])
                known[producer].totals.append(total)
        return out

    def _is_needed_late(self, family: _Family) -> bool:
        late = [r for r in family.readers if self._carries_gradient[r]]
        late = [r for r in late if self._step.ops[r] not in READS_SHAPE | LOWERED]
        return all(any(self._depends_on(reader, total) for reader in late) for total in family.totals)

    def _depends_on(self, number: int, total: int) -> bool:
        """Returns whether a node depends on a sum of the forward pass."""
        bits, marks = self._marks
        return bool(marks[number] & bits.get(total, 0))

    @cached_property
    def _marks(self) -> tuple[dict[int, int], list[int]]:
        """A bit for each sum of the forward pass, and for each node the bits of the sums that it is or depends on."""
        bits = {total: 1 << i for i, total in enumerate(t for t in self._uncertain if not self.is_backward[t])}
        return bits, self._step.inherited(bits, self._step.order())

    def keep_order(self, order: Sequence[int]) -> list[int]:
        """Makes sums of the backward pass, and other readers of their inputs, run in a given order.

        Other readers wait for a sum only if they are sums: TensorFlow fuses a convolution and its bias only if neither
        of them waits.

        Args:
            order: the order of a run of the step. All waits follow it, so they close no cycle.

        Returns:
            The nodes that wait.
        """
        step = self._step
        position = {number: at for at, number in enumerate(order)}
        out: dict[int, None] = {}
        sharing_with: dict[int, set[int]] = {total: set() for total in self._uncertain if self.is_backward[total]}
        for family in self._families:
            for total in family.totals:
                if total in sharing_with:
                    sharing_with[total] |= family.sharing
        for total, sharing in sharing_with.items():
            readers = sharing.union(*(self._consumers[number] for number in sharing)) - {total}
            for reader in sorted(readers, key=lambda reader: position.get(reader, -1)):
                comes_first = position.get(reader, len(order)) < position.get(total, -1)
                if not self.is_backward[reader] or not (comes_first or step.ops[reader] == "AddN"):
                    continue
                awaited, waiting = (reader, total) if comes_first else (total, reader)
                known = (*step.waits[waiting], *(producer for producer, _ in step.reads[waiting]))
                if awaited not in known and step.is_live(awaited) and {awaited, waiting} <= position.keys():
                    step.waits[waiting].append(awaited)
                    out[waiting] = None
        return list(out)

    def _uncertain_inputs(self, total: int) -> list[int]:
        """Returns the producers of inputs for which it is uncertain whether the sum begins with them."""
        step = self._step
        out: list[int] = []
        for producer, port in step.reads[total]:
            if step.ops[producer] in SOURCES or step.reads[total].count((producer, port)) > 1:
                continue
            if self._consumers[producer] == [total] and next(may_share(step, producer), None) is None:
                return out
            out.append(producer)
        return out

    def _sharing(self, start: int) -> set[int]:
        """Returns the nodes whose outputs may share a buffer with outputs of `start`."""
        step = self._step

        def others(number: int) -> Iterator[int]:
            readers = (c for c in self._consumers[number] if number in may_share(step, c))
            return (other for other in (*may_share(step, number), *readers) if step.ops[other] not in SOURCES)

        return closure([start], others)


AT_A_TIME = 8
MOST_AT_ONCE = 9
"""The number of inputs that AddN's kernel adds in one step, and the most in the first step."""
LARGE = 128 << 20
"""Partial gradients of a tensor with at least this number of bytes are added in parts; the bound of the tape."""


def many_partial_gradients(definition: GraphDef) -> list[NodeDef]:
    """Returns the sums in a backward pass that could be computed in parts."""
    return [node for node in definition.node if node.op == "AddN" and _count(node) > MOST_AT_ONCE]


def with_early_sums(
    known: GraphDef, definition: GraphDef, sizes: Mapping[str, Sequence[TensorSize]]
) -> tuple[GraphDef, list[str]]:
    """Returns a backward pass in which large sums of many gradients are computed in parts, and their names.

    Args:
        known: the differentiated graph.
        definition: the backward pass, which may change some of its nodes; it is not changed.
        sizes: the sizes of the outputs of its nodes.
    """
    out = deepcopy(definition)
    there = {node.name for node in known.node}
    large = [
        node
        for node in many_partial_gradients(out)
        if node.name not in there and _count(node) * sizes[node.name][0].nbytes >= LARGE
    ]
    if not large:
        return out, []
    # A kernel may always overwrite a tensor that has one reader, and its own buffer. AddN begins with the first such
    # input.
    step = step_of([known, out], sizes)
    owned = {
        name
        for number, (name, readers) in enumerate(zip(step.names, step.consumers(control=False), strict=True))
        if len(readers) == 1 and step.ops[number] not in SOURCES and next(may_share(step, number), None) is None
    }
    early = [node for node in large if node.input[0] in owned]
    for node in early:
        _take_in_parts(known, out, node, owned)
    return out, [node.name for node in early]


def _count(node: NodeDef) -> int:
    return sum(not text.startswith("^") for text in node.input)


def _take_in_parts(known: GraphDef, definition: GraphDef, node: NodeDef, owned: Collection[str]) -> None:
    partial = [text for text in node.input if not text.startswith("^")]
    waits = [text for text in node.input if text.startswith("^")]
    # The inputs that AddN's kernel adds in one step: first the remainder by 8 (8 or 9 if it is 0 or 1).
    rest = len(partial) % AT_A_TIME
    first = rest + AT_A_TIME if rest < 2 else rest
    starts = range(first, len(partial), AT_A_TIME)
    groups = [partial[:first], *(partial[start : start + AT_A_TIME] for start in starts)]
    step = step_of([known, definition], {})
    nodes = {item.name: item for item in definition.node}
    roots = _roots(step, {step.index[name] for name in nodes}, {step.index[item.name] for item in known.node}, groups)
    unique = UniqueNames(step.index.__contains__)
    dtype = node.attr["T"]

    def add(name: str, op: str, inputs: Sequence[str]) -> str:
        new = definition.node.add()
        new.CopyFrom(NodeDef(name=unique(f"{node.name}/{name}"), op=op, input=inputs))
        new.attr["T"].CopyFrom(dtype)
        if op == "AddN":
            new.attr["N"].i = len(inputs)
        return str(new.name)

    total = ""
    for number, group in enumerate(groups):
        for root in roots[number] if total else ():
            nodes[step.names[root]].input.append(f"^{total}")
        # The order of a group is the order of AddN if its first input is overwritten.
        part, *others = [add(f"part_{number}", "AddN", group)] if group[0] in owned and len(group) > 1 else group
        for text in others:
            part = add(f"part_{number}", "AddV2", [part, text])
        if not total:
            total = part
        elif number < len(groups) - 1:
            total = add(f"sum_{number}", "AddV2", [total, part])
        else:
            node.op = "AddV2"
            del node.attr["N"]
            node.input[:] = [total, part, *waits]


def _roots(
    step: StepGraph, backward: Collection[int], there: Collection[int], groups: Sequence[Sequence[str]]
) -> list[list[int]]:
    """Returns for each group the nodes that begin the computation of its gradients, but of no earlier gradients.

    They read the forward pass, or nodes that earlier groups depend on, and no earlier group depends on them. So they
    can wait for the earlier groups without a cycle.

    Args:
        step: forward and backward pass.
        backward: the nodes of the backward pass.
        there: the nodes of the differentiated graph; the backward pass may change some of them.
        groups: the tensors of each group.
    """
    seen: set[int] = set()

    def upstream(numbers: Iterable[int]) -> set[int]:
        """Returns `numbers`, and the nodes of the backward pass that they depend on, without those that were seen."""

        def new(numbers: Iterable[int]) -> Iterator[int]:
            return (number for number in numbers if number in backward and number not in seen)

        return closure(new(numbers), lambda number: new(step.producers(number)))

    seen |= upstream(there)  # the forward pass includes the producers of its changed nodes
    out: list[list[int]] = []
    for group in groups:
        own = upstream(step.tensor(text)[0] for text in group)
        out.append(sorted(number for number in own if any(p not in own for p, _ in step.reads[number])))
        seen |= own
    return out
