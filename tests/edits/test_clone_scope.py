"""clone-scope; the numbers are those of the section on copying of the specification."""

from __future__ import annotations

import pytest
from support import graphs
from support.cloning import MODEL, cloned, layer, refused
from support.expecting import check_graph, expect
from support.graphs import FLOAT, INT32, X, add, const, graph, identity, neg, node, placeholder, scalar
from support.running import outcome, run
from support.v1_control_flow import LOOP

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import SameGiven, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes

# -- plain -------------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
@pytest.mark.parametrize(("source", "target"), [("s", "t"), ("s/", "t/"), ("s", "deep/er/t")])
def test_everything_under_the_scope_once_more(source: str, target: str) -> None:
    found, result = cloned(MODEL, source, target)
    check_graph(found, *MODEL, *layer(target.rstrip("/"), "x"))
    name = f"{target.rstrip('/')}/add"
    assert run(found, "y", name, x=[1.0, 2.0]) == [[-3.0, -7.0], [3.0, 7.0]]
    same, given_ = result.claims
    assert same == SameOutputs()
    assert isinstance(given_, SameGiven)
    assert given_.outputs == (("s/add", name),) and given_.given.get("x", "x") == "x"
    assert given_.statement == f"{target.rstrip('/')}(x) = s(x)"


def test_the_node_named_like_the_scope_belongs_to_it() -> None:
    records = [X, neg("s", "x"), neg("s/a", "s"), neg("s_1", "s/a"), neg("s_1/a", "s_1")]
    found, _ = cloned(records)
    check_graph(found, *records, neg("t", "x"), neg("t/a", "t"))
    found, _ = cloned(records, "s_1", "u")
    check_graph(found, *records, neg("u", "s/a"), neg("u/a", "u"))


def test_a_single_node_can_be_cloned() -> None:
    found, _ = cloned(MODEL, "y", "y2")
    check_graph(found, *MODEL, neg("y2", "s/add"))


def test_scopes_are_literal() -> None:
    records = [X, neg("a.b/y", "x"), neg("axb/y", "x")]
    found, _ = cloned(records, "a.b", "t")
    check_graph(found, *records, neg("t/y", "x"))


@pytest.mark.tensorflow
def test_what_comes_from_outside_comes_from_there_again() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "ext"), add("s/b", "s/a", "ext"), identity("y", "s/b")]
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/a"] == ["ext"] and graphs.inputs(found)["t/b"] == ["t/a", "ext"]
    assert run(found, "y", "t/b", x=[1.0, 2.0]) == [[0.0, 0.0]] * 2


@pytest.mark.tensorflow
def test_nodes_in_any_order() -> None:
    records = list(reversed(MODEL))
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/add"] == ["t/mul", "t/b"]
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]


def test_a_clone_under_its_own_original() -> None:
    found, _ = cloned(MODEL, "s", "s/again")
    check_graph(found, *MODEL, *layer("s/again", "x"))
    again = from_bytes(graphs.written(found))
    clone_scope(again, "s", "t")
    assert {n for n in graphs.names(again) if n.startswith("t/")} == {
        f"t/{scope}{n}" for scope in ("", "again/") for n in ("w", "mul", "b", "add")
    }


@pytest.mark.tensorflow
def test_a_clone_of_an_edited_graph() -> None:
    found = graph(*MODEL)
    found.rename({found["s/mul"]: "s/product"})
    found.set_inputs(found["s/product"], [found["z"].output, found["s/w"].output])
    added = found.add("s/extra", "Neg", [found["s/add"].output], attrs={"T": FLOAT})
    found.remove([found["y"]])
    clone_scope(found, "s", "t")
    clone_scope(found, "t", "u")
    assert graphs.inputs(found)["u/product"] == ["z", "u/w"] and graphs.inputs(found)["u/extra"] == ["u/add"]
    assert run(found, added.name, "u/extra", z=[1.0, 2.0]) == [[-3.0, -7.0]] * 2


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["t/w", "t/other", "t/deep/er", "t"])
def test_a_scope_that_is_in_use(taken: str) -> None:
    records = [*MODEL, const(taken, [1])]
    error = refused(records, "the scope 't' is in use")
    assert hint_of(error) is not None and "--unique" in hint_of(error)
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_1", "x"))


def test_a_fresh_scope_is_fresh_as_a_whole() -> None:
    records = [*MODEL, *(const(name, [1]) for name in ("t/x", "t_1", "t_2/y/z", "t_4", "t_3x"))]
    found, _ = cloned(records, unique=True)
    check_graph(found, *records, *layer("t_3", "x"))


