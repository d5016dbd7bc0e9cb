"""What clone-scope does for variables: which nodes it leaves out, and how the clone is saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gdsurgeon.analysis.queries.function_usage import functions_of
from gdsurgeon.analysis.queries.initialisers import assignments
from gdsurgeon.analysis.queries.training import first_values, needing, saver_behind, saver_nodes, slots
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import forward_walk, members
from gdsurgeon.checkpoint.bundle import decode_key, encode_key
from gdsurgeon.comparison.intent import Intent
from gdsurgeon.container.restoring import RESTORE, origin
from gdsurgeon.edits.claims import Claim, OwnVariables
from gdsurgeon.edits.functions import drop_left
from gdsurgeon.edits.inline import is_call
from gdsurgeon.edits.node_copies import NodeCopy, shared_name, shared_names_in_use
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.saver import add_restoring, add_saving, restored_once, saver_in
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import UniqueNames, free_scope, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Copied, Key, Saver, Serving
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    PASSES_ON,
    RESOURCE_VARIABLES,
    SAVES,
    TEMPORARY,
    VARIABLE_READS,
    VARIABLES,
    holds_state,
    is_variable,
    keeps_state,
)
from gdsurgeon.text import counted, named


class Outside(NamedTuple):
    """What belongs to a scope and lies outside of it.

    Attributes:
        nodes: variables, and what reads or passes them on to the scope.
        notes: what there is to say of the variables that it reads besides.
    """

    nodes: list[Node]
    notes: list[str]


def variables_outside(
    topology: Topology, nodes: Sequence[Node], which: str, source: str, replaced: Iterable[Output] = ()
) -> Outside:
    """The variables outside of NODES, those under the scope SOURCE, that are cloned with them.

    A function holds no variables: those that it reads are arguments of its calls, and stand beside these.

    Args:
        topology: of the graph.
        nodes: those under a scope.
        source: a name scope.
        which: ``clone``: what function calls among NODES are given, which are resources; ``all``: what any of NODES
            read; else none.
        replaced: tensors in whose place others will be read.
    """
    if which == "share" or not any(map(is_variable, topology.ops())):
        return Outside([], [])
    inside, without = topology.flags(map(topology.id_of, nodes)), {topology.code(output) for output in replaced}
    variables = RESOURCE_VARIABLES | VARIABLES - TEMPORARY
    found = everything = _leading_to(topology, nodes, without, PASSES_ON | VARIABLE_READS, variables)
    if which == "clone":
        calls = [node for node in nodes if is_call(node.op, topology.graph)]
        found = _leading_to(topology, calls, without, PASSES_ON, RESOURCE_VARIABLES)
    others = sorted(n for n in set(everything).difference(found) if is_variable(topology.op(n)) and not inside[n])
    notes: list[str] = []
    if others:
        names, scope = [topology.name(number) for number in others], quoted(source.strip("/"))
        stay = "stays" if len(others) == 1 else "stay"
        text = (
            f"{counted(len(others), 'variable')} outside of {scope} {stay} shared with the original: "
            f"{named(names, 3, quoted)}"
        )
        notes.append(Remark(text, "stays-common", nodes=names))
    return Outside([topology.node(number) for number in sorted(found) if not inside[number]], notes)


def _leading_to(
    topology: Topology, nodes: Sequence[Node], replaced: Container[int], through: Container[str], ends: Container[str]
) -> list[int]:
    """What NODES read that is one of the ops ENDS or comes from there unchanged, THROUGH others, with all of these."""
    leads: dict[int, bool] = {}
    for node in nodes:
        for start, index in topology.reads(topology.id_of(node)):
            if index < 0 or start in leads or start << Table.PORT_BITS | index in replaced:
                continue
            path = [start]
            while path[-1] not in leads and topology.op(path[-1]) in through:
                leads[path[-1]] = False
                path += topology.data_producers(path[-1])[:1]
            found = leads.get(path[-1], False) or topology.op(path[-1]) in ends
            leads.update((number, found) for number in path)
    return [number for number, found in leads.items() if found]


@dataclass
class LeftOut:
    """What is not cloned.

    Attributes:
        saver: the nodes of savers, by their numbers.
        numbers: those of all that is left out, savers outside of the scope among them.
        nodes: the nodes.
        notes: what there is to say of it.
    """

    saver: set[int]
    numbers: set[int]
    nodes: frozenset[Node]
    notes: list[str]

    def forget(self, copied: NodeCopy) -> None:
        """Has no copy wait for what was left out: it would wait for something of the original."""
        for node, copy in copied.nodes.items() if self.nodes else ():
            if any(control in self.nodes for control in node.controls):
                kept = [copied.node(control) for control in node.controls if control not in self.nodes]
                copied.graph.set_controls(copy, kept)


def left_out(topology: Topology, nodes: Sequence[Node], *, shares: bool, with_slots: bool) -> LeftOut:
    """What of NODES, those of a scope, is not cloned.

    That is what belongs to a saver or is what a loader runs or feeds, and then: where it SHARES variables, these, and
    what gives them their first values; unless it goes WITH_SLOTS the slots of optimisers, and what needs them.
    """
    numbers = [topology.id_of(node) for node in nodes]
    inside = topology.flags(numbers)
    files = files_restored(topology)
    saver = saver_nodes(topology) | (saver_behind(topology, files) if files else set())
    fixed = saver | {*_of_the_loader(topology)}
    gone: set[int] = set()
    notes: list[str] = []
    kept = [] if with_slots else slots(topology, numbers)
    if kept:
        gone = needing(topology, kept, inside, fixed)
        names = [topology.name(number) for number in kept]
        text = f"{counted(len(kept), 'optimizer slot')} not cloned: {named(names, 3, quoted)}"
        notes.append(Remark(text, "slots-not-cloned", nodes=names))
    if shares:
        own = {number for number in numbers if is_variable(topology.op(number))} - gone
        gone |= own | first_values(topology, own, inside)
        if own:
            text = f"{counted(len(own), 'variable')} shared with the original"
            notes.append(Remark(text, "variables-shared", count=len(own)))
    everything = fixed | gone
    return LeftOut(saver, everything, frozenset(map(topology.node, everything)), notes)


def files_restored(topology: Topology) -> list[int]:
    """What whoever loads the model tells where its checkpoint is."""
    serving = serving_of(topology.graph)
    run = serving.restoring if serving is not None else None
    return _there(topology, (parse_tensor(tensor).node for tensor in run.feeds)) if run is not None else []


def _of_the_loader(topology: Topology) -> Iterator[int]:
    """What whoever loads the model runs or feeds, which is there once; and the groups of which that consists."""
    serving = serving_of(topology.graph)
    for run in serving.runs if serving is not None else ():
        yield from _there(topology, (parse_tensor(tensor).node for tensor in run.feeds))
        pending = [*_there(topology, run.targets)]
        for number in pending:  # grows while it is walked
            yield number
            pending += [p for p in topology.producers(number) if topology.op(number) == topology.op(p) == "NoOp"]


def _there(topology: Topology, names: Iterable[str]) -> list[int]:
    return [topology.id_of(node) for name in names if (node := topology.graph.find(name)) is not None]


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
                raise EditError(message, code="outside-uses", node=node.name)
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
        graph.set_attr(op, growth.attr, types_value(dtypes))
        for node, values in growth.texts.items():
            graph.set_attr(node, "value", tensor_value(STRING, (len(values),), values))
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


SCOPE = "saver"
"""Under which names its nodes are put."""


class NewSaver:
    """Restores and saves all that a model's checkpoint has values for, and clones of some of it.

    Args:
        topology: of the graph.
        serving: how that is served.
        variables: those that are cloned.
        spelt: makes the key of a clone of that of its original; it is made unique.

    Attributes:
        keys: those that the checkpoint is to have, too, and for each the key of the tensor that it is to hold.

    Raises:
        EditError: what restores the model restores something else, too.
    """

    def __init__(
        self, topology: Topology, serving: Serving, variables: Sequence[Node], spelt: Callable[[str], str]
    ) -> None:
        _check_variables_alone(topology, serving)
        known = sorted(topology.id_of(topology.graph[name]) for name in serving.keys if name in topology.graph)
        found = restored_once(map(topology.node, known), serving.keys)
        taken = {key.tensor for key in serving.keys.values()}
        unique = UniqueNames(taken.__contains__)
        self.keys: dict[str, str] = {}
        self._saved: dict[Node, Key] = {}
        self._clones: dict[Node, Key] = {}
        new: dict[str, str] = {}  # keys of the clones, by those of the originals: slices have one
        seen: set[Key] = set()
        own = set(variables)
        for node, key in found.items():
            tensor = key.tensor if key not in seen else unique(node.name)  # two cannot be saved under one key
            seen.add(key)
            if tensor != key.tensor:
                self.keys[tensor] = key.tensor
            self._saved[node] = key._replace(tensor=tensor)
            if node in own:
                if tensor not in new:
                    new[tensor] = unique(spelt(tensor))
                self.keys[new[tensor]] = key.tensor
                self._clones[node] = key._replace(tensor=new[tensor])
        self._gone = [topology.node(n) for n in sorted(saver_behind(topology, files_restored(topology)))]

    def apply(self, graph: Graph, copies: Mapping[Node, Node], intent: Intent) -> tuple[Saver, list[tuple[str, str]]]:
        """Puts it into GRAPH, where COPIES are the clones, and takes the old one out; INTENT says so.

        Returns it, and the names of the nodes that assign to each original and its clone.
        """
        scope = free_scope(graph.names(), SCOPE)
        clones = {copies[node]: key for node, key in self._clones.items()}
        keys = self._saved | clones
        intent.added += [node.name for node in (*add_restoring(graph, keys, scope), *add_saving(graph, keys, scope))]
        intent.removed += [node.name for node in self._gone]
        functions = [name for node in self._gone for name in functions_of(node)]
        drop_colocations(graph, self._gone)
        graph.remove(self._gone)
        intent.functions.removed = drop_left(graph, functions)
        saver = saver_in(scope, keys)
        assigned = {saved.variable: saved.assign for saved in saver.variables}
        return saver, [(assigned[node.name], assigned[copies[node].name]) for node in self._clones]


def _check_variables_alone(topology: Topology, serving: Serving) -> None:
    """Raises EditError where what restores a model restores tables, or variables of which the keys are not known."""
    run = serving.restoring
    targets = [topology.id_of(topology.graph[name]) for name in (run.targets if run is not None else ())]
    for number in members(topology.upstream(targets)):
        op, name = topology.op(number), topology.name(number)
        if (holds_state(op) or keeps_state(op)) and not (is_variable(op) and name in serving.keys):
            raise EditError(
                f"{quoted(name)} ({printable(op)}) is also restored from the checkpoint, but a new saver "
                "would restore only variables",
                code="outside-uses",
                facts={"node": name, "op": op},
                advice="inline-first",  # then nodes restore it, which can be extended
            )


class Beside:
    """What follows a clone of nodes in the model that they are part of; nothing where that is a GraphDef of its own.

    Args:
        topology: of the graph.
        cloned: the nodes that are cloned: those under the scope, and variables that belong to it.
        left: what is not.
        before, after: the scopes, each with a slash at the end.

    Attributes:
        nodes: those of the saver that are cloned.
        replaced: what these read in place of what their originals read.
        notes: what there is to say.

    Raises:
        EditError: the saver's nodes cannot be extended; or others than these restore more than variables.
    """

    def __init__(self, topology: Topology, cloned: Sequence[Node], left: LeftOut, before: str, after: str) -> None:
        self._graph = topology.graph
        self._scopes = before, after
        self.nodes: list[Node] = []
        self.replaced: dict[Output, Output] = {}
        self.notes: list[str] = []
        self._grown: list[Growth] = []
        self._keys: dict[str, str] = {}
        self._variables: list[Node] = []
        self._restored: dict[Node, Node] = {}
        self._new_saver: NewSaver | None = None
        self._assigned: list[tuple[str, str]] = []
        self._serving = serving_of(self._graph)
        if self._serving is None:
            return
        self._variables = self._own(topology, cloned)
        found = places(topology, map(topology.id_of, self._variables), left.saver)
        self._restored = {place.variable: place.path[0] for place in found if place.restores}

        def spelt(key: str) -> str:
            return after + key.removeprefix(before)

        if self._is_restored_by_nodes():
            self._grown, self._keys = planned(found, spelt)
            self.nodes = list(dict.fromkeys(node for place in found for node in place.path))
            self.replaced = given(self._grown)
        else:
            self._new_saver = NewSaver(topology, self._serving, self._variables, spelt)
            self._keys = self._new_saver.keys
            text = "new nodes replace those that save and restore the model's variables"
            self.notes.append(Remark(text, "new-saver"))
        if self._keys:
            names = named(sorted(self._keys), 3, quoted)
            is_there = "added to" if self._serving.checkpoint else "expected in"
            text = f"{counted(len(self._keys), 'key')} {is_there} the checkpoint: {names}"
            self.notes.append(Remark(text, "new-keys", keys=sorted(self._keys)))

    def _own(self, topology: Topology, cloned: Sequence[Node]) -> list[Node]:
        """The variables among CLONED of which nothing else holds the values, too."""
        variables = [node for node in cloned if is_variable(node.op) and node.op not in TEMPORARY]
        if not variables:
            return []
        outside = shared_names_in_use(topology, set(cloned))
        return [node for node in variables if shared_name(node) not in outside]

    def _has_value(self, variable: Node) -> bool:
        """Whether whoever restores the model gives VARIABLE a value."""
        return self._serving is not None and variable.name in self._serving.variables

    def _is_restored_by_nodes(self) -> bool:
        """Whether nodes of the saver that can be extended restore each of the variables that has a value."""
        names = {shared_name(node) or node.name for node in self._restored}
        return all((shared_name(node) or node.name) in names for node in self._variables if self._has_value(node))

    def groups(self, topology: Topology, names: Mapping[Node, str]) -> dict[Node, list[Node]]:
        """What runs initialisers together, with those of which it is to run the copies, called NAMES, too."""
        out: dict[Node, list[Node]] = {}
        if self._serving is None:
            return out
        below = forward_walk(topology, topology.with_ops(filter(is_variable, topology.ops())))
        for node in names:
            if node.op not in ASSIGNMENTS or any(below[topology.id_of(read.node)] for read in node.inputs[1:]):
                continue  # what copies a variable into another is no initialiser
            for user in self._graph.users(node):
                if user.op == "NoOp" and user not in names and node in user.controls:
                    out.setdefault(user, []).append(node)
        return out

    def apply(self, copied: NodeCopy, groups: Mapping[Node, Sequence[Node]], intent: Intent) -> None:
        """Does all of that, once COPIED has been made; INTENT says so."""
        if self._serving is None:
            return
        graph = self._graph
        save_clones(self._grown, copied)
        changed = grow(graph, self._grown)
        for group, originals in groups.items():
            graph.set_controls(group, [*group.controls, *(copied.nodes[node] for node in originals)])
        serving = graph.serving
        assert serving is not None
        note = Copied(*self._scopes, copied.nodes, copied.frames, self._keys)
        saver = serving.saver
        if self._new_saver is not None:
            saver, self._assigned = self._new_saver.apply(graph, copied.nodes, intent)
            keys = {graph[saved.variable].base_name or saved.variable: saved.key for saved in saver.variables}
        else:
            names = {old: new for new, old in self._keys.items()}
            keys = {
                copied.nodes[node].name: key._replace(tensor=names[key.tensor])
                for node in self._variables
                if (key := serving.keys.get(node.base_name or node.name)) is not None and key.tensor in names
            }
            restored = [node for node in self._variables if node in self._restored and self._has_value(node)]
            assigning = [self._restored[node] for node in restored]
            self._assigned = [(node.name, copied.nodes[node].name) for node in assigning]
        graph.serving = serving._replace(
            keys={**serving.keys, **keys},
            saver=saver,
            copies=(*serving.copies, note),
            before=serving.before or serving,
        )
        intent.changed += [node.name for node in (*changed, *groups)]

    def claims(self, copied: NodeCopy, served: Sequence[Output]) -> list[Claim]:
        """That the cloned variables, where they are restored, are the clone's own."""
        if not self._assigned:
            return []
        outputs = tuple((output.name, copied.output(output).name) for output in served)
        source, target = (scope[:-1] for scope in self._scopes)
        return [OwnVariables(tuple(self._assigned), outputs, f"{source} and {target} have separate variables")]
