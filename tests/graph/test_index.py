"""The two ways of finding nodes, the search and the table: both say what protobuf says."""

from __future__ import annotations

import base64
import random
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.desk import check_error
from support.graphs import FLOAT, add, const, identity, node, random_graphs

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.analysis.queries.usage import op_counts
from gdsurgeon.errors import InputError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Table, places
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.graph.store import Search
from gdsurgeon.wire.fields import encode_len
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
        expected = expected_answers(drawn.message, name)
        assert answers(search, name) == expected
        assert answers(table, name) == expected
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
    with pytest.raises(InputError) as caught:
        ask(graph)
    check_error(caught.value, "ambiguous-name", {"node": name})
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


def test_op_counts_and_layout() -> None:
    graph = by_table(graphs.graph_bytes(*graphs.g8()))
    assert op_counts(graph) == {"AddV2": 5, "Const": 3}
    assert graph.store.layout.node_count == 8
    assert graph.store.layout.end_of_nodes == graph.source.size - len(graphs.VERSIONS)


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
    with pytest.raises(InputError) as caught:
        by_table(data)
    check_error(caught.value, "corrupt", {"at": 56})


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
    assert table.unread == set(range(MANY)) - read
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
