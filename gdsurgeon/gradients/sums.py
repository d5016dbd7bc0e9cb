"""Sums of many gradients (AddN): their order, and their computation in parts.

AddN's kernel begins with the first input that it may overwrite, so the last bits of a sum of three or more inputs
depend on other readers of the inputs. `sums_of` finds the conditions that keep this order in a rewritten step.

AddN waits for all of its inputs, and all of them exist at the same time. If they are many and large, `with_early_sums`
adds them in parts, like the eager tape. In a graph, whose executor runs all nodes that can run, later inputs must also
wait for the sum of earlier inputs. The parts have AddN's own order, so the bits are equal: the kernel adds the first 2
to 9 inputs, and then eight at a time. If the first overwritten input is not known, the sum is not changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
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


class Sums(NamedTuple):
    """The requirements of the sums of three or more inputs of a step.

    Attributes:
        computed_once: the forward nodes that must not be recomputed: the sums, and nodes that affect their order.
        prompt: the backward nodes that must not wait: a sum of the forward pass may overwrite a buffer they read.
        come_before_gradients: whether all gradients that read inputs of sums of the forward pass always run after these
            sums.
        sharing: for each sum of the backward pass whose first input is not known, the nodes that may share a buffer
            with its inputs.
    """

    computed_once: set[int]
    prompt: set[int]
    come_before_gradients: bool
    sharing: dict[int, set[int]]


def sums_of(step: StepGraph, is_backward: Sequence[bool], seeds: Iterable[int]) -> Sums:
    """Returns the requirements of the sums of a step.

    AddN's kernel begins with the first input whose buffer no other node needs. For uncertain inputs before a certain
    input, other nodes must need the buffers at the time of the sum exactly as in the given step. A buffer that the
    backward pass certainly reads after the sum is always needed until then. No recomputed node may read any other
    buffer, and the readers of other buffers must not wait.

    Args:
        step: forward and backward pass.
        is_backward: for each node whether it belongs to the backward pass.
        seeds: the gradients of the targets.
    """
    carries_gradient = step.inherited(dict.fromkeys(seeds, 1), step.order(), control=False)
    consumers = step.consumers(control=False)

    def uncertain_inputs(total: int) -> Iterator[int]:
        """Yields the producers of inputs for which it is uncertain whether the sum begins with them."""
        for producer, port in step.reads[total]:
            if step.ops[producer] in SOURCES or step.reads[total].count((producer, port)) > 1:
                continue
            if consumers[producer] == [total] and next(may_share(step, producer), None) is None:
                return
            yield producer

    def sharing_with(number: int) -> Iterator[int]:
        readers = (c for c in consumers[number] if number in may_share(step, c))
        return (other for other in (*may_share(step, number), *readers) if step.ops[other] not in SOURCES)

    totals = [number for number, op in enumerate(step.ops) if op == "AddN" and len(step.reads[number]) > 2]
    begun: dict[int, list[int]] = {}  # the sums that may begin with a buffer, by a node of each group that shares it
    groups: dict[int, set[int]] = {}
    first: dict[int, int] = {}
    for total in totals:
        for producer in uncertain_inputs(total):
            if producer not in first:
                groups[producer] = closure([producer], sharing_with)
                first |= dict.fromkeys(groups[producer], producer)
            begun.setdefault(first[producer], []).append(total)
    # A bit for each sum of the forward pass, and for each node the bits of the sums that it is or depends on.
    bits = {total: 1 << at for at, total in enumerate(totals) if not is_backward[total]}
    marks = step.inherited(bits, step.order())
    found = Sums(set(totals), set(), True, {})
    for start, sums in begun.items():
        sharing = groups[start]
        readers = {reader for number in sharing for reader in consumers[number]} - sharing
        gradients = [reader for reader in readers if carries_gradient[reader]]
        late = [reader for reader in gradients if step.ops[reader] not in READS_SHAPE | LOWERED]
        forward = sum({bits.get(total, 0) for total in sums})
        if any(marks[reader] & forward != forward for reader in gradients):
            found = found._replace(come_before_gradients=False)
        found.computed_once.update(sharing)
        if not all(any(marks[reader] & bits.get(total, 0) for reader in late) for total in sums):
            found.computed_once.update(readers)
            found.prompt.update(r for r in readers if is_backward[r] and not carries_gradient[r])
        for total in sums:
            if is_backward[total]:
                found.sharing.setdefault(total, set()).update(sharing)
    pending = list(found.prompt)
    while pending:
        read = {producer for producer, _ in step.reads[pending.pop()]} - found.computed_once
        found.computed_once.update(read)
        pending += [producer for producer in read if is_backward[producer]]
    return found._replace(computed_once={number for number in found.computed_once if not is_backward[number]})


def keep_order(step: StepGraph, is_backward: Sequence[bool], sums: Sums, order: Sequence[int]) -> list[int]:
    """Makes sums of the backward pass, and other readers of their inputs, run in a given order.

    Other readers wait for a sum only if they are sums: TensorFlow fuses a convolution and its bias only if neither
    of them waits.

    Args:
        step: is changed.
        is_backward: for each node whether it belongs to the backward pass.
        sums: its sums.
        order: the order of a run of the step. All waits follow it, so they close no cycle.

    Returns:
        The nodes that wait.
    """
    position = {number: at for at, number in enumerate(order)}
    consumers = step.consumers(control=False)
    out: dict[int, None] = {}
    for total, sharing in sums.sharing.items():
        readers = sharing.union(*(consumers[number] for number in sharing)) - {total}
        for reader in sorted(readers, key=lambda reader: position.get(reader, -1)):
            comes_first = position.get(reader, len(order)) < position.get(total, -1)
            if not is_backward[reader] or not (comes_first or step.ops[reader] == "AddN"):
                continue
            awaited, waiting = (reader, total) if comes_first else (total, reader)
            known = (*step.waits[waiting], *(producer for producer, _ in step.reads[waiting]))
            if awaited not in known and step.is_live(awaited) and {awaited, waiting} <= position.keys():
                step.waits[waiting].append(awaited)
                out[waiting] = None
    return list(out)


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
        new = definition.node.add(name=unique(f"{node.name}/{name}"), op=op, input=inputs)
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
