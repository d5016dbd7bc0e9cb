"""The functions of a graph, and functions as graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.expecting import refused
from support.graphs import (
    FLOAT,
    Builder,
    add,
    call,
    const,
    define,
    func,
    function,
    identity,
    library,
    neg,
    node,
    placeholder,
    typed,
)
from support.system import is_linear

from gdsurgeon.edits.functions import plan_function_merge
from gdsurgeon.errors import InputError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.functions import FunctionLibrary, called_functions
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.fields import encode_len, fields
from gdsurgeon.wire.protos import FunctionDef, GradientDef
from gdsurgeon.wire.source import BytesSource

BODY = node("y", "Identity", ["x"], T=FLOAT)
OTHER = node("y", "Neg", ["x"], T=FLOAT)


def calling(name: str, callee: str) -> object:
    return function(name, node("y", "PartitionedCall", ["x"], f=func(callee)), ret="y:output:0")


def with_library(*fields: bytes) -> Graph:
    return Graph(BytesSource(const("c", [1]) + b"".join(fields)))


def names(found: FunctionLibrary) -> list[str]:
    return [f.signature.name for f in found]


def deep_library() -> bytes:
    value = func("f")
    for _ in range(200):
        value = func("f", k=value)
    deep = encode_len(3, encode_len(1, b"n") + encode_len(5, encode_len(1, b"k") + encode_len(2, value)))
    return encode_len(2, encode_len(1, deep))


@pytest.mark.parametrize(("field", "code"), [(encode_len(2, b"\x0a\x05ab"), "corrupt"), (deep_library(), "too-deep")])
def test_a_library_that_cannot_be_read_is_refused(field: bytes, code: str) -> None:
    refused(with_library(field), code, lambda found: len(found.functions), error=InputError)


def test_called_functions() -> None:
    found = with_library(library(function("A", BODY), function("B", BODY))).functions
    (record,) = graphs.proto(node("n", "A", ["x"], f=func("B", g=func("C")))).node
    assert sorted(called_functions(record, found)) == ["A", "B", "C"]


# Merging.


def merged(
    ours: list[object],
    theirs: list[object],
    our_gradients: dict[str, str] | None = None,
    their_gradients: dict[str, str] | None = None,
) -> tuple[dict[str, str], Graph]:
    graph_ = with_library(library(*ours, gradients=our_gradients))
    other = with_library(library(*theirs, gradients=their_gradients))
    plan = plan_function_merge(graph_.functions, other.functions)
    plan.apply(graph_.functions)
    return plan.renamed, graph_


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([function("A", BODY)], [function("A", BODY)], {}),
        # A new name avoids those of the other library.
        ([function("A", BODY)], [function("A", OTHER), function("A_1", OTHER)], {"A": "A_2"}),
        # Callers of callers are also unequal.
        (
            [function("C", BODY), calling("B", "C"), calling("A", "B"), calling("D", "E"), function("E", BODY)],
            [calling("A", "B"), calling("B", "C"), function("C", OTHER), calling("D", "E"), function("E", BODY)],
            {"A": "A_1", "B": "B_1", "C": "C_1"},
        ),
        # Callers that call each other end.
        ([calling("A", "B"), calling("B", "A")], [calling("A", "B"), function("B", OTHER)], {"A": "A_1", "B": "B_1"}),
    ],
)
def test_functions_that_are_unequal_are_renamed(
    ours: list[object], theirs: list[object], expected: dict[str, str]
) -> None:
    renamed, graph_ = merged(ours, theirs)
    assert renamed == expected
    assert graph_.is_changed == bool(expected)


def test_unequal_functions_get_a_new_name() -> None:
    renamed, graph_ = merged([function("A", BODY), function("A_1", BODY)], [function("A", OTHER), function("B", BODY)])
    assert renamed == {"A": "A_2"}
    found = graphs.parsed(graph_).library.function
    assert [(f.signature.name, f.node_def[0].op) for f in found] == [
        ("A", "Identity"), ("A_1", "Identity"), ("A_2", "Neg"), ("B", "Identity"),
    ]  # fmt: skip


# Replacing and removing.


def gradient(name: str, function_of: str) -> Any:
    return GradientDef(function_name=name, gradient_func=function_of)


def library_bodies(what: Graph | bytes) -> list[list[bytes]]:
    """The FunctionDefs of each library field as they are encoded; found by protobuf and not by the code under test."""
    data = graphs.written(what)
    out = []
    for field in fields(data, 0, len(data)):
        if field.number == 2:
            found = graphs.bodies(data[field.value : field.end])
            out.append(found)
    return out


TWO_FIELDS = [
    library(function("A", BODY), function("B", BODY), gradients={"A": "B"}),
    library(function("C", BODY), function("D", BODY), gradients={"C": "D", "D": "A"}),
]


@pytest.mark.parametrize(
    ("names_", "functions", "pairs"),
    [
        (["A"], "BCD", [("C", "D")]),
        (["B"], "ACD", [("C", "D"), ("D", "A")]),
        (["C"], "ABD", [("A", "B"), ("D", "A")]),
        (["A", "C"], "BD", []),
        (["A", "B"], "CD", [("C", "D")]),
        (["C", "D"], "AB", [("A", "B")]),
        (["A", "B", "C", "D"], "", []),
        ([], "ABCD", [("A", "B"), ("C", "D"), ("D", "A")]),
        (["Z"], "ABCD", [("A", "B"), ("C", "D"), ("D", "A")]),
    ],
)
def test_removed_functions_go_with_their_gradients(
    names_: list[str], functions: str, pairs: list[tuple[str, str]]
) -> None:
    found = with_library(*TWO_FIELDS)
    old = {f.signature.name: body for field in TWO_FIELDS for body, f in named_bodies(field)}
    found.functions.remove(names_)
    assert names(found.functions) == list(functions)
    assert [(g.function_name, g.gradient_func) for g in found.functions.gradients()] == pairs
    parsed = graphs.parsed(found)
    assert [f.signature.name for f in parsed.library.function] == list(functions)
    assert [(g.function_name, g.gradient_func) for g in graphs.parsed(found).library.gradient] == pairs
    assert [b for field in library_bodies(found) for b in field] == [old[name] for name in functions]
    assert [n.name for n in parsed.node] == ["c"]
    assert functions or graphs.written(found) == const("c", [1])  # a library that is emptied goes
    assert all(name not in found.functions and found.functions.get(name) is None for name in names_)


def named_bodies(field: bytes) -> list[tuple[bytes, Any]]:
    (bodies,) = library_bodies(field)
    return [(body, FunctionDef.FromString(body)) for body in bodies]


def test_what_was_added_can_be_replaced_and_removed() -> None:
    found = with_library()
    found.functions.add(function("A", BODY))
    found.functions.add_gradient(gradient("A", "A"))
    found.functions.replace(function("A", OTHER))
    assert [f.node_def[0].op for f in graphs.parsed(found).library.function] == ["Neg"]
    found.functions.remove(["A"])
    assert graphs.written(found) == const("c", [1])
    assert found.functions.gradients() == []


def test_many_functions_are_removed_in_linear_time() -> None:
    def removal(count: int) -> Callable[[], object]:
        found = with_library(library(*(function(f"F{i}", BODY) for i in range(count))))
        _ = len(found.functions)
        return lambda: (found.functions.remove([f"F{i}" for i in range(count - 1)]), graphs.written(found))

    assert is_linear(removal, 200, 1600)


def test_many_library_fields_are_written_in_linear_time() -> None:
    def writing(count: int) -> Callable[[], object]:
        found = with_library(*(library(function(f"F{i}", BODY)) for i in range(count)))
        found.functions.remove(["F3"])
        return lambda: graphs.written(found)

    assert is_linear(writing, 50, 400)


# Random changes, against the same changes made to a message.

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "replace", "remove", "add_gradient"]),
        st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=3, unique=True),
        st.sampled_from([BODY, OTHER]),
    ),
    max_size=8,
)


@st.composite
def library_fields(draw: st.DrawFn) -> list[bytes]:
    """Up to three library fields with functions of different names, and gradients."""
    chosen = pick_some(draw, "ABCDEF", unique=True)
    out: list[bytes] = []
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(0, len(chosen)))
        here, chosen = chosen[:size], chosen[size:]
        pairs = draw(st.dictionaries(st.sampled_from("ABCDEF"), st.sampled_from("ABCDEF"), max_size=2))
        out.append(library(*(function(name, BODY) for name in here), gradients=pairs))
    return out


@given(library_fields(), STEPS)
def test_any_changes(data: list[bytes], steps: list[tuple[str, list[str], bytes]]) -> None:
    found = with_library(*data)
    model = graphs.parsed(found).library
    untouched = {f.signature.name: body for field in data for body, f in named_bodies(field)}
    in_file = list(untouched)
    for what, chosen, body in steps:
        name = chosen[0]
        here = [f.signature.name for f in model.function]
        if what == "remove":
            found.functions.remove(chosen)
            kept = [f for f in model.function if f.signature.name not in chosen]
            pairs = [g for g in model.gradient if g.function_name not in chosen and g.gradient_func not in chosen]
            model = type(model)(function=kept, gradient=pairs)
            for gone in chosen:
                untouched.pop(gone, None)
        elif what == "add_gradient":
            found.functions.add_gradient(gradient(name, chosen[-1]))
            model.gradient.add(function_name=name, gradient_func=chosen[-1])
        elif what == "add" and name not in here:
            found.functions.add(function(name, body))
            model.function.append(function(name, body))
        elif what == "replace" and name in here:
            found.functions.replace(function(name, body))
            model.function[here.index(name)].CopyFrom(function(name, body))
            untouched.pop(name, None)
    assert list(found.functions) == list(model.function)
    assert found.functions.gradients() == list(model.gradient)
    written = graphs.written(found)
    parsed = graphs.parsed(written)
    assert parsed.library == model
    assert [n.name for n in parsed.node] == ["c"]
    bodies = {FunctionDef.FromString(b).signature.name: b
              for field in library_bodies(written) for b in field}  # fmt: skip
    assert all(bodies[name] == body for name, body in untouched.items())
    assert set(untouched) <= set(in_file)
    if not found.is_changed:
        assert written == found.source.read(0, found.source.size)
    again = Graph(BytesSource(written))
    assert graphs.written(again) == written
    assert names(again.functions) == [f.signature.name for f in model.function]


def model() -> Graph:
    """``y = twice(x)`` with ``twice(a) = (a + a) / 1``, by two nodes and a constant."""
    body = (add("add", "a", "a"), identity("sum", "add:z:0", "^add"), typed("Unpack", "parts", "a", num=2, axis=0),
            neg("second", "parts:output:1"))  # fmt: skip
    twice = define("twice", {"a": FLOAT}, {"sum": (FLOAT, "sum:output:0")}, *body)
    records = [placeholder("x", shape=(2,)), call("y", "twice", ["x"], [FLOAT], [FLOAT]), library(twice)]
    return Builder(*records, producer=0).graph("model.pb")


def test_a_body_that_was_not_touched_gives_the_function_back() -> None:
    found = model()
    body = Body(found, "twice")
    assert not body.graph.is_edited
    assert body.function_def() == found.functions.get("twice")


def test_what_a_function_returns_can_be_rerouted() -> None:
    found = model()
    body = Body(found, "twice")
    body.graph.set_inputs(body.results[0], [body.graph["second"].output])
    body.commit()
    assert dict(found.functions.get("twice").ret) == {"sum": "second:y:0"}


def test_nodes_of_a_body_that_are_colocated_with_a_renamed_node() -> None:
    records = neg("n", "a"), typed("Abs", "o", "a", _class=["loc:@n"])
    body = Body(Builder(library(define("f", {"a": FLOAT}, {"r": (FLOAT, "o:y:0")}, *records))).graph(), "f")
    body.graph.rename({body.graph["n"]: "m"})
    assert [list(node.attr["_class"].list.s) for node in body.function_def().node_def] == [[], [b"loc:@m"]]


@pytest.mark.parametrize(
    ("edit", "code", "name"),
    [
        (lambda body: body.graph.set_device(body.arguments[0], "/cpu:0"), "is-input", "a"),
        (lambda body: body.graph.set_device(body.results[0], "/cpu:0"), "is-output", "sum_1"),
        # A function has no place for what a result waits for: it would be lost without a word.
        (lambda body: body.graph.set_controls(body.results[0], [body.graph["add"]]), "is-output", "sum_1"),
        (lambda body: body.graph.set_op(body.graph["second"], "Placeholder"), "placeholder-in-function", "second"),
    ],
)
def test_the_ends_of_a_body_can_be_renamed_and_no_more(edit: Any, code: str, name: str) -> None:
    found = model()
    body = Body(found, "twice")
    edit(body)
    refused(found, code, lambda _: body.commit(), node=name, function="twice")


def test_the_body_and_its_library_are_a_whole_graph() -> None:
    found = model()
    b = Body(found, "twice").graph
    again = from_bytes(
        b"".join(c if isinstance(c, bytes) else c.source.read(c.start, c.end - c.start) for c in b.chunks())
    )
    assert [f.signature.name for f in again.functions] == ["twice"]
    assert list(again.names()) == list(b.names())


def test_a_function_that_is_not_there() -> None:
    refused(model(), "no-such-function", lambda found: Body(found, "twise"), function="twise", near="twice")


@pytest.mark.parametrize("attr", ["T", "N"])
def test_arguments_that_a_call_decides_are_told(attr: str) -> None:
    """Also where it may do so by default, which would then be so for every call."""
    f = define("any", {"a": FLOAT}, {})
    if attr == "T":
        f.signature.attr.add(name="T", type="type")
        f.signature.input_arg[0].type = 0
        f.signature.input_arg[0].type_attr = "T"
    else:
        f.signature.attr.add(name="N", type="int").default_value.i = 2
        f.signature.input_arg[0].number_attr = "N"
    refused(Builder(library(f)).graph(), "depends-on-call", lambda found: Body(found, "any"), function="any", attr=attr)
