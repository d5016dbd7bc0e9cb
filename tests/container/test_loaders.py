"""What loaders make of SavedModels that were edited: each of them sees the edit, and gives the same values."""

from __future__ import annotations

import base64
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import loaders, saved_models
from support.desk import Desk
from support.graphs import FLOAT, INT32, INT64, STRING, const, node, placeholder, scalar
from support.renaming import QUICK
from support.shipped import Recorded, Shipped

from gdsurgeon.container import objects as container_objects
from gdsurgeon.container.load import open_model
from gdsurgeon.container.objects import SIGNATURE_MAP
from gdsurgeon.edits import functions
from gdsurgeon.ops.kinds import is_table
from gdsurgeon.proof.served import Loader
from gdsurgeon.runtime.base import Served
from gdsurgeon.wire.protos import message

pytestmark = [pytest.mark.tensorflow]

UNSERVED = ("keras_saved",)
"""What loaders of graphs do not restore."""
ALL = (*saved_models.OBJECTS, *saved_models.NODES)
KEY = "serving_default"
UNCHECKED = "--no-v2-check"
"""The tests ask tf.saved_model.load themselves."""


@pytest.fixture(scope="module")
def loaded(tf: Any) -> Any:
    """TensorFlow in this process, which says nothing of what is deprecated."""
    tf.get_logger().setLevel("ERROR")
    return tf


def check_served(tf: Any, path: str, recorded: Recorded, key: str = KEY, ways: Any = loaders.ALL) -> None:
    """Holds what each loader gives against what was recorded."""
    wanted = {name: value.tolist() for name, value in recorded.outputs.items()}
    for load in ways:
        assert load(tf, path, key, recorded.inputs) == wanted, load


def put_pre(desk: Desk, value: np.ndarray) -> np.ndarray:
    """Writes pre.pb, a graph that takes the bits of numbers as integers, and strings in base 64; returns VALUE so."""
    shape = (-1, *value.shape[1:]) if value.shape else ()
    if value.dtype == object:
        desk.put("pre.pb", placeholder("raw", STRING, shape) + node("used", "DecodeBase64", ["raw"]))
        texts = [base64.urlsafe_b64encode(text).rstrip(b"=") for text in value.ravel()]
        return np.array(texts, object).reshape(value.shape)
    if value.dtype == np.int32:
        desk.put("pre.pb", placeholder("raw", INT64, shape) + node("used", "Cast", ["raw"], SrcT=INT64, DstT=INT32))
        return value.astype(np.int64)
    desk.put("pre.pb", placeholder("raw", INT32, shape) + node("used", "Bitcast", ["raw"], T=INT32, type=FLOAT))
    return value.view(np.int32)


Expected = tuple[str, Recorded]
"""The key of a signature, its inputs and its outputs."""


def unedited(_desk: Desk, _model: str, recorded: Recorded) -> Expected:
    return KEY, recorded


def renamed(desk: Desk, model: str, recorded: Recorded) -> Expected:
    """Every node outside of functions gets a new name."""
    desk.done("rename", model, "--regex", "^=p/", *QUICK, "-o", "out")
    return KEY, recorded


def slim(desk: Desk, model: str, recorded: Recorded) -> Expected:
    desk.done("slim", model, *QUICK, "-o", "out")
    return KEY, recorded


def frozen(desk: Desk, model: str, recorded: Recorded) -> Expected:
    """Frozen, and a SavedModel again."""
    desk.done("freeze", model, *QUICK, "-o", "frozen.pb")
    serving = open_model(model).graph.serving
    assert serving is not None
    served, run = serving.called[KEY], serving.initialising
    options = [*(("--inputs", f"{name}={tensor}") for name, tensor in served.inputs.items()),
               *(("--outputs", f"{name}={tensor}") for name, tensor in served.outputs.items())]  # fmt: skip
    there = open_model("frozen.pb").graph
    if run is not None and any(is_table(node.op) for node in there.nodes()):
        options += [("--init", name) for name in run.targets]
        options += [("--asset", f"{tensor}={path}") for tensor, path in run.feeds.items()]
    desk.done("to-savedmodel", "frozen.pb", *chain.from_iterable(options), *QUICK, "-o", "out")
    return KEY, recorded