def test_a_scope_that_only_begins_like_one_in_use_is_free() -> None:
    records = [*MODEL, const("tt/x", [1]), const("t_1/x", [1]), const("u/t/x", [1])]
    for unique in (False, True):
        found, _ = cloned(records, unique=unique)
        check_graph(found, *records, *layer("t", "x"))


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("r", "t", "there is no scope 'r'"),
        ("s/ad", "t", "there is no scope 's/ad'"),
        ("", "t", "the scope to clone is empty: name one"),
        ("/", "t", "the scope to clone is empty: name one"),
        ("s", "", "the scope of the clone is empty: name one"),
        ("s", "s", "'s' cannot be cloned onto itself"),
        ("s/", "s", "cannot be cloned onto itself"),
        ("s", "_t", "'_t/w' is not a legal node name"),
        ("s", "a b", "is not a legal node name"),
        ("s", "x", "the scope 'x' is in use"),
    ],
)
def test_names_that_are_no_scopes(source: str, target: str, words: str) -> None:
    refused(MODEL, words, source, target)


def test_a_missing_scope_is_said_with_the_nearest() -> None:
    records = [X, *layer("tower/block_1", "x")]
    assert refused(records, "", "tower/blok_1").message == (
        "there is no scope 'tower/blok_1'. Did you mean 'tower/block_1'?"
    )
    assert "Did you mean 'tower'?" in refused(records, "", "towr").message


# -- other inputs ------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_the_clone_can_read_something_else() -> None:
    found, result = cloned(MODEL, inputs=[("x", "z")])
    check_graph(found, *MODEL, *layer("t", "z"))
    assert run(found, "y", "t/add", x=[1.0, 2.0], z=[5.0, 6.0]) == [[-3.0, -7.0], [11.0, 19.0]]
    claim = result.claims[1]
    assert isinstance(claim, SameGiven) and claim.given["x"] == "z"


def test_several_inputs_and_outputs_of_one_node() -> None:
    records = [
        X,
        scalar("axis", 0, INT32),
        node("split", "Split", ["axis", "x"], T=FLOAT, num_split=2),
        add("s/a", "split", "split:1"),
        add("s/b", "split:1", "s/a", "^split"),
        neg("other", "x"),
        neg("more", "x"),
    ]
    found, _ = cloned(records, inputs=[("split:1", "other"), ("split:0", "more:0")])
    assert graphs.inputs(found)["t/a"] == ["more", "other"]
    assert graphs.inputs(found)["t/b"] == ["other", "t/a", "^split"]


def test_a_tensor_inside_the_scope_can_be_replaced() -> None:
    """As to cut a clone in two: its second half reads what is outside."""
    found, _ = cloned(MODEL, inputs=[("s/mul", "z")])
    assert graphs.inputs(found)["t/add"] == ["z", "t/b"] and graphs.inputs(found)["t/mul"] == ["x", "t/w"]


def test_the_clone_can_read_the_original() -> None:
    """As to put two blocks of one kind one behind the other."""
    found, _ = cloned(MODEL, inputs=[("x", "s/add")])
    check_graph(found, *MODEL, *layer("t", "s/add"))


def test_tensors_may_be_given_as_tensors() -> None:
    found = graph(*MODEL)
    expect(
        found, lambda g: clone_scope(g, "s", "t", inputs=[(g["x"].output, g["z"].output)]), [*MODEL, *layer("t", "z")]
    )
    found, other = graph(*MODEL), graph(*MODEL)
    for pair in ((found["x"].output, other["z"].output), (other["x"].output, found["z"].output)):
        with pytest.raises(EditError):
            clone_scope(found, "s", "t", inputs=[pair])
        assert not found.is_changed


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("x", "z"), ("x", "y")], "'x' cannot become two tensors at once"),
        ([("x", "z"), ("x:0", "y")], "'x' cannot become two tensors at once"),
        ([("y", "z")], "nothing under the scope reads 'y'"),
        ([("z", "x")], "nothing under the scope reads 'z'"),
        ([("s/add", "z")], "nothing under the scope reads 's/add'"),
        ([("x", "i")], "'x' (float32 [2]) cannot give way to 'i' (int32 [2]): dtypes differ"),
        ([("x", "three")], "'x' (float32 [2]) cannot give way to 'three' (float32 [3]): shapes differ"),
        ([("x", "nope")], "has no node 'nope'"),
        ([("nope", "x")], "has no node 'nope'"),
        ([("x", "z:1")], "has 1 output"),
        ([("^x", "z")], "'^x' is not the name of a tensor"),
    ],
)
def test_inputs_that_make_no_sense(pairs: list[tuple[str, str]], words: str) -> None:
    records = [*MODEL, placeholder("i", INT32, (2,)), placeholder("three", FLOAT, (3,))]
    refused(records, words, inputs=pairs)


