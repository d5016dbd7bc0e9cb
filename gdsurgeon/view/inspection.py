"""What inspect prints of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gdsurgeon.analysis.check import Findings
from gdsurgeon.analysis.side_effects import RESOURCE_VARIABLES, VARIABLES
from gdsurgeon.analysis.signature import Signature
from gdsurgeon.errors import printable
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view.summary import signature_json, typed
from gdsurgeon.view.text import counted, ops, size


@dataclass
class Inspection:
    """What is known of a graph without running it."""

    graph: Graph
    signature: Signature
    findings: Findings

    @property
    def variables(self) -> int:
        """Variables: their values are not in the file."""
        return sum(n for op, n in self.graph.op_counts().items() if op in VARIABLES | RESOURCE_VARIABLES)


def lines(inspection: Inspection) -> list[str]:
    """For people: the file, its inputs and outputs, its ops."""
    graph = inspection.graph
    counts = graph.op_counts()
    form = "text" if graph.text else "binary"
    head = f"{printable(graph.source_name)}  {form} GraphDef, {size(graph.file_bytes)}, "
    head += f"{counted(graph.node_count, 'node')}, {counted(len(counts), 'op type')}"
    head += f", {counted(len(graph.functions), 'function')}" if len(graph.functions) else ""
    head += f", producer {graph.producer}" if graph.producer else ""
    out = [head]
    for label, tensors in (("inputs", inspection.signature.inputs), ("outputs", inspection.signature.outputs)):
        width = max((len(printable(t.name)) for t in tensors), default=0)
        out.append(f"  {label}" + ("" if tensors else "  none"))
        out.extend(f"    {printable(t.name):<{width}}  {typed(t)}" for t in tensors)
    if inspection.variables:
        out.append(f"  {counted(inspection.variables, 'variable')}, whose values are not in the file")
    most = dict(list(counts.items())[:12])
    out.append(
        f"  ops       {ops(most, 12)}" + (f" and {counted(len(counts) - 12, 'other op')}" if len(counts) > 12 else "")
    )
    return out


def as_json(inspection: Inspection) -> dict[str, Any]:
    """For machines."""
    graph = inspection.graph
    return {
        "file": graph.source_name,
        "format": "text" if graph.text else "binary",
        "bytes": graph.file_bytes,
        "nodes": graph.node_count,
        "producer": graph.producer,
        "functions": [function.signature.name for function in graph.functions],
        "variables": inspection.variables,
        **(signature_json(inspection.signature) or {}),
        "ops": graph.op_counts(),
        "faults": inspection.findings.faults,
        "fault_count": inspection.findings.fault_count,
        "warnings": inspection.findings.warnings,
    }
