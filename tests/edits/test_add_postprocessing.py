from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.desk import Desk, check_error
from support.expecting import expect, refused
from support.graphs import FLOAT, INT32, add, const, graph, identity, inputs, node, placeholder
from support.meta_graphs import put, serving

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.parts import Mapped, add_postprocessing
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted


def model(*more: bytes, trailer: bytes = graphs.VERSIONS) -> Graph:
    return graph(placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("logits", "x", "w"), *more, trailer=trailer)


def post(*more: bytes, trailer: bytes = graphs.versions(27)) -> Graph:
    records = [placeholder("logits", FLOAT, None), node("logits_postprocessed", "Softmax", ["logits"], T=FLOAT), *more]
    return graph(*records, trailer=trailer, name="post.pb")


def sound(found: Graph) -> None:
    findings = check(from_bytes(graphs.written(found)))
    assert (findings.faults, findings.reordered, findings.dangling_colocations) == ([], [], [])


def test_the_result_is_served_under_the_old_name(tmp_path: Path) -> None:
    found, part = model(identity("inside", "logits"), node("n", "NoOp", ["^logits"])), post()
    part.save(str(tmp_path / "post.pb"))
    result = expect(
        found,
        lambda g: add_postprocessing(g, part),
        [
            placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("logits_raw", "x", "w"),
            identity("inside", "logits_raw"), node("n", "NoOp", ["^logits_raw"]),
            node("logits", "Softmax", ["logits_raw"], T=FLOAT),
        ],
        command=f"add-postprocessing {tmp_path / 'post.pb'}",
    )  # fmt: skip
    assert result.intent.renamed == {"logits": "logits_raw"}
    assert result.intent.added == ["logits"]
    assert [note.as_json() for note in result.notes] == [{"code": "renamed", "name": "logits", "found": "logits_raw"}]
    (claim,) = result.claims
    assert isinstance(claim, SameGiven) and claim.outputs == (("logits", "logits_raw"),)
    (added,) = claim.parts
    assert added.inputs == {"logits": "logits_raw"} and added.outputs == (("logits_postprocessed", "logits"),)
    assert not part.is_changed


def test_a_raw_name_that_is_taken_is_made_unique() -> None:
    found = model(const("logits_raw", [1]))
    result = add_postprocessing(found, post(const("logits_raw_1", [1])))
    assert result.intent.renamed == {"logits": "logits_raw_1"}
    assert inputs(found)["logits"] == ["logits_raw_1"]
    assert len(set(graphs.names(found))) == len(graphs.names(found))
    sound(found)


def test_colocations_follow() -> None:
    found = model(const("k", [1], _class=["loc:@logits"]))
    add_postprocessing(found, post(const("p", [1], _class=["loc:@logits", "loc:@logits_postprocessed"])))
    assert graphs.colocations(found) == {"k": [b"loc:@logits_raw"], "p": [b"loc:@logits_raw", b"loc:@logits"]}
    sound(found)


def test_several_outputs_and_one_that_reads_another() -> None:
    found = graph(placeholder("x", FLOAT), identity("a", "x"), identity("b", "a"))
    part = graph(placeholder("a"), placeholder("b"), add("a_postprocessed", "a", "b"), identity("b_postprocessed", "a"))
    add_postprocessing(found, part)
    assert inputs(found) == {"x": [], "a_raw": ["x"], "b_raw": ["a_raw"], "a": ["a_raw", "b_raw"], "b": ["a_raw"]}
    sound(found)


def test_a_result_that_serves_two_outputs_is_served_by_identities() -> None:
    found = graph(placeholder("x", FLOAT), identity("a", "x"), identity("b", "x"))
    part = graph(placeholder("a"), placeholder("b"), add("sum", "a", "b"), name="post.pb")
    add_postprocessing(found, part, mapped=[Mapped("a", "a", "sum"), Mapped("b", "b", "sum")])
    assert (inputs(found)["a"], inputs(found)["b"]) == (["sum"], ["sum"])
    assert graphs.ops(found)["a"] == graphs.ops(found)["b"] == "Identity"
    assert graphs.attrs(found, "a")["T"].type == 1
    sound(found)


SCALAR = graphs.scalar("logits", 1, INT32)


