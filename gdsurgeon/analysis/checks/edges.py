"""Checks the edges: inputs from missing nodes, missing outputs, and the number of inputs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from gdsurgeon.analysis.checks.findings import Findings
from gdsurgeon.errors import Remark, quoted
from gdsurgeon.graph.index import Table, picked, places
from gdsurgeon.graph.names import format_input, parse_input
from gdsurgeon.ops.dtypes import dtype_name, is_readable_as
from gdsurgeon.ops.op_defs import Run
from gdsurgeon.text import nearest, suggestion


class Tensors(Protocol):
    """What the ops of the rows take and give; see `gdsurgeon.analysis.checks.nodes.NodePass`."""

    @property
    def outputs(self) -> array[int]: ...
    @property
    def first(self) -> bytearray: ...
    @property
    def others(self) -> Mapping[int, Sequence[Run]]: ...
    @property
    def wanted(self) -> bytearray: ...
    @property
    def miscounted(self) -> Mapping[int, int]: ...


def check_edges(table: Table, tensors: Tensors, findings: Findings) -> None:
    """Notes what is wrong with the inputs of the nodes of TABLE.

    The columns tell which rows may have a fault; such a row is then checked input by input.
    """
    miscounted = tensors.miscounted
    given = _given(table, tensors)
    unlike = _unlike(tensors.wanted, given)
    rows = {*miscounted, *_suspects(table, tensors.outputs), *map(table.reader, unlike)}
    for row in sorted(rows):
        _check_row(table, row, tensors.outputs, findings)
        if row in miscounted:
            count, name = data_inputs(table, row), table.names[row]
            text = f"node {quoted(name)} has {count} data inputs, but {table.op(row)} requires {miscounted[row]}"
            findings.fault(text, "wrong-count", node=name, expected=miscounted[row], found=count)
        for at in range(table.offsets[row], table.offsets[row + 1]):
            if at in unlike:
                findings.add(_unlike_at(table, row, at, tensors.wanted[at], given[at]))


def _given(table: Table, tensors: Tensors) -> bytearray:
    """For each input the dtype of what it reads; 0 where that is unknown, and for control inputs."""
    bits, control = Table.PORT_BITS, Table.CONTROL_PORT
    reads, given = table.plain_reads(), bytearray()
    for start in range(0, len(reads), _AT_ONCE):
        given += bytes(picked(tensors.first, reads[start : start + _AT_ONCE]))
    for at in table.odd_edges:
        code = table.edges[at]
        port = code & control
        row = code >> bits
        if code < 0 or port == control:
            given[at] = 0
        else:
            given[at] = _at(tensors.others.get(row, ()), port) if port else tensors.first[row]
    return given


_AT_ONCE = 1 << 14
"""The number of inputs whose dtypes one call looks up."""


def _at(runs: Sequence[Run], port: int) -> int:
    """The dtype of tensor PORT of RUNS."""
    for dtype, count in runs:
        if port < count:
            return dtype
        port -= count
    return 0


def _unlike(wanted: bytearray, given: bytearray) -> set[int]:
    """The places of the inputs that read what they cannot."""
    if wanted == given:
        return set()
    return {at for at, (w, g) in enumerate(zip(wanted, given, strict=True)) if w != g and not is_readable_as(g, w)}


def _unlike_at(table: Table, row: int, at: int, wanted: int, given: int) -> Remark:
    code, name = table.edges[at], table.names[row]
    source = format_input(table.names[code >> Table.PORT_BITS], code & Table.CONTROL_PORT)
    text = f"node {quoted(name)} ({table.op(row)}) requires {dtype_name(wanted)}"
    text += f" as input {at - table.offsets[row]}, but {quoted(source)} is {dtype_name(given)}"
    facts = {"node": name, "tensor": source, "expected": dtype_name(wanted), "found": dtype_name(given)}
    return Remark(text, "dtype-mismatch", **facts)


def data_inputs(table: Table, row: int) -> int:
    """How many data inputs ROW has, those among them that name no node."""
    control = Table.CONTROL_PORT
    return sum(
        code & control != control if code >= 0 else table.unresolved[Table.UNRESOLVED - code][:1] != "^"
        for code in table.inputs(row)
    )


def _suspects(table: Table, outputs: array[int]) -> Iterator[int]:
    """The rows with an input that may not be there."""
    bits, control, edges = Table.PORT_BITS, Table.CONTROL_PORT, table.edges
    for at in table.odd_edges:
        code = edges[at]
        if code < 0 or control > code & control >= outputs[code >> bits]:
            yield table.reader(at)
    barren = {row << bits for row in places(outputs, 0)}
    if barren and not barren.isdisjoint(edges):
        yield from (table.reader(at) for at, code in enumerate(edges) if code in barren)


def _check_row(table: Table, row: int, outputs: array[int], findings: Findings) -> None:
    bits, control = Table.PORT_BITS, Table.CONTROL_PORT
    name = table.names[row]
    for code in table.inputs(row):
        if code < 0:
            findings.add(_unresolved(table, name, table.unresolved[Table.UNRESOLVED - code], findings))
        elif (port := code & control) != control:
            available = outputs[code >> bits]
            if port >= available >= 0:
                producer = table.names[code >> bits]
                has = f"{quoted(producer)} ({table.op(code >> bits)}) has {available} output"
                has += "" if available == 1 else "s"
                tensor = f"{producer}:{port}"
                text = f"node {quoted(name)} reads {quoted(tensor)}, but {has}"
                findings.fault(text, "no-such-output", node=name, tensor=tensor, count=available)


def _unresolved(table: Table, name: str, text: str, findings: Findings) -> Remark:
    """What is wrong with the input TEXT of the node NAME, which names no output."""
    ref, node = parse_input(text), f"node {quoted(name)}"
    if ref is None:
        line = f"{node} has the input {quoted(text)}, which is not a tensor name"
        return Remark(line, "bad-tensor-name", node=name, tensor=text)
    if ref.node in table.rows:
        line = f"{node} reads {quoted(text)}, but no op has that many outputs"
        return Remark(line, "no-such-output", node=name, tensor=text)
    near = nearest(ref.node, table.names) if findings.fault_count < 5 else None
    verb = "has a control dependency on" if text[:1] == "^" else "reads"
    line = f"{node} {verb} {quoted(text)}, but there is no node {quoted(ref.node)}.{suggestion(near)}".removesuffix(".")
    return Remark(line, "no-such-node", node=name, tensor=text, near=near)
