"""to-savedmodel --unfreeze: constants become variables, whose checkpoint is written with the model."""

from __future__ import annotations

import io
import shutil
import struct
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.desk import Desk
from support.expecting import refused
from support.graphs import FLOAT, dtype, node, placeholder, tensor
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.analysis.queries.constant_values import ConstantValues
from gdsurgeon.checkpoint.open import open_checkpoint
from gdsurgeon.checkpoint.write import stretches
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.write import ChunkSource

CLASSIFIER = str(FIXTURES / "classifier.pb")
TensorProto, VariableDef = message("tensorflow.TensorProto"), message("tensorflow.VariableDef")
G = (
    placeholder("x", FLOAT, (-1, 2))
    + node("w", "Const", dtype=FLOAT, value=tensor([1.5, 2.5]))
    + node("y", "Mul", ["x", "w"], T=FLOAT)
)

WEIGHTS = ("--unfreeze", "(weights|gamma|beta)$", "--output", "scores=probabilities", "--input", "picture=image")


@pytest.mark.tensorflow
def test_unfrozen_in_every_loader(desk: Desk, tf: Any) -> None:
    """The same values in each of them, and variables that can be trained where there are some."""
    ran = desk.run("to-savedmodel", CLASSIFIER, *WEIGHTS, "-o", "out")  # proven in the C API
    assert ran.code == 0, ran.err
    assert desk.run("validate", "out").code == 0
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it folds what is constant
    config.graph_options.optimizer_options.opt_level = -1
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    picture = np.random.default_rng(0).random((2, 64, 64, 3), np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(Path(CLASSIFIER).read_bytes()), name="")
        wanted = session.run("probabilities:0", {"image:0": picture})
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], "out")
        count = len(tf.compat.v1.trainable_variables())
        saved = tf.compat.v1.train.Saver().save(session, "again/model")
        found = session.run(loaded.signature_def["serving_default"].outputs["scores"].name, {"image:0": picture})
        assert np.array_equal(found, wanted)
        assert saved
    model = tf.saved_model.load("out")
    assert len(model.variables) == count > 50
    with tf.GradientTape() as tape:
        scores = model.signatures["serving_default"](picture=tf.constant(picture))["scores"]
        loss = tf.reduce_sum(scores[:, 0])
    assert np.array_equal(scores.numpy(), wanted)
    gradients = tape.gradient(loss, list(model.variables))
    assert sum(gradient is not None and float(tf.reduce_sum(tf.abs(gradient))) > 0 for gradient in gradients) > 40


def unfrozen(desk: Desk, data: bytes, *words: str) -> Any:
    """What of DATA with constants that are variables is written; its proof is of the structure alone."""
    desk.put("model.pb", data)
    ran = desk.run("to-savedmodel", "model.pb", *words, "-o", "out", "--validate", "structure")
    assert ran.code == 0, ran.err
    return message("tensorflow.SavedModel").FromString((desk.folder / "out" / "saved_model.pb").read_bytes())


def kept(name: str, values: bytes, kind: int = 1) -> bytes:
    return node(name, "Const", dtype=dtype(kind), value=encode_len(8, values))


def test_values_are_those_of_the_constants(desk: Desk) -> None:
    """However a constant says its value: as bytes, one by one, or one for all."""
    tensors = {
        "bytes": TensorProto(dtype=1, tensor_content=struct.pack("<3f", 1, 2, float("nan"))),
        "listed": TensorProto(dtype=1, float_val=[1, 2, 3]),
        "splat": TensorProto(dtype=1, float_val=[0.5]),
        "nothing": TensorProto(dtype=1),
        "half": TensorProto(dtype=19, half_val=[15360, 0, 49152]),
        "double": TensorProto(dtype=2, double_val=[0.25]),
        "bfloat": TensorProto(dtype=14, tensor_content=b"\x80\x3f\x00\x40\x40\x40"),
    }
    graph = b""
    for name, proto in tensors.items():
        proto.tensor_shape.dim.add(size=3)
        graph += kept(name, proto.SerializeToString(), proto.dtype)
    unfrozen(desk, graph + kept("scalar", TensorProto(dtype=1, float_val=[7]).SerializeToString()), "--unfreeze", ".")
    with open_checkpoint(str(desk.folder / "out" / "variables" / "variables")) as checkpoint:
        found = {key: b"".join(stretches(checkpoint.stretch(key, None).chunks)) for key in checkpoint.keys}
        assert checkpoint.tensor("scalar").shape == ()
    assert found == {
        "bytes": struct.pack("<3f", 1, 2, float("nan")),
        "listed": struct.pack("<3f", 1, 2, 3),
        "splat": struct.pack("<3f", 0.5, 0.5, 0.5),
        "nothing": bytes(12),
        "half": struct.pack("<3e", 1, 0, -2),
        "double": struct.pack("<3d", 0.25, 0.25, 0.25),
        "bfloat": b"\x80\x3f\x00\x40\x40\x40",
        "scalar": struct.pack("<f", 7),
    }
    assert desk.run("checkpoint", "out/variables/variables", "--verify").code == 0


