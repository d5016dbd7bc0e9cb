"""Gradients of whole models are those of tf.compat.v1.gradients, bit for bit, with and without checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
from support.adding_gradients import Lab, numbers
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
