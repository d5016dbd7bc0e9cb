"""What around a graph names a node follows it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import hostile
from support.desk import Desk
from support.graphs import FLOAT, INT32, node, placeholder, scalar
from support.meta_graphs import checkpoint, meta_graph, put, read, saved_model
from support.renaming import QUICK

from gdsurgeon.wire.protos import message

OTHERS = (
    "x",
    "w",
    "w/initial",
    "w/Assign",
    "w/read",
    "y",
    "unused",
    "asset",
    "init",
    "save/file",
    "save/all",
    "save/saved",
)


def plainly(model: Any) -> Any:
    """MODEL with its collections of messages in a form that does not depend on how maps are ordered in bytes."""
    for meta in model.meta_graphs:
        for key, kind in (("while_context", "WhileContextDef"), ("cond_context", "CondContextDef")):
            if key in meta.collection_def:
                entries = meta.collection_def[key].bytes_list.value
                parsed = [message(f"tensorflow.{kind}").FromString(entry) for entry in entries]
                entries[:] = [entry.SerializeToString(deterministic=True) for entry in parsed]
    return model


@pytest.mark.parametrize("old", OTHERS)
@pytest.mark.parametrize("objects", [False, True])
def test_whatever_names_a_node_follows_it(desk: Desk, old: str, objects: bool) -> None:
    put(desk.folder / "model", meta_graph(objects=objects))
    ran = desk.run("rename", "model", f"{old}=pixels", *QUICK, "-o", "out")
    assert ran.code == 0, ran.err
    wanted = saved_model(meta_graph(lambda name: "pixels" if name == old else name, objects=objects))
    assert plainly(read("out")) == wanted
    assert desk.run("rename", "out", f"pixels={old}", *QUICK, "-o", "back").code == 0
    assert (desk.folder / "back" / "saved_model.pb").read_bytes() == (
        desk.folder / "model" / "saved_model.pb"
    ).read_bytes()


def test_all_names_follow_at_once(desk: Desk) -> None:
    put(desk.folder / "model")
    assert desk.run("rename", "model", "--regex", "^=p/", *QUICK, "-o", "out").code == 0
    assert plainly(read("out")) == saved_model(meta_graph(lambda name: "p/" + name))


def test_of_several_graphs_the_others_stay(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve", "tpu"]), meta_graph(), meta_graph(tags=["train"]))
    assert desk.run("rename", "model", "x=pixels", "--tags", "serve,tpu", *QUICK, "-o", "out").code == 0
    renamed = meta_graph(lambda name: "pixels" if name == "x" else name, tags=["serve", "tpu"])
    assert plainly(read("out")) == saved_model(renamed, meta_graph(), meta_graph(tags=["train"]))
    assert desk.run("rename", "model", "x=pixels", *QUICK, "-o", "served").code == 0  # the one to serve
    renamed = meta_graph(lambda name: "pixels" if name == "x" else name)
    assert plainly(read("served")) == saved_model(
        meta_graph(tags=["serve", "tpu"]), renamed, meta_graph(tags=["train"])
    )


def test_tags_that_are_not_there(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve", "tpu"]), meta_graph(tags=["train"]))
    rename = ("rename", "model", "x=pixels", *QUICK, "-o", "out")
    there = ["serve,tpu", "train"]
    desk.refused(3, "no-such-tag", *rename, "--tags", "serve", file="model", name="serve", found=there)
    desk.refused(2, "missing-option", *rename, file="model", option="tags", found=there)
    inspect = ("inspect", "model", "--tags", "train", "--signature", "serving_defalt")
    desk.refused(3, "no-such-signature", *inspect, signature="serving_defalt")


@pytest.mark.parametrize(
    ("gone", "needed"),
    [
        ("x", "y:0"),
        ("w/initial", "w/initial:0"),
        ("asset", "asset:0"),
        ("save/saved", "save/saved:0"),
        ("save/all", "save/all"),
        ("save/file", "save/file:0"),
    ],
)
def test_what_something_needs_cannot_go(desk: Desk, gone: str, needed: str) -> None:
    put(desk.folder / "model")
    readers = {"x": ["y", "unused"], "w/initial": ["w/Assign"], "asset": ["path", "init"],
               "save/file": ["save/SaveV2", "save/saved", "save/RestoreV2", "save/Assign", "save/all"]}  # fmt: skip
    nodes = [word for name in (gone, *readers.get(gone, ())) for word in ("--node", name)]
    arguments = ("remove", "model", *nodes, "--allow-outputs", *QUICK, "-o", "out")
    desk.refused(4, "outside-uses", *arguments, tensor=needed)


def test_members_of_collections_that_go_are_told(desk: Desk) -> None:
    put(desk.folder / "model")
    ran = desk.run("simplify", "model", *QUICK, "-o", "out", "--outputs", "y", "--report", "r.json")
    assert ran.code == 0, ran.err
    (line,) = [line for line in ran.err.splitlines() if "collections" in line]
    assert line.startswith("  removed  from collections: ") and "1 of losses" in line
    lost = json.loads((desk.folder / "r.json").read_text())["edit"]["collections"]
    assert lost["losses"] == 1 and "rates" not in lost and "variables" not in lost
    desk.put("two.gds", b"remove --node unused\nrename x=pixels\n")
    ran = desk.run("apply", "model", "two.gds", *QUICK, "-o", "again", "--report", "r.json")
    assert "  removed  from collections: 1 of losses" in ran.err
    assert json.loads((desk.folder / "r.json").read_text())["steps"][0]["edit"]["collections"] == {"losses": 1}


def test_a_signature_stays_with_the_name_that_another_node_takes(desk: Desk) -> None:
    put(desk.folder / "model")
    desk.put("twice.pb", scalar("two", 2) + post())
    ran = desk.run("add-postprocessing", "model", "twice.pb", *QUICK, "-o", "out")
    assert ran.code == 0, ran.err
    meta = read("out").meta_graphs[0]
    assert meta.signature_def["serving_default"].outputs["y"].name == "y:0"
    served = {node.name: node for node in meta.graph_def.node}
    was = served[served["y"].input[0]]
    assert (was.op, list(was.input), list(served["y"].input)) == ("Mul", ["x", "w/read"], [was.name, "two"])


def post() -> bytes:
    return placeholder("y", FLOAT, (-1, 2)) + node("y_postprocessed", "Mul", ["y", "two"], T=FLOAT)


def test_what_an_input_is_by_default_follows_it(desk: Desk) -> None:
    """A signature says what an input is where a caller does not give it; one that takes another type has none."""
    meta = meta_graph()
    default = meta.signature_def["serving_default"].defaults["x"]
    default.dtype, default.float_val[:] = 1, [2.0, 3.0]
    put(desk.folder / "model", meta)

    def defaults(folder: str) -> dict[str, Any]:
        return dict(read(folder).meta_graphs[0].signature_def["serving_default"].defaults)

    renaming = ("signature", "model", "--rename", "serving_default/x=seen", *QUICK, "-o", "renamed")
    assert desk.run(*renaming).code == 0
    assert defaults("renamed") == {"seen": default}
    adding = ("signature", "model", "--outputs", "serving_default:again=y", *QUICK, "-o", "added")
    assert desk.run(*adding).code == 0
    assert defaults("added") == {"x": default}
    desk.put("pre.pb", placeholder("raw", INT32) + node("used", "Cast", ["raw"], SrcT=INT32, DstT=FLOAT))
    edit = ("add-preprocessing", "model", "pre.pb", "--map", "x=raw,used", *QUICK, "-o", "cast")
    ran = desk.run(*edit)
    assert ran.code == 0, ran.err
    assert defaults("cast") == {}


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
    """The data around the graph counts as well."""
    fill(desk.folder)
    size = len(saved_model().SerializeToString())
    monkeypatch.setattr("gdsurgeon.operation.forms.LARGEST", size - 10)
    desk.refused(6, "too-large", "rename", "model", "y=yyyy", *QUICK, "-o", "out")
