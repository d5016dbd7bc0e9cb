"""extract, freeze and slim: keep the nodes that outputs or signatures need."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.container.files import ASSETS
from gdsurgeon.container.meta_graph import MAIN_OP
from gdsurgeon.container.surroundings import Node, Surroundings
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.graph.serving import META_GRAPH, Serving
from gdsurgeon.ops.dtypes import REF, RESOURCE, base_dtype
from gdsurgeon.ops.kinds import MERGE, NEXT_ITERATION, PLACEHOLDERS, VALUE_OPS, is_table, is_variable
from gdsurgeon.specification.nodes import Rows, Tensor, assignments, calling_nodes, named_by_node, used_functions
from gdsurgeon.specification.surroundings import Expected, add_saver, expect_saver, file_serving, restored_variables

# -- extract ---------------------------------------------------------------------------------------------


_SAVER = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
_ROW_BY_ROW = frozenset(
    """
    AvgPool BiasAdd Cast Conv2D DepthwiseConv2dNative Elu Exp FusedBatchNorm FusedBatchNormV3 Identity LeakyRelu MatMul
    MaxPool Neg Relu Relu6 Sigmoid Softmax Sqrt Square Tanh
    """.split()
)
"""Ops whose output has as many rows as their input 0."""


def extract(comparison: Comparison, inputs: Sequence[str], outputs: Sequence[str], sort: bool = False) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows = Rows(comparison.before)
    kept = needed_rows(rows, inputs, outputs)
    initialising = [*assignments(rows.table, kept)]
    if _is_meta_graph(rows):  # which lists a variable with its reads: their names begin with the name of the variable
        reads = ((row, user) for row in kept if is_variable(rows.op(row)) for user in rows.users(row))
        reads = ((row, user) for row, user in reads if rows.op(user) in ("Identity", "RefIdentity", "ReadVariableOp"))
        initialising = [row for row in initialising if not _restores(rows, row)]
        initialising += [user for row, user in reads if rows.names[user].startswith(rows.names[row] + "/")]
    kept |= rows.above(initialising)
    intent = Intent(is_sorted=sort)
    yield from cut_down(comparison, rows, kept, inputs, intent)
    yield from audit(comparison, intent)
    yield from _unsorted(Rows(comparison.after)) if sort else ()


def _unsorted(rows: Rows) -> Iterator[str]:
    """Yields a line for each input that comes after the node that reads it, except those that close a loop."""
    for row, name in enumerate(rows.names):
        for producer in rows.producers(row):
            is_loop_back = rows.op(row) in MERGE and rows.op(producer) in NEXT_ITERATION
            if producer >= row and not is_loop_back:
                yield f"{quoted(name)} comes before its input {quoted(rows.names[producer])}"


def around_extract(expected: Expected, found: Surroundings, **asked: object) -> None:
    """Removes the saver if its nodes are removed; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    del found, asked
    if _is_meta_graph(Rows(expected.graph)) and any(("saver", key) not in expected.values for key in _SAVER):
        expected.drop(("saver",))


def _is_meta_graph(rows: Rows) -> bool:
    serving = rows.graph.serving
    return serving is not None and serving.kind == META_GRAPH


def _restores(rows: Rows, row: int) -> bool:
    """Returns whether an assignment restores its variable from a checkpoint."""
    value = (rows.reads(row) + rows.controls(row))[1:2] or [row]
    while rows.op(value[0]) == "Identity":
        value = rows.reads(value[0])
    return rows.op(value[0]).startswith("Restore")


def needed_rows(rows: Rows, inputs: Sequence[str], outputs: Sequence[str]) -> set[int]:
    """Returns the rows that `outputs` need if `inputs` are given. Unneeded inputs are ignored."""
    starts, ends = ([rows.tensor(text) for text in dict.fromkeys(texts)] for texts in (inputs, outputs))

    def needed(starts: Sequence[Tensor]) -> set[int]:
        given = set(_cuts(rows, starts))  # a placeholder is needed itself
        return rows.above((end[0] for end in ends if end not in given), given)

    kept = needed(starts)
    read = _read_by(rows, starts, kept)
    return kept if read == starts else needed(read)


def _cuts(rows: Rows, starts: Sequence[Tensor]) -> list[Tensor]:
    return [start for start in starts if rows.op(start[0]) not in PLACEHOLDERS]


def _read_by(rows: Rows, tensors: Sequence[Tensor], kept: set[int]) -> list[Tensor]:
    return [tensor for tensor in tensors if any(rows.table.rows[user] in kept for user, _ in rows.uses(tensor))]


def cut_down(
    comparison: Comparison, rows: Rows, kept: set[int], inputs: Sequence[str], intent: Intent
) -> Iterator[str]:
    """Declares the changes if the rows `kept` stay, with placeholders for `inputs`; yields their faults."""
    before, after = rows.graph, comparison.after
    starts = [rows.tensor(text) for text in dict.fromkeys(inputs)]
    for tensor in _cuts(rows, _read_by(rows, starts, kept)):
        row, port = tensor
        name = stem = rows.names[row]
        if port or row in kept:
            name = stem = f"{name}_{port}"
            if stem in before:
                name = next((new for new in comparison.facts.added if new.rpartition("_")[0] == stem), stem)
        intent.rewire([use for use in rows.uses(tensor) if rows.table.rows[use[0]] in kept], rows.name(tensor), name)
        dtypes = before[rows.names[row]].output_dtypes
        node = after.find(name)
        shape = {"shape": None} if node is not None and node.has_attr("shape") else {}
        intent.add(name, "Placeholder", attrs={**shape, "dtype": type_value(base_dtype(dtypes[port] if dtypes else 0))})
        dims = placeholder_shape(node) if node is not None else None
        if dims and dims[0] >= 0 and _is_open(rows, row):
            yield f"{quoted(name)} accepts {dims[0]} rows, but the tensor may have any number"
    placed = set(intent.added)
    intent.removed = [name for row, name in enumerate(rows.names) if row not in kept and name not in placed]
    library = before.functions
    if len(library):
        callers = (node for node in calling_nodes(before) if rows.table.rows[node.name] in kept)
        used = used_functions(before, callers)
        intent.functions.removed = [name for function in library if (name := function.signature.name) not in used]


