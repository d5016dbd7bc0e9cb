"""clone-scope; the numbers are those of the section on copying of the specification."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from support import graphs
from support.cloning import MODEL, cloned, layer
from support.desk import Desk, check_error
from support.expecting import check_graph, expect, from_command_line, refused
from support.graphs import FLOAT, INT32, STRING, X, add, const, graph, identity, neg, node, placeholder, scalar
from support.patience import within
from support.running import run

from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import GdsurgeonError

# -- plain -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(("source", "target"), [("s", "t"), ("s/", "t/"), ("s", "deep/er/t")])
def test_everything_under_the_scope_once_more(source: str, target: str) -> None:
    found, result = cloned(MODEL, source, target)
    check_graph(found, *MODEL, *layer(target.rstrip("/"), "x"))
    name = f"{target.rstrip('/')}/add"
    assert run(found, "y", name, x=[1.0, 2.0]) == [[-3.0, -7.0], [3.0, 7.0]]
    same, given_ = result.claims
    assert same == SameOutputs(as_graphs=True)
    assert isinstance(given_, SameGiven)
    assert given_.outputs == (("s/add", name),) and given_.given.get("x", "x") == "x"
    assert given_.statement == f"{target.rstrip('/')}(x) == s(x)"


NAMED = [X, neg("s", "x"), neg("s/a", "s"), neg("s_1", "s/a"), neg("s_1/a", "s_1")]
DOTTED = [X, neg("a.b/y", "x"), neg("axb/y", "x")]


@pytest.mark.parametrize(
    ("records", "source", "target", "added"),
    [
        (NAMED, "s", "t", [neg("t", "x"), neg("t/a", "t")]),
        (NAMED, "s_1", "u", [neg("u", "s/a"), neg("u/a", "u")]),
        (MODEL, "y", "y2", [neg("y2", "s/add")]),
        (DOTTED, "a.b", "t", [neg("t/y", "x")]),
        (MODEL, "s", "s/again", layer("s/again", "x")),
    ],
    ids=["a node named like the scope", "another", "a single node", "scopes are literal", "under its own original"],
)
def test_what_is_under_a_scope(records: list[bytes], source: str, target: str, added: list[bytes]) -> None:
    found, _ = cloned(records, source, target)
    check_graph(found, *records, *added)


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["t/w", "t/other", "t/deep/er", "t"])
def test_a_scope_that_is_in_use(taken: str) -> None:
    records = [*MODEL, const(taken, [1])]
    refused(graph(*records), "name-taken", partial(clone_scope, source="s", target="t"), name="t")
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_1", "x"))


def test_a_fresh_scope_is_fresh_as_a_whole() -> None:
    records = [*MODEL, *(const(name, [1]) for name in ("t/x", "t_1", "t_2/y/z", "t_4", "t_3x"))]
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_3", "x"))


TOWER = [X, *layer("tower/block_1", "x")]
CONSTANTS = [X, const("s/w", [1]), const("s/b", [1])]
OTHERS = [*MODEL, placeholder("i", INT32, (2,)), placeholder("three", FLOAT, (3,))]


@pytest.mark.parametrize(
    ("records", "scopes", "options", "code", "facts"),
    [
        (MODEL, ("s/ad", "t"), {}, "no-such-scope", {"name": "s/ad"}),
        (TOWER, ("tower/blok_1", "t"), {}, "no-such-scope", {"name": "tower/blok_1", "near": "tower/block_1"}),
        (TOWER, ("towr", "t"), {}, "no-such-scope", {"name": "towr", "near": "tower"}),
        (MODEL, ("", "t"), {}, "bad-name", {}),
        (MODEL, ("s", ""), {}, "bad-name", {}),
        (MODEL, ("s", "s"), {}, "bad-name", {"name": "s"}),
        (MODEL, ("s", "_t"), {}, "bad-name", {"name": "_t/w"}),
        (MODEL, ("s", "a b"), {}, "bad-name", {"name": "a b/w"}),
        (MODEL, ("s", "x"), {}, "name-taken", {"name": "x"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "z"), ("x", "y")]}, "given-twice", {"tensor": "x"}),
        (OTHERS, ("s", "t"), {"inputs": [("y", "z")]}, "no-consumers", {"tensor": "y"}),
        (OTHERS, ("s", "t"), {"inputs": [("s/add", "z")]}, "no-consumers", {"tensor": "s/add"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "i")]}, "dtype-mismatch", {"tensor": "x", "replacement": "i"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "three")]}, "shape-mismatch", {"tensor": "x", "replacement": "three"}),
        (OTHERS, ("s", "t"), {"inputs": [("x", "nope")]}, "no-such-node", {"node": "nope"}),
        (OTHERS, ("s", "t"), {"inputs": [("^x", "z")]}, "bad-tensor-name", {"tensor": "^x"}),
        (MODEL, ("s", "t"), {"share": ["mul"]}, "not-a-constant", {"node": "s/mul"}),
        (MODEL, ("s", "t"), {"share": ["."]}, "not-a-constant", {"node": "s/mul"}),
        (MODEL, ("s", "t"), {"share": ["w$", "nothing"]}, "nothing-matched", {"value": "nothing"}),
        (MODEL, ("s", "t"), {"share": ["^x$"]}, "nothing-matched", {"value": "^x$"}),
        (MODEL, ("s", "t"), {"share": ["("]}, "bad-pattern", {"value": "("}),
        (CONSTANTS, ("s", "t"), {"share": ["."]}, "nothing-left", {"name": "s"}),
    ],
)
def test_what_cannot_be_cloned(
    records: list[bytes], scopes: tuple[str, str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    edit = partial(clone_scope, source=scopes[0], target=scopes[1], **options)
    refused(graph(*records), code, edit, error=GdsurgeonError, **facts)


# -- other inputs ------------------------------------------------------------------------------------------


def test_tensors_may_be_given_as_tensors() -> None:
    found = graph(*MODEL)
    expect(
        found, lambda g: clone_scope(g, "s", "t", inputs=[(g["x"].output, g["z"].output)]), [*MODEL, *layer("t", "z")]
    )
    found, other = graph(*MODEL), graph(*MODEL)
    for old, new, tensor in ((found["x"], other["z"], "z"), (other["x"], found["z"], "x")):
        edit = partial(clone_scope, source="s", target="t", inputs=[(old.output, new.output)])
        refused(found, "other-graph", edit, other, tensor=tensor)


def test_an_input_of_a_type_that_is_not_known() -> None:
    found, result = cloned([*MODEL, node("u", "MyOp")], inputs=[("x", "u")])
    assert graphs.inputs(found)["t/mul"] == ["u", "t/w"]
    (warning,) = result.warnings
    check_error(warning, "unknown-dtype", {"tensor": "x", "replacement": "u"})


# -- sharing -----------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_constants_can_be_shared() -> None:
    found, result = cloned(MODEL, share=["/w$"])
    assert graphs.inputs(found)["t/mul"] == ["x", "s/w"] and "t/w" not in found and "t/b" in found
    assert [note.as_json() for note in result.notes] == [{"code": "shared", "count": 1}]
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]
    found, result = cloned(MODEL, share=["w$", "b$"])
    assert result.intent.added == ["t/mul", "t/add"]
    assert [note.as_json() for note in result.notes] == [{"code": "shared", "count": 2}]


# -- edges and places --------------------------------------------------------------------------------------


SPLIT = [
    X, scalar("axis", 0, INT32), node("split", "Split", ["axis", "x"], T=FLOAT, num_split=2),
    add("s/a", "split", "split:1"), add("s/b", "split:1", "s/a", "^split"), neg("other", "x"), neg("more", "x"),
]  # fmt: skip
COMPUTED = [X, const("s/w", [1, 2]), neg("s/minus", "s/w"), add("s/y", "x", "s/minus")]
CONTROLS = [X, neg("before", "x"), neg("s/a", "x", "^before"), neg("s/b", "s/a", "^s/a", "^before"),
            node("s/group", "NoOp", ["^s/b"]), neg("after", "x", "^s/b")]  # fmt: skip


@pytest.mark.parametrize(
    ("records", "options", "inputs"),
    [
        (SPLIT, {"inputs": [("split:1", "other"), ("split:0", "more:0")]},
         {"t/a": ["more", "other"], "t/b": ["other", "t/a", "^split"]}),
        (MODEL, {"inputs": [("s/mul", "z")]},
         {"t/w": [], "t/mul": ["x", "t/w"], "t/b": [], "t/add": ["z", "t/b"]}),
        (MODEL, {"inputs": [("x", "s/add")]},
         {"t/w": [], "t/mul": ["s/add", "t/w"], "t/b": [], "t/add": ["t/mul", "t/b"]}),
        (COMPUTED, {"share": ["minus"]}, {"t/w": [], "t/y": ["x", "s/minus"]}),
        (COMPUTED, {"share": ["s/(w|minus)"]}, {"t/y": ["x", "s/minus"]}),
        (MODEL, {"share": ["w$"], "inputs": [("s/w", "z")]},
         {"t/mul": ["x", "z"], "t/b": [], "t/add": ["t/mul", "t/b"]}),
        (CONTROLS, {}, {"t/a": ["x", "^before"], "t/b": ["t/a", "^t/a", "^before"], "t/group": ["^t/b"]}),
    ],
    ids=["several inputs and outputs of one node", "a tensor inside, as to cut a clone in two", "the original",
         "shared", "all that is computed from constants shared", "another tensor for a shared one", "control edges"],
)  # fmt: skip
def test_what_the_clone_reads(records: list[bytes], options: dict[str, Any], inputs: dict[str, list[str]]) -> None:
    found, _ = cloned(records, **options)
    assert {name: read for name, read in graphs.inputs(found).items() if name.startswith("t/")} == inputs


def test_colocations() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "x", _class=["loc:@ext"]), neg("s/b", "s/a", _class=["loc:@s/a", "k"]),
               neg("out", "s/b", _class=["loc:@s/b"])]  # fmt: skip
    found, _ = cloned(records)
    assert graphs.colocations(found) == {
        "s/a": [b"loc:@ext"], "s/b": [b"loc:@s/a", b"k"], "out": [b"loc:@s/b"], "t/a": [b"loc:@ext"],
        "t/b": [b"loc:@t/a", b"k"],
    }  # fmt: skip


# -- the command -------------------------------------------------------------------------------------------


def test_options() -> None:
    taken = graphs.graph_bytes(*MODEL, const("t/x", [1, 1]))
    made = from_command_line("clone-scope s t --unique --share w$ --share /b$ --map x=z", taken)
    assert {name: read for name, read in graphs.inputs(made).items() if name.startswith("t_1/")} == {
        "t_1/mul": ["z", "s/w"], "t_1/add": ["t_1/mul", "s/b"]
    }  # fmt: skip


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("records", "shown"),
    [
        (
            [placeholder("x", FLOAT, (2,)), placeholder("p", "bool", ()), node("sides", "Switch", ["x", "p"], T=FLOAT),
             neg("s/a", "sides:1"), node("y", "Merge", ["sides", "s/a"], T=FLOAT, N=2)],
            ["t(x) == s(x)"],
        ),
        (
            [const("s/init", [0.0, 0.0]),
             node("s/v", "VariableV2", dtype=FLOAT, shape=(2,)),
             node("s/assign", "Assign", ["s/v", "s/init"], T=FLOAT)],
            ["edited(x) == original(x)", "t(x) == s(x)"],
        ),
        (
            [placeholder("x", FLOAT, (0, 2)), neg("s/a", "x"), identity("y", "s/a")],
            ["edited(x) == original(x)", "t(x) == s(x)"],
        ),
    ],
    ids=["a branch", "initialisers only", "no elements"],
)  # fmt: skip
def test_what_the_comparison_of_the_graphs_alone_shows(desk: Desk, records: list[bytes], shown: list[str]) -> None:
    desk.put("model.pb", graphs.graph_bytes(*records))
    assert [*desk.report("clone-scope", "model.pb", "s", "t", "-o", "out.pb")["proof"]["by_comparison"]] == shown


@pytest.mark.tensorflow
def test_a_graph_that_runs_on_no_feed_is_given_up_soon(desk: Desk) -> None:
    """Sounds are made for the input, and not by the million where its shape is not known."""
    wav = node("s/wav", "DecodeWav", ["sound"], desired_channels=1, desired_samples=-1)
    cut = node("s/cut", "Reshape", ["s/wav", "s/odd"], T=FLOAT, Tshape=INT32)
    records = [placeholder("sound", STRING), wav, const("s/odd", [7, 11, 13], INT32), cut, identity("y", "s/cut")]
    desk.put("model.pb", graphs.graph_bytes(*records))
    with within(15):
        desk.refused(7, "unfeedable", "clone-scope", "model.pb", "s", "t", "-o", "out.pb", node="s/cut")
