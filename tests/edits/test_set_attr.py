"""set-attr: changed attributes, refused requests, and that a refused request changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import refused
from support.graphs import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT32,
    INT64,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    identity,
    node,
    placeholder,
    typed,
)
from support.paths import FIXTURES

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection


def pool(name: str, source: str, *, steps: Sequence[int] = (1, 1, 1, 1), padding: str = "SAME") -> bytes:
    ones, strides = (b"\x0a\x06\x1a\x04" + bytes(sizes) for sizes in ((1, 1, 1, 1), steps))
    return typed("MaxPool", name, source, ksize=ones, strides=strides, padding=padding, data_format="NHWC")


def pools() -> Graph:
    return graph(placeholder("x"), pool("a", "x"), pool("b", "a"), identity("y", "b"))


def noted(note: str, attr: str, value: str | None, old: Sequence[str], nodes: Sequence[str]) -> None:
    check_error(note, "attr-set", {"attr": attr, "value": value, "old": old, "nodes": nodes})


def test_nodes_of_the_graph_can_be_given() -> None:
    found = pools()
    assert set_attr(found, [found["a"], "a"], [("padding", "VALID")]).intent.changed == ["a"]
    refused(pools(), "other-graph", lambda g: set_attr(g, [found["a"]], [("padding", "VALID")]), found, node="a")


def casts() -> Graph:
    return graph(placeholder("x", FLOAT), node("c", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT), identity("y", "c"),
                 identity("z", "y"), node("d", "Cast", ["z"], SrcT=FLOAT, DstT=FLOAT), const("k", [1]),
                 typed("AddN", "s", "x", "x", N=2), node("u", "MyOp", k=3))  # fmt: skip


def lists() -> Graph:
    return graph(placeholder("x"), placeholder("i", INT32), identity("y", "n:1", kind=INT32),
                 node("n", "IdentityN", ["x", "i"], T=dtypes(FLOAT, INT32)), const("axis", [0], INT32, ()),
                 typed("Split", "s", "axis", "x", num_split=3), add("z", "s", "s:2"))  # fmt: skip


def unlike(node: str, tensor: str, expected: str, found: str) -> dict[str, str]:
    return {"code": "dtype-mismatch", "node": node, "tensor": tensor, "expected": expected, "found": found}


STRIDES = {"op": "MaxPool", "attr": "strides", "expected": "list(int)"}


@pytest.mark.parametrize(
    ("make", "nodes", "values", "code", "facts"),
    [
        (pools, ["a"], [("padding", "SAME")], "nothing-to-do", {}),
        (pools, ["a"], [("strides", "1,x")], "bad-value", STRIDES | {"value": "x"}),
        (pools, ["a"], [("stride", "1")], "no-such-attr", {"node": "a", "attr": "stride", "near": "strides"}),
        (pools, ["a"], [("strides:int", "1")], "wrong-kind", STRIDES | {"found": "int"}),
        (pools, ["a"], [("strides:itn", "1")], "no-such-kind", {"value": "itn"}),
        (pools, ["a"], [("_a", "1")], "unknown-kind", {"op": "MaxPool", "attr": "_a"}),
        (pools, ["a"], [(":int", "1")], "bad-name", {"name": ":int"}),
        (pools, ["a"], [("_class", "loc:@x")], "not-text", {"key": "_class"}),
        (pools, ["a"], [("padding", "VALID"), ("T", "flaot")], "bad-value", {"value": "flaot", "near": "float"}),
        (pools, ["a"], [], "missing-argument", {}),
        (pools, [], [("T", "float32")], "nothing-selected", {}),
        (casts, ["u"], [("j", "1")], "unknown-kind", {"op": "MyOp", "attr": "j"}),
        (casts, ["k"], [("dtype", "float64")], "dtype-mismatch", {"expected": "float64", "found": "float32"}),
        (casts, ["s"], [("N", "-1")], "bad-value", {"node": "s", "attr": "N", "value": -1}),
        (lists, ["n"], [("T", "float32,int64")], "does-not-fit",
         {"misfits": [unlike("n", "i", "int64", "int32"), unlike("y", "n:1", "int32", "int64")]}),
        (lists, ["n"], [("T", "float32")], "does-not-fit",
         {"misfits": [{"code": "wrong-count", "node": "n", "expected": 1, "found": 2},
                      {"code": "no-such-tensor", "node": "y", "tensor": "n:1", "count": 1}]}),
        (lambda: calls(), ["call"], [("f", "h")], "no-such-function", {"function": "h"}),
    ],
)  # fmt: skip
def test_what_is_refused(
    make: Callable[[], Graph], nodes: list[str], values: list[tuple[str, str]], code: str, facts: dict[str, Any]
) -> None:
    error = refused(make(), code, lambda g: set_attr(g, nodes, values), **facts)
    assert ("_a:KIND=VALUE" in (hint_of(error) or "")) == (facts.get("attr") == "_a")
    assert len(error.details) == len(facts.get("misfits", ()))


def test_an_attr_that_the_op_does_not_have() -> None:
    found = pools()
    result = set_attr(found, ["a"], [("_n:int", "5"), ("_s:list(shape)", "[?,3],[]"), ("odd:string", "5")])
    assert graphs.attrs(found, "a")["_n"].i == 5
    assert len(graphs.attrs(found, "a")["_s"].list.shape) == 2
    assert graphs.attrs(found, "a")["odd"].s == b"5"
    (warning,) = result.warnings
    check_error(warning, "no-such-attr", {"op": "MaxPool", "attr": "odd"})
    set_attr(found, ["b"], [("odd:int", "5")])
    assert len(set_attr(found, ["a", "b"], [("odd", "7")]).warnings) == 1
    # Of what is there the kind is known.
    set_attr(found, ["a"], [("_n", "6"), ("odd", "6")])
    assert (graphs.attrs(found, "a")["_n"].i, graphs.attrs(found, "a")["odd"].s) == (6, b"6")


def test_an_op_that_is_not_known() -> None:
    found = graph(node("u", "MyOp", k=3))
    assert set_attr(found, ["u"], [("k", "4"), ("j:bool", "true")]).warnings == []
    assert (graphs.attrs(found, "u")["k"].i, graphs.attrs(found, "u")["j"].b) == (4, True)


def test_what_is_corrupt_can_be_put_right() -> None:
    found = graph(node("a", "Identity", ["x"], T=b"\x30"), placeholder("x"))
    set_attr(found, ["a"], [("T", "float32")])
    assert graphs.attrs(found, "a")["T"].type == 1


# What changes dtypes and numbers of inputs and outputs.


def test_nodes_that_change_together_fit() -> None:
    found = graph(node("u", "MyOp"), identity("x", "u"), identity("y", "x"), identity("z", "y"))
    assert set_attr(found, Selection(ops=("Identity",)), [("T", "float64")]).intent.changed == ["x", "y", "z"]
    edit = partial(set_attr, nodes=["x", "y"], values=[("T", "int32")])
    refused(found.pristine(), "dtype-mismatch", edit, node="z", tensor="y", expected="float32", found="int32")


def test_a_number_of_outputs() -> None:
    found = lists()
    set_attr(found, ["s"], [("num_split", "4")])
    assert graphs.attrs(found, "s")["num_split"].i == 4


def test_a_default_that_comes_back_changes_a_dtype_too() -> None:
    found = graph(placeholder("x"), const("d", [0], INT32, ()),
                  typed("ArgMax", "a", "x", "d", Tidx=INT32, output_type=INT32),
                  identity("y", "a", kind=INT32))  # fmt: skip
    facts = {"node": "y", "tensor": "a", "expected": "int32", "found": "int64"}
    refused(found, "dtype-mismatch", lambda g: set_attr(g, ["a"], remove=["output_type"]), **facts)
    set_attr(found, ["a"], remove=["Tidx"])
    assert "Tidx" not in graphs.attrs(found, "a")


def test_what_did_not_fit_before_does_not_stand_in_the_way() -> None:
    broken = graph(placeholder("x", DOUBLE), identity("y", "x"), identity("z", "y", kind=DOUBLE))
    set_attr(broken, ["y"], [("T", "float64")])
    assert graphs.attrs(broken, "y")["T"].type == 2
    other = graph(placeholder("x", DOUBLE), placeholder("i", INT64), node("g", "GatherV2", ["x", "i", "i"],
                  Tparams=FLOAT, Tindices=INT32, Taxis=INT64), identity("y", "g", kind=BOOL))  # fmt: skip
    set_attr(other, ["g"], [("Tindices", "int64")])


def test_many_faults_are_told_shortly() -> None:
    found = graph(placeholder("x"), *(identity(f"y{i}", "x") for i in range(30)))
    error = refused(found, "does-not-fit", lambda g: set_attr(g, ["x"], [("dtype", "int32")]))
    assert (len(error.facts["misfits"]), len(error.details)) == (30, 11)


# Functions.


def calls() -> Graph:
    body = identity("y", "x")
    library = graphs.library(function("f", body), function("g", body))
    call = node("call", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f", k=3))
    return graph(placeholder("x"), call, trailer=library + graphs.VERSIONS)


def test_a_function_takes_the_place_of_another_and_keeps_what_it_is_called_with() -> None:
    found = calls()
    set_attr(found, ["call"], [("f", "g")])
    value = graphs.attrs(found, "call")["f"].func
    assert (value.name, value.attr["k"].i) == ("g", 3)


# Removing.


def test_removing() -> None:
    found = graph(placeholder("x"), identity("y", "x", _a=1, _b=2), identity("z", "x"))
    result = set_attr(found, Selection(regexes=(".",)), remove=["_a"])
    assert sorted(graphs.attrs(found, "y")) == ["T", "_b"]
    assert result.intent.changed == ["y"]
    noted(result.notes[0], "_a", None, ["1"], ["y"])
    check_error(result.notes[1], "unchanged", {"count": 2})


@pytest.mark.parametrize(
    ("nodes", "values", "key", "code", "facts"),
    [
        (["y"], [], "T", "attr-needed", {"node": "y", "op": "Identity", "attr": "T"}),
        (["y"], [], "_abd", "no-such-attr", {"attr": "_abd", "near": "_abc", "count": 1}),
        (["x", "y"], [], "_z", "no-such-attr", {"attr": "_z", "near": None, "count": 2}),
        (["y"], [("_abc", "2")], "_abc", "given-twice", {"attr": "_abc"}),
    ],
)
def test_removing_what_is_needed_or_not_there(nodes: Any, values: Any, key: str, code: str, facts: Any) -> None:
    found = graph(placeholder("x"), identity("y", "x", _abc=1))
    refused(found, code, lambda g: set_attr(g, nodes, values, remove=[key]), **facts)


def test_removing_colocations() -> None:
    found = graph(placeholder("x"), identity("y", "x", _class=["loc:@x"]), identity("z", "x", _class=["loc:@y"]))
    assert found["y"].colocated == (found["x"],)
    set_attr(found, ["y"], remove=["_class"])
    assert found["y"].colocated == ()
    assert graphs.colocations(found) == {"z": [b"loc:@y"]}
    assert found.colocated_with(found["x"]) == []


# The command line.


@pytest.mark.tensorflow
def test_the_result_runs(desk: Desk) -> None:
    model = str(FIXTURES / "classifier.pb")
    desk.done("set-attr", model, "image", "shape=1,64,64,3", "-o", "out.pb")
    ran = desk.run("set-attr", model, "--op", "Conv2D", "padding=NONE", "-o", "out.pb")
    assert (ran.code, "padding" in ran.err) == (5, True)
