"""Whether another release takes a graph and gives the same: the one that is installed is asked, as if it were one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.desk import Desk, check_error, check_raised
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    add,
    graph,
    graph_bytes,
    node,
    placeholder,
    scalar,
    typed,
    versions,
)

from gdsurgeon.errors import UsageError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.ops.releases import releases
from gdsurgeon.proof.elsewhere import check_released
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.trial import EDITED
from gdsurgeon.runtime.capi import packed_strings, unpacked_strings
from gdsurgeon.runtime.packages import unpacked
from gdsurgeon.runtime.process import PRELOADED, environment

X = placeholder("x", shape=(2, 3))


@pytest.fixture
def here() -> Iterator[Executor]:
    with Executor(Settings()) as executor:
        yield executor


def installed() -> str:
    spec = find_spec("tensorflow")
    assert spec is not None and spec.submodule_search_locations
    return next(iter(spec.submodule_search_locations))


def released(executor: Executor, *records: bytes, there: tuple[bytes, ...] = (), **options: bool) -> str:
    """The result of the installed TensorFlow for RECORDS, acting as a different release, whose graph is THERE."""

    def load(which: Executor) -> None:
        which.load(EDITED, graph_bytes(*(there if there and which is not executor else records)))

    return check_released(executor, graph(*records), Overrides(), installed(), load, **options)[1]


@pytest.mark.tensorflow
def test_another_release_gives_the_same_or_not(here: Executor) -> None:
    """Random values are sampled once and fed to both; strings and batches are passed as well."""
    drawn = typed("RandomUniform", "r", "shape", kind=INT32, dtype=FLOAT)
    shape = typed("Shape", "shape", "x", out_type=INT32)
    text = [placeholder("s", STRING, (2,)), node("joined", "StringJoin", ["s", "s"], N=2)]
    records = [X, add("y", "x", "r"), shape, drawn, *text]
    said = released(here, *records)
    assert said.startswith("TensorFlow 2.") and said.endswith("outputs, 2 input sets, bit-identical")
    assert released(here, *records, runs=False).endswith(" loads it")
    far = [X, typed("Mul", "y", "x", "r"), shape, drawn, *text]
    with pytest.raises(ValidationError) as caught:
        released(here, *records, there=tuple(far))
    check_error(caught.value, "differs", {"tensors": ["y"]})
    near = [X, typed("Mul", "q", "x", "r"), scalar("eps", 1e-6), add("near", "x", "eps"),
            add("y", "near", "r"), shape, drawn, *text]  # fmt: skip
    assert "largest difference" in released(here, *records, there=tuple(near))
    check_raised(ValidationError, "does-not-load", lambda: released(here, *records, there=(X, node("y", "Foo", ["x"]))))


@pytest.mark.tensorflow
def test_the_results_of_a_sample_are_freed_before_the_next(here: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the processes would hold the outputs of all samples."""
    freed: dict[Executor, list[str]] = {}
    drop = Executor.drop

    def noted(executor: Executor, result: str) -> None:
        freed.setdefault(executor, []).append(result)
        drop(executor, result)

    monkeypatch.setattr(Executor, "drop", noted)
    released(here, X, add("y", "x", "x"))
    (other,) = freed.keys() - {here}
    assert {"here 0 0", "expected 0"} <= {*freed[here]} and freed[other] == [f"{EDITED} 0 0"]


@pytest.mark.tensorflow
def test_the_command_runs_the_result_there(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(X, add("y", "x", "x"), trailer=versions(24)))
    ran = desk.done("compat", "model.pb", "--for", "1.4", "-o", "out.pb", "--run-in", installed())
    assert "  run in   TensorFlow 2." in ran.err
    assert "Warning: --run-in is TensorFlow 2." in ran.err and ", but --for is 1.4; whether the target runs" in ran.err
    newest = releases()[-1].name
    ran = desk.done("compat", "model.pb", "--for", newest, "-o", "new.pb", "--run-in", installed())
    assert ("--for is" in ran.err) != (f"TensorFlow {newest}." in ran.err)
    ran = desk.done("compat", "out.pb", "--for", "1.4", "-o", "same.pb", "--run-in", installed(), "--report", "r.json")
    assert "returns the same: 1 output" in ran.err
    assert "nothing would change: TensorFlow 1.4 can already load the graph" in ran.err
    assert '"run_in": "TensorFlow 2.' in (desk.folder / "r.json").read_text()


@pytest.mark.tensorflow
def test_what_fails_in_a_release_that_is_not_the_target_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target did not fail: a reader of the error alone would search for the fault in the file."""

    def differs(*_: object) -> str:
        raise ValidationError("y differs")

    monkeypatch.setattr("gdsurgeon.proof.elsewhere._compared", differs)
    desk.put("model.pb", graph_bytes(X, add("y", "x", "x"), trailer=versions(24)))
    ran = desk.run("compat", "model.pb", "--for", "1.4", "-o", "out.pb", "--run-in", installed())
    assert ran.code == 5 and "Error: in TensorFlow 2." in ran.err
    assert "Warning: --run-in is TensorFlow 2." in ran.err and ", but --for is 1.4; whether the target runs" in ran.err


def test_what_is_no_release_is_refused(desk: Desk) -> None:
    desk.put("model.pb", graph_bytes(X, add("y", "x", "x"), trailer=versions(24)))
    call = ("compat", "model.pb", "--for", "1.4", "-o", "out.pb", "--run-in")
    desk.refused(2, "no-such-file", *call, "nothing.whl")
    desk.refused(2, "conflicting-options", *call, ".", "--validate", "structure")


@pytest.mark.tensorflow
def test_a_folder_without_tensorflow(here: Executor, tmp_path: Path) -> None:
    (tmp_path / "some.whl").write_bytes(b"no zip")
    for place in (str(tmp_path / "some.whl"), str(tmp_path)):
        with pytest.raises(UsageError) as caught:
            check_released(here, graph(X), Overrides(), place, lambda _: None)
        check_error(caught.value, "no-such-release", {"path": place})


def test_of_a_wheel_the_libraries_are_unpacked(tmp_path: Path) -> None:
    wheel = tmp_path / "tensorflow-1.4.0.whl"
    names = ["tensorflow/libtensorflow_framework.so.2", "a/purelib/tensorflow/python/_pywrap_tensorflow_internal.so"]
    with ZipFile(wheel, "w") as archive:
        for name in [*names, "tensorflow/__init__.py"]:
            archive.writestr(name, "")
    with unpacked(str(wheel)) as folder:
        found = [os.path.relpath(os.path.join(place, n), folder) for place, _, ns in os.walk(folder) for n in ns]
        assert sorted({*found} - {PRELOADED}) == sorted(names)
        preloaded = environment(False, True, folder).get("LD_PRELOAD")
        assert (preloaded is not None) == (PRELOADED in found)
    assert (
        not os.path.exists(folder) and "LD_PRELOAD" not in environment(False, True, "capi").keys() - os.environ.keys()
    )


def test_strings_of_older_releases_come_back() -> None:
    texts = [b"", b"a", b"\0" * 300]
    packed = packed_strings(texts)
    assert packed[:24] == b"".join(n.to_bytes(8, "little") for n in (0, 1, 3))
    assert unpacked_strings(packed, 3) == texts and unpacked_strings(b"", 0) == []
