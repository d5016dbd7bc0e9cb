"""The command validate as a stranger uses it, and as somebody who wants to break it."""

from __future__ import annotations

import io
import json
import os
import pty
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.desk import Desk, Ran, check_refused, check_said
from support.paths import ROOT
from support.published import ABSENT, FOLDER
from support.runtime_graphs import CRASHING, hanging
from support.servers import free_port, running_server
from support.tf_graphs import Builder, Shape, body_node, function_attr, tensor
from support.workers import lend_workers

from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.text import to_text

pytestmark = pytest.mark.tensorflow

EARLIER = b"an earlier output"
FIXTURES = ROOT / "fixtures"
CLASSIFIER, DECODE, LOOKUP = (str(FIXTURES / n) for n in ("classifier.pb", "decode_jpeg.pb", "label_lookup.pb"))

published = pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)


# -- what is validated ------------------------------------------------------------------------------------------


def scaled(factor: float = 2.0, x: str = "x", y: str = "y", shape: tuple[int, ...] | None = (-1, 4)) -> Builder:
    """y = x * c."""
    b = Builder()
    b.placeholder(x, "float32", shape)
    b.const("c", factor)
    b.node(y, "Mul", [x, "c"], T="float32")
    return b


def scaled_doubles() -> Builder:
    b = Builder()
    b.placeholder("x", "float64", (-1, 4))
    b.const("c", 2.0, "float64")
    b.node("y", "Mul", ["x", "c"], T="float64")
    return b


def chain(*others: str) -> Builder:
    """p -> q -> r -> s -> y; those of OTHERS are another op."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    last = "x"
    for name, op in zip("pqrsy", ("Exp", "Sigmoid", "Neg", "Tanh", "Abs"), strict=True):
        last = b.node(name, "Softplus" if name in others else op, [last], T="float32")
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
        last = b.node(f"layer{i}/y", "Mul" if i % 2 else "AddV2", [last, f"layer{i}/w"], T="float32")
    return b


def difference(*, swapped: bool = False, op: str = "Sub", alpha: float = 0.2) -> Builder:
    """y = leaky(sum(-x - exp(z)))."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.placeholder("z", "float32", (-1, 4))
    b.node("a", "Neg", ["x"], T="float32")
    b.node("b", "Exp", ["z"], T="float32")
    b.node("d", op, ["b", "a"] if swapped else ["a", "b"], T="float32")
    b.const("axis", [1], "int32")
    b.node("s", "Sum", ["d", "axis"], T="float32", Tidx="int32", keep_dims=True)
    b.node("y", "LeakyRelu", ["s"], T="float32", alpha=alpha)
    return b


def calling(factor: float = 2.0) -> Builder:
    """y = abs(F(-x)), F being a function that multiplies."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32"})
    body_node(function, "factor", "Const", dtype="float32", value=tensor(factor, "float32"))
    body_node(function, "product", "Mul", ["a", "factor:output:0"], T="float32")
    function.ret["r"] = "product:z:0"
    b.node("before", "Neg", ["x"], T="float32")
    b.node("call", "PartitionedCall", ["before"], f=function_attr("F"), Tin=["float32"], Tout=["float32"])
    b.node("y", "Abs", ["call"], T="float32")
    return b


def looping(step: float = 1.0, *, seed: int | None = None, endless: bool = False) -> Builder:
    """A v1 loop that adds STEP to x, n times, and something random where there is a SEED."""
    b = Builder()
    b.placeholder("n", "int32", ())
    b.placeholder("x", "float32", (-1, 3))
    b.const("zero", 0, "int32")
    frame: dict[str, Any] = {"frame_name": b"w", "parallel_iterations": 10}
    b.node("w/enter", "Enter", ["zero"], T="int32", is_constant=False, **frame)
    b.node("w/enter_x", "Enter", ["x"], T="float32", is_constant=False, **frame)
    b.node("w/merge", "Merge", ["w/enter", "w/next"], T="int32", N=2)
    b.node("w/merge_x", "Merge", ["w/enter_x", "w/next_x"], T="float32", N=2)
    b.node("w/limit", "Enter", ["n"], T="int32", is_constant=True, **frame)
    b.node("w/less", "GreaterEqual" if endless else "Less", ["w/merge", "zero_in" if endless else "w/limit"], T="int32")
    if endless:
        b.node("zero_in", "Enter", ["zero"], T="int32", is_constant=True, **frame)
    b.node("w/cond", "LoopCond", ["w/less"])
    b.node("w/switch", "Switch", ["w/merge", "w/cond"], T="int32")
    b.node("w/switch_x", "Switch", ["w/merge_x", "w/cond"], T="float32")
    b.node("w/i", "Identity", ["w/switch:1"], T="int32")
    b.node("w/x", "Identity", ["w/switch_x:1"], T="float32")
    b.const("w/one", 0 if endless else 1, "int32", controls=["^w/i"])
    b.const("w/step", step, controls=["^w/i"])
    b.node("w/more", "AddV2", ["w/i", "w/one"], T="int32")
    last = b.node("w/add", "AddV2", ["w/x", "w/step"], T="float32")
    if seed is not None:
        b.node("shape", "Shape", ["x"], T="float32", out_type="int32")
        b.node("w/shape", "Enter", ["shape"], T="int32", is_constant=True, **frame)
        b.node("w/chance", "RandomUniform", ["w/shape", "^w/i"], T="int32", dtype="float32", seed=seed, seed2=seed)
        last = b.node("w/noisy", "AddV2", [last, "w/chance"], T="float32")
    b.node("w/next", "NextIteration", ["w/more"], T="int32")
    b.node("w/next_x", "NextIteration", [last], T="float32")
    b.node("w/exit", "Exit", ["w/switch"], T="int32")
    b.node("w/exit_x", "Exit", ["w/switch_x"], T="float32")
    b.node("y", "Neg", ["w/exit_x"], T="float32")
    return b


def normalised(offset: float = 0.0, mean_offset: float = 0.0) -> Builder:
    """An op of six outputs, of which two are used."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4, 4, 2))
    for name, value in (("scale", [1, 1]), ("offset", [0, offset]), ("mean", [0, mean_offset]), ("var", [1, 1])):
        b.const(name, value)
    b.node("bn", "FusedBatchNormV3", ["x", "scale", "offset", "mean", "var"], T="float32", U="float32",
           is_training=True, epsilon=0.001, exponential_avg_factor=0.5)  # fmt: skip
    b.node("y", "Identity", ["bn"], T="float32")
    b.node("mean_seen", "Identity", ["bn:1"], T="float32")
    return b


def split(second: str = "parts:1") -> Builder:
    b = Builder()
    b.placeholder("x", "float32", (-1, 6))
    b.const("axis", 1, "int32")
    b.node("parts", "Split", ["axis", "x"], T="float32", num_split=3)
    b.node("y", "Sub", [second, "parts"], T="float32")
    return b


def joined(suffix: str = "!") -> Builder:
    b = Builder()
    b.placeholder("t", "string", (-1,))
    b.const("suffix", suffix, "string")
    b.node("joined", "StringJoin", ["t", "suffix"], N=2, separator=b"-")
    b.node("y", "Identity", ["joined"], T="string")
    return b


def joined_by(separator: bytes) -> Builder:
    b = Builder()
    b.placeholder("t", "string", (-1,))
    b.const("suffix", "!", "string")
    b.node("y", "StringJoin", ["t", "suffix"], N=2, separator=separator)
    return b


