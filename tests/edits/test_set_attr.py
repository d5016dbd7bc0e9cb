"""set-attr: what is set, what is refused, and that nothing is set where anything is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support import graphs
from support.expecting import expect, refuse
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
)
from support.paths import FIXTURES

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.cli.main import exit_code
from gdsurgeon.edits.claims import Unchanged
from gdsurgeon.edits.set_attr import set_attr
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.select import Selection


def pool(name: str, source: str, *, steps: Sequence[int] = (1, 1, 1, 1), padding: str = "SAME") -> bytes:
    ones, strides = (b"\x0a\x06\x1a\x04" + bytes(sizes) for sizes in ((1, 1, 1, 1), steps))
    return node(name, "MaxPool", [source], T=FLOAT, ksize=ones, strides=strides, padding=padding, data_format="NHWC")


def pools() -> Graph:
    return graph(placeholder("x"), pool("a", "x"), pool("b", "a"), identity("y", "b"))


def refused(
    found: Graph, words: str, nodes: Sequence[str], *values: tuple[str, str], remove: Sequence[str] = ()
) -> EditError:
    return refuse(found, words, lambda g: set_attr(g, nodes, values, remove=remove))


def test_a_value_is_of_the_kind_that_the_op_says() -> None:
    found = pools()
    result = expect(
        found,
        lambda g: set_attr(g, ["a"], [("strides", "1,2,2,1"), ("padding", "VALID")]),
        [placeholder("x"), pool("a", "x", steps=(1, 2, 2, 1), padding="VALID"), pool("b", "a"), identity("y", "b")],
        command="set-attr a strides=1,2,2,1 padding=VALID",
    )
    assert list(graphs.attrs(found, "a")["strides"].list.i) == [1, 2, 2, 1]
    assert graphs.attrs(found, "a")["padding"].s == b"VALID"
    assert list(graphs.attrs(found, "b")["strides"].list.i) == [1, 1, 1, 1]
    assert (result.intent.changed, result.claims, result.warnings) == (["a"], (Unchanged(),), [])
    assert result.notes == ["strides = [1,2,2,1] (was [1,1,1,1]): 'a'", "padding = 'VALID' (was 'SAME'): 'a'"]


def test_only_what_is_set_is_written_anew() -> None:
    found = pools()
    before = graphs.bodies_by_name(found)
    set_attr(found, ["a"], [("padding", "VALID")])
    after = graphs.bodies_by_name(found)
    assert [name for name in after if after[name] != before[name]] == ["a"]
    assert after["a"] == before["a"].replace(b"SAME", b"VALID").replace(
        b"\x2a\x11\x0a\x07padding\x12\x06\x12\x04", b"\x2a\x12\x0a\x07padding\x12\x07\x12\x05"
    )


def test_a_selection_and_what_is_so_already() -> None:
    found = pools()
    set_attr(found, ["a"], [("padding", "VALID")])
    result = set_attr(found, Selection(ops=("MaxPool",)), [("padding", "VALID")])
    assert result.intent.changed == ["b"]
    assert result.notes == ["padding = 'VALID' (was 'SAME'): 'b'", "1 of the 2 nodes stay as they were"]
    assert set_attr(found, Selection(ops=("MaxPool",)), [("ksize", "1,3,3,1")]).notes == [
        "ksize = [1,3,3,1] (was [1,1,1,1]): 2 nodes"
    ]


def test_nodes_of_the_graph_can_be_given() -> None:
    found = pools()
    assert set_attr(found, [found["a"], "a"], [("padding", "VALID")]).intent.changed == ["a"]
    with pytest.raises(EditError, match="'a' belongs to another graph"):
        set_attr(pools(), [found["a"]], [("padding", "VALID")])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([("padding", "SAME")], "nothing would change: 'a' has padding=SAME already"),
        ([("strides", "1,x")], r"attr 'strides' of MaxPool is of kind list\(int\): 'x' is not an int"),
        ([("stride", "1")], r"MaxPool \(node 'a'\) has no attr 'stride'. Did you mean 'strides'\?"),
        ([("strides:int", "1")], r"attr 'strides' of MaxPool is of kind list\(int\), not int"),
        ([("strides:itn", "1")], "'itn' is not a kind of attr"),
        ([("_a", "1")], "the kind of attr '_a' of MaxPool is not known"),
        ([(":int", "1")], "is not the name of an attr"),
        ([("_class", "loc:@x")], "'_class' holds colocations"),
        ([("padding", "VALID"), ("padding", "SAME")], "attr 'padding' is given more than once"),
        ([("padding", "VALID"), ("T", "flaot")], r"Did you mean 'float'\?"),
        ([], "no attr is given"),
    ],
)
def test_refusals(values: list[tuple[str, str]], words: str) -> None:
    refused(pools(), words, ["a"], *values)


def test_no_such_node() -> None:
    refused(pools(), r"model\.pb has no node 'nope'", ["nope"], ("T", "float32"))
    refused(pools(), "Did you mean 'a'", ["A"], ("T", "float32"))
    refused(pools(), "no nodes are given", [], ("T", "float32"))


def test_an_attr_that_the_op_does_not_have() -> None:
    found = pools()
    error = refused(found, "the kind of attr '_n' of MaxPool is not known", ["a"], ("_n", "5"))
    assert hint_of(error) is not None and "_n:KIND=VALUE" in hint_of(error)
    result = set_attr(found, ["a"], [("_n:int", "5"), ("_s:list(shape)", "[?,3],[]"), ("odd:string", "5")])
    assert graphs.attrs(found, "a")["_n"].i == 5
    assert len(graphs.attrs(found, "a")["_s"].list.shape) == 2
    assert graphs.attrs(found, "a")["odd"].s == b"5"
    assert result.warnings == ["MaxPool has no attr 'odd'"]
    # Of what is there the kind is known.
    set_attr(found, ["a"], [("_n", "6"), ("odd", "6")])
    assert (graphs.attrs(found, "a")["_n"].i, graphs.attrs(found, "a")["odd"].s) == (6, b"6")


def test_an_op_that_is_not_known() -> None:
    found = graph(node("u", "MyOp", k=3))
    refused(found, "the kind of attr 'j' of MyOp is not known", ["u"], ("j", "1"))
    assert set_attr(found, ["u"], [("k", "4"), ("j:bool", "true")]).warnings == []
    assert (graphs.attrs(found, "u")["k"].i, graphs.attrs(found, "u")["j"].b) == (4, True)


def test_a_tensor_is_not_written_as_text() -> None:
    refused(graph(const("c", [1])), "attr 'value' of Const is of kind tensor", ["c"], ("value", "1"))


def test_what_is_corrupt_can_be_put_right() -> None:
    found = graph(node("a", "Identity", ["x"], T=b"\x30"), placeholder("x"))
    set_attr(found, ["a"], [("T", "float32")])
    assert graphs.attrs(found, "a")["T"].type == 1


# What changes dtypes and numbers of inputs and outputs.


def test_a_dtype_that_readers_do_not_take_names_the_reader() -> None:
    found = graph(placeholder("x"), identity("y", "x"))
    refused(found, r"'x' \(Placeholder\) would be float64, and 'y' \(Identity\) reads it as float32", ["x"],
            ("dtype", "float64"))  # fmt: skip


def test_a_chain_changes_its_type_as_one() -> None:
    chain = graph(placeholder("x", FLOAT), node("c", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT), identity("y", "c"),
                  identity("z", "y"), node("d", "Cast", ["z"], SrcT=FLOAT, DstT=FLOAT))  # fmt: skip
    refused(chain, r"'c' \(Cast\) would be float64, and 'y'", ["c"], ("DstT", "float64"))
    error = refused(chain, "would not fit together in 2 places", ["y", "z"], ("T", "float64"))
    assert error.details == (
        "'y' (Identity) would take float64 as input 0, and 'c' gives float32",
        "'z' (Identity) would be float64, and 'd' (Cast) reads it as float32",
    )
    refused(chain, r"Cast \(node 'c'\) has no attr 'T'", ["c", "y", "z"], ("T", "float64"))


def test_nodes_that_change_together_fit() -> None:
    found = graph(node("u", "MyOp"), identity("x", "u"), identity("y", "x"), identity("z", "y"))
    assert set_attr(found, Selection(ops=("Identity",)), [("T", "float64")]).intent.changed == ["x", "y", "z"]
    refused(found.pristine(), "'y' .* would be int32, and 'z' .* reads it as float32", ["x", "y"], ("T", "int32"))


def test_a_number_of_inputs() -> None:
    found = graph(placeholder("x"), node("s", "AddN", ["x", "x"], N=2, T=FLOAT))
    refused(found, r"'s' \(AddN\) would take 3 inputs, and has 2", ["s"], ("N", "3"))
    refused(found, "attr 'N' of 's' is a number of tensors, and -1 is negative", ["s"], ("N", "-1"))
    refused(found, "would take 1,000,000,000,000 inputs", ["s"], ("N", "1000000000000"))


def test_a_list_of_types() -> None:
    found = graph(placeholder("x"), placeholder("i", INT32), node("n", "IdentityN", ["x", "i"], T=dtypes(FLOAT, INT32)),
                  identity("y", "n:1", kind=INT32))  # fmt: skip
    refused(found, "would not fit together in 2 places", ["n"], ("T", "float32"))
    refused(found, "would not fit together in 2 places", ["n"], ("T", "float32,int64"))
    refused(found, "nothing would change", ["n"], ("T", "float32,int32"))


def test_a_number_of_outputs() -> None:
    found = graph(const("axis", [0], INT32, ()), placeholder("x"),
                  node("s", "Split", ["axis", "x"], T=FLOAT, num_split=3), add("y", "s", "s:2"))  # fmt: skip
    refused(found, r"'s' \(Split\) would have 2 outputs, and 'y' reads 's:2'", ["s"], ("num_split", "2"))
    set_attr(found, ["s"], [("num_split", "4")])
    assert graphs.attrs(found, "s")["num_split"].i == 4


def test_a_default_that_comes_back_changes_a_dtype_too() -> None:
    found = graph(placeholder("x"), const("d", [0], INT32, ()),
                  node("a", "ArgMax", ["x", "d"], T=FLOAT, Tidx=INT32, output_type=INT32),
                  identity("y", "a", kind=INT32))  # fmt: skip
    before = graphs.written(found)
    with pytest.raises(EditError, match=r"'a' .* would be int64, and 'y' .* reads it as int32"):
        set_attr(found, ["a"], remove=["output_type"])
    assert graphs.written(found) == before
    set_attr(found, ["a"], remove=["Tidx"])
    assert "Tidx" not in graphs.attrs(found, "a")


def test_a_constant_keeps_the_dtype_of_its_tensor() -> None:
    found = graph(const("c", [1]), identity("y", "c"))
    refused(found, "the tensor of 'c' is float32, and would not become float64", ["c"], ("dtype", "float64"))


def test_what_did_not_fit_before_does_not_stand_in_the_way() -> None:
    broken = graph(placeholder("x", DOUBLE), identity("y", "x"), identity("z", "y", kind=DOUBLE))
    set_attr(broken, ["y"], [("T", "float64")])
    assert graphs.attrs(broken, "y")["T"].type == 2
    other = graph(placeholder("x", DOUBLE), placeholder("i", INT64), node("g", "GatherV2", ["x", "i", "i"],
                  Tparams=FLOAT, Tindices=INT32, Taxis=INT64), identity("y", "g", kind=BOOL))  # fmt: skip
    set_attr(other, ["g"], [("Tindices", "int64")])


def test_many_faults_are_told_shortly() -> None:
    found = graph(placeholder("x"), *(identity(f"y{i}", "x") for i in range(30)))
    error = refused(found, "would not fit together in 30 places", ["x"], ("dtype", "int32"))
    assert len(error.details) == 11
    assert error.details[-1] == "and 20 more"


# Functions.


def calls() -> Graph:
    body = node("y", "Identity", ["x"], T=FLOAT)
    library = graphs.library(function("f", body), function("g", body))
    call = node("call", "PartitionedCall", ["x"], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f", k=3))
    return graph(placeholder("x"), call, trailer=library + graphs.VERSIONS)


def test_a_function_takes_the_place_of_another_and_keeps_what_it_is_called_with() -> None:
    found = calls()
    set_attr(found, ["call"], [("f", "g")])
    value = graphs.attrs(found, "call")["f"].func
    assert (value.name, value.attr["k"].i) == ("g", 3)


def test_a_function_must_be_there() -> None:
    refused(calls(), r"model.pb has no function 'h' \(2\)", ["call"], ("f", "h"))
    refused(calls(), "nothing would change", ["call"], ("f", "f"))


# Removing.


def test_removing() -> None:
    found = graph(placeholder("x"), identity("y", "x", _a=1, _b=2), identity("z", "x"))
    result = set_attr(found, Selection(regexes=(".",)), remove=["_a"])
    assert sorted(graphs.attrs(found, "y")) == ["T", "_b"]
    assert result.intent.changed == ["y"]
    assert result.notes == ["_a removed (was 1): 'y'", "2 of the 3 nodes stay as they were"]


def test_many_nodes_are_noted_in_a_line() -> None:
    found = graph(placeholder("x"), *(identity(f"y{i}", "x", _a=i) for i in range(9)), identity("z", "x"))
    result = set_attr(found, Selection(ops=("Identity",)), [("_b:bool", "true")], remove=["_a"])
    assert result.notes == ["_b = true: 10 nodes", "_a removed (was 9 different values): 9 nodes"]
    result = set_attr(found, ["y0"], [(f"_{i}:int", "1") for i in range(20)])
    assert result.notes[-1] == "and 12 other changes" and len(result.notes) == 9


def test_removing_what_is_needed_or_not_there() -> None:
    found = graph(placeholder("x"), identity("y", "x", _abc=1))
    refused(found, r"Identity \(node 'y'\) needs its attr 'T'", ["y"], remove=["T"])
    refused(found, r"node 'y' has no attr '_abd'. Did you mean '_abc'\?", ["y"], remove=["_abd"])
    refused(found, "none of the 2 nodes has an attr '_z'", ["x", "y"], remove=["_z"])
    refused(found, "given more than once", ["y"], ("_abc", "2"), remove=["_abc"])


def test_removing_colocations() -> None:
    found = graph(placeholder("x"), identity("y", "x", _class=["loc:@x"]), identity("z", "x", _class=["loc:@y"]))
    assert found["y"].colocated == (found["x"],)
    set_attr(found, ["y"], remove=["_class"])
    assert found["y"].colocated == ()
    assert graphs.colocations(found) == {"z": [b"loc:@y"]}
    assert found.colocated_with(found["x"]) == []


# The command line.


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = exit_code(["set-attr", *arguments])
    return code, capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(FIXTURES / "classifier.pb"), str(tmp_path / "out.pb")
    tail = ["-o", out, "--validate", "structure"]
    code, said = run(capsys, model, "image", "shape=1,64,64,3", *tail)
    assert (code, "float32 [?,64,64,3]  ->  float32 [1,64,64,3]" in said) == (0, True)
    code, said = run(capsys, model, "--op", "Conv2D", "--exclude", "expand", "_note:string=a=b", *tail)
    assert (code, "_note = 'a=b'" in said) == (0, True)
    code, said = run(capsys, model, "--op", "Conv2D", "--remove", "dilations", *tail)
    assert (code, "dilations removed (was [1,1,1,1]): 19 nodes" in said) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "nothing to set"),
        (["image"], 2, "nothing to set"),
        (["shape=[]"], 2, "no nodes are selected"),
        (["image", "=[]"], 2, "is not a pair KEY=VALUE"),
        (["imag", "shape=[]"], 4, "Did you mean 'image'?"),
        (["image", "shape=x"], 4, "'x' is not a shape"),
        (["image", "_class=loc:@x"], 4, "--remove _class"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], code: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.pb"
    done, said = run(capsys, str(FIXTURES / "classifier.pb"), *arguments, "-o", str(out), "--validate", "structure")
    assert (done, words in said, out.exists()) == (code, True, False), said


@pytest.mark.tensorflow
def test_the_result_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pb"
    assert run(capsys, str(FIXTURES / "classifier.pb"), "image", "shape=1,64,64,3", "-o", str(out))[0] == 0
    code, said = run(capsys, str(FIXTURES / "classifier.pb"), "--op", "Conv2D", "padding=NONE", "-o", str(out))
    assert (code, "padding" in said) == (5, True)
