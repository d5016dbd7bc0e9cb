"""add-gradients: values, checkpoints, names, refused requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.adding_gradients import (
    FEEDS,
    GIVEN,
    LONG,
    Lab,
    chain,
    convolutions,
    dropping,
    equal,
    mlp,
    numbers,
    placeholder,
    residual,
    skipping,
    small,
    stateless,
    version_2_flow,
)
from support.desk import check_error
from support.expecting import refused
from support.graphs import (
    VERSIONS,
    Builder,
    call,
    const,
    doubling_loop,
    function,
    graph,
    graph_bytes,
    library,
    names,
    node,
    parsed,
    typed,
    written,
)
from support.graphs import identity as identity_record
from support.graphs import placeholder as input_
from support.operating import operated
from support.operating import refused as not_written
from support.reaching import read_for_a_shape
from support.spoiling import Edit

import gdsurgeon.edits.add_gradients
import gdsurgeon.gradients.backward_pass
import gdsurgeon.proof.gradients
from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.errors import EditError, NotValidatedError, UsageError, ValidationError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.gradients.backward_pass import weights_of
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.change import Change
from gdsurgeon.proof.executor import Executor
from gdsurgeon.proof.proof import Proof
from gdsurgeon.proof.prove import prove
from gdsurgeon.proof.trial import EDITED, ORIGINAL
from gdsurgeon.runtime.base import Derivation
from gdsurgeon.wire.write import read_chunks

pytestmark = pytest.mark.tensorflow

FED = {"x": numbers(LONG)}


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("build", "shape"), [(mlp, (3, 7)), (convolutions, (2, 8, 8, 3))])
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory"])
def test_networks(lab: Lab, build: Callable[[Any], None], shape: tuple[int, ...], checkpoints: str) -> None:
    made = lab.same(lab.built(build), ["y"], ["x"], {"x": numbers(*shape)}, weights=True, checkpoints=checkpoints)
    assert all(warning.facts == {"names": "'x'"} for warning in made.result.warnings)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(lab: Lab, dtype: str) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, dtype=dtype)
        # oneDNN has no softmax in bfloat16 for AVX2.
        end = tf.sigmoid if dtype == "bfloat16" else tf.nn.softmax
        end(tf.tanh(x) * x + x * x, name="y")
        tf.identity(placeholder(tf, "z", dtype=dtype), name="z2")

    made = lab.same(lab.built(build), ["y"], ["x", "z"], {"x": numbers(LONG), "z": numbers(LONG)}, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["z"]


def test_y_is_x(lab: Lab) -> None:
    m = small()
    made = lab.same(m.bytes(), ["x"], ["x"], FEEDS)
    assert (lab.run(made, made.results, FEEDS)[0] == 1).all()
    lab.same(m.bytes(), ["sum", "y"], ["sum", "x"], FEEDS)


def test_calls(lab: Lab) -> None:
    """A call without a registered gradient gets TensorFlow's gradients, and a note reports this."""

    def build(tf: Any) -> None:
        twice = tf.function(lambda a: tf.sin(tf.cos(a)) * a, autograph=False)
        x = placeholder(tf)
        tf.identity(twice(x) + twice(twice(x)), name="y")

    data = lab.built(build)
    made = lab.same(data, ["y"], ["x"], FED)
    assert made.result.facts["gradients"]["by"] == "tf.gradients"
    error = refused(from_bytes(written(made.graph)), "no-gradient", lab.adding(["y", "gradients/x"], ["x"]))
    ops = [(reason["code"], reason["op"]) for reason in error.facts["reasons"]]
    assert ops == [("no-gradient", "SymbolicGradient")] * 3  # what TensorFlow has made for the calls


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "memory", ["h"]], ids=str)
def test_loops_and_conditions_of_version_2(lab: Lab, taken: bool, checkpoints: Any) -> None:
    data = lab.built(version_2_flow)
    made = lab.same(data, ["y"], ["x", "h"], {"x": numbers(LONG), "p": taken}, checkpoints=checkpoints)
    flow = {"While", "StatelessWhile", "If", "StatelessIf"}
    assert {made.graph[name].op for name in made.result.intent.changed} <= flow
    if checkpoints != "none":
        assert not {made.graph[name].op for name in made.again} & flow
        wanted = lab.run(data, ["y"], {"x": numbers(LONG), "p": taken})
        equal(lab.run(made, ["y"], {"x": numbers(LONG), "p": taken}), wanted)


def test_loops_whose_functions_are_numbered_high(lab: Lab) -> None:
    """The functions that TensorFlow makes do not use names of existing functions."""
    data = lab.built(version_2_flow)
    once = lab.edit(data, ["y"], ["x"])
    twice = lab.edit(written(once.graph), ["y"], ["h"])
    functions = [function.signature.name for function in parsed(twice.graph).library.function]
    assert len(functions) == len(set(functions))
    lab.same(written(once.graph), ["gradients/x"], ["x"], {"x": numbers(LONG), "p": True})


# -- control flow of version 1 ------------------------------------------------------------------------------------


