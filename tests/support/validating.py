"""Models to validate, and a desk on which they lie."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.desk import Desk, Ran
from support.graphs import Builder, add, body_node, const, func, node, tensor
from support.paths import ROOT
from support.published import ABSENT, FOLDER
from support.v1_control_flow import while_loop

EARLIER = b"an earlier output"


FIXTURES = ROOT / "fixtures"


CLASSIFIER, DECODE, LOOKUP = (str(FIXTURES / n) for n in ("classifier.pb", "decode_jpeg.pb", "label_lookup.pb"))


published = pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)


def scaled(
    factor: float = 2.0, x: str = "x", y: str = "y", shape: tuple[int, ...] | None = (-1, 4), dtype: str = "float32"
) -> Builder:
    """y = x * c."""
    b = Builder()
    b.placeholder(x, dtype, shape)
    b.const("c", factor, dtype)
    b.typed("Mul", y, x, "c", kind=dtype)
    return b


def chain(*others: str) -> Builder:
    """p -> q -> r -> s -> y; those of OTHERS are another op."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    last = "x"
    for name, op in zip("pqrsy", ("Exp", "Sigmoid", "Neg", "Tanh", "Abs"), strict=True):
        last = b.typed("Softplus" if name in others else op, name, last)
    return b


def deep(*perturbed: int) -> Builder:
    """A thousand nodes: x, a constant and an op for each layer; those of PERTURBED differ in one element."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 8))
    last = "x"
    values = np.random.RandomState(0).rand(500, 8).astype("float32") * 0.2 + 0.9
    for i, value in enumerate(values):
        value[3] += 0.01 * (i in perturbed)
        b.const(f"layer{i}/w", value)
        last = b.typed("Mul" if i % 2 else "AddV2", f"layer{i}/y", last, f"layer{i}/w")
    return b


def difference(*, swapped: bool = False, op: str = "Sub", alpha: float = 0.2) -> Builder:
    """y = leaky(sum(-x - exp(z)))."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.placeholder("z", "float32", (-1, 4))
    b.typed("Neg", "a", "x")
    b.typed("Exp", "b", "z")
    b.node("d", op, ["b", "a"] if swapped else ["a", "b"], T="float32")
    b.const("axis", [1], "int32")
    b.typed("Sum", "s", "d", "axis", Tidx="int32", keep_dims=True)
    b.typed("LeakyRelu", "y", "s", alpha=alpha)
    return b


def calling(factor: float = 2.0) -> Builder:
    """y = abs(F(-x)), F being a function that multiplies."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32"})
    body_node(function, "factor", "Const", dtype="float32", value=tensor(factor, "float32"))
    body_node(function, "product", "Mul", ["a", "factor:output:0"], T="float32")
    function.ret["r"] = "product:z:0"
    b.typed("Neg", "before", "x")
    b.node("call", "PartitionedCall", ["before"], f=func("F"), Tin=["float32"], Tout=["float32"])
    b.typed("Abs", "y", "call")
    return b


def looping(step: float = 1.0, *, seed: int | None = None) -> Builder:
    """A v1 loop that adds STEP, n times, and something random where there is a SEED."""
    body = [const("w/step", step, controls=["^w/i"]), add("w/plus", "w/v", "w/step")]
    if seed is not None:
        drawn = {"T": "int32", "dtype": "float32", "seed": seed, "seed2": seed}
        # Each draw waits for the last iteration: otherwise the order of the draws, and the rounding, could differ.
        body += [const("w/shape", [], "int32", controls=["^w/plus"]), add("w/noisy", "w/plus", "w/chance"),
                 node("w/chance", "RandomUniform", ["w/shape"], **drawn)]  # fmt: skip
    b = Builder()
    for record in while_loop(*body, result="w/plus" if seed is None else "w/noisy"):
        b.add("", record)
    return b


def normalised(offset: float = 0.0, mean_offset: float = 0.0) -> Builder:
    """An op of six outputs; two are used."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4, 4, 2))
    for name, value in (("scale", [1, 1]), ("offset", [0, offset]), ("mean", [0, mean_offset]), ("var", [1, 1])):
        b.const(name, value)
    b.typed("FusedBatchNormV3", "bn", "x", "scale", "offset", "mean", "var", U="float32", is_training=True,
            epsilon=0.001, exponential_avg_factor=0.5)  # fmt: skip
    b.typed("Identity", "y", "bn")
    b.typed("Identity", "mean_seen", "bn:1")
    return b


def split(second: str = "parts:1") -> Builder:
    b = Builder()
    b.placeholder("x", "float32", (-1, 6))
    b.const("axis", 1, "int32")
    b.typed("Split", "parts", "axis", "x", num_split=3)
    b.typed("Sub", "y", second, "parts")
    return b


def joined_by(separator: str) -> Builder:
    b = Builder()
    b.placeholder("t", "string", (-1,))
    b.const("suffix", "!", "string")
    b.node("y", "StringJoin", ["t", "suffix"], N=2, separator=separator)
    return b


def noisy(op: str = "Mul") -> Builder:
    """y = x + (noise OP 3): an unseeded random op outside of functions, which can be drawn once for both."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.typed("Shape", "shape", "x", out_type="int32")
    b.typed("RandomUniform", "noise", "shape", kind="int32", dtype="float32", seed=0, seed2=0)
    b.const("three", 3.0)
    b.typed(op, "louder", "noise", "three")
    b.typed("AddV2", "y", "x", "louder")
    return b


def calling_chance(*, beside: bool = False) -> Builder:
    """y is random in a function, so both graphs cannot share the sample; BESIDE adds z = 2x."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32"})
    body_node(function, "shape", "Shape", ["a"], T="float32", out_type="int32")
    body_node(function, "noise", "RandomUniform", ["shape:output:0"], T="int32", dtype="float32", seed=0, seed2=0)
    body_node(function, "product", "Mul", ["a", "noise:output:0"], T="float32")
    function.signature.is_stateful = True
    function.ret["r"] = "product:z:0"
    b.node("call", "StatefulPartitionedCall", ["x"], f=func("F"), Tin=["float32"], Tout=["float32"])
    b.typed("Abs", "y", "call")
    if beside:
        b.const("two", 2.0)
        b.typed("Mul", "z", "x", "two")
    return b


