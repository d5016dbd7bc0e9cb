"""What is given as MODEL and is none: one line says what it is, and which command or call leads on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import hostile
from support.desk import Desk
from support.meta_graphs import checkpoint, meta_graph, put, saved_model
from support.renaming import QUICK

KERAS = b"PK\x03\x04" + bytes(22) + b"\x0d\x00\x00\x00metadata.json{}"
STATE = b'model_checkpoint_path: "model-5"\nall_model_checkpoint_paths: "model-5"\n'
DATA = ".data-00000-of-00001"
MODEL, TRAINED = {"whole": "model"}, {"whole": "trained/model-5"}
WEIGHTS = {"prefix": "weights/model-5"}
CASES = (
    ("a.keras", "wrong-format", {"found": "keras"}),
    ("a.h5", "wrong-format", {"found": "hdf5"}),
    ("a.tflite", "wrong-format", {"found": "tflite"}),
    ("a.onnx", "wrong-format", {"found": "onnx"}),
    ("loose.pb", "wrong-format", {"found": "fingerprint"}),
    *((f"model/{name}", "wrong-format", MODEL) for name in ("fingerprint.pb", "assets", "variables")),
    *((f"model/variables/variables{end}", "wrong-format", MODEL) for end in ("", ".index", DATA)),
    *((f"trained{name}", "wrong-format", TRAINED) for name in ("", "/checkpoint", "/model-5.index", f"/model-5{DATA}")),
    *((f"weights{name}", "wrong-format", WEIGHTS)
      for name in ("", "/checkpoint", "/model-5", "/model-5.index", f"/model-5{DATA}")),
    ("old.ckpt", "wrong-format", {"prefix": "old.ckpt"}),
    ("versions", "wrong-format", {"whole": "versions/10"}),
    ("empty", "is-a-folder", {"file": "empty"}),
    ("trained/model-6", "unreadable", {"file": "trained/model-6", "reason": "ENOENT"}),
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


@pytest.mark.parametrize(("path", "code", "facts"), CASES)
@pytest.mark.parametrize("command", [("inspect",), ("rename", "x=pixels", *QUICK, "-o", "out.pb"), ("freeze", *QUICK)])
def test_it_leads_on(desk: Desk, path: str, code: str, facts: dict[str, str], command: tuple[str, ...]) -> None:
    fill(desk.folder)
    assert path in desk.refused(3, code, command[0], path, *command[1:], **facts).err


def test_what_it_leads_to_is_a_model(desk: Desk) -> None:
    fill(desk.folder)
    for model in {facts["whole"] for _, _, facts in CASES if "whole" in facts}:
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


@pytest.mark.parametrize("command", [("inspect",), ("rename", "x=q", *QUICK), ("freeze", *QUICK), ("validate", *QUICK)])
def test_the_checkpoint_of_another_model(desk: Desk, command: tuple[str, ...]) -> None:
    fill(desk.folder)
    checkpoint(desk.folder, "other", key="net/ww")
    arguments = (command[0], "model", *command[1:], "--checkpoint", "other")
    desk.refused(3, "no-such-tensor", *arguments, prefix="other", key="net/w", count=1)
    ran = desk.run("inspect", "model", "--checkpoint", "weights/model-5")
    assert ran.code == 0, ran.err


def test_freeze_replaces_no_folder(desk: Desk) -> None:
    fill(desk.folder)
    for model in ("model", "model/saved_model.pb", "trained/model-5.meta"):
        desk.refused(2, "conflicting-options", "freeze", model, "-i", *QUICK)
    desk.refused(2, "conflicting-options", "to-savedmodel", "model", "-i", *QUICK)
    for out in ("model/frozen.pb", "model/variables/frozen.pb"):
        desk.refused(2, "inside-model", "freeze", "model", *QUICK, "-o", out, file=out, model="model")


def test_a_saved_model_that_no_loader_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is around the graph counts, too."""
    fill(desk.folder)
    size = len(saved_model().SerializeToString())
    monkeypatch.setattr("gdsurgeon.operation.forms.LARGEST", size - 10)
    desk.refused(6, "too-large", "rename", "model", "y=yyyy", *QUICK, "-o", "out")
