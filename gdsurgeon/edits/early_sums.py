"""Early aggregation: partial gradients of one tensor are added up as they come, where they are many and large.

TensorFlow's AddN waits for all of its inputs, and all of them are there at once then. The eager tape adds them up when
more than a few are waiting; in a graph, whose executor computes whatever it can, the later ones also have to wait for
the sum of the earlier ones. The sum is taken in AddN's own order, so that its bits are the same: the kernel adds the
first 2 to 9 inputs, and then eight at a time to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gdsurgeon.analysis.step import TensorSize
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.wire.messages import message

AT_A_TIME = 8
MOST_AT_ONCE = 9
"""Inputs that AddN's kernel adds in one go."""
LARGE = 128 << 20
"""Bytes of all partial gradients of a tensor together, from which on they are added early; the tape's own bound."""


def many_partial_gradients(definition: Any) -> list[Any]:
    """The sums in a backward pass that could be taken in parts."""
    return [node for node in definition.node if node.op == "AddN" and _count(node) > MOST_AT_ONCE]


def with_early_sums(definition: Any, sizes: Mapping[str, Sequence[TensorSize]]) -> tuple[Any, list[str]]:
    """A backward pass in which large sums of many gradients are taken in parts, and the nodes that were such sums.

    Args:
        definition: the backward pass, a GraphDef; left as it is.
        sizes: of the outputs of its nodes.
    """
    out = type(definition)()
    out.CopyFrom(definition)
    early = [
        node for node in many_partial_gradients(out) if _count(node) * sizes[node.name][0].nbytes >= LARGE
    ]
    for node in early:
        _take_in_parts(out, node)
    return out, [node.name for node in early]


def _count(node: Any) -> int:
    return sum(not text.startswith("^") for text in node.input)


def _take_in_parts(definition: Any, node: Any) -> None:
    partial = [text for text in node.input if not text.startswith("^")]
    waits = [text for text in node.input if text.startswith("^")]
    groups = list(_groups(partial))
    roots = _roots(definition, groups)
    nodes = {item.name: item for item in definition.node}
    dtype = node.attr["T"]
    total = ""
    for number, group in enumerate(groups):
        part = _add(definition, f"{node.name}/part_{number}", "AddN", group, dtype)
        part.attr["N"].i = len(group)
        if not total:
            total = part.name
            continue
        for root in roots[number]:
            nodes[root].input.append(f"^{total}")
        if number < len(groups) - 1:
            total = _add(definition, f"{node.name}/sum_{number}", "AddV2", [total, part.name], dtype).name
        else:
            node.op = "AddV2"
            del node.attr["N"]
            del node.input[:]
            node.input.extend([total, part.name, *waits])


def _add(definition: Any, name: str, op: str, inputs: Sequence[str], dtype: Any) -> Any:
    node = definition.node.add()
    node.CopyFrom(message("tensorflow.NodeDef")(name=name, op=op, input=inputs))
    node.attr["T"].CopyFrom(dtype)
    return node


def _groups(partial: Sequence[str]) -> Iterator[Sequence[str]]:
    """What AddN's kernel adds in one go: first the rest of the division by 8 (8 or 9 where that is 0 or 1)."""
    rest = len(partial) % AT_A_TIME
    first = rest + AT_A_TIME if rest < 2 else rest
    yield partial[:first]
    for start in range(first, len(partial), AT_A_TIME):
        yield partial[start : start + AT_A_TIME]


def _roots(definition: Any, groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each group the nodes with which the computation of its gradients, and of none before them, begins.

    They read what is there in any case: the forward pass, or what earlier groups depend on. That itself is never among
    them, in the graph as it is now: no cycle can come of it that these nodes wait for the earlier groups.
    """
    nodes = {node.name: node for node in definition.node}
    reads = {
        name: [ref for text in node.input if (ref := parse_input(text)) is not None] for name, node in nodes.items()
    }
    seen: set[str] = set()
    out: list[list[str]] = []
    for group in groups:
        own: set[str] = set()
        pending = [ref.node for text in group if (ref := parse_input(text)) is not None]
        while pending:
            name = pending.pop()
            if name in nodes and name not in seen and name not in own:
                own.add(name)
                pending.extend(ref.node for ref in reads[name])
        begins = (name for name in own if any(r.port != CONTROL and r.node not in own for r in reads[name]))
        out.append(sorted(begins))
        seen |= own
    return out
