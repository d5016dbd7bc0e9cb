"""Graphs of old Keras, which ask its learning phase what to do: frozen at false and simplified no training is left."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from support.desk import Desk
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    const,
    graph_bytes,
    identity,
    node,
    placeholder,
    tensor,
)

from gdsurgeon.graph.load import load

X = placeholder("x", FLOAT, (-1, 4, 4, 3))
PHASE = "keras_learning_phase"
PHASES = {
    "with a default": [const(f"{PHASE}/input", False, BOOL),
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
    yes = const("bn/trainable", True, BOOL)
    both = node("bn/and", "LogicalAnd", [PHASE, "bn/trainable"])
    return graph_bytes(*phase, X, *WEIGHTS, yes, both, *batch_norm("bn", "x", "bn/and"),
                       node("relu", "Relu", ["bn/cond/Merge"], T=FLOAT), *dropout("drop", "relu", PHASE),
                       identity("scores", "drop/cond/Merge"))  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize("phase", PHASES)
def test_frozen_at_false_no_training_is_left(desk: Desk, phase: str) -> None:
    desk.put("m.pb", of_switches(PHASES[phase]))
    ran = desk.run("freeze-input", "m.pb", f"{PHASE}=false", "-o", "frozen.pb")
    assert ran.code == 0, ran.err
    ran = desk.run("simplify", "frozen.pb", "-o", "simple.pb", "--report", "report.json")
    assert ran.code == 0, ran.err
    assert json.loads(desk.files()["report.json"])["proof"]["largest_difference"] == 0
    left = load(str(desk.folder / "simple.pb"))
    ops = {found.name: found.op for found in left.nodes()}
    assert not {*ops.values()} & {*TRAINING}, ops
    assert PHASE not in ops and "scores" in ops and ops["x"] == "Placeholder"
    assert not any(name.startswith(("drop/cond/dropout", "bn/cond/FusedBatchNorm:")) for name in ops)
    assert not [found for found in left.nodes() if found.op == "FusedBatchNorm" and found.setting("is_training")]
