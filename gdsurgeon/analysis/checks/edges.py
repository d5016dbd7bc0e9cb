"""Checks the edges: inputs that name no node, outputs that there are not, and the number of inputs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from gdsurgeon.analysis.checks.findings import Findings
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.index import Table, places
from gdsurgeon.graph.names import near_miss, parse_input


def check_edges(table: Table, miscounted: Mapping[int, int], outputs: array[int], findings: Findings) -> None:
    """Notes what is wrong with the inputs of the nodes of TABLE.

    The columns say which rows to look at; what is wrong with one is then found out input by input.

    Args:
        table: the nodes.
        miscounted: the rows that have too few or too many inputs, each with how many it should have.
        outputs: how many tensors each row gives; -1 where that is unknown.
        findings: what is found is noted here.
    """
    for row in sorted({*miscounted, *_suspects(table, outputs)}):
        _check_row(table, row, outputs, findings)
        if row in miscounted:
            count, name = data_inputs(table, row), quoted(table.names[row])
            findings.fault(f"node {name} has {count} data inputs, and {table.op(row)} takes {miscounted[row]}")


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
    if 0 in outputs:
        barren = {row << bits for row in places(outputs, 0)}
        if not barren.isdisjoint(edges):
            yield from (table.reader(at) for at, code in enumerate(edges) if code in barren)


def _check_row(table: Table, row: int, outputs: array[int], findings: Findings) -> None:
    bits, control = Table.PORT_BITS, Table.CONTROL_PORT
    node = f"node {quoted(table.names[row])}"
    for code in table.inputs(row):
        if code < 0:
            findings.fault(_unresolved(table, node, table.unresolved[Table.UNRESOLVED - code], findings))
        elif (port := code & control) != control:
            available = outputs[code >> bits]
            if port >= available >= 0:
                producer = table.names[code >> bits]
                has = f"{quoted(producer)} ({table.op(code >> bits)}) has {available} output"
                has += "" if available == 1 else "s"
                findings.fault(f"{node} reads '{printable(producer)}:{port}', and {has}")


def _unresolved(table: Table, node: str, text: str, findings: Findings) -> str:
    ref = parse_input(text)
    if ref is None:
        return f"{node} has the input {quoted(text)}, which is no tensor's name"
    if ref.node in table.rows:
        return f"{node} reads {quoted(text)}, and no op has that many outputs"
    miss = near_miss(ref.node, table.names) if findings.fault_count < 5 else ""
    verb = "waits for" if text[:1] == "^" else "reads"
    return f"{node} {verb} {quoted(text)}, and there is no node {quoted(ref.node)}.{miss}".removesuffix(".")
