"""remove: removed nodes, refused requests, functions and orphans that are removed with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some
from support.expecting import account, check_graph, expect, refused, sound
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    relu,
    scalar,
    typed,
)  # fmt: skip
from support.running import run
from support.system import is_linear
from support.v1_control_flow import LOOP, cond

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.cli.hints import hint_of
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection


def named(*names: str) -> Selection:
    return Selection(nodes=names)


def chain() -> list[bytes]:
    """x -> a -> b -> c -> y, with a branch at b."""
    return [
        placeholder("x", FLOAT, (2,)),
        identity("a", "x"),
        relu("b", "a"),
        identity("c", "b"),
        neg("y", "c"),
        typed("Abs", "z", "b"),
    ]


# -- unused nodes ---------------------------------------------------------------------------------------------


def test_what_passes_on_is_bypassed_in_functions_and_changes_nothing() -> None:
    body = function("f", identity("i", "x"), neg("y", "i:output:0"))
    found = graph(placeholder("x"), node("c", "f", ["x"]), trailer=library(body) + graphs.VERSIONS)
    result = in_functions(found, ["f"], lambda inner: remove(inner, named("i"), bypass=True))
    assert result.claims == (SameOutputs(),)


@pytest.mark.parametrize(
    ("names", "options", "code", "facts"),
    [
        ("xabcyz", {"allow_outputs": True}, "nothing-left", {}),
        ("", {}, "nothing-selected", {}),
        (["cc"], {}, "no-such-node", {"node": "cc", "near": None}),
        (["Y"], {}, "no-such-node", {"node": "Y", "near": "y"}),
        ("cy", {}, "is-output", {"nodes": ["y"]}),
        ("cy", {"bypass": True}, "is-output", {"nodes": ["y"]}),
        ("cy", {"dangling": "placeholder"}, "is-output", {"nodes": ["y"]}),
        ("yz", {}, "is-output", {"nodes": ["y", "z"]}),
        ("a", {}, "has-consumers", {"consumers": {"a": ["b"]}}),
        ("ab", {}, "has-consumers", {"consumers": {"b": ["c", "z"]}}),
        ("bx", {}, "has-consumers", {"consumers": {"x": ["a"], "b": ["c", "z"]}}),
    ],
)
def test_what_is_refused(names: Sequence[str], options: dict[str, Any], code: str, facts: dict[str, Any]) -> None:
    error = refused(graph(*chain()), code, lambda g: remove(g, named(*names), **options), **facts)
    assert error.exit_code == 4
    hint = {"has-consumers": ("--bypass", "--dangling"), "is-output": ("--allow-outputs",)}.get(code, ())
    assert all(option in (hint_of(error) or "") for option in hint)


# -- what is read --------------------------------------------------------------------------------------------


def test_hundreds_of_readers_are_counted() -> None:
    readers = [identity(f"r{i}", "a") for i in range(300)]
    found = graph(placeholder("x"), identity("a", "x"), *readers)
    error = refused(found, "has-consumers", lambda g: remove(g, named("a")))
    assert len(error.facts["consumers"]["a"]) == 300
    assert len(error.details) == 21 and "280" in error.details[-1]


def test_what_a_control_edge_alone_reads_is_an_output() -> None:
    found = graph(placeholder("x"), identity("a", "x"), identity("y", "x", "^a"))
    refused(found, "is-output", lambda g: remove(g, named("a")), nodes=["a"])
    expect(found, lambda g: remove(g, named("a"), allow_outputs=True), [placeholder("x"), identity("y", "x")])


# -- colocations ---------------------------------------------------------------------------------------------


# -- functions -----------------------------------------------------------------------------------------------


BODY = neg("y", "x")


def call(name: str, callee: str, source: str = "x") -> bytes:
    return node(name, "PartitionedCall", [source], f=func(callee), Tin=graphs.dtypes(FLOAT), Tout=graphs.dtypes(FLOAT))


def test_functions_that_nobody_calls_any_more_leave() -> None:
    inner = function("Inner", BODY)
    outer = function("Outer", node("y", "PartitionedCall", ["x"], f=func("Inner")), ret="y:output:0")
    shared = function("Shared", BODY)
    trailer = library(outer, inner, shared, gradients={"Outer": "Shared"}) + graphs.VERSIONS
    records = [placeholder("x"), call("a", "Outer"), call("b", "Shared")]
    found = graph(*records, trailer=trailer)
    result = remove(found, named("a"), allow_outputs=True)
    assert sorted(result.intent.functions.removed) == ["Inner", "Outer"]
    check_graph(found, records[0], records[2], trailer=library(shared) + graphs.VERSIONS)


def test_many_unused_functions_leave_in_linear_time() -> None:
    def with_functions(count: int) -> Graph:
        trailer = library(*(function(f"F{i}", BODY) for i in range(count))) + graphs.VERSIONS
        return graph(placeholder("x"), call("a", "F0"), const("k", [1]), trailer=trailer)

    def removal(count: int) -> Callable[[], object]:
        found = with_functions(count)
        return lambda: remove(found, named("k"))

    assert is_linear(removal, 100, 800)
    found = with_functions(100)
    assert len(remove(found, named("k")).intent.functions.removed) == 99
    assert graphs.parsed(found).library.function[0].signature.name == "F0"


# -- nothing but the error -----------------------------------------------------------------------------------


def test_names_that_tensorflow_does_not_take_change_nothing() -> None:
    """--validate none allows such a graph."""
    found = graph(placeholder("x"), node("n", "NoOp"), identity("_a", "x", "^n"), identity("y", "_a", "^_a"))
    refused(found, "bad-name", lambda g: remove(g, named("_a"), dangling="placeholder"), name="_a")


def test_a_node_of_another_graph_is_refused() -> None:
    found, other = graph(*chain()), graph(*chain())
    refused(found, "other-graph", lambda g: remove(g, [other["y"]], allow_outputs=True), other, node="y")


# -- proven --------------------------------------------------------------------------------------------------


X, LIMIT, AXIS = placeholder("x", FLOAT, (-1, 2)), const("limit", [1.0], shape=[]), const("axis", [0], INT32)
ALL = node("all", "All", ["less", "axis"], Tidx=INT32)
ONLY = placeholder("only", FLOAT, ())
FIRST = identity("first", "limit")
CHECK = node("check", "Assert", ["all", "only", "^first"], T=dtypes(FLOAT))
ASSERTED = (X, LIMIT, AXIS, typed("Less", "less", "x", "limit"), ALL, ONLY, FIRST, CHECK)
CHECKS = Selection(ops=("Assert",))


@pytest.mark.tensorflow
def test_what_only_the_removed_nodes_read_or_waited_for_goes() -> None:
    after = X, ONLY, identity("y", "x")
    expect(
        [*ASSERTED, identity("y", "x")],
        lambda graph: remove(graph, CHECKS, orphans=True),
        after,
        command="remove --op Assert --orphans --validate structure",
        same=["y"],
        fed={"x": [[1.0, 2.0]]},
    )


def test_who_waits_for_what_was_waited_for_keeps_it() -> None:
    after = X, LIMIT, ONLY, FIRST, identity("y", "x", "^first")
    expect([*ASSERTED, identity("y", "x", "^check")], lambda graph: remove(graph, CHECKS, orphans=True), after)


def test_what_others_read_or_stand_beside_stays() -> None:
    beside = identity("y", "x", _class=["loc:@axis"])
    after = X, LIMIT, AXIS, ONLY, beside, identity("z", "limit")
    expect([*ASSERTED, beside, identity("z", "limit")], lambda graph: remove(graph, CHECKS, orphans=True), after)


@pytest.mark.parametrize("read", [("a", "b"), ("b", "a")])
def test_colocated_orphans_are_removed_in_any_order(read: tuple[str, str]) -> None:
    """A node without consumers with which an orphan is colocated was an output before, so it is kept."""
    orphans = [neg("a", "x"), identity("b", "x", _class=["loc:@a", "loc:@end"]), add("sum", *read)]
    expect([X, *orphans, neg("end", "x")], lambda g: remove(g, named("sum"), allow_outputs=True, orphans=True),
           [X, neg("end", "x")])  # fmt: skip


def test_the_control_inputs_of_orphans_are_not_kept() -> None:
    ten = node("ten", "Const", ["^guard"], dtype=FLOAT, value=graphs.tensor([10], FLOAT, ()))
    guarded = [X, node("guard", "NoOp"), identity("z", "x", "^guard")]
    expect([*guarded, ten, add("sum", "x", "ten"), neg("y", "sum")],
           lambda g: remove(g, named("sum"), bypass=True, orphans=True), [*guarded, neg("y", "x")])  # fmt: skip


# -- control flow --------------------------------------------------------------------------------------------


def test_bypass_inside_a_loop() -> None:
    records = graphs.loop()
    found = graph(*records)
    remove(found, named("w/Identity"), bypass=True)
    inputs = graphs.inputs(found)
    assert inputs["w/Add"] == ["w/Switch:1", "w/one"]
    assert sound(found)
    assert run(found, "out", n=5) == [5]


def test_a_whole_loop_goes() -> None:
    found = graph(*graphs.loop())
    names = [n for n in graphs.names(found) if n.startswith("w/")]
    remove(found, named(*names), dangling="placeholder")
    check_graph(found, *graphs.loop()[:2], placeholder("w/Exit", INT32), graphs.loop()[-1])
    assert run(found, "out", w__Exit=7) == [7]


def conditional() -> list[bytes]:
    """x + 10 where p, else x - 1, as TensorFlow 1 writes it: constants are pinned to their branch by a control edge."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()),
        typed("Switch", "cond/Switch", "p", "p", kind=BOOL), identity("cond/switch_t", "cond/Switch:1", kind=BOOL),
        identity("cond/switch_f", "cond/Switch", kind=BOOL),
        node("cond/ten", "Const", ["^cond/switch_t"], dtype=FLOAT, value=graphs.tensor([10], FLOAT, ())),
        node("cond/one", "Const", ["^cond/switch_f"], dtype=FLOAT, value=graphs.tensor([1], FLOAT, ())),
        typed("Merge", "cond/Merge", "cond/one", "cond/ten", N=2), typed("Sub", "y", "x", "cond/Merge"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gone", "how", "inputs"),
    [("c/ten", {"dangling": "placeholder"}, ["c/neg", "c/ten"]), ("c/neg", {"bypass": True}, ["c/x_f", "c/ten"])],
)
def test_a_predicate_is_removed_with_a_node_of_its_branch(gone: str, how: dict[str, Any], inputs: list[str]) -> None:
    found = graph(node("p", "LogicalNot", ["q"]), *cond(placeholder("q", BOOL, ()))[1:])
    remove(found, named("p", gone), **how)
    assert graphs.inputs(found)["c/sub"] == inputs