def test_a_loop_on_the_way_is_named(lab: Lab) -> None:
    records = [input_("x", shape=(3,)), typed("Sin", "a", "x"), *doubling_loop("inner", "a"),
               typed("Sin", "y", "inner/done")]  # fmt: skip
    loops = [{"code": "crosses-loop", "loop": "inner/frame"}, {"code": "crosses-loop", "loop": "other/frame"}]
    refused(graph(*records), "no-gradient", lab.adding(["y"], ["x"]), reasons=loops[:1])
    records += [*doubling_loop("other", "a"), typed("Mul", "z", "other/done", "y")]
    error = refused(graph(*records), "no-gradient", lab.adding(["z"], ["x"]))
    assert sorted(error.facts["reasons"], key=loops.index) == loops


@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["a"], ["b"]], ids=str)
def test_loops_beside_the_way_do_not_matter(lab: Lab, checkpoints: Any) -> None:
    data = graph_bytes(
        *(input_(name, shape=(LONG,)) for name in "xz"), *doubling_loop("above", "x"),
        *doubling_loop("beside", "z"),
        *(typed("EnsureShape", f"{n}_known", f"{n}/done", shape=(LONG,)) for n in ("above", "beside")),
        typed("Sin", "source", "above_known"), typed("Sin", "a", "source"), typed("Mul", "b", "a", "beside_known"),
        typed("Sin", "c", "b"), typed("Tanh", "y", "c"), *doubling_loop("behind", "y"),
    )  # fmt: skip
    feeds = {"x": numbers(LONG), "z": numbers(LONG, seed=1)}
    made = lab.same(data, ["y"], ["source"], feeds, checkpoints=checkpoints)
    if checkpoints == ["b"]:
        assert "source" in made.again
    if checkpoints != "none":
        assert not [name for name in made.again if name.startswith(("above/", "beside/"))]


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["h1"], ["h0", "h2"]], ids=str)
def test_conditions(lab: Lab, taken: bool, checkpoints: Any) -> None:
    """On the path, with an early tensor read in one branch, and next to the path."""

    def build(tf: Any) -> None:
        x, z, p = placeholder(tf), placeholder(tf, "z"), placeholder(tf, "p", (), "bool")

        def cond(yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
            return lab.version_1(lambda: tf.compat.v1.cond(p, yes, no))

        beside = cond(lambda: tf.sin(z), lambda: tf.ones([LONG]))
        early = tf.tanh(x, name="h0")
        h = tf.tanh(tf.sin(early) * beside, name="h1")
        h = cond(lambda: tf.sin(h) * early, lambda: tf.cos(tf.sin(h)))
        h = tf.tanh(tf.sin(h), name="h2")
        tf.identity(tf.tanh(h * beside), name="y")

    feeds = {"x": numbers(LONG), "p": taken, "z": numbers(LONG, seed=2)}
    lab.same(lab.built(build), ["y"], ["x"], feeds, checkpoints=checkpoints)


def two_targets() -> Builder:
    """y = sin(x w) and z = x^2 v."""
    return Builder(
        *(input_(name, shape=(8,)) for name in "xgh"), const("w", [1.5, -2.0, 0.5, 3.0, 1.0, -0.5, 2.0, 0.25]),
        const("v", [0.5, 2.0, -1.5, 1.0, 3.0, 0.75, -2.0, 1.25]), typed("Mul", "xw", "x", "w"),
        typed("Sin", "y", "xw"), typed("Square", "xx", "x"), typed("Mul", "z", "xx", "v"),
    )  # fmt: skip


def gradients(lab: Lab, **options: Any) -> Edit:
    return lab.adding(["y", "z"], **{"xs": ["x", "xw"], "grad_ys": ["g", "h"], "names": ["dx", "dxw"], **options})


def tried(executor: Executor, edit: Edit, asked: Any = None) -> Proof:
    """The proof of EDIT, checked against its request or against ASKED."""
    graph = two_targets().graph("two_targets.pb")
    executor.load_graph(ORIGINAL, graph)
    result = edit(graph)
    result.asked = asked or result.asked
    executor.load(EDITED, read_chunks(graph.chunks()))
    return prove(executor, Change(graph.pristine(), graph, result), Overrides())


@pytest.mark.parametrize("options", [{}, {"weights": True, "names": (), "xs": ()}, {"grad_ys": ()}])
def test_right_gradients_pass(lab: Lab, executor: Executor, options: dict[str, Any]) -> None:
    assert tried(executor, gradients(lab, **options)).compared


def caught(code: str, *trial: Any, **facts: Any) -> None:
    with pytest.raises(ValidationError) as error:
        tried(*trial)
    check_error(error.value, code, facts)


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        ({"grad_ys": ()}, ["grad_ys"]),
        ({"grad_ys": ["h", "g"]}, ["grad_ys"]),
        ({"names": ["dxw", "dx"]}, ["names"]),
        ({"xs": ["xw", "x"]}, ["xs"]),
        ({"xs": ["x"], "names": ["dx"]}, ["xs", "names"]),
        ({"names": ()}, ["names"]),
    ],
)
def test_what_was_asked_decides(lab: Lab, executor: Executor, mistake: dict[str, Any], wrong: list[str]) -> None:
    """The edit does another thing and says so, and the reference is made from what it says."""
    asked = gradients(lab)(two_targets().graph("two_targets.pb")).asked
    caught("unrequested-change", executor, gradients(lab, **mistake), asked, names=wrong)


