"""validate: one model, two models, archives of feeds and outputs, options and files."""

from __future__ import annotations

import errno
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.desk import check_failed, check_said
from support.feeding import gather
from support.graphs import CRASHING, Builder, add, const, hanging, neg, node, placeholder, typed
from support.meta_graphs import put
from support.reaching import CONTENT, SECRET, read_for_a_shape
from support.system import faults
from support.validating import (
    EARLIER,
    Bench,
    calling_chance,
    classifying,
    divided,
    dropping,
    guilty,
    looping,
    noisy,
    of_all_kinds,
    run_reduced,
    scaled,
)

from gdsurgeon.cli.main import Terminated
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.proof.models import Recording
from gdsurgeon.proof.trial import Trial
from gdsurgeon.wire.text import to_text

pytestmark = pytest.mark.tensorflow


# -- one model --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def usual(bench: Bench) -> None:
    """Two equal models and a different one."""
    bench.put(m=scaled(), same=scaled(), other=scaled(3.0))


Models = dict[str, Builder | bytes]
OUTCOMES: dict[str, tuple[Models, list[tuple[str, int, str]]]] = {
    "a broken graph, as the first or the second": (
        {"broken": CRASHING},
        [("broken.pb", 3, "!level@none !--validate"), ("m.pb broken.pb", 3, "unsound-graph broken.pb")],
    ),
    "a tolerance is a number": (
        {}, [(f"m.pb other.pb {option} {value}", 2, "") for option in ("--rtol", "--atol") for value in ("nan", "inf")]
    ),
    "inputs and outputs without a partner": (
        {"other": scaled(x="picture", y="result")},
        [("m.pb other.pb", 5, "no-partner 'y' 'result' --map"), ("m.pb other.pb --map y=result", 5, "no-partner"),
         ("m.pb other.pb --map y=result --map x=picture", 0, ""), ("m.pb other.pb --map-file pairs.txt", 0, "")],
    ),
    "unknown names": (
        {},
        [("m.pb --outputs z", 4, "'z' !--map@NAME"), ("m.pb same.pb --outputs z", 4, "'z' !--map@NAME"),
         ("m.pb same.pb --map z=y", 4, "'z' !--map@NAME"), ("m.pb same.pb --map y=z", 4, "'z' !--map@NAME")],
    ),
    **{
        f"inputs that do not fit: {code} {number}": (
            {"other": other}, [("m.pb other.pb", 5, code), ("other.pb m.pb", 5, code)]
        )
        for number, (other, code) in enumerate((
            (scaled(dtype="float64"), "dtype-mismatch"),
            (scaled(shape=(-1, 5)), "shape-mismatch"),
            (scaled(shape=(4,)), "shape-mismatch"),
        ))
    },
    "a class is compared with its scores": (
        {"m": classifying(), "other": classifying(1.001)},
        [("m.pb other.pb", 5, "scores: also@compared"), ("m.pb other.pb --rtol 0.1", 0, "")],
    ),
    # The loop's iterations may overlap: their samples are added in a different order, and the sum rounds differently.
    "chance in a loop is no excuse for a difference": (
        {"m": looping(1.0, seed=5), "other": looping(1.5, seed=5)},
        [("m.pb m.pb --rtol 1e-5", 0, ""), ("m.pb other.pb --rtol 1e-5", 5, "")],
    ),
    "outputs next to chance are compared with recorded outputs": (
        {"m": calling_chance(beside=True)},
        [("m.pb --save-outputs out.npz", 0, ""), ("m.pb --golden out.npz", 0, "random:@call")],
    ),
    "the effect of the optimiser on one model is reported": (
        {"m": divided(hidden=False)}, [("m.pb", 0, "Grappler"), ("m.pb --no-grappler", 0, "!Grappler")]
    ),
    "too few recorded samples": (
        {},
        [("m.pb --save-outputs out.npz --samples 1", 0, ""),
         ("m.pb --golden out.npz", 7, "too-few-samples --samples@1"),
         ("m.pb --golden out.npz --samples 1", 0, "")],
    ),
    "broken archives": (
        {},
        [(f"m.pb {option} {name}", 2, said) for option in ("--feeds", "--golden")
         for name, said in (("bad.npz", "bad.npz@cannot@be@read"), ("nowhere.npz", "nowhere.npz no@such@file"))],
    ),
    "devices that do not exist": (
        {},
        [(f"m.pb --device {device}", 7, "TensorFlow@finds@no only@CPU:0")
         for device in ("cpu,gpu", "gpu", "gpu,cpu", "/device:GPU:7", "cpu,/device:CPU:1")],
    ),
    "hints name options of this command": (
        {"random": calling_chance(), "waiting": hanging()},
        [(f"{name}.pb {name}.pb", 7, "--validate@structure !--validate@none") for name in ("random", "waiting")],
    ),
    "a path that cannot be written is refused before the work": (
        {},
        [(f"m.pb {other} {option} m.pb/o.npz", 6, "!loaded !differ")
         for option in ("--save-outputs", "--save-feeds") for other in ("same.pb", "other.pb")],
    ),
}  # fmt: skip
"""By name: models, and command lines with their exit codes and parts of their output.

A part with ``@`` for blanks is an error code, or a text in stderr; with ``!`` the text is absent.
"""


