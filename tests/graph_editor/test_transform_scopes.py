"""Scopes, loops, functions and what has a shared name, copied."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.graph_editor_running import Load, clone, int32, refused, run, sound
from support.graphs import FLOAT, const, graph, identity, node, scalar

import gdsurgeon as gds
from gdsurgeon import graph_editor as ge
from gdsurgeon.graph.graph import Graph
from gdsurgeon.runtime.client import Worker

# Scopes, colocation.


def test_a_scope_that_is_in_use_is_made_unique_as_a_whole() -> None:
    def copied(**options: Any) -> list[str]:
        found = graph(const("s/b", [1]), identity("s/b/y", "s/b"), const("t/b", [1]))
        _, info = ge.copy(ge.sgv_scope("s", found), dst_scope="t", src_scope="s", **options)
        return [n.name for n in info.transformed_ops.values()]

    assert copied() == ["t_1/b", "t_1/b/y"]
    assert copied(reuse_dst_scope=True) == ["t/b_1", "t/b/y"]


def test_fresh_scopes_are_counted() -> None:
    found = graph(const("s/b", [1]), const("t", [1]), const("t_1/x", [1]), const("tx/y", [1]))
    for scope in ("t_2/b", "t_3/b"):
        _, info = ge.copy(ge.sgv_scope("s", found), dst_scope="t/", src_scope="s/")
        assert [n.name for n in info.transformed_ops.values()] == [scope]


def test_a_colocation_with_something_outside_is_kept() -> None:
    found = clone(identity("s/c", "ext", _class=["loc:@ext", "loc:@s/b"]))
    ge.copy_with_input_replacements(ge.sgv_scope("s", found), {}, dst_scope="t", src_scope="s")
    assert graphs.colocations(found)["t/c"] == [b"loc:@ext", b"loc:@t/b"]
    target = ge.empty_graph(found)
    ge.copy(ge.sgv_scope("s", found), target)
    assert graphs.colocations(target) == {"s/c": [b"loc:@s/b"]}


def test_a_colocation_inside_is_one_among_the_copies() -> None:
    found = graph(const("s/a", [1]), const("s/b", [1], _class=["loc:@s/a"]))
    ge.copy(found)
    assert graphs.colocations(found) == {"s/b": [b"loc:@s/a"], "s/b_1": [b"loc:@s/a_1"]}


@pytest.mark.parametrize("scope", ["s", "s/"])
def test_what_is_not_under_the_source_scope_is_refused(scope: str) -> None:
    found = clone(const("sx/y", [1]))
    b, other = found["s/b"], found["sx/y"]
    refused(found, "outside-scope", lambda: ge.copy([b, other], dst_scope="t", src_scope=scope), node="sx/y", scope="s")
    refused(found, "bad-name", lambda: ge.copy(b, dst_scope="t t", src_scope=scope), name="t t/b")
    ge.copy(b, dst_scope="t", src_scope=scope)
    assert "t/b" in found


def test_the_node_that_is_called_like_the_scope_moves_with_it() -> None:
    found = graph(const("s", [1]), identity("s/b", "s"))
    ge.copy(ge.sgv_scope("s", found), dst_scope="t", src_scope="s")
    assert graphs.inputs(found)["t/b"] == ["t"]


# While loops, conditionals, functions, shared names.


@pytest.mark.tensorflow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_conditional_runs_in_another_graph(version: str, worker: Worker, tf1_graph: Load) -> None:
    found = tf1_graph(f"conditional_{version}")
    target = ge.empty_graph(found)
    ge.copy(found, dst_graph=target, dst_scope="imported")
    for choice, expected in [(True, 1), (False, 2)]:
        assert run(worker, target, "imported/result", fed={"imported/choice": choice}) == [expected]


@pytest.mark.tensorflow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_two_copies_of_a_while_loop_run_at_once_in_another_graph(version: str, worker: Worker, tf1_graph: Load) -> None:
    found = tf1_graph(f"while_loop_{version}")
    target = ge.empty_graph(found)
    fed, fetched = {}, []
    for scope, count in (("one", 10), ("two", 3)):
        _, info = ge.copy(found, dst_graph=target, dst_scope=scope)
        n, total = info.transformed(["n", "sum"])
        assert (n.name, total.name) == (f"{scope}/n", f"{scope}/sum")
        fed[n.name] = int32(count)
        fetched.append(total.name)
    assert run(worker, target, *fetched, fed=fed) == [55, 6]


def frames(found: Graph) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for n in graphs.parsed(found).node:
        if n.op == "Enter":
            out.setdefault(n.attr["frame_name"].s.decode(), set()).add(n.name)
    return out


def test_every_copy_of_a_while_loop_has_a_frame_of_its_own() -> None:
    found = graph(*graphs.loop())
    for scope in ("one", "two"):
        ge.copy(found, ge.empty_graph(found), scope)
        ge.copy([found[n] for n in graphs.names(graph(*graphs.loop()))], dst_scope=scope)
    assert len(frames(found)) == 3 and {len(names) for names in frames(found).values()} == {2}
    assert sound(found)
    target = ge.empty_graph(found)
    ge.copy(graph(*graphs.loop()), target, "one")
    assert list(frames(target)) == ["w"]
    ge.copy(graph(*graphs.loop()), target, "two")
    assert len(frames(target)) == 2 and sound(target)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_part_of_a_while_loop_is_refused(elsewhere: bool) -> None:
    found = graph(*graphs.loop())
    nodes = [n for n in found.nodes() if n.name not in ("w/Switch", "w/NextIteration")]
    target = ge.empty_graph(found) if elsewhere else found
    view = ge.SubGraphView(nodes).remap_inputs([])
    refused(target, "crosses-loop", lambda: ge.copy(view, target, "x"), loop="w")


def test_functions_come_along() -> None:
    body = node("y", "Identity", ["x"], T=FLOAT)
    types = graphs.dtypes(FLOAT)
    call = node("call", "PartitionedCall", ["a"], f=graphs.func("F"), Tin=types, Tout=types)
    found = graph(const("a", [1]), call, graphs.library(graphs.function("F", body, ret="y:output:0")))
    target = ge.empty_graph(found)
    ge.copy(found, target, "x")
    assert [f.signature.name for f in target.functions] == ["F"]
    other = graphs.function("F", body, node("z", "NoOp"), ret="y:output:0")
    target = graph(const("a", [1]), graphs.library(other))
    ge.copy(found, target, "x")
    assert [f.signature.name for f in target.functions] == ["F", "F_1"]
    assert graphs.attrs(target, "x/call")["f"].func.name == "F_1"
    assert sound(target)


def test_a_copied_table_is_a_table_of_its_own() -> None:
    def table(**attrs: Any) -> bytes:
        return node("table", "HashTableV2", key_dtype=graphs.STRING, value_dtype=graphs.INT64, **attrs)

    found = graph(table(shared_name="shared"))
    ge.copy(found, dst_scope="x")
    names = {n.name: n.attr["shared_name"].s for n in graphs.parsed(found).node}
    assert names["table"] == b"shared" and len(set(names.values())) == 2
    target = ge.empty_graph(found)
    ge.copy(found["table"], target, "x")
    assert graphs.attrs(target, "x/table")["shared_name"].s == b"shared"
    ge.copy(found["table"], target, "y")
    assert graphs.attrs(target, "y/table")["shared_name"].s != b"shared"


def variable(name: str, value: float) -> list[bytes]:
    return [
        node(name, "VarHandleOp", dtype=FLOAT, shape=(), shared_name=""),
        scalar(f"{name}/init", value),
        node(f"{name}/assign", "AssignVariableOp", [name, f"{name}/init"], dtype=FLOAT),
        node(f"{name}/read", "ReadVariableOp", [name], dtype=FLOAT),
    ]


@pytest.mark.tensorflow
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_copied_variable_without_a_shared_name_is_a_variable_of_its_own(elsewhere: bool, worker: Worker) -> None:
    found = graph(*variable("a", 1))
    target, other = (graph(*variable("b", 3)), "b") if elsewhere else (found, "a")
    ge.copy(found, target, "x")
    two = ge.make_const(target, "two", 2.0)
    target.set_inputs(target["x/a/assign"], [target["x/a"].output, two.output])
    assigned = [f"{other}/assign", "x/a/assign"]
    assert run(worker, target, f"{other}/read", "x/a/read", first=assigned) == [3 if elsewhere else 1, 2]
    assert graphs.attrs(target, "x/a")["shared_name"].s == b"x/a"
    empty = ge.empty_graph(target)
    ge.copy(graph(*variable("a", 1)), empty)
    assert graphs.attrs(empty, "a")["shared_name"].s == b""


def test_weights_are_copied_to_another_graph_by_span(tmp_path: Any) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(graphs.graph_bytes(const("w", [1.0] * 1000), identity("y", "w")))
    found = gds.load(str(path))
    target = ge.empty_graph(found)
    ge.copy(found, target, "x")
    target.save(str(tmp_path / "copied.pb"))
    copied = gds.load(str(tmp_path / "copied.pb"))
    assert graphs.inputs(copied) == {"x/w": [], "x/y": ["x/w"]}
    assert graphs.attrs(copied, "x/w") == graphs.attrs(found, "w")
