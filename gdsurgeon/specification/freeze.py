"""freeze: keeps the nodes that the outputs need, with constants instead of variables, and values instead of handles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.errors import quoted
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import REF, RESOURCE
from gdsurgeon.ops.kinds import is_table, is_variable
from gdsurgeon.specification.extract import cut_down, needed_rows
from gdsurgeon.specification.rows import Rows
from gdsurgeon.specification.savers import file_serving
from gdsurgeon.specification.sharing import assignments, named_by_node

_VALUE_OPS = {
    "DisableCopyOnRead": "NoOp",
    "ReadVariableOp": "Identity",
    "ResourceGather": "GatherV2",
    "ResourceGatherNd": "GatherNd",
    "VarIsInitializedOp": "Const",
    "VariableShape": "Shape",
}
"""Ops on the handle of a variable, with the op on its value."""
_AXIS = "/axis"


def violations(
    comparison: Comparison, signatures: Sequence[str] = (), outputs: Sequence[str] = (), inputs: Sequence[str] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    rows = Rows(before)
    names = rows.names
    starts, ends = (inputs, outputs) if outputs else _served(before, signatures)
    kept = needed_rows(rows, starts, ends)
    variables = {row for row in kept if is_variable(rows.op(row))}
    readers = closure(variables, lambda row: _forwarding(rows, row) & kept) - variables
    kept |= rows.above(assignments(rows.table, kept - variables))
    initialising, groups = _initialising(rows, {row for row in kept if is_table(rows.op(row))})
    intent, faults = cut_down(comparison, rows, kept | initialising, starts)
    yield from faults
    for row, left in groups.items():
        intent.alter(names[row], {"controls": tuple(names[each] for each in left)})
    for row in variables:
        node = before[names[row]]
        controls = [control.name for control in node.controls]
        attrs = {"dtype": node.attr_bytes("dtype"), "value": None}
        intent.add(node.name, "Const", (), controls, node.device, attrs)
    for row in sorted(readers):
        name, op = names[row], rows.op(row)
        intent.changed.append(name)
        expected = _VALUE_OPS.get(op, op.removeprefix("Ref"))
        now = after.find(name)
        if now is not None and now.op != expected:
            yield f"{quoted(name)} is {quoted(now.op)}, but {quoted(op)} must become {quoted(expected)}"
        if op == "ResourceGather" and name + _AXIS not in before:
            intent.added.append(name + _AXIS)
    intent.changed = [name for name in intent.changed if name in comparison.facts.altered]
    called = {name for row in readers for name in named_by_node(before[names[row]])}
    changed = set(before.functions.reachable(called)) & set(comparison.facts.functions.changed)
    intent.functions.changed = sorted(changed)
    yield from audit(comparison, intent)


def _initialising(rows: Rows, tables: set[int]) -> tuple[set[int], dict[int, list[int]]]:
    """Returns the rows by which a loader initializes `tables`, and the groups that lose members, with the kept ones.

    A group is a NoOp that depends on initializers.
    """
    run = file_serving(rows.graph).initialising

    def needed_for_tables(found: Iterable[int]) -> list[int]:
        return [row for row in found if not tables.isdisjoint(rows.above([row]))]

    out: set[int] = set()
    groups: dict[int, list[int]] = {}
    pending = needed_for_tables(map(rows.row, run.targets)) if run is not None else []
    for row in pending:  # grows during the loop
        if rows.op(row) != "NoOp" or any(rows.op(user) != "NoOp" for user in rows.users(row)):
            out |= rows.above([row])
        elif row not in groups:
            needed = needed_for_tables(dict.fromkeys(rows.controls(row)))
            above = rows.above(needed)
            groups[row] = [control for control in dict.fromkeys(rows.controls(row)) if control in above]
            pending += needed
    lost = {row: left for row, left in groups.items() if len(left) < len({*rows.controls(row)})}
    return out | groups.keys(), lost


def _served(graph: Graph, keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the inputs and outputs of the signatures `keys`, or of the default one."""
    called = (graph.serving or Serving()).called
    chosen = [called[key] for key in keys or (["serving_default"] if "serving_default" in called else list(called))]
    starts = [tensor for served in chosen for tensor in served.inputs.values()]
    return starts, [tensor for served in chosen for tensor in served.outputs.values()]


def _forwarding(rows: Rows, row: int) -> set[int]:
    """Returns the rows that read a handle or reference: a variable, or a forwarded handle."""
    dtypes = rows.graph[rows.names[row]].output_dtypes or ()
    held = {(row, index) for index, dtype in enumerate(dtypes) if dtype == RESOURCE or dtype > REF}
    return {user for user in rows.users(row) if not held.isdisjoint(rows.edges(user))}
