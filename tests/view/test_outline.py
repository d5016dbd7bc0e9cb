"""The outline of a model: its scopes, groups and blocks, and how much is in each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import prod

import pytest
from support import graphs
from support.browsing import outlines
from support.desk import check_raised
from support.graphs import (
    FLOAT,
    INT32,
    Value,
    add,
    attr,
    const,
    func,
    function,
    identity,
    library,
    node,
    placeholder,
    relu,
    typed,
)

from gdsurgeon.errors import EditError
from gdsurgeon.graph.functions import FunctionLibrary
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Served, Serving
from gdsurgeon.view.content import Content, content_of, flops
from gdsurgeon.view.scopes import Scope
from gdsurgeon.view.tree import Item, fitting, whole, within


def scopes(root: Scope) -> dict[str, Scope]:
    return {scope.path: scope for scope in root.walk()}


def layer(scope: str, source: str, size: int = 4, op: str = "Relu") -> list[bytes]:
    """A dense layer in a scope: weights, a read of them, a product, a bias, an activation."""
    return [
        const(f"{scope}/w", [0.5] * size * size, shape=[size, size]),
        identity(f"{scope}/w/read", f"{scope}/w"),
        node(f"{scope}/MatMul", "MatMul", [source, f"{scope}/w/read"], T=FLOAT),
        const(f"{scope}/b", [0.25] * size, shape=[size]),
        node(f"{scope}/BiasAdd", "BiasAdd", [f"{scope}/MatMul", f"{scope}/b"], T=FLOAT),
        node(f"{scope}/act", op, [f"{scope}/BiasAdd"], T=FLOAT),
    ]


IMAGE = placeholder("x", shape=(-1, 4))


def names(items: Sequence[Item]) -> list[str]:
    return [item.name for item in items]


# -- scopes, and what is in them ----------------------------------------------------------------------------


def test_a_node_that_is_called_like_a_scope_lies_in_it() -> None:
    found = outlines(IMAGE, relu("a", "x"), relu("a/b", "a"), relu("c", "a/b"))
    content, by_path = found.main.content, scopes(found.main.root)
    assert [content.names[row] for row in by_path["a"].rows] == ["a", "a/b"]
    assert [content.names[row] for row in by_path[""].rows] == ["x", "c"]


def test_scopes_stand_in_the_order_of_the_graph_and_not_of_the_file() -> None:
    found = outlines(relu("late/r", "early/r"), relu("early/r", "x"), IMAGE)
    assert [scope.name for scope in found.main.root.scopes] == ["early", "late"]


def test_a_name_of_ten_thousand_scopes_is_read() -> None:
    deep = "/".join(["s"] * 10_000)
    found = outlines(IMAGE, relu(f"{deep}/r", "x"))
    assert sum(1 for _ in found.main.root.walk()) == 10_001
    assert names(within(found, whole(found), 2))[1].endswith("s/s")


# -- weights ------------------------------------------------------------------------------------------------


def test_a_constant_that_nobody_reads_is_an_output() -> None:
    found = outlines(const("a", [1.0]), const("b", [1.0]), identity("y", "b"))
    assert bytes(found.main.content.is_weight) == bytes([0, 1, 0])
    assert names(within(found, whole(found), 1)) == ["a", "y"]


def test_what_is_computed_is_no_weight() -> None:
    found = outlines(const("w", [1.0]), node("n", "Neg", ["w"], T=FLOAT), identity("y", "n"))
    assert bytes(found.main.content.is_weight) == bytes([1, 0, 0])


def test_parameters_are_numbers_that_training_sets() -> None:
    found = outlines(
        const("w", [1.0] * 6, shape=[2, 3]),
        const("axis", [0, 1], INT32),
        node("v", "VarHandleOp", dtype=FLOAT, shape=(5, 5)),
        node("old", "VariableV2", dtype=FLOAT, shape=(7,)),
        node("scalar", "VariableV2", dtype=FLOAT, shape=()),
        node("step", "VarHandleOp", dtype=graphs.dtype(9), shape=(9,)),
    )
    assert found.main.content.parameters == [6, 0, 25, 7, 1, 0]


def test_of_a_model_with_signatures_the_weights_count_that_these_need() -> None:
    found = graphs.graph(const("w", [1.0, 2.0]), const("slot", [1.0, 2.0]), identity("y", "w"))
    assert content_of(found, "").parameters == [2, 2, 0]
    found.serving = Serving(signatures={"s": Served({}, {"y": "y:0"})})
    assert content_of(found, "").parameters == [2, 0, 0]


# -- groups and blocks --------------------------------------------------------------------------------------


def blocks(count: int, style: str = "stage1_block{}_{}") -> list[bytes]:
    """Residual blocks of two layers, without a scope around each."""
    records, source = [IMAGE], "x"
    for number in range(1, count + 1):
        first, second = style.format(number, "a"), style.format(number, "b")
        records += layer(first, source) + layer(second, f"{first}/act")
        source_of_sum = source
        source = style.format(number, "out")
        records.append(add(source, f"{second}/act", source_of_sum))
    return records


def test_siblings_are_grouped_by_the_numbers_in_their_names() -> None:
    by_path = scopes(outlines(*blocks(5)).main.root)
    groups = [path for path, scope in by_path.items() if scope.is_group]
    assert groups == ["stage1_*", *(f"stage1_block{n}_*" for n in range(1, 6))]
    assert {by_path[f"stage1_block{n}_*"].kind for n in range(2, 6)} == {by_path["stage1_block1_*"].kind}
    assert by_path["stage1_block3_*"].nodes == 13


def test_a_group_is_convex() -> None:
    """x_1_* would hold the first and the last node of a chain."""
    chain = [IMAGE, relu("x_1_a", "x")]
    for number in range(12):
        chain.append(relu(f"m{number}", "x_1_a" if not number else f"m{number - 1}"))
    chain += [relu("x_1_b", "m11"), relu("z_1_a", "x_1_b"), relu("z_1_b", "z_1_a")]
    by_path = scopes(outlines(*chain).main.root)
    assert [path for path, scope in by_path.items() if scope.is_group] == ["z_1_*"]
    assert by_path[""].drawn == len(chain)


def test_groups_that_wait_for_each_other_are_dissolved() -> None:
    records = [IMAGE, relu("a_1_p", "x"), relu("b_1_p", "a_1_p"), relu("a_1_q", "b_1_p"), relu("b_1_q", "a_1_q")]
    records += [relu(f"other{number}", "x") for number in range(12)]
    assert not any(scope.is_group for scope in outlines(*records).main.root.walk())


def test_blocks_without_names_are_found_between_cut_tensors() -> None:
    records, source, number = [IMAGE], "x", 0
    for _ in range(12):
        start = source
        for op in ("Relu", "Neg", "Tanh", "Exp"):
            number += 1
            records.append(node(f"n{number}", op, [source], T=FLOAT))
            source = f"n{number}"
        number += 1
        records.append(add(f"n{number}", source, start))
        source = f"n{number}"
    records.append(node("last", "Softmax", [source], T=FLOAT))
    root = outlines(*records).main.root
    groups = [scope for scope in root.walk() if scope.is_group]
    assert [scope.nodes for scope in groups] == [5] * 12
    assert len({scope.kind for scope in groups}) == 1
    assert groups[0].name == "n1 .. n5"
    assert not any(scope.is_group for scope in outlines(*records[:30]).main.root.walk())  # few enough to see


def bottleneck(name: str, source: str, stride: int, *, projected: bool) -> list[bytes]:
    """A block of ResNet50 as Keras names it: three convolutions, and one in the way round where PROJECTED."""

    def conv(part: str, source: str, stride: int, *, relu: bool) -> list[bytes]:
        begin, strides = f"{name}_{part}", [1, stride, stride, 1]
        records = [
            const(f"{begin}_conv/w", [0.5]),
            typed("Conv2D", f"{begin}_conv/Conv2D", source, f"{begin}_conv/w", strides=strides),
            const(f"{begin}_bn/scale", [0.5]),
            node(f"{begin}_bn/Mul", "Mul", [f"{begin}_conv/Conv2D", f"{begin}_bn/scale"], T=FLOAT),
        ]
        return [*records, node(f"{begin}_relu", "Relu", [f"{begin}_bn/Mul"], T=FLOAT)] if relu else records

    records = conv("0", source, stride, relu=False) if projected else []
    records += conv("1", source, stride, relu=True) + conv("2", f"{name}_1_relu", 1, relu=True)
    records += conv("3", f"{name}_2_relu", 1, relu=False)
    records.append(add(f"{name}_add", f"{name}_0_bn/Mul" if projected else source, f"{name}_3_bn/Mul"))
    return [*records, node(f"{name}_out", "Relu", [f"{name}_add"], T=FLOAT)]


def test_the_sixteen_blocks_of_resnet50_are_of_three_kinds() -> None:
    records, source, wanted = [IMAGE], "x", []
    for stage, count in ((2, 3), (3, 4), (4, 6), (5, 3)):
        for number in range(1, count + 1):
            name = f"conv{stage}_block{number}"
            stride = 2 if stage > 2 and number == 1 else 1
            records += bottleneck(name, source, stride, projected=number == 1)
            wanted.append((stride, number == 1))
            source = f"{name}_out"
    by_path = scopes(outlines(*records).main.root)
    blocks = [scope for path, scope in by_path.items() if re.fullmatch(r"conv\d_block\d_\*", path)]
    assert len(blocks) == 16
    assert sorted(Counter(block.kind for block in blocks).values()) == [1, 3, 12]
    assert len({(block.kind, want) for block, want in zip(blocks, wanted, strict=True)}) == 3


def kinds_of(*parts: list[bytes]) -> list[int]:
    """The kinds of the scopes s0, s1, ... that PARTS make."""
    by_path = scopes(outlines(IMAGE, *(record for part in parts for record in part)).main.root)
    return [by_path[f"s{number}"].kind for number in range(len(parts))]


def test_a_kind_is_the_structure_without_names_weights_and_shapes() -> None:
    a, b = kinds_of(layer("s0", "x"), layer("s1", "s0/act"))
    assert a == b >= 0


# -- functions ----------------------------------------------------------------------------------------------

DENSE = function("dense", const("w", [0.5] * 16, shape=[4, 4]), node("y", "MatMul", ["x", "w:output:0"], T=FLOAT))


def call(name: str, source: str, to: str = "dense") -> bytes:
    return node(name, "PartitionedCall", [source], Tin=graphs.dtypes(FLOAT), Tout=graphs.dtypes(FLOAT), f=func(to))


def test_a_call_opens_like_a_scope_and_counts_what_is_in_it() -> None:
    found = outlines(IMAGE, call("c", "x"), call("d", "c"), trailer=library(DENSE))
    items = within(found, whole(found), 2)
    assert names(items) == ["x", "c", "d"]
    assert [item.op for item in items[1].items or []] == ["Placeholder", "MatMul", "Identity"]
    root = found.main.root
    assert root.parameters == 16  # the same weights, though they are used twice
    assert [body.content.title for body in found.bodies()] == ["dense"]


def test_a_function_that_calls_itself_is_opened_as_often_as_asked() -> None:
    again = function("again", call("c", "x", to="again"))
    found = outlines(IMAGE, call("c", "x", to="again"), trailer=library(again))
    depth, items = 0, within(found, whole(found), 7)
    while items:
        depth, items = depth + 1, next((item.items for item in items if item.items), None)
    assert depth == 7


def test_calls_may_be_thousands_deep() -> None:
    depth = 2_000
    weights = const("k", [0.1] * 4)
    called = [*(f"f{n}" for n in range(depth)), "dense"]
    inner = [function(name, weights, call("y", "x", to=to)) for name, to in pairwise(called)]
    found = outlines(IMAGE, call("c", "x", to="f0"), trailer=library(*inner, DENSE) + graphs.VERSIONS)
    assert len(found.bodies()) == depth + 1
    assert found.main.root.parameters == 4 * depth + 16
    assert found.main.root.flops == 0 and len(within(found, whole(found), 100)) == 2


def test_parameters_of_a_function_count_once_however_it_is_reached() -> None:
    weights = const("k", [0.1] * 4)
    other = function("other", weights, node("y", "Neg", ["x"], T=FLOAT))
    both = function("both", weights, call("a", "x"), call("y", "x", to="other"))
    records = [call("s/c", "x"), call("s/d", "x", to="both"), call("t/e", "x", to="other")]
    by_path = scopes(outlines(IMAGE, *records, trailer=library(DENSE, other, both)).main.root)
    assert [by_path[name].parameters for name in ("s", "t", "")] == [24, 4, 24]


def test_functions_that_call_the_next_one_twice_are_not_opened_without_end() -> None:
    doubling = [function(f"f{n}", call("a", "x", to=f"f{n + 1}"), call("y", "a", to=f"f{n + 1}")) for n in range(50)]
    last = function("f50", node("y", "Neg", ["x"], T=FLOAT))
    found = outlines(IMAGE, call("c", "x", to="f0"), trailer=library(*doubling, last))
    check_raised(EditError, "too-large", lambda: within(found, whole(found), 100), depth=100, count=100_000)
    assert fitting(found, whole(found), lambda items: sum(1 for item in items for _ in item.all()), 60)


# -- what is seen -------------------------------------------------------------------------------------------


def test_a_scope_around_one_scope_or_one_node_is_one_with_it() -> None:
    found = outlines(IMAGE, *layer("a/b/c", "x"), const("k/w", [1.0]), add("k/only", "a/b/c/act", "k/w"))
    items = within(found, whole(found), 1)
    assert [(item.name, item.op, item.path) for item in items] == [
        ("x", "Placeholder", "x"),
        ("a/b/c", "", "a/b/c"),
        ("k", "AddV2", "k/only"),
    ]


def test_one_scope_can_be_looked_at() -> None:
    found = outlines(IMAGE, *layer("net/layer", "x"), *layer("net/c", "net/layer/act"))
    assert names(within(found, whole(found, "net/"), 1)) == ["layer", "c"]
    check_raised(EditError, "no-such-scope", lambda: whole(found, "net/lyer"), name="net/lyer", near="net/layer")


def test_it_is_opened_as_deep_as_fits() -> None:
    found = outlines(IMAGE, *layer("a/b", "x"), *layer("a/c", "a/b/act"))

    def size(items: list[Item]) -> int:
        return sum(1 for item in items for _ in item.all())

    assert size(fitting(found, whole(found), size, 1)) == 2
    assert size(fitting(found, whole(found), size, 9)) == 4
    assert size(fitting(found, whole(found), size, 99)) == 10


# -- how much is computed -----------------------------------------------------------------------------------


def flops_of(*records: bytes) -> int:
    found: Graph = graphs.graph(*records)
    content: Content = content_of(found, "")
    assert flops("Neg", next(found.nodes()), None) == 0  # type: ignore[arg-type]
    return sum(content.flops)


def convolved(op: str, image: tuple[int, ...], weights: list[int]) -> int:
    return flops_of(
        placeholder("x", shape=image),
        const("w", [0.0] * prod(weights), shape=weights),
        node("y", op, ["x", "w"], T=FLOAT, strides=[1, 2, 2, 1], padding="SAME"),
    )


def test_a_multiply_add_is_two_operations() -> None:
    assert convolved("Conv2D", (1, 8, 8, 3), [3, 3, 3, 16]) == 2 * (4 * 4 * 16) * (3 * 3 * 3)
    assert convolved("Conv2D", (-1, 8, 8, 6), [3, 3, 3, 16]) == 2 * (4 * 4 * 16) * (3 * 3 * 3)  # in groups; a batch
    assert convolved("DepthwiseConv2dNative", (1, 8, 8, 3), [3, 3, 3, 2]) == 2 * (4 * 4 * 6) * (3 * 3)


def test_products_count_the_dim_that_is_summed() -> None:
    def product(a: tuple[int, ...] | None, b: tuple[int, ...] | None, op: str = "MatMul", **attrs: Value) -> int:
        return flops_of(placeholder("a", shape=a), placeholder("b", shape=b), typed(op, "y", "a", "b", **attrs))

    assert product((5, 7), (7, 3)) == product((7, 5), (7, 3), transpose_a=True) == 2 * 5 * 3 * 7
    assert product((2, 5, 7), (7, 3, 4), "Einsum", N=2, equation="abc,cde->abde") == 2 * 2 * 5 * 7 * 3 * 4
    assert product(None, None) == 0  # what is not known is not counted


# -- what is broken -----------------------------------------------------------------------------------------


def test_a_corrupt_attr_is_a_fault_of_its_node() -> None:
    broken = node("r", "Relu", ["x"], T=FLOAT).replace(attr(FLOAT), b"\xff" * len(attr(FLOAT)))
    found = outlines(IMAGE, broken)
    assert list(found.main.content.faults) == [1]


def test_functions_are_not_counted_for_every_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(_library: FunctionLibrary) -> int:
        raise AssertionError("counted")

    monkeypatch.setattr(FunctionLibrary, "__len__", counted)
    found = outlines(IMAGE, call("c", "x"), trailer=library(DENSE) + graphs.VERSIONS)
    assert found.main.content.calls[1] == ("dense",)


@pytest.mark.parametrize("name", ["", "a:b", "^c"])
def test_a_node_that_no_input_can_name_is_a_fault(name: str) -> None:
    content = outlines(IMAGE, node(name, "NoOp"), relu("r", "x")).main.content
    assert (content.names, content.ops) == (["x", name, "r"], ["Placeholder", "NoOp", "Relu"])
    assert list(content.faults) == [1]


def test_a_cycle_is_seen() -> None:
    found = outlines(IMAGE, add("a/p", "x", "a/q"), relu("a/q", "a/p"))
    assert scopes(found.main.root)["a"].nodes == 2