def _is_open(rows: Rows, row: int) -> bool:
    """Returns whether a tensor has as many rows as an input that accepts any number of rows."""
    while rows.op(row) in _ROW_BY_ROW and rows.reads(row):
        row = rows.reads(row)[0]
    shape = placeholder_shape(rows.graph[rows.names[row]]) if rows.op(row) in PLACEHOLDERS else None
    return bool(shape) and shape is not None and shape[0] < 0


# -- freeze ----------------------------------------------------------------------------------------------


_VALUE_OPS = {**VALUE_OPS, "DisableCopyOnRead": "NoOp", "ResourceGather": "GatherV2"}
"""Ops on the handle of a variable, with the op on its value."""
_AXIS = "/axis"


def freeze(
    comparison: Comparison, signatures: Sequence[str] = (), outputs: Sequence[str] = (), inputs: Sequence[str] = ()
) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    before, after = comparison.before, comparison.after
    rows = Rows(before)
    names = rows.names
    if not outputs:
        called = (before.serving or Serving()).called
        chosen = signatures or (["serving_default"] if "serving_default" in called else called)
        inputs = [tensor for key in chosen for tensor in called[key].inputs.values()]
        outputs = [tensor for key in chosen for tensor in called[key].outputs.values()]
    kept = needed_rows(rows, inputs, outputs)
    variables = {row for row in kept if is_variable(rows.op(row))}
    readers = closure(variables, lambda row: _forwarding(rows, row) & kept) - variables
    kept |= rows.above(assignments(rows.table, kept - variables))
    initialising, groups = _initialising(rows, {row for row in kept if is_table(rows.op(row))})
    intent = Intent()
    yield from cut_down(comparison, rows, kept | initialising, inputs, intent)
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
    used = (name for row in readers for name in named_by_node(before[names[row]]))
    changed = set(before.functions.reachable(used)) & set(comparison.facts.functions.changed)
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


def _forwarding(rows: Rows, row: int) -> set[int]:
    """Returns the rows that read a handle or reference: a variable, or a forwarded handle."""
    dtypes = rows.graph[rows.names[row]].output_dtypes or ()
    held = {(row, index) for index, dtype in enumerate(dtypes) if dtype == RESOURCE or dtype > REF}
    return {user for user in rows.users(row) if not held.isdisjoint(rows.edges(user))}


# -- slim ------------------------------------------------------------------------------------------------


_WITHOUT_STATE = frozenset(("Const", "NoOp"))


def slim(comparison: Comparison, signatures: Sequence[str] = ()) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows = Rows(comparison.before)
    kept, _ = _kept(rows, signatures)
    intent = Intent()
    yield from cut_down(comparison, rows, kept, (), intent)
    saved = restored_variables(rows, kept)
    if saved:
        add_saver(comparison.before, saved, intent)
    yield from audit(comparison, intent)


def around_slim(expected: Expected, found: Surroundings, signatures: Sequence[str] = ()) -> None:
    """Changes the expected surroundings; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    rows, values = Rows(expected.graph), expected.values
    serving = file_serving(expected.graph)
    kept, is_initialised = _kept(rows, signatures)
    keys = {place[1] for place in values if place[0] == "signature"}
    expected.drop(*(("signature", key) for key in keys - set(signatures or serving.called)))
    for name in {place[1] for place in values if place[0] == "file"}:  # TensorFlow 1 lists assets in a collection
        expected.move(("file", name), ("asset", name.removeprefix(f"{ASSETS}/"), "content"))
    expected.drop(("object",), ("function",), ("collection",), ("saver",), ("initialiser",))
    version = ("meta info", "tensorflow_version")
    expected.drop(*(place for place in values if place[0] == "meta info" and place != version))
    values["tags",] = values["tags",] or ("serve",)
    run = serving.initialising if is_initialised else None
    if run is not None:
        values["initialiser", MAIN_OP] = tuple(Node(name) for name in run.targets)
    feeds = run.feeds if run is not None else {}
    fed = {os.path.basename(path) for tensor, path in feeds.items() if rows.row(tensor) in kept}
    assets = {place[1] for place in values if place[0] == "asset"}
    expected.drop(*(("asset", name) for name in assets - fed))
    expected.free.update(("asset", name, "tensors") for name in fed)
    saved = restored_variables(rows, kept)
    stored = {item.key.tensor for item in saved}
    if not any(place[0] == "checkpoint" for place in values):  # the checkpoint of a MetaGraph is a different file
        expected.free.add(("checkpoint",))
    expected.drop(*(place for place in values if place[0] == "checkpoint" and place[1] not in stored))
    if saved:
        expect_saver(expected, found, saved)


def _kept(rows: Rows, signatures: Sequence[str]) -> tuple[set[int], bool]:
    """Returns the rows that `signatures` need, and whether these include initializers of the model."""
    serving = file_serving(rows.graph)
    served = [serving.signatures[key] for key in signatures or serving.called]
    kept = rows.above({rows.row(tensor) for each in served for tensor in each.tensors})
    loading = rows.above(map(rows.row, serving.initialising.targets)) if serving.initialising is not None else set()
    is_initialised = any(rows.op(row) not in _WITHOUT_STATE for row in loading & kept)
    return kept | (loading if is_initialised else set()), is_initialised
