"""The surroundings of a graph: a change in any place is found, whether an edit made it or two models differ in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.desk import Desk
from support.graphs import FLOAT, INT32, VERSIONS, add, const, graph_bytes, node, placeholder, scalar
from support.meta_graphs import checkpoint, meta_graph, put
from support.renaming import QUICK

from gdsurgeon.compare.surroundings import changes_what_is_served, compare_surroundings
from gdsurgeon.container.container import Container
from gdsurgeon.container.load import open_model
from gdsurgeon.container.output import OutputFolder
from gdsurgeon.errors import InputError
from gdsurgeon.operation import saved_models as making
from gdsurgeon.wire.protos import MetaGraphDef, message
from gdsurgeon.wire.write import read_chunks

Change = Callable[[Any], object]


def with_objects() -> Any:
    """A MetaGraph with the objects of TensorFlow 2: a variable, a function, a signature, an asset and a constant."""
    meta = meta_graph()
    for name in ("f", "g"):
        meta.graph_def.library.function.add().signature.name = name
    objects = meta.object_graph_def
    root, variable, constant, function, signatures, served, asset = (objects.nodes.add() for _ in range(7))
    root.user_object.identifier = "_generic_user_object"
    for place, name in ((1, "w"), (3, "serve"), (4, "signatures"), (6, "words")):
        root.children.add(node_id=place, local_name=name)
    variable.variable.dtype, variable.variable.trainable, variable.variable.name = 1, True, "w"
    variable.variable.shape.dim.add(size=2)
    constant.constant.operation = "w/initial"
    function.function.concrete_functions.append("f")
    function.function.function_spec.fullargspec.string_value = "(x)"
    signatures.user_object.identifier = "signature_map"
    signatures.children.add(node_id=5, local_name="serving_default")
    served.bare_concrete_function.concrete_function_name = "g"
    served.bare_concrete_function.argument_keywords.append("x")
    asset.asset.asset_file_def_index = 0
    for name in ("f", "g"):
        described = objects.concrete_functions[name]
        described.bound_inputs.extend([1, 2])
        described.output_signature.int64_value = 1
    return meta


# -- changes ---------------------------------------------------------------------------------------------------


def entry(key: str, kind: str, change: Change, place: int = 0) -> Change:
    """CHANGE of the message of KIND that is member PLACE of the collection KEY."""

    def changed(meta: Any) -> None:
        members = meta.collection_def[key].bytes_list.value
        found = message(f"tensorflow.{kind}").FromString(members[place])
        change(found)
        members[place] = found.SerializeToString(deterministic=True)

    return changed


def variable(change: Change, place: int = 0) -> Change:
    return entry("variables", "VariableDef", change, place)


def loop(change: Change, place: int = 0) -> Change:
    return entry("while_context", "WhileContextDef", change, place)


def nodes(key: str, *names: str) -> Change:
    return lambda meta: meta.collection_def[key].node_list.value.__setitem__(slice(None), names)


def signature(change: Change, key: str = "serving_default") -> Change:
    return lambda meta: change(meta.signature_def[key])


def put_in(owner: str, **fields: Any) -> Change:
    """Sets FIELDS of the part of a message that OWNER, names with dots, leads to."""

    def changed(found: Any) -> None:
        for name in filter(None, owner.split(".")):
            found = found[int(name)] if name.isdecimal() else getattr(found, name)
        for name, value in fields.items():
            if isinstance(value, list):
                getattr(found, name)[:] = value
            else:
                setattr(found, name, value)

    return changed


def exchange_outputs(meta: Any) -> None:
    outputs = meta.signature_def["serving_default"].outputs
    outputs["y"].name, outputs["r"].name = outputs["r"].name, outputs["y"].name


def rename_label(side: str) -> Change:
    def changed(definition: Any) -> None:
        infos = getattr(definition, side)
        (name,) = [name for name in infos if name in "xy"]
        infos["other"].CopyFrom(infos[name])
        del infos[name]

    return signature(changed)


def rename_key(meta: Any) -> None:
    meta.signature_def["other"].CopyFrom(meta.signature_def["serving_default"])
    del meta.signature_def["serving_default"]


def give_default(definition: Any) -> None:
    definition.defaults["x"].dtype = 1


def concrete(change: Change, name: str = "f") -> Change:
    return lambda meta: change(meta.object_graph_def.concrete_functions[name])


def drop_function(meta: Any) -> None:
    del meta.object_graph_def.concrete_functions["f"]


OBJECTS = "object_graph_def.nodes"
CHANGES: dict[str, Change] = {
    "the saver's file name": put_in("saver_def", filename_tensor_name="asset:0"),
    "the saver saves another tensor": put_in("saver_def", save_tensor_name="y:0"),
    "the saver restores by another node": put_in("saver_def", restore_op_name="init"),
    "the saver names no node": put_in("saver_def", restore_op_name="gone"),
    "the saver names no tensor": put_in("saver_def", save_tensor_name="save/saved:3"),
    "the saver keeps more": put_in("saver_def", max_to_keep=7),
    "the saver's version": put_in("saver_def", version=1),
    "no saver": lambda meta: meta.ClearField("saver_def"),
    "outputs exchanged": exchange_outputs,
    "an output is a different tensor": signature(lambda found: put_in("", name="unused:0")(found.outputs["y"])),
    "an output names no node": signature(lambda found: put_in("", name="gone:0")(found.outputs["y"])),
    "an output names no tensor": signature(lambda found: put_in("", name="y:1")(found.outputs["y"])),
    "an input is a different tensor": signature(lambda found: put_in("", name="w/read:0")(found.inputs["x"])),
    "an output gone": signature(lambda found: found.outputs.__delitem__("y")),
    "an input gone": signature(lambda found: found.inputs.__delitem__("x")),
    "an input more": signature(lambda found: put_in("", name="x:0")(found.inputs["again"])),
    "an input renamed": rename_label("inputs"),
    "an output renamed": rename_label("outputs"),
    "a signature renamed": rename_key,
    "a signature gone": lambda meta: meta.signature_def.__delitem__("serving_default"),
    "a signature more": lambda meta: meta.signature_def["more"].CopyFrom(meta.signature_def["serving_default"]),
    "another method": signature(put_in("", method_name="tensorflow/serving/classify")),
    "no method": signature(put_in("", method_name="")),
    "another dtype": signature(lambda found: put_in("", dtype=3)(found.outputs["y"])),
    "another shape": signature(lambda found: found.outputs["y"].tensor_shape.dim.add(size=7)),
    "a default": signature(give_default),
    "a part of a sparse tensor": signature(
        lambda found: put_in("coo_sparse", values_tensor_name="y:0")(found.inputs["s"]), "sparse"
    ),
    "a part of a composite tensor": signature(
        lambda found: put_in("composite_tensor.components.0", name="x:0")(found.outputs["r"]), "ragged"
    ),
    "the tensor of an asset": put_in("asset_file_def.0.tensor_info", name="save/file:0"),
    "an asset that names no node": put_in("asset_file_def.0.tensor_info", name="gone:0"),
    "the file of an asset": put_in("asset_file_def.0", filename="other.txt"),
    "no asset": lambda meta: meta.ClearField("asset_file_def"),
    "no initialiser": lambda meta: meta.collection_def.__delitem__("saved_model_main_op"),
    "another initialiser": nodes("saved_model_main_op", "save/all"),
    "an initialiser that is no node": nodes("saved_model_main_op", "gone"),
    "a list in another order": nodes("losses", "y:0", "unused:0"),
    "a list without a member": nodes("losses", "y:0"),
    "a list that names no node": nodes("losses", "unused:0", "y:0", "gone:0"),
    "a list gone": lambda meta: meta.collection_def.__delitem__("losses"),
    "no trained variables": lambda meta: meta.collection_def["trainable_variables"].bytes_list.ClearField("value"),
    "a variable's name": variable(put_in("", variable_name="x:0")),
    "a variable's initialiser": variable(put_in("", initializer_name="init")),
    "a variable's value": variable(put_in("", snapshot_name="x:0")),
    "a variable that names no node": variable(put_in("", snapshot_name="gone:0")),
    "a variable's first value": variable(put_in("", initial_value_name="x:0")),
    "a variable's slice": variable(put_in("save_slice_info_def", full_name="other")),
    "a variable that is trained": variable(put_in("", trainable=True)),
    "a loop's pivot": loop(put_in("", pivot_name="gone")),
    "a loop's values": loop(put_in("values_def", values=["gone"])),
    "a conditional in a loop": loop(put_in("nested_contexts.0.cond_ctxt", pred_name="x:0")),
    "a conditional's branch": entry("cond_context", "CondContextDef", put_in("", branch=1)),
    "a queue": entry("queue_runners", "QueueRunnerDef", put_in("", queue_name="gone")),
    "another saver in a collection": entry("savers", "SaverDef", put_in("", restore_op_name="gone")),
    "the bytes of a collection": lambda meta: meta.collection_def["notes"].bytes_list.value.__setitem__(0, b"z"),
    "the numbers of a collection": lambda meta: meta.collection_def["rates"].float_list.value.__setitem__(0, 1.5),
    "a tag more": lambda meta: meta.meta_info_def.tags.append("gpu"),
    "another release": put_in("meta_info_def", tensorflow_version="1.0"),
    "captures reversed": concrete(put_in("", bound_inputs=[2, 1])),
    "a capture that is no object": concrete(put_in("", bound_inputs=[1, 99])),
    "no captures": concrete(put_in("", bound_inputs=[])),
    "a concrete function's outputs": concrete(put_in("output_signature", int64_value=2), "g"),
    "a concrete function that is not described": drop_function,
    "a function without concrete functions": put_in(f"{OBJECTS}.3.function", concrete_functions=[]),
    "a function that names another": put_in(f"{OBJECTS}.3.function", concrete_functions=["g"]),
    "a function that is in no library": put_in(f"{OBJECTS}.5.bare_concrete_function", concrete_function_name="h"),
    "the arguments of a function": put_in(f"{OBJECTS}.5.bare_concrete_function", argument_keywords=["z"]),
    "the specification of a function": put_in(f"{OBJECTS}.3.function.function_spec.fullargspec", string_value="(y)"),
    "the constant of an object": put_in(f"{OBJECTS}.2.constant", operation="save/file"),
    "a constant that is no node": put_in(f"{OBJECTS}.2.constant", operation="gone"),
    "the shape of an object": put_in(f"{OBJECTS}.1.variable.shape.dim.0", size=3),
    "the dtype of an object": put_in(f"{OBJECTS}.1.variable", dtype=2),
    "an object that is not trained": put_in(f"{OBJECTS}.1.variable", trainable=False),
    "a child gone": lambda meta: meta.object_graph_def.nodes[0].children.__delitem__(0),
    "a child that is a different object": put_in(f"{OBJECTS}.0.children.0", node_id=6),
    "a child that is no object": put_in(f"{OBJECTS}.0.children.0", node_id=99),
    "a child renamed": put_in(f"{OBJECTS}.0.children.0", local_name="v"),
    "the kind of an object": put_in(f"{OBJECTS}.0.user_object", identifier="_tf_keras_model"),
    "no signatures for loaders": lambda meta: meta.object_graph_def.nodes[4].ClearField("children"),
    "no objects": lambda meta: meta.ClearField("object_graph_def"),
}
FILES: dict[str, Change] = {
    "the content of an asset": lambda folder: (folder / "assets" / "words.txt").write_bytes(b"b\na\n"),
    "a file that is not there": lambda folder: (folder / "assets" / "words.txt").unlink(),
    "a file more": lambda folder: (folder / "assets" / "more.txt").write_bytes(b"c\n"),
    "the shape of a variable's value": lambda folder: checkpoint(folder, "variables/variables", count=3),
    "the dtype of a variable's value": lambda folder: checkpoint(folder, "variables/variables", dtype="int32"),
    "another key": lambda folder: checkpoint(folder, "variables/variables", key="net/v"),
}
"""Changes of the files in the folder."""


@pytest.fixture
def model(desk: Desk) -> Path:
    meta = with_objects()
    meta.signature_def["serving_default"].outputs["r"].name = "w/read:0"
    return put(desk.folder / "model", meta)


def changed_chunks(change: Change) -> Any:
    """`Container.chunks` with a mistake, which makes CHANGE."""
    chunks = Container.chunks

    def wrong(self: Container, *args: Any) -> Any:
        saved = message("tensorflow.SavedModel").FromString(read_chunks(chunks(self, *args)))
        change(saved.meta_graphs[0])  # type: ignore[attr-defined]
        return [saved.SerializeToString(deterministic=True)]

    return wrong


@pytest.mark.parametrize("name", [*CHANGES, *FILES])
def test_a_mistake_around_the_graph_is_found(
    desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An edit that says nothing of it changes nothing there."""
    if name in CHANGES:
        monkeypatch.setattr(Container, "chunks", changed_chunks(CHANGES[name]))
    else:
        stage = OutputFolder.stage

        def wrong(self: OutputFolder, *args: Any) -> str:
            path = stage(self, *args)
            folder = Path(path).parent
            for file in [*folder.glob("variables/*"), *folder.glob("assets/*")]:  # not what they are links to
                copy = file.read_bytes()
                file.unlink()
                file.write_bytes(copy)
            FILES[name](folder)
            return path

        monkeypatch.setattr(OutputFolder, "stage", wrong)
    ran = desk.run("rename", "model", "x=pixels", *QUICK, "-o", "out")
    assert ran.code == 5, ran
    assert ran.error is not None and ran.error.code in ("undeclared-change", "unsound-graph")
    assert not (desk.folder / "out").exists()


