"""The nodes of a file: rows and edges, selections, called functions, and state that nodes share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Copies
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import format_input, parse_tensor
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import RESOURCE, VARIANT, base_dtype
from gdsurgeon.ops.kinds import (
    ASSIGNMENTS,
    BY_NODE_NAME,
    CONTROL_FLOW,
    IDENTITY,
    IN_PLACE,
    PLACEHOLDERS,
    SHARED_NAME,
    TEMPORARY,
    VAR_NAME,
    holds_state,
    may_have,
)
from gdsurgeon.ops.op_defs import op_def
from gdsurgeon.selection import Selection
from gdsurgeon.wire.protos import NameAttrList, NodeDef

Tensor = tuple[int, int]
"""A row, and the index of its output; `CONTROL` for a control edge."""
CONTROL = Table.CONTROL_PORT


class Rows:
    """The rows of a graph as it is in its file."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.table = graph.store.table
        self.names = self.table.names
        self.op = self.table.op
        self.users = self.table.users

    def row(self, tensor: str) -> int:
        """Returns the row of a node or of the producer of a tensor."""
        return self.table.rows[parse_tensor(tensor).node]

    def tensor(self, text: str) -> Tensor:
        """Returns the tensor with a name."""
        return self.row(text), parse_tensor(text).port

    def name(self, tensor: Tensor) -> str:
        """Returns the name of a tensor."""
        return format_input(self.names[tensor[0]], tensor[1])

    def edges(self, row: int) -> list[Tensor]:
        """Returns the inputs of a row, data and control."""
        bits = Table.PORT_BITS
        return [(code >> bits, code & CONTROL) for code in self.table.inputs(row) if code >= 0]

    def producers(self, row: int) -> list[int]:
        """Returns the producers of all inputs."""
        return [code >> Table.PORT_BITS for code in self.table.inputs(row) if code >= 0]

    def reads(self, row: int) -> list[int]:
        """Returns the producers of the data inputs, in order."""
        return [producer for producer, port in self.edges(row) if port != CONTROL]

    def controls(self, row: int) -> list[int]:
        """Returns the control inputs."""
        return [producer for producer, port in self.edges(row) if port == CONTROL]

    def consumers(self, row: int) -> list[int]:
        """Returns the rows that read an output of a row."""
        return [user for user in self.users(row) if row in self.reads(user)]

    def uses(self, tensor: Tensor) -> Iterator[tuple[str, int]]:
        """Yields the consumers of a tensor, each with the slot."""
        for user in self.users(tensor[0]):
            for slot, read in enumerate(self.edges(user)):
                if read == tensor:
                    yield self.names[user], slot

    def has_value(self, row: int) -> bool:
        """Returns whether a row may have outputs that can be fetched."""
        dtypes = self.graph[self.names[row]].output_dtypes
        return dtypes is None or not all(base_dtype(dtype) in (RESOURCE, VARIANT) for dtype in dtypes)

    def of_op(self, ops: Container[str]) -> list[int]:
        """Returns the rows with one of the `ops`."""
        numbers = {number for number, op in enumerate(self.table.op_names) if op in ops}
        return [row for row, number in enumerate(self.table.ops) if number in numbers] if numbers else []

    def above(self, rows: Iterable[int], given: Iterable[Tensor] = ()) -> set[int]:
        """Returns `rows` and all rows that they depend on, if the tensors `given` are known."""
        bits, inputs = Table.PORT_BITS, self.table.inputs
        known = {row << bits | port for row, port in given}
        return closure(rows, lambda row: [code >> bits for code in inputs(row) if code >= 0 and code not in known])


def kept_names(graph: Graph, outputs: Iterable[str]) -> set[str]:
    """Returns the nodes of `outputs`, and those that signatures, savers and loaders of the model name."""
    return {*(graph.serving.nodes if graph.serving is not None else ()), *(parse_tensor(text).node for text in outputs)}


def named_nodes(graph: Graph) -> set[str]:
    """Returns the nodes whose names are used: by the model, or (without signatures) to fetch their values."""
    serving, rows = graph.serving, Rows(graph)
    out = {node.name for node in graph.ends}
    if serving is not None:
        out |= {name for name in serving.nodes if name in graph}
    if serving is None or not serving.called:
        out |= {
            rows.names[row]
            for row, is_unread in enumerate(rows.table.unread)
            if is_unread and rows.op(row) not in ("Const", "NoOp") and rows.has_value(row)
        }
    return out


