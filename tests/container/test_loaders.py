"""What loaders make of SavedModels that were edited: the same values, from each of them that sees the edit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from support.desk import Desk
from support.graphs import FLOAT, node, placeholder, scalar
from support.shipped import Shipped

pytestmark = [pytest.mark.tensorflow]


def by_tensorflow_2(tf: Any, path: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    signature = tf.saved_model.load(path).signatures["serving_default"]
    given = signature(**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: value.numpy().tolist() for name, value in given.items()}


def by_tensorflow_1(tf: Any, path: str, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = loaded.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: info.name for name, info in signature.outputs.items()}
        return {name: value.tolist() for name, value in session.run(fetches, feeds).items()}


BOTH: tuple[Callable[..., dict[str, Any]], ...] = (by_tensorflow_1, by_tensorflow_2)
RENAMED = ("dense", "table2", "table1", "ref", "while1", "lstm")


@pytest.fixture(scope="module")
def loaded(tf: Any) -> Any:
    """TensorFlow in this process, which says nothing of what is deprecated."""
    tf.get_logger().setLevel("ERROR")
    return tf


@pytest.mark.parametrize("name", RENAMED)
def test_names_are_seen_by_all(desk: Desk, loaded: Any, saved_models: Shipped, name: str) -> None:
    """Every node outside of functions gets another name."""
    ran = desk.run("rename", saved_models.path(name), "--regex", "^=p/", "-o", "out")
    assert ran.code == 0, ran.err
    recorded = saved_models.recorded(name)
    wanted = {k: v.tolist() for k, v in recorded.outputs.items()}
    for load in BOTH:
        assert load(loaded, "out", recorded.inputs) == wanted, load
    assert desk.run("validate", "out").code == 0


def test_variables_that_only_objects_restore(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """Keras' variables: those of whoever runs the graph's own restore op have no values."""
    model = saved_models.path("keras_saved")
    recorded = saved_models.recorded("keras_saved")
    with pytest.raises(Exception, match="Could not find variable"):
        by_tensorflow_1(loaded, model, recorded.inputs)
    ran = desk.run("rename", model, "--regex", "^=p/", "-o", "out")
    assert ran.code == 0, ran.err
    assert "bit-identical" in ran.err
    assert by_tensorflow_2(loaded, "out", recorded.inputs) == {k: v.tolist() for k, v in recorded.outputs.items()}
    ran = desk.run("validate", "out")
    assert ran.code == 0, ran.err
    assert "deployed optimised by Grappler it runs, too" in ran.err


@pytest.mark.parametrize("name", ["ref", "dense"])
def test_what_is_put_in_front(desk: Desk, loaded: Any, saved_models: Shipped, name: str) -> None:
    tensor = "serving_default_x" if name == "dense" else "x"
    double = node(f"{tensor}_preprocessed", "Mul", [tensor, "two"], T=FLOAT)
    desk.put("double.pb", placeholder(tensor, FLOAT, (-1, 4)) + scalar("two", 2) + double)
    edit = ("add-preprocessing", saved_models.path(name), "double.pb", "-o", "out")
    if name == "dense":
        ran = desk.run(*edit)
        assert ran.code == 4, ran
        assert "--as-v1" in ran.err
    ran = desk.run(*edit, *(["--as-v1"] if name == "dense" else []))
    assert ran.code == 0, ran.err
    recorded = saved_models.recorded(name)
    halved = {name: value / 2 for name, value in recorded.inputs.items()}
    wanted = {k: v.tolist() for k, v in recorded.outputs.items()}
    for load in BOTH:
        assert load(loaded, "out", halved) == wanted, load
    assert desk.run("validate", "out").code == 0
