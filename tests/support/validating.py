"""Models to validate, and a desk on which they lie."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.desk import Desk, Ran
from support.graphs import Builder, add, const, define, func, identity, library, neg, node, placeholder, typed
from support.paths import ROOT
from support.v1_control_flow import while_loop

EARLIER = b"an earlier output"
FIXTURES = ROOT / "fixtures"
CLASSIFIER, DECODE, LOOKUP = (str(FIXTURES / n) for n in ("classifier.pb", "decode_jpeg.pb", "label_lookup.pb"))


X4 = placeholder("x", "float32", (-1, 4))
UNARY = {"Tin": ["float32"], "Tout": ["float32"], "f": func("F")}


def scaled(
    factor: float = 2.0, x: str = "x", y: str = "y", shape: tuple[int, ...] | None = (-1, 4), dtype: str = "float32"
) -> Builder:
    """y = x * c."""
    return Builder(placeholder(x, dtype, shape), const("c", factor, dtype), typed("Mul", y, x, "c", kind=dtype))


def chain(*others: str) -> Builder:
    """p -> q -> r -> s -> y; those of OTHERS are another op."""
    ops = zip("xpqrs", "pqrsy", ("Exp", "Sigmoid", "Neg", "Tanh", "Abs"), strict=True)
    return Builder(X4, *(typed("Softplus" if name in others else op, name, source) for source, name, op in ops))


def deep(*perturbed: int) -> Builder:
    """A thousand nodes: x, a constant and an op for each layer; those of PERTURBED differ in one element."""
    b = Builder(placeholder("x", "float32", (-1, 8)))
    last = "x"
    values = np.random.RandomState(0).rand(500, 8).astype("float32") * 0.2 + 0.9
    for i, value in enumerate(values):
        value[3] += 0.01 * (i in perturbed)
        b.const(f"layer{i}/w", value)
        last = b.typed("Mul" if i % 2 else "AddV2", f"layer{i}/y", last, f"layer{i}/w")
    return b


def difference(*, swapped: bool = False, op: str = "Sub", alpha: float = 0.2) -> Builder:
    """y = leaky(sum(-x - exp(z)))."""
    return Builder(
        X4, placeholder("z", "float32", (-1, 4)), neg("a", "x"), typed("Exp", "b", "z"),
        typed(op, "d", *("ba" if swapped else "ab")), const("axis", [1], "int32"),
        typed("Sum", "s", "d", "axis", Tidx="int32", keep_dims=True), typed("LeakyRelu", "y", "s", alpha=alpha),
    )  # fmt: skip


def calling(factor: float = 2.0) -> Builder:
    """y = abs(F(-x)), F being a function that multiplies."""
    body = const("factor", factor), typed("Mul", "product", "a", "factor:output:0")
    return Builder(
        X4, neg("before", "x"), node("call", "PartitionedCall", ["before"], **UNARY), typed("Abs", "y", "call"),
        library(define("F", {"a": "float32"}, {"r": ("float32", "product:z:0")}, *body)),
    )  # fmt: skip


def looping(step: float = 1.0, *, seed: int | None = None) -> Builder:
    """A v1 loop that adds STEP, n times, and something random where there is a SEED."""
    body = [const("w/step", step, controls=["^w/i"]), add("w/plus", "w/v", "w/step")]
    if seed is not None:
        drawn = {"T": "int32", "dtype": "float32", "seed": seed, "seed2": seed}
        # Each draw waits for the last iteration: otherwise the order of the draws, and the rounding, could differ.
        body += [const("w/shape", [], "int32", controls=["^w/plus"]), add("w/noisy", "w/plus", "w/chance"),
                 node("w/chance", "RandomUniform", ["w/shape"], **drawn)]  # fmt: skip
    return Builder(*while_loop(*body, result="w/plus" if seed is None else "w/noisy"))


def normalised(offset: float = 0.0, mean_offset: float = 0.0) -> Builder:
    """An op of six outputs; two are used."""
    return Builder(
        placeholder("x", "float32", (-1, 4, 4, 2)), const("scale", [1, 1]), const("offset", [0, offset]),
        const("mean", [0, mean_offset]), const("var", [1, 1]),
        typed("FusedBatchNormV3", "bn", "x", "scale", "offset", "mean", "var", U="float32", is_training=True,
              epsilon=0.001, exponential_avg_factor=0.5),
        identity("y", "bn"), identity("mean_seen", "bn:1"),
    )  # fmt: skip


def split(second: str = "parts:1") -> Builder:
    return Builder(
        placeholder("x", "float32", (-1, 6)), const("axis", 1, "int32"),
        typed("Split", "parts", "axis", "x", num_split=3), typed("Sub", "y", second, "parts"),
    )  # fmt: skip


def joined_by(separator: str) -> Builder:
    return Builder(
        placeholder("t", "string", (-1,)), const("suffix", "!", "string"),
        node("y", "StringJoin", ["t", "suffix"], N=2, separator=separator),
    )  # fmt: skip


RANDOM = {"T": "int32", "dtype": "float32", "seed": 0, "seed2": 0}


def noisy(op: str = "Mul") -> Builder:
    """y = x + (noise OP 3): an unseeded random op outside of functions, which can be drawn once for both."""
    return Builder(
        X4, typed("Shape", "shape", "x", out_type="int32"), node("noise", "RandomUniform", ["shape"], **RANDOM),
        const("three", 3.0), typed(op, "louder", "noise", "three"), add("y", "x", "louder"),
    )  # fmt: skip


def calling_chance(*, beside: bool = False) -> Builder:
    """y is random in a function, so both graphs cannot share the sample; BESIDE adds z = 2x."""
    noise = node("noise", "RandomUniform", ["shape:output:0"], **RANDOM)
    body = typed("Shape", "shape", "a", out_type="int32"), noise, typed("Mul", "product", "a", "noise:output:0")
    chance = define("F", {"a": "float32"}, {"r": ("float32", "product:z:0")}, *body, stateful=True)
    return Builder(
        X4, node("call", "StatefulPartitionedCall", ["x"], **UNARY), typed("Abs", "y", "call"), library(chance),
        *([const("two", 2.0), typed("Mul", "z", "x", "two")] if beside else []),
    )  # fmt: skip


def classifying(factor: float = 1.0) -> Builder:
    """Only the class is an output."""
    return Builder(
        X4, const("w", np.arange(20).reshape(4, 5) * factor), typed("MatMul", "logits", "x", "w"),
        typed("Softmax", "scores", "logits"), const("axis", 1, "int32"),
        typed("ArgMax", "class", "scores", "axis", Tidx="int32", output_type="int64"),
    )  # fmt: skip


def dropping(keep: bool) -> Builder:
    dropped = [placeholder("keep_prob", "float32", ()), typed("RealDiv", "dropped", "x", "keep_prob")] if keep else []
    return Builder(X4, *dropped, typed("Exp", "y", "dropped" if keep else "x"))


def of_all_kinds(factor: float = 2.0) -> Builder:
    """Outputs with NaN, texts that end with NUL, bfloat16, integers, bools."""
    return Builder(
        X4, typed("Log", "log", "x"), identity("nans", "log"), const("factor", factor),
        node("factor16", "Cast", ["factor"], SrcT="float32", DstT="bfloat16"),
        node("x16", "Cast", ["x"], SrcT="float32", DstT="bfloat16"),
        typed("Mul", "brains", "x16", "factor16", kind="bfloat16"), const("raw", [b"a\0", b"", b"\xff"], "string"),
        identity("texts", "raw", kind="string"), const("numbers", [1, 2], "int64"),
        identity("whole", "numbers", kind="int64"), const("one", 1.0), typed("Less", "less", "x", "one"),
    )  # fmt: skip


def constant(dtype: str, value: Any) -> Builder:
    return Builder(const("c", value, dtype), identity("y", "c", kind=dtype))


def divided(*, hidden: bool) -> Builder:
    """A division that TensorFlow's optimiser makes a multiplication, unless the divisor is HIDDEN from it."""
    return Builder(
        placeholder("x", "float32", (2, 4)), const("c", np.full((2, 4), 255.0)),
        *([node("d", "PlaceholderWithDefault", ["c"], dtype="float32", shape=(-1, 4))] if hidden else []),
        typed("RealDiv", "q", "x", "d" if hidden else "c"), neg("n", "q"), typed("Sigmoid", "k", "n"),
        typed("Abs", "y", "k"),
    )  # fmt: skip


def giant() -> Builder:
    """64 GiB on the way to y."""
    return Builder(
        X4, const("dims", [1 << 17, 1 << 17], "int32"), const("one", 1.0),
        typed("Fill", "fill", "dims", "one", index_type="int32"), const("axes", [0, 1], "int32"),
        typed("Sum", "sum", "fill", "axes", Tidx="int32", keep_dims=False), add("y", "x", "sum"),
    )  # fmt: skip


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
    body = const("factor", factor), typed("Mul", "product", "a", "factor:output:0")
    results = {"r": ("float32", "a"), "s": ("float32", "product:z:0")}
    return Builder(
        X4, node("call", "PartitionedCall", ["x"], **{**UNARY, "Tout": ["float32"] * 2}), neg("y", "call"),
        typed("Abs", "z", "call:1"), library(define("F", {"a": "float32"}, results, *body)),
    )  # fmt: skip
