"""Loads graphs: detects the format of a file by its content, and makes node names unique."""

from __future__ import annotations

from gdsurgeon.arguments import public
from gdsurgeon.errors import InputError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, renaming
from gdsurgeon.wire import sniff
from gdsurgeon.wire.protos import GraphDef, NodeDef
from gdsurgeon.wire.source import STANDARD_INPUT_NAME, BytesSource, Source, Window, open_source
from gdsurgeon.wire.write import read_chunks

LARGEST_TEXT = 2 << 30
"""Most bytes of a text graph: protobuf's limit, because the text is parsed as a whole."""


def load(path: str) -> Graph:
    """Returns the graph in the file `path` (``-``: standard input), a frozen GraphDef in binary or text form.

    Raises:
        InputError: the file cannot be read, or has a different format, which the message names.
    """
    return from_source(open_source(path))


@public
def from_bytes(data: bytes, name: str = "<bytes>") -> Graph:
    """Returns the graph in `data`. Raises InputError."""
    return from_source(BytesSource(data, name))


def from_source(source: Source) -> Graph:
    """Returns the graph in `source`. Raises InputError."""
    window = Window(source, 0, source.size)
    if sniff.is_binary_graph(window):
        return Graph(source)
    head = source.read(0, min(sniff.HEAD, source.size))
    foreign = sniff.foreign_format(head)
    if foreign is None and sniff.is_text(head):
        return _from_text(source, head)
    if foreign is None and sniff.is_data_of_checkpoint(source.name):
        foreign = sniff.DATA
    if foreign is None:
        foreign = sniff.container_format(window)
    if foreign is not None:
        is_starved = not head and source.name == STANDARD_INPUT_NAME
        raise sniff.wrong_format(source.name, foreign, "front-of-pipe" if is_starved else "")
    return Graph(source)


def _from_text(source: Source, head: bytes) -> Graph:
    from gdsurgeon.wire.text import to_binary

    if sniff.kind_of_text(head) != "GraphDef" or source.size > LARGEST_TEXT:
        line = f"{printable(source.name)} is a text file, but not a GraphDef in text form"
        raise InputError(line, code="wrong-format", file=source.name, found="text")
    data = to_binary(source.read(0, source.size), source.name)
    return Graph(BytesSource(data, source.name), text=source, file_bytes=source.size)


def uniquely_named(graph: Graph) -> Graph:
    """Returns `graph` if all names are unique; else a graph with unique names, whose `repairs` lists the changes.

    Of nodes that are byte-for-byte equal, the first is kept. Different nodes with the same name get new names. A
    consumer of a repeated name reads the last such node before the consumer, or the first such node if all are after
    it, because files list nodes after their inputs. TensorFlow refuses such a file, so its meaning is not defined.
    """
    names = graph.store.names
    if len({*names}) == len(names) or graph.serving is not None:
        return graph
    proto = GraphDef()
    proto.ParseFromString(read_chunks(graph.chunks()))
    taken = {node.name for node in proto.node}
    unique = UniqueNames(taken.__contains__)
    latest: dict[str, str] = {}  # the name of the last node so far that had a name
    first: dict[tuple[str, bytes], str] = {}
    kept: list[NodeDef] = []
    repairs: list[Remark] = []
    for node in proto.node:
        node.input[:] = [*map(renaming(latest), node.input)]
        name, body = node.name, node.SerializeToString(deterministic=True)
        same = first.get((name, body))
        if same is not None:
            text = f"node {quoted(name)} occurs twice, with equal definitions: the second is removed"
            repairs.append(Remark(text, "duplicate-removed", node=name))
            latest[name] = same
            continue
        if name in latest:
            node.name = unique(name)
            text = f"the second node {quoted(name)} ({printable(node.op)}) is renamed to {quoted(node.name)}"
            repairs.append(Remark(text, "renamed", node=name, op=node.op, name=node.name))
        first[name, body] = latest[name] = node.name
        kept.append(node)
    nodes = [NodeDef.FromString(node.SerializeToString()) for node in kept]
    del proto.node[:]
    proto.node.extend(nodes)
    source = BytesSource(proto.SerializeToString(deterministic=True), graph.source_name)
    out = Graph(source, text=graph.text, file_bytes=graph.file_bytes)
    out.repairs = tuple(repairs)
    return out
