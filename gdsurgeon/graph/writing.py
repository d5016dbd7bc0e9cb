"""The changes of a graph, and the graph written with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby, pairwise

from gdsurgeon.errors import InputError, quoted
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.index import COLOCATION, Table, colocated_names
from gdsurgeon.graph.journal import Journal
from gdsurgeon.graph.names import format_input, parse_input
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import VERSIONS, Record, Run, is_node, record_at, scan
from gdsurgeon.graph.store import Store
from gdsurgeon.ops.kinds import COLOCATION_ATTR
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.node_record import INPUT, Changes, Piece, encode_node, patched, record_tag
from gdsurgeon.wire.protos import AttrValue, NodeDef, NodeHeaders, decode_error
from gdsurgeon.wire.source import SourceSlice
from gdsurgeon.wire.write import Chunk, ChunkSource, SourceSpan, read_chunks, resolved, size_of


class Overlay:
    """Nodes that were touched, removed, added and renamed, and their consumers that are not in the file.

    Args:
        journal: records each change, so that it can be undone.

    Attributes:
        version: grows with every change.
        current: added and renamed nodes, by their current names.
        respelt: the current names of renamed nodes, by their names in the file.
        touched: nodes of the file that must be encoded again, in the order of their changes.
        removed: the names in the file of removed nodes.
        added: new nodes, in order, each with the node of the file that it follows; None: at the end.
        places: likewise all nodes that were ever added.
        users: for each node its present and former consumers, by data or control inputs, if edits set them.
        colocated: likewise the nodes that are or were colocated with it.
        order: the nodes that an edit has sorted, as keys; they are written first.
        versions: the new versions of the file, a serialized VersionDef; None if unchanged.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rewinds = journal.rewinds
        self.version = 0
        self.current: dict[str, Node] = {}
        self.respelt: dict[str, str] = {}
        self.touched: dict[Node, None] = {}
        self.removed: dict[str, None] = {}
        self.added: dict[Node, Node | None] = {}
        self.places: dict[Node, Node | None] = {}
        self.users: dict[Node, dict[Node, None]] = {}
        self.colocated: dict[Node, dict[Node, None]] = {}
        self.order: dict[Node, None] = {}
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
        return bool(self.touched or self.removed or self.added or self.order or self.versions is not None)

    def has(self, node: Node) -> bool:
        """Returns whether `node`, which was in the graph, is still in it."""
        return node.base_name not in self.removed if node.base_name is not None else node in self.added

    def has_left(self, name: str) -> bool:
        """Returns whether the node with the name `name` in the file was removed or has a different name."""
        return name in self.removed or name in self.respelt

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

    def set_order(self, nodes: Iterable[Node]) -> None:
        """Records the order of the nodes."""
        self.version += 1
        self._journal.set_attribute(self, "order", dict.fromkeys(nodes))

    def enter(self, node: Node, after: Node | None) -> None:
        """Adds a new node, to be written after the node `after`, which may be removed, or at the end if it is None."""
        self.version += 1
        self._journal.set_item(self.current, node.name, node)
        self.places[node] = after if after is None or after.base_name is not None else self.places.get(after)
        self._journal.set_item(self.added, node, self.places[node])

    def drop(self, names: dict[str, None], nodes: Iterable[Node]) -> None:
        """Removes nodes.

        Args:
            names: the names in the file of all that are in the file.
            nodes: the nodes that were added, and those of the file for which there are objects.
        """
        self.version += 1
        journal = self._journal
        if len(names) > len(self.removed):  # one copy instead of an entry for each node
            journal.set_attribute(self, "removed", self.removed | names)
        else:
            for name in names:
                journal.set_item(self.removed, name, None)
        for node in nodes:
            self._records.pop(node, None)
            self.forget_name(node)
            if node.base_name is None:
                journal.drop_item(journal.copied(self, "added"), node)
            else:
                journal.drop_item(self.respelt, node.base_name)
                journal.drop_item(self.touched, node)

    def become(self, other: Overlay, same: Callable[[Node], Node]) -> None:
        """Copies the changes in `other`, of a different graph; `same` maps its nodes to nodes of this graph."""
        self.version = other.version
        self.current = {name: same(node) for name, node in other.current.items()}
        self.removed, self.respelt, self.versions = dict(other.removed), dict(other.respelt), other.versions
        self.order = {same(node): None for node in other.order}
        self.touched = {same(node): None for node in other.touched}
        self.added = {same(node): after and same(after) for node, after in other.added.items()}
        self.places = dict(self.added)
        self.users = {same(node): {same(user): None for user in users} for node, users in other.users.items()}
        self.colocated = {same(node): {same(user): None for user in others} for node, others in other.colocated.items()}

    def forget_name(self, node: Node) -> None:
        """Makes the name of `node` available again."""
        if self.current.get(node.name) is node:
            self._journal.drop_item(self.current, node.name)

    def learn_name(self, node: Node) -> None:
        """Records the current name of `node`."""
        self.version += 1
        self._records.clear()  # other records contain the name as an input
        if node.base_name is not None:
            self._journal.set_item(self.respelt, node.base_name, node.name)
        self._journal.set_item(self.current, node.name, node)

    def replaced_nodes(self, store: Store) -> list[Replacement]:
        """Returns the replacements for changed nodes of the file `store`, and the nodes added after them."""
        records = self.records

        def record(node: Node) -> list[Chunk]:
            found = records.get(node)
            if found is None:
                found = records[node] = encoded(node)
            return found

        out: list[Replacement] = []
        for node in self.touched:
            place = node.record
            assert place is not None
            out.append((place.start, place.end, record(node)))
        out += [(start, end, []) for start, end in store.stretches(self.removed)]
        out += self._respelt_users(store)
        following: dict[Node | None, list[Node]] = {}
        for node, after in self.added.items():
            following.setdefault(after, []).append(node)
        for after, nodes in following.items():
            end = store.layout.end_of_nodes if after is None or after.record is None else after.record.end
            out.append((end, end, [chunk for node in nodes for chunk in record(node)]))
        return out

    def _respelt_users(self, store: Store) -> Iterator[Replacement]:
        """Yields the replacements for unchanged nodes that have a renamed node as an input or colocation."""
        renamed = [name for name, now in self.respelt.items() if name != now]
        may_be_colocated = any(map(store.colocated, renamed))
        others = {*self.removed, *(str(node.base_name) for node in self.touched)}
        for begin, end in store.stretches_of_users(renamed, others) if renamed else ():
            for item in scan(SourceSlice(store.source, begin, end), cut=True):
                if isinstance(item, Run):
                    bounds = [begin + item.base + bound for bound in item.bounds]
                    chunks = self._respelt_run(item, may_be_colocated)
                else:
                    bounds, chunks = [begin + item.start, begin + item.end], []
                if isinstance(item, Run) or is_node(item):
                    records = (record_at(store.source, *extent) for extent in pairwise(bounds))
                    yield bounds[0], bounds[-1], chunks or _joined(chain.from_iterable(map(self._respelt, records)))

    def _respelt(self, record: Record) -> list[Chunk]:
        """Returns a record of the file with the current names of its inputs and colocations."""
        graph, name = next(iter(self.touched)).graph, record.header().name
        return encoded(Node(graph, name, record, base_name=name))

    def _respelt_run(self, run: Run, may_be_colocated: bool) -> list[Chunk]:
        """Returns records as `_respelt` does, by replacing whole fields in their bytes.

        Returns [] if many inputs have new names, or if a different field may contain the bytes of an input.
        """
        bodies = run.bodies()
        try:
            inputs = Counter(NodeHeaders.FromString(b"".join(bodies)).input)
        except decode_error():
            return []
        renamed = [(text, now, count) for text, count in inputs.items() if (now := self.respelt_input(text)) != text]
        if len(renamed) > _FEW or (may_be_colocated and COLOCATION in run.buf):
            return []
        for text, now, count in renamed:
            old, new = encode_len(INPUT, text.encode()), encode_len(INPUT, now.encode())
            # Without the tag in the text, occurrences do not overlap: if there are as many as inputs, each is an input.
            if old[:1] in text.encode() or b"".join(bodies).count(old) != count:
                return []
            bodies = [body.replace(old, new) for body in bodies]
        tags = {size: record_tag(size) for size in set(map(len, bodies))}
        return [b"".join(chain.from_iterable((tags[len(body)], body) for body in bodies))]

    def replaced_others(self, store: Store, functions: FunctionLibrary) -> list[Replacement]:
        """Returns the replacements for the function library and the versions of the file `store`."""
        out: list[Replacement] = []
        end = store.layout.end_of_nodes
        if functions.is_changed:
            out += [(span.start if span else end, span.end if span else end, now) for span, now in functions.written()]
        if self.versions is not None:
            spans = store.fields(VERSIONS)
            out += [(span.start, span.end, []) for span in spans[1:]]
            start, stop = (spans[0].start, spans[0].end) if spans else (end, end)
            out.append((start, stop, [encode_len(VERSIONS, self.versions)]))
        return out

    def respelt_input(self, text: str) -> str:
        """Returns `text`, an input as the file spells it, with the current name of its node."""
        ref = parse_input(text) if self.respelt else None
        if ref is None or ref.node not in self.respelt:
            return text
        if ref.port == 0 and text.endswith(":0"):
            return self.respelt[ref.node] + ":0"
        return format_input(self.respelt[ref.node], ref.port)


