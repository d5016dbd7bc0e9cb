"""What an engine is told of a graph's nodes: the same as protobuf reads, and no crash on what is no graph."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import graph_bytes, node, parsed, placeholder
from support.paths import ROOT

from gdsurgeon.runtime.engines.nodes import NodeFacts, nodes_of


@pytest.mark.parametrize("name", ["classifier", "functions_tf2", "while_v1"])
def test_they_are_what_protobuf_reads(name: str) -> None:
    data = (ROOT / "fixtures" / f"{name}.pb").read_bytes()
    assert nodes_of(data) == {
        each.name: NodeFacts(each.op, tuple(each.input), each.attr["data_format"].s.decode())
        for each in parsed(data).node
    }


def test_what_is_cut_off_is_no_graph() -> None:
    data = graph_bytes(placeholder("x"), node("y", "Abs", ["x"]))
    for cut in (1, len(data) // 2):
        with pytest.raises(ValueError):
            nodes_of(data[:-cut])


@given(st.binary(max_size=40), st.integers(0, 200))
def test_what_is_no_graph_is_refused_or_read(noise: bytes, cut: int) -> None:
    data = graph_bytes(placeholder("x"), node("y", "Abs", ["x"]))
    with suppress(ValueError):
        nodes_of(data[:cut] + noise)
