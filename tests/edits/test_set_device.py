"""set-device: cleared, mapped, set; in the graph and inside functions."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from support import every_edit, graphs
from support.desk import Desk, check_error
from support.expecting import account, expect, refused
from support.graphs import FLOAT, dtypes, func, function, graph, identity, node, placeholder
from support.mutants import Accounted
from support.paths import FIXTURES

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.set_device import set_device
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection

COMMAND = {
    "good": ("model.pb", "--clear"),
    "poor": (("model.pb",),),
    "unknown": (("model.pb", "--assign", "/cpu:0", "--node", "kep"), "kept"),
    "node": ("tower/same", ("--assign", "/cpu:1"), None),
}
MODEL = every_edit.built(every_edit.model)
MUTATED = {
    "pairs": Accounted(MODEL, lambda g: set_device(g, pairs=[("/device:CPU:0", "/gpu:1")])),
    "scope": Accounted(MODEL, lambda g: set_device(g, device="/cpu:0", nodes=Selection(scopes=("t",)))),
}
WORKER = "/job:worker/replica:0/task:1/device:GPU:0"


def placed(*devices: str) -> Graph:
    """Nodes n0, n1, ... on DEVICES, behind a placeholder that is on none."""
    return graph(placeholder("x"), *(identity(f"n{i}", "x", device=d) for i, d in enumerate(devices)))


def devices(found: Graph) -> list[str]:
    """Those of the nodes in file order, without the placeholder's."""
    return [n.device for n in graphs.parsed(found).node if n.name != "x"]


def noted(note: str, old: str, new: str, count: int, inside: int = 0) -> None:
    check_error(note, "device-set", {"old": old, "new": new, "count": count, "inside": inside})


def with_functions() -> Graph:
    inner = identity("y", "x", device="/gpu:0")
    other = identity("y", "x", device="/cpu:0")
    plain = identity("y", "x")
    library = graphs.library(function("f", inner), function("g", other), function("h", plain))
    call = node("call", "PartitionedCall", ["x"], device=WORKER, Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func("f"))
    return graph(placeholder("x"), call, trailer=library + graphs.VERSIONS)


def inner_devices(found: Graph) -> dict[str, list[str]]:
    return {f.signature.name: [n.device for n in f.node_def] for f in graphs.parsed(found).library.function}


def test_clear() -> None:
    after = [placeholder("x"), *(identity(f"n{i}", "x") for i in range(4))]
    before = placed("/gpu:0", "", WORKER, "nonsense")
    result = expect(before, lambda g: set_device(g, clear=True), after, command="set-device --clear")
    assert result.intent.changed == ["n0", "n2", "n3"]
    assert result.claims == (SameOutputs(even_alone=True),)
    for note, old in zip(result.notes, ("/gpu:0", WORKER, "nonsense"), strict=True):
        noted(note, old, "", 1)


