"""What is between the nodes that are fused and the others, and how another graph fits into their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Copies, Intent
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import format_input, is_numbered
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.fused_function import Inside

LARGE = 1 << 16
"""Bytes of a constant's record beyond which it stays outside of the function."""


class Edges(NamedTuple):
    """What is between the nodes that are fused and the others.

    Attributes:
        members: the nodes, in the order of the file.
        inputs: the tensors from outside that they read, in the order of first use.
        outputs: the tensors that are to be had afterwards.
        kept: the nodes whose names are to stay.
        waits: the nodes outside that they wait for.
        awaited: those that nodes outside wait for.
        readers: who reads which of them outside, and where.
        waiters: who waits for them outside.
    """

    members: list[str]
    inputs: list[str]
    outputs: list[str]
    kept: list[str]
    waits: list[str]
    awaited: frozenset[str]
    readers: list[tuple[str, int, str]]
    waiters: list[str]

    @classmethod
    def of(cls, graph: Graph, members: list[str], keep: Sequence[str]) -> Edges:
        inside, nodes = frozenset(members), [graph[name] for name in members]
        users = {name: [graph[user] for user in dict.fromkeys(graph.store.users(name))] for name in members}
        reading = [(u, slot, r) for name in members for u in users[name] for slot, r in enumerate(u.inputs)
                   if r.node.name == name]  # fmt: skip
        waiting = [(u, name) for name in members for u in users[name] if any(c.name == name for c in u.controls)]
        read, waited = {r.node.name for _, _, r in reading}, {name for _, name in waiting}
        kept = [
            n.name for n in nodes if n.name in keep or (n.name not in read and (n.output_count or n.name not in waited))
        ]
        outside = [(u.name, slot, r.name) for u, slot, r in reading if u.name not in inside]
        wanted = {tensor for _, _, tensor in outside}
        return cls(
            members,
            list(dict.fromkeys(r.name for node in nodes for r in node.inputs if r.node.name not in inside)),
            [format_input(n.name, i) for n in nodes for i in range(n.output_count or 0)
             if n.name in kept or format_input(n.name, i) in wanted],
            kept,
            list(dict.fromkeys(c.name for node in nodes for c in node.controls if c.name not in inside)),
            frozenset(name for u, name in waiting if u.name not in inside),
            outside,
            list(dict.fromkeys(u.name for u, _ in waiting if u.name not in inside)),
        )  # fmt: skip

    def without(self, dropped: Sequence[str]) -> Edges:
        """The same if the tensors DROPPED, each the only output of its node, are not to be had afterwards."""
        outputs = [tensor for tensor in self.outputs if tensor not in dropped]
        return self._replace(outputs=outputs, kept=[name for name in self.kept if name not in dropped])


def is_large(node: Node) -> bool:
    """Whether a constant is handed to the function, and not made part of it."""
    return node.op == "Const" and node.record is not None and node.record.end - node.record.start > LARGE


def paired(
    graph: Graph, body: Graph, edges: Edges, mapped: Sequence[tuple[str, str]], keep: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The placeholder of BODY for each tensor that it needs, and its result for each tensor that it gives.

    A node of GRAPH that has no consumers, and is not to be kept, may do without a result; see `is_idle`.
    """
    pairs = {tensor.removesuffix(":0"): inner.removesuffix(":0") for tensor, inner in mapped}
    nodes = list(body.nodes())
    read = dict.fromkeys(output for node in nodes for output in node.inputs)
    wanted = [output.node for output in read if output.node.op in PLACEHOLDERS]
    wanted += [node for node in nodes if node.op in PLACEHOLDERS]
    taken = {output.node for output in read}
    ends = [
        n for n in nodes if n not in taken and n.op not in PLACEHOLDERS | {"Const", "Print"} and n.output_dtypes != []
    ]
    ends = ends or [n for n in nodes if n not in taken and n.op == "Const"]
    ends += [n for n in nodes if n.op == "Const" and n.name in edges.outputs and n not in ends]
    given = [node.name for node in dict.fromkeys(wanted) if node.op != "PlaceholderWithDefault"]
    optional = [name for name in edges.kept if name not in keep and is_idle(graph, name)]
    return (
        _by_name_and_order(edges.inputs, given, {t: i for t, i in pairs.items() if t in edges.inputs}),
        _by_name_and_order(edges.outputs, [o.name for node in ends for o in node.outputs],
                           {t: i for t, i in pairs.items() if t in edges.outputs}, optional),
    )  # fmt: skip


def is_idle(graph: Graph, name: str) -> bool:
    """Whether a node without consumers is an Exit of a loop, or one that no signature of the model names."""
    serving = serving_of(graph)
    keys = serving.called.values() if serving is not None else ()
    served = {tensor.removesuffix(":0") for key in keys for tensor in key.outputs.values()}
    return graph[name].op in ("Exit", "RefExit") or (bool(keys) and name not in served)


def _by_name_and_order(
    tensors: Sequence[str], inner: Sequence[str], pairs: dict[str, str], optional: Sequence[str] = ()
) -> dict[str, str]:
    pairs |= {name: name for name in tensors if name in inner and name not in pairs and name not in pairs.values()}
    left = [tensor for tensor in tensors if tensor not in pairs]
    free = [name for name in inner if name not in pairs.values()]
    if len(free) != len(left):
        left = [tensor for tensor in left if tensor not in optional]
    return pairs | dict(zip(left, free, strict=False))


def of_body(
    comparison: Comparison,
    body: Graph,
    paired: tuple[dict[str, str], dict[str, str]],
    edges: Edges,
    name: str,
    intent: Intent,
) -> tuple[Inside, list[str]]:
    """What is in the function, and what the call reads; the large constants of BODY come to stand beside the call."""
    placeholders, results = paired
    reads = [tensor for tensor in edges.inputs if tensor in placeholders]
    large = [node.name for node in body.nodes() if is_large(node)]
    copies = {stem: new for new in comparison.facts.added for stem in large if is_numbered(new, f"{name}/{stem}")}
    intent.added += copies.values()
    intent.copies.append(Copies(body, copies, {}, False))
    outside = {*(placeholders[tensor] for tensor in reads), *copies}
    args = [*(placeholders[tensor] for tensor in reads), *copies]
    nodes = [node.name for node in body.nodes() if node.name not in outside]
    inside = Inside(body, nodes, args, [results[t] for t in edges.outputs if t in results], frozenset(), {})
    return inside, [*reads, *copies.values()]
