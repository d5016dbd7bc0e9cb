"""The result of compat is checked against the release, independent of earlier differences."""

from __future__ import annotations

import pytest
from support.desk import check_error
from support.graphs import (
    BOOL,
    FLOAT,
    add,
    const,
    define,
    dtype,
    dtypes,
    func,
    function,
    graph,
    identity,
    library,
    neg,
    node,
    placeholder,
    typed,
    versions,
)

from gdsurgeon.compare.comparison import compare_files
from gdsurgeon.edits.compat import compat
from gdsurgeon.edits.downgrade.control_flow import _Lowering
from gdsurgeon.errors import ValidationError
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.specification.specify import Asked, violations

X = placeholder("x")
LEFT = {
    "an op": [X, add("y", "x", "x")],
    "an op that nobody knows": [X, node("y", "Foo", ["x"])],
    "an attr": [X, node("y", "Cast", ["x"], SrcT=FLOAT, DstT=FLOAT, Truncate=False)],
    "a type": [X, typed("Bitcast", "y", "x", type=dtype(22))],
    "an attr of another kind": [X, node("y", "Neg", ["x"], T=3)],
    "a missing attr": [X, node("y", "Neg", ["x"])],
    "a missing input": [X, typed("Add", "y", "x")],
    "a value of an attr": [X, typed("Conv2D", "y", "x", "x", strides=[1, 1, 1, 1], padding="NO")],
    "a number below the least": [X, node("y", "AddN", T=FLOAT, N=0)],
    "versions": [X],
    "a function": [X, node("c", "F", ["x"])],
}


@pytest.mark.parametrize("fault", LEFT)
def test_what_the_release_does_not_take_is_found_wherever_it_is(fault: str) -> None:
    producer = 25 if fault == "versions" else 24
    functions = library(function("F", add("y", "x", "x"))) if fault == "a function" else b""
    found = graph(*LEFT[fault], trailer=functions + versions(producer))
    asked = Asked("compat", {"target": "1.4"})
    assert len(list(violations(compare_files(found, found), asked))) == 1


def test_what_the_release_takes_is_no_fault() -> None:
    found = graph(X, neg("y", "x"), trailer=versions(24))
    assert list(violations(compare_files(found, found), Asked("compat", {"target": "1.4"}))) == []


@pytest.mark.parametrize("mistake", ["", "_over", "_branches"])
def test_effects_of_branches_are_waited_for(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowered conditional, or what says that a branch was run, waits for nothing."""
    held = node("t", "Assert", ["no:output:0", "a"], T=dtypes(FLOAT), summarize=3)
    body = define("checks", {"a": FLOAT}, {}, const("no", False, BOOL), held, effects=["t"], stateful=True)
    sides = {"then_branch": func("checks"), "else_branch": func("checks")}
    branch = node("if", "If", ["p", "x"], Tcond=BOOL, Tin=dtypes(FLOAT), Tout=dtypes(), **sides)
    records = [placeholder("p", BOOL, ()), X, branch, identity("y", "x", "^if")]
    over, branches = _Lowering._over, _Lowering._branches
    mistakes = {
        "_over": lambda self, key, runs, _: over(self, key, runs, runs),
        "_branches": lambda self, *args: (branches(self, *args)[0], []),
    }
    if mistake:
        monkeypatch.setattr(_Lowering, mistake, mistakes[mistake])
    found = graph(*records, trailer=library(body) + versions(24))
    result = compat(found, "1.4")
    if not mistake:
        check_accounted(found, result, found.chunks())
        return
    with pytest.raises(ValidationError) as caught:
        check_accounted(found, result, found.chunks())
    check_error(caught.value, "unrequested-change", {})
    assert len(caught.value.details) == 1
