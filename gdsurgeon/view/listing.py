"""Nodes as lists: the result of `select`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdsurgeon.analysis.queries.signature import tensor_info
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.errors import Json, printable
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.view.report import to_json


def lines(
    topology: Topology, groups: Iterable[Iterable[int]], *, tensors: bool, levels: bool, escaped: bool = False
) -> Iterator[str]:
    """Yields the names, one per line, or with `levels` one group per line, separated by spaces.

    Names are exact for programs; with `escaped`, control characters are escaped for a terminal.
    """
    for group in groups:
        names = _tensors(topology, group) if tensors else map(topology.name, group)
        names = map(printable, names) if escaped else names
        if levels:
            yield " ".join(names)
        else:
            yield from names


def as_json(topology: Topology, groups: Iterable[Iterable[int]], levels: bool) -> list[str]:
    """Returns the nodes with their ops and outputs; with `levels`, a list of lists."""
    import json

    found = [[_described(topology.node(number)) for number in group] for group in groups]
    return [json.dumps(found if levels else [node for group in found for node in group], indent=2)]


def _tensors(topology: Topology, group: Iterable[int]) -> Iterator[str]:
    for number in group:
        node = topology.node(number)
        yield from (output.name for output in _outputs(node))


def _outputs(node: Node) -> list[Output]:
    dtypes = node.output_dtypes
    return [Output(node, index) for index in range(1 if dtypes is None else len(dtypes))]


def _described(node: Node) -> dict[str, Json]:
    return {
        "name": node.name,
        "op": node.op,
        "inputs": [read.name for read in node.inputs] + [f"^{control.name}" for control in node.controls],
        "outputs": [to_json(tensor_info(output), "name", "dtype", "shape") for output in _outputs(node)],
    }
