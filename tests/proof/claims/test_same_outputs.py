"""The proof of edits that change no value (SameOutputs): right ones pass, and wrong ones are caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.spoiling import (
    Edit,
    Spoil,
    caught,
    exchanged,
    next_output,
    proven,
    reads,
    said,
    spoilt,
    value,
    without_controls,
)
from support.tf_graphs import Builder, Shape, body_node, function_attr, operated, refused, tensor

from gdsurgeon.cli.hints import hint_of
from gdsurgeon.edits.claims import EditResult, SameOutputs
from gdsurgeon.edits.clone_scope import clone_scope
from gdsurgeon.edits.control import control
from gdsurgeon.edits.fuse_ops import fuse_ops
from gdsurgeon.edits.import_graph import import_graph
from gdsurgeon.edits.inline import inline
from gdsurgeon.edits.intent import Intent
from gdsurgeon.edits.rename import rename
from gdsurgeon.errors import GdsurgeonError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.executor import Executor
from gdsurgeon.select import Selection

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("one_worker")]

DIFFERS, FAILS, UNLOADABLE = "the result differs: ", "the result does not run: ", "the result does not load: "


def model() -> Builder:
    """`x` -> a scope `t`, calls of functions, an array -> `y` and `called`; `apart` beside it."""
    m = Builder()
    m.placeholder("x", "float32", (1, 4))
    m.const("axis", 1, "int32")
    m.node("halves", "Split", ["axis", "x"], T="float32", num_split=2)
    m.const("t/scale", [2.0, 3.0])
    m.node("t/scaled", "Mul", ["halves:1", "t/scale"], T="float32")
    m.node("t/difference", "Sub", ["halves", "t/scaled"], T="float32")
    m.node("t/parts", "Split", ["axis", "t/difference"], T="float32", num_split=2)
    m.node("t/joined", "ConcatV2", ["t/parts:1", "t/parts", "axis"], T="float32", N=2, Tidx="int32")
    _functions(m)
    call = {"Tin": ["float32", "float32"], "Tout": ["float32", "float32"], "f": function_attr("outer")}
    m.node("called", "PartitionedCall", ["t/joined", "halves"], **call)
    m.node("sum", "Sub", ["called", "called:1"], T="float32")
    m.const("size", 1, "int32")
    m.const("first", 0, "int32")
    m.node("array", "TensorArrayV3", ["size"], dtype="float32", clear_after_read=False)
    m.node("write", "TensorArrayWriteV3", ["array", "first", "sum", "array:1"], T="float32")
    m.node("stored", "TensorArrayReadV3", ["array", "first", "array:1", "^write"], dtype="float32")
    # What reads the write as data serves nothing, so that nobody fetches it: the control edge alone has it run.
    m.const("true", True, "bool")
    m.node("check", "Assert", ["true", "write"], T=["float32"], summarize=3)
    m.node("y", "Neg", ["stored"], T="float32")
    m.const("k", 5.0)
    m.node("apart", "Sub", ["x", "k"], T="float32")
    return m


def _functions(m: Builder) -> None:
    """outer(a, b) = (inner(a) - b, b); inner(a) = 7 - a."""
    inner = m.function("inner", {"a": "float32"}, {"out": "float32"})
    body_node(inner, "seven", "Const", dtype="float32", value=tensor(7.0, "float32"))
    body_node(inner, "r", "Sub", ["seven:output:0", "a"], T="float32")
    inner.ret["out"] = "r:z:0"
    outer = m.function("outer", {"a": "float32", "b": "float32"}, {"first": "float32", "second": "float32"})
    body_node(outer, "in", "PartitionedCall", ["a"], Tin=["float32"], Tout=["float32"], f=function_attr("inner"))
    body_node(outer, "minus", "Sub", ["in:output:0", "b"], T="float32")
    outer.ret["first"], outer.ret["second"] = "minus:z:0", "b"


def body() -> Builder:
    """What `t/scaled` and `t/difference` come to: a - b (2, 3)."""
    p = Builder()
    p.placeholder("b", "float32", (1, 2))
    p.placeholder("a", "float32", (1, 2))
    p.const("w", [2.0, 3.0])
    p.node("times", "Mul", ["b", "w"], T="float32")
    p.node("result", "Sub", ["a", "times"], T="float32")
    return p


def part() -> Builder:
    p = Builder()
    p.placeholder("in", "float32", (1, 4))
    p.node("out", "Neg", ["in"], T="float32")
    return p


FUSED = Selection(nodes=("t/scaled", "t/difference"))
MAPPED = [("halves:1", "b"), ("halves", "a")]
EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z"), ("t/difference", "d"), ("called", "c")]),
    "rename --scope": lambda g: rename(g, scopes=[("t", "u")]),
    "fuse-ops": lambda g: fuse_ops(g, FUSED, "f"),
    "fuse-ops --inline": lambda g: fuse_ops(g, FUSED, "f", inline=True),
    "fuse-ops of outputs": lambda g: fuse_ops(g, Selection(nodes=("apart", "k")), "f"),
    "fuse-ops --with": lambda g: fuse_ops(g, FUSED, "f", body=body().graph("body.pb"), mapped=MAPPED),
    "inline": lambda g: inline(g),
    "inline --keep-names": lambda g: inline(g, keep_names=True),
    "control --add": lambda g: control(g, add=[("apart", "^sum")]),
    "control --remove": lambda g: control(g, remove=[("apart", "^true")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
    "import": lambda g: import_graph(g, part().graph("part.pb"), connect=[("x", "in")]),
}


def model_for(name: str) -> Builder:
    m = model()
    if name == "control --remove":
        next(n for n in m.graph_def.node if n.name == "apart").input.append("^true")
    return m


def claiming(edit: Edit, **changes: Any) -> Edit:
    """EDIT, with CHANGES to what it claims."""

    def claimed(graph: Graph) -> EditResult:
        result = edit(graph)
        result.claims = tuple(replace(c, **changes) if isinstance(c, SameOutputs) else c for c in result.claims)
        return result

    return claimed


# -- what is done wrong ----------------------------------------------------------------------------------------


def in_function(change: Callable[[Any], None], name: str = "") -> Spoil:
    """CHANGE done to the function NAME, or to the one that the edit has added."""

    def spoil(graph: Graph, result: EditResult) -> None:
        found = graph.functions.get(name or result.intent.functions.added[0])
        copy = type(found)()
        copy.CopyFrom(found)
        change(copy)
        assert copy != found
        graph.functions.replace(copy)

    return spoil


def node_of(function: Any, op: str) -> Any:
    return next(node for node in function.node_def if node.op == op)


def sub_exchanged(function: Any) -> None:
    inputs = node_of(function, "Sub").input
    inputs[0], inputs[1] = inputs[1], inputs[0]


def other_constant(function: Any) -> None:
    found = node_of(function, "Const")
    found.attr["value"].CopyFrom(tensor([2.0, 3.000002], "float32"))


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
    "rename --scope": {
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
    "control --add": {**MODEL_SPOILS, **SCOPE_SPOILS},
    "control --remove": {**MODEL_SPOILS, **SCOPE_SPOILS},
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
    assert (proof.rtol, proof.atol, proof.timing, proof.largest_difference) == (0, 0, None, 0)


@pytest.mark.parametrize(("name", "what"), CASES, ids=[f"{n}: {w}" for n, w in CASES])
def test_a_wrong_edit_is_caught(name: str, what: str, executor: Executor) -> None:
    spoil, said = WRONG[name][what]
    error = caught(executor, model_for(name), spoilt(EDITS[name], spoil))
    assert error.exit_code == 5, error.message
    assert error.message.startswith(said), error.message
    if said == DIFFERS:
        assert error.details and all("differ" in detail for detail in error.details)


@pytest.mark.parametrize("name", ["fuse-ops", "inline"])
def test_what_is_proven_is_written_and_what_is_not_is_not(name: str, tmp_path: Path) -> None:
    operated(tmp_path, model(), EDITS[name])
    assert (tmp_path / "out.pb").is_file()
    (tmp_path / "out.pb").unlink()
    error = refused(tmp_path, model(), spoilt(EDITS[name], MODEL_SPOILS["an output beside it"][0]))
    assert error.exit_code == 5 and error.message.startswith(DIFFERS)


@pytest.mark.parametrize("name", EDITS)
def test_an_output_that_is_lost_is_caught(name: str, executor: Executor) -> None:
    """What is not there any more cannot be compared: that it was promised is enough."""
    error = caught(executor, model_for(name), spoilt(EDITS[name], lambda g, _: g.remove([g["apart"]])))
    assert error.exit_code == 5, error.message


def test_a_dropped_control_edge_is_caught_where_it_matters(executor: Executor) -> None:
    """`control --remove` itself is such an edit: it promises that the outputs stay, and here they do not."""
    error = caught(executor, model(), lambda g: control(g, remove=[("stored", "^write")]))
    assert error.exit_code == 5 and error.message.startswith(FAILS)


# -- what a claim says -----------------------------------------------------------------------------------------


def numbers() -> Builder:
    """y = x + 1, z = x k, of which only `y` is an output."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("one", [1.0, 1.0])
    m.const("k", [3.0, 3.0])
    m.node("z", "Mul", ["x", "k"], T="float32")
    m.node("hidden", "Shape", ["z"], T="float32", out_type="int32")
    m.node("y", "AddV2", ["x", "one"], T="float32")
    m.node("size", "Neg", ["hidden"], T="int32")
    return m


