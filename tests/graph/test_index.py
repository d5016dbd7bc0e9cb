"""The scan of a GraphDef and the two ways to find nodes agree with protobuf."""

from __future__ import annotations

import base64
import random
from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_raised
from support.drawing import pick_some
from support.graphs import FLOAT, add, bodies, const, identity, is_message, node, random_graphs

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import InputError
from gdsurgeon.graph import records as scan_module
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table, places
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.records import LARGE, LARGEST_CHUNK, SMALLEST_CHUNK, Run, is_node, scan
from gdsurgeon.graph.store import Search
from gdsurgeon.wire.fields import encode_len, encode_varint
from gdsurgeon.wire.protos import GraphDef
from gdsurgeon.wire.source import BytesSource


def by_search(data: bytes, wanted: list[str]) -> Graph:
    graph = Graph(BytesSource(data))
    graph.prefetch(wanted)
    assert not graph.store.has_table
    return graph


def by_table(data: bytes) -> Graph:
    graph = Graph(BytesSource(data))
    _ = graph.store.table
    return graph


def reads(found: Any, name: str) -> bool:
    return any((ref := parse_input(text)) is not None and ref.node == name for text in found.input)


def expected_answers(parsed: Any, name: str) -> tuple[object, ...]:
    here = {n.name: n for n in parsed.node}
    return (
        name in here,
        sorted(n.name for n in parsed.node if reads(n, name)),
        sorted(
            (n.name, slot)
            for n in parsed.node
            for slot, text in enumerate(t for t in n.input if t[0] != "^")
            if name in here and parse_input(text) == (name, 0)
        ),
        sorted(n.name for n in parsed.node if f"loc:@{name}".encode() in n.attr["_class"].list.s),
        len(parsed.node),
        here[name].op if name in here else None,
        list(here[name].input) if name in here else None,
    )


def answers(graph: Graph, name: str) -> tuple[object, ...]:
    found = graph.find(name)
    handle = graph.base_node(name)
    return (
        name in graph,
        sorted(user.name for user in graph.users(handle)),
        sorted((use.node.name, use.slot) for use in graph.uses(handle.output) if found),
        sorted(user.name for user in graph.colocated_with(handle)),
        graph.node_count,
        found.op if found else None,
        [o.name for o in found.inputs] + ["^" + c.name for c in found.controls] if found else None,
    )


@given(random_graphs(), st.lists(st.sampled_from([*graphs.NAMES, "nowhere", "axis_1"]), min_size=1, max_size=8))
def test_search_and_table_say_what_protobuf_says(drawn: graphs.Drawn, wanted: list[str]) -> None:
    search, table = by_search(drawn.data, wanted), by_table(drawn.data)
    for name in wanted:
        assert answers(search, name) == answers(table, name) == expected_answers(drawn.message, name)
    assert not search.store.has_table
    assert list(table.names()) == [n.name for n in drawn.message.node]


WAYS = pytest.mark.parametrize("make", [by_table, lambda data: by_search(data, ["a"])], ids=["table", "search"])


@WAYS
def test_a_node_that_is_colocated_twice_over_is_there_once(make: Any) -> None:
    graph = make(graphs.graph_bytes(const("a", [1]), const("b", [1], _class=["loc:@a", "loc:@a"])))
    assert [n.name for n in graph.colocated_with(graph["a"])] == ["b"]


def test_names_that_were_not_searched_for_are_found_as_well() -> None:
    graph = by_search(graphs.graph_bytes(*graphs.g8()), ["foo/c"])
    assert [user.name for user in graph.users(graph["foo/d"])] == ["foo/bar/e", "foo/bar/f"]
    assert graph.node_count == 8


def test_a_name_that_is_part_of_too_many_records_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "MOST_HITS", 3)
    data = graphs.graph_bytes(*graphs.g8())
    assert Search.run(BytesSource(data), ["foo"]) is None
    graph = Graph(BytesSource(data))
    graph.prefetch(["foo"])
    assert graph.store.has_table
    assert "foo/c" in graph


