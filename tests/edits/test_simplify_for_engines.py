"""simplify --for ENGINE: constants in the form that the engine expects; unsupported forms are not introduced."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from support import graphs
from support.desk import Desk, check_raised
from support.expecting import account, expect, refused
from support.graphs import (
    FLOAT,
    INT32,
    add,
    const,
    encode_len,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
    random_graphs,
    relu,
    scalar,
    typed,
)
from support.running import run
from support.simplifying import simplified, stays

from gdsurgeon.compare.intent import Intent
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import NothingToDo, UsageError, ValidationError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes

X = placeholder("x", FLOAT, (2, 3))
FED = {"x": [[1.0, -2.0, 3.0], [-4.0, 5.0, 0.5]]}


def splat(name: str, value: float | None, shape: tuple[int, ...]) -> bytes:
    """A constant whose elements are all VALUE, stored once; None: it stores no value, and all elements are 0."""
    dims = b"".join(encode_len(2, b"\x08" + bytes([size])) for size in shape)
    values = b"" if value is None else encode_len(5, struct.pack("<f", value))
    return node(name, "Const", dtype=FLOAT, value=encode_len(8, b"\x08\x01" + encode_len(2, dims) + values))


def for_opencv(found: Graph) -> EditResult:
    return simplify(found, engine="opencv")


def test_what_no_file_holds_is_not_spelt_out() -> None:
    huge = splat("k", 2.5, (127,) * 4 + (3,))
    found = graph(placeholder("x", FLOAT, ()), identity("i", "x"), huge, add("y", "i", "k"))
    refused(found, "too-large", for_opencv, bytes=127**4 * 3 * 4)


@pytest.mark.tensorflow
def test_constants_are_spelt_out_and_read_once() -> None:
    before = [X, splat("k", 2.5, (2, 3)), identity("i", "x"), add("a", "i", "k"), typed("Mul", "y", "a", "k")]
    six = [2.5] * 6
    after = [X, const("k", six, FLOAT, (2, 3)), const("k_1", six, FLOAT, (2, 3)), add("a", "x", "k"),
             typed("Mul", "y", "a", "k_1")]  # fmt: skip
    result = expect(before, for_opencv, after, same=("y",), fed=FED)
    assert (result.intent.added, result.intent.removed) == (["k_1"], ["i"])


@pytest.mark.tensorflow
def test_a_constant_without_values_has_zeros() -> None:
    before, after = ([X, k, add("y", "x", "k")] for k in (splat("k", None, (3,)), const("k", [0.0, 0.0, 0.0])))
    expect(before, for_opencv, after, same=("y",), fed=FED)


@pytest.mark.parametrize("shapes", [[], [("x", (2, 3))]])
def test_a_constant_that_is_not_spelt_out_is_found(monkeypatch: pytest.MonkeyPatch, shapes: Any) -> None:
    """One stage, or several."""
    monkeypatch.setattr("gdsurgeon.edits.simplify.spelt_out", lambda _: Intent())
    found = graph(placeholder("x", FLOAT, (-1, 3)), splat("k", 2.5, (2, 3)), identity("i", "x"), add("y", "i", "k"))
    result = simplify(found, engine="opencv", shapes=shapes)
    check_raised(ValidationError, "unrequested-change", lambda: account(found, result))


def test_what_is_whole_and_read_once_stays_as_it_is() -> None:
    text = node("s", "Const", dtype=graphs.STRING, value=encode_len(8, b"\x08\x07\x12\x04\x12\x02\x08\x03"))
    found = graph(X, const("k", [1.0, 2.0, 3.0]), text, add("y", "x", "k"),
                  node("none", "Const", dtype=FLOAT, value=graphs.tensor([], FLOAT, (0, 4))))  # fmt: skip
    stays(found, engine="opencv", passes=["identities"])


def test_one_node_that_reads_a_constant_twice() -> None:
    nodes = [const("k", [1.0, 2.0, 3.0]), typed("AddN", "y", "k", "x", "k", N=3)]
    found, _ = simplified(X, *nodes, engine="opencv")
    assert graphs.inputs(found)["y"] == ["k", "x", "k_1"]


def test_equal_nodes_and_shapes_are_left() -> None:
    ones = [scalar("a", 1, INT32), scalar("b", 1, INT32)]
    ends = [typed("ExpandDims", name, "x", axis, Tdim=INT32) for name, axis in (("y", "a"), ("z", "b"))]
    stays(X, *ones, *ends, engine="opencv")


def test_engines_that_there_are_and_one_that_there_is_not() -> None:
    edit = partial(simplify, engine="opencv5")
    found = graph(X, identity("y", "x"))
    refused(found, "no-such-engine", edit, error=UsageError, value="opencv5", near="opencv")


@given(random_graphs())
def test_random_graphs_are_accounted_for(drawn: Any) -> None:
    with suppress(NothingToDo):
        simplified(from_bytes(drawn.data), engine="opencv")


@pytest.mark.parametrize("entries", [[], ["x", "loc:@other"]])
def test_a_copy_belongs_nowhere(entries: list[str]) -> None:
    """Further entries next to the names of nodes in this attribute, or none."""
    a = const("a", [1, 2], _class=entries)
    b = node("b", "MyCustomOp", ["a", "a", "other"])
    found, _ = simplified(a, const("other", [3, 4]), b, engine="opencv")
    assert "_class" not in found["a_1"].attr_keys


# -- the engine itself, where it is installed -----------------------------------------------------------------


def test_opencv_takes_it_and_gives_the_same(desk: Desk) -> None:
    """A convolution whose bias is a splat, and shared, is one that OpenCV reads beyond the end of."""
    cv2 = pytest.importorskip("cv2")
    np = pytest.importorskip("numpy")
    ones = encode_len(1, b"\x1a\x04\x01\x01\x01\x01")
    image = placeholder("x", FLOAT, (1, 5, 5, 2))
    weights = const("w", [(i % 7 - 3) / 4 for i in range(3 * 3 * 2 * 4)], FLOAT, (3, 3, 2, 4))
    steps = [
        typed("Conv2D", "c", "x", "w", strides=ones, dilations=ones, padding="SAME", data_format="NHWC"),
        splat("b", 0.75, (4,)), typed("BiasAdd", "d", "c", "b", data_format="NHWC"),
        identity("i", "d"), relu("r", "i"), typed("Mul", "y", "r", "b"),
    ]  # fmt: skip
    desk.put("model.pb", graph_bytes(image, weights, *steps))
    desk.done("simplify", "model.pb", "--for", "opencv", "-o", "out.pb")
    x = np.linspace(-1, 1, 50, dtype=np.float32).reshape(1, 5, 5, 2)
    wanted = np.array(run((desk.folder / "out.pb").read_bytes(), "y", x=x.tolist())[0])
    net = cv2.dnn.readNetFromTensorflow(str(desk.folder / "out.pb"))
    net.setInput(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    found = net.forward().transpose(0, 2, 3, 1)
    assert np.abs(found - wanted.reshape(found.shape)).max() < 1e-5