def noisy(op: str = "Mul") -> Builder:
    """y = x + (noise OP 3): an unseeded random op outside of functions, which can be drawn once for both."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.node("shape", "Shape", ["x"], T="float32", out_type="int32")
    b.node("noise", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=0, seed2=0)
    b.const("three", 3.0)
    b.node("louder", op, ["noise", "three"], T="float32")
    b.node("y", "AddV2", ["x", "louder"], T="float32")
    return b


def calling_chance(*, beside: bool = False) -> Builder:
    """y is random in a function, where nobody can draw for both; BESIDE there is z = 2x."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32"})
    body_node(function, "shape", "Shape", ["a"], T="float32", out_type="int32")
    body_node(function, "noise", "RandomUniform", ["shape:output:0"], T="int32", dtype="float32", seed=0, seed2=0)
    body_node(function, "product", "Mul", ["a", "noise:output:0"], T="float32")
    function.signature.is_stateful = True
    function.ret["r"] = "product:z:0"
    b.node("call", "StatefulPartitionedCall", ["x"], f=function_attr("F"), Tin=["float32"], Tout=["float32"])
    b.node("y", "Abs", ["call"], T="float32")
    if beside:
        b.const("two", 2.0)
        b.node("z", "Mul", ["x", "two"], T="float32")
    return b


def classifying(factor: float = 1.0) -> Builder:
    """Only the class is an output."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.const("w", np.arange(20).reshape(4, 5) * factor)
    b.node("logits", "MatMul", ["x", "w"], T="float32")
    b.node("scores", "Softmax", ["logits"], T="float32")
    b.const("axis", 1, "int32")
    b.node("class", "ArgMax", ["scores", "axis"], T="float32", Tidx="int32", output_type="int64")
    return b


def dropping(keep: bool) -> Builder:
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    last = "x"
    if keep:
        b.placeholder("keep_prob", "float32", ())
        last = b.node("dropped", "RealDiv", ["x", "keep_prob"], T="float32")
    b.node("y", "Exp", [last], T="float32")
    return b


def of_all_kinds(factor: float = 2.0) -> Builder:
    """Outputs with NaN, texts that end with NUL, bfloat16, integers, bools."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.node("log", "Log", ["x"], T="float32")
    b.node("nans", "Identity", ["log"], T="float32")
    b.const("factor", factor)
    b.node("factor16", "Cast", ["factor"], SrcT="float32", DstT="bfloat16")
    b.node("x16", "Cast", ["x"], SrcT="float32", DstT="bfloat16")
    b.node("brains", "Mul", ["x16", "factor16"], T="bfloat16")
    b.const("raw", [b"a\0", b"", b"\xff"], "string")
    b.node("texts", "Identity", ["raw"], T="string")
    b.const("numbers", [1, 2], "int64")
    b.node("whole", "Identity", ["numbers"], T="int64")
    b.const("one", 1.0)
    b.node("less", "Less", ["x", "one"], T="float32")
    return b


def constant(dtype: str, value: Any) -> Builder:
    b = Builder()
    b.const("c", value, dtype)
    b.node("y", "Identity", ["c"], T=dtype)
    return b


def divided(*, hidden: bool) -> Builder:
    """A division that TensorFlow's optimiser makes a multiplication, unless the divisor is HIDDEN from it."""
    b = Builder()
    b.placeholder("x", "float32", (2, 4))
    b.const("c", np.full((2, 4), 255.0))
    if hidden:
        b.node("d", "PlaceholderWithDefault", ["c"], dtype="float32", shape=Shape((-1, 4)))
    b.node("q", "RealDiv", ["x", "d" if hidden else "c"], T="float32")
    last = "q"
    for name, op in (("n", "Neg"), ("k", "Sigmoid"), ("y", "Abs")):
        last = b.node(name, op, [last], T="float32")
    return b


def giant() -> Builder:
    """64 GiB on the way to y."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    b.const("dims", [1 << 17, 1 << 17], "int32")
    b.const("one", 1.0)
    b.node("fill", "Fill", ["dims", "one"], T="float32", index_type="int32")
    b.const("axes", [0, 1], "int32")
    b.node("sum", "Sum", ["fill", "axes"], T="float32", Tidx="int32", keep_dims=False)
    b.node("y", "AddV2", ["x", "sum"], T="float32")
    return b


# -- how it is called -------------------------------------------------------------------------------------------


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
        """The verdict as JSON; what it says of itself must fit how the command ended."""
        ran = self.run(*arguments, "--json")
        assert ran.code == code, ran
        found: dict[str, Any] = json.loads(ran.out)
        assert found["exit_code"] == code
        assert found["passed"] == (code == 0)
        assert (found["error"] is None) == (code == 0)
        return found

    def refused(self, code: int, words: Sequence[str], *arguments: str) -> Ran:
        return check_refused(self.desk, code, tuple(words), "validate", *arguments)


@pytest.fixture
def bench(desk: Desk) -> Bench:
    return Bench(desk)


@pytest.fixture
def own_worker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose commands start a worker each, as they do where nobody tests."""
    lend_workers(monkeypatch, lend=False)
    return Bench(desk)


def guilty(verdict: dict[str, Any]) -> list[str]:
    return [found["node"] for found in verdict["divergence"]["guilty"]]


def why(verdict: dict[str, Any]) -> str:
    return "; ".join(verdict["divergence"]["guilty"][0]["why"])


def run_reduced(path: Path, tensors: Iterable[str]) -> list[np.ndarray]:
    """What two tensors of a reduced file are when somebody else runs it: TensorFlow's own interpreter."""
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        assert not [op.name for op in graph.get_operations() if op.type.startswith("Placeholder")]
        with tf.compat.v1.Session(graph=graph) as session:
            fetches = [name if ":" in name else f"{name}:0" for name in tensors]
            found: list[np.ndarray] = session.run(fetches)
            return found


# -- one model --------------------------------------------------------------------------------------------------


def test_one_model_each_level_is_reported(bench: Bench) -> None:
    bench.put(m=scaled())
    structure, loaded, ran = (bench.run("m.pb", "--level", level) for level in ("structure", "load", "run"))
    assert structure.code == loaded.code == ran.code == 0
    assert structure.out == loaded.out == ran.out == b""
    assert "checked" in structure.err and "loaded" not in structure.err
    assert "loaded" in loaded.err and "TensorFlow" in loaded.err and "fed" not in loaded.err
    for words in ("m.pb", "checked", "loaded", "fed      x  float32 [1,4]", "returned y  float32 [1,4]",
                  "1 output", "2 samples (batches of 1 and 2)", "nothing to compare", "(CPU"):  # fmt: skip
        assert words in ran.err


def test_quiet_says_nothing(bench: Bench) -> None:
    bench.put(m=scaled())
    ran = bench.run("m.pb", "-q")
    assert (ran.code, ran.out, ran.err) == (0, b"", "")


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.iterdir()))
def test_the_fixtures_run(bench: Bench, name: str) -> None:
    verdict = bench.verdict(str(FIXTURES / name))
    assert verdict["proof"]["outputs"]
    assert verdict["proof"]["samples"] == 2


def test_a_model_from_standard_input(bench: Bench) -> None:
    ran = bench.desk.spawn("validate", "-", data=scaled().bytes())
    assert ran.code == 0 and ran.out == b"" and "<stdin>" in ran.err
    bench.put(m=scaled(3.0))
    ran = bench.desk.spawn("validate", "-", "m.pb", "--first-divergence", "--reduce", "r.pb", data=scaled().bytes())
    assert ran.code == 5 and "c (Const)" in ran.err
    assert sorted(bench.desk.files()) == ["m.pb", "r.pb"]


def test_text_graphs(bench: Bench) -> None:
    bench.put(m=scaled())
    for name, factor in (("m.pbtxt", 2.0), ("other.pbtxt", 3.0)):
        bench.desk.put(name, to_text(scaled(factor).bytes()))
    assert bench.verdict("m.pb", "m.pbtxt")["proof"]["compared"] == 1
    assert guilty(bench.verdict("m.pbtxt", "other.pbtxt", "--first-divergence", code=5)) == ["c"]


