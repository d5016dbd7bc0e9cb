"""rewrite: what is one with what a pattern asks for, and what only nearly so."""

from __future__ import annotations

from typing import Any

from support import graphs
from support.expecting import account, refused
from support.graphs import FLOAT, INT32, STRING, Builder, graph, identity, node, placeholder, scalar
from support.rewriting import X, done, stays

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.edits.rewriting.matching import Matcher
from gdsurgeon.edits.rewriting.rounds import match_of
from gdsurgeon.patterns.check import rule_of


def whole(value: int) -> list[bytes]:
    return [placeholder("x", INT32), scalar("c", value, INT32), node("y", "AddV2", ["x", "c"], T=INT32)]


def test_whole_numbers_are_just_these() -> None:
    assert done("AddV2($x, 100001) -> $x", *whole(100001))["y"] == ["Identity", "x"]
    stays("AddV2($x, 100001) -> $x", *whole(100000))
    hashed = [placeholder("x", STRING), node("y", "StringToHashBucketFast", ["x"], num_buckets=1000005)]
    rule = "StringToHashBucketFast{num_buckets=%d}($x) -> StringToHashBucket{num_buckets=7}($x)"
    stays(rule % 1000000, *hashed)
    assert done(rule % 1000005, *hashed)["y"] == ["StringToHashBucket", "x"]


def test_texts_are_joined_in_their_order() -> None:
    text = node("c", "Const", dtype=STRING, value=graphs.encode_len(8, b"\x08\x07\x12\x00\x42\x01v"))
    nodes = [placeholder("x", STRING), text, identity("i", "x", kind=STRING), node("y", "Add", ["i", "c"], T=STRING)]
    stays("Add($c:const, Identity($x)) -> Add($c, $x)", *nodes)
    assert done("Add(Identity($x), $c:const) -> Add($x, $c)", *nodes)["y"] == ["Add", "x", "c"]


HUGE = "1" + "0" * 400


def test_numbers_that_no_type_holds() -> None:
    sums = [X, scalar("c", 2.0), node("y", "Mul", ["x", "c"], T=FLOAT)]
    leaks = [X, node("y", "LeakyRelu", ["x"], T=FLOAT, alpha=0.5)]
    for number in (HUGE, "inf", "-inf", "1e999"):
        stays(f"Mul($x, {number}) -> $x", *sums)
    stays(f"LeakyRelu{{alpha={HUGE}}}($x) -> $x", *leaks)
    facts = {"column": 28, "reason": "bad-value", "attr": "alpha", "expected": "float"}
    stays("LeakyRelu($x) -> LeakyRelu{alpha=1e39}($x)", *leaks, code="bad-rule", **facts)


def test_a_search_that_finds_no_end_is_given_up(monkeypatch: Any) -> None:
    monkeypatch.setattr("gdsurgeon.edits.rewriting.matching.MOST_TRIED", 10_000)
    sums, last = [X, placeholder("z")], ("x", "z")
    for i in range(40):
        sums.append(node(f"n{i}", "AddV2", [last[1], last[0]], T=FLOAT))
        last = (last[1], f"n{i}")
    pattern = "$x"
    for i in range(30):
        pattern = f"AddV2({pattern}, $v{i})"
    rule = f"Relu(AddV2({pattern}, $x)) -> $x"
    found = graph(*sums, node("y", "Relu", ["n39"], T=FLOAT))
    refused(found, "too-many-ways", lambda g: rewrite(g, rule))


def test_constants_that_no_attr_can_be_stay() -> None:
    def of(values: list[float]) -> list[bytes]:
        return [X, graphs.const("a", values), node("y", "Mul", ["x", "a"], T=FLOAT)]

    rule = "Mul($x, $a:const) -> Squeeze{squeeze_dims=$a}($x)"
    assert done(rule, *of([1.0, 2.0]))["y"] == ["Squeeze", "x"]
    stays(rule, *of([1.5]), code="bad-value", attr="squeeze_dims", tensor="a")
    stays("Mul($x, $a:const) -> LeakyRelu{alpha=$a}($x)", *of([0.5, 0.25]), code="bad-value", attr="alpha", tensor="a")


