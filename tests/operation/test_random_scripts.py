"""Random edits at once return the same bytes as one by one, and are proven if each of them is."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support import every_edit, graphs
from support.paths import FIXTURES
from support.random_edits import DRAWS, drawn, random_graph
from support.several import carried_out, proven_pieces

from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.pieces import joined_steps
from gdsurgeon.proof.proof import DiffersError

QUICKLY = (Phase.explicit, Phase.reuse, Phase.generate)
"""To find the smallest example takes long where TensorFlow runs each."""
KINDS = st.lists(st.tuples(st.sampled_from(sorted(DRAWS)), st.integers(0, 999)), min_size=3, max_size=8)
MODELS = ("control_edges.pb", "functions_tf2.pb", "while_v1.pb", "classifier.pb", "every edit")


@cache
def model(name: str) -> bytes:
    if name == "every edit":
        return every_edit.built(every_edit.model)
    return (FIXTURES / name).read_bytes()


def check_same(data: bytes, kinds: list[tuple[str, int]]) -> None:
    done, wanted = drawn(data, kinds)
    if not done:
        return
    steps = carried_out(data, [edit for _, edit in done])
    assert graphs.written(steps[-1].after) == wanted
    assert len(steps) == len(done)


@settings(max_examples=150)
@given(st.integers(0, 9999), KINDS)
def test_random_edits_of_random_graphs_at_once(seed: int, kinds: list[tuple[str, int]]) -> None:
    check_same(random_graph(random.Random(seed)), kinds)


@settings(max_examples=40)
@given(st.sampled_from(MODELS), KINDS)
def test_random_edits_of_models_at_once(name: str, kinds: list[tuple[str, int]]) -> None:
    check_same(model(name), kinds)


def check_proven(executor: Executor, data: bytes, kinds: list[tuple[str, int]]) -> None:
    done, _ = drawn(data, kinds)
    if not done:
        return
    steps = carried_out(data, [edit for _, edit in done])
    try:
        proven_pieces(executor, [[step] for step in steps])
    except GdsurgeonError:
        return
    for piece in joined_steps(steps):
        try:
            proven_pieces(executor, [piece])
        except DiffersError:
            raise
        except GdsurgeonError:  # no known feeds fit both, so that each is proven separately
            continue


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=15, phases=QUICKLY)
@given(st.integers(0, 9999), KINDS)
def test_random_edits_of_random_graphs_are_proven_at_once(
    executor: Executor, seed: int, kinds: list[tuple[str, int]]
) -> None:
    check_proven(executor, random_graph(random.Random(seed)), kinds)


@pytest.mark.slow
@pytest.mark.tensorflow
@settings(max_examples=6, phases=QUICKLY)
@given(st.sampled_from(MODELS), KINDS)
def test_random_edits_of_models_are_proven_at_once(executor: Executor, name: str, kinds: list[tuple[str, int]]) -> None:
    check_proven(executor, model(name), kinds)


def test_edits_are_drawn_of_every_kind() -> None:
    rng = random.Random(3)
    found: set[str] = set()
    for seed in range(12):
        data = random_graph(random.Random(seed))
        found.update(kind for kind, _ in drawn(data, [(kind, rng.randrange(99)) for kind in DRAWS])[0])
    assert found == DRAWS.keys()
    assert from_bytes(data).node_count