REPORTED = (
    "the saver", "no saver", "a list", "a variable", "no trained", "a loop", "a conditional", "a queue", "a default",
    "another saver", "the bytes", "the numbers", "a tag", "the specification", "the arguments",
    "the shape of an object", "the dtype of an object", "an object that", "the kind", "no objects",
    "a file more", "the shape of a variable",
    "the dtype of a variable", "another key", "a signature more",
)  # fmt: skip
"""The beginnings of changes that no client of a loader notices, or that no loader loads."""
UNSEEN = ("another release",)
"""Facts about the exporter, not about the model."""


@pytest.mark.parametrize("name", [*CHANGES, *FILES])
def test_two_models_that_differ_around_the_graph(desk: Desk, model: Path, name: str) -> None:
    """Changes that clients see are distinguished from all others."""
    put_other(desk, name)
    try:
        one, other = (open_model(folder).container for folder in ("model", "other"))
    except InputError:
        return
    assert one is not None and other is not None
    found = compare_surroundings(one, other, {})
    assert bool(found) == (name not in UNSEEN)
    assert any(map(changes_what_is_served, found)) == (name not in UNSEEN and not name.startswith(REPORTED)), found


def put_other(desk: Desk, name: str) -> None:
    meta = with_objects()
    meta.signature_def["serving_default"].outputs["r"].name = "w/read:0"
    CHANGES.get(name, id)(meta)
    FILES.get(name, id)(put(desk.folder / "other", meta))


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "code", "place"),
    [
        ("outputs exchanged", 5, ["signature", "serving_default", "output", "r", "tensor"]),
        ("the content of an asset", 5, ["asset", "words.txt", "content"]),
        ("no initialiser", 5, ["initialiser"]),
        ("captures reversed", 5, ["object", "root.serve", "function 0"]),
        ("the saver keeps more", 0, ["saver", "max_to_keep"]),
        ("a tag more", 0, ["tags"]),
    ],
)
def test_validate_compares_what_is_served(desk: Desk, model: Path, name: str, code: int, place: list[str]) -> None:
    put_other(desk, name)
    command = ("validate", "model", "other", "--no-grappler", "--signature", "serving_default")
    ran = desk.run(*command, "--json")
    assert ran.code == code, ran
    assert place in [item["place"] for item in json.loads(ran.out)["surroundings"]]
    strict = desk.run(*command, "--strict")
    assert strict.code == 5 and strict.error is not None and strict.error.code == "differs"