def test_a_reduced_file_is_text_where_its_suffix_says_so(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    assert bench.run("m.pb", "other.pb", "--reduce", "r.pbtxt").code == 5
    assert b"node {" in (bench.desk.folder / "r.pbtxt").read_bytes()


def test_saved_model_folders_and_metagraphs_are_named(bench: Bench) -> None:
    (bench.desk.folder / "folder").mkdir()
    bench.refused(3, ["folder", "directory"], "folder")
    bench.refused(3, ["nothing.pb", "no such file"], "nothing.pb")
    bench.put(empty=b"")
    bench.refused(3, ["empty.pb"], "empty.pb")


def test_the_second_model_is_checked_like_the_first(bench: Bench) -> None:
    bench.put(m=scaled(), broken=CRASHING)
    ran = bench.run("m.pb", "broken.pb")
    assert ran.code == 3
    check_said(ran, "broken.pb", "without end")


# -- two models -------------------------------------------------------------------------------------------------


def test_two_equal_models(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled())
    proof = bench.verdict("m.pb", "other.pb")["proof"]
    assert proof["compared"] == 1 and proof["largest_difference"] == 0.0 and proof["batches"] == [1, 2]
    assert proof["device"] == "CPU" and "other(x) = m(x)" in proof["statement"]
    err = bench.run("m.pb", "other.pb").err
    assert "proven   other(x) = m(x): 1 output, 2 samples (batches of 1 and 2), bit-identical (CPU" in err


def test_a_difference_is_said_with_the_tolerance_that_it_takes(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(2.0001))
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 5 and ran.out == b""
    check_said(ran, "other.pb differs", "elements differ, by up to", "a tolerance of")
    assert bench.run("m.pb", "other.pb", "--rtol", "1e-3").code == 0
    ran = bench.run("m.pb", "other.pb", "--rtol", "1e-6", "--atol", "1e-6")
    assert ran.code == 5 and "a tolerance of" in ran.err


def test_the_tolerance_that_would_have_passed_does_pass(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(2.0001))
    ran = bench.run("m.pb", "other.pb")
    needed = ran.err.rpartition("a tolerance of ")[2].split()[0]
    assert bench.run("m.pb", "other.pb", "--rtol", needed, "--atol", needed).code == 0
    less = str(float(needed) * 0.9)
    assert bench.run("m.pb", "other.pb", "--rtol", less, "--atol", less).code == 5


@pytest.mark.parametrize(
    ("dtype", "mine", "theirs"),
    [("int32", [1, 2], [1, 3]), ("string", ["a", "b"], ["a", "c"]), ("bool", [True, False], [True, True])],
)
def test_what_is_no_float_has_to_be_exact(bench: Bench, dtype: str, mine: Any, theirs: Any) -> None:
    bench.put(m=constant(dtype, mine), same=constant(dtype, mine), other=constant(dtype, theirs))
    assert bench.run("m.pb", "same.pb").code == 0
    for tolerance in ((), ("--rtol", "0.9", "--atol", "9")):
        ran = bench.run("m.pb", "other.pb", *tolerance)
        assert ran.code == 5
        check_said(ran, "y: 1 of 2 elements differ")


def test_texts_that_differ_do_not_differ_by_nothing(bench: Bench) -> None:
    bench.put(m=joined("!"), other=joined("?"))
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 5 and "by up to 0 " not in ran.err


def test_nans_are_equal_to_nans_and_to_nothing_else(bench: Bench) -> None:
    bench.put(
        m=constant("float32", [np.nan, 1]), same=constant("float32", [np.nan, 1]), other=constant("float32", [0, 1]),
        moved=constant("float32", [1, np.nan]),
    )  # fmt: skip
    assert bench.run("m.pb", "same.pb").code == 0
    for other in ("other.pb", "moved.pb"):
        assert bench.run("m.pb", other, "--rtol", "1", "--atol", "100").code == 5


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize("option", ["--rtol", "--atol"])
def test_a_tolerance_is_a_number(bench: Bench, option: str, value: str) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    assert bench.run("m.pb", "other.pb", option, value).code == 2


def test_whatever_has_no_partner_fails(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(x="picture", y="result"))
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 5
    check_said(ran, "2 outputs have no partner", "m.pb gives 'y'", "other.pb gives 'result'", "--map OLD=NEW")
    ran = bench.run("m.pb", "other.pb", "--map", "y=result")
    assert ran.code == 5
    check_said(ran, "other.pb takes 'picture', which m.pb does not")
    assert bench.verdict("m.pb", "other.pb", "--map", "y=result", "--map", "x=picture")["proof"]["compared"] == 1
    bench.desk.put("pairs.txt", b"# pairs\ny=result\n\nx=picture\n")
    assert bench.run("m.pb", "other.pb", "--map-file", "pairs.txt").code == 0


def test_an_extra_output_on_either_side_fails_until_outputs_says_otherwise(bench: Bench) -> None:
    bench.put(m=calling_chance(beside=True), other=scaled(y="z"))
    for pair, owner in ((("m.pb", "other.pb"), "m.pb gives 'y'"), (("other.pb", "m.pb"), "m.pb gives 'y'")):
        ran = bench.run(*pair)
        assert ran.code == 5
        check_said(ran, "1 output has no partner", owner)
        assert bench.verdict(*pair, "--outputs", "z")["proof"]["compared"] == 1


def test_names_that_are_not_there(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled())
    for arguments in (("m.pb", "--outputs", "z"), ("m.pb", "other.pb", "--outputs", "z"),
                      ("m.pb", "other.pb", "--map", "z=y"), ("m.pb", "other.pb", "--map", "y=z")):  # fmt: skip
        ran = bench.run(*arguments)
        assert ran.code in (2, 4)
        check_said(ran, "'z'")
        assert "--map NAME" not in ran.err


def test_json_says_all_that_the_error_says(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(y="z"))
    assert "m.pb gives 'y'" in json.dumps(bench.verdict("m.pb", "other.pb", code=5))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (scaled_doubles(), ("float32", "float64")),
        (scaled(shape=(-1, 5)), ("no common shape",)),
        (scaled(shape=(4,)), ("no common shape",)),
    ],
)
def test_inputs_that_do_not_fit(bench: Bench, other: Builder, words: tuple[str, ...]) -> None:
    bench.put(m=scaled(), other=other)
    for pair in (("m.pb", "other.pb"), ("other.pb", "m.pb")):
        ran = bench.run(*pair)
        assert ran.code == 5
        check_said(ran, "'x' of m.pb", "'x' of other.pb", *words)


@pytest.mark.parametrize(("shape", "batches"), [((1, 4), [1]), ((2, 4), [1]), ((-1, -1), [1, 2]), (None, [1, 2])])
def test_inputs_of_shapes_that_both_take(bench: Bench, shape: tuple[int, ...] | None, batches: list[int]) -> None:
    bench.put(m=scaled(), other=scaled(shape=shape))
    for pair in (("m.pb", "other.pb"), ("other.pb", "m.pb")):
        proof = bench.verdict(*pair)["proof"]
        assert proof["compared"] == 1 and proof["batches"] == batches


def test_an_input_of_one_model_alone_is_fed(bench: Bench) -> None:
    bench.put(plain=dropping(False), keeping=dropping(True))
    for pair in (("plain.pb", "keeping.pb"), ("keeping.pb", "plain.pb")):
        ran = bench.run(*pair)
        assert ran.code == 5
        check_said(ran, "keeping.pb takes 'keep_prob', which plain.pb does not", "--feed")
        assert bench.verdict(*pair, "--feed", "keep_prob=1")["proof"]["compared"] == 1
        assert bench.run(*pair, "--feed", "keep_prob=0.5").code == 5


