"""The mutable graph: nodes backed by a file, and the few primitives that change them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

from gdsurgeon.arguments import StrPath, public
from gdsurgeon.errors import ArgumentError, EditError, GdsurgeonError, InputError, UsageError, printable, quoted
from gdsurgeon.graph.functions import FunctionLibrary, resolve_op
from gdsurgeon.graph.journal import Entry, Journal, Savepoint
from gdsurgeon.graph.names import UniqueNames, check_name, no_node, parse_tensor
from gdsurgeon.graph.node import UNLOCATED, Node, Output, Use, check_output
from gdsurgeon.graph.records import LIBRARY
from gdsurgeon.graph.serving import Serving
from gdsurgeon.graph.store import Store
from gdsurgeon.graph.writing import Overlay, in_order, spliced
from gdsurgeon.ops.op_defs import OpDef
from gdsurgeon.text import an, counted
from gdsurgeon.wire.protos import AttrValue, GraphDef, decode_error
from gdsurgeon.wire.source import BytesSource, Source
from gdsurgeon.wire.text import is_text_name, to_text
from gdsurgeon.wire.write import Chunk, ChunkSource, read_chunks, resolved

T = TypeVar("T")


class Graph:
    """A GraphDef that can be changed.

    Loading reads only the beginning of the file. A node object is made on demand: for a name, for an
    input that refers to it, or by iteration. Untouched nodes are written by copying their bytes.

    Args:
        source: the bytes of a binary GraphDef.
        text: the text form that the graph was read from, so that it is saved as text again; None for a binary file.
        file_bytes: the size of the file in bytes, if the file is not `source` itself.
        functions: for the body of a function, the library of the graph that owns it; None: the library of the file.

    Attributes:
        keeps_journal: whether changes are recorded, so that public functions can undo them after an error.
        ends: in the body of a function, the nodes for its arguments and results, in order.
        owner: in the body of a function, the graph whose library holds the function; else None.
        became: returns the change that an earlier edit made to a node, by the earlier name; '' if it made none.
    """

    def __init__(
        self,
        source: Source,
        *,
        text: Source | None = None,
        file_bytes: int | None = None,
        functions: FunctionLibrary | None = None,
    ) -> None:
        self.text = text
        self.file_bytes = source.size if file_bytes is None else file_bytes
        self.store = Store(source)
        self._nodes: dict[str, Node] = {}  # by their names in the file
        self.keeps_journal = True
        self._journal = Journal() if functions is None else functions.journal
        self._overlay = Overlay(self._journal)
        self._edits: list[DoneEdit] = []
        self._version_then = 0  # the version at the end of the last edit
        self._derived: dict[object, tuple[int, Serving | None, object]] = {}
        self._borrowed = functions
        self.ends: dict[Node, None] = {}
        self.owner: Graph | None = None
        self.repairs: tuple[str, ...] = ()  # by `gdsurgeon.graph.load.uniquely_named`, a line each
        self._serving: Serving | None = None
        self._stands_alone = False
        self.became: Callable[[str], str] = lambda _: ""

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def serving(self) -> Serving | None:
        """The signatures of the model and its restore information, with the names in the file; None for a GraphDef.

        See `gdsurgeon.graph.served.serving_of`.
        """
        return self._serving

    @serving.setter
    def serving(self, serving: Serving | None) -> None:
        self._journal.set_attribute(self, "_serving", serving)

    def stand_alone(self) -> None:
        """Records that the graph no longer needs its model: an edit has turned its variables into constants."""
        self._journal.set_attribute(self, "_stands_alone", True)

    @property
    def source(self) -> Source:
        """The bytes of the file."""
        return self.store.source

    @property
    def source_name(self) -> str:
        """The name of the file, for messages."""
        return self.store.name

    def _of_file(self) -> Graph:
        """Returns a new graph of the same file, without edits."""
        out = Graph(self.source, text=self.text, file_bytes=self.file_bytes, functions=self._borrowed)
        out.store = self.store
        return out

    @cached_property
    def _pristine(self) -> Graph:
        return self._of_file()

    def pristine(self) -> Graph:
        """Returns the graph as it is in the file, without edits; always the same object. Do not modify it."""
        self._pristine.serving = self.serving
        return self._pristine

    def made_from(self, before: Graph) -> None:
        """Records that an edit made this loaded graph from `before`, which becomes its `pristine` graph."""
        self._pristine = before

    @property
    def version(self) -> int:
        """A number that increases with every change."""
        return self._overlay.version + self.functions.version + self._journal.rewinds

    def derived(self, make: Callable[[Graph], T]) -> T:
        """Returns the result of `make` for the present graph, which is computed once for each version of the graph."""
        version, serving, found = self._derived.get(make, (-1, None, None))
        if version != self.version or serving is not self.serving:
            found = make(self)
            self._derived[make] = self.version, self.serving, found
        return found  # type: ignore[return-value]

    def know(self, make: Callable[[Graph], T], found: T) -> None:
        """Sets the result of `derived` for `make` and the present graph, which the caller has computed differently."""
        self._derived[make] = self.version, self.serving, found

    def prefetch(self, names: Iterable[str]) -> None:
        """Searches for the few names that an edit will request, so that a big file need not be indexed for them."""
        self.store.prefetch(names)

    @property
    def is_body(self) -> bool:
        """Whether this is the body of a function; its library belongs to a different graph."""
        return self._borrowed is not None

    @cached_property
    def functions(self) -> FunctionLibrary:
        """The function library."""
        if self._borrowed is not None:
            return self._borrowed
        return FunctionLibrary(self.source, self.store.fields(LIBRARY), self._journal)

    def op_def(self, op: str) -> OpDef | None:
        """Returns the signature of an op or of a function of this graph; None if it is unknown."""
        return resolve_op(op, self.functions)

    def __repr__(self) -> str:
        try:
            told = f": {counted(self.node_count, 'node')}"
        except GdsurgeonError as error:
            told = f": {error.code}"
        kind = f" of a {self._serving.kind}" if self._serving is not None else ""
        edited = ", edited" if self.is_edited or ("functions" in vars(self) and self.functions.is_changed) else ""
        return f"<Graph {quoted(self.source_name)}{kind}{told}{edited}>"

    def __len__(self) -> int:
        return self.node_count

    def __bool__(self) -> bool:
        return True  # a graph without nodes is a graph

    def __iter__(self) -> Iterator[Node]:
        return self.nodes()

    def __contains__(self, name: object) -> bool:
        """Returns whether the graph has a node of this name, or contains this Node."""
        if isinstance(name, Node):
            return self.find(name.name) is name
        if not isinstance(name, str):
            return False
        return name in self._overlay.current or (not self._overlay.has_left(name) and self.store.has(name))

    def _ipython_key_completions_(self) -> list[str]:
        """Returns the names that IPython offers after ``graph["``."""
        return list(self.names())

    def __getitem__(self, name: str) -> Node:
        """Returns the node `name`. Raises EditError if there is no such node; see `missing`."""
        given: object = name
        if not isinstance(given, str):
            raise ArgumentError("Graph", "name", "str", found=given)
        node = self.find(given)
        if node is None:
            raise self.missing(given)
        return node

    def missing(self, name: str) -> EditError:
        """Returns the error for a node `name` that this graph does not have; see `no_node`."""
        known = [*self.names(), *(self.serving.spellings if self.serving is not None else ())]
        error = no_node(name, self.became(name), self.source_name, self.node_count, known)
        if self.is_body:
            error.advice = ()
        return error

    def find(self, name: str) -> Node | None:
        """Returns the node whose present name is `name`, or None.

        Raises:
            InputError: several nodes of the file have the name.
        """
        node = self._overlay.current.get(name)
        if node is not None:
            return node
        if self._overlay.has_left(name):
            return None
        node = self.base_node(name)
        return node if node.exists else None

    def base_node(self, name: str) -> Node:
        """Returns the node with the name `name` in the file; without such a node, a node whose `exists` is False."""
        node = self._nodes.get(name)
        if node is None:
            node = Node(self, name, UNLOCATED, base_name=name)
            self._nodes[name] = node
        return node

    @property
    def node_count(self) -> int:
        """The present number of nodes."""
        return self.store.layout.node_count - len(self._overlay.removed) + len(self._overlay.added)

    def names(self) -> Iterator[str]:
        """Yields the present names of all nodes: nodes of the file in its order, then the added nodes; see `sort`."""
        if self._overlay.order:
            yield from (node.name for node in self.nodes())
            return
        respelt, removed = self._overlay.respelt, self._overlay.removed
        for name in self.store.names:
            if name in respelt:
                yield respelt[name]
            elif name not in removed:
                yield name
        yield from (node.name for node in self._overlay.added)

    def nodes(self) -> Iterator[Node]:
        """Yields all present nodes, in the order of `names`."""
        order = self._overlay.order
        yield from filter(self._overlay.has, order)
        for name in self.store.names:
            if name not in self._overlay.removed and (node := self.base_node(name)) not in order:
                yield node
        yield from (node for node in tuple(self._overlay.added) if node not in order)

    def tensor(self, text: str) -> Output:
        """Returns the tensor that a user writes as ``node`` or ``node:index``.

        Raises:
            EditError: `text` is not a tensor name, there is no such node, or the node has no such output.
        """
        ref = parse_tensor(text)
        output = Output(self[ref.node], ref.port)
        check_output(output)
        return output

    def output(self, tensor: str | Output) -> Output:
        """Returns the tensor, which may be given by its name.

        Raises:
            EditError: see `tensor`; or the tensor is not in this graph.
        """
        if isinstance(tensor, str):
            return self.tensor(tensor)
        if self.find(tensor.node.name) is not tensor.node:
            raise EditError(
                f"{quoted(tensor.name)} belongs to a different graph, or was removed",
                code="other-graph",
                tensor=tensor.name,
            )
        check_output(tensor)
        return tensor

    def users(self, node: Node) -> list[Node]:
        """Returns the nodes that have `node` as a data or control input, each once, in no particular order."""
        candidates = dict.fromkeys(self._base_users(node))
        candidates.update(self._overlay.users.get(node, {}))
        return [user for user in candidates if self._overlay.has(user) and user.reads(node)]

    def uses(self, output: Output) -> list[Use]:
        """Returns the data inputs that read `output`."""
        return [
            Use(user, slot)
            for user in self.users(output.node)
            for slot, read in enumerate(user.inputs)
            if read.node is output.node and read.index == output.index
        ]

    def _base_users(self, node: Node) -> list[Node]:
        """Returns the users of `node` in the file; edits may have changed or removed them."""
        return [] if node.base_name is None else [self.base_node(user) for user in self.store.users(node.base_name)]

    @property
    def has_colocations(self) -> bool:
        """Whether a node may request colocation."""
        return bool(self._overlay.colocated or not self.store.has_table or self.store.table.colocations)

    def colocated_with(self, node: Node) -> list[Node]:
        """Returns the nodes that request colocation with `node`."""
        names = () if node.base_name is None else self.store.colocated(node.base_name)
        later = self._overlay.colocated.get(node, ())
        candidates = dict.fromkeys((*map(self.base_node, names), *later)) if names or later else ()
        return [c for c in candidates if self._overlay.has(c) and node in c.colocated]

    # -- changing: the primitives that every edit uses -----------------------------------------------------

    def set_inputs(self, node: Node, inputs: Iterable[Output]) -> None:
        """Sets the data inputs of `node`; its control inputs are kept."""
        _check_node(node, "Graph.set_inputs")
        self.set_reads(node, inputs, node.controls)

    def set_controls(self, node: Node, controls: Iterable[Node]) -> None:
        """Sets the control inputs of `node`, without duplicates; its data inputs are kept."""
        _check_node(node, "Graph.set_controls")
        self.set_reads(node, node.inputs, dict.fromkeys(controls))

    def set_reads(self, node: Node, inputs: Iterable[Output], controls: Iterable[Node]) -> None:
        """Sets the data inputs and the control inputs of `node`."""
        _check_node(node, "Graph.set_reads")
        data = tuple(item if type(item) is Output else self._meant_input(item, "Graph.set_inputs") for item in inputs)
        waits = tuple(
            item if type(item) is Node else self._meant_control(item, "Graph.set_controls") for item in controls
        )
        self._journal.set_attribute(node, "_inputs", data)
        self._journal.set_attribute(node, "_controls", waits)
        self._overlay.note_users(node, (*(output.node for output in data), *waits))
        self._overlay.touch(node)

    def set_colocated(self, node: Node, others: Iterable[Node]) -> None:
        """Colocates `node` with `others`, instead of its earlier colocations."""
        new = tuple(others)
        for item in (node, *new):
            _check_node(item, "Graph.set_colocated")
        self._journal.set_attribute(node, "_colocated", new)
        self._overlay.note_colocated(node, new)
        self._overlay.touch(node)

    def set_attr(self, node: Node, key: str, value: bytes | AttrValue | None) -> None:
        """Sets an attr of `node` to an AttrValue, serialised or not, or removes it (None).

        `gds.set_attr` accepts plain values.

        Raises:
            ArgumentError: the value has a different type.
        """
        if value is not None:
            value = _serialised(value, "Graph.set_attr", "value")
        _check_node(node, "Graph.set_attr")
        node.assign_attr(self._journal, key, value)
        self._overlay.touch(node)

    def replace_op(
        self,
        node: Node,
        op: str,
        inputs: Iterable[Output] | None = None,
        attrs: Mapping[str, bytes | AttrValue | None] | None = None,
    ) -> None:
        """Changes the op of `node`, its data inputs (None keeps them) and the given attrs (None removes an attr).

        Other attrs and the control inputs are kept.
        """
        if node.op != op:
            self.set_op(node, op)
        if inputs is not None:
            self.set_inputs(node, inputs)
        for key, value in (attrs or {}).items():
            if value is not None or node.has_attr(key):
                self.set_attr(node, key, value)

    def set_op(self, node: Node, op: str) -> None:
        """Changes the op of `node`. The caller must correct its attrs and inputs."""
        _check_node(node, "Graph.set_op")
        _check_text(op, "Graph.set_op", "op")
        self._journal.set_attribute(node, "_op_override", op)
        self._overlay.touch(node)

    def set_device(self, node: Node, device: str) -> None:
        """Sets the device string of `node`."""
        _check_node(node, "Graph.set_device")
        _check_text(device, "Graph.set_device", "device")
        self._journal.set_attribute(node, "_device_override", device)
        self._overlay.touch(node)

    def set_versions(self, versions: bytes) -> None:
        """Sets the versions (a serialised VersionDef) to be written; `store` has the versions of the file."""
        self._overlay.say_versions(versions)

    def touch(self, node: Node) -> None:
        """Marks `node` to be encoded again, in normal form, when the graph is written."""
        _ = node.inputs
        self._overlay.touch(node)

    def rename(self, names: Mapping[Node, str]) -> None:
        """Renames nodes, all at once, so that names may be exchanged. References to the nodes are updated.

        Raises:
            EditError: a name is illegal, taken by a different node, or given twice; then nothing has changed.
        """
        self._check_names(names)
        for node in names:
            self._overlay.forget_name(node)
        for node, name in names.items():
            self._journal.set_attribute(node, "_name", name)
            self._overlay.learn_name(node)
        for node in names:
            self._adopt(node)
            self._overlay.touch(node)

    def _check_names(self, names: Mapping[Node, str]) -> None:
        given: dict[str, Node] = {}
        for node, name in names.items():
            check_name(name)
            if name in given:
                raise EditError(
                    f"{quoted(given[name].name)} and {quoted(node.name)} cannot both be renamed to {quoted(name)}",
                    code="given-twice",
                    nodes=[given[name].name, node.name],
                    name=name,
                )
            given[name] = node
            self.check_free(name, names)

    def check_free(self, name: str, allowed: Container[Node] = ()) -> None:
        """Raises EditError if a node that is not in `allowed` has the name `name`."""
        holder = self.find(name)
        if holder is not None and holder not in allowed:
            raise EditError(
                f"the name {quoted(name)} is taken by {an(holder.op)} node", code="name-taken", name=name, op=holder.op
            )

    def _adopt(self, node: Node) -> None:
        """Connects `node` to the nodes that read its new name in the file, if the file has no node of this name."""
        if self._overlay.has_left(node.name) and node.name != node.base_name:
            return
        if node.name not in self._nodes and not self.store.users(node.name):
            return
        missing = self.base_node(node.name)
        if missing is node or missing.exists:
            return
        for user in self._base_users(missing):
            inputs = [Output(node, read.index) if read.node is missing else read for read in user.inputs]
            controls = [node if control is missing else control for control in user.controls]
            self.set_reads(user, inputs, dict.fromkeys(controls))

    def add(
        self,
        name: str,
        op: str,
        inputs: Iterable[Output | str] = (),
        controls: Iterable[Node | str] = (),
        *,
        attrs: Mapping[str, bytes | AttrValue] | None = None,
        device: str = "",
        after: Node | None = None,
    ) -> Node:
        """Adds a node, written after the node `after` or at the end; `attrs` are AttrValues, serialised or not.

        Inputs may be given by their names.

        Raises:
            EditError: the name is illegal or taken, or an input that is given by its name does not exist.
            ArgumentError: an input, an attr or `after` is of the wrong type.

            After an error, nothing is added.
        """
        reads = [item if type(item) is Output else self._meant_input(item) for item in _several(inputs, Output)]
        waits = [item if type(item) is Node else self._meant_control(item) for item in _several(controls, Node)]
        if after is not None and not isinstance(after, Node):
            raise ArgumentError("Graph.add", "after", "Node or None", found=after)
        values = {key: _serialised(value, "Graph.add", "attrs") for key, value in (attrs or {}).items()}
        for key, text in (("name", name), ("op", op), ("device", device)):
            _check_text(text, "Graph.add", key)
        node = Node(self, name, None, base_name=None)
        self._journal.set_attribute(node, "_op_override", op)
        self._journal.set_attribute(node, "_device_override", device)
        for key, value in values.items():
            node.assign_attr(self._journal, key, value)
        self._enter(node, after)
        self.set_reads(node, reads, dict.fromkeys(waits))
        return node

    def _meant_input(self, item: object, function: str = "Graph.add") -> Output:
        if isinstance(item, str):
            try:
                return self.tensor(item)
            except GdsurgeonError as error:
                error.function = function
                raise
        raise ArgumentError(function, "inputs", "Output or str", found=item)

    def _meant_control(self, item: object, function: str = "Graph.add") -> Node:
        if isinstance(item, str):
            return self[item.removeprefix("^")]
        raise ArgumentError(function, "controls", "Node or str", found=item)

    def add_copy(self, name: str, original: Node, *, after: Node | None = None) -> Node:
        """Adds a copy of `original`, of this or a different graph, without inputs; its weights are copied by span.

        The caller sets the inputs, control inputs and colocations.

        Raises:
            EditError: the name is illegal or taken.
        """
        node = Node(self, name, original.record, base_name=None)
        node.become_copy(original)
        self._enter(node, after)
        return node

    def _enter(self, node: Node, after: Node | None) -> None:
        check_name(node.name)
        if node.name in self:
            raise EditError(f"the name {quoted(node.name)} is already taken", code="name-taken", name=node.name)
        self._overlay.enter(node, after)

    def remove(self, nodes: Iterable[Node | str], *, still_used: bool = False) -> None:
        """Removes nodes, given as objects or by their present names. By name, objects need not be made for them.

        Args:
            nodes: the nodes.
            still_used: remaining nodes may use them; the caller then changes their inputs.

        Raises:
            EditError: a remaining node has one of them as a data input, control input or colocation; or one of them
                does not exist in the graph.
        """
        overlay, known = self._overlay, dict[Node, None]()
        items: dict[Node | str, None] = dict(nodes) if isinstance(nodes, dict) else dict.fromkeys(nodes)
        special = {*self._nodes, *overlay.current, *overlay.removed, *overlay.respelt}
        others = [item for item in items if isinstance(item, Node) or item in special]
        for item in others:
            del items[item]
        bases: dict[str, None] = items  # type: ignore[assignment]  # all others are names in the file
        for item in others:
            if isinstance(item, Node):
                node = item
            else:
                node = self[item] if item in overlay.current or overlay.has_left(item) else self._nodes[item]
            known[node] = None
            if node.base_name is not None:
                bases[node.base_name] = None
        missing = self.store.first_missing(bases)
        if missing is not None:
            line = f"the node {quoted(missing)} cannot be removed: the graph has no node with this name"
            raise EditError(line, code="no-such-node", node=missing)
        if not still_used:
            self._check_unused(bases, known)
        for node in {**dict.fromkeys(map(self.base_node, bases)), **known} if self.has_colocations else ():
            for user in self.colocated_with(node):
                if user not in known and user.base_name not in bases:
                    raise EditError(
                        f"{quoted(node.name)} cannot be removed: {quoted(user.name)} is colocated with it",
                        code="has-colocated",
                        node=node.name,
                        colocated=user.name,
                    )
        overlay.drop(bases, known)

    def _check_unused(self, bases: Collection[str], known: Collection[Node]) -> None:
        """Raises EditError if a remaining node uses one of the nodes that go; for the arguments see `Overlay.drop`."""
        users = dict.fromkeys(map(self.base_node, self.store.users_besides(bases)))
        users.update((user, None) for node in known for user in self._overlay.users.get(node, ()) if user not in known)
        for user in filter(self._overlay.has, users):
            for node in (*[read.node for read in user.inputs], *user.controls):
                if node in known or node.base_name in bases:
                    raise EditError(
                        f"{quoted(node.name)} cannot be removed: {quoted(user.name)} uses it",
                        code="has-consumers",
                        node=node.name,
                        consumers=[user.name],
                    )

    def reroute(self, uses: Iterable[Use], new: Output) -> int:
        """Sets each of the data inputs `uses` to `new`; returns the number of inputs that have changed."""
        changes: dict[Node, dict[int, Output]] = {}
        for use in uses:
            changes.setdefault(use.node, {})[use.slot] = new
        return self.set_slots(changes)

    def set_slots(self, changes: Mapping[Node, Mapping[int, Output]]) -> int:
        """Sets data inputs by slot, each node once; returns the number of slots that have changed."""
        count = 0
        for node, slots in changes.items():
            before = node.inputs
            after = tuple(slots.get(slot, read) for slot, read in enumerate(before))
            changed = sum(a.node is not b.node or a.index != b.index for a, b in zip(before, after, strict=True))
            if changed:
                self.set_inputs(node, after)
                count += changed
        return count

    def sort(self, order: Iterable[Node]) -> None:
        """Puts the nodes of `order` first, in this order; all others follow in their present order."""
        self._overlay.set_order(order)

    def unique_names(self) -> UniqueNames:
        """Returns a generator of names that are free in this graph."""
        return UniqueNames(lambda name: name in self)

    def spell_base_name(self, name: str) -> str:
        """Returns the present name of the node with the name `name` in the file."""
        return self._overlay.respelt.get(name, name)

    def spell_base_input(self, text: str) -> str:
        """Returns an input as spelt in the file, with the present name of its node."""
        return self._overlay.respelt_input(text)

    # -- edits as a whole ----------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """Returns a savepoint for an edit, which may be nested; `take_back_edit` restores the graph to this state."""
        journal = self._journal
        if journal.depth == 0 and self._known_version != self._version_then:
            self._edits.clear()  # the last changes were made outside an edit: earlier states are lost
            journal.entries.clear()
        return Savepoint(len(journal.entries), journal.depth, journal.whole, len(self._edits))

    def begin_edit(self, savepoint: Savepoint) -> None:
        """Begins an edit at `savepoint`."""
        self._journal.begin(savepoint)

    def end_edit(self, savepoint: Savepoint, result: object) -> None:
        """Ends the edit that began at `savepoint`; `result` is the return value of the edit."""
        journal = self._journal
        if journal.depth == 1:
            self._version_then = self._known_version
            if len(journal.entries) > savepoint.entries:
                self._edits.append(DoneEdit(result, savepoint.entries, len(journal.entries)))
        journal.end(savepoint)

    def take_back_edit(self, savepoint: Savepoint) -> None:
        """Restores the graph, including its function library, to its state at `savepoint`."""
        self._journal.take_back(savepoint)
        del self._edits[savepoint.edits :]
        self._version_then = self._known_version

    @property
    def _known_version(self) -> int:
        """The version, computed without reading the function library."""
        library = self.functions.version if "functions" in vars(self) else 0
        return self._overlay.version + library + self._journal.rewinds

    def states(self, results: Sequence[object]) -> list[Graph] | None:
        """Returns the graph, as it is written, before each of the consecutive edits with `results`, and after the last.

        Returns None if they are not the last edits, or if other changes were made to the graph between or after them.
        """
        done = self._edits[-len(results) :]
        follows = all(one.end == other.begin for one, other in pairwise(done))
        if len(done) != len(results) or any(
            edit.result is not result for edit, result in zip(done, results, strict=True)
        ):
            return None
        is_last = self._known_version == self._version_then and done[-1].end == len(self._journal.entries)
        if not follows or not is_last:
            return None
        out = [self._written_now()]
        taken: list[Entry] = []
        try:
            for edit in reversed(done):
                taken += self._journal.rewind(edit.begin)
                out.append(self._written_now())
        finally:
            self._journal.replay(taken)
            self._version_then = self._known_version
        return out[::-1]

    def written(self) -> Graph:
        """Returns the graph as it would be loaded after writing it; `self` if nothing has changed."""
        return self._written_now() if self.is_changed else self

    def _written_now(self) -> Graph:
        if self.is_changed:
            out = Graph(ChunkSource(list(resolved(self.chunks())), self.source_name), text=self.text)
        else:
            out = self._of_file()
        out.serving = None if self._stands_alone else self.serving
        return out

    def copy(self) -> Graph:
        """Returns an independent copy of the graph as it is now; both share the file."""
        out = self._of_file()
        out.owner, out.repairs, out.became = self.owner, self.repairs, self.became
        out._serving, out._stands_alone = self._serving, self._stands_alone
        if "functions" in vars(self) and self._borrowed is None:
            out.functions = self.functions.copy(out._journal)
        now, new = self._overlay, {}
        for node in now.added:
            new[node] = Node(out, node.name, node.record, base_name=None)

        def same(node: Node) -> Node:
            return new[node] if node in new else out.base_node(node.base_name or node.name)

        for node in dict.fromkeys([*now.added, *now.touched, *now.current.values()]):
            same(node).become(node, same)
        out.ends = {same(node): None for node in self.ends}
        out._overlay.become(now, same)
        return out

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, object]) -> Graph:
        return memo.setdefault(id(self), self.copy())  # type: ignore[return-value]

    def __reduce__(self) -> tuple[object, ...]:
        if self._serving is not None or self._borrowed is not None:
            what = "the body of a function" if self._serving is None else f"a part of a {self._serving.kind}"
            raise EditError(
                f"{printable(self.source_name)} cannot be pickled: the graph is {what}; load the file again",
                code="not-picklable",
                file=self.source_name,
            )
        return _unpickled, (self.to_bytes(), self.source_name)

    # -- writing -----------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Returns the serialised GraphDef; `gds.from_bytes` is the inverse."""
        return read_chunks(self.chunks())

    def to_graph_def(self) -> GraphDef:
        """Returns the graph as a GraphDef message, of TensorFlow's class if TensorFlow is already imported.

        Raises:
            InputError: the graph is too large for a message, or corrupt.
        """
        tensorflow = sys.modules.get("tensorflow")
        try:
            kind = tensorflow.compat.v1.GraphDef if tensorflow is not None else GraphDef
            return kind.FromString(self.to_bytes())
        except decode_error():
            line = f"{printable(self.source_name)} does not fit into a GraphDef message"
            raise InputError(line, code="too-large", file=self.source_name) from None

    @property
    def is_edited(self) -> bool:
        """Whether nodes differ from those of the file."""
        return self._overlay.is_changed

    @property
    def is_changed(self) -> bool:
        """Whether the graph, including its library, differs from its file."""
        is_read = self._borrowed is not None or "functions" in vars(self)  # otherwise it is the library of the file
        return self.is_edited or (is_read and self.functions.is_changed)

    def touched(self) -> list[Node]:
        """Returns the nodes that were added or must be encoded again."""
        return [*self._overlay.touched, *self._overlay.added]

    def removed(self) -> Collection[str]:
        """Returns the names in the file of the nodes that were removed."""
        return self._overlay.removed.keys()

    def chunks(self) -> list[Chunk]:
        """Returns the serialised graph: spans of the source, and new bytes for the changed parts."""
        return list(self.derived(Graph._chunks))

    def _chunks(self) -> list[Chunk]:
        overlay = self._overlay
        nodes = overlay.replaced_nodes(self.store)
        if self._borrowed is not None:
            return spliced(self.store, nodes) + self._borrowed.chunks()
        out = spliced(self.store, nodes + overlay.replaced_others(self.store, self.functions))
        return in_order(ChunkSource(out, self.source_name), list(self.names())) if overlay.order else out

    @public
    def save(self, path: StrPath, *, check: bool = True) -> None:
        """Writes the graph to `path` atomically.

        The file is text if its suffix is that of a text form, or is not ``.pb`` and the graph was read from text.

        The structure is checked, and nothing is run. `gds.prove` proves a graph, `gds.operate` writes a proven result.

        Args:
            path: the file.
            check: refuse a graph that TensorFlow would refuse; False writes it as it is.

        Raises:
            InputError: the graph has faults, which `gds.check` lists.
            UsageError: the graph is a part of a SavedModel or MetaGraph.
            OutputError: the file cannot be written.

            After an error, the earlier file at `path` is unchanged.
        """
        from gdsurgeon.wire.output import OutputFile

        path = os.fspath(path)
        if self._serving is not None and not self._stands_alone:
            raise UsageError(
                f"the graph is a part of a {self._serving.kind}, {printable(self.source_name)}",
                code="wrong-format",
                file=self.source_name,
                kind=self._serving.kind,
                hint="gds.operate(model, edit, out=PATH) writes all of it; gds.freeze makes one file of it",
            )
        if check:
            import gdsurgeon  # an import against the layers: a graph calls the library, as a user does

            findings = gdsurgeon.check(self)
            if findings.fault_count:
                raise findings.as_error(self.source_name)
        chunks, text = self.chunks(), is_text_name(path, self.text is not None)
        with OutputFile(path) as output:
            output.stage([to_text(read_chunks(chunks))] if text else chunks)
            output.publish()

    def _repr_html_(self) -> str:
        """Returns the page of `gds.picture`, which notebooks show."""
        from html import escape

        import gdsurgeon  # an import against the layers, as in `save`

        return f'<iframe srcdoc="{escape(gdsurgeon.picture(self))}" style="width:100%;height:640px;border:0"></iframe>'


