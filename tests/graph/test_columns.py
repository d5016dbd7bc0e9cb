"""The columns of the index, over many batches, held against what each node's own message says."""

from __future__ import annotations

import random
from array import array

import pytest
from support import graphs
from support.graphs import node

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import InputError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.index import Rows, Table, places
from gdsurgeon.graph.names import CONTROL, parse_input
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.source import BytesSource

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


def test_without_an_input_from_a_later_node_there_is_no_forward_edge() -> None:
    def chain(last: str) -> Table:
        nodes = [node(f"n{i}", "Add", [f"n{max(i - 1, 0)}", f"n{i // 2}"] if i else []) for i in range(MANY)]
        return Table.read(BytesSource(b"".join([*nodes, node("end", "Add", [last])])))

    assert list(chain(f"n{MANY - 1}").forward_edges()) == []
    assert list(chain("end").forward_edges()) == [(MANY, MANY)]


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


def test_rows_are_put_together_once_much_was_asked() -> None:
    rows = Rows()
    for part in range(5):
        rows.add({f"n{i}": i for i in range(part * 100, part * 100 + 100)})
    rows.put("n3", 1000)
    assert len(rows) == 500
    for _ in range(2):
        assert [rows.get(f"n{i}") for i in range(500)] == [0, 1, 2, 1000, *range(4, 500)]
        assert (rows.get("none"), rows.get("none", -1), "none" in rows, rows["n499"]) == (None, -1, False, 499)
        assert len(rows) == 500
    rows.add({"n4": 2000, "late": 2001})
    assert (rows["n4"], rows["late"], len(rows)) == (2000, 2001, 501)
    with pytest.raises(KeyError):
        rows["none"]


@pytest.mark.parametrize("kind", ["I", "q"])
def test_places_are_those_of_whole_numbers(kind: str) -> None:
    chance = random.Random(1)
    column = array(kind, [chance.choice([0, 1, 256, 65536, 1 << 24, 257]) for _ in range(2000)])
    for value in (0, 1, 256, 65536, 1 << 24, 257, 5):
        assert list(places(column, value)) == [i for i, other in enumerate(column) if other == value]
