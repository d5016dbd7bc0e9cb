"""Names of nodes in the records around a graph, and in the objects of a SavedModel."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import hostile
from support import saved_models as shipped
from support.desk import Desk
from support.graphs import FLOAT, INT32, node, placeholder, scalar
from support.meta_graphs import checkpoint, meta_graph, put, read, saved_model
from support.renaming import QUICK
from support.shipped import Shipped

from gdsurgeon.container.container import Container
from gdsurgeon.wire.protos import message
from gdsurgeon.wire.write import read_chunks

OTHERS = "x w w/initial w/Assign w/read y unused asset init save/file save/all save/saved".split()


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
    desk.done("rename", "model", f"{old}=pixels", *QUICK, "-o", "out")
    wanted = saved_model(meta_graph(lambda name: "pixels" if name == old else name, objects=objects))
    assert plainly(read("out")) == wanted
    desk.done("rename", "out", f"pixels={old}", *QUICK, "-o", "back")
    back, model = ((desk.folder / name / "saved_model.pb").read_bytes() for name in ("back", "model"))
    assert back == model


def test_all_names_follow_at_once(desk: Desk) -> None:
    put(desk.folder / "model")
    desk.done("rename", "model", "--regex", "^=p/", *QUICK, "-o", "out")
    assert plainly(read("out")) == saved_model(meta_graph(lambda name: "p/" + name))


def test_of_several_graphs_the_others_stay(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(tags=["serve", "tpu"]), meta_graph(), meta_graph(tags=["train"]))
    desk.done("rename", "model", "x=pixels", "--tags", "serve,tpu", *QUICK, "-o", "out")
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
    ran = desk.done("simplify", "model", *QUICK, "-o", "out", "--outputs", "y", "--report", "r.json")
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
    desk.done("add-postprocessing", "model", "twice.pb", *QUICK, "-o", "out")
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
    desk.done(*renaming)
    assert defaults("renamed") == {"seen": default}
    adding = ("signature", "model", "--outputs", "serving_default:again=y", *QUICK, "-o", "added")
    desk.done(*adding)
    assert defaults("added") == {"x": default}
    desk.put("pre.pb", placeholder("raw", INT32) + node("used", "Cast", ["raw"], SrcT=INT32, DstT=FLOAT))
    edit = ("add-preprocessing", "model", "pre.pb", "--map", "x=raw,used", *QUICK, "-o", "cast")
    desk.done(*edit)
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
    desk.done("inspect", "model", "--checkpoint", "weights/model-5")


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


def renamed(desk: Desk, saved_models: Shipped, name: str, code: int) -> None:
    """Renames all signatures of the model NAME, and the inputs of one: their order is reversed."""
    definitions = read(saved_models.path(name)).meta_graphs[0].signature_def
    keys = [key for key in definitions if not key.startswith("__")]
    inputs = sorted(definitions[keys[0]].inputs)
    words = [word for at, one in enumerate(inputs) for word in ("--rename", f"{keys[0]}/{one}=new{9 - at}")]
    words += [word for key in keys for word in ("--rename", f"{key}=new_{key}")]
    ran = desk.run("signature", saved_models.path(name), *words, "-o", "out")
    assert ran.code == code, ran


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", shipped.OBJECTS)
def test_renamed_signatures_are_served(desk: Desk, saved_models: Shipped, name: str) -> None:
    renamed(desk, saved_models, name, 0)


def in_objects(change: Callable[[Any, Any], object]) -> Callable[[Any], None]:
    """A CHANGE of the concrete functions of the signatures, and of the objects for them."""

    def wrong(meta: Any) -> None:
        objects = meta.object_graph_def
        (served,) = [item for item in objects.nodes if item.user_object.identifier == "signature_map"]
        bare = objects.nodes[served.children[0].node_id].bare_concrete_function
        change(bare, objects.concrete_functions[bare.concrete_function_name])

    return wrong


def in_body(change: Callable[[Any], object]) -> Callable[[Any], None]:
    """A CHANGE of the function of the signature."""

    def wrong(meta: Any) -> None:
        def found(bare: Any, _: Any) -> None:
            (body,) = [f for f in meta.graph_def.library.function if f.signature.name == bare.concrete_function_name]
            change(body)

        in_objects(found)(meta)

    return wrong


def exchange(items: Any) -> None:
    items[:] = list(items)[::-1]


def wrong_shape(body: Any) -> None:
    shapes = body.node_def[0].attr["_output_shapes"].list.shape
    del shapes[:]
    shapes.add().dim.add(size=9)


MISTAKES = {
    "captures are exchanged": in_objects(lambda _, function: exchange(function.bound_inputs)),
    "a capture is missing": in_objects(lambda _, function: function.bound_inputs.pop()),
    "a capture is a different object": in_objects(lambda _, function: function.bound_inputs.__setitem__(0, 0)),
    "a capture is no object": in_objects(lambda _, function: function.bound_inputs.__setitem__(0, 1000)),
    "inputs have other names": in_objects(lambda bare, _: bare.argument_keywords.__setitem__(0, "w")),
    "inputs are exchanged": in_objects(lambda bare, _: exchange(bare.argument_keywords)),
    "the specification lacks an input": in_objects(
        lambda bare, _: bare.function_spec.fullargspec.named_tuple_value.values.__delitem__(slice(None))
    ),
    "an input has another dtype": in_objects(
        lambda _, function: setattr(
            function.canonicalized_input_signature.tuple_value.values[1].dict_value.fields["z"].tensor_spec_value,
            "dtype", 3,
        )
    ),
    "an output has another name": in_objects(
        lambda _, function: function.output_signature.dict_value.fields["wrong"].SetInParent()
    ),
    "the function is missing": in_objects(lambda bare, _: setattr(bare, "concrete_function_name", "nowhere")),
    "a result is a different tensor": in_body(
        lambda body: body.ret.__setitem__(next(iter(body.ret)), body.signature.input_arg[0].name)
    ),
    "a shape that cannot be": in_body(wrong_shape),
    "an argument too many": in_body(lambda body: body.signature.input_arg.add(name="more", type=1)),
}  # fmt: skip


def unfilled(meta: Any) -> None:
    for item in meta.object_graph_def.nodes:
        for child in item.children:
            child.local_name = {"_initialize": "_fill"}.get(child.local_name, child.local_name)


@pytest.mark.tensorflow
def test_a_table_that_nothing_fills(desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MISTAKES, "unfilled", unfilled)
    check_not_accepted(desk, saved_models.path("table2"), monkeypatch, "unfilled", "serving_default=other")


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_never_accepted(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    check_not_accepted(desk, saved_models.path("branches"), monkeypatch, name, "serving_default/x=z")


def check_not_accepted(desk: Desk, source: str, monkeypatch: pytest.MonkeyPatch, name: str, rename: str) -> None:
    """Writes what RENAME asks for with a mistake."""
    chunks = Container.chunks

    def wrong(self: Container, *arguments: Any) -> Any:
        saved = message("tensorflow.SavedModel").FromString(read_chunks(chunks(self, *arguments)))
        MISTAKES[name](saved.meta_graphs[0])  # type: ignore[attr-defined]
        return [saved.SerializeToString(deterministic=True)]

    monkeypatch.setattr(Container, "chunks", wrong)
    ran = desk.run("signature", source, "--rename", rename, "-o", "out")
    assert ran.code == 5, ran
    assert not (desk.folder / "out").exists()
