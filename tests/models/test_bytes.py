"""Edits of the published graphs, byte for byte; nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.published import ABSENT, BINARY, EXECUTABLE, FOLDER, NOT_EXECUTABLE, Model

import gdsurgeon as gds
from gdsurgeon.cli.main import exit_code
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.fields import fields
from gdsurgeon.wire.messages import message
from gdsurgeon.wire.write import read_chunks

pytestmark = [pytest.mark.models, pytest.mark.skipif(not FOLDER.is_dir(), reason=ABSENT)]

COLOCATION = b"loc:@"


def written(graph: Graph) -> bytes:
    return read_chunks(graph.chunks())


def places(graph: Graph) -> list[str]:
    """A node at the beginning, in the middle and at the end."""
    names = list(graph.names())
    return list(dict.fromkeys((names[0], names[len(names) // 2], names[-1])))


def records(data: bytes) -> tuple[dict[str, bytes], list[bytes]]:
    """The serialised nodes by name, and the other fields of a GraphDef as they are."""
    nodes: dict[str, bytes] = {}
    others: list[bytes] = []
    for field in fields(data, 0, len(data)):
        if field.number == 1:
            body = data[field.value : field.end]
            nodes[message("tensorflow.NodeDef").FromString(body).name] = data[field.start : field.end]
        else:
            others.append(data[field.start : field.end])
    return nodes, others


def mentions(record: bytes, names: set[str]) -> bool:
    """Whether the node is called one of NAMES, reads one, or is colocated with one."""
    node = message("tensorflow.NodeDef").FromString(record[record_body(record) :])
    held = {node.name} | {spelt(text)[1] for text in node.input}
    held |= {s[len(COLOCATION) :].decode() for s in node.attr["_class"].list.s if s.startswith(COLOCATION)}
    return bool(held & names)


def record_body(record: bytes) -> int:
    field = next(iter(fields(record, 0, len(record))))
    return field.value


def spelt(text: str) -> tuple[str, str, str]:
    """An input as (caret, node, index)."""
    found = re.fullmatch(r"(\^?)([^:]*)(:\d+)?", text)
    assert found is not None, text
    return found[1], found[2], found[3] or ""


def respelt(data: bytes, rename: Callable[[str], str]) -> Any:
    """The GraphDef with all names of nodes put through RENAME: a rename as one would write it with protobuf."""
    graph_def = message("tensorflow.GraphDef").FromString(data)
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
def test_a_rename_and_its_inverse_give_back_the_file(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    for old in places(gds.load(str(FOLDER / name))):
        graph = gds.load(str(FOLDER / name))
        gds.rename(graph, [(old, "renamed/by_test")])
        edited = written(graph)
        assert edited != data
        back = gds.from_bytes(edited)
        gds.rename(back, [("renamed/by_test", old)])
        assert written(back) == data


@pytest.mark.parametrize("name", BINARY)
def test_renaming_three_nodes_at_once_and_back_gives_back_the_file(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    graph = gds.load(str(FOLDER / name))
    pairs = [(old, f"renamed_{i}") for i, old in enumerate(places(graph))]
    gds.rename(graph, pairs)
    edited = written(graph)
    assert message("tensorflow.GraphDef").FromString(edited) == respelt(data, lambda n: dict(pairs).get(n, n))
    back = gds.from_bytes(edited)
    gds.rename(back, [(new, old) for old, new in pairs])
    assert written(back) == data


@pytest.mark.parametrize("name", BINARY)
def test_a_prefix_for_every_node_and_its_removal_give_back_the_file(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    graph = gds.load(str(FOLDER / name))
    gds.rename(graph, patterns=[("^", "prefix/")])
    edited = written(graph)
    assert message("tensorflow.GraphDef").FromString(edited) == respelt(data, lambda node: "prefix/" + node)
    back = gds.from_bytes(edited)
    gds.rename(back, patterns=[("^prefix/", "")])
    assert written(back) == data


@pytest.mark.parametrize("name", BINARY)
def test_exchanging_two_names_twice_gives_back_the_file(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    graph = gds.load(str(FOLDER / name))
    first, last = places(graph)[0], places(graph)[-1]
    pairs = [(first, last), (last, first)]
    gds.rename(graph, pairs)
    edited = written(graph)
    assert message("tensorflow.GraphDef").FromString(edited) == respelt(data, lambda n: dict(pairs).get(n, n))
    back = gds.from_bytes(edited)
    gds.rename(back, pairs)
    assert written(back) == data


@pytest.mark.parametrize("name", BINARY)
def test_a_graph_that_was_not_edited_is_written_as_it_was(name: str) -> None:
    graph = gds.load(str(FOLDER / name))
    for node in graph.nodes():
        _ = node.inputs, node.controls, node.colocated, node.attr_keys
    assert written(graph) == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", BINARY)
def test_untouched_nodes_keep_their_bytes(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    graph = gds.load(str(FOLDER / name))
    old = places(graph)[len(places(graph)) // 2]
    gds.rename(graph, [(old, "renamed/by_test")])
    nodes, others = records(data)
    nodes_after, others_after = records(written(graph))
    assert others_after == others
    assert [n if n != "renamed/by_test" else old for n in nodes_after] == list(nodes)
    untouched = {n for n, record in nodes.items() if not mentions(record, {old})}
    assert {n: nodes_after[n] for n in untouched} == {n: nodes[n] for n in untouched}
    touched = set(nodes) - untouched - {old}
    assert all(nodes_after[n] != nodes[n] for n in touched)


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


@pytest.mark.parametrize("name", sorted(EXECUTABLE | NOT_EXECUTABLE))
def test_inspect_tells_people_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model: Model = (EXECUTABLE | NOT_EXECUTABLE)[name]
    exit_code(["inspect", str(FOLDER / name)])
    out = capsys.readouterr().out
    head, rest = out.split("\n", 1)
    assert head.startswith(f"{FOLDER / name}  {'text' if model.text else 'binary'} GraphDef, ")
    inputs, outputs = rest.split("  outputs", 1)
    for wanted, part in ((model.inputs, inputs), (model.outputs, outputs)):
        for tensor in wanted:
            assert re.search(rf"^    {re.escape(tensor)} ", part, re.MULTILINE), tensor


@pytest.mark.parametrize("name", ["dl4j_examples_frozen_graph.pbtxt", "dl4j_train_iris_text.pb"])
def test_a_rename_and_its_inverse_give_back_the_graph_of_a_text_file(name: str, tmp_path: Path) -> None:
    from google.protobuf import text_format

    def parsed(path: Path) -> Any:
        return text_format.Parse(path.read_text(), message("tensorflow.GraphDef")())

    old = EXECUTABLE[name].outputs[0]
    there, back = str(tmp_path / "there.pbtxt"), str(tmp_path / "back.pbtxt")
    assert exit_code(["rename", str(FOLDER / name), f"{old}=renamed", "--validate", "none", "-q", "-o", there]) == 0
    assert exit_code(["rename", there, f"renamed={old}", "--validate", "none", "-q", "-o", back]) == 0
    assert 'name: "renamed"' in Path(there).read_text()
    assert parsed(Path(back)) == parsed(FOLDER / name)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("serving_half_plus_two_tf2_sm/fingerprint.pb", "a part of a model"),
        ("t2o_regression_ckpt/model.index", "a part of a model"),
        ("t2o_regression_ckpt", "a folder with a checkpoint (model)"),
    ],
)
def test_what_is_no_graphdef_is_named(name: str, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["inspect", str(FOLDER / name)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"Error: {FOLDER / name} is {what}")
    assert [line.partition(":")[0] for line in captured.err.splitlines()] in (["Error"], ["Error", "Hint"])
