"""freeze: what the outputs need is there, a constant in the place of each variable; what took handles takes values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Altered, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import REF, RESOURCE
from gdsurgeon.ops.kinds import is_table, is_variable
from gdsurgeon.specification.extract import above, cut_down, needed_rows
from gdsurgeon.specification.sharing import assignments, named_by_node

_BECOMES = {
    "DisableCopyOnRead": "NoOp",
    "ReadVariableOp": "Identity",
    "ResourceGather": "GatherV2",
    "ResourceGatherNd": "GatherNd",
    "VarIsInitializedOp": "Const",
    "VariableShape": "Shape",
}
"""What an op that takes a variable's handle is where it takes the value."""
_AXIS = "/axis"


def violations(
    comparison: Comparison, signatures: Sequence[str] = (), outputs: Sequence[str] = (), inputs: Sequence[str] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    table = before.store.table
    starts, ends = (inputs, outputs) if outputs else _served(before.serving or Serving(), signatures)
    kept = needed_rows(table, starts, ends)
    variables = {row for row in kept if is_variable(table.op(row))}
    readers = closure(variables, lambda row: _passing(before, table, row) & kept) - variables
    kept |= above(table, assignments(table, kept - variables))
    initialising, groups = _initialising(before, {row for row in kept if is_table(table.op(row))})
    intent, faults = cut_down(comparison, kept | initialising, starts)
    yield from faults
    for row, left in groups.items():
        intent.changed.append(table.names[row])
        intent.altered.append(Altered(table.names[row], "controls", tuple(table.names[each] for each in left)))
    for row in variables:
        node = before[table.names[row]]
        controls = [control.name for control in node.controls]
        dtype = node.attr_bytes("dtype")
        attrs = {"dtype": dtype, "value": None}
        intent.altered += made(node.name, "Const", (), controls, node.device, attrs)
        intent.added.append(node.name)
    for row in sorted(readers):
        name, op = table.names[row], table.op(row)
        intent.changed.append(name)
        wanted = _BECOMES.get(op, op.removeprefix("Ref"))
        now = after.find(name)
        if now is not None and now.op != wanted:
            yield f"{quoted(name)} is {quoted(now.op)}, but {quoted(op)} must become {quoted(wanted)}"
        if op == "ResourceGather" and name + _AXIS not in before:
            intent.added.append(name + _AXIS)
    intent.changed = [name for name in intent.changed if name in comparison.facts.altered]
    called = {name for row in readers for name in named_by_node(before[table.names[row]])}
    changed = set(before.functions.reachable(called)) & set(comparison.facts.functions.changed)
    intent.functions.changed = sorted(changed)
    yield from audit(comparison, intent)


def _initialising(graph: Graph, tables: set[int]) -> tuple[set[int], dict[int, list[int]]]:
    """Returns the rows by which a loader initialises TABLES, and the groups among them that lose members.

    Groups, NoOps of other initialisers, come with the rows that they still wait for.
    """
    table, serving = graph.store.table, graph.serving or Serving()
    run = (serving.before or serving).initialising

    def serving_rows(rows: Iterable[int]) -> list[int]:
        return [row for row in rows if not tables.isdisjoint(above(table, [row]))]

    rows: set[int] = set()
    groups: dict[int, list[int]] = {}
    pending = serving_rows(table.rows[name] for name in run.targets) if run is not None else []
    for row in pending:  # grows during the loop
        if table.op(row) != "NoOp" or any(table.op(user) != "NoOp" for user in table.users(row)):
            rows |= above(table, [row])
        elif row not in groups:
            controls = [table.rows[control.name] for control in graph[table.names[row]].controls]
            needed = above(table, serving_rows(controls))
            groups[row] = [control for control in controls if control in needed]
            pending += serving_rows(controls)
    lost = {row: left for row, left in groups.items() if len(left) < len(graph[table.names[row]].controls)}
    return rows | groups.keys(), lost


def _served(serving: Serving, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tensors that the signatures KEYS take and give, or that one which is meant without any."""
    called = serving.called
    wanted = keys or (["serving_default"] if "serving_default" in called else list(called))
    chosen = [called[key] for key in wanted]
    starts = [tensor for served in chosen for tensor in served.inputs.values()]
    return starts, [tensor for served in chosen for tensor in served.outputs.values()]


def _passing(graph: Graph, table: Table, row: int) -> set[int]:
    """The rows that read what is held at ROW: a variable, or what hands its handle on."""
    node = graph[table.names[row]]
    held = {i for i, dtype in enumerate(node.output_dtypes or ()) if dtype == RESOURCE or dtype > REF}
    bits = Table.PORT_BITS
    codes = {row << bits | port for port in held}
    return {user for user in table.users(row) if codes & set(table.inputs(user))}
