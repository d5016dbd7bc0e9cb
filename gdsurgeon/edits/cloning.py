"""What clone-scope does for variables: which nodes it leaves out, and how the clone is saved and restored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.training import assignments, first_values, needing, saver_behind, saver_nodes, slots
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import forward_walk, members
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.bundle import decode_key, encode_key
from gdsurgeon.container.restoring import RESTORE, origin
from gdsurgeon.edits.claims import Claim, OwnVariables
from gdsurgeon.edits.functions import drop_left
from gdsurgeon.edits.inline import is_call
from gdsurgeon.edits.node_copies import NodeCopy, shared_name, shared_names_in_use
from gdsurgeon.edits.replacing import drop_colocations
from gdsurgeon.edits.saver import add_saver, restored_once
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import UniqueNames, free_scope, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Copied, Key, Saver, Serving
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    PASSES_ON,
    RESOURCE_VARIABLES,
    SAVES,
    STATED_SHAPES,
    TEMPORARY,
    VARIABLE_READS,
    VARIABLES,
    holds_state,
    is_variable,
    keeps_state,
)
from gdsurgeon.text import counted, named

SCOPE = "saver"
"""The scope of the nodes of a new saver."""

# -- variables outside of the scope ------------------------------------------------------------------------


class ExternalVariables(NamedTuple):
    """Nodes outside of a scope that are cloned with it.

    Attributes:
        nodes: variables, and the nodes that connect them with the scope.
        notes: a line about the other variables that the scope reads.
    """

    nodes: list[Node]
    notes: list[str]


def variables_outside(
    topology: Topology, nodes: Sequence[Node], which: str, source: str, replaced: Iterable[Output] = ()
) -> ExternalVariables:
    """Returns the variables outside of a scope that are cloned with it.

    A function contains no variables: the variables that it reads are arguments of its calls.

    Args:
        topology: the topology of the graph.
        nodes: the cloned nodes of the scope.
        which: ``clone``: the resource variables that are arguments of function calls among `nodes`; ``all``: the
            variables that any of `nodes` reads; ``share``: no variables.
        source: the scope.
        replaced: tensors that the clone does not read.
    """
    if which == "share" or not any(map(is_variable, topology.ops())):
        return ExternalVariables([], [])
    inside, without = topology.flags(map(topology.id_of, nodes)), {topology.code(output) for output in replaced}
    variables = RESOURCE_VARIABLES | VARIABLES - TEMPORARY
    found = everything = _paths_from(topology, nodes, without, PASSES_ON | VARIABLE_READS, variables)
    if which == "clone":
        calls = [node for node in nodes if is_call(node.op, topology.graph)]
        found = _paths_from(topology, calls, without, PASSES_ON, RESOURCE_VARIABLES)
    others = sorted(n for n in set(everything).difference(found) if is_variable(topology.op(n)) and not inside[n])
    notes: list[str] = []
    if others:
        names = [topology.name(number) for number in others]
        text = (
            f"{counted(len(others), 'variable')} outside of {quoted(source.strip('/'))} "
            f"{'stays' if len(others) == 1 else 'stay'} shared with the original: {named(names, 3, quoted)}"
        )
        notes.append(Remark(text, "stays-common", nodes=names))
    return ExternalVariables([topology.node(number) for number in sorted(found) if not inside[number]], notes)


def _paths_from(
    topology: Topology, nodes: Sequence[Node], replaced: Container[int], through: Container[str], ends: Container[str]
) -> list[int]:
    """Returns the producers of `nodes` whose op is in `ends`, and the paths to such producers over ops in `through`."""
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


# -- nodes that are left out -------------------------------------------------------------------------------


class Excluded(NamedTuple):
    """The nodes that are not cloned.

    Attributes:
        saver: the numbers of the nodes of savers.
        numbers: the numbers of all excluded nodes, including savers outside of the scope.
        nodes: the excluded nodes.
        notes: a line for each kind of excluded variable.
    """

    saver: set[int]
    numbers: set[int]
    nodes: frozenset[Node]
    notes: list[str]

    def drop_controls(self, copied: NodeCopy) -> None:
        """Removes control inputs of the copies that are excluded nodes: they are nodes of the original."""
        for node, copy in copied.nodes.items() if self.nodes else ():
            if any(control in self.nodes for control in node.controls):
                kept = [copied.node(control) for control in node.controls if control not in self.nodes]
                copied.graph.set_controls(copy, kept)


def excluded_nodes(topology: Topology, nodes: Sequence[Node], *, shares: bool, with_slots: bool) -> Excluded:
    """Returns the nodes of a scope that are not cloned.

    These are the nodes of savers, and the nodes that a loader runs or feeds. If the clone `shares` the variables, they
    are the variables and their initial values. Without `with_slots`, they are also the slots of optimisers, and the
    nodes that need them.
    """
    numbers = [topology.id_of(node) for node in nodes]
    inside = topology.flags(numbers)
    files = _files_restored(topology)
    saver = saver_nodes(topology) | (saver_behind(topology, files) if files else set())
    fixed = saver | {*_nodes_of_loader(topology)}
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
    return Excluded(saver, everything, frozenset(map(topology.node, everything)), notes)


def _files_restored(topology: Topology) -> list[int]:
    """Returns the nodes that a loader feeds with the path of the checkpoint."""
    serving = serving_of(topology.graph)
    run = serving.restoring if serving is not None else None
    return _existing(topology, (parse_tensor(tensor).node for tensor in run.feeds)) if run is not None else []


def _nodes_of_loader(topology: Topology) -> Iterator[int]:
    """Yields the nodes that a loader of the model runs or feeds, and the groups of which these consist."""
    serving = serving_of(topology.graph)
    for run in serving.runs if serving is not None else ():
        yield from _existing(topology, (parse_tensor(tensor).node for tensor in run.feeds))
        pending = _existing(topology, run.targets)
        for number in pending:  # grows during the loop
            yield number
            pending += [p for p in topology.producers(number) if topology.op(number) == topology.op(p) == "NoOp"]


def _existing(topology: Topology, names: Iterable[str]) -> list[int]:
    return [topology.id_of(node) for name in names if (node := topology.graph.find(name)) is not None]


# -- a saver that is extended ------------------------------------------------------------------------------


class Slot(NamedTuple):
    """The place of a variable in an op that saves or restores.

    Attributes:
        op: the op.
        at: the index of the tensor that is saved or restored.
        variable: the node of the variable.
        tensor: the tensor that is saved or restored.
        path: the nodes between the op and the variable. If the op restores, the assignment is the first node.
    """

    op: Node
    at: int
    variable: Node
    tensor: Output
    path: tuple[Node, ...]


def _slots_of_saver(topology: Topology, variables: Iterable[Node], saver: Container[int]) -> list[Slot]:
    """Returns the slots of `variables` in the ops of a saver, in their order."""
    wanted = dict.fromkeys(variables)
    found: list[Slot] = []
    for variable in wanted:
        for number in assignments(topology, topology.id_of(variable)):
            node = topology.node(number)
            value = origin(node.inputs[1]) if number in saver and len(node.inputs) > 1 else None
            if value is not None and value.node.op == RESTORE:
                path, tensor = [node], node.inputs[1]
                while tensor != value:
                    path.append(tensor.node)
                    tensor = tensor.node.inputs[0]
                found.append(Slot(value.node, value.index, variable, value, tuple(path)))
    for number in topology.with_ops(SAVES):
        op = topology.node(number)
        for index, tensor in enumerate(op.inputs[SAVES[op.op] :] if number in saver else ()):
            path, node = [], tensor.node
            while node.op in VARIABLE_READS and node.inputs:
                path.append(node)
                node = node.inputs[0].node
            if node in wanted:
                found.append(Slot(op, index, node, tensor, tuple(path)))
    return sorted(found, key=lambda slot: (topology.id_of(slot.op), slot.at))


class SaverExtension(NamedTuple):
    """An op of a saver, and the tensors that it will also save or restore.

    Attributes:
        op: the op.
        slots: the slots of the cloned variables; the slots of the clones follow the present ones.
        present: the present number of tensors.
        texts: the new values of the op's constants: the keys, and the slices if the op has them.
    """

    op: Node
    slots: list[Slot]
    present: int
    texts: dict[Node, list[bytes]]


def _plan_extensions(found: Iterable[Slot], spelt: Callable[[str], str]) -> tuple[list[SaverExtension], dict[str, str]]:
    """Returns the extensions of the ops of a saver, and the original key for each new key.

    Args:
        found: the slots of the cloned variables.
        spelt: returns the key of a clone, which is made unique.

    Raises:
        EditError: the keys are not constants, or a node that is not extended also uses these constants.
    """
    by_op: dict[Node, list[Slot]] = {}
    for slot in found:
        items = by_op.setdefault(slot.op, [])
        if slot.at not in (item.at for item in items[-1:]):
            items.append(slot)
    texts = {op: _texts(op) for op in by_op}
    taken = {key for of_op in texts.values() for key in next(iter(of_op.values()))}
    unique = UniqueNames(lambda key: encode_key(key) in taken)
    keys: dict[str, str] = {}  # of the clones, by the original keys
    out: list[SaverExtension] = []
    for op, items in by_op.items():
        count = len(next(iter(texts[op].values())))
        for row, (node, values) in enumerate(texts[op].items()):
            more = [values[item.at] for item in items]
            if not row:
                for key in map(decode_key, more):
                    keys[key] = keys.get(key) or unique(spelt(key))
                more = [encode_key(keys[decode_key(key)]) for key in more]
            texts[op][node] = [*values, *more]
        out.append(SaverExtension(op, items, count, texts[op]))
    _check_constants(out)
    return out, {new: old for old, new in keys.items()}


def _texts(op: Node) -> dict[Node, list[bytes]]:
    """Returns the values of the constants of an op of a saver: the keys, then the slices if the op has them."""
    count = len(op.inputs) - SAVES[op.op] if op.op in SAVES else len(op.output_dtypes or ())
    out: dict[Node, list[bytes]] = {}
    for slot, what in enumerate(("keys",) if op.op == "Save" else ("keys", "slices"), start=1):
        node = op.inputs[slot].node
        found = constant(node)
        if found is None or len(found.values) != count:
            message = f"the {what} of {quoted(op.name)} are not constants, so the clone could not be restored"
            raise EditError(message, code="not-a-constant", node=op.name, input=what)
        out[node] = [item for item in found.values if isinstance(item, bytes)]
    return out


def _check_constants(extensions: Iterable[SaverExtension]) -> None:
    """Raises EditError if a constant would need different values for its users."""
    texts: dict[Node, list[bytes]] = {}
    known: dict[Node, set[Node]] = {}
    for extension in extensions:
        for node, values in extension.texts.items():
            known.setdefault(node, set()).add(extension.op)
            if texts.setdefault(node, values) != values:
                message = (
                    f"{quoted(node.name)} holds the tensor names of several savers that save different "
                    "tensors; it cannot be extended"
                )
                raise EditError(message, code="outside-uses", node=node.name)
    for node, ops in known.items():
        users = (u for op in ops for u in op.graph.users(node) if any(read.node is node for read in u.inputs))
        other = next((user for user in users if user not in ops), None)
        if other is not None:
            message = f"{quoted(node.name)} cannot be extended by more keys, because {quoted(other.name)} also uses it"
            raise EditError(message, code="outside-uses", node=node.name, consumer=other.name)


def _extend(graph: Graph, extensions: Iterable[SaverExtension], copied: NodeCopy) -> list[Node]:
    """Extends the ops of a saver, after the nodes are copied. Returns the changed nodes."""
    changed: dict[Node, None] = {}
    for op, items, _, texts in extensions:
        if op.op in SAVES:
            graph.set_inputs(op, [*op.inputs, *(copied.output(slot.tensor) for slot in items)])
        attr = "T" if op.op in ("Save", "SaveSlices") else "dtypes"
        value = op.attr(attr)
        dtypes = [*(value.list.type if value is not None else ()), *(base_dtype(slot.tensor.dtype) for slot in items)]
        graph.set_attr(op, attr, types_value(dtypes))
        for node, values in texts.items():
            graph.set_attr(node, "value", tensor_value(STRING, (len(values),), values))
        for node in (op, *texts):
            if node.has_attr(STATED_SHAPES):
                graph.set_attr(node, STATED_SHAPES, None)
            changed[node] = None
    return list(changed)


# -- a new saver -------------------------------------------------------------------------------------------


class NewSaver:
    """A saver that replaces one that cannot be extended, and that also saves and restores the clones.

    A saver cannot be extended if it consists of functions, or of ops that restore one tensor each.

    Args:
        topology: the topology of the graph.
        serving: the model.
        variables: the cloned variables.
        spelt: returns the key of a clone, which is made unique.

    Attributes:
        keys: the original key for each new key of the checkpoint.

    Raises:
        EditError: the nodes that restore the model also restore something that is not a variable.
    """

    def __init__(
        self, topology: Topology, serving: Serving, variables: Sequence[Node], spelt: Callable[[str], str]
    ) -> None:
        run = serving.restoring
        targets = [topology.id_of(topology.graph[name]) for name in (run.targets if run is not None else ())]
        for number in members(topology.upstream(targets)):
            op, name = topology.op(number), topology.name(number)
            if (holds_state(op) or keeps_state(op)) and not (is_variable(op) and name in serving.keys):
                raise EditError(
                    f"{quoted(name)} ({printable(op)}) is also restored from the checkpoint, but a new saver "
                    "would restore only variables",
                    code="outside-uses",
                    node=name,
                    op=op,
                    advice="inline-first",  # inlined nodes that restore can be extended
                )
        known = sorted(topology.id_of(topology.graph[name]) for name in serving.keys if name in topology.graph)
        unique = UniqueNames({key.tensor for key in serving.keys.values()}.__contains__)
        self.keys: dict[str, str] = {}
        self._saved: dict[Node, Key] = {}
        self._clones: dict[Node, Key] = {}
        new: dict[str, str] = {}  # keys of the clones, by the original keys; the slices of a variable have one key
        seen: set[Key] = set()
        own = set(variables)
        for node, key in restored_once(map(topology.node, known), serving.keys).items():
            tensor = key.tensor if key not in seen else unique(node.name)  # a key belongs to one variable
            seen.add(key)
            if tensor != key.tensor:
                self.keys[tensor] = key.tensor
            self._saved[node] = key._replace(tensor=tensor)
            if node in own:
                if tensor not in new:
                    new[tensor] = unique(spelt(tensor))
                self.keys[new[tensor]] = key.tensor
                self._clones[node] = key._replace(tensor=new[tensor])
        self._gone = [topology.node(n) for n in sorted(saver_behind(topology, _files_restored(topology)))]

    def apply(self, graph: Graph, copies: Mapping[Node, Node], intent: Intent) -> tuple[Saver, list[tuple[str, str]]]:
        """Adds the saver to the graph, removes the old one, and adds both to `intent`.

        Returns the saver, and the names of the assignments to each original and its copy.
        """
        scope = free_scope(graph.names(), SCOPE)
        keys = self._saved | {copies[node]: key for node, key in self._clones.items()}
        saver, added = add_saver(graph, keys, scope)
        intent.added += [node.name for node in added]
        intent.removed += [node.name for node in self._gone]
        functions = [name for node in self._gone for name in functions_of(node)]
        drop_colocations(graph, self._gone)
        graph.remove(self._gone)
        intent.functions.removed = drop_left(graph, functions)
        assigned = {saved.variable: saved.assign for saved in saver.variables}
        return saver, [(assigned[node.name], assigned[copies[node].name]) for node in self._clones]


# -- the model of the graph --------------------------------------------------------------------------------


class SaverUpdate:
    """The changes of a model that follow from a clone of variables; none for a graph without a model.

    Args:
        topology: the topology of the graph.
        cloned: the cloned nodes: those of the scope, and variables that belong to it.
        left: the nodes that are not cloned.
        before, after: the scopes, each with a slash at the end.

    Attributes:
        nodes: the nodes of the saver that are cloned.
        replaced: the tensors that these clones read instead of others.
        notes: lines for the user.

    Raises:
        EditError: the saver can be neither extended nor replaced.
    """

    def __init__(self, topology: Topology, cloned: Sequence[Node], left: Excluded, before: str, after: str) -> None:
        self._graph = topology.graph
        self._scopes = before, after
        self.nodes: list[Node] = []
        self.replaced: dict[Output, Output] = {}
        self.notes: list[str] = []
        self._extensions: list[SaverExtension] = []
        self._keys: dict[str, str] = {}
        self._new_saver: NewSaver | None = None
        self._assigned: list[tuple[str, str]] = []
        self._serving = serving = serving_of(self._graph)
        self._variables: list[Node] = []
        if serving is None:
            return
        variables = [node for node in cloned if is_variable(node.op) and node.op not in TEMPORARY]
        shared = shared_names_in_use(topology, set(cloned)) if variables else set()
        self._variables = [node for node in variables if shared_name(node) not in shared]
        found = _slots_of_saver(topology, self._variables, left.saver)
        self._restored = {slot.variable: slot.path[0] for slot in found if slot.op.op == RESTORE}
        names = {shared_name(node) or node.name for node in self._restored}

        def spelt(key: str) -> str:
            return after + key.removeprefix(before)

        if all((shared_name(n) or n.name) in names for n in self._variables if n.name in serving.variables):
            self._extensions, self._keys = _plan_extensions(found, spelt)
            self.nodes = list(dict.fromkeys(node for slot in found for node in slot.path))
            self.replaced = {
                Output(extension.op, slot.at): Output(extension.op, extension.present + number)
                for extension in self._extensions
                if extension.op.op == RESTORE
                for number, slot in enumerate(extension.slots)
            }
        else:
            self._new_saver = NewSaver(topology, serving, self._variables, spelt)
            self._keys = self._new_saver.keys
            text = "new nodes replace those that save and restore the model's variables"
            self.notes.append(Remark(text, "new-saver"))
        if self._keys:
            listed = named(sorted(self._keys), 3, quoted)
            is_there = "added to" if serving.checkpoint else "expected in"
            text = f"{counted(len(self._keys), 'key')} {is_there} the checkpoint: {listed}"
            self.notes.append(Remark(text, "new-keys", keys=sorted(self._keys)))

    def groups(self, topology: Topology, names: Collection[Node]) -> dict[Node, list[Node]]:
        """Returns the groups of initialisers, with the initialisers among the cloned nodes `names`."""
        out: dict[Node, list[Node]] = {}
        if self._serving is None:
            return out
        below = forward_walk(topology, topology.with_ops(filter(is_variable, topology.ops())))
        for node in names:
            if node.op not in ASSIGNMENTS or any(below[topology.id_of(read.node)] for read in node.inputs[1:]):
                continue  # a node that copies a variable to a variable is not an initialiser
            for user in self._graph.users(node):
                if user.op == "NoOp" and user not in names and node in user.controls:
                    out.setdefault(user, []).append(node)
        return out

    def apply(self, copied: NodeCopy, groups: Mapping[Node, Sequence[Node]], intent: Intent) -> None:
        """Changes the saver, the groups of initialisers and the model after the nodes are copied; extends `intent`."""
        if self._serving is None:
            return
        graph = self._graph
        changed = _extend(graph, self._extensions, copied)
        for group, originals in groups.items():
            graph.set_controls(group, [*group.controls, *(copied.nodes[node] for node in originals)])
        serving = graph.serving
        assert serving is not None
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
            restored = [n for n in self._variables if n in self._restored and n.name in self._serving.variables]
            assigning = [self._restored[node] for node in restored]
            self._assigned = [(node.name, copied.nodes[node].name) for node in assigning]
        graph.serving = serving._replace(
            keys={**serving.keys, **keys},
            saver=saver,
            copies=(*serving.copies, Copied(*self._scopes, copied.nodes, copied.frames, self._keys)),
            before=serving.before or serving,
        )
        intent.changed += [node.name for node in (*changed, *groups)]

    def claims(self, copied: NodeCopy, served: Sequence[Output]) -> list[Claim]:
        """Returns the claim that the clone has variables of its own, if its variables are restored."""
        if not self._assigned:
            return []
        outputs = tuple((output.name, copied.output(output).name) for output in served)
        source, target = (scope[:-1] for scope in self._scopes)
        return [OwnVariables(tuple(self._assigned), outputs, f"{source} and {target} have separate variables")]
