"""The saver of a model, which is to save and restore the clones of variables, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gdsurgeon.analysis.queries.initialisers import assignments
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.checkpoint.bundle import decode_key, encode_key
from gdsurgeon.container.restoring import RESTORE, origin
from gdsurgeon.edits.copying.node_copy import NodeCopy
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.attrs import types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import SAVES, VARIABLE_READS

_NAMES = 1
"""The input of a saver's op that is the keys; the slices are behind it."""


class Place(NamedTuple):
    """Where an op of the saver has a variable.

    Attributes:
        op: what saves or restores.
        at: the index of what is saved, or of what is restored.
        variable: its node.
        held: what is saved, or restored.
        path: the nodes between the op and the variable; of one that is restored what assigns to it is the first.
    """

    op: Node
    at: int
    variable: Node
    held: Output
    path: tuple[Node, ...]

    @property
    def restores(self) -> bool:
        """Whether the op is one that restores."""
        return self.op.op == RESTORE


def places(topology: Topology, variables: Iterable[int], saver: Iterable[int]) -> list[Place]:
    """Where the nodes SAVER have VARIABLES, in the order in which they do."""
    wanted = {topology.node(number) for number in variables}
    own = set(saver)
    found = [*_restored(topology, wanted, own)]
    for number in topology.with_ops(SAVES):
        if number in own:
            found += _saved(topology.node(number), wanted)
    return sorted(found, key=lambda place: (topology.id_of(place.op), place.at))


def _restored(topology: Topology, variables: Iterable[Node], saver: set[int]) -> Iterator[Place]:
    for variable in variables:
        for number in assignments(topology, topology.id_of(variable)):
            node = topology.node(number)
            if number not in saver or len(node.inputs) < 2:
                continue
            value = origin(node.inputs[1])
            if value.node.op == RESTORE:
                path, tensor = [node], node.inputs[1]
                while tensor != value:
                    path.append(tensor.node)
                    tensor = tensor.node.inputs[0]
                yield Place(value.node, value.index, variable, value, tuple(path))


def _saved(op: Node, variables: set[Node]) -> Iterator[Place]:
    first = SAVES[op.op]
    for index, held in enumerate(op.inputs[first:]):
        path: list[Node] = []
        node = held.node
        while node.op in VARIABLE_READS and node.inputs:
            path.append(node)
            node = node.inputs[0].node
        if node in variables:
            yield Place(op, index, node, held, tuple(path))


class Growth(NamedTuple):
    """What becomes of an op of the saver.

    Attributes:
        op: what saves or restores.
        places: the variables that it has, whose clones are behind what it has now.
        had: how many tensors it has now.
        texts: what its constants hold then: keys, and slices where it takes these.
    """

    op: Node
    places: list[Place]
    had: int
    texts: dict[Node, list[bytes]]

    @property
    def attr(self) -> str:
        """The attr that holds the dtypes."""
        return "T" if self.op.op in ("Save", "SaveSlices") else "dtypes"


def planned(found: Iterable[Place], spelt: Callable[[str], str]) -> tuple[list[Growth], dict[str, str]]:
    """How the saver grows for the clones of what is FOUND in it, and the new keys with those of the originals.

    SPELT makes the key of a clone of that of its original; it is made unique.

    Raises:
        EditError: the keys are not constants, or constants of others, too.
    """
    by_op: dict[Node, list[Place]] = {}
    for place in found:
        items = by_op.setdefault(place.op, [])
        if place.at not in (item.at for item in items[-1:]):
            items.append(place)
    texts = {op: _texts(op) for op in by_op}
    taken = {key for of_op in texts.values() for key in next(iter(of_op.values()))}
    unique = UniqueNames(lambda key: encode_key(key) in taken)
    keys: dict[str, str] = {}  # of the clones, by those of the originals
    out: list[Growth] = []
    for op, items in by_op.items():
        count = len(next(iter(texts[op].values())))
        for slot, (node, values) in enumerate(texts[op].items()):
            more = [values[item.at] for item in items]
            if not slot:
                for key in map(decode_key, more):
                    keys[key] = keys.get(key) or unique(spelt(key))
                more = [encode_key(keys[decode_key(key)]) for key in more]
            texts[op][node] = [*values, *more]
        out.append(Growth(op, items, count, texts[op]))
    _check_constants(out)
    return out, {new: old for old, new in keys.items()}


def _texts(op: Node) -> dict[Node, list[bytes]]:
    """What the constants of an op of the saver hold: the keys first, then the slices where it takes these."""
    count = len(op.inputs) - SAVES[op.op] if op.op in SAVES else len(op.output_dtypes or ())
    out: dict[Node, list[bytes]] = {}
    for slot, what in enumerate(("keys",) if op.op == "Save" else ("keys", "slices")):
        node = op.inputs[_NAMES + slot].node
        found = constant(node)
        if found is None or len(found.values) != count:
            message = f"the {what} of {quoted(op.name)} are not constants, so the clone could not be restored"
            raise EditError(message, code="not-a-constant", facts={"node": op.name, "input": what})
        out[node] = [item for item in found.values if isinstance(item, bytes)]
    return out


def _check_constants(grown: Iterable[Growth]) -> None:
    """Constants that several ops read have to become the same for all."""
    texts: dict[Node, list[bytes]] = {}
    readers: dict[Node, set[Node]] = {}
    for growth in grown:
        for node, values in growth.texts.items():
            readers.setdefault(node, set()).add(growth.op)
            if texts.setdefault(node, values) != values:
                message = (
                    f"{quoted(node.name)} holds the tensor names of several savers that save different "
                    "tensors; it cannot be extended"
                )
                raise EditError(message, code="outside-uses", facts={"node": node.name})
    for node, known in readers.items():
        other = next((user for user in known for user in _users(user, node) if user not in known), None)
        if other is not None:
            message = f"{quoted(node.name)} cannot be extended by more keys, because {quoted(other.name)} also uses it"
            raise EditError(message, code="outside-uses", facts={"node": node.name, "consumer": other.name})


def _users(op: Node, node: Node) -> list[Node]:
    return [user for user in op.graph.users(node) if any(read.node is node for read in user.inputs)]


def grow(graph: Graph, grown: Iterable[Growth]) -> list[Node]:
    """Has the ops of the saver say that they have more tensors; returns what has changed."""
    changed: dict[Node, None] = {}
    for growth in grown:
        op = growth.op
        value = op.attr(growth.attr)
        dtypes = [*(value.list.type if value is not None else ()), *(base_dtype(p.held.dtype) for p in growth.places)]
        graph.set_attr(op, growth.attr, types_value(dtypes).SerializeToString())
        for node, values in growth.texts.items():
            graph.set_attr(node, "value", tensor_value(STRING, (len(values),), values).SerializeToString())
        for node in (op, *growth.texts):
            if node.has_attr(STATED_SHAPES):
                graph.set_attr(node, STATED_SHAPES, None)
            changed[node] = None
    return list(changed)


def given(grown: Iterable[Growth]) -> dict[Output, Output]:
    """For each tensor that is restored for an original the one for its clone."""
    return {
        Output(growth.op, place.at): Output(growth.op, growth.had + number)
        for growth in grown
        if growth.op.op == RESTORE
        for number, place in enumerate(growth.places)
    }


def save_clones(grown: Iterable[Growth], copied: NodeCopy) -> None:
    """Has what saves the originals save their copies."""
    for growth in grown:
        if growth.op.op in SAVES:
            more = [copied.output(place.held) for place in growth.places]
            copied.graph.set_inputs(growth.op, [*growth.op.inputs, *more])
