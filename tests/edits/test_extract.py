"""extract: the part of a graph that computes some outputs from some inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.expecting import check_graph, expect, refuse
from support.graph_editor_running import float32, int32, run
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
)
from support.tf_graphs import Builder, Shape, operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.extract import extract
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker

pytestmark = pytest.mark.usefixtures("one_worker")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


def refused(found: Graph, words: str, inputs: Sequence[str], outputs: Sequence[str]) -> EditError:
    """The error of an extraction, after which the graph is as it was."""
    return refuse(found, words, lambda g: extract(g, inputs, outputs))


def model() -> list[bytes]:
    """x -> conv -> relu -> (head, aux); and a part that has nothing to do with it."""
    return [
        placeholder("x", FLOAT, (-1, 2)),
        const("w", [1, 2, 3, 4, 5, 6], FLOAT, (2, 3)),
        node("conv", "MatMul", ["x", "w"], T=FLOAT, transpose_a=False, transpose_b=False),
        node("relu", "Relu", ["conv"], T=FLOAT),
        const("k", [10, 20, 30]),
        node("head", "Mul", ["relu", "k"], T=FLOAT),
        node("aux", "Neg", ["relu"], T=FLOAT),
        placeholder("other", INT32, ()),
        identity("apart", "other", kind=INT32),
    ]


def named(*names: str) -> list[bytes]:
    """The records of model() of those names."""
    by_name = dict(zip(graphs.names(graph_bytes(*model())), model(), strict=True))
    return [by_name[name] for name in names]


# -- cutting at outputs --------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_outputs_alone(worker: Worker) -> None:
    found = graph(*model())
    result = expect(found, lambda g: extract(g, [], ["head"]), named("x", "w", "conv", "relu", "k", "head"))
    assert result.intent.removed == ["aux", "other", "apart"]
    assert result.intent.added == result.notes == []
    assert result.claims == (SameGiven({}, (("head", "head"),), "edited(x) = original(x)"),)
    assert run(worker, found, "head", fed={"x": float32([[1, -1]])}) == [[[0, 0, 0]]]


def test_bytes_of_what_stays_are_copied() -> None:
    found = graph(*model())
    extract(found, [], ["head"])
    assert graphs.written(found) == graph_bytes(*named("x", "w", "conv", "relu", "k", "head"))


def test_several_outputs() -> None:
    found = graph(*model())
    (claim,) = extract(found, [], ["aux", "apart", "aux:0"]).claims
    check_graph(found, *named("x", "w", "conv", "relu", "aux", "other", "apart"))
    assert isinstance(claim, SameGiven)
    assert claim.outputs == (("aux", "aux"), ("apart", "apart"))


def test_an_output_that_is_read_inside_too() -> None:
    found = graph(*model())
    (claim,) = extract(found, [], ["relu", "head"]).claims
    check_graph(found, *named("x", "w", "conv", "relu", "k", "head"))
    assert isinstance(claim, SameGiven)
    assert claim.outputs == (("relu", "relu"), ("head", "head"))


def test_an_inner_tensor_as_the_only_output() -> None:
    expect(model(), lambda g: extract(g, [], ["conv"]), named("x", "w", "conv"))


def test_a_constant_as_output() -> None:
    expect(model(), lambda g: extract(g, [], ["w"]), named("w"))


def test_a_placeholder_as_output() -> None:
    expect(model(), lambda g: extract(g, [], ["x"]), named("x"))


def test_output_1() -> None:
    records = [placeholder("x", FLOAT, (4,)), const("axis", [0], INT32, ()),
               node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2), identity("p", "s")]  # fmt: skip
    found = graph(*records)
    (claim,) = extract(found, [], ["s:1"]).claims
    check_graph(found, *records[:3])
    assert isinstance(claim, SameGiven) and claim.outputs == (("s:1", "s:1"),)


# -- cutting at inputs ---------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_cut_input_becomes_a_placeholder_of_its_name_dtype_and_shape(worker: Worker) -> None:
    found = graph(*model())
    result = expect(
        found, lambda g: extract(g, ["relu"], ["head"]), [placeholder("relu", FLOAT, (-1, 3)), *named("k", "head")]
    )
    assert result.intent.added == ["relu"]
    assert result.intent.removed == ["x", "w", "conv", "aux", "other", "apart"]
    (claim,) = result.claims
    assert claim == SameGiven({"relu": "relu"}, (("head", "head"),), "edited(x) = original(x, relu given)")
    assert run(worker, found, "head", fed={"relu": float32([[1, 2, 3]])}) == [[[10, 40, 90]]]


def test_inputs_may_be_tensors() -> None:
    found = graph(*model())
    expect(
        found,
        lambda g: extract(g, [g.tensor("relu")], [g["head"].output]),
        [placeholder("relu", FLOAT, (-1, 3)), *named("k", "head")],
    )


def test_a_cut_input_stands_where_the_tensor_was_made() -> None:
    found = graph(const("z", [1]), *model(), add("y", "z", "head"))
    extract(found, ["relu"], ["y"])
    assert graphs.names(found) == ["z", "relu", "k", "head", "y"]


def test_an_input_that_is_a_placeholder_stays_as_it_is() -> None:
    found = graph(*model())
    result = extract(found, ["x"], ["head"])
    assert graphs.written(found) == graph_bytes(*named("x", "w", "conv", "relu", "k", "head"))
    assert result.notes == []
    assert result.claims == (SameGiven({}, (("head", "head"),), "edited(x) = original(x)"),)


def test_a_constant_may_become_an_input() -> None:
    expect(
        model(),
        lambda g: extract(g, ["x", "w"], ["conv"]),
        [named("x")[0], placeholder("w", FLOAT, (2, 3)), *named("conv")],
    )


def test_other_placeholders_stay_inputs_and_are_noted() -> None:
    records = [*model(), placeholder("bias", FLOAT, (3,)), add("y", "head", "bias")]
    found = graph(*records)
    result = extract(found, ["relu"], ["y"])
    assert result.notes == ["'bias' stays an input: the outputs depend on it"]
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"), *records[-2:])


def test_an_input_with_a_default_stays_one() -> None:
    records = [const("d", [1, 1, 1]), node("p", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(3,)),
               *model(), add("y", "head", "p")]  # fmt: skip
    expect(
        records,
        lambda g: extract(g, ["relu"], ["y"]),
        [*records[:2], placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"), records[-1]],
    )


def test_the_same_input_twice_is_cut_once() -> None:
    found = graph(*model())
    result = extract(found, ["relu", "relu:0"], ["head"])
    assert result.intent.added == ["relu"]
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"))


def test_an_input_above_another() -> None:
    """The outputs depend on the upper one by way of the lower one alone."""
    refused(graph(*model()), "no output depends on 'conv'", ["conv", "relu"], ["head"])


def test_an_input_beside_another() -> None:
    records = [placeholder("x", FLOAT, (2,)), node("a", "Neg", ["x"], T=FLOAT), node("b", "Abs", ["a"], T=FLOAT),
               add("y", "a", "b")]  # fmt: skip
    expect(
        records,
        lambda g: extract(g, ["a", "b"], ["y"]),
        [placeholder("a", FLOAT, (2,)), placeholder("b", FLOAT, (2,)), records[3]],
    )


def split() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (4,)), const("axis", [0], INT32, ()),
        node("s", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        node("p", "Neg", ["s"], T=FLOAT), node("q", "Sub", ["s:1", "p"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_output_1_is_cut_while_output_0_is_still_needed(worker: Worker) -> None:
    found = graph(*split())
    result = expect(
        found,
        lambda g: extract(g, ["s:1"], ["q"]),
        [*split()[:3], placeholder("s_1", FLOAT, (2,)), split()[3], node("q", "Sub", ["s_1", "p"], T=FLOAT)],
    )
    assert result.intent.added == ["s_1"]
    assert result.notes == ["'x' stays an input: the outputs depend on it"]
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.given == {"s:1": "s_1"}
    fed = {"x": float32([1, 2, 3, 4]), "s_1": float32([10, 20])}
    assert run(worker, found, "q", fed=fed) == [[11, 22]]


def test_output_0_is_cut_while_output_1_is_still_needed() -> None:
    found = graph(*split())
    result = extract(found, ["s:0"], ["q"])
    (added,) = result.intent.added
    assert added != "s"
    check_graph(found, *split()[:3], placeholder(added, FLOAT, (2,)), node("p", "Neg", [added], T=FLOAT), split()[4])


def test_both_outputs_are_cut() -> None:
    found = graph(*split())
    result = extract(found, ["s:1", "s"], ["q"])
    assert sorted(result.intent.added) == ["s", "s_1"]
    assert graphs.inputs(found) == {"s": [], "s_1": [], "p": ["s"], "q": ["s_1", "p"]}
    assert result.intent.removed == ["x", "axis"]


def test_the_name_of_a_new_placeholder_is_taken() -> None:
    found = graph(*split(), placeholder("s_1", FLOAT, (2,)), add("r", "q", "s_1"))
    result = extract(found, ["s:1"], ["r"])
    assert result.intent.added == ["s_1_1"]
    assert graphs.inputs(found)["q"] == ["s_1_1", "p"]
    assert graphs.inputs(found)["r"] == ["q", "s_1"]


def test_the_name_of_a_new_placeholder_is_that_of_a_node_that_goes() -> None:
    found = graph(*split(), identity("s_1", "x"), identity("s_input", "x"))
    result = extract(found, ["s", "s:1"], ["q"])
    assert len(set(result.intent.added)) == 2
    assert sorted(graphs.names(found)) == sorted([*result.intent.added, "p", "q"])
    assert not set(result.intent.removed) & set(graphs.names(found))


def test_a_tensor_as_input_and_output() -> None:
    found = graph(*model())
    (claim,) = extract(found, ["relu"], ["relu", "head"]).claims
    check_graph(found, placeholder("relu", FLOAT, (-1, 3)), *named("k", "head"))
    assert isinstance(claim, SameGiven) and claim.outputs == (("head", "head"),)


@pytest.mark.parametrize("producer", [20, 24])
def test_an_unknown_shape_as_producers_spell_it(producer: int) -> None:
    trailer = graphs.versions(producer)
    records = [placeholder("x", FLOAT, None), identity("a", "x"), node("y", "Neg", ["a"], T=FLOAT)]
    found = graph(*records, trailer=trailer)
    extract(found, ["a"], ["y"])
    assert ("shape" in graphs.attrs(found, "a")) == (producer >= 24)


@pytest.mark.parametrize("kind", [BOOL, INT32, INT64, STRING, graphs.UINT8, graphs.DOUBLE])
def test_the_dtype_of_a_cut_input(kind: bytes) -> None:
    records = [placeholder("x", kind, (2, 1)), identity("a", "x", kind=kind), identity("y", "a", kind=kind)]
    expect(records, lambda g: extract(g, ["a"], ["y"]), [placeholder("a", kind, (2, 1)), records[2]])


def test_a_cut_where_the_dtype_is_unknown_is_refused() -> None:
    found = graph(placeholder("x"), node("u", "MyOp", ["x"]), identity("y", "u"))
    refused(found, r"the type of 'u' \(MyOp\) is not known", ["u"], ["y"])


# -- control edges, colocations, functions ---------------------------------------------------------------------


def test_what_an_output_waits_for_stays() -> None:
    records = [placeholder("x"), placeholder("checked"), node("guard", "NoOp", ["^checked"]),
               identity("y", "x", "^guard"), identity("z", "x")]  # fmt: skip
    result = expect(records, lambda g: extract(g, ["x"], ["y"]), records[:4])
    assert result.notes == ["'checked' stays an input: the outputs depend on it"]


def test_what_waits_for_a_cut_tensor_waits_for_its_node() -> None:
    """The node itself is needed then, and the placeholder gets another name."""
    records = [placeholder("x", FLOAT, (1,)), node("a", "Neg", ["x"], T=FLOAT), node("n", "NoOp", ["^a"]),
               node("y", "Abs", ["a", "^n"], T=FLOAT)]  # fmt: skip
    found = graph(*records)
    result = extract(found, ["a"], ["y"])
    (added,) = result.intent.added
    check_graph(found, *records[:2], placeholder(added, FLOAT, (1,)), records[2],
                 node("y", "Abs", [added, "^n"], T=FLOAT))  # fmt: skip


def test_control_edges_of_a_cut_tensor_go_with_it() -> None:
    records = [placeholder("x", FLOAT, (1,)), node("guard", "NoOp"), node("a", "Neg", ["x", "^guard"], T=FLOAT),
               node("y", "Abs", ["a"], T=FLOAT)]  # fmt: skip
    expect(records, lambda g: extract(g, ["a"], ["y"]), [placeholder("a", FLOAT, (1,)), records[3]])


def test_colocations_with_what_goes_are_dropped() -> None:
    records = [placeholder("x"), identity("a", "x"), identity("y", "x", _class=["loc:@a", "loc:@x"])]
    expect(records, lambda g: extract(g, ["x"], ["y"]), [records[0], identity("y", "x", _class=["loc:@x"])])


def test_colocations_with_a_tensor_that_is_cut() -> None:
    records = [placeholder("x", FLOAT, (1,)), identity("a", "x"), identity("y", "a", _class=["loc:@a"])]
    found = graph(*records)
    extract(found, ["a"], ["y"])
    assert graphs.colocations(found).get("y", [b"loc:@a"]) == [b"loc:@a"]
    assert check(from_bytes(graphs.written(found))).faults == []


def test_functions_that_nobody_calls_any_more_leave() -> None:
    body = node("y", "Neg", ["x"], T=FLOAT)
    kept, unused = graphs.function("Kept", body), graphs.function("Unused", body)
    calls = [node(name, "PartitionedCall", ["x"], f=graphs.func(callee), Tin=graphs.dtypes(FLOAT),
                  Tout=graphs.dtypes(FLOAT)) for name, callee in (("a", "Kept"), ("b", "Unused"))]  # fmt: skip
    trailer = graphs.library(unused, kept, gradients={"Unused": "Kept"}) + graphs.VERSIONS
    found = graph(placeholder("x"), *calls, trailer=trailer)
    result = extract(found, [], ["a"])
    assert result.intent.functions.removed == ["Unused"]
    check_graph(found, placeholder("x"), calls[0], trailer=graphs.library(kept) + graphs.VERSIONS)


# -- initialisers --------------------------------------------------------------------------------------------


def table() -> list[bytes]:
    """Two tables, initialised by nodes on which no output depends."""
    out = [placeholder("key", STRING, (1,)), const("default", [-1], INT32, ())]
    for i, number in enumerate((5, 6)):
        strings = graphs.encode_len(8, b"\x08\x07" + graphs.encode_len(2, graphs.shape_proto([1])) + b"\x42\x01a")
        out += [
            node(f"table_{i}", "HashTableV2", key_dtype=STRING, value_dtype=INT32, shared_name=f"t{i}"),
            node(f"keys_{i}", "Const", dtype=STRING, value=strings),
            const(f"values_{i}", [number], INT32),
            node(f"init_{i}", "InitializeTableV2", [f"table_{i}", f"keys_{i}", f"values_{i}"], Tkey=STRING, Tval=INT32),
            node(f"found_{i}", "LookupTableFindV2", [f"table_{i}", "key", "default"], Tin=STRING, Tout=INT32),
        ]
    return [*out, node("init_all", "NoOp", ["^init_0", "^init_1"])]


@pytest.mark.tensorflow
def test_initialisers_of_the_tables_that_stay_stay(worker: Worker) -> None:
    found = graph(*table())
    result = expect(found, lambda g: extract(g, ["key"], ["found_1"]), [*table()[:2], *table()[7:12]])
    assert "init_0" in result.intent.removed and "init_all" in result.intent.removed
    key = np.array([b"a"], object)
    assert run(worker, found, "found_1", fed={"key": key}, first=["init_1"]) == [[6]]


def test_no_initialiser_stays_without_its_table() -> None:
    found = graph(*table(), identity("y", "found_0", kind=INT32))
    extract(found, ["found_0"], ["y"])
    assert graphs.ops(found) == {"found_0": "Placeholder", "y": "Identity"}


def variable() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (2,)), node("v", "VariableV2", dtype=FLOAT, shape=(2,)),
        const("start", [3, 4]), node("v/assign", "Assign", ["v", "start"], T=FLOAT),
        identity("v/read", "v"), add("y", "x", "v/read"), identity("z", "x"),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_initialisers_of_the_variables_that_stay_stay(worker: Worker) -> None:
    found = graph(*variable())
    expect(found, lambda g: extract(g, [], ["y"]), variable()[:6])
    assert run(worker, found, "y", fed={"x": float32([1, 1])}, first=["v/assign"]) == [[4, 5]]


def resource_variable() -> list[bytes]:
    return [
        placeholder("x", FLOAT, (2,)), node("v", "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name="v"),
        const("start", [3, 4]), node("v/assign", "AssignVariableOp", ["v", "start"], dtype=FLOAT),
        node("v/read", "ReadVariableOp", ["v"], dtype=FLOAT), add("y", "x", "v/read"), identity("z", "x"),
    ]  # fmt: skip


@pytest.mark.tensorflow
def test_initialisers_of_resource_variables_stay(worker: Worker) -> None:
    found = graph(*resource_variable())
    expect(found, lambda g: extract(g, [], ["y"]), resource_variable()[:6])
    assert run(worker, found, "y", fed={"x": float32([1, 1])}, first=["v/assign"]) == [[4, 5]]


@pytest.mark.tensorflow
def test_a_variable_that_is_assigned_by_way_of_an_identity(worker: Worker) -> None:
    """Handles and references pass through Identity nodes, and tables through several."""
    records = table()
    records[5] = node("init_0", "InitializeTableV2", ["same_0", "keys_0", "values_0"], Tkey=STRING, Tval=INT32)
    records.insert(5, identity("same_0", "table_0", kind=graphs.dtype(20)))
    found = graph(*records)
    extract(found, ["key"], ["found_0"])
    assert {"same_0", "init_0", "keys_0", "values_0"} <= set(graphs.names(found))
    assert run(worker, found, "found_0", fed={"key": np.array([b"a"], object)}, first=["init_0"]) == [[5]]


def test_an_initialiser_that_reads_a_cut_tensor_still_reads_it() -> None:
    """What a variable begins with is not what the part is given."""
    records = [placeholder("x", FLOAT, (2,)), node("a", "Neg", ["x"], T=FLOAT),
               node("v", "VariableV2", dtype=FLOAT, shape=(2,)), node("v/assign", "Assign", ["v", "a"], T=FLOAT),
               add("y", "a", "v")]  # fmt: skip
    found = graph(*records)
    extract(found, ["a"], ["y"])
    inputs = graphs.inputs(found)
    assert inputs["v/assign"][0] == "v" and inputs["y"][1] == "v"
    assert check(from_bytes(graphs.written(found))).faults == []


# -- what cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([], [], "no outputs"),
        (["x"], [], "no outputs"),
        (["relu"], ["apart"], "no output depends on 'relu'"),
        (["other"], ["head"], "no output depends on 'other'"),
        (["head"], ["head"], "no output depends on 'head'"),
        (["head"], ["relu"], "no output depends on 'head'"),
        (["rely"], ["head"], "Did you mean 'relu'"),
        (["relu"], ["heat"], "Did you mean 'head'"),
        (["relu:1"], ["head"], "has 1 output"),
        (["^relu"], ["head"], "is not the name of a tensor"),
        ([], ["head:1"], "has 1 output"),
    ],
)
def test_mistakes(inputs: list[str], outputs: list[str], words: str) -> None:
    refused(graph(*model()), words, inputs, outputs)


def test_nothing_to_remove() -> None:
    found = graph(*model()[:3])
    refused(found, "nothing would be removed", ["x"], ["conv"])
    refused(found, "nothing would be removed", [], ["conv"])


@pytest.mark.parametrize("name", ["w/Add", "w/Identity", "w/Switch:1", "w/Merge", "w/Limit", "w/Enter"])
def test_a_cut_inside_a_loop_is_refused(name: str) -> None:
    refused(graph(*graphs.loop()), "inside the while loop 'w'", [name], ["out"])


@pytest.mark.parametrize("name", ["w/Add", "w/Less", "w/Merge"])
def test_an_output_inside_a_loop_is_refused(name: str) -> None:
    refused(graph(*graphs.loop()), "inside the while loop 'w'", [], [name])


@pytest.mark.tensorflow
def test_a_loop_stays_whole(worker: Worker) -> None:
    found = graph(placeholder("u"), *graphs.loop(), identity("v", "u"))
    extract(found, ["n"], ["out"])
    assert graphs.written(found) == graph_bytes(*graphs.loop())
    assert run(worker, found, "out", fed={"n": int32(6)}) == [6]


@pytest.mark.tensorflow
def test_a_cut_in_front_of_a_loop_and_behind_it(worker: Worker) -> None:
    records = graphs.loop()
    records[1:2] = [placeholder("from", INT32, ()), node("zero", "Neg", ["from"], T=INT32)]
    records.append(node("y", "Neg", ["out"], T=INT32))
    found = graph(*records)
    extract(found, ["zero"], ["out"])
    assert run(worker, found, "out", fed={"n": int32(6), "zero": int32(-3)}) == [6]
    found = graph(*records)
    extract(found, ["w/Exit"], ["y"])
    assert graphs.inputs(found) == {"w/Exit": [], "out": ["w/Exit"], "y": ["out"]}


@pytest.mark.tensorflow
@pytest.mark.parametrize("p", [True, False])
@pytest.mark.parametrize("name", ["more", "less"])
def test_a_cut_inside_a_branch(name: str, p: bool, worker: Worker) -> None:
    """A placeholder in the place of a branch's result is there whichever branch is taken: the Merge behind it takes
    one or the other."""
    records = [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), node("s", "Switch", ["x", "p"], T=FLOAT),
        node("more", "Square", ["s:1"], T=FLOAT), node("less", "Abs", ["s"], T=FLOAT),
        node("m", "Merge", ["less", "more"], T=FLOAT, N=2), node("y", "Neg", ["m"], T=FLOAT),
    ]  # fmt: skip
    found = graph(*records)
    try:
        extract(found, [name], ["y"])
    except EditError:
        assert graphs.written(found) == graph_bytes(*records)
        return
    expected = {("more", True): -7, ("more", False): -3, ("less", True): -9, ("less", False): -7}[name, p]
    for _ in range(5):
        fed = {"p": np.bool_(p), "x": np.float32(3), name: np.float32(7)}
        assert run(worker, found, "y", fed=fed) == [expected]


def test_names_that_tensorflow_does_not_take_change_nothing() -> None:
    """With --validate none such a graph gets as far as here."""
    found = graph(placeholder("x"), node("n", "NoOp"), identity("b", "x"), identity("_a", "x"), add("y", "b", "_a"))
    refused(found, "_a", ["b", "_a"], ["y"])


def test_tensors_of_another_graph_are_refused() -> None:
    found, other = graph(*model()), graph(*model())
    for inputs, outputs in (([], [other["head"].output]), ([other["relu"].output], ["head"])):
        with pytest.raises(EditError):
            extract(found, inputs, outputs)
        assert not found.is_changed


# -- big graphs ----------------------------------------------------------------------------------------------


def test_two_long_chains() -> None:
    half = 5_000
    records = [placeholder("x", FLOAT, (1,))]
    for chain in "ab":
        records += [node(f"{chain}{i}", "Neg", [f"{chain}{i - 1}" if i else "x"], T=FLOAT) for i in range(half)]
    found = graph(*records)
    result = extract(found, [f"a{half // 2}"], [f"a{half - 1}"])
    assert len(result.intent.removed) == half + half // 2 + 1
    assert graphs.written(found) == graph_bytes(
        placeholder(f"a{half // 2}", FLOAT, (1,)), *records[2 + half // 2 : 1 + half]
    )


# -- proven --------------------------------------------------------------------------------------------------


def built() -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (-1, 2))
    m.const("w", [[1, 2, 3], [4, 5, 6]])
    m.node("conv", "MatMul", ["x", "w"], T="float32")
    m.node("relu", "Relu", ["conv"], T="float32")
    m.const("k", [10, 20, 30])
    m.node("head", "Mul", ["relu", "k"], T="float32")
    m.node("aux", "Neg", ["relu"], T="float32")
    return m


@pytest.mark.tensorflow
@pytest.mark.parametrize("inputs", [[], ["x"], ["relu"], ["relu", "k"], ["conv"]], ids=",".join)
def test_a_part_is_proven(inputs: list[str], tmp_path: Path) -> None:
    outcome = operated(tmp_path, built(), lambda g: extract(g, inputs, ["head"]))
    assert [o.after for o in outcome.proof.compared] == ["head"]
    assert outcome.proof.samples == 2


@pytest.mark.tensorflow
def test_a_table_lookup_is_proven(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("key", "string", (1,))
    m.const("default", -1, "int64")
    m.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name=b"t")
    m.const("keys", ["a"], "string")
    m.const("values", [7], "int64")
    m.node("init", "InitializeTableV2", ["table", "keys", "values"], Tkey="string", Tval="int64")
    m.node("same", "Identity", ["key"], T="string")
    m.node("found", "LookupTableFindV2", ["table", "same", "default"], Tin="string", Tout="int64")
    m.node("y", "Neg", ["found"], T="int64")
    m.node("z", "Abs", ["found"], T="int64")
    outcome = operated(tmp_path, m, lambda g: extract(g, ["same"], ["y"]))
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("y", "[-7]")]


@pytest.mark.tensorflow
def test_a_cut_input_can_be_fed_by_the_user(tmp_path: Path) -> None:
    feeds = Overrides({"relu": "[[1, 2, 3]]"})
    outcome = operated(tmp_path, built(), lambda g: extract(g, ["relu"], ["head"]), overrides=feeds)
    assert [(o.after, o.value) for o in outcome.proof.compared] == [("head", "[10, 40, 90]")]
    (tmp_path / "out.pb").unlink()
    shapes = Overrides(shapes={"relu": (5, 3)})
    outcome = operated(tmp_path, built(), lambda g: extract(g, ["relu"], ["head"]), overrides=shapes)
    assert outcome.proof.outputs[0].shape == (5, 3)


@pytest.mark.tensorflow
def test_a_cut_input_of_which_nothing_is_known_is_fed_what_the_original_has_there(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (35,))
    m.const("d", [5, 7], "int32")
    m.node("dims", "PlaceholderWithDefault", ["d"], dtype="int32", shape=Shape((2,)))
    m.node("cut", "Reshape", ["x", "dims"], T="float32", Tshape="int32")
    m.const("block", [7], "int32")
    m.const("paddings", [[0, 0]], "int32")
    m.node("r", "SpaceToBatchND", ["cut", "block", "paddings"], T="float32", Tblock_shape="int32", Tpaddings="int32")
    m.node("y", "Neg", ["r"], T="float32")
    edit: Any = lambda g: extract(g, ["cut"], ["y"])  # noqa: E731
    assert operated(tmp_path, m, edit).proof.compared
    (tmp_path / "out.pb").unlink()
    overrides = Overrides(shapes={"cut": (5, 7)})
    assert operated(tmp_path, m, edit, overrides=overrides).proof.compared


@pytest.mark.tensorflow
def test_variables_of_a_part_are_fed_the_same(tmp_path: Path) -> None:
    m = Builder()
    m.placeholder("x", "float32", (1, 2))
    m.node("v", "VariableV2", shape=Shape((2, 3)), dtype="float32", container=b"", shared_name=b"")
    m.node("same", "Identity", ["x"], T="float32")
    m.node("y", "MatMul", ["same", "v"], T="float32")
    m.node("z", "Neg", ["same"], T="float32")
    outcome = operated(tmp_path, m, lambda g: extract(g, ["same"], ["y"]))
    assert [o.after for o in outcome.proof.compared] == ["y"]
    assert outcome.warnings == ["1 variable, whose value is not in the file: run on made-up ones"]


# -- any graph -----------------------------------------------------------------------------------------------


def producers(n: Any) -> list[tuple[str, int]]:
    """What a NodeDef reads, and (index -1) waits for."""
    out = []
    for text in n.input:
        name, _, index = text.lstrip("^").partition(":")
        out.append((name, -1 if text[0] == "^" else int(index or 0)))
    return out


def naive(message: Any, inputs: list[str], outputs: list[str]) -> tuple[set[str], set[tuple[str, int]]]:
    """The nodes that OUTPUTS need when INPUTS are given, and what those read."""

    def parsed(text: str) -> tuple[str, int]:
        name, _, index = text.partition(":")
        return name, int(index or 0)

    by_name = {n.name: n for n in message.node}
    given = {parsed(text) for text in inputs}
    pending = [name for name, index in map(parsed, outputs) if (name, index) not in given]
    kept: set[str] = set()
    read: set[tuple[str, int]] = set()
    while pending:
        name = pending.pop()
        if name in kept:
            continue
        kept.add(name)
        for producer in producers(by_name[name]):
            read.add(producer)
            if producer not in given:
                pending.append(producer[0])
    return kept, read


@st.composite
def extractions(draw: st.DrawFn) -> tuple[graphs.Drawn, list[str], list[str]]:
    drawn = draw(graphs.random_graphs())
    tensors = [f"{n.name}{index}" for n in drawn.message.node if n.op not in ("NoOp", "Custom", "MyCustomOp")
               for index in (("", ":1") if n.op == "Split" else ("",))]  # fmt: skip
    inputs = pick_some(draw, tensors, 2, unique=True)
    return drawn, inputs, pick_some(draw, tensors, 2, least=1, unique=True)


@settings(max_examples=300)
@given(extractions())
def test_any_extraction(case: tuple[graphs.Drawn, list[str], list[str]]) -> None:
    drawn, inputs, outputs = case
    kept, read = naive(drawn.message, inputs, outputs)
    found = from_bytes(drawn.data)
    try:
        result = extract(found, inputs, outputs)
    except EditError:
        assert graphs.written(found) == drawn.data
        unread = any((t.partition(":")[0], int(t.partition(":")[2] or 0)) not in read for t in inputs)
        unknown = any(n.op == "MyCustomOp" for n in drawn.message.node)
        assert unread or unknown or (not inputs and kept == {n.name for n in drawn.message.node})
        return
    (claim,) = [c for c in result.claims if isinstance(c, SameGiven)]
    places = dict(claim.given)
    assert set(places) == set(inputs)
    written = graphs.parsed(found)
    names = {n.name for n in written.node}
    assert names == kept | set(places.values()) and len(names) == len(written.node)
    old = {n.name: n for n in drawn.message.node}
    for new in written.node:
        if new.name in places.values():
            assert new.op == "Placeholder" and not new.input
            continue
        expected = [place_of(text, places) for text in old[new.name].input]
        assert (
            list(new.input)
            == [t for t in expected if t[0] != "^"] + list(dict.fromkeys(t for t in expected if t[0] == "^"))
            or list(new.input) == expected
        )
        entries = list(old[new.name].attr["_class"].list.s) if "_class" in old[new.name].attr else []
        assert set(new.attr["_class"].list.s) <= set(entries)
    assert {t.partition(":")[0] for o in outputs for t in [places.get(o, o)]} <= names
    assert check(from_bytes(graphs.written(found))).faults == []
    assert set(result.intent.removed) == set(old) - names


def place_of(text: str, places: dict[str, str]) -> str:
    return places.get(text, text)