def classifying(factor: float = 1.0) -> Builder:
    """Only the class is an output."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.const("w", np.arange(20).reshape(4, 5) * factor)
    b.typed("MatMul", "logits", "x", "w")
    b.typed("Softmax", "scores", "logits")
    b.const("axis", 1, "int32")
    b.typed("ArgMax", "class", "scores", "axis", Tidx="int32", output_type="int64")
    return b


def dropping(keep: bool) -> Builder:
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    last = "x"
    if keep:
        b.placeholder("keep_prob", "float32", ())
        last = b.typed("RealDiv", "dropped", "x", "keep_prob")
    b.typed("Exp", "y", last)
    return b


def of_all_kinds(factor: float = 2.0) -> Builder:
    """Outputs with NaN, texts that end with NUL, bfloat16, integers, bools."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.typed("Log", "log", "x")
    b.typed("Identity", "nans", "log")
    b.const("factor", factor)
    b.node("factor16", "Cast", ["factor"], SrcT="float32", DstT="bfloat16")
    b.node("x16", "Cast", ["x"], SrcT="float32", DstT="bfloat16")
    b.typed("Mul", "brains", "x16", "factor16", kind="bfloat16")
    b.const("raw", [b"a\0", b"", b"\xff"], "string")
    b.typed("Identity", "texts", "raw", kind="string")
    b.const("numbers", [1, 2], "int64")
    b.typed("Identity", "whole", "numbers", kind="int64")
    b.const("one", 1.0)
    b.typed("Less", "less", "x", "one")
    return b


def constant(dtype: str, value: Any) -> Builder:
    b = Builder()
    b.const("c", value, dtype)
    b.typed("Identity", "y", "c", kind=dtype)
    return b


def divided(*, hidden: bool) -> Builder:
    """A division that TensorFlow's optimiser makes a multiplication, unless the divisor is HIDDEN from it."""
    b = Builder()
    b.placeholder("x", "float32", (2, 4))
    b.const("c", np.full((2, 4), 255.0))
    if hidden:
        b.node("d", "PlaceholderWithDefault", ["c"], dtype="float32", shape=(-1, 4))
    b.typed("RealDiv", "q", "x", "d" if hidden else "c")
    last = "q"
    for name, op in (("n", "Neg"), ("k", "Sigmoid"), ("y", "Abs")):
        last = b.typed(op, name, last)
    return b


def giant() -> Builder:
    """64 GiB on the way to y."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.const("dims", [1 << 17, 1 << 17], "int32")
    b.const("one", 1.0)
    b.typed("Fill", "fill", "dims", "one", index_type="int32")
    b.const("axes", [0, 1], "int32")
    b.typed("Sum", "sum", "fill", "axes", Tidx="int32", keep_dims=False)
    b.typed("AddV2", "y", "x", "sum")
    return b


class Bench:
    """A desk on which models lie."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def put(self, **models: Builder | bytes) -> None:
        for name, model in models.items():
            self.desk.put(f"{name}.pb", model if isinstance(model, bytes) else model.bytes())

    def archive(self, name: str, **values: Any) -> None:
        np.savez(self.desk.folder / name, **{key.replace("__", "@"): value for key, value in values.items()})

    def run(self, *arguments: str) -> Ran:
        ran = self.desk.run("validate", *arguments)
        assert "Traceback" not in ran.err, ran.err
        assert self.desk.temporary_files() == []
        return ran

    def verdict(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The verdict as JSON, checked against the exit code of the command."""
        ran = self.run(*arguments, "--json")
        assert ran.code == code, ran
        found: dict[str, Any] = json.loads(ran.out)
        assert found["exit_code"] == code
        assert found["passed"] == (code == 0)
        assert (found["error"] is None) == (code == 0)
        return found


def guilty(verdict: dict[str, Any]) -> list[str]:
    return [found["node"] for found in verdict["divergence"]["guilty"]]


def why(verdict: dict[str, Any]) -> str:
    return "; ".join(verdict["divergence"]["guilty"][0]["why"])


def run_reduced(path: Path, tensors: Iterable[str]) -> list[np.ndarray]:
    """The values of two tensors of a reduced file, run independently by TensorFlow's interpreter."""
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        assert not [op.name for op in graph.get_operations() if op.type.startswith("Placeholder")]
        with tf.compat.v1.Session(graph=graph) as session:
            fetches = [name if ":" in name else f"{name}:0" for name in tensors]
            found: list[np.ndarray] = session.run(fetches)
            return found


modes = pytest.mark.parametrize("mode", [(), ("--lockstep",)], ids=["own", "lockstep"])


def twice(factor: float) -> Builder:
    """A function of two outputs; only the second depends on FACTOR."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32", "s": "float32"})
    body_node(function, "factor", "Const", dtype="float32", value=tensor(factor, "float32"))
    body_node(function, "product", "Mul", ["a", "factor:output:0"], T="float32")
    function.ret["r"], function.ret["s"] = "a", "product:z:0"
    b.node("call", "PartitionedCall", ["x"], f=func("F"), Tin=["float32"], Tout=["float32", "float32"])
    b.typed("Neg", "y", "call")
    b.typed("Abs", "z", "call:1")
    return b
