from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import (
    BOOL,
    FLOAT,
    INT32,
    STRING,
    UINT8,
    Builder,
    add,
    const,
    dtypes,
    func,
    function,
    graph,
    identity,
    inputs,
    library,
    node,
    placeholder,
)
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.add_preprocessing import add_preprocessing
from gdsurgeon.edits.claims import Preprocessed
from gdsurgeon.edits.copying.parts import Mapped
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load

BODY = node("y", "Identity", ["x"], T=FLOAT)
NEGATED = node("y", "Neg", ["x"], T=FLOAT)


def model(*more: bytes, trailer: bytes = graphs.VERSIONS) -> Graph:
    return graph(
        placeholder("image", FLOAT, (-1, 3)), const("w", [1, 2, 3]), add("y", "image", "w"), *more, trailer=trailer
    )


def pre(*more: bytes, trailer: bytes = graphs.versions(27), shape: Any = (-1, 3), kind: bytes = UINT8) -> Graph:
    cast = node("image_preprocessed", "Cast", ["image"], SrcT=kind, DstT=FLOAT)
    return graph(placeholder("image", kind, shape), cast, *more, trailer=trailer, name="pre.pb")


def sound(found: Graph) -> None:
    findings = check(from_bytes(graphs.written(found)))
    assert (findings.faults, findings.reordered, findings.dangling_colocations) == ([], [], [])


def refused(words: str, found: Graph, part: Graph, *mapped: Mapped) -> None:
    refuse(found, words, lambda g: add_preprocessing(g, part, mapped=mapped), part)


def test_what_read_the_placeholder_reads_the_result(tmp_path: Path) -> None:
    found, part = model(identity("z", "image")), pre()
    part.save(str(tmp_path / "pre.pb"))
    result = expect(
        found,
        lambda g: add_preprocessing(g, part),
        [
            placeholder("image", UINT8, (-1, 3)),
            node("image_preprocessed", "Cast", ["image"], SrcT=UINT8, DstT=FLOAT),
            const("w", [1, 2, 3]),
            add("y", "image_preprocessed", "w"),
            identity("z", "image_preprocessed"),
        ],
        command=f"add-preprocessing {tmp_path / 'pre.pb'}",
    )
    assert inputs(found) == {
        "image": [], "image_preprocessed": ["image"], "w": [], "y": ["image_preprocessed", "w"],
        "z": ["image_preprocessed"],
    }  # fmt: skip
    assert graphs.names(found)[:2] == ["image", "image_preprocessed"]
    image = graphs.attrs(found, "image")
    assert image["dtype"].type == 4
    assert [d.size for d in image["shape"].shape.dim] == [-1, 3]
    assert result.intent.added == ["image_preprocessed"]
    assert {(r.node, r.slot, r.old, r.new) for r in result.intent.rewired} == {
        ("y", 0, "image", "image_preprocessed"), ("z", 0, "image", "image_preprocessed"),
    }  # fmt: skip
    (claim,) = result.claims
    assert isinstance(claim, Preprocessed)
    assert claim.pre is part
    assert claim.inputs == (("image", "image", "image_preprocessed", "image_preprocessed"),)
    assert not part.is_changed
    sound(found)


def test_the_versions_stay_those_of_the_model() -> None:
    found = model()
    add_preprocessing(found, pre())
    assert graphs.parsed(found).versions.producer == 1882
    found = model(trailer=b"")
    add_preprocessing(found, pre())
    assert not graphs.parsed(found).HasField("versions")


def test_nodes_that_are_not_concerned_keep_their_bytes() -> None:
    found = model(identity("z", "w"))
    before = graphs.bodies_by_name(found)
    add_preprocessing(found, pre())
    after = graphs.bodies_by_name(found)
    assert {n for n in before if before[n] != after[n]} == {"image", "y"}


def test_the_placeholder_loses_attrs_that_the_new_one_has_not() -> None:
    shapes = graphs.encode_len(1, graphs.encode_len(7, graphs.shape_proto((1, 3))))
    found = graph(node("image", "Placeholder", dtype=FLOAT, shape=(1, 3), _output_shapes=shapes, _user=5),
                  identity("y", "image"))  # fmt: skip
    add_preprocessing(found, pre())
    assert set(graphs.attrs(found, "image")) == {"dtype", "shape", "_user"}


