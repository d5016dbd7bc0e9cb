"""simplify: dropout that drops nothing goes, with what it draws; dropout that drops stays."""

from __future__ import annotations

from contextlib import suppress

import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, add, graph, node, placeholder, scalar
from support.simplifying import simplified, stays

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NothingToDo
from gdsurgeon.operation.library import prove

X = placeholder("x", FLOAT, (-1, 3))
DRAWN = [node("s", "Shape", ["x"], T=FLOAT, out_type=INT32), node("u", "RandomUniform", ["s"], dtype=FLOAT, T=INT32)]
END = node("y", "Relu", ["d"], T=FLOAT)


def of_version_1(keep: float) -> list[bytes]:
    """As TensorFlow 1 makes it: x / keep * floor(uniform + keep)."""
    return [*DRAWN, scalar("keep", keep), scalar("zero", 0), scalar("one", 1),
            node("v", "Mul", ["u", "one"], T=FLOAT), add("w", "v", "zero"), add("z", "keep", "w"),
            node("floor", "Floor", ["z"], T=FLOAT), node("div", "RealDiv", ["x", "keep"], T=FLOAT),
            node("d", "Mul", ["div", "floor"], T=FLOAT), END]  # fmt: skip


def of_version_2(rate: float, scale: float = 1) -> list[bytes]:
    return [*DRAWN, scalar("rate", rate), scalar("scale", scale), node("k", "Mul", ["x", "scale"], T=FLOAT),
            node("g", "GreaterEqual", ["u", "rate"], T=FLOAT), node("c", "Cast", ["g"], SrcT=BOOL, DstT=FLOAT),
            node("d", "Mul", ["k", "c"], T=FLOAT), END]  # fmt: skip


def selecting(rate: float) -> list[bytes]:
    return [*DRAWN, scalar("rate", rate), node("g", "GreaterEqual", ["u", "rate"], T=FLOAT),
            node("n", "ZerosLike", ["x"], T=FLOAT), node("d", "SelectV2", ["g", "x", "n"], T=FLOAT), END]  # fmt: skip


@pytest.mark.parametrize("records", [of_version_1(1), of_version_2(0)], ids=["1", "2"])
def test_dropout_that_drops_nothing_goes(records: list[bytes]) -> None:
    found, result = simplified(X, *records)
    assert graphs.ops(found) == {"x": "Placeholder", "y": "Relu"}
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].idle == ("u",)
    assert result.facts["passes"]["dropout"] == 1  # type: ignore[index, call-overload]


def test_a_choice_by_it_goes_where_the_shape_is_known() -> None:
    found, _ = simplified(placeholder("x", FLOAT, (2, 3)), *selecting(0))
    assert graphs.ops(found) == {"x": "Placeholder", "y": "Relu"}


@pytest.mark.parametrize(
    "records", [of_version_1(0.5), of_version_2(0.5), of_version_2(1e-6)], ids=["1", "2", "little"]
)
def test_dropout_that_drops_stays(records: list[bytes]) -> None:
    found = graph(X, *records)
    with suppress(NothingToDo):
        simplify(found)
    assert {"u": "RandomUniform", "d": "Mul"}.items() <= graphs.ops(found).items()


def test_what_others_draw_with_stays() -> None:
    found, result = simplified(X, *of_version_2(0), node("out", "Neg", ["u"], T=FLOAT))
    assert graphs.names(found) == ["x", "s", "u", "y", "out"]
    assert isinstance(result.claims[0], SameOutputs)
    assert result.claims[0].idle == ()


def test_a_mask_of_another_shape_stays() -> None:
    wide = [node("s", "Shape", ["w"], T=FLOAT, out_type=INT32), *of_version_2(0)[1:]]
    stays(placeholder("x", FLOAT, (-1, 1)), placeholder("w", FLOAT, (2, 3)), *wide, passes=["dropout"])


@pytest.mark.tensorflow
def test_it_is_proven_though_it_draws() -> None:
    found, result = simplified(X, *of_version_1(1))
    proof = prove(found.pristine(), found, result)
    assert {output.before for output in proof.compared} >= {"y", "d"}
    assert proof.largest_difference == 0
