"""clone-scope: all under a scope is there once more under another, with what initialises it; all else is as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, Copies, FunctionChanges, Intent, Value
from gdsurgeon.compare.surroundings import respelt
from gdsurgeon.container.surroundings import Node as NodeName
from gdsurgeon.container.surroundings import Surroundings, Tensor
from gdsurgeon.container.surroundings import Value as Held
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import types_value
from gdsurgeon.graph.constants import constant, tensor_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import UniqueNames, format_input, free_scope, is_numbered, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.serving import Key, Serving
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    CALLS,
    PASSES_ON,
    PLACEHOLDERS,
    RESOURCE_VARIABLES,
    SAVES,
    TEMPORARY,
    VARIABLE_READS,
    VARIABLES,
    is_variable,
)
from gdsurgeon.specification.savers import Saved, each_once, expect_saver, restoring_rows, say_gone, say_saver
from gdsurgeon.specification.sharing import assignments, called_pairs, names_in_use, sharing_faults
from gdsurgeon.specification.surroundings import Expected
from gdsurgeon.specification.training import (
    Kept,
    kept_places,
    loader_rows,
    of_op,
    read,
    saver_rows,
    slot_rows,
    useless_rows,
    waited_for,
    with_servants,
)
from gdsurgeon.text import or_nothing


def violations(
    comparison: Comparison,
    source: str,
    target: str,
    inputs: Sequence[tuple[str, str]] = (),
    share: Sequence[str] = (),
    unique: bool = False,
    variables: str = "clone",
    with_slots: bool = False,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    asked = _Asked(source, target, inputs, share, unique, variables, with_slots)
    cloned = _cloned(before, comparison.facts.added, asked)
    names, spelt = cloned.names, cloned.spelt
    saver = Saver(before, cloned.kept, spelt)
    outside = {was.removesuffix(":0"): now.removesuffix(":0") for was, now in inputs}
    copies = Copies(before, names, outside | saver.restored(), True, cloned.left)
    pairs = called_pairs(copies, after)
    functions = {mine: its for mine, its in pairs if mine != its}
    intent = Intent(
        added=list(names.values()),
        renamed_functions=functions,
        functions=FunctionChanges(added=list(functions.values())),
        copies=[copies],
    )
    saver.say(intent, names)
    if cloned.has_new_saver:
        say_saver(before, [item for item, _ in _newly_saved(before, cloned)], intent)
        say_gone(before, restoring_rows(before, _serving(before)), intent)
    yield from _groups(comparison, names, intent)
    yield from audit(comparison, intent)
    if len({mine for mine, _ in pairs}) < len(pairs) or len(set(functions.values())) < len(functions):
        yield "one function became two in the clone, or two became one"
    common = names_in_use(before, names, functions=False)
    yield from sharing_faults(comparison, copies, dict(pairs), common)
    for tensor in outside:
        if not any(input.name == tensor for name in names for input in before[name].inputs):
            yield f"no cloned node reads {quoted(tensor)}"


class _Asked(NamedTuple):
    """The arguments of the edit."""

    source: str
    target: str
    inputs: Sequence[tuple[str, str]] = ()
    share: Sequence[str] = ()
    unique: bool = False
    variables: str = "clone"
    with_slots: bool = False


class _Cloned(NamedTuple):
    """What is cloned.

    Attributes:
        names: the names of the clones by those of the originals.
        spelt: returns the name of a clone, or the key of its value, under the new scope.
        left: nodes that are not cloned.
        own: the variables that get values of their own.
        kept: where the model's saver has these variables; none if a new saver replaces it.
        has_new_saver: whether a new saver replaces the model's.
    """

    names: dict[str, str]
    spelt: Callable[[str], str]
    left: set[str]
    own: set[int]
    kept: list[Kept]
    has_new_saver: bool


def _cloned(before: Graph, added: Sequence[str], asked: _Asked) -> _Cloned:
    """Returns what is cloned of BEFORE. ADDED are the names of the nodes that the edit has added."""
    old, new = asked.source.strip("/"), asked.target.strip("/")
    if asked.unique:
        new = free_scope(before.store.names, new)
    under = {name: new + name[len(old) :] for name in before.store.names if name == old or name.startswith(old + "/")}
    left = _left(before, under, shares=asked.variables == "share", with_slots=asked.with_slots)
    names = {name: copy for name, copy in under.items() if not any(re.search(pattern, name) for pattern in asked.share)}
    names = {name: copy for name, copy in names.items() if name not in left}
    replaced = {was.removesuffix(":0") for was, _ in asked.inputs}
    outer = dict.fromkeys(_outside(before, names, asked.variables, replaced), "")
    for name in dict.fromkeys([*outer, *_initialising(before, names | outer, left)]):
        names[name] = under.get(name) or _made_unique(f"{new}/{name}", added, names)
    own = _own(before, names)
    kept = kept_places(before, own, _saver(before)) if before.serving is not None else []
    has_new_saver = _needs_saver(before, own, kept)
    kept = [] if has_new_saver else kept
    for name in dict.fromkeys(before.store.names[row] for place in kept for row in place.path):
        if name not in names:
            names[name] = under.get(name) or _made_unique(f"{new}/{name}", added, names)

    def spelt(key: str) -> str:
        return new + key[len(old) :] if key.startswith(old + "/") else f"{new}/{key}"

    return _Cloned(names, spelt, left, own, kept, has_new_saver)


def _serving(before: Graph) -> Serving:
    serving = before.serving or Serving()
    return serving.before or serving


def around(expected: Expected, found: Surroundings, **asked: Any) -> Iterator[str]:
    """Has EXPECTED list the clones, and restore their values; see `surroundings.wrong_surroundings`."""
    before, values = expected.graph, expected.values
    added = [name for name in expected.now.store.names if name not in before]
    cloned = _cloned(before, added, _Asked(**asked))
    listing = _Listing(cloned)
    for place in [place for place in values if place[0] == "collection"]:
        values[place] = listing.members(values[place], found.get(place))
    if cloned.has_new_saver:
        saved = _newly_saved(before, cloned)
        expect_saver(expected, found, [item for item, _ in saved])
        keys = [(item.key.tensor, of) for item, of in saved]
    else:
        keys = [(new.decode(), old.decode()) for old, new in Saver(before, cloned.kept, cloned.spelt).keys.items()]
    if any(place[0] == "checkpoint" for place in values):
        values.update({("checkpoint", new): values["checkpoint", old] for new, old in keys})
    yield from ()


class _Listing:
    """The collections of a model with clones: records about originals are followed by records about their clones."""

    def __init__(self, cloned: _Cloned) -> None:
        self._names, self._spelt = cloned.names, cloned.spelt

    def members(self, members: Held, found: Held | None) -> Held:
        """Returns the MEMBERS of a collection with those about clones. FOUND has numbers after names in use."""
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
        """Returns the record about the clone of what MEMBER is about, in a list; an empty list if it has no clone."""
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
        return isinstance(name, (NodeName, Tensor)) and parse_tensor(name.removeprefix("^")).node in self._names

    def _clone(self, value: Held) -> Held:
        """Returns VALUE by the names of clones."""
        record = respelt({(): value}, self._name)[()]
        return self._scoped(record)

    def _name(self, text: str) -> str:
        control = "^" if text[:1] == "^" else ""
        node, colon, port = text.removeprefix("^").partition(":")
        return f"{control}{self._names.get(node, node)}{colon}{port}"

    def _scoped(self, value: Held) -> Held:
        """Returns VALUE with the names of contexts and of sliced variables in the new scope."""
        if isinstance(value, tuple):
            return tuple(map(self._scoped, value))
        if not isinstance(value, dict):
            return value
        return {key: self._spelt(str(item)) if key in _SCOPED else self._scoped(item) for key, item in value.items()}

    def _contexts(self, context: dict[str, Held]) -> list[Held]:
        """Returns CONTEXT and that of its clone; if it is not cloned, CONTEXT with clones of nodes inside it."""
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
        """Returns VALUE with the numbers that names in the new scope have in FOUND."""
        if isinstance(value, tuple) and isinstance(found, tuple) and len(value) == len(found):
            return tuple(self._numbered(one, other) for one, other in zip(value, found, strict=True))
        if isinstance(value, dict) and isinstance(found, dict):
            return {name: self._numbered(item, found.get(name), name) for name, item in value.items()}
        return found if key in _SCOPED and isinstance(found, str) and is_numbered(found, str(value)) else value


_SCOPED = ("context_name", "full_name")


def _left(graph: Graph, under: Collection[str], *, shares: bool, with_slots: bool) -> set[str]:
    """The nodes that are not cloned: savers, what loaders run; of those UNDER the scope slots, and what is shared."""
    table = graph.store.table
    inside = {table.rows[name] for name in under}
    fixed = _saver(graph) | loader_rows(graph)
    gone = useless_rows(table, inside, slot_rows(graph, inside), fixed) if not with_slots else set()
    if shares:
        own = {row for row in inside if is_variable(table.op(row))} - gone
        gone |= own | with_servants(table, set(assignments(table, own)) & inside, inside)
    return {table.names[row] for row in fixed | gone}


def _saver(graph: Graph) -> set[int]:
    """The nodes of savers, and of what functions there are that do their work."""
    serving = graph.serving
    return saver_rows(graph.store.table) | (restoring_rows(graph, serving) if serving is not None else set())


def _own(graph: Graph, names: Collection[str]) -> set[int]:
    """The variables among the nodes NAMES that share what they hold with none of the others."""
    table = graph.store.table
    kept = {row for row in of_op(table, *filter(is_variable, table.op_names)) if table.op(row) not in TEMPORARY}
    found = [row for row in kept if table.names[row] in names]
    common = names_in_use(graph, dict.fromkeys(names, ""), functions=False) if found else set()
    return {row for row in found if graph[table.names[row]].text_attr("shared_name") not in common - {""}}


def _outside(graph: Graph, names: Collection[str], which: str, replaced: Collection[str]) -> Iterator[str]:
    """The variables that belong to the nodes NAMES and are none of these, and what stands between."""
    table = graph.store.table
    through = PASSES_ON | VARIABLE_READS if which == "all" else PASSES_ON
    variables = of_op(table, *RESOURCE_VARIABLES, *(VARIABLES - TEMPORARY if which == "all" else ()))
    if which == "share" or not variables:
        return

    def passing(row: int) -> list[int]:
        return [user for user in table.users(row) if table.op(user) in through and read(table, user)[:1] == [row]]

    given = closure(variables, passing)
    starts: set[int] = set()
    for row in (table.rows[name] for name in names):
        if which == "all" or table.op(row) in CALLS or table.op(row) in graph.functions:
            ports = [(code >> Table.PORT_BITS, code & Table.CONTROL_PORT) for code in table.inputs(row) if code >= 0]
            data = [(above, port) for above, port in ports if above in given and port != Table.CONTROL_PORT]
            starts |= {above for above, port in data if format_input(table.names[above], port) not in replaced}
    for row in closure(starts, lambda row: read(table, row)[:1] if table.op(row) in through else []):
        if table.names[row] not in names:
            yield table.names[row]


def _needs_saver(graph: Graph, own: Collection[int], kept: Iterable[Kept]) -> bool:
    """Whether a variable of those that are the clone's OWN is restored, and by no node that is KEPT."""
    serving, table = graph.serving, graph.store.table
    if serving is None:
        return False
    keys = (serving.before or serving).keys

    def called(name: str) -> str:
        return graph[name].text_attr("shared_name") or name

    restores = {place.path[0] for place in kept if table.op(place.op) == "RestoreV2"}
    restored = {called(table.names[row]) for row in own if restores.intersection(assignments(table, [row]))}
    return any(called(table.names[row]) not in restored for row in own if table.names[row] in keys)


