"""inline: bodies of functions replace their calls, and the graph returns the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.desk import Desk
from support.drawing import pick_some
from support.expecting import account, expect, refused
from support.fusing import chain, split
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    X,
    add,
    call,
    const,
    define,
    dtypes,
    func,
    graph,
    graph_bytes,
    identity,
    library,
    neg,
    node,
    placeholder,
    scalar,
    typed,
)
from support.inlining import F1, LESS_ONE, TWICE, TWO, TWO_CALL, XS, I, functions_of, same
from support.meta_graphs import read
from support.patience import LONG_ENOUGH, within
from support.random_records import conditionals, dags
from support.running import outcome, outcomes, run
from support.shipped import Shipped
from support.system import is_linear
from support.v1_control_flow import LOOP, while_loop

from gdsurgeon.analysis.traversal.topology import Topology, escape
from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection

# -- plain -------------------------------------------------------------------------------------------------


def returning(returned: str, *body: bytes, name: str = "f") -> Any:
    """A function of `a` that returns a tensor of its body as `o`."""
    return define(name, {"a": FLOAT}, {"o": (FLOAT, returned)}, *body)


CALL, CALL_F, Y_NEG = call("c", "less_one", ["x"], F1, F1), call("c", "f", ["x"], F1, F1), neg("y", "c")
DEAD = define("f", {"a": FLOAT}, {"o": (FLOAT, "s:y:0"), "p": (FLOAT, "q:y:0")}, const("k", True, BOOL),
              node("t", "Assert", ["k:output:0", "a"], T=dtypes(FLOAT), summarize=3), neg("s", "a"), neg("q", "a"),
              neg("n", "a"), neg("m", "n:y:0", "^t"), stateful=True)  # fmt: skip
NESTING = returning("n:y:0", call("inner", "less_one", ["a"], F1, F1), neg("n", "inner:output:0"), name="outer")
RESULTS = [identity("p", "c"), identity("q", "c:1", kind=INT32), identity("r", "c:2")]
MADE: dict[str, tuple[list[bytes], dict[str, Any], str]] = {
    "the body instead of the call": (
        [X, CALL, Y_NEG, library(LESS_ONE)],
        {"after": [X, scalar("c/k", 1), typed("Sub", "c/d", "x", "c/k"), neg("y", "c/d")], "moved": {"c": "c/d"},
         "claims": (SameOutputs(also=("c",), as_written=True),)}, "y",
    ),
    "dead ends of bodies and unread results are left out, effects stay": (
        [X, call("c", "f", ["x"], F1, [FLOAT, FLOAT]), Y_NEG, library(DEAD)],
        {"inputs": {"x": [], "c/k": [], "c/t": ["c/k", "x"], "c/s": ["x"], "y": ["c/s"]}, "moved": {"c": "c/s"}}, "",
    ),
    "names that are taken": (
        [X, const("c/k", [5, 5]), CALL, add("y", "c", "c/k"), library(LESS_ONE)],
        {"after": [X, const("c/k", [5, 5]), scalar("c/k_1", 1), typed("Sub", "c/d", "x", "c/k_1"),
                   add("y", "c/d", "c/k")]}, "",
    ),
    "a call that is an output keeps its name": (
        [X, CALL, library(LESS_ONE)],
        {"inputs": {"x": [], "c/k": [], "c/d": ["x", "c/k"], "c": ["c/d"]}, "added": ["c/k", "c/d", "c"],
         "removed": [], "moved": {}}, "c",
    ),
    "an output with several outputs keeps them all": (
        [X, I, TWO_CALL, library(TWO)], {"reads": {"c": ["c/n", "i", "x"]}}, "c c:1 c:2",
    ),
    "results that are arguments": (
        [X, I, TWO_CALL, *RESULTS, library(TWO)],
        {"inputs": {"x": [], "i": [], "c/n": ["x"], "p": ["c/n"], "q": ["i"], "r": ["x"]}}, "p q r",
    ),
    "a device is that of the body or else of the call": (
        [X, call("c", "f", ["x"], F1, F1, device="/cpu:1"), identity("y", "c"),
         library(returning("m:y:0", neg("n", "a", device="/cpu:0"), neg("m", "n:y:0")))],
        {"devices": {"c/n": "/cpu:0", "c/m": "/cpu:1"}}, "",
    ),
    "colocations inside a body": (
        [X, CALL_F, neg("y", "c", _class=["loc:@c", "loc:@x"]),
         library(returning("m:y:0", neg("n", "a"), neg("m", "n:y:0", _class=["loc:@n", "loc:@a", "other"])))],
        {"colocations": {"c/m": [b"loc:@c/n", b"other"], "y": [b"loc:@x"]}}, "",
    ),
    "calls in bodies": (
        [X, call("c", "outer", ["x"], F1, F1), identity("y", "c"), library(NESTING, LESS_ONE)],
        {"inputs": {"x": [], "c/inner/k": [], "c/inner/d": ["x", "c/inner/k"], "c/n": ["c/inner/d"], "y": ["c/n"]},
         "removed": ["c"], "moved": {"c": "c/n"}}, "y",
    ),
}  # fmt: skip
"""For each case the records, the expected result, and the fetches whose values stay."""


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", MADE)
def test_what_is_made(case: str) -> None:
    records, made, fetches = MADE[case]
    found = graph(*records)
    result = expect(found, lambda g: inline(g), **made, same=fetches.split(), fed=XS[0])
    assert functions_of(found) == []
    assert {*result.intent.functions.removed} == {*functions_of(graph(*records))}


def test_names_as_in_the_body_where_they_are_free() -> None:
    records = [X, CALL, neg("d", "c"), library(LESS_ONE)]
    after = [X, scalar("k", 1), typed("Sub", "d_1", "x", "k"), neg("d", "d_1")]
    expect(records, lambda g: inline(g, keep_names=True), after)


def test_a_result_that_is_that_of_a_call_in_the_body() -> None:
    for called, *made in ((TWICE,), (returning("a", name="passing"), {"x": [], "y": ["x"]})):
        inner = call("inner", called.signature.name, ["a"], F1, F1)
        calling = [X, call("c", "f", ["x"], F1, F1), library(returning("inner:output:0", inner), called)]
        found = same([*calling, Y_NEG], "y", feeds=XS)
        same(calling, "c", feeds=XS)
        assert not made or graphs.inputs(found) == made[0]


def recursive(*names: str) -> list[Any]:
    """Functions that call each other in a ring."""
    others = (*names[1:], names[0])
    return [returning("again:output:0", call("again", other, ["a"], F1, F1), name=name)
            for name, other in zip(names, others, strict=True)]  # fmt: skip


OUTER = returning("c:output:0", call("c", "f", ["a"], F1, F1), name="outer")


def test_a_recursive_function_that_nobody_calls_does_not_matter() -> None:
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE, *recursive("f")))
    with within(10):
        inline(found)
    assert graphs.inputs(found)["c"] == ["c/s"]


def test_deeply_nested_calls() -> None:
    """No recursion over the depth of calls."""
    count = 1500
    inner = [call("c", f"f{i}", ["a"], F1, F1) for i in range(count)]
    made = [returning("c:output:0", each, name=f"f{i}") for i, each in enumerate(inner[:-1], 1)]
    last = call("c", f"f{count - 1}", ["x"], F1, F1)
    found = graph(X, last, library(returning("n:y:0", neg("n", "a"), name="f0"), *made))
    with within(60):
        inline(found, keep_names=True)
    assert len(graphs.names(found)) == 3


# -- calls by name, attrs, lists ---------------------------------------------------------------------------


def polymorphic(default: bool = False) -> Any:
    made = define("poly", {}, {}, add("s", "a", "a"))
    made.signature.input_arg.add(name="a", type_attr="T")
    made.signature.output_arg.add(name="o", type_attr="T")
    attr = made.signature.attr.add(name="T", type="type")
    if default:
        attr.default_value.type = 1
    made.node_def[0].attr["T"].placeholder = "T"
    made.ret["o"] = "s:z:0"
    return made


def listed() -> Any:
    """A function of N tensors of type T, and of tensors of types Ts: returns the sum of the former, and the latter."""
    made = define("listed", {}, {}, node("s", "AddN", ["many"]), node("m", "IdentityN", ["mixed"]))
    made.signature.input_arg.add(name="many", type_attr="T", number_attr="N")
    made.signature.input_arg.add(name="mixed", type_list_attr="Ts")
    made.signature.output_arg.add(name="sum", type_attr="T")
    made.signature.output_arg.add(name="same", type_list_attr="Ts")
    for name, kind in (("T", "type"), ("N", "int"), ("Ts", "list(type)")):
        made.signature.attr.add(name=name, type=kind)
    for body_node, key, name in ((0, "T", "T"), (0, "N", "N"), (1, "T", "Ts")):
        made.node_def[body_node].attr[key].placeholder = name
    made.ret["sum"], made.ret["same"] = "s:sum:0", "m:output"
    return made


def test_a_call_by_the_name_of_the_function_with_attrs() -> None:
    records = [X, I, typed("poly", "c", "x"), typed("poly", "d", "i", kind=INT32), identity("y", "c"),
               identity("z", "d", kind=INT32), library(polymorphic())]  # fmt: skip
    found = same(records, "y", "z", feeds=XS)
    assert graphs.attrs(found, "c/s")["T"].type == 1 and graphs.attrs(found, "d/s")["T"].type == 3


def test_attrs_that_a_call_gives_with_the_function_or_leaves_at_their_defaults() -> None:
    passed = node("c", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("poly", T=FLOAT),
                  config="", config_proto="", executor_type="")  # fmt: skip
    for called, default in ((passed, False), (node("c", "poly", ["x"]), True)):
        same([X, called, identity("y", "c"), library(polymorphic(default))], "y", feeds=XS)


def test_arguments_that_stand_for_lists() -> None:
    records = [X, I, const("k", [5, 6]), typed("listed", "c", "x", "k", "i", "x", N=2, Ts=dtypes(INT32, FLOAT)),
               identity("p", "c"), identity("q", "c:1", kind=INT32), neg("r", "c:2"), library(listed())]  # fmt: skip
    found = same(records, "p", "q", "r", feeds=XS)
    assert graphs.inputs(found)["c/s"] == ["x", "k"] and graphs.inputs(found)["c/m"] == ["i", "x"]
    assert (graphs.inputs(found)["q"], graphs.inputs(found)["r"]) == (["c/m"], ["c/m:1"])
    assert graphs.attrs(found, "c/s")["N"].i == 2


# -- what cannot be inlined --------------------------------------------------------------------------------


def of_f(returned: str, *body: bytes) -> list[bytes]:
    """A call of a function f that has BODY and returns RETURNED."""
    return [X, CALL_F, library(returning(returned, *body))]


def doubling_calls(levels: int) -> list[bytes]:
    """Functions that each call the next one twice."""

    def twice(i: int) -> Any:
        inner = [call(n, f"f{i + 1}", [x], F1, F1) for n, x in (("m", "a"), ("n", "m:output:0"))]
        return returning("n:output:0", *inner, name=f"f{i}")

    last = returning("d:y:0", neg("d", "a"), name=f"f{levels}")
    return [X, call("c", "f0", ["x"], F1, F1), library(*map(twice, range(levels)), last)]


@pytest.mark.parametrize(
    ("records", "functions", "code", "facts"),
    [
        *(([X, CALL_F, library(*recursive(*names))], (), "recursion",
           {"functions": [*names, "f"]}) for names in ("f", "fg", "fgh")),
        ([X, call("c", "outer", ["x"], F1, F1), library(OUTER, *recursive("f", "g"))], (), "recursion",
         {"functions": ["f", "g", "f"]}),
        *((doubling_calls(levels), (), "too-large", {"count": 2**levels, "most": 2_000_000}) for levels in (30, 200)),
        ([X, node("c", "poly", ["x"]), library(polymorphic())], (), "no-such-attr", {"function": "poly", "attr": "T"}),
        ([X, call("c", "twice", ["x", "x"], F1 * 2, F1), library(TWICE)], (), "wrong-count",
         {"node": "c", "function": "twice", "expected": 1, "found": 2}),
        (of_f("u:y:0", node("u", "MyOp", ["a"])), (), "no-such-op", {"function": "f", "node": "u", "op": "MyOp"}),
        (of_f("n:nope:0", neg("n", "a")), (), "no-such-tensor", {"function": "f", "tensor": "n:nope:0"}),
        (of_f("n:y:0", neg("n", "b")), (), "no-such-tensor", {"function": "f", "tensor": "b"}),
        (of_f("c:output:0", call("c", "gone", ["a"], F1, F1)), (), "no-such-function", {"function": "gone"}),
        (of_f("_n:y:0", neg("_n", "a")), (), "bad-name", {"function": "f", "name": "_n"}),
        ([X, call("c", "gone", ["x"], F1, F1), library(TWICE)], (), "no-such-function", {"function": "gone"}),
        ([X, call("c", "twice", ["x"], F1, F1), library(LESS_ONE, TWICE)], ("twise",), "no-such-function",
         {"function": "twise", "near": "twice"}),
        (chain(), (), "nothing-to-do", {}),
        ([X, library(TWICE)], ("twice",), "nothing-to-do", {}),
    ],
)  # fmt: skip
def test_what_cannot_be_inlined(
    records: list[bytes], functions: tuple[str, ...], code: str, facts: dict[str, Any]
) -> None:
    with within(LONG_ENOUGH):
        refused(graph(*records), code, partial(inline, functions=functions), **facts)


# -- which calls -------------------------------------------------------------------------------------------


def conditional(op: str = "StatelessIf") -> bytes:
    return node("if", op, ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), then_branch=func("twice"),
                else_branch=func("less_one"))  # fmt: skip


def test_loops_and_conditionals_keep_their_functions_also_in_bodies() -> None:
    p, sides = placeholder("p", BOOL, ()), library(TWICE, LESS_ONE)
    made = define("outer", {"p": BOOL, "x": FLOAT}, {"o": (FLOAT, "if:output:0")}, conditional())
    called = [conditional(), call("c", "twice", ["if"], F1, F1)]
    inside = [call("c", "outer", ["p", "x"], [BOOL, FLOAT], F1), library(made)]
    for name, records in (("if", called), ("c/if", inside)):
        feeds = [{"x": [1.0, -2.0], "p": value} for value in (True, False)]
        found = same([X, p, *records, identity("y", "c"), sides], "y", feeds=feeds)
        assert graphs.ops(found)[name] == "StatelessIf" and sorted(functions_of(found)) == ["less_one", "twice"]
    refused(graph(X, p, conditional(), sides), "nothing-to-do", inline)


def test_functions_that_an_unused_one_calls_are_not_missing() -> None:
    """A library whose functions call functions that it has not does not load."""
    spare = returning("c:output:0", call("c", "twice", ["a"], F1, F1), name="spare")
    records = [X, call("c", "twice", ["x"], F1, F1), library(TWICE, spare)]
    expect(records, lambda g: inline(g), functions=["twice", "spare"])


# -- XLA ---------------------------------------------------------------------------------------------------


# -- the command -------------------------------------------------------------------------------------------


def test_an_attr_that_a_call_gives_is_held_against_the_op(desk: Desk) -> None:
    """Inside the function it stands for whatever a call gives; in the graph it is what this call gives."""
    inner = node("d", "Abs", ["a"], T=graphs.encode_len(9, b"T"))
    bad = define("bad", {"a": STRING}, {"o": (STRING, "d:y:0")}, inner)
    called = node("c", "PartitionedCall", ["s"], Tin=dtypes(STRING), Tout=dtypes(STRING), f=func("bad", T=STRING))
    desk.put("model.pb", graph_bytes(placeholder("s", STRING), called, library(bad)))
    desk.refused(5, "unsound-graph", "inline", "model.pb", "--validate", "structure", "-o", "o")


@pytest.mark.parametrize("name", ["branches", "embedding", "several"])
def test_signatures_keep_the_shapes_that_are_known(desk: Desk, saved_models: Shipped, name: str) -> None:
    """The shapes that follow from a body can be less precise than the shapes that its call states."""
    path = saved_models.path(name)
    ran = desk.done("inline", path, "--as-v1", "-o", "out", "--validate", "structure")
    assert "->" not in ran.err, ran.err
    (before,), (after,) = (read(folder).meta_graphs for folder in (path, "out"))
    for key, definition in after.signature_def.items():
        assert definition == before.signature_def[key]


def test_what_waits_for_a_call_waits_for_its_results_in_their_order() -> None:
    places = range(9)
    outputs = {f"o{i}": (FLOAT, f"n{i}:y:0") for i in places}
    many = define("many", {"x": FLOAT}, outputs, *(neg(f"n{i}", "x") for i in places))
    read = [neg(f"y{i}", f"c:{i}") for i in places]
    waits = node("z", "NoOp", ["^c"])
    found = graph(X, call("c", "many", ["x"], [FLOAT], [FLOAT] * 9), *read, waits, trailer=library(many))
    inline(found)
    (done,) = found["z"].controls
    assert [control.name for control in done.controls] == [f"c/n{i}" for i in places]


def step(returned: str, *body: bytes) -> Any:
    return define("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, returned)}, *body)


STEP = step("t:z:0", scalar("one", 1), add("s", "v", "one:output:0"), typed("Mul", "t", "s:z:0", "k"))
IGNORING, PASSING, CONSTANT = step("n:y:0", neg("n", "k")), step("k"), step("c:output:0", scalar("c", 7))


BODIES = pytest.mark.parametrize(
    "made", [STEP, IGNORING, PASSING, CONSTANT], ids=["of all", "ignoring", "passing", "constant"]
)


@BODIES
@pytest.mark.parametrize(("controls", "keep_names"), [([], True), ([], False), (["^w/i"], False)])
def test_a_call_in_a_loop(made: Any, controls: list[str], keep_names: bool) -> None:
    """Everything in the body belongs to the iteration; what does not hang on it runs once more than it should."""
    records = while_loop(call("w/call", "step", ["w/v", "w/three", *controls], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)], keep_names=keep_names)


@BODIES
@pytest.mark.parametrize("controls", [[], ["^outer"], ["^pivot"], ["^outer", "^pivot"]], ids=str)
@pytest.mark.parametrize("k", ["k", "switch:1"])
def test_a_call_in_a_branch(made: Any, k: str, controls: list[str]) -> None:
    """A call runs where p holds. What would be dead is dead: otherwise both sides of a conditional give a value."""
    records = [placeholder("p", BOOL, ()), X, placeholder("k", FLOAT, (2,)), neg("outer", "x"),
               typed("Switch", "switch", "x", "p"), identity("pivot", "switch:1"),
               call("call", "step", ["switch:1", k, *controls], F1 * 2, F1), identity("y", "call"),
               identity("z", "x", "^call"), library(made)]  # fmt: skip
    for fetch in ("y", "z"):
        same(records, fetch, feeds=[{"p": p, "x": [1.0, 2.0], "k": [5.0, 6.0]} for p in (True, False)])


def test_a_call_behind_two_conditionals() -> None:
    """It runs where both are taken, whatever its body needs."""
    for made in (STEP, IGNORING, PASSING, CONSTANT):
        records = [placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X,
                   typed("Switch", "where_p", "x", "p"), typed("Switch", "where_q", "x", "q"),
                   call("call", "step", ["where_p:1", "where_q:1"], F1 * 2, F1), identity("y", "call"),
                   library(made)]  # fmt: skip
        same(records, "y", feeds=[{"p": p, "q": q, "x": [1.0, 2.0]} for p in (True, False) for q in (True, False)])


@pytest.mark.tensorflow
def test_a_loop_in_a_body_has_a_frame_of_its_own() -> None:
    """Two calls of a function with a v1 loop in it run side by side."""
    loop = graphs.proto(*LOOP, trailer=b"")
    made = define("f", {"n": INT32}, {"o": (FLOAT, "out:output:0")})
    outputs = {"Enter": "output", "Merge": "output", "Switch": "output_false", "Exit": "output", "Less": "z",
               "LoopCond": "output", "Identity": "output", "Const": "output", "AddV2": "z", "Mul": "z",
               "NextIteration": "output"}  # fmt: skip
    ops = {n.name: n.op for n in loop.node}
    for n in loop.node:
        if n.op == "Placeholder":
            continue
        copy = made.node_def.add()
        copy.CopyFrom(n)
        for i, text in enumerate(n.input):
            name, _, port = text.partition(":")
            if name[0] != "^" and ops[name] != "Placeholder":
                copy.input[i] = f"{name}:{'output_true' if port == '1' else outputs[ops[name]]}:0"
    records = [placeholder("n", INT32, ()), call("c", "f", ["n"], [INT32], F1), call("d", "f", ["n"], [INT32], F1),
               add("y", "c", "d"), library(made)]  # fmt: skip
    for keep_names in (True, False):
        found = graph(*records)
        inline(found, keep_names=keep_names)
        frames = {n.name: n.attr["frame_name"].s for n in graphs.parsed(found).node if n.op == "Enter"}
        assert len(set(frames.values())) == 2
        assert [run(found, "y", n=n) for n in (0, 1, 3)] == [[2.0], [10.0], [58.0]]


CHECKED = [{"x": [1.0, 2.0], "ok": ok} for ok in (True, False)]


OK = placeholder("ok", BOOL, ())


def asserted(name: str, source: str, *controls: str) -> bytes:
    return node(name, "Assert", ["ok", source, *controls], T=dtypes(FLOAT), summarize=3)


def checked(name: str, *body: bytes, **outputs: str) -> Any:
    """A function with an Assert in it, which runs with every call."""
    return define(name, {"x": FLOAT, "ok": BOOL}, {k: (FLOAT, v) for k, v in outputs.items()}, asserted("check", "x"),
                    *body, effects=["check"], stateful=True)  # fmt: skip


def checked_call(given_: Sequence[bytes], *controls: str) -> bytes:
    return call("c", "f", ["x", "ok", *controls], [FLOAT, BOOL], given_, stateful=True)


NEGATING = checked("f", neg("n", "x"), o="n:y:0")
Y, AFTER = identity("y", "c"), identity("y", "x", "^c")
RETURNING, DROPPING = returning("a"), returning("k:output:0", const("k", [7, 7]))
EMPTY = define("f", {}, {}, node("n", "NoOp"))
CHECK, LATE = asserted("check", "x"), identity("late", "x", "^check")
WAITING = [X, OK, CHECK, call("c", "f", ["x", "^check"], F1, F1)]
INNER = call("inner", "f", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True)
NESTED = define("outer", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}, INNER, neg("m", "x"), effects=["inner"],
                stateful=True)  # fmt: skip
OUTER_CALL = call("c", "outer", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True)

CASES = {
    "done though the results do not need it": ([X, OK, checked_call(F1), Y, library(NEGATING)], ["y"]),
    "done though the call is an output": ([X, OK, checked_call(F1), library(NEGATING)], ["c"]),
    "done before what waits for a call without results": (
        [X, OK, checked_call([]), AFTER, library(checked("f"))], ["y"]),
    "done before what waits for the call": (
        [X, OK, checked_call(F1), AFTER, identity("z", "c"), library(NEGATING)], ["y", "z"]),
    "a result that is an argument": ([X, OK, checked_call(F1), Y, library(checked("f", o="x"))], ["y"]),
    "a call that waits, whose result is an argument": ([*WAITING, Y, library(RETURNING)], ["y"]),
    "the same, as an output": ([*WAITING, library(RETURNING)], ["c"]),
    "what waits for a call waits for what that waits for": (
        [X, OK, CHECK, call("c", "f", ["^check"], [], []), AFTER, library(EMPTY)], ["y"]),
    "and for what that is given": ([X, OK, CHECK, LATE, call("c", "f", ["late"], F1, F1), AFTER, library(DROPPING)],
                                   ["y"]),
    "and for both": ([X, OK, CHECK, LATE, neg("other", "x"), call("c", "f", ["late", "^other"], F1, F1), AFTER,
                      library(DROPPING)], ["y"]),
    "effects of calls in bodies": ([X, OK, OUTER_CALL, Y, identity("z", "x", "^c"), library(NESTED, NEGATING)],
                                   ["y", "z"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_function_does_is_done(case: str) -> None:
    records, fetches = CASES[case]
    for fetch in fetches:
        same(records, fetch, feeds=CHECKED)


def test_what_a_call_without_outputs_is_run_for_can_be_run_under_its_name() -> None:
    """A call that is there for what it does, such as an init or a train op, is what is run by name."""
    found = graph(X, OK, checked_call([]), identity("y", "x"), library(checked("f")))
    inline(found)
    assert "c" in found
    run(found, targets=["c"], **CHECKED[0])
    with pytest.raises(Exception, match="assertion failed"):
        run(found, targets=["c"], **CHECKED[1])


def test_control_edges() -> None:
    """A call waits before all nodes of its body; edges inside a body stay; the nodes after a call wait for all."""
    called = call("c", "less_one", ["x", "^check"], F1, F1)
    found = same([X, OK, asserted("check", "x"), called, identity("y", "c"), library(LESS_ONE)], "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/k"] == ["^check"]
    taken, results = {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}
    made = define("f", taken, results, asserted("check", "x"), node("group", "NoOp", ["^check", "^x"]),
                  neg("n", "x", "^group"), neg("m", "n:y:0", "^n"))  # fmt: skip
    found = same([X, OK, checked_call(F1), identity("y", "c"), library(made)], "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/n"] == ["x", "^c/group"] and graphs.inputs(found)["c/m"] == ["c/n", "^c/n"]
    made = define("f", taken, {"o": (FLOAT, "n:y:0")}, neg("n", "x"), asserted("a", "x"), asserted("b", "x", "^a"),
                  effects=["a", "b"], stateful=True)  # fmt: skip
    records = [X, OK, checked_call(F1), identity("y", "x", "^c"), neg("z", "x", "^c", "^x"), library(made)]
    found = same(records, "y", "z", feeds=CHECKED)
    assert graphs.inputs(found)["z"] == [*graphs.inputs(found)["y"], "^x"]


def test_calls_that_wait_for_each_other_take_linear_time() -> None:
    def inlining(count: int) -> Callable[[], object]:
        made = [call(f"c{i}", "less_one", ["x", *([f"^c{i - 1}"] if i else [])], F1, F1) for i in range(count)]
        found = graph(X, *made, library(LESS_ONE))
        return lambda: inline(found)

    assert is_linear(inlining, 50, 400)


def as_dict(what: Graph | bytes) -> dict[str, Any]:
    return {n.name: n for n in graphs.parsed(what).node}


@pytest.mark.parametrize(
    ("records", "chosen"),
    [
        (chain(), ["sum", "neg", "mul"]),
        (chain(), ["one", "sum", "neg", "mul"]),
        (chain(), ["neg"]),
        (split(), ["axis", "s", "sum"]),
        (split(), ["s"]),
        (graphs.g8(), ["foo/bar/f", "foo/bar/g"]),
        (graphs.g8(), ["foo/c"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else "",
)
def test_fusing_and_inlining_gives_the_same_graph_back(records: list[bytes], chosen: list[str]) -> None:
    found = graph(*records)
    fuse_ops(found, Selection(nodes=tuple(chosen)), "call")
    for again in (found, from_bytes(graphs.written(found))):
        inline(again, keep_names=True)
        assert as_dict(again) == as_dict(graphs.graph_bytes(*records))
        assert functions_of(again) == []


def convex(found: Graph, chosen: set[str]) -> list[str]:
    """CHOSEN, and what lies on paths between them."""
    topology = Topology(found)
    inside = bytearray(topology.size)
    for name in chosen:
        inside[topology.id_of(found[name])] = 1
    while path := escape(topology, inside):
        for number in path:
            inside[number] = 1
    return [topology.name(n) for n in topology.numbers() if inside[n] and topology.op(n) != "Placeholder"]


@pytest.mark.slow
@pytest.mark.tensorflow
@given(dags(), st.data())
def test_random_selections_fused_and_inlined(case: tuple[list[bytes], list[str]], data: st.DataObject) -> None:
    records, names = case
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = convex(found, set(pick_some(data.draw, sorted(set(names) - {"x"}), 6, least=1, unique=True)))
    outputs = [n.name for n in found.nodes() if n.op != "NoOp" and not any(
        read.node is n for user in found.users(n) for read in user.inputs)]  # fmt: skip
    before = outcome(original, *outputs, x=[0.75, -2.0])
    assert isinstance(before, list)

    fused = fuse_ops(found, Selection(nodes=tuple(chosen)), "call", inline=data.draw(st.booleans()))
    account(found, fused)
    assert outcome(found, *outputs, x=[0.75, -2.0]) == before
    middle = graphs.written(found)

    again = from_bytes(middle)
    result = inline(again, keep_names=data.draw(st.booleans()))
    account(again, result)
    assert outcome(again, *outputs, x=[0.75, -2.0]) == before
    assert functions_of(again) == []


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=30)
@given(conditionals(), st.data())
def test_random_selections_among_conditionals(
    case: tuple[list[bytes], list[str], list[str]], data: st.DataObject
) -> None:
    """Dead nodes stay dead and others stay alive for every decision; or the selection is refused."""
    records, nodes, ends = case
    if not nodes:
        return
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = set(pick_some(data.draw, nodes, 3, least=1, unique=True))
    try:
        fuse_ops(found, [found[name] for name in convex(found, chosen)], "call")
    except EditError as error:
        assert error.code in ("crosses-branch", "control-flow"), error.message
        return
    again = from_bytes(graphs.written(found))
    inline(again)
    feeds = [{"p": p, "q": q, "x": [0.75, -2.0]} for p in (True, False) for q in (True, False)]
    before = outcomes(original, ends, feeds)
    assert outcomes(found, ends, feeds) == before
    assert outcomes(again, ends, feeds) == before
