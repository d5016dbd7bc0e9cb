"""Edits of single fields of nodes: rename, reroute, control-edges, set-attr, set-device, set-shape and repair."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent, Value
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import Shape, attr_value, shape_of, shape_value, type_value
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import Record, parsed_nodes
from gdsurgeon.ops.dtypes import INT32, INT64, REF, RESOURCE, dtype_name
from gdsurgeon.ops.kinds import NEXT_ITERATION, STATED_SHAPES
from gdsurgeon.selection import Selection
from gdsurgeon.specification.nodes import Rows, selected
from gdsurgeon.text import spelt_value
from gdsurgeon.wire.protos import AttrValue, FunctionDef, NodeDef, TensorShapeProto

Pair = tuple[str, str]


def rename(
    comparison: Comparison, pairs: Sequence[Pair] = (), scopes: Sequence[Pair] = (), patterns: Sequence[Pair] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = dict(pairs)
    parts = [(old.strip("/").split("/"), [part for part in new.split("/") if part]) for old, new in scopes]
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in patterns]
    for name in comparison.before.store.names if parts or compiled else ():
        path = name.split("/")
        for old, new in parts:
            if path[: len(old)] == old and (len(path) > len(old) or new):
                names[name] = "/".join(new + path[len(old) :])
        for pattern, replacement in compiled:
            if pattern.search(name):
                names[name] = pattern.sub(replacement, name)
    renamed = {old: new for old, new in names.items() if old != new}
    yield from audit(comparison, Intent(renamed=renamed))


def reroute(
    comparison: Comparison,
    pairs: Sequence[tuple[str, str]],
    swap: bool = False,
    only: str | None = None,
    exclude: str | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows, intent = Rows(comparison.before), Intent()

    def producers(row: int) -> list[int]:  # without the previous iteration of a loop
        return [producer for producer in rows.producers(row) if rows.op(producer) not in NEXT_ITERATION]

    directed = [(rows.tensor(old), rows.tensor(new)) for old, new in pairs]
    for old, new in directed + ([(new, old) for old, new in directed] if swap else []):
        if old != new:
            above = {rows.names[row] for row in closure([new[0]], producers)}  # these keep reading the old tensor
            slots = [use for use in rows.uses(old) if use[0] not in above and re.search(only or "", use[0])]
            slots = [use for use in slots if exclude is None or not re.search(exclude, use[0])]
            intent.rewire(slots, rows.name(old), rows.name(new))
    yield from audit(comparison, intent)


Edge = tuple[str, str]


def control_edges(comparison: Comparison, add: Sequence[Edge] = (), remove: Sequence[Edge] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    waits: dict[str, set[str]] = {}
    for node, _ in (*add, *remove):
        waits[node] = {control.name for control in comparison.before[node].controls}
    for node, other in remove:
        gone = waits[node] if other.lstrip("^") == "*" else {other.lstrip("^")}
        waits[node] = waits[node] - gone
    for node, other in add:
        waits[node].add(other.lstrip("^"))
    intent = Intent()
    for node, wanted in waits.items():
        intent.alter(node, {"controls": frozenset(wanted)})
    yield from audit(comparison, intent)


# -- set-attr --------------------------------------------------------------------------------------------


def set_attr(
    comparison: Comparison,
    nodes: Selection | Iterable[str],
    values: Iterable[tuple[str, object]] = (),
    remove: Sequence[str] = (),
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    names = selected(comparison.before, nodes)
    given = {key: spelt_value(value) for key, value in values}
    if "op" in given:
        yield from _of_new_op(comparison, names, given.pop("op"), given)
        return
    texts = {name.partition(":")[0]: text for name, text in given.items()}
    intent = Intent()
    for name in names:
        node = comparison.after[name]
        intent.alter(name, {f"attr {key}": node.attr_bytes(key) for key in texts})
        intent.alter(name, dict.fromkeys(f"attr {key}" for key in remove if key != "_class"))
        yield from _wrong(node, texts)
        if "_class" in remove:
            altered = comparison.facts.altered.get(name, {})
            intent.alter(name, {"colocated": (), **({"class": ()} if "class" in altered else {})})
    yield from audit(comparison, intent)


def _of_new_op(comparison: Comparison, names: Iterable[str], op: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yields the violations if the nodes `names` get the op `op`, with `texts` for its attrs."""
    before, after = comparison.before, comparison.after
    definition = after.op_def(op)
    args = () if definition is None else definition.inputs
    follow = {key for arg in args for key in (arg.type_attr, arg.number_attr, arg.list_attr)}  # from the inputs
    intent = Intent()
    for name in names:
        old, new = before[name], after[name]
        is_new = old.op != op
        if not is_new and not texts:
            continue
        intent.alter(name, {"op": op})
        for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
            is_known = definition is not None and key in definition.attrs
            if is_known or (is_new and (not key.startswith("_") or key == "_output_shapes")):
                intent.alter(name, {f"attr {key}": new.attr_bytes(key) if is_known else None})
            was, now = old.attr_bytes(key), new.attr_bytes(key)
            if is_known and was is not None and key not in texts and was != now and key not in follow:
                yield f"the attr {key} of {quoted(name)} was changed"
        yield from _wrong(new, texts)
    yield from audit(comparison, intent)