@WAYS
@pytest.mark.parametrize(
    ("more", "name", "ask"),
    [
        ([const("b", [1]), const("a", [2])], "a", lambda g: g.find("a")),
        # Users of one name are not mistaken for one.
        (
            [identity("u", "a"), identity("u", "a")],
            "u",
            lambda g: g.rename({g["a"]: "z"}) or g.chunks(),
        ),
    ],
)
def test_a_doubled_name_is_refused_when_it_is_asked_for(make: Any, more: list[bytes], name: str, ask: Any) -> None:
    graph = make(graphs.graph_bytes(const("a", [1]), *more))
    check_raised(InputError, "ambiguous-name", lambda: ask(graph), node=name)
    assert name == "u" or "b" in graph


def test_an_input_goes_to_the_node_that_its_spelling_means_and_not_to_one_that_is_named_so() -> None:
    data = graphs.graph_bytes(
        const("value", [1, 2]),
        const("axis", [0], graphs.INT32, ()),
        node("s", "Split", ["axis", "value"], T=FLOAT, num_split=2),
        const("s:1", [7]),
        identity("y", "s:1"),
    )
    graph = by_table(data)
    assert [o.node.name for o in graph["y"].inputs] == ["s"]
    assert [user.name for user in graph.users(graph["s"])] == ["y"]
    assert graph.users(graph.base_node("s:1")) == []


def test_inputs_of_nodes_that_are_not_there() -> None:
    data = graphs.graph_bytes(add("y", "missing:1", "missing", "^gone"), identity("z", "missing"))
    for graph in (by_table(data), by_search(data, ["missing", "gone"])):
        assert sorted(u.name for u in graph.users(graph.base_node("missing"))) == ["y", "z"]
        assert [u.name for u in graph.users(graph.base_node("gone"))] == ["y"]
        assert "missing" not in graph
        assert [o.name for o in graph["y"].inputs] == ["missing:1", "missing"]
        assert not graph["y"].inputs[0].node.exists


def test_an_output_index_as_large_as_may_be() -> None:
    big = Table.CONTROL_PORT - 1
    data = graphs.graph_bytes(const("a", [1]), node("y", "Op", [f"a:{big}", f"a:{big + 1}", "a:999999999", "^a"]))
    graph = by_table(data)
    assert [o.index for o in graph["y"].inputs] == [big, big + 1, 999_999_999]
    codes = list(graph.store.table.inputs(1))
    assert codes[0] == big
    assert [graph.store.table.unresolved[Table.UNRESOLVED - c] for c in codes[1:3]] == [f"a:{big + 1}", "a:999999999"]
    assert codes[3] == Table.CONTROL_PORT


def test_a_field_with_the_number_of_the_library_and_another_wire_type_is_no_library() -> None:
    data = graphs.graph_bytes(const("a", [1])) + b"\x10\x05"
    assert len(GraphDef.FromString(data).library.function) == 0
    assert len(Graph(BytesSource(data)).functions) == 0


def test_the_producer_is_that_of_the_last_versions_field() -> None:
    data = graphs.graph_bytes(const("a", [1]), trailer=graphs.versions(5) + graphs.versions(21))
    assert by_table(data).store.producer == graphs.parsed(data).versions.producer == 21
    assert by_table(graphs.graph_bytes(const("a", [1]), trailer=b"")).store.producer == 0


def test_a_corrupt_node_says_where() -> None:
    data = const("a", [1]) + base64.b64decode("CgQKAv//") + const("b", [1])
    check_raised(InputError, "corrupt", lambda: by_table(data), at=56)


MANY = 6000


def tangled(seed: int) -> bytes:
    """Nodes in several batches that read near, far, later and absent ones, and have empty inputs or doubled names."""
    chance = random.Random(seed)

    def read(i: int) -> str:
        other = chance.choice([i - 1, i - 2, chance.randrange(MANY), i + chance.randrange(3), MANY + i])
        return chance.choice(["{}", "{}", "{}", "{}:1", "^{}", "{}:0"]).format(f"n{other}")

    out = []
    for i in range(MANY):
        inputs = [read(i) for _ in range(chance.randrange(4))]
        if chance.random() < 0.0005:
            inputs.append("")
        name = f"n{i - 7}" if chance.random() < 0.001 else f"n{i}"
        out.append(node(name, chance.choice(["Add", "Mul", "Odd"]), inputs))
    return b"".join(out)