Replacement = tuple[int, int, list[Chunk]]
"""(start, end, replacement) of a span of a source that is not copied."""


def spliced(store: Store, replacements: Iterable[Replacement]) -> list[Chunk]:
    """Returns the file of `store` with `replacements` for some of its spans."""
    source = store.source
    out: list[Chunk] = []
    pos = 0
    # By start, then end. Additions come after a span that ends there; the sort is stable, so they keep their order.
    for start, end, chunks in sorted(replacements, key=lambda change: (change[0], change[1])):
        if start > pos:
            out.append(SourceSpan(source, pos, start))
        out.extend(chunks)
        pos = max(pos, end)  # additions can lie within removed records
    if pos < source.size:
        out.append(SourceSpan(source, pos, source.size))
    return out


def in_order(source: ChunkSource, names: Iterable[str]) -> list[Chunk]:
    """Returns the file `source` with its nodes in the order of `names`, then its other fields."""
    table = Table.read(source)
    spans = [SourceSpan(source, table.starts[row], table.ends[row]) for row in map(table.rows.__getitem__, names)]
    return [*resolved([*spans, *(SourceSpan(source, field.start, field.end) for field in table.layout.others)])]


def encoded(node: Node) -> list[Chunk]:
    """Returns the current record of `node`, with its tag and length."""
    return _tagged(_chunks(node.record, _pieces(node)))


