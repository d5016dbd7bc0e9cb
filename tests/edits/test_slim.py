"""slim: a model has what its signatures need, and nothing else; all loaders load it, and it gives what it gave."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import loaders
from support.desk import Desk
from support.expecting import refused
from support.meta_graphs import meta_graph, put, read
from support.paths import FIXTURES
from support.renaming import QUICK
from support.saved_models import NODES, OBJECTS
from support.shipped import Shipped

import gdsurgeon as gds
from gdsurgeon.container.load import open_model


def keys(folder: Path | str) -> list[str]:
    with gds.open_checkpoint(str(Path(folder) / "variables" / "variables")) as checkpoint:
        return list(checkpoint.keys)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def model(desk: Desk) -> Path:
    """A model with one variable, and with more data of a trainer than its signatures need."""
    return put(desk.folder / "model")


def test_once_more_is_the_same_under_other_names(desk: Desk, model: Path) -> None:
    for source, out in (("model", "one"), ("one", "two"), ("two", "three")):
        desk.done("slim", source, "-o", out, *QUICK)
    names = [{node.name for node in read(out).meta_graphs[0].graph_def.node} for out in ("one", "two", "three")]
    assert names[1] == {name.replace("saver/", "saver_1/") for name in names[0]}
    assert files(desk.folder / "one") == files(desk.folder / "three")
    assert (desk.folder / "one" / "saved_model.pb").read_bytes() == (desk.folder / "three/saved_model.pb").read_bytes()


def test_one_signature(desk: Desk, model: Path) -> None:
    desk.done("slim", "model", "--signature", "serving_default", "-o", "out", *QUICK)
    (meta,) = read("out").meta_graphs
    assert list(meta.signature_def) == ["serving_default"]
    assert "w/initial" not in {node.name for node in meta.graph_def.node}


def test_a_meta_graph_becomes_a_saved_model(desk: Desk, model: Path) -> None:
    data = meta_graph(tags=()).SerializeToString()
    desk.put("model.ckpt.meta", data)
    for path in (model / "variables").iterdir():
        shutil.copy(path, desk.folder / path.name.replace("variables", "model.ckpt"))
    desk.done("slim", "model.ckpt.meta", "-o", "out", *QUICK)
    assert list(read("out").meta_graphs[0].meta_info_def.tags) == ["serve"]
    assert keys("out") == ["net/w"]


def test_refused(desk: Desk, model: Path) -> None:
    tail = ("-o", "out", *QUICK)
    desk.refused(4, "wrong-format", "slim", str(FIXTURES / "classifier.pb"), *tail)
    desk.refused(3, "no-such-signature", "slim", "model", "--signature", "sparce", *tail, near="sparse")
    desk.refused(2, "inside-model", "slim", "model", "-o", "model/out", *QUICK)
    put(desk.folder / "lost", meta_graph(restored=False))
    desk.refused(4, "value-unknown", "slim", "lost", *tail, node="w")
    put(desk.folder / "other", meta_graph(key="net/v"))
    desk.refused(4, "no-such-tensor", "slim", "other", *tail, tensor="net/v", node="w", near="net/w")
    edit = partial(gds.slim, signatures=["sparce"])
    refused(gds.load(str(model)), "no-such-signature", edit, signature="sparce", near="sparse")


# -- what TensorFlow makes of it -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*OBJECTS, *NODES])
def test_all_loaders(desk: Desk, tf: Any, saved_models: Shipped, name: str) -> None:
    tf.get_logger().setLevel("ERROR")
    path = saved_models.path(name)
    desk.done("slim", path, "-o", "out", "--report", "report.json")
    assert json.loads(desk.files()["report.json"])["proof"]["largest_difference"] == 0
    assert set(keys("out")) < set(keys(path)) or name in (*NODES,)
    assert (desk.folder / "out" / "saved_model.pb").stat().st_size < (Path(path) / "saved_model.pb").stat().st_size
    serving = open_model("out").graph.serving
    assert serving is not None
    for key in serving.called:
        recorded = saved_models.recorded(name, key)
        wanted = {k: v.tolist() for k, v in recorded.outputs.items()}
        for load in loaders.ALL:
            assert load(tf, "out", key, recorded.inputs) == wanted, (load, key)


def test_what_a_signature_does_not_need_of_the_checkpoint(desk: Desk, saved_models: Shipped) -> None:
    path = saved_models.path("several")
    desk.done("slim", path, "--signature", "scaled", "-o", "out")
    assert keys("out") == ["w/.ATTRIBUTES/VARIABLE_VALUE"]
    assert list(read("out").meta_graphs[0].signature_def) == ["scaled"]


def test_objects_that_are_no_longer_loaded(desk: Desk, tf: Any, saved_models: Shipped) -> None:
    """An optimiser of a Keras that this one does not know: its slots are asked for, and it has none."""
    shutil.copytree(saved_models.path("dense"), "dense")
    saved = read("dense")
    (meta,) = saved.meta_graphs
    w, b = [n for n, item in enumerate(meta.object_graph_def.nodes) if item.WhichOneof("kind") == "variable"]
    slots = meta.object_graph_def.nodes[0].slot_variables
    slots.add(slot_name="m", original_variable_node_id=w, slot_variable_node_id=b)
    (desk.folder / "dense" / "saved_model.pb").write_bytes(saved.SerializeToString())
    recorded = saved_models.recorded("dense")
    with pytest.raises(AttributeError, match="add_slot"):
        loaders.by_tensorflow_2(tf, "dense", "serving_default", recorded.inputs)
    desk.done("slim", "dense", "-o", "out")
    wanted = {k: v.tolist() for k, v in recorded.outputs.items()}
    for load in loaders.ALL:
        assert load(tf, "out", "serving_default", recorded.inputs) == wanted, load


@pytest.mark.parametrize(
    ("name", "variables"),
    [("dense", {"w:0", "b:0"}), ("keras", {"sequential/dense/kernel_1:0", "sequential/dense/bias_1:0"})],
)
def test_its_variables_are_those_of_a_model(
    desk: Desk, tf: Any, saved_models: Shipped, name: str, variables: set[str]
) -> None:
    """Whoever loads it with TensorFlow 2 finds them, and which of them are trained, whatever the objects call them."""
    desk.done("slim", saved_models.path(name), "-o", "out")
    loaded = tf.saved_model.load("out")
    assert {(v.name, v.trainable) for v in loaded.variables} == {(variable, True) for variable in variables}
