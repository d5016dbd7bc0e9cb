"""Names of scopes and placeholders, new nodes, and what a name stands for."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import expecting, graphs
from support.graph_editor_running import Eight, letters, refused, sound
from support.graphs import FLOAT, INT32, add, const, graph, identity, node

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.errors import EditError
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph_editor.util import WrongType, concatenate_unique, flatten_tree, transform_tree


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


def three() -> Graph:
    return graph(const("a", [1]), const("b", [1]), add("c", "a", "b"))


def test_all_must_be_of_one_graph() -> None:
    found, other = three(), three()
    a, b = found["a"], found["b"]
    assert ge.get_unique_graph(found) is found
    assert ge.get_unique_graph([a, b.output]) is found
    assert ge.get_unique_graph([], none_if_empty=True) is None
    ge.check_graphs(ge.sgv(a), ge.sgv(), b, a.output)
    refused(found, "other-graph", lambda: ge.get_unique_graph([a, other["b"]]), name="b", expected="a")
    refused(found, "other-graph", lambda: ge.check_graphs(ge.sgv(a), ge.sgv(other["a"])), value=1)
    refused(found, "nothing-selected", lambda: ge.get_unique_graph([]))


@pytest.mark.parametrize(
    ("items", "ops", "ts"),
    [
        (lambda g: g, "abc", "abc"),
        (lambda g: g["a"], "a", None),
        (lambda g: (n for n in g.nodes()), "abc", None),
        (lambda g: g["a"].output, None, "a"),
        (lambda g: [], "", ""),
    ],
)
def test_lists_of_nodes_and_of_tensors(items: Any, ops: str | None, ts: str | None) -> None:
    for make, expected in ((ge.make_list_of_op, ops), (ge.make_list_of_t, ts)):
        found = three()
        if expected is None:
            refused(found, "wrong-type", lambda make=make, found=found: make(items(found)))  # type: ignore[misc]
        else:
            assert letters(make(items(found))) == expected


@pytest.mark.parametrize(
    ("expected", "found", "edit"),
    [
        ("iterable", "Node", lambda g: ge.get_unique_graph(g["a"])),
        ("Node", "Output", lambda g: ge.get_unique_graph([g["a"].output], check_types=type(g["a"]))),
        ("Node or Output", "int", lambda g: ge.get_unique_graph([g["a"], 3])),
        ("Node", "Output", lambda g: ge.make_list_of_op([g["a"], g["b"].output])),
        ("Node", "Graph", lambda g: ge.make_list_of_op(g, allow_graph=False)),
        ("Node", "int", lambda g: ge.make_list_of_op(3)),
        ("Output", "Node", lambda g: ge.make_list_of_t([g["a"].output, g["b"]])),
        ("Output", "Graph", lambda g: ge.make_list_of_t(g, allow_graph=False)),
        ("list", "str", lambda g: ge.ListView("ab")),
    ],
)
def test_what_is_of_another_type_is_refused(expected: str, found: str, edit: Any) -> None:
    model = three()
    refused(model, "wrong-type", lambda: edit(model), expected=expected, found=found)


def test_a_list_that_cannot_be_changed() -> None:
    view, more = ge.ListView([1, 2]), [3]
    with pytest.raises(TypeError):
        view[0] = 3  # type: ignore[index]
    assert (list(view), len(view), view[0], view[0:1], bool(ge.ListView([]))) == ([1, 2], 2, 1, (1,), False)
    assert (view + more, more + view, view + view) == ([1, 2, 3], [3, 1, 2], [1, 2, 1, 2])
    assert view == [1, 2] and view != [2, 1] and repr(view) == "ListView([1, 2])"
    assert isinstance(ge.sgv(three()["a"]).outputs, ge.ListView)


Pair = namedtuple("Pair", ["first", "second"])


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (1, 2),
        ([1, (2, 3)], [2, (3, 4)]),
        ({"a": 1, "b": [2]}, {"a": 2, "b": [3]}),
        (OrderedDict([("b", 1), ("a", 2)]), OrderedDict([("b", 2), ("a", 3)])),
        (defaultdict(int, a=1), defaultdict(int, a=2)),
        (Pair(1, [2]), Pair(2, [3])),
        (range(2), (1, 2)),
    ],
)
def test_trees_keep_their_types(tree: Any, expected: Any) -> None:
    made = transform_tree(tree, lambda leaf: leaf + 1)
    assert made == expected and type(made) is type(expected)


def test_leaves() -> None:
    assert flatten_tree({"a": 1, "b": [Pair(2, (3,)), "word"]}) == [1, 2, 3, "word"]
    assert concatenate_unique([1, 2], [2, 3, 3]) == [1, 2, 3]


NAMES = {
    "edit": "detach_control_inputs detach_control_outputs detach_inputs detach_outputs detach connect bypass",
    "match": "op_type OpMatcher",
    "reroute": "swap_ts reroute_ts swap_inputs reroute_inputs swap_outputs reroute_outputs swap_ios reroute_ios "
    "remove_control_inputs add_control_inputs",
    "select": "can_be_regex make_regex filter_ts filter_ts_from_regex filter_ops filter_ops_by_optype "
    "filter_ops_from_regex get_name_scope_ops check_cios get_ops_ios compute_boundary_ts get_within_boundary_ops "
    "get_forward_walk_ops get_backward_walk_ops get_walks_intersection_ops get_walks_union_ops select_ops select_ts "
    "select_ops_and_ts",
    "subgraph": "SubGraphView make_view make_view_from_scope",
    "transform": "replace_t_with_placeholder_handler keep_t_if_possible_handler transform_op_if_inside_handler "
    "copy_op_handler transform_op_in_place Transformer TransformerInfo copy copy_with_input_replacements graph_replace",
    "util": "make_list_of_op make_list_of_t get_generating_ops get_consuming_ops ControlOutputs placeholder_name "
    "make_placeholder_from_tensor make_placeholder_from_dtype_and_shape make_const make_placeholder",
}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_in_its_module_and_at_the_top(module: str) -> None:
    home = getattr(ge, module)
    for name in NAMES[module].split():
        assert getattr(home, name) is getattr(ge, name)


def test_short_names() -> None:
    assert (ge.sgv, ge.sgv_scope) == (ge.make_view, ge.make_view_from_scope)
    assert (ge.ph, ge.ops, ge.ts) == (ge.make_placeholder_from_dtype_and_shape, ge.select_ops, ge.select_ts)


def test_all_that_is_promised_is_there() -> None:
    assert all(hasattr(ge, name) for name in ge.__all__)
    assert gds.graph_editor is ge


def test_the_table_names_what_there_is() -> None:
    assert ge.__doc__ is not None
    named = set(re.findall(r"\bgds\.(\w+)", ge.__doc__))
    assert {"reroute", "copy_in", "Subgraph", "NodeMatcher"} <= named
    assert all(hasattr(gds, name) for name in named)


@pytest.mark.parametrize(
    ("error", "kind"), [(ge.Refusal("no", hint="yes"), ValueError), (WrongType("list", "ab"), TypeError)]
)
def test_a_refusal_is_an_error_of_either_kind(error: EditError, kind: type[Exception]) -> None:
    assert isinstance(error, kind) and isinstance(error, EditError)
    assert error.exit_code == 4
    assert str(error) == "\n".join(filter(None, [error.message, error.hint]))


def test_it_is_loaded_when_it_is_first_used_and_needs_no_tensorflow() -> None:
    code = (
        "import sys, gdsurgeon as gds\n"
        "assert not any(name.startswith('gdsurgeon.graph_editor') for name in sys.modules)\n"
        "assert gds.graph_editor.sgv\n"
        "assert not {'tensorflow', 'numpy', 'click'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