@pytest.mark.parametrize(("models", "runs"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcome(bench: Bench, models: Models, runs: list[tuple[str, int, str]]) -> None:
    bench.put(**models)
    bench.desk.put("pairs.txt", b"# pairs\ny=result\n\nx=picture\n")
    bench.desk.put("bad.npz", b"PK nonsense")
    for line, code, parts in runs:
        ran = bench.run(*line.split())
        assert ran.code == code, (line, ran)
        if code:
            check_said(ran)
        for part in (part.replace("@", " ") for part in parts.split()):
            found = part.lstrip("!") in ran.err or (ran.error is not None and ran.error.code == part)
            assert found != part.startswith("!"), (line, part, ran.err)


def test_one_model_each_level_is_reported(bench: Bench) -> None:
    structure, loaded, ran = (bench.run("m.pb", "--level", level) for level in ("structure", "load", "run"))
    assert structure.code == loaded.code == ran.code == 0
    assert structure.out == loaded.out == ran.out == b""
    assert bench.run("m.pb", "-q")[:3] == (0, b"", "")
    assert "checked" in structure.err and "loaded" not in structure.err
    assert "loaded" in loaded.err and "TensorFlow" in loaded.err and "fed" not in loaded.err
    for words in ("m.pb", "checked", "loaded", "fed      x  float32 [1,4]", "returned y  float32 [1,4]",
                  "1 output", "2 input sets (batch 1 and 2)", "nothing to compare", "(CPU"):  # fmt: skip
        assert words in ran.err


def test_a_model_from_standard_input(bench: Bench) -> None:
    ran = bench.desk.run("validate", "-", data=scaled().bytes())
    assert ran.code == 0 and ran.out == b"" and "<stdin>" in ran.err
    ran = bench.desk.run("validate", "-", "other.pb", "--first-divergence", "--reduce", "r.pb", data=scaled().bytes())
    assert ran.code == 5 and "c (Const)" in ran.err
    assert sorted(bench.desk.files()) == ["m.pb", "other.pb", "r.pb", "same.pb"]


def test_text_graphs(bench: Bench) -> None:
    for name, factor in (("m.pbtxt", 2.0), ("other.pbtxt", 3.0)):
        bench.desk.put(name, to_text(scaled(factor).bytes()))
    assert bench.verdict("m.pb", "m.pbtxt")["proof"]["compared"] == 1
    assert guilty(bench.verdict("m.pbtxt", "other.pbtxt", "--first-divergence", code=5)) == ["c"]
    assert bench.run("m.pb", "other.pb", "--reduce", "r.pbtxt").code == 5
    assert b"node {" in (bench.desk.folder / "r.pbtxt").read_bytes()


# -- two models -------------------------------------------------------------------------------------------------


def test_two_equal_models(bench: Bench) -> None:
    proof = bench.verdict("m.pb", "same.pb")["proof"]
    assert proof["compared"] == 1 and proof["largest_difference"] == 0.0 and proof["batches"] == [1, 2]
    assert proof["device"] == "CPU" and "same(x) == m(x)" in proof["statement"]
    err = bench.run("m.pb", "same.pb").err
    assert "proven   same(x) == m(x): 1 output, 2 input sets (batch 1 and 2), bit-identical (CPU" in err


def test_a_folder_is_called_as_its_path_ends(bench: Bench) -> None:
    for name in ("net", "other"):
        put(bench.desk.folder / name)
    assert "other(x) == net(x)" in bench.verdict("net/", "other/")["proof"]["statement"]


def test_a_difference_is_said_with_the_tolerance_that_it_takes(bench: Bench) -> None:
    bench.put(other=scaled(2.0001))
    ran = bench.run("m.pb", "other.pb")
    assert ran.out == b""
    check_failed(ran, 5, "differs")
    assert bench.run("m.pb", "other.pb", "--rtol", "1e-3").code == 0
    needed = ran.err.partition("\nHint")[0].rpartition(" ")[2].rstrip(")")
    assert bench.run("m.pb", "other.pb", "--rtol", needed, "--atol", needed).code == 0
    less = str(float(needed) * 0.9)
    assert bench.run("m.pb", "other.pb", "--rtol", less, "--atol", less).code == 5


def test_an_extra_output_on_either_side_fails_until_outputs_says_otherwise(bench: Bench) -> None:
    bench.put(m=calling_chance(beside=True), other=scaled(y="z"))
    for pair in (("m.pb", "other.pb"), ("other.pb", "m.pb")):
        ran = bench.run(*pair)
        check_failed(ran, 5, "no-partner")
        assert ran.error is not None and len(ran.error.details) == 1 and "'y'" in ran.error.details[0]
        assert bench.verdict(*pair, "--outputs", "z")["proof"]["compared"] == 1


@pytest.mark.parametrize(("shape", "batches"), [((1, 4), [1]), ((2, 4), [1]), ((-1, -1), [1, 2]), (None, [1, 2])])
def test_inputs_of_shapes_that_both_take(bench: Bench, shape: tuple[int, ...] | None, batches: list[int]) -> None:
    bench.put(other=scaled(shape=shape))
    for pair in (("m.pb", "other.pb"), ("other.pb", "m.pb")):
        proof = bench.verdict(*pair)["proof"]
        assert proof["compared"] == 1 and proof["batches"] == batches


def test_an_input_of_one_model_alone_is_fed(bench: Bench) -> None:
    bench.put(plain=dropping(False), keeping=dropping(True))
    for pair in (("plain.pb", "keeping.pb"), ("keeping.pb", "plain.pb")):
        ran = bench.run(*pair)
        check_failed(ran, 5, "no-partner")
        assert "'keep_prob'" in ran.err and "--feed" in ran.err
        proof = bench.verdict(*pair, "--feed", "keep_prob=1")["proof"]
        assert proof["compared"] == 1 and proof["batches"] == [1] and "keep_prob" in proof["feeds"]
        assert bench.run(*pair, "--feed", "keep_prob=0.5").code == 5


# -- inputs with a default --------------------------------------------------------------------------------------


def _half_plus_two(weight: float = 0.5, default: float = 0.0) -> Builder:
    """y = weight * x + 2, of an x that is DEFAULT where it is not fed."""
    x = node("x", "PlaceholderWithDefault", ["usual"], dtype="float32", shape=(-1, 1))
    return Builder(
        const("usual", [[default]]), x, const("a", weight), typed("Mul", "ax", "a", "x"), const("b", 2.0),
        add("y", "ax", "b"),
    )  # fmt: skip


def _with_setting(dtype: str, setting: float, weight: float = 0.5, default: float | None = None) -> Builder:
    """An output after SETTING, a keep probability or a condition, and a parallel output; WEIGHT is an operand."""
    if dtype == "bool":
        rest = [typed("Switch", "sides", "x", "setting"), typed("Mul", "training", "sides:1", "w"),
                typed("Merge", "y", "sides", "training", N=2)]  # fmt: skip
    else:
        rest = [const("size", [2], "int32"), node("noise", "RandomUniform", ["size"], T="int32", dtype="float32"),
                add("kept", "noise", "setting"), typed("Floor", "mask", "kept"), add("all", "mask", "w"),
                typed("Mul", "y", "x", "all")]  # fmt: skip
    return Builder(
        placeholder("x", "float32", (-1, 2)), const("usual", setting if default is None else default, dtype),
        node("setting", "PlaceholderWithDefault", ["usual"], dtype=dtype, shape=()), const("w", weight),
        neg("parallel", "x"), *rest,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "others"),
    [
        (_half_plus_two(), [_half_plus_two(9.0), _half_plus_two(default=1.0)]),
        (_with_setting("bool", False), [_with_setting("bool", False, 9.0), _with_setting("bool", True)]),
        (_with_setting("float32", 1.0), [_with_setting("float32", 1.0, 9.0), _with_setting("float32", 0.25)]),
    ],
    ids=["data", "condition", "keep probability"],
)
def test_an_input_with_a_default_is_fed_and_once_left_at_it(
    bench: Bench, model: Builder, others: list[Builder]
) -> None:
    bench.put(m=model, **{f"other{i}": other for i, other in enumerate(others)})
    proof = bench.verdict("m.pb", "m.pb")["proof"]
    assert proof["samples"] == 3
    assert proof["outputs"] and all(o["compared"] for o in proof["outputs"])
    for i in range(len(others)):
        bench.verdict("m.pb", f"other{i}.pb", code=5)


@pytest.mark.parametrize(("op", "samples"), [("Identity", 1), ("Placeholder", 2)])
def test_an_input_with_a_default_in_one_model_alone(bench: Bench, op: str, samples: int) -> None:
    """As a constant there is only the default to compare; as a plain input it is fed on all samples."""
    for name, weight in (("other", 0.5), ("wrong", 9.0)):
        other = _half_plus_two(weight, default=1.0)
        (x,) = (node for node in other.graph_def.node if node.name == "x")
        replaced = Builder(typed(op, "x", "usual") if op == "Identity" else placeholder("x"))
        x.CopyFrom(replaced.graph_def.node[0])
        bench.put(**{name: other})
    bench.put(m=_half_plus_two(default=1.0))
    for pair in (("m.pb", "{}.pb"), ("{}.pb", "m.pb")):
        good, bad = ([each.format(name) for each in pair] for name in ("other", "wrong"))
        assert bench.verdict(*good)["proof"]["samples"] == samples
        bench.verdict(*bad, code=5)


def test_what_is_kept_of_a_sample_at_defaults_has_their_values(bench: Bench) -> None:
    bench.put(m=_half_plus_two(default=3.0))
    assert bench.run("m.pb", "m.pb", "--save-feeds", "feeds.npz", "--save-outputs", "outputs.npz").code == 0
    assert bench.verdict("m.pb", "--feeds", "feeds.npz", "--golden", "outputs.npz")["proof"]["samples"] == 3


# -- feeds that the model refuses -------------------------------------------------------------------------------


def _chosen(times: float, rows: int, more: int = 0) -> Builder:
    """A row of a table, by a number that is not declared as an index."""
    return Builder(
        placeholder("x", "float32", (-1,)), const("times", times), typed("Mul", "scaled", "x", "times"),
        node("floor", "Cast", ["scaled"], SrcT="float32", DstT="int32"), const("more", more, "int32"),
        add("index", "floor", "more", kind="int32"), const("rows", np.arange(2.0 * rows).reshape(rows, 2)),
        const("axis", 0, "int32"), gather("y", "rows", "index"),
    )  # fmt: skip


@pytest.mark.parametrize("model", [_chosen(9, 3), _chosen(1, 2), _chosen(2, 3), _chosen(-1, 1)])
def test_other_feeds_are_tried_where_the_first_are_refused(bench: Bench, model: Builder) -> None:
    bench.put(m=model)
    assert bench.verdict("m.pb", "m.pb")["proof"]["samples"] == 2


def test_a_sample_is_fed_the_same_where_it_is_run_again(bench: Bench) -> None:
    """The second sample shows that indices were meant: the first one, of the optimised graph, is as it was."""
    bench.put(m=_chosen(2, 3))
    assert bench.verdict("m.pb", "--samples", "4")["optimized_proof"]["largest_difference"] == 0


def test_inputs_of_one_model_agree_in_their_shapes(bench: Bench) -> None:
    bench.put(m=Builder(
        placeholder("words", "float32", (-1, -1, 3)), placeholder("chars", "float32", (-1, -1, -1)),
        const("axis", 2, "int32"), typed("ConcatV2", "y", "words", "chars", "axis", Tidx="int32", N=2),
    ))  # fmt: skip
    assert bench.verdict("m.pb", "m.pb")["proof"]["compared"] == 1


def test_a_model_that_refuses_all_feeds_says_nothing_of_the_other_one(bench: Bench) -> None:
    bench.put(m=_chosen(1, 3, more=7), other=_chosen(1, 3))
    found = bench.verdict("m.pb", "other.pb", code=7)
    assert found["error"]["code"] == "unfeedable"
    bench.verdict("other.pb", "m.pb", code=5)


# -- chance -----------------------------------------------------------------------------------------------------


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
    check_said(ran, "nothing could be compared", "random", "call", code=7)
    bench.put(m=calling_chance(beside=True))
    verdict = bench.verdict("m.pb", "m.pb")
    assert verdict["proof"]["compared"] == 1
    assert [o["reason"] for o in verdict["proof"]["outputs"] if not o["compared"]] == ["random: call"]


@pytest.mark.parametrize("model", [noisy(), calling_chance(), looping(seed=3)], ids=["drawn", "called", "looped"])
def test_a_random_graph_is_named_and_passes_against_recorded_outputs_only_if_seeded(
    bench: Bench, model: Builder
) -> None:
    bench.put(m=model)
    assert "random" in bench.run("m.pb", "--save-outputs", "out.npz").err
    assert bench.run("m.pb", "--golden", "out.npz").code == (
        0 if "n" in [node.name for node in model.graph_def.node] else 7
    )
    if model.graph_def.node[1].name == "shape":
        assert "noise" in bench.run("m.pb", "m.pb").err
        assert [o["edited"] for o in bench.verdict("m.pb")["proof"]["outputs"] if not o["inner"]] == ["y"]


# -- what TensorFlow's optimiser does ---------------------------------------------------------------------------


def test_a_difference_that_only_the_optimiser_makes(bench: Bench) -> None:
    bench.put(m=divided(hidden=False), other=divided(hidden=True))
    assert bench.run("m.pb", "other.pb", "--no-grappler").code == 0
    ran = bench.run("m.pb", "other.pb")
    assert ran.code == 0 and "Grappler, both graphs: within rtol" in ran.err
    ran = bench.run("m.pb", "other.pb", "--rtol", "1e-12", "--first-divergence")
    assert "is not deterministic here" not in ran.err
    assert "Grappler, both graphs: different" in ran.err
    check_failed(ran, 5, "differs")


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
        check_said(ran, "other.pb differs from out.npz", "brains: 4 of 4 elements differ", code=5)


def test_archives_of_two_models(bench: Bench) -> None:
    ran = bench.run("m.pb", "other.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz")
    assert ran.code == 5
    with np.load(bench.desk.folder / "out.npz") as out, np.load(bench.desk.folder / "in.npz") as feeds:
        np.testing.assert_array_equal(out["y"], feeds["x"] * np.float32(2))
    assert bench.verdict("other.pb", "--golden", "out.npz", "--feeds", "in.npz", code=5)["proof"]["samples"] == 1


def test_an_archive_to_standard_output(bench: Bench) -> None:
    ran = bench.run("m.pb", "--save-outputs", "-")
    assert ran.code == 0
    with np.load(io.BytesIO(ran.out)) as out:
        assert set(out) == {"y", "y@1"}


RECORDED: dict[str, tuple[dict[str, Any], int, str]] = {
    "other names": ({"q": np.ones(3)}, 5, "'y', which was not recorded"),
    "one name more": ({"y": np.ones((1, 4), "f4"), "q": np.ones(3)}, 5, "'q' was recorded"),
    "another dtype": ({"y": np.ones((1, 4))}, 5, "dtypes float64 and float32"),
    "another shape": ({"y": np.ones((1, 5), "f4")}, 5, "shapes [1,5] and [1,4]"),
    "texts": ({"y": np.array(["a"])}, 5, "dtypes string and float32"),
    "nothing": ({}, 5, "'y', which was not recorded"),
    "objects": ({"y": np.array([{}], dtype=object)}, 2, "bad.npz"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_that_do_not_fit(bench: Bench, name: str) -> None:
    values, code, words = RECORDED[name]
    bench.archive("bad.npz", **values)
    ran = bench.run("m.pb", "--golden", "bad.npz", "--samples", "1")
    check_said(ran, words, code=code)


def test_every_sample_of_recorded_outputs_has_its_partners(bench: Bench) -> None:
    assert bench.run("m.pb", "--save-outputs", "out.npz").code == 0
    with np.load(bench.desk.folder / "out.npz") as out:
        bench.archive("bad.npz", y=out["y"], q__1=out["y@1"])
    assert bench.run("m.pb", "--golden", "bad.npz").code != 0


def test_all_recorded_samples_are_looked_at(bench: Bench) -> None:
    assert bench.run("m.pb", "--save-outputs", "out.npz", "--samples", "5").code == 0
    proof = bench.verdict("m.pb", "--golden", "out.npz")["proof"]
    assert proof["samples"] == 5 or "of the 5" in bench.run("m.pb", "--golden", "out.npz").err
    first = bench.verdict("other.pb", "--golden", "out.npz", code=5)["proof"]
    assert first["samples"] == 1, "the first sample that differs is the last"


def test_nothing_in_what_was_fed_is_no_pass(bench: Bench) -> None:
    bench.archive("none.npz", x=np.zeros((0, 4), "f4"))
    ran = bench.run("m.pb", "other.pb", "--feeds", "none.npz")
    check_said(ran, "nothing could be compared", "no elements", code=7)
    bench.archive("out.npz", y=np.zeros((0, 4), "f4"))
    assert bench.run("m.pb", "--golden", "out.npz", "--feeds", "none.npz").code == 7


@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt(), Terminated(15), NotValidatedError("the worker has ended")], ids=repr
)
def test_a_validation_that_is_ended_leaves_earlier_archives(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    """Between its first sample and its last: the record is incomplete, and the worker does not answer."""
    for name in ("out.npz", "in.npz"):
        bench.desk.put(name, EARLIER)
    before = bench.desk.files()
    real = Recording.note

    def note(recording: Recording, sample: int, trial: Trial) -> None:
        real(recording, sample, trial)
        trial.executor.close()
        raise stop

    monkeypatch.setattr(Recording, "note", note)
    ran = bench.run("m.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz")
    assert ran.code == {KeyboardInterrupt: 130, Terminated: 143, NotValidatedError: 7}[type(stop)], ran
    assert bench.desk.files() == before


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("write", errno.ENOSPC),
        ("fsync", errno.EIO),
        ("replace", errno.EACCES),
        ("open", errno.EACCES),
        ("close", errno.EIO),
    ],
)
def test_files_of_a_validation_appear_whole_or_not_at_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    for name in ("out.npz", "in.npz"):
        bench.desk.put(name, EARLIER)
    before = bench.desk.files()
    for fault in faults(monkeypatch, call, code):
        bench.desk.restore(before)
        with fault:
            ran = bench.run("m.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz", "--no-grappler")
        assert bench.desk.temporary_files() == [], fault.at
        after = bench.desk.files()
        for name in ("out.npz", "in.npz"):
            assert after[name] == EARLIER or zipfile.is_zipfile(bench.desk.folder / name), fault.at
        assert ran.code in ((0, 3, 6) if fault.struck else (0,)), (fault.at, ran)
        assert "internal error" not in ran.err


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
    "m.pb --level load --save-feeds o.npz", "m.pb --level structure --save-feeds o.npz",
    "m.pb other.pb --pre-map x=a,b", "m.pb other.pb --post-map y=a,b", "m.pb --pre-map x=a,b",
    "m.pb --save-outputs - --save-feeds -", "m.pb --json --save-outputs -", "m.pb same.pb --json --reduce -",
    "m.pb same.pb --reduce - --save-feeds -", "m.pb --level load --outputs y", "m.pb --level structure --rtol 1",
    "m.pb --rtol 1", "m.pb --feed x=@x.npy --save-outputs x.npy",
    "m.pb other.pb --map-file pairs.txt --reduce pairs.txt",
]  # fmt: skip


