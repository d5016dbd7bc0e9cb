"""Graphs in which several nodes have one name: read so that each has its own."""

from __future__ import annotations

from gdsurgeon.errors import Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.wire.protos import GraphDef, NodeDef
from gdsurgeon.wire.source import BytesSource
from gdsurgeon.wire.write import read_chunks


def uniquely_named(graph: Graph) -> Graph:
    """Returns `graph` if all names are unique; else a graph with unique names, whose `mended` lists the changes.

    Of equal nodes, byte for byte, the first is kept. Others get new names. A node with such an input reads the last
    one before it, or the first of all if there is none before it, because files have nodes after their inputs.
    TensorFlow refuses such a file, so its meaning is not defined.
    """
    names = graph.store.names
    if len({*names}) == len(names) or graph.serving is not None:
        return graph
    proto = GraphDef()
    proto.ParseFromString(read_chunks(graph.chunks()))
    taken = {node.name for node in proto.node}
    unique = UniqueNames(taken.__contains__)
    latest: dict[str, str] = {}
    first: dict[tuple[str, bytes], str] = {}
    kept: list[NodeDef] = []
    mended: list[Remark] = []
    for node in proto.node:
        _respell(node, latest)
        name, body = node.name, node.SerializeToString(deterministic=True)
        same = first.get((name, body))
        if same is not None:
            text = f"node {quoted(name)} occurs twice, with equal definitions: the second is removed"
            mended.append(Remark(text, "duplicate-removed", node=name))
            latest[name] = same
            continue
        if name in latest:
            node.name = unique(name)
            text = f"the second node {quoted(name)} ({printable(node.op)}) is renamed to {quoted(node.name)}"
            mended.append(Remark(text, "renamed", node=name, op=node.op, name=node.name))
        first[name, body] = latest[name] = node.name
        kept.append(node)
    nodes = [NodeDef.FromString(node.SerializeToString()) for node in kept]
    del proto.node[:]
    proto.node.extend(nodes)
    source = BytesSource(proto.SerializeToString(deterministic=True), graph.source_name)
    out = Graph(source, text=graph.text, file_bytes=graph.file_bytes)
    out.mended = tuple(mended)
    return out


def _respell(node: NodeDef, latest: dict[str, str]) -> None:
    """Has NODE read the last nodes of the names that it reads."""
    for place, text in enumerate(node.input):
        control, name = ("^", text[1:]) if text.startswith("^") else ("", text)
        name, colon, port = name.partition(":")
        if latest.get(name, name) != name:
            node.input[place] = f"{control}{latest[name]}{colon}{port}"
