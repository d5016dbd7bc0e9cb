"""validate: graphs that hang, crash or ask for too much, and published ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.desk import check_said
from support.graphs import CRASHING, counting_loop, hanging
from support.published import FOLDER
from support.validating import Bench, giant, guilty, modes, published, scaled

from gdsurgeon.wire.protos import GraphDef

pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]


# -- graphs that hang, crash, ask for too much ------------------------------------------------------------------


def workers(bench: Bench) -> set[str]:
    """The processes that run graphs and were started on the desk of BENCH: they know its folder for temporary files.

    Their parent is not checked: the children of a process that an earlier test killed have no parent for a while.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"runtime.worker" in (entry / "cmdline").read_bytes():
                told = (entry / "environ").read_bytes().split(b"\0")
                if b"TMPDIR=" + os.fsencode(bench.desk.scratch) in told:
                    found.add(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_graph_that_hangs(bench: Bench) -> None:
    bench.put(m=counting_loop(endless=True), fine=counting_loop())
    for arguments in (("m.pb",), ("fine.pb", "m.pb")):
        assert bench.run("fine.pb").code == 0  # TensorFlow is loaded
        bench.desk.refused(5, "timed-out", "validate", *arguments, "--timeout", "2", doing=["running m.pb"])


def test_a_graph_that_waits_for_ever_is_not_run(bench: Bench) -> None:
    bench.put(m=hanging())
    ran = bench.run("m.pb")
    check_said(ran, "'y'", "may wait forever", code=7)


def test_a_graph_that_asks_for_64_gib(own_worker: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # The allocator of oneDNN tries for ten seconds before it says the same.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    own_worker.put(giant=giant())
    ran = own_worker.run("giant.pb")
    check_said(ran, "giant.pb", code=5)


def test_a_graph_that_crashes(own_worker: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = own_worker
    bench.put(m=CRASHING, fine=scaled())
    monkeypatch.setattr("gdsurgeon.operation.validate.require_sound", lambda graph: Sound())
    for arguments in (("m.pb",), ("fine.pb", "m.pb")):
        ran = bench.run(*arguments)
        check_said(ran, "SIG", code=5)
        assert workers(bench) == set()


class Sound:
    """A fault that the check of the structure finds, without this check."""

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
        "serving_half_plus_two_sm",
    ],
)  # fmt: skip
def test_published_graphs_equal_themselves(bench: Bench, name: str) -> None:
    proof = bench.verdict(model(name), model(name))["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0


@published
@pytest.mark.models
@pytest.mark.parametrize(
    "name",
    ["dl4j_scatter_nd_update_locking_rank1shape_1indices.pb", "tfjs_iris_fused_raw.pb", "model_explorer_foo.pbtxt"],
)
def test_published_graphs_that_do_not_run(bench: Bench, name: str) -> None:
    ran = bench.run(model(name))
    assert ran.code in (3, 5, 7)
    check_said(ran)


def perturbed(path: str, name: str) -> bytes:
    """The graph at PATH with another value in the constant NAME."""
    graph_def = GraphDef.FromString(Path(path).read_bytes())
    (node,) = [node for node in graph_def.node if node.name == name]
    values = np.frombuffer(node.attr["value"].tensor.tensor_content, "float32").copy()
    values[0] += 0.5
    node.attr["value"].tensor.tensor_content = values.tobytes()
    return bytes(graph_def.SerializeToString())


def a_weight(path: str, last: bool = False) -> str:
    """A float constant of some size."""
    graph_def = GraphDef.FromString(Path(path).read_bytes())
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