def test_diff_tells_what_differs_around_the_graphs(desk: Desk, model: Path) -> None:
    """Compared by the names of nodes: data that follows a renamed node is equal."""
    desk.done("rename", "model", "x=pixels", *QUICK, "-o", "renamed")
    assert desk.answer("diff", "model", "renamed", code=1)["around"] == []
    put_other(desk, "the saver keeps more")
    (found,) = desk.answer("diff", "model", "other", code=1)["around"]
    assert found == {"place": ["saver", "max_to_keep"], "before": None, "after": 7}
    assert "saver: max_to_keep" in desk.run("diff", "model", "other").out.decode()


def test_no_mistake(desk: Desk, model: Path) -> None:
    """The model that the mistakes are planted in can be edited."""
    desk.done("rename", "model", "x=pixels", *QUICK, "-o", "out")


def saved_chunks(change: Change) -> Any:
    """`making.saved_model` with a mistake, which makes CHANGE."""
    made = making.saved_model

    def wrong(*args: Any) -> Any:
        saved = message("tensorflow.SavedModel").FromString(read_chunks(made(*args)))
        change(saved.meta_graphs[0])  # type: ignore[attr-defined]
        return [saved.SerializeToString(deterministic=True)]

    return wrong


SIGNATURE = ("signature", "model", "--rename", "serving_default/y=z", "--delete", "ragged", "--outputs", "new:u=unused",
             "--inputs", "new:x=x")  # fmt: skip
