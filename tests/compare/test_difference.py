"""What differs between two graphs, class by class: small graphs with a known answer, and mistakes planted in them."""

from __future__ import annotations

import pytest
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    scalar,
)

from gdsurgeon.compare.changes import Detail
from gdsurgeon.compare.diff import diff
from gdsurgeon.compare.difference import Difference
from gdsurgeon.graph.graph import Graph
from gdsurgeon.view.difference import Counts, counts, lines


def model(
    *, name: str = "conv", padding: str = "SAME", weights: tuple[float, ...] = (3, 4), source: str = "x"
) -> Graph:
    return graph(
        placeholder("x"),
        placeholder("z"),
        const("w", weights),
        node(name, "Conv2D", [source, "w"], T=FLOAT, padding=padding),
        node("out", "Relu", [name], T=FLOAT),
    )


def details(found: Difference) -> dict[str, tuple[Detail, ...]]:
    return {found.names(c.i, c.j)[1]: c.details for c in found.changes}


def test_the_same_bytes_are_not_even_matched() -> None:
    found = diff(model(), model())
    assert found.is_empty and found.matching is None
    assert lines(found)[-1] == "  identical bytes"


def test_another_order_of_nodes_and_attrs_is_no_difference() -> None:
    a = graph(placeholder("x"), node("y", "Conv2D", ["x", "x"], T=FLOAT, padding="SAME", data_format="NHWC"))
    b = graph(node("y", "Conv2D", ["x", "x"], padding="SAME", T=FLOAT), placeholder("x"))
    assert diff(a, b).is_empty  # NHWC is what the op has by default


def test_renamed() -> None:
    found = diff(model(), model(name="layer"))
    assert [found.names(i, j) for i, j in found.renamed] == [("conv", "layer")]
    assert counts(found) == Counts(5, 1, 0, 0, 0, 0, 0)
    assert diff(model(), model(name="layer"), {"names"}).is_empty


def test_an_attr() -> None:
    found = diff(model(), model(padding="VALID"))
    assert details(found) == {"conv": (Detail("attr", "padding", "'SAME'", "'VALID'"),)}
    assert counts(found).changed == 1 and not found.hunks and not found.values


def test_a_value_with_its_distance() -> None:
    found = diff(model(), model(weights=(3, 4.5)))
    (value,) = found.values
    assert value.is_weight and value.distance is not None
    assert (value.distance.relative, value.distance.largest, value.distance.differing) == (0.1, 0.5, 1)
    assert diff(model(), model(weights=(3, 4.5)), {"weights"}).is_empty
    assert "  value" not in "\n".join(lines(found)) and "1 of 1 differ, by 0.1 of their norm" in "\n".join(lines(found))


@pytest.mark.parametrize("size", [2, 100])
def test_a_zero_of_the_other_sign_is_another_value(size: int) -> None:
    a, b = (graph(const("w", [zero] + [1.0] * (size - 1)), identity("y", "w")) for zero in (0.0, -0.0))
    (value,) = diff(a, b).values
    assert value.distance is not None
    assert (value.distance.largest, value.distance.differing) == (0.0, 1)
    assert diff(a, a).is_empty


def test_weights_of_another_shape() -> None:
    found = diff(model(), model(weights=(3, 4, 5)))
    assert details(found) == {"w": (Detail("shape", "value", "float32 [2]", "float32 [3]"),)}
    assert diff(model(), model(weights=(3, 4, 5)), {"shapes"}).is_empty


def test_rewired() -> None:
    found = diff(model(), model(source="z"))
    assert details(found) == {"conv": (Detail("input", "0", "x", "z"),)}
    assert counts(found) == Counts(4, 0, 0, 1, 0, 0, 0)


def test_a_control_edge() -> None:
    a = graph(placeholder("x"), placeholder("z"), identity("y", "x"))
    b = graph(placeholder("x"), placeholder("z"), identity("y", "x", "^z"))
    assert details(diff(a, b)) == {"y": (Detail("control", "", "nothing", "z"),)}


def test_added_and_removed_belong_together_where_they_are_in_one_place() -> None:
    def blocks(middle: str) -> Graph:
        records = [placeholder("x")]
        last = "x"
        for name in ("a", "b"):
            if middle == "two":
                records += [node(f"{name}/1", "Abs", [last], T=FLOAT), node(f"{name}/2", "Neg", [f"{name}/1"], T=FLOAT)]
                last = f"{name}/2"
            else:
                records.append(node(f"{name}/0", "Softsign", [last], T=FLOAT))
                last = f"{name}/0"
            records += [const(f"{name}/w", [ord(name), 2]), node(f"{name}/mul", "Mul", [last, f"{name}/w"], T=FLOAT)]
            last = f"{name}/mul"
        return graph(*records)

    found = diff(blocks("one"), blocks("two"))
    (hunks,) = found.hunks
    assert (dict(hunks.removed), dict(hunks.added), len(hunks.places)) == ({"Softsign": 1}, {"Abs": 1, "Neg": 1}, 2)
    assert "  replaced  2 x  Softsign -> Abs, Neg  (e.g. a/1)" in lines(found)


def test_another_op_in_the_same_place_is_a_change() -> None:
    a = graph(placeholder("x"), node("r", "Relu", ["x"], T=FLOAT), identity("y", "r"))
    b = graph(placeholder("x"), node("q", "Elu", ["x"], T=FLOAT), identity("y", "q"))
    assert details(diff(a, b)) == {"q": (Detail("op", "", "Relu", "Elu"),)}


def test_an_input_of_another_dtype_is_no_new_input() -> None:
    a = graph(placeholder("x"), node("n", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT), identity("y", "n"))
    b = graph(placeholder("x", INT32), node("n", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), identity("y", "n"))
    found = diff(a, b)
    (end,) = found.ends
    assert end.before is not None and end.after is not None
    assert (end.before.spelt, end.after.spelt) == ("float32", "int32")
    assert not found.hunks


def test_what_reads_an_equal_constant_is_the_same() -> None:
    a = graph(placeholder("x"), scalar("c", 2), add("y", "x", "c"), add("z", "y", "c"))
    b = graph(placeholder("x"), scalar("c", 2), scalar("d", 2), add("y", "x", "c"), add("z", "y", "d"))
    found = diff(a, b)
    assert not found.changes
    assert [hunks.added for hunks in found.hunks] == [{"Const": 1}]


def test_bodies_of_functions() -> None:
    def calling(name: str, op: str) -> Graph:
        body = function(name, node("y", op, ["x"], T=FLOAT), ret=f"y:{'activations' if op == 'Relu' else 'y'}:0")
        call = node("call", "PartitionedCall", ["x"], Tin=[], f=func(name))
        return graph(placeholder("x"), call, trailer=library(body))

    assert diff(calling("f", "Relu"), calling("f_12", "Relu"), {"names"}).is_empty
    assert diff(calling("f", "Relu"), calling("f_12", "Relu")).functions_renamed == [("f", "f_12")]
    found = diff(calling("f", "Relu"), calling("f_12", "Neg"))
    assert list(found.functions) == [("f", "f_12")]


@pytest.mark.parametrize("width", [1, 40, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    found = diff(model(), model(name="n" * width, padding="VALID", weights=(1, 2, 3), source="z"))
    assert max(map(len, lines(found))) <= 80