def test_control_inputs_and_colocations_stay_on_the_placeholder() -> None:
    found = model(const("k", [1], _class=["loc:@image"]), node("n", "NoOp", ["^image"]))
    add_preprocessing(found, pre())
    assert inputs(found)["n"] == ["^image"]
    assert graphs.colocations(found) == {"k": [b"loc:@image"]}


def test_control_inputs_and_colocations_inside_the_part_come_along() -> None:
    part = pre(const("k", [1], _class=["loc:@image"]), node("n", "NoOp", ["^image", "^image_preprocessed"]),
               identity("m", "k", "^n", _class=["loc:@k"]))  # fmt: skip
    found = model(const("k", [1]))
    add_preprocessing(found, part)
    assert inputs(found)["n"] == ["^image", "^image_preprocessed"]
    assert inputs(found)["m"] == ["k_1", "^n"]
    assert graphs.colocations(found) == {"k_1": [b"loc:@image"], "m": [b"loc:@k_1"]}
    sound(found)


@pytest.mark.parametrize("waits", [False, True])
def test_a_table_that_callers_have_to_fill_is_told(waits: bool) -> None:
    b = Builder()
    b.placeholder("image", "string", (-1,))
    b.node("table", "HashTableV2", key_dtype="string", value_dtype="float32")
    b.const("keys", [b"a"], "string")
    b.const("values", [1.0])
    b.const("none", 0.0)
    b.node("fill", "InitializeTableV2", ["table", "keys", "values"], Tkey="string", Tval="float32")
    reading = ["table", "image", "none", *(["^fill"] if waits else [])]
    b.node("image_preprocessed", "LookupTableFindV2", reading, Tin="string", Tout="float32")
    result = add_preprocessing(model(), b.graph("pre.pb"))
    told = "'fill' (InitializeTableV2) fills a table, and nothing has it run: callers do, before anything else"
    assert result.notes == ([] if waits else [told])


def test_names_that_are_taken_are_made_unique_and_reported() -> None:
    part = pre(const("w", [9]), identity("y", "w"), const("w_1", [1]))
    found = model()
    result = add_preprocessing(found, part)
    assert inputs(found)["y_1"] == ["w_2"]
    assert inputs(found)["y"] == ["image_preprocessed", "w"]
    assert sorted(result.notes) == [
        "'w' of pre.pb has become 'w_2': the name was taken", "'y' of pre.pb has become 'y_1': the name was taken",
    ]  # fmt: skip
    assert result.intent.copied == {"image_preprocessed": "image_preprocessed", "w": "w_2", "y": "y_1", "w_1": "w_1"}
    sound(found)


def test_a_result_whose_name_is_taken() -> None:
    found = model(const("image_preprocessed", [1]))
    result = add_preprocessing(found, pre())
    assert inputs(found)["y"] == ["image_preprocessed_1", "w"]
    (claim,) = result.claims
    assert isinstance(claim, Preprocessed)
    assert claim.inputs[0].raw == "image_preprocessed_1"


def test_several_inputs_at_once() -> None:
    found = graph(placeholder("a"), placeholder("b"), add("y", "a", "b"), placeholder("other"), identity("z", "other"))
    part = graph(placeholder("a"), placeholder("b"), add("a_preprocessed", "a", "b"), identity("b_preprocessed", "a"))
    add_preprocessing(found, part)
    assert inputs(found)["y"] == ["a_preprocessed", "b_preprocessed"]
    assert inputs(found)["a_preprocessed"] == ["a", "b"]
    assert inputs(found)["z"] == ["other"]
    sound(found)


def test_a_result_that_is_read_in_several_places_and_slots() -> None:
    found = graph(placeholder("image", FLOAT), add("y", "image", "image"), identity("z", "image:0"))
    result = add_preprocessing(found, pre())
    assert (inputs(found)["y"], inputs(found)["z"]) == (["image_preprocessed"] * 2, ["image_preprocessed"])
    assert len(result.intent.rewired) == 3


def test_mapped_names() -> None:
    part = graph(placeholder("jpeg", STRING, ()), node("split", "MyDecode", ["jpeg"]), name="pre.pb")
    found = model()
    result = add_preprocessing(found, part, mapped=[Mapped("image", "jpeg", "split:1")])
    assert inputs(found)["y"] == ["split:1", "w"]
    assert inputs(found)["split"] == ["image"]
    assert graphs.attrs(found, "image")["dtype"].type == 7
    assert result.warnings == ["the type of 'split:1' (MyDecode) is not known here: not compared"]


