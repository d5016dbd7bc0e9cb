"""What loaders of a model would trip over, and what repairs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import loaders
from support.desk import Desk
from support.meta_graphs import meta_graph, put, read, saved_model
from support.paths import FIXTURES
from support.shipped import Shipped

from gdsurgeon.analysis.queries.model_contents import ALL, NODES, OBJECTS, LoadingProblem, contents, loading_problems
from gdsurgeon.container.load import open_model

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


def unknown_op(meta: Any) -> None:
    meta.graph_def.node.add(name="mine", op="NobodyKnows")


def no_signatures(meta: Any) -> None:
    meta.signature_def.clear()


def a_signature_of_nothing(meta: Any) -> None:
    meta.signature_def["serving_default"].outputs["y"].name = "gone:0"


def no_restore_op(meta: Any) -> None:
    meta.saver_def.Clear()


def a_key_that_is_no_text(meta: Any) -> None:
    (names,) = (node for node in meta.graph_def.node if node.name == "save/names")
    names.attr["value"].tensor.string_val[0] = b"net/\xff"


def slots(meta: Any) -> None:
    meta.object_graph_def.nodes[0].slot_variables.add(slot_name="m")


def a_function_that_is_not_there(meta: Any) -> None:
    meta.object_graph_def.concrete_functions["__inference_f"].bound_inputs.append(0)


def a_constant_that_is_not_there(meta: Any) -> None:
    meta.object_graph_def.nodes[0].constant.operation = "gone"


def other_signatures(meta: Any) -> None:
    item = meta.object_graph_def.nodes.add()
    item.user_object.identifier = "signature_map"
    item.children.add(node_id=0, local_name="predict")


@pytest.mark.parametrize(
    ("change", "loaders", "words", "advice"),
    [
        (unknown_op, ALL, "does not know 'NobodyKnows'", "custom-ops"),
        (no_signatures, ALL, "no signature to call", "add-signature"),
        (
            a_signature_of_nothing,
            ALL,
            "'serving_default' refers to 'gone', which does not exist in the graph",
            "remove-signature",
        ),
        (
            no_restore_op,
            ALL,
            "no node restores or initializes 'w', needed by 'ragged'",
            "keep-others",
        ),
        (a_key_that_is_no_text, ALL, "the checkpoint has no tensor 'net/\ufffd', from which 'w' is", "rename-keys"),
        (slots, OBJECTS, "'add_slot'", "slim"),
        (a_function_that_is_not_there, OBJECTS, "functions that do not exist: '__inference_f'", "slim"),
        (a_constant_that_is_not_there, OBJECTS, "constants that do not exist: 'gone'", "slim"),
        (other_signatures, OBJECTS, "different signatures: 'predict'", "slim"),
    ],
)
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
    assert desk.run("slim", model, "-o", "out").code == 0
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
