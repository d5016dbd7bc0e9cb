"""The check by columns against one that goes node by node: on random graphs, with faults of each kind planted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import graphs
from support.graphs import random_graphs
from support.plain_check import Told, told
from support.planting import PLANTS

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.analysis.checks.findings import MOST_FAULTS
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire import scan as scan_module
from gdsurgeon.wire.messages import message


@pytest.fixture(params=["as it is", "in small chunks"], autouse=True)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks as they are, and so small that a graph comes in several, cut by protobuf."""
    if request.param == "in small chunks":
        for limit, size in (("SMALLEST_CHUNK", 256), ("LARGEST_CHUNK", 512), ("AT_ONCE", 16)):
            monkeypatch.setattr(scan_module, limit, size)
    yield


def compare(graph_def: Any, expected: Told) -> None:
    found = check(from_bytes(graph_def.SerializeToString(deterministic=True)))
    faults = [fault for fault in found.faults if "form a cycle outside" not in fault]
    assert faults == expected.faults[:MOST_FAULTS]
    assert found.warnings == list(dict.fromkeys(expected.warnings))[:MOST_FAULTS]
    assert found.reordered == expected.reordered


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    random_graphs(),
    st.lists(st.tuples(st.sampled_from(sorted(PLANTS)), st.integers(0, 99), st.integers(0, 99)), max_size=5),
)
def test_columns_say_what_a_look_at_each_node_says(drawn: graphs.Drawn, plants: list[tuple[str, int, int]]) -> None:
    graph_def = message("tensorflow.GraphDef").FromString(drawn.data)
    graph_def.ClearField("library")
    nodes = graph_def.node
    for name, at, other in plants if len(nodes) else ():
        PLANTS[name](nodes[at % len(nodes)], nodes[other % len(nodes)])
    compare(graph_def, told(graph_def))


@cache
def chain() -> bytes:
    """Five hundred additions, one behind the other."""
    records = [graphs.const("c", [1]), *(graphs.add(f"n{i}", "c", f"n{i - 1}" if i else "c") for i in range(500))]
    return graphs.graph_bytes(*records)


@cache
def planted(name: str, at: int) -> tuple[Any, Told]:
    """The chain with a fault at a node, and what is to be said of it."""
    graph_def = message("tensorflow.GraphDef").FromString(chain())
    PLANTS[name](graph_def.node[at], graph_def.node[at - 1])
    return graph_def, told(graph_def)


@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("at", [1, 250, 499])
def test_each_fault_among_many_nodes_is_told_as_if_it_were_looked_for_there(name: str, at: int) -> None:
    compare(*planted(name, at))


def test_faults_beyond_those_that_are_told_are_counted_in_the_order_of_the_nodes() -> None:
    """Ops that may be functions are judged when the library is known, and told in their places all the same."""
    odd = [graphs.node(f"m{i}", "F" if i % 2 else "Identity", T=graphs.dtype(999)) for i in range(300)]
    found = check(from_bytes(graphs.graph_bytes(*odd)))
    expected = told(message("tensorflow.GraphDef").FromString(graphs.graph_bytes(*odd)))
    assert found.faults == expected.faults[:MOST_FAULTS]
    assert found.fault_count == len(expected.faults)
