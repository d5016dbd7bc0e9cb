"""Published graphs through both runtimes: the same bytes."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
import pytest
from support.paths import MODELS
from support.patience import LONG_ENOUGH

from gdsurgeon.runtime.client import Worker
from gdsurgeon.runtime.tensor import Tensor, from_numpy

pytestmark = [pytest.mark.tensorflow, pytest.mark.models]

FOLDER = MODELS
WAIT = LONG_ENOUGH


def noise(*shape: int, dtype: str = "float32") -> Tensor:
    values: Any = np.random.default_rng(7).random(shape)
    return from_numpy((values * 255).astype(dtype) if dtype == "uint8" else values.astype(dtype))


def sound() -> Tensor:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 16000, 16000, "NONE", ""))
        out.writeframes((np.sin(np.arange(16000) / 9) * 9000).astype("<i2").tobytes())
    return Tensor(7, (), [file.getvalue()])


MODELS: dict[str, tuple[dict[str, Tensor], list[str]]] = {
    "dl4j_bitcast_from_float64_to_bfloat16.pb": ({}, ["Bitcast"]),
    "dl4j_case_cond_1.pb": ({}, ["case/cond/Merge"]),
    "dl4j_partition_stitch_misc.pb": (
        {
            "input_0": noise(2, 5, 4, dtype="float64"),
            "input_1": noise(2, 3, 5, 4, dtype="float64"),
            "input_2": noise(3, 1, 5, 4, dtype="float64"),
        },
        ["add_1"],
    ),
    "dl4j_primitive_gru_dynamic.pb": ({"input": noise(1, 2, 6, dtype="float64")}, ["output"]),
    "dl4j_ragged_reduce_mean_2d_a1.pb": ({}, ["RaggedReduceMean/truediv"]),
    "kws_ds_cnn_s.pb": ({"wav_data": sound()}, ["labels_softmax"]),
    "kws_lstm_s.pb": ({"wav_data": sound()}, ["labels_softmax"]),
    "lstm_tf2_frozen_lib.pb": ({"input_1": noise(2, 5, 3)}, ["Identity"]),
    "mediapipe_frozen_graph_def.pb": ({}, ["multiplied"]),
    "od_hand_ssd_frozen_synth.pb": (
        {"image_tensor": noise(1, 120, 160, 3, dtype="uint8")},
        ["detection_boxes", "detection_scores", "detection_classes", "num_detections"],
    ),
    "opencv_face_detector_uint8.pb": ({"data": noise(1, 300, 300, 3)}, ["mbox_loc", "mbox_conf_flatten"]),
    "unet_person_08.pb": ({"input": noise(1, 256, 256, 3)}, ["output/BiasAdd"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_same_bytes(capi_worker: Worker, python_worker: Worker, name: str) -> None:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"no {path}")
    feeds, fetches = MODELS[name]
    summaries, bits = [], []
    for worker in (capi_worker, python_worker):
        worker.load("m", path=str(path))
        summaries.append(worker.run("m", "r", feeds, fetches))
        bits.append([worker.tensor("r", k) for k in range(len(fetches))])
    assert summaries[0].result(WAIT).outputs == summaries[1].result(WAIT).outputs
    for ours, theirs in zip(*bits, strict=True):
        assert ours.result(WAIT).tobytes() == theirs.result(WAIT).tobytes()