def lost_functions(graph: Graph, called: Iterable[str], left: Iterable[Node]) -> list[str]:
    """Returns the functions of `graph` that nodes call only by the functions `called`, directly or indirectly.

    Functions that the nodes `left` call, or that no node calls, are not among them.
    """
    library = graph.functions
    lost = set(library.reachable(called, gradients=True))
    others = [name for function in library if (name := function.signature.name) not in lost]
    named = (name for node in left for name in named_by_node(node))
    return sorted(lost.difference(library.reachable([*named, *others], gradients=True)))


# -- selections -------------------------------------------------------------------------------------------


def selected(graph: Graph, what: Selection | Iterable[str]) -> list[str]:
    """Returns the names of the selected nodes, in file order.

    Args:
        graph: as it is in its file.
        what: a selection, or names.
    """
    if not isinstance(what, Selection):
        return list(dict.fromkeys(map(str, what)))
    rows = Rows(graph)
    names = rows.names
    producers = rows.producers if what.control else rows.reads
    readers: dict[int, list[int]] = {}
    for row in range(len(names)) if what.forward or what.between else ():
        for producer in producers(row):
            readers.setdefault(producer, []).append(row)

    def consumers(row: int) -> Iterable[int]:
        return readers.get(row, ())

    if not any((what.nodes, what.regexes, what.ops, what.scopes, what.between, what.forward, what.backward)):
        found = set(range(len(names)))
    else:
        found = {row for row, name in enumerate(names) if _is_named(name, rows.op(row), what)}
        found |= closure(map(rows.row, what.forward), consumers)
        found |= closure(map(rows.row, what.backward), producers)
        for start, end in what.between:
            heads = {rows.row(user) for text in start for user, _ in rows.uses(rows.tensor(text))}
            above, below = closure(map(rows.row, end), producers), closure(heads, consumers)
            found |= above & below
    if what.constants:  # also constants, and rows that depend only on constants, if only selected nodes use them
        first = {*rows.of_op(("Const",))}
        constants = grown(first, rows.users, rows.producers, lambda row: is_pure(graph, rows.op(row)))
        grown(found, rows.producers, rows.users, constants.__contains__)
    ends = {node.name for node in graph.ends}
    return [
        name
        for number, name in enumerate(names)
        if number in found
        and not any(re.search(pattern, name) for pattern in what.exclude)
        and (name not in ends or name in what.nodes)
    ]


def _is_named(name: str, op: str, what: Selection) -> bool:
    path = name.split("/") if what.scopes else []
    scopes = (scope.strip("/").split("/") for scope in what.scopes)
    return (
        name in what.nodes
        or op in what.ops
        or any(re.search(pattern, name) for pattern in what.regexes)
        or any(not scope[0] or path[: len(scope)] == scope for scope in scopes)
    )


def grown(
    rows: set[int],
    step: Callable[[int], Iterable[int]],
    back: Callable[[int], Iterable[int]],
    may_join: Callable[[int], bool],
) -> set[int]:
    """Adds to `rows` each row that a `step` leads to, if it `may_join` and all steps `back` lead to `rows`."""
    counts = Counter[int]()
    pending = list(rows)
    while pending:
        for row in {*step(pending.pop())} - rows:
            counts[row] += 1
            if counts[row] == len({*back(row)}) and may_join(row):
                rows.add(row)
                pending.append(row)
    return rows


def is_pure(graph: Graph, op: str) -> bool:
    """Returns whether nodes with `op` have no effects, and compute the same value in each run."""
    definition = graph.op_def(op)
    return definition is not None and not definition.is_stateful and op not in CONTROL_FLOW | PLACEHOLDERS


# -- functions and state that nodes share ---------------------------------------------------------------------


def called_pairs(copies: Copies, after: Graph) -> list[tuple[str, str]]:
    """Returns the functions that the originals call, directly or indirectly, and their counterparts for the copies."""
    out: dict[tuple[str, str], None] = {}
    if not len(copies.originals.functions):
        return []
    pending: list[tuple[str, str]] = []
    for name, copied in copies.names.items():
        old, new = copies.originals.find(name), after.find(copied)
        if old is not None and new is not None:
            pending += zip(named_by_node(old), named_by_node(new), strict=False)
    while pending:
        pair = pending.pop()
        function = copies.originals.functions.get(pair[0])
        if pair in out or function is None:
            continue
        out[pair] = None
        its = after.functions.get(pair[1])
        for mine, theirs in zip(function.node_def, its.node_def if its is not None else (), strict=False):
            pending += zip(_named_by(mine), _named_by(theirs), strict=False)
    return list(out)


