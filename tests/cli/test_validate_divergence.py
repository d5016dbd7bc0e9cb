"""validate: the first nodes that differ between two models, and models that crash TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from support.desk import check_said
from support.graphs import CRASHING, Builder, const, counting_loop, hanging, neg, placeholder, typed
from support.validating import (
    CLASSIFIER,
    DECODE,
    EARLIER,
    LOOKUP,
    Bench,
    calling,
    chain,
    deep,
    difference,
    dropping,
    giant,
    guilty,
    joined_by,
    looping,
    modes,
    normalised,
    run_reduced,
    scaled,
    split,
    twice,
    why,
)

from gdsurgeon.graph.load import from_bytes, load

pytestmark = [pytest.mark.tensorflow, pytest.mark.kernels]


# -- who is to blame --------------------------------------------------------------------------------------------


@modes
def test_one_perturbed_constant_of_a_thousand_nodes(bench: Bench, mode: tuple[str, ...]) -> None:
    bench.put(m=deep(), other=deep(300))
    verdict = bench.verdict("m.pb", "other.pb", "--first-divergence", *mode, "--reduce", "r.pb", code=5)
    assert guilty(verdict) == ["layer300/w"] and verdict["reduced"]["nodes"] == 2
    assert verdict["divergence"]["compared"] >= 1000
    assert "its value differs" in why(verdict)


@modes
@pytest.mark.parametrize(
    ("mine", "theirs", "node", "reason"),
    [
        (difference(), difference(swapped=True), "d", "input 0 is 'b', not 'a'"),
        (difference(), difference(op="Mul"), "d", "op Sub -> Mul"),
        (difference(), difference(alpha=0.3), "y", "alpha"),
        (calling(), calling(3.0), "call", "function 'F' differs in 'factor'"),
        (split(), split("parts:2"), "y", "parts:2"),
        (normalised(), normalised(0.5), "offset", "its value differs"),
        (joined_by("-"), joined_by("+"), "y", "separator"),
        (looping(), looping(2.0), "w/Exit_v", "w/step"),
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
    return Builder(
        placeholder("x", "float32", (-1, 6)), const("axis", 1, "int32"), const("sizes", [2, size, 4 - size], "int64"),
        typed("SplitV", "parts", "x", "sizes", "axis", Tlen="int64", num_split=3), neg("first", "parts"),
        neg("last", "parts:2"),
    )  # fmt: skip


@modes
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


def two_factors(first: float, second: float) -> Builder:
    """y = x * c * d."""
    b = scaled(first, y="product")
    b.const("d", second)
    b.typed("Mul", "y", "product", "d")
    return b


@modes
def test_what_is_within_the_tolerance_is_not_to_blame(bench: Bench, mode: tuple[str, ...]) -> None:
    bench.put(m=two_factors(2.0, 3.0), other=two_factors(2.00001, 3.3))
    arguments = ("m.pb", "other.pb", "--first-divergence", *mode)
    assert guilty(bench.verdict(*arguments, code=5)) == ["c", "d"]
    assert guilty(bench.verdict(*arguments, "--rtol", "1e-3", code=5)) == ["d"]


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
        assert any(output["inner"] for output in proof["outputs"])


def test_wrong_surgery_against_its_parts(bench: Bench, surgery: Path) -> None:
    ran = bench.run(CLASSIFIER, str(surgery / "served_wrong.pb"), "--pre", DECODE, "--first-divergence")
    check_said(ran, "served_wrong.pb differs", "probabilities:", code=5)
    assert "dct_method" in ran.err
    parts = ("--pre", DECODE, "--post", LOOKUP, "--first-divergence")
    ran = bench.run(CLASSIFIER, str(surgery / "labelled_wrong.pb"), *parts)
    check_said(ran, "labelled_wrong.pb differs", "classes: 1 of 1 elements differ", code=5)
    assert "int64 against string" not in ran.err and "labels" in ran.err


def test_a_part_that_is_left_out_is_missed(bench: Bench, surgery: Path) -> None:
    served, labelled = str(surgery / "served.pb"), str(surgery / "labelled.pb")
    for arguments, words in (
        ((CLASSIFIER, served), ("float32", "string")),
        ((CLASSIFIER, labelled, "--post", LOOKUP), ("float32", "string")),
        ((CLASSIFIER, labelled, "--pre", DECODE), ("classes: ", "int64", "string")),
        ((served, CLASSIFIER, "--pre", DECODE), ("string", "float32")),
    ):
        ran = bench.run(*arguments)
        check_said(ran, *words, code=5)


def test_the_hint_names_the_option_of_this_command(bench: Bench, surgery: Path) -> None:
    ran = bench.run(CLASSIFIER, str(surgery / "served.pb"), "--pre", LOOKUP)
    assert ran.code != 0
    check_said(ran, "--pre-map INPUT=RAW,RESULT")


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
