"""Early aggregation: partial gradients of one tensor are added up as they come, where they are many and large.

TensorFlow's AddN waits for all of its inputs, and all of them are there at once then. The eager tape adds them up when
more than a few are waiting; in a graph, whose executor computes whatever it can, the later ones also have to wait for
the sum of the earlier ones. The sum is taken in AddN's own order, so that its bits are the same: the kernel adds the
first 2 to 9 inputs, and then eight at a time to that. It begins with the first input that it may write over: where that
is not known to be the first one, the sum is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.gradients.checkpointing.step import TensorSize
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.names import CONTROL, UniqueNames, parse_input
from gdsurgeon.ops.kinds import SOURCES, may_have
from gdsurgeon.wire.protos import GraphDef, NodeDef

AT_A_TIME = 8
MOST_AT_ONCE = 9
"""Inputs that AddN's kernel adds in one go."""
LARGE = 128 << 20
"""Bytes of all partial gradients of a tensor together, from which on they are added early; the tape's own bound."""


def many_partial_gradients(definition: GraphDef) -> list[NodeDef]:
    """The sums in a backward pass that could be taken in parts."""
    return [node for node in definition.node if node.op == "AddN" and _count(node) > MOST_AT_ONCE]


def with_early_sums(
    definition: GraphDef, sizes: Mapping[str, Sequence[TensorSize]], there: Collection[str] = frozenset()
) -> tuple[GraphDef, list[str]]:
    """A backward pass in which large sums of many gradients are taken in parts, and the nodes that were such sums.

    Args:
        definition: the backward pass, a GraphDef; left as it is.
        sizes: of the outputs of its nodes.
        there: the nodes of the differentiated graph; `definition` may change some of them.
    """
    out = type(definition)()
    out.CopyFrom(definition)
    large = [
        node
        for node in many_partial_gradients(out)
        if node.name not in there and _count(node) * sizes[node.name][0].nbytes >= LARGE
    ]
    owned = _owned(out, sizes) if large else frozenset()
    early = [node for node in large if node.input[0] in owned]
    for node in early:
        _take_in_parts(out, there, node, owned)
    return out, [node.name for node in early]


def _owned(definition: GraphDef, sizes: Mapping[str, Sequence[TensorSize]]) -> frozenset[str]:
    """The tensors that a kernel is sure to be allowed to write over: each has one reader, and a buffer of its own.

    AddN begins its sum with the first such input, whatever the order of its inputs.
    """
    readers = Counter(text.partition(":")[0] for node in definition.node for text in node.input)

    def bytes_of(name: str, port: int) -> int:
        found = sizes.get(name, ())
        return found[port].nbytes if port < len(found) else 0

    def is_fresh(node: NodeDef) -> bool:
        made = [size.nbytes for size in sizes.get(node.name, ())] or [0]
        if node.op in SOURCES or (node.op == "AddN" and _count(node) == 1):
            return False
        reads = [ref for text in node.input if (ref := parse_input(text)) is not None and ref.port != CONTROL]
        return not any(may_have(node.op, bytes_of(ref.node, ref.port), made) for ref in reads)

    return frozenset(node.name for node in definition.node if readers[node.name] == 1 and is_fresh(node))


def _count(node: NodeDef) -> int:
    return sum(not text.startswith("^") for text in node.input)


def _take_in_parts(definition: GraphDef, there: Collection[str], node: NodeDef, owned: Collection[str]) -> None:
    partial = [text for text in node.input if not text.startswith("^")]
    waits = [text for text in node.input if text.startswith("^")]
    groups = list(_groups(partial))
    roots = _roots(definition, there, groups)
    nodes = {item.name: item for item in definition.node}
    unique = UniqueNames(lambda name: name in nodes or name in there)
    dtype = node.attr["T"]

    def add(name: str, op: str, inputs: Sequence[str]) -> str:
        new = definition.node.add()
        new.CopyFrom(NodeDef(name=unique(f"{node.name}/{name}"), op=op, input=inputs))
        new.attr["T"].CopyFrom(dtype)
        if op == "AddN":
            new.attr["N"].i = len(inputs)
        return str(new.name)

    def sum_of(number: int, group: Sequence[str]) -> str:
        """The sum of a group in its own order, which is AddN's where its first input is written over."""
        if len(group) == 1:
            return group[0]
        if group[0] in owned:
            return add(f"part_{number}", "AddN", group)
        part = group[0]
        for text in group[1:]:
            part = add(f"part_{number}", "AddV2", [part, text])
        return part

    total = ""
    for number, group in enumerate(groups):
        for root in roots[number] if total else ():
            nodes[root].input.append(f"^{total}")
        part = sum_of(number, group)
        if not total:
            total = part
        elif number < len(groups) - 1:
            total = add(f"sum_{number}", "AddV2", [total, part])
        else:
            node.op = "AddV2"
            del node.attr["N"]
            del node.input[:]
            node.input.extend([total, part, *waits])


def _groups(partial: Sequence[str]) -> Iterator[Sequence[str]]:
    """What AddN's kernel adds in one go: first the rest of the division by 8 (8 or 9 where that is 0 or 1)."""
    rest = len(partial) % AT_A_TIME
    first = rest + AT_A_TIME if rest < 2 else rest
    yield partial[:first]
    for start in range(first, len(partial), AT_A_TIME):
        yield partial[start : start + AT_A_TIME]


def _roots(definition: GraphDef, there: Collection[str], groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each group the nodes with which the computation of its gradients, and of none before them, begins.

    They read what is there in any case: the forward pass, or what earlier groups depend on. That itself is never among
    them, in the graph as it is now: no cycle can come of it that these nodes wait for the earlier groups.
    """
    reads = {
        node.name: [ref for text in node.input if (ref := parse_input(text)) is not None] for node in definition.node
    }

    def behind(names: Iterable[str], known: Collection[str]) -> set[str]:
        """The nodes of the backward pass that NAMES depend on, themselves included, without those KNOWN."""

        def new(names: Iterable[str]) -> Iterator[str]:
            return (name for name in names if name in reads and name not in known)

        return closure(new(names), lambda name: new(ref.node for ref in reads[name]))

    # What the nodes of the graph have come to read is a part of the forward pass.
    seen = behind((name for name in reads if name in there), ())
    out: list[list[str]] = []
    for group in groups:
        own = behind((ref.node for text in group if (ref := parse_input(text)) is not None), seen)
        begins = (name for name in own if any(r.port != CONTROL and r.node not in own for r in reads[name]))
        out.append(sorted(begins))
        seen |= own
    return out