@pytest.mark.parametrize("line", CONTRADICTIONS)
def test_contradictions(bench: Bench, line: str) -> None:
    bench.archive("g.npz", y=np.ones((1, 4), "f4"), x=np.ones((1, 4), "f4"))
    np.save(bench.desk.folder / "x.npy", np.ones((1, 4), "f4"))
    bench.desk.put("pairs.txt", b"y=y\n")
    before = bench.desk.files()
    ran = bench.run(*line.split())
    check_said(ran, code=2)
    assert len(ran.err.splitlines()) <= 2, ran.err
    if "--json" in line.split():
        assert json.loads(ran.out)["error"]["exit"] == 2
    else:
        assert ran.out == b""
    assert bench.desk.files() == before


# -- what cannot be written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--save-outputs", "--save-feeds", "--reduce"])
@pytest.mark.parametrize("place", ["m.pb/o.npz", "folder", "/dev/full"])
def test_files_that_cannot_be_written(bench: Bench, option: str, place: str) -> None:
    (bench.desk.folder / "folder").mkdir()
    ran = bench.run("m.pb", "other.pb", option, place)
    # /dev/full can be opened; that the models differ is then the greater news.
    assert ran.code == (5 if place == "/dev/full" and option != "--reduce" else 6)
    assert place in ran.err and "cannot be written" in ran.err
    assert sorted(bench.desk.files()) == ["m.pb", "other.pb", "same.pb"]


