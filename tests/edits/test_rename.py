"""rename; the numbers are those of the section on renaming of the specification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import graphs
from support.expecting import expect, refuse
from support.graphs import FLOAT, INT32, add, const, g8, graph, identity, inputs, node, placeholder
from support.paths import FIXTURES

from gdsurgeon.edits.claims import SameOutputs
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.graph.load import from_bytes, load


def refused(words: str, *records: bytes, **options: Any) -> GdsurgeonError:
    return refuse(graph(*(records or g8())), words, lambda g: rename(g, **options), error=GdsurgeonError)


def splitter() -> list[bytes]:
    return [
        placeholder("input"),
        const("axis", [0], INT32, ()),
        node("splitter", "Split", ["axis", "input"], T=FLOAT, num_split=2),
        add("adder", "splitter", "splitter:1"),
    ]


def test_the_index_is_kept() -> None:
    after = [*splitter()[:2], node("demux", "Split", ["axis", "input"], T=FLOAT, num_split=2),
             add("adder", "demux", "demux:1")]  # fmt: skip
    command = "rename splitter=demux"
    result = expect(splitter(), lambda g: rename(g, [("splitter", "demux")]), after, command=command)
    assert result.intent.renamed == {"splitter": "demux"}
    assert result.claims == (SameOutputs(),)


def test_an_index_of_nought_that_is_spelt_out_is_kept() -> None:
    found = graph(const("a", [1]), const("b", [1]), add("y", "a:0", "b:0", "^a"))
    rename(found, [("a", "z")])
    assert inputs(found)["y"] == ["z:0", "b:0", "^z"]


@pytest.mark.parametrize("size", [1, 30])
def test_a_name_that_is_taken_is_refused(size: int) -> None:
    refused("the name 'adder' is taken by an AddV2 node", *splitter(), pairs=[("splitter", "adder")])
    more = [const(f"n{i}", [1]) for i in range(size)]
    refused("taken", *more, *splitter(), pairs=[("splitter", "adder"), *((f"n{i}", f"m{i}") for i in range(size))])


def test_a_name_that_is_missing_is_refused() -> None:
    refused(r"model.pb has no node 'foo/bar/ee' \(8 nodes\). Did you mean", pairs=[("a", "z"), ("foo/bar/ee", "y")])
    refused("has no node ''", pairs=[("", "y")])


def test_control_inputs_follow() -> None:
    found = graph(*g8())
    rename(found, [("foo/c", "c")])
    assert inputs(found)["foo/bar/h"] == ["foo/bar/f", "foo/bar/g", "^c"]
    assert inputs(found)["foo/bar/e"] == ["c", "foo/d"]


def test_colocations_follow() -> None:
    before = [const("a", [1]), const("b", [1], _class=["loc:@b"]), identity("c", "a", _class=["x", "loc:@b"])]
    after = [const("a", [1]), const("b2", [1], _class=["loc:@b2"]), identity("c", "a", _class=["x", "loc:@b2"])]
    expect(before, lambda g: rename(g, [("b", "b2")]), after)


def test_the_order_is_kept() -> None:
    found = graph(*g8())
    rename(found, [("foo/c", "z"), ("a", "y")])
    assert graphs.names(found) == ["y", "foo/b", "z", *graphs.names(graph(*g8()))[3:]]


def test_function_bodies_have_names_of_their_own() -> None:
    found = load(str(FIXTURES / "functions_tf2.pb"))
    library = graphs.parsed(found).library
    rename(found, patterns=[("^", "new_")])
    assert graphs.parsed(found).library == library


@pytest.mark.parametrize("pairs", [[("a", "foo/b"), ("foo/b", "a")], [("foo/b", "a"), ("a", "foo/b")]])
def test_names_can_be_exchanged(pairs: list[tuple[str, str]]) -> None:
    found = graph(*g8())
    rename(found, pairs)
    assert graphs.names(found)[:2] == ["foo/b", "a"]
    assert inputs(found)["foo/c"] == ["foo/b", "a"]
    assert inputs(found)["foo/bar/g"] == ["foo/c", "foo/b"]


def test_names_can_go_round() -> None:
    found = graph(*g8())
    rename(found, [("a", "foo/b"), ("foo/b", "foo/c"), ("foo/c", "a")])
    assert graphs.names(found)[:3] == ["foo/b", "foo/c", "a"]
    assert inputs(found)["a"] == ["foo/b", "foo/c"]


def test_a_name_can_be_taken_over_from_a_node_that_moves_away() -> None:
    found = graph(*g8())
    rename(found, [("a", "foo/b"), ("foo/b", "z")])
    assert inputs(found)["foo/c"] == ["foo/b", "z"]


def test_scopes() -> None:
    for old, new in [("foo/bar", "baz"), ("foo/bar/", "baz/"), ("/foo/bar", "/baz")]:
        found = graph(*g8(), const("foo/barn", [1]), const("foo/bar", [1]))
        result = rename(found, scopes=[(old, new)])
        assert graphs.names(found)[4:] == ["baz/e", "baz/f", "baz/g", "baz/h", "foo/barn", "baz"]
        assert inputs(found)["baz/h"] == ["baz/f", "baz/g", "^foo/c"]
        assert len(result.intent.renamed) == 5


def test_a_scope_is_no_regular_expression() -> None:
    found = graph(const("a.b/y", [1]), const("axb/y", [1]))
    rename(found, scopes=[("a.b", "c")])
    assert graphs.names(found) == ["c/y", "axb/y"]


def test_a_scope_can_be_taken_away_and_merged_into_another() -> None:
    found = graph(*g8())
    rename(found, scopes=[("foo/bar", "foo")])
    assert graphs.names(found)[4:] == ["foo/e", "foo/f", "foo/g", "foo/h"]
    found = graph(*g8())
    rename(found, scopes=[("foo", "")])
    assert graphs.names(found) == ["a", "b", "c", "d", "bar/e", "bar/f", "bar/g", "bar/h"]
    refused("'foo/b' and|taken", *g8(), const("foo/bar/b", [1]), scopes=[("foo/bar", "foo")])


def test_a_scope_that_is_not_there() -> None:
    refused("scope 'fo' matched 0 nodes", scopes=[("fo", "x")])
    refused("scope 'foo/c/' matched 0 nodes", scopes=[("foo/c/", "")])
    refused("the scope to rename is empty", scopes=[("/", "x")])


def test_patterns() -> None:
    found = graph(*g8())
    rename(found, patterns=[(r"^foo/(\w+)/(\w)$", r"\2/\1")])
    assert graphs.names(found)[3:] == ["foo/d", "e/bar", "f/bar", "g/bar", "h/bar"]
    found = graph(*g8())
    rename(found, patterns=[("bar", "ber")])
    assert graphs.names(found)[4:] == ["foo/ber/e", "foo/ber/f", "foo/ber/g", "foo/ber/h"]


def test_a_pattern_may_replace_several_times_in_a_name() -> None:
    found = graph(const("a/a/a", [1]), const("b", [1]))
    rename(found, patterns=[("a", "xy")])
    assert graphs.names(found) == ["xy/xy/xy", "b"]


def test_patterns_that_are_refused() -> None:
    refused("pattern 'zzz' matched 0 nodes", patterns=[("zzz", "y")])
    refused("is not a substitution", patterns=[("(", "y")])
    refused("is not a substitution", patterns=[("a", r"\1")])
    refused("is not a substitution", patterns=[("a", r"\g<no>")])
    refused("cannot both become", patterns=[("bar/[ef]", "bar/x")])
    refused("not a legal node name", patterns=[("^foo", "_foo")])


def test_ways_together() -> None:
    found = graph(*g8())
    rename(found, [("a", "z")], scopes=[("foo/bar", "baz")], patterns=[("foo/([bcd])$", r"\1")])
    assert graphs.names(found) == ["z", "b", "c", "d", "baz/e", "baz/f", "baz/g", "baz/h"]
    words = r"'a' cannot become both 'y' \(a=y\) and 'z' \(pattern '\^a\$'\)"
    refused(words, pairs=[("a", "y")], patterns=[("^a$", "z")])
    refused("cannot become both", pairs=[("a", "y"), ("a", "z")])


def test_there_is_one_rule_for_names() -> None:
    for name in ("", "_x", "-x", "^x", "x:0", "x y", "x\n", "é", "x>", "/x"):
        refused("not a legal node name", pairs=[("a", name)])
    found = graph(*g8())
    rename(found, [("a", "A")])
    assert graphs.names(found)[0] == "A"


def test_what_is_no_node_is_refused() -> None:
    refused("'a:0' is not a node: names of nodes have no index", pairs=[("a:0", "z")])
    refused(r"'\^a' is not a node", pairs=[("^a", "z")])


def test_nothing_to_change_is_refused() -> None:
    refused("nothing would change", pairs=[("a", "a")])
    refused("nothing would change", patterns=[("a", "a")])
    refused("nothing would change", scopes=[("foo", "foo/")])


def test_a_name_that_dangles_can_be_given_to_a_node() -> None:
    """With a broken graph: the name that somebody reads and nobody has can be given to a node."""
    found = graph(const("a", [1]), identity("y", "gone"))
    rename(found, [("a", "gone")])
    assert inputs(found) == {"gone": [], "y": ["gone"]}
    assert [u.name for u in found.users(found["gone"])] == ["y"]


def there_and_back(data: bytes, there: dict[str, Any], back: dict[str, Any]) -> None:
    first = from_bytes(data)
    rename(first, **there)
    changed = graphs.written(first)
    assert changed != data
    second = from_bytes(changed)
    rename(second, **back)
    assert graphs.written(second) == data


def test_an_edit_and_its_inverse_give_back_the_bytes() -> None:
    data = graphs.graph_bytes(*g8()[::-1])
    there_and_back(data, {"pairs": [("foo/c", "a_much_longer_name" * 20)]},
                   {"pairs": [("a_much_longer_name" * 20, "foo/c")]})  # fmt: skip
    there_and_back(data, {"scopes": [("foo", "x/y")]}, {"scopes": [("x/y", "foo")]})
    there_and_back(data, {"pairs": [("a", "foo/b"), ("foo/b", "a")]}, {"pairs": [("a", "foo/b"), ("foo/b", "a")]})


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.pb")), ids=lambda p: p.name)
def test_on_each_fixture_an_edit_and_its_inverse_give_back_the_bytes(path: Path) -> None:
    data = path.read_bytes()
    for name in [n.name for n in graphs.parsed(data).node]:
        there_and_back(data, {"pairs": [(name, "quite/another")]}, {"pairs": [("quite/another", name)]})
    there_and_back(data, {"patterns": [("^", "pre/")]}, {"patterns": [("^pre/", "")]})


def test_only_what_holds_the_name_is_written_anew() -> None:
    found = graph(*g8(), const("k", [1], _class=["loc:@foo/c"]))
    before = graphs.bodies(found)
    rename(found, [("foo/c", "c")])
    changed = [i for i, (old, new) in enumerate(zip(before, graphs.bodies(found), strict=True)) if old != new]
    assert [graphs.names(graph(*g8(), const("k", [1])))[i] for i in changed] == [
        "foo/c", "foo/bar/e", "foo/bar/f", "foo/bar/g", "foo/bar/h", "k"
    ]  # fmt: skip


def test_renaming_twice_in_one_graph() -> None:
    found = graph(*g8())
    rename(found, [("a", "x")])
    rename(found, [("x", "y")])
    rename(found, [("foo/b", "a")])
    assert inputs(found)["foo/c"] == ["y", "a"]
    rename(found, [("a", "foo/b")])
    rename(found, [("y", "a")])
    assert graphs.written(found) == graphs.graph_bytes(*g8())
