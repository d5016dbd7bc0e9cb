"""Folds are proven where they are: a channel that is 1 % wrong is found, however little of it an output shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support import graphs
from support.desk import check_error
from support.folding import conv, fused, image, ints, numbers, relu, spelt_out, whole
from support.graphs import (
    FLOAT,
    call,
    const,
    define,
    graph_bytes,
    identity,
    library,
    node,
    placeholder,
    scalar,
    typed,
)

import gdsurgeon as gds
from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import DiffersError, Proof, agrees, part_of_largest
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.runtime.compare import compare
from gdsurgeon.runtime.tensor import from_numpy
from gdsurgeon.values import Tolerance
from gdsurgeon.view.summary import proof_entries

SMALL = const("n/gamma", [1.0, 1e-6, 1.0, 1e-3], FLOAT)
"""Factors of channels; two of them are very small compared with the others."""
MODELS = {
    # What leaves the batch norm is cut off at 0 and 6, and one number is made of all of it.
    "Conv2D": graph_bytes(
        image(), *conv("c", "x", (3, 3, 4, 4)), SMALL, *fused("n", "c", 4)[1:], relu("n", "r", "Relu6"),
        whole("axes", [1, 2, 3]), typed("Mean", "y", "r", "axes", Tidx=graphs.INT32),
    ),
    "DepthwiseConv2dNative": graph_bytes(
        image(2), *conv("c", "x", (2, 2, 2, 2), "DepthwiseConv2dNative"), SMALL, *spelt_out("n", "c", 4)[1:],
        relu("n", "r"), *conv("e", "r", (1, 1, 4, 1)), relu("e"),
    ),
    "MatMul": graph_bytes(
        image(), whole("flat", [-1, 100]), typed("Reshape", "f", "x", "flat"), numbers("w", [100, 4]),
        typed("MatMul", "c", "f", "w"), SMALL, *spelt_out("n", "c", 4)[1:], relu("n", "r", "Softmax"), relu("r"),
    ),
}  # fmt: skip


# Grappler fuses the nodes of the batch norm of s; two nodes that it does not know are left.
MODELS["merged"] = graph_bytes(
    image(), *conv("c", "x", (3, 3, 4, 4)), *fused("n", "c", 4), typed("Sigmoid", "s", "n"),
    typed("Mul", "m", "n", "s"), *conv("d", "m", (3, 3, 4, 4)), *fused("o", "d", 4), relu("o"),
)  # fmt: skip


# So many rows as it says, and no more.
MODELS["two rows"] = graph_bytes(
    placeholder("x", FLOAT, (2, 4)), numbers("w", [4, 3]), typed("MatMul", "c", "x", "w"),
    *spelt_out("n", "c", 3), relu("n"),
)  # fmt: skip


def wrong_by_a_part(data: bytes, name: str, channel: int) -> bytes:
    """The model with a channel of the constant NAME 1 % too large."""
    found = graphs.parsed(data)
    (held,) = [each for each in found.node if each.name == name]
    tensor = held.attr["value"].tensor
    values = np.frombuffer(tensor.tensor_content, np.float32).copy()
    sizes = [dim.size for dim in tensor.tensor_shape.dim]
    shaped = values.reshape(-1, 4) if len(sizes) > 1 else values.reshape(1, 4)
    shaped[:, channel] *= 1.01
    tensor.tensor_content = values.tobytes()
    out: bytes = found.SerializeToString()
    return out


# Two proposals with equal scores: rounding decides which is chosen. All later values belong to the chosen one.
EQUAL = np.repeat(np.random.default_rng(7).uniform(-1, 1, (100, 1)), 2, 1).reshape(-1).tolist()
MODELS["two stages"] = graph_bytes(
    placeholder("x", FLOAT, (1, 5, 5, 4)), const("c/w", EQUAL, FLOAT, (5, 5, 4, 2)), whole("flat", [-1]),
    typed("Conv2D", "c", "x", "c/w", padding="VALID", strides=ints([1, 1, 1, 1])),
    *(const(f"n/{part}", [value] * 2) for part, value in (("gamma", 1.5), ("beta", 9), ("mean", 0.1), ("variance", 1))),
    fused("n", "c", 2)[-1], typed("Reshape", "scores", "n", "flat"), scalar("one", 1, graphs.INT32),
    typed("TopKV2", "best", "scores", "one"), numbers("table", [2, 4]), scalar("axis", 0, graphs.INT32),
    node("f", "GatherV2", ["table", "best:1", "axis"], Tparams=FLOAT, Tindices=graphs.INT32, Taxis=graphs.INT32),
    numbers("d/w", [4, 3]), typed("MatMul", "d", "f", "d/w"), *spelt_out("o", "d", 3), relu("o"),
)  # fmt: skip


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Executor(Settings(samples=1)) as found:
        yield found


def proven(executor: Executor, model: str, name: str = "", channel: int = 0) -> Proof:
    """The proof of a fold with a wrong channel in the constant NAME, as loaded by TensorFlow."""
    found = from_bytes(MODELS[model])
    change = Change(found.pristine(), found, simplify(found, passes=["unread"], fold_bn=True))
    data = graphs.written(found)
    executor.load_graph(ORIGINAL, change.before)
    executor.load(EDITED, wrong_by_a_part(data, name, channel) if name else data)
    return prove(executor, change, Overrides())


@pytest.mark.parametrize("model", ["Conv2D", "DepthwiseConv2dNative", "MatMul"])
def test_a_right_fold_is_proven_and_each_wrong_channel_found(executor: Executor, model: str) -> None:
    proof = proven(executor, model)
    assert proof.largest_part < 1e-5
    assert "n, large numbers" in [output.after for output in proof.compared]
    for name in ("n/weights", "n/bias"):
        for channel in range(4):
            with pytest.raises(DiffersError):
                proven(executor, model, name, channel)


@pytest.mark.parametrize("outputs", [(), ("y",)])
def test_a_choice_between_almost_equal_scores_is_compared_by_these(
    executor: Executor, outputs: tuple[str, ...]
) -> None:
    """The bias of the second score is too large by no more than rounding, then by 1 %."""
    found = from_bytes(MODELS["two stages"])
    change = Change(found.pristine(), found, simplify(found, outputs, passes=["unread"], fold_bn=True))
    spoilt = graphs.parsed(found)
    bias = next(n for n in spoilt.node if n.name == "n/bias").attr["value"].tensor
    value = float(np.frombuffer(bias.tensor_content, np.float32)[0])

    def proof(factor: float) -> Proof:
        bias.tensor_content = np.array([value, value * factor], np.float32).tobytes()
        executor.load_graph(ORIGINAL, change.before)
        executor.load(EDITED, spoilt.SerializeToString())
        return prove(executor, change, Overrides())

    reasons = {output.after: output.reason for output in proof(1.00001).outputs}
    assert reasons["y"] and not reasons["scores"]
    with pytest.raises(DiffersError):
        proof(1.01)


@pytest.mark.tensorflow
def test_folds_in_functions_that_are_inlined_are_compared_by_outputs() -> None:
    """The file has no tensor of theirs under the name that it has then."""
    constants = [numbers("c/w", (1, 1, 4, 2)), *fused("n", "c", 2)[:-1]]
    reads = ["c:output:0", *(f"n/{part}:output:0" for part in ("gamma", "beta", "mean", "variance"))]
    body = define("f", {"a": FLOAT}, {"o": (FLOAT, "n:y:0")}, *constants,
                  typed("Conv2D", "c", "a", "c/w:output:0", padding="SAME", strides=ints([1, 1, 1, 1])),
                  node("n", "FusedBatchNormV3", reads, T=FLOAT, U=FLOAT, is_training=False))  # fmt: skip
    found = graphs.graph(image(), call("call", "f", ["x"], [FLOAT], [FLOAT]), relu("call"), library(body))
    result = simplify(found, fold_bn=True)
    assert {"Conv2D", "BiasAdd"} <= {*graphs.ops(found).values()}
    (note,) = result.notes
    check_error(note, "not-in-isolation", {"count": 1})
    assert [output.after for output in gds.prove(found.pristine(), found, result).compared if not output.inside] == [
        "y"
    ]


@pytest.mark.tensorflow
def test_of_a_batch_norm_that_stays_only_the_output_that_was_asked_for_is_fetched() -> None:
    """As it is deployed, TensorFlow makes of it what has one output."""
    norm = fused("n", "r", 4)
    found = graphs.graph(image(), relu("x", "r"), *norm, identity("i", "n"), relu("i"))
    proof = gds.prove(found.pristine(), found, simplify(found, ("n",)))
    assert [output.after for output in proof.compared] == ["n"]
    assert proof.deployed is not None and not proof.deployed.why_not


def test_an_input_that_says_how_many_rows_it_takes_is_given_these(executor: Executor) -> None:
    assert "n, large numbers" in [output.after for output in proven(executor, "two rows").compared]


def test_outputs_do_not_show_it(executor: Executor) -> None:
    """Why each node is run in isolation: the outputs and the node are within the tolerance, compared with its sums."""
    with pytest.raises(ValidationError) as error:
        proven(executor, "Conv2D", "n/weights", 1)
    assert [line.partition(":")[0] for line in error.value.details] == ["n, large numbers"]


def test_the_proof_says_how(executor: Executor) -> None:
    first, second = [entry.text for entry in proof_entries(proven(executor, "Conv2D")) if entry.label == "proven"]
    assert "within 0.001 of the largest element" in first
    assert "each changed site in isolation" in second and "within 0.0001" in second


def test_as_it_is_deployed_nobody_asks_for_a_place(executor: Executor) -> None:
    deployed = proven(executor, "merged").deployed
    assert deployed is not None
    assert (deployed.why_not, deployed.compared, deployed.of_largest) == ("", 1, True)


def test_each_channel_is_held_against_its_own_largest() -> None:
    a = np.array([[100.0, 0.01], [1.0, 0.001]], np.float32)
    b = a.copy()
    b[1, 1] = 0.00101
    one, other = from_numpy(a), from_numpy(b)
    assert part_of_largest(compare(one, other)) == pytest.approx(1e-7, rel=1e-2)
    for axis in (-1, 1):
        assert part_of_largest(compare(one, other, channels=axis)) == pytest.approx(1e-3, rel=1e-2)
    assert part_of_largest(compare(one, one, channels=-1)) == 0.0
    for odd in (np.inf, np.nan):
        found = compare(one, from_numpy(np.full_like(a, odd)), channels=-1)
        assert not agrees(found, Tolerance(of_largest=1.0))
    assert compare(from_numpy(a[0]), from_numpy(b[1]), channels=1).channel_part is None