def _wrong(node: Node, texts: Mapping[str, str]) -> Iterator[str]:
    for key, text in texts.items():
        data = node.attr_bytes(key)
        if data is None or not spells(text, attr_value(data)):
            yield f"{quoted(node.name)} should have {key} = {text}, but does not"


def spells(text: str, value: AttrValue) -> bool:
    """Returns whether `text`, as a user writes it, means `value`."""
    kind = value.WhichOneof("value")
    if kind != "list":
        return kind is not None and _is(text if kind == "s" else text.strip(), kind, getattr(value, kind))
    fields = value.list.ListFields()
    if not fields:
        return text.strip() in ("[]", "[ ]")
    field, items = fields[0][0].name, list(fields[0][1])
    return len(fields) == 1 and any(
        len(parts) == len(items) and all(_is(part, field, item) for part, item in zip(parts, items, strict=True))
        for parts in _parts(text.strip())
    )


def _parts(text: str) -> Iterator[list[str]]:
    """Yields the ways to parse a list."""
    if text.startswith('["'):
        yield json.loads(text)
    yield re.findall(r"\[[^\[\]]*\]", text)
    yield [part.strip() for part in text.removeprefix("[").removesuffix("]").split(",")]


def _is(text: str, kind: str, value: object) -> bool:
    return kind in _READERS and _READERS[kind](text, value)


def _is_shape(text: str, value: object) -> bool:
    assert hasattr(value, "dim")
    shape: TensorShapeProto = value  # type: ignore[assignment]
    dims = [-1 if dim.strip() in ("?", "None") else dim.strip() for dim in text.strip().strip("[]").split(",")]
    if dims == ["..."]:
        return shape.unknown_rank
    return not shape.unknown_rank and [dim.size for dim in shape.dim] == [int(dim) for dim in dims if dim != ""]


_READERS: dict[str, Callable[[str, object], bool]] = {
    "i": lambda text, value: value == int(text, 0 if "x" in text.lower() else 10),
    "f": lambda text, value: struct.pack("<f", float(text)) == struct.pack("<f", float(str(value))),
    "b": lambda text, value: value == (text.lower() in ("true", "1")),
    "s": lambda text, value: value == text.encode("utf-8", "surrogateescape"),
    "type": lambda text, value: _dtype(text) in (dtype_name(int(str(value))), f"{value}"),
    "shape": _is_shape,
    "func": lambda text, value: getattr(value, "name", None) == text,
}


def _dtype(text: str) -> str:
    name = text.lower().removeprefix("dt_")
    return {"float": "float32", "double": "float64", "half": "float16"}.get(name, name)


# -- set-device ------------------------------------------------------------------------------------------


