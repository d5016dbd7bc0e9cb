"""The published graphs run: as they are, renamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from support.published import EXECUTABLE, FOLDER, NOT_EXECUTABLE, needs_models

import gdsurgeon as gds
from gdsurgeon.cli.main import exit_code
from gdsurgeon.operation.edit import Request, operate
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.settings import Settings
from gdsurgeon.proof.subject import Subject
from gdsurgeon.runtime.protocol import Result
from gdsurgeon.runtime.tensor import Tensor

pytestmark = [*needs_models, pytest.mark.slow, pytest.mark.tensorflow]


class Run(NamedTuple):
    """A run of a graph: its feeds, the groups of its fetches, and the values."""

    feeds: dict[str, Tensor]
    groups: list[list[str]]
    values: dict[str, Tensor]


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Executor(Settings(timeout=120)) as started:
        yield started


@pytest.fixture(scope="module")
def originals() -> dict[str, Run]:
    """The runs of the graphs as they are, kept for the tests that compare with them."""
    return {}


def original_run(executor: Executor, name: str, kept: dict[str, Run]) -> Run:
    if name not in kept:
        graph = gds.load(str(FOLDER / name))
        executor.load_graph(name, graph)
        subject = Subject(executor, name, graph, plan_with(executor.settings, graph))
        executor.loaded(name)
        subject.initialize()
        feeds, _ = subject.run(0, {})
        # A random value lies over there; the other graphs are fed it too.
        fed = {
            key: executor.tensor(value.result_id, value.index) if isinstance(value, Result) else value
            for key, value in feeds.items()
        }
        values = {
            tensor: executor.tensor(subject.result(0, group), i)
            for group, names in enumerate(subject.plan.groups)
            for i, tensor in enumerate(names)
        }
        executor.unload(name)
        kept[name] = Run(fed, subject.plan.groups, values)
    return kept[name]


def run_again(executor: Executor, name: str, path: str, run: Run, renamed: dict[str, str]) -> dict[str, Tensor]:
    """Runs the graph in PATH as RUN was; the values by the names that they had there."""
    executor.load_file(name, path)
    executor.loaded(name)
    out: dict[str, Tensor] = {}

    def after(tensor: str) -> str:
        node, colon, index = tensor.partition(":")
        return renamed.get(node, node) + colon + index

    for names in run.groups:
        feeds = {after(key): value for key, value in run.feeds.items()}
        executor.run(name, "again", feeds, [after(tensor) for tensor in names])
        out |= {tensor: executor.tensor("again", i) for i, tensor in enumerate(names)}
    executor.unload(name)
    return out


def content(tensor: Tensor) -> tuple[int, tuple[int, ...], object]:
    return tensor.dtype, tensor.shape, tensor.data if isinstance(tensor.data, list) else bytes(tensor.data)


def assert_same(values: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert list(values) == list(expected)
    different = [name for name in expected if content(values[name]) != content(expected[name])]
    assert different == []


def binary(name: str, path: Path, folder: Path) -> str:
    """PATH, or if the model NAME is a text, the path of the same graph as a binary file."""
    if not EXECUTABLE[name].text:
        return str(path)
    gds.load(str(path)).save(str(folder / "binary.pb"))
    return str(folder / "binary.pb")


@pytest.mark.parametrize("name", sorted(EXECUTABLE))
def test_a_renamed_graph_is_proven_and_gives_the_same_values(
    name: str, tmp_path: Path, executor: Executor, originals: dict[str, Run]
) -> None:
    model = EXECUTABLE[name]
    renamed = {model.outputs[0]: "served/by_test"}
    for fed in list(model.inputs)[:1]:
        renamed[fed] = "taken/by_test"
    out = tmp_path / f"renamed{'.pbtxt' if model.text else '.pb'}"
    request = Request(str(FOLDER / name), out=str(out), settings=Settings(samples=1, timeout=120))
    proof = operate(request, lambda graph: gds.rename(graph, list(renamed.items()))).proof

    proven = {output.before: output for output in proof.outputs}
    for wanted in model.outputs:
        assert proven[wanted].comparison is not None and proven[wanted].comparison.equal
        assert proven[wanted].after == renamed.get(wanted, wanted)
    for fed in list(model.inputs)[:1]:
        assert renamed[fed] in proof.feeds and fed not in proof.feeds

    run = original_run(executor, name, originals)
    assert set(model.outputs) <= set(run.values)
    assert_same(run_again(executor, f"renamed {name}", binary(name, out, tmp_path), run, renamed), run.values)


REFUSALS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    # A frozen Variable is a Const, and Assign wants a reference.
    "dl4j_scatter_nd_update_locking_rank1shape_1indices.pb": ((3, 5, 7), ("Assign", "ref")),
    "tfjs_iris_fused_raw.pb": ((3,), ("_FusedConv2D", "'TArgs'")),
}
"""Graphs that cannot be run: the possible exit codes, and words of the message."""


@pytest.mark.parametrize("level", ["load", "run"])
@pytest.mark.parametrize("name", sorted(NOT_EXECUTABLE))
def test_a_graph_that_tensorflow_refuses_is_not_passed(
    name: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = f"{NOT_EXECUTABLE[name].outputs[0]}=served"
    out = tmp_path / "out.pb"
    code = exit_code(["rename", str(FOLDER / name), pair, "-o", str(out), "--validate", level])
    error = capsys.readouterr().err
    codes, words = REFUSALS[name]
    assert code in codes and error.startswith("Error: ")
    assert all(word in error for word in words), error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*sorted(NOT_EXECUTABLE), "model_explorer_foo.pbtxt"])
def test_what_cannot_be_run_can_still_be_edited(name: str, tmp_path: Path) -> None:
    out = tmp_path / f"out{Path(name).suffix}"
    old = "foo" if name.startswith("model") else NOT_EXECUTABLE[name].outputs[0]
    assert exit_code(["rename", str(FOLDER / name), f"{old}=served", "-o", str(out), "--validate", "none", "-q"]) == 0
    assert "served" in gds.load(str(out)) and old not in gds.load(str(out))
