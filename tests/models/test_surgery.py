"""fuse-ops, inline and clone-scope on the published graphs, each proven by running."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.desk import Desk
from support.patience import within
from support.published import EXECUTABLE, FOLDER, needs_models
from support.workers import lent_worker

import gdsurgeon as gds
from gdsurgeon.feeds.input_spec import numbers
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.runtime.tensor import Tensor, from_numpy

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]

BRIEF = ("--samples", "1", "--timeout", "60")


def operated(
    desk: Desk, command: str, model: str, *options: str, refusals: Sequence[str] = ()
) -> tuple[str, str, set[tuple[str, str]]]:
    """Runs COMMAND on MODEL.

    Returns the output, the messages, and what of the original was compared with what of the result, and was equal:
    nothing if the command is refused with one of REFUSALS.
    """
    out = f"after_{Path(model).name}"
    ran = desk.run(command, str(FOLDER / model), *options, "-o", out, "--report", "report.json", *BRIEF)
    if ran.code == 4 and any(words in ran.err for words in refusals):
        return "", ran.err, set()
    assert ran.code == 0, ran
    proof = json.loads((desk.folder / "report.json").read_text())["proof"]
    compared = {(o["original"], o["edited"]) for o in proof["outputs"] if o["compared"] and o["equal"]}
    assert compared or proof["skipped"]
    return str(desk.folder / out), ran.err, compared


# -- fuse-ops ----------------------------------------------------------------------------------------------


def test_a_convolution_with_its_batch_norm(desk: Desk) -> None:
    model = "unet_person_08.pb"
    out, said, compared = operated(
        desk, "fuse-ops", model, "--between", "conv2d/Relu=batch_normalization_1/FusedBatchNorm", "--with-consts",
        "--name", "block_1",
    )  # fmt: skip
    assert "bit-identical" in said
    assert {("output/BiasAdd", "output/BiasAdd"), ("batch_normalization_1/FusedBatchNorm", "block_1")} <= compared
    found = gds.load(out)
    assert "conv2d_1/Conv2D" not in found and found["block_1"].op == "PartitionedCall"
    back, said, _ = operated(desk, "inline", out, "--keep-names")
    assert "bit-identical" in said
    assert set(gds.load(back).names()) == set(gds.load(str(FOLDER / model)).names())


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
def test_the_body_of_a_loop(desk: Desk, selection: list[str]) -> None:
    out, _, compared = operated(desk, "fuse-ops", "kws_lstm_s.pb", *selection, "--name", f"{LOOP}fused")
    assert ("labels_softmax", "labels_softmax") in compared & operated(desk, "inline", out)[2]


def test_a_branch_of_a_conditional(desk: Desk) -> None:
    """A network that runs only where there is something to look at, and from there on the next one."""
    _, _, compared = operated(
        desk, "fuse-ops", "mtcnn.pb", "--select", r"^rnet/(conv1|prelu1|pool1)", "--exclude", "/read$|/Enter$",
        "--name", "rnet/front", "--feed", "min_size=40", "--feed", "factor=0.7", "--feed", "thresholds=0.1,0.1,0.1",
        "--shape", "input=64,64,3",
    )  # fmt: skip
    assert {new for _, new in compared} >= {"prob", "landmarks", "box"}


# -- clone-scope -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["Preprocessor", "Postprocessor"])
def test_the_ends_of_a_detector(desk: Desk, scope: str) -> None:
    out, _, compared = operated(desk, "clone-scope", "od_hand_ssd_frozen_synth.pb", scope, "second")
    assert {new for _, new in compared} >= {"detection_boxes", "detection_scores", "num_detections"}
    assert any(new.startswith("second/") for _, new in compared)
    entered: dict[bool, set[Any]] = {True: set(), False: set()}
    for node in gds.load(out).nodes():
        if node.op == "Enter":
            entered[node.name.startswith("second/")].add(node.plain_attr("frame_name"))
    assert entered[True] and entered[True].isdisjoint(entered[False])


def test_a_network_with_a_loop_cloned_twice_and_all_run(desk: Desk) -> None:
    first, _, _ = operated(desk, "clone-scope", "mtcnn.pb", "pnet", "pnet_b")
    second, _, compared = operated(desk, "clone-scope", first, "pnet", "pnet_c")
    assert {"prob", "landmarks", "box"} <= {new for _, new in compared}
    found = gds.load(second)
    frames = {n.plain_attr("frame_name") for n in found.nodes() if n.op == "Enter" and n.name.startswith("pnet")}
    assert len(frames) == 3
    exits = [n.name.removeprefix("pnet/") for n in found.nodes() if n.op == "Exit" and n.name.startswith("pnet/")]
    assert exits
    with lent_worker() as worker:
        worker.load("all", path=second)
        feeds = {
            "input": Tensor(1, (48, 64, 3), numbers(1, 48 * 64 * 3, 0, 1)),
            "min_size": from_numpy(np.float32(20)),
            "factor": from_numpy(np.float32(0.7)),
            "thresholds": from_numpy(np.zeros(3, np.float32)),
        }
        readers = [r for name in exits for r in _fetchable(found, name)]
        fetches = [f"{scope}/{r}" for r in readers for scope in ("pnet", "pnet_b", "pnet_c")]
        worker.run("all", "out", feeds, fetches).result(60)
        for at in range(0, len(fetches), 3):
            one, two, three = (worker.tensor("out", at + i).result(60) for i in range(3))
            assert bytes(one.tobytes()) == bytes(two.tobytes()) == bytes(three.tobytes()), fetches[at]


def _fetchable(found: Graph, name: str) -> list[str]:
    """The exit of a loop, where that can be fetched, else what under the scope reads it and can be."""
    node = found[f"pnet/{name}"]
    seen: list[Node] = [node]
    for at in seen:  # grows while it is walked
        if not at.output_dtypes or at.output_dtypes[0] in (20, 21):
            seen += [u for u in found.users(at) if u.name.startswith("pnet/") and u not in seen]
    return [n.name.removeprefix("pnet/") for n in seen if n.output_dtypes and n.output_dtypes[0] not in (20, 21)][:1]


@pytest.mark.parametrize("scope", ["LSTM-Layer/lstm/rnn/while", "LSTM-Layer/lstm/rnn/TensorArrayUnstack"])
def test_what_reads_or_fills_an_array_that_is_not_cloned_with_it(desk: Desk, scope: str) -> None:
    """An array is written once, and read once where a read clears it: refused, or proven run by run."""
    with within(30):
        out, _, compared = operated(desk, "clone-scope", "kws_lstm_s.pb", scope, "second", refusals=["TensorArray"])
    assert not out or ("labels_softmax", "labels_softmax") in compared


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
def test_the_biggest_scope_is_cloned(name: str, desk: Desk) -> None:
    found = gds.load(str(FOLDER / name))
    scopes = Counter(node.partition("/")[0] for node in found.names() if "/" in node)
    if not scopes:
        pytest.skip("it has no scopes")
    scope = scopes.most_common(1)[0][0]
    out, _, compared = operated(desk, "clone-scope", name, scope, "cloned_by_test", refusals=REFUSALS)
    skipped = out and json.loads((desk.folder / "report.json").read_text())["proof"]["skipped"]
    assert not out or skipped or any(new.startswith("cloned_by_test") for _, new in compared)
