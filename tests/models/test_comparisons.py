"""Comparisons of published graphs: with graphs that have one small change, and with graphs that are exported again."""

from __future__ import annotations

import pytest
from support.published import EXECUTABLE, FOLDER, needs_models
from support.re_exports import CHANGES, exported
from support.small_changes import unnamed

import gdsurgeon as gds
from gdsurgeon.compare.match import match
from gdsurgeon.container.load import load
from gdsurgeon.wire.write import read_chunks

pytestmark = needs_models


@pytest.mark.parametrize("name", EXECUTABLE)
def test_a_small_change_is_named(name: str) -> None:
    data = read_chunks(gds.load(str(FOLDER / name)).chunks())
    assert unnamed(data, 1 if len(data) > 1 << 20 else 3) == []


EXACT = [kind for kind in CHANGES if "more" not in kind and "less" not in kind and "front" not in kind]


def precision_and_recall(name: str, kind: str) -> tuple[float, float]:
    graph = load(str(FOLDER / name))
    other, truth = exported(graph, kind)
    matching = match(graph, other)
    names, others = matching.a.names, matching.b.names
    right = sum(truth.get(names[i]) == others[j] for i, j in matching.pairs())
    return right / sum(1 for _ in matching.pairs()), right / len(truth)


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("name", ["kws_ds_cnn_s.pb", "unet_person_08.pb", "mtcnn.pb"])
def test_nodes_are_found_again(name: str, kind: str) -> None:
    precision, recall = precision_and_recall(name, kind)
    assert precision >= (1 if kind in EXACT else 0.99)
    assert recall >= (1 if kind in EXACT else 0.97)
