"""extract: keeps the nodes that the outputs need if the inputs are given, and their initializers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import Intent
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.graph.serving import META_GRAPH
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS, is_variable
from gdsurgeon.specification.rows import Rows, Tensor
from gdsurgeon.specification.sharing import assignments, calling_nodes, named_by_node

if TYPE_CHECKING:
    from gdsurgeon.container.surroundings import Surroundings
    from gdsurgeon.specification.surroundings import Expected

_SAVER = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
_ROW_BY_ROW = frozenset(
    """
    AvgPool BiasAdd Cast Conv2D DepthwiseConv2dNative Elu Exp FusedBatchNorm FusedBatchNormV3 Identity LeakyRelu MatMul
    MaxPool Neg Relu Relu6 Sigmoid Softmax Sqrt Square Tanh
    """.split()
)
"""Ops whose output has as many rows as their input 0."""


def violations(comparison: Comparison, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    rows = Rows(comparison.before)
    kept = needed_rows(rows, inputs, outputs)
    initialising = [*assignments(rows.table, kept)]
    if _is_meta_graph(rows):
        initialising = [row for row in initialising if not _restores(rows, row)]
        initialising += [user for row in kept if is_variable(rows.op(row)) for user in _listed_reads(rows, row)]
    kept |= rows.above(initialising)
    intent, faults = cut_down(comparison, rows, kept, inputs)
    yield from faults
    yield from audit(comparison, intent)


def around(expected: Expected, found: Surroundings, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """Removes the saver if its nodes are removed; see `gdsurgeon.specification.surroundings.wrong_surroundings`."""
    del found, inputs, outputs
    if _is_meta_graph(Rows(expected.graph)) and any(("saver", key) not in expected.values for key in _SAVER):
        expected.drop(("saver",))
    yield from ()


def _is_meta_graph(rows: Rows) -> bool:
    serving = rows.graph.serving
    return serving is not None and serving.kind == META_GRAPH


def _restores(rows: Rows, row: int) -> bool:
    """Returns whether an assignment restores its variable from a checkpoint."""
    value = (rows.reads(row) + rows.controls(row))[1:2] or [row]
    while rows.op(value[0]) == "Identity":
        value = rows.reads(value[0])
    return rows.op(value[0]).startswith("Restore")


def _listed_reads(rows: Rows, row: int) -> list[int]:
    """Returns the reads by which a MetaGraph lists a variable: their names begin with the name of the variable."""
    users = [user for user in rows.users(row) if rows.op(user) in ("Identity", "RefIdentity", "ReadVariableOp")]
    return [user for user in users if rows.names[user].startswith(rows.names[row] + "/")]


def needed_rows(rows: Rows, inputs: Sequence[str], outputs: Sequence[str]) -> set[int]:
    """Returns the rows that `outputs` need if `inputs` are given. Unneeded inputs are ignored."""
    starts, ends = ([rows.tensor(text) for text in dict.fromkeys(texts)] for texts in (inputs, outputs))
    kept = _needed(rows, ends, starts)
    needed = _read_by(rows, starts, kept)
    return kept if needed == starts else _needed(rows, ends, needed)


def _needed(rows: Rows, ends: Sequence[Tensor], starts: Sequence[Tensor]) -> set[int]:
    """Returns the rows that `ends` depend on if `starts` are given. A placeholder is needed itself."""
    given = set(_cuts(rows, starts))
    return rows.above((end[0] for end in ends if end not in given), given)


def _cuts(rows: Rows, starts: Sequence[Tensor]) -> list[Tensor]:
    return [start for start in starts if rows.op(start[0]) not in PLACEHOLDERS]


def _read_by(rows: Rows, tensors: Sequence[Tensor], kept: set[int]) -> list[Tensor]:
    return [tensor for tensor in tensors if any(rows.table.rows[user] in kept for user, _ in rows.uses(tensor))]


def cut_down(comparison: Comparison, rows: Rows, kept: set[int], inputs: Sequence[str]) -> tuple[Intent, list[str]]:
    """Returns the expected changes if the rows `kept` stay, with placeholders for `inputs`; and their faults."""
    before, after, intent = rows.graph, comparison.after, Intent()
    faults = []
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
            faults.append(f"{quoted(name)} accepts {dims[0]} rows, but the tensor may have any number")
    placed = set(intent.added)
    intent.removed = [name for row, name in enumerate(rows.names) if row not in kept and name not in placed]
    intent.functions.removed = _unused(rows, kept)
    return intent, faults


def _is_open(rows: Rows, row: int) -> bool:
    """Returns whether a tensor has as many rows as an input that accepts any number of rows."""
    while rows.op(row) in _ROW_BY_ROW and rows.reads(row):
        row = rows.reads(row)[0]
    shape = placeholder_shape(rows.graph[rows.names[row]]) if rows.op(row) in PLACEHOLDERS else None
    return bool(shape) and shape is not None and shape[0] < 0


def _unused(rows: Rows, kept: set[int]) -> list[str]:
    """Returns the functions that the rows `kept` do not call, directly, indirectly or as gradients."""
    library = rows.graph.functions
    if not len(library):
        return []
    callers = (node for node in calling_nodes(rows.graph) if rows.table.rows[node.name] in kept)
    used = set(library.reachable((name for node in callers for name in named_by_node(node)), gradients=True))
    return [name for function in library if (name := function.signature.name) not in used]
