"""fuse-ops: parts of loops and of branches of version 1."""

from __future__ import annotations

import pytest
from support import graphs
from support.fusing import fused, refused
from support.graphs import BOOL, FLOAT, X, add, graph, identity, neg, node, placeholder, scalar, unary
from support.running import outcome, run
from support.v1_control_flow import BOTH_WAYS, LOOP, cond, taken_both_ways

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.errors import EditError
from gdsurgeon.select import Selection

# -- loops -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [
        ["w/double", "w/plus"],
        ["w/two", "w/double", "w/plus"],
        ["w/one", "w/Add"],
        ["w/one", "w/two"],
        ["w/one", "w/Add", "w/two", "w/double", "w/plus"],
        ["w/i", "w/one", "w/Add"],
        ["w/Less"],
        ["w/i", "w/v", "w/one", "w/Add", "w/two", "w/double", "w/plus"],
    ],
    ids=lambda chosen: " ".join(name[2:] for name in chosen),
)
def test_a_part_of_a_loop_body(chosen: list[str]) -> None:
    found = graph(*LOOP)
    fused(found, chosen)
    assert [run(found, "out", "w/Exit", n=n) for n in (0, 1, 3)] == [[1.0, 0], [5.0, 1], [29.0, 3]]


@pytest.mark.tensorflow
def test_a_part_of_a_loop_body_with_its_constants() -> None:
    found = graph(*LOOP)
    fuse_ops(found, Selection(nodes=("w/double", "w/plus"), constants=True), "call")
    assert "w/two" not in found
    assert run(found, "out", n=3) == [29.0]


def test_inside_and_outside_of_a_loop_do_not_go_together() -> None:
    words = "the selection lies in part inside the while loop 'w', and in part outside"
    records = [*LOOP, neg("aside", "three")]
    refused(graph(*records), words, ["w/plus", "aside"])
    refused(graph(*records), words, ["w/plus", "out"])


def test_the_condition_and_the_body_of_a_loop_do_not_go_together() -> None:
    refused(graph(*LOOP), "a path leaves it and comes back", ["w/Less", "w/Add"])


def test_two_loops_do_not_go_together() -> None:
    second = [r.replace(b"w/", b"u/").replace(b"\x12\x01w", b"\x12\x01u") for r in LOOP]  # names and frame
    records = [*LOOP, *(r for r in second if r not in LOOP and b"out" not in r)]
    assert check(graph(*records)).faults == []
    refused(graph(*records), "while loop", ["w/double", "u/double"])


# -- conditionals ------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "chosen",
    [["c/mul"], ["c/neg", "c/sub"], ["c/neg"], ["c/two", "c/mul"], ["c/neg", "c/ten", "c/sub"], ["c/ten", "c/sub"]],
    ids=" ".join,
)
def test_a_part_of_a_branch(chosen: list[str]) -> None:
    found = graph(*cond())
    fused(found, chosen)
    assert taken_both_ways(found, "y") == BOTH_WAYS


@pytest.mark.tensorflow
def test_a_constant_alone_stays_in_its_branch() -> None:
    records = cond(identity("only", "c/two"))
    found = graph(*records)
    fused(found, ["c/two"])
    assert taken_both_ways(found, "only") == taken_both_ways(graph(*records), "only") == [[2.0], "a dead value"]


def test_the_two_sides_of_a_conditional_do_not_go_together() -> None:
    refused(graph(*cond()), "they lie in different branches of a conditional", ["c/mul", "c/neg"])
    refused(graph(*cond()), "they lie in different branches of a conditional", ["c/two", "c/ten"])


@pytest.mark.tensorflow
def test_a_node_outside_goes_along_where_nobody_else_reads_it() -> None:
    """What is computed for one branch alone may be computed in it."""
    records = [r for r in cond() if b"c/two" not in r]
    records += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]
    found = graph(*records)
    fused(found, ["minus", "two", "c/mul"])
    assert taken_both_ways(found, "y") == [[[-2.0, -4.0]], [[-11.0, -12.0]]]


def test_a_node_that_is_read_in_a_branch_and_outside_of_it_stays_outside() -> None:
    records = [r for r in cond() if b"c/two" not in r]
    records += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]
    for reader in (neg("outside", "minus"), node("waiting", "NoOp", ["^minus"])):
        found = graph(*records, reader)
        refused(found, "they lie in different branches of a conditional", ["minus", "c/mul"])