def test_an_input_of_one_model_alone_is_reported_either_way(bench: Bench) -> None:
    bench.put(plain=dropping(False), keeping=dropping(True))
    found = [bench.verdict(*pair, "--feed", "keep_prob=1")["proof"]
             for pair in (("plain.pb", "keeping.pb"), ("keeping.pb", "plain.pb"))]  # fmt: skip
    assert all("keep_prob" in proof["feeds"] for proof in found)
    assert found[0]["batches"] == found[1]["batches"]


def test_a_class_is_compared_with_its_scores(bench: Bench) -> None:
    bench.put(m=classifying(), other=classifying(1.001))
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 5
    check_said(ran, "scores:")
    assert "behind" in ran.err
    assert bench.run("m.pb", "other.pb", "--rtol", "0.1").code == 0


# -- chance -----------------------------------------------------------------------------------------------------


def test_chance_outside_of_functions_is_drawn_for_both(bench: Bench) -> None:
    bench.put(m=noisy(), other=noisy("AddV2"))
    assert bench.run("m.pb", "m.pb").code == 0
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", "--reduce", "r.pb", code=5)
    assert guilty(verdict) == ["louder"]


def test_a_reduced_file_has_what_was_drawn(bench: Bench) -> None:
    bench.put(m=noisy(), other=noisy("AddV2"))
    verdict = bench.verdict("m.pb", "other.pb", "--reduce", "r.pb", code=5)
    assert guilty(verdict) == ["louder"] and verdict["reduced"]["nodes"] <= 6
    assert b"RandomUniform" not in (bench.desk.folder / "r.pb").read_bytes()
    first, second = (run_reduced(bench.desk.folder / "r.pb", verdict["reduced"]["tensors"]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_chance_in_functions_is_not_compared(bench: Bench) -> None:
    bench.put(m=calling_chance())
    ran = bench.run("m.pb", "m.pb")
    assert ran.code == 7
    check_said(ran, "nothing could be compared", "random", "call")
    bench.put(m=calling_chance(beside=True))
    verdict = bench.verdict("m.pb", "m.pb")
    assert verdict["proof"]["compared"] == 1
    assert [o["reason"] for o in verdict["proof"]["outputs"] if not o["compared"]] == ["random: call"]


@pytest.mark.parametrize("model", [noisy(), calling_chance(), looping(seed=3)], ids=["drawn", "called", "looped"])
def test_a_random_graph_is_named(bench: Bench, model: Builder) -> None:
    bench.put(m=model)
    assert "random" in bench.run("m.pb").err


def test_that_chance_was_drawn_for_both_is_said(bench: Bench) -> None:
    bench.put(m=noisy())
    assert "noise" in bench.run("m.pb", "m.pb").err


def test_chance_in_a_loop_is_no_excuse_for_a_difference(bench: Bench) -> None:
    bench.put(m=looping(1.0, seed=5), other=looping(1.5, seed=5))
    # The loop's iterations may overlap: what they draw is added in another order, and the sum rounds otherwise.
    assert bench.run("m.pb", "m.pb", "--rtol", "1e-5").code == 0
    assert bench.run("m.pb", "other.pb", "--rtol", "1e-5").code == 5


def test_what_a_random_op_reads_is_no_output(bench: Bench) -> None:
    bench.put(m=noisy())
    assert [o["edited"] for o in bench.verdict("m.pb")["proof"]["outputs"] if not o["inside"]] == ["y"]


def test_a_random_model_does_not_pass_against_recorded_outputs(bench: Bench) -> None:
    bench.put(m=noisy())
    assert bench.run("m.pb", "--save-outputs", "out.npz").code == 0
    assert bench.run("m.pb", "--golden", "out.npz").code == 7


def test_chance_in_functions_does_not_pass_against_recorded_outputs(bench: Bench) -> None:
    bench.put(m=calling_chance(), both=calling_chance(beside=True))
    for model, code in (("m.pb", 7), ("both.pb", 0)):
        assert bench.run(model, "--save-outputs", "out.npz").code == 0
        ran = bench.run(model, "--golden", "out.npz")
        assert ran.code == code and "random: call" in ran.err


# -- what TensorFlow's optimiser does ---------------------------------------------------------------------------


def test_a_difference_that_only_the_optimiser_makes(bench: Bench) -> None:
    bench.put(m=divided(hidden=False), other=divided(hidden=True))
    assert bench.run("m.pb", "other.pb", "--no-grappler").code == 0
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 0 and "Grappler the two give the same but for up to" in ran.err
    ran = bench.run("m.pb", "other.pb", "--rtol", "1e-12", "--first-divergence")
    assert "does not give it twice" not in ran.err
    assert ran.code == 5 and "Grappler the two differ" in ran.err
    check_said(ran, "it is the doing of TensorFlow's optimiser")


def test_what_the_optimiser_does_to_one_model_is_said(bench: Bench) -> None:
    bench.put(m=divided(hidden=False))
    ran = bench.run("m.pb")
    assert ran.code == 0 and "Grappler" in ran.err
    assert "Grappler" not in bench.run("m.pb", "--no-grappler").err


# -- who is to blame --------------------------------------------------------------------------------------------

modes = pytest.mark.parametrize("mode", [(), ("--lockstep",)], ids=["own", "lockstep"])


@modes
def test_one_perturbed_constant_of_a_thousand_nodes(bench: Bench, mode: tuple[str, ...]) -> None:
    bench.put(m=deep(), other=deep(300))
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", *mode, code=5)
    assert guilty(verdict) == ["layer300/w"]
    assert verdict["divergence"]["compared"] >= 1000
    assert "constant" in why(verdict)


@modes
@pytest.mark.parametrize(
    ("mine", "theirs", "node", "reason"),
    [
        (difference(), difference(swapped=True), "d", "input 0 is 'b', not 'a'"),
        (difference(), difference(op="Mul"), "d", "Mul, not a Sub"),
        (difference(), difference(alpha=0.3), "y", "alpha"),
        (calling(), calling(3.0), "call", "function 'F' differs in 'factor'"),
        (split(), split("parts:2"), "y", "parts:2"),
        (normalised(), normalised(0.5), "offset", "constant"),
        (joined_by(b"-"), joined_by(b"+"), "y", "separator"),
        (looping(), looping(2.0), "w/exit_x", ""),
    ],
    ids=["input", "op", "attr", "function", "output", "constant", "string", "loop"],
)
def test_the_first_divergence(
    bench: Bench, mode: tuple[str, ...], mine: Builder, theirs: Builder, node: str, reason: str
) -> None:
    bench.put(m=mine, other=theirs)
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", *mode, "--reduce", "r.pb", code=5)
    assert guilty(verdict) == [node]
    assert reason in why(verdict)
    # The piece runs on its own, for anybody, without feeds; its two tensors differ, as the message says.
    reduced = verdict["reduced"]
    assert verdict["written"] == ["r.pb"] and reduced["bytes"] == (bench.desk.folder / "r.pb").stat().st_size
    assert load(str(bench.desk.folder / "r.pb")).node_count == reduced["nodes"]
    first, second = run_reduced(bench.desk.folder / "r.pb", reduced["tensors"])
    assert not np.array_equal(first, second)
    if first.dtype != object:
        largest = np.max(np.abs(first.astype("float64") - second))
        assert f"by up to {largest:.3g}" in reduced["difference"]


def test_what_differs_in_a_loop_is_named(bench: Bench) -> None:
    bench.put(m=looping(), other=looping(2.0))
    assert "w/step" in bench.run("m.pb", "other.pb", "--first-divergence").err


def twice(factor: float) -> Builder:
    """A function of two outputs, of which only the second has to do with FACTOR."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 4))
    function = b.function("F", {"a": "float32"}, {"r": "float32", "s": "float32"})
    body_node(function, "factor", "Const", dtype="float32", value=tensor(factor, "float32"))
    body_node(function, "product", "Mul", ["a", "factor:output:0"], T="float32")
    function.ret["r"], function.ret["s"] = "a", "product:z:0"
    b.node("call", "PartitionedCall", ["x"], f=function_attr("F"), Tin=["float32"], Tout=["float32", "float32"])
    b.node("y", "Neg", ["call"], T="float32")
    b.node("z", "Abs", ["call:1"], T="float32")
    return b


@modes
def test_an_output_that_is_not_the_first(bench: Bench, mode: tuple[str, ...]) -> None:
    bench.put(m=twice(2.0), other=twice(3.0))
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", *mode, "--reduce", "r.pb", code=5)
    (found,) = verdict["divergence"]["guilty"]
    assert (found["node"], found["tensor"]) == ("call", "call:1")
    assert all(name.endswith(":1") for name in verdict["reduced"]["tensors"])
    first, second = run_reduced(bench.desk.folder / "r.pb", verdict["reduced"]["tensors"])
    assert not np.array_equal(first, second)


def split_after(size: int) -> Builder:
    """The shapes of two outputs are decided by a constant."""
    b = Builder()
    b.placeholder("x", "float32", (-1, 6))
    b.const("axis", 1, "int32")
    b.const("sizes", [2, size, 4 - size], "int64")
    b.node("parts", "SplitV", ["x", "sizes", "axis"], T="float32", Tlen="int64", num_split=3)
    b.node("first", "Neg", ["parts"], T="float32")
    b.node("last", "Neg", ["parts:2"], T="float32")
    return b


@pytest.mark.parametrize(
    "mode",
    [(), ("--lockstep",)],
    ids=["own", "lockstep"],
)  # fmt: skip
def test_shapes_that_differ(bench: Bench, mode: tuple[str, ...]) -> None:
    bench.put(m=split_after(1), other=split_after(2))
    assert guilty(bench.verdict("m.pb", "other.pb", "--first-divergence", *mode, code=5)) == ["sizes"]


def test_two_guilty_nodes(bench: Bench) -> None:
    bench.put(m=chain(), other=chain("q", "s"))
    assert guilty(bench.verdict("m.pb", "other.pb", "--first-divergence", code=5)) == ["q"]
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", "--lockstep", code=5)
    assert guilty(verdict) == ["q", "s"] and verdict["divergence"]["lockstep"]
    err = bench.run("m.pb", "other.pb", "--first-divergence", "--lockstep").err
    assert "first    q (Softplus)" in err and "also     s (Softplus)" in err


def test_nothing_to_blame_where_nothing_differs(bench: Bench) -> None:
    bench.put(m=chain(), other=chain())
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", "--reduce", "r.pb")
    assert verdict["divergence"] is None and verdict["reduced"] is None
    assert sorted(bench.desk.files()) == ["m.pb", "other.pb"]


def test_an_extra_node_between(bench: Bench) -> None:
    bench.put(plain=dropping(False), keeping=dropping(True))
    arguments = ("--feed", "keep_prob=0.5", "--first-divergence")
    verdict = bench.verdict("plain.pb", "keeping.pb", *arguments, code=5)
    assert guilty(verdict) == ["y"] and "'dropped'" in why(verdict)


def test_an_extra_node_between_is_said_in_words(bench: Bench) -> None:
    bench.put(plain=dropping(False), keeping=dropping(True))
    err = bench.run("plain.pb", "keeping.pb", "--feed", "keep_prob=0.5", "--first-divergence").err
    assert "its inputs agree" in err or "those" not in err


def test_reduced_to_standard_output(bench: Bench) -> None:
    bench.put(m=calling(), other=calling(3.0))
    ran = bench.run("m.pb", "other.pb", "--reduce", "-")
    assert ran.code == 5
    graph = from_bytes(ran.out)
    assert graph.find("call") and graph.find("other/call")
    assert run_reduced(bench.desk.put("r.pb", ran.out), ["call", "other/call"])


def test_a_reduced_file_replaces_an_earlier_one_only_where_the_models_differ(bench: Bench) -> None:
    bench.put(m=chain(), same=chain(), other=chain("q"))
    bench.desk.put("r.pb", EARLIER)
    assert bench.run("m.pb", "same.pb", "--reduce", "r.pb").code == 0
    assert bench.desk.files()["r.pb"] == EARLIER
    bench.put(renamed=scaled(y="z"))
    assert bench.run("m.pb", "renamed.pb", "--reduce", "r.pb").code == 5
    assert bench.desk.files()["r.pb"] == EARLIER
    assert bench.run("m.pb", "other.pb", "--reduce", "r.pb").code == 5
    assert bench.desk.files()["r.pb"] != EARLIER


# -- graphs in front and behind ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def surgery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What add-preprocessing and add-postprocessing make of the fixtures, and both with a mistake in it."""
    from gdsurgeon.cli.main import exit_code

    folder = tmp_path_factory.mktemp("surgery")
    served, labelled = str(folder / "served.pb"), str(folder / "labelled.pb")
    quick = ("--validate", "structure", "-q")
    assert exit_code(["add-preprocessing", CLASSIFIER, DECODE, "-o", served, *quick]) == 0
    assert exit_code(["add-postprocessing", served, LOOKUP, "-o", labelled, *quick]) == 0
    graph_def = message("tensorflow.GraphDef").FromString(Path(served).read_bytes())
    (decoder,) = [node for node in graph_def.node if node.op == "DecodeJpeg"]
    decoder.attr["dct_method"].s = b"INTEGER_FAST"
    decoder.attr["fancy_upscaling"].b = False
    (folder / "served_wrong.pb").write_bytes(graph_def.SerializeToString())
    graph_def = message("tensorflow.GraphDef").FromString(Path(labelled).read_bytes())
    (labels,) = [node for node in graph_def.node if node.name == "labels"]
    labels.attr["value"].tensor.string_val[:] = [b"wrong"] * 10
    (folder / "labelled_wrong.pb").write_bytes(graph_def.SerializeToString())
    return folder


def test_surgery_against_its_parts(bench: Bench, surgery: Path) -> None:
    served, labelled = str(surgery / "served.pb"), str(surgery / "labelled.pb")
    for arguments in (
        (CLASSIFIER, served, "--pre", DECODE),
        (CLASSIFIER, served, "--pre", DECODE, "--pre-map", "image=image,image_preprocessed"),
        (CLASSIFIER, labelled, "--pre", DECODE, "--post", LOOKUP),
        (served, labelled, "--post", LOOKUP),
    ):
        proof = bench.verdict(*arguments)["proof"]
        assert proof["compared"] == 1 and proof["largest_difference"] == 0
        assert any(output["inside"] for output in proof["outputs"])


def test_wrong_surgery_against_its_parts(bench: Bench, surgery: Path) -> None:
    ran = bench.run(CLASSIFIER, str(surgery / "served_wrong.pb"), "--pre", DECODE, "--first-divergence")
    assert ran.code == 5
    check_said(ran, "served_wrong.pb differs", "probabilities:")
    ran = bench.run(CLASSIFIER, str(surgery / "labelled_wrong.pb"), "--pre", DECODE, "--post", LOOKUP)
    assert ran.code == 5
    check_said(ran, "labelled_wrong.pb differs", "classes: 1 of 1 elements differ")


def test_a_part_that_is_left_out_is_missed(bench: Bench, surgery: Path) -> None:
    served, labelled = str(surgery / "served.pb"), str(surgery / "labelled.pb")
    for arguments, words in (
        ((CLASSIFIER, served), ("float32", "string")),
        ((CLASSIFIER, labelled, "--post", LOOKUP), ("float32", "string")),
        ((CLASSIFIER, labelled, "--pre", DECODE), ("classes: int64 against string",)),
        ((served, CLASSIFIER, "--pre", DECODE), ("string", "float32")),
    ):
        ran = bench.run(*arguments)
        assert ran.code == 5
        check_said(ran, *words)


def test_the_first_divergence_behind_a_post_graph(bench: Bench, surgery: Path) -> None:
    wrong_one = str(surgery / "labelled_wrong.pb")
    arguments = (CLASSIFIER, wrong_one, "--pre", DECODE, "--post", LOOKUP, "--first-divergence")
    err = bench.run(*arguments).err
    assert "int64 against string" not in err and "labels" in err


def test_the_first_divergence_in_front(bench: Bench, surgery: Path) -> None:
    err = bench.run(CLASSIFIER, str(surgery / "served_wrong.pb"), "--pre", DECODE, "--first-divergence").err
    assert "dct_method" in err


def test_the_hint_names_the_option_of_this_command(bench: Bench, surgery: Path) -> None:
    ran = bench.run(CLASSIFIER, str(surgery / "served.pb"), "--pre", LOOKUP)
    assert ran.code != 0
    check_said(ran, "--pre-map INPUT=RAW,RESULT")


# -- devices, servers, measuring --------------------------------------------------------------------------------


def test_two_devices_where_there_is_one(bench: Bench) -> None:
    bench.put(m=scaled())
    for device in ("cpu,gpu", "gpu", "gpu,cpu", "/device:GPU:7", "cpu,/device:CPU:1"):
        ran = bench.run("m.pb", "--device", device)
        assert ran.code == 7
        check_said(ran, "TensorFlow sees no", "only CPU:0" if "GPU" not in ran.err.split("only")[-1] else "only")


@pytest.mark.parametrize("devices", ["cpu,/device:CPU:0", "/device:cpu,cpu", "CPU,cpu"])
def test_two_devices_are_two(bench: Bench, devices: str) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--device", devices).code == 2


def test_a_server(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0), chance=noisy())
    with running_server() as server:
        target = ("--target", server.target)
        ran = bench.run("m.pb", *target)
        assert ran.code == 0 and server.target in ran.err
        verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", "--reduce", "r.pb", *target, code=5)
        assert guilty(verdict) == ["c"] and server.target in verdict["proof"]["device"]
        assert bench.run("chance.pb", "chance.pb", *target).code == 0
        server.kill()
        ran = bench.run("m.pb", *target)
        assert ran.code == 7
        check_said(ran, "no TensorFlow server answers", server.target)


def test_a_server_that_is_not_there(bench: Bench) -> None:
    bench.put(m=scaled())
    ran = bench.run("m.pb", "--target", f"grpc://127.0.0.1:{free_port()}")
    assert ran.code == 7
    assert ran.err.count("grpc://") == 1


@pytest.mark.parametrize("target", ["somewhere", "grpc://", "http://127.0.0.1:1", ""])
def test_an_address_that_is_none(bench: Bench, target: str) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--target", target).code == 2


def test_profiles(bench: Bench) -> None:
    bench.put(m=deep(), other=deep())
    verdict = bench.verdict("m.pb", "other.pb", "--profile")
    assert set(verdict["profiles"]) == {"m.pb", "other.pb"}
    for profile in verdict["profiles"].values():
        assert profile["seconds"] > 0 and profile["runs"] >= 3 and profile["slowest"]
    ran = bench.run("m.pb", "--profile")
    assert "measured m.pb" in ran.err and "ms a run" in ran.err
    assert len(bench.verdict("m.pb", "m.pb", "--profile")["profiles"]) == 2


# -- archives ---------------------------------------------------------------------------------------------------


def test_outputs_and_feeds_come_back(bench: Bench) -> None:
    bench.put(m=of_all_kinds(), other=of_all_kinds(3.0))
    assert bench.run("m.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz").code == 0
    with np.load(bench.desk.folder / "in.npz") as feeds:
        assert {name: feeds[name].shape for name in feeds} == {"x": (1, 4), "x@1": (2, 4)}
    for arguments in ((), ("--feeds", "in.npz")):
        proof = bench.verdict("m.pb", "--golden", "out.npz", *arguments)["proof"]
        assert proof["samples"] == 2 and proof["largest_difference"] == 0
        assert {o["edited"] for o in proof["outputs"] if o["compared"]} >= {"nans", "brains", "texts", "whole", "less"}
        ran = bench.run("other.pb", "--golden", "out.npz", *arguments)
        assert ran.code == 5
        check_said(ran, "other.pb differs from out.npz", "brains: 4 of 4 elements differ")


def test_archives_of_two_models(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    ran = bench.run("m.pb", "other.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz")
    assert ran.code == 5
    with np.load(bench.desk.folder / "out.npz") as out, np.load(bench.desk.folder / "in.npz") as feeds:
        np.testing.assert_array_equal(out["y"], feeds["x"] * np.float32(2))
    assert bench.run("other.pb", "--golden", "out.npz", "--feeds", "in.npz").code == 5


def test_an_archive_to_standard_output(bench: Bench) -> None:
    bench.put(m=scaled())
    ran = bench.run("m.pb", "--save-outputs", "-")
    assert ran.code == 0
    with np.load(io.BytesIO(ran.out)) as out:
        assert set(out) == {"y", "y@1"}


def test_a_difference_from_recorded_outputs_is_of_one_sample(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    assert bench.run("m.pb", "--save-outputs", "out.npz").code == 0
    assert bench.verdict("other.pb", "--golden", "out.npz", code=5)["proof"]["samples"] == 1


RECORDED: dict[str, tuple[dict[str, Any], int, str]] = {
    "other names": ({"q": np.ones(3)}, 5, "'y', which was not recorded"),
    "one name more": ({"y": np.ones((1, 4), "f4"), "q": np.ones(3)}, 5, "'q' was recorded"),
    "another dtype": ({"y": np.ones((1, 4))}, 5, "float64 against float32"),
    "another shape": ({"y": np.ones((1, 5), "f4")}, 5, "[1,5] against [1,4]"),
    "texts": ({"y": np.array(["a"])}, 5, "string against float32"),
    "nothing": ({}, 5, "'y', which was not recorded"),
    "objects": ({"y": np.array([{}], dtype=object)}, 2, "bad.npz"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_that_do_not_fit(bench: Bench, name: str) -> None:
    values, code, words = RECORDED[name]
    bench.put(m=scaled())
    bench.archive("bad.npz", **values)
    ran = bench.run("m.pb", "--golden", "bad.npz", "--samples", "1")
    assert ran.code == code
    check_said(ran, words)


@pytest.mark.parametrize("dtype", ["longdouble", "datetime64[D]", "V3", "f4,i8"])
def test_recorded_outputs_of_dtypes_that_no_tensor_has(bench: Bench, dtype: str) -> None:
    bench.put(m=scaled())
    bench.archive("bad.npz", y=np.zeros((1, 4), dtype))
    ran = bench.run("m.pb", "--golden", "bad.npz", "--samples", "1")
    assert ran.code in (2, 5)
    check_said(ran, "y")


def test_every_sample_of_recorded_outputs_has_its_partners(bench: Bench) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--save-outputs", "out.npz").code == 0
    with np.load(bench.desk.folder / "out.npz") as out:
        bench.archive("bad.npz", y=out["y"], q__1=out["y@1"])
    assert bench.run("m.pb", "--golden", "bad.npz").code != 0


def test_too_few_recorded_samples(bench: Bench) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--save-outputs", "out.npz", "--samples", "1").code == 0
    ran = bench.run("m.pb", "--golden", "out.npz")
    assert ran.code == 7
    check_said(ran, "out.npz has 1 of the 2 samples", "--samples 1")
    assert bench.run("m.pb", "--golden", "out.npz", "--samples", "1").code == 0


def test_all_recorded_samples_are_looked_at(bench: Bench) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--save-outputs", "out.npz", "--samples", "5").code == 0
    proof = bench.verdict("m.pb", "--golden", "out.npz")["proof"]
    assert proof["samples"] == 5 or "of the 5" in bench.run("m.pb", "--golden", "out.npz").err


@pytest.mark.parametrize("option", ["--feeds", "--golden"])
@pytest.mark.parametrize("data", [b"", b"PK nonsense", b"\x93NUMPY"], ids=["empty", "nonsense", "npy"])
def test_broken_archives(bench: Bench, option: str, data: bytes) -> None:
    bench.put(m=scaled())
    bench.desk.put("bad.npz", data)
    ran = bench.run("m.pb", option, "bad.npz")
    assert ran.code == 2
    check_said(ran, "bad.npz cannot be read")
    ran = bench.run("m.pb", option, "nowhere.npz")
    assert ran.code == 2
    check_said(ran, "nowhere.npz", "no such file")


def test_an_archive_with_a_broken_entry(bench: Bench) -> None:
    bench.put(m=scaled())
    with zipfile.ZipFile(bench.desk.folder / "bad.npz", "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00v\x00 no header")
        archive.writestr("y.npy", b"")
    for option in ("--feeds", "--golden"):
        ran = bench.run("m.pb", option, "bad.npz")
        assert ran.code == 2
        check_said(ran, "bad.npz")


def test_recorded_outputs_are_no_feeds(bench: Bench) -> None:
    bench.put(m=scaled())
    assert "feeds" not in bench.run("m.pb", "--golden", "nowhere.npz").err.partition("Error")[2]


FED: dict[str, tuple[dict[str, Any], str]] = {
    "other names": ({"q": np.ones(3)}, "'q'"),
    "another dtype": ({"x": np.ones((1, 4))}, "float64 [1,4]"),
    "another shape": ({"x": np.ones((1, 5), "f4")}, "[1,5]"),
    "texts": ({"x": np.array(["a"])}, "string [1]"),
    "no first sample": ({"x__1": np.ones((1, 4), "f4")}, "first sample"),
    "a gap": ({"x": np.ones((1, 4), "f4"), "x__7": np.ones((1, 4), "f4")}, "'x@7'"),
    "objects": ({"x": np.array([{}], dtype=object)}, "bad.npz"),
    "records": ({"x": np.zeros(3, "f4,i8")}, "'x'"),
}


@pytest.mark.parametrize("name", FED)
def test_feeds_that_do_not_fit(bench: Bench, name: str) -> None:
    values, words = FED[name]
    bench.put(m=scaled())
    bench.archive("bad.npz", **values)
    ran = bench.run("m.pb", "--feeds", "bad.npz")
    assert ran.code == 2
    check_said(ran, words)


def test_nothing_in_what_was_fed_is_no_pass(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    bench.archive("none.npz", x=np.zeros((0, 4), "f4"))
    ran = bench.run("m.pb", "other.pb", "--feeds", "none.npz")
    assert ran.code == 7
    check_said(ran, "nothing could be compared", "no elements")
    bench.archive("out.npz", y=np.zeros((0, 4), "f4"))
    assert bench.run("m.pb", "--golden", "out.npz", "--feeds", "none.npz").code == 7


# -- options that contradict each other -------------------------------------------------------------------------

CONTRADICTIONS = [
    "m.pb --first-divergence", "m.pb --reduce r.pb", "m.pb --map y=y", "m.pb --pre m.pb", "m.pb --post m.pb",
    "m.pb other.pb --lockstep", "m.pb --lockstep", "m.pb other.pb --device cpu,gpu", "m.pb other.pb --golden g.npz",
    "m.pb --golden g.npz --device cpu,gpu", "m.pb other.pb --level load", "m.pb other.pb --level structure",
    "m.pb --level structure --golden g.npz", "m.pb --level load --profile", "m.pb --level load --save-outputs o.npz",
    "m.pb --level structure --device cpu,gpu", "- -", "m.pb - --pre -", "m.pb other.pb --reduce m.pb",
    "m.pb other.pb --reduce ./other.pb", "m.pb other.pb --save-feeds other.pb", "m.pb --save-outputs m.pb",
    "m.pb --save-outputs o.npz --save-feeds ./o.npz", "m.pb --feeds g.npz --save-feeds g.npz",
    "m.pb --golden g.npz --save-outputs g.npz", "m.pb other.pb --reduce o.npz --save-feeds o.npz",
    "m.pb other.pb other.pb", "m.pb --level deep", "m.pb --rtol -1", "m.pb --timeout 0", "m.pb --samples 0",
    "m.pb --device cpu,cpu", "m.pb --device cpu,", "m.pb --device cpu,gpu,tpu", "m.pb --device toaster",
    "m.pb other.pb --pre-map x", "m.pb other.pb --map x", "m.pb other.pb --map =y", "m.pb --feed x",
    "m.pb --shape x=a", "m.pb other.pb --map-file nowhere.txt",
]  # fmt: skip
TAKEN_FOR_GOOD = {
    "m.pb --level load --save-feeds o.npz": "what nothing is run for cannot be saved, and nothing is said",
    "m.pb --level structure --save-feeds o.npz": "likewise",
    "m.pb other.pb --pre-map x=a,b": "it maps the ends of a graph that is not there",
    "m.pb other.pb --post-map y=a,b": "likewise",
    "m.pb --pre-map x=a,b": "likewise",
    "m.pb --save-outputs - --save-feeds -": "two archives on one standard output",
    "m.pb --json --save-outputs -": "JSON and an archive on one standard output",
    "m.pb same.pb --json --reduce -": "JSON and a graph on one standard output",
    "m.pb same.pb --reduce - --save-feeds -": "a graph and an archive on one standard output",
    "m.pb --level load --outputs y": "nothing is run, so that there are no outputs to restrict",
    "m.pb --level structure --rtol 1": "nothing is compared",
    "m.pb --rtol 1": "one model is compared with nothing",
}


def contradiction(bench: Bench, line: str) -> None:
    bench.put(m=scaled(), other=scaled(3.0), same=scaled())
    bench.archive("g.npz", y=np.ones((1, 4), "f4"), x=np.ones((1, 4), "f4"))
    before = bench.desk.files()
    ran = bench.run(*line.split())
    assert ran.code == 2, ran
    check_said(ran)
    assert len(ran.err.splitlines()) <= 2, ran.err
    assert ran.out == b"" and bench.desk.files() == before


@pytest.mark.parametrize("line", CONTRADICTIONS)
def test_contradictions(bench: Bench, line: str) -> None:
    contradiction(bench, line)


@pytest.mark.parametrize("line", [line for line, why in TAKEN_FOR_GOOD.items()])
def test_contradictions_that_are_taken_for_good(bench: Bench, line: str) -> None:
    contradiction(bench, line)


@pytest.mark.parametrize(
    "line", ["m.pb --feed x=@x.npy --save-outputs x.npy", "m.pb other.pb --map-file pairs.txt --reduce pairs.txt"]
)
def test_nothing_that_is_read_is_replaced(bench: Bench, line: str) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    np.save(bench.desk.folder / "x.npy", np.ones((1, 4), "f4"))
    bench.desk.put("pairs.txt", b"y=y\n")
    before = bench.desk.files()
    ran = bench.run(*line.split())
    assert bench.desk.files() == before and ran.code == 2


def test_a_list_of_pairs_that_is_not_there(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled())
    check_said(bench.run("m.pb", "other.pb", "--map-file", "nowhere.txt"), "--map-file nowhere.txt")


HINTED = {
    "random": calling_chance(),
    "waiting": hanging(),
}


@pytest.mark.parametrize("name", HINTED)
def test_hints_name_options_of_this_command(bench: Bench, name: str) -> None:
    bench.put(m=HINTED[name])
    ran = bench.run("m.pb", "m.pb")
    assert ran.code == 7 and "--validate" not in ran.err and "--level" in ran.err


def test_the_hint_for_a_broken_graph_names_options_of_this_command(bench: Bench) -> None:
    bench.put(m=CRASHING)
    ran = bench.run("m.pb")
    assert ran.code == 3 and "level none" not in ran.err and "--validate" not in ran.err


# -- what cannot be written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--save-outputs", "--save-feeds", "--reduce"])
@pytest.mark.parametrize("place", ["nowhere/o.npz", "folder", "/dev/full"])
def test_files_that_cannot_be_written(bench: Bench, option: str, place: str) -> None:
    (bench.desk.folder / "folder").mkdir()
    bench.put(m=scaled(), other=scaled(3.0))
    ran = bench.run("m.pb", "other.pb", option, place)
    # /dev/full can be opened; that the models differ is then the greater news.
    assert ran.code == (5 if place == "/dev/full" and option != "--reduce" else 6)
    assert place in ran.err and "cannot be written" in ran.err
    assert sorted(bench.desk.files()) == ["m.pb", "other.pb"]


def test_equal_models_do_not_differ_because_of_a_file(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled())
    ran = bench.run("m.pb", "other.pb", "--save-outputs", "nowhere/o.npz")
    assert ran.code == 6 and "differ" not in ran.err


def test_a_place_that_cannot_be_written_is_refused_before_the_work(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    for option in ("--save-outputs", "--save-feeds"):
        ran = bench.run("m.pb", "other.pb", option, "nowhere/o.npz")
        assert ran.code == 6 and "loaded" not in ran.err


@pytest.mark.parametrize("option", ["--save-outputs", "--save-feeds"])
def test_an_earlier_archive_stays_where_nothing_was_run(bench: Bench, option: str) -> None:
    bench.put(m=scaled(), waiting=hanging(), renamed=scaled(y="z"))
    bench.desk.put("o.npz", EARLIER)
    assert bench.run("waiting.pb", option, "o.npz").code == 7
    assert bench.run("m.pb", "renamed.pb", option, "o.npz").code == 5
    assert bench.run("nowhere.pb", option, "o.npz").code == 3
    assert bench.desk.files()["o.npz"] == EARLIER
    assert bench.run("m.pb", option, "o.npz").code == 0
    assert bench.desk.files()["o.npz"] != EARLIER


@pytest.mark.parametrize("arguments", [("m.pb", "--save-outputs", "-"), ("m.pb", "other.pb", "--reduce", "-")])
def test_binary_does_not_go_to_a_terminal(bench: Bench, arguments: tuple[str, ...]) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
    terminal, end = pty.openpty()
    try:
        ran = bench.desk.spawn("validate", *arguments, stdout=end)
    finally:
        os.close(end)
        os.close(terminal)
    assert ran.code == 2


# -- graphs that hang, crash, ask for too much ------------------------------------------------------------------


def workers() -> set[str]:
    """The processes that run graphs, of all that run here."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"runtime.worker" in (entry / "cmdline").read_bytes():
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) in (os.getpid(), 1):
                    found.add(entry.name)
        except OSError:
            continue
    return found


def test_a_graph_that_hangs(own_worker: Bench) -> None:
    bench = own_worker
    bench.put(m=looping(endless=True), fine=looping())
    before = workers()
    for arguments, seconds in ((("m.pb",), 2), (("m.pb", "fine.pb"), 1), (("fine.pb", "m.pb"), 1)):
        ran = bench.run(*arguments, "--timeout", str(seconds), "--feed", "n=3")
        assert ran.code == 5
        check_said(ran, "did not finish", f"within {seconds} s", "--timeout")
        assert workers() <= before


def test_a_graph_that_hangs_is_named(bench: Bench) -> None:
    bench.put(m=looping(endless=True), fine=looping())
    for arguments in (("m.pb",), ("fine.pb", "m.pb")):
        ran = bench.run(*arguments, "--timeout", "1", "--feed", "n=3")
        assert ran.code == 5
        check_said(ran, "m.pb")


def test_a_graph_that_waits_for_ever_is_not_run(bench: Bench) -> None:
    bench.put(m=hanging())
    ran = bench.run("m.pb")
    assert ran.code == 7
    check_said(ran, "'y'", "may wait for ever")


def test_a_graph_that_asks_for_64_gib(own_worker: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # The allocator of oneDNN tries for ten seconds before it says the same.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    own_worker.put(giant=giant())
    ran = own_worker.run("giant.pb")
    assert ran.code == 5
    check_said(ran, "giant.pb")


def test_a_graph_that_crashes(own_worker: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = own_worker
    bench.put(m=CRASHING, fine=scaled())
    monkeypatch.setattr("gdsurgeon.operate.validate.require_sound", lambda graph: Sound())
    before = workers()
    for arguments in (("m.pb",), ("fine.pb", "m.pb")):
        ran = bench.run(*arguments)
        assert ran.code == 5
        check_said(ran, "SIG")
        assert workers() <= before


class Sound:
    """What the check of a structure finds where it is not asked."""

    warnings: tuple[str, ...] = ()


# -- published graphs -------------------------------------------------------------------------------------------


def model(name: str) -> str:
    return str(FOLDER / name)


@published
@pytest.mark.models
@pytest.mark.parametrize(
    "name",
    [
        "dl4j_bitcast_from_float64_to_bfloat16.pb", "dl4j_case_cond_1.pb", "dl4j_ragged_reduce_mean_2d_a1.pb",
        "dl4j_partition_stitch_misc.pb", "dl4j_simplewhile_nested.pb", "dl4j_train_iris_text.pb", "t2o_gru.pb",
        "half_plus_two_tf2_frozen_lib.pb", "mediapipe_frozen_graph_def.pb", "kws_lstm_s.pb", "mtcnn.pb",
    ],
)  # fmt: skip
def test_published_graphs_equal_themselves(bench: Bench, name: str) -> None:
    proof = bench.verdict(model(name), model(name))["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0


@published
@pytest.mark.models
@pytest.mark.parametrize(
    "name",
    ["dl4j_scatter_nd_update_locking_rank1shape_1indices.pb", "tfjs_iris_fused_raw.pb", "model_explorer_foo.pbtxt",
     "od_hand_ssd.meta", "serving_half_plus_two_sm"],
)  # fmt: skip
def test_published_graphs_that_do_not_run(bench: Bench, name: str) -> None:
    ran = bench.run(model(name))
    assert ran.code in (3, 5, 7)
    check_said(ran)


def perturbed(path: str, name: str) -> bytes:
    """The graph at PATH with another value in the constant NAME."""
    graph_def = message("tensorflow.GraphDef").FromString(Path(path).read_bytes())
    (node,) = [node for node in graph_def.node if node.name == name]
    values = np.frombuffer(node.attr["value"].tensor.tensor_content, "float32").copy()
    values[0] += 0.5
    node.attr["value"].tensor.tensor_content = values.tobytes()
    return bytes(graph_def.SerializeToString())


def a_weight(path: str, last: bool = False) -> str:
    """A float constant of some size."""
    graph_def = message("tensorflow.GraphDef").FromString(Path(path).read_bytes())
    names = [node.name for node in graph_def.node
             if node.op == "Const" and node.attr["value"].tensor.dtype == 1
             and len(node.attr["value"].tensor.tensor_content) > 64]  # fmt: skip
    return names[-1 if last else len(names) // 2]


@published
@pytest.mark.models
@modes
@pytest.mark.parametrize("name", ["t2o_ae0.pb", "unet_person_08.pb", "kws_ds_cnn_s.pb", "lstm_tf2_frozen_lib.pb"])
def test_a_perturbed_weight_of_a_published_graph(bench: Bench, name: str, mode: tuple[str, ...]) -> None:
    weight = a_weight(model(name))
    bench.desk.put("other.pb", perturbed(model(name), weight))
    verdict = bench.verdict(model(name), "other.pb", "--first-divergence", *mode, "--reduce", "r.pb", code=5)
    assert guilty(verdict) == [weight]
    assert verdict["reduced"]["nodes"] == 2
