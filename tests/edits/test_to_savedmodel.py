"""to-savedmodel: signatures around a graph that stays as it is; constants that become variables."""

from __future__ import annotations

import shutil
import struct
from functools import partial
from typing import Any

import numpy as np
import pytest
from support import loaders
from support.desk import Desk
from support.expecting import account, refused
from support.graphs import FLOAT, INT64, STRING, const, dtype, graph, identity, node, placeholder, tensor, typed
from support.meta_graphs import meta_graph, put
from support.paths import FIXTURES

import gdsurgeon as gds
from gdsurgeon.analysis.queries.constants import ConstantValues
from gdsurgeon.cli.options import signature_entries
from gdsurgeon.container.checkpoint.open import open_checkpoint
from gdsurgeon.container.checkpoint.table import pieces_of
from gdsurgeon.edits.to_savedmodel import Asset
from gdsurgeon.graph.graph import Graph
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.wire.fields import encode_len
from gdsurgeon.wire.protos import MetaGraphDef, TensorProto, VariableDef, message
from gdsurgeon.wire.write import ChunkSource

CLASSIFIER = str(FIXTURES / "classifier.pb")


def test_a_meta_graph_becomes_a_model_of_its_graph(desk: Desk) -> None:
    meta = MetaGraphDef.FromString(encode_len(2, G))
    meta.meta_info_def.tensorflow_git_version = "unknown"
    meta.collection_def["losses"].node_list.value.append("y:0")
    desk.put("model.meta", meta.SerializeToString())
    desk.done("to-savedmodel", "model.meta", "-o", "out", "--validate", "structure")
    (found,) = (
        message("tensorflow.SavedModel").FromString((desk.folder / "out/saved_model.pb").read_bytes()).meta_graphs
    )
    assert [*found.signature_def] == ["serving_default"]
    assert not found.collection_def


def test_what_a_loader_runs_and_feeds_first(desk: Desk) -> None:
    (desk.folder / "words.txt").write_text("a\nb\n")
    graph = gds.load(str(FIXTURES / "tiny.pbtxt"))
    path = graph.add("path", "Placeholder", attrs={"dtype": b"\x30\x07"})
    graph.add("init", "NoOp", controls=[path])
    graph.save(str(desk.folder / "model.pb"))
    words = ("--init", "init", "--asset", "path=words.txt", "--validate", "structure")
    desk.done("to-savedmodel", "model.pb", *words, "-o", "out")
    assert (desk.folder / "out" / "assets" / "words.txt").read_text() == "a\nb\n"
    serving = gds.load(str(desk.folder / "out")).serving
    assert serving is not None
    assert serving.initialising is not None
    assert serving.initialising.targets == ("init",)
    assert dict(serving.initialising.feeds) == {"path": f"{desk.folder}/out/assets/words.txt"}
    desk.refused(3, "unreadable", "to-savedmodel", "model.pb", "--asset", "path=no.txt", *words[4:], file="no.txt")
    (desk.folder / "scripts").mkdir()
    desk.put("scripts/own.txt", b"c\n")
    desk.put("scripts/fix.gds", b"to-savedmodel --init init --asset path=own.txt")
    desk.done("apply", "model.pb", "scripts/fix.gds", "-o", "of_script", "--validate", "structure")
    assert (desk.folder / "of_script" / "assets" / "own.txt").read_text() == "c\n"
    edit = partial(gds.to_savedmodel, inputs=[], outputs=[], init=["init"], assets=[Asset("path", "words.txt")])
    gds.operate("model.pb", edit, out="from_library", level="structure")
    assert (desk.folder / "from_library" / "assets" / "words.txt").read_text() == "a\nb\n"


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
    given, taken = (signature_entries(tuple(texts), "") for texts in (inputs, outputs))
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
    expected = {"option": "--outputs", "value": "=scores", "expected": "[NAME=]TENSOR"}
    desk.refused(2, "not-a-pair", "to-savedmodel", CLASSIFIER, "--outputs", "=scores", **expected)


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


@pytest.mark.parametrize("tables", [("t",), ("t", "u")])
@pytest.mark.parametrize("kind", ["Const", "Placeholder"])
def test_every_loader_fills_tables_from_the_asset(desk: Desk, tf: Any, kind: str, tables: tuple[str, ...]) -> None:
    """Whatever the path in the graph was; the folder may be elsewhere by then."""
    (desk.folder / "words").mkdir()
    (desk.folder / "words" / "w.txt").write_text("ape\nbee\ncat\n")
    path = const("path", ["old.txt"], STRING, ()) if kind == "Const" else placeholder("path", STRING, ())
    lookups(path, *tables).save(str(desk.folder / "m.pb"))
    inits = [f"--init={table}/init" for table in tables]
    desk.done("to-savedmodel", "m.pb", *inits, "--asset", "path=words/w.txt", "-o", "out/1")
    shutil.rmtree(desk.folder / "words")
    (desk.folder / "out").rename(desk.folder / "there")
    for load in loaders.ALL:
        found = load(tf, str(desk.folder / "there" / "1"), "serving_default", {"word": np.array([b"bee", b"dog"])})
        assert found == {f"{table}/found": [1, -1] for table in tables}, load


def test_a_variable_that_no_signature_needs_stops_nothing() -> None:
    records = [placeholder("x"), identity("y", "x"), node("count", "VariableV2", dtype=FLOAT, shape=()),
               identity("count/read", "count")]  # fmt: skip
    found = graph(*records)
    account(found, gds.to_savedmodel(found, [], signature_entries(("y=y",), "")))
    refused(graph(*records), "is-variable", lambda g: gds.to_savedmodel(g, [], []), node="count")