MAKING = ("to-savedmodel", "split.pb", "--outputs", "half=split:1", "--inputs", "x=x", "--init", "init")
UNFREEZING = ("to-savedmodel", "two.pb", "--unfreeze", "^w")
CLONE = ("clone-scope", "model", "w", "copy")
REQUESTS: dict[str, tuple[tuple[str, ...], Change]] = {
    "another output is renamed": (SIGNATURE, lambda m: put_in("", name="w/read:0")(output(m, "serving_default", "z"))),
    "the label is as before": (SIGNATURE, lambda m: m.signature_def["serving_default"].outputs["y"].SetInParent()),
    "another signature is removed": (SIGNATURE, lambda m: m.signature_def.__delitem__("sparse")),
    "a signature that was removed": (SIGNATURE, lambda m: output(m, "ragged", "r").SetInParent()),
    "a method is lost": (SIGNATURE, lambda m: m.signature_def["new"].ClearField("method_name")),
    "another tensor is added": (SIGNATURE, lambda m: put_in("", name="y:0")(output(m, "new", "u"))),
    "the added tensor has another dtype": (SIGNATURE, lambda m: put_in("", dtype=3)(output(m, "new", "u"))),
    "the added tensor has another shape": (
        SIGNATURE, lambda m: put_in("tensor_shape.dim.1", size=7)(output(m, "new", "u"))
    ),
    "the first output of a node": (MAKING, lambda m: put_in("", name="split:0")(output(m, "serving_default", "half"))),
    "no output": (MAKING, lambda m: m.signature_def["serving_default"].outputs.__delitem__("half")),
    "nothing is run first": (MAKING, lambda m: m.collection_def.clear()),
    "something else is run first": (MAKING, nodes("saved_model_main_op", "split")),
    "no tag": (MAKING, lambda m: m.meta_info_def.ClearField("tags")),
    "one value for all variables": (UNFREEZING, entry("variables", "VariableDef", put_in("", snapshot_name="w1:0"), 1)),
    "a variable is not listed": (UNFREEZING, lambda m: m.collection_def["variables"].bytes_list.value.__delitem__(0)),
    "the saver restores nothing": (UNFREEZING, put_in("saver_def", restore_op_name="save/save")),
    "slim: another value": (("slim", "model"), variable(put_in("", snapshot_name="x:0"))),
    "slim: another signature": (("slim", "model"), exchange_outputs),
    "slim: no trained variables": (("slim", "model"), lambda m: m.collection_def.__delitem__("variables")),
    "slim: a trained one is lost": (("slim", "model"), lambda m: m.collection_def.__delitem__("trainable_variables")),
    "slim: a trained variable is not marked": (("slim", "model"), variable(put_in("", trainable=False))),
    "clone: the saver keeps more": (CLONE, put_in("saver_def", max_to_keep=7)),
    "clone: a clone is not listed": (CLONE, lambda m: m.collection_def["variables"].bytes_list.value.pop()),
    "clone: the original is listed again": (CLONE, variable(put_in("", variable_name="w:0"), 1)),
    "clone: the clone has no loop": (CLONE, lambda m: m.collection_def["while_context"].bytes_list.value.pop()),
    "clone: a loop has another pivot": (CLONE, loop(put_in("", pivot_name="x"), 1)),
    "clone: a loop has another name": (CLONE, loop(put_in("", context_name="x"), 1)),
    "slim: an asset more": (("slim", "model"), lambda m: m.asset_file_def.add(filename="words.txt")),
}  # fmt: skip


