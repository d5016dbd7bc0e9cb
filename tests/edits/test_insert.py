"""insert: a graph with one input and one output, spliced into one tensor or several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import Desk
from support.expecting import account, expect, refused, sound
from support.graphs import BOOL, FLOAT, INT32, X, add, const, graph, identity, neg, node, placeholder, scalar, typed
from support.running import run
from support.system import is_linear
from support.v1_control_flow import LOOP

import gdsurgeon as gds
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import SameGiven, SamePart
from gdsurgeon.edits.parts import insert
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection


def model() -> list[bytes]:
    """x -> a -> y, z; z reads a twice."""
    return [
        placeholder("x", FLOAT, (2,)), neg("a", "x"), typed("Abs", "y", "a"), typed("Mul", "z", "a", "a"),
    ]  # fmt: skip


def body() -> list[bytes]:
    """in * 10 + 1."""
    return [
        placeholder("in", FLOAT, (2,)), scalar("ten", 10), typed("Mul", "tens", "in", "ten"),
        scalar("one", 1), add("out", "tens", "one"),
    ]  # fmt: skip


def test_everything_that_read_the_tensor_reads_the_result() -> None:
    found, part = graph(*model()), graph(*body(), name="body.pb")
    result = expect(
        found,
        lambda g: insert(g, "a", part),
        [
            *model()[:2],
            scalar("ten", 10),
            typed("Mul", "tens", "a", "ten"),
            scalar("one", 1),
            add("out", "tens", "one"),
            typed("Abs", "y", "out"),
            typed("Mul", "z", "out", "out"),
        ],
    )
    assert sorted(result.intent.rewired) == [
        Rewired("y", 0, "a", "out"), Rewired("z", 0, "a", "out"), Rewired("z", 1, "a", "out")
    ]  # fmt: skip
    assert result.intent.added == ["ten", "tens", "one", "out"]
    assert result.intent.copied == {"ten": "ten", "tens": "tens", "one": "one", "out": "out"}
    assert result.notes == result.warnings == []
    (given,) = [c for c in result.claims if isinstance(c, SameGiven)]
    assert SamePart(part, {"in": "a"}, (("out", "out"),), result.intent.copied) in result.claims
    assert given == SameGiven({"a": "out"}, (("y", "y"), ("z", "z")), "edited(x) == original(x, a := out)")
    assert run(found, "y", "z", x=[1.0, -2.0]) == [[9, 21], [81, 441]]


SPLIT = [const("axis", [0], INT32, ()), placeholder("v", FLOAT, (4,)),
         typed("Split", "s", "axis", "v", num_split=2), add("y", "s", "s:1")]  # fmt: skip
WITH_DEFAULT = [placeholder("in", FLOAT, (2,)), scalar("d", 1),
                node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=()), add("out", "in", "p")]  # fmt: skip
WAITING = [identity("w", "x", "^a"), node("n", "NoOp", ["^a"]), typed("Abs", "m", "a", "^a")]


def forwarding(kind: bytes = FLOAT, shape: tuple[int, ...] | None = (2,)) -> list[bytes]:
    return [placeholder("in", kind, shape), identity("out", "in", kind=kind)]


@pytest.mark.parametrize(
    ("records", "tensor", "part", "scope", "inputs"),
    [
        (SPLIT, "s:1", body(), "", {"y": ["s", "out"], "tens": ["s:1", "ten"]}),
        (model(), "x", body(), "", {"a": ["out"], "tens": ["x", "ten"]}),
        ([*model(), *WAITING], "a", body(), "", {"w": ["x", "^a"], "n": ["^a"], "m": ["out", "^a"]}),
        (model(), "a", WITH_DEFAULT, "", {"out": ["a", "p"], "p": ["d"]}),
        (model(), "x", forwarding(shape=None), "", {"a": ["out"]}),
        (model(), "x", forwarding(shape=(-1,)), "", {"a": ["out"]}),
        ([*model(), const("in", [1])], "a", body(), "", {"tens": ["a", "ten"], "y": ["out"]}),
        ([*model(), const("ten", [10])], "a", body(), "s/", {"z": ["s/out"] * 2, "s/out": ["s/tens", "s/one"]}),
        ([*model(), const("s/other", [10])], "a", body(), "s", {"z": ["s/out"] * 2}),
    ],
    ids=["output 1", "an input of the graph", "control inputs never move", "an input with a default", "unknown rank",
         "unknown size", "the placeholder needs no name", "under a scope", "under a scope that is in use"],
)  # fmt: skip
def test_what_reads_what(
    records: list[bytes], tensor: str, part: list[bytes], scope: str, inputs: dict[str, list[str]]
) -> None:
    found = graph(*records)
    result = insert(found, tensor, graph(*part), scope=scope)
    assert {name: graphs.inputs(found)[name] for name in inputs} == inputs
    assert result.notes == []
    assert sound(found)


# -- what does not fit ---------------------------------------------------------------------------------------


def cast(kind: bytes, to: bytes) -> list[bytes]:
    return [placeholder("in", kind, (2,)), node("out", "Cast", ["in"], SrcT=kind, DstT=to)]


def plus_one() -> list[bytes]:
    return [placeholder("in", INT32, ()), scalar("one", 1, INT32), add("out", "in", "one", kind=INT32)]


def looping() -> Graph:
    """A body with the loop of the model, and its frame name."""
    return graph(*(record.replace(b"out", b"res") for record in graphs.loop()))


P, IN = placeholder("p", FLOAT, (2,)), placeholder("in", FLOAT, (2,))
OF_3 = [IN, const("k", [1, 1, 1]), typed("MyOp", "out", "in", "k", _output_shapes=[(3,)])]


@pytest.mark.parametrize(
    ("tensor", "part", "code", "facts"),
    [
        ("a", [const("k", [1, 1]), identity("out", "k")], "wrong-count", {"placeholders": []}),
        ("a", [P, IN, add("out", "p", "in")], "wrong-count", {"placeholders": ["p", "in"]}),
        ("a", [P], "wrong-count", {"outputs": []}),
        ("a", [P, identity("r", "p"), identity("s", "p")], "wrong-count", {"outputs": ["r", "s"]}),
        ("a", [SPLIT[0], P, typed("Split", "s", "axis", "p", num_split=2)], "wrong-count",
         {"outputs": ["s", "s:1"]}),
        ("x", cast(INT32, FLOAT), "dtype-mismatch",
         {"tensor": "x", "file": "model.pb", "found": "float32 [2]", "input": "in", "expected": "int32 [2]"}),
        ("x", cast(FLOAT, INT32), "dtype-mismatch",
         {"tensor": "out", "file": "body.pb", "found": "int32", "input": "x", "expected": "float32 [2]"}),
        ("x", forwarding(shape=(3,)), "shape-mismatch",
         {"tensor": "x", "found": "float32 [2]", "input": "in", "expected": "float32 [3]"}),
        ("x", OF_3, "shape-mismatch", {"tensor": "out", "found": "unknown type", "input": "x"}),
        ("y", body(), "no-consumers", {"tensor": "y"}),
        ("z", body(), "no-consumers", {"tensor": "z"}),
        ("^a", body(), "bad-tensor-name", {"tensor": "^a"}),
    ],
)  # fmt: skip
def test_what_does_not_fit(tensor: str, part: list[bytes], code: str, facts: dict[str, Any]) -> None:
    found, other = graph(*model(), node("n", "NoOp", ["^z"])), graph(*part, name="body.pb")
    refused(found, code, partial(insert, tensor=tensor, body=other), other, **facts)


def test_a_tensor_of_another_graph() -> None:
    edit = partial(insert, tensor=graph(*model())["a"].output, body=graph(*body()))
    refused(graph(*model()), "other-graph", edit, tensor="a")


@pytest.mark.parametrize(
    ("scope", "code", "facts"),
    [("_s", "bad-name", {}), ("a b", "bad-name", {}), ("s:0", "bad-name", {}), ("t", "name-taken", {"name": "t/ten"})],
)
def test_scopes_that_are_refused(scope: str, code: str, facts: dict[str, Any]) -> None:
    edit = partial(insert, tensor="a", body=graph(*body()), scope=scope)
    refused(graph(*model(), const("t/ten", [10])), code, edit, **facts)


@pytest.mark.parametrize("tensor", ["w/Add", "w/Identity", "w/Switch:1", "w/Merge"])
@pytest.mark.parametrize("part", [graph(*plus_one()), looping()], ids=["a constant", "a loop"])
def test_inside_a_loop_with_a_constant(tensor: str, part: Graph) -> None:
    """A constant without inputs runs outside of the frame: a node cannot read it and a tensor of the loop."""
    edit = partial(insert, tensor=tensor, body=part, scope="b")
    refused(graph(*graphs.loop()), "crosses-loop", edit, part, tensor=tensor, loop="w")


# -- control flow --------------------------------------------------------------------------------------------


def doubling(kind: bytes = INT32) -> list[bytes]:
    """Without a constant of its own, so that all of it runs where its input does."""
    return [placeholder("in", kind, ()), add("out", "in", "in", kind=kind)]


def test_inside_a_loop_without_constants() -> None:
    found = graph(*graphs.loop())
    insert(found, "w/Add", graph(*doubling()), scope="b")  # i = 2 (i + 1): 0, 2, 6, 14
    assert graphs.inputs(found)["w/NextIteration"] == ["b/out"]
    assert run(found, "out", n=10) == [14]


def conditional() -> list[bytes]:
    """Where p: -(x); else |x|."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", INT32, ()), typed("Switch", "c/s", "x", "p", kind=INT32),
        neg("c/t", "c/s:1", kind=INT32), typed("Abs", "c/f", "c/s", kind=INT32),
        typed("Merge", "c/m", "c/f", "c/t", kind=INT32, N=2), identity("y", "c/m", kind=INT32),
    ]  # fmt: skip


