"""How many bytes constants take; big ones are not read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from support import graphs
from support.graphs import FLOAT, INT32, const, function, graph, identity, node, tensor

from gdsurgeon.analysis.queries.constants import ConstantSize, constant_sizes
from gdsurgeon.graph.load import load
from gdsurgeon.graph.records import LARGE
from gdsurgeon.wire.fields import encode_len, encode_varint


def test_the_largest_come_first() -> None:
    records = [const("a", [1.0] * 10), const("b", [1.0] * 100), const("c", [1] * 20, INT32, (4, 5)), identity("y", "a")]
    found = constant_sizes(graph(*records), most=2)
    assert (found.count, found.bytes) == (3, sum(map(len, records[:3])))
    assert found.largest == (
        ConstantSize("b", "", len(records[1]), 1, (100,), 400),
        ConstantSize("c", "", len(records[2]), 3, (4, 5), 80),
    )


def test_of_equal_ones_the_first() -> None:
    found = constant_sizes(graph(*(const(f"c{i}", [1.0]) for i in range(9))), most=3)
    assert [constant.name for constant in found.largest] == ["c0", "c1", "c2"]


def test_none() -> None:
    found = constant_sizes(graph(node("n", "NoOp")))
    assert (found.count, found.bytes, found.largest) == (0, 0, ())


def test_one_value_that_stands_for_many() -> None:
    value = encode_len(8, b"\x08\x01" + encode_len(2, graphs.shape_proto([1000, 1000])) + b"\x2d\x00\x00\x80\x3f")
    (found,) = constant_sizes(graph(node("ones", "Const", dtype=FLOAT, value=value))).largest
    assert found.bytes < 100
    assert found.loaded_bytes == 4_000_000


def test_functions_count_in() -> None:
    body = [node("k", "Const", dtype=FLOAT, value=tensor([1.0] * 50)), node("y", "Identity", ["k:output:0"], T=FLOAT)]
    library = graphs.library(function("f", *body, ret="y:output:0"))
    found = constant_sizes(graph(const("c", [1.0]), trailer=library + graphs.VERSIONS))
    assert [(c.name, c.function, c.dtype, c.shape, c.loaded_bytes) for c in found.largest] == [
        ("k", "f", 1, (50,), 200), ("c", "", 1, (1,), 4)
    ]  # fmt: skip
    assert found.count == 2


def test_what_cannot_be_read() -> None:
    found = constant_sizes(graph(node("a", "Const"), node("b", "Const", value=b"\x42\x7f"))).largest
    assert {(c.name, c.dtype, c.shape, c.loaded_bytes) for c in found} == {("a", 0, None, 0), ("b", 0, None, 0)}


def test_edits_are_seen() -> None:
    found = graph(const("a", [1.0] * 10), const("b", [1.0] * 10))
    found.remove([found["a"]])
    found.rename({found["b"]: "a_longer_name"})
    found.add("new", "Const", attrs={"dtype": FLOAT, "value": tensor([1.0] * 9)})
    sizes = constant_sizes(found)
    assert [c.name for c in sizes.largest] == ["a_longer_name", "new"]
    assert abs(sizes.bytes - len(graphs.written(found))) < 20


def test_a_big_constant_is_not_read(tmp_path: Path) -> None:
    size = 64 << 20
    assert size > LARGE
    tail = [
        encode_len(1, b"w") + encode_len(2, b"Const") + encode_len(5, encode_len(1, b"dtype") + encode_len(2, FLOAT))
    ]
    head = b"\x08\x01" + encode_len(2, graphs.shape_proto([size // 4])) + b"\x22" + encode_varint(size)
    for field, inner in ((8, b""), (2, encode_len(1, b"value")), (5, b"")):
        # Each message around is one field longer than what is in it.
        body = len(head) + size
        head = encode_varint(field << 3 | 2) + encode_varint(body) + head
        head = inner + head
    head = tail[0] + head
    path = tmp_path / "big.pb"
    with path.open("wb") as file:
        file.write(b"\x0a" + encode_varint(len(head) + size) + head)
        file.truncate(file.tell() + size)
        file.seek(0, 2)
        file.write(graphs.identity("y", "w") + graphs.VERSIONS)
    tracemalloc.start()
    (found,) = constant_sizes(load(str(path))).largest
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.name, found.dtype, found.shape, found.loaded_bytes) == ("w", 1, (size // 4,), size)
    assert peak < 8 << 20
