"""validate: archives of feeds and of outputs, written and read."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.desk import check_failed, check_said
from support.graphs import CRASHING, hanging
from support.reaching import CONTENT, SECRET, read_for_a_shape
from support.system import Fault
from support.validating import EARLIER, Bench, calling_chance, of_all_kinds, scaled

from gdsurgeon.cli.main import Terminated
from gdsurgeon.errors import NotValidatedError
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.models import Recording

pytestmark = pytest.mark.tensorflow


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
    "another dtype": ({"y": np.ones((1, 4))}, 5, "dtypes float64 and float32"),
    "another shape": ({"y": np.ones((1, 5), "f4")}, 5, "shapes [1,5] and [1,4]"),
    "texts": ({"y": np.array(["a"])}, 5, "dtypes string and float32"),
    "nothing": ({}, 5, "'y', which was not recorded"),
    "objects": ({"y": np.array([{}], dtype=object)}, 2, "bad.npz"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_that_do_not_fit(bench: Bench, name: str) -> None:
    values, code, words = RECORDED[name]
    bench.put(m=scaled())
    bench.archive("bad.npz", **values)
    ran = bench.run("m.pb", "--golden", "bad.npz", "--samples", "1")
    check_said(ran, words, code=code)


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
    check_failed(ran, 7, "too-few-samples")
    assert "--samples 1" in ran.err
    assert bench.run("m.pb", "--golden", "out.npz", "--samples", "1").code == 0


def test_all_recorded_samples_are_looked_at(bench: Bench) -> None:
    bench.put(m=scaled())
    assert bench.run("m.pb", "--save-outputs", "out.npz", "--samples", "5").code == 0
    proof = bench.verdict("m.pb", "--golden", "out.npz")["proof"]
    assert proof["samples"] == 5 or "of the 5" in bench.run("m.pb", "--golden", "out.npz").err


@pytest.mark.parametrize("option", ["--feeds", "--golden"])
def test_broken_archives(bench: Bench, option: str) -> None:
    bench.put(m=scaled())
    bench.desk.put("bad.npz", b"PK nonsense")
    ran = bench.run("m.pb", option, "bad.npz")
    check_said(ran, "bad.npz cannot be read", code=2)
    ran = bench.run("m.pb", option, "nowhere.npz")
    check_said(ran, "nowhere.npz", "no such file", code=2)


def test_nothing_in_what_was_fed_is_no_pass(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled(3.0))
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
    bench.put(m=scaled())
    for name in ("out.npz", "in.npz"):
        bench.desk.put(name, EARLIER)
    before = bench.desk.files()
    real = Recording.note

    def note(recording: Recording, executor: Executor, sample: int, *rest: Any) -> None:
        real(recording, executor, sample, *rest)
        executor.close()
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
    bench.put(m=scaled())
    for name in ("out.npz", "in.npz"):
        bench.desk.put(name, EARLIER)
    before = bench.desk.files()
    fault = Fault(call, code, for_ever=False)
    monkeypatch.setattr(os, call, fault)
    for at in range(1, 60):
        bench.desk.restore(before)
        fault.arm(at)
        ran = bench.run("m.pb", "--save-outputs", "out.npz", "--save-feeds", "in.npz", "--no-grappler")
        fault.disarm()
        assert bench.desk.temporary_files() == [], at
        after = bench.desk.files()
        for name in ("out.npz", "in.npz"):
            assert after[name] == EARLIER or zipfile.is_zipfile(bench.desk.folder / name), at
        if not fault.struck:
            assert ran.code == 0
            return
        assert ran.code in (0, 3, 6), (at, ran)
        assert "internal error" not in ran.err
    pytest.fail("it never comes to an end")


# -- devices ----------------------------------------------------------------------------------------------------


def test_two_devices_where_there_is_one(bench: Bench) -> None:
    bench.put(m=scaled())
    for device in ("cpu,gpu", "gpu", "gpu,cpu", "/device:GPU:7", "cpu,/device:CPU:1"):
        ran = bench.run("m.pb", "--device", device)
        check_said(
            ran, "TensorFlow finds no", "only CPU:0" if "GPU" not in ran.err.split("only")[-1] else "only", code=7
        )


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
    "m.pb --rtol 1",
]  # fmt: skip


@pytest.mark.parametrize("line", CONTRADICTIONS)
def test_contradictions(bench: Bench, line: str) -> None:
    bench.put(m=scaled(), other=scaled(3.0), same=scaled())
    bench.archive("g.npz", y=np.ones((1, 4), "f4"), x=np.ones((1, 4), "f4"))
    before = bench.desk.files()
    ran = bench.run(*line.split())
    assert ran.code == 2, ran
    check_said(ran)
    assert len(ran.err.splitlines()) <= 2, ran.err
    if "--json" in line.split():
        assert json.loads(ran.out)["error"]["exit"] == 2
    else:
        assert ran.out == b""
    assert bench.desk.files() == before


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


HINTED = {
    "random": calling_chance(),
    "waiting": hanging(),
}


@pytest.mark.parametrize("name", HINTED)
def test_hints_name_options_of_this_command(bench: Bench, name: str) -> None:
    bench.put(m=HINTED[name])
    ran = bench.run("m.pb", "m.pb")
    assert ran.code == 7 and "--validate structure" in ran.err and "--validate none" not in ran.err


def test_the_hint_for_a_broken_graph_names_options_of_this_command(bench: Bench) -> None:
    bench.put(m=CRASHING)
    ran = bench.run("m.pb")
    assert ran.code == 3 and "level none" not in ran.err and "--validate" not in ran.err


# -- what cannot be written -------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--save-outputs", "--save-feeds", "--reduce"])
@pytest.mark.parametrize("place", ["m.pb/o.npz", "folder", "/dev/full"])
def test_files_that_cannot_be_written(bench: Bench, option: str, place: str) -> None:
    (bench.desk.folder / "folder").mkdir()
    bench.put(m=scaled(), other=scaled(3.0))
    ran = bench.run("m.pb", "other.pb", option, place)
    # /dev/full can be opened; that the models differ is then the greater news.
    assert ran.code == (5 if place == "/dev/full" and option != "--reduce" else 6)
    assert place in ran.err and "cannot be written" in ran.err
    assert sorted(bench.desk.files()) == ["m.pb", "other.pb"]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(bench: Bench) -> None:
    bench.put(m=scaled(), same=scaled(), other=scaled(3.0))
    for option in ("--save-outputs", "--save-feeds"):
        for other in ("same.pb", "other.pb"):
            ran = bench.run("m.pb", other, option, "m.pb/o.npz")
            assert ran.code == 6 and "loaded" not in ran.err and "differ" not in ran.err


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


@pytest.mark.parametrize("level", ["load", "run"])
def test_what_loading_would_evaluate_is_not_loaded(bench: Bench, level: str, tmp_path: Path) -> None:
    bench.put(m=read_for_a_shape(tmp_path))
    ran = bench.run("m.pb", "--level", level)
    assert ran.code == 7
    check_said(
        ran,
        "loading m.pb may already run nodes: 'r' (ReadFile) reads or writes outside the graph",
    )
    (tmp_path / SECRET).write_text(CONTENT)
    assert bench.run("m.pb", "--level", level, "--allow-ops").code == 0


def test_profiles(bench: Bench) -> None:
    bench.put(m=scaled(), other=scaled())
    verdict = bench.verdict("m.pb", "other.pb", "--profile")
    assert set(verdict["profiles"]) == {"m.pb", "other.pb"}
    for profile in verdict["profiles"].values():
        assert profile["seconds"] > 0 and profile["runs"] >= 3 and profile["slowest"]
    assert len(bench.verdict("m.pb", "m.pb", "--profile")["profiles"]) == 2