def _check_node(node: object, function: str) -> None:
    if type(node) is not Node:
        raise ArgumentError(function, "node", "Node", found=node)


def _serialised(value: bytes | AttrValue, function: str, argument: str) -> bytes:
    if type(value) is bytes:
        return value
    descriptor = getattr(value, "DESCRIPTOR", None)
    if getattr(descriptor, "full_name", "") != "tensorflow.AttrValue":
        expected = "an AttrValue, serialised or not; gds.set_attr accepts plain values"
        raise ArgumentError(function, argument, expected, found=value)
    return value.SerializeToString(deterministic=True)  # type: ignore[union-attr]


def _check_text(text: object, function: str, argument: str) -> None:
    if not isinstance(text, str):
        raise ArgumentError(function, argument, "str", found=text)


class DoneEdit(NamedTuple):
    """A finished edit of a graph: its result, and the range of its entries in the journal."""

    result: object
    begin: int
    end: int


def _several(items: Iterable[T], kind: type) -> Iterable[T]:
    """Returns `items`, or, if it is a single item, a sequence of this item."""
    return (items,) if isinstance(items, (str, kind)) else items  # type: ignore[return-value]


def _unpickled(data: bytes, name: str) -> Graph:
    return Graph(BytesSource(data, name))


def graph_of(item: Node | Output) -> Graph:
    """Returns the graph that contains a node or tensor, for callers that change it."""
    graph = (item if isinstance(item, Node) else item.node).graph
    assert isinstance(graph, Graph)
    return graph
