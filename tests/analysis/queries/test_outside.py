"""Ops of a graph that reach outside, random ops, and faults that loaders report and `repair` fixes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import loaders
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    VERSIONS,
    call,
    define,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    node,
    placeholder,
    tensor,
)
from support.meta_graphs import meta_graph, put, read, saved_model
from support.paths import FIXTURES
from support.reaching import CONNECTING, PLACEHOLDER_W, REACHING, SECRET, calls, text, writer, yes
from support.shipped import Shipped

from gdsurgeon.analysis.queries.effects import MOST_CALLS, external_effects_of, random_nodes
from gdsurgeon.analysis.queries.model_contents import ALL, NODES, OBJECTS, LoadingProblem, contents, loading_problems
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.container.load import open_model
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.plan import plan_with, why_not_loaded
from gdsurgeon.proof.settings import Settings

FOLDER = Path("/nowhere")
X = placeholder("x", FLOAT, (1, 4))


@pytest.mark.parametrize("way", [*REACHING, *CONNECTING])
def test_no_way_outside_is_run(way: str) -> None:
    hostile = from_bytes(REACHING[way](FOLDER) if way in REACHING else CONNECTING[way]("127.0.0.1:9"))
    plan = plan_with(Settings(), hostile)
    assert plan.fetches == []
    assert [name for name, reason in plan.reasons if "outside the graph" in reason] == ["y"]
    assert "y" in {name.partition(":")[0] for name in plan_with(Settings(allow_ops=True), hostile).fetches}


@pytest.mark.parametrize("way", ["ReadFile for a shape", "MatchingFiles for a shape", "a graph in a string that reads"])
def test_what_loading_may_evaluate_is_not_loaded(way: str) -> None:
    obstacle = why_not_loaded(from_bytes(REACHING[way](FOLDER)))
    assert obstacle is not None and "outside the graph" in obstacle.reason


def test_what_nobody_looks_at_and_what_has_state_is_loaded_all_the_same() -> None:
    path = text("path", str(FOLDER / SECRET))
    assert why_not_loaded(graph(path, node("r", "ReadFile", ["path"]))) is None
    names = text("names", "a", shape=(1,))
    restored = node("r", "RestoreV2", ["path", "names", "names"], dtypes=dtypes(FLOAT))
    assert why_not_loaded(graph(path, names, restored, identity("y", "r"))) is None
    read = [path, node("r", "ReadFile", ["path"]), identity("i", "r", kind=STRING)]
    assert why_not_loaded(graph(*read, identity("y", "i", kind=STRING))) is None
    assert why_not_loaded(graph(*read, node("y", "StringLength", ["i"]))) is not None


def calling(*functions: Any) -> Graph:
    """A graph in which `y` calls the function F."""
    return graph(X, calls("y", "x", func("F")), library(*functions))


def reached(found: Graph) -> str:
    """The op outside the graph that `y` reaches."""
    return external_effects_of(found).reached_by(found["y"])


def test_an_attr_keeps_an_op_from_reaching_anything() -> None:
    for stream, op in (({"output_stream": "stderr"}, ""), ({"output_stream": "file:///tmp/out"}, "PrintV2"), ({}, "")):
        assert reached(graph(text("m", "hello"), node("y", "PrintV2", ["m"], **stream))) == op


def test_an_attr_in_a_body_that_the_caller_says_may_be_anything() -> None:
    body = function("F", text("m", "hello"), node("y", "PrintV2", ["m:output:0"], output_stream=PLACEHOLDER_W))
    assert reached(calling(body)) == "PrintV2"


def test_a_function_that_nobody_runs_is_no_obstacle() -> None:
    """Unless a string names it."""
    pure = function("F", identity("y", "x"))
    m = calling(pure, writer("W", "/nowhere/out"))
    assert reached(m) == "" and plan_with(Settings(), m).fetches == ["y"]
    pure.attr["forward_function_name"].s = b"W"
    assert reached(calling(pure, writer("W", "/nowhere/out"))) == "WriteFile"


def test_an_unknown_op_in_a_body_reaches_unless_somebody_vouches_for_it() -> None:
    m = calling(function("F", node("z", "MyOp", ["x"]), identity("y", "z:out:0")))
    assert plan_with(Settings(), m).reasons == [("y", "'y' (StatefulPartitionedCall) runs an unknown op (MyOp)")]
    assert plan_with(Settings(op_libraries=("my_ops.so",)), m).fetches == ["y"]


def test_who_vouches_for_unknown_ops_does_not_for_others() -> None:
    written = node("w", "WriteFile", ["p:output:0", "p:output:0"])
    body = function("F", node("z", "MyOp", ["x"]), text("p", "out"), written, ret="z:o:0")
    (reason,) = plan_with(Settings(op_libraries=("my_ops.so",)), calling(body)).reasons
    assert "reads or writes outside the graph (WriteFile)" in reason[1]


def test_a_call_by_name_passes_on_the_functions_in_its_attrs() -> None:
    m = from_bytes(REACHING["an attr of a call by name"](FOLDER))
    assert functions_of(m["y"]) == ["F", "W"]


def test_a_long_chain_of_functions_is_walked() -> None:
    chain = [function(f"F{i}", node("y", f"F{i + 1}", ["x"]), ret="y:out:0") for i in range(3000)]
    m = graph(X, calls("y", "x", func("F0")), yes("unused"), library(*chain, writer("F3000", "/nowhere/out")))
    assert reached(m) == "WriteFile"


def boolean(name: str, value: bool) -> bytes:
    return node(name, "Const", dtype=BOOL, value=tensor_value(10, (), [value]).SerializeToString())


def drawing(found: Graph) -> list[str]:
    topology = topology_of(found)
    return [topology.name(number) for number in random_nodes(found)]


def draw(name: str, *controls: str, inputs: tuple[str, ...] = ("shape",)) -> bytes:
    return node(name, "RandomUniform", [*inputs, *controls], T=INT32, dtype=FLOAT)


SHAPE = node("shape", "Const", dtype=INT32, value=tensor([2], INT32))


def test_predicates_are_followed_through_what_passes_them_on_and_negations() -> None:
    found = graph(
        SHAPE,
        boolean("k", True),
        node("n", "LogicalNot", ["k"]),
        identity("p", "n", kind=BOOL),
        node("s", "Switch", ["p", "p"], T=BOOL),
        identity("t", "s:1", kind=BOOL),
        draw("then", "^t"),
    )
    assert drawing(found) == []


def branch(name: str, *body: bytes, source: str = "y:output:0") -> Any:
    return define(name, {"shape": INT32}, {"out": (FLOAT, source)}, *body, stateful=True)


DRAWS = branch("draws", draw("y"))
CALM = branch("calm", node("y", "Cast", ["shape"], SrcT=INT32, DstT=FLOAT), source="y:y:0")


def choice(predicate: str, *, body: bool = False) -> bytes:
    return node(
        "if", "If", [predicate, "shape"], Tcond=BOOL, Tin=b"\n\x03\x32\x01\x03", Tout=b"\n\x03\x32\x01\x01",
        then_branch=func("draws"), else_branch=func("calm"),
    )  # fmt: skip


def test_what_a_call_is_given_decides_inside() -> None:
    inner = define("inner", {"p": BOOL, "shape": INT32}, {"out": (FLOAT, "if:output:0")}, choice("p"), stateful=True)
    for value, expected in ((True, ["call"]), (False, [])):
        call_ = call("call", "inner", ["p", "shape"], [BOOL, INT32], [FLOAT], stateful=True)
        found = graph(SHAPE, boolean("p", value), call_, trailer=library(inner, DRAWS, CALM) + VERSIONS)
        assert drawing(found) == expected


def test_calls_that_double_at_each_level_are_looked_at_once() -> None:
    """Two to the power of forty calls; and deeper than is looked into."""
    last = [branch("f0", node("y", "Cast", ["shape"], SrcT=INT32, DstT=FLOAT), source="y:y:0")]

    def level(number: int, *more: bytes) -> Any:
        calls = [call(n, f"f{number - 1}", ["shape"], [INT32], [FLOAT], stateful=True) for n in "ab"]
        return branch(f"f{number}", *calls, *more, source="a:output:0")

    levels = [level(number, *((draw("r"),) if number == 1 else ())) for number in range(1, 41)]
    top = call("call", "f40", ["shape"], [INT32], [FLOAT], stateful=True)
    assert drawing(graph(SHAPE, top, trailer=library(*last, *levels) + VERSIONS)) == ["call"]
    deep = [level(number) for number in range(1, MOST_CALLS + 3)]
    top = call("call", f"f{MOST_CALLS + 2}", ["shape"], [INT32], [FLOAT], stateful=True)
    found = graph(SHAPE, top, trailer=library(branch("f0", draw("y")), *deep) + VERSIONS)
    assert drawing(found) == ["call"]


Change = Callable[[Any], Any]


def troubles_of(path: Path | str) -> list[LoadingProblem]:
    container = open_model(str(path)).container
    assert container is not None
    return loading_problems(container, contents(container))


def changed(folder: Path, change: Change, *, objects: bool = False) -> Path:
    """The folder of a model in whose MetaGraphDef CHANGE has changed something."""
    meta = meta_graph(objects=objects)
    change(meta)
    return put(folder / "model", meta)


def a_key_that_is_no_text(meta: Any) -> None:
    (names,) = (node for node in meta.graph_def.node if node.name == "save/names")
    names.attr["value"].tensor.string_val[0] = b"net/\xff"


def slots(meta: Any) -> None:
    meta.object_graph_def.nodes[0].slot_variables.add(slot_name="m")


def other_signatures(meta: Any) -> None:
    item = meta.object_graph_def.nodes.add()
    item.user_object.identifier = "signature_map"
    item.children.add(node_id=0, local_name="predict")


@pytest.mark.parametrize(
    ("change", "loaders", "words", "advice"),
    [
        (lambda meta: meta.graph_def.node.add(name="mine", op="New"), ALL, "does not know 'New'", "custom-ops"),
        (lambda meta: meta.signature_def.clear(), ALL, "no signature to call", "add-signature"),
        (lambda meta: setattr(meta.signature_def["serving_default"].outputs["y"], "name", "gone:0"), ALL,
         "'serving_default' refers to 'gone', which does not exist in the graph", "remove-signature"),
        (lambda meta: meta.saver_def.Clear(), ALL, "no node restores or initializes 'w', needed by 'ragged'",
         "keep-others"),
        (a_key_that_is_no_text, ALL, "the checkpoint has no tensor 'net/\ufffd', from which 'w' is", "rename-keys"),
        (slots, OBJECTS, "'add_slot'", "slim"),
        (lambda meta: meta.object_graph_def.concrete_functions["__inference_f"].bound_inputs.append(0), OBJECTS,
         "functions that do not exist: '__inference_f'", "slim"),
        (lambda meta: setattr(meta.object_graph_def.nodes[0].constant, "operation", "gone"), OBJECTS,
         "constants that do not exist: 'gone'", "slim"),
        (other_signatures, OBJECTS, "different signatures: 'predict'", "slim"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_graph(tmp_path: Path, change: Change, loaders: str, words: str, advice: str) -> None:
    (trouble,) = troubles_of(changed(tmp_path, change, objects=loaders == OBJECTS))
    assert (trouble.loaders, trouble.advice) == (loaders, advice)
    assert words in trouble.what


def test_files_that_are_missing(tmp_path: Path) -> None:
    for number, (lost, words) in enumerate(
        [
            ("variables/variables.index", "the checkpoint with the values of 1 variable"),
            ("variables/variables.data-00000-of-00001", "variables.data-00000-of-00001 is missing"),
            ("assets/words.txt", "assets/words.txt is missing"),
        ]
    ):
        path = put(tmp_path / str(number))
        (path / lost).unlink()
        (trouble,) = troubles_of(path)
        assert trouble.loaders == ALL
        assert words in trouble.what


def test_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    path = put(tmp_path / "model")
    (path / "variables" / "variables.index").write_bytes(b"no table")
    (trouble,) = troubles_of(path)
    assert (trouble.loaders, trouble.advice) == (ALL, "name-checkpoint")
    assert "variables.index" in trouble.what


def test_a_tensor_that_the_checkpoint_lacks(tmp_path: Path) -> None:
    (trouble,) = troubles_of(put(tmp_path / "model", meta_graph(key="net/v")))
    assert (trouble.loaders, trouble.advice) == (ALL, "rename-keys")
    assert trouble.what == "the checkpoint has no tensor 'net/v', from which 'w' is restored. Did you mean 'net/w'?"


def test_all_of_it_is_told(desk: Desk) -> None:
    path = changed(desk.folder, slots, objects=True)
    (path / "assets" / "words.txt").unlink()
    said = desk.run("inspect", "model").out.decode()
    for line in (
        "  1 variable, 1 of them restored",
        "    float32  [2]  w  net/w",
        "  assets    model/assets/words.txt",
        "  problems for all loaders",
        "    model/assets/words.txt is missing; a table is filled from it",
        "  problems for tf.saved_model.load, Keras' TFSMLayer",
        "      gdsurgeon slim model -o OUT writes a SavedModel for all loaders",
    ):
        assert line in said.splitlines(), said
    told = json.loads(desk.run("inspect", "model", "--json").out)
    assert told["variable_details"] == [
        {
            "name": "w",
            "dtype": "float32",
            "shape": [2],
            "key": "net/w",
            "slice": None,
            "by": "restored",
            "signatures": ["ragged", "serving_default", "sparse"],
        }
    ]
    assert told["assets"] == [{"file": "model/assets/words.txt", "tensor": "asset", "present": False}]
    assert told["collections"]["trainable_variables"] == 1
    assert [(trouble["loaders"], trouble["repair"] is None) for trouble in told["troubles"]] == [
        (ALL, True), (OBJECTS, False),
    ]  # fmt: skip


def test_a_graph_of_its_own_is_not_shipped(desk: Desk) -> None:
    told = json.loads(desk.run("inspect", str(FIXTURES / "classifier.pb"), "--json").out)
    assert not {"troubles", "assets", "collections", "variable_details"} & told.keys()


@pytest.mark.slow
def test_the_repair_repairs(desk: Desk, tf: Any, saved_models: Shipped) -> None:
    """The problems reported for a Keras model that TensorFlow saved exist, and the suggested repair removes them."""
    model = saved_models.path("keras_saved")
    (trouble,) = troubles_of(model)
    assert (trouble.loaders, trouble.advice) == (NODES, "slim")
    assert "Could not find variable" in trouble.what
    recorded = saved_models.recorded("keras_saved")
    for load in loaders.OF_GRAPHS:
        with pytest.raises(Exception, match="Could not find variable"):
            load(tf, model, "serving_default", recorded.inputs)
    desk.done("slim", model, "-o", "out")
    assert troubles_of("out") == []
    wanted = {k: v.tolist() for k, v in recorded.outputs.items()}
    assert all(load(tf, "out", "serving_default", recorded.inputs) == wanted for load in loaders.ALL)


def test_models_of_which_nothing_is_to_be_said(saved_models: Shipped) -> None:
    for name in ("bfloat16", "keras", "lstm", "several", "table2", "ref", "part_ref", "table1", "while1"):
        assert troubles_of(saved_models.path(name)) == [], name


def test_tags_say_which_graph_is_meant(tmp_path: Path) -> None:
    path = put(tmp_path / "model", meta_graph(), meta_graph(tags=("train",)))
    assert len(saved_model().meta_graphs) == 1 and len(read(path).meta_graphs) == 2
    assert troubles_of(path) == []
