from __future__ import annotations

from pathlib import Path

import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import FLOAT, INT64, add, const, func, function, graph, identity, inputs, library, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.add_postprocessing import add_postprocessing
from gdsurgeon.edits.claims import Postprocessed
from gdsurgeon.edits.copying.parts import Mapped
from gdsurgeon.errors import EditError, GdsurgeonError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.proof.accounting import check_accounted


def model(*more: bytes, trailer: bytes = graphs.VERSIONS) -> Graph:
    return graph(placeholder("x", FLOAT, (2,)), const("w", [1, 2]), add("logits", "x", "w"), *more, trailer=trailer)


def post(*more: bytes, trailer: bytes = graphs.versions(27)) -> Graph:
    records = [placeholder("logits", FLOAT, None), node("logits_postprocessed", "Softmax", ["logits"], T=FLOAT), *more]
    return graph(*records, trailer=trailer, name="post.pb")


def sound(found: Graph) -> None:
    findings = check(from_bytes(graphs.written(found)))
    assert (findings.faults, findings.reordered, findings.dangling_colocations) == ([], [], [])


def refused(words: str, found: Graph, part: Graph, *mapped: Mapped) -> None:
    refuse(found, words, lambda g: add_postprocessing(g, part, mapped=mapped), part, error=GdsurgeonError)


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
    assert inputs(found) == {
        "x": [], "w": [], "logits_raw": ["x", "w"], "inside": ["logits_raw"], "n": ["^logits_raw"],
        "logits": ["logits_raw"],
    }  # fmt: skip
    assert graphs.ops(found)["logits"] == "Softmax"
    assert result.intent.renamed == {"logits": "logits_raw"}
    assert result.intent.added == ["logits"]
    assert result.notes == ["the raw value of 'logits' is now 'logits_raw'"]
    (claim,) = result.claims
    assert isinstance(claim, Postprocessed)
    assert claim.outputs == (("logits", "logits", "logits_postprocessed", "logits_raw"),)
    assert not part.is_changed
    sound(found)


def test_the_versions_stay_those_of_the_model() -> None:
    found = model()
    add_postprocessing(found, post())
    assert graphs.parsed(found).versions.producer == 1882
    found = model(trailer=b"")
    add_postprocessing(found, post())
    assert not graphs.parsed(found).HasField("versions")


def test_nodes_that_are_not_concerned_keep_their_bytes() -> None:
    found = model(identity("inside", "logits"))
    before = graphs.bodies_by_name(found)
    add_postprocessing(found, post())
    after = graphs.bodies_by_name(found)
    assert (after["x"], after["w"]) == (before["x"], before["w"])
    assert set(after) - set(before) == {"logits_raw"}


def test_a_raw_name_that_is_taken_is_made_unique() -> None:
    found = model(const("logits_raw", [1]))
    result = add_postprocessing(found, post(const("logits_raw_1", [1])))
    assert result.intent.renamed == {"logits": "logits_raw_1"}
    assert inputs(found)["logits"] == ["logits_raw_1"]
    assert len(set(graphs.names(found))) == len(graphs.names(found))
    sound(found)


def test_names_that_are_taken_are_made_unique_and_reported() -> None:
    found = model()
    result = add_postprocessing(found, post(const("w", [9]), identity("k", "w")))
    assert inputs(found)["k"] == ["w_1"]
    assert "'w' of post.pb has become 'w_1': the name was taken" in result.notes


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


@pytest.mark.parametrize("result", ["topk:1", "topk"])
def test_a_result_with_several_outputs_is_served_by_an_identity(result: str) -> None:
    found = model()
    part = graph(placeholder("logits"), graphs.scalar("k", 1, graphs.INT32),
                 node("topk", "TopKV2", ["logits", "k"], T=FLOAT), name="post.pb")  # fmt: skip
    add_postprocessing(found, part, mapped=[Mapped("logits", "logits", result)])
    assert inputs(found)["logits"] == [result]
    assert graphs.attrs(found, "logits")["T"].type == (3 if result.endswith("1") else 1)
    sound(found)


def test_a_part_that_hands_the_placeholder_through() -> None:
    found = model()
    part = graph(placeholder("logits"), const("aside", [1]), name="post.pb")
    add_postprocessing(found, part, mapped=[Mapped("logits", "logits", "logits")])
    assert inputs(found)["logits"] == ["logits_raw"]
    sound(found)


def test_mapped_names() -> None:
    found = model()
    part = graph(placeholder("raw"), identity("done", "raw"), name="post.pb")
    add_postprocessing(found, part, mapped=[Mapped("logits", "raw", "done:0")])
    assert inputs(found)["logits"] == ["logits_raw"]
    assert "done" not in graphs.names(found)


def test_another_node_of_the_part_that_has_the_served_name() -> None:
    found = model()
    part = graph(placeholder("raw"), const("logits", [5]), add("done", "raw", "logits"), name="post.pb")
    add_postprocessing(found, part, mapped=[Mapped("logits", "raw", "done")])
    assert inputs(found)["logits"] == ["logits_raw", "logits_1"]
    sound(found)


