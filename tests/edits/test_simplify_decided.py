"""simplify with predicates and dropout rates that are constants."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from support import graphs
from support.evaluating import Evaluations
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    X,
    add,
    const,
    define,
    dtypes,
    encode_len,
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
)
from support.running import run
from support.simplifying import simplified, stays
from support.v1_control_flow import cond

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NothingToDo
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.operation.library import prove
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.wire.protos import GraphDef

BODIES = library(*(function(name, typed(op, "y", "x")) for name, op in zip("FGH", ("Neg", "Abs", "Tanh"), strict=True)))
BRANCHES: dict[str, Any] = {"Tin": dtypes(FLOAT), "Tout": dtypes(FLOAT)}
END = relu("y", "c")


def choosing(op: str, predicate: bytes, kind: bytes = BOOL) -> bytes:
    """A graph in which a node C calls one of F, G and H."""
    if op.endswith("Case"):
        functions = [encode_len(9, func(name)[2:]) for name in "FGH"]
        attrs: dict[str, Any] = {"branches": encode_len(1, b"".join(functions))}
    else:
        attrs = {"then_branch": func("F"), "else_branch": func("G"), "Tcond": kind}
    call = node("c", op, ["p", "x"], **attrs, **BRANCHES)
    return graphs.graph_bytes(X, predicate, call, END, trailer=BODIES + graphs.VERSIONS)


CASES = {
    "true": (choosing("StatelessIf", const("p", True, BOOL)), "F"),
    "false": (choosing("If", const("p", False, BOOL)), "G"),
    "a number": (choosing("StatelessIf", scalar("p", 3, INT32), INT32), "F"),
    "the second": (choosing("StatelessCase", scalar("p", 1, INT32)), "G"),
    "none of them": (choosing("Case", scalar("p", 7, INT32)), "H"),
}


@pytest.mark.parametrize(("data", "called"), CASES.values(), ids=CASES)
def test_what_a_constant_chooses_is_called(data: bytes, called: str) -> None:
    found, result = simplified(from_bytes(data), again=False, passes=["conditions", "functions"])
    assert graphs.ops(found)["c"].endswith("PartitionedCall")
    assert [function.signature.name for function in found.functions] == [called]
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].as_written
    fed = {"x": [-1.5, 2.5]}
    assert run(graphs.written(found), "y", **fed) == run(data, "y", **fed)


def test_the_call_is_inlined() -> None:
    found, _ = simplified(from_bytes(CASES["true"][0]))
    assert sorted(graphs.ops(found).values()) == ["Neg", "Placeholder", "Relu"]


def test_what_is_not_known_or_waits_stays() -> None:
    held = const("p", True, BOOL, controls=["^x"])
    for predicate in (placeholder("p", BOOL, ()), held):
        stays(from_bytes(choosing("StatelessIf", predicate)), passes=["conditions"])


def test_a_predicate_that_is_computed_decides_a_conditional_of_version_1() -> None:
    inverse = [const("q", False, BOOL), node("p", "LogicalNot", ["q"]), *cond()[1:]]
    both = [node("both", "LogicalAnd", ["p", "p"]), identity("z", "both", kind=BOOL)]
    found, _ = simplified(*inverse, *both, evaluate=Evaluations())
    assert not set(graphs.ops(found).values()) & {"Switch", "Merge"}


# -- loops of no turns ----------------------------------------------------------------------------------------

GIVEN = {"i": INT32, "x": FLOAT}
TURN = define("turn", GIVEN, {"o": (INT32, "i"), "p": (FLOAT, "y:y:0")}, neg("y", "x"))
SAID = [typed("AsString", "t", "x"), node("said", "PrintV2", ["t:output:0"])]


def looping(*condition: bytes, returned: str = "k:output:0", op: str = "StatelessWhile", **attrs: Any) -> bytes:
    """A graph with a loop that goes on as long as CONDITION, the body of a function, gives it."""
    asked = define("asked", GIVEN, {"go": (BOOL, returned)}, *condition, stateful=op == "While")
    called = {"cond": func("asked"), "body": func("turn"), "parallel_iterations": 10}
    loop = node("c", op, ["zero", "x"], T=dtypes(INT32, FLOAT), **called, **attrs)
    records = [X, scalar("zero", 0, INT32), loop]
    end = [identity("e", "c:1"), relu("y", "e")]
    return graphs.graph_bytes(*records, *end, trailer=library(asked, TURN) + graphs.VERSIONS)


def test_a_loop_of_no_turns_hands_on_what_it_is_given() -> None:
    handed = identity("n", "k:output:0", kind=BOOL)
    for data in (
        looping(const("k", False, BOOL)),
        looping(const("k", False, BOOL), handed, returned="n:output:0", op="While"),
    ):
        found, _ = simplified(from_bytes(data), again=False, passes=["conditions", "functions"])
        assert (found["c"].op, list(found.functions)) == ("IdentityN", [])
        assert set(found["c"].attr_keys) == {"T"}
        fed = {"x": [-1.5, 2.5]}
        assert run(graphs.written(found), "y", **fed) == run(data, "y", **fed)
        found, _ = simplified(from_bytes(data))
        assert graphs.names(found) == ["x", "y"]


def test_a_condition_whose_dtypes_depend_on_the_loop_is_looked_into() -> None:
    graph_def = GraphDef.FromString(looping(const("k", False, BOOL)))
    asked = graph_def.library.function[0].signature
    asked.attr.add(name="T", type="type")
    asked.input_arg[1].ClearField("type")
    asked.input_arg[1].type_attr = "T"
    graph_def.node[2].attr["cond"].func.attr["T"].type = FLOAT32
    found, _ = simplified(from_bytes(graph_def.SerializeToString()), again=False, passes=["conditions"])
    assert found["c"].op == "IdentityN"


def test_a_loop_that_may_turn_stays_and_what_its_condition_does() -> None:
    given = typed("Less", "k", "i", "i", kind=INT32)
    said, compiled = (
        looping(*SAID, const("k", False, BOOL), op="While"),
        looping(const("k", False, BOOL), _XlaMustCompile=True),
    )
    for data in (looping(const("k", True, BOOL)), looping(given, returned="k:z:0"), said, compiled):
        stays(from_bytes(data), passes=["conditions"])


ROWS = placeholder("x", FLOAT, (-1, 3))
DRAWN = [typed("Shape", "s", "x", out_type=INT32), typed("RandomUniform", "u", "s", kind=INT32, dtype=FLOAT)]
LAST = relu("y", "d")


def of_version_1(keep: float) -> list[bytes]:
    """As TensorFlow 1 makes it: x / keep * floor(uniform + keep)."""
    return [*DRAWN, scalar("keep", keep), scalar("zero", 0), scalar("one", 1),
            typed("Mul", "v", "u", "one"), add("w", "v", "zero"), add("z", "keep", "w"),
            typed("Floor", "floor", "z"), typed("RealDiv", "div", "x", "keep"),
            typed("Mul", "d", "div", "floor"), LAST]  # fmt: skip


def of_version_2(rate: float, scale: float = 1) -> list[bytes]:
    return [*DRAWN, scalar("rate", rate), scalar("scale", scale), typed("Mul", "k", "x", "scale"),
            typed("GreaterEqual", "g", "u", "rate"), node("c", "Cast", ["g"], SrcT=BOOL, DstT=FLOAT),
            typed("Mul", "d", "k", "c"), LAST]  # fmt: skip


def selecting(rate: float) -> list[bytes]:
    return [*DRAWN, scalar("rate", rate), typed("GreaterEqual", "g", "u", "rate"),
            typed("ZerosLike", "n", "x"), typed("SelectV2", "d", "g", "x", "n"), LAST]  # fmt: skip


@pytest.mark.parametrize("records", [of_version_1(1), of_version_2(0)], ids=["1", "2"])
def test_dropout_that_drops_nothing_goes(records: list[bytes]) -> None:
    found, result = simplified(ROWS, *records)
    assert graphs.ops(found) == {"x": "Placeholder", "y": "Relu"}
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].idle == ("u",)
    assert result.facts["passes"]["dropout"] == 1  # type: ignore[index, call-overload]


def test_nodes_are_looked_at_again_when_nothing_upstream_draws_any_more() -> None:
    both = [neg("m", "d"), node("n", "IdentityN", ["m", "x"], T=dtypes(FLOAT, FLOAT))]
    found, _ = simplified(ROWS, *of_version_2(0), *both, add("last", "n", "n:1"))
    assert graphs.inputs(found) == {"x": [], "y": ["x"], "m": ["x"], "last": ["m", "x"]}


def test_a_choice_by_it_goes_where_the_shape_is_known() -> None:
    found, _ = simplified(placeholder("x", FLOAT, (2, 3)), *selecting(0))
    assert graphs.ops(found) == {"x": "Placeholder", "y": "Relu"}


@pytest.mark.parametrize(
    "records", [of_version_1(0.5), of_version_2(0.5), of_version_2(1e-6)], ids=["1", "2", "little"]
)
def test_dropout_that_drops_stays(records: list[bytes]) -> None:
    found = graph(ROWS, *records)
    with suppress(NothingToDo):
        simplify(found)
    assert {"u": "RandomUniform", "d": "Mul"}.items() <= graphs.ops(found).items()


def test_what_others_draw_with_stays() -> None:
    found, result = simplified(ROWS, *of_version_2(0), neg("out", "u"))
    assert graphs.names(found) == ["x", "s", "u", "y", "out"]
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].idle == ()


def test_a_mask_of_another_shape_stays() -> None:
    wide = [typed("Shape", "s", "w", out_type=INT32), *of_version_2(0)[1:]]
    stays(placeholder("x", FLOAT, (-1, 1)), placeholder("w", FLOAT, (2, 3)), *wide, passes=["dropout"])


@pytest.mark.tensorflow
def test_it_is_proven_though_it_draws() -> None:
    found, result = simplified(ROWS, *of_version_1(1))
    proof = prove(found.pristine(), found, result)
    assert {output.before for output in proof.compared} >= {"y", "d"}
    assert proof.largest_difference == 0