def set_device(
    comparison: Comparison,
    clear: bool = False,
    pairs: Sequence[tuple[str, str]] = (),
    device: str | None = None,
    nodes: Selection | Iterable[str] | None = None,
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    names, intent = None if nodes is None else selected(before, nodes), Intent()

    def expected(old: str, new: str) -> str:
        """Returns the requested device of a node; `new` if it is the same device, spelled differently."""
        wanted = "" if clear else device if device is not None else _mapped(old, pairs)
        return new if _device_parts(new) == _device_parts(wanted) else wanted

    headers = (node.header() if isinstance(node, Record) else node for node in parsed_nodes(before.source))
    placed = (header.name for header in headers if header.device)
    for name in dict.fromkeys([*comparison.facts.altered, *placed]) if names is None else names:
        was, now = before[name].device, after[name].device
        if (wanted := expected(was, now)) != was or now != was:
            intent.alter(name, {"device": wanted})
    inner = _inner(before, nodes)
    for function in before.functions if inner is not None else ():
        changed = after.functions.get(function.signature.name)
        if inner is not None and changed is not None:
            intent.functions.changed.append(function.signature.name)
            with_devices = FunctionDef.FromString(function.SerializeToString())
            for node, new in zip(with_devices.node_def, changed.node_def, strict=False):
                node.device = expected(node.device, new.device) if inner(node) else node.device
            if with_devices != changed:
                yield f"the function {quoted(function.signature.name)} has changes other than the requested devices"
    yield from audit(comparison, intent)


def _inner(before: Graph, nodes: Selection | Iterable[str] | None) -> Callable[[NodeDef], bool] | None:
    """Returns which nodes inside functions are selected: all, or the op types of a selection; None: no node."""
    if nodes is None:
        return lambda _: True
    if before.is_body or isinstance(nodes, Iterable) or not nodes.ops:
        return None
    ops, exclude = nodes.ops, nodes.exclude
    return lambda node: node.op in ops and not any(re.search(pattern, node.name) for pattern in exclude)


def _mapped(device: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Returns the new device for pairs (old, new): if a device has the parts of OLD, the parts of NEW replace them."""
    out = dict(_device_parts(device))
    for old, new in pairs:
        wanted = _device_parts(old)
        if device == old.lstrip() or (wanted and wanted.items() <= _device_parts(device).items()):
            for part in (*wanted, *(("id",) if {"type"} & {*wanted, *_device_parts(new)} else ())):
                out.pop(part, None)
            out.update(_device_parts(new))
            if not wanted:
                return new
    return "".join(f"/{part}:{value}" for part, value in out.items())


def _device_parts(device: str) -> dict[str, str]:
    """Returns the parts of a device: job, replica, task, type and id; in lower case, except jobs."""
    out: dict[str, str] = {}
    for part in device.strip("/").split("/"):
        key, _, value = part.partition(":")
        kind, number = (value.partition(":")[::2]) if key == "device" else (key, value)
        if key in ("job", "replica", "task", "type", "id"):
            out[key] = value if key in ("job", "type") else str(int(value)) if value.isdigit() else value
        elif key == "device" or re.fullmatch("(?i)cpu|gpu|tpu", key):
            out["type"], out["id"] = kind, str(int(number)) if number.isdigit() else number
    if "type" in out:
        out["type"] = out["type"].lower()
    return {key: value for key, value in out.items() if value not in ("", "*")}


# -- set-shape -------------------------------------------------------------------------------------------


def set_shape(
    comparison: Comparison, shapes: Sequence[tuple[str, Shape]], fix_batch: bool = False, **_: object
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    wanted = {name.removesuffix(":0"): shape for name, shape in shapes}
    intent = Intent()
    for name, shape in wanted.items():
        if _shape(before[name]) != shape:
            intent.alter(name, {"attr shape": shape_value(shape)})
    rows = Rows(before)
    for row in sorted(closure(map(rows.row, intent.changed), rows.consumers)):
        if before[name := rows.names[row]].has_attr(STATED_SHAPES):
            intent.alter(name, {f"attr {STATED_SHAPES}": None})
            if after[name].has_attr(STATED_SHAPES):
                yield f"{quoted(name)} still states its former output shapes"
    if fix_batch:
        yield from _opened(comparison, intent, {dims[0] for name in wanted if (dims := _shape(before[name]))})
    yield from audit(comparison, intent)


def _shape(node: Node) -> Shape:
    value = node.attr("shape")
    return None if value is None else shape_of(value.shape)


def _opened(comparison: Comparison, intent: Intent, batches: set[int]) -> Iterator[str]:
    """Declares the Reshapes whose batch becomes -1. A constant with other consumers does not change."""
    before, after = comparison.before, comparison.after
    for name, altered in comparison.facts.altered.items():
        if set(altered) == {"attr value"}:
            intent.changed.append(name)
            readers = [after[user] for user in after.store.users(name)]
            if any(user.op != "Reshape" or user.inputs[0].node.name == name for user in readers):
                yield f"{quoted(name)} was changed, but has consumers other than Reshapes"
            yield from _is_opened(before[name], after[name], batches)
    for slot in comparison.facts.rewired:
        name = slot.new
        if after[slot.node].op == "Reshape" and slot.slot == 1 and name in comparison.facts.added:
            intent.rewired.append(slot)
            source = before.tensor(slot.old)
            old = source.node
            # A control input can bind a constant to a branch, for example.
            controls = [control.name for control in old.controls] if old.op == "Const" else ()
            dtype = type_value(INT64 if source.dtype == INT64 else INT32)
            intent.add(name, "Const", (), controls, old.device, {"dtype": dtype, "value": None})
            yield from _is_opened(old, after[name], batches)


def _is_opened(old: Node, new: Node, batches: set[int]) -> Iterator[str]:
    """Yields a line unless the new shape is the old one with -1 instead of the first size that contains a batch."""
    was, now = constant(old), constant(new)
    if was is None or now is None or len(was.values) != len(now.values):
        return
    sizes = [size for size in was.values if isinstance(size, int)]
    exact = [at for at, size in enumerate(sizes) if size in batches]
    held = [at for at, size in enumerate(sizes) if any(b > 0 and size > 0 and size % b == 0 for b in batches)]
    opened = [at for at, size in enumerate(now.values) if size == -1]
    kept = all(a in (b, -1) or at in opened for at, (a, b) in enumerate(zip(was.values, now.values, strict=True)))
    if len(opened) != 1 or opened[0] not in (exact[:1] or held) or not kept:
        yield f"{quoted(new.name)} is {now.values}, but was {was.values}: this does not open a batch dim"


# -- repair ---------------------------------------------------------------------------------------------------

BECOMES = {
    "Assign": ("Identity", 1), "AssignAdd": ("Add", 0), "AssignSub": ("Sub", 0), "ReadVariableOp": ("Identity", 0),
    "ResourceGather": ("Gather", 0), "IsVariableInitialized": ("Const", 9), "VarIsInitializedOp": ("Const", 9),
    "AssignVariableOp": ("NoOp", 9), "AssignAddVariableOp": ("NoOp", 9), "AssignSubVariableOp": ("NoOp", 9),
    "ResourceGatherNd": ("GatherNd", 0), "VariableShape": ("Shape", 0),
    **{f"ScatterNd{what}": (f"TensorScatter{what}", 0) for what in ("Add", "Sub", "Update")},
}  # fmt: skip
"""Ops that require a variable, with the op on a value, and the first input that it still reads."""


def repair(comparison: Comparison, custom_ops: bool = False) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    del custom_ops  # a refused graph is not written
    before, after = comparison.before, comparison.after
    intent = Intent()
    for name, altered in comparison.facts.altered.items():
        old, new = before[name], after[name]
        if "colocated" in altered:
            intent.alter(name, {"colocated": tuple(other.name for other in old.colocated if other.exists)})
        if "op" in altered:
            intent.alter(name, _expected(old, new))
            if new.op == "NoOp" and any(read.node is old for user in old.graph.users(old) for read in user.inputs):
                yield f"{quoted(name)} has no outputs any more, but has consumers"
            if _reads_variable(new, old):
                yield f"{quoted(name)} reads a variable, but is not an op of variables any more"
        if new.op == "Const":
            value = constant(new)
            if value is None or value.values != [True] or value.shape:
                yield f"{quoted(name)} should be true"
    yield from audit(comparison, intent)
    for node in after.nodes():
        if any(not other.exists for other in node.colocated):
            yield f"{quoted(node.name)} is still colocated with a missing node"
        wants = node.input_dtypes or ()
        for read, wanted in zip(node.inputs, wants, strict=False):
            if wanted > REF and 0 < read.dtype < REF:
                yield f"{quoted(node.name)} still needs a variable, but reads the value {quoted(read.name)}"


def _expected(old: Node, new: Node) -> dict[str, Value]:
    """Returns the expected fields of a node that required a variable."""
    op, first = BECOMES.get(old.op, (old.op.removeprefix("Ref"), 0))
    if "Apply" in old.op or (old.op not in BECOMES and "Scatter" in old.op):  # without consumers: see above
        op, first = "NoOp", 9
    reads = tuple(read.name for read in old.inputs)
    out: dict[str, Value] = {"op": op, "inputs": reads[first:]}
    if op == "NoOp":
        controls = [read.node.name for read in old.inputs] + [control.name for control in old.controls]
        out["controls"] = tuple(dict.fromkeys(controls))
    if not old.op.startswith("Ref"):
        keys = [key for key in (*old.attr_keys, *new.attr_keys) if not key.startswith("_")]
        out |= {f"attr {key}": new.attr_bytes(key) for key in keys}
    return out


def _reads_variable(new: Node, old: Node) -> bool:
    """Returns whether input 0 of a node is a variable, so that the node needed no repair."""
    read = old.inputs[0]
    now = new.graph.base_node(read.node.name)
    dtype = next((output.dtype for output in now.outputs[read.index :]), 0) if now.exists else 0
    return dtype > REF or dtype == RESOURCE
