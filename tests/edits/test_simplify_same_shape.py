"""simplify: nodes that change no shape are bypassed; simplified random graphs compute the same values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.desk import Desk, check_error
from support.drawing import Draw, below, pick
from support.evaluating import array, by_tensorflow
from support.expecting import account, refused
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    NO_OPTIMIZER,
    add,
    const,
    define,
    dtypes,
    func,
    graph,
    identity,
    library,
    node,
    placeholder,
    relu,
    scalar,
    typed,
)
from support.running import run, values
from support.simplifying import simplified, stays
from support.system import is_linear
from support.v1_control_flow import while_loop

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.edits.simplifying.graph_view import GraphView
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.body import expanded_args
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.node import Output, placeholder_shape
from gdsurgeon.operation.library import prove
from gdsurgeon.proof.executor import Refused
from gdsurgeon.proof.proof import DiffersError
from gdsurgeon.specification.equivalence import Certificate
from gdsurgeon.specification.specify import Asked, violations

X = placeholder("x", FLOAT, (-1, 4, 3))
END = relu("y", "last")


def reshape(name: str, source: str, *dims: int) -> list[bytes]:
    return [const(f"{name}/dims", dims, INT32), typed("Reshape", name, source, f"{name}/dims")]


def sliced(name: str, source: str, begin: Sequence[int], end: Sequence[int], **masks: int) -> list[bytes]:
    steps = [const(f"{name}/{what}", values, INT32)
             for what, values in (("begin", begin), ("end", end), ("step", [1] * len(begin)))]  # fmt: skip
    reads = [source, *(f"{name}/{what}" for what in ("begin", "end", "step"))]
    return [*steps, node(name, "StridedSlice", reads, T=FLOAT, Index=INT32, **masks)]


GOES: dict[str, list[bytes]] = {
    "a Reshape to what there is": reshape("last", "x", -1, 4, 3),
    "a Reshape and the one back": [*reshape("a", "x", -1, 12), *reshape("last", "a", -1, 4, 3)],
    "ExpandDims and Squeeze": [scalar("axis", 1, INT32), typed("ExpandDims", "a", "x", "axis", Tdim=INT32),
                               typed("Squeeze", "last", "a", squeeze_dims=[-3])],
    "a Slice of all": [const("b", [0, 0, 0], INT32), const("s", [-1, 4, -1], INT32),
                       typed("Slice", "last", "x", "b", "s", Index=INT32)],
    "a StridedSlice of all": sliced("last", "x", [0, 0], [0, 4], begin_mask=3, end_mask=1),
    "EnsureShape of what is known": [typed("EnsureShape", "last", "x", shape=(-1, 4, 3))],
}  # fmt: skip
STAYS: dict[str, list[bytes]] = {
    "a Reshape to another": reshape("last", "x", -1, 3, 4),
    "a Reshape that fixes the batch": reshape("last", "x", 2, -1, 3),
    "a Slice from the second on": [const("b", [1, 0, 0], INT32), const("s", [-1, 4, -1], INT32),
                                   typed("Slice", "last", "x", "b", "s", Index=INT32)],
    "a Slice of less": [const("b", [0, 0, 0], INT32), const("s", [-1, 3, -1], INT32),
                        typed("Slice", "last", "x", "b", "s", Index=INT32)],
    "a StridedSlice backwards": [
        *sliced("last", "x", [0, 0], [0, 4], begin_mask=3, end_mask=3)[:2], const("last/step", [1, -1], INT32),
        sliced("last", "x", [0, 0], [0, 4], begin_mask=3, end_mask=3)[3],
    ],
    "a StridedSlice of the first": sliced("last", "x", [0, 0], [1, 4], begin_mask=3),
    "EnsureShape of what is not known": [typed("EnsureShape", "last", "x", shape=(2, 4, 3))],
    "a Reshape of what EnsureShape refuses": [typed("EnsureShape", "a", "x", shape=(2, 4, 3)),
                                              *reshape("last", "a", 2, 12)],
    "a Reshape that refuses other batches": reshape("last", "x", 2, 4, 3),
    "a Reshape of what another refuses": [*reshape("a", "x", 2, 12), *reshape("last", "a", 2, 4, 3)],
    "a new axis for an old one": sliced("last", "x", [0, 0], [1, 1], new_axis_mask=1, shrink_axis_mask=2),
}  # fmt: skip


@pytest.mark.parametrize("records", GOES.values(), ids=GOES)
def test_what_changes_no_shape_goes(records: list[bytes]) -> None:
    found, result = simplified(X, *records, END)
    assert graphs.names(found) == ["x", "y"]
    assert result.intent.moved == {"last": "x"}
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].also == ("last",)  # it is compared with the tensor that replaces it


def test_tensorflow_finds_the_same() -> None:
    for made in GOES.values():
        before = graphs.graph_bytes(X, *made, END)
        found = from_bytes(before)
        simplify(found)
        fed = [[[0.5, -1.5, 2.5]] * 4] * 2
        assert run(found, "y", x=fed) == run(before, "y", x=fed)


@pytest.mark.parametrize("records", STAYS.values(), ids=STAYS)
def test_what_may_change_one_stays(records: list[bytes]) -> None:
    stays(X, *records, END, skip=["pairs", "equal-nodes"])


def batches_taken(*records: bytes, read: str) -> list[int]:
    """The batches that are taken when what READ gives is divided by the number of its elements, and made simpler."""
    size = [typed("Size", "n", read, out_type=INT32), node("f", "Cast", ["n"], SrcT=INT32, DstT=FLOAT),
            typed("RealDiv", "y", read, "f")]  # fmt: skip
    data = graphs.graph_bytes(placeholder("x", FLOAT, (-1, 3)), *records, *size)
    found = from_bytes(data)
    with suppress(NothingToDo):
        simplify(found, evaluate=by_tensorflow)
    taken = []
    for batch in (1, 2, 3, 4, 5):
        fed = [[0.5, -1.5, 2.5]] * batch
        try:
            given = run(found, "y", x=fed)
        except Refused:
            continue
        assert given == run(data, "y", x=fed)
        taken.append(batch)
    return taken


REFUSE: dict[str, tuple[list[bytes], str, list[int]]] = {
    "a Reshape to a fixed batch": (reshape("r", "x", 2, 3), "r", [2]),
    "one of pairs": (reshape("r", "x", -1, 6), "r", [2, 4]),
    "a flat one of a fixed batch": ([*reshape("a", "x", 2, 3), *reshape("r", "a", -1)], "r", [2]),
    "a fixed batch of a flat one": ([*reshape("a", "x", -1), *reshape("r", "a", 2, 3)], "r", [2]),
    "a fixed batch of a fixed one": ([*reshape("a", "x", 6), *reshape("r", "a", 2, 3)], "r", [2]),
    "a Pack of all that comes out of an Unpack": (
        [typed("Unpack", "u", "x", num=2, axis=0), typed("Pack", "r", "u", "u:1", N=2, axis=0)],
        "r",
        [2],
    ),
}


@pytest.mark.tensorflow
@pytest.mark.parametrize("case", REFUSE.values(), ids=REFUSE)
def test_what_was_refused_is_refused(case: tuple[list[bytes], str, list[int]]) -> None:
    """A known shape of a node replaces computed shapes elsewhere: other shapes must then be refused."""
    records, read, takes = case
    assert batches_taken(*records, read=read) == takes


@pytest.mark.parametrize(("dims", "nodes"), [((2, 3), ["r"]), ((-1,), None)])
def test_a_reshape_that_is_needed_only_to_refuse_is_named(dims: tuple[int, ...], nodes: list[str] | None) -> None:
    """Only its rank, or its size, is read: that is a constant, and then the Reshape has no consumers."""
    ends = [typed("Rank", "n", "r"), node("y", "Cast", ["n"], SrcT=INT32, DstT=FLOAT)]
    found = graph(X, *reshape("r", "x", *dims), *ends)
    result = simplify(found)
    assert "r" not in found
    if nodes is None:
        assert not result.notes
    else:
        check_error(result.notes[0], "checks-removed", {"nodes": nodes})


def test_a_broadcast_to_what_may_be_1_stays() -> None:
    def to(*dims: int) -> list[bytes]:
        return [const("s", dims, INT32), typed("BroadcastTo", "last", "x", "s", Tidx=INT32)]

    found, _ = simplified(placeholder("x", FLOAT, (2, 3)), *to(2, 3), END)
    assert graphs.names(found) == ["x", "y"]
    stays(placeholder("x", FLOAT, (-1, 3)), *to(2, 3), END)


def test_a_batch_that_is_computed_is_the_one_that_there_is() -> None:
    dims = [scalar("four", 4, INT32), scalar("three", 3, INT32),
            typed("Pack", "dims", "n", "four", "three", kind=INT32, N=3, axis=0)]  # fmt: skip
    found, _ = simplified(X, *FLATTEN[:5], *dims, typed("Reshape", "last", "x", "dims"), END)
    assert graphs.names(found) == ["x", "y"]


def test_no_more_than_one_dim_follows_from_the_rest() -> None:
    stays(placeholder("x", FLOAT, (-1, -1, 3)), *reshape("last", "x", -1, 4, 3), END)
    stays(placeholder("x", FLOAT, (-1, 0, 3)), *reshape("last", "x", -1, 0, 3), END)


@pytest.mark.tensorflow
def test_a_shape_that_is_another_is_found_by_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gdsurgeon.edits.simplifying.shapes._is_same_count", lambda *_: True)
    found = graph(X, *STAYS["a Reshape to another"], typed("Mean", "m", "last", "axes", Tidx=INT32),
                  const("axes", [0, 1, 2], INT32), relu("y", "m"))  # fmt: skip
    result = simplify(found)
    account(found, result)
    with pytest.raises(DiffersError):
        prove(found.pristine(), found, result)


# -- shapes that are fixed ------------------------------------------------------------------------------------------


def test_a_shape_that_is_fixed_makes_constants() -> None:
    size = [typed("Shape", "s", "x", out_type=INT32), const("k", [2, 2, 2], INT32),
            typed("Mul", "m", "s", "k", kind=INT32)]  # fmt: skip
    tile = typed("Tile", "last", "x", "m", Tmultiples=INT32)
    found, result = simplified(X, *size, tile, END, shapes=[("x", (2, 4, 3))])
    assert graphs.ops(found) == {"x": "Placeholder", "m": "Const", "last": "Tile", "y": "Relu"}
    assert [dim.size for dim in graphs.attrs(found, "x")["shape"].shape.dim] == [2, 4, 3]
    (claim,) = result.claims
    assert isinstance(claim, SameGiven)
    assert set(claim.outputs) == {("y", "y"), ("m", "m")}


def test_a_shape_that_an_input_does_not_take_is_refused() -> None:
    found = graph(X, relu("y", "x"))
    shapes = {"expected": (-1, 4, 3), "found": (2, 4, 4)}
    refused(found, "wrong-shape", partial(simplify, shapes=[("x", (2, 4, 4))]), node="x", **shapes)
    refused(found, "no-such-input", partial(simplify, shapes=[("y", (2, 4, 3))]), node="y", op="Relu")
    stays(placeholder("x", FLOAT, (2, 4, 3)), relu("y", "x"), shapes=[("x", (2, 4, 3))])
    fits = graph(X, *reshape("last", "x", -1, 24), END)
    error = refused(fits, "shape-mismatch", partial(simplify, shapes=[("x", (3, 4, 3))]))
    assert [each["node"] for each in error.facts["misfits"]] == ["last"]


@pytest.mark.tensorflow
def test_the_command_fixes_what_shape_says(desk: Desk) -> None:
    size = [typed("Shape", "s", "x", out_type=INT32), node("f", "Cast", ["s"], SrcT=INT32, DstT=FLOAT),
            typed("Sum", "last", "f", "axis", Tidx=INT32), scalar("axis", 0, INT32)]  # fmt: skip
    desk.put("m.pb", graphs.graph_bytes(X, *size, typed("Mul", "z", "x", "last"), END))
    ran = desk.run("simplify", "m.pb", "--shape", "x=5,4,3", "-o", "n.pb", "--report", "report.json")
    assert "x [5,4,3]" in ran.err
    report = json.loads(desk.files()["report.json"])
    assert (report["edit"]["passes"]["constants"], report["proof"]["largest_difference"]) == (1, 0)


# -- a dim that follows from the rest -------------------------------------------------------------------------------


FLATTEN = [
    typed("Shape", "s", "x", out_type=INT32),
    *(const(name, [at], INT32) for name, at in (("n/begin", 0), ("n/end", 1), ("n/step", 1))),
    typed("StridedSlice", "n", "s", "n/begin", "n/end", "n/step", kind=INT32, Index=INT32, shrink_axis_mask=1),
    scalar("twelve", 12, INT32), typed("Pack", "dims", "n", "twelve", kind=INT32, N=2, axis=0),
    typed("Reshape", "last", "x", "dims"),
]  # fmt: skip


def test_a_shape_that_others_read_or_that_is_empty_stays() -> None:
    other = typed("Fill", "z", "dims", "one")
    stays(X, *FLATTEN, END, scalar("one", 1), other, skip=["equal-nodes"])
    empty = [scalar("nothing", 0, INT32), typed("Pack", "dims", "n", "nothing", kind=INT32, N=2, axis=0)]
    none = placeholder("x", FLOAT, (-1, 0, 3))
    stays(none, *FLATTEN[:-3], *empty, FLATTEN[-1], END, skip=["equal-nodes"])


NEG = typed("Neg", "z", "c", kind=INT32)
OPEN = const("c", [-1, 12], INT32)
BESIDE = {
    "a constant": [OPEN, NEG],
    "an identity of a constant": [OPEN, identity("i", "c", kind=INT32), typed("Neg", "z", "i", kind=INT32)],
    "a folded constant": [
        scalar("open", -1, INT32), typed("Pack", "c", "open", "twelve", kind=INT32, N=2, axis=0), NEG,
    ],
    "a known part of the shape": [
        const("two", [2], INT32), NEG,
        typed("StridedSlice", "c", "dims", "n/end", "two", "n/step", kind=INT32, Index=INT32),
    ],
}  # fmt: skip


@pytest.mark.parametrize("records", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_open_shape_may_be_equal_to_a_constant(records: list[bytes], is_first: bool) -> None:
    found, _ = simplified(X, *records, *FLATTEN, END) if is_first else simplified(X, *FLATTEN, END, *records)
    assert array(found["last"].inputs[1].node).tolist() == [-1, 12]
    assert found["z"].op == "Neg"
    assert found["z"].inputs[0].node.op == "Const"


def test_nodes_may_wait_for_an_open_shape() -> None:
    found, _ = simplified(X, *FLATTEN, END, typed("Neg", "z", "x", "^dims"))
    assert array(found["last"].inputs[1].node).tolist() == [-1, 12]


def test_an_open_shape_is_equal_to_a_constant_only_for_a_reshape() -> None:
    after = [X, typed("Reshape", "last", "x", "c"), END, OPEN, NEG]
    before = graph(X, *FLATTEN, END, OPEN, NEG, typed("Neg", "n2", "dims", kind=INT32), add("w", "n2", "z", kind=INT32))
    equal, value = {"n2": "z", "dims": "c"}, before["c"].attr_bytes("value") or b""
    wrong = compare_files(before, graph(*after, add("w", "z", "z", kind=INT32)))
    asked = Asked("simplify", {"passes": ("equal-nodes", "shapes", "unread")})
    certificate = Certificate(equal, {}, {"dims": value}, frozenset(["dims"]))
    (fault,) = violations(wrong, asked, {"certificate": certificate})
    assert "'w' reads 'z' instead of 'n2'" in fault


@pytest.mark.tensorflow
def test_it_is_proven_at_the_reshape() -> None:
    found, result = simplified(X, *FLATTEN, END)
    assert {output.before for output in prove(found.pristine(), found, result).compared} == {"y", "last"}


def test_the_work_grows_with_the_graph() -> None:
    def ensured(count: int) -> Any:
        names = ["x", *(f"e{i}" for i in range(count))]
        chain = [typed("EnsureShape", new, old, shape=None) for old, new in pairwise(names)]
        return partial(_tried, graph(placeholder("x", FLOAT), *chain, relu("y", names[-1])))

    def hub(count: int) -> Any:
        sizes = [typed("Pack", f"d{i}", "n", f"k{i}", kind=INT32, N=2, axis=0) for i in range(count)]
        last = node("y", "AddN", [f"d{i}" for i in range(count)], T=INT32, N=count)
        numbers = [scalar(f"k{i}", i, INT32) for i in range(count)]
        return partial(_tried, graph(X, *FLATTEN[:5], *numbers, *sizes, last))

    assert is_linear(ensured, 100, 400)
    assert is_linear(hub, 50, 200)


def _tried(found: Graph) -> None:
    with suppress(NothingToDo):
        simplify(found)


BASE = [
    placeholder("x", FLOAT, (2, 2)), placeholder("p", BOOL, ()), scalar("one", 1), scalar("nil", 0),
    const("turn", [1, 0], INT32), const("flat", [-1], INT32), const("square", [2, 2], INT32), scalar("one_1", 1),
    const("w", [1.5, -2, 0.25, 3], FLOAT, (2, 2)), const("w_1", [1.5, -2, 0.25, 3], FLOAT, (2, 2)),
    const("dims", [0, 1], INT32), const("none", [0, 0], INT32), const("rest", [-1, 2], INT32),
]  # fmt: skip
FED = {"x": [[1.5, -0.0], [-3.0, 1e-30]]}
_UNARY = ("Relu", "Neg", "Abs", "Identity", "StopGradient", "Snapshot", "PreventGradient", "Floor")
_BINARY = ("Mul", "RealDiv", "Sub", "AddV2", "Maximum")


@st.composite
def models(draw: st.DrawFn, *, loops: bool = True) -> bytes:
    """A graph of a dozen steps, each of a few nodes, of tensors that all have one shape; conditionals may be in it."""
    values, records = ["x", "w", "w_1"], list(BASE)
    for i in range(draw(below(12)) + 2):
        made = _step(draw, f"n{i}", values)
        records += made
        values.append(f"n{i}")
    if loops and draw(below(3)) == 0:
        records += _loop(draw)
    return graphs.graph_bytes(*records)


def _loop(draw: Draw) -> list[bytes]:
    """A loop in which there are constants, products of such, and shapes of what goes round."""
    inner = [
        node("w/k", "Const", ["^w/i"], dtype=FLOAT, value=graphs.tensor([0.5], FLOAT, ())),
        typed("Mul", "w/kk", "w/k", "w/k"), typed("Mul", "w/threes", "w/three", "w/three"),
        typed("Shape", "w/shape", "w/v", out_type=INT32),
        typed("Fill", "w/filled", "w/shape", "w/kk"), identity("w/same", "w/v"),
        typed("Reshape", "w/shaped", "w/v", "w/shape"),
    ]  # fmt: skip
    parts = ("w/k", "w/kk", "w/threes", "w/filled", "w/same", "w/shaped", "w/v", "w/three")
    steps = [typed(pick(draw, _BINARY), f"w/s{i}", pick(draw, parts), pick(draw, parts)) for i in range(2)]
    return while_loop(*inner, *steps, add("w/sum", *(f"w/s{i}" for i in range(2))), result="w/sum")


def _step(draw: Draw, name: str, values: Sequence[str]) -> list[bytes]:
    """Nodes that compute NAME of some of VALUES."""
    a, b = pick(draw, values), pick(draw, values)
    waits = [f"^{pick(draw, values)}"] if draw(below(4)) == 0 else []
    kind = draw(below(13))
    if kind < 3:
        return [typed(pick(draw, _UNARY), name, a, *waits)]
    if kind < 5:
        other = pick(draw, (b, "one", "nil", "one_1"))
        return [typed(pick(draw, _BINARY), name, a, other, *waits)]
    if kind == 5:
        return [typed("Transpose", name, a, pick(draw, ("turn", "dims")), Tperm=INT32)]
    if kind == 6:
        there = typed("Reshape", f"{name}/there", a, "flat")
        return [there, typed("Reshape", name, f"{name}/there", "square", *waits)]
    if kind == 7:
        wide = node(f"{name}/wide", "Cast", [a], SrcT=FLOAT, DstT=pick(draw, (DOUBLE, INT32, graphs.dtype(19))))
        narrow = wide[wide.index(b"DstT") :]
        back = next(kind for kind in (DOUBLE, INT32, graphs.dtype(19)) if kind in narrow)
        return [wide, node(name, "Cast", [f"{name}/wide"], SrcT=back, DstT=FLOAT)]
    if kind == 8:
        both = node(f"{name}/both", "IdentityN", [a, b], T=dtypes(FLOAT, FLOAT))
        return [both, add(name, f"{name}/both", f"{name}/both:1", *waits)]
    if kind == 9:
        shape = typed("Shape", f"{name}/shape", a, out_type=INT32)
        filled = typed("Fill", f"{name}/fill", f"{name}/shape", pick(draw, ("one", "nil")))
        return [shape, filled, typed(pick(draw, _BINARY), name, b, f"{name}/fill", *waits)]
    if kind == 10:
        flat = typed("Reshape", f"{name}/flat", a, pick(draw, ("square", "flat")))
        back = typed("Reshape", f"{name}/back", f"{name}/flat", "square")
        part = typed("Slice", f"{name}/part", f"{name}/back", "none", pick(draw, ("square", "rest")),
                     Index=INT32)  # fmt: skip
        return [flat, back, part, add(name, b, f"{name}/part", *waits)]
    if kind == 11:
        shape = typed("Shape", f"{name}/shape", a, out_type=INT32)
        size = typed("Mul", f"{name}/size", f"{name}/shape", "turn", kind=INT32)
        turned = add(f"{name}/sum", f"{name}/size", "square", kind=INT32)
        wide = node(f"{name}/wide", "Cast", [f"{name}/sum"], SrcT=INT32, DstT=FLOAT)
        return [shape, size, turned, wide, add(name, b, f"{name}/wide", *waits)]
    return _conditional(draw, name, a, b)


def _conditional(draw: Draw, name: str, a: str, b: str) -> list[bytes]:
    """2 A where a predicate holds, else B - 2; the predicate may be a constant."""
    value = draw(below(3))
    fixed = [] if value == 2 else [const(f"{name}/p", bool(value), BOOL)]
    on = f"{name}/p" if fixed else "p"
    two = graphs.tensor([2], FLOAT, ())
    twos = [node(f"{name}/two_{s}", "Const", [f"^{name}/switch_{s}"], dtype=FLOAT, value=two) for s in "tf"]
    return [
        *fixed, typed("Switch", f"{name}/Switch", on, on, kind=BOOL),
        identity(f"{name}/switch_t", f"{name}/Switch:1", kind=BOOL),
        identity(f"{name}/switch_f", f"{name}/Switch", kind=BOOL),
        *twos, typed("Switch", f"{name}/a", a, on), typed("Switch", f"{name}/b", b, on),
        identity(f"{name}/same", f"{name}/a:1"), typed("Mul", f"{name}/mul", f"{name}/same", f"{name}/two_t"),
        typed("Sub", f"{name}/sub", f"{name}/b", f"{name}/two_f"),
        typed("Merge", name, f"{name}/sub", f"{name}/mul", N=2),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.tensorflow
@given(models())
def test_random_graphs_give_what_they_gave(data: bytes) -> None:
    try:
        found, _ = simplified(from_bytes(data), again=False, evaluate=by_tensorflow)
    except NothingToDo:
        return
    after = graphs.written(found)
    assert check(from_bytes(after)).faults == []
    assert len(after) <= len(data)
    before = from_bytes(data)
    outputs = [
        n.name
        for n in found.nodes()
        if n.name in before and not found.users(n) and n.op not in ("Const", "Placeholder")
    ]
    assert both_ways(after, outputs) == both_ways(data, outputs)


@pytest.mark.tensorflow
@settings(max_examples=8)
@given(models(loops=False))
def test_random_functions_give_what_they_gave(data: bytes) -> None:
    called, outputs = as_a_function(data)
    try:
        found, _ = simplified(from_bytes(called), skip=["inline"], evaluate=by_tensorflow)
    except NothingToDo:
        return
    after = graphs.written(found)
    assert check(from_bytes(after)).faults == []
    assert len(after) <= len(called)
    assert both_ways(after, outputs) == both_ways(called, outputs)


def as_a_function(data: bytes) -> tuple[bytes, list[str]]:
    """A graph that calls a function which is the graph DATA, and its outputs."""
    whole = from_bytes(data)
    taken = [n for n in whole.nodes() if n.op == "Placeholder"]
    unread = [n for n in whole.nodes() if not whole.users(n) and n.op not in ("Const", "Placeholder")]
    given = [n.output for n in unread]
    body = [n for n in graphs.parsed(data).node if n.op != "Placeholder"]
    for each in body:
        reads = whole[each.name].inputs
        waits = [text for text in each.input if text[0] == "^" and whole[text[1:]] not in taken]
        del each.input[:]
        each.input.extend([*map(_spelt, reads), *waits])
    ins = {n.name: bytes([0x30, n.output.dtype]) for n in taken}
    outs = {f"o{i}": (bytes([0x30, tensor.dtype]), _spelt(tensor)) for i, tensor in enumerate(given)}
    made = define("F", ins, outs)
    made.node_def.extend(body)
    ends = {"Tin": dtypes(*ins.values()), "Tout": dtypes(*(kind for kind, _ in outs.values()))}
    call = node("c", "PartitionedCall", [n.name for n in taken], f=func("F"), config_proto=NO_OPTIMIZER, **ends)
    last = [identity(f"y{i}", f"c:{i}", kind=kind) for i, (kind, _) in enumerate(outs.values())]
    inputs = [placeholder(n.name, ins[n.name], placeholder_shape(n)) for n in taken]
    return graphs.graph_bytes(*inputs, call, *last, library(made)), [f"y{i}" for i in range(len(last))]


def _spelt(tensor: Output) -> str:
    """A tensor as bodies spell it."""
    if tensor.node.op == "Placeholder":
        return tensor.node.name
    assert tensor.node.op_def is not None
    arg, place = expanded_args(tensor.node.op_def, tensor.node.plain_attr)[tensor.index]
    return f"{tensor.node.name}:{arg}:{place}"


def both_ways(data: bytes, outputs: Sequence[str]) -> list[str]:
    """The values of OUTPUTS for both predicates."""
    with run.session(data) as (executor, key):
        feeds = FED | ({"n": 3} if "out" in outputs else {})
        return [repr(values(executor, key, outputs, [], {"p": p, **feeds})) for p in (True, False)]


# -- what others have done wrong ------------------------------------------------------------------------------


def test_a_long_chain_is_walked() -> None:
    names = ["x", *(f"i{i}" for i in range(5000))]
    found = graph(placeholder("x"), *(identity(new, old) for old, new in pairwise(names)), relu("y", "i4999"))
    simplify(found)
    assert graphs.names(found) == ["x", "y"]


def looked_at(data: bytes, patch: pytest.MonkeyPatch | None = None) -> bytes:
    """The result of simplify; with PATCH each pass looks at all nodes again, not at those near a change only."""
    found = from_bytes(data)
    if patch is not None:
        patch.setattr(GraphView, "dirty_nodes", lambda view, what, ops, *_, **__: iter(view.with_ops(ops)))
    with suppress(NothingToDo):
        simplify(found)
    return graphs.written(found)


READS: dict[str, Sequence[Sequence[str]]] = {
    "AddV2": [["one"]], "Sub": [["one"]], "Mul": [["one"]], "Neg": [], "Relu": [], "Identity": [], "IdentityN": [],
    "Transpose": [["k", "turn"]], "Reshape": [["to"]], "StopGradient": [], "NoOp": [], "Merge": [],
}  # fmt: skip
"""For each op the further inputs of a node."""
ATTRS: dict[str, dict[str, bytes]] = {"Transpose": {"Tperm": INT32}, "Reshape": {"Tshape": INT32}}


def much_goes(chance: Random) -> bytes:
    """A graph in which much goes, one thing because of another."""
    records = [placeholder("x", FLOAT, (2, 3)), const("k", [0, 1], INT32), const("turn", [1, 0], INT32),
               const("to", [2, 3], INT32), scalar("one", 1), const("yes", True, BOOL)]  # fmt: skip
    tensors, names = ["x", "one"], ["x"]
    for i in range(chance.randrange(10, 50)):
        op, name, source = chance.choice([*READS]), f"n{i}", chance.choice(tensors[-4:])
        waits = [f"^{each}" for each in chance.sample(names, min(len(names), 2)) if chance.random() < 0.3]
        beside = {"_class": [f"loc:@{chance.choice(names)}"]} if chance.random() < 0.15 else {}
        names.append(name)
        if op == "NoOp":
            records.append(node(name, op, waits or [f"^{chance.choice(names[:-1])}"]))
            continue
        reads = [source, *(chance.choice(others) for others in READS[op])]
        attrs: dict[str, Any] = {**ATTRS.get(op, {}), **beside}
        if op == "Merge":
            records += [typed("Switch", f"{name}/s", source, "yes"), identity(f"{name}/i", f"{name}/s:1"),
                        typed("Neg", f"{name}/j", f"{name}/s")]  # fmt: skip
            reads, attrs = [f"{name}/j", f"{name}/i"], {"N": 2, **beside}
        elif op == "IdentityN":
            reads, attrs = [source, chance.choice(tensors)], {"kind": dtypes(FLOAT, FLOAT), **beside}
            tensors.append(f"{name}:1")
        elif op in ("AddV2", "Sub", "Mul") and chance.random() < 0.5:
            reads[1] = chance.choice(tensors)
        records.append(typed(op, name, *reads, *waits, **attrs))
        tensors.append(name)
    return graphs.graph_bytes(*records)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_overlooked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    drawn = [much_goes(chance) for _ in range(10)]
    found = [looked_at(data) for data in drawn]
    assert found == [looked_at(data, monkeypatch) for data in drawn]
