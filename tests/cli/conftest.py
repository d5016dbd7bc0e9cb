"""Desks on which graphs lie."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import CASES, FILES, MODEL, model
from support.desk import Desk
from support.hostile import HEAVY, PLAIN
from support.validating import CLASSIFIER, DECODE, LOOKUP, Bench

from gdsurgeon.cli.main import exit_code
from gdsurgeon.wire.protos import GraphDef


@pytest.fixture
def bench(desk: Desk) -> Bench:
    return Bench(desk)


@pytest.fixture
def files(desk: Desk, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk with a graph for every command, and the graphs that are added to it.

    If the parameter `name` of the test is a command that needs more nodes, the model has these nodes.
    """
    case = CASES.get(getattr(request.node, "callspec", None) and request.node.callspec.params.get("name"))
    if case is not None and case.more:
        monkeypatch.setitem(FILES, MODEL, model(*case.more))
    for name, data in FILES.items():
        desk.put(name, data)
    return desk


@pytest.fixture
def plain(desk: Desk) -> Desk:
    """A desk with a small graph."""
    desk.put("model.pb", PLAIN)
    return desk


@pytest.fixture
def heavy(desk: Desk) -> Desk:
    """A desk with a graph that is larger than a pipe or a block."""
    desk.put("model.pb", HEAVY)
    return desk


@pytest.fixture
def tty() -> Iterator[int]:
    """A terminal."""
    ours, theirs = pty.openpty()
    yield theirs
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def own_worker(bench: Bench, own_workers: None) -> Bench:
    """A bench whose commands start a worker each."""
    del own_workers
    return bench


@pytest.fixture(scope="module")
def surgery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What add-preprocessing and add-postprocessing make of the fixtures, and both with a mistake in it."""
    folder = tmp_path_factory.mktemp("surgery")
    served, labelled = str(folder / "served.pb"), str(folder / "labelled.pb")
    quick = ("--validate", "structure", "-q")
    assert exit_code(["add-preprocessing", CLASSIFIER, DECODE, "-o", served, *quick]) == 0
    assert exit_code(["add-postprocessing", served, LOOKUP, "-o", labelled, *quick]) == 0
    graph_def = GraphDef.FromString(Path(served).read_bytes())
    (decoder,) = [node for node in graph_def.node if node.op == "DecodeJpeg"]
    decoder.attr["dct_method"].s = b"INTEGER_FAST"
    decoder.attr["fancy_upscaling"].b = False
    (folder / "served_wrong.pb").write_bytes(graph_def.SerializeToString())
    graph_def = GraphDef.FromString(Path(labelled).read_bytes())
    (labels,) = [node for node in graph_def.node if node.name == "labels"]
    labels.attr["value"].tensor.string_val[:] = [b"wrong"] * 10
    (folder / "labelled_wrong.pb").write_bytes(graph_def.SerializeToString())
    return folder