def calling_nodes(graph: Graph) -> Iterator[Node]:
    """Yields the nodes of the original whose op may have functions as attributes."""
    table = graph.store.table
    wanted = {
        number
        for number, op in enumerate(table.op_names)
        if (found := op_def(op)) is None or any("func" in attr.kind for attr in found.attrs.values())
    }
    for row, number in enumerate(table.ops) if wanted else ():
        if number in wanted:
            yield graph[table.names[row]]


def used_functions(graph: Graph, nodes: Iterable[Node] | None = None) -> dict[str, None]:
    """Returns the functions that `nodes` (by default all) of a file call, directly or indirectly, with gradients."""
    callers = calling_nodes(graph) if nodes is None else nodes
    named = dict.fromkeys(name for node in callers for name in named_by_node(node))
    return dict.fromkeys(graph.functions.reachable(named, gradients=True))


def branches_of(node: Node) -> list[NameAttrList]:
    """Returns the functions of an If or Case, in the order of the values of the condition."""
    branches = node.attr("branches")
    if branches is not None:
        return list(branches.list.func)
    sides = node.attr("else_branch"), node.attr("then_branch")
    return [side.func for side in sides if side is not None]


def named_by_node(node: Node) -> list[str]:
    """Returns the op of a node, and the functions that its attributes name."""
    definition = op_def(node.op)
    out = [node.op]
    for key in sorted(node.attr_keys):
        kind = definition.attrs[key].kind if definition is not None and key in definition.attrs else "func"
        value = node.attr(key) if "func" in kind else None
        out += [func.name for func in functions_in(value)] if value is not None else []
    return out


def _named_by(node: NodeDef) -> list[str]:
    return [node.op, *(func.name for key in sorted(node.attr) for func in functions_in(node.attr[key]))]


def assignments(table: Table, rows: Iterable[int]) -> Iterator[int]:
    """Yields the nodes that assign values to the variables and tables in `rows`, also through Identity nodes."""
    holders = [row for row in rows if holds_state(table.op(row))] if any(map(holds_state, table.op_names)) else []
    for holder in holders:  # grows while it is walked
        for user in table.users(holder):
            if table.inputs(user)[0] >> Table.PORT_BITS == holder:
                if table.op(user) in ASSIGNMENTS:
                    yield user
                elif table.op(user) in IDENTITY:
                    holders.append(user)


_Holder = tuple[str, str, str, bool]
"""The name of a copied node, the shared names of the original and of the copy, and whether these are names of nodes."""


def sharing_faults(
    comparison: Comparison, copies: Copies, functions: Mapping[str, str], common: Container[str] = ()
) -> Iterator[str]:
    """Yields the faults in the shared names of copied tables, queues and variables.

    Args:
        comparison: of the original and the edited graph.
        copies: the copied nodes.
        functions: the names of the copied functions, by the names of the originals.
        common: the shared names that the copies have in common with other nodes.
    """
    holders = [*_nodes(copies, comparison.after), *_bodies(copies.originals, comparison.after, functions)]
    used = names_in_use(comparison.before) if holders else ()
    given: dict[str, str] = {}
    for copy, old, new, is_own in holders:
        what = f"{quoted(copy)} has the shared name {quoted(new)}"
        if old and not is_own and old in common:
            if new != old:
                yield f"{what}, not {quoted(old)}"
        elif given.setdefault(old, new) != new and not is_own:
            yield f"{what}, but others have {quoted(given[old])}"
        elif new in used:
            yield f"{what} of an existing node"
    if len(set(given.values())) < len(given):
        yield "one state in the copy belongs to two states of the original"


def _sharing(graph: Graph) -> set[str]:
    """Returns the nodes whose state other nodes may share by a name."""

    def shares(op: str) -> bool:
        definition = graph.op_def(op)
        return op in TEMPORARY or (definition is not None and SHARED_NAME in definition.attrs)

    if graph.is_edited:
        return {node.name for node in graph.nodes() if shares(node.op)}
    rows = Rows(graph)
    return {rows.names[row] for row in rows.of_op(set(filter(shares, rows.table.op_names)))}


