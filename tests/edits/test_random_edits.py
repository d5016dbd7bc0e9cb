"""Random graphs and random edits, compared node by node with the same edit done naively on messages."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.graphs import Drawn, random_graphs

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.graph.names import is_valid_name


def naive_rename(parsed: Any, names: dict[str, str]) -> Any:
    out = type(parsed)()
    out.CopyFrom(parsed)
    for n in out.node:
        n.name = names.get(n.name, n.name)
        for i, text in enumerate(n.input):
            match = re.fullmatch(r"(\^?)(.*?)(:\d+)?", text)
            assert match is not None
            n.input[i] = match[1] + names.get(match[2], match[2]) + (match[3] or "")
        if "_class" in n.attr:
            found = n.attr["_class"].list.s
            found[:] = [b"loc:@" + names.get(s[5:].decode(), s[5:].decode()).encode() for s in found]
    return out


def check_result(before: bytes, after: bytes, expected: Any) -> None:
    """Compares each node; a node that must be unchanged has the same bytes."""
    found = graphs.parsed(after)
    assert list(found.node) == list(expected.node)
    assert found.versions == expected.versions
    old = graphs.parsed(before)
    for a, b, x, y in zip(old.node, expected.node, graphs.bodies(before), graphs.bodies(after), strict=True):
        if a == b:
            assert x == y


@st.composite
def renames(draw: st.DrawFn) -> tuple[Drawn, dict[str, str]]:
    drawn = draw(random_graphs())
    names = [n.name for n in drawn.message.node]
    olds = pick_some(draw, names, 4, least=1, unique=True)
    news = pick_some(draw, [*names, *graphs.NAMES, "new", "a/new/b", "_bad"], len(olds), least=len(olds))  # fmt: skip
    return drawn, dict(zip(olds, news, strict=True))


def renamed(drawn: Drawn, names: dict[str, str], **how: Any) -> EditResult | None:
    """The result where it is legal that NAMES, old and new, are those of HOW; else None, and the graph stays."""
    expected = naive_rename(drawn.message, names)
    after = [n.name for n in expected.node]
    legal = len(set(after)) == len(after) and all(is_valid_name(n) for n in after) and expected != drawn.message
    graph = from_bytes(drawn.data)
    try:
        result = rename(graph, **how)
    except EditError:
        assert not legal
        assert graphs.written(graph) == drawn.data
        assert list(graph.names()) == [n.name for n in drawn.message.node]
        return None
    assert legal
    check_result(drawn.data, graphs.written(graph), expected)
    back = from_bytes(graphs.written(graph))
    rename(back, [(new, old) for old, new in names.items()])
    assert graphs.written(back) == drawn.data
    return result


@given(renames())
def test_rename(case: tuple[Drawn, dict[str, str]]) -> None:
    drawn, names = case
    result = renamed(drawn, names, pairs=list(names.items()))
    assert result is None or result.intent.renamed == {old: new for old, new in names.items() if old != new}


@given(random_graphs(), st.sampled_from(["a", "b", "a/b", "a/b/c", "x", "in"]), st.sampled_from(["new", "b", "a", ""]))
def test_rename_scope(drawn: Drawn, old: str, new: str) -> None:
    before = [n.name for n in drawn.message.node]
    names = {n: (new + "/" if new else "") + n[len(old) + 1 :] for n in before if n.startswith(old + "/")}
    renamed(drawn, names | ({old: new} if old in before and new else {}), scopes=[(old, new)])


@given(random_graphs(), st.sampled_from(["a", "^", "/", "[ab]", "_1$"]), st.sampled_from(["z", "", "a", "y/"]))
def test_rename_pattern(drawn: Drawn, pattern: str, replacement: str) -> None:
    names = {n.name: re.sub(pattern, replacement, n.name) for n in drawn.message.node}
    renamed(drawn, names, patterns=[(pattern, replacement)])


def depends(parsed: Any, top: str, on: str) -> bool:
    """Whether node TOP depends on node ON, itself included."""
    nodes = {n.name: n for n in parsed.node}
    seen: set[str] = set()
    pending = [top]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending.extend(t.lstrip("^").split(":")[0] for t in nodes[name].input)
    return on in seen


def naive_reroute(parsed: Any, pairs: list[tuple[str, str]], only: str | None) -> tuple[Any, int]:
    """Rewires each slot from the state before; nodes that the new tensor depends on are unchanged."""
    out = type(parsed)()
    out.CopyFrom(parsed)
    count = 0
    for before, after in zip(parsed.node, out.node, strict=True):
        if only is not None and not re.search(only, before.name):
            continue
        for i, text in enumerate(before.input):
            for old, new in pairs:
                if text == old != new and not depends(parsed, new.split(":")[0], before.name):
                    after.input[i] = new
                    count += 1
    return out, count


def is_cyclic(parsed: Any) -> bool:
    return any(depends(parsed, text.lstrip("^").split(":")[0], n.name) for n in parsed.node for text in n.input)


def tensors(parsed: Any) -> list[str]:
    """The float tensors."""
    ops = ("Const", "AddV2", "Identity", "Split")
    out = [n.name for n in parsed.node if n.op in ops and not n.name.startswith("axis_")]
    return out + [f"{n.name}:1" for n in parsed.node if n.op == "Split"]


@given(random_graphs(), st.data())
def test_reroute(drawn: Drawn, data: st.DataObject) -> None:
    all_tensors = tensors(drawn.message)
    pair = st.tuples(st.sampled_from(all_tensors), st.sampled_from(all_tensors))
    pairs = data.draw(st.lists(pair, min_size=1, max_size=3, unique_by=lambda p: p[0]), "pairs")
    swap = data.draw(st.booleans(), "swap")
    only = data.draw(st.sampled_from([None, None, "a", "^x"]), "only")
    directed = pairs + ([(new, old) for old, new in pairs] if swap else [])
    assume(len({old for old, _ in directed}) == len(directed))
    assume(not is_cyclic(drawn.message))
    expected, count = naive_reroute(drawn.message, directed, only)
    legal = count > 0 and not is_cyclic(expected)
    graph = from_bytes(drawn.data)
    try:
        result = reroute(graph, pairs, swap=swap, only=only)
    except EditError:
        assert not legal
        assert graphs.written(graph) == drawn.data
        assert not graph.is_changed
        return
    assert legal
    assert len(result.intent.rewired) == count
    written = graphs.written(graph)
    check_result(drawn.data, written, expected)
    assert check(from_bytes(written)).faults == []


@given(random_graphs(most=10))
def test_a_swap_and_the_same_swap_give_back_the_bytes(drawn: Drawn) -> None:
    constants = [n.name for n in drawn.message.node if n.op == "Const" and n.name[:5] != "axis_" and not n.input]
    assume(len(constants) > 1)
    graph = from_bytes(drawn.data)
    try:
        reroute(graph, [(constants[0], constants[1])], swap=True)
    except EditError:
        return
    back = from_bytes(graphs.written(graph))
    reroute(back, [(constants[0], constants[1])], swap=True)
    assert graphs.written(back) == drawn.data
