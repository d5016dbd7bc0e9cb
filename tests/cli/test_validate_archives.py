"""validate: archives of feeds and of outputs, written and read."""

from __future__ import annotations

import errno
import io
import os
import zipfile
from typing import Any

import numpy as np
import pytest
from support.desk import check_failed, check_said
from support.system import Fault
from support.validating import EARLIER, Bench, of_all_kinds, scaled

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
