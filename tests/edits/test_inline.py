"""inline: the bodies of functions in the place of their calls, and the graph gives what it gave."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import graphs
from support.counting import is_linear
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    add,
    const,
    dtypes,
    func,
    graph,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    tensor,
)

from edits.test_fuse_ops import (
    LOOP,
    X,
    call,
    chain,
    expect,
    function,
    neg,
    outcome,
    outcomes,
    run,
    runs,
    split,
    unary,
    while_loop,
)
from gdsurgeon.analysis.checks.check import check
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import escape
from gdsurgeon.cli.main import exit_code
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.inline import inline
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection
from gdsurgeon.wire.messages import message


def refused(found: Graph, words: str, *functions: str, **options: Any) -> EditError:
    before = graphs.written(found)
    with within(3), pytest.raises(EditError) as caught:
        inline(found, functions, **options)
    assert words in caught.value.message
    assert graphs.written(found) == before
    assert not found.is_changed
    return caught.value


class Overdue(BaseException):
    """It has not come back; nothing that the command line turns into an exit code."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails what does not come back."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Overdue(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def same(records: Sequence[bytes], *fetches: str, feeds: Sequence[dict[str, Any]], **options: Any) -> Graph:
    """The graph with everything inlined; it must give what it gave, whatever it is fed."""
    found = graph(*records)
    inline(found, **options)
    assert check(from_bytes(graphs.written(found))).faults == []
    for given_ in feeds:
        before = outcome(graph_bytes(*records), *fetches, **given_)
        assert outcome(found, *fetches, patience=3, **given_) == before, given_
    return found


def functions_of(found: Graph) -> list[str]:
    return [f.signature.name for f in graphs.parsed(found).library.function]


XS = [{"x": [1.0, -2.0]}]
TWICE = function("twice", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "a", "a"))
LESS_ONE = function(
    "less_one", {"a": FLOAT}, {"o": (FLOAT, "d:z:0")}, scalar("k", 1), node("d", "Sub", ["a", "k:output:0"], T=FLOAT)
)
F1 = [FLOAT]


# -- plain -------------------------------------------------------------------------------------------------


@runs
def test_the_body_takes_the_place_of_the_call() -> None:
    records = [X, call("c", "less_one", ["x"], F1, F1), neg("y", "c"), library(LESS_ONE)]
    found = graph(*records)
    result = inline(found)
    expect(found, X, scalar("c/k", 1), node("c/d", "Sub", ["x", "c/k"], T=FLOAT), neg("y", "c/d"))
    journal = result.journal
    assert (journal.added, journal.removed, journal.moved) == (["c/k", "c/d"], ["c"], {"c": "c/d"})
    assert [tuple(change) for change in journal.rewired] == [("y", 0, "c", "c/d")]
    assert journal.functions.removed == ["less_one"] and functions_of(found) == []
    assert result.claims == (SameOutputs(also=("c",)),)
    same(records, "y", feeds=XS)


def test_names_as_in_the_body_where_they_are_free() -> None:
    records = [X, call("c", "less_one", ["x"], F1, F1), neg("d", "c"), library(LESS_ONE)]
    found = graph(*records)
    inline(found, keep_names=True)
    expect(found, X, scalar("k", 1), node("d_1", "Sub", ["x", "k"], T=FLOAT), neg("d", "d_1"))


def test_names_that_are_taken() -> None:
    records = [X, const("c/k", [5, 5]), call("c", "less_one", ["x"], F1, F1), add("y", "c", "c/k"), library(LESS_ONE)]
    found = graph(*records)
    inline(found)
    assert graphs.inputs(found) == {"x": [], "c/k": [], "c/k_1": [], "c/d": ["x", "c/k_1"], "y": ["c/d", "c/k"]}


@runs
def test_two_calls_of_one_function() -> None:
    records = [X, call("c", "less_one", ["x"], F1, F1), call("d", "less_one", ["c"], F1, F1), identity("y", "d"),
               library(LESS_ONE)]  # fmt: skip
    found = same(records, "y", feeds=XS)
    assert graphs.names(found) == ["x", "c/k", "c/d", "d/k", "d/d", "y"]
    assert graphs.inputs(found)["d/d"] == ["c/d", "d/k"]
    same(records, "y", feeds=XS, keep_names=True)


@runs
def test_nodes_in_any_order() -> None:
    records = [identity("y", "d"), call("d", "less_one", ["c"], F1, F1), call("c", "twice", ["x"], F1, F1), X,
               library(LESS_ONE, TWICE)]  # fmt: skip
    same(records, "y", feeds=XS)
    same(list(reversed(records)), "y", feeds=XS)


@runs
def test_bodies_in_any_order() -> None:
    backwards = function("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "s:z:0"), add("s", "a", "k:output:0"),
                         scalar("k", 3))  # fmt: skip
    same([X, call("c", "f", ["x"], F1, F1), identity("y", "c"), library(backwards)], "y", feeds=XS)


@runs
def test_a_call_as_an_output_keeps_its_name() -> None:
    records = [X, call("c", "less_one", ["x"], F1, F1), library(LESS_ONE)]
    found = same(records, "c", feeds=XS)
    assert graphs.inputs(found) == {"x": [], "c/k": [], "c/d": ["x", "c/k"], "c": ["c/d"]}
    assert graphs.ops(found)["c"] == "Identity"
    journal = inline(graph(*records)).journal
    assert (journal.added, journal.removed, journal.moved) == (["c/k", "c/d", "c"], [], {})


TWO = function(
    "two", {"a": FLOAT, "b": INT32}, {"p": (FLOAT, "n:y:0"), "q": (INT32, "b"), "r": (FLOAT, "a")}, neg("n", "a")
)
TWO_CALL = call("c", "two", ["x", "i"], [FLOAT, INT32], [FLOAT, INT32, FLOAT])
I = const("i", [4], INT32)  # noqa: E741


