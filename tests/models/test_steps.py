"""The jobs that steps are for, a command each, on published models: proven, and said as a user sees it."""

from __future__ import annotations

import pytest
from support.desk import Desk
from support.published import FOLDER, needs_models

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]

WORDS = "silence, unknown, yes, no, up, down, left, right, on, off, stop, go"
JOBS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "one JPEG into a detector": (
        "add-preprocessing", "od_hand_ssd_frozen_synth.pb", ("--steps", "decode-image"),
        ("  input    image_tensor  uint8 [?,?,?,3]  ->  string []", "edited(raw) == original(pre(raw)): 5 outputs")),
    "names of a detector's classes": (
        "add-postprocessing", "od_hand_ssd_frozen_synth.pb",
        ("--at", "detection_classes", "--steps", "cast(int32) | labels(names=[hand], first=1, other=background)"),
        ("  output   detection_classes  float32  ->  string", "string [1,100] = [hand, hand, ")),
    "a batch of JPEGs": (
        "add-preprocessing", "mobilenet_v1_eval.pbtxt",
        ("--steps", "decode-image | resize(224, 224, like=pillow) | rescale(1/127.5, -1)"),
        ("  input    input  float32 [?,224,224,3]  ->  string [?]", "2 input sets (batch 1 and 2)")),
    "the best three, behind a softmax": (
        "add-postprocessing", "mobilenet_v1_eval.pbtxt",
        ("--at", "MobilenetV1/Predictions/Reshape_1", "--steps", "top-k(3) | labels(file=labels.txt)"),
        ("MobilenetV1/Predictions/Reshape_1  string [1,3] = [class ", "3 outputs, 2 input sets (batch 1 and 2)")),
    "a softmax, and the best three": (
        "add-postprocessing", "t2o_fc_layers.pb",
        ("--steps", "softmax | top-k(3) | labels(names=['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])"),
        ("  output   output  float32  ->  string\n  output   output_scores  float32", "3 outputs, 2 input sets (")),
    "words and their probabilities": (
        "add-postprocessing", "kws_ds_cnn_s.pb",
        ("--steps", f"top-k(3) | labels(names=[{WORDS}]) | rename(words, scores=probabilities)"),
        ("  output   words  string", "  output   probabilities  float32", "4 outputs, 2 input sets, bit-identical")),
    "channels first, in front": (
        "add-preprocessing", "unet_person_08.pb", ("--steps", "to-nhwc"),
        ("  input    input  float32 [?,256,256,3]  ->  float32 [?,3,256,256]", "bit-identical")),
    "channels first, behind": (
        "add-postprocessing", "unet_person_08.pb", ("--steps", "to-nchw"),
        ("float32 [1,3,256,256]", "  proven   edited(x) == post(original(x)): 2 outputs")),
    "a mask": (
        "add-postprocessing", "unet_person_08.pb", ("--steps", "argmax | cast(uint8)"),
        ("  output   output/BiasAdd  float32  ->  uint8", "uint8 [1,256,256]")),
    "one JPEG in BGR": (
        "add-preprocessing", "mtcnn.pb",
        ("--at", "input", "--steps", "decode-image | reverse-channels | cast(float32)"),
        ("  input    input  float32 [?,?,3]  ->  string", "3 outputs, 2 input sets, bit-identical")),
    "base64 into a detector": (
        "add-preprocessing", "od_hand_ssd_frozen_synth.pb", ("--steps", "decode-base64 | decode-image | exif"),
        ("  input    image_tensor  uint8 [?,?,?,3]  ->  string []", "edited(raw) == original(pre(raw)): 5 outputs")),
    "lines of CSV": (
        "add-preprocessing", "t2o_fc_layers.pb", ("--steps", "decode-csv(784) | divide(255)"),
        ("  input    X  float32 [?,784]  ->  string [?]", "2 input sets (batch 1 and 2), bit-identical")),
    "tf.Examples": (
        "add-preprocessing", "t2o_fc_layers.pb", ("--steps", "parse-example([pixels], shape=[784])"),
        ("  input    X  float32 [?,784]  ->  string [?]", "2 input sets (batch 1 and 2), bit-identical")),
    "boxes": (
        "add-postprocessing", "od_hand_ssd_frozen_synth.pb",
        ("--at", "Postprocessor/raw_box_scores", "--steps", "nms(boxes=Postprocessor/raw_box_locations, "
         "layout=yxyx, most=20, score=0.3, background=true) | labels(names=[hand]) | "
         "rename(scores, boxes=boxes, classes=names, count=n)"),
        ("float32 [1,20,4]", "returned names  string [1,20] = [hand, ", "  output   n  int32")),
}  # fmt: skip


@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_one_command(job: str, desk: Desk) -> None:
    command, model, words, said = JOBS[job]
    desk.put("labels.txt", b"".join(b"class %d\n" % number for number in range(1001)))
    ran = desk.done(command, str(FOLDER / model), *words, "-v", "-o", "out.pb")
    assert [text for text in said if text not in ran.err] == [], ran.err


@pytest.mark.parametrize(("name", "stride"), [("kws_ds_cnn_s", 320), ("kws_lstm_s", 640)])
def test_recordings_give_what_the_model_itself_makes_of_them(name: str, stride: int, desk: Desk) -> None:
    """The model takes WAV files; steps do what the nodes did that one script cuts away."""
    model = str(FOLDER / f"{name}.pb")
    steps = f"decode-wav(samples=16000, rate=16000) | mfcc(640, {stride}, coefficients=10)"
    lines = ("extract --inputs Mfcc --outputs labels_softmax", f"add-preprocessing --steps '{steps}'",
             "rename Mfcc=wav_data")  # fmt: skip
    desk.put("front.gds", "\n".join(lines).encode())
    for words in (("apply", model, "front.gds", "-o", "out.pb"), ("validate", model, "out.pb")):
        ran = desk.done(*words)
    assert f"out(x) == {name}(x): 1 output, 2 input sets, bit-identical" in ran.out.decode() + ran.err
