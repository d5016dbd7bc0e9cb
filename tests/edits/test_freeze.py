"""freeze: a frozen graph gives what the model gives that it was made of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support import loaders
from support.cloning import KEYS, table, variable
from support.desk import Desk, check_error
from support.graphs import add, node, typed
from support.meta_graphs import checkpoint, graph, meta_graph, put, serving
from support.renaming import QUICK
from support.saved_models import CHECKPOINTS, OBJECTS, TRAINED
from support.shipped import SIGNATURES, Shipped, computed

import gdsurgeon as gds
from gdsurgeon.container import container
from gdsurgeon.container.load import open_model
from gdsurgeon.container.restoring import Key
from gdsurgeon.edits.freeze import _VALUE_OPS, freeze
from gdsurgeon.graph.serving import Served

FREEZE = ("freeze", "model", *QUICK)
OUT = ("-o", "out.pb")


@pytest.mark.parametrize(("name", "key"), SIGNATURES)
def test_a_frozen_graph_gives_what_the_model_gave(desk: Desk, saved_models: Shipped, name: str, key: str) -> None:
    path = saved_models.path(name)
    serving = open_model(path).graph.serving
    assert serving is not None
    served = Served(*TRAINED) if name in CHECKPOINTS else serving.called[key]
    recorded = saved_models.recorded(name, key)
    inputs = {k: v.astype("S") if v.dtype == object else v for k, v in recorded.inputs.items()}
    np.savez("feeds.npz", **{served.inputs[k].removesuffix(":0"): v for k, v in inputs.items()})
    meant = ("--outputs", "y") if name in CHECKPOINTS else ("--signature", key)
    given = ("--feeds", "feeds.npz") if name == "parsed" else ()
    desk.done("freeze", path, *meant, *given, "-o", "frozen.pb", "--report", "report.json")
    report = json.loads(desk.files()["report.json"])
    assert report["proof"]["compared"] > 0 and report["proof"]["largest_difference"] == 0
    assert desk.temporary_files() == []
    initialising = serving.initialising if name.startswith("table") else None
    outputs = computed(str(desk.folder / "frozen.pb"), served, recorded.inputs, initialising)
    assert {k: v.tolist() for k, v in outputs.items()} == {k: v.tolist() for k, v in recorded.outputs.items()}
    frozen = gds.load("frozen.pb")
    kept = [node.op for node in frozen.nodes() if node.op.startswith(("Var", "Restore", "Save", "Assign"))]
    assert kept == (["VarHandleOp", "AssignVariableOp"] if name == "table2" else [])  # which initialise the table
    if initialising is not None:
        (note,) = freeze(open_model(path).graph, signatures=[key]).notes
        check_error(note, "run-before", {"feeds": initialising.feeds})


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "table2"])
def test_a_frozen_graph_becomes_a_model_that_all_load(desk: Desk, tf: Any, saved_models: Shipped, name: str) -> None:
    """What functions say of the shapes of handles is not left of the values that take their places."""
    served = open_model(saved_models.path(name)).graph.serving.called["serving_default"]  # type: ignore[union-attr]
    names = [f"--inputs={key}={tensor}" for key, tensor in served.inputs.items()]
    names += [f"--outputs={key}={tensor}" for key, tensor in served.outputs.items()]
    for command in (("freeze", saved_models.path(name), "-o", "f.pb"), ("to-savedmodel", "f.pb", *names, "-o", "out")):
        desk.done(*command, *QUICK)
    recorded = saved_models.recorded(name)
    for load in loaders.ALL:
        given = load(tf, "out", "serving_default", recorded.inputs)
        assert given.keys() == recorded.outputs.keys(), load
        for key, value in recorded.outputs.items():
            is_near = value.dtype.kind == "f" and np.allclose(given[key], value, rtol=1e-5)
            assert is_near or given[key] == value.tolist(), (load, key)


def test_a_meta_graph_and_its_checkpoint(desk: Desk) -> None:
    """Given by the prefix, by the .meta, with values from elsewhere."""
    desk.put("m-1.meta", meta_graph().SerializeToString())
    checkpoint(desk.folder, "m-1")
    for name in ("m-1", "m-1.meta"):
        desk.done("freeze", name, *QUICK, "-o", f"{name}.pb")
    assert (desk.folder / "m-1.pb").read_bytes() == (desk.folder / "m-1.meta.pb").read_bytes()
    desk.put("alone.meta", meta_graph().SerializeToString())
    desk.refused(4, "no-checkpoint", "freeze", "alone.meta", *QUICK, *OUT, file="alone.meta", count=1)
    desk.done("freeze", "alone.meta", "--checkpoint", "m-1", *QUICK, *OUT)
    assert (desk.folder / "m-1.pb").read_bytes() == (desk.folder / "out.pb").read_bytes()


def test_no_checkpoint(desk: Desk) -> None:
    put(desk.folder / "model", values=False)
    desk.refused(4, "no-checkpoint", *FREEZE, *OUT, file="model", count=1)
    desk.refused(3, "no-such-file", *FREEZE, "--checkpoint", "nothing", *OUT, file="nothing")


@pytest.mark.parametrize(
    ("key", "dtype", "count", "code", "facts"),
    [
        ("net/v", "float32", 2, "no-such-tensor", {"key": "net/w", "near": "net/v"}),
        ("net/w", "int32", 2, "dtype-mismatch", {"key": "net/w", "expected": "float32", "found": "int32"}),
        ("net/w", "float32", 3, "shape-mismatch", {"expected": (2,), "found": (3,)}),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    desk: Desk, key: str, dtype: str, count: int, code: str, facts: dict[str, Any]
) -> None:
    put(desk.folder / "model", values=False)
    checkpoint(desk.folder / "model", "variables/variables", key, dtype, count)
    desk.refused(4, code, *FREEZE, *OUT, variable="w", **facts)


def test_signatures(desk: Desk) -> None:
    model = meta_graph()
    del model.signature_def["sparse"], model.signature_def["ragged"]
    model.signature_def["by_name"].CopyFrom(model.signature_def["serving_default"])
    del model.signature_def["serving_default"]
    put(desk.folder / "model", model)
    desk.done(*FREEZE, "-o", "one.pb")
    desk.refused(3, "no-such-signature", *FREEZE, "--signature", "by_nam", *OUT, signature="by_nam", near="by_name")
    model.signature_def["another"].CopyFrom(model.signature_def["by_name"])
    put(desk.folder / "two", model)
    desk.refused(4, "ambiguous-signature", "freeze", "two", *QUICK, *OUT, signatures=["another", "by_name"])


def test_what_cannot_be_frozen(desk: Desk) -> None:
    put(desk.folder / "model", meta_graph(restored=False))
    desk.refused(4, "not-restored", *FREEZE, *OUT, variable="w")
    desk.refused(4, "no-such-node", *FREEZE, "--outputs", "z", *OUT, node="z")
    desk.put("model.pb", graph())
    desk.refused(4, "wrong-format", "freeze", "model.pb", "--outputs", "y", *QUICK, *OUT, file="model.pb")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("inputs", "outputs", "ops"),
    [
        ({"x": "x:0"}, {"d": "d:0"}, {"x": "Placeholder", "d": "AddV2"}),
        (
            {"x": "x:0", "W": "w:0"},
            {"y": "y:0"},
            {"x": "Placeholder", "w": "Placeholder", "w/read": "Identity", "y": "Mul"},
        ),
        ({"W": "w:0"}, {"r": "w/read:0"}, {"w": "Placeholder", "w/read": "Identity"}),
        ({}, {"W": "w:0"}, {"w": "Const"}),
        ({"x": "x:0"}, {"y": "y:0", "W": "w:0"}, {"x": "Placeholder", "w": "Const", "w/read": "Identity", "y": "Mul"}),
    ],
    ids=["no variable", "a variable is an input", "all are inputs", "a variable is the output", "and another one"],
)
def test_what_signatures_take_and_give(
    desk: Desk, inputs: dict[str, str], outputs: dict[str, str], ops: dict[str, str]
) -> None:
    put(desk.folder / "model", serving(inputs, outputs, add("d", "x", "x")))
    proof = desk.report("freeze", "model", *OUT)["proof"]
    assert proof["compared"] == len(outputs)
    assert {node.name: node.op for node in gds.load(str(desk.folder / "out.pb")).nodes()} == ops


@pytest.mark.parametrize("cut", [1, 20])
@pytest.mark.parametrize(("name", "reason"), [("index", "end"), ("data-00000-of-00001", "cut short")])
def test_a_cut_checkpoint(desk: Desk, cut: int, name: str, reason: str) -> None:
    put(desk.folder / "model")
    path = f"model/variables/variables.{name}"
    desk.put(path, (desk.folder / path).read_bytes()[:-cut])
    desk.refused(3, "corrupt", *FREEZE, *OUT, file=path, reason=reason)


def test_a_variable_that_is_written(desk: Desk, saved_models: Shipped) -> None:
    arguments = ["freeze", saved_models.path("several"), "--signature", "counted", *OUT]
    desk.refused(4, "is-written", *arguments, op="AssignAddVariableOp", variable="count")


# -- mistakes ------------------------------------------------------------------------------------------------


def swapped(real: Any) -> Any:
    """Two variables of one shape get each other's values."""

    def weights_of(prefix: str, keys: dict[str, Key], wanted: Any) -> Any:
        a, b = sorted(keys)[:2]
        return real(prefix, {**keys, a: keys[b], b: keys[a]}, wanted)

    return weights_of