@runs
def test_a_call_with_several_outputs_as_an_output_keeps_them_all() -> None:
    found = same([X, I, TWO_CALL, library(TWO)], "c", "c:1", "c:2", feeds=XS)
    assert graphs.ops(found)["c"] == "IdentityN"
    assert graphs.inputs(found)["c"] == ["c/n", "i", "x"]


@runs
def test_results_that_are_arguments() -> None:
    found = same([X, I, TWO_CALL, identity("p", "c"), identity("q", "c:1", kind=INT32), identity("r", "c:2"),
                  library(TWO)], "p", "q", "r", feeds=XS)  # fmt: skip
    assert graphs.inputs(found) == {"x": [], "i": [], "c/n": ["x"], "p": ["c/n"], "q": ["i"], "r": ["x"]}


@runs
def test_one_result_under_two_names() -> None:
    double = function("f", {"a": FLOAT}, {"p": (FLOAT, "n:y:0"), "q": (FLOAT, "n:y:0")}, neg("n", "a"))
    same([X, call("c", "f", ["x"], F1, F1 * 2), add("y", "c", "c:1"), library(double)], "y", feeds=XS)


def test_a_device_is_that_of_the_body_or_else_of_the_call() -> None:
    placed = function("f", {"a": FLOAT}, {"o": (FLOAT, "m:y:0")}, neg("n", "a", device="/cpu:0"), neg("m", "n:y:0"))
    found = graph(X, call("c", "f", ["x"], F1, F1, device="/cpu:1"), identity("y", "c"), library(placed))
    inline(found)
    assert {n.name: n.device for n in graphs.parsed(found).node if n.device} == {"c/n": "/cpu:0", "c/m": "/cpu:1"}


def test_colocations_inside_a_body() -> None:
    placed = function("f", {"a": FLOAT}, {"o": (FLOAT, "m:y:0")}, neg("n", "a"),
                      neg("m", "n:y:0", _class=["loc:@n", "loc:@a", "other"]))  # fmt: skip
    found = graph(X, call("c", "f", ["x"], F1, F1), neg("y", "c", _class=["loc:@c", "loc:@x"]), library(placed))
    inline(found)
    assert graphs.colocations(found) == {"c/m": [b"loc:@c/n", b"other"], "y": [b"loc:@x"]}
    assert check(from_bytes(graphs.written(found))).faults == []


# -- nested ------------------------------------------------------------------------------------------------


@runs
def test_calls_in_bodies_are_inlined_too() -> None:
    inner = call("inner", "less_one", ["a"], F1, F1)
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, inner, neg("n", "inner:output:0"))
    records = [X, call("c", "outer", ["x"], F1, F1), identity("y", "c"), library(outer, LESS_ONE)]
    found = same(records, "y", feeds=XS)
    assert graphs.inputs(found) == {
        "x": [], "c/inner/k": [], "c/inner/d": ["x", "c/inner/k"], "c/n": ["c/inner/d"], "y": ["c/n"]
    }  # fmt: skip
    journal = inline(graph(*records)).journal
    assert sorted(journal.functions.removed) == ["less_one", "outer"]
    assert journal.removed == ["c"] and sorted(journal.added) == ["c/inner/d", "c/inner/k", "c/n"]
    assert journal.moved == {"c": "c/n"}


@runs
def test_a_result_that_is_that_of_a_call_in_the_body() -> None:
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "inner:output:0")}, call("inner", "twice", ["a"], F1, F1))
    same([X, call("c", "outer", ["x"], F1, F1), neg("y", "c"), library(outer, TWICE)], "y", feeds=XS)
    same([X, call("c", "outer", ["x"], F1, F1), library(outer, TWICE)], "c", feeds=XS)
    passing = function("passing", {"a": FLOAT}, {"o": (FLOAT, "a")})
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "inner:output:0")}, call("inner", "passing", ["a"], F1, F1))
    found = same([X, call("c", "outer", ["x"], F1, F1), neg("y", "c"), library(outer, passing)], "y", feeds=XS)
    assert graphs.inputs(found) == {"x": [], "y": ["x"]}


@runs
def test_a_diamond_of_calls() -> None:
    """Sixteen calls of one function by way of four levels of functions."""
    library_ = [TWICE]
    for level in range(1, 4):
        below = library_[-1].signature.name
        p, q = call("p", below, ["a"], F1, F1), call("q", below, ["p:output:0"], F1, F1)
        total = add("s", "p:output:0", "q:output:0")
        library_.append(function(f"f{level}", {"a": FLOAT}, {"o": (FLOAT, "s:z:0")}, p, q, total))
    found = same([X, call("c", "f3", ["x"], F1, F1), identity("y", "c"), library(*library_)], "y", feeds=XS)
    assert len(graphs.names(found)) == 2 + 8 + 7


def recursive(*names: str) -> list[Any]:
    """Functions of which each calls the next, and the last the first."""
    return [
        function(name, {"a": FLOAT}, {"o": (FLOAT, "again:output:0")}, call("again", other, ["a"], F1, F1))
        for name, other in zip(names, (*names[1:], names[0]), strict=True)
    ]


@pytest.mark.parametrize("names", [("f",), ("f", "g"), ("f", "g", "h")], ids=len)
def test_functions_that_call_themselves_are_refused(names: tuple[str, ...]) -> None:
    found = graph(X, call("c", "f", ["x"], F1, F1), library(*recursive(*names)))
    refused(found, "'f'")


def test_a_function_that_only_another_one_calls_recursively() -> None:
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "f", ["a"], F1, F1))
    refused(graph(X, call("c", "outer", ["x"], F1, F1), library(outer, *recursive("f", "g"))), "")


