"""The selection language; the numbers are those of the specification."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some, shuffled
from support.graphs import BOOL, FLOAT, INT32, add, const, g8, graph, identity, node, placeholder, scalar, tensor

from gdsurgeon.analysis.traversal.order import levels
from gdsurgeon.analysis.traversal.topology import Topology
from gdsurgeon.analysis.traversal.walks import backward_walk, between, escape, forward_walk, members
from gdsurgeon.cli.main import exit_code
from gdsurgeon.cli.terminal import terminal
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection, select_nodes, selected

STEADY = settings(max_examples=150)


def names(found: Graph, **selection: Any) -> list[str]:
    return [n.name for n in select_nodes(found, Selection(**selection))]


def picked(records: list[bytes], **selection: Any) -> list[str]:
    return names(graph(*records), **selection)


def refused(records: list[bytes], **selection: Any) -> str:
    found = graph(*records)
    with pytest.raises(EditError) as caught:
        select_nodes(found, Selection(**selection))
    assert not found.is_changed
    return caught.value.message


def short(text: str) -> list[str]:
    """Names on G8 with the scope prefixes dropped."""
    full = {"a": "a", "b": "foo/b", "c": "foo/c", "d": "foo/d", **{x: f"foo/bar/{x}" for x in "efgh"}}
    return [full[x] for x in text]


# -- by name -----------------------------------------------------------------------------------------------


def test_nodes_come_in_file_order_and_once() -> None:
    assert picked(g8(), nodes=("foo/d", "a", "foo/d")) == ["a", "foo/d"]
    assert picked(g8(), nodes=("foo/d",), regexes=("d$",), ops=("Const",)) == short("abd")


def test_a_missing_node_is_said_with_the_nearest() -> None:
    assert refused(g8(), nodes=("foo/bra/e",)) == (
        "model.pb has no node 'foo/bra/e' (8 nodes). Did you mean 'foo/bar/e'?"
    )
    assert "no node 'foo/c:0'" in refused(g8(), nodes=("foo/c:0",))
    assert "no node ''" in refused(g8(), nodes=("",))


def test_patterns_are_searched_and_not_anchored() -> None:
    assert picked(g8(), regexes=("a",)) == short("aefgh")
    assert picked(g8(), regexes=("^foo/",)) == short("bcdefgh")
    assert picked(g8(), regexes=("^foo/bar/",)) == short("efgh")
    assert picked(g8(), regexes=("^foo/bar/", "^a$")) == short("aefgh")
    assert picked(g8(), regexes=(r"^.*\b[abc]$",)) == short("abc")


def test_a_pattern_without_a_match_is_named() -> None:
    assert refused(g8(), regexes=("a", "^bar")) == "regexes '^bar' matched 0 nodes"


@pytest.mark.parametrize("key", ["regexes", "exclude"])
def test_what_is_no_pattern(key: str) -> None:
    assert refused(g8(), **{key: ("(",)}).startswith("'(' is not a regular expression: ")


def test_ops_are_taken_exactly() -> None:
    assert picked(g8(), ops=("Const",)) == short("abd")
    assert picked(g8(), ops=("AddV2",)) == short("cefgh")
    assert picked(g8(), ops=("AddV2", "Const")) == short("abcdefgh")
    for op in ("Add", "const", "AddV2 ", "Add.*"):
        assert refused(g8(), ops=(op,)).startswith(f"ops '{op}' matched 0 nodes")


def test_a_missing_op_is_said_with_the_nearest_that_is_there() -> None:
    assert refused(g8(), ops=("Addv2",)) == "ops 'Addv2' matched 0 nodes. Did you mean 'AddV2'?"
    assert refused(g8(), ops=("Conv2D",)) == "ops 'Conv2D' matched 0 nodes"


def test_scopes() -> None:
    assert picked(g8(), scopes=("foo",)) == picked(g8(), scopes=("foo/",)) == short("bcdefgh")
    assert picked(g8(), scopes=("foo/bar",)) == picked(g8(), scopes=("foo/bar/",)) == short("efgh")
    assert picked(g8(), scopes=("foo/bar", "a")) == short("aefgh")
    assert picked(g8(), scopes=("foo/b",)) == short("b")


def test_the_node_named_like_the_scope_belongs_to_it_and_names_that_begin_like_it_do_not() -> None:
    records = [const(n, [1]) for n in ("s", "s/x", "s_1", "s_1/x", "st/x", "r/s", "r/s/x", "S/x")]
    assert picked(records, scopes=("s",)) == ["s", "s/x"]
    assert picked(records, scopes=("r/s",)) == ["r/s", "r/s/x"]


def test_scopes_are_literal() -> None:
    records = [const(n, [1]) for n in ("a.b/y", "axb/y", "a.b", "axb", "c-d/y")]
    assert picked(records, scopes=("a.b",)) == ["a.b/y", "a.b"]
    assert refused(records, scopes=("a.",)).startswith("scopes 'a.' matched 0 nodes")
    assert refused(records, scopes=(".*",)).startswith("scopes '.*' matched 0 nodes")


def test_a_missing_scope_is_said_with_the_nearest() -> None:
    assert refused(g8(), scopes=("foo/baz",)) == "scopes 'foo/baz' matched 0 nodes. Did you mean 'foo/bar'?"


# -- paths -------------------------------------------------------------------------------------------------


def test_between_has_the_ends_and_not_the_beginnings() -> None:
    assert picked(g8(), between=((("foo/c",), ("foo/bar/h",)),)) == short("fgh")
    assert picked(g8(), between=((("a",), ("foo/bar/h",)),)) == short("cfgh")
    assert picked(g8(), between=((("a",), ("foo/c",)),)) == short("c")


def test_between_several() -> None:
    assert picked(g8(), between=((("foo/c", "foo/d"), ("foo/bar/e", "foo/bar/g")),)) == short("eg")
    two = ((("a",), ("foo/c",)), (("foo/d",), ("foo/bar/e",)))
    assert picked(g8(), between=two) == short("ce")
    # A beginning that lies on a path from another is part of it.
    assert picked(g8(), between=((("a", "foo/c"), ("foo/bar/f",)),)) == short("cf")


def test_between_an_end_that_no_path_leads_to_is_left_out() -> None:
    assert picked(g8(), between=((("foo/d",), ("foo/bar/e", "foo/bar/g")),)) == short("e")
    assert refused(g8(), between=((("foo/d",), ("foo/bar/g",)),)) == ("between 'foo/d'='foo/bar/g' matched 0 nodes")
    assert refused(g8(), between=((("foo/bar/h",), ("foo/c",)),)).endswith("matched 0 nodes")


def test_between_follows_control_edges_where_that_is_asked_for() -> None:
    records = [const("x", [1]), identity("a", "x"), const("k", [1]), identity("y", "k", "^a"), identity("z", "y")]
    assert refused(records, between=((("x",), ("z",)),)).endswith("matched 0 nodes")
    assert picked(records, between=((("x",), ("z",)),), control=True) == ["a", "y", "z"]


def test_what_waits_for_the_beginning_of_between_is_not_behind_it_unless_control_edges_are_followed() -> None:
    records = [const("x", [1]), const("k", [1]), identity("y", "k", "^x"), identity("z", "y")]
    assert refused(records, between=((("x",), ("z",)),)).endswith("matched 0 nodes")


def split() -> list[bytes]:
    return [
        const("axis", [0], INT32, ()),
        const("v", [1, 2, 3]),
        node("s", "Split", ["axis", "v"], T=FLOAT, num_split=3),
        identity("p", "s"),
        identity("q", "s:1"),
        add("r", "s:1", "s:2"),
        node("w", "NoOp", ["^s"]),
        add("z", "p", "r"),
    ]


def test_between_starts_at_one_output_of_a_node() -> None:
    assert picked(split(), between=((("s:1",), ("z",)),)) == ["r", "z"]
    assert picked(split(), between=((("s",), ("z",)),)) == picked(split(), between=((("s:0",), ("z",)),)) == ["p", "z"]
    assert picked(split(), between=((("s:1",), ("z", "q")),)) == ["q", "r", "z"]
    assert picked(split(), between=((("v",), ("s:2",)),)) == ["s"]


@pytest.mark.parametrize(
    ("tensor_name", "words"),
    [
        ("s:3", r"'s:3': node 's' (Split) has 3 outputs"),
        ("w", "node 'w' (NoOp) has 0 outputs"),
        ("^s", "'^s' is not the name of a tensor"),
        ("s:01", "is not the name of a tensor"),
        ("nope", "has no node 'nope'"),
        ("axi", "Did you mean 'axis'?"),
    ],
)
def test_what_names_no_tensor(tensor_name: str, words: str) -> None:
    assert words in refused(split(), between=(((tensor_name,), ("z",)),))
    assert words in refused(split(), between=((("v",), (tensor_name,)),))


def test_walks() -> None:
    assert picked(g8(), forward=("foo/bar/f",), backward=("foo/bar/g",)) == short("abcfgh")
    assert picked(g8(), forward=("a",), backward=("foo/bar/f",)) == short("abcdefgh")
    assert picked(g8(), forward=("foo/d",)) == short("defh")
    assert picked(g8(), backward=("foo/bar/g",)) == short("abcg")
    assert picked(g8(), forward=("foo/bar/e", "foo/bar/g")) == short("egh")


def test_walks_from_a_node_that_gives_nothing() -> None:
    """An end without outputs is where people want to walk back from: an init op, a train op, an Assert."""
    assert picked(split(), backward=("w",), control=True) == ["axis", "v", "s", "w"]
    assert picked(split(), backward=("w",)) == ["w"]


def test_walks_with_control_edges() -> None:
    records = [const("a", [1]), const("b", [1], _x=1), identity("c", "b", "^a"), node("d", "NoOp", ["^c"])]
    assert picked(records, forward=("a",)) == ["a"]
    assert picked(records, forward=("a",), control=True) == ["a", "c", "d"]
    assert picked(records, backward=("c",)) == ["b", "c"]
    assert picked(records, backward=("c",), control=True) == ["a", "b", "c"]


def test_walks_through_a_loop_go_round_it() -> None:
    body = {"w/Merge", "w/Less", "w/LoopCond", "w/Switch", "w/Identity", "w/Add", "w/NextIteration"}
    assert set(picked(graphs.loop(), forward=("w/Add",))) == {*body, "w/Exit", "out"}
    outside = {"w/Enter", "w/Limit", "w/one", "zero", "n"}
    assert set(picked(graphs.loop(), backward=("w/Less",))) == {*body, *outside}
    assert set(picked(graphs.loop(), between=((("w/Identity",), ("w/NextIteration",)),))) == body


# -- united, then excluded ---------------------------------------------------------------------------------


def test_all_that_is_named_is_united_before_anything_is_excluded() -> None:
    assert picked(g8(), scopes=("foo/bar",), nodes=("foo/bar/e", "a"), exclude=("/[ef]$",)) == short("agh")
    assert picked(g8(), ops=("Const",), regexes=("h$",), exclude=("^a$", "d")) == short("bh")


def test_exclude_alone_leaves_all_the_others() -> None:
    assert picked(g8(), exclude=("bar",)) == short("abcd")


def test_exclude_that_matches_nothing_excludes_nothing() -> None:
    assert picked(g8(), ops=("Const",), exclude=("nothing",)) == short("abd")


def test_nothing_is_left() -> None:
    assert refused(g8(), ops=("Const",), exclude=(".",)) == "the selection is empty: all that it names is excluded"


def test_nothing_is_named() -> None:
    assert refused(g8()).startswith("nothing is selected")
    assert refused(g8(), control=True, constants=True).startswith("nothing is selected")


# -- constants ---------------------------------------------------------------------------------------------


def weights() -> list[bytes]:
    """x * (w1 + w2) + bias, where the bias is read twice."""
    return [
        placeholder("x"),
        const("w1", [1, 2]),
        const("w2", [3, 4]),
        add("w", "w1", "w2"),
        node("mul", "Mul", ["x", "w"], T=FLOAT),
        const("bias", [1, 1]),
        add("y", "mul", "bias"),
        add("z", "mul", "bias"),
        const("unread", [1]),
    ]


def test_constants_come_with_the_nodes_that_alone_read_them() -> None:
    assert picked(weights(), nodes=("mul",)) == ["mul"]
    assert picked(weights(), nodes=("mul",), constants=True) == ["w1", "w2", "w", "mul"]
    assert picked(weights(), nodes=("y",), constants=True) == ["y"]
    assert picked(weights(), nodes=("y", "z"), constants=True) == ["bias", "y", "z"]


def test_what_has_state_or_is_fed_is_no_constant() -> None:
    records = [
        const("shape", [2], INT32),
        node("random", "RandomUniform", ["shape"], T=INT32, dtype=FLOAT, seed=1, seed2=2),
        const("c", [1, 2]),
        node("fed", "PlaceholderWithDefault", ["c"], dtype=FLOAT, shape=(2,)),
        add("y", "random", "fed"),
    ]
    assert picked(records, nodes=("y",), constants=True) == ["y"]


def test_constants_that_wait_for_something_selected() -> None:
    records = [placeholder("x"), identity("i", "x"), node("k", "Const", ["^i"], dtype=FLOAT, value=tensor([1])),
               add("y", "i", "k")]  # fmt: skip
    assert picked(records, nodes=("y",), constants=True) == ["k", "y"]


def test_excluded_constants_stay_out() -> None:
    assert picked(weights(), nodes=("mul",), constants=True, exclude=("w1",)) == ["w2", "w", "mul"]


def test_v1_control_flow_is_no_constant() -> None:
    """An Enter hands a weight into a loop: it is part of the loop and not of the node that reads it."""
    records = [
        *graphs.loop(),
        const("weight", [2], INT32, ()),
        node("w/weight", "Enter", ["weight"], T=INT32, frame_name="w", is_constant=True, parallel_iterations=10),
        node("w/Mul", "Mul", ["w/Identity", "w/weight"], T=INT32),
    ]
    assert picked(records, nodes=("w/Mul",), constants=True) == ["w/Mul"]
    assert picked(records, nodes=("w/Add",), constants=True) == ["w/one", "w/Add"]


# -- order and edits ---------------------------------------------------------------------------------------


def test_nodes_in_any_order() -> None:
    found = graph(*reversed(g8()))
    assert names(found, between=((("foo/c",), ("foo/bar/h",)),)) == short("hgf")
    assert names(found, ops=("Const",)) == short("dba")


def test_an_edited_graph() -> None:
    found = graph(*g8())
    found.rename({found["foo/c"]: "renamed/c"})
    found.add("foo/bar/new", "Identity", [found["foo/bar/h"].output], attrs={"T": FLOAT})
    found.remove([found["foo/bar/e"]])
    assert names(found, scopes=("foo",)) == [*short("bdfgh"), "foo/bar/new"]
    assert names(found, scopes=("renamed",)) == ["renamed/c"]
    assert names(found, regexes=("c$",)) == ["renamed/c"]
    assert names(found, forward=("renamed/c",)) == ["renamed/c", *short("fgh"), "foo/bar/new"]
    assert names(found, backward=("foo/bar/new",), exclude=("foo/bar",)) == ["a", "foo/b", "renamed/c", "foo/d"]
    assert names(found, ops=("Identity",)) == ["foo/bar/new"]
    for name in ("foo/c", "foo/bar/e"):
        with pytest.raises(EditError, match=f"has no node '{name}'"):
            names(found, nodes=(name,))
    found.set_op(found["foo/bar/g"], "Sub")
    assert names(found, ops=("Sub",)) == short("g")
    assert "foo/bar/g" not in names(found, ops=("AddV2",))


def test_a_name_that_one_node_has_left_to_another() -> None:
    found = graph(*g8())
    found.rename({found["a"]: "foo/b", found["foo/b"]: "a"})
    assert [n.op for n in select_nodes(found, Selection(nodes=("a",)))] == ["Const"]
    assert names(found, forward=("a",)) == ["a", *short("cefgh")]
    assert names(found, nodes=("a", "foo/b")) == ["foo/b", "a"]


def naive_walk(seeds: set[str], edges: dict[str, set[str]]) -> set[str]:
    out, pending = set(seeds), list(seeds)
    while pending:
        for other in edges.get(pending.pop(), set()) - out:
            out.add(other)
            pending.append(other)
    return out


def naive_edges(parsed: Any, control: bool) -> dict[str, set[str]]:
    """Consumers of each node."""
    out: dict[str, set[str]] = {}
    for n in parsed.node:
        for text in n.input:
            if control or text[0] != "^":
                out.setdefault(text.lstrip("^").split(":")[0], set()).add(n.name)
    return out


@STEADY
@given(graphs.random_graphs(), st.data(), st.booleans())
def test_walks_against_naive_ones(drawn: graphs.Drawn, data: st.DataObject, control: bool) -> None:
    parsed = drawn.message
    tensors = sorted({t for n in parsed.node for t in n.input if t[0] != "^"})
    if not tensors:
        return
    sources = pick_some(data.draw, tensors, 2, least=1, unique=True)
    targets = pick_some(data.draw, tensors, 2, least=1, unique=True)
    down = naive_edges(parsed, control)
    up: dict[str, set[str]] = {}
    for producer, consumers in down.items():
        for consumer in consumers:
            up.setdefault(consumer, set()).add(producer)
    nodes = lambda texts: {t.split(":")[0] for t in texts}  # noqa: E731
    readers = {n.name for n in parsed.node if any(t in sources for t in n.input)}
    expected = naive_walk(readers, down) & naive_walk(nodes(targets), up)
    found = from_bytes(drawn.data)
    try:
        assert set(names(found, between=((tuple(sources), tuple(targets)),), control=control)) == expected
    except EditError:
        assert not expected
    assert set(names(found, forward=tuple(sources), control=control)) == naive_walk(nodes(sources), down)
    assert set(names(found, backward=tuple(sources), control=control)) == naive_walk(nodes(sources), up)


@STEADY
@given(graphs.random_graphs(), st.data())
def test_an_edited_graph_is_selected_from_as_the_same_graph_loaded(drawn: graphs.Drawn, data: st.DataObject) -> None:
    found = from_bytes(drawn.data)
    all_names = [n.name for n in drawn.message.node]
    found.rename({found[pick(data.draw, all_names)]: "renamed/x"})
    givers = [n for n in found.nodes() if n.output_dtypes]
    if givers:
        source = pick(data.draw, givers)
        found.add("added/y", "Identity", [source.output], attrs={"T": FLOAT})
    ends = [n for n in found.nodes() if not found.users(n) and not found.colocated_with(n) and n.name != "added/y"]
    if ends:
        found.remove([pick(data.draw, ends)])
    again = from_bytes(graphs.written(found))
    some = [n.name for n in found.nodes() if n.output_dtypes]
    for selection in (
        Selection(exclude=("nothing",)),
        Selection(regexes=("[ab]",), exclude=("x",)),
        Selection(scopes=("a", "renamed")),
        Selection(ops=("Identity", "Const"), constants=True),
        *(Selection(forward=(n,), control=True) for n in some[:3]),
        *(Selection(backward=(n,), constants=True) for n in some[-3:]),
    ):
        got = [outcome(g, selection) for g in (found, again)]
        assert got[0] == got[1]
    top, top_again = Topology(found), Topology(again)
    assert [{top.name(n) for n in level} for level in levels(top)] == [
        {top_again.name(n) for n in level} for level in levels(top_again)
    ]


def outcome(found: Graph, selection: Selection) -> set[str] | str:
    try:
        return {n.name for n in select_nodes(found, selection)}
    except EditError as error:
        return error.message


# -- levels ------------------------------------------------------------------------------------------------


def level_names(found: Graph, **selection: Any) -> list[list[str]]:
    topology = Topology(found)
    inside = selected(topology, Selection(**selection)) if selection else None
    return [[topology.name(n) for n in level] for level in levels(topology, inside)]


def test_levels() -> None:
    assert level_names(graph(*g8())) == [short("abd"), short("c"), short("efg"), short("h")]
    assert level_names(graph(*reversed(g8()))) == [short("dba"), short("c"), short("gfe"), short("h")]


def test_levels_of_a_selection_count_only_what_is_selected() -> None:
    assert level_names(graph(*g8()), scopes=("foo/bar",)) == [short("efg"), short("h")]
    assert level_names(graph(*g8()), nodes=("a", "foo/bar/h")) == [["a", "foo/bar/h"]]


def test_levels_of_a_loop_leave_out_the_edge_that_closes_it() -> None:
    found = level_names(graph(*graphs.loop()))
    place = {name: i for i, level in enumerate(found) for name in level}
    assert place["n"] == place["zero"] == 0 and place["w/Merge"] == 2
    assert place["w/NextIteration"] > place["w/Add"] > place["w/Identity"] > place["w/Switch"] > place["w/LoopCond"]
    assert sum(map(len, found)) == len(graphs.loop())


def random_edges(data: st.DataObject) -> tuple[list[bytes], dict[str, set[str]]]:
    """A random graph of Adds and NoOps with control edges, in any order, and the producers of each node."""
    count = data.draw(st.integers(1, 24))
    producers: dict[str, set[str]] = {}
    records = []
    for i in range(count):
        name = f"n{i}"
        earlier = [f"n{j}" for j in range(i)]
        reads = pick_some(data.draw, earlier, 3) if earlier else []
        waits = pick_some(data.draw, earlier, 2) if earlier else []
        producers[name] = {*reads, *waits}
        if reads:
            records.append(node(name, "AddN", [*reads, *(f"^{w}" for w in waits)], T=FLOAT, N=len(reads)))
        else:
            records.append(node(name, "Const", [f"^{w}" for w in waits], dtype=FLOAT, value=tensor([1])))
    return shuffled(data.draw, records), producers


@STEADY
@given(st.data())
def test_each_node_is_in_the_earliest_level_that_there_is_for_it(data: st.DataObject) -> None:
    records, producers = random_edges(data)
    chosen = set(pick_some(data.draw, sorted(producers), least=1, unique=True))
    for inside, given_ in ((set(producers), {}), (chosen, {"nodes": tuple(chosen)})):
        longest: dict[str, int] = {}
        for name in producers:  # producers come first here
            if name in inside:
                longest[name] = 1 + max((longest[p] for p in producers[name] if p in inside), default=-1)
        found = level_names(graph(*records), **given_)
        assert {name: i for i, level in enumerate(found) for name in level} == longest
        assert sum(map(len, found)) == len(longest)


# -- size --------------------------------------------------------------------------------------------------

LONG = 20_000


@pytest.fixture(scope="module")
def chain() -> Graph:
    """Nodes, each of which reads the one before it."""
    records = [placeholder("n0", FLOAT, (1,))]
    records += [node(f"n{i}", "Neg", [f"n{i - 1}"], T=FLOAT) for i in range(1, LONG)]
    return graph(*records)


@pytest.mark.parametrize(
    "selection",
    [
        {"forward": ("n0",)},
        {"backward": (f"n{LONG - 1}",)},
        {"between": ((("n0",), (f"n{LONG - 1}",)),), "control": True},
        {"exclude": ("^n0$",)},
        {"regexes": ("n",), "constants": True},
        {"ops": ("Neg",)},
    ],
)
def test_a_long_chain_is_selected_quickly_and_without_recursion(chain: Graph, selection: dict[str, Any]) -> None:
    topology = Topology(chain)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        count = sum(selected(topology, Selection(**selection)))
    finally:
        sys.setrecursionlimit(limit)
    assert count in (LONG, LONG - 1)


def test_a_long_chain_in_levels(chain: Graph) -> None:
    assert len(levels(Topology(chain))) == LONG


def test_a_hub_and_a_fan() -> None:
    """A node with very many consumers, all read by one."""
    count = 10_000
    records = [const("hub", [1])]
    records += [identity(f"i{i}", "hub") for i in range(count)]
    records.append(node("sum", "AddN", [f"i{i}" for i in range(count)], T=FLOAT, N=count))
    found = graph(*records)
    topology = Topology(found)
    hub, end = topology.id_of(found["hub"]), topology.id_of(found["sum"])
    assert sum(between(topology, [(hub, 0)], [end])) == count + 1
    assert sum(forward_walk(topology, [hub])) == sum(backward_walk(topology, [end])) == count + 2
    assert sum(selected(topology, Selection(nodes=("sum",), constants=True))) == count + 2
    assert [len(level) for level in levels(topology)] == [1, count, 1]


# -- convexity ---------------------------------------------------------------------------------------------


def escaped(records: list[bytes], *inside: str) -> list[str]:
    found = graph(*records)
    topology = Topology(found)
    flags = bytearray(topology.size)
    for name in inside:
        flags[topology.id_of(found[name])] = 1
    return [topology.name(n) for n in escape(topology, flags)]


def test_a_path_that_leaves_and_comes_back() -> None:
    assert escaped(g8(), *short("ch")) in (short("cfh"), short("cgh"))
    assert escaped(g8(), *short("efgh")) == []
    assert escaped(g8(), *short("ae")) == short("ace")
    assert escaped(g8(), *short("ef")) == []


def test_a_path_by_control_edges() -> None:
    records = [const("a", [1]), node("w", "NoOp", ["^a"]), const("b", [1]), identity("c", "b", "^w")]
    assert escaped(records, "a", "c") == ["a", "w", "c"]


def test_the_edge_that_closes_a_loop_is_no_path() -> None:
    assert escaped(graphs.loop(), "w/Identity", "w/one", "w/Add") == []
    assert escaped(graphs.loop(), "w/Add") == []
    assert escaped(graphs.loop(), "w/Less", "w/Add")[::4] == ["w/Less", "w/Add"]


@STEADY
@given(st.data())
def test_escape_against_a_naive_one(data: st.DataObject) -> None:
    records, producers = random_edges(data)
    inside = set(pick_some(data.draw, sorted(producers), 5, least=1, unique=True))
    down: dict[str, set[str]] = {}
    for name, found in producers.items():
        for producer in found:
            down.setdefault(producer, set()).add(name)
    left = {c for name in inside for c in down.get(name, set()) if c not in inside}
    reached = naive_walk(left, {n: c - inside for n, c in down.items() if n not in inside})
    convex = not any(down.get(n, set()) & inside for n in reached)
    path = escaped(records, *inside)
    assert (path == []) is convex
    if path:
        assert path[0] in inside and path[-1] in inside and len(path) > 2
        assert not inside & set(path[1:-1])
        assert all(b in down[a] for a, b in pairwise(path))


def test_members() -> None:
    assert members(bytearray(b"\1\0\0\1\1")) == [0, 3, 4]


# -- the command -------------------------------------------------------------------------------------------


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Select:
    """`gdsurgeon select` in a folder that holds model.pb."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
        self.folder, self.capsys, self.patch = folder, capsys, patch
        self.put(*g8())

    def put(self, *records: bytes) -> None:
        (self.folder / "model.pb").write_bytes(graphs.graph_bytes(*records))

    def __call__(self, *options: str, stdin: bytes | None = None, model: str = "model.pb") -> Ran:
        if stdin is not None:
            self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        self.capsys.readouterr()
        code = exit_code(["select", model, *options])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err and "internal fault" not in err
        assert (code == 0) == (not err), err
        return Ran(code, out, err)

    def lines(self, *options: str, stdin: bytes | None = None) -> list[str]:
        ran = self(*options, stdin=stdin)
        assert ran.code == 0, ran.err
        assert ran.out == "" or ran.out.endswith("\n")
        return ran.out.splitlines()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Select]:
    monkeypatch.chdir(tmp_path)
    terminal.__init__()  # type: ignore[misc]
    yield Select(tmp_path, capsys, monkeypatch)
    terminal.__init__()  # type: ignore[misc]


