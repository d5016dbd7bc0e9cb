"""The graft that people do by hand: a detector that takes a JPEG and gives class names, both under the old names."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.graphs import Builder
from support.published import ABSENT, FOLDER

import gdsurgeon as gds
from gdsurgeon.feeds.input_spec import Jpeg
from gdsurgeon.feeds.make import encoded
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.runtime.tensor import Tensor

pytestmark = [
    pytest.mark.slow,
    pytest.mark.models,
    pytest.mark.tensorflow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT),
]

DETECTOR = FOLDER / "od_hand_ssd_frozen_synth.pb"
LABELS = ["background", "hand", "something else"]


def decode() -> Builder:
    """A JPEG to a batch of one picture."""
    pre = Builder()
    pre.placeholder("image_tensor", "string", ())
    pre.node("DecodeJpeg", "DecodeJpeg", ["image_tensor"], channels=3)
    pre.const("axis", 0, "int32")
    pre.node("image_tensor_preprocessed", "ExpandDims", ["DecodeJpeg", "axis"], T="uint8", Tdim="int32")
    return pre


def look_up() -> Builder:
    """Class numbers to class names."""
    post = Builder()
    post.placeholder("detection_classes", "float32")
    post.node("ToInt32", "Cast", ["detection_classes"], SrcT="float32", DstT="int32")
    post.const("labels", LABELS, "string")
    post.const("axis", 0, "int32")
    post.node(
        "detection_classes_postprocessed",
        "GatherV2",
        ["labels", "ToInt32", "axis"],
        Tparams="string",
        Tindices="int32",
        Taxis="int32",
    )
    return post


def served(path: str) -> dict[str, Tensor]:
    """What the graph in PATH gives for a JPEG."""
    wanted = ["detection_classes", "detection_classes_raw", "detection_boxes", "num_detections"]
    with Executor(Settings(timeout=120)) as executor:
        executor.load_file("served", path)
        feed = executor.encoded(Jpeg((), (encoded.picture(5, 120, 160),)))
        executor.wait(executor.run("served", "out", {"image_tensor": feed}, wanted))
        return {name: executor.tensor("out", i) for i, name in enumerate(wanted)}


def expected() -> dict[str, Tensor]:
    """What the detector itself gives for that picture, as TensorFlow decodes it."""
    wanted = ["detection_classes", "detection_boxes", "num_detections"]
    with Executor(Settings(timeout=120)) as executor:
        executor.load_file("detector", str(DETECTOR))
        executor.load_bytes("decoder", decode().bytes())
        feed = executor.encoded(Jpeg((), (encoded.picture(5, 120, 160),)))
        executor.wait(executor.run("decoder", "pixels", {"image_tensor": feed}, ["image_tensor_preprocessed"]))
        pixels = executor.tensor("pixels", 0)
        assert pixels.shape == (1, 120, 160, 3)
        executor.wait(executor.run("detector", "out", {"image_tensor": pixels}, wanted))
        return {name: executor.tensor("out", i) for i, name in enumerate(wanted)}


def assert_grafted(path: Path) -> None:
    graph = gds.load(str(path))
    assert graph["image_tensor"].op == "Placeholder"
    found = gds.signature(graph)
    assert [(i.name, i.dtype, i.shape) for i in found.inputs] == [("image_tensor", 7, ())]
    assert {o.name: o.dtype for o in found.outputs}["detection_classes"] == 7
    values, raw = served(str(path)), expected()
    assert bytes(values["detection_classes_raw"].data) == bytes(raw["detection_classes"].data)
    assert bytes(values["detection_boxes"].data) == bytes(raw["detection_boxes"].data)
    assert bytes(values["num_detections"].data) == bytes(raw["num_detections"].data)
    numbers = memoryview(bytes(raw["detection_classes"].data)).cast("f")
    assert values["detection_classes"].shape == raw["detection_classes"].shape
    assert values["detection_classes"].data == [LABELS[int(n)].encode() for n in numbers]
    assert len(numbers) == 100


def test_the_graft_with_its_proof(tmp_path: Path) -> None:
    pre = operate(
        Request(str(DETECTOR), out=str(tmp_path / "jpeg.pb"), settings=Settings(samples=1)),
        lambda graph: gds.add_preprocessing(graph, decode().graph("decode.pb")),
    )
    assert pre.proof.statement == "edited(raw) = original(pre(raw))"
    assert pre.proof.feeds == {"image_tensor": "string []"}
    compared = {output.after for output in pre.proof.outputs if output.comparison is not None}
    assert "detection_classes" in compared and "detection_boxes" in compared

    post = operate(
        Request(str(tmp_path / "jpeg.pb"), out=str(tmp_path / "served.pb"), settings=Settings(samples=1)),
        lambda graph: gds.add_postprocessing(graph, look_up().graph("labels.pb")),
    )
    assert post.proof.statement == "edited(x) = post(original(x))"
    assert {"detection_classes", "detection_classes_raw"} <= {o.after for o in post.proof.compared}
    assert post.result.intent.renamed == {"detection_classes": "detection_classes_raw"}
    assert_grafted(tmp_path / "served.pb")