def test_a_recursive_function_that_nobody_calls_does_not_matter() -> None:
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE, *recursive("f")))
    with within(10):
        inline(found)
    assert graphs.inputs(found)["c"] == ["c/s"]


def test_deeply_nested_calls() -> None:
    """No recursion over the depth of calls."""
    count = 1500
    made = [function("f0", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))]
    for i in range(1, count):
        inner = call("c", f"f{i - 1}", ["a"], F1, F1)
        made.append(function(f"f{i}", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, inner))
    found = graph(X, call("c", f"f{count - 1}", ["x"], F1, F1), library(*made))
    with within(60):
        inline(found, keep_names=True)
    assert len(graphs.names(found)) == 3


def test_many_calls_take_linear_time() -> None:
    def inlining(count: int) -> Callable[[], object]:
        found = graph(X, *(call(f"c{i}", "less_one", ["x"], F1, F1) for i in range(count)), library(LESS_ONE))
        return lambda: inline(found)

    assert is_linear(inlining, 50, 400)


# -- calls by name, attrs, lists ---------------------------------------------------------------------------


def polymorphic(default: bool = False) -> Any:
    made = message("tensorflow.FunctionDef")()
    made.signature.name = "poly"
    made.signature.input_arg.add(name="a", type_attr="T")
    made.signature.output_arg.add(name="o", type_attr="T")
    attr = made.signature.attr.add(name="T", type="type")
    if default:
        attr.default_value.type = 1
    made.node_def.extend(graphs.proto(add("s", "a", "a"), trailer=b"").node)
    made.node_def[0].attr["T"].placeholder = "T"
    made.ret["o"] = "s:z:0"
    return made


@runs
def test_a_call_by_the_name_of_the_function_with_attrs() -> None:
    records = [X, I, node("c", "poly", ["x"], T=FLOAT), node("d", "poly", ["i"], T=INT32), identity("y", "c"),
               identity("z", "d", kind=INT32), library(polymorphic())]  # fmt: skip
    found = same(records, "y", "z", feeds=XS)
    assert graphs.attrs(found, "c/s")["T"].type == 1 and graphs.attrs(found, "d/s")["T"].type == 3


@runs
def test_attrs_that_a_call_gives_with_the_function() -> None:
    passed = node("c", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("poly", T=FLOAT),
                  config="", config_proto="", executor_type="")  # fmt: skip
    same([X, passed, identity("y", "c"), library(polymorphic())], "y", feeds=XS)


@runs
def test_an_attr_that_is_left_at_its_default() -> None:
    same([X, node("c", "poly", ["x"]), identity("y", "c"), library(polymorphic(default=True))], "y", feeds=XS)


def test_an_attr_that_is_missing() -> None:
    found = graph(X, node("c", "poly", ["x"]), identity("y", "c"), library(polymorphic()))
    refused(found, "a call of the function 'poly' lacks its attr 'T'")


def listed() -> Any:
    """A function of N tensors of type T, and of tensors of the types Ts: the sum of those, and these as they are."""
    made = message("tensorflow.FunctionDef")()
    made.signature.name = "listed"
    made.signature.input_arg.add(name="many", type_attr="T", number_attr="N")
    made.signature.input_arg.add(name="mixed", type_list_attr="Ts")
    made.signature.output_arg.add(name="sum", type_attr="T")
    made.signature.output_arg.add(name="same", type_list_attr="Ts")
    for name, kind in (("T", "type"), ("N", "int"), ("Ts", "list(type)")):
        made.signature.attr.add(name=name, type=kind)
    made.node_def.extend(graphs.proto(node("s", "AddN", ["many"]), node("m", "IdentityN", ["mixed"]),
                                      trailer=b"").node)  # fmt: skip
    made.node_def[0].attr["T"].placeholder = "T"
    made.node_def[0].attr["N"].placeholder = "N"
    made.node_def[1].attr["T"].placeholder = "Ts"
    made.ret["sum"], made.ret["same"] = "s:sum:0", "m:output"
    return made


@runs
def test_arguments_that_stand_for_lists() -> None:
    records = [X, I, const("k", [5, 6]),
               node("c", "listed", ["x", "k", "i", "x"], T=FLOAT, N=2, Ts=dtypes(INT32, FLOAT)),
               identity("p", "c"), identity("q", "c:1", kind=INT32), neg("r", "c:2"), library(listed())]  # fmt: skip
    found = same(records, "p", "q", "r", feeds=XS)
    assert graphs.inputs(found)["c/s"] == ["x", "k"] and graphs.inputs(found)["c/m"] == ["i", "x"]
    assert (graphs.inputs(found)["q"], graphs.inputs(found)["r"]) == (["c/m"], ["c/m:1"])
    assert graphs.attrs(found, "c/s")["N"].i == 2


def test_no_tensors_in_a_list() -> None:
    records = [X, node("c", "listed", ["x"], T=FLOAT, N=1, Ts=b"\x0a\x00"), identity("y", "c"), library(listed())]
    found = graph(*records)
    inline(found)
    assert graphs.inputs(found)["c/m"] == []


def test_a_wrong_number_of_inputs() -> None:
    records = [X, call("c", "twice", ["x", "x"], F1 * 2, F1), library(TWICE)]
    refused(graph(*records), "'c' has 2 inputs, and the function 'twice' takes 1")


# -- what a body must not hold -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "u:y:0")}, node("u", "MyOp", ["a"])), "the op 'MyOp' is not known"),
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "n:nope:0")}, neg("n", "a")), "has no tensor 'n:nope:0'"),
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:1")}, neg("n", "a")), "has no tensor 'n:y:1'"),
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "b")), "has no tensor 'b'"),
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "gone", ["a"], F1, F1)), "'gone'"),
        (function("f", {"a": FLOAT}, {"o": (FLOAT, "_n:y:0")}, neg("_n", "a")), "has a name that a node of a graph"),
    ],
    ids=["unknown op", "no such argument", "no such index", "no such input", "no such function", "no node's name"],
)
def test_bodies_that_make_no_sense(made: Any, words: str) -> None:
    refused(graph(X, call("c", "f", ["x"], F1, F1), identity("y", "c"), library(made)), words)


