"""table-to-gather: lookups in tables with dense integer keys are GatherV2 nodes that return the same value for any key.

The new nodes of each lookup are evaluated here for keys inside and outside of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import DTYPES, INT32, INT64
from gdsurgeon.selection import Selection
from gdsurgeon.specification.nodes import selected, unread

_OPS: Mapping[str, Callable[[int, int], int]] = {"Maximum": max, "Minimum": min, "Add": add}

_FILLS = ("InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2")


def table_to_gather(comparison: Comparison, nodes: Selection | Iterable[str] | None = None) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after, intent = comparison.before, comparison.after, Intent()
    initialising = before.serving.initialising if before.serving is not None else None
    run_by_loaders = initialising.targets if initialising is not None else ()
    names = {*(before.names() if nodes is None else selected(before, nodes))}
    gone, kept, lookups = set[str](), set[str](), list[str]()
    tables = [node for node in before.nodes() if "HashTable" in node.op]
    shared = _shared_names(before, tables)
    for table in [node for node in tables if node.name in names]:
        values = _values(before, table, shared)
        if values is None:
            if nodes is not None:
                yield f"{quoted(table.name)} has no dense integer keys, or is used elsewhere"
            continue
        for user in before.users(table):
            if "Find" not in user.op:
                gone |= {table.name, user.name}
                if user.name in run_by_loaders:
                    kept.add(user.name)
                    types = {f"attr {key}": None for key in user.attr_keys if key[:1] == "T"}
                    intent.alter(user.name, {"op": "NoOp", "inputs": (), **types})
                continue
            lookups.append(user.name)
            yield from _lookup(intent, table, user, after[user.name], values, frozenset(comparison.facts.added))
    intent.removed = [*(gone - kept), *unread(comparison, [*gone, *lookups])]
    for fill in [before[name] for name in gone - kept if before[name].op in _FILLS]:
        for user in before.users(fill):
            if fill in user.controls and user.name not in gone:
                controls = {c.name for old in user.controls for c in ([old] if old != fill else fill.controls)}
                intent.alter(user.name, {"controls": tuple(sorted(controls - gone - {user.name}))})
    yield from audit(comparison, intent)


def _values(graph: Graph, table: Node, shared: Counter[str]) -> list[object] | None:
    """Returns the values of a table by key; None if the table cannot be replaced."""
    users = graph.users(table)
    finds = [user for user in users if user.op.startswith("LookupTableFind")]
    fills = [user for user in users if user.op.startswith(("InitializeTable", "LookupTableImport"))]
    name = _shared_name(table)
    is_alone = len(finds) + len(fills) == len(users) and (not name or shared[name] == 1)
    if table.op not in ("HashTable", "HashTableV2") or not finds or len(fills) != 1 or not is_alone:
        return None
    if "File" in fills[0].op or table.plain_attr("key_dtype") not in (INT32, INT64):
        return None
    keys, values = (constant(read.node) for read in fills[0].inputs[1:])
    if keys is None or values is None or sorted(keys.values) != [*range(len(values.values))]:
        return None
    if any((found := constant(find.inputs[2].node)) is None or len(found.values) != 1 for find in finds):
        return None
    pairs: dict[object, object] = dict(zip(keys.values, values.values, strict=True))
    return [pairs[key] for key in range(len(pairs))]


def _shared_name(table: Node) -> str:
    return table.text_attr("shared_name") or (table.name if table.plain_attr("use_node_name_sharing") else "")


def _shared_names(graph: Graph, tables: Iterable[Node]) -> Counter[str]:
    """Returns the number of tables, and of nodes in functions, with each shared name."""
    inner = [
        node.attr["shared_name"].s.decode("utf-8", "surrogateescape")
        for function in ([] if graph.is_body else graph.functions)
        for node in function.node_def
        if "shared_name" in node.attr
    ]
    return Counter([*map(_shared_name, tables), *inner])


def _lookup(
    intent: Intent, table: Node, old: Node, new: Node, values: list[object], added: frozenset[str]
) -> Iterator[str]:
    """Declares the changes of a lookup, and yields its faults."""
    key_dtype, dtype = table.plain_attr("key_dtype"), table.plain_attr("value_dtype")
    default = constant(old.inputs[2].node)
    params = constant(new.inputs[0].node) if len(new.inputs) == 3 else None
    axis = constant(new.inputs[2].node) if params is not None else None
    if not isinstance(key_dtype, int) or not isinstance(dtype, int) or default is None or params is None:
        yield f"{quoted(new.name)} does not read a constant"
        return
    if axis is None or (axis.shape, axis.values) != ((), [0]) or params.dtype != dtype or len(params.shape) != 1:
        yield f"{quoted(new.name)} does not read a vector of values"
    types = {"Tparams": dtype, "Tindices": key_dtype, "Taxis": INT32}
    attrs = {f"attr {key}": type_value(number) for key, number in types.items()}
    intent.alter(new.name, {"op": "GatherV2", "attr Tin": None, "attr Tout": None, **attrs})
    for slot, (was, now) in enumerate(zip(old.inputs, new.inputs, strict=True)):
        intent.rewire([(new.name, slot)], was.name, now.name)
    for read in new.inputs:
        _declare(intent, table, read, added, key_dtype)
    low, high = DTYPES[key_dtype].bounds
    for key in [*range(-2, len(values) + 2), low, low + 1, high - 1, high]:
        found = _computed(new.inputs[1], old.inputs[1].name, key, high + 1, added)
        expected = values[key] if 0 <= key < len(values) else default.values[0]
        if found is None or not 0 <= found < len(params.values) or repr(params.values[found]) != repr(expected):
            yield f"{quoted(new.name)} does not return {str(expected)[:60]} for the key {key}"
            return


def _declare(intent: Intent, table: Node, tensor: Output, added: frozenset[str], key_dtype: int) -> None:
    """Declares the new node that computes a tensor, and those from which it computes the tensor."""
    node = tensor.node
    if node.name not in added or node.name in intent.added:
        return
    is_constant = node.op == "Const"
    controls = [control.name for control in table.controls if control.op not in _FILLS] if is_constant else []
    found = constant(node)
    dtype = found.dtype if found is not None else key_dtype
    attrs = {"dtype": type_value(dtype), "value": node.attr_bytes("value")} if is_constant else {"T": type_value(dtype)}
    intent.add(node.name, node.op, [read.name for read in node.inputs], controls, table.device, attrs)
    for read in node.inputs:
        _declare(intent, table, read, added, key_dtype)


def _computed(tensor: Output, keys: str, key: int, bound: int, added: frozenset[str]) -> int | None:
    """Returns the value of a tensor for a key; None if it is not computed from the key as expected."""
    if tensor.name == keys:
        return key
    if tensor.node.name not in added:
        return None
    found = constant(tensor.node)
    if found is not None:
        value = found.values[0] if found.shape == () else None
        return value if isinstance(value, int) else None
    values = [_computed(read, keys, key, bound, added) for read in tensor.node.inputs]
    if tensor.node.op not in _OPS or len(values) != 2 or values[0] is None or values[1] is None:
        return None
    return (_OPS[tensor.node.op](values[0], values[1]) + bound) % (2 * bound) - bound  # wraps around
