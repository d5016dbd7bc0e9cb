"""Copies are looked at column by column: what is plainly right is passed over, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder, scalar
from support.system import calls

from gdsurgeon.compare import copies as module
from gdsurgeon.compare.comparison import compare_written
from gdsurgeon.compare.copies import differing_copies, plain_copies
from gdsurgeon.compare.intent import Copies, Intent
from gdsurgeon.edits.node_copies import copy_nodes
from gdsurgeon.graph.attrs import type_value
from gdsurgeon.graph.graph import Graph

PLAIN = ["s/w", "s/two", "s/add", "s/neg", "s/wait"]
TYPE = type_value(2).SerializeToString()


def before(*more: bytes) -> Graph:
    return graph(
        placeholder("x", FLOAT, (4,)), scalar("axis", 0, INT32), node("ready", "NoOp"),
        const("s/w", [1, 2]), node("s/two", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        add("s/add", "s/two:1", "s/w", "^ready"), identity("s/neg", "s/add", "^s/w", "^ready", device="/cpu:0"),
        node("s/wait", "NoOp", ["^s/add", "^s/neg"]), *more,
    )  # fmt: skip


def copied(found: Graph, *names: str, outside: Mapping[str, str] | None = None) -> Copies:
    given = {f"s/{name}": f"t/{name}" for name in names} or {name: "t" + name[1:] for name in PLAIN}
    replace = {found.tensor(old): found.tensor(new) for old, new in (outside or {}).items()}
    copy_nodes(found, [found[name] for name in given], lambda name: "t" + name[1:], replace=replace)
    return Copies(found.pristine(), given, outside or {}, True)


def seen(found: Graph, copies: Copies) -> tuple[set[str], list[str]]:
    """Which copies are plainly right, and what is wrong with the others."""
    after = compare_written(found.pristine(), found.chunks()).after
    return plain_copies(copies, after), list(differing_copies(copies, found.pristine(), after, Intent()))


@pytest.mark.parametrize("together", [1, 2, 100])
def test_right_copies_are_passed_over(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", together)
    found = before()
    assert seen(found, copied(found)) == ({*PLAIN}, [])


def test_what_they_read_instead_is_known() -> None:
    found = before(placeholder("y", FLOAT, (4,)), node("z", "Split", ["axis", "y"], T=FLOAT, num_split=2))
    copies = copied(found, "w", "add", outside={"s/two:1": "z:1"})
    assert seen(found, copies) == ({"s/w", "s/add"}, [])
    plain, faults = seen(found, copies._replace(outside={}))
    assert plain == {"s/w"}
    assert faults == ["input 0 of 't/add', the copy of 's/add', is 'z:1', not 's/two:1'"]


MISTAKES: dict[str, tuple[str, Callable[[Graph], Any]]] = {
    "an op": ("s/neg", lambda g: g.set_op(g["t/neg"], "Snapshot")),
    "a device": ("s/neg", lambda g: g.set_device(g["t/neg"], "/cpu:1")),
    "an attr": ("s/add", lambda g: g.set_attr(g["t/add"], "T", TYPE)),
    "an attr more": ("s/wait", lambda g: g.set_attr(g["t/wait"], "_more", TYPE)),
    "an attr less": ("s/neg", lambda g: g.set_attr(g["t/neg"], "T", None)),
    "a value": ("s/w", lambda g: g.set_attr(g["t/w"], "value", g["axis"].attr_bytes("value"))),
    "another output": ("s/add", lambda g: g.set_inputs(g["t/add"], [g["t/two"].output, g["t/w"].output])),
    "the original": ("s/neg", lambda g: g.set_inputs(g["t/neg"], [g["s/add"].output])),
    "the inputs exchanged": ("s/add", lambda g: g.set_inputs(g["t/add"], g["t/add"].inputs[::-1])),
    "an input more": ("s/add", lambda g: g.set_inputs(g["t/add"], [*g["t/add"].inputs, g["x"].output])),
    "an input less": ("s/add", lambda g: g.set_inputs(g["t/add"], g["t/add"].inputs[:1])),
    "no control input": ("s/wait", lambda g: g.set_controls(g["t/wait"], [])),
    "one of the original's": ("s/wait", lambda g: g.set_controls(g["t/wait"], [g["s/add"], g["t/neg"]])),
    "one more": ("s/neg", lambda g: g.set_controls(g["t/neg"], [*g["t/neg"].controls, g["x"]])),
    "a colocation": ("s/add", lambda g: g.set_colocated(g["t/add"], [g["x"]])),
    "nothing": ("s/wait", lambda g: g.remove([g["t/wait"]])),
}


@pytest.mark.parametrize("together", [1, 100])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_copy_is_found_among_right_ones(mistake: str, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TOGETHER", together)
    found = before()
    copies = copied(found)
    name, change = MISTAKES[mistake]
    change(found)
    plain, faults = seen(found, copies)
    assert plain == {*PLAIN} - {name}
    assert faults
    assert all(f"'t{name[1:]}'" in fault for fault in faults)


def test_what_holds_names_or_depends_on_the_file_takes_a_closer_look() -> None:
    found = before(
        add("s/beside", "s/add", "s/w", _class=["loc:@s/w"]), placeholder("s/in", FLOAT, (2,)),
        node("s/enter", "Enter", ["x"], T=FLOAT, frame_name="loop"),
    )  # fmt: skip
    plain, faults = seen(found, copied(found, "w", "two", "add", "beside", "in", "enter"))
    assert (plain, faults) == ({"s/w", "s/two", "s/add"}, [])


def test_a_colocation_that_is_as_it_was_is_the_originals() -> None:
    found = before(add("s/beside", "s/add", "s/w", _class=["loc:@s/w"]))
    copies = copied(found, "w", "two", "add", "beside")
    found.set_colocated(found["t/beside"], [found["s/w"]])
    assert seen(found, copies)[1] == ["'t/beside', the copy of 's/beside', is colocated with 's/w'"]


def test_a_needless_index_is_no_difference() -> None:
    found = before(add("s/odd", "s/add:0", "s/two:1"))
    plain, faults = seen(found, copied(found, "two", "w", "add", "odd"))
    assert (plain & {"s/two", "s/add"}, faults) == ({"s/two", "s/add"}, [])


def test_what_stands_for_a_node_that_is_copied_is_read_in_the_place_of_its_copy() -> None:
    found = before(const("other", [3, 4]))
    copies = copied(found, "w", "two", "add", outside={"s/w": "other"})
    assert seen(found, copies) == ({"s/w", "s/two", "s/add"}, [])
    found.set_inputs(found["t/add"], [found["t/two"].outputs[1], found["t/w"].output])
    assert seen(found, copies)[1] == ["input 1 of 't/add', the copy of 's/add', is 't/w', not 'other'"]


def test_names_that_no_input_can_spell_are_not_taken_for_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a node that is called like an output of another."""
    monkeypatch.setattr(module, "_TOGETHER", 1)
    found = before(const("s/two:1", [1]))
    copies = copied(found)._replace(names={"s/two:1": "t/else", "s/w": "t/w", "s/add": "t/add"})
    found.set_inputs(found["t/add"], [found.add("t/else", "Const").output, found["t/w"].output])
    plain, faults = seen(found, copies)
    assert "s/add" not in plain
    assert "input 0 of 't/add', the copy of 's/add', is 't/else', not 's/two:1'" in faults