def test_another_node_of_the_part_that_has_the_served_name_beside_an_identity() -> None:
    found = model()
    part = graph(placeholder("raw"), graphs.scalar("logits", 1, graphs.INT32),
                 node("topk", "TopKV2", ["raw", "logits"], T=FLOAT), name="post.pb")  # fmt: skip
    add_postprocessing(found, part, mapped=[Mapped("logits", "raw", "topk:1")])
    assert inputs(found)["logits"] == ["topk:1"]
    sound(found)


def test_a_result_of_an_unknown_op_is_still_a_graph_that_loads() -> None:
    found = model()
    part = graph(placeholder("logits"), node("logits_postprocessed", "MyOp", ["logits"]), name="post.pb")
    add_postprocessing(found, part)
    findings = check(from_bytes(graphs.written(found)))
    assert findings.faults == []


@pytest.mark.parametrize(
    ("found", "part", "mapped", "words"),
    [
        (model(), graph(placeholder("logit"), name="post.pb"), [],
         r"post\.pb has a placeholder 'logit', and model\.pb has no node 'logit' .*Did you mean 'logits'"),
        (model(), graph(placeholder("logits"), name="post.pb"), [],
         r"post\.pb has a placeholder 'logits' and no node 'logits_postprocessed'"),
        (model(), graph(const("k", [1]), name="post.pb"), [], r"post\.pb has no placeholder"),
        (graph(const("axis", [0], graphs.INT32, ()), const("v", [1, 2]),
               node("logits", "Split", ["axis", "v"], T=FLOAT, num_split=2)), post(), [],
         r"'logits' of model\.pb \(Split\) has several outputs: postprocessing goes behind a node with one"),
        (graph(node("logits", "NoOp")), post(), [], r"'logits' of model\.pb \(NoOp\) has no output"),
        (model(), graph(placeholder("logits", INT64), identity("logits_postprocessed", "logits", kind=INT64),
                        name="post.pb"), [],
         r"'logits' of model\.pb is float32, and 'logits' of post\.pb takes int64"),
        (graph(const("logits", [1, 2])), graph(placeholder("logits", FLOAT, (3,)),
               identity("logits_postprocessed", "logits"), name="post.pb"), [],
         r"'logits' of model\.pb is float32 \[2\], and 'logits' of post\.pb takes float32 \[3\]"),
        (model(), post(), [Mapped("logits", "logits", "logits_postprocessed:2")], "has 1 output"),
        (model(), post(), [Mapped("w", "logits_postprocessed", "logits")], "is a Softmax, not a Placeholder"),
        (model(), post(node("_bad", "NoOp")), [], "'_bad' is not a legal node name"),
        (model(), post(identity("z", "gone")), [], "'z' reads 'gone', which is not there"),
        (model(), post(identity("z", "a:b:c")), [], "no tensor's name"),
        (model(), post(trailer=graphs.encode_len(2, b"\x0a\x05ab")), [], "library of post.pb is corrupt"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(found: Graph, part: Graph, mapped: list[Mapped], words: str) -> None:
    refused(words, found, part, *mapped)


def test_unequal_functions_get_a_new_name() -> None:
    body, other = (node("y", op, ["x"], T=FLOAT) for op in ("Identity", "Neg"))
    found = model(node("f", "F", ["w"]), trailer=library(function("F", body)))
    result = add_postprocessing(found, post(node("g", "Call", ["logits"], f=func("F")),
                                            trailer=library(function("F", other))))  # fmt: skip
    assert result.intent.renamed_functions == {"F": "F_1"}
    assert graphs.attrs(found, "g")["f"].func.name == "F_1"
    assert graphs.ops(found)["f"] == "F"


def test_postprocessing_twice() -> None:
    found = model()
    add_postprocessing(found, post())
    add_postprocessing(found, post())
    assert inputs(found)["logits"] == ["logits_raw_1"]
    assert inputs(found)["logits_raw_1"] == ["logits_raw"]
    sound(found)


def test_taking_the_edit_back_by_hand_gives_the_old_bytes() -> None:
    original = model(identity("inside", "logits"))
    found = model(identity("inside", "logits"))
    add_postprocessing(found, post())
    found.remove([found["logits"]])
    found.rename({found["logits_raw"]: "logits"})
    assert graphs.written(found) == graphs.written(original)


def test_on_the_fixtures() -> None:
    found, part = load(str(FIXTURES / "classifier.pb")), load(str(FIXTURES / "label_lookup.pb"))
    count = found.node_count
    result = add_postprocessing(found, part)
    (interface,) = result.claims[0].outputs  # type: ignore[attr-defined]
    assert {interface.name, interface.raw} <= set(graphs.names(found))
    assert found.node_count == count + part.node_count - 1
    with pytest.raises(EditError):
        add_postprocessing(load(str(FIXTURES / "while_v1.pb")), part)
    sound(found)


def test_a_node_that_gets_a_number_beside_an_output_that_has_one() -> None:
    found = graph(placeholder("x", FLOAT, (2,)), identity("c", "x"), identity("c_1", "c"))
    part = graph(
        placeholder("c_1", FLOAT, None), identity("c", "c_1"), node("c_1_postprocessed", "Abs", ["c"], T=FLOAT)
    )
    result = add_postprocessing(found, part)
    assert inputs(found)["c_2"] == ["c_1_raw"] and inputs(found)["c_1"] == ["c_2"]
    check_accounted(found, result, found.chunks())
