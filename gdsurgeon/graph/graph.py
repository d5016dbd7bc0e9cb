"""The mutable graph: nodes over the spans of a source, and the few primitives that change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from gdsurgeon.errors import EditError, InputError, printable, quoted
from gdsurgeon.graph.functions import FunctionLibrary, resolve_op
from gdsurgeon.graph.index import Layout, Record, Search, Table
from gdsurgeon.graph.names import (
    NAME_RULE,
    UniqueNames,
    format_input,
    is_valid_name,
    near_miss,
    parse_input,
    parse_tensor,
)
from gdsurgeon.graph.node import UNLOCATED, Node, Output, check_output
from gdsurgeon.ops.op_defs import OpDef
from gdsurgeon.wire.fields import LEN, Field
from gdsurgeon.wire.messages import decode_error, message
from gdsurgeon.wire.node_record import Piece, record_tag, size_of
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.scan import LIBRARY, VERSIONS
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.write import Chunk, SourceSpan


class Use(NamedTuple):
    """A place where a tensor is read: data input `slot` of `node`."""

    node: Node
    slot: int


class Graph:
    """A GraphDef that can be changed.

    Loading reads nothing but the beginning of the file. A node is made when it is asked for, by name, by an input
    that leads to it, or by iteration; what was never touched is written by copying its bytes.

    Args:
        source: the bytes, a binary GraphDef.
        text: whether the graph was text, and should be text again.
        file_bytes: bytes of the file, where that is not SOURCE itself.
    """

    MOST_NAMES_TO_SEARCH = 24
    FEW_NODES = 100_000
    """Of fewer nodes the table knows the users at once; of more, a search for a few names is quicker."""

    def __init__(self, source: Source, *, text: bool = False, file_bytes: int | None = None) -> None:
        self.source = source
        self.text = text
        self.file_bytes = source.size if file_bytes is None else file_bytes
        self._nodes: dict[str, Node] = {}  # by the name in the file
        self._current: dict[str, Node] = {}  # added and renamed nodes by their name now
        self._left: set[str] = set()  # names in the file whose nodes are renamed or removed
        self._respelt: dict[str, str] = {}  # name in the file -> name now, of the renamed
        self._touched: dict[Node, None] = {}  # nodes of the file to be encoded again
        self._removed: dict[Node, None] = {}
        self._added: dict[Node, Node | None] = {}  # in order; the node of the file that it follows, None: at the end
        self._new_users: dict[Node, dict[Node, None]] = {}  # users that the file does not know of
        self._new_colocated: dict[Node, dict[Node, None]] = {}  # likewise nodes that are colocated with one
        self._search: Search | None = None
        self._duplicates: frozenset[str] | None = None

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def source_name(self) -> str:
        """The name of the file, for messages."""
        return self.source.name

    @cached_property
    def table(self) -> Table:
        """The index of all nodes as they are in the file."""
        return Table(self.source)

    @property
    def has_table(self) -> bool:
        """Whether the index has been made."""
        return "table" in self.__dict__

    @property
    def layout(self) -> Layout:
        """Where things are in the file."""
        if self._search is not None and not self.has_table:
            return self._search.layout
        return self.table.layout

    def pristine(self) -> Graph:
        """The graph as it is in the file, without the edits; it shares the file and its index."""
        out = Graph(self.source, text=self.text, file_bytes=self.file_bytes)
        if self.has_table:
            out.__dict__["table"] = self.table
        return out

    def prefetch(self, names: Iterable[str]) -> None:
        """Says which few names an edit is going to ask for, so that a big file need not be indexed for them."""
        if self._search is not None or (self.has_table and len(self.table.names) < self.FEW_NODES):
            return
        wanted = [name for name in dict.fromkeys(names) if name]
        if 0 < len(wanted) <= self.MOST_NAMES_TO_SEARCH:
            self._search = Search.run(self.source, wanted)
            if self._search is None:
                _ = self.table

    @cached_property
    def functions(self) -> FunctionLibrary:
        """The function library."""
        return FunctionLibrary(self.source, self._library_fields())

    def _library_fields(self) -> list[Field]:
        return [f for f in self.layout.others if f.number == LIBRARY and f.wire_type == LEN]

    @cached_property
    def producer(self) -> int:
        """The version of the GraphDef's producer; 0 where the file does not say."""
        producer = 0
        for field in self.layout.others:
            if field.number == VERSIONS and field.wire_type == LEN:
                data = self.source.read(field.value, field.end - field.value)
                try:
                    producer = message("tensorflow.VersionDef").FromString(data).producer or producer
                except decode_error():
                    raise InputError(f"the versions field of {printable(self.source_name)} is corrupt") from None
        return producer

    def op_def(self, op: str) -> OpDef | None:
        """The signature of an op or of a function of this graph, or None where it is unknown."""
        return resolve_op(op, self.functions)

    def __contains__(self, name: str) -> bool:
        if name in self._current:
            return True
        if self.has_table:
            return name in self.table.rows and name not in self._left
        return self.find(name) is not None

    def __getitem__(self, name: str) -> Node:
        """The node NAME.

        Raises:
            EditError: there is none; the message names the nearest one.
        """
        node = self.find(name)
        if node is None:
            raise EditError(self.missing(name))
        return node

    def missing(self, name: str) -> str:
        """The sentence that says that there is no node NAME, with its near miss."""
        count = f"{self.node_count:,} node{'s' if self.node_count != 1 else ''}"
        return f"{printable(self.source_name)} has no node {quoted(name)} ({count}).{near_miss(name, self.names())}"

    def find(self, name: str) -> Node | None:
        """The node that is called NAME now, or None.

        Raises:
            InputError: several nodes of the file have the name.
        """
        node = self._current.get(name)
        if node is not None:
            return node
        if name in self._left:
            return None
        node = self.base_node(name)
        return node if node.exists else None

    def base_node(self, name: str) -> Node:
        """The node that is called NAME in the file; one that does not exist where there is none."""
        node = self._nodes.get(name)
        if node is None:
            node = Node(self, name, UNLOCATED, base_name=name)
            self._nodes[name] = node
        return node

    def locate(self, name: str) -> Record | None:
        """The record of the node that is called NAME in the file, or None.

        Raises:
            InputError: several nodes have the name.
        """
        if self._search is not None and name in self._search.mentions:
            if name in self._search.duplicates:
                self._refuse_duplicate(name)
            return self._search.records.get(name)
        if self._search is not None and name in self._search.others:
            if name in self._search.duplicates:
                self._refuse_duplicate(name)
            return self._search.others[name]
        table = self.table
        row = table.rows.get(name)
        if row is None:
            return None
        if name in self._duplicate_names():
            self._refuse_duplicate(name)
        return table.record(row)

    def _refuse_duplicate(self, name: str) -> None:
        raise InputError(f"{quoted(self.source_name)} has several nodes named {quoted(name)}: which one is meant?")

    def _duplicate_names(self) -> frozenset[str]:
        if self._duplicates is None:
            table = self.table
            doubled: set[str] = set()
            if len(table.rows) != len(table.names):
                seen: set[str] = set()
                for name in table.names:
                    (doubled if name in seen else seen).add(name)
            self._duplicates = frozenset(doubled)
        return self._duplicates

    @property
    def node_count(self) -> int:
        """Nodes now."""
        return self.layout.node_count - len(self._removed) + len(self._added)

    def names(self) -> Iterator[str]:
        """The names of all nodes now; those of the file in its order, then the added ones."""
        respelt, left = self._respelt, self._left
        for name in self.table.names:
            if name not in left:
                yield name
            elif name in respelt:
                yield respelt[name]
        for node in self._added:
            yield node.name

    def nodes(self) -> Iterator[Node]:
        """All nodes now, in the order of `names`."""
        for name in self.table.names:
            node = self.base_node(name)
            if node not in self._removed:
                yield node
        yield from tuple(self._added)

    def op_counts(self) -> dict[str, int]:
        """How many nodes of each op there are, the most frequent first."""
        table = self.table
        counts = Counter(table.ops)
        out = {op: counts[i] for i, op in enumerate(table.op_names)}
        for node in self._touched:
            if node.op_override is not None and node.op_override != node.header.op:
                out[node.header.op] -= 1
                out[node.op] = out.get(node.op, 0) + 1
        for node in self._removed:
            out[node.header.op] -= 1
        for node in self._added:
            out[node.op] = out.get(node.op, 0) + 1
        return dict(sorted(((op, n) for op, n in out.items() if n), key=lambda item: (-item[1], item[0])))

    def tensor(self, text: str) -> Output:
        """The tensor that a user writes as ``node`` or ``node:index``.

        Raises:
            EditError: it is not a tensor's name, there is no such node, or the node has no such output.
        """
        ref = parse_tensor(text)
        output = Output(self[ref.node], ref.port)
        check_output(output)
        return output

    def output(self, tensor: str | Output) -> Output:
        """The tensor that is meant, by its name or itself.

        Raises:
            EditError: see `tensor`; or it is not one of this graph.
        """
        if isinstance(tensor, str):
            return self.tensor(tensor)
        if self.find(tensor.node.name) is not tensor.node:
            raise EditError(f"{quoted(tensor.name)} belongs to another graph, or is there no longer")
        check_output(tensor)
        return tensor

    def users(self, node: Node) -> list[Node]:
        """The nodes that have NODE as an input, data or control, each once; in no particular order."""
        candidates = dict.fromkeys(self._base_users(node))
        candidates.update(self._new_users.get(node, {}))
        return [user for user in candidates if self._is_here(user) and _reads(user, node)]

    def _is_here(self, node: Node) -> bool:
        return node not in self._removed if node.base_name is not None else node in self._added

    def uses(self, output: Output) -> list[Use]:
        """The places where OUTPUT is read."""
        return [
            Use(user, slot)
            for user in self.users(output.node)
            for slot, read in enumerate(user.inputs)
            if read.node is output.node and read.index == output.index
        ]

    def _base_users(self, node: Node) -> Iterator[Node]:
        """The nodes that the file has as users of NODE, and perhaps no longer are."""
        name = node.base_name
        if name is None:
            return
        if self._search is not None and name in self._search.mentions:
            for user in self._search.mentions[name]:
                yield self.base_node(user)
            return
        table = self.table
        row = table.rows.get(name)
        if row is None:
            yield from (self.base_node(user) for user in self._users_of_missing(name))
            return
        for user_row in table.users(row):
            yield self.base_node(table.names[user_row])

    def _users_of_missing(self, name: str) -> Iterator[str]:
        """The nodes whose inputs name NAME, which no node has."""
        for row in self.table.missing.get(name, ()):
            yield self.table.names[row]

    def colocated_with(self, node: Node) -> list[Node]:
        """The nodes that ask to be colocated with NODE."""
        candidates: dict[Node, None] = {}
        name = node.base_name
        if name is not None:
            if self._search is not None and name in self._search.mentions:
                candidates = dict.fromkeys(self.base_node(user) for user in self._search.mentions[name])
            else:
                names = self.table.names
                candidates = dict.fromkeys(self.base_node(names[row]) for row in self.table.colocated(name))
        candidates.update(self._new_colocated.get(node, {}))
        return [c for c in candidates if self._is_here(c) and node in c.colocated]

    # -- changing: the primitives on which every edit is written -------------------------------------------

    def set_inputs(self, node: Node, inputs: Iterable[Output]) -> None:
        """Gives NODE these data inputs. Control inputs stay."""
        new = tuple(inputs)
        _ = node.controls
        node.assign(inputs=new)
        for output in new:
            self._new_users.setdefault(output.node, {})[node] = None
        self._touch(node)

    def set_controls(self, node: Node, controls: Iterable[Node]) -> None:
        """Gives NODE these control inputs, each once. Data inputs stay."""
        new = tuple(dict.fromkeys(controls))
        _ = node.inputs
        node.assign(controls=new)
        for producer in new:
            self._new_users.setdefault(producer, {})[node] = None
        self._touch(node)

    def set_colocated(self, node: Node, others: Iterable[Node]) -> None:
        """Colocates NODE with OTHERS."""
        new = tuple(others)
        node.assign(colocated=new)
        for other in new:
            self._new_colocated.setdefault(other, {})[node] = None
        self._touch(node)

    def set_attr(self, node: Node, key: str, value: bytes | None) -> None:
        """Sets (serialised AttrValue) or removes an attr of NODE."""
        node.assign_attr(key, value)
        self._touch(node)

    def set_op(self, node: Node, op: str) -> None:
        """Makes NODE another op. Its attrs and inputs are the caller's to put right."""
        node.op_override = op
        self._touch(node)

    def set_device(self, node: Node, device: str) -> None:
        """Sets the device string of NODE."""
        node.device_override = device
        self._touch(node)

    def _touch(self, node: Node) -> None:
        if node.base_name is not None and node not in self._touched:
            self._touched[node] = None

    def touch(self, node: Node) -> None:
        """Has NODE written anew, in normal form."""
        _ = node.inputs
        self._touch(node)

    def rename(self, names: Mapping[Node, str]) -> None:
        """Gives nodes new names, all at once, so that names may be exchanged. What refers to a node follows.

        Raises:
            EditError: a name is illegal, taken by another node, or given twice; nothing has changed then.
        """
        self._check_names(names)
        for node in names:
            self._forget_name(node)
        for node, name in names.items():
            node.name = name
            self._learn_name(node)
        for node in names:
            self._adopt(node)
        for node in names:
            if node.base_name is not None:
                self._touch(node)
                for user in self._base_users(node):
                    if user not in self._removed:
                        self._touch(user)
                for user in self.colocated_with(node):
                    self._touch(user)

    def _check_names(self, names: Mapping[Node, str]) -> None:
        given: dict[str, Node] = {}
        for node, name in names.items():
            check_name(name)
            if name in given:
                raise EditError(f"{quoted(given[name].name)} and {quoted(node.name)} cannot both become {quoted(name)}")
            given[name] = node
            holder = self.find(name)
            if holder is not None and holder not in names:
                raise EditError(f"the name {quoted(name)} is taken by a {printable(holder.op)} node")

    def _forget_name(self, node: Node) -> None:
        if self._current.get(node.name) is node:
            del self._current[node.name]
        elif node.base_name is not None:
            self._left.add(node.base_name)

    def _learn_name(self, node: Node) -> None:
        if node.base_name is not None:
            self._left.add(node.base_name)
            self._respelt[node.base_name] = node.name
        self._current[node.name] = node

    def _adopt(self, node: Node) -> None:
        """Has those read NODE who read its new name in the file, where no node had it."""
        if node.name in self._left and node.name != node.base_name:
            return
        missing = self._nodes.get(node.name)
        if missing is None and not self._is_mentioned(node.name):
            return
        missing = self.base_node(node.name)
        if missing is node or missing.exists:
            return
        for user in self._base_users(missing):
            inputs = [Output(node, read.index) if read.node is missing else read for read in user.inputs]
            controls = [node if control is missing else control for control in user.controls]
            self.set_inputs(user, inputs)
            self.set_controls(user, controls)

    def _is_mentioned(self, name: str) -> bool:
        """Whether an input of the file names NAME, which perhaps no node has."""
        if self._search is not None and name in self._search.mentions:
            return bool(self._search.mentions[name])
        return name in self.table.missing

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[Output] = (),
        controls: Iterable[Node] = (),
        *,
        attrs: Mapping[str, bytes] | None = None,
        device: str = "",
        after: Node | None = None,
    ) -> Node:
        """Adds a node; ATTRS are serialised AttrValues; it is written after AFTER, or at the end.

        Raises:
            EditError: the name is illegal or taken.
        """
        node = Node(self, name, None, base_name=None)
        node.op_override, node.device_override = op, device
        for key, value in (attrs or {}).items():
            node.assign_attr(key, value)
        self._enter(node, after)
        self.set_inputs(node, inputs)
        self.set_controls(node, controls)
        return node

    def add_copy(self, name: str, original: Node, *, after: Node | None = None) -> Node:
        """Adds a copy of ORIGINAL, of this graph or another, without inputs; its weights are copied by span.

        The caller sets the inputs, control inputs and colocations.

        Raises:
            EditError: the name is illegal or taken.
        """
        node = Node(self, name, original.record, base_name=None)
        node.share_header(original)
        node.op_override = original.op_override
        node.device_override = original.device_override
        for key, value in original.changed_attrs.items():
            node.assign_attr(key, value)
        node.assign(inputs=(), controls=(), colocated=())
        self._enter(node, after)
        return node

    def _enter(self, node: Node, after: Node | None) -> None:
        check_name(node.name)
        if node.name in self:
            raise EditError(f"the name {quoted(node.name)} is taken")
        self._current[node.name] = node
        self._added[node] = after if after is None or after.base_name is not None else self._added[after]

    def remove(self, nodes: Iterable[Node]) -> None:
        """Removes nodes.

        Raises:
            EditError: a node that stays reads one of them, as input, control input or colocation.
        """
        going = dict.fromkeys(nodes)
        names = {node.base_name for node in going}
        for node in going:
            for user in self._users_besides(node, names):
                if user not in going:
                    raise EditError(f"{quoted(node.name)} cannot be removed: {quoted(user.name)} reads it")
            for user in self.colocated_with(node):
                if user not in going:
                    raise EditError(f"{quoted(node.name)} cannot be removed: {quoted(user.name)} is colocated with it")
        for node in going:
            _ = node.record  # found by its name in the file, which is about to be free
            self._forget_name(node)
            if node.base_name is None:
                self._added.pop(node, None)
            else:
                self._left.add(node.base_name)
                self._respelt.pop(node.base_name, None)
                self._removed[node] = None
                self._touched.pop(node, None)

    def _users_besides(self, node: Node, names: Container[str | None]) -> list[Node]:
        """The users of NODE, but for some of those whose names in the file are among NAMES: no node is made for these.

        Of many nodes that go, most are read by others that go.
        """
        if not self.has_table or node.base_name is None or self._new_users.get(node):
            return self.users(node)
        table = self.table
        row = table.rows.get(node.base_name)
        if row is None or all(table.names[user] in names for user in table.users(row)):
            return []
        return self.users(node)

    def reroute(self, uses: Iterable[Use], new: Output) -> int:
        """Has the given places read NEW instead of what they read; returns how many have changed."""
        changes: dict[Node, dict[int, Output]] = {}
        for use in uses:
            changes.setdefault(use.node, {})[use.slot] = new
        return self.set_slots(changes)

    def set_slots(self, changes: Mapping[Node, Mapping[int, Output]]) -> int:
        """Sets data inputs slot by slot, each node once; returns how many slots have changed."""
        count = 0
        for node, slots in changes.items():
            before = node.inputs
            after = tuple(slots.get(slot, read) for slot, read in enumerate(before))
            changed = sum(a.node is not b.node or a.index != b.index for a, b in zip(before, after, strict=True))
            if changed:
                self.set_inputs(node, after)
                count += changed
        return count

    def unique_names(self) -> UniqueNames:
        """A maker of names that are free in this graph."""
        return UniqueNames(lambda name: name in self)

    def spell_base_name(self, name: str) -> str:
        """What the node that is called NAME in the file is called now."""
        return self._respelt.get(name, name)

    def spell_base_input(self, text: str) -> str:
        """An input as the file spells it, with the name that its node has now."""
        if not self._respelt:
            return text
        ref = parse_input(text)
        if ref is None or ref.node not in self._respelt:
            return text
        if ref.port == 0 and text.endswith(":0"):
            return self._respelt[ref.node] + ":0"
        return format_input(self._respelt[ref.node], ref.port)

    # -- writing -----------------------------------------------------------------------------------------

    @property
    def is_changed(self) -> bool:
        """Whether the graph differs from its source."""
        return bool(self._touched or self._removed or self._added or self.functions.is_changed)

    def touched(self) -> list[Node]:
        """The nodes that are to be written anew or were added."""
        return [*self._touched, *self._added]

    def removed(self) -> list[Node]:
        """The nodes of the file that are no longer there."""
        return list(self._removed)

    def chunks(self) -> list[Chunk]:
        """The serialised graph: spans of the source, and fresh bytes for what has changed."""
        out: list[Chunk] = []
        pos = 0
        for start, end, chunks in self._changes():
            if start > pos:
                out.append(SourceSpan(self.source, pos, start))
            out.extend(chunks)
            pos = end
        if pos < self.source.size:
            out.append(SourceSpan(self.source, pos, self.source.size))
        return out

    def save(self, path: str) -> None:
        """Writes the graph to PATH, whole or not at all; nothing is checked or run.

        Raises:
            OutputError: it cannot be written; what was at PATH is as it was.
        """
        with OutputFile(path) as output:
            output.stage(self.chunks())
            output.publish()

    def _changes(self) -> list[tuple[int, int, list[Chunk]]]:
        """(start, end, what comes instead) of the stretches of the source that are not copied, in order."""
        out: list[tuple[int, int, list[Chunk]]] = []
        following: dict[Node | None, list[Node]] = {}
        for node, after in self._added.items():
            following.setdefault(after, []).append(node)
        for node in self._touched:
            assert node.record is not None
            out.append((node.record.start, node.record.end, _encoded(node)))
        for node in self._removed:
            assert node.record is not None
            out.append((node.record.start, node.record.end, []))
        for after, nodes in following.items():
            end = self.layout.end_of_nodes if after is None or after.record is None else after.record.end
            out.append((end, end, [chunk for node in nodes for chunk in _encoded(node)]))
        if self.functions.is_changed:
            spans = self._library_fields()
            out.extend((span.start, span.end, self.functions.chunks_of(span)) for span in spans)
            if not spans:
                end = self.layout.end_of_nodes
                out.append((end, end, self.functions.added_chunks()))
        # By where they begin; what is added at a place comes after what ends there (same start, no length: stable).
        return sorted(out, key=lambda change: (change[0], change[1]))


def check_name(name: str) -> None:
    """Raises EditError where TensorFlow would not take NAME for a node."""
    if not is_valid_name(name):
        raise EditError(f"{quoted(name)} is not a legal node name ({NAME_RULE})")


def _reads(user: Node, node: Node) -> bool:
    for read in user.inputs:  # a loop: this is asked for each edge of a graph
        if read.node is node:
            return True
    return node in user.controls


def _encoded(node: Node) -> list[Chunk]:
    """The record of NODE as it is now, with its tag and length."""
    pieces: Sequence[Piece] = node.pieces()
    out: list[Chunk] = [record_tag(size_of(pieces))]
    for piece in pieces:
        if isinstance(piece, bytes):
            out.append(piece)
        else:
            assert node.record is not None
            out.append(SourceSpan(node.record.source, node.record.body + piece.start, node.record.body + piece.end))
    return out
