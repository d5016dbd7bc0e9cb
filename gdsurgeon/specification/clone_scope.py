"""clone-scope: all nodes under a scope exist again under a new scope, with their initializers and their saver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Copies, FunctionChanges, Intent
from gdsurgeon.compare.surroundings import respelt
from gdsurgeon.container.surroundings import Node as NodeName
from gdsurgeon.container.surroundings import Surroundings, Tensor
from gdsurgeon.container.surroundings import Value as Held
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import UniqueNames, format_input, free_scope, is_numbered, parse_tensor, renaming
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    CALLS,
    PASSES_ON,
    PLACEHOLDERS,
    RESOURCE_VARIABLES,
    SAVES,
    STATED_SHAPES,
    TEMPORARY,
    VARIABLE_READS,
    VARIABLES,
    is_variable,
)
from gdsurgeon.specification.nodes import CONTROL, Rows, assignments, called_pairs, grown, names_in_use, sharing_faults
from gdsurgeon.specification.surroundings import (
    Expected,
    Saved,
    SavedPlace,
    add_saver,
    expect_saver,
    file_serving,
    loader_rows,
    remove_rows,
    restored_variables,
    restoring_rows,
    saved_places,
    saver_rows,
    slot_rows,
    useless_rows,
    with_own_inputs,
)


def clone_scope(comparison: Comparison, **arguments: Any) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    clone = _Clone(before, comparison.facts.added, **arguments)
    names = clone.names
    outside = {was.removesuffix(":0"): now.removesuffix(":0") for was, now in clone.inputs}
    copies = Copies(before, names, outside | clone.restored(), True, clone.left)
    pairs = called_pairs(copies, after)
    functions = {mine: its for mine, its in pairs if mine != its}
    intent = Intent(
        added=list(names.values()),
        renamed_functions=functions,
        functions=FunctionChanges(added=list(functions.values())),
        copies=[copies],
    )
    clone.extend_saver(intent)
    if clone.has_new_saver:
        add_saver(before, [item for item, _ in clone.newly_saved()], intent)
        remove_rows(before, restoring_rows(clone.rows, file_serving(before)), intent)
    clone.initialise(intent)
    yield from audit(comparison, intent)
    if len({mine for mine, _ in pairs}) < len(pairs) or len(set(functions.values())) < len(functions):
        yield "one function became two in the clone, or two became one"
    common = names_in_use(before, names, functions=False)
    yield from sharing_faults(comparison, copies, dict(pairs), common)
    for tensor in outside:
        if not any(read.name == tensor for name in names for read in before[name].inputs):
            yield f"no cloned node reads {quoted(tensor)}"


def around_clone_scope(expected: Expected, found: Surroundings, **arguments: Any) -> None:
    """Adds the clones and their values to the expected surroundings; see `surroundings.wrong_surroundings`."""
    before, values = expected.graph, expected.values
    added = [name for name in expected.now.store.names if name not in before]
    clone = _Clone(before, added, **arguments)
    for place in [place for place in values if place[0] == "collection"]:
        values[place] = clone.listed(values[place], found.get(place))
    keys = [(new.decode(), old.decode()) for old, new in clone.keys.items()]
    if clone.has_new_saver:
        saved = clone.newly_saved()
        expect_saver(expected, found, [item for item, _ in saved])
        keys = [(item.key.tensor, original) for item, original in saved]
    if any(place[0] == "checkpoint" for place in values):
        values.update({("checkpoint", new): values["checkpoint", old] for new, old in keys})


class _Clone:
    """The cloned nodes of a graph.

    Args:
        graph: before the edit.
        added: the names of the added nodes.
        source, target, inputs, share, unique, variables, with_slots: the arguments of the edit.

    Attributes:
        names: the names of the clones.
        left: nodes that are not cloned.
        own: the variables that get new values.
        has_new_saver: whether a new saver replaces the saver of the model.
        keys: the new keys of the extended saver, by the original keys.
    """

    def __init__(
        self,
        graph: Graph,
        added: Sequence[str],
        source: str,
        target: str,
        inputs: Sequence[tuple[str, str]] = (),
        share: Sequence[str] = (),
        unique: bool = False,
        variables: str = "clone",
        with_slots: bool = False,
    ) -> None:
        self.graph, self.inputs, self._variables, self._with_slots = graph, inputs, variables, with_slots
        self.rows = rows = Rows(graph)
        self._old, self._new = old, new = source.strip("/"), target.strip("/")
        if unique:
            self._new = new = free_scope(rows.names, new)
        self._under = {name: new + name[len(old) :] for name in rows.names if f"{name}/".startswith(f"{old}/")}
        self._added = added
        self._saver = saver_rows(rows)
        self.left = self._left()
        self.names = {
            name: copy
            for name, copy in self._under.items()
            if name not in self.left and not (share and any(re.search(p, name) for p in share))
        }
        outer = dict.fromkeys(self._outside(), "")
        self._name([*outer, *self._initialising(self.names | outer)])
        self.own = self._own()
        places = saved_places(rows, self.own, self._saver) if graph.serving is not None else []
        self.has_new_saver = self._needs_saver(places)
        places = [] if self.has_new_saver else places
        self._name([rows.names[row] for place in places for row in place.path])
        self._places: dict[Node, list[int]] = {}
        for place in places:
            found = self._places.setdefault(graph[rows.names[place.op]], [])
            found += [place.at] if place.at not in found else []
        self._texts = {op: [_texts(read.node) for read in op.inputs[1 : 2 if op.op == "Save" else 3]]
                       for op in self._places}  # fmt: skip
        self.keys: dict[bytes, bytes] = {}
        taken = {key for texts in self._texts.values() for key in texts[0]}
        free_key = UniqueNames(lambda key: key.encode() in taken)
        for op, indices in self._places.items():
            for key in (self._texts[op][0][at] for at in indices):
                if key not in self.keys:
                    self.keys[key] = free_key(self.spelt(key.decode())).encode()

    def spelt(self, key: str) -> str:
        """Returns a key or name in the new scope."""
        return self._new + key[len(self._old) :] if key.startswith(self._old + "/") else f"{self._new}/{key}"

    def _name(self, nodes: Sequence[str]) -> None:
        """Adds the names of the clones of nodes outside of the scope, made unique."""
        for name in dict.fromkeys(nodes):
            if name not in self.names:
                copy = f"{self._new}/{name}"
                free = [each for each in self._added if is_numbered(each, copy) and each not in self.names.values()]
                self.names[name] = self._under.get(name) or (free[0] if free else copy)

    def _left(self) -> set[str]:
        """Returns the savers, the nodes that loaders run, and slots and shared variables in the scope."""
        rows = self.rows
        inside = {rows.table.rows[name] for name in self._under}
        fixed = self._saver | loader_rows(rows)
        left = useless_rows(rows, inside, slot_rows(rows, inside), fixed) if not self._with_slots else set()
        if self._variables == "share":
            own = {row for row in inside if is_variable(rows.op(row))} - left
            left |= own | with_own_inputs(rows, set(assignments(rows.table, own)) & inside, inside)
        return {rows.names[row] for row in fixed | left}

    def _own(self) -> set[int]:
        """Returns the cloned variables that do not share their values with other nodes."""
        rows = self.rows
        variables = set(filter(is_variable, rows.table.op_names)) - TEMPORARY
        found = [row for row in rows.of_op(variables) if rows.names[row] in self.names]
        common = names_in_use(self.graph, self.names, functions=False) if found else set()
        return {row for row in found if self.graph[rows.names[row]].text_attr("shared_name") not in common - {""}}

    def _outside(self) -> Iterator[str]:
        """Yields the variables outside of the scope that belong to it, and the nodes in between."""
        rows, which = self.rows, self._variables
        through = PASSES_ON | VARIABLE_READS if which == "all" else PASSES_ON
        variables = rows.of_op(RESOURCE_VARIABLES | (VARIABLES - TEMPORARY if which == "all" else set()))
        if which == "share" or not variables:
            return
        replaced = {rows.tensor(was) for was, _ in self.inputs}

        def passing(row: int) -> list[int]:
            return [user for user in rows.users(row) if rows.op(user) in through and rows.reads(user)[:1] == [row]]

        forwarded = closure(variables, passing)
        starts = {
            edge[0]
            for row in (rows.table.rows[name] for name in self.names)
            if which == "all" or rows.op(row) in CALLS or rows.op(row) in self.graph.functions
            for edge in rows.edges(row)
            if edge[0] in forwarded and edge[1] != CONTROL and edge not in replaced
        }
        for row in closure(starts, lambda row: rows.reads(row)[:1] if rows.op(row) in through else []):
            if rows.names[row] not in self.names:
                yield rows.names[row]

    def _initialising(self, names: Mapping[str, str]) -> list[str]:
        """Returns the nodes outside that assign to cloned variables and tables, and the nodes that only these use."""
        rows = self.rows
        inside = {rows.table.rows[name] for name in names}
        left = {rows.table.rows[name] for name in self.left}
        found = set(assignments(rows.table, inside)) - inside - left

        def may_join(row: int) -> bool:
            return row not in inside | left and rows.op(row) not in PLACEHOLDERS

        return [
            rows.names[row]
            for row in sorted(grown(found, rows.producers, lambda row: {*rows.users(row)} - inside, may_join))
        ]

    def _needs_saver(self, places: Sequence[SavedPlace]) -> bool:
        """Returns whether a cloned variable is restored, but not by one of the `places`."""
        rows, keys = self.rows, file_serving(self.graph).keys if self.graph.serving is not None else {}

        def called(row: int) -> str:
            return self.graph[rows.names[row]].text_attr("shared_name") or rows.names[row]

        restores = {place.path[0] for place in places if rows.op(place.op) == "RestoreV2"}
        restored = {called(row) for row in self.own if restores.intersection(assignments(rows.table, [row]))}
        return any(called(row) not in restored for row in self.own if rows.names[row] in keys)

    def newly_saved(self) -> list[tuple[Saved, str]]:
        """Returns the variables of a new saver, including clones, each with the key of its present value."""
        rows = self.rows
        found = restored_variables(rows, (rows.table.rows[name] for name in file_serving(self.graph).keys))
        unique = UniqueNames({item.key.tensor for item in found}.__contains__)
        saved: list[tuple[Saved, str]] = []
        clones: dict[str, list[tuple[Saved, str]]] = {}
        seen: set[Key] = set()
        for item in found:
            key, present = item.key, item.key.tensor
            if key in seen:
                key = key._replace(tensor=unique(item.name))
            seen.add(item.key)
            saved.append((item._replace(key=key), present))
            if rows.table.rows[item.name] in self.own:
                same = clones.setdefault(key.tensor, [])
                new = same[0][0].key.tensor if same else unique(self.spelt(key.tensor))
                same.append((Saved(self.names[item.name], item.name, key._replace(tensor=new)), present))
        return [*saved, *sorted(chain(*clones.values()), key=lambda pair: rows.table.rows[pair[0].original])]

    def restored(self) -> dict[str, str]:
        """Returns the restored tensors of the clones, by those of the originals."""
        out: dict[str, str] = {}
        for op, indices in self._places.items():
            had = len(op.output_dtypes or ())
            out |= {format_input(op.name, at): format_input(op.name, had + n) for n, at in enumerate(indices) if had}
        return out

    def extend_saver(self, intent: Intent) -> None:
        """Declares the changes of the ops of the saver, and of their constants."""
        for op, indices in self._places.items():
            attr = "dtypes" if op.op in ("RestoreV2", "SaveV2") else "T"
            value = op.attr(attr)
            assert value is not None
            dtypes = list(value.list.type)
            intent.alter(op.name, {f"attr {attr}": types_value([*dtypes, *(dtypes[at] for at in indices)])})
            if op.op in SAVES:
                saved = [op.inputs[SAVES[op.op] + at] for at in indices]
                more = [format_input(self.names[output.node.name], output.index) for output in saved]
                intent.alter(op.name, {"inputs": (*(output.name for output in op.inputs), *more)})
            for slot, texts in enumerate(self._texts[op]):
                more_texts = [texts[at] if slot else self.keys[texts[at]] for at in indices]
                new = tensor_value(STRING, (len(texts) + len(indices),), [*texts, *more_texts])
                intent.alter(op.inputs[1 + slot].node.name, {"attr value": new})
            for node in (op, *(read.node for read in op.inputs[1 : 1 + len(self._texts[op])])):
                if node.has_attr(STATED_SHAPES):  # these would be wrong
                    intent.alter(node.name, {f"attr {STATED_SHAPES}": None})

    def initialise(self, intent: Intent) -> None:
        """Declares that initializers of the model also initialize the clone."""
        rows = self.rows
        if self.graph.serving is None:
            return
        varying = closure(rows.of_op(set(filter(is_variable, rows.table.op_names))), rows.consumers)
        groups: dict[str, set[str]] = {}
        for name, copy in self.names.items():
            row = rows.table.rows[name]
            if rows.op(row) in ASSIGNMENTS and not varying.intersection(rows.reads(row)[1:]):
                for user in rows.users(row):
                    if rows.op(user) == "NoOp" and row in rows.controls(user) and rows.names[user] not in self.names:
                        groups.setdefault(rows.names[user], set()).add(copy)
        for group, copies in groups.items():
            controls = {control.name for control in self.graph[group].controls}
            intent.alter(group, {"controls": frozenset(copies | controls)})

    # -- collections: records of clones follow the records of their originals --

    def listed(self, members: Held, found: Held | None) -> Held:
        """Returns the members of a collection, and those of clones. `found` has numbers after names in use."""
        if not isinstance(members, tuple):
            return members
        out: list[Held] = []
        more: list[Held] = []
        for member in members:
            kind = member.get("message") if isinstance(member, dict) else ""
            if isinstance(member, dict) and kind in ("WhileContextDef", "CondContextDef"):
                out += self._contexts(member)
            else:
                out.append(member)
                more += self._copy(member)
        return self._numbered((*out, *more), found)

    def _copy(self, member: Held) -> list[Held]:
        """Returns the record of the clone in a list; an empty list if there is no clone."""
        names: Held | None = member
        if isinstance(member, dict):
            kind = member.get("message")
            names = member.get({"VariableDef": "variable_name", "QueueRunnerDef": "queue_name"}.get(str(kind), ""))
            if kind == "QueueRunnerDef" and names is not None:
                filling = member.get("enqueue_op_name", ())
                assert isinstance(filling, tuple)
                own = tuple(name for name in filling if self._is_cloned(name))
                member = {**member, "enqueue_op_name": own}
                names = names if own else None
        return [self._clone(member)] if names is not None and self._is_cloned(names) else []

    def _is_cloned(self, name: Held) -> bool:
        return isinstance(name, (NodeName, Tensor)) and parse_tensor(name.removeprefix("^")).node in self.names

    def _clone(self, value: Held) -> Held:
        """Returns `value` with the names of clones."""
        return self._scoped(respelt({(): value}, renaming(self.names))[()])

    def _scoped(self, value: Held) -> Held:
        """Returns `value` with the names of contexts and of sliced variables in the new scope."""
        if isinstance(value, tuple):
            return tuple(map(self._scoped, value))
        if not isinstance(value, dict):
            return value
        return {key: self.spelt(str(item)) if key in _SCOPED else self._scoped(item) for key, item in value.items()}

    def _contexts(self, context: dict[str, Held]) -> list[Held]:
        """Returns `context` and its clone; if it is not cloned, `context` with the clones of its nodes."""
        if self._is_cloned(context.get("pivot_name", "")):
            return [context, self._clone(context)]
        context = dict(context)
        held = context.get("values_def")
        if isinstance(held, dict) and isinstance(values := held.get("values"), tuple):
            more = tuple(self._clone(name) for name in values if self._is_cloned(name))
            context["values_def"] = {**held, "values": (*values, *more)}
        nested = context.get("nested_contexts", ())
        if nested:
            assert isinstance(nested, tuple)
            pairs = [(kind, self._contexts(inner)) for item in nested if isinstance(item, dict)
                     for kind, inner in item.items() if isinstance(inner, dict)]  # fmt: skip
            firsts = [{kind: inner} for kind, (inner, *_) in pairs]
            copies = [{kind: copy} for kind, (_, *its) in pairs for copy in its]
            context["nested_contexts"] = (*firsts, *copies)
        return [context]

    def _numbered(self, value: Held, found: Held | None, key: str = "") -> Held:
        """Returns `value` with the numbers that names in the new scope have in `found`."""
        if isinstance(value, tuple) and isinstance(found, tuple) and len(value) == len(found):
            return tuple(self._numbered(one, other) for one, other in zip(value, found, strict=True))
        if isinstance(value, dict) and isinstance(found, dict):
            return {name: self._numbered(item, found.get(name), name) for name, item in value.items()}
        return found if key in _SCOPED and isinstance(found, str) and is_numbered(found, str(value)) else value


def _texts(node: Node) -> list[bytes]:
    found = constant(node)
    return [item for item in found.values if isinstance(item, bytes)] if found is not None else []


_SCOPED = ("context_name", "full_name")
