"""to-savedmodel: signatures around a graph that stays as it is."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import loaders
from support.desk import Desk
from support.expecting import account, refused
from support.graphs import FLOAT, INT64, STRING, const, graph, identity, node, placeholder, tensor
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.cli.signature_tensors import named
from gdsurgeon.edits.to_savedmodel import Asset
from gdsurgeon.graph.graph import Graph
from gdsurgeon.wire.messages import message

CLASSIFIER = str(FIXTURES / "classifier.pb")


def saved(desk: Desk, *words: str) -> object:
    """What to-savedmodel makes of the classifier with these words."""
    ran = desk.run("to-savedmodel", CLASSIFIER, *words, "-o", "out", "--validate", "structure")
    assert ran.code == 0, ran.err
    return message("tensorflow.SavedModel").FromString((desk.folder / "out" / "saved_model.pb").read_bytes())


def test_the_graph_is_that_of_the_file_and_what_stands_around_it_names_it(desk: Desk) -> None:
    model = saved(desk, "--input", "picture=image", "--output", "scores=probabilities")
    (meta,) = model.meta_graphs  # type: ignore[attr-defined]
    assert meta.graph_def == message("tensorflow.GraphDef").FromString(Path(CLASSIFIER).read_bytes())
    assert list(meta.meta_info_def.tags) == ["serve"]
    (signature,) = meta.signature_def.values()
    assert {key: info.name for key, info in signature.inputs.items()} == {"picture": "image:0"}
    assert {key: info.name for key, info in signature.outputs.items()} == {"scores": "probabilities:0"}
    assert signature.method_name == "tensorflow/serving/predict"
    assert signature.inputs["picture"].dtype == 1
    assert [dim.size for dim in signature.inputs["picture"].tensor_shape.dim] == [-1, 64, 64, 3]


@pytest.mark.parametrize(
    ("words", "served"),
    [
        ([], {"serving_default": ({"image": "image"}, {"classes": "classes"})}),
        (
            ["--input=picture=image", "--output=scores=probabilities", "--input=b:x=image", "--output=b:y=classes"],
            {
                "b": ({"x": "image"}, {"y": "classes"}),
                "serving_default": ({"picture": "image"}, {"scores": "probabilities"}),
            },
        ),
    ],
)
def test_it_is_read_again_as_it_was_meant(desk: Desk, words: list[str], served: dict[str, Any]) -> None:
    """Without names it serves all inputs and outputs."""
    saved(desk, *words)
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    assert {key: (dict(each.inputs), dict(each.outputs)) for key, each in serving.called.items()} == served


def test_what_a_loader_runs_and_feeds_first(desk: Desk) -> None:
    (desk.folder / "words.txt").write_text("a\nb\n")
    graph = gds.load(str(FIXTURES / "tiny.pbtxt"))
    path = graph.add("path", "Placeholder", attrs={"dtype": b"\x30\x07"})
    graph.add("init", "NoOp", controls=[path])
    graph.save(str(desk.folder / "model.pb"))
    words = ("--init", "init", "--asset", "path=words.txt", "--validate", "structure")
    ran = desk.run("to-savedmodel", "model.pb", *words, "-o", "out")
    assert ran.code == 0, ran.err
    assert (desk.folder / "out" / "assets" / "words.txt").read_text() == "a\nb\n"
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    assert serving.initialising is not None
    assert serving.initialising.targets == ("init",)
    assert dict(serving.initialising.feeds) == {"path": f"{desk.folder}/out/assets/words.txt"}


@pytest.mark.parametrize(
    ("inputs", "outputs", "code", "facts"),
    [
        (["x=imag"], ["y=classes"], "no-such-node", {"node": "imag", "near": "image"}),
        (["x=image"], ["y=clases"], "no-such-node", {"node": "clases", "near": "classes"}),
        (["x=image", "x=image"], ["y=classes"], "name-taken", {"signature": "serving_default", "name": "x"}),
        (["x=MobilenetV2/Conv/weights"], ["y=classes"], "is-constant", {"tensor": "MobilenetV2/Conv/weights"}),
        (["a:x=image"], ["y=classes"], "no-such-output", {"signature": "a"}),
        (["x=probabilities"], ["y=MobilenetV2/Conv/Relu6"], "no-such-input", {"node": "image"}),
    ],
)
def test_what_is_refused(inputs: list[str], outputs: list[str], code: str, facts: dict[str, str]) -> None:
    given, taken = ([named(text, "") for text in texts] for texts in (inputs, outputs))
    graph = gds.load(CLASSIFIER)
    refused(graph, code, lambda g: gds.to_savedmodel(g, given, taken), **facts)
    assert graph.serving is None


def test_an_asset_is_fed_to_a_string() -> None:
    edit = partial(gds.to_savedmodel, inputs=[], outputs=[], assets=[Asset("image", "words.txt")])
    refused(gds.load(CLASSIFIER), "unfeedable", edit, tensor="image")


def test_mistakes_of_the_command_line(desk: Desk) -> None:
    (desk.folder / "taken").mkdir()
    (desk.folder / "taken" / "file").write_text("kept")
    desk.refused(6, "not-replaceable", "to-savedmodel", CLASSIFIER, "-o", "taken", file="taken")
    desk.refused(2, "conflicting-options", "to-savedmodel", CLASSIFIER, "-i")
    expected = {"option": "--output", "value": "scores", "expected": "[KEY:]NAME=TENSOR"}
    desk.refused(2, "not-a-pair", "to-savedmodel", CLASSIFIER, "--output", "scores", **expected)


@pytest.mark.tensorflow
def test_the_signatures_are_run(desk: Desk) -> None:
    words = ("--input", "picture=image", "--output", "scores=probabilities", "-o", "out", "--report", "report.json")
    ran = desk.run("to-savedmodel", CLASSIFIER, *words)
    assert ran.code == 0, ran.err
    proof = json.loads(desk.files()["report.json"])["proof"]
    assert (proof["compared"], proof["samples"], proof["batches"], proof["largest_difference"]) == (1, 2, [1, 2], 0)
    assert "serving_default(picture = image) -> scores = probabilities" in ran.err
    assert sorted(path.name for path in desk.folder.iterdir()) == ["out", "report.json"]


def lookups(path: bytes, *tables: str) -> Graph:
    """FOUND is where a word is in the file of PATH, asked of each of TABLES."""
    records = [
        path,
        placeholder("word", STRING, (-1,)),
        node("miss", "Const", dtype=INT64, value=tensor([-1], INT64, ())),
    ]
    for table in tables:
        records += [
            node(table, "HashTableV2", key_dtype=STRING, value_dtype=INT64, shared_name=table),
            node(f"{table}/init", "InitializeTableFromTextFileV2", [table, "path"], key_index=-2, value_index=-1),
            node(f"{table}/found", "LookupTableFindV2", [table, "word", "miss"], Tin=STRING, Tout=INT64),
        ]
    return graph(*records)


@pytest.mark.tensorflow
@pytest.mark.parametrize("tables", [("t",), ("t", "u")])
@pytest.mark.parametrize("kind", ["Const", "Placeholder"])
def test_every_loader_fills_tables_from_the_asset(desk: Desk, tf: Any, kind: str, tables: tuple[str, ...]) -> None:
    """Whatever the path in the graph was; the folder may be elsewhere by then."""
    (desk.folder / "words").mkdir()
    (desk.folder / "words" / "w.txt").write_text("ape\nbee\ncat\n")
    path = const("path", ["old.txt"], STRING, ()) if kind == "Const" else placeholder("path", STRING, ())
    lookups(path, *tables).save(str(desk.folder / "m.pb"))
    inits = [f"--init={table}/init" for table in tables]
    ran = desk.run("to-savedmodel", "m.pb", *inits, "--asset", "path=words/w.txt", "-o", "out/1")
    assert ran.code == 0, ran.err
    shutil.rmtree(desk.folder / "words")
    (desk.folder / "out").rename(desk.folder / "there")
    for load in loaders.ALL:
        found = load(tf, str(desk.folder / "there" / "1"), "serving_default", {"word": np.array([b"bee", b"dog"])})
        assert found == {f"{table}/found": [1, -1] for table in tables}, load


def test_a_variable_that_no_signature_needs_stops_nothing() -> None:
    records = [placeholder("x"), identity("y", "x"), node("count", "VariableV2", dtype=FLOAT, shape=()),
               identity("count/read", "count")]  # fmt: skip
    found = graph(*records)
    account(found, gds.to_savedmodel(found, [], [named("y=y", "")]))
    refused(graph(*records), "is-variable", lambda g: gds.to_savedmodel(g, [], []), node="count")