def _newly_saved(before: Graph, cloned: _Cloned) -> list[tuple[Saved, str]]:
    """Returns the variables that a new saver has, clones among them, each with the key of the value that it gets."""
    serving, table = _serving(before), before.store.table
    found = each_once(before, serving, (table.rows[name] for name in serving.keys))
    unique = UniqueNames({item.key.tensor for item in found}.__contains__)
    saved: list[tuple[Saved, str]] = []
    clones: dict[str, list[tuple[Saved, str]]] = {}
    seen: set[Key] = set()
    for item in found:
        key = item.key
        if key in seen:
            key = key._replace(tensor=unique(item.name))
        seen.add(item.key)
        saved.append((item._replace(key=key), item.key.tensor))
        if table.rows[item.name] in cloned.own:
            same = clones.setdefault(key.tensor, [])
            its = same[0][0].key.tensor if same else unique(cloned.spelt(key.tensor))
            clone = Saved(cloned.names[item.name], item.name, key._replace(tensor=its))
            same.append((clone, item.key.tensor))
    return [*saved, *sorted(chain(*clones.values()), key=lambda pair: table.rows[pair[0].original])]


class Saver:
    """What becomes of the saver of a model.

    Args:
        graph: before.
        kept: where the saver has the variables that are cloned.
        spelt: the key of a clone, from that of its original.
    """

    def __init__(self, graph: Graph, kept: Iterable[Kept], spelt: Callable[[str], str]) -> None:
        self._places: dict[Node, list[int]] = {}
        for place in kept:
            places = self._places.setdefault(graph[graph.store.names[place.op]], [])
            if place.place not in places:
                places.append(place.place)
        self._texts = {op: [_texts(read.node) for read in op.inputs[1 : 2 if op.op == "Save" else 3]]
                       for op in self._places}  # fmt: skip
        self.keys: dict[bytes, bytes] = {}
        taken = {key for held in self._texts.values() for key in held[0]}
        unique = UniqueNames(lambda key: key.encode() in taken)
        for op, places in self._places.items():
            for key in (self._texts[op][0][at] for at in places):
                if key not in self.keys:
                    self.keys[key] = unique(spelt(key.decode())).encode()

    def restored(self) -> dict[str, str]:
        """For what is restored for an original what is restored for its clone."""
        out: dict[str, str] = {}
        for op, places in self._places.items():
            had = len(op.output_dtypes or ())
            out |= {format_input(op.name, at): format_input(op.name, had + n) for n, at in enumerate(places) if had}
        return out

    def say(self, intent: Intent, names: Mapping[str, str]) -> None:
        """Has INTENT say what becomes of it where nodes are cloned as NAMES."""
        for op, places in self._places.items():
            self._say_of(op, places, intent, names)
            for slot, held in enumerate(self._texts[op]):
                more = [held[at] if slot else self.keys[held[at]] for at in places]
                value = tensor_value(STRING, (len(held) + len(more),), [*held, *more])
                _say(intent, op.inputs[1 + slot].node, {"attr value": value.SerializeToString()})

    def _say_of(self, op: Node, places: Sequence[int], intent: Intent, names: Mapping[str, str]) -> None:
        attr = "dtypes" if op.op in ("RestoreV2", "SaveV2") else "T"
        value = op.attr(attr)
        assert value is not None
        dtypes = list(value.list.type)
        now: dict[str, Value] = {
            f"attr {attr}": types_value([*dtypes, *(dtypes[at] for at in places)]).SerializeToString()
        }
        if op.op in SAVES:
            held = [op.inputs[SAVES[op.op] + at] for at in places]
            more = [format_input(names[output.node.name], output.index) for output in held]
            now["inputs"] = (*(output.name for output in op.inputs), *more)
        _say(intent, op, now)


