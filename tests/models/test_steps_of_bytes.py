"""Steps in front of the published graphs: each job is one command, proven by running, and checked on contents."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from support.desk import Desk
from support.published import FOLDER, needs_models
from support.running import run
from support.stepping import Array, wav

import gdsurgeon as gds
from gdsurgeon.feeds.texts import example
from gdsurgeon.runtime.tensor import from_numpy

pytestmark = [*needs_models, pytest.mark.tensorflow]

TONE = wav((np.sin(np.arange(12000) / 9)[:, None] * 20000).round(), 16000)
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 784))


def done(desk: Desk, model: str, steps: str, *more: str) -> str:
    """Puts STEPS in front of MODEL, with a proof; returns the output file."""
    ran = desk.done("add-preprocessing", str(FOLDER / model), "--steps", steps, *more, "-o", "out.pb")
    assert "bit-identical" in ran.err, ran.err
    return "out.pb"


def given(path: str, name: str, value: Any, fetch: str) -> Array:
    """The result of the graph at PATH for VALUE."""
    array = np.asarray(value, object) if isinstance(value, (bytes, list)) else np.asarray(value)
    with run.session(gds.load(path)) as (executor, key):
        executor.wait(executor._worker.run(key, "out", {name: from_numpy(array)}, [fetch], []))
        found: Array = executor.tensor("out", 0).numpy()
    return found


@pytest.mark.parametrize("model", ["kws_ds_cnn_s.pb", "kws_lstm_s.pb"])
def test_base64_in_front_of_a_model_of_key_words(desk: Desk, model: str) -> None:
    out = done(desk, model, "decode-base64")
    wanted = given(str(FOLDER / model), "wav_data", TONE, "labels_softmax")
    for spelt in (base64.b64encode(TONE), b"data:audio/wav;base64," + base64.encodebytes(TONE)):
        assert (given(out, "wav_data", spelt, "labels_softmax") == wanted).all()


def test_steps_give_the_features_that_a_model_was_trained_with(desk: Desk) -> None:
    """The front is cut off, and steps take its place, with the rate that the file states."""
    path = str(FOLDER / "kws_lstm_s.pb")
    desk.done("extract", path, "--inputs", "Mfcc", "--outputs", "labels_softmax", "-o", "cut.pb", "-q")
    steps = "decode-wav(samples=16000) | mfcc(640, 640, coefficients=10)"
    desk.done("add-preprocessing", "cut.pb", "--steps", steps, "-o", "out.pb")
    wanted = given(path, "wav_data", TONE, "labels_softmax")
    assert (given("out.pb", "Mfcc", TONE, "labels_softmax") == wanted).all()


def test_lines_and_examples_in_front_of_a_model_of_digits(desk: Desk) -> None:
    model = str(FOLDER / "t2o_fc_layers.pb")
    wanted = given(model, "X", (PIXELS / 255).astype(np.float32), "output")
    lines = [",".join(map(str, row)).encode() for row in PIXELS.tolist()]
    out = done(desk, "t2o_fc_layers.pb", "decode-csv(784) | divide(255)")
    assert np.allclose(given(out, "X", lines, "output"), wanted, atol=1e-4)
    assert given(out, "X", np.zeros(0, object), "output").shape == (0, 10)
    spelt = [base64.b64encode(line) for line in lines]
    out = done(desk, "t2o_fc_layers.pb", "decode-base64 | decode-csv(784) | divide(255)")
    assert np.allclose(given(out, "X", spelt, "output"), wanted, atol=1e-4)
    out = done(desk, "t2o_fc_layers.pb", "parse-example(pixels, shape=[784], type=int64) | divide(255)")
    records = [example({"pixels": row}) for row in PIXELS.tolist()]
    assert np.allclose(given(out, "X", records, "output"), wanted, atol=1e-4)


@pytest.mark.parametrize(
    "steps",
    ["decode-csv(5, select=[0, 1, 2, 3])", "parse-example([sepal_length, sepal_width, petal_length, petal_width])"],
)
def test_flowers_in_front_of_a_model_that_trains(desk: Desk, steps: str) -> None:
    done(desk, "dl4j_train_iris_text.pb", steps, "--at", "Placeholder", "--samples", "1")
