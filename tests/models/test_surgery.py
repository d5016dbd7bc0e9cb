"""fuse-ops, inline and clone-scope on the published graphs, each proven by running."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.patience import within
from support.published import EXECUTABLE, FOLDER, needs_models
from support.workers import lent_worker

import gdsurgeon as gds
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.feeds.input_spec import numbers
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.runtime.tensor import Tensor

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]

Report = dict[str, Any]


class Ran(NamedTuple):
    """The result of a command: its exit code, its messages, its report, its output."""

    code: int
    said: str
    report: Report
    out: Path

    @property
    def compared(self) -> set[tuple[str, str]]:
        """What of the original was compared with what of the result, and was equal."""
        outputs = self.report["proof"]["outputs"]
        return {(o["original"], o["edited"]) for o in outputs if o["compared"] and o["equal"]}


class Surgeon:
    """The command line, in this process."""

    def __init__(self, folder: Path, read: Callable[[], Any]) -> None:
        self.folder, self._read = folder, read
        self._count = 0

    def __call__(self, command: str, model: str | Path, *options: str) -> Ran:
        self._count += 1
        terminal.__init__()  # type: ignore[misc]
        self._read()
        out, report = self.folder / f"out{self._count}.pb", self.folder / f"report{self._count}.json"
        code = exit_code([command, str(FOLDER / model), *options, "-o", str(out), "--report", str(report),
                          "--samples", "1", "--timeout", "60"])  # fmt: skip
        said = self._read().err
        assert "Traceback" not in said and "internal error" not in said, said
        assert out.exists() == (code == 0) and report.exists() == (code in (0, 3, 4, 5, 7)), said
        return Ran(code, said, json.loads(report.read_text()) if code == 0 else {}, out)

    def done(self, command: str, model: str | Path, *options: str) -> Ran:
        ran = self(command, model, *options)
        assert ran.code == 0, ran.said
        assert ran.compared
        return ran


@pytest.fixture
def surgeon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Surgeon:
    return Surgeon(tmp_path, capsys.readouterr)


# -- fuse-ops ----------------------------------------------------------------------------------------------


def test_a_convolution_with_its_batch_norm(surgeon: Surgeon) -> None:
    model = "unet_person_08.pb"
    ran = surgeon.done("fuse-ops", model, "--between", "conv2d/Relu=batch_normalization_1/FusedBatchNorm",
                       "--with-consts", "--name", "block_1")  # fmt: skip
    assert "bit-identical" in ran.said
    assert ("output/BiasAdd", "output/BiasAdd") in ran.compared
    assert ("batch_normalization_1/FusedBatchNorm", "block_1") in ran.compared
    found = gds.load(str(ran.out))
    assert "conv2d_1/Conv2D" not in found and found["block_1"].op == "PartitionedCall"
    back = surgeon.done("inline", ran.out, "--keep-names")
    assert "bit-identical" in back.said
    original = gds.load(str(FOLDER / model))
    assert set(gds.load(str(back.out)).names()) == set(original.names())


LOOP = "LSTM-Layer/lstm/rnn/while/"


@pytest.mark.parametrize(
    "selection",
    [
        ["--scope", f"{LOOP}rnn/lstm_cell", "--exclude", "/Enter$"],
        ["--select", "while/rnn/lstm_cell/(split|add|mul|Sigmoid|Tanh)", "--exclude", "/Enter$"],
        ["--node", f"{LOOP}add", "--with-consts"],
        ["--node", f"{LOOP}Less"],
    ],
    ids=["cell", "cell with constants", "counter", "condition"],
)
def test_the_body_of_a_loop(surgeon: Surgeon, selection: list[str]) -> None:
    ran = surgeon.done("fuse-ops", "kws_lstm_s.pb", *selection, "--name", f"{LOOP}fused")
    assert ("labels_softmax", "labels_softmax") in ran.compared
    back = surgeon.done("inline", ran.out)
    assert ("labels_softmax", "labels_softmax") in back.compared


def test_a_branch_of_a_conditional(surgeon: Surgeon) -> None:
    """A network that runs only where there is something to look at, and from there on the next one."""
    ran = surgeon.done("fuse-ops", "mtcnn.pb", "--select", r"^rnet/(conv1|prelu1|pool1)", "--exclude", "/read$|/Enter$",
                       "--name", "rnet/front", "--feed", "min_size=40", "--feed", "factor=0.7", "--feed",
                       "thresholds=0.1,0.1,0.1", "--shape", "input=64,64,3")  # fmt: skip
    assert {new for _, new in ran.compared} >= {"prob", "landmarks", "box"}


# -- inline ------------------------------------------------------------------------------------------------


# -- clone-scope -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["Preprocessor", "Postprocessor"])
def test_the_ends_of_a_detector(surgeon: Surgeon, scope: str) -> None:
    ran = surgeon.done("clone-scope", "od_hand_ssd_frozen_synth.pb", scope, "second")
    assert {new for _, new in ran.compared} >= {"detection_boxes", "detection_scores", "num_detections"}
    assert any(new.startswith("second/") for _, new in ran.compared)
    entered: dict[bool, set[Any]] = {True: set(), False: set()}
    for node in gds.load(str(ran.out)).nodes():
        if node.op == "Enter":
            entered[node.name.startswith("second/")].add(node.plain_attr("frame_name"))
    assert entered[True] and entered[True].isdisjoint(entered[False])


def test_a_network_with_a_loop_cloned_twice_and_all_run(surgeon: Surgeon) -> None:
    first = surgeon.done("clone-scope", "mtcnn.pb", "pnet", "pnet_b")
    second = surgeon.done("clone-scope", first.out, "pnet", "pnet_c")
    assert {"prob", "landmarks", "box"} <= {new for _, new in second.compared}
    found = gds.load(str(second.out))
    frames = {n.plain_attr("frame_name") for n in found.nodes() if n.op == "Enter" and n.name.startswith("pnet")}
    assert len(frames) == 3
    exits = [n.name.removeprefix("pnet/") for n in found.nodes() if n.op == "Exit" and n.name.startswith("pnet/")]
    assert exits
    with lent_worker() as worker:
        worker.load("all", path=str(second.out))
        feeds = {
            "input": Tensor(1, (48, 64, 3), numbers(1, 48 * 64 * 3, 0, 1)),
            "min_size": _floats(20),
            "factor": _floats(0.7),
            "thresholds": _floats(0.0, 0.0, 0.0),
        }
        readers = [r for name in exits for r in _fetchable(found, name)]
        fetches = [f"{scope}/{r}" for r in readers for scope in ("pnet", "pnet_b", "pnet_c")]
        worker.run("all", "out", feeds, fetches).result(60)
        for at in range(0, len(fetches), 3):
            one, two, three = (worker.tensor("out", at + i).result(60) for i in range(3))
            assert bytes(one.tobytes()) == bytes(two.tobytes()) == bytes(three.tobytes()), fetches[at]


def _floats(*values: float) -> Tensor:
    import struct

    return Tensor(1, () if len(values) == 1 else (len(values),), struct.pack(f"<{len(values)}f", *values))


def _fetchable(found: Graph, name: str) -> list[str]:
    """The exit of a loop, where that can be fetched, else what under the scope reads it and can be."""
    node = found[f"pnet/{name}"]
    seen: list[Node] = [node]
    for at in seen:  # grows while it is walked
        if not at.output_dtypes or at.output_dtypes[0] in (20, 21):
            seen += [u for u in found.users(at) if u.name.startswith("pnet/") and u not in seen]
    return [n.name.removeprefix("pnet/") for n in seen if n.output_dtypes and n.output_dtypes[0] not in (20, 21)][:1]


@pytest.mark.parametrize("scope", ["LSTM-Layer/lstm/rnn/while", "LSTM-Layer/lstm/rnn/TensorArrayUnstack"])
def test_what_reads_or_fills_an_array_that_is_not_cloned_with_it(surgeon: Surgeon, scope: str) -> None:
    """An array is written once, and read once where a read clears it: refused, or proven run by run."""
    with within(30):
        ran = surgeon("clone-scope", "kws_lstm_s.pb", scope, "second")
    assert ran.code in (0, 4), ran.said
    if ran.code == 4:
        assert "TensorArray" in ran.said
    else:
        assert ("labels_softmax", "labels_softmax") in ran.compared


# -- all of them -------------------------------------------------------------------------------------------

REFUSALS = (
    "a path leaves it and comes back",
    "it is version 1 control flow",
    "it is an input of the graph",
    "it has a reference as input or output",
    "other nodes can share the state of this node",
    "while loop",
    "different branches of a conditional",
    "holds nothing but large constants",
    "the model has no call in the graph to inline",
)
"""Reasons why a random selection, scope or graph can be refused."""


@pytest.mark.parametrize("name", sorted(EXECUTABLE))
def test_the_biggest_scope_is_cloned(name: str, surgeon: Surgeon) -> None:
    found = gds.load(str(FOLDER / name))
    scopes = Counter(node.partition("/")[0] for node in found.names() if "/" in node)
    if not scopes:
        pytest.skip("it has no scopes")
    scope = scopes.most_common(1)[0][0]
    ran = surgeon("clone-scope", name, scope, "cloned_by_test")
    if ran.code == 4:
        assert any(words in ran.said for words in REFUSALS), ran.said
        return
    assert ran.code == 0, ran.said
    assert any(new.startswith("cloned_by_test") for _, new in ran.compared) or ran.report["proof"]["skipped"]
