"""A graph with changed nodes, by name: the state of a graph while a specification replays an edit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from gdsurgeon.graph.attrs import Plain, attr_value, functions_in, plain
from gdsurgeon.graph.constants import Constant, TensorHeader, constant, constant_header, constant_in, header_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import IN_PLACE, may_have
from gdsurgeon.ops.op_defs import OpDef, arg_dtypes


def named_nodes(graph: Graph) -> set[str]:
    """Returns the nodes whose names are used."""
    serving = graph.serving
    out = {node.name for node in graph.ends}
    if serving is not None:
        out |= {name for name in serving.nodes if name in graph}
    if serving is None or not serving.called:
        unread = graph.store.table.unread
        names = graph.store.table.names
        out |= {names[row] for row in unread if _can_be_fetched(graph, names[row])}
    return out


def _can_be_fetched(graph: Graph, name: str) -> bool:
    node = graph[name]
    dtypes = node.output_dtypes
    is_value = dtypes is None or (bool(dtypes) and not all(base_dtype(each) in (RESOURCE, VARIANT) for each in dtypes))
    return node.op not in ("Const", "NoOp") and is_value


Tensor = tuple[str, int]
"""The name of a node, and the index of an output."""


class AttrReader:
    """Returns the plain value of an attr of `attrs`, or None."""

    def __init__(self, attrs: dict[str, bytes]) -> None:
        self._attrs = attrs

    def __call__(self, key: str) -> Plain | None:
        return plain(attr_value(self._attrs[key])) if key in self._attrs else None


@dataclass
class DraftNode:
    """A node of a draft; `dtypes` are those of its outputs, once they are known."""

    op: str
    inputs: list[Tensor]
    controls: list[str]
    attrs: dict[str, bytes]
    device: str = ""
    dtypes: list[int] | None = field(default=None, compare=False)

    def producers(self) -> list[str]:
        """Returns the nodes that this node reads or has a control dependency on."""
        return [*(name for name, _ in self.inputs), *self.controls]


_CACHED = 1 << 12
"""The number of unchanged nodes that are kept in memory."""


@dataclass
class Draft:
    """A graph, and the nodes that are different now.

    Attributes:
        graph: the original graph.
        changed: the added and changed nodes.
        removed: the names of removed nodes.
    """

    graph: Graph
    changed: dict[str, DraftNode] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    _users: dict[str, set[str]] = field(default_factory=dict)
    _unchanged: dict[str, DraftNode] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.changed or (name not in self.removed and name in self.graph)

    def node(self, name: str) -> DraftNode:
        """Returns the node `name`."""
        found = self.changed.get(name) or self._unchanged.get(name)
        if found is None:
            if len(self._unchanged) >= _CACHED:
                self._unchanged.clear()
            found = self._unchanged[name] = _node_of(self.graph[name])
        return found

    def op(self, name: str) -> str:
        """Returns the op of a node."""
        if name in self.changed:
            return self.changed[name].op
        table = self.graph.store.table
        row = table.rows.get(name)
        return self.graph[name].op if row is None else table.op(row)

    def put(self, name: str, node: DraftNode) -> None:
        """Adds or replaces the node `name`."""
        self._forget(name)
        self.changed[name] = node
        self.removed.discard(name)
        for producer in node.producers():
            self._users.setdefault(producer, set()).add(name)

    def drop(self, name: str) -> None:
        """Removes a node."""
        self._forget(name)
        self.removed.add(name)

    def _forget(self, name: str) -> None:
        node = self.changed.pop(name, None)
        for producer in node.producers() if node is not None else ():
            self._users[producer].discard(name)

    def users(self, name: str) -> Iterator[str]:
        """Yields the nodes that read a node or have a control dependency on it."""
        yield from self._users.get(name, ())
        table = self.graph.store.table
        row = table.rows.get(name)
        for user in table.users(row) if row is not None else ():
            if table.names[user] not in self.changed and table.names[user] not in self.removed:
                yield table.names[user]

    def names(self) -> Iterator[str]:
        """Yields the names of all nodes."""
        yield from (name for name in self.graph.names() if name not in self.removed and name not in self.changed)
        yield from self.changed

    def definition(self, name: str) -> OpDef | None:
        """Returns the signature of a node's op."""
        return self.graph.op_def(self.op(name))

    def dtype(self, tensor: Tensor) -> int:
        """Returns the DataType of a tensor; 0 if it is unknown."""
        node = self.node(tensor[0])
        if node.dtypes is None:
            definition = self.definition(tensor[0])
            found = [] if definition is None else arg_dtypes(definition.outputs, definition, AttrReader(node.attrs))
            node.dtypes = found
        return node.dtypes[tensor[1]] if tensor[1] < len(node.dtypes) else 0

    def constant(self, name: str) -> str | None:
        """Returns the Const whose value a node forwards; None if there is no such Const."""
        while self.op(name) in ("Identity", "Enter"):
            inputs = self.node(name).inputs
            if len(inputs) != 1:
                return None
            name = inputs[0][0]
        return name if self.op(name) == "Const" else None

    def value(self, name: str) -> Constant | None:
        """Returns the value of the small constant that a node is or forwards."""
        found = self.constant(name)
        if found is None or found in self.changed:
            return None if found is None else constant_in(self.changed[found].attrs.get("value", b""))
        return constant(self.graph[found])

    def header(self, name: str) -> TensorHeader | None:
        """Returns the header of the constant that a node is or forwards."""
        found = self.constant(name)
        if found is None or found in self.changed:
            return None if found is None else header_of(self.changed[found].attrs.get("value", b""))
        return constant_header(self.graph[found])

    def all_attrs(self, name: str) -> dict[str, bytes]:
        """Returns the attrs of a node, including the value of a constant."""
        return self.changed[name].attrs if name in self.changed else _attrs_of(self.graph[name], ())


def _node_of(node: Node) -> DraftNode:
    attrs = _attrs_of(node, ("value",) if node.op == "Const" else ())  # weights are not read
    inputs = [(read.node.name, read.index) for read in node.inputs]
    return DraftNode(node.op, inputs, [control.name for control in node.controls], attrs, node.device)


def _attrs_of(node: Node, without: Collection[str]) -> dict[str, bytes]:
    return {key: node.attr_bytes(key) or b"" for key in node.attr_keys if key not in without}


def overwriting(graph: Graph) -> set[str]:
    """Returns the functions with an op that works in place, and all functions that call them."""
    library = graph.functions
    found = [each.signature.name for each in library if not IN_PLACE.isdisjoint(node.op for node in each.node_def)]
    return library.reaching(found) if found else set()


def overwritten(draft: Draft) -> set[str]:
    """Returns the nodes whose memory an op may overwrite, and all upstream nodes that share it."""
    graph = draft.graph
    whole = graph if graph.owner is None else graph.owner
    callers = whole.derived(overwriting)
    anybody = callers or IN_PLACE & {*whole.store.table.op_names}
    if not anybody and not any(node.op in IN_PLACE for node in draft.changed.values()):
        return set()
    pending = [end.name for end in graph.ends] if anybody else []
    for name in draft.names():
        node = draft.node(name)
        if node.op in IN_PLACE:
            pending += [read for read, _ in node.inputs[:1]]
        elif callers & {node.op, *(f.name for data in node.attrs.values() for f in functions_in(attr_value(data)))}:
            pending += [read for read, _ in node.inputs]
    seen = set(pending)
    while pending:
        name = pending.pop()
        new = {read for read, _ in draft.node(name).inputs} - seen if may_have(draft.op(name), 0, ()) else set()
        seen |= new
        pending += new
    return seen