def signed(desk: Desk, model: str, recorded: Recorded) -> Expected:
    """The signature, an input and an output get new names."""
    old, new = max(recorded.inputs), max(recorded.outputs)
    pairs = (f"{KEY}/{old}=seen", f"{KEY}/{new}=given", f"{KEY}=predict")
    desk.done("signature", model, *chain.from_iterable(("--rename", pair) for pair in pairs), *QUICK, "-o", "out")
    inputs = {("seen" if name == old else name): value for name, value in recorded.inputs.items()}
    outputs = {("given" if name == new else name): value for name, value in recorded.outputs.items()}
    return "predict", Recorded(inputs, outputs)


def preprocessed(desk: Desk, model: str, recorded: Recorded) -> Expected:
    """One input is computed by nodes that are added."""
    key = max(recorded.inputs)
    raw = put_pre(desk, recorded.inputs[key])
    desk.done("add-preprocessing", model, "pre.pb", "--map", f"{KEY}/{key}=raw,used", *QUICK, "-o", "out")
    return KEY, Recorded({**recorded.inputs, key: raw}, recorded.outputs)


EDITS = (unedited, renamed, slim, frozen, signed, preprocessed)
NOT_RESTORED = frozenset(("by_tensorflow_1", "by_c_api", "by_command_line"))
"""Loaders of graphs: they do not restore variables that only objects restore."""


def same(wanted: dict[str, np.ndarray], found: dict[str, Any]) -> bool:
    """Returns whether outputs are equal, floating-point numbers up to rounding."""
    if wanted.keys() != found.keys():
        return False
    pairs = [(value, np.array(found[name], value.dtype)) for name, value in wanted.items()]
    return all(np.allclose(a, b, 1e-5, 1e-6) if a.dtype.kind == "f" else np.array_equal(a, b) for a, b in pairs)


