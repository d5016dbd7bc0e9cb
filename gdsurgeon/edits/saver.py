"""Nodes that restore and save variables: a new saver, and the changes of a saver for a clone of variables.

A new saver has the nodes that the Saver of TensorFlow 1 builds (tensorflow/python/training/saver.py).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.analysis.queries.training import assignments, saver_behind
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.traversal.topology import Topology, forward_walk, members
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.checkpoint.bundle import decode_key, encode_key
from gdsurgeon.container.restoring import RESTORE, name_at_run_time, origin
from gdsurgeon.edits.claims import Claim, OwnVariables
from gdsurgeon.edits.functions import drop_unused_functions
from gdsurgeon.edits.node_copies import NodeCopy, shared_name, shared_names_in_use
from gdsurgeon.edits.replacing import add_placeholder, drop_nodes
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.attrs import type_value, types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.names import UniqueNames, free_scope, parse_tensor
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.graph.serving import Copied, Key, SavedVariable, Saver, Serving
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    RESOURCE_VARIABLES,
    SAVES,
    STATED_SHAPES,
    TEMPORARY,
    VARIABLE_READS,
    holds_state,
    is_variable,
    keeps_state,
)
from gdsurgeon.text import counted, named
from gdsurgeon.wire.protos import AttrValue

FILE_NAME, RESTORE_ALL = "file_name", "restore"


def restored_once(nodes: Iterable[Node], keys: Mapping[str, Key]) -> dict[Node, Key]:
    """Returns the variables among `nodes` that have a key. If several nodes are one variable, the first is returned."""
    out: dict[tuple[object, Key], Node] = {}
    for node in nodes:
        key = keys.get(node.name) if is_variable(node.op) and node.op not in TEMPORARY else None
        if key is not None:
            out.setdefault((name_at_run_time(node), key), node)
    return {node: key for (_, key), node in out.items()}


def add_saver(graph: Graph, keys: Mapping[Node, Key], scope: str, *, saves: bool = True) -> tuple[Saver, list[Node]]:
    """Adds nodes that restore and save variables. Returns the saver and its nodes.

    A loader feeds ``SCOPE/file_name`` with the prefix of the checkpoint and runs ``SCOPE/restore``, or fetches
    ``SCOPE/save``.

    Args:
        graph: changed in place.
        keys: the variables, with the keys of their values in the checkpoint.
        scope: a scope that is not in use.
        saves: whether nodes that save are also added.
    """
    nodes = [add_placeholder(graph, f"{scope}/{FILE_NAME}", STRING, ())]
    path = nodes[0].output
    numbers = [variable.plain_attr("dtype") for variable in keys]
    dtypes = [base_dtype(number) if isinstance(number, int) else 0 for number in numbers]

    def add(
        name: str, op: str, inputs: Iterable[Output], attrs: Mapping[str, AttrValue], controls: Iterable[Node] = ()
    ) -> Node:
        nodes.append(graph.add(f"{scope}/{name}", op, inputs, controls, attrs=attrs))
        return nodes[-1]

    def constant(name: str, texts: list[str]) -> Output:
        value = tensor_value(STRING, (len(texts),), [text.encode() for text in texts])
        return add(name, "Const", (), {"dtype": type_value(STRING), "value": value}).output

    places = [path, constant("names", [key.tensor for key in keys.values()])]
    places.append(constant("slices", [key.slice for key in keys.values()]))
    read = add("RestoreV2", "RestoreV2", places, {"dtypes": types_value(dtypes)})
    assigned: list[Node] = []
    for number, (variable, dtype) in enumerate(zip(keys, dtypes, strict=True)):
        op, attr = ("AssignVariableOp", "dtype") if variable.op in RESOURCE_VARIABLES else ("Assign", "T")
        inputs = variable.output, Output(read, number)
        assigned.append(add(f"Assign_{number}", op, inputs, {attr: type_value(dtype)}))
    restore = add(RESTORE_ALL, "NoOp", (), {}, assigned)
    if not saves:
        return Saver(path.name, restore.name, "", ()), nodes
    values = [
        add(f"Read_{number}", "ReadVariableOp", [variable.output], {"dtype": type_value(dtype)})
        if variable.op in RESOURCE_VARIABLES
        else variable
        for number, (variable, dtype) in enumerate(zip(keys, dtypes, strict=True))
    ]
    write = add("SaveV2", "SaveV2", [*places, *(value.output for value in values)], {"dtypes": types_value(dtypes)})
    save = add("save", "Identity", [path], {"T": type_value(STRING)}, [write])
    saved = tuple(
        SavedVariable(variable.name, key, assign.name, f"{read.name}:{number}", value.name)
        for number, ((variable, key), assign, value) in enumerate(zip(keys.items(), assigned, values, strict=True))
    )
    return Saver(path.name, restore.name, save.name, saved), nodes


SCOPE = "saver"
"""The scope of the nodes of a new saver."""


def files_restored(topology: Topology) -> list[int]:
    """Returns the nodes that a loader feeds with the path of the checkpoint."""
    serving = serving_of(topology.graph)
    run = serving.restoring if serving is not None else None
    return existing_nodes(topology, run.feeds) if run is not None else []


def existing_nodes(topology: Topology, tensors: Iterable[str]) -> list[int]:
    """Returns the nodes of the graph that compute `tensors`."""
    nodes = (topology.graph.find(parse_tensor(tensor).node) for tensor in tensors)
    return [topology.id_of(node) for node in nodes if node is not None]


# -- a saver that is extended ------------------------------------------------------------------------------


class SavedSlot(NamedTuple):
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


def _slots_of_saver(topology: Topology, variables: Collection[Node], saver: Container[int]) -> list[SavedSlot]:
    """Returns the slots of `variables` in the ops of a saver, in their order."""
    found: list[SavedSlot] = []
    for variable in variables:
        for number in assignments(topology, topology.id_of(variable)):
            node = topology.node(number)
            value = origin(node.inputs[1]) if number in saver and len(node.inputs) > 1 else None
            if value is not None and value.node.op == RESTORE:
                path, tensor = [node], node.inputs[1]
                while tensor != value:
                    path.append(tensor.node)
                    tensor = tensor.node.inputs[0]
                found.append(SavedSlot(value.node, value.index, variable, value, tuple(path)))
    for number in topology.with_ops(SAVES):
        op = topology.node(number)
        for index, tensor in enumerate(op.inputs[SAVES[op.op] :] if number in saver else ()):
            path, node = [], tensor.node
            while node.op in VARIABLE_READS and node.inputs:
                path.append(node)
                node = node.inputs[0].node
            if node in variables:
                found.append(SavedSlot(op, index, node, tensor, tuple(path)))
    return sorted(found, key=lambda slot: (topology.id_of(slot.op), slot.at))


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


class SaverUpdate:
    """The changes of a model that follow from a clone of variables; none for a graph without a model.

    The ops of the saver also save and restore the clones. If it consists of functions, or of ops that restore one
    tensor each, a new saver replaces it.

    Args:
        topology: the topology of the graph.
        cloned: the cloned nodes: those of the scope, and variables that belong to it.
        saver: the numbers of the nodes of savers.
        before, after: the scopes, each with a slash at the end.

    Attributes:
        nodes: the nodes of the saver that are cloned.
        replaced: the tensors that these clones read instead of others.
        groups: the groups of initialisers outside of the clone, with the cloned initialisers in them.
        notes: lines for the user.

    Raises:
        EditError: the saver can be neither extended nor replaced.
    """

    def __init__(
        self, topology: Topology, cloned: Sequence[Node], saver: Container[int], before: str, after: str
    ) -> None:
        self._graph = topology.graph
        self._scopes = before, after
        self.nodes: list[Node] = []
        self.replaced: dict[Output, Output] = {}
        self.groups: dict[Node, list[Node]] = {}
        self.notes: list[str] = []
        self._slots: dict[Node, list[SavedSlot]] = {}  # of the ops of the saver that are extended
        self._constants: dict[Node, list[bytes]] = {}  # new values of their keys and slices
        self._saved: dict[Node, Key] = {}  # the variables of a new saver
        self._keys: dict[str, str] = {}  # the original key for each new key of the checkpoint
        self._cloned: dict[Node, Key] = {}  # the keys of the clones, by the cloned variables
        self._assigned: list[tuple[str, str]] = []
        self._serving = serving = serving_of(self._graph)
        if serving is None:
            return
        variables = [node for node in cloned if is_variable(node.op) and node.op not in TEMPORARY]
        shared = shared_names_in_use(topology, set(cloned)) if variables else set()
        variables = [node for node in dict.fromkeys(variables) if shared_name(node) not in shared]
        slots = _slots_of_saver(topology, frozenset(variables), saver)
        self._assigns = {slot.variable: slot.path[0] for slot in slots if slot.op.op == RESTORE}
        restored = {shared_name(node) or node.name for node in self._assigns}
        if all((shared_name(n) or n.name) in restored for n in variables if n.name in serving.keys):
            self._extend(serving, variables, slots)
        else:
            self._replace(topology, serving, variables)
            text = "new nodes replace those that save and restore the model's variables"
            self.notes.append(Remark(text, "new-saver"))
        if keys := sorted(self._keys):
            place = "added to" if serving.checkpoint else "expected in"
            text = f"{counted(len(keys), 'key')} {place} the checkpoint: {named(keys, 3, quoted)}"
            self.notes.append(Remark(text, "new-keys", keys=keys))

    def _spelt(self, key: str) -> str:
        """Returns the key of a clone for the key of the original."""
        before, after = self._scopes
        return after + key.removeprefix(before)

    def _extend(self, serving: Serving, variables: Sequence[Node], slots: Sequence[SavedSlot]) -> None:
        """Plans to extend the ops of the saver by slots of the clones, which follow the present ones.

        Raises:
            EditError: the keys are not constants, or a node that is not extended also uses these constants.
        """
        self.nodes = list(dict.fromkeys(node for slot in slots for node in slot.path))
        for slot in slots:
            items = self._slots.setdefault(slot.op, [])
            if slot.at not in (item.at for item in items[-1:]):
                items.append(slot)
        texts = {op: _texts(op) for op in self._slots}
        taken = {key for found in texts.values() for key in next(iter(found.values()))}
        unique = UniqueNames(lambda key: encode_key(key) in taken)
        new: dict[str, str] = {}  # the keys of the clones, by the original keys
        users: dict[Node, set[Node]] = {}
        for op, items in self._slots.items():
            for row, (node, values) in enumerate(texts[op].items()):
                more = [values[item.at] for item in items]
                for key in map(decode_key, more) if not row else ():
                    new[key] = new.get(key) or unique(self._spelt(key))
                extended = [*values, *(more if row else (encode_key(new[decode_key(key)]) for key in more))]
                if self._constants.setdefault(node, extended) != extended:
                    tensors = "the tensor names of several savers that save different tensors"
                    message = f"{quoted(node.name)} holds {tensors}; it cannot be extended"
                    raise EditError(message, code="outside-uses", node=node.name)
                users.setdefault(node, set()).add(op)
            if op.op == RESTORE:
                count = len(op.output_dtypes or ())
                self.replaced |= {Output(op, item.at): Output(op, count + i) for i, item in enumerate(items)}
        for node, ops in users.items():
            for user in (use.node for use in graph_of(node).uses(node.output)):
                if user not in ops:
                    message = f"{quoted(node.name)} cannot be extended by more keys"
                    message = f"{message}, because {quoted(user.name)} also uses it"
                    raise EditError(message, code="outside-uses", node=node.name, consumer=user.name)
        self._keys = {copy: key for key, copy in new.items()}
        for node in variables:
            own = serving.keys.get(node.base_name or node.name)
            if own is not None and own.tensor in new:
                self._cloned[node] = own._replace(tensor=new[own.tensor])

    def _replace(self, topology: Topology, serving: Serving, variables: Sequence[Node]) -> None:
        """Plans a new saver. Raises EditError if the present one also restores something that is not a variable."""
        run = serving.restoring
        targets = [topology.id_of(topology.graph[name]) for name in (run.targets if run is not None else ())]
        for number in members(topology.upstream(targets)):
            op, name = topology.op(number), topology.name(number)
            if (holds_state(op) or keeps_state(op)) and not (is_variable(op) and name in serving.keys):
                raise EditError(
                    f"{quoted(name)} ({printable(op)}) is also restored from the checkpoint, but a new saver would "
                    "restore only variables",
                    code="outside-uses",
                    advice="inline-first",  # inlined nodes that restore can be extended
                    node=name,
                    op=op,
                )
        known = sorted(topology.id_of(topology.graph[name]) for name in serving.keys if name in topology.graph)
        unique = UniqueNames({key.tensor for key in serving.keys.values()}.__contains__)
        new: dict[str, str] = {}  # the keys of the clones; the slices of a variable have one key
        seen: set[Key] = set()
        for node, key in restored_once(map(topology.node, known), serving.keys).items():
            tensor = key.tensor if key not in seen else unique(node.name)  # a key belongs to one variable
            seen.add(key)
            if tensor != key.tensor:
                self._keys[tensor] = key.tensor
            self._saved[node] = key._replace(tensor=tensor)
            if node in variables:
                new[tensor] = new.get(tensor) or unique(self._spelt(tensor))
                self._keys[new[tensor]] = key.tensor
                self._cloned[node] = key._replace(tensor=new[tensor])
        self._old_nodes = [topology.node(n) for n in sorted(saver_behind(topology, files_restored(topology)))]

    def find_groups(self, topology: Topology, cloned: Collection[Node]) -> None:
        """Finds the groups of initialisers; `cloned` are all cloned nodes."""
        if self._serving is None:
            return
        below = forward_walk(topology, topology.with_ops(filter(is_variable, topology.ops())))
        for node in cloned:
            if node.op not in ASSIGNMENTS or any(below[topology.id_of(read.node)] for read in node.inputs[1:]):
                continue  # a node that copies a variable to a variable is not an initialiser
            for user in self._graph.users(node):
                if user.op == "NoOp" and user not in cloned and node in user.controls:
                    self.groups.setdefault(user, []).append(node)

    def apply(self, copied: NodeCopy, intent: Intent) -> None:
        """Changes the saver, the groups of initialisers and the model after the nodes are copied; extends `intent`."""
        graph, copies, saver = self._graph, copied.nodes, None
        serving = graph.serving
        if self._serving is None or serving is None:
            return
        for op, items in self._slots.items():
            if op.op in SAVES:
                graph.set_inputs(op, [*op.inputs, *(copied.output(slot.tensor) for slot in items)])
            attr = "T" if op.op in ("Save", "SaveSlices") else "dtypes"
            value = op.attr(attr)
            present = value.list.type if value is not None else ()
            graph.set_attr(op, attr, types_value([*present, *(base_dtype(slot.tensor.dtype) for slot in items)]))
        for node, values in self._constants.items():
            graph.set_attr(node, "value", tensor_value(STRING, (len(values),), values))
        for node in (*self._slots, *self._constants):
            if node.has_attr(STATED_SHAPES):
                graph.set_attr(node, STATED_SHAPES, None)
        for group, originals in self.groups.items():
            graph.set_controls(group, [*group.controls, *(copies[node] for node in originals)])
        intent.changed += [node.name for node in (*self._slots, *self._constants, *self.groups)]
        keys = {copies[node]: key for node, key in self._cloned.items()}
        if self._saved:
            keys = self._saved | keys
            saver, added = add_saver(graph, keys, free_scope(graph.names(), SCOPE))
            intent.added += [node.name for node in added]
            functions = [name for node in self._old_nodes for name in functions_of(node)]
            intent.removed += drop_nodes(graph, [node.name for node in self._old_nodes])
            intent.functions.removed = drop_unused_functions(graph, functions)
            assigned = {saved.variable: saved.assign for saved in saver.variables}
            self._assigned = [(assigned[node.name], assigned[copies[node].name]) for node in self._cloned]
        else:
            restored = (node for variable, node in self._assigns.items() if variable.name in self._serving.keys)
            self._assigned = [(node.name, copies[node].name) for node in restored]
        graph.serving = serving._replace(
            keys={**serving.keys, **{node.base_name or node.name: key for node, key in keys.items()}},
            saver=saver or serving.saver,
            copies=(*serving.copies, Copied(*self._scopes, copies, copied.frames, self._keys)),
            before=serving.before or serving,
        )

    def claims(self, copied: NodeCopy, served: Sequence[Output]) -> list[Claim]:
        """Returns the claim that the clone has separate variables, if its variables are restored."""
        if not self._assigned:
            return []
        outputs = tuple((output.name, copied.output(output).name) for output in served)
        source, target = (scope[:-1] for scope in self._scopes)
        return [OwnVariables(tuple(self._assigned), outputs, f"{source} and {target} have separate variables")]
