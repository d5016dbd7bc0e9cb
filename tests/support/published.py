"""Facts about the published graphs: their inputs and outputs, and which of them run."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from support.paths import MODELS

FOLDER = MODELS
ABSENT = f"the published graphs are not there: {FOLDER}"

Inputs = dict[str, tuple[str, list[int | None] | None]]


class Model(NamedTuple):
    """A published graph: its inputs (dtype and shape) and the outputs that its documentation names."""

    inputs: Inputs
    outputs: list[str]
    text: bool = False


_HAND = ["detection_boxes", "detection_scores", "detection_multiclass_scores", "detection_classes", "num_detections"]

# All run on generated feeds: no --shape, no --feed.
EXECUTABLE: dict[str, Model] = {
    "dl4j_bitcast_from_float64_to_bfloat16.pb": Model({}, ["Bitcast"]),
    "dl4j_case_cond_1.pb": Model({}, ["case/cond/Merge"]),
    "dl4j_examples_frozen_graph.pbtxt": Model({"input": ("float32", [None, 676])}, ["output"], text=True),
    "dl4j_lenet_frozen.pb": Model({"input": ("float32", None)}, ["output"]),
    "dl4j_max_lstm.pb": Model({"lstm_1_input": ("float32", [None, 100, 1000])}, ["lstm_1/TensorArrayReadV3"]),
    "dl4j_node_multiple_out.pb": Model({"input_0": ("float32", [2, 3, 4, 5])}, ["output"]),
    "dl4j_partition_stitch_misc.pb": Model(
        {"input_0": ("float64", [2, 5, 4]), "input_1": ("float64", [2, 3, 5, 4]), "input_2": ("float64", [3, 1, 5, 4])},
        ["add_1"],
    ),
    "dl4j_primitive_gru_dynamic.pb": Model({"input": ("float64", [None, 2, 6])}, ["output"]),
    "dl4j_ragged_reduce_mean_2d_a1.pb": Model({}, ["RaggedReduceMean/truediv"]),
    "dl4j_simplewhile_nested.pb": Model({"input_0": ("float32", [2, 2]), "input_1": ("float32", [3, 3])}, ["output"]),
    "dl4j_train_iris_text.pb": Model(
        {
            "Placeholder": ("float32", [None, 4]),
            "Placeholder_1": ("float32", [None, 3]),
            "Placeholder_2": ("float32", [None, 4]),
            "Placeholder_3": ("float32", [None, 3]),
        },
        ["Softmax"],
        text=True,
    ),
    "dl4j_while1_iter_1.pb": Model({}, ["while/Exit", "while/Exit_1"]),
    "half_plus_two_tf2_frozen_lib.pb": Model(
        {"regress_x_to_y_inputs": ("string", [None])}, ["StatefulPartitionedCall_3"]
    ),
    "kws_ds_cnn_s.pb": Model({"wav_data": ("string", None)}, ["labels_softmax"]),
    "kws_lstm_s.pb": Model({"wav_data": ("string", None)}, ["labels_softmax"]),
    "lstm_tf2_frozen_lib.pb": Model({"input_1": ("float32", [None, 5, 3])}, ["Identity"]),
    "mediapipe_frozen_graph_def.pb": Model({}, ["multiplied", "expensive"]),
    "mobilenet_v1_eval.pbtxt": Model(
        {"input": ("float32", [None, 224, 224, 3])}, ["MobilenetV1/Predictions/Reshape_1"], text=True
    ),
    "mtcnn.pb": Model(
        {
            "input": ("float32", [None, None, 3]),
            "min_size": ("float32", None),
            "thresholds": ("float32", [3]),
            "factor": ("float32", None),
        },
        ["prob", "landmarks", "box"],
    ),
    "od_hand_ssd_frozen_synth.pb": Model({"image_tensor": ("uint8", [None, None, None, 3])}, _HAND),
    "opencv_face_detector_uint8.pb": Model({"data": ("float32", None)}, ["mbox_loc", "mbox_conf_flatten"]),
    "polygraphy_identity.pb": Model({"Input": ("float32", [1, 15, 25, 30])}, ["Identity_2"]),
    "t2o_ae0.pb": Model({"X": ("float32", [None, 784])}, ["output"]),
    "t2o_fc_layers.pb": Model({"X": ("float32", [None, 784])}, ["output"]),
    "t2o_gru.pb": Model({"X": ("float32", None), "keep_prob": ("float32", None)}, ["output"]),
    "t2o_regression.pb": Model({"X": ("float32", None)}, ["pred"]),
    "unet_person_08.pb": Model({"input": ("float32", [None, 256, 256, 3])}, ["output/BiasAdd"]),
    "unity_gridworld.bytes": Model({"observation_0": ("float32", None)}, ["action"]),
}

NOT_EXECUTABLE: dict[str, Model] = {
    "dl4j_scatter_nd_update_locking_rank1shape_1indices.pb": Model({}, ["ScatterNdUpdate"]),
    "tfjs_iris_fused_raw.pb": Model({"input_1": ("float32", [None, 64, 64, 3])}, ["Identity"]),
}

BINARY = sorted(name for name, model in (EXECUTABLE | NOT_EXECUTABLE).items() if not model.text)

needs_models = [pytest.mark.models, pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)]
"""Marks of tests that read the published graphs."""