def renaming(graph: Graph) -> EditResult:
    return rename(graph, [("y", "served"), ("z", "inner")])


ONES = Overrides({"x": "[1, 1]"})


def test_what_is_named_besides_is_compared_too(executor: Executor) -> None:
    """Nothing that is served tells: only the shape of `z` is looked at."""
    wrong = spoilt(renaming, value("k", [3.0, 4.0]), said("k"))
    assert proven(executor, numbers(), wrong).compared
    error = caught(executor, numbers(), claiming(wrong, also=("z",)))
    assert error.exit_code == 5
    assert [detail.split(":")[0] for detail in error.details] == ["inner"]
    proof = proven(executor, numbers(), claiming(renaming, also=("z", "hidden", "x", "z")))
    assert [o.after for o in proof.compared].count("inner") == 1


def test_what_is_named_besides_and_is_gone_is_left_out(executor: Executor) -> None:
    m = model()
    proof = proven(executor, m, claiming(EDITS["fuse-ops"], also=("t/scaled", "t/difference", "sum")))
    names = {o.before for o in proof.compared}
    assert "sum" in names and "t/scaled" not in names


def test_what_a_fusion_gives_inside_is_compared(executor: Executor) -> None:
    """The function's result is wrong, and by chance nothing that is served depends on it."""
    m = numbers()
    edit: Edit = lambda g: fuse_ops(g, Selection(nodes=("z", "k")), "f")  # noqa: E731

    def other(function: Any) -> None:
        node_of(function, "Const").attr["value"].CopyFrom(tensor([3.0, 4.0], "float32"))

    assert "z" in {o.before for o in proven(executor, m, edit).compared}
    error = caught(executor, m, spoilt(edit, in_function(other)))
    assert error.exit_code == 5


