"""Graphs of old Keras, which ask its learning phase what to do: frozen at false and simplified no training is left."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from support import graphs
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    const,
    define,
    dtypes,
    func,
    graph_bytes,
    identity,
    node,
    placeholder,
    scalar,
    tensor,
)

from gdsurgeon.graph.load import load

X = placeholder("x", FLOAT, (-1, 4, 4, 3))
NO = graphs.encode_len(8, b"\x08\x0a\x12\x00\x58\x00")
PHASE = "keras_learning_phase"
SHAPES = graphs.encode_len(1, b"")
PHASES = {
    "with a default": [node(f"{PHASE}/input", "Const", dtype=BOOL, value=NO),
                       node(PHASE, "PlaceholderWithDefault", [f"{PHASE}/input"], dtype=BOOL, shape=())],
    "without one": [placeholder(PHASE, BOOL, ())],
}  # fmt: skip
TRAINING = ("Switch", "Merge", "RandomUniform", "Floor", "If", "StatelessIf", "PlaceholderWithDefault")


def pivots(scope: str, predicate: str) -> list[bytes]:
    """What TensorFlow makes of a conditional before its branches."""
    return [
        node(f"{scope}/cond/Switch", "Switch", [predicate, predicate], T=BOOL),
        identity(f"{scope}/cond/switch_t", f"{scope}/cond/Switch:1", kind=BOOL),
        identity(f"{scope}/cond/switch_f", f"{scope}/cond/Switch", kind=BOOL),
        identity(f"{scope}/cond/pred_id", predicate, kind=BOOL),
    ]


def inside(name: str, pivot: str, *values: float) -> bytes:
    """A constant of a branch."""
    return node(name, "Const", [f"^{pivot}"], dtype=FLOAT, value=tensor(values, FLOAT, ()))


def dropout(scope: str, source: str, predicate: str) -> list[bytes]:
    """K.in_train_phase(dropout(x), x) as Keras 2.2 writes it."""
    at, true = f"{scope}/cond/dropout", f"{scope}/cond/switch_t"
    return [
        *pivots(scope, predicate),
        inside(f"{scope}/cond/mul/y", true, 1),
        node(f"{scope}/cond/mul/Switch", "Switch", [source, f"{scope}/cond/pred_id"], T=FLOAT),
        node(f"{scope}/cond/mul", "Mul", [f"{scope}/cond/mul/Switch:1", f"{scope}/cond/mul/y"], T=FLOAT),
        inside(f"{at}/keep_prob", true, 0.5),
        node(f"{at}/Shape", "Shape", [f"{scope}/cond/mul"], T=FLOAT, out_type=INT32),
        node(f"{at}/random_uniform/RandomUniform", "RandomUniform", [f"{at}/Shape"], T=INT32, dtype=FLOAT),
        node(f"{at}/add", "Add", [f"{at}/keep_prob", f"{at}/random_uniform/RandomUniform"], T=FLOAT),
        node(f"{at}/Floor", "Floor", [f"{at}/add"], T=FLOAT),
        node(f"{at}/div", "RealDiv", [f"{scope}/cond/mul", f"{at}/keep_prob"], T=FLOAT),
        node(f"{at}/mul", "Mul", [f"{at}/div", f"{at}/Floor"], T=FLOAT),
        node(f"{scope}/cond/Switch_1", "Switch", [source, f"{scope}/cond/pred_id"], T=FLOAT),
        node(f"{scope}/cond/Merge", "Merge", [f"{scope}/cond/Switch_1", f"{at}/mul"], T=FLOAT, N=2),
    ]


WEIGHTS = [const(f"bn/{what}", values) for what, values in
           (("gamma", [1, 2, 3]), ("beta", [0, 1, -1]), ("mean", [0.5, 0, 1]), ("variance", [1, 2, 4]))]  # fmt: skip


def batch_norm(scope: str, source: str, predicate: str) -> list[bytes]:
    """A fused batch norm of a Keras of TensorFlow 1: either branch has one, of which one is trained."""

    def branch(name: str, port: str, trained: bool) -> list[bytes]:
        reads = [source, "bn/gamma", "bn/beta", *(() if trained else ("bn/mean", "bn/variance"))]
        switches = [node(f"{scope}/cond/{name}/Switch_{i}", "Switch", [read, f"{scope}/cond/pred_id"], T=FLOAT)
                    for i, read in enumerate(reads)]  # fmt: skip
        given = [f"{scope}/cond/{name}/Switch_{i}{port}" for i in range(len(reads))]
        pivot = f"{scope}/cond/switch_t"
        empty = [node(f"{scope}/cond/{what}", "Const", [f"^{pivot}"], dtype=FLOAT, value=tensor([], FLOAT, (0,)))
                 for what in ("Const", "Const_1")] if trained else []  # fmt: skip
        given += [f"{scope}/cond/{what}" for what in ("Const", "Const_1")] if trained else []
        return [*switches, *empty, node(f"{scope}/cond/{name}", "FusedBatchNorm", given, T=FLOAT, is_training=trained)]

    both = [f"{scope}/cond/FusedBatchNorm_1", f"{scope}/cond/FusedBatchNorm"]
    merges = [node(f"{scope}/cond/Merge{end}", "Merge", [name + port for name in both], T=FLOAT, N=2)
              for end, port in (("", ""), ("_1", ":1"), ("_2", ":2"))]  # fmt: skip
    return [*pivots(scope, predicate), *branch("FusedBatchNorm", ":1", True), *branch("FusedBatchNorm_1", "", False),
            *merges[:1]]  # fmt: skip


def of_switches(phase: Sequence[bytes]) -> bytes:
    """A batch norm that asks whether it may be trained, too, and dropout behind it."""
    yes = node("bn/trainable", "Const", dtype=BOOL, value=graphs.encode_len(8, b"\x08\x0a\x12\x00\x58\x01"))
    both = node("bn/and", "LogicalAnd", [PHASE, "bn/trainable"])
    return graph_bytes(*phase, X, *WEIGHTS, yes, both, *batch_norm("bn", "x", "bn/and"),
                       node("relu", "Relu", ["bn/cond/Merge"], T=FLOAT), *dropout("drop", "relu", PHASE),
                       identity("scores", "drop/cond/Merge"))  # fmt: skip


def of_functions(phase: Sequence[bytes]) -> bytes:
    """The same choice by an If of functions, as Keras of TensorFlow 2 writes it."""
    draws = [node("shape", "Shape", ["x"], T=FLOAT, out_type=INT32),
             node("drawn", "RandomUniform", ["shape:output:0"], T=INT32, dtype=FLOAT),
             node("least", "Const", dtype=FLOAT, value=tensor([0.5], FLOAT, ())),
             node("kept", "GreaterEqual", ["drawn:output:0", "least:output:0"], T=FLOAT),
             node("as_floats", "Cast", ["kept:z:0"], SrcT=BOOL, DstT=FLOAT),
             node("dropped", "Mul", ["x", "as_floats:y:0"], T=FLOAT)]  # fmt: skip
    drops = define("drops", {"x": FLOAT}, {"y": (FLOAT, "dropped:z:0")}, *draws, stateful=True)
    keeps = define("keeps", {"x": FLOAT}, {"y": (FLOAT, "same:output:0")}, identity("same", "x"))
    choice = node("drop/cond", "If", [PHASE, "relu"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT),
                  then_branch=func("drops"), else_branch=func("keeps"), output_shapes=SHAPES)  # fmt: skip
    return graph_bytes(*phase, X, node("relu", "Relu", ["x"], T=FLOAT), choice, scalar("two", 2),
                       node("scores", "Mul", ["drop/cond", "two"], T=FLOAT),
                       trailer=graphs.library(drops, keeps) + graphs.VERSIONS)  # fmt: skip


KINDS = {"Switch and Merge": of_switches, "If": of_functions}


def check_inference_alone(desk: Desk, path: str) -> None:
    left = load(str(desk.folder / path))
    ops = {found.name: found.op for found in left.nodes()}
    assert not {*ops.values()} & {*TRAINING}, ops
    assert PHASE not in ops and "scores" in ops and ops["x"] == "Placeholder"
    assert not any(name.startswith(("drop/cond/dropout", "bn/cond/FusedBatchNorm:")) for name in ops)
    trained = [found.name for found in left.nodes() if found.op == "FusedBatchNorm" and found.setting("is_training")]
    assert not trained
    assert len(left.functions) == 0


@pytest.mark.tensorflow
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("kind", KINDS)
def test_frozen_at_false_no_training_is_left(desk: Desk, kind: str, phase: str) -> None:
    desk.put("m.pb", KINDS[kind](PHASES[phase]))
    ran = desk.run("freeze-input", "m.pb", f"{PHASE}=false", "-o", "frozen.pb")
    assert ran.code == 0, ran.err
    ran = desk.run("simplify", "frozen.pb", "-o", "simple.pb", "--report", "report.json")
    assert ran.code == 0, ran.err
    assert json.loads(desk.files()["report.json"])["proof"]["largest_difference"] == 0
    check_inference_alone(desk, "simple.pb")


@pytest.mark.tensorflow
@pytest.mark.parametrize("kind", KINDS)
def test_in_one_script_too(desk: Desk, kind: str) -> None:
    desk.put("m.pb", KINDS[kind](PHASES["with a default"]))
    desk.put("infer.gds", f"freeze-input {PHASE}=false\nsimplify --fold-bn\n".encode())
    ran = desk.run("apply", "m.pb", "infer.gds", "-o", "simple.pb")
    assert ran.code == 0, ran.err
    check_inference_alone(desk, "simple.pb")


@pytest.mark.tensorflow
def test_frozen_at_true_training_stays(desk: Desk) -> None:
    desk.put("m.pb", of_switches(PHASES["with a default"]))
    desk.put("train.gds", f"freeze-input {PHASE}=true\nsimplify\n".encode())
    assert desk.run("apply", "m.pb", "train.gds", "-o", "trained.pb", "--validate", "structure").code == 0
    ops = [found.op for found in load(str(desk.folder / "trained.pb")).nodes()]
    assert "RandomUniform" in ops and "Merge" not in ops
