"""The primitives that change a graph, against a naive model of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.expecting import refused
from support.graphs import FLOAT, add, const, g8, graph, identity, node, random_graphs, written
from support.paths import FIXTURES

from gdsurgeon.analysis.queries.usage import op_counts
from gdsurgeon.errors import EditError, InputError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import load
from gdsurgeon.graph.node import Output
from gdsurgeon.wire.protos import NodeDef
from gdsurgeon.wire.source import BytesSource


class Model:
    """A graph as a list of NodeDef messages; every answer by looking at all of them."""

    def __init__(self, parsed: Any) -> None:
        self.nodes: list[Any] = list(parsed.node)

    def get(self, name: str) -> Any:
        (found,) = [n for n in self.nodes if n.name == name]
        return found

    def data(self, n: Any) -> list[str]:
        return [t.removesuffix(":0") for t in n.input if not t.startswith("^")]

    def controls(self, n: Any) -> list[str]:
        return [t for t in n.input if t.startswith("^")]

    def colocated(self, n: Any) -> list[str]:
        return [s[5:].decode() for s in n.attr["_class"].list.s] if "_class" in n.attr else []

    def users(self, name: str) -> list[str]:
        return [n.name for n in self.nodes if any(t.lstrip("^").split(":")[0] == name for t in n.input)]

    def uses(self, name: str, index: int) -> list[tuple[str, int]]:
        text = f"{name}:{index}" if index else name
        return [(n.name, slot) for n in self.nodes for slot, t in enumerate(self.data(n)) if t == text]

    def colocated_with(self, name: str) -> list[str]:
        return [n.name for n in self.nodes if name in self.colocated(n)]

    def rename(self, names: dict[str, str]) -> None:
        for n in self.nodes:
            n.name = names.get(n.name, n.name)
            for i, text in enumerate(n.input):
                control, rest = text[:1] == "^", text.lstrip("^")
                base, colon, index = rest.partition(":")
                n.input[i] = "^" * control + names.get(base, base) + colon + index
            if "_class" in n.attr:
                found = n.attr["_class"].list.s
                found[:] = [b"loc:@" + names.get(s[5:].decode(), s[5:].decode()).encode() for s in found]

    def set_inputs(self, name: str, inputs: list[str]) -> None:
        n = self.get(name)
        n.input[:] = inputs + self.controls(n)

    def set_controls(self, name: str, controls: list[str]) -> None:
        n = self.get(name)
        n.input[:] = self.data(n) + ["^" + c for c in dict.fromkeys(controls)]

    def set_colocated(self, name: str, others: list[str]) -> None:
        n = self.get(name)
        n.attr.pop("_class", None)
        if others:
            n.attr["_class"].list.s.extend(b"loc:@" + o.encode() for o in others)


def compare(graph: Graph, model: Model, *, ask: bool) -> None:
    """The bytes that the graph comes to, and (ASK) everything that can be asked of its nodes."""
    assert list(graph.names()) == [n.name for n in model.nodes]
    assert graph.node_count == len(model.nodes)
    for expected in model.nodes if ask else ():
        name = expected.name
        found = graph[name]
        assert found.op == expected.op
        assert [o.name for o in found.inputs] == model.data(expected)
        assert ["^" + c.name for c in found.controls] == model.controls(expected)
        assert [c.name for c in found.colocated] == model.colocated(expected)
        assert sorted(u.name for u in graph.users(found)) == sorted(model.users(name))
        for index in (0, 1):
            uses = [(u.node.name, u.slot) for u in graph.uses(Output(found, index))]
            assert sorted(uses) == sorted(model.uses(name, index))
        assert sorted(u.name for u in graph.colocated_with(found)) == sorted(model.colocated_with(name))
    counts: dict[str, int] = {}
    for n in model.nodes:
        counts[n.op] = counts.get(n.op, 0) + 1
    assert op_counts(graph) == counts
    # `names` has the added nodes last; in the file they may stand after another node.
    assert {n.name: normal(n) for n in graphs.parsed(graph).node} == {n.name: normal(n) for n in model.nodes}


def normal(n: Any) -> Any:
    """NODE with ``:0`` left out and empty attrs dropped."""
    out = type(n)()
    out.CopyFrom(n)
    out.input[:] = [t.removesuffix(":0") for t in n.input]
    if "_class" in out.attr and not out.attr["_class"].list.s:
        out.attr.pop("_class")
    return out


@given(random_graphs(), st.data())
def test_sequences_of_edits(drawn: graphs.Drawn, draw: st.DataObject) -> None:
    graph, model = Graph(BytesSource(drawn.data)), Model(drawn.message)
    if draw.draw(st.booleans(), "search"):
        graph.prefetch(draw.draw(st.lists(st.sampled_from(graphs.NAMES), max_size=3), "names"))
    fresh = iter(f"fresh_{i}" for i in range(100))
    for _ in range(draw.draw(st.integers(1, 6), "edits")):
        names = [n.name for n in model.nodes]
        if not names:
            break
        some = st.sampled_from(names)
        what = draw.draw(
            st.sampled_from(["rename", "swap", "inputs", "controls", "colocated", "add", "remove", "touch", "slots"])
        )
        name, other = draw.draw(some, "node"), draw.draw(some, "other")
        if what == "rename":
            new = draw.draw(st.sampled_from([n for n in [*graphs.NAMES, "y/z"] if n not in names] or [name]), "new")
            graph.rename({graph[name]: new})
            model.rename({name: new})
        elif what == "swap" and name != other:
            graph.rename({graph[name]: other, graph[other]: name})
            model.rename({name: other, other: name})
        elif what == "inputs":
            inputs = draw.draw(st.lists(some, max_size=3), "inputs")
            graph.set_inputs(graph[name], [graph[i].output for i in inputs])
            model.set_inputs(name, inputs)
        elif what == "controls":
            controls = draw.draw(st.lists(some, max_size=3), "controls")
            graph.set_controls(graph[name], [graph[c] for c in controls])
            model.set_controls(name, controls)
        elif what == "colocated":
            others = draw.draw(st.lists(some, max_size=2), "with")
            graph.set_colocated(graph[name], [graph[o] for o in others])
            model.set_colocated(name, others)
        elif what == "add":
            new = next(fresh)
            after = draw.draw(st.booleans(), "after")
            graph.add(new, "Identity", [graph[name].output], [graph[other]], attrs={"T": FLOAT},
                      after=graph[name] if after else None)  # fmt: skip
            added = NodeDef(name=new, op="Identity", input=[name, "^" + other])
            added.attr["T"].type = 1
            model.nodes.append(added)
        elif what == "slots":
            slots = {i: graph[other].output for i, _ in enumerate(graph[name].inputs) if draw.draw(st.booleans(), "?")}
            expected = model.data(model.get(name))
            changed = sum(expected[i] != other for i in slots)
            assert graph.set_slots({graph[name]: slots}) == changed
            model.set_inputs(name, [other if i in slots else t for i, t in enumerate(expected)])
        elif what == "remove":
            stay = [n for n in model.nodes if n.name != name]
            users = [n.name for n in stay if n.name in (*model.users(name), *model.colocated_with(name))]
            if users:
                with pytest.raises(EditError) as caught:
                    graph.remove([graph[name]])
                assert caught.value.code in ("has-consumers", "has-colocated")
            else:
                graph.remove([graph[name]])
                model.nodes = stay
        elif what == "touch":
            graph.touch(graph[name])
        compare(graph, model, ask=draw.draw(st.booleans(), "ask"))


def test_a_question_for_changes_does_not_index_the_file() -> None:
    found = graph(const("k", [1.0]), identity("y", "k"))
    assert not found.is_changed and found.written() is found
    assert not found.store.has_table


@pytest.mark.parametrize(
    ("edit", "code", "facts"),
    [
        (lambda g: g.rename({g["a"]: "x", g["foo/b"]: "x"}), "given-twice", {"name": "x"}),
        (lambda g: g.rename({g["a"]: "foo/c"}), "name-taken", {"name": "foo/c"}),
        (lambda g: g.rename({g["a"]: "fine", g["foo/b"]: "_bad"}), "bad-name", {"name": "_bad"}),
        (lambda g: g.add("a", "NoOp"), "name-taken", {"name": "a"}),
        (lambda g: g.add("^a", "NoOp"), "bad-name", {"name": "^a"}),
        (lambda g: g["foo/bar/ee"], "no-such-node", {"node": "foo/bar/ee", "near": "foo/bar/e"}),
        (lambda g: g.tensor("a:1"), "no-such-tensor", {"tensor": "a:1", "count": 1}),
    ],
)
def test_names_are_checked_before_anything_changes(edit: Any, code: str, facts: dict[str, Any]) -> None:
    refused(graph(*g8()), code, edit, **facts)


def test_what_is_asked_of_a_node() -> None:
    found = graph(*g8(), node("u", "MyOp", ["a"], device="/cpu:0", k=5, _class=["other", "loc:@a"]))
    u = found["u"]
    assert (u.op, u.device, u.plain_attr("k"), u.attr("none"), set(u.attr_keys)) == (
        "MyOp", "/cpu:0", 5, None, {"k", "_class"}
    )  # fmt: skip
    assert u.output_dtypes is None
    assert found["a"].output_dtypes == [1]
    assert found["foo/c"].input_dtypes == [1, 1]
    assert (found["foo/c"].output.dtype, u.output.dtype) == (1, 0)
    assert found["a"] is found["a"]
    assert Output(u, 1) == Output(u, 1) != Output(u, 0)
    assert len({Output(u, 1), Output(u, 1), u.output}) == 2


def test_a_class_attr_that_is_no_text_is_not_rewritten_for_the_sake_of_another_change() -> None:
    value = graphs.encode_len(1, graphs.encode_len(2, b"loc:@\xff\xfe"))
    data = graphs.graph_bytes(const("a", [1]), identity("b", "a", _class=value))
    found = Graph(BytesSource(data))
    found.rename({found["a"]: "z"})
    assert graphs.colocations(found)["b"] == [b"loc:@\xff\xfe"]


def test_an_input_that_is_no_tensors_name_is_an_input_error() -> None:
    found = graph(node("n", "Identity", ["a:b:c"], T=FLOAT))
    bad = {"node": "n", "tensor": "a:b:c"}
    refused(found, "bad-tensor-name", lambda _: found["n"].inputs, error=InputError, **bad)


def test_a_renamed_big_constant_is_a_span() -> None:
    weights = const("w", [1.0] * 100_000)
    found = graph(weights, identity("y", "w"))
    found.rename({found["w"]: "weights"})
    fresh = [c for c in found.chunks() if isinstance(c, bytes)]
    assert sum(map(len, fresh)) < 60
    assert graphs.names(found) == ["weights", "y"]


@pytest.mark.parametrize("name", ["x.pbtxt", "x.txt", "x.pb", "x"])
def test_a_graph_is_saved_in_the_form_that_the_suffix_says(name: str, tmp_path: Path) -> None:
    found = graph(*g8())
    found.save(str(tmp_path / name))
    data = (tmp_path / name).read_bytes()
    assert data.startswith(b"node {\n") == name.endswith("txt")
    assert written(load(str(tmp_path / name))) == written(found)


def test_a_graph_that_was_text_is_text_again(tmp_path: Path) -> None:
    found = load(str(FIXTURES / "tiny.pbtxt"))
    for name, is_text in (("again", True), ("binary.pb", False)):
        found.save(str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(b"node {") == is_text


def counted(found: Graph) -> tuple[int, list[str]]:
    """Stands for a result that is slow to compute."""
    calls.append(found.version)
    return found.node_count, list(found.names())


calls: list[int] = []


def test_what_is_derived_is_made_once_for_each_version() -> None:
    calls.clear()
    found = graph(*g8())
    assert found.derived(counted) is found.derived(counted)
    found.rename({found["a"]: "z"})
    assert "z" in found.derived(counted)[1]
    assert found.derived(counted) is found.derived(counted)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.set_inputs(g["z"], [g["a"].output]),
        lambda g: g.set_controls(g["z"], [g["b"]]),
        lambda g: g.set_colocated(g["z"], [g["b"]]),
        lambda g: g.set_attr(g["z"], "_x", b""),
        lambda g: g.set_op(g["z"], "Snapshot"),
        lambda g: g.set_device(g["z"], "/cpu:0"),
        lambda g: g.add("new", "NoOp"),
        lambda g: g.add_copy("copy", g["a"]),
        lambda g: g.rename({g["z"]: "newer"}),
        lambda g: g.remove([g["z"]]),
    ],
)
def test_each_way_to_change_a_graph_makes_another_version(change: Any) -> None:
    found = graph(const("a", [1]), const("b", [1]), add("y", "a", "b"), identity("z", "y"))
    before = found.version
    change(found)
    assert found.version > before


def test_the_pristine_graph_is_one_object_that_no_change_reaches() -> None:
    found = graph(const("a", [1]), identity("y", "a"))
    before = found.pristine()
    found.rename({found["a"]: "b"})
    assert found.pristine() is before
    assert before.version == 0
    assert list(before.names()) == ["a", "y"]


def test_a_node_that_nobody_has_is_known_by_those_who_read_it() -> None:
    found = graph(identity("y", "gone"), node("z", "NoOp", ["^gone"]))
    assert sorted(found.store.users("gone")) == ["y", "z"]
    assert not found.store.has("gone")