def test_attrs_that_an_op_does_not_have_stay() -> None:
    pool = [X, node("y", "Neg", ["x"], T=FLOAT)]
    stays("Neg($x) -> LRN{T=double}($x)", *pool, code="bad-value", op="LRN", attr="T")
    stays("Neg($x) -> DepthToSpace{block_size=1}($x)", *pool, code="bad-value", op="DepthToSpace", attr="block_size")
    stays('Neg($x) -> MirrorPad{mode="ROUND"}($x, [[1,1]])', *pool, code="bad-value", op="MirrorPad", attr="mode")


SPLIT = [scalar("axis", 0, INT32), node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2)]


def test_outputs_and_bindings_are_told_apart() -> None:
    rule = "Sub(s=Split(_, $x), s:1) -> Neg($x)"
    assert done(rule, X, *SPLIT, node("y", "Sub", ["s", "s:1"], T=FLOAT))["y"] == ["Neg", "x"]
    stays(rule, X, *SPLIT, node("y", "Sub", ["s", "s"], T=FLOAT))
    leaks = [X, node("n", "Neg", ["x"], T=FLOAT), node("a", "LeakyRelu", ["x"], T=FLOAT, alpha=0.25),
             node("b", "LeakyRelu", ["n"], T=FLOAT, alpha=0.5)]  # fmt: skip
    either = "AddV2(LeakyRelu{alpha=$a}(Neg($x)), LeakyRelu{alpha=$b}($x)) -> LeakyRelu{alpha=$a}($x)"
    found = graph(*leaks, node("y", "AddV2", ["a", "b"], T=FLOAT))
    rewrite(found, either)
    assert found["y"].plain_attr("alpha") == 0.5
    both = "(LeakyRelu{alpha=$a}($x), LeakyRelu{alpha=$a}(Neg($x))) -> (Elu($x), Elu($x))"
    stays(both, *leaks, node("y", "AddV2", ["a", "b"], T=FLOAT))


ABS = [("a", "Abs", "x"), ("b", "Abs", "x"), ("y", "Neg", "a")]


def ways(pattern: str, root: str, *nodes: bytes) -> list[dict[str, str]]:
    """What names stand for in each way in which a pattern matches at a node."""
    topology, rule = topology_of(graph(*nodes)), rule_of(pattern, only_pattern=True)
    matcher = Matcher(topology, rule, ())
    assert topology.id_of(topology.graph[root]) in matcher.roots()
    found = matcher.ways(topology.id_of(topology.graph[root]))
    return [{name: read.name for name, read in match_of(topology, rule, way).tensors.items()} for way in found]


def test_what_is_bound_where_a_node_is_there_and_not_where_it_is_missing() -> None:
    nodes = [X, placeholder("z"), placeholder("b"), placeholder("c"), node("d", "BiasAdd", ["z", "b"], T=FLOAT),
             node("m", "Mul", ["x", "d"], T=FLOAT), node("s", "Sub", ["x", "c"], T=FLOAT)]  # fmt: skip
    assert ways("(Mul($x, BiasAdd?($z, $b)), Sub($x, $b))", "m", *nodes) == [{"x": "x", "z": "d", "b": "c"}]
    assert ways("Neg(Relu?(Abs($x)))", "y", X, *(node(n, op, [r], T=FLOAT) for n, op, r in ABS)) == [{"x": "x"}]
    twice = [X, node("n", "Neg", ["x"], T=FLOAT), node("y", "Sub", ["n", "n"], T=FLOAT)]
    assert ways("Sub(n=Neg?($x), n)", "y", *twice) == [{"x": "x"}]


def test_a_graph_with_several_inputs_and_results() -> None:
    m = Builder()
    for name in ("b", "a"):
        m.placeholder(name, "float32")
    m.node("difference", "Sub", ["a", "b"], T="float32")
    m.node("product", "Mul", ["a", "b"], T="float32")
    both = [node(name, op, ["x", "z"], T=FLOAT) for name, op in (("s", "AddV2"), ("q", "RealDiv"))]
    found = graph(X, placeholder("z"), *both)
    account(found, rewrite(found, "(RealDiv($a, $b), AddV2($a, $b))", m.graph()))
    assert found["q"].op == "PartitionedCall"
    assert [read.name for read in found["q"].inputs] == ["z", "x"]