def test_an_input_of_a_type_that_is_not_known() -> None:
    found, result = cloned([*MODEL, node("u", "MyOp")], inputs=[("x", "u")])
    assert graphs.inputs(found)["t/mul"] == ["u", "t/w"]
    assert result.warnings == ["the types of 'x' and 'u' are not both known: not compared"]


@pytest.mark.tensorflow
def test_an_input_from_within_a_loop_is_refused_or_works() -> None:
    """A node runs in the frame of what it reads."""
    records = [*LOOP, scalar("k", 1), neg("s/a", "k"), identity("y", "s/a")]
    found = graph(*records)
    try:
        clone_scope(found, "s", "t", inputs=[("k", "w/v")])
    except EditError:
        assert not found.is_changed
        return
    assert outcome(found, "y", n=2) == [-1.0]


# -- sharing -----------------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_constants_can_be_shared() -> None:
    found, result = cloned(MODEL, share=["/w$"])
    assert graphs.inputs(found)["t/mul"] == ["x", "s/w"] and "t/w" not in found and "t/b" in found
    assert "1 node shared with the original" in result.notes
    assert run(found, "t/add", x=[1.0, 2.0]) == [[3.0, 7.0]]
    found, result = cloned(MODEL, share=["w$", "b$"])
    assert result.intent.added == ["t/mul", "t/add"]
    assert "2 nodes shared with the original" in result.notes


def test_what_is_computed_from_constants_can_be_shared() -> None:
    records = [X, const("s/w", [1, 2]), neg("s/minus", "s/w"), add("s/y", "x", "s/minus")]
    found, _ = cloned(records, share=["minus"])
    assert graphs.inputs(found)["t/y"] == ["x", "s/minus"]
    found, _ = cloned(records, share=["s/(w|minus)"])
    assert graphs.names(found)[len(records) :] == ["t/y"]


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (["mul"], "'s/mul' cannot be shared: it depends on more than constants"),
        (["."], "'s/mul' cannot be shared"),
        (["w$", "nothing"], "share 'nothing' matched 0 nodes of the scope"),
        (["^x$"], "share '^x$' matched 0 nodes of the scope"),
        (["("], "is not a regular expression"),
    ],
)
def test_what_cannot_be_shared(share: list[str], words: str) -> None:
    refused(MODEL, words, share=share)


def test_nothing_is_left_to_clone() -> None:
    refused([X, const("s/w", [1]), const("s/b", [1])], "nothing would be cloned: all under 's' is shared", share=["."])


def test_a_shared_constant_cannot_be_replaced_where_nothing_cloned_reads_it() -> None:
    found, _ = cloned(MODEL, share=["w$"], inputs=[("s/w", "z")])
    assert graphs.inputs(found)["t/mul"] == ["x", "z"]


# -- edges and places --------------------------------------------------------------------------------------


def test_control_edges() -> None:
    records = [X, neg("before", "x"), neg("s/a", "x", "^before"), neg("s/b", "s/a", "^s/a", "^before"),
               node("s/group", "NoOp", ["^s/b"]), neg("after", "x", "^s/b")]  # fmt: skip
    found, _ = cloned(records)
    assert graphs.inputs(found)["t/a"] == ["x", "^before"]
    assert graphs.inputs(found)["t/b"] == ["t/a", "^t/a", "^before"]
    assert graphs.inputs(found)["t/group"] == ["^t/b"]
    assert graphs.inputs(found)["after"] == ["x", "^s/b"]


def test_colocations() -> None:
    records = [X, neg("ext", "x"), neg("s/a", "x", _class=["loc:@ext"]), neg("s/b", "s/a", _class=["loc:@s/a", "k"]),
               neg("out", "s/b", _class=["loc:@s/b"])]  # fmt: skip
    found, _ = cloned(records)
    assert graphs.colocations(found) == {
        "s/a": [b"loc:@ext"], "s/b": [b"loc:@s/a", b"k"], "out": [b"loc:@s/b"], "t/a": [b"loc:@ext"],
        "t/b": [b"loc:@t/a", b"k"],
    }  # fmt: skip
