"""Exact edits where kernels round: once more without those of oneDNN, and as graphs are deployed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.desk import check_raised
from support.folding import ints
from support.graphs import FLOAT, INT32, const, graph, graph_bytes, identity, node, placeholder, scalar, typed
from support.workers import lent_worker

from gdsurgeon.edits.simplify import simplify
from gdsurgeon.errors import ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof import executor as executor_module
from gdsurgeon.proof import prove as prove_module
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import DiffersError, Proof
from gdsurgeon.proof.prove import KEYS, prove
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.view.summary import equality, proof_entries
from gdsurgeon.wire.write import read_chunks

pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]
X = placeholder("x", FLOAT, (-1, 3))
NEAR, FAR = 1 + 3e-6, 1.5


def model(weight: float = 1.0, *, simple: bool = False) -> bytes:
    weights = const("w", [weight, 2.0, -1.0], FLOAT, (3, 1))
    ends = [typed("MatMul", "y", "x", "w" if simple else "i", transpose_a=False, transpose_b=False)]
    return graph_bytes(X, weights, *([] if simple else [identity("i", "w")]), *ends)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Of each process that was asked for, whether it may take oneDNN."""
    found: list[bool] = []

    def worker(*args: object, onednn: bool = True, **options: object) -> object:
        found.append(onednn)
        return lent_worker(*args, onednn=onednn, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(executor_module, "Worker", worker)
    yield found


def proven(found: Graph, loaded: bytes, meanwhile: Callable[[], object] = lambda: None) -> Proof:
    """The proof that FOUND is simplified, by a process in which TensorFlow has taken LOADED for the result."""
    change = Change(found.pristine(), found, simplify(found))
    with Executor(Settings()) as executor:
        executor.load_graph(ORIGINAL, change.before)
        executor.load(EDITED, loaded)
        return prove(executor, change, Overrides(), meanwhile)


def loading(monkeypatch: pytest.MonkeyPatch, instead: dict[str, bytes]) -> list[str]:
    """Makes executors replace graphs by others; returns the keys that the executor has loaded."""
    found: list[str] = []
    load = Executor.load_graph

    def load_graph(self: Executor, key: str, graph: Graph, *, optimize: bool = False) -> None:
        if key not in instead:
            return load(self, key, graph, optimize=optimize)
        found.append(key)
        return self.load(key, instead[key], optimize=optimize)

    monkeypatch.setattr(Executor, "load_graph", load_graph)
    return found


def test_one_process_does_where_all_is_bit_identical(asked: list[bool]) -> None:
    proof = proven(from_bytes(model()), model(simple=True))
    assert asked == [True]
    assert proof.deployed is not None and proof.deployed.difference == 0.0 and proof.deployed.compared == 1
    lines = {entry.label: entry.text for entry in proof_entries(proof)}
    assert "bit-identical (CPU" in lines["proven"] and lines["optimized"].endswith("both graphs: bit-identical")


def test_what_there_is_to_do_besides_is_done_while_tensorflow_optimises(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    wait = Executor.wait
    monkeypatch.setattr(Executor, "wait", lambda self, pending: done.append(pending.stage.key) or wait(self, pending))
    proven(from_bytes(model()), model(simple=True), lambda: done.append("besides"))
    done = [key for key in done if key]  # loads and runs
    assert done.count("besides") == 1 and done.index("besides") == len(done) - 2, done


def test_what_rounds_otherwise_is_compared_without_onednn(asked: list[bool]) -> None:
    proof = proven(from_bytes(model()), model(NEAR, simple=True))
    assert asked == [True, False]
    assert 0 < proof.onednn_difference < 1e-4
    assert "bit-identical without oneDNN, " in equality(proof)
    assert proof.as_json()["onednn_difference"] == proof.onednn_difference


def test_what_differs_without_onednn_is_wrong(asked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    loading(monkeypatch, dict.fromkeys((EDITED, KEYS[EDITED]), model(NEAR, simple=True)))
    with pytest.raises(DiffersError):
        proven(from_bytes(model()), model(NEAR, simple=True))
    assert asked == [True, False]


def test_what_differs_by_more_than_rounding_is_wrong_at_once(asked: list[bool]) -> None:
    with pytest.raises(DiffersError):
        proven(from_bytes(model()), model(FAR, simple=True))
    assert asked == [True]


def test_what_differs_as_it_is_deployed_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    loading(monkeypatch, {KEYS[EDITED]: model(FAR, simple=True)})
    check_raised(ValidationError, "optimizer-differs", lambda: proven(from_bytes(model()), model(simple=True)))


def loads(monkeypatch: pytest.MonkeyPatch, written: bytes, optimized: bytes) -> list[str]:
    """Has a small graph count as large, an original that is optimised be OPTIMIZED, and an edited one WRITTEN.

    Which are loaded so.
    """
    monkeypatch.setattr(prove_module, "MANY_NODES", 1)
    return loading(monkeypatch, {KEYS[EDITED]: written, KEYS[ORIGINAL]: optimized})


def test_a_large_original_is_not_optimised_where_nothing_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loads(monkeypatch, model(NEAR, simple=True), model(FAR))
    proof = proven(from_bytes(model()), model(simple=True))
    assert found == [KEYS[EDITED]]
    assert proof.deployed is not None and not proof.deployed.is_both and 0 < proof.deployed.difference < 1e-4


def test_what_the_optimiser_makes_of_both_is_right_where_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = loads(monkeypatch, model(FAR, simple=True), model(FAR))
    proof = proven(from_bytes(model()), model(simple=True))
    assert found == [KEYS[EDITED], KEYS[ORIGINAL]]
    assert proof.deployed is not None and proof.deployed.is_both and not proof.deployed.difference


def test_where_runs_leave_something_behind_both_are_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove_module, "MANY_NODES", 1)
    attrs = {"key_dtype": INT32, "value_dtype": FLOAT}
    kept = [
        X, node("table", "MutableHashTableV2", [], **attrs), const("key", [1], INT32, ()), scalar("value", 2.0),
        node("put", "LookupTableInsertV2", ["table", "key", "value"], Tin=INT32, Tout=FLOAT),
        node("got", "LookupTableFindV2", ["table", "key", "value", "^put"], Tin=INT32, Tout=FLOAT),
        identity("i", "x"), typed("Mul", "y", "i", "got"),
    ]  # fmt: skip
    simple = [*kept[:6], typed("Mul", "y", "x", "got")]
    proof = proven(graph(*kept), graph_bytes(*simple))
    assert proof.deployed is not None and proof.deployed.is_both and not proof.deployed.difference


def test_what_a_folded_detector_chooses_from_is_compared_as_it_is_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the outputs can be chosen differently, the tensors that they are chosen from must be equal."""
    nhwc: dict[str, Any] = {"strides": ints((1, 1, 1, 1)), "padding": "SAME", "T": FLOAT}
    norm = {"gamma": 2.0, "beta": 0.5, "mean": 0.1, "variance": 1.5}
    channel = [const(name, [value], FLOAT, (1,)) for name, value in norm.items()]

    def detector(scale: float) -> bytes:
        return graph_bytes(
            placeholder("x", FLOAT, (-1, 3, 3, 1)), const("w", [scale], FLOAT, (1, 1, 1, 1)), *channel,
            const("flat", [-1, 9], INT32), const("k", [2], INT32, ()), node("conv", "Conv2D", ["x", "w"], **nhwc),
            typed("FusedBatchNorm", "b", "conv", *norm, is_training=False, epsilon=1e-3),
            typed("Reshape", "r", "b", "flat"), typed("Sigmoid", "s", "r"), typed("TopKV2", "t", "s", "k"),
        )  # fmt: skip

    found = from_bytes(detector(1.0))
    change = Change(found.pristine(), found, simplify(found, fold_bn=True))
    written = read_chunks(found.chunks())

    def proof() -> Proof:
        with Executor(Settings()) as executor:
            executor.load_graph(ORIGINAL, change.before)
            executor.load(EDITED, written)
            return prove(executor, change, Overrides())

    right = proof()
    assert right.deployed is not None and right.deployed.compared and not right.deployed.why_not
    loading(monkeypatch, {KEYS[EDITED]: detector(1.1)})
    check_raised(ValidationError, "optimizer-differs", proof)