def test_a_call_of_a_function_that_is_not_there() -> None:
    refused(graph(X, call("c", "gone", ["x"], F1, F1), library(TWICE)), "the library has no function 'gone'")


# -- which calls -------------------------------------------------------------------------------------------


def test_only_the_calls_of_some_functions() -> None:
    records = [X, call("c", "twice", ["x"], F1, F1), call("d", "less_one", ["c"], F1, F1), identity("y", "d"),
               library(TWICE, LESS_ONE)]  # fmt: skip
    found = graph(*records)
    result = inline(found, ["twice"])
    assert graphs.inputs(found) == {"x": [], "c/s": ["x", "x"], "d": ["c/s"], "y": ["d"]}
    assert functions_of(found) == ["less_one"] and result.journal.functions.removed == ["twice"]
    found = graph(*records)
    inline(found, ["twice", "less_one"])
    assert functions_of(found) == []


def test_a_function_that_is_not_there_is_said_with_the_nearest() -> None:
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE))
    assert refused(found, "", "twise").message == "model.pb has no function 'twise'. Did you mean 'twice'?"
    refused(found, "has no function 'nothing'", "twice", "nothing")


def test_nothing_to_inline() -> None:
    refused(graph(*chain()), "there is no call in the graph to inline")
    refused(graph(X, library(TWICE)), "there is no call of 'twice' to inline", "twice")


def conditional(op: str = "StatelessIf") -> bytes:
    return node("if", op, ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), then_branch=func("twice"),
                else_branch=func("less_one"))  # fmt: skip


@runs
def test_loops_and_conditionals_keep_their_functions() -> None:
    records = [X, placeholder("p", BOOL, ()), conditional(), call("c", "twice", ["if"], F1, F1), identity("y", "c"),
               library(TWICE, LESS_ONE)]  # fmt: skip
    found = same(records, "y", feeds=[{"x": [1.0, -2.0], "p": p} for p in (True, False)])
    assert graphs.ops(found)["if"] == "StatelessIf" and sorted(functions_of(found)) == ["less_one", "twice"]
    refused(graph(*records[:3], library(TWICE, LESS_ONE)), "loops and conditionals keep their functions")


@runs
def test_a_conditional_in_a_body_comes_along() -> None:
    made = function("outer", {"p": BOOL, "x": FLOAT}, {"o": (FLOAT, "if:output:0")}, conditional())
    records = [X, placeholder("p", BOOL, ()), call("c", "outer", ["p", "x"], [BOOL, FLOAT], F1), identity("y", "c"),
               library(made, TWICE, LESS_ONE)]  # fmt: skip
    found = same(records, "y", feeds=[{"x": [1.0, -2.0], "p": p} for p in (True, False)])
    assert graphs.ops(found)["c/if"] == "StatelessIf" and sorted(functions_of(found)) == ["less_one", "twice"]


def test_functions_that_were_not_used_before_stay() -> None:
    """Only what this edit has made superfluous goes."""
    spare = function("spare", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "a"))
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE, spare))
    inline(found)
    assert functions_of(found) == ["spare"]


def test_functions_that_an_unused_one_calls_are_not_missing() -> None:
    """A library whose functions call functions that it has not does not load."""
    spare = function("spare", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")}, call("c", "twice", ["a"], F1, F1))
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE, spare))
    inline(found)
    assert check(from_bytes(graphs.written(found))).faults == []
    assert set(functions_of(found)) in ({"spare", "twice"}, set())


def test_the_gradient_of_a_function_that_stays_stays() -> None:
    slope = function("slope", {"a": FLOAT, "d": FLOAT}, {"o": (FLOAT, "s:z:0")}, add("s", "d", "d"))
    records = [X, placeholder("p", BOOL, ()), conditional(), call("c", "slope", ["x", "if"], F1 * 2, F1)]
    found = graph(*records, library(TWICE, LESS_ONE, slope, gradients={"twice": "slope"}))
    inline(found)
    assert sorted(functions_of(found)) == ["less_one", "slope", "twice"]
    found = graph(X, call("c", "twice", ["x"], F1, F1), library(TWICE, slope, gradients={"twice": "slope"}))
    inline(found)
    assert not graphs.parsed(found).library.gradient and functions_of(found) in ([], ["slope"])


# -- effects and control edges -----------------------------------------------------------------------------

CHECKED = [{"x": [1.0, 2.0], "ok": ok} for ok in (True, False)]
OK = placeholder("ok", BOOL, ())


def asserted(name: str, source: str, *controls: str) -> bytes:
    return node(name, "Assert", ["ok", source, *controls], T=dtypes(FLOAT), summarize=3)


def checked(name: str, *body: bytes, **outputs: str) -> Any:
    """A function with an Assert in it, which runs with every call."""
    return function(name, {"x": FLOAT, "ok": BOOL}, {k: (FLOAT, v) for k, v in outputs.items()}, asserted("check", "x"),
                    *body, effects=["check"], stateful=True)  # fmt: skip


def checked_call(given_: Sequence[bytes], *controls: str) -> bytes:
    return call("c", "f", ["x", "ok", *controls], [FLOAT, BOOL], given_, stateful=True)


@runs
def test_what_a_function_does_is_done_though_its_results_do_not_need_it() -> None:
    made = checked("f", neg("n", "x"), o="n:y:0")
    same([X, OK, checked_call(F1), identity("y", "c"), library(made)], "y", feeds=CHECKED)
    same([X, OK, checked_call(F1), library(made)], "c", feeds=CHECKED)


