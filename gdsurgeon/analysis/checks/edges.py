"""Checks the edges: inputs that name no node, outputs that there are not, and the number of inputs."""

from __future__ import annotations

from array import array

from gdsurgeon.analysis.checks.findings import Findings
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.names import near_miss, parse_input


def check_edges(table: Table, inputs: array[int], outputs: array[int], findings: Findings) -> None:
    """Notes what is wrong with the inputs of the nodes of TABLE.

    The columns say which rows to look at; what is wrong with one is then found out input by input.

    Args:
        table: the nodes.
        inputs, outputs: how many tensors each row takes and gives; -1 where that is unknown.
        findings: what is found is noted here.
    """
    for row in sorted(_suspects(table, inputs, outputs)):
        _check_row(table, row, inputs[row], outputs, findings)


def _suspects(table: Table, inputs: array[int], outputs: array[int]) -> set[int]:
    """The rows that have something wrong among their inputs, and perhaps some that have not."""
    bits, control, edges = Table.PORT_BITS, Table.CONTROL_PORT, table.edges
    counts = array("i", table.input_counts())
    suspects: set[int] = set()
    for at in table.odd_edges:
        code = edges[at]
        if code & control == control and code >= 0:
            counts[table.reader(at)] -= 1
        elif code < 0 or code & control >= outputs[code >> bits]:
            suspects.add(table.reader(at))
    if counts != inputs:
        suspects.update(row for row, count in enumerate(counts) if count != inputs[row] >= 0)
    if 0 in outputs:
        barren = {row << bits for row, count in enumerate(outputs) if count == 0}
        if not barren.isdisjoint(edges):
            suspects.update(table.reader(at) for at, code in enumerate(edges) if code in barren)
    return suspects


def _check_row(table: Table, row: int, expected: int, outputs: array[int], findings: Findings) -> None:
    bits, control = Table.PORT_BITS, Table.CONTROL_PORT
    node = f"node {quoted(table.names[row])}"
    count = 0
    for code in table.inputs(row):
        if code < 0:
            text = table.unresolved[Table.UNRESOLVED - code]
            count += text[:1] != "^"
            findings.fault(_unresolved(table, node, text, findings))
        elif (port := code & control) != control:
            count += 1
            available = outputs[code >> bits]
            if port >= available >= 0:
                producer = table.names[code >> bits]
                has = f"{quoted(producer)} ({table.op(code >> bits)}) has {available} output"
                has += "" if available == 1 else "s"
                findings.fault(f"{node} reads '{printable(producer)}:{port}', and {has}")
    if count != expected >= 0:
        findings.fault(f"{node} has {count} data inputs, and {table.op(row)} takes {expected}")


def _unresolved(table: Table, node: str, text: str, findings: Findings) -> str:
    ref = parse_input(text)
    if ref is None:
        return f"{node} has the input {quoted(text)}, which is no tensor's name"
    if ref.node in table.rows:
        return f"{node} reads {quoted(text)}, and no op has that many outputs"
    miss = near_miss(ref.node, table.names) if findings.fault_count < 5 else ""
    verb = "waits for" if text[:1] == "^" else "reads"
    return f"{node} {verb} {quoted(text)}, and there is no node {quoted(ref.node)}.{miss}".removesuffix(".")
