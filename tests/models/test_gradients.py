"""Gradients of whole models are those of tf.compat.v1.gradients, bit for bit, with and without checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
from support.adding_gradients import Lab, numbers
from support.graphs import ops
from support.published import ABSENT, FOLDER

from gdsurgeon.runtime.evaluator import Differentiator

pytestmark = [pytest.mark.models, pytest.mark.tensorflow]

PUBLISHED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "unet_person_08.pb": ("output/BiasAdd", "input", (1, 256, 256, 3)),
    "t2o_fc_layers.pb": ("output", "X", (5, 784)),
    "lstm_tf2_frozen_lib.pb": ("Identity", "input_1", (4, 5, 3)),
}
"""An output and an input of each graph, and the shape of the input."""
modes = pytest.mark.parametrize("checkpoints", ["none", "memory"])


@modes
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)
def test_published_graphs(tf: Any, differentiator: Differentiator, name: str, checkpoints: str) -> None:
    y, x, shape = PUBLISHED[name]
    data, options = (FOLDER / name).read_bytes(), {"shapes": {x: shape}, "checkpoints": checkpoints}
    made = Lab(tf, differentiator).same(data, [y], [x], {x: numbers(*shape)}, weights=True, **options)
    if (name, checkpoints) == ("unet_person_08.pb", "memory"):
        assert made.again


@pytest.mark.slow
def test_a_classifier_of_keras(tf: Any, differentiator: Differentiator) -> None:
    """From the gradient of its softmax, for a larger batch than the one that runs."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    tf.keras.utils.set_random_seed(20)
    model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(64, 64, 3), alpha=0.25)
    image = tf.TensorSpec([None, 64, 64, 3], tf.float32, name="image")
    function = tf.function(lambda image: model(image, training=False)).get_concrete_function(image)
    frozen = convert_variables_to_constants_v2(function).graph.as_graph_def()
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(frozen, name="")
        tf.compat.v1.placeholder(tf.float32, [None, 1000], name="dy")
    data = graph.as_graph_def().SerializeToString()
    (softmax,) = [name for name, op in ops(data).items() if op == "Softmax"]
    feeds = {"image": numbers(2, 64, 64, 3), "dy": numbers(2, 1000, seed=1)}
    options = {"shapes": {"image": (16, 64, 64, 3), "dy": (16, 1000)}, "checkpoints": "memory"}
    made = Lab(tf, differentiator).same(data, [softmax], ["image"], feeds, grad_ys=["dy"], weights=True, **options)
    assert len(made.results) > 150