@pytest.mark.tensorflow
@pytest.mark.parametrize("keep", [[], ["aside"]])
def test_an_output_beside_a_branch_is_not_drawn_into_it(keep: list[str]) -> None:
    """The output exists whatever is decided: refused, or still there both ways."""
    records = cond(neg("aside", "x"), *([add("c/more", "c/mul", "aside"), identity("m", "c/more")] if keep else []))
    found = graph(*records)
    try:
        fused(found, ["c/mul", "aside", *(["c/more"] if keep else [])], keep=keep)
    except EditError as error:
        assert "different branches" in error.message and not found.is_changed
        return
    assert taken_both_ways(found, "aside") == [[[-1.0, -2.0]]] * 2


@pytest.mark.tensorflow
def test_a_conditional_in_another() -> None:
    records = cond(
        placeholder("q", BOOL, ()),
        node("d/Switch", "Switch", ["c/mul", "q"], T=FLOAT),
        neg("d/neg", "d/Switch:1"),
        unary("Abs", "d/abs", "d/Switch"),
        node("d/Merge", "Merge", ["d/abs", "d/neg"], T=FLOAT, N=2),
        identity("z", "d/Merge"),
    )
    refused(graph(*records), "different branches", ["d/neg", "c/neg"])
    found = graph(*records)
    fused(found, ["d/neg"])
    for q in (True, False):
        for p in (True, False):
            given = {"p": p, "q": q, "x": [1.0, 2.0]}
            assert outcome(found, "z", **given) == outcome(graph(*records), "z", **given)


@pytest.mark.tensorflow
def test_branches_of_two_conditionals_that_are_not_in_one_another() -> None:
    """What reads from both runs where both are taken; what reads from one does not hang on the other."""
    records = [
        placeholder("p", BOOL, ()),
        placeholder("q", BOOL, ()),
        X,
        node("where_p", "Switch", ["x", "p"], T=FLOAT),
        node("where_q", "Switch", ["x", "q"], T=FLOAT),
        neg("a", "where_p:1"),
        add("b", "a", "where_q:1"),
        neg("c", "b"),
        identity("y", "a"),
        identity("z", "c"),
    ]
    refused(graph(*records), "different branches of a conditional", ["a", "b"])
    found = graph(*records)
    fused(found, ["b", "c"])
    for p in (True, False):
        for q in (True, False):
            for fetch in ("y", "z"):
                given = {"p": p, "q": q, "x": [1.0, 2.0]}
                assert outcome(found, fetch, **given) == outcome(graph(*records), fetch, **given)


def test_conditionals_on_two_outputs_of_one_node() -> None:
    records = [
        placeholder("both", BOOL, (2,)),
        X,
        node("u", "Unpack", ["both"], T=BOOL, num=2, axis=0),
        identity("second", "u:1", kind=BOOL),
        node("where_p", "Switch", ["x", "u"], T=FLOAT),
        node("where_q", "Switch", ["x", "u:1"], T=FLOAT),
        node("where_second", "Switch", ["x", "second"], T=FLOAT),
        neg("p", "where_p:1"),
        neg("q", "where_q:1"),
        neg("r", "where_second:1"),
        *(identity(f"y_{name}", name) for name in "pqr"),
    ]
    refused(graph(*records), "different branches of a conditional", ["p", "q"])
    refused(graph(*records), "different branches of a conditional", ["p", "r"])
    fused(graph(*records), ["q", "r"])


def test_a_switch_that_leads_nowhere_is_no_internal_fault() -> None:
    """A broken graph is repaired by edits."""
    for records in ([node("s", "Switch", ["x", "gone"], T=FLOAT)], [node("s", "Switch", ["x"], T=FLOAT)],
                    [identity("i", "gone", kind=BOOL), node("s", "Switch", ["x", "i"], T=FLOAT)]):  # fmt: skip
        found = graph(X, *records, neg("a", "s:1"), neg("b", "x"), identity("y", "b"))
        fused(found, ["b"])
        assert graphs.inputs(found)["y"] == ["call"]


def test_what_an_earlier_edit_has_added_in_a_branch_holds_the_call_there() -> None:
    found = graph(placeholder("p", BOOL, ()), X, node("s", "Switch", ["x", "p"], T=FLOAT), neg("a", "s:1"),
                  neg("b", "a"), identity("y", "b"))  # fmt: skip
    fused(found, ["a"], "first")
    fused(found, ["b"], "second")
    assert graphs.inputs(found)["second"] == ["first"] and len(graphs.names(found)) == 6