def test_names_one_a_line(command: Select) -> None:
    assert command.lines("--scope", "foo/bar") == short("efgh")
    assert command.lines() == short("abcdefgh")
    assert command.lines("--select", "^a$", "--select", "h$", "--op", "Const", "--exclude", "foo/b$") == short("adh")
    assert command.lines("--between", "a,foo/d=foo/bar/e,foo/bar/g") == short("ceg")
    assert command.lines("--forward", "foo/bar/e,foo/bar/g") == short("egh")
    assert command.lines("--backward", "foo/c", "--backward", "foo/d") == short("abcd")
    assert command.lines("--node", "a", "--node", "foo/d") == short("ad")
    assert command.lines("--node", "foo/bar/g", "--with-consts") == short("g")


def test_control_edges_on_the_command_line(command: Select) -> None:
    command.put(const("a", [1]), node("w", "NoOp", ["^a"]))
    assert command.lines("--forward", "a") == ["a"]
    assert command.lines("--forward", "a", "--control-edges") == ["a", "w"]


def test_tensors(command: Select) -> None:
    command.put(*split())
    assert command.lines("--op", "Split", "--tensors") == ["s", "s:1", "s:2"]
    assert command.lines("--node", "w", "--node", "q", "--tensors") == ["q"]


def test_nothing_to_print_is_no_line(command: Select) -> None:
    """What is read line by line must not see a name that is empty."""
    command.put(*split())
    assert command("--node", "w", "--tensors").out == ""
    command.put()
    assert command().out == ""