def test_a_tolerance_is_absolute_or_relative(executor: Executor) -> None:
    wrong = spoilt(renaming, value("one", [1.0, 1.5]), said("one"))  # 2.5 in the place of 2
    for passes in ({"atol": 0.5}, {"rtol": 0.2}, {"atol": 0.25, "rtol": 0.1}, {"rtol": 0.15, "atol": 0.15}):
        proof = proven(executor, numbers(), claiming(wrong, **passes), ONES)
        assert (proof.rtol, proof.atol) == (passes.get("rtol", 0), passes.get("atol", 0))
        assert proof.largest_difference == 0.5
        (output,) = [o for o in proof.compared if o.after == "served"]
        assert output.comparison is not None and output.comparison.close and not output.comparison.equal
    for fails in ({"atol": 0.49}, {"rtol": 0.19}, {"atol": 0.24, "rtol": 0.1}, {}):
        error = caught(executor, numbers(), claiming(wrong, **fails), ONES)
        assert error.exit_code == 5
        assert error.details == (
            "served: 1 of 2 elements differs, by up to 0.5 (a tolerance of 0.143 would have passed)",
        )


def test_a_tolerance_is_none_for_integers_texts_and_what_is_no_number(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    m = Builder()
    m.placeholder("x", "int32", (2,))
    m.const("k", [1, 2], "int32")
    m.node("y", "AddV2", ["x", "k"], T="int32")
    edit: Edit = lambda g: rename(g, [("y", "z")])  # noqa: E731
    error = caught(executor, m, claiming(spoilt(edit, value("k", [1, 3], "int32")), **loose))
    assert error.exit_code == 5 and "tolerance" not in error.details[0]
    m = Builder()
    m.placeholder("x", "string", (2,))
    m.const("k", ["a", "b"], "string")
    m.node("y", "StringJoin", ["x", "k"], N=2, separator=b"")
    error = caught(executor, m, claiming(spoilt(edit, value("k", ["a", "c"], "string")), **loose))
    assert error.exit_code == 5 and error.details == ("z: 1 of 2 elements differs",)
    m = numbers()
    error = caught(executor, m, claiming(spoilt(renaming, value("one", [1.0, float("nan")])), **loose))
    assert error.exit_code == 5 and "inf" in error.details[0] and "tolerance" not in error.details[0]
    error = caught(executor, m, claiming(spoilt(renaming, value("one", [1.0, float("inf")])), **loose))
    assert error.exit_code == 5


def test_other_shapes_and_dtypes_are_never_equal(executor: Executor) -> None:
    loose = {"rtol": 1e9, "atol": 1e9}
    error = caught(executor, numbers(), claiming(spoilt(renaming, value("one", [[1.0, 1.0]])), **loose))
    assert (error.exit_code, error.details) == (5, ("served: shape [2] against [1,2]",))


def test_nan_equals_nan(executor: Executor) -> None:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.node("y", "Log", ["x"], T="float32")
    overrides = Overrides({"x": "[-1, 1]"})
    edit: Edit = lambda g: fuse_ops(g, Selection(nodes=("y",)), "f")  # noqa: E731
    assert proven(executor, m, edit, overrides).compared
    error = caught(executor, m, spoilt(edit, lambda g, _: g.set_op(g["y"], "Exp")), overrides)
    assert error.exit_code == 5


def test_bit_for_bit_tells_the_two_zeros_apart(executor: Executor) -> None:
    """Without a tolerance the summary says that the outputs are bit-identical."""
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("k", [0.0, 0.0])
    m.node("y", "Mul", ["x", "k"], T="float32")
    wrong = spoilt(lambda g: rename(g, [("y", "z")]), value("k", [-0.0, -0.0]), said("k"))
    assert caught(executor, m, wrong).exit_code == 5
    assert proven(executor, m, claiming(wrong, atol=1e-9)).compared


def test_an_output_that_is_excepted_is_run_and_not_compared(executor: Executor) -> None:
    wrong = claiming(spoilt(renaming, value("one", [1.0, 1.5]), said("one")), except_for={"y": "it is meant to differ"})
    proof = proven(executor, numbers(), wrong)
    assert [(o.after, o.reason) for o in proof.outputs if o.comparison is None] == [("served", "it is meant to differ")]
    assert [o.after for o in proof.compared] == ["size"]


def test_where_all_outputs_are_excepted_nothing_is_passed(executor: Executor) -> None:
    edit = claiming(renaming, except_for={"y": "it is meant to differ", "size": "so is this"})
    error = caught(executor, numbers(), edit)
    assert error.exit_code == 7
    assert error.message == "nothing could be compared: it is meant to differ; so is this"


def test_both_graphs_are_measured_where_that_is_asked_for(executor: Executor) -> None:
    proof = proven(executor, numbers(), claiming(renaming, measured=True))
    assert proof.timing is not None
    assert proof.timing.original > 0 and proof.timing.edited > 0 and 3 <= proof.timing.runs <= 15
    assert proof.as_json()["timing"]["runs"] == proof.timing.runs
    assert proven(executor, numbers(), renaming).timing is None


def test_a_measured_graph_with_random_ops_and_tables(executor: Executor) -> None:
    """What is drawn, and who has initialised what, is the same in the runs that are measured."""
    m = stateful()
    m.const("shape", [1], "int32")
    m.node("noise", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=4)
    m.node("noisy", "Mul", ["noise", "t/result"], T="float32")
    proof = proven(executor, m, claiming(lambda g: rename(g, [("y", "z")]), measured=True))
    assert proof.timing is not None and {"z", "noisy"} <= {o.after for o in proof.compared}


def test_a_claim_that_is_not_of_this_journal_is_not_passed(executor: Executor) -> None:
    """The intent speaks of a node that is not there."""

    def wrong(graph: Graph) -> EditResult:
        result = renaming(graph)
        result.intent = Intent(renamed={"y": "nowhere", "z": "inner"})
        return result

    assert caught(executor, numbers(), wrong).exit_code == 5


# -- nothing to compare ----------------------------------------------------------------------------------------


def only(op: str, **attrs: Any) -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.node("t/same", "Identity", ["x"], T="float32")
    m.node("y", op, ["t/same"], **attrs)
    return m


def noise() -> Builder:
    m = Builder()
    function = m.function("noise", {"a": "float32"}, {"out": "float32"})
    body_node(function, "shape", "Shape", ["a"], T="float32", out_type="int32")
    body_node(function, "draw", "RandomUniform", ["shape:output:0"], T="int32", dtype="float32", seed=0, seed2=0)
    function.ret["out"] = "draw:output:0"
    function.signature.is_stateful = True
    m.placeholder("x", "float32", (2,))
    m.node("t/same", "Identity", ["x"], T="float32")
    m.node("y", "StatefulPartitionedCall", ["t/same"], Tin=["float32"], Tout=["float32"], f=function_attr("noise"))
    return m


NOTHING = {
    "random": noise(),
    "unknown op": only("MyOwnOp"),
    "outside world": only("PyFunc", Tin=["float32"], Tout=["float32"], token=b"t"),
}
SMALL_EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z")]),
    "fuse-ops": lambda g: fuse_ops(g, Selection(nodes=("t/same",)), "f"),
    "control": lambda g: control(g, add=[("y", "^x")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
}


@pytest.mark.parametrize("name", SMALL_EDITS)
@pytest.mark.parametrize("what", NOTHING)
def test_where_no_output_can_be_compared_nothing_is_passed(what: str, name: str, executor: Executor) -> None:
    """What was fused is compared, and its clone; of what the model gives nothing is."""
    try:
        proof = proven(executor, NOTHING[what], SMALL_EDITS[name])
    except GdsurgeonError as error:
        assert error.exit_code == 7, error.message
        assert hint_of(error) is not None and "--validate" in hint_of(error)
    else:
        assert name == "fuse-ops" and [o.before for o in proof.compared] == ["t/same"]
        assert "y" in {o.before for o in proof.outputs if o.comparison is None} | {s for s, _ in proof.skipped}


# -- chance, variables, tables -----------------------------------------------------------------------------------


def dice(seed: int) -> Builder:
    m = Builder()
    m.placeholder("x", "float32", (2,))
    m.const("shape", [2], "int32")
    m.node("t/draw", "RandomUniform", ["shape"], T="int32", dtype="float32", seed=seed)
    m.node("t/sum", "Sub", ["x", "t/draw"], T="float32")
    m.node("other", "RandomStandardNormal", ["shape"], T="int32", dtype="float32", seed=seed)
    m.node("y", "Sub", ["t/sum", "other"], T="float32")
    return m


DICE_EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z"), ("t/draw", "d")]),
    "fuse beside the draw": lambda g: fuse_ops(g, Selection(nodes=("t/sum",)), "f"),
    "control": lambda g: control(g, add=[("t/draw", "^x")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
}


@pytest.mark.parametrize("seed", [0, 5], ids=["unseeded", "seeded"])
@pytest.mark.parametrize("name", DICE_EDITS)
def test_random_ops_draw_the_same_for_both_graphs(name: str, seed: int, executor: Executor) -> None:
    proof = proven(executor, dice(seed), DICE_EDITS[name])
    assert "y" in {o.before for o in proof.compared}
    error = caught(executor, dice(seed), spoilt(DICE_EDITS[name], exchanged("z" if name == "rename" else "y")))
    assert error.exit_code == 5


@pytest.mark.parametrize("seed", [0, 5], ids=["unseeded", "seeded"])
def test_a_draw_that_is_fused_is_not_compared(seed: int, executor: Executor) -> None:
    """Inside a function its value cannot be fed."""
    edit: Edit = lambda g: fuse_ops(g, Selection(nodes=("t/draw", "t/sum")), "f")  # noqa: E731
    try:
        proof = proven(executor, dice(seed), edit)
    except GdsurgeonError as error:
        assert error.exit_code in (4, 7), error.message
    else:
        assert "y" not in {o.before for o in proof.compared}


def stateful() -> Builder:
    m = Builder()
    m.placeholder("key", "string", (1,))
    m.const("default", -1.0)
    m.node("table", "HashTableV2", key_dtype="string", value_dtype="float32", shared_name=b"t")
    m.const("keys", ["a", "b"], "string")
    m.const("values", [3.0, 4.0])
    m.node("init", "InitializeTableV2", ["table", "keys", "values"], Tkey="string", Tval="float32")
    m.node("t/found", "LookupTableFindV2", ["table", "key", "default"], Tin="string", Tout="float32")
    m.node("v", "VariableV2", shape=Shape((1,)), dtype="float32", container=b"", shared_name=b"v")
    m.node("t/result", "Sub", ["t/found", "v"], T="float32")
    m.node("y", "Neg", ["t/result"], T="float32")
    return m


STATEFUL_EDITS: dict[str, Edit] = {
    "rename": lambda g: rename(g, [("y", "z"), ("table", "words"), ("init", "start"), ("v", "weights")]),
    "fuse-ops": lambda g: fuse_ops(g, Selection(nodes=("y",)), "f"),
    "control": lambda g: control(g, add=[("y", "^key")]),
    "clone-scope": lambda g: clone_scope(g, "t", "u"),
    "import": lambda g: import_graph(g, stateful().graph("part.pb"), scope="p"),
}


@pytest.mark.parametrize("name", STATEFUL_EDITS)
def test_tables_and_variables_are_the_same_for_both_graphs(name: str, executor: Executor) -> None:
    proof = proven(executor, stateful(), STATEFUL_EDITS[name])
    assert "y" in {o.before for o in proof.compared}
    assert any("variable" in warning for warning in proof.warnings)
    for spoil in (exchanged("t/result"), value("values", [3.5, 4.5])):
        assert caught(executor, stateful(), spoilt(STATEFUL_EDITS[name], spoil)).exit_code == 5


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
        attrs = {"dtype": graph["setting"].attr_bytes("dtype"), "value": tensor(number, dtype).SerializeToString()}
        baked = graph.add("baked", "Const", attrs=attrs)  # type: ignore[arg-type]
        graph.set_inputs(graph["z"], [baked.output])

    error = caught(executor, m, spoilt(lambda g: rename(g, [("y", "z")]), bake))
    assert error.exit_code == 5
    assert error.message.endswith("(feed 2)") or dtype == "float32"


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


@pytest.mark.parametrize("name", ["fuse-ops", "inline", "control --add", "clone-scope", "import"])
def test_feeds_and_shapes_of_edits_that_rename_nothing(name: str, executor: Executor) -> None:
    proof = proven(executor, model(), EDITS[name], Overrides({"x": "[[1, 2, 3, 4]]"}))
    assert proof.samples == 1
    assert [o.value for o in proof.compared if o.after == "apart"] == ["[-4, -3, -2, -1]"]
    assert caught(executor, model(), EDITS[name], Overrides({"x": "[1, 2]"})).exit_code == 2
    assert caught(executor, model(), EDITS[name], Overrides(shapes={"x": (2, 4)})).exit_code == 2
    assert caught(executor, model(), EDITS[name], Overrides({"y": "[1, 2]"})).exit_code == 2