def output(meta: Any, key: str, name: str) -> Any:
    return meta.signature_def[key].outputs[name]


@pytest.mark.parametrize("mistake", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_what_was_asked_for_is_written(
    desk: Desk, model: Path, monkeypatch: pytest.MonkeyPatch, name: str, mistake: bool
) -> None:
    command, change = REQUESTS[name]
    split = [scalar("axis", 1, INT32), node("split", "Split", ["axis", "x"], num_split=2, T=FLOAT)]
    desk.put("split.pb", graph_bytes(placeholder("x", FLOAT, (-1, 2)), *split, node("init", "NoOp"), trailer=VERSIONS))
    desk.put("two.pb", graph_bytes(const("w1", [1.0]), const("w2", [2.0]), add("y", "w1", "w2"), trailer=VERSIONS))
    if mistake:
        monkeypatch.setattr(Container, "chunks", changed_chunks(change))
        monkeypatch.setattr(making, "saved_model", saved_chunks(change))
    extra = ("--as-v1",) if command in (SIGNATURE, CLONE) else ()  # it has no functions
    for out in ("out", "-"):
        ran = desk.run(*command, *extra, *QUICK, "-o", out)
        assert ran.code == (5 if mistake else 0), ran
        if mistake:
            assert ran.error is not None and ran.error.code in ("undeclared-change", "unsound-graph")


def test_a_meta_graph_can_do_without_its_saver(desk: Desk) -> None:
    desk.put("m.meta", meta_graph(tags=()).SerializeToString())
    nodes_gone = [word for name in ("save/saved", "unused") for word in ("--node", name)]
    desk.done("remove", "m.meta", *nodes_gone, "--allow-outputs", *QUICK, "-o", "out.meta")
    assert not MetaGraphDef.FromString(desk.files()["out.meta"]).HasField("saver_def")