WRONG: dict[str, Callable[[Derivation], Derivation]] = {
    "gradients that come in are given to each other's targets": lambda w: w._replace(grad_ys=w.grad_ys[::-1]),
    "gradients that come in are not looked at": lambda w: w._replace(grad_ys=()),
    "results have each other's names": lambda w: w._replace(xs=w.xs[::-1]),
    "only the first target is differentiated": lambda w: w._replace(ys=w.ys[:1], grad_ys=w.grad_ys[:1]),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_differences_decide(lab: Lab, executor: Executor, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where TensorFlow is asked for something else, both times, the reference is wrong as the gradients are."""
    right = lab.differentiator.derive
    monkeypatch.setattr(lab.differentiator, "derive", lambda data, wanted: right(data, WRONG[mistake](wanted)))
    caught("differs", executor, gradients(lab), node="x", name="dx")


def test_a_weight_that_is_left_out_is_missed(lab: Lab, executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_the_first(*arguments: Any) -> Any:
        found = weights_of(*arguments)
        return found._replace(constants=found.constants[1:])

    monkeypatch.setattr(gdsurgeon.gradients.backward_pass, "weights_of", without_the_first)
    caught("differs", executor, gradients(lab, weights=True, xs=(), names=()), node="w", name=None)


def conditional(tf: Any) -> None:
    sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
    inside = tf.identity(sides.output_true, name="inside")
    merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(inside)]).output
    tf.reduce_sum(merged * 3.0, name="y")


def test_gradients_that_cannot_be_compared_are_not_called_proven(lab: Lab, tmp_path: Path) -> None:
    data = lab.built(conditional)
    error = not_written(tmp_path, data, lab.adding(["y"], ["inside"]))
    check_error(error, "nothing-comparable", {"tensors": ["gradients/inside"]})
    done = operated(tmp_path, data, lab.adding(["y"], ["inside", "x"]))
    assert [warning.facts["name"] for warning in done.warnings] == ["gradients/inside"]


def test_a_tolerance_that_is_given(lab: Lab, tmp_path: Path) -> None:
    done = operated(tmp_path, lab.built(chain), lab.adding(["y"], ["x"], rtol=1e-6))
    assert done.proof.tolerance == (1e-6, 0.0, 0.0)


@pytest.mark.parametrize("build", [chain, residual, skipping, dropping, stateless])
def test_checkpoints_change_no_bit(lab: Lab, build: Callable[[Any], None]) -> None:
    data = lab.built(build)
    before = parsed(data)
    constants = [node.name for node in before.node if node.op == "Const"]
    for checkpoints in ("speed", "memory", ["h2"], ["h0", "h3"], ["h1", "h2", "h3"], ["h3"]):
        made = lab.same(data, ["y"], ["x", "h1"], FED, checkpoints=checkpoints)
        added = {node.name: node for node in parsed(made.graph).node if node.name in made.result.intent.added}
        prefix = "gradients/recompute/"
        inside = {name: node for name, node in added.items() if name.startswith(prefix)}
        clones = {name: node for name, node in inside.items() if not node.attr["_recomputed"].b}
        gates = [node for node in inside.values() if node.op == "Identity" and node.attr["_recomputed"].b]
        triggers = [node for node in inside.values() if node.op == "NoOp"]
        assert len(clones) == len(made.again) and len(inside) == len(clones) + len(gates) + len(triggers)
        assert sorted(name.removeprefix(prefix).split("/", 1)[1] for name in clones) == sorted(made.again)
        for gate in gates:
            source, *waits = gate.input
            assert not source.startswith("^") and source not in constants
            if gate.name.startswith(f"{prefix}hold_"):
                assert waits and all(wait.startswith("^") for wait in waits)
            else:
                assert [made.graph[wait.removeprefix("^")].op for wait in waits] == ["NoOp"]
        for trigger in triggers:
            assert trigger.input and all(text.startswith("^gradients/") for text in trigger.input)
        assert not {made.graph[name].op for name in made.again} & {"Const", "RandomUniform", "Placeholder"}
        drawn = [node.name for node in before.node if node.op == "RandomUniform"]
        assert [node.name for node in parsed(made.graph).node if node.op == "RandomUniform"] == drawn
        if checkpoints == "memory" or isinstance(checkpoints, list):
            assert made.again and gates and triggers


def test_gates_are_where_the_tensor_is_that_passes_through(lab: Lab) -> None:
    graph = parsed(from_bytes(lab.built(chain)))
    for each in graph.node:
        each.device = "/device:CPU:0" if each.name in ("h2", "x") else ""
    made = lab.edit(graph.SerializeToString(), ["y"], ["x"], checkpoints=["h2"])
    nodes = {node.name: node for node in parsed(made.graph).node}
    gates = [node for node in nodes.values() if "_recomputed" in node.attr and node.op == "Identity"]
    sources = [nodes[node.input[0].partition(":")[0]] for node in gates]
    assert {"x"} <= {node.name for node in sources}
    assert [node.device for node in gates] == [node.device for node in sources]


def test_a_collection_of_checkpoints(lab: Lab) -> None:
    data = lab.built(lambda tf: chain(tf, marked=True))
    made = lab.same(data, ["y"], ["x"], FED, checkpoints="collection")
    plan = made.result.facts["gradients"]["plan"]
    assert plan["segments"] == 3
    assert {"h2", "h5"} <= {item["tensor"] for item in plan["kept"]}
    assert "h2" not in made.again and "h5" not in made.again and "h1" in made.again
    listed = lab.same(data, ["y"], ["x"], FED, checkpoints=["h5", "h2"])
    assert listed.again == made.again
    assert [n for n in parsed(made.graph).node if "_checkpoint" in n.attr and n.name.startswith("gradients/")] == []


@pytest.mark.parametrize(
    ("checkpoints", "code", "facts"),
    [("collection", "nothing-marked", {"attr": "_checkpoint"}), *(([name], "no-use", {"tensors": [name]}) for name in
     ("x", "w1"))],
)  # fmt: skip
def test_useless_checkpoints(lab: Lab, checkpoints: Any, code: str, facts: dict[str, Any]) -> None:
    edit = lab.adding(["y"], ["x"], checkpoints=checkpoints)
    error = refused(from_bytes(lab.built(chain)), code, edit, **facts)
    assert error.hint or code == "no-use"


def test_budgets(lab: Lab) -> None:
    data = lab.built(chain)
    plain = lab.same(data, ["y"], ["x"], FED, budget=100.0)
    assert plain.again == []
    most, least = plain.peak, lab.edit(data, ["y"], ["x"], checkpoints="memory").peak
    assert least < most
    for budget in (least, (least + most) // 2, most - 1):
        made = lab.same(data, ["y"], ["x"], FED, budget=budget / (1 << 20))
        assert made.peak <= budget
        assert made.again
    assert lab.edit(data, ["y"], ["x"], budget=float("inf")).again == []
    for budget in (least // 2, least - 1):
        edit = lab.adding(["y"], ["x"], budget=budget / (1 << 20))
        error = refused(from_bytes(data), "over-budget", edit, budget=budget, least=least)
        assert error.advice == ("budget-or-batch",)
    enough = float(error.facts["enough"])
    assert lab.edit(data, ["y"], ["x"], budget=enough).peak <= enough * (1 << 20)


def test_checkpoints_that_cost_memory_are_warned_of(lab: Lab) -> None:
    def narrowing(tf: Any) -> None:
        h = placeholder(tf, shape=(LONG,))
        for i in range(3):
            h = tf.identity(tf.tanh(h + 1.0), name=f"h{i}")
        tf.reduce_sum(h, name="y")

    data = lab.built(narrowing)
    for checkpoints in (["h0"], ["h1"], "memory", "speed"):
        made = lab.edit(data, ["y"], ["x"], checkpoints=checkpoints)
        plan = made.result.facts["gradients"]["plan"]
        is_more = plan["predicted_peak_bytes"] > plan["predicted_plain_peak_bytes"]
        assert is_more == bool(made.result.warnings)


def test_stateful_calls_are_not_made_twice(lab: Lab) -> None:
    """Whatever the op of the call says: what its function does is what counts."""
    drawn = typed("RandomUniform", "random", "shape:output:0", kind="int32", dtype="float32", seed=3, seed2=4)
    noisy = function(
        "noisy", typed("Shape", "shape", "x", out_type="int32"), drawn, typed("Mul", "y", "x", "random:output:0")
    )
    m = graph_bytes(input_("x", shape=(LONG,)), typed("Sin", "a", "x"),
                    call("call", "noisy", ["a"], ["float32"], ["float32"]), typed("Sin", "b", "call"),
                    typed("Sin", "c", "b"), typed("Sin", "y", "c"), library(noisy))  # fmt: skip
    made, plain = (lab.edit(m, ["y"], ["x"], **how) for how in ({"checkpoints": ["c"]}, {}))
    assert "call" not in made.again
    equal(lab.run(made, made.results, FED), lab.run(plain, plain.results, FED))


def test_variables_are_not_changed_twice(lab: Lab) -> None:
    """Ops on references have effects, though TensorFlow does not call them stateful."""

    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = lab.version_1(lambda: v1.get_variable("v", initializer=np.zeros(LONG, np.float32)))
        new = v1.assign_add(v, tf.ones([LONG]), name="counted")
        h = tf.tanh(placeholder(tf) + new, name="h0")
        h = tf.tanh(tf.sin(h), name="h1")
        tf.tanh(tf.sin(h), name="y")
        v1.global_variables_initializer()

    data = lab.built(build)
    made = lab.same(data, ["y"], ["x"], FED, init=["init"], checkpoints=["h1"])
    assert "counted" not in made.again


def test_checkpoints_with_open_dimensions(lab: Lab) -> None:
    def build(tf: Any) -> None:
        h = placeholder(tf, shape=(None, 50))
        for i in range(5):
            h = tf.tanh(tf.matmul(h, tf.constant(numbers(50, 50, seed=i))), name=f"h{i}")
        tf.reduce_sum(h, name="y")

    data = lab.built(build)
    feeds = {"x": numbers(60, 50)}
    made = lab.same(data, ["y"], ["x"], feeds, checkpoints="memory")
    assert [warning.facts for warning in made.result.warnings] == [{"names": "'x'"}]
    made = lab.same(data, ["y"], ["x"], feeds, checkpoints=["h2"], shapes={"x": (60, 50)})
    assert made.again and not made.result.warnings


def test_inputs_of_unknown_shape_are_not_said_to_have_size_one(lab: Lab) -> None:
    records = [input_("x", shape=(-1,)), input_("z"), typed("Sin", "a", "x"), typed("Sin", "b", "z")]
    m = graph_bytes(*records, typed("Mul", "y", "a", "b"))
    warnings = lab.edit(m, ["y"], ["x"], checkpoints="memory").result.warnings
    assert [warning.facts for warning in warnings] == [{"names": "'x'"}, {"names": "'z'"}]
    assert ["size 1" in warning for warning in warnings] == [True, False]


def test_an_input_of_unknown_shape_is_no_reason_to_warn_if_all_sizes_are_known(lab: Lab) -> None:
    records = [
        input_("x", shape=(4,)), input_("z", "int32"), typed("Shape", "shape", "x", out_type="int32"),
        node("flat", "Reshape", ["z", "shape"], T="int32", Tshape="int32"),
        node("float", "Cast", ["flat"], SrcT="int32", DstT="float32"), typed("Mul", "y", "x", "float"),
    ]  # fmt: skip
    assert not lab.edit(graph_bytes(*records), ["y"], ["x"], checkpoints="memory").result.warnings


def random_network(tf: Any, seed: int) -> None:
    random = np.random.RandomState(seed)
    tensors = [placeholder(tf)]
    unary = [tf.sin, tf.tanh, tf.nn.relu, tf.identity, tf.stop_gradient, lambda t: t * t, tf.exp]
    for i in range(random.randint(6, 14)):
        recent = [tensors[-1 - random.randint(min(4, len(tensors)))] for _ in range(3)]
        kind = random.randint(5)
        if kind == 0:
            made = recent[0] * tf.tanh(recent[1])
        elif kind == 1:
            a, b = tf.split(recent[0], 2)
            made = tf.concat([tf.sin(b), a * b], 0)
        elif kind == 2:
            made = recent[0] * tf.compat.v1.random_uniform([LONG], seed=i + 1)
        elif kind == 3:
            made = recent[0] + recent[1] * recent[2]
        else:
            made = unary[random.randint(len(unary))](recent[0])
        tensors.append(tf.tanh(made, name=f"h{i}"))
    tf.reduce_sum(tensors[-1] + tensors[-2], name="y")


@pytest.mark.parametrize("seed", range(10))
def test_random_networks(lab: Lab, seed: int) -> None:
    data = lab.built(lambda tf: random_network(tf, seed))
    random = np.random.RandomState(seed)
    count = sum(name.startswith("h") and name[1:].isdigit() for name in names(data))
    for checkpoints in ("memory", [f"h{i}" for i in sorted(random.choice(count - 1, 2, replace=False))]):
        try:
            lab.same(data, ["y"], ["x"], FED, checkpoints=checkpoints, unconnected="zero")
        except EditError as error:
            assert isinstance(checkpoints, list) and error.code == "no-use"


def test_the_backward_pass_begins_when_the_forward_pass_has_ended(lab: Lab) -> None:
    """Else its branches would take now less memory and now more."""

    def build(tf: Any) -> None:
        x = placeholder(tf)
        branches = []
        for i in range(4):
            h = x * (1 + i / 10)
            for _ in range(4):
                h = tf.tanh(h)
            branches.append(tf.reduce_sum(h))
        tf.add_n(branches, name="y")

    data = lab.built(build)
    made = lab.same(data, ["y"], ["x"], FED, checkpoints="memory")
    (seed,) = [node for node in parsed(made.graph).node if node.name == "gradients/grad_ys_0"]
    assert "^y" in seed.input
    assert made.result.facts["gradients"]["plan"]["predicted_plain_peak_bytes"] >= 16 * LONG * 4


def test_that_the_plan_does_not_look_into_functions_is_said(lab: Lab) -> None:
    def build(tf: Any) -> None:
        h = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.tanh(t)), [0, placeholder(tf)])[1]
        tf.identity(h, name="y")

    data = lab.built(build)
    (warning,) = lab.edit(data, ["y"], ["x"], checkpoints="memory").result.warnings
    check_error(warning, "inside-functions", {"node": "while", "count": 2})
    assert not lab.edit(data, ["y"], ["x"]).result.warnings


# -- results ------------------------------------------------------------------------------------------------------


ABOVE = ["split:1", "x", "w", "sum", "b", "product", "y", "split"]


@pytest.mark.parametrize(
    ("ys", "xs", "options", "results"),
    [
        (["y"], ["x"], {}, ["gradients/x"]),
        (["y"], ABOVE, {}, [f"gradients/{x.replace(':', '_')}" for x in ABOVE]),
        (["z", "y"], ["sum", "x"], {}, ["gradients/sum", "gradients/x"]),
        (["y"], ["x", "w"], {"grad_ys": ["g"]}, ["gradients/x", "gradients/w"]),
        (["y", "split:1"], ["x"], {"grad_ys": ["g", "split"]}, ["gradients/x"]),
        (["y"], ["x", "split:1"], {"names": ["saliency", "a/b"]}, ["saliency", "a/b"]),
    ],
)
def test_results(lab: Lab, ys: list[str], xs: list[str], options: dict[str, Any], results: list[str]) -> None:
    """Of inputs, activations and constants above each other, of given gradients, under given names."""
    made = lab.same(small().bytes(), ys, xs, GIVEN, **options)
    assert list(made.results) == results and {*results} <= {*names(made.graph)}
    claim, facts = made.claim, made.result.facts["gradients"]
    assert (claim.scope, claim.ys, claim.xs) == ("gradients", tuple(ys), tuple(xs))
    assert list(claim.grad_ys) == options.get("grad_ys", [])
    assert made.result.intent.changed == [] and made.result.intent.removed == []
    assert facts["results"] == dict(zip(xs, results, strict=True))
    assert facts["by"] == "reverse walk" and facts["unconnected"] == []


@pytest.mark.parametrize("name", ["AddN", "Shape", "grad_ys_0", "grad_ys_0/Const", "Sin_grad/Cos"])
def test_default_names_do_not_meet_those_of_the_backward_pass(lab: Lab, name: str) -> None:
    """The tensors have names as TensorFlow gives them, and so have the nodes of the backward pass."""
    data = graph_bytes(input_(name, shape=(4,)), typed("Sin", "Sin", name), typed("Mul", "y", name, "Sin"))
    made = lab.same(data, ["y"], [name], {name: numbers(4)})
    assert made.results[0].startswith("gradients/")


def test_the_default_scope_is_made_unique(lab: Lab) -> None:
    m = small()
    m.typed("Sin", "gradients/x", "x")
    made = lab.same(m.bytes(), ["y"], ["x"], FEEDS)
    assert made.claim.scope == "gradients_1" and made.results == ("gradients_1/x",)
    again = lab.same(written(made.graph), ["y"], ["x"], FEEDS)
    assert again.claim.scope == "gradients_2"


def test_a_scope_that_is_given(lab: Lab) -> None:
    for scope in ("back", "a/b", "x/back", "back.2/"):
        made = lab.same(small().bytes(), ["y"], ["x"], FEEDS, scope=scope)
        assert made.claim.scope == scope.strip("/") and made.results == (f"{scope.strip('/')}/x",)
    m = small()
    m.typed("Sin", "deep/down/n", "x")
    for scope in ("x", "split", "deep", "deep/down", "deep/down/n"):
        refused(m.graph(), "name-taken", lab.adding(["y"], ["x"], scope=scope), name=scope)
    refused(m.graph(), "bad-name", lab.adding(["y"], ["x"], scope="a b"), name="a b")


@pytest.mark.parametrize("name", ["Gradients", "GRADIENTS/n"])
def test_a_scope_that_is_there_in_other_letters(lab: Lab, name: str) -> None:
    """TensorFlow takes two scopes for one that differ in their case alone; everything is in one scope all the same."""
    data = graph_bytes(input_(name, shape=(LONG,)), typed("Sin", "a", name), typed("Sin", "b", "a"),
                       typed("Sin", "y", "b"))  # fmt: skip
    feeds = {name: numbers(LONG)}
    made = lab.same(data, ["y"], [name], feeds)
    assert made.results[0].startswith(f"{made.claim.scope}/")
    assert lab.same(data, ["y"], [name], feeds, checkpoints=["b"]).again == ["a"]
    refused(from_bytes(data), "name-taken", lab.adding(["y"], [name], scope="gradients"), name="gradients")


def test_weights(lab: Lab) -> None:
    made = lab.same(small().bytes(), ["y"], [], FEEDS, weights=True)
    assert made.claim.xs == ("w", "b")  # no integers, no scalars, nothing that y does not depend on
    made = lab.same(small().bytes(), ["y"], ["x", "b"], FEEDS, weights=True)
    assert made.claim.xs == ("x", "b", "w")
    made = lab.same(small().bytes(), ["y"], ["x"], FEEDS, weights=True, names=["dx"])
    assert made.results == ("dx", "gradients/w", "gradients/b")


def test_weights_through_which_no_gradient_flows_are_left_out(lab: Lab) -> None:
    m = small()
    m.const("steps", [1.5, 2.5])
    m.typed("Floor", "floor", "steps")
    m.typed("Mul", "y2", "y", "floor")
    assert lab.same(m.bytes(), ["y2"], [], FEEDS, weights=True).claim.xs == ("w", "b")
    refused(m.graph(), "unconnected", lab.adding(["y2"], ["steps"], weights=True), tensors=["steps"])
    assert lab.edit(m, ["y2"], weights=True).result.facts["gradients"]["left_out"] == ["steps"]
    made = lab.same(m.bytes(), ["y2"], [], FEEDS, weights=True, unconnected="zero")
    assert made.claim.xs == ("w", "b", "steps")
    assert not lab.run(made, ["gradients/steps"], FEEDS)[0].any()


def test_what_is_there_besides_weights_is_said(lab: Lab) -> None:
    found = graph(input_("x", shape=(2,)), const("one", [1.5]), const("scalar", 2.0),
                  typed("Mul", "product", "x", "one"), typed("Mul", "y", "product", "scalar"))  # fmt: skip
    others = {"single-element constant": 2}
    refused(found, "no-weights", lab.adding(["y"], weights=True), others=others, in_functions={})


def test_weights_inside_functions_are_counted(lab: Lab) -> None:
    inner = library(function("inner", const("scale", [1.0, 2.0]), typed("Mul", "y", "x", "scale:output:0")))
    m = small()
    m.add("", inner)
    m.node("call", "inner", ["y"])
    made = lab.edit(m, ["call"], weights=True)
    assert made.claim.xs == ("w", "b")
    assert made.result.facts["gradients"]["weights_in_functions"] == {"inner": 1}
    alone = graph(input_("x", shape=(2,)), node("y", "inner", ["x"]), inner)
    refused(alone, "no-weights", lab.adding(["y"], weights=True), others={}, in_functions={"inner": 1})


# -- refusals -----------------------------------------------------------------------------------------------------


def test_all_reasons_at_once(lab: Lab) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, shape=(4,))
        index, batch = tf.zeros([1, 3], tf.int64), tf.zeros([], tf.int64)
        for name in ("lonely", "other"):
            x = tf.raw_ops.Unbatch(batched_tensor=x, batch_index=index, id=batch, timeout_micros=10, name=name)
        a, b = tf.raw_ops.IdentityN(input=[x, x], name="mine")
        tf.multiply(a, b, name="y")
        tf.constant([1, 2], name="numbers")
        tf.argmax(x, name="best")

    graph_def = lab.tf.compat.v1.GraphDef.FromString(lab.built(build))
    (node,) = [node for node in graph_def.node if node.name == "mine"]
    node.attr["_gradient_op_type"].s = b"CustomGradient-42"
    found = from_bytes(graph_def.SerializeToString())
    reasons = [
        not_floating("best", "ys", "int64", "other"),
        not_floating("numbers", "xs", "int32"),
        {"code": "custom-gradient", "node": "mine", "op": "IdentityN", "name": "CustomGradient-42"},
        *({"code": "no-gradient", "node": name, "op": "Unbatch"} for name in ("other", "lonely")),
    ]
    refused(found, "no-gradient", lab.adding(["y", "best"], ["x", "numbers"]), reasons=reasons)


def not_floating(tensor: str, what: str, found: str, near: str | None = None) -> dict[str, Any]:
    return {"code": "not-floating", "tensor": tensor, "name": what, "found": found, "near": near}


def misfit(code: str, tensor: str, found: Any, expected: Any) -> dict[str, Any]:
    return {"code": code, "tensor": tensor, "found": found, "of": "y", "expected": expected}


@pytest.mark.parametrize(
    ("ys", "xs", "grad_ys", "reasons"),
    [
        (["count"], ["x"], [], [not_floating("count", "ys", "int32", "x")]),
        (["text"], ["x"], [], [not_floating("text", "ys", "string")]),
        (["class"], ["x"], [], [not_floating("class", "ys", "int64", "z")]),
        (["y"], ["count"], [], [not_floating("count", "xs", "int32")]),
        (["y"], ["axis"], [], [not_floating("axis", "xs", "int32", "split")]),
        (["floats"], ["whole"], [], [not_floating("whole", "xs", "int32", "floats")]),
        (["text"], ["axis", "handle"], [], [
            not_floating("text", "ys", "string"),
            not_floating("axis", "xs", "int32", "split"),
            not_floating("handle", "xs", "resource"),
        ]),
        (["complex"], ["x"], [], [{"code": "is-complex", "tensor": "complex"}]),
        (["y"], ["x"], ["wide"], [misfit("shape-mismatch", "wide", [2, 3], [2, 2])]),
        (["y"], ["x"], ["whole"], [misfit("dtype-mismatch", "whole", "int32", "float32")]),
        (["y"], ["x"], ["double"], [misfit("dtype-mismatch", "double", "float64", "float32")]),
    ],
)  # fmt: skip
def test_types_and_shapes(
    lab: Lab, ys: list[str], xs: list[str], grad_ys: list[str], reasons: list[dict[str, Any]]
) -> None:
    m = small()
    m.placeholder("text", "string")
    m.node("handle", "VarHandleOp", dtype="float32", shape=(2,), shared_name="", container="")
    m.typed("ArgMax", "class", "z", "axis", Tidx="int32", output_type="int64")
    m.placeholder("complex", "complex64", (2, 2))
    m.placeholder("double", "float64", (2, 2))
    m.placeholder("wide", "float32", (2, 3))
    m.placeholder("whole", "int32", (2, 2))
    m.node("floats", "Cast", ["whole"], SrcT="int32", DstT="float32", Truncate=False)
    refused(m.graph(), "no-gradient", lab.adding(ys, xs, grad_ys=grad_ys), reasons=reasons)


def test_unconnected_sources(lab: Lab) -> None:
    m = small()
    refused(m.graph(), "unconnected", lab.adding(["y"], ["x", "loose", "g"]), tensors=["loose", "g"])
    made = lab.same(m.bytes(), ["y"], ["x", "loose", "g"], GIVEN, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["loose", "g"]
    values = lab.run(made, made.results, GIVEN)
    assert values[1].tolist() == [0.0, 0.0] and not values[2].any()


def missing(name: str, near: str | None = None) -> dict[str, Any]:
    return {"node": name, "near": near}


@pytest.mark.parametrize(
    ("ys", "xs", "options", "code", "facts"),
    [
        (["y", "y:0"], ["x"], {}, "given-twice", {"tensor": "y", "name": "ys"}),
        (["y"], ["x", "w", "x"], {}, "given-twice", {"tensor": "x", "name": "xs"}),
        (["count"], [], {"weights": True}, "no-weights", {"others": {}, "in_functions": {}}),
        (["y"], ["x"], {"names": ["z"]}, "name-taken", {"name": "z", "op": "Sin"}),
        (["y"], ["x"], {"names": ["gradients/grad_ys_0"]}, "name-taken", {"name": "gradients/grad_ys_0"}),
        (["y"], ["x", "w"], {"names": ["a", "a"]}, "given-twice", {"name": "a"}),
        (["y"], ["x"], {"names": ["a b"]}, "bad-name", {"name": "a b"}),
        (["splitt"], ["x"], {}, "no-such-node", missing("splitt", "split")),
        (["y"], ["splitt"], {}, "no-such-node", missing("splitt", "split")),
        (["y"], ["x"], {"grad_ys": ["splitt"]}, "no-such-node", missing("splitt", "split")),
        (["y"], ["x"], {"checkpoints": ["splitt"]}, "no-such-node", missing("splitt", "split")),
        (["y"], ["split:2"], {}, "no-such-tensor", {"tensor": "split:2", "count": 2}),
        (["y", "why"], ["x", "ex", "split:2"], {}, "no-such-tensor", {"errors": [
            {"code": "no-such-node", **missing("why")},
            {"code": "no-such-node", **missing("ex")},
            {"code": "no-such-tensor", "tensor": "split:2", "op": "Split", "count": 2},
        ]}),
        (["y"], ["x"], {"checkpoints": ["sum", "one", "two"]}, "no-such-tensor", {"errors": [
            {"code": "no-such-node", **missing("one")},
            {"code": "no-such-node", **missing("two")},
        ]}),
        ([small().graph()["y"].output], ["x"], {}, "other-graph", {"tensor": "y"}),
        ([], ["x"], {}, "missing-argument", {"name": "ys"}),
        (["y"], [], {}, "missing-argument", {"name": "xs"}),
        (["y"], ["x"], {"checkpoints": []}, "missing-argument", {"name": "checkpoints"}),
        (["y"], ["x"], {"names": ["a", "b"]}, "wrong-count", {"name": "names", "expected": 1, "found": 2}),
        (["y"], ["x", "w"], {"names": ["a"]}, "wrong-count", {"name": "names", "expected": 2, "found": 1}),
        (["y", "z"], ["x"], {"grad_ys": ["g"]}, "wrong-count", {"name": "grad_ys", "expected": 2, "found": 1}),
        (["y"], ["x"], {"unconnected": "none"}, "bad-value", {"name": "unconnected", "value": "none"}),
        (["y"], ["x"], {"budget": 0}, "bad-value", {"name": "budget", "value": "0.0"}),
        (["y"], ["x"], {"budget": -1.0}, "bad-value", {"name": "budget", "value": "-1.0"}),
        (["y"], ["x"], {"budget": float("nan")}, "bad-value", {"name": "budget", "value": "nan"}),
        (["y"], ["x"], {"budget": 1.0, "checkpoints": "speed"}, "conflicting-options", {}),
        (["y"], ["x"], {"checkpoints": "memory", "shapes": {"sum": (1,)}}, "no-such-input", missing("sum")),
    ],
)  # fmt: skip
def test_refusals(
    lab: Lab, ys: list[Any], xs: list[str], options: dict[str, Any], code: str, facts: dict[str, Any]
) -> None:
    makes_no_sense = code in USAGE or "shapes" in options
    kind = UsageError if makes_no_sense else EditError
    error = refused(small().graph(), code, lab.adding(ys, xs, **options), error=kind, **facts)
    assert makes_no_sense or bool(error.hint) == ("checkpoints" in options)


USAGE = ("missing-argument", "wrong-count", "bad-value", "conflicting-options")


def test_what_loading_would_evaluate_is_not_loaded_for_gradients(tmp_path: Path) -> None:
    found = from_bytes(read_for_a_shape(tmp_path).removesuffix(VERSIONS) + identity_record("z", "y") + VERSIONS)
    facts = {"error": NotValidatedError, "node": "r", "op": "ReadFile"}
    error = refused(found, "reaches-outside", lambda g: add_gradients(g, ["z"], ["y"]), **facts)
    assert error.advice == ("allow-ops",)
