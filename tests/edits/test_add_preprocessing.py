"""add-preprocessing and add-postprocessing: names, rewired nodes, functions, refused parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import expect, refused
from support.graphs import (
    FLOAT,
    INT32,
    STRING,
    UINT8,
    add,
    call,
    const,
    func,
    function,
    graph,
    identity,
    inputs,
    library,
    neg,
    node,
    placeholder,
    typed,
)
from support.meta_graphs import put, serving

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.compare.intent import Rewired
from gdsurgeon.edits.claims import EditResult, SameGiven
from gdsurgeon.edits.parts import Mapped, add_postprocessing, add_preprocessing
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted

BODY = identity("y", "x")
NEGATED = neg("y", "x")


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


def added(found: Graph, part: Graph, *mapped: Mapped) -> EditResult:
    """POST added to FOUND, which stays sound."""
    result = add_postprocessing(found, part, mapped=mapped)
    sound(found)
    return result


def test_what_read_the_placeholder_reads_the_result(tmp_path: Path) -> None:
    found, part = model(identity("z", "image")), pre()
    part.save(str(tmp_path / "pre.pb"))
    after = [
        placeholder("image", UINT8, (-1, 3)), node("image_preprocessed", "Cast", ["image"], SrcT=UINT8, DstT=FLOAT),
        const("w", [1, 2, 3]), add("y", "image_preprocessed", "w"), identity("z", "image_preprocessed"),
    ]  # fmt: skip
    rewired = [Rewired(name, 0, "image", "image_preprocessed") for name in "yz"]
    result = expect(found, lambda g: add_preprocessing(g, part), after, added=["image_preprocessed"], rewired=rewired,
                    command=f"add-preprocessing {tmp_path / 'pre.pb'}")  # fmt: skip
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.given == {"image": "image_preprocessed"}
    (there,) = claim.parts
    assert there.part is part and there.inputs == {"image": "image"}
    assert there.outputs == (("image_preprocessed", "image_preprocessed"),)
    assert not part.is_changed


def test_a_model_without_versions_gets_none() -> None:
    found = model(trailer=b"")
    add_preprocessing(found, pre())
    assert not graphs.parsed(found).HasField("versions")


@pytest.mark.parametrize("waits", [False, True])
def test_a_table_that_callers_have_to_fill_is_told(waits: bool) -> None:
    kinds = {"Tkey": STRING, "Tval": FLOAT}
    part = graph(
        placeholder("image", STRING, (-1,)), node("table", "HashTableV2", key_dtype=STRING, value_dtype=FLOAT),
        const("keys", ["a"], STRING), const("values", [1]), const("none", 0),
        node("fill", "InitializeTableV2", ["table", "keys", "values"], **kinds),
        node("image_preprocessed", "LookupTableFindV2", ["table", "image", "none", *(["^fill"] if waits else [])],
             Tin=STRING, Tout=FLOAT),
    )  # fmt: skip
    notes = [note.as_json() for note in add_preprocessing(model(), part).notes]
    assert notes == ([] if waits else [{"code": "run-before", "node": "fill", "op": "InitializeTableV2"}])


def test_a_part_that_hands_the_placeholder_through() -> None:
    part = graph(placeholder("image", FLOAT, (2, 3)), const("aside", [1]))
    found = model()
    add_preprocessing(found, part, mapped=[Mapped("image", "image", "image")])
    assert inputs(found)["y"] == ["image", "w"]
    assert [d.size for d in graphs.attrs(found, "image")["shape"].shape.dim] == [2, 3]


M = Mapped("image", "image", "image_preprocessed")
IMAGE, IMAGE_8 = placeholder("image"), placeholder("image", UINT8)
TO_INT = node("image_preprocessed", "Cast", ["image"], SrcT=UINT8, DstT=INT32)


def part(*records: bytes) -> Graph:
    return graph(*records, name="pre.pb")


def test_a_part_is_not_blamed_for_what_was_wrong_before() -> None:
    wrong = [const("c", [1, 2, 3, 4]), const("three", [1, 2, 3]), add("wrong", "c", "three")]
    found = graph(placeholder("image", FLOAT, (-1, 3)), *wrong, identity("y", "image"))
    add_preprocessing(found, pre())
    assert inputs(found)["y"] == ["image_preprocessed"]


def test_an_input_with_a_default_loses_it() -> None:
    """The default is what the model took, and not what PRE takes."""
    default = node("image", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=(-1, 3))
    found = graph(const("d", [0, 0, 0], FLOAT, (1, 3)), default, identity("y", "image"))
    result = add_preprocessing(found, pre())
    assert graphs.ops(found)["image"] == "Placeholder"
    assert inputs(found)["image"] == []
    assert result.intent.removed == ["d"]
    assert [note.as_json() for note in result.notes] == [{"code": "no-default", "node": "image"}]


def test_a_mapped_placeholder_with_a_default_is_not_ignored() -> None:
    default = node("raw", "PlaceholderWithDefault", ["d"], dtype=FLOAT, shape=None)
    part = graph(const("d", [1]), default, placeholder("two", FLOAT), identity("two_preprocessed", "two"),
                 identity("r", "raw"), name="pre.pb")  # fmt: skip
    found = graph(placeholder("image"), identity("y", "image"), placeholder("two"), identity("z", "two"))
    add_preprocessing(found, part, mapped=[Mapped("image", "raw", "r")])
    assert inputs(found)["y"] == ["r"]


# Function libraries.


def caller(name: str, callee: str) -> bytes:
    return call(name, callee, ["w" if name == "y2" else "image_preprocessed"], [FLOAT], [FLOAT])


def called(found: Graph, name: str) -> str:
    return str(graphs.attrs(found, name)["f"].func.name)


def test_unequal_functions_get_a_new_name_and_so_do_those_who_call_them() -> None:
    mid = function("M", call("y", "F", ["x"], [FLOAT], [FLOAT]))
    found = model(caller("y2", "M"), trailer=library(mid, function("F", BODY)))
    part = pre(caller("p2", "M"), node("p3", "F", ["image_preprocessed"]),
               trailer=library(mid, function("F", NEGATED)))  # fmt: skip
    result = add_preprocessing(found, part)
    assert result.intent.renamed_functions == {"M": "M_1", "F": "F_1"}
    assert (called(found, "y2"), called(found, "p2"), graphs.ops(found)["p3"]) == ("M", "M_1", "F_1")
    assert {"code": "name-taken", "name": "F", "found": "F_1"} in [note.as_json() for note in result.notes]
    made = {f.signature.name: f for f in graphs.parsed(found).library.function}
    assert list(made) == ["M", "F", "M_1", "F_1"]
    assert [made[name].node_def[0].attr["f"].func.name for name in ("M", "M_1")] == ["F", "F_1"]
    sound(found)


def test_a_renamed_function_far_inside_a_long_attr_is_followed() -> None:
    names = ["G" * 200 + str(i) for i in range(400)] + ["F"]
    functions = [function(n, BODY) for n in names[:-1]]
    found = model(trailer=library(function("F", BODY)))
    part = pre(node("case", "MyCase", ["image_preprocessed"], branches=[func(name) for name in names]),
               trailer=library(*functions, function("F", NEGATED)))  # fmt: skip
    result = add_preprocessing(found, part)
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert graphs.attrs(found, "case")["branches"].list.func[-1].name == "F_1"


def test_a_placeholder_of_the_second_kind_becomes_one_of_the_first() -> None:
    """PlaceholderV2 needs a shape attr, which the other placeholder need not have."""
    found = from_bytes(graphs.graph_bytes(node("x", "PlaceholderV2", dtype=FLOAT), identity("y", "x")))
    part = graph(node("x", "Placeholder", dtype=FLOAT), neg("x_preprocessed", "x"))
    add_preprocessing(found, part)
    assert found["x"].op == "Placeholder"


def scoring(*more: bytes, trailer: bytes = graphs.VERSIONS) -> Graph:
    return graph(placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("logits", "x", "w"), *more, trailer=trailer)


def post(*more: bytes, trailer: bytes = graphs.versions(27)) -> Graph:
    records = [placeholder("logits", FLOAT, None), typed("Softmax", "logits_postprocessed", "logits"), *more]
    return graph(*records, trailer=trailer, name="post.pb")


def test_the_result_is_served_under_the_old_name(tmp_path: Path) -> None:
    found, part = scoring(identity("inside", "logits"), node("n", "NoOp", ["^logits"])), post()
    part.save(str(tmp_path / "post.pb"))
    after = [
        placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("logits_raw", "x", "w"),
        identity("inside", "logits_raw"), node("n", "NoOp", ["^logits_raw"]), typed("Softmax", "logits", "logits_raw"),
    ]  # fmt: skip
    result = expect(found, lambda g: add_postprocessing(g, part), after, renamed={"logits": "logits_raw"},
                    added=["logits"], notes=[("renamed", {"name": "logits", "found": "logits_raw"})],
                    command=f"add-postprocessing {tmp_path / 'post.pb'}")  # fmt: skip
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.outputs == (("logits", "logits_raw"),)
    (there,) = claim.parts
    assert there.inputs == {"logits": "logits_raw"} and there.outputs == (("logits_postprocessed", "logits"),)
    assert not part.is_changed


def test_colocations_follow() -> None:
    found = scoring(const("k", [1], _class=["loc:@logits"]))
    added(found, post(const("p", [1], _class=["loc:@logits", "loc:@logits_postprocessed"])))
    assert graphs.colocations(found) == {"k": [b"loc:@logits_raw"], "p": [b"loc:@logits_raw", b"loc:@logits"]}


SCALAR = graphs.scalar("logits", 1, INT32)


@pytest.mark.parametrize(
    ("records", "result", "after"),
    [
        ([placeholder("logits"), const("aside", [1])], "logits", ["logits_raw"]),
        ([placeholder("raw"), identity("done", "raw")], "done:0", ["logits_raw"]),
        ([placeholder("raw"), const("logits", [5]), add("done", "raw", "logits")], "done", ["logits_raw", "logits_1"]),
        ([placeholder("raw"), SCALAR, typed("TopKV2", "topk", "raw", "logits")], "topk:1", ["topk:1"]),
    ],
    ids=["the placeholder itself", "another name", "another node of the served name", "the same next to an identity"],
)
def test_mapped_names(records: list[bytes], result: str, after: list[str]) -> None:
    found, part = scoring(), graph(*records, name="post.pb")
    added(found, part, Mapped("logits", graphs.names(part)[0], result))
    assert inputs(found)["logits"] == after and "done" not in found


def test_a_result_of_an_unknown_op_is_still_a_graph_that_loads() -> None:
    added(scoring(), graph(placeholder("logits"), node("logits_postprocessed", "MyOp", ["logits"]), name="post.pb"))


SPLIT = [
    const("axis", [0], INT32, ()),
    const("v", [1, 2]),
    typed("Split", "logits", "axis", "v", num_split=2),
]


@pytest.mark.tensorflow
def test_an_output_of_a_signature_that_is_one_of_several_of_its_node(desk: Desk) -> None:
    nodes = [const("axis", 0, INT32), typed("Split", "s", "axis", "w/read", num_split=2)]
    put(desk.folder / "scoring", serving({"x": "x:0"}, {"a": "s:0", "b": "s:1"}, *nodes))
    report = desk.report(
        "add-postprocessing", "scoring", "--at", "serving_default/b", "--steps", "rescale(2)", "-o", "out"
    )
    values = {output["edited"]: output["value"] for output in report["proof"]["outputs"]}
    assert (values["s:1"], values["s_raw:1"]) == ("[5]", "[2.5]")
    assert desk.report("add-postprocessing", "scoring", "--at", "s", "--steps", "rescale(2)", "-o", "second")


def taking(kind: bytes, shape: tuple[int, ...] | None) -> Graph:
    records = [placeholder("logits", kind, shape), identity("logits_postprocessed", "logits", kind=kind)]
    return graph(*records, name="post.pb")


@pytest.mark.parametrize(
    ("found", "part", "mapped", "code", "facts"),
    [
        (model(), part(placeholder("imag")), [], "no-such-node", {"placeholder": "imag", "near": "image"}),
        (model(), part(IMAGE), [], "no-result", {"placeholder": "image", "node": "image_preprocessed"}),
        (model(), pre(), [Mapped("imagee", "image", "image_preprocessed")], "no-such-node", {"node": "imagee"}),
        (model(), pre(), [Mapped("image", "image", "image_preprocessed:1")], "no-such-tensor",
         {"tensor": "image_preprocessed:1", "count": 1}),
        (model(), pre(), [Mapped("image", "image_preprocessed", "image")], "not-a-placeholder",
         {"node": "image_preprocessed", "op": "Cast", "file": "pre.pb"}),
        (model(), pre(), [M, M], "given-twice", {"placeholder": "image"}),
        (model(), part(IMAGE_8, TO_INT), [], "dtype-mismatch",
         {"tensor": "image_preprocessed", "found": "int32", "input": "image", "expected": "float32 [?,3]"}),
        (model(), part(IMAGE, const("image_preprocessed", [0] * 4, FLOAT, (2, 2))), [], "shape-mismatch",
         {"tensor": "image_preprocessed", "found": "float32 [2,2]", "input": "image", "expected": "float32 [?,3]"}),
        (graph(IMAGE, const("c", [1, 2, 3, 4]), add("y", "image", "c")), pre(), [], "shape-mismatch",
         {"tensor": "image_preprocessed", "found": "float32 [?,3]", "node": "y"}),
        (graph(const("image", [1]), identity("y", "image")), pre(), [], "not-a-placeholder",
         {"node": "image", "op": "Const", "file": "model.pb"}),
        (graph(IMAGE), pre(), [], "no-consumers", {"tensor": "image"}),
        (model(), pre(placeholder("two", UINT8)), [M, Mapped("image", "two", "image_preprocessed")], "given-twice",
         {"node": "image"}),
        (scoring(), graph(placeholder("logits")), [], "no-result", {"node": "logits_postprocessed"}),
        (graph(node("logits", "NoOp")), post(), [], "wrong-count", {"node": "logits", "found": 0}),
        (graph(*SPLIT), post(), [Mapped("logits:2", "logits", "logits_postprocessed")], "no-such-tensor", {}),
        (graph(const("logits", [1, 2])), taking(FLOAT, (3,)), [], "shape-mismatch",
         {"tensor": "logits", "found": "float32 [2]", "expected": "float32 [3]"}),
        (scoring(), graph(placeholder("logits"), const("c", [1, 2, 3]), add("logits_postprocessed", "logits", "c")), [],
         "shape-mismatch", {"tensor": "logits", "found": "float32 [2]", "node": "logits_postprocessed"}),
        (scoring(), post(identity("z", "a:b:c")), [], "bad-tensor-name", {}),
        (scoring(), post(trailer=graphs.encode_len(2, b"\x0a\x05ab")), [], "corrupt", {}),
    ],
)  # fmt: skip
def test_what_does_not_fit(found: Graph, part: Graph, mapped: list[Mapped], code: str, facts: dict[str, Any]) -> None:
    """As what comes before the model, and as what comes after it."""
    edit: Any = add_postprocessing if "logits" in found else add_preprocessing
    error = GdsurgeonError if code in ("bad-tensor-name", "corrupt") else EditError
    refused(found, code, lambda g: edit(g, part, mapped=mapped), part, error=error, **facts)


def test_a_node_that_gets_a_number_beside_an_output_that_has_one() -> None:
    found = graph(placeholder("x", FLOAT, (2,)), identity("c", "x"), identity("c_1", "c"))
    part = graph(placeholder("c_1", FLOAT, None), identity("c", "c_1"), typed("Abs", "c_1_postprocessed", "c"))
    result = add_postprocessing(found, part)
    assert inputs(found)["c_2"] == ["c_1_raw"] and inputs(found)["c_1"] == ["c_2"]
    check_error(result.notes[-1], "name-taken", {"name": "c", "found": "c_2"})
    check_accounted(found, result, found.chunks())
