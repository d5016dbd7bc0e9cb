"""clone-scope where functions compute, and restore and save: what TensorFlow 2 saves."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import graphs, loaders
from support.desk import Desk
from support.expecting import refused
from support.function_savers import TABLE, model
from support.graphs import FLOAT, RESOURCE, call, define, graph, library, neg, node
from support.meta_graphs import read
from support.shipped import Shipped

import gdsurgeon as gds
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.graph.constants import constant
from gdsurgeon.graph.graph import Graph

QUICK = ("--validate", "structure")
REPORT = ("--report", "report.json")


def claims(desk: Desk) -> list[str]:
    """What the report says was claimed, all of which has passed."""
    report = json.loads(desk.files()["report.json"])
    assert report["passed"]
    return list(report["claims"])


def texts(found: Graph, name: str) -> list[object]:
    held = constant(found[name])
    assert held is not None
    return list(held.values)


# -- the graph ---------------------------------------------------------------------------------------------


def test_the_variables_that_calls_are_given_are_cloned() -> None:
    found = model()
    result = clone_scope(found, "net", "copy")
    inputs = graphs.inputs(found)
    assert inputs["copy/call"] == ["x", "copy/w"] and inputs["copy/sum"] == ["copy/call", "u/read"]
    assert found["copy/w"].text_attr("shared_name") == "copy/w"
    assert {"code": "stays-common", "nodes": ["u"]} in [note.as_json() for note in result.notes]


def test_nodes_restore_and_save_in_the_place_of_functions() -> None:
    """Two variables that are restored from one tensor are saved as two."""
    found = model()
    result = clone_scope(found, "net", "copy")
    keys = [b"net/w", b"u", b"twin", b"copy/w"]
    assert texts(found, "saver/names") == keys and texts(found, "saver/slices") == [b"", b"4 0,2", b"", b""]
    inputs = graphs.inputs(found)
    variables = ["w", "u", "twin", "copy/w"]
    assert [inputs[f"saver/Assign_{n}"][0] for n in range(4)] == variables
    assert inputs["saver/SaveV2"][3:] == [f"saver/Read_{n}" for n in range(4)]
    assert {"file", "save", "restore"}.isdisjoint(found.names())
    assert [f.signature.name for f in found.functions] == ["compute"]
    assert result.intent.functions.removed == ["restoring", "saving"]
    assert found.serving is not None
    (copied,) = found.serving.copies
    assert copied.keys == {"copy/w": "net/w", "twin": "net/w"}


def test_what_else_it_reads_is_cloned_where_that_is_asked() -> None:
    found = model()
    clone_scope(found, "net", "copy", variables="all")
    inputs = graphs.inputs(found)
    assert inputs["copy/sum"] == ["copy/call", "copy/u/read"] and inputs["copy/u/read"] == ["copy/u"]
    assert texts(found, "saver/names")[3:] == [b"copy/w", b"copy/u"]
    assert texts(found, "saver/slices")[3:] == [b"", b"4 0,2"]


def test_what_is_shared_or_replaced_is_not_cloned() -> None:
    found = model()
    clone_scope(found, "net", "copy", variables="share")
    clone_scope(found, "net", "third", inputs=[("w", "u")])
    inputs = graphs.inputs(found)
    assert inputs["copy/call"] == ["x", "w"] and inputs["third/call"] == ["x", "u"]
    assert "restore" in found and "saver/restore" not in found


def test_a_second_clone() -> None:
    found = model()
    clone_scope(found, "net", "copy")
    clone_scope(found, "copy", "third")
    assert graphs.inputs(found)["third/call"] == ["x", "third/w"]
    assert texts(found, "saver/names")[3:] == [b"copy/w", b"third/w"]


def test_many_names_are_one_line() -> None:
    names = [f"v{number}" for number in range(9)]
    body = define("f", dict.fromkeys(names, RESOURCE), {"y": (FLOAT, "r:value:0")},
                    node("r", "ReadVariableOp", ["v0"], dtype=FLOAT))  # fmt: skip
    handles = [node(name, "VarHandleOp", dtype=FLOAT, shape=(2,), shared_name=name) for name in names]
    found = graph(*handles, call("s/call", "f", names, [RESOURCE] * 9, [FLOAT]), neg("y", "s/call"), library(body))
    (note,) = [note for note in clone_scope(found, "s", "t").notes if note.code == "shared-name"]
    assert note.facts["renamed"] == {name: f"t/{name}" for name in names}


def test_what_functions_restore_besides_variables_is_refused() -> None:
    found = model(TABLE)
    edit = partial(clone_scope, source="net", target="copy")
    refused(found, "outside-uses", edit, node="other", op="MutableHashTableV2")
    clone_scope(found, "net", "copy", variables="share")


# -- the model ---------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_objects_have_no_place_for_variables(desk: Desk, saved_models: Shipped) -> None:
    path = saved_models.path("dense")
    arguments = ["clone-scope", path, "StatefulPartitionedCall", "copy", "-o", "out", *QUICK]
    desk.refused(4, "not-served", *arguments, variables=["copy/b", "copy/w"])
    ran = desk.run(*arguments, "--variables", "share")
    assert ran.code == 0, ran.err
    assert read("out").meta_graphs[0].object_graph_def.nodes


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["dense", "keras", "keras_saved"])
def test_tensorflow_runs_both(desk: Desk, tf: Any, saved_models: Shipped, name: str) -> None:
    """The signature is what it was for all loaders; in TensorFlow 1 the copy is a network of its own."""
    tf.get_logger().setLevel("ERROR")
    call = "StatefulPartitionedCall_1" if name == "keras" else "StatefulPartitionedCall"
    ran = desk.run("clone-scope", saved_models.path(name), call, "copy", "--as-v1", "-o", "out", *REPORT)
    assert (ran.code, claims(desk)) == (0, ["SameOutputs", "SameGiven", "OwnVariables"]), ran.err
    recorded = saved_models.recorded(name)
    wanted = {key: value.tolist() for key, value in recorded.outputs.items()}
    for load in loaders.ALL:
        assert load(tf, "out", "serving_default", recorded.inputs) == wanted, load
    _try_both(tf, desk.folder, call, recorded.inputs)
    found = tf.saved_model.load("out").variables
    assert {v.name for v in found} > {f"copy/{v.name}" for v in found if f"copy/{v.name}" in {w.name for w in found}}


def _try_both(tf: Any, folder: Path, call: str, inputs: dict[str, np.ndarray]) -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default() as loaded, v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], "out").signature_def["serving_default"]
        feeds = {signature.inputs[key].name: value for key, value in inputs.items()}

        def outputs() -> list[Any]:
            given: list[Any] = session.run([f"{call}:0", "copy:0"], feeds)
            return given

        def same(mine: list[Any], its: list[Any]) -> list[bool]:
            return [np.array_equal(a, b) for a, b in zip(mine, its, strict=True)]

        first = outputs()
        assert np.array_equal(*first)
        trained = v1.trainable_variables()
        copies = [variable for variable in trained if variable.op.name.startswith("copy/")]
        originals = [variable for variable in trained if f"copy/{variable.op.name}" in {v.op.name for v in copies}]
        assert len(copies) == len(originals) > 0
        loss = tf.reduce_sum((loaded.get_tensor_by_name("copy:0") - 1.0) ** 2)
        session.run(v1.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=copies), feeds)
        trained_copy = outputs()
        assert same(first, trained_copy) == [True, False]
        fresh, own = (str(folder / name) for name in ("fresh", "own"))
        saver = v1.train.Saver(v1.global_variables())
        saver.save(session, fresh)
        session.run("saver/save", {"saver/file_name:0": own})
        for variable_ in originals:
            variable_.load(session.run(variable_) + 1.0, session)
        assert same(trained_copy, outputs()) == [False, True]
        saver.restore(session, fresh)
        assert all(same(trained_copy, outputs()))
        for variable_ in trained:
            variable_.load(session.run(variable_) + 1.0, session)
        session.run("saver/restore", {"saver/file_name:0": own})
        assert all(same(trained_copy, outputs()))


@pytest.mark.tensorflow
def test_what_was_inlined_is_cloned_with_what_it_reads(desk: Desk, saved_models: Shipped) -> None:
    assert desk.run("inline", saved_models.path("dense"), "--as-v1", "-o", "inlined", *QUICK).code == 0
    (product,) = [node.name for node in gds.load("inlined").nodes() if node.op == "MatMul"]
    scope = product.rpartition("/")[0]
    ran = desk.run("clone-scope", "inlined", scope, "copy", "--variables", "all", "-o", "out", *REPORT)
    assert (ran.code, claims(desk)) == (0, ["SameOutputs", "SameGiven", "OwnVariables"]), ran.err