@runs
def test_what_a_function_does_is_done_before_what_waits_for_the_call() -> None:
    made = checked("f")
    same([X, OK, checked_call([]), identity("y", "x", "^c"), library(made)], "y", feeds=CHECKED)
    made = checked("f", neg("n", "x"), o="n:y:0")
    records = [X, OK, checked_call(F1), identity("y", "x", "^c"), identity("z", "c"), library(made)]
    same(records, "y", feeds=CHECKED)
    same(records, "z", feeds=CHECKED)


@runs
def test_what_a_result_that_is_an_argument_waits_for() -> None:
    same([X, OK, checked_call(F1), identity("y", "c"), library(checked("f", o="x"))], "y", feeds=CHECKED)


@runs
def test_what_a_call_without_outputs_is_run_for_can_be_run_under_its_name() -> None:
    """A call that is there for what it does, such as an init or a train op, is what is run by name."""
    found = graph(X, OK, checked_call([]), identity("y", "x"), library(checked("f")))
    inline(found)
    assert "c" in found
    run(found, targets=["c"], **CHECKED[0])
    with pytest.raises(Exception, match="assertion failed"):
        run(found, targets=["c"], **CHECKED[1])


@runs
def test_what_a_call_waits_for_comes_before_all_in_it() -> None:
    records = [X, OK, asserted("check", "x"), call("c", "less_one", ["x", "^check"], F1, F1), identity("y", "c"),
               library(LESS_ONE)]  # fmt: skip
    found = same(records, "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/k"] == ["^check"]


@runs
def test_what_a_call_waits_for_when_its_result_is_an_argument() -> None:
    passing = function("f", {"a": FLOAT}, {"o": (FLOAT, "a")})
    waiting = [X, OK, asserted("check", "x"), call("c", "f", ["x", "^check"], F1, F1)]
    same([*waiting, identity("y", "c"), library(passing)], "y", feeds=CHECKED)
    same([*waiting, library(passing)], "c", feeds=CHECKED)


@runs
def test_what_waits_for_a_call_waits_for_what_the_call_waits_for() -> None:
    empty = function("f", {}, {}, node("n", "NoOp"))
    records = [X, OK, asserted("check", "x"), call("c", "f", ["^check"], [], []), identity("y", "x", "^c"),
               library(empty)]  # fmt: skip
    same(records, "y", feeds=CHECKED)


@runs
def test_what_waits_for_a_call_waits_for_what_the_call_is_given() -> None:
    ignoring = function("f", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 7]))
    records = [X, OK, asserted("check", "x"), identity("late", "x", "^check"), call("c", "f", ["late"], F1, F1),
               identity("y", "x", "^c"), library(ignoring)]  # fmt: skip
    same(records, "y", feeds=CHECKED)


@runs
def test_what_waits_for_a_call_waits_for_all_that_the_call_waits_for() -> None:
    """The call waits by a control edge, too, and for what its body does not need."""
    ignoring = function("f", {"a": FLOAT}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 7]))
    records = [X, OK, asserted("check", "x"), identity("late", "x", "^check"), neg("other", "x"),
               call("c", "f", ["late", "^other"], F1, F1), identity("y", "x", "^c"), library(ignoring)]  # fmt: skip
    same(records, "y", feeds=CHECKED)


def test_calls_that_wait_for_each_other_take_linear_time() -> None:
    def inlining(count: int) -> Callable[[], object]:
        made = [call(f"c{i}", "less_one", ["x", *([f"^c{i - 1}"] if i else [])], F1, F1) for i in range(count)]
        found = graph(X, *made, library(LESS_ONE))
        return lambda: inline(found)

    assert is_linear(inlining, 50, 400)


@runs
def test_control_edges_inside_a_body() -> None:
    made = function("f", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}, asserted("check", "x"),
                    node("group", "NoOp", ["^check", "^x"]), neg("n", "x", "^group"),
                    neg("m", "n:y:0", "^n"))  # fmt: skip
    found = same([X, OK, checked_call(F1), identity("y", "c"), library(made)], "y", feeds=CHECKED)
    assert graphs.inputs(found)["c/n"] == ["x", "^c/group"] and graphs.inputs(found)["c/m"] == ["c/n", "^c/n"]


@runs
def test_several_things_that_are_waited_for() -> None:
    made = function("f", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "n:y:0")}, neg("n", "x"), asserted("a", "x"),
                    asserted("b", "x", "^a"), effects=["a", "b"], stateful=True)  # fmt: skip
    records = [X, OK, checked_call(F1), identity("y", "x", "^c"), neg("z", "x", "^c", "^x"), library(made)]
    found = same(records, "y", "z", feeds=CHECKED)
    assert graphs.inputs(found)["z"] == [*graphs.inputs(found)["y"], "^x"]


@runs
def test_effects_of_calls_in_bodies() -> None:
    inner = call("inner", "f", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True)
    outer = function("outer", {"x": FLOAT, "ok": BOOL}, {"o": (FLOAT, "m:y:0")}, inner, neg("m", "x"),
                     effects=["inner"], stateful=True)  # fmt: skip
    records = [X, OK, call("c", "outer", ["x", "ok"], [FLOAT, BOOL], F1, stateful=True), identity("y", "c"),
               identity("z", "x", "^c"), library(outer, checked("f", neg("n", "x"), o="n:y:0"))]  # fmt: skip
    same(records, "y", feeds=CHECKED)
    same(records, "z", feeds=CHECKED)


