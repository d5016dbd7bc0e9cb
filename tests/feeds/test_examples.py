"""Texts for an input by what consumes it: the features of examples."""

from __future__ import annotations

from typing import Any

import pytest
from support.feeding import CALL, made, returned, spec_of
from support.graphs import body_node, func, tensor
from support.inferring_texts import (
    output,
    parse_single,
    sequences,
    table_of,
    text_input,
)

from gdsurgeon.proof.executor import Executor


@pytest.mark.tensorflow
def test_features_of_an_example_are_what_they_are_used_for(executor: Executor) -> None:
    """An image that is decoded, an index into a table, pixels, and the key of another table."""
    features = [("image", "string", ()), ("id", "int64", (9,)), ("raw", "float32", (300,)), ("label", "string", ())]
    m = parse_single(*features)  # type: ignore[arg-type]
    m.node("decoded", "DecodeJpeg", [output(0)], channels=3)
    m.const("rows", [[1.0], [2.0]])
    m.const("axis", 0, "int32")
    m.node("emb", "GatherV2", ["rows", output(1), "axis"], Tparams="float32", Tindices="int64", Taxis="int32")
    m.const("c", 255.0)
    m.node("scaled", "RealDiv", [output(2), "c"], T="float32")
    table = table_of(m, ["cat", "dog"])
    m.const("unknown", -1, "int64")
    m.node("found", "LookupTableFindV2", [table, output(3), "unknown"], Tin="string", Tout="int64")
    found = returned(executor, m)
    assert found["decoded"].shape == (96, 128, 3)
    assert set(found["emb"].numpy().reshape(-1)) == {1.0, 2.0}
    assert 0.5 < found["scaled"].numpy().max() <= 1
    assert spec_of(m.graph()).content.features[3].content.choices == (b"cat", b"dog")
    assert made(m) == "tf.Example with image, id, raw, label, for ParseSingleExample 'parsed'"


@pytest.mark.tensorflow
def test_features_inside_a_function_are_what_they_are_used_for_there(executor: Executor) -> None:
    """Outputs have names in a body: the second dense feature is an index, and so are the values of the sparse one."""
    m = text_input()
    f = m.function("serve", {"text": "string"}, {"dense": "float32", "sparse": "float32"})
    for name, value, dtype in (
        ("no_a", [], "float32"),
        ("no_b", [], "int64"),
        ("rows", [[1.0], [2.0]], "float32"),
        ("axis", 0, "int32"),
    ):
        body_node(f, name, "Const", dtype=dtype, value=tensor(value, dtype))
    body_node(
        f,
        "parsed",
        "ParseSingleExample",
        ["text", "no_a:output:0", "no_b:output:0"],
        num_sparse=2,
        sparse_keys=["r", "s"],
        sparse_types=["float32", "int64"],
        dense_keys=["a", "b"],
        Tdense=["float32", "int64"],
        dense_shapes=[(), (20,)],
    )
    types = {"Tparams": "float32", "Tindices": "int64", "Taxis": "int32"}
    for out, index in (("dense", "parsed:dense_values:1"), ("sparse", "parsed:sparse_values:1")):
        body_node(f, out, "GatherV2", ["rows:output:0", index, "axis:output:0"], **types)
        f.ret[out] = f"{out}:output:0"
    call: dict[str, Any] = {"Tin": ["string"], "Tout": ["float32", "float32"], "f": func("serve"), **CALL}
    m.node("y", "PartitionedCall", ["x"], **call)
    assert set(returned(executor, m)["y"].numpy().reshape(-1)) == {1.0, 2.0}
    made_for = {feature.key: feature.content.made for feature in spec_of(m.graph()).content.features}
    assert made_for["b"] == "indices below 2, for GatherV2 'dense'"
    assert made_for["s"] == "indices below 2, for GatherV2 'sparse'"
    assert made_for["a"].startswith("numbers from 0 to 1")


def test_only_the_first_keys_are_listed() -> None:
    m = parse_single(*((f"k{i}", "float32", ()) for i in range(8)))
    assert made(m) == "tf.Example with k0, k1, k2, k3, k4 and 3 more, for ParseSingleExample 'parsed'"


@pytest.mark.tensorflow
def test_a_dense_feature_of_a_length_of_its_own(executor: Executor) -> None:
    m = parse_single(("rows", "float32", (-1, 3)), ("one", "int64", ()), batch=2)
    m.graph_def.node[1].attr["value"].tensor.tensor_shape.Clear()  # the padding: one number
    m.graph_def.node[1].attr["value"].tensor.tensor_shape.SetInParent()
    m.graph_def.node[1].attr["value"].tensor.float_val.append(0.0)
    m.node("y", "Identity", ["parsed"], T="float32")
    found = returned(executor, m)["y"].numpy()
    assert found.shape == (2, 1, 3) and (found > 0).all()
    assert len(set(found.reshape(-1))) == 6


