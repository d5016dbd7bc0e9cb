"""table-to-gather: replaces lookups in tables with the integer keys 0, 1, 2, ... by GatherV2 nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.compare.intent import Intent, Rewired
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.decorator import edit, of_selection
from gdsurgeon.edits.functions import shared_names_of
from gdsurgeon.edits.node_copies import shared_name
from gdsurgeon.edits.replacing import drop_nodes, remove_unused
from gdsurgeon.errors import EditError, Json, NothingToDo, Remark, quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import constant, raw_value, tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import DTYPES, INT32, INT64, dtype_name
from gdsurgeon.ops.kinds import TABLE_INITIALIZERS, is_table
from gdsurgeon.select import Nodes, nodes_of
from gdsurgeon.text import Entry, an, counted
from gdsurgeon.wire.protos import AttrValue

TABLES = frozenset(("HashTable", "HashTableV2"))
LOOKUPS = frozenset(("LookupTableFind", "LookupTableFindV2"))


@edit(nodes=of_selection)
def table_to_gather(graph: Graph, nodes: Nodes | None = None) -> EditResult:
    """Replaces lookups in constant tables by GatherV2 nodes, which need no initializer.

    The keys of a table must be the integers 0 to n - 1, in any order. The GatherV2 reads a constant with the values in
    the order of their keys, and the default value before and after them. Keys outside of the range are limited to the
    places of the default values. The table, its initializer and unused constants are removed. An initializer becomes a
    NoOp if the loader of a SavedModel runs it.

    Args:
        graph: changed in place.
        nodes: a selection, or names or nodes of this graph. The tables among these nodes are replaced. None: all tables
            that can be replaced; the notes of the result list the other tables, with reasons.

    Raises:
        EditError: no table is selected, or a selected table cannot be replaced. The graph is unchanged.
        NothingToDo: `nodes` is None, and no table can be replaced.
    """
    top = topology_of(graph)
    tables = [top.node(number) for number in top.with_ops(filter(is_table, top.ops()))]
    shared = Counter(map(shared_name, tables))
    if not graph.is_body:
        shared.update(name for function in graph.functions for name in shared_names_of(function))
    selected = nodes_of(graph, nodes) if nodes is not None else tables
    tables = [node for node in selected if is_table(node.op)]
    if nodes is not None and not tables:
        names = [node.name for node in selected[:5]]
        raise EditError(
            f"no lookup table is selected: {', '.join(map(quoted, names))}", code="not-a-table", nodes=names
        )
    found: list[_Table] = []
    reasons: list[Remark] = []
    for node in tables:
        table = _read(graph, node, shared)
        if isinstance(table, _Table):
            found.append(table)
        elif nodes is not None:
            raise EditError(table, code=table.code, facts=table.facts)
        else:
            reasons.append(table)
    if not found:
        line = reasons[0] if len(reasons) == 1 else f"none of the {len(reasons)} lookup tables can be replaced"
        line = f"nothing would change: {line if reasons else 'the graph has no lookup table'}"
        raise NothingToDo(line, details=tuple(reasons[:20]), tables=[reason.as_json() for reason in reasons])
    intent = Intent()
    for table in found:
        _replace(graph, table, intent)
    told = [Entry("replaced", f"{table.node.name}: {counted(len(table.lookups), 'lookup')}") for table in found]
    facts: dict[str, Json] = {"tables": {table.node.name: [node.name for node in table.lookups] for table in found}}
    lookups = tuple(node.name for table in found for node in table.lookups)
    return EditResult(intent, (SameOutputs(also=lookups),), notes=list(reasons), told=told, facts=facts)


class _Table(NamedTuple):
    """A table that can be replaced.

    Attributes:
        node: the table.
        initializer: the node that fills it.
        lookups: its lookups, each with its default value.
        values: the values, in the order of their keys.
        dtype: of the values.
    """

    node: Node
    initializer: Node
    lookups: Mapping[Node, object]
    values: list[object]
    dtype: int


def _read(graph: Graph, node: Node, shared: Counter[str]) -> _Table | Remark:
    """Returns a table that can be replaced, or the reason why not."""

    def reason(code: str, text: str, **facts: Json) -> Remark:
        return Remark(f"{quoted(node.name)} cannot be replaced: {text}", code, table=node.name, **facts)

    if node.op not in TABLES:
        return reason("unsupported-table", f"it is {an(node.op)}, not a HashTable", op=node.op)
    key_dtype, dtype = (node.plain_attr(key) for key in ("key_dtype", "value_dtype"))
    if key_dtype not in (INT32, INT64) or not isinstance(dtype, int):
        kind = dtype_name(key_dtype) if isinstance(key_dtype, int) else "unknown"
        return reason("keys-not-integers", f"its keys are {kind}, expected int32 or int64", dtype=kind)
    initializers: list[Node] = []
    lookups: list[Node] = []
    for user in graph.users(node):
        is_first = [read.node for read in user.inputs].count(node) == 1 and user.inputs[0].node is node
        if user.op not in LOOKUPS | TABLE_INITIALIZERS or not is_first or node in user.controls:
            return reason("used-elsewhere", f"{quoted(user.name)} ({user.op}) also uses it", user=user.name)
        (lookups if user.op in LOOKUPS else initializers).append(user)
    name = shared_name(node)
    if name and shared[name] > 1:
        return reason("shared-table", f"a different node has its shared name {quoted(name)}", shared_name=name)
    if len(initializers) != 1:
        problem = "several nodes initialize it" if initializers else "no node initializes it"
        return reason("not-initialized-once", problem, nodes=[each.name for each in initializers])
    if not lookups:
        return reason("no-lookup", "it has no lookup")
    (initializer,) = initializers
    if "TextFile" in initializer.op:
        return reason("values-in-a-file", f"{quoted(initializer.name)} reads its values from a file")
    reads = [*initializer.inputs[1:], *(lookup.inputs[2] for lookup in lookups)]
    parts = [found.values for read in reads if (found := constant(read.node)) is not None]
    if len(parts) < len(reads):
        bad = next(read for read in reads if constant(read.node) is None)
        return reason("not-constant", f"{quoted(bad.name)} is not a constant of at most 1 MiB", tensor=bad.name)
    keys, values, *defaults = parts
    if any(len(default) != 1 for default in defaults):
        return reason("bad-default", "a default value is not a scalar")
    by_key = dict(zip(keys, values, strict=False))
    if len(keys) != len(values) or len(by_key) != len(keys) or by_key.keys() != {*range(len(keys))}:
        return reason("keys-not-dense", f"its keys are not the integers 0 to {len(keys) - 1}")
    fillers = {lookup: default[0] for lookup, default in zip(lookups, defaults, strict=True)}
    return _Table(node, initializer, fillers, [by_key[key] for key in range(len(keys))], dtype)


def _replace(graph: Graph, table: _Table, intent: Intent) -> None:
    """Replaces the lookups of a table, and removes the table."""
    node, initializer, key_dtype = table.node, table.initializer, table.node.plain_attr("key_dtype")
    assert isinstance(key_dtype, int)
    serving = serving_of(graph)
    loading = serving.initialising.targets if serving is not None and serving.initialising is not None else ()
    going = [node] if initializer.name in loading else [node, initializer]
    unique = graph.unique_names()
    reads: list[Output] = [*initializer.inputs[1:], *(lookup.inputs[2] for lookup in table.lookups)]
    if initializer not in going:  # a loader runs it by its name
        graph.replace_op(initializer, "NoOp", [], dict.fromkeys(("Tkey", "Tval", "Tin", "Tout")))
        intent.changed.append(initializer.name)
    for user in graph.users(initializer) if initializer in going else ():
        controls = [c for old in user.controls for c in ((old,) if old is not initializer else initializer.controls)]
        graph.set_controls(user, dict.fromkeys(c for c in controls if c not in (*going, user)))
        intent.changed += [user.name] if user not in table.lookups else []

    def add(name: str, op: str, inputs: list[Output], **attrs: AttrValue) -> Output:
        controls = () if inputs else [control for control in node.controls if control is not initializer]
        made = graph.add(unique(name), op, inputs, controls, attrs=attrs, device=node.device, after=node)
        intent.added.append(made.name)
        return made.output

    def number(name: str, value: int, dtype: int) -> Output:
        content = value.to_bytes(DTYPES[dtype].size, "little", signed=True)
        return add(f"{node.name}/{name}", "Const", [], dtype=type_value(dtype), value=raw_value(dtype, (), content))

    low, high, one = (
        number(name, value, key_dtype) for name, value in (("low", -1), ("high", len(table.values)), ("one", 1))
    )
    axis = number("axis", 0, INT32)
    params: dict[bytes, Output] = {}
    for lookup, filler in table.lookups.items():
        _, keys, default = lookup.inputs
        data = default.node.attr_bytes("value") or b""
        if data not in params:
            items = [filler, *table.values, filler]
            value = tensor_value(table.dtype, (len(items),), items)
            params[data] = add(f"{node.name}/values", "Const", [], dtype=type_value(table.dtype), value=value)
        index = keys
        for name, op, other in (("from_low", "Maximum", low), ("to_high", "Minimum", high), ("index", "Add", one)):
            index = add(f"{lookup.name}/{name}", op, [index, other], T=type_value(key_dtype))
        new = [params[data], index, axis]
        intent.rewired += [
            Rewired(lookup.name, slot, old.name, now.name)
            for slot, (old, now) in enumerate(zip(lookup.inputs, new, strict=True))
        ]
        types = {"Tparams": table.dtype, "Tindices": key_dtype, "Taxis": INT32}
        attrs = {key: type_value(dtype) for key, dtype in types.items()}
        graph.replace_op(lookup, "GatherV2", new, {"Tin": None, "Tout": None, **attrs})
        intent.changed.append(lookup.name)
    intent.removed += drop_nodes(graph, [node.name for node in going])
    intent.removed += remove_unused(graph, dict.fromkeys(read.node for read in reads))