def test_what_says_that_there_are_variables(desk: Desk) -> None:
    model = unfrozen(desk, G, "--unfreeze", "^w$")
    (meta,) = model.meta_graphs
    nodes = {n.name: n for n in meta.graph_def.node}
    assert (nodes["w"].op, list(nodes["w"].input)) == ("ReadVariableOp", ["w/handle"])
    assert nodes["w/handle"].op == "VarHandleOp"
    assert list(nodes["y"].input) == ["x", "w"]
    assert meta.saver_def.restore_op_name == "save/restore"
    assert meta.collection_def.keys() == {"variables", "trainable_variables"}
    (said,) = (VariableDef.FromString(v) for v in meta.collection_def["trainable_variables"].bytes_list.value)
    names = said.variable_name, said.snapshot_name, said.initializer_name
    assert names == ("w/handle:0", "save/Read_0:0", "save/Assign_0")


def test_names_that_are_taken(desk: Desk) -> None:
    graph = G + node("w/handle", "NoOp") + node("save/names", "NoOp") + node("save_1", "NoOp")
    (meta,) = unfrozen(desk, graph, "--unfreeze", "^w$").meta_graphs
    names = [n.name for n in meta.graph_def.node]
    assert len(names) == len(set(names))
    assert {"w/handle_1", "save_2/restore"} <= set(names)


@pytest.mark.parametrize(
    ("exit_code", "pattern", "code", "facts"),
    [
        (4, "nothing", "nothing-matched", {"value": "nothing", "left": []}),
        (4, "axis", "nothing-matched", {"value": "axis", "left": ["axis"]}),
        (2, "(", "bad-pattern", {"value": "("}),
        (4, "big", "too-large", {"node": "big"}),
    ],
)
def test_what_stays_frozen(desk: Desk, exit_code: int, pattern: str, code: str, facts: dict[str, Any]) -> None:
    big = TensorProto(dtype=1, float_val=[1])
    big.tensor_shape.dim.add(size=1 << 36)
    axis = TensorProto(dtype=3, int_val=[1])
    desk.put("model.pb", G + kept("big", big.SerializeToString()) + kept("axis", axis.SerializeToString(), 3))
    quick = ("--validate", "structure", "-o", "out")
    desk.refused(exit_code, code, "to-savedmodel", "model.pb", "--unfreeze", pattern, *quick, **facts)


def test_in_a_loop() -> None:
    """A constant that waits for the iteration is there in each."""
    graph = gds.load(str(FIXTURES / "while_v1.pb"))
    attrs = {"dtype": FLOAT, "value": encode_len(8, TensorProto(dtype=1, float_val=[1]).SerializeToString())}
    inside = graph.add("inside", "Const", controls=[graph["while/Identity"]], attrs=attrs)
    graph.add("read", "Identity", [inside.output], attrs={"T": FLOAT})
    edit = partial(gds.to_savedmodel, inputs=[], outputs=[], unfreeze="^inside$")
    refused(graph, "crosses-loop", edit, node="inside")


def test_in_a_pipe(desk: Desk) -> None:
    desk.put("model.pb", G)
    ran = desk.run("to-savedmodel", "model.pb", "--unfreeze", "^w$", "-o", "-", "--validate", "structure")
    assert ran.code == 0, ran.err
    with tarfile.open(fileobj=io.BytesIO(ran.out)) as archive:
        assert "variables/variables.index" in archive.getnames()
    assert desk.run("rename", "-", "y=q", "-o", "out", "--validate", "structure", data=ran.out).code == 0
    assert desk.run("checkpoint", "out/variables/variables", "--verify").code == 0


@pytest.mark.tensorflow
@pytest.mark.parametrize("out", [("-o", "out"), ("-n",), ("-o", "-")])
def test_proven_with_restored_values(desk: Desk, monkeypatch: pytest.MonkeyPatch, out: tuple[str, ...]) -> None:
    """A checkpoint with other values is noticed."""
    desk.put("model.pb", G)
    arguments = ("to-savedmodel", "model.pb", "--unfreeze", "^w$", *out)
    ran = desk.run(*arguments)
    assert ran.code == 0, ran.err
    shutil.rmtree(desk.folder / "out", ignore_errors=True)
    values = "gdsurgeon.edits.unfreezing.values_of"
    nines = ChunkSource([struct.pack("<2f", 9, 9)], "a value")
    monkeypatch.setattr(values, lambda _: ConstantValues(FLOAT32, (2,), nines))
    ran = desk.run(*arguments)
    assert ran.code == 5, ran.err
    assert (sorted(desk.files()), desk.temporary_files()) == (["model.pb"], [])
