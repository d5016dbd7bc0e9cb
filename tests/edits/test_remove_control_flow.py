"""remove inside loops and branches, and from any graph."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import graphs
from support.drawing import pick, pick_some
from support.expecting import check_graph, refused, sound
from support.graphs import BOOL, FLOAT, INT32, add, graph, identity, node, placeholder, scalar  # fmt: skip
from support.removing import named
from support.running import run

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.claims import SameGiven
from gdsurgeon.edits.remove import remove
from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.select import Selection

# -- control flow --------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_bypass_inside_a_loop() -> None:
    records = graphs.loop()
    found = graph(*records)
    remove(found, named("w/Identity"), bypass=True)
    inputs = graphs.inputs(found)
    assert inputs["w/Add"] == ["w/Switch:1", "w/one"]
    assert sound(found)
    assert run(found, "out", n=5) == [5]


@pytest.mark.parametrize("name", ["w/Enter", "w/Limit", "w/Merge", "w/Switch", "w/NextIteration"])
def test_what_makes_a_loop_is_not_bypassed(name: str) -> None:
    """TensorFlow does not take what would be left, or waits for ever: the loop is named instead."""
    edit = partial(remove, nodes=named(name), bypass=True, bypass_input=0)
    refused(graph(*graphs.loop()), "crosses-loop", edit, node=name, loop="w")


@pytest.mark.parametrize(
    "name", ["w/Enter", "w/Limit", "w/Merge", "w/Less", "w/LoopCond", "w/Switch", "w/one", "w/Add", "w/NextIteration"]
)
def test_a_placeholder_cannot_stand_inside_a_loop(name: str) -> None:
    """It would run outside of the frame in which it is read, which TensorFlow refuses."""
    edit = partial(remove, nodes=named(name), dangling="placeholder")
    refused(graph(*graphs.loop()), "crosses-loop", edit, loop="w")


@pytest.mark.tensorflow
def test_a_whole_loop_goes() -> None:
    found = graph(*graphs.loop())
    names = [n for n in graphs.names(found) if n.startswith("w/")]
    remove(found, named(*names), dangling="placeholder")
    check_graph(found, *graphs.loop()[:2], placeholder("w/Exit", INT32), graphs.loop()[-1])
    assert run(found, "out", w__Exit=7) == [7]


def conditional() -> list[bytes]:
    """x + 10 where p, else x - 1, as TensorFlow 1 writes it: constants are pinned to their branch by a control edge."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()),
        node("cond/Switch", "Switch", ["p", "p"], T=BOOL), identity("cond/switch_t", "cond/Switch:1", kind=BOOL),
        identity("cond/switch_f", "cond/Switch", kind=BOOL),
        node("cond/ten", "Const", ["^cond/switch_t"], dtype=FLOAT, value=graphs.tensor([10], FLOAT, ())),
        node("cond/one", "Const", ["^cond/switch_f"], dtype=FLOAT, value=graphs.tensor([1], FLOAT, ())),
        node("cond/Merge", "Merge", ["cond/one", "cond/ten"], T=FLOAT, N=2),
        node("y", "Sub", ["x", "cond/Merge"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.parametrize("bypass", [True, False])
@pytest.mark.parametrize(("name", "user"), [("cond/switch_t", "cond/ten"), ("cond/switch_f", "cond/one")])
def test_the_pivot_of_a_branch_stays(name: str, user: str, bypass: bool) -> None:
    """To wait for output 1 of a Switch is not to wait for the Switch: that runs whatever is decided."""
    edit = partial(remove, nodes=named(name), bypass=bypass, allow_outputs=True)
    refused(graph(*conditional()), "leaves-branch", edit, node=user)


def summing() -> list[bytes]:
    """x + 10 where p, else x - 1, of constants that are not pinned to their branch."""
    return [
        placeholder("p", BOOL, ()), placeholder("x", FLOAT, ()), scalar("ten", 10), scalar("one", 1),
        node("s", "Switch", ["x", "p"], T=FLOAT), add("more", "s:1", "ten"), node("less", "Sub", ["s", "one"], T=FLOAT),
        node("m", "Merge", ["less", "more"], T=FLOAT, N=2), node("y", "Neg", ["m"], T=FLOAT),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{"bypass": True, "bypass_input": 1}, {"dangling": "placeholder"}])
@pytest.mark.parametrize("name", ["more", "less"])
def test_a_merge_does_not_read_what_is_always_there(name: str, options: dict[str, Any]) -> None:
    """A constant that takes the place of a branch's result would be there whichever branch is taken."""
    edit = partial(remove, nodes=named(name), **options)
    refused(graph(*summing()), "crosses-branch", edit, node="m", tensor=name)


@pytest.mark.tensorflow
def test_what_a_branch_reads_first_may_take_the_place_of_its_result() -> None:
    found = graph(*summing())
    remove(found, named("more"), bypass=True)
    assert graphs.inputs(found)["m"] == ["less", "s:1"]
    for p, expected in ((True, -100), (False, -99)):
        assert run(found, "y", p=p, x=100.0) == [expected]


# -- any graph -----------------------------------------------------------------------------------------------


@st.composite
def removals(draw: st.DrawFn) -> tuple[graphs.Drawn, list[str], str]:
    """A graph, some of its nodes, and what is to take their place; bypassed are nodes with one input."""
    drawn = draw(graphs.random_graphs())
    how = pick(draw, ["", "bypass", "placeholder"])
    names = [n.name for n in drawn.message.node if how != "bypass" or n.op == "Identity"]
    return drawn, pick_some(draw, names, least=1, unique=True) if names else [], how


def parts(text: str) -> tuple[str, str]:
    """The node of an input, and what is behind it."""
    name, colon, index = text.partition(":")
    return name, colon + index


@given(removals())
def test_any_removal(case: tuple[graphs.Drawn, list[str], str]) -> None:
    drawn, names, how = case
    found = from_bytes(drawn.data)
    old = {n.name: n for n in drawn.message.node}
    gone = set(names)
    reads = [t for n in old.values() if n.name not in gone for t in n.input if t[0] != "^" and parts(t)[0] in gone]
    try:
        result = remove(found, [found[name] for name in names], bypass=how == "bypass", allow_outputs=True,
                        dangling=how if how == "placeholder" else None)  # fmt: skip
    except EditError:
        assert graphs.written(found) == drawn.data
        unknown = any(old[parts(t)[0]].op == "MyCustomOp" for t in reads)
        assert not names or gone == set(old) or (reads and not how) or (how == "placeholder" and unknown)
        return
    given = {old: new for c in result.claims if isinstance(c, SameGiven) for old, new in c.given.items()}

    def bypassed(text: str) -> str:
        while parts(text)[0] in gone:
            text = next(t for t in old[parts(text)[0]].input if t[0] != "^")
        return text

    def place_of(text: str) -> str:
        if parts(text)[0] not in gone:
            return text
        return bypassed(text) if how == "bypass" else given[text]

    def above(name: str) -> set[str]:
        """What is waited for in the place of NAME."""
        if name not in gone:
            return {name}
        reads = [t.lstrip("^") for t in old[name].input if t[0] == "^" or how == "bypass"]
        return {before for t in reads for before in above(parts(t)[0])}

    written = graphs.parsed(found)
    added = set(given.values()) if how == "placeholder" else set()
    assert {n.name for n in written.node} == (set(old) - gone) | added
    assert len(written.node) == len({n.name for n in written.node})
    for new in written.node:
        if new.name in added:
            assert new.op == "Placeholder" and not new.input
            continue
        before = old[new.name]
        assert (new.op, new.device) == (before.op, before.device)
        assert [t for t in new.input if t[0] != "^"] == [place_of(t) for t in before.input if t[0] != "^"]
        waits = {t[1:] for t in new.input if t[0] == "^"}
        assert {b for t in before.input if t[0] == "^" for b in above(t[1:])} - {new.name} <= waits
        if not any(parts(t.lstrip("^"))[0] in gone for t in before.input):
            assert waits == {t[1:] for t in before.input if t[0] == "^"}
        entries = before.attr["_class"].list.s if "_class" in before.attr else []
        wanted = [s for s in entries if s[5:].decode() not in gone]
        assert list(new.attr["_class"].list.s) == wanted if "_class" in new.attr else not wanted
    if not written.node:
        return
    assert sound(found)
    bodies, old_bodies = graphs.bodies_by_name(found), graphs.bodies_by_name(drawn.data)
    for new in written.node:
        if new.name in old and new == old[new.name]:
            assert bodies[new.name] == old_bodies[new.name]


def test_who_waits_for_a_removed_loop_does_not_wait_for_the_rounds_before() -> None:
    """Two constants that run in each round would wait for each other."""
    two = node("w/two", "Const", ["^w/Identity"], dtype=INT32, value=graphs.tensor([2], INT32, ()))
    more = graphs.add("w/More", "w/Add", "w/two", kind=INT32)
    records = [*graphs.loop(), two, more]
    records[11] = node("w/NextIteration", "NextIteration", ["w/More"], T=INT32)
    found = graph(*records)
    assert check(found).faults == []
    around = Selection(forward=("w/Enter",))
    edit = partial(remove, nodes=around, bypass=True, bypass_input=1, allow_outputs=True)
    refused(found, "leaves-loop", edit, node="w/one", loop="w")