@pytest.mark.parametrize("name", ["branches", "dense"])
def test_a_mistake_is_found_by_the_proof(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, saved_models: Shipped, name: str
) -> None:
    if name == "dense":
        monkeypatch.setitem(_VALUE_OPS, "ReadVariableOp", "Neg")
    else:
        monkeypatch.setattr(container, "weights", swapped(container.weights))
    desk.refused(5, "differs", "freeze", saved_models.path(name), *OUT)


@pytest.mark.tensorflow
@pytest.mark.parametrize("command", [("freeze",), ("slim", "--signature", "serving_default"), ("rename", "y=z")])
@pytest.mark.parametrize("name", ["d", "serving_default/D"])
def test_a_value_that_is_given_for_an_input_with_a_default_reaches_both_graphs(
    desk: Desk, command: tuple[str, ...], name: str
) -> None:
    taken = node("d", "PlaceholderWithDefault", ["w/initial"], dtype="float32", shape=(2,))
    served = typed("Mul", "s", "d", "w/read")
    put(desk.folder / "model", serving({"D": "d:0"}, {"s": "s:0"}, taken, served))
    proof = desk.report(command[0], "model", *command[1:], "--feed", f"{name}=[3, 4]", "-o", "out")["proof"]
    assert proof["outputs"][0]["value"] == "[4.5, 10]" and proof["samples"] == 1


@pytest.mark.tensorflow
def test_a_table_and_a_variable_that_one_group_initialises(desk: Desk) -> None:
    """What initialises the table stays; what initialises a variable that no output needs is removed."""
    groups = [node("more", "NoOp", ["^other/Assign"]), node("all", "NoOp", ["^fill/fill", "^more", "^fill/keys"])]
    model = serving(
        {"k": "k:0"}, {"y": "s/find:0"}, KEYS, *table("s", "", "fill"), *variable("other", "other"), *groups
    )
    model.collection_def["saved_model_main_op"].node_list.value[:] = ["all"]
    put(desk.folder / "model", model)
    desk.done("freeze", "model", "--feed", "k=1,3", "-o", "out.pb")
    frozen = gds.load("out.pb")
    left = {"k", "s/table", "s/default", "s/find", "fill/keys", "fill/values", "fill/fill", "all"}
    assert {node.name for node in frozen.nodes()} == left
    assert [control.name for control in frozen["all"].controls] == ["fill/fill", "fill/keys"]
