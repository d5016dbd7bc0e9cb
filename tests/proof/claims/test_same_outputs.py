"""The proof of edits that change no value (SameOutputs): right ones pass, and wrong ones are caught."""

from __future__ import annotations

from typing import Any

import pytest
from support.graphs import Builder, tensor
from support.same_outputs import (
    DIFFERS,
    EDITS,
    FAILS,
    in_function,
    model,
    model_for,
    node_of,
    numbers,
)
from support.spoiling import (
    Edit,
    Spoil,
    caught,
    exchanged,
    next_output,
    proven,
    reads,
    spoilt,
    value,
    without_controls,
)

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.control_edges import control_edges
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor

pytestmark = pytest.mark.tensorflow


# -- what is done wrong ----------------------------------------------------------------------------------------


def sub_exchanged(function: Any) -> None:
    inputs = node_of(function, "Sub").input
    inputs[0], inputs[1] = inputs[1], inputs[0]


def other_constant(function: Any) -> None:
    found = node_of(function, "Const")
    found.attr["value"].ParseFromString(tensor([2.0, 3.000002], "float32"))


def arguments_exchanged(function: Any) -> None:
    """The first and the last; what is between them stays."""
    args = function.signature.input_arg
    args[0].name, args[-1].name = args[-1].name, args[0].name


def second_result_first(function: Any) -> None:
    names = [arg.name for arg in function.signature.output_arg]
    found = [function.ret[name] for name in names]
    for name, ret in zip(names, reversed(found), strict=True):
        function.ret[name] = ret


def journal_forgets(graph: Graph, result: EditResult) -> None:
    assert result.intent.renamed
    result.intent.renamed.clear()
    result.intent.moved.clear()


MODEL_SPOILS: dict[str, tuple[Spoil, str]] = {
    "inputs exchanged": (exchanged("sum"), DIFFERS),
    "an output beside it": (value("k", 5.00001), DIFFERS),
    "a control edge": (without_controls("stored"), FAILS),
    "the next output of a call": (next_output("sum", 1), DIFFERS),
    "a function": (in_function(sub_exchanged, "inner"), DIFFERS),
    "results of a function exchanged": (in_function(second_result_first, "outer"), DIFFERS),
}


SCOPE_SPOILS: dict[str, tuple[Spoil, str]] = {
    "a weight": (value("t/scale", [2.000002, 3.0]), DIFFERS),
    "inputs exchanged in the scope": (exchanged("t/difference"), DIFFERS),
    "the next output in the scope": (next_output("t/scaled", 0), DIFFERS),
}


CALL_SPOILS: dict[str, tuple[Spoil, str]] = {
    "inputs of the call exchanged": (exchanged("f", 0, -1), DIFFERS),
    "inputs exchanged in the function": (in_function(sub_exchanged), DIFFERS),
    "arguments exchanged": (in_function(arguments_exchanged), DIFFERS),
    "a reader of another tensor": (reads("t/parts", 1, "halves:1"), DIFFERS),
}


WRONG: dict[str, dict[str, tuple[Spoil, str]]] = {
    "rename": {
        **{what: spoil for what, spoil in MODEL_SPOILS.items() if what != "the next output of a call"},
        "the next output of a renamed call": (next_output("sum", 0), DIFFERS),
        "a intent that forgets": (journal_forgets, ""),
    },
    "rename --rename-scope": {
        **MODEL_SPOILS,
        "a weight": (value("u/scale", [2.000002, 3.0]), DIFFERS),
        "a reader of another node": (reads("called", 0, "u/difference"), DIFFERS),
    },
    "fuse-ops": {
        **MODEL_SPOILS,
        **CALL_SPOILS,
        "a weight outside": (value("t/scale", [2.000002, 3.0]), DIFFERS),
    },
    "fuse-ops --inline": {**MODEL_SPOILS, **CALL_SPOILS},
    "fuse-ops of outputs": {
        "what is served is another tensor": (reads("apart", 0, "x"), DIFFERS),
        "inputs exchanged in the function": (in_function(sub_exchanged), DIFFERS),
        "inputs exchanged": (exchanged("sum"), DIFFERS),
    },
    "fuse-ops --with": {
        **MODEL_SPOILS,
        **CALL_SPOILS,
        "a weight of the body": (in_function(other_constant), DIFFERS),
    },
    "inline": {
        **{what: MODEL_SPOILS[what] for what in ("an output beside it", "a control edge")},
        **SCOPE_SPOILS,
        "inputs exchanged in the body": (exchanged("called/minus"), DIFFERS),
        "a constant of the body": (value("called/in/seven", 6.9999995), DIFFERS),
        "a reader of the other result": (reads("sum", 1, "called/minus"), DIFFERS),
        "a reader of something inside": (reads("sum", 0, "called/in/r"), DIFFERS),
        "an argument in the place of another": (reads("called/minus", 1, "t/joined"), DIFFERS),
    },
    "inline --keep-names": {
        "inputs exchanged in the body": (exchanged("minus"), DIFFERS),
        "a constant of the body": (value("seven", 6.9999995), DIFFERS),
    },
    "control-edges --add": {**MODEL_SPOILS, **SCOPE_SPOILS},
    "control-edges --remove": {**MODEL_SPOILS, **SCOPE_SPOILS},
    "clone-scope": {
        **MODEL_SPOILS,
        **SCOPE_SPOILS,
        "a reader of the clone's wrong tensor": (reads("called", 0, "u/difference"), DIFFERS),
    },
    "import": {
        **MODEL_SPOILS,
        **SCOPE_SPOILS,
        "the model reads what came": (reads("halves", 1, "out"), DIFFERS),
    },
}


CASES = [(edit, what) for edit, spoils in WRONG.items() for what in spoils]