@pytest.mark.tensorflow
def test_two_features_of_one_dtype_differ(executor: Executor) -> None:
    m = parse_single(("a", "float32", (4,)), ("b", "float32", (4,)))
    for i in range(2):
        m.node(f"y{i}", "Identity", [output(i)], T="float32")
    found = returned(executor, m)
    assert found["y0"].numpy().tolist() != found["y1"].numpy().tolist()


@pytest.mark.tensorflow
def test_ragged_features_have_values(executor: Executor) -> None:
    m = text_input((2,))
    for name, keys in (("names", []), ("nothing", []), ("keys", ["words", "ids"])):
        m.const(name, keys, "string")
    m.node(
        "parsed",
        "ParseExampleV2",
        ["x", "names", "nothing", "nothing", "keys"],
        num_sparse=0,
        sparse_types=[],
        Tdense=[],
        dense_shapes=[],
        ragged_value_types=["string", "int64"],
        ragged_split_types=["int64", "int32"],
    )
    m.const("rows", [[1.0], [2.0]])
    m.const("axis", 0, "int32")
    m.node("emb", "GatherV2", ["rows", "parsed:1", "axis"], Tparams="float32", Tindices="int64", Taxis="int32")
    m.node("words", "Identity", ["parsed:0"], T="string")
    m.node("splits", "Identity", ["parsed:2"], T="int64")
    found = returned(executor, m)
    assert found["words"].shape == (4,) and found["emb"].shape == (4, 1)
    assert found["splits"].numpy().tolist() == [0, 2, 4]


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["ParseExample", "ParseExampleV2"])
def test_dense_and_sparse_features(op: str, executor: Executor) -> None:
    keys = {"sparse": ["words", "ids"], "dense": ["width", "label"]}
    m = text_input((1,))
    for i, dtype in enumerate(("float32", "string")):
        m.const(f"default{i}", [], dtype)
    m.const("no", [], "string")
    attrs: dict[str, Any] = {"sparse_types": ["string", "int64"], "Tdense": ["float32", "string"]}
    if op == "ParseExample":
        parts = [m.const(key, key, "string") for listed in keys.values() for key in listed]
        attrs |= {"Nsparse": 2, "Ndense": 2}
    else:
        parts = [*(m.const(kind, listed, "string") for kind, listed in keys.items()), "no"]
        attrs |= {"num_sparse": 2, "ragged_value_types": [], "ragged_split_types": []}
    m.node("parsed", op, ["x", "no", *parts, "default0", "default1"], dense_shapes=[(2,), (3,)], **attrs)
    for i, dtype in ((2, "string"), (3, "int64"), (6, "float32"), (7, "string")):
        m.node(f"y{i}", "Identity", [f"parsed:{i}"], T=dtype)
    found = returned(executor, m)
    assert [found[f"y{i}"].shape for i in (2, 3, 6, 7)] == [(1,), (1,), (1, 2), (1, 3)]
    features = {f.key: (f.dtype, f.length) for f in spec_of(m.graph()).content.features}
    assert features == {"words": (7, 1), "ids": (9, 1), "width": (1, 2), "label": (7, 3)}


@pytest.mark.tensorflow
def test_an_example_as_json(executor: Executor) -> None:
    m = parse_single(("weight", "float32", (2,)), ("count", "int64", (3,)), ("label", "string", ()), batch=2)
    m.node("binary", "DecodeJSONExample", ["x"])
    parsed = next(node for node in m.graph_def.node if node.name == "parsed")
    parsed.input[0] = "binary"
    for i, dtype in enumerate(("float32", "int64", "string")):
        m.node(f"y{i}", "Identity", [output(i)], T=dtype)
    found = returned(executor, m)
    assert [found[f"y{i}"].shape for i in range(3)] == [(2, 2), (2, 3), (2,)]
    assert (found["y0"].numpy() > 0).all()
    assert all(text.startswith(b"text ") for text in found["y2"].numpy())
    assert made(m) == "tf.Example with weight, count, label, as JSON, for DecodeJSONExample 'binary'"


@pytest.mark.tensorflow
@pytest.mark.parametrize("op", ["ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleSequenceExample"])
def test_a_sequence_has_the_features_and_the_lists_that_are_asked_for(op: str, executor: Executor) -> None:
    found = returned(executor, sequences(op))
    batch = () if op == "ParseSingleSequenceExample" else (2,)
    assert found["width"].shape == (*batch, 2) and found["label"].shape == batch
    assert found["frames"].shape == (*batch, 3, 4)
    assert len(set(found["frames"].numpy().reshape(-1))) > 11  # the steps differ
    assert found["emb"].shape == (*batch, 3, 1)
    assert found["tags"].shape == (batch or (1,)) and found["marks"].shape[0] == 3 * (batch or (1,))[0]
    if op == "ParseSequenceExampleV2":
        assert found["parts"].shape == (2 * 3 * 2, 1)
    assert made(sequences(op)).startswith("tf.SequenceExample with tags, width, label, marks, frames and ")