@pytest.mark.parametrize("option", ["--save-outputs", "--save-feeds"])
def test_an_earlier_archive_stays_where_nothing_was_run(bench: Bench, option: str) -> None:
    bench.put(waiting=hanging(), renamed=scaled(y="z"))
    bench.desk.put("o.npz", EARLIER)
    assert bench.run("waiting.pb", option, "o.npz").code == 7
    assert bench.run("m.pb", "renamed.pb", option, "o.npz").code == 5
    assert bench.run("nowhere.pb", option, "o.npz").code == 3
    assert bench.desk.files()["o.npz"] == EARLIER
    assert bench.run("m.pb", option, "o.npz").code == 0
    assert bench.desk.files()["o.npz"] != EARLIER


@pytest.mark.parametrize("arguments", [("m.pb", "--save-outputs", "-"), ("m.pb", "other.pb", "--reduce", "-")])
def test_binary_does_not_go_to_a_terminal(bench: Bench, tty: int, arguments: tuple[str, ...]) -> None:
    assert bench.desk.spawn("validate", *arguments, stdout=tty).code == 2


@pytest.mark.parametrize("level", ["load", "run"])
def test_what_loading_would_evaluate_is_not_loaded(bench: Bench, level: str, tmp_path: Path) -> None:
    bench.put(m=read_for_a_shape(tmp_path))
    said = "loading m.pb may already run nodes: 'r' (ReadFile) reads or writes outside the graph"
    check_said(bench.run("m.pb", "--level", level), said, code=7)
    (tmp_path / SECRET).write_text(CONTENT)
    assert bench.run("m.pb", "--level", level, "--allow-ops").code == 0


def test_profiles(bench: Bench) -> None:
    verdict = bench.verdict("m.pb", "same.pb", "--profile")
    assert set(verdict["profiles"]) == {"m.pb", "same.pb"}
    for profile in verdict["profiles"].values():
        assert profile["seconds"] > 0 and profile["runs"] >= 3 and profile["slowest"]
    assert len(bench.verdict("m.pb", "m.pb", "--profile")["profiles"]) == 2
