"""add-gradients: checkpoints change memory and no bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.adding_gradients import (
    LONG,
    Lab,
    chain,
    dropping,
    equal,
    numbers,
    placeholder,
    residual,
    skipping,
    stateless,
)
from support.desk import check_error
from support.expecting import refused
from support.graphs import VERSIONS, call, define, graph_bytes, library, names, node, parsed, unary
from support.graphs import placeholder as input_

from gdsurgeon.errors import EditError
from gdsurgeon.graph.load import from_bytes

pytestmark = pytest.mark.tensorflow


CHAINS = [chain, residual, skipping, dropping, stateless]


@pytest.mark.parametrize("build", CHAINS)
def test_checkpoints_change_no_bit(lab: Lab, build: Callable[[Any], None]) -> None:
    data = lab.built(build)
    feeds = {"x": numbers(LONG)}
    before = parsed(data)
    constants = [node.name for node in before.node if node.op == "Const"]
    for checkpoints in ("speed", "memory", ["h2"], ["h0", "h3"], ["h1", "h2", "h3"], ["h3"]):
        made = lab.same(data, ["y"], ["x", "h1"], feeds, checkpoints=checkpoints)
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
    feeds = {"x": numbers(LONG)}
    made = lab.same(data, ["y"], ["x"], feeds, checkpoints="collection")
    plan = made.result.facts["gradients"]["plan"]
    assert plan["segments"] == 3
    assert {"h2", "h5"} <= {item["tensor"] for item in plan["kept"]}
    assert "h2" not in made.again and "h5" not in made.again and "h1" in made.again
    listed = lab.same(data, ["y"], ["x"], feeds, checkpoints=["h5", "h2"])
    assert listed.again == made.again
    assert [n for n in parsed(made.graph).node if "_checkpoint" in n.attr and n.name.startswith("gradients/")] == []


def test_a_collection_without_marks(lab: Lab) -> None:
    edit = lab.adding(["y"], ["x"], checkpoints="collection")
    assert refused(from_bytes(lab.built(chain)), "nothing-marked", edit, attr="_checkpoint").hint


@pytest.mark.parametrize("name", ["x", "w1"])
def test_useless_checkpoints(lab: Lab, name: str) -> None:
    refused(from_bytes(lab.built(chain)), "no-use", lab.adding(["y"], ["x"], checkpoints=[name]), tensors=[name])


def test_budgets(lab: Lab) -> None:
    data = lab.built(chain)
    feeds = {"x": numbers(LONG)}
    plain = lab.same(data, ["y"], ["x"], feeds, budget=100.0)
    assert plain.again == []
    most, least = plain.peak, lab.edit(data, ["y"], ["x"], checkpoints="memory").peak
    assert least < most
    for budget in (least, (least + most) // 2, most - 1):
        made = lab.same(data, ["y"], ["x"], feeds, budget=budget / (1 << 20))
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
    noisy = define(
        "noisy",
        {"a": "float32"},
        {"out": ("float32", "sum:z:0")},
        node("shape", "Shape", ["a"], T="float32", out_type="int32"),
        node("random", "RandomUniform", ["shape:output:0"], dtype="float32", T="int32", seed=3, seed2=4),
        node("sum", "Mul", ["a", "random:output:0"], T="float32"),
    )
    m = graph_bytes(
        input_("x", shape=(LONG,)),
        unary("Sin", "a", "x"),
        call("call", "noisy", ["a"], ["float32"], ["float32"]),
        unary("Sin", "b", "call"),
        unary("Sin", "c", "b"),
        unary("Sin", "y", "c"),
        trailer=library(noisy) + VERSIONS,
    )
    feeds = {"x": numbers(LONG)}
    made = lab.edit(m, ["y"], ["x"], checkpoints=["c"])
    assert "call" not in made.again
    plain = lab.edit(m, ["y"], ["x"])
    equal(lab.run(made, made.results, feeds), lab.run(plain, plain.results, feeds))


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
    made = lab.same(data, ["y"], ["x"], {"x": numbers(LONG)}, init=["init"], checkpoints=["h1"])
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
    feeds = {"x": numbers(LONG)}
    random = np.random.RandomState(seed)
    count = sum(name.startswith("h") and name[1:].isdigit() for name in names(data))
    for checkpoints in ("memory", [f"h{i}" for i in sorted(random.choice(count - 1, 2, replace=False))]):
        try:
            lab.same(data, ["y"], ["x"], feeds, checkpoints=checkpoints, unconnected="zero")
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
    made = lab.same(data, ["y"], ["x"], {"x": numbers(LONG)}, checkpoints="memory")
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
