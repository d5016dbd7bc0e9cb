"""The scanner against protobuf: on sound graphs it finds what protobuf finds, on mutated ones it says so or does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.graphs import bodies, const, is_message, node, random_graphs

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import InputError
from gdsurgeon.graph import records as scan_module
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.records import LARGE, LARGEST_CHUNK, SMALLEST_CHUNK, Run, is_node, scan
from gdsurgeon.wire.fields import Field, encode_len, encode_varint
from gdsurgeon.wire.protos import GraphDef
from gdsurgeon.wire.source import BytesSource


@pytest.fixture(params=["real", "tiny"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The limits as they are, and so small that each graph takes all the ways."""
    if request.param == "tiny":
        monkeypatch.setattr(scan_module, "SMALLEST_CHUNK", 8)
        monkeypatch.setattr(scan_module, "LARGEST_CHUNK", 64)
        monkeypatch.setattr(scan_module, "LARGE", 40)
        monkeypatch.setattr(scan_module, "AT_ONCE", 8)
    yield request.param


def offset_of(error: InputError) -> int:
    at = error.facts["at"]
    assert isinstance(at, int)
    return at


def scanned(data: bytes) -> tuple[list[bytes], list[bytes]]:
    """The NodeDefs and the other fields of DATA, as the scanner finds them; the pieces must cover all of it."""
    found = pieces(data, cut=False)
    assert pieces(data, cut=True) == found
    return found


def pieces(data: bytes, *, cut: bool) -> tuple[list[bytes], list[bytes]]:
    nodes: list[bytes] = []
    others: list[bytes] = []
    at = 0
    for item in scan(BytesSource(data), cut=cut):
        if isinstance(item, Run):
            assert item.base == at
            assert item.bodies() == [bodies(item.buf[a:b])[0] for a, b in pairwise(item.bounds)]
            assert item.bounds[0] == 0
            for start, end in pairwise(item.bounds):
                assert item.buf[start:end] == data[item.base + start : item.base + end]
                (body,) = bodies(item.buf[start:end])
                nodes.append(body)
            at = item.base + item.size
        else:
            assert item.start == at
            if is_node(item):
                nodes.append(data[item.value : item.end])
            else:
                others.append(data[item.start : item.end])
            at = item.end
    assert at == len(data)
    return nodes, others


def test_the_constants_are_in_the_order_that_the_scanner_counts_on() -> None:
    assert SMALLEST_CHUNK < LARGE < LARGEST_CHUNK


@pytest.mark.parametrize(
    "strange", [b"\x7a\x02ab", b"\x0a\x85\x00" + b"\x0a\x03odd", b"\x08\x01"], ids=["field", "long length", "number"]
)
def test_what_is_strange_among_very_many_nodes_is_found(strange: bytes) -> None:
    """Where protobuf cuts many nodes at once, it takes note of nothing else."""
    nodes_before = [node(f"before_{i}", "NoOp") for i in range(8000)]
    nodes_behind = [node(f"behind_{i}", "NoOp") for i in range(8000)]
    nodes, others = scanned(b"".join([*nodes_before, strange, *nodes_behind]))
    assert len(nodes) + len(others) == 16_001
    assert strange in others or nodes[8000] == b"\x0a\x03odd"


