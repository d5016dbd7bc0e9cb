"""slim: what the signatures need is there as it was, with nodes that restore and save variables; all else is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from gdsurgeon.comparison.audit import audit
from gdsurgeon.comparison.compare import Comparison
from gdsurgeon.comparison.intent import Intent, made
from gdsurgeon.graph.attrs import shape_value, type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Serving
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, is_variable
from gdsurgeon.specification.extract import above, cut_down

_ALIKE = frozenset(("Const", "NoOp"))
"""Ops of nodes by which two parts of a graph do not belong together."""


def violations(comparison: Comparison, signatures: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before = comparison.before
    serving = before.serving or Serving()
    serving = serving.before or serving
    table = before.store.table
    meant = [serving.signatures[key] for key in signatures or serving.called]
    tensors = chain.from_iterable((*served.inputs.values(), *served.outputs.values()) for served in meant)
    kept = above(table, {table.rows[tensor.partition(":")[0]] for tensor in tensors})
    if serving.initialising is not None:
        loading = above(table, {table.rows[name] for name in serving.initialising.targets})
        if any(table.op(row) not in _ALIKE for row in loading & kept):
            kept |= loading
    intent, faults = cut_down(comparison, kept, ())
    yield from faults
    variables: dict[tuple[object, ...], str] = {}
    for row in sorted(kept):
        name = table.names[row]
        if is_variable(table.op(row)) and name in serving.keys:
            node = before[name]
            identity = node.text_attr("container"), node.text_attr("shared_name") or name, serving.keys[name]
            variables.setdefault(identity, name)
    if variables:
        _say_saver(before, serving, list(variables.values()), intent)
    yield from audit(comparison, intent)


def _say_saver(before: Graph, serving: Serving, variables: Sequence[str], intent: Intent) -> None:
    """Has INTENT say what restores VARIABLES from the tensors and slices that SERVING has for them, and saves them."""
    scopes = {name.partition("/")[0] for name in before.store.table.names}
    scope = next(free for n in range(len(scopes) + 1) if (free := f"saver_{n}" if n else "saver") not in scopes)
    path, read, write = f"{scope}/file_name", f"{scope}/RestoreV2", f"{scope}/SaveV2"
    kinds = [_dtype(before, name) for name in variables]
    string, dtypes = type_value(STRING).SerializeToString(), types_value(kinds).SerializeToString()
    shape = {"shape": shape_value(()).SerializeToString()}
    intent.altered += made(path, "Placeholder", attrs={"dtype": string, **shape})
    keys = [serving.keys[name] for name in variables]
    for name, texts in (("names", [key.tensor for key in keys]), ("slices", [key.slice for key in keys])):
        value = tensor_value(STRING, (len(texts),), [text.encode() for text in texts]).SerializeToString()
        intent.altered += made(f"{scope}/{name}", "Const", attrs={"dtype": string, "value": value})
    where = [path, f"{scope}/names", f"{scope}/slices"]
    intent.altered += made(read, "RestoreV2", where, attrs={"dtypes": dtypes})
    values = []
    for number, (name, dtype) in enumerate(zip(variables, kinds, strict=True)):
        is_resource = before[name].op in RESOURCE_VARIABLES
        kind = type_value(dtype).SerializeToString()
        op, key = ("AssignVariableOp", "dtype") if is_resource else ("Assign", "T")
        given = f"{read}:{number}" if number else read
        intent.altered += made(f"{scope}/Assign_{number}", op, [name, given], attrs={key: kind})
        values.append(f"{scope}/Read_{number}" if is_resource else name)
        if is_resource:
            intent.altered += made(values[-1], "ReadVariableOp", [name], attrs={"dtype": kind})
    assigned = [f"{scope}/Assign_{number}" for number in range(len(variables))]
    intent.altered += made(f"{scope}/restore", "NoOp", controls=assigned, attrs={})
    intent.altered += made(write, "SaveV2", [*where, *values], attrs={"dtypes": dtypes})
    intent.altered += made(f"{scope}/save", "Identity", [path], [write], attrs={"T": string})
    intent.added += dict.fromkeys(item.node for item in intent.altered)


def _dtype(graph: Graph, name: str) -> int:
    dtype = graph[name].plain_attr("dtype")
    return dtype if isinstance(dtype, int) else 0
