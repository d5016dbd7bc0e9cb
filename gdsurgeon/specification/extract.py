"""extract: what the outputs need of the inputs is there, with what initialises it; all else is gone."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gdsurgeon.compare.audit import audit
from gdsurgeon.compare.comparison import Comparison
from gdsurgeon.compare.intent import FunctionChanges, Intent, Rewired, made
from gdsurgeon.errors import quoted
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.functions import closure
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.graph.serving import META_GRAPH
from gdsurgeon.ops.dtypes import base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS, is_variable
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
"""Ops that give as many rows as their input 0 has."""


def violations(comparison: Comparison, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """See `gdsurgeon.specification.specify.violations`."""
    table = comparison.before.store.table
    kept = needed_rows(table, inputs, outputs)
    initialising = [*assignments(table, kept)]
    serving = comparison.before.serving
    if serving is not None and serving.kind == META_GRAPH:
        initialising = [row for row in initialising if not _restores(table, row)]
        initialising += [user for row in kept if is_variable(table.op(row)) for user in _listed_reads(table, row)]
    kept |= above(table, initialising)
    intent, faults = cut_down(comparison, kept, inputs)
    yield from faults
    yield from audit(comparison, intent)


def around(expected: Expected, found: Surroundings, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """See `gdsurgeon.specification.surroundings.wrong_surroundings`: a saver whose nodes are gone is gone."""
    del found, inputs, outputs
    serving = expected.graph.serving
    is_gone = any(("saver", key) not in expected.values for key in _SAVER)
    if is_gone and serving is not None and serving.kind == META_GRAPH:
        expected.drop(("saver",))
    yield from ()


def _restores(table: Table, row: int) -> bool:
    """Whether the assignment ROW gives a variable what a checkpoint has."""
    reads = [code >> Table.PORT_BITS for code in table.inputs(row) if code >= 0]
    value = reads[1] if len(reads) > 1 else row
    while table.op(value) == "Identity":
        value = table.inputs(value)[0] >> Table.PORT_BITS
    return table.op(value).startswith("Restore")


def _listed_reads(table: Table, row: int) -> list[int]:
    """The reads by which a MetaGraph lists the variable ROW: those whose names begin with its own."""
    own = table.names[row] + "/"
    users = [user for user in table.users(row) if table.op(user) in ("Identity", "RefIdentity", "ReadVariableOp")]
    return [user for user in users if table.names[user].startswith(own)]


def needed_rows(table: Table, inputs: Sequence[str], outputs: Sequence[str]) -> set[int]:
    """The rows that OUTPUTS need of INPUTS, of which those that are not needed are no cut."""
    starts, ends = ([_code(table, tensor) for tensor in dict.fromkeys(tensors)] for tensors in (inputs, outputs))
    kept = _needed(table, ends, starts)
    needed = [code for code in starts if any(True for _ in _readers(table, code, kept))]
    return kept if needed == starts else _needed(table, ends, needed)


def cut_down(comparison: Comparison, kept: set[int], inputs: Sequence[str]) -> tuple[Intent, list[str]]:
    """What is different where the rows KEPT are left, with placeholders for INPUTS, and what is wrong with these."""
    before, after, facts = comparison.before, comparison.after, comparison.facts
    table = before.store.table
    intent, faults = Intent(), []
    starts = [code for tensor in dict.fromkeys(inputs) if any(_readers(table, code := _code(table, tensor), kept))]
    cuts = [code for code in starts if table.op(code >> Table.PORT_BITS) not in PLACEHOLDERS]
    for code in cuts:
        row, port = code >> Table.PORT_BITS, code & Table.CONTROL_PORT
        name = stem = table.names[row]
        if port or row in kept:
            stem = name = f"{name}_{port}"
        if stem in before and (port or row in kept):
            name = next((new for new in facts.added if new.rpartition("_")[0] == stem), stem)
        intent.added.append(name)
        intent.rewired += [Rewired(u, slot, _tensor(table, code), name) for u, slot in _readers(table, code, kept)]
        dtypes = before[table.names[row]].output_dtypes
        dtype = type_value(base_dtype(dtypes[port] if dtypes else 0)).SerializeToString()
        node = after.find(name)
        keys = ("dtype", "shape") if node is not None and node.has_attr("shape") else ("dtype",)
        intent.altered += made(name, "Placeholder", attrs=dict.fromkeys(keys) | {"dtype": dtype})
        shape = placeholder_shape(node) if node is not None else None
        if shape and shape[0] >= 0 and _is_open(before, table, row):
            faults.append(f"{quoted(name)} accepts {shape[0]} rows, but the tensor may have any number")
    placed = set(intent.added)
    intent.removed = [n for row, n in enumerate(table.names) if row not in kept and n not in placed]
    intent.functions = FunctionChanges(removed=_unused(before, table, kept))
    return intent, faults


def _code(table: Table, tensor: str) -> int:
    ref = parse_tensor(tensor)
    return table.rows[ref.node] << Table.PORT_BITS | ref.port


def _tensor(table: Table, code: int) -> str:
    name, port = table.names[code >> Table.PORT_BITS], code & Table.CONTROL_PORT
    return f"{name}:{port}" if port else name


def _needed(table: Table, ends: Iterable[int], starts: Sequence[int]) -> set[int]:
    """The rows on which the tensors ENDS depend where STARTS are given; what is a placeholder is needed itself."""
    given = {code for code in starts if table.op(code >> Table.PORT_BITS) not in PLACEHOLDERS}
    return above(table, (code >> Table.PORT_BITS for code in ends if code not in given), given)


def above(table: Table, rows: Iterable[int], given: Container[int] = ()) -> set[int]:
    """ROWS and all that they depend on, but for the tensors GIVEN."""
    bits = Table.PORT_BITS
    return closure(rows, lambda row: [c >> bits for c in table.inputs(row) if c >= 0 and c not in given])


def _readers(table: Table, code: int, kept: Container[int]) -> Iterator[tuple[str, int]]:
    for user in table.users(code >> Table.PORT_BITS):
        for slot, its in enumerate(table.inputs(user)):
            if its == code and user in kept:
                yield table.names[user], slot


def _is_open(graph: Graph, table: Table, row: int) -> bool:
    """Whether a tensor has the rows of an input which takes any number of them."""
    while table.op(row) in _ROW_BY_ROW and len(table.inputs(row)):
        row = table.inputs(row)[0] >> Table.PORT_BITS
    shape = placeholder_shape(graph[table.names[row]]) if table.op(row) in PLACEHOLDERS else None
    return shape is not None and len(shape) > 0 and shape[0] < 0


def _unused(graph: Graph, table: Table, kept: set[int]) -> list[str]:
    """The functions that none of the rows KEPT comes to call, nor is the gradient of one."""
    library = graph.functions
    if not len(library):
        return []
    named = (name for node in calling_nodes(graph) if table.rows[node.name] in kept for name in named_by_node(node))
    used = set(library.reachable(named, gradients=True))
    return [name for function in library if (name := function.signature.name) not in used]
