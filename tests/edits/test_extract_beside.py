"""extract: what comes along with a part, what cannot be cut, and what is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs
from support.expecting import check_graph, expect
from support.extracting import model, refused
from support.graph_editor_running import float32, int32, run
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    Builder,
    add,
    const,
    graph,
    graph_bytes,
    identity,
    node,
    placeholder,
)
from support.operating import operated

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.extract import extract
from gdsurgeon.errors import EditError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.client import Worker

# -- control edges, colocations, functions ---------------------------------------------------------------------


def test_what_an_output_waits_for_stays() -> None:
    records = [placeholder("x"), placeholder("checked"), node("guard", "NoOp", ["^checked"]),
               identity("y", "x", "^guard"), identity("z", "x")]  # fmt: skip
    result = expect(records, lambda g: extract(g, ["x"], ["y"]), records[:4])
    assert result.notes == ["'checked' stays an input: the outputs depend on it"]


def test_what_is_computed_because_somebody_waits_for_it_is_told() -> None:
    records = [placeholder("x"), node("a", "Neg", ["x"], T=FLOAT), node("b", "Abs", ["a"], T=FLOAT),
               node("k", "NoOp", ["^b"]), identity("y", "x", "^k"), identity("z", "x")]  # fmt: skip
    result = expect(records, lambda g: extract(g, [], ["y"]), records[:5])
    assert result.notes == ["2 nodes (a, b) stay only because somebody waits for them: 'y' for 'k'"]


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


@pytest.mark.parametrize("name", ["more", "s", "s:1"])
def test_an_output_in_a_branch_that_may_not_be_taken_is_refused(name: str) -> None:
    found = graph(
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), node("s", "Switch", ["x", "p"], T=FLOAT),
        node("more", "Square", ["s:1"], T=FLOAT), node("m", "Merge", ["s", "more"], T=FLOAT, N=2),
    )  # fmt: skip
    refused(found, f"'{name}' lies in a branch of a conditional that may not be taken", [], [name])


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
    m.node("table", "HashTableV2", key_dtype="string", value_dtype="int64", shared_name="t")
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
    m.node("dims", "PlaceholderWithDefault", ["d"], dtype="int32", shape=(2,))
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
    m.node("v", "VariableV2", shape=(2, 3), dtype="float32", container="", shared_name="")
    m.node("same", "Identity", ["x"], T="float32")
    m.node("y", "MatMul", ["same", "v"], T="float32")
    m.node("z", "Neg", ["same"], T="float32")
    outcome = operated(tmp_path, m, lambda g: extract(g, ["same"], ["y"]))
    assert [o.after for o in outcome.proof.compared] == ["y"]
    assert outcome.warnings == ["1 variable, whose value is not in the file: run on made-up ones"]
