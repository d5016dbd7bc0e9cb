"""fuse-ops: parts of loops and of branches of version 1."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.expecting import refused
from support.fusing import fused
from support.graphs import BOOL, FLOAT, X, add, graph, identity, neg, node, placeholder, scalar, unary
from support.running import outcome, run
from support.v1_control_flow import BOTH_WAYS, LOOP, cond, taken_both_ways

from gdsurgeon.analysis.checks.check import check

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


def other_loop() -> list[bytes]:
    """The loop of LOOP once more, beside it, with names and a frame of its own."""
    records = [r.replace(b"w/", b"u/").replace(b"\x12\x01w", b"\x12\x01u") for r in LOOP]
    return [r for r in records if r not in LOOP and b"out" not in r]


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


@pytest.mark.tensorflow
def test_a_node_outside_goes_along_where_nobody_else_reads_it() -> None:
    """What is computed for one branch alone may be computed in it."""
    found = graph(*OUTSIDE)
    fused(found, ["minus", "two", "c/mul"])
    assert taken_both_ways(found, "y") == [[[-2.0, -4.0]], [[-11.0, -12.0]]]


OUTSIDE = [r for r in cond() if b"c/two" not in r]
OUTSIDE += [scalar("two", 2), neg("minus", "two"), node("c/mul", "Mul", ["c/x_t:1", "minus"], T=FLOAT)]


def nested() -> list[bytes]:
    return cond(
        placeholder("q", BOOL, ()),
        node("d/Switch", "Switch", ["c/mul", "q"], T=FLOAT),
        neg("d/neg", "d/Switch:1"),
        unary("Abs", "d/abs", "d/Switch"),
        node("d/Merge", "Merge", ["d/abs", "d/neg"], T=FLOAT, N=2),
        identity("z", "d/Merge"),
    )


@pytest.mark.tensorflow
def test_branches_of_two_conditionals_that_are_not_in_one_another() -> None:
    """What reads from both runs where both are taken; what reads from one does not hang on the other."""
    found = graph(*TWO_CONDITIONALS)
    fused(found, ["b", "c"])
    for p in (True, False):
        for q in (True, False):
            for fetch in ("y", "z"):
                given = {"p": p, "q": q, "x": [1.0, 2.0]}
                assert outcome(found, fetch, **given) == outcome(graph(*TWO_CONDITIONALS), fetch, **given)


TWO_CONDITIONALS = [
    placeholder("p", BOOL, ()), placeholder("q", BOOL, ()), X, node("where_p", "Switch", ["x", "p"], T=FLOAT),
    node("where_q", "Switch", ["x", "q"], T=FLOAT), neg("a", "where_p:1"), add("b", "a", "where_q:1"), neg("c", "b"),
    identity("y", "a"), identity("z", "c"),
]  # fmt: skip
ON_ONE_NODE = [
    placeholder("both", BOOL, (2,)), X, node("u", "Unpack", ["both"], T=BOOL, num=2, axis=0),
    identity("second", "u:1", kind=BOOL), node("where_p", "Switch", ["x", "u"], T=FLOAT),
    node("where_q", "Switch", ["x", "u:1"], T=FLOAT), node("where_second", "Switch", ["x", "second"], T=FLOAT),
    neg("p", "where_p:1"), neg("q", "where_q:1"), neg("r", "where_second:1"),
    *(identity(f"y_{name}", name) for name in "pqr"),
]  # fmt: skip
BESIDE = cond(neg("aside", "x"))
BESIDE_AND_READ = cond(neg("aside", "x"), add("c/more", "c/mul", "aside"), identity("m", "c/more"))


@pytest.mark.parametrize(
    ("records", "chosen", "options", "code", "facts"),
    [
        ([*LOOP, neg("aside", "three")], ["w/plus", "aside"], {}, "crosses-loop", {"loop": "w"}),
        (LOOP, ["w/plus", "out"], {}, "crosses-loop", {"loop": "w"}),
        ([*LOOP, *other_loop()], ["w/double", "u/double"], {}, "crosses-loop", {"loop": "u"}),
        (LOOP, ["w/Less", "w/Add"], {}, "path-outside",
         {"nodes": ["w/Less", "w/LoopCond", "w/Switch", "w/i", "w/Add"]}),
        (cond(), ["c/mul", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "c/mul"]}),
        (cond(), ["c/two", "c/ten"], {}, "crosses-branch", {"nodes": ["c/ten", "c/two"]}),
        *(([*OUTSIDE, reader], ["minus", "c/mul"], {}, "crosses-branch", {"nodes": ["minus", "c/mul"]})
          for reader in (neg("outside", "minus"), node("waiting", "NoOp", ["^minus"]))),
        (BESIDE, ["c/mul", "aside"], {}, "crosses-branch", {"nodes": ["aside", "c/mul"]}),
        (BESIDE_AND_READ, ["c/mul", "aside", "c/more"], {"keep": ["aside"]}, "crosses-branch",
         {"nodes": ["aside", "c/mul"]}),
        (nested(), ["d/neg", "c/neg"], {}, "crosses-branch", {"nodes": ["c/neg", "d/neg"]}),
        (TWO_CONDITIONALS, ["a", "b"], {}, "crosses-branch", {"nodes": ["a", "b"]}),
        (ON_ONE_NODE, ["p", "q"], {}, "crosses-branch", {"nodes": ["q", "p"]}),
        (ON_ONE_NODE, ["p", "r"], {}, "crosses-branch", {"nodes": ["r", "p"]}),
    ],
)  # fmt: skip
def test_what_does_not_go_together(
    records: list[bytes], chosen: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    """Nodes inside and outside of a loop, of two loops, and of two branches; an output exists whatever is decided."""
    assert check(graph(*records)).faults == []
    refused(graph(*records), code, partial(fused, selection=chosen, **options), **facts)


def test_branches_on_one_output_of_a_node_go_together() -> None:
    fused(graph(*ON_ONE_NODE), ["q", "r"])


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