def test_a_part_that_hands_the_placeholder_through() -> None:
    part = graph(placeholder("image", FLOAT, (2, 3)), const("aside", [1]))
    found = model()
    add_preprocessing(found, part, mapped=[Mapped("image", "image", "image")])
    assert inputs(found)["y"] == ["image", "w"]
    assert [d.size for d in graphs.attrs(found, "image")["shape"].shape.dim] == [2, 3]


M = Mapped("image", "image", "image_preprocessed")


@pytest.mark.parametrize(
    ("found", "part", "mapped", "words"),
    [
        (model(), graph(placeholder("imag"), name="pre.pb"), [],
         r"pre\.pb has a placeholder 'imag', and model\.pb has no node 'imag' \(3 nodes\)\. Did you mean 'image'"),
        (model(), graph(placeholder("image"), name="pre.pb"), [],
         r"pre\.pb has a placeholder 'image' and no node 'image_preprocessed', which would be its result"),
        (model(), graph(const("k", [1]), name="pre.pb"), [], r"pre\.pb has no placeholder"),
        (model(), pre(), [Mapped("imagee", "image", "image_preprocessed")], "has no node 'imagee'"),
        (model(), pre(), [Mapped("image", "img", "image_preprocessed")], r"pre\.pb has no node 'img'"),
        (model(), pre(), [Mapped("image", "image", "image_prep")], r"pre\.pb has no node 'image_prep'"),
        (model(), pre(), [Mapped("image", "image", "image_preprocessed:1")], "has 1 output"),
        (model(), pre(), [Mapped("image", "image_preprocessed", "image")], r"in pre\.pb is a Cast, not a Placeholder"),
        (model(), pre(), [M, M], "the placeholder 'image' is mapped twice"),
        (model(), graph(placeholder("image", UINT8), node("image_preprocessed", "Cast", ["image"], SrcT=UINT8,
                        DstT=INT32), name="pre.pb"), [],
         r"'image_preprocessed' of pre\.pb is int32, and 'image' of model\.pb takes float32 \[\?,3\]"),
        (model(), graph(placeholder("image"), const("image_preprocessed", [0] * 4, FLOAT, (2, 2)), name="pre.pb"), [],
         r"'image_preprocessed' of pre\.pb is float32 \[2,2\], and 'image' of model\.pb takes float32 \[\?,3\]"),
        (graph(const("image", [1]), identity("y", "image")), pre(), [],
         r"'image' of model\.pb is a Const, not a Placeholder"),
        (graph(placeholder("image")), pre(), [], r"nothing would change: nobody reads 'image' of model\.pb"),
        (model(), pre(placeholder("two", UINT8)), [M, Mapped("image", "two", "image_preprocessed")],
         r"two placeholders of pre\.pb stand for 'image'"),
        (model(), pre(node("_bad", "NoOp")), [], "'_bad' is not a legal node name"),
        (model(), pre(identity("z", "gone")), [], "'z' reads 'gone', which is not there"),
        (model(), pre(node("z", "NoOp", ["^gone"])), [], "'z' reads 'gone', which is not there"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(found: Graph, part: Graph, mapped: list[Mapped], words: str) -> None:
    refused(words, found, part, *mapped)


def test_an_input_with_a_default_loses_it() -> None:
    """The default is what the model took, and not what PRE takes."""
    default = node("image", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(-1, 3))
    found = graph(const("d", [0, 0, 0], FLOAT, (1, 3)), default, identity("y", "image"))
    result = add_preprocessing(found, pre())
    assert graphs.ops(found)["image"] == "Placeholder"
    assert inputs(found)["image"] == []
    assert result.intent.removed == ["d"]
    assert any("has no default any longer" in note for note in result.notes)


def test_a_mapped_placeholder_with_a_default_is_not_ignored() -> None:
    default = node("raw", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=None)
    part = graph(const("d", [1]), default, placeholder("two", FLOAT), identity("two_preprocessed", "two"),
                 identity("r", "raw"), name="pre.pb")  # fmt: skip
    found = graph(placeholder("image", FLOAT), identity("y", "image"), placeholder("two", FLOAT), identity("z", "two"))
    try:
        add_preprocessing(found, part, mapped=[Mapped("image", "raw", "r")])
    except EditError:
        return
    assert inputs(found)["y"] == ["r"]


def test_placeholders_with_defaults_are_copied_and_not_bound() -> None:
    part = pre(const("d", [0], BOOL, ()), node("flag", "PlaceholderWithDefault", ["d"], dtype=BOOL, shape=()))
    found = model()
    add_preprocessing(found, part)
    assert graphs.ops(found)["flag"] == "PlaceholderWithDefault"


# Function libraries.


def caller(name: str, callee: str, **attrs: Any) -> bytes:
    return node(name, "PartitionedCall", ["w" if name == "y2" else "image_preprocessed"], f=func(callee),
                Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), **attrs)  # fmt: skip


def called(found: Graph, name: str) -> str:
    return str(graphs.attrs(found, name)["f"].func.name)


def test_equal_functions_are_there_once() -> None:
    found = model(caller("y2", "F"), trailer=library(function("F", BODY)))
    result = add_preprocessing(found, pre(caller("p2", "F"), trailer=library(function("F", BODY))))
    assert [f.signature.name for f in graphs.parsed(found).library.function] == ["F"]
    assert called(found, "p2") == "F"
    assert result.intent.renamed_functions == {}


def test_unequal_functions_get_a_new_name_and_so_do_those_who_call_them() -> None:
    mid = function("M", node("y", "PartitionedCall", ["x"], f=func("F"), Tin=dtypes(FLOAT), Tout=dtypes(FLOAT)))
    found = model(caller("y2", "M"), trailer=library(mid, function("F", BODY)))
    part = pre(caller("p2", "M"), node("p3", "F", ["image_preprocessed"]),
               trailer=library(mid, function("F", NEGATED)))  # fmt: skip
    result = add_preprocessing(found, part)
    assert result.intent.renamed_functions == {"M": "M_1", "F": "F_1"}
    assert (called(found, "y2"), called(found, "p2"), graphs.ops(found)["p3"]) == ("M", "M_1", "F_1")
    assert "'F' of pre.pb has become 'F_1': the name was taken" in result.notes
    assert [f.signature.name for f in graphs.parsed(found).library.function] == ["M", "F", "M_1", "F_1"]
    sound(found)


def test_a_renamed_function_far_inside_a_long_attr_is_followed() -> None:
    names = ["G" * 200 + str(i) for i in range(400)] + ["F"]
    many = graphs.encode_len(1, b"".join(graphs.encode_len(9, graphs.encode_len(1, n.encode())) for n in names))
    functions = [function(n, BODY) for n in names[:-1]]
    found = model(trailer=library(function("F", BODY)))
    part = pre(node("case", "MyCase", ["image_preprocessed"], branches=many),
               trailer=library(*functions, function("F", NEGATED)))  # fmt: skip
    result = add_preprocessing(found, part)
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert graphs.attrs(found, "case")["branches"].list.func[-1].name == "F_1"


def test_on_the_fixtures() -> None:
    found, part = load(str(FIXTURES / "classifier.pb")), load(str(FIXTURES / "decode_jpeg.pb"))
    before, count = graphs.bodies_by_name(found), found.node_count
    result = add_preprocessing(found, part)
    assert found.node_count == count + part.node_count - 1
    (interface,) = result.claims[0].inputs  # type: ignore[attr-defined]
    assert graphs.attrs(found, interface.name)["dtype"].type == 7
    after = graphs.bodies_by_name(found)
    changed = {n for n in before if before[n] != after[n]}
    assert changed == {interface.name, *(r.node for r in result.intent.rewired)}
    sound(found)


def test_a_placeholder_of_the_second_kind_becomes_one_of_the_first() -> None:
    """PlaceholderV2 needs a shape attr, which the other placeholder need not have."""
    found = from_bytes(graphs.graph_bytes(node("x", "PlaceholderV2", dtype=FLOAT), identity("y", "x")))
    part = graph(node("x", "Placeholder", dtype=FLOAT), node("x_preprocessed", "Neg", ["x"], T=FLOAT))
    add_preprocessing(found, part)
    assert found["x"].op == "Placeholder"
