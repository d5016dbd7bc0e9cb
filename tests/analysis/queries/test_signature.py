from __future__ import annotations

import pytest
from support import graphs
from support.graphs import BOOL, FLOAT, INT32, STRING, UINT8, add, const, g8, graph, identity, node, placeholder

from gdsurgeon.analysis.queries import signature as module
from gdsurgeon.analysis.queries.signature import TensorInfo, inferred_signature, input_nodes, output_nodes, signature
from gdsurgeon.analysis.shapes.arithmetic import compatible, stated_shape, typed
from gdsurgeon.graph.attrs import format_shape


def test_inputs_and_outputs() -> None:
    found = signature(graph(placeholder("x", UINT8, (-1, 3)), placeholder("names", STRING), identity("y", "x"),
                            node("u", "MyOp", ["names"])))  # fmt: skip
    assert found.inputs == (
        TensorInfo("x", 4, (-1, 3), "Placeholder"), TensorInfo("names", 7, None, "Placeholder")
    )  # fmt: skip
    assert found.outputs == (TensorInfo("y", 1, None, "Identity"), TensorInfo("u", 0, None, "MyOp"))


def test_all_outputs_of_a_node_are_listed() -> None:
    found = signature(graph(const("axis", [0], INT32, ()), placeholder("v"),
                            node("s", "Split", ["axis", "v"], T=FLOAT, num_split=2)))  # fmt: skip
    assert [o.name for o in found.outputs] == ["s", "s:1"]


def test_after_edits() -> None:
    found = graph(*g8(), placeholder("p", FLOAT, (2,)))
    found.reroute(found.uses(found["foo/d"].output), found["p"].output)
    found.remove([found["foo/bar/h"]])
    found.add("q", "Placeholder", attrs={"dtype": FLOAT, "shape": graphs.attr((2,))})
    found.add("out", "Identity", [found["foo/bar/f"].output], attrs={"T": FLOAT})
    found.rename({found["foo/bar/e"]: "e"})
    assert [n.name for n in input_nodes(found)] == ["p", "q"]
    assert [n.name for n in output_nodes(found)] == ["e", "foo/bar/g", "out"]
    found.set_inputs(found["e"], [found["out"].output, found["out"].output])
    assert [n.name for n in output_nodes(found)] == ["e", "foo/bar/g"]


def test_stated_shapes() -> None:
    shapes = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto((1,))) + graphs.encode_len(7, b"\x18\x01"))
    found = graph(placeholder("p", FLOAT, (1, -1)), const("c", [0] * 6, FLOAT, (2, 3)), add("y", "p", "c"),
                  node("s", "MyOp", _output_shapes=shapes),
                  node("v", "PlaceholderV2", dtype=FLOAT, shape=()))  # fmt: skip
    expected = {"p": (1, -1), "c": (2, 3), "y": None, "s": (1,), "s:1": None, "s:2": None, "v": ()}
    assert {name: stated_shape(found.tensor(name)) for name in expected} == expected
    outputs = [found[name].output for name in ("p", "y", "s")]
    texts = [typed(output.dtype, stated_shape(output)) for output in outputs]
    assert texts == ["float32 [1,?]", "float32", "unknown type"]


def test_shapes_that_fit() -> None:
    assert all(compatible(a, b) for a, b in [(None, (1,)), ((), ()), ((-1, 2), (5, 2)), ((1, -1), (-1, 3))])
    assert not any(compatible(a, b) for a, b in [((), (1,)), ((2,), (3,)), ((-1,), (1, 1)), ((1, 2), (2, 1))])
    assert [format_shape(s) for s in (None, (), (-1, 3))] == ["[...]", "[]", "[?,3]"]


BRANCH = (
    placeholder("x", FLOAT, (-1,)), placeholder("p", BOOL, ()), node("switch", "Switch", ["x", "p"], T=FLOAT),
    identity("pivot", "switch:1"), node("neg", "Neg", ["switch"], T=FLOAT),
    node("join", "Merge", ["neg", "pivot"], T=FLOAT, N=2),
)  # fmt: skip
LIST = node("list", "TensorListReserve", ["n", "n"], element_dtype=FLOAT, shape_type=INT32)


def outputs_of(*records: bytes) -> list[str]:
    return [found.name for found in output_nodes(graph(*records))]


def test_what_nobody_could_fetch_is_no_output() -> None:
    y = identity("y", "x")
    assert outputs_of(*BRANCH, identity("unread", "switch:0"), y) == ["join", "y"]
    assert outputs_of(*BRANCH, node("alone", "Switch", ["x", "p"], T=FLOAT), y) == ["join", "y"]
    assert outputs_of(const("n", [], INT32), LIST, node("m", "Neg", ["n"], T=INT32)) == ["m"]


def test_a_join_that_is_there_to_be_waited_for_is_no_output() -> None:
    assert outputs_of(*BRANCH, identity("y", "x", "^join")) == ["y"]


def test_where_there_is_nothing_else_it_is_an_output() -> None:
    assert outputs_of(const("n", [], INT32), LIST) == ["list"]


def test_shapes_that_are_not_stated_are_inferred(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        placeholder("x", FLOAT, (-1, 3)),
        placeholder("any"),
        node("y", "MatMul", ["x", "w"], T=FLOAT),
        const("w", [1, 2, 3], shape=(3, 1)),
        node("s", "MyOp", ["x"], _output_shapes=graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto((5,))))),
        node("other", "MyOp", ["any"]),
        identity("said", "any", _output_shapes=graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto((7,))))),
    ]
    found = graph(*records)
    stated = signature(found)
    assert [info.shape for info in stated.outputs] == [None, (5,), None, (7,)]
    inferred = inferred_signature(found, stated)
    assert [(info.name, info.shape) for info in inferred.inputs] == [("x", (-1, 3)), ("any", None)]
    assert [(info.name, info.shape) for info in inferred.outputs] == [
        ("y", (-1, 1)),
        ("s", (5,)),
        ("other", None),
        ("said", (7,)),
    ]
    monkeypatch.setattr(module, "MOST_NODES", 5)
    assert inferred_signature(found, stated) == stated
