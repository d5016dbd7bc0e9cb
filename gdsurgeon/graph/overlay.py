"""The changes of a graph: the differences between its current nodes and the nodes of its file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.names import format_input, parse_input
from gdsurgeon.graph.node import Node
from gdsurgeon.wire.write import Chunk


class Overlay:
    """Nodes that were touched, removed, added and renamed, and their consumers that are not in the file.

    Args:
        journal: records each change, so that it can be undone.

    Attributes:
        version: grows with every change.
        current: added and renamed nodes, by their current names.
        left: names in the file whose nodes are renamed or removed, as keys.
        respelt: the current names of renamed nodes, by their names in the file.
        touched: nodes of the file that must be encoded again, in the order of their changes.
        removed: removed nodes of the file.
        added: new nodes, in order, each with the node of the file that it follows; None: at the end.
        users: for each node its present and former consumers, by data or control inputs, as far as edits set them.
        colocated: likewise the nodes that are or were colocated with it.
        versions: the new versions of the file, a serialized VersionDef; None if unchanged.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rewinds = journal.rewinds
        self.version = 0
        self.current: dict[str, Node] = {}
        self.left: dict[str, None] = {}
        self.respelt: dict[str, str] = {}
        self.touched: dict[Node, None] = {}
        self.removed: dict[Node, None] = {}
        self.added: dict[Node, Node | None] = {}
        self.users: dict[Node, dict[Node, None]] = {}
        self.colocated: dict[Node, dict[Node, None]] = {}
        self.versions: bytes | None = None
        self._records: dict[Node, list[Chunk]] = {}

    @property
    def records(self) -> dict[Node, list[Chunk]]:
        """The encoded records of touched and added nodes, as long as they are valid."""
        if self._rewinds != self._journal.rewinds:
            self._rewinds = self._journal.rewinds
            self._records.clear()
        return self._records

    @property
    def is_changed(self) -> bool:
        """Whether there is any difference."""
        return bool(self.touched or self.removed or self.added or self.versions is not None)

    def has(self, node: Node) -> bool:
        """Returns whether `node`, which was in the graph, is still in it."""
        return node not in self.removed if node.base_name is not None else node in self.added

    def touch(self, node: Node) -> None:
        """Records that `node` has changed."""
        self.version += 1
        self._records.pop(node, None)
        if node.base_name is not None and node not in self.touched:
            self._journal.set_item(self.touched, node, None)

    def note_users(self, user: Node, producers: Iterable[Node]) -> None:
        """Records that `user` has `producers` as inputs or control inputs."""
        for producer in producers:
            self.users.setdefault(producer, {})[user] = None

    def note_colocated(self, node: Node, others: Iterable[Node]) -> None:
        """Records that `node` is colocated with `others`."""
        for other in others:
            self.colocated.setdefault(other, {})[node] = None

    def say_versions(self, versions: bytes) -> None:
        """Records the new versions of the file, a serialized VersionDef."""
        self.version += 1
        self._journal.set_attribute(self, "versions", versions)

    def enter(self, node: Node, after: Node | None) -> None:
        """Adds a new node, to be written after the node `after`, or at the end if it is None."""
        self.version += 1
        self._journal.set_item(self.current, node.name, node)
        place = after if after is None or after.base_name is not None else self.added[after]
        self._journal.set_item(self.added, node, place)

    def drop(self, nodes: Collection[Node]) -> None:
        """Removes nodes."""
        self.version += 1
        journal = self._journal
        for name in ("left", "removed"):
            if len(nodes) > len(getattr(self, name)):  # one copy instead of an entry for each node
                journal.copied(self, name)
        for node in nodes:
            self._records.pop(node, None)
            self.forget_name(node)
            if node.base_name is None:
                journal.drop_item(journal.copied(self, "added"), node)
            else:
                journal.set_item(self.left, node.base_name, None)
                journal.drop_item(self.respelt, node.base_name)
                journal.set_item(self.removed, node, None)
                journal.drop_item(self.touched, node)

    def become(self, other: Overlay, same: Callable[[Node], Node]) -> None:
        """Copies the changes in `other`, of a different graph; `same` maps its nodes to nodes of this graph."""
        self.version = other.version
        self.current = {name: same(node) for name, node in other.current.items()}
        self.left, self.respelt, self.versions = dict(other.left), dict(other.respelt), other.versions
        self.touched = {same(node): None for node in other.touched}
        self.removed = {same(node): None for node in other.removed}
        self.added = {same(node): after and same(after) for node, after in other.added.items()}
        self.users = {same(node): {same(user): None for user in users} for node, users in other.users.items()}
        self.colocated = {same(node): {same(user): None for user in others} for node, others in other.colocated.items()}

    def forget_name(self, node: Node) -> None:
        """Makes the name of `node` available again."""
        if self.current.get(node.name) is node:
            self._journal.drop_item(self.current, node.name)
        elif node.base_name is not None:
            self._journal.set_item(self.left, node.base_name, None)

    def learn_name(self, node: Node) -> None:
        """Records the current name of `node`."""
        self.version += 1
        self._records.clear()  # other records contain the name as an input
        if node.base_name is not None:
            self._journal.set_item(self.left, node.base_name, None)
            self._journal.set_item(self.respelt, node.base_name, node.name)
        self._journal.set_item(self.current, node.name, node)

    def respelt_input(self, text: str) -> str:
        """Returns `text`, an input as the file spells it, with the current name of its node."""
        ref = parse_input(text) if self.respelt else None
        if ref is None or ref.node not in self.respelt:
            return text
        if ref.port == 0 and text.endswith(":0"):
            return self.respelt[ref.node] + ":0"
        return format_input(self.respelt[ref.node], ref.port)
