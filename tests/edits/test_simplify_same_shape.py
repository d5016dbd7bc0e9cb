"""simplify: nodes that are known to change no shape are bypassed; others are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.evaluating import array, by_tensorflow
from support.expecting import account, refused
from support.graphs import FLOAT, INT32, const, graph, node, placeholder, relu, scalar, typed
from support.running import run
from support.simplifying import simplified, stays
from support.system import is_linear

from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.operation.library import prove
from gdsurgeon.proof.executor import Refused
from gdsurgeon.proof.proof import DiffersError

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


def test_a_shape_of_which_one_dim_is_not_known_leaves_that_open() -> None:
    found, result = simplified(X, *FLATTEN, END)
    assert graphs.names(found) == ["x", "dims", "last", "y"]
    assert array(found["dims"]).tolist() == [-1, 12]
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].also == ("last",)  # where it counts, because the shape itself differs


def test_a_shape_that_others_read_or_that_is_empty_stays() -> None:
    other = typed("Fill", "z", "dims", "one")
    stays(X, *FLATTEN, END, scalar("one", 1), other, skip=["equal-nodes"])
    empty = [scalar("nothing", 0, INT32), typed("Pack", "dims", "n", "nothing", kind=INT32, N=2, axis=0)]
    none = placeholder("x", FLOAT, (-1, 0, 3))
    stays(none, *FLATTEN[:-3], *empty, FLATTEN[-1], END, skip=["equal-nodes"])


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