def _shared_name(node: Node) -> str:
    """Returns the name by which nodes share the state of a node; ``^name`` if it is a temporary variable."""
    if node.op in TEMPORARY:
        return "^" + (node.text_attr(VAR_NAME) or node.name)
    return node.text_attr(SHARED_NAME) or (node.name if node.plain_attr(BY_NODE_NAME) else "")


def _nodes(copies: Copies, after: Graph) -> Iterator[_Holder]:
    sharing = _sharing(copies.originals)
    for name, copied in copies.names.items() if sharing else ():
        old, new = (copies.originals.find(name), after.find(copied)) if name in sharing else (None, None)
        if old is None or new is None or (old.op in TEMPORARY and not copies.is_own):
            continue
        was, now = _shared_name(old), _shared_name(new)
        is_own = bool(was) and old.op not in TEMPORARY and not old.text_attr(SHARED_NAME)
        if was or now or old.op == "VarHandleOp":  # variables without a name are one
            yield copied, was, now or (new.name if is_own else ""), is_own


def _bodies(originals: Graph, after: Graph, functions: Mapping[str, str]) -> Iterator[_Holder]:
    for name, copied in functions.items():
        old, new = originals.functions.get(name), after.functions.get(copied)
        if old is not None and new is not None:
            theirs = {node.name: _text(node) for node in new.node_def}
            for node in old.node_def:
                if _text(node):
                    yield f"{copied}/{node.name}", _text(node), theirs.get(node.name, ""), False


def names_in_use(graph: Graph, without: Container[str] = (), *, functions: bool = True) -> set[str]:
    """Returns the shared names of the nodes of a graph, and of its functions.

    A variable without a name has the shared name '', and a temporary variable ``^name``.

    Args:
        graph: the graph.
        without: nodes that are left out.
        functions: whether the nodes of functions count.
    """
    nodes = (graph[name] for name in _sharing(graph) if name not in without)
    out = {name for node in nodes if (name := _shared_name(node)) or node.op == "VarHandleOp"}
    if functions:
        out |= {text for function in graph.functions for node in function.node_def if (text := _text(node))}
    return out


def _text(node: NodeDef) -> str:
    return node.attr[SHARED_NAME].s.decode("utf-8", "surrogateescape") if SHARED_NAME in node.attr else ""


def unread(comparison: Comparison, names: Iterable[str]) -> list[str]:
    """Returns the nodes that are unused after an edit because only the nodes `names`, or such nodes, have used them."""
    before, after, rows = comparison.before, comparison.after, Rows(comparison.before)
    starts = set(map(rows.row, names))

    def above(row: int) -> list[int]:
        return [*rows.producers(row), *(rows.row(n.name) for n in before[rows.names[row]].colocated if n.exists)]

    def below(row: int) -> list[int]:
        return [*rows.users(row), *map(rows.row, before.store.colocated(rows.names[row]))]

    def may_join(row: int) -> bool:
        now = after.find(rows.names[row])
        is_used = now is not None and (after.users(now) or after.colocated_with(now))
        return rows.op(row) not in PLACEHOLDERS and not is_used and any(True for _ in rows.users(row))

    return [rows.names[row] for row in sorted(grown({*starts}, above, below, may_join) - starts)]


def overwritten(graph: Graph) -> set[Node]:
    """Returns the nodes whose memory an op may overwrite, and all upstream nodes that share it.

    If a function contains such an op, all arguments and results of its calls count.
    """
    whole = graph if graph.owner is None else graph.owner
    callers = whole.derived(_overwriting)
    is_any = callers or IN_PLACE & {*whole.store.table.op_names}
    if not is_any and not any(node.op in IN_PLACE for node in graph.touched()):
        return set()
    pending = [*graph.ends] if is_any else []
    for node in graph.nodes():
        if node.op in IN_PLACE:
            pending += [read.node for read in node.inputs[:1]]
        elif callers and callers & {*named_by_node(node)}:
            pending += [read.node for read in node.inputs]
    return closure(pending, lambda node: [read.node for read in node.inputs] if may_have(node.op, 0, ()) else ())


def _overwriting(graph: Graph) -> set[str]:
    """Returns the functions with an op that works in place, and all functions that call them."""
    library = graph.functions
    found = [each.signature.name for each in library if not IN_PLACE.isdisjoint(node.op for node in each.node_def)]
    return library.reaching(found) if found else set()
