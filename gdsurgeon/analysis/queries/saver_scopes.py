"""The name scopes of savers: what TensorFlow 1 adds to a graph in order to write and read checkpoints."""

from __future__ import annotations

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.kinds import CHECKPOINT_WRITERS, RESTORES


def saver_scopes(graph: Graph) -> list[str]:
    """The scopes in which nodes of GRAPH write or read checkpoints, such as ``save``, the outer ones only."""
    topology = topology_of(graph)
    found = {topology.name(number).rpartition("/")[0] for number in topology.with_ops(CHECKPOINT_WRITERS | RESTORES)}
    return sorted(scope for scope in found - {""} if not any(scope.startswith(f"{other}/") for other in found - {""}))


def saver_of(name: str, scopes: list[str]) -> str:
    """The one of SCOPES in which the node NAME lies; '' if it lies in none."""
    return next((scope for scope in scopes if name.startswith(f"{scope}/")), "")