@runs
def test_seeded_random_numbers_stay_the_same() -> None:
    made = function("f", {"s": INT32}, {"o": (FLOAT, "r:output:0")},
                    node("r", "RandomUniform", ["s"], T=INT32, dtype=FLOAT, seed=7, seed2=3), effects=["r"],
                    stateful=True)  # fmt: skip
    same([const("s", [3], INT32), call("c", "f", ["s"], [INT32], F1, stateful=True), identity("y", "c"), library(made)],
         "y", feeds=[{}])  # fmt: skip


# -- loops and branches ------------------------------------------------------------------------------------

STEP = function("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "t:z:0")}, scalar("one", 1),
                add("s", "v", "one:output:0"), node("t", "Mul", ["s:z:0", "k"], T=FLOAT))  # fmt: skip
IGNORING = function("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "n:y:0")}, neg("n", "k"))
PASSING = function("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "k")})
CONSTANT = function("step", {"v": FLOAT, "k": FLOAT}, {"o": (FLOAT, "c:output:0")}, scalar("c", 7))
BODIES = pytest.mark.parametrize(
    "made", [STEP, IGNORING, PASSING, CONSTANT], ids=["of all", "ignoring", "passing", "constant"]
)


@runs
@BODIES
@pytest.mark.parametrize("keep_names", [True, False])
def test_a_call_in_a_loop(made: Any, keep_names: bool) -> None:
    """Everything in the body belongs to the iteration; what does not hang on it runs once more than it should."""
    records = while_loop(call("w/call", "step", ["w/v", "w/three"], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)], keep_names=keep_names)


@runs
@BODIES
def test_a_call_in_a_loop_that_waits(made: Any) -> None:
    records = while_loop(call("w/call", "step", ["w/v", "w/three", "^w/i"], F1 * 2, F1), result="w/call")
    same([*records, library(made)], "out", feeds=[{"n": n} for n in (0, 1, 3)])


def branch(*controls: str) -> list[bytes]:
    """A call that runs where p holds and is read by nobody else."""
    return [placeholder("p", BOOL, ()), X, placeholder("k", FLOAT, (2,)), neg("outer", "x"),
            node("switch", "Switch", ["x", "p"], T=FLOAT),
            call("call", "step", ["switch:1", "k", *controls], F1 * 2, F1), identity("y", "call")]  # fmt: skip


BRANCHES = [{"p": p, "x": [1.0, 2.0], "k": [5.0, 6.0]} for p in (True, False)]


@runs
@BODIES
@pytest.mark.parametrize("controls", [(), ("^outer",), ("^switch",)], ids=["alone", "waiting", "waiting for a branch"])
def test_a_call_in_a_branch(made: Any, controls: tuple[str, ...]) -> None:
    """What would be dead is dead: otherwise both sides of a conditional give a value."""
    controls = tuple("^pivot" if c == "^switch" else c for c in controls)
    pivot = [identity("pivot", "switch:1")] if controls == ("^pivot",) else []
    same([*branch(*controls), *pivot, library(made)], "y", feeds=BRANCHES)


@runs
@BODIES
def test_a_call_in_a_branch_that_is_an_output(made: Any) -> None:
    same([*branch()[:-1], library(made)], "call", feeds=BRANCHES)


@runs
@pytest.mark.parametrize("body", ["constant", "passing", "of it"])
@pytest.mark.parametrize("controls", [[], ["^outer"], ["^outer", "^pivot"]], ids=str)
def test_a_call_of_one_argument_in_a_branch(body: str, controls: list[str]) -> None:
    result, nodes = {
        "constant": ("k:output:0", [const("k", [7, 7])]), "passing": ("a", []), "of it": ("n:y:0", [neg("n", "a")])
    }[body]  # fmt: skip
    made = function("f", {"a": FLOAT}, {"o": (FLOAT, result)}, *nodes)
    records = [placeholder("p", BOOL, ()), X, neg("outer", "x"), node("switch", "Switch", ["x", "p"], T=FLOAT),
               identity("pivot", "switch:1"), call("call", "f", ["switch:1", *controls], F1, F1), identity("y", "call"),
               identity("z", "x", "^call"), library(made)]  # fmt: skip
    for fetch in ("y", "z"):
        same(records, fetch, feeds=[{"p": p, "x": [1.0, 2.0]} for p in (True, False)])


@runs
def test_a_call_without_arguments_in_a_branch() -> None:
    made = function("f", {}, {"o": (FLOAT, "k:output:0")}, const("k", [7, 7]))
    records = [placeholder("p", BOOL, ()), X, node("switch", "Switch", ["x", "p"], T=FLOAT),
               identity("pivot", "switch:1"), call("call", "f", ["^pivot"], [], F1), identity("y", "call"),
               library(made)]  # fmt: skip
    same(records, "y", feeds=[{"p": p, "x": [1.0, 2.0]} for p in (True, False)])


@runs
def test_a_call_behind_two_conditionals() -> None:
    """It runs where both are taken, whatever its body needs."""
    for made in (STEP, IGNORING, PASSING, CONSTANT):
        records = [placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X,
                   node("where_p", "Switch", ["x", "p"], T=FLOAT), node("where_q", "Switch", ["x", "q"], T=FLOAT),
                   call("call", "step", ["where_p:1", "where_q:1"], F1 * 2, F1), identity("y", "call"),
                   library(made)]  # fmt: skip
        same(records, "y", feeds=[{"p": p, "q": q, "x": [1.0, 2.0]} for p in (True, False) for q in (True, False)])


@runs
def test_a_loop_in_a_body_has_a_frame_of_its_own() -> None:
    """Two calls of a function with a v1 loop in it run side by side."""
    loop = graphs.proto(*LOOP, trailer=b"")
    made = message("tensorflow.FunctionDef")()
    made.signature.name = "f"
    made.signature.input_arg.add(name="n", type=3)
    made.signature.output_arg.add(name="o", type=1)
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
    made.ret["o"] = "out:output:0"
    records = [placeholder("n", INT32, ()), call("c", "f", ["n"], [INT32], F1), call("d", "f", ["n"], [INT32], F1),
               add("y", "c", "d"), library(made)]  # fmt: skip
    for keep_names in (True, False):
        found = graph(*records)
        inline(found, keep_names=keep_names)
        frames = {n.name: n.attr["frame_name"].s for n in graphs.parsed(found).node if n.op == "Enter"}
        assert len(set(frames.values())) == 2
        assert [run(found, "y", n=n) for n in (0, 1, 3)] == [[2.0], [10.0], [58.0]]


@runs
def test_fusing_and_inlining_in_a_loop_gives_the_same_graph_back() -> None:
    for chosen in (["w/double", "w/plus"], ["w/two", "w/double", "w/plus"], ["w/one", "w/Add"]):
        found = graph(*LOOP)
        fuse_ops(found, Selection(nodes=tuple(chosen)), "call")
        found = from_bytes(graphs.written(found))
        inline(found, keep_names=True)
        for n in (0, 3):
            assert run(found, "out", n=n, patience=3) == run(graph(*LOOP), "out", n=n), chosen


# -- XLA ---------------------------------------------------------------------------------------------------


def test_what_xla_compiled_may_differ_a_little() -> None:
    records = [X, call("c", "twice", ["x"], F1, F1, _XlaMustCompile=True), library(TWICE)]
    (claim,) = inline(graph(*records)).claims
    assert isinstance(claim, SameOutputs) and claim.rtol > 0 and claim.atol > 0
    (claim,) = inline(graph(*records), rtol=0.0, atol=0.0).claims
    assert isinstance(claim, SameOutputs) and (claim.rtol, claim.atol) == (0.0, 0.0)


def test_what_xla_compiled_inside_a_body_may_differ_too() -> None:
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "c:output:0")},
                     call("c", "twice", ["a"], F1, F1, _XlaMustCompile=True))  # fmt: skip
    (claim,) = inline(graph(X, call("c", "outer", ["x"], F1, F1), library(outer, TWICE))).claims
    assert isinstance(claim, SameOutputs) and claim.rtol > 0