def test_levels_one_a_line(command: Select) -> None:
    assert command.lines("--toposort") == ["a foo/b foo/d", "foo/c", "foo/bar/e foo/bar/f foo/bar/g", "foo/bar/h"]
    assert command.lines("--toposort", "--scope", "foo/bar") == ["foo/bar/e foo/bar/f foo/bar/g", "foo/bar/h"]
    assert command.lines("--toposort", "--scope", "foo/bar", "--tensors")[-1] == "foo/bar/h"


def test_a_single_level_is_one_line(command: Select) -> None:
    assert command.lines("--toposort", "--op", "Const") == ["a foo/b foo/d"]


def test_json(command: Select) -> None:
    found = json.loads(command("--node", "foo/bar/h", "--node", "a", "--json").out)
    assert found == [
        {"name": "a", "op": "Const", "inputs": [], "outputs": [{"name": "a", "dtype": "float32", "shape": [2]}]},
        {
            "name": "foo/bar/h",
            "op": "AddV2",
            "inputs": ["foo/bar/f", "foo/bar/g", "^foo/c"],
            "outputs": [{"name": "foo/bar/h", "dtype": "float32", "shape": None}],
        },
    ]


def test_json_of_what_is_not_known(command: Select) -> None:
    command.put(node("u", "MyOp", ["p"]), placeholder("p", FLOAT, (-1, 2)), node("n", "NoOp", ["^u"]))
    found = {n["name"]: n for n in json.loads(command("--json").out)}
    assert found["u"]["outputs"] == [{"name": "u", "dtype": None, "shape": None}]
    assert found["p"]["outputs"] == [{"name": "p", "dtype": "float32", "shape": [None, 2]}]
    assert (found["n"]["outputs"], found["n"]["inputs"]) == ([], ["^u"])


