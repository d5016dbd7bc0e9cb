"""rename; the numbers are those of the section on renaming of the specification."""

from __future__ import annotations

from typing import Any

import pytest
from support import graphs
from support.expecting import refused
from support.graphs import const, g8, graph, identity, inputs, placeholder
from support.system import calls

from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.proof.accounting import check_accounted


@pytest.mark.parametrize(
    ("options", "code", "facts"),
    [
        ({"pairs": [("a", "z"), ("foo/bar/ee", "y")]}, "no-such-node", {"node": "foo/bar/ee", "near": "foo/bar/e"}),
        ({"pairs": [("", "y")]}, "no-such-node", {"node": "", "near": None}),
        ({"pairs": [("a:0", "z")]}, "no-such-node", {"node": "a:0", "near": "a"}),
        ({"pairs": [("^a", "z")]}, "no-such-node", {"node": "^a", "near": "a"}),
        ({"pairs": [("a", "y"), ("a", "z")]}, "given-twice", {"node": "a", "names": ["y", "z"]}),
        (
            {"pairs": [("a", "y")], "patterns": [("^a$", "z")]},
            "given-twice",
            {"node": "a", "names": ["y", "z"]},
        ),
        ({"pairs": [("a", "a")]}, "nothing-to-do", {}),
        ({"patterns": [("a", "a")]}, "nothing-to-do", {}),
        ({"scopes": [("foo", "foo/")]}, "nothing-to-do", {}),
        ({"scopes": [("fo", "x")]}, "nothing-matched", {"argument": "scope", "value": "fo"}),
        ({"scopes": [("foo/c/", "")]}, "nothing-matched", {"argument": "scope", "value": "foo/c/"}),
        ({"scopes": [("/", "x")]}, "bad-value", {}),
        ({"patterns": [("zzz", "y")]}, "nothing-matched", {"argument": "pattern", "value": "zzz"}),
        ({"patterns": [("(", "y")]}, "bad-pattern", {"value": "("}),
        ({"patterns": [("a", r"\1")]}, "bad-pattern", {"value": "a", "replacement": r"\1"}),
        ({"patterns": [("a", r"\g<no>")]}, "bad-pattern", {"value": "a", "replacement": r"\g<no>"}),
        (
            {"patterns": [("bar/[ef]", "bar/x")]},
            "given-twice",
            {"nodes": ["foo/bar/e", "foo/bar/f"], "name": "foo/bar/x"},
        ),
        ({"patterns": [("^foo", "_foo")]}, "bad-name", {"name": "_foo/b"}),
        *(
            ({"pairs": [("a", name)]}, "bad-name", {"name": name})
            for name in ("", "_x", "-x", "^x", "x:0", "x y", "x\n", "é", "x>", "/x")
        ),
    ],
)
def test_what_is_refused(options: dict[str, Any], code: str, facts: dict[str, Any]) -> None:
    refused(graph(*g8()), code, lambda g: rename(g, **options), error=GdsurgeonError, **facts)


@pytest.mark.parametrize(
    ("before", "options", "after"),
    [
        (["a.b/y", "axb/y"], {"scopes": [("a.b", "c")]}, ["c/y", "axb/y"]),
        (
            [],
            {"patterns": [(r"^foo/(\w+)/(\w)$", r"\2/\1")]},
            ["a", "foo/b", "foo/c", "foo/d", "e/bar", "f/bar", "g/bar", "h/bar"],
        ),
        (
            [],
            {"pairs": [("a", "z")], "scopes": [("foo/bar", "baz")], "patterns": [("foo/([bcd])$", r"\1")]},
            ["z", "b", "c", "d", "baz/e", "baz/f", "baz/g", "baz/h"],
        ),
    ],
)
def test_scopes_and_patterns(before: list[str], options: dict[str, Any], after: list[str]) -> None:
    found = graph(*(const(name, [1]) for name in before)) if before else graph(*g8())
    rename(found, **options)
    assert graphs.names(found) == after


def test_a_scope_that_is_merged_takes_no_name_of_another() -> None:
    found = graph(*g8(), const("foo/bar/b", [1]))
    refused(found, "name-taken", lambda g: rename(g, scopes=[("foo/bar", "foo")]), name="foo/b", op="Const")


def test_a_name_that_dangles_can_be_given_to_a_node() -> None:
    """In a broken graph: a node can get the name of a missing node."""
    found = graph(const("a", [1]), identity("y", "gone"))
    rename(found, [("a", "gone")])
    assert inputs(found) == {"gone": [], "y": ["gone"]}
    assert [u.name for u in found.users(found["gone"])] == ["y"]


def test_consumers_of_a_renamed_node_cost_a_few_calls() -> None:
    def work(count: int) -> int:
        found = graph(placeholder("hub"), *(identity(f"n{i}", "hub") for i in range(count)))
        assert len(found.store.names) == count + 1  # now it is indexed, as after the check of an operation
        return calls(lambda: check_accounted(found, rename(found, [("hub", "core")]), found.chunks()))

    work(500)  # what is looked up once is looked up now
    assert work(3000) - work(1000) < 20 * 2000