# -- the way back ------------------------------------------------------------------------------------------


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


def test_fusing_and_inlining_keeps_the_names_of_outputs() -> None:
    """Where the name stands on an Identity, the node itself takes another."""
    records = [X, neg("a", "x"), neg("y", "a")]
    found = graph(*records)
    fuse_ops(found, Selection(nodes=("a", "y")), "call")
    inline(found, keep_names=True)
    nodes = as_dict(found)
    assert nodes["y"].op == "Identity" and list(nodes["a"].input) == ["x"] and len(nodes) == 4


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[bytes], list[str]]:
    """A graph of float vectors of two elements in any order, and its names; with control edges and two-output nodes."""
    records = [X, scalar("axis", 0, INT32), const("k0", [0.5, -1.5])]
    tensors, names = ["x", "k0"], ["x", "k0", "axis"]
    for i in range(draw(st.integers(1, 14))):
        name = draw(st.sampled_from(["", "s/", "t/u/"])) + f"n{i}"
        reads = st.sampled_from(tensors)
        waits = [f"^{w}" for w in draw(st.lists(st.sampled_from(names), max_size=1))]
        kind = draw(st.sampled_from(["Neg", "Tanh", "AddV2", "Mul", "Sub", "Const", "TopKV2", "NoOp", "RandomUniform"]))
        if kind in ("Neg", "Tanh"):
            records.append(unary(kind, name, draw(reads), *waits))
        elif kind == "Const":
            value = draw(st.sampled_from([0.25, -3.0, 7.5]))
            records.append(node(name, "Const", waits, dtype=FLOAT, value=tensor([value, 1])))
        elif kind == "TopKV2":
            records.append(scalar(f"{name}_k", 2, INT32))
            records.append(node(name, "TopKV2", [draw(reads), f"{name}_k", *waits], T=FLOAT, sorted=True))
            names.append(f"{name}_k")
        elif kind == "NoOp":
            records.append(node(name, "NoOp", waits))
            names.append(name)
            continue
        elif kind == "RandomUniform":
            records.append(const(f"{name}_shape", [2], INT32))
            records.append(node(name, kind, [f"{name}_shape", *waits], T=INT32, dtype=FLOAT, seed=i + 1, seed2=3))
            names.append(f"{name}_shape")
        else:
            records.append(node(name, kind, [draw(reads), draw(reads), *waits], T=FLOAT))
        tensors.append(name)
        names.append(name)
    return draw(st.permutations(records)), names


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