@pytest.mark.parametrize("seed", range(4))
def test_all_columns_are_what_the_messages_say(seed: int) -> None:
    data = tangled(seed)
    table, parsed = Table.read(BytesSource(data)), graphs.parsed(data).node
    rows = {n.name: row for row, n in enumerate(parsed)}
    assert table.names == [n.name for n in parsed]
    assert [table.op(row) for row in range(MANY)] == [n.op for n in parsed]
    assert table.op_counts == {op: sum(n.op == op for n in parsed) for op in table.op_names}
    assert [table.rows.get(n.name) for n in parsed] == [rows[n.name] for n in parsed]
    assert len(table.rows) == len(rows)
    read, forward = set(), set()
    for row, n in enumerate(parsed):
        record = table.record(row)
        assert record.header().inputs == tuple(n.input)
        kinds = b"".join(b"^" if text[:1] == "^" else b"\1" for text in n.input)
        assert table.kinds(row, row + 1) == kinds + b"\0"
        for text, code in zip(n.input, table.inputs(row), strict=True):
            ref = parse_input(text)
            if ref is None or ref.node not in rows:
                assert table.unresolved[Table.UNRESOLVED - code] == text
                continue
            port = Table.CONTROL_PORT if ref.port == CONTROL else ref.port
            producer = code >> Table.PORT_BITS
            assert parsed[producer].name == ref.node  # which of two of that name is not said
            assert code & Table.CONTROL_PORT == port
            if ref.port != CONTROL:
                read.add(producer)
            if producer >= row:
                forward.add((producer, row))
    assert {row for row, flag in enumerate(table.unread) if flag} == set(range(MANY)) - read
    assert set(table.forward_edges()) == forward
    plain = [code >> Table.PORT_BITS for code in table.edges]
    for at in table.odd_edges:
        plain[at] = 0
    assert list(table.plain_reads()) == plain


def test_a_node_that_holds_what_is_put_between_nodes_is_read_as_it_is() -> None:
    mark = b"\xfa\xff\xff\xff\x0f\x0bend of node"
    held = encode_len(1, encode_len(1, b"a") + encode_len(2, b"NoOp") + mark)
    data = held + b"".join(node(f"n{i}", "NoOp", ["^a"]) for i in range(MANY))
    graph = Graph(BytesSource(data))
    assert check(graph).warnings == ["node 'a' has an unknown field, which is kept"]
    assert graph.store.table.names == ["a", *(f"n{i}" for i in range(MANY))]


def test_a_node_that_is_cut_short_does_not_swallow_what_follows() -> None:
    """Its last field claims as many bytes as what is put between nodes, and another node has what is then missing."""
    for swallowed in range(1, 24):
        short = encode_len(1, encode_len(1, b"a") + encode_len(2, b"NoOp") + bytes([0x2A, swallowed]))
        twice = encode_len(1, encode_len(1, b"") + encode_len(1, b"b") + encode_len(2, b"NoOp"))
        graph = Graph(BytesSource(short + twice + b"".join(node(f"n{i}", "NoOp") for i in range(MANY))))
        with pytest.raises(InputError):
            check(graph)


@pytest.mark.parametrize("kind", ["I", "q"])
def test_places_are_those_of_whole_numbers(kind: str) -> None:
    chance = random.Random(1)
    column = array(kind, [chance.choice([0, 1, 256, 65536, 1 << 24, 257]) for _ in range(2000)])
    for value in (0, 1, 256, 65536, 1 << 24, 257, 5):
        assert list(places(column, value)) == [i for i, other in enumerate(column) if other == value]


@pytest.fixture(params=["real", "tiny"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The limits as they are, and so small that each graph takes all the ways."""
    if request.param == "tiny":
        for limit, size in (("SMALLEST_CHUNK", 8), ("LARGEST_CHUNK", 64), ("LARGE", 40), ("AT_ONCE", 8)):
            monkeypatch.setattr(scan_module, limit, size)
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
            assert (item.base, item.bounds[0]) == (at, 0)
            cuts = [data[item.base + start : item.base + end] for start, end in pairwise(item.bounds)]
            assert cuts == [item.buf[start:end] for start, end in pairwise(item.bounds)]
            found = [body for record in cuts for body in bodies(record)]
            assert item.bodies() == found and len(found) == len(cuts)
            nodes += found
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
    before, behind = ([node(f"{part}_{i}", "NoOp") for i in range(8000)] for part in ("before", "behind"))
    nodes, others = scanned(b"".join([*before, strange, *behind]))
    assert len(nodes) + len(others) == 16_001
    assert strange in others or nodes[8000] == b"\x0a\x03odd"


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