@pytest.mark.parametrize(
    ("pair", "before", "after"),
    [
        (("/gpu:0", "/cpu:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), "/device:GPU:0", "/device:CPU:0"),
        (("/device:GPU:0", "/device:CPU:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), WORKER, "/job:worker/replica:0/task:1/device:CPU:0"),
        (("/gpu:0", "/cpu:0"), "/gpu:1", "/gpu:1"),
        (("gpu:0", "cpu:0"), "/gpu:0", "/device:CPU:0"),
        (("/gpu:*", "/cpu:0"), "/gpu:1", "/device:CPU:0"),
        (("/gpu", "/cpu:0"), "/device:GPU:*", "/device:CPU:0"),
        (("/gpu:0", "/cpu:*"), "/gpu:0", "/device:CPU:*"),
        (("/job:worker", "/job:localhost"), WORKER, "/job:localhost/replica:0/task:1/device:GPU:0"),
        (("/job:worker/task:1", ""), WORKER, "/replica:0/device:GPU:0"),
        (("/job:worker/gpu:0", "/cpu:0"), WORKER, "/replica:0/task:1/device:CPU:0"),
        (("/job:worker/gpu:0", "/cpu:0"), "/gpu:0", "/gpu:0"),
        (("/job:worker", "/cpu:2"), WORKER, "/replica:0/task:1/device:CPU:2"),
        (("/gpu:0", ""), "/gpu:0", ""),
        (("nonsense", "/cpu:0"), "nonsense", "/device:CPU:0"),
        (("/device:MYNPU:0", "/cpu:0"), "/device:MyNpu:0", "/device:CPU:0"),
    ],
)
def test_map(pair: tuple[str, str], before: str, after: str) -> None:
    found = placed(before, "/gpu:0", "/device:GPU:1", WORKER, "nonsense", "/device:MyNpu:0")
    set_device(found, pairs=[pair])
    assert devices(found)[0] == after


def test_a_selection_bounds_what_is_cleared_and_mapped() -> None:
    found = placed("/gpu:0", "/gpu:0", "/gpu:0")
    set_device(found, clear=True, nodes=Selection(regexes=("[01]$",)))
    assert devices(found) == ["", "", "/gpu:0"]
    found = with_functions()
    set_device(found, pairs=[("/gpu:0", "/cpu:0")], nodes=["call"])
    assert inner_devices(found) == {"f": ["/gpu:0"], "g": ["/cpu:0"], "h": [""]}


def test_functions() -> None:
    found = with_functions()
    result = set_device(found, pairs=[("/gpu:0", "/cpu:0")])
    assert inner_devices(found) == {"f": ["/device:CPU:0"], "g": ["/cpu:0"], "h": [""]}
    assert devices(found) == ["/job:worker/replica:0/task:1/device:CPU:0"]
    assert (result.intent.changed, result.intent.functions.changed) == (["call"], ["f"])
    noted(result.notes[1], "/gpu:0", "/device:CPU:0", 1, 1)
    found = with_functions()
    result = set_device(found, clear=True)
    assert inner_devices(found) == {"f": [""], "g": [""], "h": [""]}
    assert result.intent.functions.changed == ["f", "g"]


@pytest.mark.parametrize(
    ("selection", "inside", "outside"),
    [
        (Selection(ops=("Identity",)), ["/device:GPU:1"], [WORKER]),
        (Selection(ops=("Identity", "PartitionedCall")), ["/device:GPU:1"], ["/device:GPU:1"]),
        (Selection(ops=("PartitionedCall",), exclude=("y",)), None, ["/device:GPU:1"]),
        (Selection(regexes=("call",)), None, ["/device:GPU:1"]),
    ],
)
def test_op_types_inside_functions(selection: Selection, inside: list[str] | None, outside: list[str]) -> None:
    found = with_functions()
    account(found, set_device(found, device="/gpu:1", nodes=selection))
    assert devices(found) == outside
    there = inner_devices(found)
    assert there == (inner_devices(with_functions()) if inside is None else dict.fromkeys(there, inside))
    excluding = partial(set_device, device="/gpu:1", nodes=Selection(ops=("Identity",), exclude=("y",)))
    refused(found, "nothing-matched", excluding, value="Identity")


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        ({"pairs": [("/gpu:0", "/cpu:0"), ("/gpu:*", "/cpu:1")]}, "given-twice", {"device": "/gpu:0"}),
        ({"device": "/cpu:0", "nodes": ["n2"]}, "nothing-to-do", {"devices": {"/cpu:0": 1}}),
        ({"device": "", "nodes": ["n2"]}, "bad-value", {"value": ""}),
        ({"device": "/cpu:0"}, "nothing-selected", {}),
        ({"clear": True, "nodes": ["x"]}, "nothing-to-do", {"devices": {}}),
        ({}, "conflicting-options", {}),
    ],
)
def test_refusals(options: dict[str, Any], code: str, facts: dict[str, Any]) -> None:
    edit = partial(set_device, **options)
    refused(placed("/gpu:0", "/gpu:0", "/cpu:0"), code, edit, error=GdsurgeonError, **facts)


def test_devices_inside_functions_count_among_those_there_are() -> None:
    edit = partial(set_device, pairs=[("/gpu:7", "/cpu:0")])
    refused(with_functions(), "nothing-matched", edit, devices={WORKER: 1, "/gpu:0": 1, "/cpu:0": 1})


def test_hostile_devices_are_escaped() -> None:
    hostile = placed("/gpu:\x1b[2J")
    error = refused(hostile, "nothing-matched", lambda g: set_device(g, pairs=[("/gpu:7", "/cpu:0")]))
    assert "\x1b" not in "".join([error.message, *set_device(hostile, clear=True).notes])


# The command line.


@pytest.mark.tensorflow
def test_a_graph_that_is_pinned_to_a_gpu_gives_the_same_without(desk: Desk) -> None:
    found = from_bytes((FIXTURES / "functions_tf2.pb").read_bytes())
    set_device(found, device="/gpu:0", nodes=Selection(scopes=("",)))
    desk.put("pinned.pb", graphs.written(found))
    desk.done("set-device", "pinned.pb", "--clear", "-o", "out.pb", "--report", "report.json")
    proof = json.loads(desk.files()["report.json"])["proof"]
    assert proof["compared"] and proof["largest_difference"] == 0
