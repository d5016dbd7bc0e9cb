"""Edits of the published graphs, byte for byte; nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from support.published import BINARY, EXECUTABLE, FOLDER, NOT_EXECUTABLE, Model, needs_models

import gdsurgeon as gds
from gdsurgeon.cli.main import exit_code
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.protos import GraphDef
from gdsurgeon.wire.write import read_chunks

pytestmark = needs_models

COLOCATION = b"loc:@"


def written(graph: Graph) -> bytes:
    return read_chunks(graph.chunks())


def spelt(text: str) -> tuple[str, str, str]:
    """An input as (caret, node, index)."""
    found = re.fullmatch(r"(\^?)([^:]*)(:\d+)?", text)
    assert found is not None, text
    return found[1], found[2], found[3] or ""


def respelt(data: bytes, rename: Callable[[str], str]) -> Any:
    """The GraphDef with all names of nodes put through RENAME: a rename as one would write it with protobuf."""
    graph_def = GraphDef.FromString(data)
    for node in graph_def.node:
        node.name = rename(node.name)
        for i, text in enumerate(node.input):
            caret, name, index = spelt(text)
            node.input[i] = caret + rename(name) + index
        if "_class" in node.attr:
            entries = node.attr["_class"].list.s
            for i, entry in enumerate(entries):
                if entry.startswith(COLOCATION):
                    entries[i] = COLOCATION + rename(entry[len(COLOCATION) :].decode()).encode()
    return graph_def


@pytest.mark.parametrize("name", BINARY)
def test_a_prefix_for_every_node_and_its_removal_give_back_the_file(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    graph = gds.load(str(FOLDER / name))
    gds.rename(graph, patterns=[("^", "prefix/")])
    edited = written(graph)
    assert GraphDef.FromString(edited) == respelt(data, lambda node: "prefix/" + node)
    back = gds.from_bytes(edited)
    gds.rename(back, patterns=[("^prefix/", "")])
    assert written(back) == data


UNSOUND = ("tfjs_iris_fused_raw.pb", "dl4j_scatter_nd_update_locking_rank1shape_1indices.pb")
"""Graphs that TensorFlow does not import."""


@pytest.mark.parametrize("name", sorted(EXECUTABLE | NOT_EXECUTABLE))
def test_inspect_names_the_inputs_and_outputs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model: Model = (EXECUTABLE | NOT_EXECUTABLE)[name]
    code = exit_code(["inspect", str(FOLDER / name), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert code == (3 if name in UNSOUND else 0)
    assert {i["name"]: (i["dtype"], i["shape"]) for i in found["inputs"]} == model.inputs
    assert set(model.outputs) <= {o["name"] for o in found["outputs"]}
    assert found["format"] == ("text" if model.text else "binary")
    assert found["bytes"] > 0 and found["nodes"] == sum(found["ops"].values())