def test_each_loader_returns_the_same_for_each_edit(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each result loads, and returns the values that the edit promises, in every loader that loads the original."""
    calls: dict[tuple[str, str], loaders.Call] = {}
    wanted: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for name, edit in product(ALL, EDITS):
        case = name, edit.__name__
        folder = desk.folder / "_".join(case)
        folder.mkdir()
        monkeypatch.chdir(folder)
        key, (inputs, wanted[case]) = edit(
            Desk(folder, desk.scratch), saved_models.path(name), saved_models.recorded(name)
        )
        path = str(folder / "out") if edit is not unedited else saved_models.path(name)
        calls[case] = loaders.Call(path, key, inputs)
    monkeypatch.chdir(desk.folder)
    with ThreadPoolExecutor(2) as pool:
        found = dict(
            zip(loaders.EACH, pool.map(partial(loaders.called, list(calls.values())), loaders.EACH), strict=True)
        )
    wrong: dict[tuple[str, str, str], object] = {}
    for loader, results in found.items():
        given = dict(zip(calls, results, strict=True))
        assert {name for name in ALL if isinstance(given[name, "unedited"], str)} == (
            {*UNSERVED} if loader in NOT_RESTORED else set()
        )
        for case, outputs in given.items():
            is_loaded = not isinstance(given[case[0], "unedited"], str)
            if is_loaded and (isinstance(outputs, str) or not same(wanted[case], outputs)):
                wrong[(loader, *case)] = outputs, wanted[case]
    assert wrong == {}


def test_what_is_edited_twice(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """A signature that was edited is edited again: the first function leaves no traces."""
    recorded = saved_models.recorded("several", "scaled")
    model = saved_models.path("several")
    raw = put_pre(desk, recorded.inputs["x"])
    desk.done("add-preprocessing", model, "pre.pb", "--map", "scaled/x=raw,used", UNCHECKED, "-o", "once")
    check_served(loaded, "once", Recorded({**recorded.inputs, "x": raw}, recorded.outputs), "scaled")
    desk.done("signature", "once", "--rename", "scaled/x=seen", "--rename", "scaled/y=given", UNCHECKED, "-o", "twice")
    desk.done("signature", "twice", "--rename", "scaled=predict", "--delete", "counted", UNCHECKED, "-o", "thrice")
    outputs = {"given": recorded.outputs["y"], "k": recorded.outputs["k"]}
    check_served(loaded, "thrice", Recorded({"k": recorded.inputs["k"], "seen": raw}, outputs), "predict")
    assert sorted(loaded.saved_model.load("thrice").signatures) == ["predict", "serving_default"]
    made = [f.signature.name for f in open_model("thrice").graph.functions if "wrapper_scaled" in f.signature.name]
    assert not made


def test_calls_that_are_dissolved(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """The graph calls no function any more: what its variables and tables are is known from the signature's own."""
    desk.done("inline", saved_models.path("table2"), UNCHECKED, "-o", "flat")
    recorded = saved_models.recorded("table2")
    check_served(loaded, "flat", recorded)
    raw = put_pre(desk, recorded.inputs["words"])
    desk.done("add-preprocessing", "flat", "pre.pb", "--map", f"{KEY}/words=raw,used", UNCHECKED, "-o", "out")
    check_served(loaded, "out", Recorded({"words": raw}, recorded.outputs))


def test_an_input_that_is_frozen_is_none(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    recorded = saved_models.recorded("several", "scaled")
    value = float(recorded.inputs["k"])
    desk.done("freeze-input", saved_models.path("several"), f"scaled/k={value}", UNCHECKED, "-o", "out")
    # Keras would take the model's own function of that name.
    ways = (loaders.by_tensorflow_1, loaders.by_c_api, loaders.by_tensorflow_2)
    check_served(loaded, "out", Recorded({"x": recorded.inputs["x"]}, recorded.outputs), "scaled", ways)


def test_a_large_constant_is_an_object(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """The function does not have it either."""
    table = np.arange(65536, dtype=np.float32)
    kinds = {"Tparams": FLOAT, "Tindices": INT32, "Taxis": INT32}
    gather = node("used", "GatherV2", ["table", "raw", "zero"], **kinds)
    desk.put(
        "pre.pb",
        placeholder("raw", INT32, (-1, 4)) + const("table", table.tolist()) + scalar("zero", 0, INT32) + gather,
    )
    desk.done("add-preprocessing", saved_models.path("dense"), "pre.pb", "--map", f"{KEY}/x=raw,used", "-o", "out")
    recorded = saved_models.recorded("dense")
    loads = [load(loaded, "out", KEY, {"x": np.arange(12, dtype=np.int32).reshape(3, 4)}) for load in loaders.ALL]
    assert all(given == loads[0] for given in loads)
    assert list(loads[0]) == list(recorded.outputs)
    assert os.path.getsize("out/saved_model.pb") < 1.2 * table.nbytes


def test_signatures_that_share_what_they_change(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """Each is asked of the model as it is loaded."""
    added = ("--outputs", "again:n=counted/n", "--outputs", "more:n=counted/n")
    report = desk.report("signature", saved_models.path("several"), *added, "-o", "out")
    assert report["proof"]["loader"].endswith("again, more")
    check_served(loaded, "out", saved_models.recorded("several", "counted"), "more")


def test_a_signature_that_only_the_graph_has(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """The objects get it with the next that is touched."""
    shutil.copytree(saved_models.path("several"), "model")
    file = Path("model/saved_model.pb")
    data = message("tensorflow.SavedModel").FromString(file.read_bytes())
    for item in data.meta_graphs[0].object_graph_def.nodes:
        kept = [child for child in item.children if child.local_name != "scaled"]
        if item.user_object.identifier == SIGNATURE_MAP:
            del item.children[:]
            item.children.extend(kept)
    file.write_bytes(data.SerializeToString())
    desk.done("signature", "model", "--rename", f"{KEY}=plainly", "-o", "out")
    check_served(loaded, "out", saved_models.recorded("several", "scaled"), "scaled", loaders.OF_GRAPHS)
    assert sorted(loaded.saved_model.load("out").signatures) == ["counted", "plainly", "scaled"]


def test_objects_that_are_corrupt(desk: Desk, saved_models: Shipped) -> None:
    """They are reported only if they are needed."""
    shutil.copytree(saved_models.path("dense"), "model")
    file = Path("model/saved_model.pb")
    data = message("tensorflow.SavedModel").FromString(file.read_bytes())
    for item in data.meta_graphs[0].object_graph_def.nodes:
        if item.user_object.identifier == SIGNATURE_MAP:
            item.children[0].node_id = 99
    file.write_bytes(data.SerializeToString())
    desk.done("rename", "model", "serving_default_x=x", "-o", "renamed")
    put_pre(desk, saved_models.recorded("dense").inputs["x"])
    edit = ("add-preprocessing", "model", "pre.pb", "--map", f"{KEY}/x=raw,used", "-o", "out")
    desk.refused(3, "corrupt", *edit, found=99, count=7)
    desk.done(*edit, "--as-v1")


def test_tensorflow_is_asked(desk: Desk, loaded: Any, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that differs from the graph is found by its nodes, or else by running it."""
    desk.put("pre.pb", placeholder("raw", INT32) + node("used", "Bitcast", ["raw"], T=INT32, type=FLOAT))
    edit = ("add-preprocessing", saved_models.path("dense"), "pre.pb", "--map", f"{KEY}/x=raw,used", "-o", "out")
    assert desk.report(*edit)["proof"]["loader"].endswith(KEY)
    shutil.rmtree("out")

    def negated(*args: Any) -> Any:
        made, captured = functions.signature_function(*args)
        (output,) = made.ret
        made.node_def.add(name="wrong", op="Neg", input=[made.ret[output]]).attr["T"].type = 1
        made.ret[output] = "wrong:y:0"
        return made, captured

    monkeypatch.setattr("gdsurgeon.operation.saved_models.signature_function", negated)
    for level in ("structure", "run"):
        found = desk.refused(5, "unsound-graph", *edit, "--validate", level)
        assert found.error is not None
        (fault,) = found.error.facts["faults"]  # type: ignore[misc]
        assert (fault["code"], fault["signature"]) == ("wrong-function", KEY)  # type: ignore[index, call-overload]
    monkeypatch.setattr("gdsurgeon.operation.saved_models.wrong_functions", lambda *_: [])
    desk.refused(5, "differs", *edit)
    desk.done(*edit, UNCHECKED)


def test_variables_that_only_objects_restore(desk: Desk, loaded: Any, saved_models: Shipped) -> None:
    """Variables of Keras: a client that runs only the graph's restore op has no values for them."""
    model = saved_models.path("keras_saved")
    recorded = saved_models.recorded("keras_saved")
    with pytest.raises(Exception, match="Could not find variable"):
        loaders.by_tensorflow_1(loaded, model, KEY, recorded.inputs)
    report = desk.report("rename", model, "--regex", "^=p/", "-o", "out")
    assert report["proof"]["largest_difference"] == 0
    check_served(loaded, "out", recorded, ways=loaders.OF_OBJECTS)
    assert desk.answer("validate", "out")["passed"]


def no_shapes(made: Any) -> None:
    for field in made.output_signature.dict_value.fields.values():
        field.tensor_spec_value.shape.unknown_rank = True


def other_output(made: Any) -> None:
    fields = made.output_signature.dict_value.fields
    fields["other"].CopyFrom(fields.pop("z"))


def other_dtype(made: Any) -> None:
    made.canonicalized_input_signature.tuple_value.values[1].dict_value.fields["x"].tensor_spec_value.dtype = 3


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("_concrete", no_shapes),
        ("_concrete", other_output),
        ("_concrete", other_dtype),
        ("_bare", lambda made: made.argument_keywords.__setitem__(0, "other")),
    ],
)
def test_a_function_declares_what_its_signature_does(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch, part: str, change: Any
) -> None:
    make = getattr(container_objects, part)

    def wrong(*args: Any) -> Any:
        made = make(*args)
        change(made)
        return made

    edit = ("signature", saved_models.path("dense"), "--rename", f"{KEY}/y=z", *QUICK, "-o", "out")
    with monkeypatch.context() as patch:
        patch.setattr(container_objects, part, wrong)
        desk.refused(5, "unsound-graph", *edit)
    desk.done(*edit)


@pytest.mark.parametrize(("refusing", "code"), [(("after",), 5), (("before", "after"), 7), (("once",), 0)])
def test_what_the_original_refuses_is_no_fault(
    desk: Desk, saved_models: Shipped, monkeypatch: pytest.MonkeyPatch, refusing: tuple[str, ...], code: int
) -> None:
    """Other inputs are tried if the original refuses the same call."""
    ask, model, calls = Loader.ask, saved_models.path("dense"), []

    def refused(self: Loader, folder: str, asked: Any) -> Served:
        answers = ask(self, folder, asked)
        calls.extend(call.inputs for call in asked)
        is_refused = ("before" if folder == model else "after") in refusing or ("once" in refusing and len(calls) < 3)
        return Served([], refused="no") if asked and is_refused else answers

    monkeypatch.setattr(Loader, "ask", refused)
    edit = ("add-postprocessing", model, "--steps", "clip(0, 6)", "-o", "out")
    if code:
        desk.refused(code, "does-not-run" if code == 5 else "unfeedable", *edit, signature=KEY)
    else:
        desk.done(*edit)
    assert len(calls) == {5: 2, 7: 6, 0: 3}[code]