@runs
@settings(deadline=None, derandomize=True, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(dags(), st.data())
def test_random_selections_fused_and_inlined(case: tuple[list[bytes], list[str]], data: st.DataObject) -> None:
    records, names = case
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = convex(found, data.draw(st.sets(st.sampled_from(sorted(set(names) - {"x"})), min_size=1, max_size=6)))
    outputs = [n.name for n in found.nodes() if n.op != "NoOp" and not any(
        read.node is n for user in found.users(n) for read in user.inputs)]  # fmt: skip
    before = outcome(original, *outputs, x=[0.75, -2.0])
    assert isinstance(before, list)

    fused = fuse_ops(found, Selection(nodes=tuple(chosen)), "call", inline=data.draw(st.booleans()))
    check_journal(original, found, fused)
    assert outcome(found, *outputs, x=[0.75, -2.0]) == before
    middle = graphs.written(found)

    again = from_bytes(middle)
    result = inline(again, keep_names=data.draw(st.booleans()))
    check_journal(middle, again, result)
    assert outcome(again, *outputs, x=[0.75, -2.0]) == before
    assert functions_of(again) == []


@st.composite
def conditionals(draw: st.DrawFn) -> tuple[list[bytes], list[str], list[str]]:
    """A graph of v1 conditionals on two predicates, side by side and in one another; its computing nodes; its ends."""
    records = [placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X, identity("p_id", "p", kind=BOOL)]
    tensors, nodes, read = ["x"], [], set()
    for i in range(draw(st.integers(2, 10))):
        kinds = ["Switch", "Switch", "Neg", "AddV2", "AddV2", "Const", "Merge"]
        kind = draw(st.sampled_from(kinds)) if i > 1 else "Switch"
        reads = st.sampled_from(tensors)
        waits = [f"^{w}" for w in draw(st.lists(st.sampled_from(nodes), max_size=1))] if nodes else []
        name = f"n{i}"
        if kind == "Switch":
            source = draw(reads)
            read.add(source)
            records.append(node(name, "Switch", [source, draw(st.sampled_from(["p", "p_id", "q"]))], T=FLOAT))
            tensors += [name, f"{name}:1"]
            continue
        sources = [draw(reads) for _ in range({"Neg": 1, "AddV2": 2, "Const": 0, "Merge": 2}[kind])]
        read.update(sources)
        if kind == "Merge":
            switch = f"{name}_switch"
            records.append(node(switch, "Switch", [sources[0], draw(st.sampled_from(["p", "p_id", "q"]))], T=FLOAT))
            records += [neg(f"{name}_f", switch), neg(f"{name}_t", f"{switch}:1", *waits)]
            records.append(node(name, "Merge", [f"{name}_f", f"{name}_t"], T=FLOAT, N=2))
            nodes += [f"{name}_f", f"{name}_t"]
        elif kind == "Const":
            records.append(node(name, kind, waits, dtype=FLOAT, value=tensor([i + 0.5, 1])))
            nodes.append(name)
        else:
            records.append(node(name, kind, [*sources, *waits], T=FLOAT))
            nodes.append(name)
        tensors.append(name)
    seen = [tensor_ for tensor_ in tensors[:0:-1] if tensor_ not in read or draw(st.booleans())][:5]
    records += [identity(f"end_{i}", source) for i, source in enumerate(seen)]
    return records, nodes, [f"end_{i}" for i in range(len(seen))]


@runs
@settings(deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(conditionals(), st.data())
def test_random_selections_among_conditionals(
    case: tuple[list[bytes], list[str], list[str]], data: st.DataObject
) -> None:
    """What was dead is dead, and what was there is there, whatever is decided; or the selection is refused."""
    records, nodes, ends = case
    if not nodes:
        return
    original = graph_bytes(*records)
    found = from_bytes(original)
    chosen = data.draw(st.sets(st.sampled_from(nodes), min_size=1, max_size=3))
    try:
        fuse_ops(found, [found[name] for name in convex(found, chosen)], "call")
    except EditError as error:
        assert any(words in error.message for words in ("different branches", "v1 control flow")), error.message
        return
    again = from_bytes(graphs.written(found))
    inline(again)
    feeds = [{"p": p, "q": q, "x": [0.75, -2.0]} for p in (True, False) for q in (True, False)]
    before = outcomes(original, ends, feeds)
    assert outcomes(found, ends, feeds) == before
    assert outcomes(again, ends, feeds) == before


def check_journal(before: bytes, found: Graph, result: EditResult) -> None:
    """The graph is sound, and the journal says what has happened to its names."""
    assert check(from_bytes(graphs.written(found))).faults == []
    old, new = set(graphs.names(before)), set(graphs.names(found))
    journal = result.journal
    assert new - old <= set(journal.added) <= new
    assert old - new == set(journal.removed)
    ports = {f"{n.name}:{i}" if i else n.name for n in found.nodes() for i in range(len(n.output_dtypes or ()))}
    assert set(journal.moved.values()) <= ports
    inputs = {n.name: [r.name for r in n.inputs] for n in found.nodes()}
    for change in journal.rewired:
        assert inputs[change.node][change.slot] == change.new


# -- the command -------------------------------------------------------------------------------------------


@runs
def test_inlining_is_proven(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    outer = function("outer", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, call("c", "less_one", ["a"], F1, F1),
                     neg("n", "c:output:0"))  # fmt: skip
    (tmp_path / "model.pb").write_bytes(graph_bytes(X, call("c", "outer", ["x"], F1, F1), neg("y", "c"),
                                                    library(outer, LESS_ONE)))  # fmt: skip
    assert exit_code(["inline", str(tmp_path / "model.pb"), "-o", str(tmp_path / "out.pb")]) == 0
    said = capsys.readouterr().err
    assert "bit-identical" in said and "2 outputs" in said
    assert graphs.inputs((tmp_path / "out.pb").read_bytes()) == {
        "x": [], "c/c/k": [], "c/c/d": ["x", "c/c/k"], "c/n": ["c/c/d"], "y": ["c/n"]
    }  # fmt: skip
    for options, code, words in (
        (["--function", "twice"], 4, "has no function 'twice'"),
        (["--function", "less_one"], 4, "there is no call of 'less_one' to inline"),
        (["--function", "outer", "--keep-names"], 0, "bit-identical"),
    ):
        out = ["-o", str(tmp_path / f"out{code}.pb")]
        assert exit_code(["inline", str(tmp_path / "model.pb"), *out, *options]) == code
        assert words in capsys.readouterr().err


def test_a_string_argument() -> None:
    made = function("f", {"s": STRING}, {"o": (INT32, "n:output:0")}, node("n", "StringLength", ["s"]))
    found = graph(placeholder("s", STRING, ()), call("c", "f", ["s"], [STRING], [INT32]), library(made))
    inline(found)
    assert graphs.inputs(found) == {"s": [], "c/n": ["s"], "c": ["c/n"]}
    assert graphs.attrs(found, "c")["T"].type == 3