def test_json_of_levels_is_a_list_of_lists(command: Select) -> None:
    found = json.loads(command("--json", "--toposort").out)
    assert [[n["name"] for n in level] for level in found] == [short("abd"), short("c"), short("efg"), short("h")]
    found = json.loads(command("--json", "--toposort", "--op", "Const").out)
    assert [[n["name"] for n in level] for level in found] == [short("abd")]


def test_json_of_an_empty_graph(command: Select) -> None:
    command.put()
    assert json.loads(command("--json").out) == []


def test_names_from_a_file(command: Select, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(b"\xef\xbb\xbffoo/d\r\n\n  foo/bar/h:0  \na:1\n")
    assert command.lines("--nodes", "names.txt") == short("adh")
    assert command.lines("--nodes", "names.txt", "--op", "Const", "--exclude", "^a$") == short("bdh")


def test_names_from_standard_input(command: Select) -> None:
    assert command.lines("--nodes", "-", stdin=b"foo/c\nfoo/bar/e\n") == short("ce")


def test_what_it_prints_it_reads(command: Select, tmp_path: Path) -> None:
    command.put(*split())
    for options in (["--op", "Split"], ["--op", "Split", "--tensors"], ["--exclude", "s"]):
        printed = command(*options).out
        assert command(*options[:2]).out == command("--nodes", "-", stdin=printed.encode()).out


def test_the_model_and_the_names_cannot_both_come_from_standard_input(command: Select) -> None:
    ran = command("--nodes", "-", model="-", stdin=b"")
    assert ran.code == 2 and "MODEL and --nodes cannot both come from standard input" in ran.err


def test_an_empty_list_of_names_selects_nothing(command: Select, tmp_path: Path) -> None:
    """Where a pipe has found nothing to select, everything is not what is meant."""
    for options in ([], ["--exclude", "foo"]):
        ran = command("--nodes", "-", *options, stdin=b"\n")
        assert ran.code in (2, 4), ran.out


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00a"])
def test_a_list_of_names_that_cannot_be_read(command: Select, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "names.txt").write_bytes(content)
    ran = command("--nodes", "names.txt")
    assert ran.code == 2 and "--nodes names.txt" in ran.err


def test_what_standard_input_holds_is_no_text(command: Select) -> None:
    ran = command("--nodes", "-", stdin=b"\xff\xfe\n")
    assert ran.code in (2, 4)


def test_a_name_in_a_file_that_is_missing(command: Select, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("foo/bar/x\n")
    ran = command("--nodes", "names.txt")
    assert ran.code == 4 and ran.err.startswith("Error: model.pb has no node 'foo/bar/x'")


@pytest.mark.parametrize(
    ("code", "options", "words"),
    [
        (4, ["--op", "Convolution"], "--op 'Convolution' matched 0 nodes"),
        (4, ["--scope", "bar"], "--scope 'bar' matched 0 nodes"),
        (4, ["--select", "["], "is not a regular expression"),
        (4, ["--exclude", "."], "the selection is empty"),
        (4, ["--between", "foo/bar/h=a"], "--between 'foo/bar/h'='a' matched 0 nodes"),
        (4, ["--node", "foo/bar"], "has no node 'foo/bar'"),
        (4, ["--forward", "a:1"], "'a:1': node 'a' (Const) has 1 output"),
        (2, ["--between", "a"], "--between 'a' is not IN,...=OUT,..."),
        (2, ["--between", "=a"], "is not IN,...=OUT,..."),
        (2, ["--between", "a="], "is not IN,...=OUT,..."),
        (2, ["--between", ",=a"], "is not IN,...=OUT,..."),
        (2, ["--frobnicate"], "--frobnicate"),
    ],
)
def test_errors(command: Select, code: int, options: list[str], words: str) -> None:
    ran = command(*options)
    assert ran.code == code and words in ran.err and ran.out == ""
    assert ran.err.startswith("Error: ") and ran.err.count("Error:") == 1


def test_a_file_that_is_no_graph(command: Select, tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"no graph at all")
    assert command("--op", "Const").code == 3
    assert command(model="missing.pb").code == 3


def test_a_graph_that_is_broken_can_be_looked_at(command: Select) -> None:
    """It must be possible to find what is to be repaired."""
    command.put(const("a", [1]), add("b", "a", "gone"), add("c", "b", "c"), identity("p", "q"), identity("q", "p"))
    assert command.lines("--op", "AddV2") == ["b", "c"]
    assert command.lines("--forward", "a") == ["a", "b", "c"]
    assert command.lines("--backward", "b") == ["a", "b"]


def test_a_cycle_has_no_levels(command: Select) -> None:
    """A graph of which some nodes come in no order is not printed as if they were not there."""
    command.put(const("a", [1]), identity("p", "q"), identity("q", "p"))
    ran = command("--toposort")
    assert ran.code != 0 or {"p", "q"} <= set(ran.out.split())


def test_several_nodes_of_one_name(command: Select) -> None:
    command.put(const("a", [1]), const("a", [2]), identity("b", "a"))
    ran = command("--node", "a")
    assert ran.code == 3 and "several nodes named 'a'" in ran.err


def test_reroute_and_select_agree_on_what_a_pattern_is() -> None:
    found = graph(*g8())
    result = reroute(found, [("foo/c", "foo/d")], only="bar/[ef]$")
    assert {r.node for r in result.intent.rewired} == set(picked(g8(), regexes=("bar/[ef]$",)))


def test_bool_placeholders_and_scalars_are_nothing_special() -> None:
    assert picked([placeholder("p", BOOL, ()), scalar("s", 1)], exclude=("s",)) == ["p"]
