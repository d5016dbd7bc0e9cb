"""The structural check of nodes and edges once more, node by node on what protobuf parses: slow, and plain to read."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from gdsurgeon.analysis.checks.attrs import AttrFindings, check_attrs
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.names import NAME_RULE, is_valid_name, parse_input
from gdsurgeon.ops.dtypes import dtype_name, is_readable_as
from gdsurgeon.ops.op_defs import Run, op_def
from gdsurgeon.text import near_miss
from gdsurgeon.wire.messages import unknown_fields


class Told(NamedTuple):
    """What is to be said of the nodes of a graph without functions, in order."""

    faults: list[str]
    warnings: list[str]
    reordered: list[int]


def told(graph_def: Any) -> Told:
    """What is wrong and what is odd with the nodes of a GraphDef message; cycles apart."""
    out = Told([], [], [])
    nodes = list(graph_def.node)
    found = [_attr_findings(node) for node in nodes]
    unknown: dict[str, str] = {}
    for row, node in enumerate(nodes):
        _node(row, node, found[row], out)
        if node.op and op_def(node.op) is None:
            unknown.setdefault(node.op, node.name)
    out.warnings.extend(
        f"op {quoted(o)} (node {quoted(n)}) is not known to this TensorFlow" for o, n in unknown.items()
    )
    _names([node.name for node in nodes], out)
    rows = {node.name: row for row, node in enumerate(nodes)}
    outputs = {name: (nodes[row].op, found[row]) for name, row in rows.items()}
    for node, of_node in zip(nodes, found, strict=True):
        _inputs(node, of_node, outputs, out)
    _colocations(nodes, found, rows, out)
    return out


def _attr_findings(node: Any) -> AttrFindings:
    return _findings(node.op, tuple((key, node.attr[key].SerializeToString()) for key in sorted(node.attr)))


@cache
def _findings(op: str, attrs: tuple[tuple[str, bytes], ...]) -> AttrFindings:
    buf, spans = b"", {}
    for key, data in attrs:
        spans[key] = (len(buf), len(buf) + len(data))
        buf += data
    return check_attrs(op_def(op), op, buf, spans)


def _node(row: int, node: Any, found: AttrFindings, out: Told) -> None:
    name = quoted(node.name)
    if len(unknown_fields(node)):
        out.warnings.append(f"node {name} has an unknown field, which is kept")
    if not node.op and node.name:
        out.faults.append(f"node {name} has no op")
    out.faults.extend(f"node {name}: {text}" for text in found.faults)
    out.warnings.extend(f"node {name}: {text}" for text in found.warnings)
    is_control = [text.startswith("^") for text in node.input]
    if is_control != sorted(is_control):
        out.reordered.append(row)
        out.warnings.append(f"node {name} has a control input before a data input; written in order")


def _names(names: list[str], out: Told) -> None:
    for row, name in enumerate(names):
        if not is_valid_name(name):
            what = f"node {quoted(name)} (number {row}) has an illegal" if name else f"node number {row} has no"
            out.faults.append(f"{what} name: {NAME_RULE}")
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if name and first.setdefault(name, row) != row:
            out.faults.append(f"two nodes are named {quoted(name)}: numbers {first[name]} and {row}")


def _inputs(node: Any, found: AttrFindings, outputs: dict[str, tuple[str, AttrFindings]], out: Told) -> None:
    name = f"node {quoted(node.name)}"
    for text in node.input:
        ref = parse_input(text)
        if ref is None:
            out.faults.append(f"{name} has the input {quoted(text)}, which is no tensor's name")
        elif ref.node not in outputs:
            miss = near_miss(ref.node, outputs) if len(out.faults) < 5 else ""
            verb = "waits for" if ref.port < 0 else "reads"
            out.faults.append(
                f"{name} {verb} {quoted(text)}, and there is no node {quoted(ref.node)}.{miss}".removesuffix(".")
            )
        elif ref.port >= outputs[ref.node][1].outputs >= 0:
            op, count = outputs[ref.node][0], outputs[ref.node][1].outputs
            has = f"{quoted(ref.node)} ({op}) has {count} output{'s' if count != 1 else ''}"
            out.faults.append(f"{name} reads '{printable(ref.node)}:{ref.port}', and {has}")
    count = sum(not text.startswith("^") for text in node.input)
    if count != found.inputs >= 0:
        out.faults.append(f"{name} has {count} data inputs, and {node.op} takes {found.inputs}")
        return
    wanted = iter(_listed(found.takes))
    for place, text in enumerate(node.input):
        ref = parse_input(text)
        takes = 0 if text.startswith("^") else next(wanted, 0)
        given = _listed(outputs[ref.node][1].gives) if ref is not None and ref.node in outputs else []
        if ref is not None and 0 <= ref.port < len(given) and not is_readable_as(given[ref.port], takes):
            source = ref.node if ref.port == 0 else f"{ref.node}:{ref.port}"
            what = f"{name} ({node.op}) takes {dtype_name(takes)} as input {place}"
            out.faults.append(f"{what}, and '{printable(source)}' is {dtype_name(given[ref.port])}")


def _listed(runs: tuple[Run, ...] | None) -> list[int]:
    return [dtype for dtype, count in runs or () for _ in range(count)]


def _colocations(nodes: list[Any], found: list[AttrFindings], rows: dict[str, int], out: Told) -> None:
    others = dict.fromkeys(other for of_node in found for other in of_node.colocated)
    for other in others:
        for node, of_node in zip(nodes, found, strict=True):
            if other in of_node.colocated and other not in rows:
                out.warnings.append(f"node {quoted(node.name)} is colocated with {quoted(other)}, which is not there")
