"""Random graphs, renamed and rerouted, and written without an edit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick_some
from support.expecting import account
from support.graphs import Drawn, const, g8, graph, node, random_graphs
from support.paths import FIXTURES

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rename import rename
from gdsurgeon.edits.reroute import reroute
from gdsurgeon.errors import EditError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes, load
from gdsurgeon.graph.names import is_valid_name


def edited(drawn: Drawn, edit: Callable[[Graph], EditResult]) -> tuple[Graph, EditResult] | None:
    """The accounted result of an edit; unchanged nodes have their old bytes. None if it is refused: nothing changes."""
    found = from_bytes(drawn.data)
    try:
        result = edit(found)
    except EditError:
        assert graphs.written(found) == drawn.data and not found.is_changed
        assert list(found.names()) == [n.name for n in drawn.message.node]
        return None
    account(found, result)
    old, new = graphs.bodies_by_name(drawn.data), graphs.bodies_by_name(found)
    assert all(new[n.name] == old[n.name] for n in graphs.parsed(found).node if n in drawn.message.node)
    return found, result


def renamed(drawn: Drawn, names: dict[str, str], **how: Any) -> EditResult | None:
    """The result of a rename, which is refused only where NAMES, old and new, are not legal."""
    before = [n.name for n in drawn.message.node]
    after = [names.get(name, name) for name in before]
    made = edited(drawn, lambda graph: rename(graph, **how))
    assert (made is not None) == (len({*after}) == len(after) and all(map(is_valid_name, after)) and after != before)
    if made is None:
        return None
    assert graphs.names(made[0]) == after
    back = from_bytes(graphs.written(made[0]))
    rename(back, [(new, old) for old, new in names.items()])
    assert graphs.written(back) == drawn.data
    return made[1]


@given(random_graphs(), st.data())
def test_rename(drawn: Drawn, data: st.DataObject) -> None:
    before = [n.name for n in drawn.message.node]
    olds = pick_some(data.draw, before, 4, least=1, unique=True)
    news = pick_some(data.draw, [*before, *graphs.NAMES, "new", "a/new/b", "_bad"], len(olds), least=len(olds))
    names = dict(zip(olds, news, strict=True))
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


@given(random_graphs(), st.data())
def test_reroute(drawn: Drawn, data: st.DataObject) -> None:
    """A rerouted graph has the faults that it had before, and no others."""
    ops = {n.name: n.op for n in drawn.message.node if not n.name.startswith("axis_")}
    tensors = [name for name, op in ops.items() if op in ("Const", "AddV2", "Identity", "Split")]
    one = st.sampled_from([*tensors, *(f"{name}:1" for name in tensors if ops[name] == "Split")])
    pairs = data.draw(st.lists(st.tuples(one, one), min_size=1, max_size=3, unique_by=lambda pair: pair[0]))
    options = {"swap": data.draw(st.booleans()), "only": data.draw(st.sampled_from([None, None, "a", "^x"]))}
    faults = check(from_bytes(drawn.data)).faults
    made = edited(drawn, lambda graph: reroute(graph, pairs, **options))
    assert made is None or check(from_bytes(graphs.written(made[0]))).faults == faults


@given(random_graphs(most=10))
def test_a_swap_and_the_same_swap_give_back_the_bytes(drawn: Drawn) -> None:
    constants = [n.name for n in drawn.message.node if n.op == "Const" and n.name[:5] != "axis_" and not n.input]
    pairs = [(constants[0], constants[-1])] if len(constants) > 1 else []
    made = edited(drawn, lambda graph: reroute(graph, pairs, swap=True)) if pairs else None
    if made is not None:
        back = from_bytes(graphs.written(made[0]))
        reroute(back, pairs, swap=True)
        assert graphs.written(back) == drawn.data


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.pb")), ids=lambda p: p.name)
def test_saving_without_an_edit_gives_the_bytes(path: Path, tmp_path: Path) -> None:
    load(str(path)).save(str(tmp_path / "out.pb"))
    assert (tmp_path / "out.pb").read_bytes() == path.read_bytes()


@given(random_graphs())
def test_looking_at_everything_changes_nothing(drawn: graphs.Drawn) -> None:
    found = from_bytes(drawn.data)
    for n in found.nodes():
        _ = n.inputs, n.controls, n.colocated, n.attr_keys, n.output_dtypes, found.users(n), found.colocated_with(n)
    check(found)
    assert not found.is_changed
    assert graphs.written(found) == drawn.data


def test_graphs_that_tensorflow_cannot_load_are_loaded_and_written() -> None:
    records = [node("u", "NotRegistered", ["gone", "^gone_too"]), const("k", [1], _class=["no location"]), *g8()]
    found = graph(*records)
    assert found["u"].inputs[0].name == "gone"
    assert graphs.written(found) == graphs.graph_bytes(*records)
    rename(found, [("k", "kk")])
    assert graphs.inputs(found)["u"] == ["gone", "^gone_too"]
    assert graphs.colocations(found) == {"kk": [b"no location"]}
