"""What has been changed of a graph: the difference between its nodes now and those of its file."""

from __future__ import annotations

from collections.abc import Iterable

from gdsurgeon.graph.names import format_input, parse_input
from gdsurgeon.graph.node import Node
from gdsurgeon.wire.write import Chunk


class Overlay:
    """Nodes that were touched, removed, added and renamed, and what reads them that the file does not know of.

    Attributes:
        version: grows with every change.
        current: added and renamed nodes, by their names now.
        left: names in the file whose nodes are renamed or removed.
        respelt: the names now of the renamed, by those in the file.
        touched: nodes of the file that are to be encoded again, in the order in which they were touched.
        removed: nodes of the file that are gone.
        added: other nodes, in order, each with the node of the file that it follows; None: at the end.
        users: for a node those that read it, or wait for it, or have done so.
        colocated: likewise those that are colocated with it.
        versions: what the file says of versions now, a serialised VersionDef; None: what it said.
        records: of touched and added nodes what is written, as far as that was asked for and is still so.
    """

    def __init__(self) -> None:
        self.version = 0
        self.current: dict[str, Node] = {}
        self.left: set[str] = set()
        self.respelt: dict[str, str] = {}
        self.touched: dict[Node, None] = {}
        self.removed: dict[Node, None] = {}
        self.added: dict[Node, Node | None] = {}
        self.users: dict[Node, dict[Node, None]] = {}
        self.colocated: dict[Node, dict[Node, None]] = {}
        self.versions: bytes | None = None
        self.records: dict[Node, list[Chunk]] = {}

    @property
    def is_changed(self) -> bool:
        """Whether there is any difference."""
        return bool(self.touched or self.removed or self.added or self.versions is not None)

    def has(self, node: Node) -> bool:
        """Whether NODE, which was in the graph, still is."""
        return node not in self.removed if node.base_name is not None else node in self.added

    def touch(self, node: Node) -> None:
        """Notes that NODE has changed."""
        self.version += 1
        self.records.pop(node, None)
        if node.base_name is not None:
            self.touched.setdefault(node)

    def note_users(self, user: Node, producers: Iterable[Node]) -> None:
        """Notes that USER reads PRODUCERS, or waits for them."""
        for producer in producers:
            self.users.setdefault(producer, {})[user] = None

    def note_colocated(self, node: Node, others: Iterable[Node]) -> None:
        """Notes that NODE is colocated with OTHERS."""
        for other in others:
            self.colocated.setdefault(other, {})[node] = None

    def say_versions(self, versions: bytes) -> None:
        """Notes what the file is to say of versions."""
        self.version += 1
        self.versions = versions

    def enter(self, node: Node, after: Node | None) -> None:
        """Takes in a new node, to be written after AFTER or at the end."""
        self.version += 1
        self.current[node.name] = node
        self.added[node] = after if after is None or after.base_name is not None else self.added[after]

    def drop(self, node: Node) -> None:
        """Takes NODE out."""
        self.version += 1
        self.records.pop(node, None)
        self.forget_name(node)
        if node.base_name is None:
            self.added.pop(node, None)
        else:
            self.left.add(node.base_name)
            self.respelt.pop(node.base_name, None)
            self.removed[node] = None
            self.touched.pop(node, None)

    def forget_name(self, node: Node) -> None:
        """Makes the name of NODE free."""
        if self.current.get(node.name) is node:
            del self.current[node.name]
        elif node.base_name is not None:
            self.left.add(node.base_name)

    def learn_name(self, node: Node) -> None:
        """Notes the name that NODE has now."""
        self.version += 1
        self.records.clear()  # others spell it
        if node.base_name is not None:
            self.left.add(node.base_name)
            self.respelt[node.base_name] = node.name
        self.current[node.name] = node

    def respelt_input(self, text: str) -> str:
        """An input as the file spells it, with the name that its node has now."""
        ref = parse_input(text) if self.respelt else None
        if ref is None or ref.node not in self.respelt:
            return text
        if ref.port == 0 and text.endswith(":0"):
            return self.respelt[ref.node] + ":0"
        return format_input(self.respelt[ref.node], ref.port)