@pytest.mark.parametrize(
    "sizes",
    [
        [10],
        [LARGE - 3, LARGE - 2, LARGE - 1, LARGE, LARGE + 1],
        [SMALLEST_CHUNK] * 5,
        [LARGEST_CHUNK + 1, 5, LARGEST_CHUNK * 2, 5, 5],
        [5] * 5000,
        [1000] * 3000,
        [5, LARGE * 3, 5, SMALLEST_CHUNK - 1, 5, LARGEST_CHUNK],
    ],
    ids=str,
)
def test_nodes_of_every_size_are_found(sizes: list[int]) -> None:
    noise = random.Random(1)
    records = [const(f"n{i}", [float(noise.random())] * (size // 4)) for i, size in enumerate(sizes)]
    data = b"".join(records) + graphs.VERSIONS
    nodes, others = scanned(data)
    assert nodes == bodies(data)
    assert len(nodes) == len(sizes)
    assert others == [graphs.VERSIONS]


def test_a_large_node_is_not_read() -> None:
    class Counted(BytesSource):
        count = 0

        def read(self, offset: int, size: int) -> bytes:
            self.count += size
            return super().read(offset, size)

    data = const("small", [1]) + const("big", [1.0] * 4_000_000) + const("last", [1])
    source = Counted(data)
    assert sum(len(i.sizes) if isinstance(i, Run) else 1 for i in scan(source)) == 3
    assert source.count < 100_000


@st.composite
def encodings(draw: st.DrawFn) -> bytes:
    """A random graph as protobuf might have written it: fields of nodes in any order, unknown fields,
    lengths longer than need be, top-level fields between the nodes, text fields that are there twice."""
    drawn = draw(random_graphs(most=5))
    out = [encode_node_record(draw, found) for found in drawn.message.node]
    unknown = st.sampled_from([b"\x78\x05", b"\x7a\x02ab", b"\x08\x07", b"\x7d1234", b"\x7b\x08\x01\x7c", b"\x12\x00"])
    for extra in draw(st.lists(unknown, max_size=3)):
        out.insert(draw(st.integers(0, len(out))), extra)
    out.insert(draw(st.integers(0, len(out))), graphs.VERSIONS)
    return b"".join(out)


def encode_node_record(draw: st.DrawFn, found: Any) -> bytes:
    parts = [part(found, name) for name in ("name", "op", "device", "attr")]
    if draw(st.booleans()):
        parts.append(encode_len(1, b"an_earlier_name"))
        parts.reverse()
    parts += [encode_len(3, text.encode()) for text in found.input]
    parts += pick_some(draw, [b"\xa0\x06\x01", b"\xa2\x06\x03xyz", b"\x45abcd"], 2)
    if draw(st.booleans()):  # the inputs keep their order among themselves
        at = draw(st.integers(0, len(parts) - 1))
        parts.insert(0, parts.pop(at) if not parts[at].startswith(b"\x1a") else b"")
    padding = b"".join(parts)
    length = encode_varint(len(padding))
    if draw(st.booleans()):
        length = length[:-1] + bytes([length[-1] | 0x80]) + b"\x80" * draw(st.integers(0, 5 - len(length) - 1)) + b"\0"
    return b"\x0a" + length + padding


def part(found: Any, field: str) -> bytes:
    alone = type(found)()
    if field == "attr":
        for key, value in found.attr.items():
            alone.attr[key].CopyFrom(value)
    else:
        setattr(alone, field, getattr(found, field))
    return bytes(alone.SerializeToString())


@pytest.mark.usefixtures("limits")
class TestAgainstProtobuf:
    @given(data=encodings())
    def test_finds_the_nodes_that_protobuf_finds(self, data: bytes) -> None:
        nodes, _ = scanned(data)
        assert nodes == bodies(data)

    @given(data=encodings())
    def test_the_index_has_the_names_ops_and_inputs_that_protobuf_has(self, data: bytes) -> None:
        graph = Graph(BytesSource(data))
        found = GraphDef.FromString(data).node
        table = graph.store.table
        assert table.names == [n.name for n in found]
        assert [table.op(row) for row in range(len(found))] == [n.op for n in found]
        for row, expected in enumerate(found):
            header = table.record(row).header()
            assert (header.name, header.op, list(header.inputs), header.device) == (
                expected.name, expected.op, list(expected.input), expected.device
            )  # fmt: skip
            assert set(header.attrs) == set(expected.attr)
        assert b"".join(body for body in bodies(graph)) == b"".join(bodies(data))

    @given(data=encodings(), change=st.data())
    def test_takes_and_refuses_what_protobuf_does(self, data: bytes, change: st.DataObject) -> None:
        mutated = mutate(data, change)
        try:
            nodes, _ = scanned(mutated)
        except InputError as error:
            assert 0 <= offset_of(error) <= len(mutated)
            # Python's protobuf skips a field 0 inside a group; that of C++, which TensorFlow reads with, does not.
            in_group = any(byte & 7 == 3 for byte in mutated[: offset_of(error) + 1])
            assert not is_message(mutated) or (in_group and error.facts["reason"] == "field number 0")
            return
        if is_message(mutated):
            assert nodes == bodies(mutated)
        else:  # protobuf wants tags and lengths in five bytes
            assert b"\x80" in mutated or any(byte > 127 for byte in mutated)

    @given(data=encodings(), change=st.data())
    def test_a_mutated_graph_ends_in_an_answer_or_in_an_input_error(self, data: bytes, change: st.DataObject) -> None:
        graph = Graph(BytesSource(mutate(data, change)))
        try:
            findings = check(graph)
        except InputError:
            return
        if findings.fault_count:
            return
        for found in graph.nodes():
            _ = found.inputs, found.controls, found.colocated, found.attr_keys
        assert b"".join(bodies(graph)) == b"".join(bodies(graph.source.read(0, graph.source.size)))


def mutate(data: bytes, change: st.DataObject) -> bytes:
    out = bytearray(data)
    for _ in range(change.draw(st.integers(0, 3), "changes")):
        at = change.draw(st.integers(0, len(out) - 1), "where")
        what = change.draw(st.sampled_from(["set", "delete", "insert"]), "what")
        if what == "set":
            out[at] = change.draw(st.integers(0, 255), "byte")
        elif what == "delete" and len(out) > 1:
            del out[at]
        else:
            out.insert(at, change.draw(st.integers(0, 255), "byte"))
    if change.draw(st.integers(0, 4), "cut") == 0:
        del out[change.draw(st.integers(0, len(out)), "end") :]
    return bytes(out)


# What hypothesis has no luck with.


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x0a", "cut short"),
        (b"\x0a\x80", "cut short"),
        (b"\x0a\x05abcd", "cut short"),
        (b"\x0a" + b"\x80" * 10 + b"\x01", "more than ten bytes"),
        (b"\x0a\xff\xff\xff\xff\x0f", "cut short"),
        (b"\x00", "field number 0"),
        (b"\x0f", "wire type 7"),
        (b"\x0b\x08\x01", "never closed"),
        (b"\x22\x05\x08", "cut short"),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 2000])
@pytest.mark.usefixtures("limits")
def test_the_offset_of_an_error_lies_in_the_field_at_fault(tail: bytes, reason: str, count: int) -> None:
    sound = node("n", "NoOp") * count
    with pytest.raises(InputError, match=reason) as caught:
        scanned(sound + tail)
    assert len(sound) <= offset_of(caught.value) <= len(sound + tail)


def test_a_field_one_of_another_wire_type_is_no_node() -> None:
    items = list(scan(BytesSource(node("n", "NoOp") + b"\x08\x05" + node("m", "NoOp"))))
    assert [isinstance(item, Run) or is_node(item) for item in items] == [True, False, True]
    assert isinstance(items[1], Field)
