"""Values of a graph that differ between runs, and differences that can be explained by this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.desk import check_error
from support.graphs import Builder, const, node, placeholder, typed
from support.operating import operated, refused
from support.spoiling import Edit, caught, proven, spoilt, without_controls
from support.validating import scaled

import gdsurgeon as gds
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.extract import extract
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.inline import inline
from gdsurgeon.edits.parts import add_postprocessing
from gdsurgeon.edits.rename import rename
from gdsurgeon.graph.attrs import string_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof import plan, trial
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.plan import plan_with
from gdsurgeon.proof.proof import FED, DiffersError, OutputProof
from gdsurgeon.proof.subject import Subject
from gdsurgeon.proof.trial import MOST_SPREAD, accepted, spread
from gdsurgeon.runtime.compare import Comparison
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow


def noise() -> Builder:
    return Builder(
        placeholder("x", "float32", (2,)), const("shape", [2], "int32"),
        typed("RandomUniform", "chance", "shape", kind="int32", dtype="float32", seed=0, seed2=0),
        typed("AddV2", "y", "x", "chance"), typed("Neg", "z", "x"),
    )  # fmt: skip


def test_a_graph_is_held_against_itself(executor: Executor) -> None:
    """The random op is not fed: it draws anew in each run, as a kernel rounds anew that sums in another order."""
    graph = noise().graph()
    executor.load_graph("original", graph)
    subject = Subject(executor, "original", graph, plan_with(executor.settings, graph))
    feeds, _ = subject.run(0, {})
    steady = spread(executor, subject, 0, feeds)
    assert steady == {}  # what was drawn is fed; and a random op excuses nothing
    assert subject.plan.random_nodes == {"chance": FED}
    subject.plan.random_nodes.clear()  # not known to be random
    feeds = {name: value for name, value in feeds.items() if name == "x"}
    for group, names in enumerate(subject.plan.groups):
        executor.run("original", subject.result(0, group), feeds, names)
    own = spread(executor, subject, 0, feeds)
    assert set(own) == {"y"} and 0 < own["y"] < 1


@pytest.mark.parametrize(
    ("gap", "own", "is_excused"),
    [
        (1e-7, 1e-7, True),
        (MOST_SPREAD * 1e-7, 1e-7, True),
        (9e-7, 1e-7, False),
        (1e-7, 0.0, False),
        (None, 1e-7, False),
    ],
)
def test_a_difference_is_laid_to_chance_only_where_the_graph_differs_as_much_from_itself(
    gap: float | None, own: float, is_excused: bool
) -> None:
    found = OutputProof("y", "y", 1, (2,), comparison=Comparison(False, False, None, gap, 1, 2, None))
    reasons = accepted([found], {"y": own} if own else {}, "m.pb")
    assert (found.comparison is None) == is_excused
    assert ("is not deterministic here" in found.reason) == is_excused
    assert ("y" in reasons) == is_excused


def by_turns() -> Builder:
    """A kernel that randomly rounds in one of two ways: x + c * (0 or 1)."""
    return Builder(
        placeholder("x", "float32", (2,)), const("shape", [], "int32"), const("least", 0, "int32"),
        const("most", 2, "int32"),
        typed("RandomUniformInt", "chance", "shape", "least", "most", kind="int32", Tout="int32", seed=0, seed2=0),
        node("way", "Cast", ["chance"], SrcT="int32", DstT="float32"), typed("AddV2", "y", "x", "way"),
        typed("Neg", "z", "y"), typed("Abs", "beside", "x"),
    )  # fmt: skip


EDITS: dict[str, Edit] = {
    "side by side": lambda graph: rename(graph, [("z", "result")]),
    "given a tensor": lambda graph: extract(graph, ["x"], ["z"]),
    "parts apart": lambda graph: add_postprocessing(graph, scaled(1.0, "z", "z_postprocessed", (2,)).graph("post.pb")),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_a_graph_gives_in_two_ways_is_compared_until_both_give_the_same(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(plan, "random_nodes", lambda _: [])  # not known to be random
    monkeypatch.setattr(trial, "REPEATS", 50)  # once in 2 ** 50 no run is like the first
    monkeypatch.setattr(trial, "CONTROLS", 20)  # once in 2 ** 40 all runs of the original are
    assert all(output.comparison is not None for output in proven(executor, by_turns(), EDITS[name]).compared)
    error = caught(executor, by_turns(), spoilt(EDITS[name], lambda graph, _: graph.set_op(graph["y"], "Sub")))
    assert error.exit_code in (5, 7)


def with_noise(*, within: bool) -> Builder:
    """Numbers times what is drawn; WITHIN a function, where it is so already."""
    m = noise()
    m.typed("Mul", "out", "y", "z")
    if within:
        graph = m.graph()
        fuse_ops(graph, [graph["chance"], graph["y"]], "call")
        m.graph_def.ParseFromString(read_chunks(graph.chunks()))
    return m


IN_FUNCTIONS: dict[str, tuple[bool, Edit]] = {
    "fuse-ops": (False, lambda graph: fuse_ops(graph, [graph["chance"], graph["y"]], "call")),
    "rename": (True, lambda graph: rename(graph, [("out", "result")])),
    "inline": (True, inline),
}


@pytest.mark.parametrize("name", IN_FUNCTIONS)
def test_what_draws_inside_of_a_function_is_given_one_seed(executor: Executor, name: str) -> None:
    within, edit = IN_FUNCTIONS[name]
    proof = proven(executor, with_noise(within=within), edit)
    assert proof.compared and any("with the same seed" in str(warning) for warning in proof.warnings)
    wrong = spoilt(edit, lambda graph, _: graph.set_op(graph["z"], "Abs"))
    error = caught(executor, with_noise(within=within), wrong)
    assert error.exit_code == 7 and error.code == "nothing-comparable"


def counting(*more: bytes) -> Builder:
    """`y` is how often the graph was called before, kept in a table."""
    attrs: dict[str, Any] = {"key_dtype": "int64", "value_dtype": "int64", "shared_name": "calls"}
    types = {"Tin": "int64", "Tout": "int64"}
    return Builder(
        node("net/table", "MutableHashTableV2", **attrs), const("net/key", [1], "int64"),
        const("net/none", 0, "int64"), const("net/one", [1], "int64"),
        node("net/count", "LookupTableFindV2", ["net/table", "net/key", "net/none"], **types),
        typed("AddV2", "net/more", "net/count", "net/one", kind="int64"),
        node("net/keep", "LookupTableInsertV2", ["net/table", "net/key", "net/more"], **types),
        typed("Identity", "net/calls", "net/count", "^net/keep", kind="int64"),
        typed("Identity", "y", "net/calls", kind="int64"), *more,
    )  # fmt: skip


WITH_INPUT = [placeholder("x", "float32", (1, 3)), typed("Neg", "z", "x")]


inputs = pytest.mark.parametrize("more", [WITH_INPUT, []], ids=["input", "no input"])


RENAMED: Edit = lambda g: gds.rename(g, [("y", "z2")])  # noqa: E731
CLONED: Edit = lambda g: gds.clone_scope(g, "net", "net2")  # noqa: E731


@inputs
@pytest.mark.parametrize("samples", [1, 2])
def test_a_right_edit_of_a_graph_that_counts_is_proven_by_two_calls(
    more: list[bytes], samples: int, tmp_path: Path
) -> None:
    outcome = operated(tmp_path, counting(*more), RENAMED, samples=samples)
    assert outcome.proof.samples == 2 and outcome.proof.compared


@inputs
def test_a_control_edge_that_is_lost_shows_in_the_second_call(more: list[bytes], tmp_path: Path) -> None:
    error = refused(tmp_path, counting(*more), spoilt(RENAMED, without_controls("net/calls")), samples=1)
    assert error.exit_code == 5
    check_error(error, "differs", {"sample": 2})


def test_the_clone_of_a_counter_counts_on_its_own(tmp_path: Path) -> None:
    assert operated(tmp_path, counting(), CLONED).proof.compared


def test_a_counter_that_is_shared_with_its_clone_shows(tmp_path: Path) -> None:
    """The clone counts in the table of the original, and after it: which of them is first would be left to chance."""

    def shared(graph: Graph, result: EditResult) -> None:
        graph.set_attr(graph["net2/table"], "shared_name", string_value("calls").SerializeToString())
        graph.set_controls(graph["net2/count"], [graph["net/keep"]])

    error = refused(tmp_path, counting(), spoilt(CLONED, shared), samples=1)
    assert (error.exit_code, error.code) == (5, "differs")


def test_two_models_of_which_one_forgets(tmp_path: Path) -> None:
    m = counting(*WITH_INPUT)
    path = m.write(tmp_path / "model.pb")
    graph = m.graph("model.pb")
    graph.set_controls(graph["net/calls"], [])
    graph.save(str(tmp_path / "other.pb"))
    assert gds.validate(path, path).proof.samples == 2  # type: ignore[union-attr]
    with pytest.raises(DiffersError):
        gds.validate(path, str(tmp_path / "other.pb"))