@pytest.mark.parametrize("name", EDITS)
def test_a_right_edit_passes(name: str, executor: Executor) -> None:
    proof = proven(executor, model_for(name), EDITS[name])
    assert proof.compared and all(o.comparison is not None and o.comparison.equal for o in proof.compared)
    assert {"y", "apart"} <= {o.before for o in proof.compared}
    assert proof.samples == 2
    assert (proof.rtol, proof.atol, proof.largest_difference) == (0, 0, 0)


@pytest.mark.parametrize(("name", "what"), CASES, ids=[f"{n}: {w}" for n, w in CASES])
def test_a_wrong_edit_is_caught(name: str, what: str, executor: Executor) -> None:
    spoil, code = WRONG[name][what]
    error = caught(executor, model_for(name), spoilt(EDITS[name], spoil))
    assert error.exit_code == 5, error.message
    assert code in ("", error.code), error.message
    if code == DIFFERS:
        assert error.facts["tensors"]


@pytest.mark.parametrize("name", EDITS)
def test_an_output_that_is_lost_is_caught(name: str, executor: Executor) -> None:
    """What is not there any more cannot be compared: that it was promised is enough."""
    error = caught(executor, model_for(name), spoilt(EDITS[name], lambda g, _: g.remove([g["apart"]])))
    assert error.exit_code == 5, error.message


def test_a_dropped_control_edge_is_caught_where_it_matters(executor: Executor) -> None:
    """`control-edges --remove` itself is such an edit: it promises that the outputs stay, and here they do not."""
    error = caught(executor, model(), lambda g: control_edges(g, remove=[("stored", "^write")]))
    assert error.exit_code == 5 and error.code == FAILS


# -- inputs ----------------------------------------------------------------------------------------------------


def relu() -> Builder:
    """For a positive `x` the same as `x`."""
    m = Builder()
    m.placeholder("x", "float32", (3,))
    m.node("t/positive", "Relu", ["x"], T="float32")
    m.node("y", "AddV2", ["t/positive", "x"], T="float32")
    return m


@pytest.mark.parametrize("op", ["Identity", "Abs"])
def test_what_differs_below_zero_is_caught(op: str, executor: Executor) -> None:
    """An activation that is lost or exchanged is the commonest slip: numbers between 0 and 1 do not show it."""
    wrong = spoilt(lambda g: rename(g, [("y", "z")]), lambda g, _: g.set_op(g["t/positive"], op))
    assert caught(executor, relu(), wrong).exit_code == 5


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_scalars_differ_from_sample_to_sample(dtype: str, executor: Executor) -> None:
    """A value that is baked in shows with the second feed."""
    m = Builder()
    m.placeholder("setting", dtype, ())
    m.node("y", "Identity", ["setting"], T=dtype)
    first = proven(executor, m, lambda g: rename(g, [("y", "z")])).outputs[0].value
    number = first == "True" if dtype == "bool" else float(first)

    def bake(graph: Graph, _: EditResult) -> None:
        attrs = {"dtype": graph["setting"].attr_bytes("dtype"), "value": tensor(number, dtype)}
        baked = graph.add("baked", "Const", attrs=attrs)  # type: ignore[arg-type]
        graph.set_inputs(graph["z"], [baked.output])

    error = caught(executor, m, spoilt(lambda g: rename(g, [("y", "z")]), bake))
    assert error.exit_code == 5
    assert error.facts["sample"] == 2 or dtype == "float32"


@pytest.mark.parametrize("name", ["x", "image"])
def test_feeds_by_the_names_before_and_after(name: str, executor: Executor) -> None:
    edit: Edit = lambda g: rename(g, [("x", "image"), ("y", "served")])  # noqa: E731
    proof = proven(executor, numbers(), edit, Overrides({name: "[1, 2]"}))
    assert proof.feeds == {"image": "float32 [2]"}
    assert [o.value for o in proof.compared if o.after == "served"] == ["[2, 3]"]
    for spelt in ("imag", "y", "served"):
        assert caught(executor, numbers(), edit, Overrides({spelt: "[1, 2]"})).exit_code == 2


def test_feeds_where_names_are_exchanged(executor: Executor) -> None:
    """After `a=b b=a` the name `a` is another input than before: it is that of the result, or it is said which."""
    m = Builder()
    m.placeholder("a", "float32", (2,))
    m.placeholder("b", "float32", (3,))
    m.node("y", "Neg", ["a"], T="float32")
    m.node("z", "Neg", ["b"], T="float32")
    edit: Edit = lambda g: rename(g, [("a", "b"), ("b", "a")])  # noqa: E731
    shapes = [{"a": "[1, 2]", "b": "[1, 2, 3]"}, {"b": "[1, 2]", "a": "[1, 2, 3]"}]
    passed = 0
    for feeds in shapes:
        try:
            passed += len(proven(executor, m, edit, Overrides(dict(feeds))).compared) == 2
        except GdsurgeonError as error:
            assert error.exit_code == 2
    assert passed == 1


@pytest.mark.parametrize("name", ["fuse-ops", "inline", "control-edges --add", "clone-scope", "import"])
def test_feeds_and_shapes_of_edits_that_rename_nothing(name: str, executor: Executor) -> None:
    proof = proven(executor, model(), EDITS[name], Overrides({"x": "[[1, 2, 3, 4]]"}))
    assert proof.samples == 1
    assert [o.value for o in proof.compared if o.after == "apart"] == ["[-4, -3, -2, -1]"]
    assert caught(executor, model(), EDITS[name], Overrides({"x": "[1, 2]"})).exit_code == 2
    assert caught(executor, model(), EDITS[name], Overrides(shapes={"x": (2, 4)})).exit_code == 2
    assert caught(executor, model(), EDITS[name], Overrides({"y": "[1, 2]"})).exit_code == 2
