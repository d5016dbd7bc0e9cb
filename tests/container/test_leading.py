"""What is given as MODEL and is none: one line says what it is, and which command or call leads on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import hostile
from support.desk import Desk, check_refused
from support.meta_graphs import checkpoint, meta_graph, put, saved_model
from support.renaming import QUICK

KERAS = b"PK\x03\x04" + bytes(22) + b"\x0d\x00\x00\x00metadata.json{}"
STATE = b'model_checkpoint_path: "model-5"\nall_model_checkpoint_paths: "model-5"\n'
NO_GRAPH = "lists its tensors; the graph is in a SavedModel or a .meta file"
EXPORT = "compile=False).export('DIR')"

CASES = (
    ("a.keras", ("a Keras model", "keras.saving.load_model('a.keras', " + EXPORT)),
    ("a.h5", ("an HDF5 file", "keras.saving.load_model('a.h5', " + EXPORT)),
    ("a.tflite", ("a TFLite model", "what it was converted from")),
    ("a.onnx", ("an ONNX model", "what it was converted from")),
    ("model/fingerprint.pb", ("a part of a model", "MODEL is model")),
    ("loose.pb", ("the fingerprint of a SavedModel", "MODEL is a GraphDef, the folder of a SavedModel")),
    ("model/assets", ("a part of a model", "MODEL is model")),
    ("model/variables", ("a part of a model", "MODEL is model")),
    ("model/variables/variables", ("a part of a model", "MODEL is model")),
    ("model/variables/variables.index", ("a part of a model", "MODEL is model")),
    ("model/variables/variables.data-00000-of-00001", ("a part of a model", "MODEL is model")),
    ("trained/model-5.index", ("a part of a model", "MODEL is trained/model-5")),
    ("trained/model-5.data-00000-of-00001", ("a part of a model", "MODEL is trained/model-5")),
    ("trained/checkpoint", ("a part of a model", "MODEL is trained/model-5")),
    ("trained", ("a folder with a checkpoint (model-5)", "MODEL is trained/model-5")),
    ("weights/model-5", ("without the graph", "checkpoint weights/model-5 " + NO_GRAPH)),
    ("weights/model-5.index", ("without the graph", "checkpoint weights/model-5 " + NO_GRAPH)),
    ("weights/model-5.data-00000-of-00001", ("without the graph", "checkpoint weights/model-5 " + NO_GRAPH)),
    ("weights/checkpoint", ("names the checkpoint weights/model-5", "checkpoint weights/model-5 " + NO_GRAPH)),
    ("weights", ("a folder with a checkpoint (model-5)", "checkpoint weights/model-5 " + NO_GRAPH)),
    ("old.ckpt", ("a checkpoint, without the graph", "checkpoint old.ckpt " + NO_GRAPH)),
    ("versions", ("a folder of SavedModels (1, 10, 9)", "MODEL is versions/10")),
    ("empty", ("a directory without saved_model.pb", "MODEL is a GraphDef, the folder of a SavedModel")),
    ("trained/model-6", ("no such file",)),
)  # fmt: skip


def fill(folder: Path) -> None:
    """Puts one of each into FOLDER."""
    put(folder / "model")
    for version in ("1", "9", "10"):
        put(folder / "versions" / version)
    for part in ("trained", "weights"):
        (folder / part).mkdir()
        checkpoint(folder / part, "model-5")
        (folder / part / "checkpoint").write_bytes(STATE)
    (folder / "trained" / "model-5.meta").write_bytes(meta_graph().SerializeToString())
    (folder / "empty").mkdir()
    (folder / "old.ckpt").write_bytes((folder / "weights" / "model-5.index").read_bytes())
    formats = {"a.keras": KERAS, "a.h5": hostile.HDF5, "a.tflite": hostile.TFLITE, "a.onnx": hostile.ONNX}
    for name, data in {**formats, "loose.pb": b"\x08\x86\x01\x10\x07"}.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(("path", "words"), CASES, ids=[path for path, _ in CASES])
@pytest.mark.parametrize("command", [("inspect",), ("rename", "x=pixels", *QUICK, "-o", "out.pb"), ("freeze", *QUICK)])
def test_it_leads_on(desk: Desk, path: str, words: tuple[str, ...], command: tuple[str, ...]) -> None:
    fill(desk.folder)
    check_refused(desk, 3, (path, *words), command[0], path, *command[1:])


def test_what_it_leads_to_is_a_model(desk: Desk) -> None:
    fill(desk.folder)
    for _, words in CASES:
        if words[-1].startswith("MODEL is ") and " " not in (model := words[-1].removeprefix("MODEL is ")):
            assert desk.run("inspect", model).code == 0, model


def test_from_within_the_folder(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(desk.folder)
    monkeypatch.chdir(desk.folder / "model" / "variables")
    ran = desk.run("inspect", "variables.index")
    assert ran.code == 3
    assert f"MODEL is {os.pardir}\n" in ran.err


def test_a_graph_is_one_wherever_it_lies(desk: Desk) -> None:
    fill(desk.folder)
    for name in ("model/frozen.pb", "weights/checkpoint.pb", "model/variables/x.index", "model/fingerprint.pb"):
        desk.put(name, hostile.PLAIN)
        assert desk.run("inspect", name).code == 0, name


@pytest.mark.parametrize(
    "make",
    [lambda data: data, lambda data: data + b"\x00", lambda data: data[:-1], lambda data: b"\x0f" + data],
    ids=["whole", "longer", "cut", "of no message"],
)
def test_a_meta_graph_that_is_broken_is_no_part_of_another(desk: Desk, make: Callable[[bytes], bytes]) -> None:
    fill(desk.folder)
    desk.put("trained/model-5.meta", make(meta_graph().SerializeToString()))
    ran = desk.run("inspect", "trained/model-5.meta")
    assert ran.code in (0, 3)
    assert "a part of" not in ran.err


def test_tags_that_there_are(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve"]), meta_graph(tags=["serve", "gpu"]))
    check_refused(
        desk, 3, ("no graph with the tags 'tpu'", "there is: serve; gpu,serve"), "inspect", "model", "--tags", "tpu"
    )


@pytest.mark.parametrize("command", [("inspect",), ("rename", "x=q", *QUICK), ("freeze", *QUICK), ("validate", *QUICK)])
def test_the_checkpoint_of_another_model(desk: Desk, command: tuple[str, ...]) -> None:
    fill(desk.folder)
    checkpoint(desk.folder, "other", key="net/ww")
    words = ("other lacks 1 of 1 tensor that model is restored from", "'net/w'. Did you mean 'net/ww'?",
             "checkpoint other --rename OLD=NEW")  # fmt: skip
    validate = ("--validate", "structure")
    check_refused(
        desk,
        3,
        words,
        command[0],
        "model",
        *command[1:],
        "--checkpoint",
        "other",
        *validate * (command[0] != "inspect"),
    )
    ran = desk.run("inspect", "model", "--checkpoint", "weights/model-5")
    assert ran.code == 0, ran.err


def test_freeze_replaces_no_folder(desk: Desk) -> None:
    fill(desk.folder)
    for model in ("model", "model/saved_model.pb", "trained/model-5.meta"):
        check_refused(desk, 2, ("-i", "of another kind"), "freeze", model, "-i", *QUICK)
    check_refused(desk, 2, ("-i", "of another kind"), "to-savedmodel", "model", "-i", *QUICK)
    for out in ("model/frozen.pb", "model/variables/frozen.pb"):
        check_refused(desk, 2, ("is in MODEL",), "freeze", "model", *QUICK, "-o", out)


def test_a_saved_model_that_no_loader_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is around the graph counts, too."""
    fill(desk.folder)
    size = len(saved_model().SerializeToString())
    monkeypatch.setattr("gdsurgeon.operation.written.LARGEST", size - 10)
    check_refused(desk, 6, ("TensorFlow loads no GraphDef of 2 GiB",), "rename", "model", "y=yyyy", *QUICK, "-o", "out")