@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("tensor", ["c/t", "c/s:1", "c/f"])
def test_inside_a_branch(tensor: str, p: bool) -> None:
    found = graph(*conditional())
    insert(found, tensor, graph(*plus_one()))
    value = 5
    expected = {"c/t": -value + 1 if p else value, "c/s:1": -(value + 1) if p else value,
                "c/f": -value if p else value + 1}[tensor]  # fmt: skip
    assert run(found, "y", p=p, x=value) == [expected]


DEEP = [placeholder("x", FLOAT, (2,)), neg("a", "x"), neg("b", "a"), typed("Abs", "y", "b"), neg("c", "a")]  # fmt: skip


@pytest.mark.parametrize(
    ("tensors", "scope", "prefixes"),
    [(Selection(ops=("Neg",)), "", ("a/", "b/")), (["b", "a"], "s", ("b/s/", "a/s/")), (["a"], "", ("a/",))],
)
def test_several_tensors(tensors: Any, scope: str, prefixes: tuple[str, ...]) -> None:
    """Each has a copy of its own, whether or not one is computed from another."""
    found = graph(*DEEP)
    result = insert(found, tensors, graph(*body(), name="body.pb"), scope=scope)
    account(found, result)
    for name in prefixes:
        tensor = name[0]
        assert graphs.inputs(found)[f"{name}tens"] == [tensor, f"{name}ten"]
        assert graphs.inputs(found)[{"a": "b", "b": "y"}[tensor]] == [f"{name}out"]
    assert gds.prove(found.pristine(), found, result).compared
    of_a, of_b = ((lambda v: v * 10 + 1) if any(p[0] == n for p in prefixes) else (lambda v: v) for n in "ab")
    assert run(found, "y", x=[1.0, -2.0]) == [[abs(of_b(-of_a(-v))) for v in (1, -2)]]


