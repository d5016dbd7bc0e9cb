"""Bodies of functions as graphs."""

from __future__ import annotations

import pytest
from support.graphs import Builder, body_node, func
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.errors import EditError
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load


def model() -> Graph:
    """``y = twice(x)`` with ``twice(a) = (a + a) / 1``, by two nodes and a constant."""
    b = Builder()
    b.placeholder("x", shape=[2])
    f = b.function("twice", {"a": "float32"}, {"sum": "float32"})
    body_node(f, "add", "AddV2", ["a", "a"], T="float32")
    body_node(f, "sum", "Identity", ["add:z:0", "^add"], T="float32")
    body_node(f, "parts", "Unpack", ["a"], T="float32", num=2, axis=0)
    body_node(f, "second", "Neg", ["parts:output:1"], T="float32")
    f.ret["sum"] = "sum:output:0"
    b.node("y", "PartitionedCall", ["x"], Tin=["float32"], Tout=["float32"], f=func("twice"))
    return from_bytes(b.graph_def.SerializeToString(), "model.pb")


def test_a_body_is_a_graph_with_arguments_and_results() -> None:
    body = Body(model(), "twice")
    assert [node.name for node in body.arguments] == ["a"]
    assert [node.name for node in body.results] == ["sum_1"]
    assert [output.name for output in body.results[0].inputs] == ["sum"]
    found = body.graph
    assert [output.name for output in found["second"].inputs] == ["parts:1"]
    assert [node.name for node in found["sum"].controls] == ["add"]
    assert found["a"].op == "Placeholder"
    assert sorted(node.name for node in found.users(found["a"])) == ["add", "parts"]
    assert check(found).faults == []


def test_a_body_that_was_not_touched_gives_the_function_back() -> None:
    found = model()
    body = Body(found, "twice")
    assert not body.graph.is_edited
    assert body.function_def() == found.functions.get("twice")


def test_names_follow_in_the_body_and_in_what_it_returns() -> None:
    found = model()
    body = Body(found, "twice")
    body.graph.rename({body.graph["sum"]: "total", body.graph["parts"]: "pieces", body.graph["a"]: "given"})
    body.commit()
    function = found.functions.get("twice")
    nodes = {node.name: list(node.input) for node in function.node_def}
    assert nodes == {
        "add": ["given", "given"],
        "total": ["add:z:0", "^add"],
        "pieces": ["given"],
        "second": ["pieces:output:1"],
    }
    assert dict(function.ret) == {"sum": "total:output:0"}
    assert [arg.name for arg in function.signature.input_arg] == ["given"]


def test_what_a_function_returns_can_be_rerouted() -> None:
    found = model()
    body = Body(found, "twice")
    body.graph.set_inputs(body.results[0], [body.graph["second"].output])
    body.commit()
    assert dict(found.functions.get("twice").ret) == {"sum": "second:y:0"}


@pytest.mark.parametrize("what", ["argument", "result"])
def test_the_ends_of_a_body_can_be_renamed_and_no_more(what: str) -> None:
    found = model()
    body = Body(found, "twice")
    end = body.arguments[0] if what == "argument" else body.results[0]
    body.graph.set_device(end, "/cpu:0")
    with pytest.raises(EditError, match=f"'{end.name}' is an? {what} of the function 'twice'"):
        body.commit()
    assert not found.is_changed


def test_a_function_has_no_placeholders_of_its_own() -> None:
    found = model()
    body = Body(found, "twice")
    body.graph.set_op(body.graph["second"], "Placeholder")
    with pytest.raises(EditError, match="no placeholders of its own"):
        body.commit()


def test_the_body_and_its_library_are_a_whole_graph() -> None:
    found = model()
    b = Body(found, "twice").graph
    again = from_bytes(
        b"".join(c if isinstance(c, bytes) else c.source.read(c.start, c.end - c.start) for c in b.chunks())
    )
    assert [f.signature.name for f in again.functions] == ["twice"]
    assert list(again.names()) == list(b.names())


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(EditError, match=r"no function 'twise'\. Did you mean 'twice'"):
        Body(model(), "twise")


def test_arguments_whose_number_a_call_decides_are_told() -> None:
    b = Builder()
    b.placeholder("x", shape=(2,))
    f = b.function("any", {"a": "float32"}, {})
    f.signature.attr.add(name="T", type="type")
    f.signature.input_arg[0].type = 0
    f.signature.input_arg[0].type_attr = "T"
    found = from_bytes(b.graph_def.SerializeToString())
    with pytest.raises(EditError, match="takes its 'T' from each call"):
        Body(found, "any")


def test_every_function_of_a_real_graph_is_given_back_as_it_was() -> None:
    found = load(str(FIXTURES / "functions_tf2.pb"))
    count = 0
    for function in list(found.functions):
        body = Body(found, function.signature.name)
        assert body.function_def() == function
        assert check(body.graph).faults == []
        count += 1
    assert count


def test_a_result_cannot_wait_for_a_node() -> None:
    """A function has no place for that: it would be lost without a word."""
    found = model()
    body = Body(found, "twice")
    body.graph.set_controls(body.results[0], [body.graph["add"]])
    with pytest.raises(EditError, match="is a result of the function 'twice'"):
        body.commit()
    assert not found.is_changed


def test_what_a_call_may_give_by_default_is_the_calls() -> None:
    """Filled in by its default it would be so for every call."""
    b = Builder()
    f = b.function("many", {"a": "float32"}, {"out": "float32"})
    count = f.signature.attr.add(name="N", type="int")
    count.default_value.i = 2
    f.signature.input_arg[0].number_attr = "N"
    body_node(f, "sum", "AddN", ["a"], T="float32", N=2)
    f.ret["out"] = "sum:sum:0"
    with pytest.raises(EditError, match="takes its 'N' from each call"):
        Body(b.graph(), "many")
