"""simplify: sums over no axes, splits into one, Pack and Unpack go bit for bit; and what is near to these stays."""

from __future__ import annotations

import numpy as np
import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, add, const, node, placeholder, scalar
from support.running import run, values
from support.simplifying import simplified, stays
from support.v1_control_flow import while_loop

from gdsurgeon.edits.claims import SameOutputs

X = placeholder("x", FLOAT, (2, 3))
W = placeholder("w", FLOAT, (2, 3))
END = node("y", "Relu", ["last"], T=FLOAT)
AXIS = scalar("axis", 1, INT32)


def over(op: str, *axes: int, keep: bool = False, kind: bytes = FLOAT) -> list[bytes]:
    typed = {} if kind == BOOL else {"T": kind}
    return [
        const("axes", axes, INT32, (len(axes),)),
        node("last", op, ["x", "axes"], Tidx=INT32, keep_dims=keep, **typed),
    ]


def packed(axis: int = 0, again: int = 0, order: tuple[str, ...] = ("u", "u:1")) -> list[bytes]:
    """The parts of a tensor as one again."""
    return [node("u", "Unpack", ["x"], T=FLOAT, num=2 + axis, axis=axis),
            node("last", "Pack", order, T=FLOAT, N=len(order), axis=again)]  # fmt: skip


def unpacked(axis: int = 1, again: int = 1, num: int = 2) -> list[bytes]:
    """A product of the parts of what two tensors were made."""
    pack = node("p", "Pack", ["x", "w"], T=FLOAT, N=2, axis=axis)
    parts = node("u", "Unpack", ["p"], T=FLOAT, num=num, axis=again)
    return [W, pack, parts, node("last", "Mul", ["u", "u:1"], T=FLOAT)]


GOES: dict[str, list[bytes]] = {
    **{f"{op} over no axes": over(op) for op in ("Max", "Mean", "Min", "Prod", "Sum")},
    "Sum over no axes that keeps dims": over("Sum", keep=True),
    "Split into one": [AXIS, node("last", "Split", ["axis", "x"], T=FLOAT, num_split=1)],
    "SplitV into one": [AXIS, const("sizes", [3], INT32),
                        node("last", "SplitV", ["x", "sizes", "axis"], T=FLOAT, Tlen=INT32, num_split=1)],
    "Pack of an Unpack": packed(),
    "Pack of an Unpack along the last axis": packed(1, 1, ("u", "u:1", "u:2")),
}  # fmt: skip
STAYS: dict[str, list[bytes]] = {
    "Sum over an axis": over("Sum", 0, keep=True),
    "Split into several": [AXIS, node("last", "Split", ["axis", "x"], T=FLOAT, num_split=3)],
    "Pack along another axis": packed(0, 1),
    "Pack in another order": packed(order=("u:1", "u")),
    "Pack of one part twice": packed(order=("u", "u")),
}  # fmt: skip


@pytest.mark.parametrize("records", GOES.values(), ids=GOES)
def test_what_hands_on_what_it_reads_goes(records: list[bytes]) -> None:
    found, result = simplified(X, *records, END)
    assert graphs.inputs(found) == {"x": [], "y": ["x"]}
    assert isinstance(result.claims[0], SameOutputs)


@pytest.mark.parametrize("records", STAYS.values(), ids=STAYS)
def test_what_is_near_to_it_stays(records: list[bytes]) -> None:
    stays(X, *records, END)


def test_what_was_packed_is_read_in_its_place() -> None:
    found, _ = simplified(X, *unpacked(), END)
    assert graphs.inputs(found) == {"x": [], "w": [], "last": ["x", "w"], "y": ["last"]}


@pytest.mark.parametrize(("axis", "again", "num"), [(1, 0, 2), (1, -1, 2), (1, 1, 3)])
def test_an_unpack_of_something_else_stays(axis: int, again: int, num: int) -> None:
    stays(X, *unpacked(axis, again, num), END)


def test_of_bools_too() -> None:
    flags = placeholder("x", BOOL, (2,))
    for op in ("All", "Any"):
        found, _ = simplified(flags, *over(op, kind=BOOL), node("y", "LogicalNot", ["last"]))
        assert graphs.names(found) == ["x", "y"]


def test_sums_of_single_elements_go_where_shapes_say_so() -> None:
    narrow = placeholder("x", FLOAT, (5, 1, 1, 3))
    found, result = simplified(narrow, *over("Mean", 1, 2, keep=True), END)
    assert graphs.names(found) == ["x", "y"]
    assert result.claims[0].also == ("last",)  # type: ignore[attr-defined]  # it is compared with what is read in its place
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
    """Of zeros of either sign, infinities, NaN with a payload and denormals, too; and of sums of single elements."""
    bits = [0x80000000, 0x00000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0x00000001]
    narrow = [over(op, 1, 2, keep=True) for op in ("Max", "Mean", "Min", "Prod", "Sum")]
    for shape, cases in (((2, 3), GOES.values()), ((2, 1, 1, 3), narrow)):
        for records in cases:
            assert bits_of(graphs.graph_bytes(placeholder("x", FLOAT, shape), *records), bits, shape) == bits


def test_what_says_which_turn_it_is_stays() -> None:
    """In a loop the parts depend on the turn: what was packed outside of it does not."""
    inside = [node("w/p", "Pack", ["w/v", "w/three"], T=FLOAT, N=2, axis=0),
              node("w/u", "Unpack", ["w/p"], T=FLOAT, num=2, axis=0), add("w/plus", "w/u", "w/u:1")]  # fmt: skip
    found, _ = simplified(*while_loop(*inside, result="w/plus"))
    assert "w/u" in found