def test_what_is_left_is_not_waited_for() -> None:
    found = before()
    copies = copied(found)._replace(left={"ready"})
    assert len(seen(found, copies)[1]) == 2
    found.set_controls(found["t/add"], [])
    found.set_controls(found["t/neg"], [found["t/w"]])
    assert seen(found, copies)[1] == []


def test_of_another_graph_what_stands_for_its_nodes_is_read() -> None:
    part = graph(placeholder("in", FLOAT, (4,)), node("ready", "NoOp"), identity("a", "in", "^ready"),
                 identity("b", "a"), identity("c", "ready"))  # fmt: skip
    found = graph(placeholder("x", FLOAT, (4,)), identity("a", "x"), identity("b", "a"), identity("c", "x"))
    copies = Copies(part, {"a": "a", "b": "b", "c": "c"}, {"in": "x"}, False)
    assert plain_copies(copies, found) == {"b"}


def test_of_a_graph_that_was_edited_nothing_is_said() -> None:
    found = before()
    copies = copied(found)
    after = compare_written(found.pristine(), found.chunks()).after
    assert plain_copies(copies._replace(originals=found), after) == set()
    assert plain_copies(copies, found) == set()


def chain(count: int) -> tuple[Graph, Copies]:
    found = graph(placeholder("x", FLOAT, (4,)), const("s/w", [1]), *(
        add(f"s/n{i}", f"s/n{i - 1}" if i else "x", "s/w") for i in range(count)
    ))  # fmt: skip
    names = ["w", *(f"n{i}" for i in range(count))]
    return found, copied(found, *names)


def test_a_plain_copy_costs_a_few_calls() -> None:
    def work(count: int) -> int:
        found, copies = chain(count)
        after = compare_written(found.pristine(), found.chunks()).after
        return calls(partial(list, differing_copies(copies, found.pristine(), after, Intent())))

    work(5)  # what is looked up once is looked up now
    assert work(300) - work(100) < 20 * 200
