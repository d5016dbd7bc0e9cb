"""The structural check: everything about a graph that TensorFlow would refuse or crash on, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

from gdsurgeon.analysis.checks.attrs import AttrChecks, check_values
from gdsurgeon.analysis.checks.functions import check_functions
from gdsurgeon.analysis.checks.nodes import Findings, NodeChecks
from gdsurgeon.analysis.traversal.order import find_cycle, has_forward_edges, spelt_cycle
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.arguments import public
from gdsurgeon.errors import InputError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table
from gdsurgeon.graph.node import Node
from gdsurgeon.graph.records import batches
from gdsurgeon.ops.dtypes import dtype_name, is_readable_as
from gdsurgeon.ops.op_defs import graph_def_version, op_def, table_version
from gdsurgeon.text import counted
from gdsurgeon.wire.fields import LEN
from gdsurgeon.wire.messages import decode_error
from gdsurgeon.wire.protos import GraphDebugInfo, VersionDef
from gdsurgeon.wire.scan import DEBUG_INFO, LIBRARY, VERSION, VERSIONS

MOST_NODES = 12
"""The maximum number of nodes of a cycle that are named."""


@public
def check(graph: Graph) -> Findings:
    """Finds the faults for which TensorFlow would refuse `graph` in its present state. Does not need TensorFlow.

    Raises:
        InputError: the file is corrupt.
    """
    findings = check_file(graph.written())
    known = {(fault.code, fault.facts.get("node")) for fault in findings.faults}
    for fault in check_edited(graph) if graph.is_edited else ():
        if (fault.code, fault.facts.get("node")) not in known:
            findings.add(fault)
    return findings


def check_file(graph: Graph) -> Findings:
    """Checks `graph` as stored in its file. Linear in nodes, edges and bytes of attrs; not recursive.

    Raises:
        InputError: the file is corrupt.
    """
    findings = Findings()
    store = graph.store
    table, is_new = (store.table, False) if store.has_table else (Table(graph.source), True)
    nodes = NodeChecks(table, AttrChecks(op_def))
    for item in batches(graph.source, forms=True):
        if is_new:
            table.add(item)
        nodes.add(item)
    if is_new:
        table.close()
        store.table = table
    table.colocations = nodes.colocated
    if not table.names:
        findings.fault("it has no nodes", "no-nodes")
    _check_fields(graph, findings)
    nodes.finish(graph.functions, store.producer)
    nodes.tell(findings)
    _check_names(table, findings)
    _check_colocations(table, findings)
    check_functions(graph.functions, findings)
    for function, row in nodes.functions.items():
        if function not in graph.functions:
            name = table.names[row]
            text = f"node {quoted(name)} calls the function {quoted(function)}, which the library does not have"
            findings.fault(text, "no-such-function", node=name, name=function)
    if not findings.fault_count:
        _check_cycles(graph, findings)
    return findings


def refusals(graph: Graph, *, custom_ops: bool = False) -> list[Remark]:
    """Returns the reasons for which TensorFlow would refuse `graph`: its faults and, unless `custom_ops`, unknown ops.

    With `custom_ops`, a library that defines the unknown ops may be loaded.

    Raises:
        InputError: the file is corrupt.
    """
    found = check_file(graph)
    unknown = (line for line in found.warnings if isinstance(line, Remark) and line.code == "missing-op")
    return [*found.faults, *(() if custom_ops else unknown)]


def require_sound(graph: Graph, tolerated: str = "") -> Findings:
    """Checks `graph` with `check_file`, and refuses it if it has faults with a code other than `tolerated`.

    Raises:
        InputError: with all faults in its details.
    """
    findings = check_file(graph)
    if findings.counts.keys() - {tolerated}:
        raise findings.as_error(graph.source_name)
    return findings


def apply_repairs(graph: Graph, findings: Findings) -> bool:
    """Repairs nodes: rewrites those with control inputs before data inputs, and removes dangling colocations.

    Returns whether there were any.
    """
    table = graph.store.table
    for row in findings.reordered:
        graph.touch(graph.base_node(table.names[row]))
    for row in findings.dangling_colocations:
        node = graph.base_node(table.names[row])
        graph.set_colocated(node, [other for other in node.colocated if other.exists])
    return bool(findings.reordered or findings.dangling_colocations)


def check_edited(graph: Graph) -> list[Remark]:
    """Returns the faults that an edit has made: wrong or missing attrs, a wrong number of inputs, or wrong dtypes.

    Only changed and added nodes are checked.
    """
    faults: list[Remark] = []
    for node in graph.touched():
        if node.is_rebuilt and not (node.is_plain_copy and node.base_name is None):
            wrong = input_faults(node)
            # A plain copy has as many inputs as the original.
            faults += [fault for fault in wrong if fault.code != "wrong-count" or not node.is_plain_copy]
        definition = node.op_def if node.is_rebuilt and not node.is_plain_copy else None
        if definition is None:
            continue
        keys = set(node.attr_keys)
        changed = {key: data for key in keys if (data := node.changed_attrs.get(key)) is not None}
        name, where = node.name, f"node {quoted(node.name)}"
        for fault in check_values(definition, changed):
            faults.append(Remark(f"{where}: {fault}", fault.code, node=name, **fault.facts))
        for attr in definition.attrs.values():
            if not attr.has_default and attr.name not in keys:
                text = f"{where}: {node.op} requires an attr {quoted(attr.name)} ({attr.kind}), which is missing"
                faults.append(Remark(text, "no-such-attr", node=name, attr=attr.name))
    return faults


def input_faults(node: Node) -> list[Remark]:
    """Returns the faults of the data inputs of a node: a wrong number, missing outputs, wrong dtypes."""
    required, inputs = node.input_dtypes, node.inputs
    what = f"node {quoted(node.name)} ({printable(node.op)})"
    if required is None:
        return []
    if len(required) != len(inputs):
        text = f"{what} has {len(inputs):,} data inputs, but requires {len(required):,}"
        return [Remark(text, "wrong-count", node=node.name, expected=len(required), found=len(inputs))]
    out: list[Remark] = []
    for slot, (read, dtype) in enumerate(zip(inputs, required, strict=True)):
        dtypes = read.node.output_dtypes if read.node.exists else None
        if dtypes is not None and read.index >= len(dtypes):
            text = f"{what} reads {quoted(read.name)}, but that node has {counted(len(dtypes), 'output')}"
            out.append(Remark(text, "no-such-tensor", node=node.name, tensor=read.name, count=len(dtypes)))
        elif dtypes is not None and not is_readable_as(dtypes[read.index], dtype):
            expected, found = dtype_name(dtype), dtype_name(dtypes[read.index])
            text = f"{what} requires {expected} as input {slot}, but {quoted(read.name)} is {found}"
            facts = {"tensor": read.name, "expected": expected, "found": found}
            out.append(Remark(text, "dtype-mismatch", node=node.name, **facts))
    return out


def _check_fields(graph: Graph, findings: Findings) -> None:
    """Checks the top-level fields other than nodes."""
    _check_versions(graph.store.versions, findings)
    for _ in debug_infos(graph):
        pass  # raises InputError if it is corrupt
    for other in graph.store.layout.others:
        if (other.number, other.wire_type) not in _GRAPH_FIELDS:
            text = f"it has an unknown field {other.number} (wire type {other.wire_type}), which is kept"
            findings.warn(text, "unknown-field", field=other.number)


def _check_versions(versions: VersionDef, findings: Findings) -> None:
    """Checks that the versions in the file allow the TensorFlow of the op tables to read it."""
    version, ours = graph_def_version(), f"TensorFlow {table_version()} has version {graph_def_version()}"
    if versions.producer < 0:
        text = f"its producer version {versions.producer} does not exist"
        findings.fault(text, "wrong-version", found=versions.producer)
    if versions.min_consumer > version:
        text = f"it requires GraphDef version {versions.min_consumer} or later, but {ours}"
        findings.fault(text, "wrong-version", found=versions.min_consumer)
    if version in versions.bad_consumers:
        text = f"it excludes GraphDef version {version}, but {ours}"
        findings.fault(text, "wrong-version", found=version)


def debug_infos(graph: Graph) -> Iterator[GraphDebugInfo]:
    """Yields the debug info of the file. Raises InputError if it is corrupt."""
    for other in graph.store.layout.others:
        if other.number == DEBUG_INFO and other.wire_type == LEN:
            try:
                data = graph.source.read(other.value, other.end - other.value)
                yield GraphDebugInfo.FromString(data)
            except decode_error():
                raise InputError(f"the debug info of {printable(graph.source_name)} is corrupt") from None


_GRAPH_FIELDS = {(LIBRARY, LEN), (VERSION, 0), (VERSIONS, LEN), (DEBUG_INFO, LEN)}


def _check_names(table: Table, findings: Findings) -> None:
    if len(table.rows) + table.names.count("") != len(table.names):
        first: dict[str, int] = {}
        for row, name in enumerate(table.names):
            other = first.setdefault(name, row)
            if other != row and name:
                text = f"two nodes are named {quoted(name)}: numbers {other} and {row}"
                findings.fault(text, "name-taken", node=name, rows=[other, row])


def _check_colocations(table: Table, findings: Findings) -> None:
    missing = [name for name in table.colocations if name not in table.rows]
    illegal = set(table.names).intersection(missing) if missing else ()  # invalid names have no row
    for name in missing:
        if name not in illegal:
            for row in table.colocations[name]:
                findings.dangling_colocations.append(row)
                text = f"node {quoted(table.names[row])} is colocated with {quoted(name)}, which does not exist"
                findings.warn(text, "no-such-node", node=table.names[row], name=name)


def _check_cycles(graph: Graph, findings: Findings) -> None:
    topology = topology_of(graph)
    if not has_forward_edges(topology):
        return
    cycle = find_cycle(topology)
    if cycle:
        text = f"its nodes form a cycle outside a while loop: {spelt_cycle(topology, cycle)}"
        findings.fault(text, "cycle", nodes=[topology.name(number) for number in cycle[:MOST_NODES]])
