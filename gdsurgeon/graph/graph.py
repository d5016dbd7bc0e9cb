"""The mutable graph: nodes over a file, and the few primitives that change them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.functions import FunctionLibrary, resolve_op
from gdsurgeon.graph.names import UniqueNames, check_name, no_node, parse_tensor
from gdsurgeon.graph.node import UNLOCATED, Node, Output, Use, check_output
from gdsurgeon.graph.overlay import Overlay
from gdsurgeon.graph.serving import Serving
from gdsurgeon.graph.store import Store
from gdsurgeon.graph.writing import replaced_beside, replaced_nodes, spliced
from gdsurgeon.ops.op_defs import OpDef
from gdsurgeon.text import an
from gdsurgeon.wire.output import OutputFile
from gdsurgeon.wire.source import Source
from gdsurgeon.wire.text import is_text_name, to_text
from gdsurgeon.wire.write import Chunk, read_chunks

T = TypeVar("T")


class Graph:
    """A GraphDef that can be changed.

    Loading reads nothing but the beginning of the file. A node is made when it is asked for, by name, by an input
    that leads to it, or by iteration; what was never touched is written by copying its bytes.

    Args:
        source: the bytes, a binary GraphDef.
        text: the text that it was read from, or None; it should be text again.
        file_bytes: bytes of the file, where that is not SOURCE itself.
        functions: the library of another graph, for the body of one of its functions; None: the file's own.

    Attributes:
        ends: the nodes that stand for the arguments and results of a function, in order, where this is the body of one.
        owner: the graph in whose library that function is; None: this is no body.
        serving: what the model around it says, by the names of the file; see `gdsurgeon.graph.served.serving_of`.
        became: says what edits before have made of a node, by the name that it had; '' where they made nothing of it.
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
        self._nodes: dict[str, Node] = {}  # by the name in the file
        self._overlay = Overlay()
        self._derived: dict[object, tuple[int, Serving | None, object]] = {}
        self._borrowed = functions
        self.ends: dict[Node, None] = {}
        self.owner: Graph | None = None
        self.mended: tuple[str, ...] = ()  # what `gdsurgeon.graph.uniquely` had to put right, a line each
        self.serving: Serving | None = None
        self.became: Callable[[str], str] = lambda _: ""

    # -- looking -----------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """The bytes of the file."""
        return self.store.source

    @property
    def source_name(self) -> str:
        """The name of the file, for messages."""
        return self.store.name

    @cached_property
    def _pristine(self) -> Graph:
        out = Graph(self.source, text=self.text, file_bytes=self.file_bytes, functions=self._borrowed)
        out.store = self.store
        return out

    def pristine(self) -> Graph:
        """The graph as it is in the file, without the edits; the same object each time, and not to be changed."""
        self._pristine.serving = self.serving
        return self._pristine

    @property
    def version(self) -> int:
        """A number that grows with every change."""
        return self._overlay.version + self.functions.version

    def derived(self, make: Callable[[Graph], T]) -> T:
        """What MAKE says of this graph as it is now; made when it is first asked for, and again after a change."""
        version, serving, found = self._derived.get(make, (-1, None, None))
        if version != self.version or serving is not self.serving:
            found = make(self)
            self._derived[make] = self.version, self.serving, found
        return found  # type: ignore[return-value]

    def know(self, make: Callable[[Graph], T], found: T) -> None:
        """Says what MAKE would say of this graph as it is now: of who has come to know it by another way."""
        self._derived[make] = self.version, self.serving, found

    def prefetch(self, names: Iterable[str]) -> None:
        """Says which few names an edit is going to ask for, so that a big file need not be indexed for them."""
        self.store.prefetch(names)

    @property
    def is_body(self) -> bool:
        """Whether this is the body of a function, and the library another graph's."""
        return self._borrowed is not None

    @cached_property
    def functions(self) -> FunctionLibrary:
        """The function library."""
        if self._borrowed is not None:
            return self._borrowed
        return FunctionLibrary(self.source, self.store.library_fields)

    def op_def(self, op: str) -> OpDef | None:
        """The signature of an op or of a function of this graph, or None where it is unknown."""
        return resolve_op(op, self.functions)

    def __contains__(self, name: str) -> bool:
        return name in self._overlay.current or (name not in self._overlay.left and self.store.has(name))

    def __getitem__(self, name: str) -> Node:
        """The node NAME. Raises EditError where there is none; see `missing`."""
        node = self.find(name)
        if node is None:
            raise self.missing(name)
        return node

    def missing(self, name: str) -> EditError:
        """The error for a node NAME that this graph does not have; see `no_node`."""
        known = [*self.names(), *(self.serving.spellings if self.serving is not None else ())]
        error = no_node(name, self.became(name), self.source_name, self.node_count, known)
        if self.is_body:
            error.advice = ()
        return error

    def find(self, name: str) -> Node | None:
        """The node that is called NAME now, or None.

        Raises:
            InputError: several nodes of the file have the name.
        """
        node = self._overlay.current.get(name)
        if node is not None:
            return node
        if name in self._overlay.left:
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

    @property
    def node_count(self) -> int:
        """Nodes now."""
        return self.store.layout.node_count - len(self._overlay.removed) + len(self._overlay.added)

    def names(self) -> Iterator[str]:
        """The names of all nodes now; those of the file in its order, then the added ones."""
        respelt, left = self._overlay.respelt, self._overlay.left
        for name in self.store.names:
            if name not in left:
                yield name
            elif name in respelt:
                yield respelt[name]
        yield from (node.name for node in self._overlay.added)

    def nodes(self) -> Iterator[Node]:
        """All nodes now, in the order of `names`."""
        for name in self.store.names:
            node = self.base_node(name)
            if node not in self._overlay.removed:
                yield node
        yield from tuple(self._overlay.added)

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
            raise EditError(
                f"{quoted(tensor.name)} belongs to a different graph, or was removed",
                code="other-graph",
                facts={"tensor": tensor.name},
            )
        check_output(tensor)
        return tensor

    def users(self, node: Node) -> list[Node]:
        """The nodes that have NODE as an input, data or control, each once; in no particular order."""
        candidates = dict.fromkeys(self._base_users(node))
        candidates.update(self._overlay.users.get(node, {}))
        return [user for user in candidates if self._overlay.has(user) and user.reads(node)]

    def uses(self, output: Output) -> list[Use]:
        """The places where OUTPUT is read."""
        return [
            Use(user, slot)
            for user in self.users(output.node)
            for slot, read in enumerate(user.inputs)
            if read.node is output.node and read.index == output.index
        ]

    def _base_users(self, node: Node) -> list[Node]:
        """The nodes that the file has as users of NODE, and perhaps no longer are."""
        return [] if node.base_name is None else [self.base_node(user) for user in self.store.users(node.base_name)]

    def colocated_with(self, node: Node) -> list[Node]:
        """The nodes that ask to be colocated with NODE."""
        names = () if node.base_name is None else self.store.colocated(node.base_name)
        later = self._overlay.colocated.get(node, ())
        candidates = dict.fromkeys((*map(self.base_node, names), *later)) if names or later else ()
        return [c for c in candidates if self._overlay.has(c) and node in c.colocated]

    # -- changing: the primitives on which every edit is written -------------------------------------------

    def set_inputs(self, node: Node, inputs: Iterable[Output]) -> None:
        """Gives NODE these data inputs. Control inputs stay."""
        self.set_reads(node, inputs, node.controls)

    def set_controls(self, node: Node, controls: Iterable[Node]) -> None:
        """Gives NODE these control inputs, each once. Data inputs stay."""
        self.set_reads(node, node.inputs, dict.fromkeys(controls))

    def set_reads(self, node: Node, inputs: Iterable[Output], controls: Iterable[Node]) -> None:
        """Gives NODE these data inputs, and these control inputs."""
        data, waits = tuple(inputs), tuple(controls)
        node.assign(inputs=data, controls=waits)
        self._overlay.note_users(node, (*(output.node for output in data), *waits))
        self._overlay.touch(node)

    def set_colocated(self, node: Node, others: Iterable[Node]) -> None:
        """Colocates NODE with OTHERS."""
        new = tuple(others)
        node.assign(colocated=new)
        self._overlay.note_colocated(node, new)
        self._overlay.touch(node)

    def set_attr(self, node: Node, key: str, value: bytes | None) -> None:
        """Sets (serialised AttrValue) or removes an attr of NODE."""
        node.assign_attr(key, value)
        self._overlay.touch(node)

    def set_op(self, node: Node, op: str) -> None:
        """Makes NODE another op. Its attrs and inputs are the caller's to put right."""
        node.op_override = op
        self._overlay.touch(node)

    def set_device(self, node: Node, device: str) -> None:
        """Sets the device string of NODE."""
        node.device_override = device
        self._overlay.touch(node)

    def set_versions(self, versions: bytes) -> None:
        """Sets the versions (a serialised VersionDef) of what is written; `store` has those of the file."""
        self._overlay.say_versions(versions)

    def touch(self, node: Node) -> None:
        """Has NODE written anew, in normal form."""
        _ = node.inputs
        self._overlay.touch(node)

    def rename(self, names: Mapping[Node, str]) -> None:
        """Gives nodes new names, all at once, so that names may be exchanged. What refers to a node follows.

        Raises:
            EditError: a name is illegal, taken by another node, or given twice; nothing has changed then.
        """
        self._check_names(names)
        for node in names:
            self._overlay.forget_name(node)
        for node, name in names.items():
            node.name = name
            self._overlay.learn_name(node)
        for node in names:
            self._adopt(node)
        for node in names:
            if node.base_name is not None:
                users = [user for user in self._base_users(node) if user not in self._overlay.removed]
                for named in (node, *users, *self.colocated_with(node)):
                    self._overlay.touch(named)

    def _check_names(self, names: Mapping[Node, str]) -> None:
        given: dict[str, Node] = {}
        for node, name in names.items():
            check_name(name)
            if name in given:
                raise EditError(
                    f"{quoted(given[name].name)} and {quoted(node.name)} cannot both be renamed to {quoted(name)}",
                    code="given-twice",
                    facts={"nodes": [given[name].name, node.name], "name": name},
                )
            given[name] = node
            self.check_free(name, names)

    def check_free(self, name: str, besides: Container[Node] = ()) -> None:
        """Raises EditError where a node that is not one of BESIDES has the name NAME."""
        holder = self.find(name)
        if holder is not None and holder not in besides:
            raise EditError(
                f"the name {quoted(name)} is taken by {an(holder.op)} node",
                code="name-taken",
                facts={"name": name, "op": holder.op},
            )

    def _adopt(self, node: Node) -> None:
        """Has those read NODE who read its new name in the file, where no node had it."""
        if node.name in self._overlay.left and node.name != node.base_name:
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
        self.set_reads(node, inputs, dict.fromkeys(controls))
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
            raise EditError(
                f"the name {quoted(node.name)} is already taken", code="name-taken", facts={"name": node.name}
            )
        self._overlay.enter(node, after)

    def remove(self, nodes: Iterable[Node]) -> None:
        """Removes nodes.

        Raises:
            EditError: a node that stays reads one of them, as input, control input or colocation; or one has a name
                by which it cannot be found.
        """
        going = dict.fromkeys(nodes)
        names = {node.base_name for node in going}
        for node in going:
            if not node.exists:
                raise EditError(
                    f"the node {quoted(node.name)} cannot be removed: the graph has no node with this name",
                    code="no-such-node",
                    facts={"node": node.name},
                )
            for user in self._users_besides(node, going, names):
                if user not in going:
                    raise EditError(
                        f"{quoted(node.name)} cannot be removed: {quoted(user.name)} uses it",
                        code="has-consumers",
                        facts={"node": node.name, "consumers": [user.name]},
                    )
            for user in self.colocated_with(node):
                if user not in going:
                    raise EditError(
                        f"{quoted(node.name)} cannot be removed: {quoted(user.name)} is colocated with it",
                        code="has-colocated",
                        facts={"node": node.name, "colocated": user.name},
                    )
        for node in going:
            _ = node.record  # found by its name in the file, which is about to be free
            self._overlay.drop(node)

    def _users_besides(self, node: Node, going: Container[Node], names: set[str | None]) -> list[Node]:
        """The users of NODE, but for some of those that are GOING, whose names in the file are NAMES.

        Of many nodes that go, most are read by others that go.
        """
        if node.base_name is None or not names.issuperset(self.store.users(node.base_name)):
            return self.users(node)
        return [] if all(map(going.__contains__, self._overlay.users.get(node, ()))) else self.users(node)

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
        return self._overlay.respelt.get(name, name)

    def spell_base_input(self, text: str) -> str:
        """An input as the file spells it, with the name that its node has now."""
        return self._overlay.respelt_input(text)

    # -- writing -----------------------------------------------------------------------------------------

    @property
    def is_edited(self) -> bool:
        """Whether nodes differ from those of the file."""
        return self._overlay.is_changed

    @property
    def is_changed(self) -> bool:
        """Whether the graph, its library included, differs from its file."""
        return self.is_edited or self.functions.is_changed

    def touched(self) -> list[Node]:
        """The nodes that are to be written anew or were added."""
        return [*self._overlay.touched, *self._overlay.added]

    def removed(self) -> list[Node]:
        """The nodes of the file that are no longer there."""
        return list(self._overlay.removed)

    def chunks(self) -> list[Chunk]:
        """The serialised graph: spans of the source, and fresh bytes for what has changed."""
        overlay = self._overlay
        nodes = replaced_nodes(self.store, overlay.touched, overlay.removed, overlay.added, overlay.records)
        if self._borrowed is not None:
            return spliced(self.store, nodes) + self._borrowed.chunks()
        return spliced(self.store, nodes + replaced_beside(self.store, self.functions, overlay.versions))

    def save(self, path: str) -> None:
        """Writes the graph to PATH, whole or not at all; as text where the suffix says so, or it was text.

        It proves nothing: nothing is checked or run. `gds.operate` writes what is proven, `gds.prove` proves a graph.

        Raises:
            OutputError: it cannot be written; what was at PATH is as it was.
        """
        chunks, text = self.chunks(), is_text_name(path, self.text is not None)
        with OutputFile(path) as output:
            output.stage([to_text(read_chunks(chunks))] if text else chunks)
            output.publish()

    def _repr_html_(self) -> str:
        """The page of `gds.picture`, which notebooks show."""
        from html import escape

        import gdsurgeon  # the one arrow that points up: a notebook asks what it shows how

        return f'<iframe srcdoc="{escape(gdsurgeon.picture(self))}" style="width:100%;height:640px;border:0"></iframe>'


def graph_of(item: Node | Output) -> Graph:
    """The graph that a node or tensor is in, for those who mean to change it."""
    graph = (item if isinstance(item, Node) else item.node).graph
    assert isinstance(graph, Graph)
    return graph
