"""simplify: removed nodes of each pass, kept nodes, and all passes together."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support import graphs
from support.desk import Desk, check_error
from support.expecting import account, expect, refused
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    RESOURCE,
    STRING,
    Drawn,
    add,
    const,
    define,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    random_graphs,
    relu,
    scalar,
    tensor,
    typed,
)
from support.running import run, values
from support.simplifying import simplified, stays
from support.system import calls, is_linear
from support.v1_control_flow import LOOP, cond, taken_both_ways, while_loop

from gdsurgeon.edits.claims import EditResult, SameGiven, SameOutputs
from gdsurgeon.edits.functions import in_functions
from gdsurgeon.edits.simplify import PASSES, simplify
from gdsurgeon.errors import NothingToDo, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.serving import Restoring, Served, Serving
from gdsurgeon.runtime.tensor import Tensor, from_numpy

X = placeholder("x", FLOAT, (2, 3))
FED = {"x": [[1.0, -2.0, 3.0], [-4.0, 5.0, 0.5]]}


def only(*passes: str) -> Any:
    return partial(simplify, passes=passes)


def becomes(before: Sequence[bytes], after: Sequence[bytes], *passes: str, same: Sequence[str] = ("y",)) -> EditResult:
    """BEFORE becomes AFTER, by PASSES or by all; SAME are tensors that TensorFlow finds to be what they were."""
    return expect([X, *before], only(*passes), [X, *after], same=same, fed=FED)


K, Y = scalar("k", 1), typed("Relu", "y", "x")
EQUAL = [const("k", [1, 2, 3]), const("m", [1, 2, 4]), add("a", "x", "k"), add("c", "x", "m"), identity("y", "n")]
TALL = const("tall", [3, 2], INT32)
GOES: dict[str, tuple[list[bytes], list[bytes], list[str]]] = {
    "what reaches no output": ([K, Y, node("n", "NoOp", ["^k"])], [Y], ["unread"]),
    "identities": (
        [identity("a", "x"), identity("b", "a"), node("n", "IdentityN", ["b", "x"], T=dtypes(FLOAT, FLOAT)),
         add("s", "n", "n:1"), identity("y", "s")],
        [add("s", "x", "x"), identity("y", "s")], ["identities"],
    ),
    "edges that say nothing": (
        [K, node("n", "NoOp", ["^k", "^x"]), typed("Relu", "a", "x", "^n", "^x"), add("y", "a", "k", "^k")],
        [K, typed("Relu", "a", "x"), add("y", "a", "k")], ["unread", "control-edges"],
    ),
    "equal nodes": (
        [EQUAL[0], const("l", [1, 2, 3]), *EQUAL[1:3], add("b", "x", "l"), EQUAL[3],
         node("n", "AddN", ["a", "b", "c"], T=FLOAT, N=3), EQUAL[4]],
        [*EQUAL[:4], node("n", "AddN", ["a", "a", "c"], T=FLOAT, N=3), EQUAL[4]], ["equal-nodes"],
    ),
    "sums of the same in any order": (
        [EQUAL[0], add("a", "x", "k"), add("b", "k", "x"), typed("Mul", "c", "a", "x"), typed("Mul", "d", "x", "b"),
         add("y", "c", "d")],
        [EQUAL[0], add("a", "x", "k"), typed("Mul", "c", "a", "x"), add("y", "c", "c")], ["equal-nodes"],
    ),
    "a Reshape before another": (
        [const("flat", [-1], INT32), TALL, node("a", "Reshape", ["x", "flat"], T=FLOAT),
         node("y", "Reshape", ["a", "tall"], T=FLOAT)],
        [TALL, node("y", "Reshape", ["x", "tall"], T=FLOAT)], ["pairs", "unread"],
    ),
}  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("what", GOES)
def test_what_a_pass_takes_away(what: str) -> None:
    before, after, passes = GOES[what]
    assert isinstance(becomes(before, after, *passes).claims[0], SameOutputs)


# -- pass by pass ---------------------------------------------------------------------------------------------


def test_what_lasts_stays() -> None:
    x = placeholder("x", STRING)
    table = node("t", "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name="t")
    fill = node("f", "InitializeTableFromTextFileV2", ["t", "x"], key_index=-2, value_index=-1)
    stays(x, table, fill, node("init", "NoOp", ["^f"]), node("size", "LookupTableSizeV2", ["t"]))
    said = node("p", "PrintV2", ["x"])
    stays(x, said, typed("StringLower", "y", "x"), passes=["unread"])


@pytest.mark.tensorflow
def test_outputs_say_what_is_needed() -> None:
    before = [typed("Relu", "a", "x"), typed("Neg", "y", "a"), typed("Abs", "z", "a")]
    found, result = simplified(X, *before, outputs=["a"])
    assert graphs.names(found) == ["x", "a"]
    assert isinstance(result.claims[0], SameGiven)
    assert result.claims[0].outputs == (("a", "a"),)


RATIO = graphs.encode_len(1, graphs.encode_len(4, struct.pack("<4f", 1, 1.5, 1.5, 1)))
STAYS = {
    "an identity with colocated nodes": [
        X, identity("a", "x"), typed("Relu", "y", "a"), typed("Neg", "z", "x", _class=["loc:@a"])
    ],
    "an identity that is an output": [X, identity("y", "x")],
    "the value of a reference": [
        X, node("v", "VariableV2", dtype=FLOAT, shape=(2, 3)), identity("v/read", "v"),
        node("change", "AssignAdd", ["v", "x"], T=FLOAT), add("y", "v/read", "change"),
    ],
    "draws of an op that is not called stateful": [
        placeholder("image", FLOAT, (1, 20, 20, 1)), typed("Sub", "y", "a", "b"),
        *(node(name, "FractionalMaxPool", ["image"], T=FLOAT, pooling_ratio=RATIO) for name in "ab"),
    ],
    "draws": [
        X, const("k", [2, 3], INT32), add("y", "a", "b"),
        *(node(name, "RandomUniform", ["k"], dtype=FLOAT, T=INT32) for name in "ab"),
    ],
    "other attrs": [
        X, typed("LeakyRelu", "a", "x", alpha=0.1), typed("LeakyRelu", "b", "x", alpha=0.2), add("y", "a", "b")
    ],
    "the sign of a zero, which is that of the first or second": [
        X, K, typed("Maximum", "a", "x", "k"), typed("Maximum", "b", "k", "x"), add("y", "a", "b")
    ],
    "strings in another order": [
        placeholder("x", STRING), placeholder("k", STRING), typed("Add", "a", "x", "k", kind=STRING),
        typed("Add", "b", "k", "x", kind=STRING), node("y", "StringJoin", ["a", "b"], N=2),
    ],
    "other devices": [
        X, typed("Relu", "a", "x", device="/cpu:0"), typed("Relu", "b", "x", device="/cpu:1"), add("y", "a", "b")
    ],
    "equal outputs": [X, typed("Relu", "a", "x"), typed("Relu", "b", "x")],
}  # fmt: skip


@pytest.mark.parametrize("what", STAYS)
def test_what_only_looks_needless_stays(what: str) -> None:
    stays(*STAYS[what])


def test_what_is_written_into_in_place_is_read_by_nobody_else() -> None:
    """TensorFlow calls no op stateful that writes into what it reads: no other may read it."""
    fixed = [const("at", [0], INT32), const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3)), scalar("one", 1.0)]
    twice = [typed("Neg", "a", "x"), typed("Neg", "b", "x")]
    stays(X, *fixed[:2], *twice, node("y", "InplaceAdd", ["a", "at", "row"], T=FLOAT), identity("z", "b"))
    passed = [typed("Neg", "a", "x"), typed("Mul", "b", "a", "one"), typed("Abs", "z", "a")]
    stays(X, *fixed, *passed, node("y", "InplaceUpdate", ["b", "at", "row"], T=FLOAT))


WRITES = graphs.function(
    "W", const("at", [0], INT32), const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3)),
    node("y", "InplaceAdd", ["x", "at:output:0", "row:output:0"], T=FLOAT),
)  # fmt: skip
"""A function that writes into what it is given."""
F1 = dtypes(FLOAT)


def test_what_a_function_writes_into_in_place_is_read_by_nobody_else() -> None:
    twice = [typed("Neg", "a", "x"), typed("Neg", "b", "x"), scalar("one", 1.0)]
    passed = [typed("Mul", "c", "a", "one"), typed("Abs", "z", "a")]
    outer = graphs.function("V", node("y", "PartitionedCall", ["x"], f=func("W"), Tin=F1, Tout=F1))
    for called in ("W", "V"):
        body = library(WRITES, outer)
        call = node("y", "PartitionedCall", ["a"], f=func(called), Tin=F1, Tout=F1)
        stays(X, *twice[:2], call, identity("z", "b"), body, passes=["equal-nodes"])
        call = node("y", called, ["c"])
        stays(X, twice[0], twice[2], *passed, call, body, passes=["neutral"])


def test_what_a_function_gives_and_others_write_into_is_read_by_nobody_else() -> None:
    results = {"o": (FLOAT, "a:y:0"), "p": (FLOAT, "b:y:0")}
    several = define("F", {"x": FLOAT}, results, typed("Neg", "a", "x"), typed("Neg", "b", "x"))
    fixed = [const("at", [0], INT32), const("row", [1.0, 2.0, 3.0], FLOAT, (1, 3))]
    call = node("c", "PartitionedCall", ["x"], f=func("F"), Tin=F1, Tout=dtypes(FLOAT, FLOAT))
    edit = partial(in_functions, names=["F"], edit=partial(simplify, passes=["equal-nodes"]))
    for written in (node("d", "InplaceAdd", ["c", "at", "row"], T=FLOAT), node("d", "W", ["c"])):
        found = graph(X, *fixed, call, written, add("y", "d", "c:1"), library(several, WRITES))
        refused(found, "nothing-to-do", edit, error=NothingToDo)
    plain = graph(X, call, add("y", "c", "c:1"), library(several))
    assert edit(plain).intent.functions.changed == ["F"]


@pytest.mark.tensorflow
def test_checks_go_and_that_is_said() -> None:
    ok = [node("any", "Any", ["yes", "dims"], Tidx=INT32), scalar("dims", 0, INT32)]
    yes = node("yes", "IsFinite", ["flat"], T=FLOAT)
    flat = [const("one", [-1], INT32), node("flat", "Reshape", ["x", "one"], T=FLOAT)]
    check = node("check", "Assert", ["any", "x"], T=dtypes(FLOAT))
    before = [*flat, yes, *ok, check, typed("CheckNumerics", "a", "x", "^check", message="no"), typed("Relu", "y", "a")]
    result = becomes(before, [typed("Relu", "y", "x")])
    (warning,) = result.warnings
    check_error(warning, "checks-removed", {"ops": {"Assert": 1, "CheckNumerics": 1}})
    stays(X, *before, skip=["checks"])


def test_who_waits_for_an_identity_waits_for_what_that_reads() -> None:
    draw = node("d", "RandomUniform", ["k"], dtype=FLOAT, T=INT32)
    before = [const("k", [2, 3], INT32), draw, identity("a", "d"), identity("b", "a"), typed("Relu", "y", "x", "^b"),
              typed("Abs", "z", "b")]  # fmt: skip
    expect([X, *before], simplify, [X, before[0], draw, typed("Relu", "y", "x", "^d"), typed("Abs", "z", "d")])


def test_a_reshape_that_is_read_past_is_not_waited_for() -> None:
    shapes = [const("flat", [-1], INT32), const("tall", [3, 2], INT32)]
    printed = node("p", "Print", ["x", "x"], T=FLOAT, U=dtypes(FLOAT))
    records = [printed, typed("Reshape", "a", "p", "flat"), typed("Reshape", "b", "a", "tall", "^a")]
    found, _ = simplified(X, *shapes, *records, relu("y", "b"))
    assert graphs.inputs(found)["b"] == ["p", "tall"]


def test_reshapes_that_become_equal_are_one() -> None:
    shapes = [const("flat", [-1], INT32), const("tall", [3, 2], INT32)]
    there = node("a", "Reshape", ["x", "flat"], T=FLOAT)
    tall = [node("b", "Reshape", ["x", "tall"], T=FLOAT), node("c", "Reshape", ["a", "tall"], T=FLOAT)]
    expect([X, *shapes, there, *tall, add("y", "b", "c")], simplify, [X, shapes[1], tall[0], add("y", "b", "b")])


@pytest.mark.parametrize("value", [True, False])
def test_a_decided_conditional_is_its_side(value: bool) -> None:
    taken = const("p", value, BOOL)
    before = [taken, *cond()[1:]]
    after, _ = simplified(*before)
    assert not set(graphs.ops(after).values()) & {"Switch", "Merge"}
    assert run(after, "y", x=[1.0, 2.0]) == run(graph(*before), "y", x=[1.0, 2.0])


def test_a_node_is_removed_when_the_last_control_edge_is_gone() -> None:
    records = [const("p", True, BOOL), typed("Switch", "s", "x", "p"),
               node("n", "IdentityN", ["s:1", "s:1"], T=dtypes(FLOAT, FLOAT)), neg("c", "x", "^n")]  # fmt: skip
    found, _ = simplified(X, *records, add("y", "n", "n:1"), relu("z", "c"))
    assert graphs.inputs(found) == {"x": [], "c": ["x"], "y": ["x", "x"], "z": ["c"]}


def test_a_decided_conditional_may_have_control_edges_without_effect() -> None:
    records = [const("p", True, BOOL), scalar("k", 1), typed("Switch", "s", "x", "p", "^k"), neg("t", "s:1", "^s"),
               relu("f", "s"), typed("Merge", "m", "f", "t", "^k", N=2)]  # fmt: skip
    found, _ = simplified(X, *records, relu("y", "m"))
    assert graphs.inputs(found) == {"x": [], "t": ["x"], "y": ["t"]}


def test_what_is_never_computed_may_be_read_from_before() -> None:
    """Which input of a Merge has come is read: the Switch stays, and what is neutral on its dead side goes."""
    taken = const("p", True, BOOL)
    sides = [node("s", "Switch", ["x", "p"], T=FLOAT), typed("Mul", "f", "s", "one"),
             neg("t", "s:1"), node("m", "Merge", ["f", "t"], T=FLOAT, N=2)]  # fmt: skip
    ends = [node("i", "Cast", ["m:1"], SrcT=INT32, DstT=FLOAT), add("y", "m", "i")]
    found, _ = simplified(X, scalar("one", 1), taken, *sides, *ends)
    assert graphs.inputs(found)["m"] == ["s", "t"]


def test_a_conditional_keeps_its_branches_and_a_loop_its_frame() -> None:
    found, _ = simplified(*cond())
    assert taken_both_ways(found, "y") == taken_both_ways(graph(*cond()), "y")
    assert {"c/switch_t", "c/switch_f"} <= set(graphs.names(found))  # what waits for them lives in a branch
    loop, _ = simplified(*LOOP)
    assert run(loop, "out", n=3) == run(graph(*LOOP), "out", n=3)
    assert "w/i" in graphs.names(loop)
    assert "w/v" not in graphs.names(loop)


def test_equal_constants_of_two_branches_stay_apart() -> None:
    found = graph(*cond(node("c/too", "Const", ["^c/switch_f"], dtype=FLOAT, value=tensor([2], FLOAT, ())),
                        typed("Mul", "c/left", "c/neg", "c/too"),
                        node("z", "Merge", ["c/left", "c/mul"], T=FLOAT, N=2)))  # fmt: skip
    simplify(found)
    assert {"c/two", "c/too"} <= set(graphs.names(found))


def test_functions_that_nobody_calls_go() -> None:
    call = node("y", "PartitionedCall", ["x"], f=func("F"), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT))
    body = function("F", neg("y", "x"))
    other = function("G", neg("y", "x"))
    found = graph(X, call, trailer=library(body, other) + graphs.VERSIONS)
    result = expect(found, partial(simplify, skip=["inline"]), [X, call], trailer=library(body) + graphs.VERSIONS)
    assert result.intent.functions.removed == ["G"]


# -- all of it ------------------------------------------------------------------------------------------------


def test_names_that_a_model_serves_stay() -> None:
    found = graph(X, identity("in", "x"), typed("Relu", "r", "in"), identity("served", "r"), identity("run", "r"),
                  typed("Neg", "y", "served"))  # fmt: skip
    found.serving = Serving("SavedModel", "", {"a": Served({"x": "in"}, {"y": "served"})},
                            initialising=Restoring({}, ("run",)))  # fmt: skip
    simplified(found, again=False)
    assert graphs.names(found) == ["x", "in", "r", "served", "run"]


def test_what_a_saver_fetches_stays() -> None:
    saved = [placeholder("file", STRING, ()), node("names", "Const", dtype=STRING, value=NAMES),
             node("save", "SaveV2", ["file", "names", "names", "x"], dtypes=dtypes(FLOAT)),
             identity("also", "file", "^save", kind=STRING), identity("saved", "file", "^save", kind=STRING),
             *while_loop(add("w/plus", "w/v", "w/three"), result="w/plus"),
             *(node(f"w/{i}", "Const", ["^w/i"], dtype=INT32, value=tensor([1], INT32, ())) for i in "ab")]  # fmt: skip
    found = graph(X, *saved, typed("Relu", "r", "x"), identity("a", "r"), typed("Neg", "y", "a"), scalar("k", 1))
    found.serving = Serving("MetaGraph", "", {"a": Served({"x": "x"}, {"y": "y"})})
    simplified(found, again=False)
    assert graphs.names(found) == ["x", "file", "names", "save", "also", "saved", "n", "r", "y"]


NAMES = graphs.encode_len(8, b"\x08\x07\x12\x04\x12\x02\x08\x01\x42\x01v")


@given(random_graphs())
def test_random_graphs_are_accounted_for_and_simple_then(drawn: Drawn) -> None:
    with suppress(NothingToDo):
        simplified(from_bytes(drawn.data))


def test_a_weight_that_enters_a_loop_enters_it_still() -> None:
    inner = [identity("w/same", "w/three"), add("w/plus", "w/v", "w/same"), add("w/more", "w/plus", "w/three")]
    before = graph(*while_loop(*inner, result="w/more"))
    after, _ = simplified(*while_loop(*inner, result="w/more"))
    assert run(after, "out", n=4) == run(before, "out", n=4)
    assert graphs.ops(after)["w/three"] == "Enter"  # no copy of a weight for an Enter
    assert [name for name, op in graphs.ops(after).items() if op == "Const"] == ["zero", "start", "three", "w/one"]
    assert len(graphs.written(after)) < len(graphs.written(before))


def test_a_resource_is_no_output() -> None:
    found = graph(X, placeholder("r", RESOURCE), identity("s", "r", kind=RESOURCE), typed("Relu", "y", "x"))
    simplify(found)
    assert graphs.names(found) == ["x", "r", "y"]


RELU = [X, identity("a", "x"), typed("Relu", "y", "a")]


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        ("--passes neutral --skip neutral", "conflicting-options", {"passes": ["neutral"], "skip": ["neutral"]}),
        ("--passes identities,pairs --skip pairs,unread,identities", "conflicting-options",
         {"passes": ["identities", "pairs"], "skip": ["identities", "pairs"]}),
        ("--passes checks --keep-checks", "conflicting-options", {"option": "--keep-checks"}),
        ("--passes shapes --for opencv", "conflicting-options",
         {"passes": ["shapes"], "skip": [], "engine": "opencv"}),
        (f"--skip {','.join(PASSES)}", "conflicting-options", {"passes": None, "skip": [*PASSES]}),
        ("--passes idle", "no-such-pass", {"value": "idle"}),
        ("--skip inlin", "no-such-pass", {"value": "inlin", "near": "inline"}),
    ],
)  # fmt: skip
def test_what_cancels_out_is_a_wrong_use(desk: Desk, options: str, code: str, facts: dict[str, Any]) -> None:
    desk.put("m.pb", graphs.graph_bytes(*RELU))
    arguments = ("simplify", "m.pb", *options.split(), "-o", "n.pb", "--validate", "structure")
    desk.refused(2, code, *arguments, **facts)


def test_what_leaves_something_to_be_done_is_none() -> None:
    found = graph(*RELU)
    simplify(found, passes=["identities", "pairs"], skip=["pairs"])
    assert graphs.names(found) == ["x", "y"]
    edit = partial(simplify, passes=["unread"], skip=["unread"])
    refused(found.pristine(), "conflicting-options", edit, error=UsageError, passes=["unread"], skip=["unread"])
    assert not edit(found, fold_bn=True).intent.removed


def _true(data: bytes, names: Sequence[str]) -> Mapping[str, Tensor]:
    del data
    return {name: from_numpy(np.array(True)) for name in names}


def turns(count: int, beside: int, *more: bytes) -> Graph:
    """COUNT conditionals, each decided by the result of the one before, and BESIDE unused nodes."""
    records, last = [X, node("t", "Const", dtype=BOOL, value=graphs.tensor([True], BOOL, ()))], "t"
    for i in range(count):
        records += [node(f"q{i}", "Equal", [last, last], T=BOOL), node(f"s{i}", "Switch", ["t", f"q{i}"], T=BOOL),
                    node(f"a{i}", "LogicalNot", [f"s{i}"]), node(f"b{i}", "LogicalNot", [f"s{i}:1"]),
                    node(f"m{i}", "Merge", [f"a{i}", f"b{i}"], T=BOOL, N=2)]  # fmt: skip
        last = f"m{i}"
    records.append(node("z", "Select", [last, "x", "x"], T=FLOAT))
    for i in range(beside):
        records += [scalar(f"c{i}", i + 2), add(f"p{i}", f"p{i - 1}" if i else "x", f"c{i}"),
                    node(f"r{i}", "Tanh", [f"p{i}"], T=FLOAT)]  # fmt: skip
    return graph(*records, *more)


def simpler(found: Graph) -> EditResult:
    return simplify(found, evaluate=_true, max_growth=1 << 20)


def test_each_conditional_is_decided() -> None:
    found = turns(5, 0)
    result = simpler(found)
    assert len(found) == 3
    account(found, result)  # all iterations are one stage


def test_what_stays_as_it_is_costs_hardly_more_where_there_are_more_turns() -> None:
    simpler(turns(1, 1))  # what is looked up once is looked up now

    def of_idle(count: int) -> int:
        return calls(partial(simpler, turns(count, 40))) - calls(partial(simpler, turns(count, 5)))

    assert of_idle(6) < 2.5 * of_idle(1)


def test_turns_are_linear() -> None:
    assert is_linear(lambda count: partial(simpler, turns(3, count)), 20, 80)


@pytest.mark.parametrize("kind", ["deep", "wide", "many", "alike"])
def test_the_work_grows_with_the_graph_whatever_its_form(kind: str) -> None:
    assert is_linear(lambda count: partial(simplify, FORMS[kind](count)), 40, 160)


def _deep(count: int) -> Graph:
    records, last = [X], "x"
    for i in range(count):
        records += [identity(f"i{i}", last), neg(f"n{i}", f"i{i}")]
        last = f"n{i}"
    return graph(*records)


def _wide(count: int) -> Graph:
    """One node that all read and wait for, and one that reads all."""
    records = [X, *(node(f"r{i}", "Tanh", [f"i{i}", "^x"], T=FLOAT) for i in range(count))]
    records += [identity(f"i{i}", "x") for i in range(count)]
    return graph(*records, node("y", "AddN", [f"r{i}" for i in range(count)], T=FLOAT, N=count))


def _many(count: int) -> Graph:
    """Small branches that have nothing to do with each other."""
    out = []
    for i in range(count):
        out += [placeholder(f"x{i}", FLOAT, (2, 3)), identity(f"i{i}", f"x{i}")]
        out += [relu(f"r{i}", f"i{i}"), relu(f"y{i}", f"r{i}")]
    return graph(*out)


def _alike(count: int) -> Graph:
    """Nodes that are the same and all keep their names, but are found to be so late."""
    return graph(X, *(identity(f"i{i}", "x") for i in range(count)),
                 *(node(f"y{i}", "Tanh", [f"i{i}"], T=FLOAT) for i in range(count)))  # fmt: skip


FORMS: dict[str, Callable[[int], Graph]] = {"deep": _deep, "wide": _wide, "many": _many, "alike": _alike}


W = placeholder("w", FLOAT, (2, 3))
END = relu("y", "last")


def test_parts_of_a_tensor_and_all_of_them_packed() -> None:
    for records in (packed(), packed(1, 1, ("u", "u:1", "u:2"))):
        found, result = simplified(X, *records, END)
        assert graphs.inputs(found) == {"x": [], "y": ["x"]}
        assert isinstance(result.claims[0], SameOutputs)
    found, _ = simplified(X, *unpacked(), END)
    assert graphs.inputs(found) == {"x": [], "w": [], "last": ["x", "w"], "y": ["last"]}
    others = [unpacked(1, 0), unpacked(1, -1), unpacked(1, 1, 3), over("Sum", 0, keep=True), packed(0, 1)]
    for records in (*others, packed(order=("u:1", "u")), packed(order=("u", "u"))):
        stays(X, *records, END)


def over(op: str, *axes: int, keep: bool = False) -> list[bytes]:
    return [const("axes", axes, INT32, (len(axes),)), typed(op, "last", "x", "axes", Tidx=INT32, keep_dims=keep)]


def packed(axis: int = 0, again: int = 0, order: tuple[str, ...] = ("u", "u:1")) -> list[bytes]:
    """The parts of a tensor as one again."""
    return [node("u", "Unpack", ["x"], T=FLOAT, num=2 + axis, axis=axis),
            node("last", "Pack", order, T=FLOAT, N=len(order), axis=again)]  # fmt: skip


def unpacked(axis: int = 1, again: int = 1, num: int = 2) -> list[bytes]:
    """A product of the parts of what two tensors were made."""
    pack = node("p", "Pack", ["x", "w"], T=FLOAT, N=2, axis=axis)
    parts = node("u", "Unpack", ["p"], T=FLOAT, num=num, axis=again)
    return [W, pack, parts, typed("Mul", "last", "u", "u:1")]


def test_sums_of_single_elements_go_where_shapes_say_so() -> None:
    narrow = placeholder("x", FLOAT, (5, 1, 1, 3))
    found, result = simplified(narrow, *over("Mean", 1, 2, keep=True), END)
    assert graphs.names(found) == ["x", "y"]
    assert result.claims[0].also == ("last",)  # type: ignore[attr-defined]  # it is compared with the tensor that replaces it
    stays(placeholder("x", FLOAT, (5, -1, 1, 3)), *over("Mean", 1, 2, keep=True), END)
    stays(narrow, *over("Mean", 1, 2), END)
    stays(X, *over("Sum"))  # it is an output
    simplified(placeholder("x", FLOAT, (-1, 3)), *over("Sum"), END)


def bits_of(data: bytes, bits: list[int], shape: tuple[int, ...]) -> list[int]:
    """What TensorFlow gives for floats with these bits."""
    given = np.array(bits, np.uint32).view(np.float32).reshape(shape)
    with run.session(data) as (executor, key):
        values(executor, key, ["last"], [], {"x": given})
        return executor.tensor("out", 0).numpy().view(np.uint32).ravel().tolist()


@pytest.mark.tensorflow
def test_tensorflow_gives_the_same_bits() -> None:
    """With both zeros, infinities, NaN with a payload and denormals; and for sums of single elements."""
    bits = [0x80000000, 0x00000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0x00000001]
    narrow = [over(op, 1, 2, keep=True) for op in ("Max", "Mean", "Min", "Prod", "Sum")]
    for shape, cases in (((2, 3), [packed()]), ((2, 1, 1, 3), narrow)):
        for records in cases:
            assert bits_of(graphs.graph_bytes(placeholder("x", FLOAT, shape), *records), bits, shape) == bits


def test_what_says_which_turn_it_is_stays() -> None:
    """Parts inside a loop depend on the iteration: a tensor that is packed outside does not."""
    inside = [node("w/p", "Pack", ["w/v", "w/three"], T=FLOAT, N=2, axis=0),
              node("w/u", "Unpack", ["w/p"], T=FLOAT, num=2, axis=0), add("w/plus", "w/u", "w/u:1")]  # fmt: skip
    found, _ = simplified(*while_loop(*inside, result="w/plus"))
    assert "w/u" in found