@pytest.mark.parametrize(
    ("records", "result", "after"),
    [
        ([placeholder("logits"), const("aside", [1])], "logits", ["logits_raw"]),
        ([placeholder("raw"), identity("done", "raw")], "done:0", ["logits_raw"]),
        ([placeholder("raw"), const("logits", [5]), add("done", "raw", "logits")], "done", ["logits_raw", "logits_1"]),
        ([placeholder("raw"), SCALAR, node("topk", "TopKV2", ["raw", "logits"], T=FLOAT)], "topk:1", ["topk:1"]),
    ],
    ids=["the placeholder itself", "another name", "another node of the served name", "the same beside an identity"],
)
def test_mapped_names(records: list[bytes], result: str, after: list[str]) -> None:
    found, part = model(), graph(*records, name="post.pb")
    add_postprocessing(found, part, mapped=[Mapped("logits", graphs.names(part)[0], result)])
    assert inputs(found)["logits"] == after
    assert "done" not in found
    sound(found)


def test_a_result_of_an_unknown_op_is_still_a_graph_that_loads() -> None:
    found = model()
    part = graph(placeholder("logits"), node("logits_postprocessed", "MyOp", ["logits"]), name="post.pb")
    add_postprocessing(found, part)
    sound(found)


SPLIT = [
    const("axis", [0], INT32, ()),
    const("v", [1, 2]),
    node("logits", "Split", ["axis", "v"], T=FLOAT, num_split=2),
]


@pytest.mark.tensorflow
def test_an_output_of_a_signature_that_is_one_of_several_of_its_node(desk: Desk) -> None:
    nodes = [const("axis", 0, INT32), node("s", "Split", ["axis", "w/read"], T=FLOAT, num_split=2)]
    put(desk.folder / "model", serving({"x": "x:0"}, {"a": "s:0", "b": "s:1"}, *nodes))
    report = desk.report(
        "add-postprocessing", "model", "--at", "serving_default/b", "--steps", "rescale(2)", "-o", "out"
    )
    values = {output["edited"]: output["value"] for output in report["proof"]["outputs"]}
    assert (values["s:1"], values["s_raw:1"]) == ("[5]", "[2.5]")
    assert desk.report("add-postprocessing", "model", "--at", "s", "--steps", "rescale(2)", "-o", "second")


def taking(kind: bytes, shape: tuple[int, ...] | None) -> Graph:
    records = [placeholder("logits", kind, shape), identity("logits_postprocessed", "logits", kind=kind)]
    return graph(*records, name="post.pb")


@pytest.mark.parametrize(
    ("found", "part", "mapped", "code", "facts"),
    [
        (model(), graph(placeholder("logit")), [], "no-such-node", {"placeholder": "logit", "near": "logits"}),
        (model(), graph(placeholder("logits")), [], "no-result", {"node": "logits_postprocessed"}),
        (graph(node("logits", "NoOp")), post(), [], "wrong-count", {"node": "logits", "found": 0}),
        (graph(*SPLIT), post(), [Mapped("logits:2", "logits", "logits_postprocessed")], "no-such-tensor", {}),
        (graph(const("logits", [1, 2])), taking(FLOAT, (3,)), [], "shape-mismatch",
         {"tensor": "logits", "found": "float32 [2]", "expected": "float32 [3]"}),
        (model(), graph(placeholder("logits"), const("c", [1, 2, 3]), add("logits_postprocessed", "logits", "c")), [],
         "shape-mismatch", {"tensor": "logits", "found": "float32 [2]", "node": "logits_postprocessed"}),
        (model(), post(identity("z", "a:b:c")), [], "bad-tensor-name", {}),
        (model(), post(trailer=graphs.encode_len(2, b"\x0a\x05ab")), [], "corrupt", {}),
    ],
)  # fmt: skip
def test_what_does_not_fit(found: Graph, part: Graph, mapped: list[Mapped], code: str, facts: dict[str, Any]) -> None:
    edit = partial(add_postprocessing, post=part, mapped=mapped)
    refused(found, code, edit, part, error=GdsurgeonError, **facts)


def test_a_node_that_gets_a_number_beside_an_output_that_has_one() -> None:
    found = graph(placeholder("x", FLOAT, (2,)), identity("c", "x"), identity("c_1", "c"))
    part = graph(
        placeholder("c_1", FLOAT, None), identity("c", "c_1"), node("c_1_postprocessed", "Abs", ["c"], T=FLOAT)
    )
    result = add_postprocessing(found, part)
    assert inputs(found)["c_2"] == ["c_1_raw"] and inputs(found)["c_1"] == ["c_2"]
    check_error(result.notes[-1], "name-taken", {"name": "c", "found": "c_2"})
    check_accounted(found, result, found.chunks())