def _tagged(body: list[Chunk]) -> list[Chunk]:
    """Returns the record of the NodeDef `body`."""
    return [record_tag(size_of(body)), *body]


def node_def(node: Node) -> NodeDef:
    """Returns `node` as a NodeDef message, including its weights. Raises InputError if it cannot be decoded."""
    try:
        return NodeDef.FromString(read_chunks(_chunks(node.record, _pieces(node))))
    except decode_error():
        raise InputError(f"node {quoted(node.name)} is corrupt", code="corrupt", node=node.name) from None


def _chunks(record: Record | None, pieces: Iterable[Piece]) -> list[Chunk]:
    out: list[Chunk] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            out.append(piece)
        else:
            assert record is not None
            out.append(SourceSpan(record.source, record.body + piece.start, record.body + piece.end))
    return out


def _joined(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Returns `chunks`, with adjacent bytes as one chunk."""
    out: list[Chunk] = []
    for _, group in groupby(chunks, type):
        same = list(group)
        out += [b"".join(same)] if isinstance(same[0], bytes) else same  # type: ignore[arg-type]
    return out


_FEW = 8
"""The largest number of different inputs that are replaced in the bytes of a run."""


def _pieces(node: Node) -> list[Piece]:
    """Returns the current NodeDef: new bytes, and spans of the record's body as offsets from its beginning."""
    if node.record is None:
        attrs = {key: value for key, value in node.changed_attrs.items() if value is not None}
        colocation = _colocation_of(node)
        if colocation is not None:
            attrs[COLOCATION_ATTR] = colocation
        else:
            attrs.pop(COLOCATION_ATTR, None)
        return [encode_node(node.name, node.op, _spelt_inputs(node), node.device, attrs)]
    attrs_now: dict[str, bytes | None] = dict(node.changed_attrs)
    if COLOCATION_ATTR in node.header.attrs or (node.has_resolved_colocations and node.colocated):
        now, before = _colocation_of(node), node.attr_bytes(COLOCATION_ATTR)
        if now != before:
            attrs_now[COLOCATION_ATTR] = now
    resolved = node.has_resolved_inputs
    changes = Changes(
        name=node.name,
        op=node.op_override,
        device=node.device_override,
        inputs=tuple(_spelt_inputs(node)) if resolved else None,
        rename_input=None if resolved else node.graph.spell_base_input,
        attrs=attrs_now,
    )
    return patched(node.record.buffer(), changes)


def _spelt_inputs(node: Node) -> list[str]:
    spelt = [output.name for output in node.inputs]
    for i, text in enumerate(node.header.inputs if node.base_name is not None else ()):
        # An unchanged input keeps its spelling, even with a redundant ":0".
        if text.endswith(":0") and i < len(spelt) and spelt[i] == node.graph.spell_base_name(text[:-2]):
            spelt[i] += ":0"
    return spelt + ["^" + control.name for control in node.controls]


def _colocation_of(node: Node) -> bytes | None:
    """Returns the ``_class`` attr of a node with current names, or None if empty."""
    data = node.attr_bytes(COLOCATION_ATTR)
    if node.has_resolved_colocations:
        return _colocation_attr(data, [other.name for other in node.colocated])
    return _colocation_attr(data, map(node.graph.spell_base_name, colocated_names(data) if data else ()))


def _colocation_attr(data: bytes | None, colocated: Iterable[str]) -> bytes | None:
    """Returns the ``_class`` attr `data` with other colocations, or None if empty; other entries are kept."""
    entries: list[bytes] = []
    if data:
        try:
            entries = list(AttrValue.FromString(data).list.s)
        except decode_error():
            return data
    names = iter(colocated)
    out: list[bytes] = []
    for entry in entries:
        if not entry.startswith(COLOCATION):
            out.append(entry)
        elif (name := next(names, None)) is not None:
            out.append(COLOCATION + name.encode("utf-8", "surrogateescape"))
    out.extend(COLOCATION + name.encode("utf-8", "surrogateescape") for name in names)
    if out == entries:
        return data
    if not out:
        return None
    value = AttrValue()
    value.list.s.extend(out)
    return bytes(value.SerializeToString())
