from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from support import graphs
from support.expecting import refused
from support.graphs import add, const, g8, graph, identity, inputs, node, placeholder, random_graphs

from gdsurgeon.edits.copying.copy_in import copy_in
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.wire.write import SourceSpan


@given(random_graphs(), random_graphs())
def test_any_graph_beside_any_other(ours: graphs.Drawn, theirs: graphs.Drawn) -> None:
    target, other = from_bytes(ours.data), from_bytes(theirs.data)
    copied = copy_in(target, other, replace={})
    names = {old.name: new.name for old, new in copied.nodes.items()}
    assert len(set(names.values())) == len(names)
    found = {n.name: n for n in graphs.parsed(target).node}
    assert len(found) == len(ours.message.node) + len(theirs.message.node)
    for n in ours.message.node:
        assert found[n.name] == n
    for n in theirs.message.node:
        expected = type(n)()
        expected.CopyFrom(n)
        expected.name = names[n.name]
        ends = [t for t in n.input if t[0] != "^"] + list(dict.fromkeys(t for t in n.input if t[0] == "^"))
        expected.input[:] = [respelt(t, names) for t in ends]
        if "_class" in n.attr:
            found_class = expected.attr["_class"].list.s
            found_class[:] = [b"loc:@" + names[s[5:].decode()].encode() for s in found_class]
            if not found_class:
                found[names[n.name]].attr["_class"].list.SetInParent()
                expected.attr["_class"].list.SetInParent()
        assert found[names[n.name]] == expected
    assert {old: new for old, new in names.items() if old != new} == copied.renamed
    assert graphs.written(other) == theirs.data


def respelt(text: str, names: dict[str, str]) -> str:
    name, colon, index = text.lstrip("^").partition(":")
    return "^" * (text[0] == "^") + names[name] + colon + index


def test_a_replaced_node_is_not_copied_and_everybody_reads_what_stands_for_it() -> None:
    other = graph(placeholder("p"), add("y", "p", "p", "^p"), const("k", [1], _class=["loc:@p"]))
    target = graph(*g8())
    copied = copy_in(target, other, replace={other["p"]: target["foo/c"].output}, after=target["a"])
    assert graphs.names(target)[:3] == ["a", "y", "k"]
    assert inputs(target)["y"] == ["foo/c", "foo/c", "^foo/c"]
    assert graphs.colocations(target) == {"k": [b"loc:@foo/c"]}
    assert copied.output(other["p"].output) == target["foo/c"].output
    assert copied.output(other["y"].output) == target["y"].output
    assert "p" not in target


def test_names_that_are_asked_for() -> None:
    other = graph(identity("y", "k"), const("k", [1]), const("wanted", [1]))
    target = graph(*g8())
    copied = copy_in(target, other, replace={}, names={other["y"]: "wanted"})
    assert inputs(target)["wanted"] == ["k"]
    assert copied.renamed == {"wanted": "wanted_1"}


def test_weights_are_copied_by_span() -> None:
    other = graph(const("big", [1.0] * 100_000))
    target = graph(*g8(), const("big", [1]))
    copy_in(target, other, replace={})
    spans = [c for c in target.chunks() if isinstance(c, SourceSpan) and c.source is other.source]
    assert sum(c.end - c.start for c in spans) > 400_000
    assert sum(len(c) for c in target.chunks() if isinstance(c, bytes)) < 60


@pytest.mark.parametrize(
    ("bad", "code", "facts"),
    [
        (node("_x", "NoOp"), "bad-name", {"name": "_x"}),
        (identity("z", "gone"), "unsound-graph", {"node": "z", "input": "gone"}),
        (node("z", "NoOp", ["^gone"]), "unsound-graph", {"node": "z", "input": "gone"}),
    ],
)
def test_what_cannot_be_copied_changes_nothing(bad: bytes, code: str, facts: dict[str, str]) -> None:
    other = graph(const("k", [1]), bad)
    refused(graph(*g8()), code, partial(copy_in, other=other, replace={}), other, **facts)


def test_a_dangling_colocation_is_left_behind() -> None:
    target, other = graph(*g8()), graph(const("k", [1], _class=["loc:@gone", "loc:@k", "other"]))
    copy_in(target, other, replace={})
    assert graphs.colocations(target) == {"k": [b"loc:@k", b"other"]}