TensorProto, VariableDef = TensorProto, VariableDef
G = (
    placeholder("x", FLOAT, (-1, 2))
    + node("w", "Const", dtype=FLOAT, value=tensor([1.5, 2.5]))
    + typed("Mul", "y", "x", "w")
)


def unfrozen(desk: Desk, data: bytes, *words: str) -> Any:
    """What of DATA with constants that are variables is written; its proof is of the structure alone."""
    desk.put("model.pb", data)
    desk.done("to-savedmodel", "model.pb", *words, "-o", "out", "--validate", "structure")
    return message("tensorflow.SavedModel").FromString((desk.folder / "out" / "saved_model.pb").read_bytes())


def kept(name: str, values: bytes, kind: int = 1) -> bytes:
    return node(name, "Const", dtype=dtype(kind), value=encode_len(8, values))


def test_values_are_those_of_the_constants(desk: Desk) -> None:
    """However a constant says its value: as bytes, one by one, or one for all."""
    tensors = {
        "bytes": TensorProto(dtype=1, tensor_content=struct.pack("<3f", 1, 2, float("nan"))),
        "listed": TensorProto(dtype=1, float_val=[1, 2, 3]),
        "splat": TensorProto(dtype=1, float_val=[0.5]),
        "nothing": TensorProto(dtype=1),
        "half": TensorProto(dtype=19, half_val=[15360, 0, 49152]),
        "double": TensorProto(dtype=2, double_val=[0.25]),
        "bfloat": TensorProto(dtype=14, tensor_content=b"\x80\x3f\x00\x40\x40\x40"),
    }
    graph = b""
    for name, proto in tensors.items():
        proto.tensor_shape.dim.add(size=3)
        graph += kept(name, proto.SerializeToString(), proto.dtype)
    unfrozen(desk, graph + kept("scalar", TensorProto(dtype=1, float_val=[7]).SerializeToString()), "--unfreeze", ".")
    with open_checkpoint(str(desk.folder / "out" / "variables" / "variables")) as checkpoint:
        found = {key: b"".join(pieces_of(checkpoint.stretch(key, None).chunks)) for key in checkpoint.keys}
        assert checkpoint.tensor("scalar").shape == ()
    assert found == {
        "bytes": struct.pack("<3f", 1, 2, float("nan")),
        "listed": struct.pack("<3f", 1, 2, 3),
        "splat": struct.pack("<3f", 0.5, 0.5, 0.5),
        "nothing": bytes(12),
        "half": struct.pack("<3e", 1, 0, -2),
        "double": struct.pack("<3d", 0.25, 0.25, 0.25),
        "bfloat": b"\x80\x3f\x00\x40\x40\x40",
        "scalar": struct.pack("<f", 7),
    }
    desk.done("checkpoint", "out/variables/variables", "--verify")


@pytest.mark.parametrize(
    ("exit_code", "pattern", "code", "facts"),
    [
        (4, "nothing", "nothing-matched", {"value": "nothing", "left": []}),
        (4, "axis", "nothing-matched", {"value": "axis", "left": ["axis"]}),
        (2, "(", "bad-pattern", {"value": "("}),
        (4, "big", "too-large", {"node": "big"}),
    ],
)
def test_what_stays_frozen(desk: Desk, exit_code: int, pattern: str, code: str, facts: dict[str, Any]) -> None:
    big = TensorProto(dtype=1, float_val=[1])
    big.tensor_shape.dim.add(size=1 << 36)
    axis = TensorProto(dtype=3, int_val=[1])
    desk.put("model.pb", G + kept("big", big.SerializeToString()) + kept("axis", axis.SerializeToString(), 3))
    quick = ("--validate", "structure", "-o", "out")
    desk.refused(exit_code, code, "to-savedmodel", "model.pb", "--unfreeze", pattern, *quick, **facts)


def test_in_a_loop() -> None:
    """A constant that waits for the iteration is there in each."""
    graph = gds.load(str(FIXTURES / "while_v1.pb"))
    attrs = {"dtype": FLOAT, "value": encode_len(8, TensorProto(dtype=1, float_val=[1]).SerializeToString())}
    inside = graph.add("inside", "Const", controls=[graph["while/Identity"]], attrs=attrs)
    graph.add("read", "Identity", [inside.output], attrs={"T": FLOAT})
    edit = partial(gds.to_savedmodel, inputs=[], outputs=[], unfreeze="^inside$")
    refused(graph, "crosses-loop", edit, node="inside")


@pytest.mark.tensorflow
@pytest.mark.parametrize("out", [("-o", "out"), ("-n",), ("-o", "-")])
def test_proven_with_restored_values(desk: Desk, monkeypatch: pytest.MonkeyPatch, out: tuple[str, ...]) -> None:
    """A checkpoint with other values is noticed."""
    desk.put("model.pb", G)
    arguments = ("to-savedmodel", "model.pb", "--unfreeze", "^w$", *out)
    desk.done(*arguments)
    shutil.rmtree(desk.folder / "out", ignore_errors=True)
    values = "gdsurgeon.edits.to_savedmodel.values_of"
    nines = ChunkSource([struct.pack("<2f", 9, 9)], "a value")
    monkeypatch.setattr(values, lambda _: ConstantValues(FLOAT32, (2,), nines))
    ran = desk.run(*arguments)
    assert ran.code == 5, ran.err
    assert (sorted(desk.files()), desk.temporary_files()) == (["model.pb"], [])


def test_neither_does_it_stop_freeze(desk: Desk) -> None:
    """Whose checkpoint has no value for it."""
    meta = meta_graph()
    meta.graph_def.MergeFromString(node("count", "VariableV2", dtype=FLOAT, shape=()))
    put(desk.folder / "model", meta)
    desk.done("freeze", "model", "-o", "out.pb", "--validate", "structure")
    assert "count" not in gds.load(str(desk.folder / "out.pb"))