@pytest.mark.tensorflow
def test_several_tensors_some_of_which_lie_in_a_loop() -> None:
    """Their values cannot be fetched: the copies there are run apart."""
    found = graph(*LOOP)
    part = [placeholder("in", FLOAT, ()), neg("out", "in")]
    result = insert(found, Selection(ops=("Mul", "Exit")), graph(*part, name="body.pb"))
    account(found, result)
    assert {"w/double/out", "w/Exit_v/out"} <= set(found.names())
    assert gds.prove(found.pristine(), found, result).compared


@pytest.mark.parametrize(
    ("tensors", "scope", "code", "facts"),
    [
        (Selection(nodes=("y", "c")), "", "no-consumers", {"tensors": ["y", "c"]}),
        (["a", "y"], "", "no-consumers", {"tensor": "y"}),
        (["a", "b"], "s", "name-taken", {"name": "b/s/ten"}),
        (["a", "nope"], "", "no-such-node", {"node": "nope"}),
    ],
)
def test_several_tensors_that_are_refused(tensors: Any, scope: str, code: str, facts: dict[str, Any]) -> None:
    found, part = graph(*DEEP, const("b/s/ten", [1])), graph(*body())
    refused(found, code, lambda g: insert(g, tensors, part, scope=scope), part, **facts)


def test_a_selection_on_the_command_line(desk: Desk) -> None:
    desk.put("m.pb", graphs.graph_bytes(*DEEP))
    desk.put("body.pb", graphs.graph_bytes(*body()))
    quick = ("--validate", "structure", "-o", "out.pb")
    desk.done("insert", "m.pb", "--op", "Neg", "body.pb", *quick)
    assert desk.run("select", "out.pb", "--op", "Mul").out.decode().split() == ["a/tens", "b/tens"]
    desk.done("insert", "m.pb", "--op", "Neg", "--steps", "clip(0, 6)", *quick)
    assert len(desk.run("select", "out.pb", "--op", "ClipByValue").out.decode().split()) == 2
    desk.refused(2, "missing-option", "insert", "m.pb", option="--at")
    desk.refused(2, "conflicting-options", "insert", "m.pb", "--at", "a", "body.pb", "--op", "Neg", option="--at")
    steps = ("insert", "m.pb", "--op", "Neg", "--steps", "clip(0, 6)")
    desk.refused(2, "conflicting-options", *steps, "--emit", "e.pb", option="--emit")


def test_a_function_whose_name_is_taken_is_added_once() -> None:
    other, own = graphs.function("f", neg("y", "x")), graphs.function("f", typed("Abs", "y", "x"))
    found = graph(*model(), node("w", "f", ["a"]), graphs.library(other))
    part = graph(placeholder("p", FLOAT, (2,)), node("q", "f", ["p"]), graphs.library(own))
    account(found, insert(found, ["x", "a"], part))
    assert [each.signature.name for each in found.functions] == ["f", "f_1"]
    assert [graphs.ops(found)[name] for name in ("x/q", "a/q", "w")] == ["f_1", "f_1", "f"]


def test_many_tensors_take_linear_time() -> None:
    def insertion(count: int) -> Callable[[], object]:
        found = graph(X, *(neg(f"n{i}", f"n{i - 1}" if i else "x") for i in range(count)))
        part = graph(placeholder("p", FLOAT, (2,)), identity("q", "p"))
        return lambda: insert(found, Selection(ops=("Neg",)), part)

    assert is_linear(insertion, 100, 800)
