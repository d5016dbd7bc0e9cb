"""Names of scopes and placeholders, new nodes, and what a name stands for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from support import expecting, graphs
from support.graph_editor_running import Eight, refused, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, versions

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.graph.constants import constant


def test_scopes() -> None:
    assert [ge.scope_finalize(s) for s in ("foo/bar", "foo/bar/", "")] == ["foo/bar/", "foo/bar/", ""]
    assert [ge.scope_dirname(s) for s in ("foo/bar/op", "op")] == ["foo/bar/", ""]
    assert [ge.scope_basename(s) for s in ("foo/bar/op", "op")] == ["op", "op"]


def test_names_of_placeholders() -> None:
    found = graph(const("foo", [1]), const("bar/b", [1]), const("bar/geph__b_0", [1]))
    foo, b, made = (n.output for n in found.nodes())
    assert ge.placeholder_name() == "geph"
    assert ge.placeholder_name(foo) == "geph__foo_0"
    for scope in ("foo", "foo/"):
        assert ge.placeholder_name(foo, scope=scope) == "foo/geph__foo_0"
        assert ge.placeholder_name(scope=scope) == "foo/geph"
    assert ge.placeholder_name(b) == "bar/geph__b_0"
    assert ge.placeholder_name(b, scope="") == "geph__b_0"
    assert ge.placeholder_name(made) == "bar/geph__b_0"
    assert ge.placeholder_name(made, scope="x") == "x/geph__b_0"
    assert ge.placeholder_name(foo, prefix="in") == "in__foo_0"
    node: Any = found["foo"]
    refused(found, "wrong-type", lambda: ge.placeholder_name(node), expected="Output", found="Node")


def test_placeholders_have_a_dtype_and_a_shape() -> None:
    found = graph(const("a1", [1, 2], INT32), identity("i", "a1", kind=INT32))
    made = ge.make_placeholder_from_tensor(found, found["a1"].output)
    assert (made.name, made.op, made.output.dtype, stated_shape(made.output)) == ("geph__a1_0", "Placeholder", 3, (2,))
    free = ge.ph(found, "float32", [None, 3])
    assert (free.name, free.output.dtype, stated_shape(free.output)) == ("geph", 1, (-1, 3))
    assert [dim.size for dim in graphs.attrs(found, "geph")["shape"].shape.dim] == [-1, 3]
    unknown = ge.make_placeholder_from_dtype_and_shape(found, np.int64)
    assert (unknown.name, unknown.output.dtype, stated_shape(unknown.output)) == ("geph_1", 9, None)
    assert ge.make_placeholder_from_tensor(found, found["i"].output, scope="s").name == "s/geph__i_0"
    assert "_output_shapes" not in graphs.attrs(found, "geph")
    assert sound(found)


def test_data_types() -> None:
    class DType:  # as TensorFlow's is seen from here
        as_datatype_enum = 10

    found = graph(const("a", [1]))
    kinds: list[Any] = [1, "bfloat16", np.dtype("uint8"), np.float64, DType(), 101]
    made = [ge.make_placeholder(found, f"p{i}", kind) for i, kind in enumerate(kinds)]
    assert [n.output.dtype for n in made] == [1, 14, 4, 2, 10, 1]
    for wrong in ("float", 0, 77, None, object()):
        refused(found, "wrong-type", partial(ge.make_placeholder, found, "q", wrong), expected="data type")


@pytest.mark.parametrize(
    ("value", "dtype", "values"),
    [
        (42, 3, [42]),
        (1.5, 1, [1.5]),
        ([True, False], 10, [True, False]),
        (np.array([[1, 2]], np.int64), 9, [1, 2]),
        (np.array([1.0], ">f8"), 2, [1.0]),
        (["a", b"b"], 7, [b"a", b"b"]),
    ],
)
def test_constants(value: Any, dtype: int, values: list[Any]) -> None:
    found = graph(const("a", [1]))
    made = constant(ge.make_const(found, "k", value))
    assert made is not None
    assert (made.dtype, made.shape, made.values) == (dtype, np.asarray(value).shape, values)
    assert sound(found)


def test_an_identity_that_cannot_be() -> None:
    found, other = graph(const("a", [1]), node("m", "MyOp")), graph(const("a", [1]))
    unknown = found["m"].output
    refused(found, "other-graph", lambda: ge.make_identity(found, "i", other["a"].output), tensor="a")
    refused(found, "unknown-dtype", lambda: ge.make_identity(found, "i", unknown), tensor="m")
    refused(found, "unknown-dtype", lambda: ge.make_placeholder_from_tensor(found, unknown), tensor="m")


def test_an_empty_graph_has_the_versions_of_another() -> None:
    made = ge.empty_graph(graph(const("a", [1]), trailer=versions(23)))
    assert (made.node_count, made.store.producer, list(made.nodes())) == (0, 23, [])
    made.add("n", "NoOp")
    assert graphs.names(made) == ["n"]
    assert ge.empty_graph(graph(const("a", [1]), trailer=b"")).store.producer == 0


# Lookup.


@pytest.mark.parametrize(
    ("name", "code", "facts"),
    [
        ("b:7", "no-such-tensor", {"tensor": "b:7", "count": 1}),
        ("^b", "bad-tensor-name", {"tensor": "^b"}),
        ("nope", "no-such-node", {"node": "nope"}),
        ("nope:0", "no-such-node", {"node": "nope"}),
        ("b:0:1", "bad-tensor-name", {"tensor": "b:0:1"}),
        ("b:", "bad-tensor-name", {"tensor": "b:"}),
        ("", "no-such-node", {"node": ""}),
    ],
)
def test_a_name_stands_for_a_node_before_it_stands_for_a_tensor(name: str, code: str, facts: dict[str, Any]) -> None:
    found = graph(const("a", [1]), add("b", "a", "a"))
    assert ge.lookup(found, "b") is found["b"]
    assert ge.lookup(found, "b:0") == found["b"].output
    refused(found, code, lambda: ge.lookup(found, name), **facts)


def test_what_corresponds_in_another_graph() -> None:
    found, other = Eight(), graph(*(const(f"x/{name}", [1]) for name in ("b", "bar/e", "bar")))
    assert ge.find_corresponding_elem(found["b"], other, "x", "foo") is other["x/b"]
    tensors = {"e": [found["e"].output], "b": (found["b"],)}
    assert ge.find_corresponding(tensors, other, "x/", "foo/") == {"e": [other["x/bar/e"].output], "b": (other["x/b"],)}
    for target, code, facts in [
        (found["a"], "outside-scope", {"node": "a", "scope": "foo"}),
        (found["c"], "no-such-node", {"node": "x/c"}),
        ("a", "wrong-type", {"expected": "Node or Output", "found": "str"}),
    ]:
        corresponding: Any = partial(ge.find_corresponding_elem, target, other, "x", "foo")
        refused(other, code, corresponding, **facts)


# One rule for names, wherever a node gets one.


EDITS = [
    lambda found, name: gds.rename(found, [("a", name)]),
    lambda found, name: found.add(name, "NoOp"),
    lambda found, name: ge.make_placeholder(found, name, "float32"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_name_that_is_taken_or_illegal_is_refused_at_once(edit: Any) -> None:
    found = graph(const("a", [1]), const("b", [1]))
    for name, code in [("b", "name-taken"), ("a b", "bad-name"), ("_x", "bad-name")]:
        expecting.refused(found, code, partial(edit, name=name), name=name)
    edit(found, "B")  # capitals make another name
    assert {"b", "B"} <= set(graphs.names(found))
    assert sound(found)


def test_names_are_made_unique_with_a_number() -> None:
    found = graph(const("a", [1]), const("a_1", [1]))
    assert [ge.make_placeholder(found, "a", "bool", uniquify_name=True).name for _ in range(2)] == ["a_2", "a_3"]
    assert ge.make_const(found, "a", 1, uniquify_name=True).name == "a_4"
    assert ge.make_identity(found, "a", found["a"].output, uniquify_name=True).name == "a_5"
    refused(found, "name-taken", lambda: ge.make_const(found, "a", 1), name="a")
    assert graphs.attrs(found, "a_5")["T"].type == FLOAT[1]