def test_a_missing_control_input_stays_missing() -> None:
    found = graph(*cond(identity("more", "y", "^gone")))
    remove(found, named("y"), bypass=True)
    assert graphs.inputs(found)["more"] == ["c/Merge", "^gone"]


def summing() -> list[bytes]:
    """x + 10 where p, else x - 1, of constants that are not pinned to their branch."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), scalar("ten", 10), scalar("one", 1),
        typed("Switch", "s", "x", "p"), add("more", "s:1", "ten"), typed("Sub", "less", "s", "one"),
        typed("Merge", "m", "less", "more", N=2), neg("y", "m"),
    ]  # fmt: skip


INSIDE = ["w/Enter", "w/Limit", "w/Merge", "w/Less", "w/LoopCond", "w/Switch", "w/one", "w/Add", "w/NextIteration"]
BYPASSING = {"bypass": True, "allow_outputs": True}


@pytest.mark.parametrize(
    ("records", "name", "options", "code", "facts"),
    [
        *((graphs.loop(), name, {"bypass": True, "bypass_input": 0}, "crosses-loop", {"node": name, "loop": "w"})
          for name in ("w/Enter", "w/Limit", "w/Merge", "w/Switch", "w/NextIteration")),
        *((graphs.loop(), name, {"dangling": "placeholder"}, "crosses-loop", {"loop": "w"}) for name in INSIDE),
        *((conditional(), f"cond/switch_{side}", {"bypass": bypass, "allow_outputs": True}, "leaves-branch",
           {"node": user}) for side, user in (("t", "cond/ten"), ("f", "cond/one")) for bypass in (True, False)),
        ([*cond()[:-1], node("late", "NoOp", ["^c/Merge"])], "c/Merge", BYPASSING, "crosses-branch",
         {"node": "late", "loop": None}),
        ([*LOOP[:-1], node("late", "NoOp", ["^w/Exit_v"])], "w/Exit_v", BYPASSING, "crosses-loop",
         {"node": "late", "loop": "w"}),
        *((summing(), name, options, "crosses-branch", {"node": "m", "tensor": name}) for name in ("more", "less")
          for options in ({"bypass": True, "bypass_input": 1}, {"dangling": "placeholder"})),
    ],
)  # fmt: skip
def test_what_control_flow_needs_is_not_removed(
    records: list[bytes], name: str, options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    """A placeholder would run outside of the frame; to wait for output 1 of a Switch is not to wait for the Switch."""
    refused(graph(*records), code, partial(remove, nodes=named(name), **options), **facts)


def test_what_a_branch_reads_first_may_take_the_place_of_its_result() -> None:
    found = graph(*summing())
    remove(found, named("more"), bypass=True)
    assert graphs.inputs(found)["m"] == ["less", "s:1"]
    for p, expected in ((True, -100), (False, -99)):
        assert run(found, "y", p=p, x=100.0) == [expected]


# -- any graph -----------------------------------------------------------------------------------------------


@st.composite
def removals(draw: st.DrawFn) -> tuple[graphs.Drawn, list[str], str]:
    """A graph, some of its nodes, and what is to take their place; bypassed are nodes with one input."""
    drawn = draw(graphs.random_graphs())
    how = pick(draw, ["", "bypass", "placeholder"])
    names = [n.name for n in drawn.message.node if how != "bypass" or n.op == "Identity"]
    return drawn, pick_some(draw, names, least=1, unique=True) if names else [], how


@given(removals())
def test_any_removal(case: tuple[graphs.Drawn, list[str], str]) -> None:
    """It is accounted for, or refused for a reason that the graph shows, and then nothing changes."""
    drawn, names, how = case
    found, old, gone = from_bytes(drawn.data), {n.name: n for n in drawn.message.node}, {*names}
    read = [t.partition(":")[0] for n in old.values() if n.name not in gone for t in n.input if t[0] != "^"]
    try:
        result = remove(found, [found[name] for name in names], bypass=how == "bypass", allow_outputs=True,
                        dangling=how if how == "placeholder" else None)  # fmt: skip
    except EditError:
        assert graphs.written(found) == drawn.data
        unknown = any(old[name].op == "MyCustomOp" for name in gone.intersection(read))
        assert not names or gone == {*old} or (gone & {*read} and not how) or (how == "placeholder" and unknown)
        return
    account(found, result)
    bodies, old_bodies = graphs.bodies_by_name(found), graphs.bodies_by_name(drawn.data)
    assert all(bodies[n.name] == old_bodies[n.name] for n in graphs.parsed(found).node if n == old.get(n.name))


def test_who_waits_for_a_removed_loop_does_not_wait_for_the_rounds_before() -> None:
    """Two constants that run in each round would wait for each other."""
    two = node("w/two", "Const", ["^w/Identity"], dtype=INT32, value=graphs.tensor([2], INT32, ()))
    more = graphs.add("w/More", "w/Add", "w/two", kind=INT32)
    records = [*graphs.loop(), two, more]
    records[11] = typed("NextIteration", "w/NextIteration", "w/More", kind=INT32)
    found = graph(*records)
    assert check(found).faults == []
    around = Selection(forward=("w/Enter",))
    edit = partial(remove, nodes=around, bypass=True, bypass_input=1, allow_outputs=True)
    refused(found, "leaves-loop", edit, node="w/one", loop="w")


def test_bypass_of_one_node_and_of_a_chain() -> None:
    expected = [*chain()[:2], identity("c", "a"), chain()[4], typed("Abs", "z", "a")]
    found = graph(*chain())
    result = expect(found, lambda g: remove(g, named("b"), bypass=True), expected)
    assert sorted(result.intent.rewired) == [Rewired("c", 0, "b", "a"), Rewired("z", 0, "b", "a")]
    assert run(found, "y", "z", x=[-1.0, 2.0]) == [[1, -2], [1, 2]]
    expected = [chain()[0], neg("y", "x"), typed("Abs", "z", "x")]
    result = expect(chain(), lambda g: remove(g, named("a", "b", "c"), bypass=True), expected)
    assert sorted(result.intent.rewired) == [Rewired("y", 0, "c", "x"), Rewired("z", 0, "b", "x")]


@pytest.mark.parametrize("first", [(), ("^guard",)], ids=["plain", "waiting"])
def test_bypass_takes_linear_time_where_each_of_the_removed_is_read(first: tuple[str, ...]) -> None:
    """A chain of removed nodes, each read by a node that stays: the way to the end is not walked for each.

    Nor are the control inputs of the removed nodes gathered anew for each.
    """

    def removal(count: int) -> Callable[[], object]:
        found = read_chain(count, *first)
        return lambda: remove(found, Selection(ops=("Identity",)), bypass=True)

    assert is_linear(removal, 100, 800)
    found = read_chain(50, *first)
    remove(found, Selection(ops=("Identity",)), bypass=True)
    assert graphs.inputs(found)["r49"] == ["x", *first]


def read_chain(count: int, *first: str) -> Graph:
    """Identities one after another, each read by a node of its own; the first waits for WAITED."""
    records = [placeholder("x", FLOAT, (1,)), node("guard", "NoOp")]
    for i in range(count):
        records += [identity(f"n{i}", f"n{i - 1}" if i else "x", *(() if i else first)),
                    neg(f"r{i}", f"n{i}")]  # fmt: skip
    return graph(*records)


V, A, B = placeholder("x"), placeholder("a"), placeholder("b")
W = scalar("w", 0.5)
SUM = [add("s", "a", "b"), identity("y", "s")]
INT_X = placeholder("x", INT32)
SPLIT_AXIS = const("axis", [0], INT32, ())
LONG = [identity(f"n{i}", f"n{i - 1}" if i else "x") for i in range(10_000)]
DROPOUT = [
    typed("Shape", "drop/Shape", "x"), scalar("drop/keep", 0.5),
    typed("RandomUniform", "drop/uniform", "drop/Shape", kind=INT32, dtype=FLOAT),
    add("drop/add", "drop/keep", "drop/uniform"), typed("Floor", "drop/Floor", "drop/add"),
    typed("RealDiv", "drop/div", "x", "drop/keep"), typed("Mul", "drop/mul", "drop/div", "drop/Floor"),
]  # fmt: skip
IDENTITIES, SCOPE = Selection(ops=("Identity",)), Selection(scopes=("drop",))
Y = identity("y", "x")
Y_NEG = neg("y", "x")


def split(kind: bytes = FLOAT) -> bytes:
    return typed("Split", "s", "axis", "x", kind=kind, num_split=2)


BYPASSED: dict[str, tuple[list[bytes], list[bytes], Selection, dict[str, int], list[bytes]]] = {
    "a long chain": ([V], [*LONG, neg("y", "n9999")], IDENTITIES, {}, [Y_NEG]),
    "a constant is ignored": ([V, W], [typed("Mul", "m", "x", "w"), identity("y", "m")], named("m"), {}, [Y]),
    "a weight of a frozen variable": (
        [V, W, identity("r", "w")], [typed("Mul", "m", "x", "r"), identity("y", "m")], named("m"), {}, [Y]
    ),
    "the identity of a weight": (
        [V, W], [identity("r", "w"), typed("Mul", "y", "x", "r")], named("r"), {},
        [typed("Mul", "y", "x", "w")],
    ),
    "dropout": ([V], [*DROPOUT, neg("y", "drop/mul")], SCOPE, {}, [Y_NEG]),
    "dropout by 0": ([V], [*DROPOUT, neg("y", "drop/mul")], SCOPE, {"bypass_input": 0}, [Y_NEG]),
    "input 0": ([A, B], SUM, named("s"), {"bypass_input": 0}, [identity("y", "a")]),
    "the same output": (
        [SPLIT_AXIS, V, split()], [identity("a", "s:1"), neg("y", "a")], named("a"), {},
        [neg("y", "s:1")],
    ),
    "counterparts": (
        [A, placeholder("b", INT32)],
        [node("n", "IdentityN", ["a", "b"], T=graphs.dtypes(FLOAT, INT32)), identity("p", "n"),
         identity("q", "n:1", kind=INT32)],
        named("n"), {}, [identity("p", "a"), identity("q", "b", kind=INT32)],
    ),
    "a split has as many inputs as outputs": ([SPLIT_AXIS, V], [split(), identity("y", "s")], named("s"), {}, [Y]),
    "casts that undo each other": (
        [INT_X], [node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), node("d", "Cast", ["c"], SrcT=FLOAT, DstT=INT32),
                  identity("y", "d", kind=INT32)], named("c", "d"), {}, [identity("y", "x", kind=INT32)],
    ),
    "an output that has a counterpart": (
        [V], [typed("Unique", "u", "x", out_idx=INT32), identity("y", "u")], named("u"), {}, [Y]
    ),
    "an unknown op": ([V], [node("u", "MyOp", ["x"]), identity("y", "u")], named("u"), {}, [Y]),
    "every slot": ([V], [identity("a", "x"), add("y", "a", "a")], named("a"), {}, [add("y", "x", "x")]),
    "a node that reads both": (
        [V], [identity("a", "x"), identity("b", "a"), typed("Sub", "s", "b", "x")], named("a", "b"), {},
        [typed("Sub", "s", "x", "x")],
    ),
}  # fmt: skip
"""Kept nodes, other nodes, the request, the result."""


@pytest.mark.parametrize("what", BYPASSED)
def test_bypass(what: str) -> None:
    stay, records, selection, options, left = BYPASSED[what]
    result = expect([*stay, *records], lambda g: remove(g, selection, bypass=True, **options), [*stay, *left])
    if what == "every slot":
        assert result.intent.rewired == [Rewired("y", 0, "a", "x"), Rewired("y", 1, "a", "x")]


RESHAPED = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto([6])))


@pytest.mark.parametrize(
    ("records", "which", "code", "facts"),
    [
        ([scalar("r", 1)], None, "no-such-input", {"count": 0}),
        ([A, B, add("r", "a", "b")], None, "ambiguous-input", {"inputs": ["a", "b"]}),
        ([A, B, add("r", "a", "b")], 7, "no-such-input", {"value": 7, "count": 2}),
        ([placeholder("x", FLOAT, (2, 3)), const("shape", [6], INT32),
          typed("Reshape", "r", "x", "shape", Tshape=INT32, _output_shapes=RESHAPED)], None,
         "shape-mismatch", {"tensor": "r", "expected": "float32 [6]", "input": "x", "found": "float32 [2,3]"}),
    ],
)  # fmt: skip
def test_what_is_not_bypassed(records: list[bytes], which: int | None, code: str, facts: dict[str, object]) -> None:
    found = graph(*records, identity("y", "r"))
    error = refused(found, code, lambda g: remove(g, named("r"), bypass=True, bypass_input=which), **facts)
    assert ("--bypass-input" in (hint_of(error) or "")) == (code == "ambiguous-input")


def test_bypass_of_top_k_never_reads_k() -> None:
    top = typed("TopKV2", "t", "x", "k", kind=INT32)
    found = graph(INT_X, placeholder("k", INT32, ()), top, identity("places", "t:1", kind=INT32))
    refused(found, "no-such-input", lambda g: remove(g, named("t"), bypass=True), node="t", output=1)


# -- dangling placeholder --------------------------------------------------------------------------------------


def passed_on(kind: bytes, shape: tuple[int, ...] | None) -> tuple[list[bytes], list[str], list[bytes]]:
    """Nodes, those that are removed, and what is left, of a placeholder behind two identities."""
    x, y = placeholder("x", kind, shape), identity("y", "a", kind=kind)
    return [x, identity("a", "x", kind=kind), y], ["a"], [x, placeholder("a", kind, shape), y]


X_3, WEIGHTS = placeholder("x", FLOAT, (-1, 3)), const("w", [1] * 12, FLOAT, (3, 4))
S = placeholder("s", FLOAT, (2,))
S_1, S_1_1 = (placeholder(name, FLOAT, (2,)) for name in ("s_1", "s_1_1"))
SPLIT = [
    const("axis", [0], INT32, ()), placeholder("x", FLOAT, (4,)),
    typed("Split", "s", "axis", "x", num_split=2), identity("p", "s"), identity("q", "s:1"),
]  # fmt: skip
TAKEN = placeholder("s_1", INT32)
READ_2 = [chain()[0], chain()[1], placeholder("b", FLOAT, (2,)), placeholder("c", FLOAT, (2,)), *chain()[4:]]


@pytest.mark.parametrize(
    ("records", "removed", "after"),
    [
        *(passed_on(kind, (5,)) for kind in (FLOAT, DOUBLE, INT32, INT64, BOOL, graphs.STRING, graphs.UINT8)),
        passed_on(FLOAT, ()),
        passed_on(FLOAT, None),
        ([X_3, WEIGHTS, typed("MatMul", "m", "x", "w", transpose_a=False, transpose_b=False), neg("y", "m")], ["m"],
         [X_3, WEIGHTS, placeholder("m", FLOAT, (-1, 4)), neg("y", "m")]),
        ([node("v", "VariableV2", dtype=FLOAT, shape=(2,)), identity("y", "v")], ["v"],
         [placeholder("v", FLOAT, (2,)), identity("y", "v")]),
        (chain(), ["b"], [*chain()[:2], placeholder("b", FLOAT, (2,)), *chain()[3:]]),
        (chain(), ["b", "c"], READ_2),
        (chain(), ["x", "a", "b"], [placeholder("b", FLOAT, (2,)), *chain()[3:]]),
        (SPLIT, ["s"], [*SPLIT[:2], S, S_1, SPLIT[3], identity("q", "s_1")]),
        ([*SPLIT[:3], SPLIT[4]], ["s"], [*SPLIT[:2], S_1, identity("q", "s_1")]),
        ([*SPLIT, TAKEN], ["s"], [*SPLIT[:2], S, S_1_1, SPLIT[3], identity("q", "s_1_1"), TAKEN]),
    ],
)  # fmt: skip
def test_dangling_placeholder_of_any_dtype_and_shape_stands_where_the_node_stood(
    records: list[bytes], removed: list[str], after: list[bytes]
) -> None:
    expect(records, lambda g: remove(g, named(*removed), dangling="placeholder"), after)


# -- control edges -------------------------------------------------------------------------------------------


K, N = const("k", [1]), node("n", "NoOp")
WAITED, MID = node("first", "NoOp", ["^k"]), node("mid", "NoOp", ["^first"])
ROUND = [node("a", "NoOp", ["^b"]), node("b", "NoOp", ["^a", "^n"])]
SEVERAL = [V, N, node("b", "NoOp"), node("p", "NoOp", ["^n", "^b"]), node("q", "NoOp", ["^b", "^p"])]


@pytest.mark.parametrize(
    ("records", "removed", "bypass", "after"),
    [
        ([V, K, WAITED, MID, identity("y", "x", "^mid")], ["mid"], False, [V, K, WAITED, identity("y", "x", "^first")]),
        ([*SEVERAL, identity("y", "x", "^q", "^n")], ["p", "q"], False, [*SEVERAL[:3], identity("y", "x", "^b", "^n")]),
        ([V, N, identity("y", "x", "^n")], ["n"], False, [V, identity("y", "x")]),
        ([V, identity("a", "x"), identity("y", "x", "^a"), neg("z", "a")], ["a"], True,
         [V, identity("y", "x", "^x"), neg("z", "x")]),
        ([V, N, identity("a", "x", "^n"), identity("y", "a", "^a")], ["a"], True,
         [V, N, identity("y", "x", "^n", "^x")]),
        ([V, N, identity("a", "x", "^n"), neg("y", "a")], ["a"], True,
         [V, N, neg("y", "x", "^n")]),
        ([V, N, *ROUND, identity("y", "x", "^b")], ["a", "b"], False, [V, N, identity("y", "x", "^n")]),
    ],
    ids=["through one", "through several", "to none", "to what was read", "read and waited for", "still waited for",
         "through a cycle"],
)  # fmt: skip
def test_control_edges_lead_to_what_the_removed_waited_for(
    records: list[bytes], removed: list[str], bypass: bool, after: list[bytes]
) -> None:
    """Who read a bypassed node ran after what it waited for: an Assert, or a write to an array that it reads."""
    result = expect(records, lambda g: remove(g, named(*removed), bypass=bypass), after)
    assert result.intent.changed == ["y"]