def _say(intent: Intent, node: Node, now: dict[str, Value]) -> None:
    if node.has_attr("_output_shapes"):  # it would say what is no longer so
        now["attr _output_shapes"] = None
    intent.changed.append(node.name)
    intent.altered += [Altered(node.name, what, value) for what, value in now.items()]


def _texts(node: Node) -> list[bytes]:
    found = constant(node)
    return [item for item in found.values if isinstance(item, bytes)] if found is not None else []


def _groups(comparison: Comparison, names: Mapping[str, str], intent: Intent) -> Iterator[str]:
    """Has INTENT say that what initialises a model initialises the clone, too; yields a line for what does not."""
    before, after = comparison.before, comparison.after
    if before.serving is None:
        return
    table = before.store.table
    starts = [row for op in table.op_names if is_variable(op) for row in of_op(table, op)]
    varying = closure(starts, lambda row: [user for user in table.users(row) if row in read(table, user)])
    more: dict[int, set[str]] = {}
    for name, copy in names.items():
        row = table.rows[name]
        if table.op(row) in ASSIGNMENTS and not varying.intersection(read(table, row)[1:]):
            for user in table.users(row):
                if table.op(user) == "NoOp" and row in waited_for(table, user) and table.names[user] not in names:
                    more.setdefault(user, set()).add(copy)
    for group, copies in more.items():
        node = after.find(table.names[group])
        waits = [control.name for control in node.controls] if node is not None else []
        if set(waits) != copies | {control.name for control in before[table.names[group]].controls}:
            yield f"{quoted(table.names[group])} does not also run {or_nothing(sorted(copies))}"
        intent.changed.append(table.names[group])
        intent.altered.append(Altered(table.names[group], "controls", tuple(waits)))


def _made_unique(name: str, added: Sequence[str], names: dict[str, str]) -> str:
    """What of the nodes that were ADDED has NAME, with a number where that is another's."""
    free = [each for each in added if is_numbered(each, name) and each not in names.values()]
    return free[0] if free else name


def _initialising(graph: Graph, names: dict[str, str], left: Collection[str]) -> list[str]:
    """The nodes, but for those LEFT, outside of NAMES that assign to variables and tables there, or serve only such."""
    table = graph.store.table
    inside = {table.rows[name] for name in names}
    gone = {table.rows[name] for name in left}
    found = set(assignments(table, inside)) - inside - gone
    pending = list(found)
    while pending:
        for code in table.inputs(pending.pop()):
            row = code >> Table.PORT_BITS
            serves = {user for user in table.users(row) if user not in inside} if code >= 0 else {-1}
            if row not in inside | found | gone and table.op(row) not in PLACEHOLDERS and serves <= found:
                found.add(row)
                pending.append(row)
    return [table.names[row] for row in sorted(found)]
