"""The intended differences after an edit: declared by the edit, or derived from the request."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.values import Data

if TYPE_CHECKING:
    from gdsurgeon.graph.graph import Graph
    from gdsurgeon.wire.protos import AttrValue

Value = str | bytes | tuple[str, ...] | frozenset[str] | None
"""A text, a serialised AttrValue, names of tensors or nodes (in any order if a set); None: it is not there."""


class Rewired(NamedTuple):
    """An input slot that reads a different tensor than before (`slot` counts the data inputs from 0)."""

    node: str
    slot: int
    old: str
    new: str


@dataclass(eq=False, repr=False)
class FunctionChanges(Data):
    """Names of library functions."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Facts(Data):
    """The differences between two graphs.

    Attributes:
        renamed: names before and after.
        added, removed: names of nodes; a name that a different node has after is in both.
        rewired: slots that read a different tensor, not only a renamed one.
        altered: for nodes of both graphs (names after) the other differences, before and after: ``op``, ``device``,
            ``inputs`` (if their number differs), ``controls``, ``colocated``, ``attr`` and a key.
        functions: of the library.
        graph_fields: other fields: ``versions``, ``gradient of`` and a function, ``doubled`` and a name, ...
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    altered: dict[str, dict[str, tuple[Value, Value]]] = field(default_factory=dict)
    functions: FunctionChanges = field(default_factory=lambda: FunctionChanges())
    graph_fields: dict[str, tuple[Value, Value]] = field(default_factory=dict)


class Altered(NamedTuple):
    """A property of a node after an edit.

    Attributes:
        node: its name.
        what: ``op``, ``device``, ``inputs``, ``controls``, ``colocated``, ``attrs`` (the present keys), or ``attr`` and
            a key, as in ``attr shape``.
        value: its value after the edit: a text, names of tensors or nodes, a message (serialized deterministically);
            None if it is removed.
    """

    node: str
    what: str
    value: Value


class Copies(NamedTuple):
    """Nodes of a graph that were copied.

    Attributes:
        originals: the graph.
        names: the names of the copies.
        outside: for tensors of the graph, the tensor that a copy reads instead.
        is_own: whether it is the graph that was edited: a copy may have the inputs of its original.
        left: nodes that are not control inputs of copies, although they are control inputs of the originals.
    """

    originals: Graph
    names: Mapping[str, str]
    outside: Mapping[str, str]
    is_own: bool
    left: Container[str] = ()

    def counterpart(self, node: str, index: int) -> str | None:
        """Returns the tensor that a copy reads for output `index` of `node` in its original; None: not known."""
        tensor = format_input(node, index)
        if tensor in self.outside:
            return self.outside[tensor]
        if node in self.names:
            return format_input(self.names[node], index)
        return tensor if self.is_own else self.outside.get(node)

    def counterpart_node(self, node: str) -> str | None:
        """Returns the counterpart of a control input or colocated node: inside one graph, only copied nodes are
        replaced.
        """
        if node in self.names or self.is_own:
            return self.names.get(node, node)
        tensor = self.outside.get(node)
        return None if tensor is None else parse_tensor(tensor).node


@dataclass(eq=False, repr=False)
class Intent(Data):
    """The names that changed, the added and removed nodes, and the input slots that read a different tensor.

    `renamed` maps a name in the graph before to the name after; `rewired` uses the names after; `copied` maps the names
    in an added graph to the new names of its nodes. `changed` names (after) the nodes with a changed attr, op, device
    or control input. `moved` maps a tensor of the graph before to the tensor that holds its value now, if that is not
    just due to a renamed node. `functions` names the functions that were added to, removed from or changed in the
    function library. `graph_fields` holds the changed fields of the graph outside its nodes and functions:
    ``versions``, serialized. `is_sorted` is whether nodes may have other places in the file.

    `altered` declares exactly how changed or added nodes are now; `copies` declares the originals of added nodes. A
    specification declares these; an edit declares only facts that the specification cannot know, such as an inferred
    shape.
    """

    renamed: dict[str, str] = field(default_factory=dict)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    rewired: list[Rewired] = field(default_factory=list)
    copied: dict[str, str] = field(default_factory=dict)
    renamed_functions: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    functions: FunctionChanges = field(default_factory=lambda: FunctionChanges())
    altered: list[Altered] = field(default_factory=list)
    graph_fields: dict[str, Value] = field(default_factory=dict)
    copies: list[Copies] = field(default_factory=list)
    is_sorted: bool = False

    def alter(self, node: str, values: Mapping[str, Value | AttrValue]) -> None:
        """Declares that a node is changed, with the values of its fields; see `Altered`."""
        self.changed.append(node)
        self._declare(node, values)

    def add(
        self,
        node: str,
        op: str,
        inputs: Sequence[str] = (),
        controls: Sequence[str] | frozenset[str] = (),
        device: str = "",
        attrs: Mapping[str, bytes | AttrValue | None] | None = None,
    ) -> None:
        """Declares a node that is added, with all its fields.

        Attrs with the value None are declared as present, with any value; without `attrs`, no attr is declared.
        """
        self.added.append(node)
        waits = controls if isinstance(controls, frozenset) else tuple(controls)
        self._declare(node, {"op": op, "inputs": tuple(inputs), "device": device, "controls": waits, "colocated": ()})
        if attrs is not None:
            stated = {f"attr {key}": value for key, value in attrs.items() if value is not None}
            self._declare(node, {"attrs": tuple(sorted(attrs)), **stated})

    def _declare(self, node: str, values: Mapping[str, Value | AttrValue]) -> None:
        for what, value in values.items():
            is_plain = value is None or isinstance(value, (str, bytes, tuple, frozenset))
            plain = value if is_plain else value.SerializeToString(deterministic=True)  # type: ignore[union-attr]
            self.altered.append(Altered(node, what, plain))  # type: ignore[arg-type]

    def rewire(self, slots: Iterable[tuple[str, int]], old: str, new: str) -> None:
        """Declares that input slots read the tensor `new` instead of `old`."""
        self.rewired += [Rewired(node, slot, old, new) for node, slot in slots]

    def after(self, name: str) -> str:
        """Returns the name after of a node of the graph before."""
        return self.renamed.get(name, name)

    def counterpart(self, tensor: str) -> str:
        """Returns the tensor that holds the value of `tensor` (``node`` or ``node:1``) of the graph before."""
        moved = self.moved.get(tensor)
        if moved is not None:
            return moved
        node, colon, index = tensor.partition(":")
        return self.after(node) + colon + index

    def origins(self) -> Callable[[str], str | None]:
        """Returns a function from a tensor (or a node) of the graph after to the one before; None if it was added."""
        before = {new: old for old, new in self.renamed.items()}
        moved, made = {new: old for old, new in self.moved.items()}, frozenset(self.added)

        def origin(tensor: str) -> str | None:
            if tensor in moved:
                return moved[tensor]
            node, colon, index = tensor.partition(":")
            return None if node in made else before.get(node, node) + colon + index

        return origin

    def then(self, later: Intent) -> Intent:
        """Returns the combination of this and `later`; declarations for the audit are not combined."""
        gone, origin = {*later.removed}, self.origins()
        renamed = {old: later.after(new) for old, new in self.renamed.items() if new not in gone}
        renamed |= {was: new for old, new in later.renamed.items() if (was := origin(old)) is not None}
        kept = {
            tensor: now for tensor, now in self.moved.items() if now in later.moved or now.split(":")[0] not in gone
        }
        moved = {tensor: later.counterpart(now) for tensor, now in kept.items()}
        moved |= {was: now for tensor, now in later.moved.items() if (was := origin(tensor)) is not None}
        return Intent(
            renamed={old: new for old, new in renamed.items() if old != new},
            added=[*(later.after(name) for name in self.added if name not in gone), *later.added],
            removed=[*self.removed, *(was for name in later.removed if (was := origin(name)) is not None)],
            rewired=_rewired_twice(self, later, gone),
            copied={name: later.after(now) for name, now in self.copied.items() if now not in gone} | later.copied,
            renamed_functions=self.renamed_functions | later.renamed_functions,
            changed=[*dict.fromkeys([*(later.after(n) for n in self.changed if n not in gone), *later.changed])],
            moved=moved,
            functions=_functions_twice(self.functions, later.functions),
        )


def _rewired_twice(first: Intent, later: Intent, gone: Container[str]) -> list[Rewired]:
    """Returns the rewired slots after both edits, each once, with the input before the first and after the second."""
    slots: dict[tuple[str, int], Rewired] = {}
    for slot in first.rewired:
        if slot.node not in gone:
            now = Rewired(later.after(slot.node), slot.slot, later.counterpart(slot.old), later.counterpart(slot.new))
            slots[now.node, now.slot] = now
    for slot in later.rewired:
        earlier = slots.get((slot.node, slot.slot))
        slots[slot.node, slot.slot] = slot if earlier is None else slot._replace(old=earlier.old)
    return list(slots.values())


def _functions_twice(first: FunctionChanges, later: FunctionChanges) -> FunctionChanges:
    """Returns the changes of the library after both edits."""
    return FunctionChanges(
        added=[*(name for name in first.added if name not in later.removed), *later.added],
        removed=[*first.removed, *(name for name in later.removed if name not in first.added)],
        changed=[*dict.fromkeys([*(n for n in first.changed if n not in later.removed), *later.changed])],
    )
