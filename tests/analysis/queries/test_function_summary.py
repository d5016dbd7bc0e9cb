"""Functions: signatures, callers, and who is not used."""

from __future__ import annotations

from typing import Any

from support import graphs
from support.graphs import FLOAT, dtypes, func, function, graph, identity, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.analysis.queries.usage import FunctionSummary, function_summaries
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import load


def call(name: str, callee: str, source: str = "x") -> bytes:
    return node(name, "PartitionedCall", [source], Tin=dtypes(FLOAT), Tout=dtypes(FLOAT), f=func(callee))


def with_library(*functions: Any, nodes: list[bytes], gradients: dict[str, str] | None = None) -> Graph:
    return graph(placeholder("x"), *nodes, trailer=graphs.library(*functions, gradients=gradients) + graphs.VERSIONS)


def by_name(found: Graph) -> dict[str, FunctionSummary]:
    return {summary.name: summary for summary in function_summaries(found)}


PLAIN = node("y", "Identity", ["x"], T=FLOAT)


def test_callers_and_callees() -> None:
    found = by_name(
        with_library(
            function("leaf", PLAIN),
            function("middle", call("y", "leaf"), call("z", "leaf")),
            function("idle", call("y", "leaf")),
            function("idler", call("y", "idle")),
            nodes=[call("one", "middle"), call("two", "middle"), identity("y", "x")],
        )
    )
    assert list(found) == ["leaf", "middle", "idle", "idler"]
    assert (found["middle"].node_callers, found["middle"].calls) == (["one", "two"], ["leaf"])
    assert (found["leaf"].node_callers, found["leaf"].function_callers) == ([], ["middle", "idle"])
    assert [name for name in found if not found[name].is_used] == ["idle", "idler"]
    assert found["middle"].node_count == 2


def test_functions_called_by_their_names_and_by_unknown_ops() -> None:
    found = by_name(
        with_library(
            function("direct", PLAIN), function("odd", PLAIN), function("branch", PLAIN),
            nodes=[node("a", "direct", ["x"]), node("b", "MyOp", ["x"], then=func("odd", inner=func("branch")))],
        )
    )  # fmt: skip
    assert found["direct"].node_callers == ["a"]
    assert found["odd"].node_callers == found["branch"].node_callers == ["b"]
    assert all(summary.is_used for summary in found.values())


def test_gradients_are_used_with_their_functions() -> None:
    functions = [function(name, PLAIN) for name in ("f", "f_grad", "g", "g_grad")]
    found = by_name(with_library(*functions, nodes=[call("c", "f")], gradients={"f": "f_grad", "g": "g_grad"}))
    assert found["f_grad"].gradient_of == ["f"]
    assert [name for name in found if found[name].is_used] == ["f", "f_grad"]


def test_signatures() -> None:
    made = function("f", PLAIN)
    made.signature.is_stateful = True
    del made.signature.input_arg[:]
    made.signature.input_arg.add(name="a", type=1)
    made.signature.input_arg.add(name="r", type=3, is_ref=True)
    made.signature.input_arg.add(name="t", type_attr="T")
    made.signature.input_arg.add(name="n", type_attr="T", number_attr="N")
    made.signature.input_arg.add(name="m", type=9, number_attr="N")
    made.signature.input_arg.add(name="l", type_list_attr="Tin")
    (found,) = function_summaries(with_library(made, nodes=[]))
    assert [kind for _, kind in found.inputs] == ["float32", "int32_ref", "T", "N * T", "N * int64", "Tin..."]
    assert found.outputs == [("out", "float32")]
    assert found.is_stateful
    assert not found.is_used


def test_recursion_and_missing_functions_do_not_matter() -> None:
    found = by_name(
        with_library(
            function("f", call("y", "g")), function("g", call("y", "f"), call("z", "gone")), nodes=[call("c", "f")]
        )
    )
    assert found["g"].calls == ["f", "gone"]
    assert all(summary.is_used for summary in found.values())


def test_a_long_chain_of_calls() -> None:
    functions = [function(f"f{i}", call("y", f"f{i + 1}")) for i in range(3000)] + [function("f3000", PLAIN)]
    found = function_summaries(with_library(*functions, nodes=[call("c", "f0")]))
    assert all(summary.is_used for summary in found)


def test_edits_are_seen() -> None:
    found = with_library(function("f", PLAIN), nodes=[call("c", "f")])
    found.remove([found["c"]])
    assert not by_name(found)["f"].is_used


def test_a_graph_without_functions() -> None:
    assert function_summaries(graph(placeholder("x"), node("u", "MyOp"))) == []


def test_a_graph_of_tensorflow_2() -> None:
    found = by_name(load(str(FIXTURES / "functions_tf2.pb")))
    assert all(summary.is_used for summary in found.values())
    assert found["__inference_scale_36"].function_callers == ["__inference_dense_frozen_84", "cond_true_62"]
    assert found["while_body_frozen_82"].node_callers == ["while"]
