"""The structural check: everything about a graph that TensorFlow would refuse or crash on, without TensorFlow."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gdsurgeon.analysis.checks.attrs import AttrFindings, check_attrs
from gdsurgeon.analysis.checks.functions import check_functions, unknown_ops
from gdsurgeon.analysis.traversal.order import find_cycle, has_forward_edges
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import InputError, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Record, Table, record_at, scanned
from gdsurgeon.graph.names import NAME_RULE, is_valid_name, near_miss, parse_input
from gdsurgeon.ops.op_defs import arg_count
from gdsurgeon.wire.fields import LEN, Field, read_field
from gdsurgeon.wire.messages import decode_error, message, unknown_fields
from gdsurgeon.wire.node_record import read_attr
from gdsurgeon.wire.scan import DEBUG_INFO, LARGE, LIBRARY, VERSION, VERSIONS, Run, is_node

MOST_FAULTS = 100
"""Faults of which the text is made; beyond, they are counted."""

_MEMO_BYTES = 512


@dataclass
class Findings:
    """What the structural check has found.

    Attributes:
        faults: what makes the graph unusable, a line each.
        fault_count: how many there are; `faults` holds the first `MOST_FAULTS`.
        warnings: what is odd and does no harm.
        reordered: rows of nodes whose control inputs stand before data inputs: TensorFlow refuses that, and
            writing the node anew puts it right.
        dangling_colocations: rows of nodes that are colocated with a node that is not there; likewise.
    """

    faults: list[str] = field(default_factory=list)
    fault_count: int = 0
    warnings: list[str] = field(default_factory=list)
    reordered: list[int] = field(default_factory=list)
    dangling_colocations: list[int] = field(default_factory=list)

    def fault(self, text: str) -> None:
        """Notes a fault."""
        self.fault_count += 1
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(text)

    def warn(self, text: str) -> None:
        """Notes a warning, once."""
        if len(self.warnings) < MOST_FAULTS and text not in self.warnings:
            self.warnings.append(text)


def check(graph: Graph) -> Findings:
    """Checks GRAPH as it is in its file. Linear in nodes, edges and bytes of attrs; recurses nowhere.

    Raises:
        InputError: the file is corrupt.
    """
    findings = Findings()
    table = graph.store.table
    if not table.names:
        findings.fault("it has no nodes")
    _check_fields(graph, findings)
    nodes = _NodePass(graph, findings)
    nodes.run()
    _check_names(table, findings)
    _check_edges(graph, nodes, findings)
    _check_colocations(table, nodes, findings)
    for fault in check_functions(graph.functions):
        findings.fault(fault)
    for op, name in unknown_ops(graph.functions).items():
        findings.warn(f"op {quoted(op)} (function {quoted(name)}) is not known to this TensorFlow")
    for function, row in nodes.functions.items():
        if function not in graph.functions:
            name = quoted(table.names[row])
            findings.fault(f"node {name} calls the function {quoted(function)}, which the library has not")
    if not findings.fault_count:
        _check_cycles(graph, findings)
    return findings


def require_sound(graph: Graph) -> Findings:
    """`check`, refusing a graph with faults.

    Raises:
        InputError: with all faults in its details.
    """
    findings = check(graph)
    if findings.fault_count:
        raise broken(graph, findings)
    return findings


def broken(graph: Graph, findings: Findings) -> InputError:
    """The error for a graph with faults."""
    name = printable(graph.source_name)
    if findings.fault_count == 1:
        return InputError(f"{name} is broken: {findings.faults[0]}", hint=_REPAIR)
    more = findings.fault_count - len(findings.faults)
    details = (*findings.faults, *((f"and {more:,} more",) if more else ()))
    return InputError(f"{name} is broken in {findings.fault_count:,} places:", hint=_REPAIR, details=details)


_REPAIR = "--validate none lets an edit through that repairs it"


def apply_repairs(graph: Graph, findings: Findings) -> bool:
    """Has the nodes written anew that only need that: control inputs after data, no dangling colocation.

    Returns whether there were any.
    """
    table = graph.store.table
    for row in findings.reordered:
        graph.touch(graph.base_node(table.names[row]))
    for row in findings.dangling_colocations:
        node = graph.base_node(table.names[row])
        graph.set_colocated(node, [other for other in node.colocated if other.exists])
    return bool(findings.reordered or findings.dangling_colocations)


def check_edited(graph: Graph) -> list[str]:
    """The faults that an edit has made: attrs that an op needs and a changed node lacks, and inputs too few or many.

    Looks at the nodes that were changed or added only; the rest is as it was when it was checked.
    """
    faults: list[str] = []
    for node in graph.touched():
        if node.is_plain_copy:
            continue  # as sound as what it was copied from, or was before
        definition = node.op_def if node.is_rebuilt else None
        if definition is None:
            continue
        keys = set(node.attr_keys)
        faults.extend(
            f"node {quoted(node.name)}: {node.op} needs an attr {quoted(attr.name)} ({attr.kind}), and it is missing"
            for attr in definition.attrs.values()
            if not attr.has_default and attr.name not in keys
        )
        wanted = arg_count(definition.inputs, definition, node.plain_attr)
        if len(node.inputs) != wanted:
            faults.append(f"node {quoted(node.name)} has {len(node.inputs)} data inputs, and {node.op} takes {wanted}")
    return faults


def _check_fields(graph: Graph, findings: Findings) -> None:
    """The top-level fields that are not nodes."""
    _ = graph.store.producer  # says where the versions are corrupt
    for other in graph.store.layout.others:
        if other.number == DEBUG_INFO and other.wire_type == LEN:
            _check_debug_info(graph, other)
        if (other.number, other.wire_type) not in _GRAPH_FIELDS:
            findings.warn(f"it has an unknown field {other.number} (wire type {other.wire_type}), which is kept")


def _check_debug_info(graph: Graph, field: Field) -> None:
    try:
        message("tensorflow.GraphDebugInfo").FromString(graph.source.read(field.value, field.end - field.value))
    except decode_error():
        raise InputError(f"the debug info of {printable(graph.source_name)} is corrupt") from None


_GRAPH_FIELDS = {(LIBRARY, LEN), (VERSION, 0), (VERSIONS, LEN), (DEBUG_INFO, LEN)}


class _NodePass:
    """One pass over the nodes with their attrs; what many nodes have in common is checked once."""

    def __init__(self, graph: Graph, findings: Findings) -> None:
        self.graph = graph
        self.findings = findings
        self.outputs = array("i")  # of each row; -1 unknown
        self.expected = array("i")  # data inputs that the op takes; -1 unknown
        self.colocated: dict[str, list[int]] = {}
        self.functions: dict[str, int] = {}
        self.unknown_ops: dict[str, int] = {}
        self._memo: dict[tuple[Any, ...], AttrFindings] = {}

    def run(self) -> None:
        for item in scanned(self.graph.source):
            if isinstance(item, Run):
                self._run_of_nodes(item)
            elif is_node(item):
                self._one(Record(self.graph.source, item.start, item.value, item.end))
        for op, row in self.unknown_ops.items():
            where = quoted(self.graph.store.table.names[row])
            self.findings.warn(f"op {quoted(op)} (node {where}) is not known to this TensorFlow")

    def _run_of_nodes(self, run: Run) -> None:
        base, buf, bounds = run
        count = len(bounds) - 1
        bodies = [
            buf[a + (2 if buf[a + 1] < 128 else 3) : b]
            for a, b in pairwise(bounds)
            if buf[a + 1] < 128 or buf[a + 2] < 128
        ]
        mark = b"\x1a\x00\x2a\x00"
        try:
            parsed = message("gdsurgeon.NodeRecords").FromString(mark.join(bodies) + mark)
            # Whether protobuf can read all that is in them, and knows all of their fields.
            message("tensorflow.GraphDef").FromString(buf[: bounds[-1]])
            readable = len(unknown_fields(parsed)) == 0
        except decode_error():
            parsed, readable = message("gdsurgeon.NodeRecords")(), False
        names, ops, inputs, attrs = parsed.name, parsed.op, list(parsed.input), list(parsed.attr)
        regular = readable and len(names) == len(ops) == inputs.count("") == attrs.count(b"") == count
        if not regular or not _begins_with_names(buf, bounds, names):
            for a, b in pairwise(bounds):
                self._one(record_at(self.graph.source, base + a, base + b))
            return
        has_controls = buf.find(b"^", 0, bounds[-1]) >= 0
        at = input_at = 0
        outputs, expected, memo, find = self.outputs.append, self.expected.append, self._memo, attrs.index
        for op in ops:
            end = find(b"", at)
            found = memo.get((op, *attrs[at:end])) or self._attrs(op, attrs[at:end])
            at = end + 1
            outputs(found.outputs)
            expected(found.inputs)
            if not found.is_plain:
                self._report(found, op)
            if has_controls:
                input_end = inputs.index("", input_at)
                self._check_input_order(inputs[input_at:input_end])
                input_at = input_end + 1

    def _attrs(self, op: str, entries: list[bytes]) -> AttrFindings:
        """The findings on the attr map ENTRIES of a node; remembered, for others will have the same."""
        buf = b"".join(entries)
        spans: dict[str, tuple[int, int]] = {}
        pos = 0
        for entry in entries:
            name, start, end = read_attr(buf, Field(5, LEN, pos, pos, pos + len(entry)))
            spans[name] = (start, end)
            pos += len(entry)
        found = check_attrs(self.graph.op_def(op), op, buf, spans)
        if len(buf) <= _MEMO_BYTES:
            key = (op, *entries)
            self._memo[key] = found
        return found

    def _one(self, record: Record) -> None:
        header = record.header()
        found = check_attrs(self.graph.op_def(header.op), header.op, record.buffer(), header.attrs)
        if header.unknown_fields:
            self.findings.warn(f"node {quoted(header.name)} has an unknown field, which is kept")
        if not header.op and header.name:
            self.findings.fault(f"node {quoted(header.name)} has no op")
        if not found.faults and not _is_readable(record):
            self.findings.fault(f"node {quoted(header.name)} is corrupt")
        self.outputs.append(found.outputs)
        self.expected.append(found.inputs)
        if not found.is_plain:
            self._report(found, header.op)
        self._check_input_order(list(header.inputs))

    def _check_input_order(self, inputs: list[str]) -> None:
        """Control inputs come last; called for the row that was finished last."""
        controls = False
        for text in inputs:
            if text[:1] == "^":
                controls = True
            elif controls:
                row = len(self.outputs) - 1
                name = quoted(self.graph.store.table.names[row])
                self.findings.reordered.append(row)
                self.findings.warn(f"node {name} has a control input before a data input; written in order")
                return

    def _report(self, found: AttrFindings, op: str) -> None:
        """Says of the row that was added last what there is to say."""
        row = len(self.outputs) - 1
        if found.outputs < 0 and op:
            self.unknown_ops.setdefault(op, row)
        name = quoted(self.graph.store.table.names[row])
        for text in found.faults:
            self.findings.fault(f"node {name}: {text}")
        for text in found.warnings:
            self.findings.warn(f"node {name}: {text}")
        for other in found.colocated:
            self.colocated.setdefault(other, []).append(row)
        for function in found.functions:
            self.functions.setdefault(function, row)


def _begins_with_names(buf: bytes, bounds: list[int], names: Any) -> bool:
    """Whether the first field of the first and last node are the names that the flat parse gives them."""
    for i in (0, -1):
        start = bounds[0] if i == 0 else bounds[-2]
        at = start + (2 if buf[start + 1] < 128 else 3)
        field_ = read_field(buf, at, len(buf))
        if field_.number != 1 or buf[field_.value : field_.end] != names[i].encode():
            return False
    return True


def _is_readable(record: Record) -> bool:
    """Whether protobuf can read the record; of a large one only what was looked at already is known."""
    if record.end - record.body > LARGE:
        return True
    try:
        message("tensorflow.NodeDef").FromString(record.buffer()[0 : record.end - record.body])
    except decode_error():
        return False
    return True


def _check_names(table: Table, findings: Findings) -> None:
    for row, name in enumerate(table.names) if not _all_valid(table.names) else ():
        if not is_valid_name(name):
            what = f"node {quoted(name)} (number {row})" if name else f"node number {row}"
            findings.fault(f"{what} has {'an illegal' if name else 'no'} name: {NAME_RULE}")
    if len(table.rows) + table.names.count("") != len(table.names):
        first: dict[str, int] = {}
        for row, name in enumerate(table.names):
            other = first.setdefault(name, row)
            if other != row and name:
                findings.fault(f"two nodes are named {quoted(name)}: numbers {other} and {row}")


def _all_valid(names: list[str]) -> bool:
    """Whether plainly all NAMES are legal; False where that takes a closer look at each."""
    joined = ("\n" + "\n".join(names)).encode("utf-8", "surrogatepass")
    strange = joined.translate(None, _NAME_BYTES)
    odd_starts = (b"\n_", b"\n-", b"\n/", b"\n\n")
    return len(strange) == len(names) and not joined.endswith(b"\n") and not any(s in joined for s in odd_starts)


_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/"


def _check_edges(graph: Graph, nodes: _NodePass, findings: Findings) -> None:
    """Inputs that name no node, outputs that there are not, and the number of inputs."""
    table, outputs, expected = graph.store.table, nodes.outputs, nodes.expected
    bits, control = Table.PORT_BITS, Table.CONTROL_PORT
    row = count = 0
    for code in table.edges:
        if code == -1:
            if count != expected[row] >= 0:
                name, op = quoted(table.names[row]), table.op(row)
                findings.fault(f"node {name} has {count} data inputs, and {op} takes {expected[row]}")
            row += 1
            count = 0
        elif code < 0:
            text = table.unresolved[Table.UNRESOLVED - code]
            count += text[:1] != "^"
            findings.fault(_unresolved(graph, row, text, findings))
        else:
            port = code & control
            if port != control:
                count += 1
                available = outputs[code >> bits]
                if port >= available >= 0:
                    producer = table.names[code >> bits]
                    has = f"{quoted(producer)} ({table.op(code >> bits)}) has {available} output"
                    has += "" if available == 1 else "s"
                    findings.fault(f"node {quoted(table.names[row])} reads '{printable(producer)}:{port}', and {has}")


def _unresolved(graph: Graph, row: int, text: str, findings: Findings) -> str:
    table = graph.store.table
    node = f"node {quoted(table.names[row])}"
    ref = parse_input(text)
    if ref is None:
        return f"{node} has the input {quoted(text)}, which is no tensor's name"
    if ref.node in table.rows:
        return f"{node} reads {quoted(text)}, and no op has that many outputs"
    miss = near_miss(ref.node, table.names) if findings.fault_count < 5 else ""
    verb = "waits for" if text[:1] == "^" else "reads"
    return f"{node} {verb} {quoted(text)}, and there is no node {quoted(ref.node)}.{miss}".removesuffix(".")


def _check_colocations(table: Table, nodes: _NodePass, findings: Findings) -> None:
    for name, rows in nodes.colocated.items():
        if name not in table.rows:
            for row in rows:
                findings.dangling_colocations.append(row)
                findings.warn(f"node {quoted(table.names[row])} is colocated with {quoted(name)}, which is not there")


def _check_cycles(graph: Graph, findings: Findings) -> None:
    topology = Topology(graph)
    if not has_forward_edges(topology):
        return
    cycle = find_cycle(topology)
    if cycle:
        names = [quoted(topology.name(number)) for number in [*cycle, cycle[0]]]
        if len(names) > 12:
            names = [*names[:6], "...", *names[-5:]]
        findings.fault(f"its nodes form a cycle outside a while loop: {' -> '.join(names)}")
