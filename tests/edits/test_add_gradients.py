"""add-gradients: the gradients are TensorFlow's, bit for bit, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.graphs import bodies_by_name, names, parsed, written
from support.tf_graphs import Builder, Shape, body_node, function_attr, loop, operated, tensor

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.edits.claims import EditResult, Gradients
from gdsurgeon.errors import EditError, GdsurgeonError, NotValidatedError, UsageError
from gdsurgeon.feeds.overrides import Overrides
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.audit import audit
from gdsurgeon.proof.change import edited
from gdsurgeon.runtime.differentiation.differentiator import Differentiator

pytestmark = pytest.mark.tensorflow

LONG = 3000
"""Elements of a tensor that is worth asking about: smaller ones are kept in any case."""

Array = Any


@pytest.fixture(scope="module")
def tf() -> Any:
    """TensorFlow, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "-1")
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def differentiator() -> Iterator[Differentiator]:
    with Differentiator(timeout=60) as started:
        yield started


class Edited(NamedTuple):
    """A graph after the edit."""

    graph: Graph
    result: EditResult

    @property
    def claim(self) -> Gradients:
        (found,) = self.result.claims
        assert isinstance(found, Gradients)
        return found

    @property
    def results(self) -> tuple[str, ...]:
        return self.claim.names

    @property
    def again(self) -> list[str]:
        """The nodes that are computed again, by the names of their originals."""
        plan = self.result.facts["gradients"]["plan"]
        found: list[str] = plan["recomputed"]
        return found

    @property
    def peak(self) -> int:
        """The bytes of the plan, as predicted."""
        found: int = self.result.facts["gradients"]["plan"]["predicted_peak_bytes"]
        return found


class Desk:
    """Edits graphs and runs them."""

    def __init__(self, tf: Any, differentiator: Differentiator) -> None:
        self.tf = tf
        self.differentiator = differentiator

    def built(self, build: Callable[[Any], Any]) -> bytes:
        """The bytes of the graph that BUILD makes."""
        with self.tf.Graph().as_default() as graph:
            build(self.tf)
        return bytes(graph.as_graph_def().SerializeToString())

    def version_1(self, build: Callable[[], Any]) -> Any:
        """What BUILD makes with control flow of version 1, and variables that are references."""
        v1 = self.tf.compat.v1
        v1.disable_control_flow_v2()
        v1.disable_resource_variables()
        try:
            return build()
        finally:
            v1.enable_control_flow_v2()
            v1.enable_resource_variables()

    def edit(self, what: bytes | Builder, ys: Sequence[str], xs: Sequence[str] = (), **options: Any) -> Edited:
        """Adds the gradients, and looks whether anything else has changed, or is not told."""
        data = what.bytes() if isinstance(what, Builder) else what
        graph = from_bytes(data, "model.pb")
        result = add_gradients(graph, ys, xs, differentiator=self.differentiator, **options)
        made = Edited(graph, result)
        change = edited(graph, result)
        assert audit(change.before, change.after, change.result) == []
        assert check(from_bytes(written(graph))).faults == []
        before, after = bodies_by_name(data), bodies_by_name(graph)
        assert list(after)[: len(before)] == list(before)  # what is new stands behind
        journal = result.journal
        assert {name for name in before if after[name] != before[name]} == set(journal.changed)
        assert set(after) - set(before) == set(journal.added)
        results = set(made.results)
        assert [n for n in journal.added if n not in results and not n.startswith(f"{made.claim.scope}/")] == []
        return made

    def run(
        self, what: Graph | bytes | Edited, fetches: Sequence[str], feeds: dict[str, Array], init: Sequence[str] = ()
    ) -> list[Any]:
        """The values of FETCHES, without any optimisation."""
        if isinstance(what, Edited):
            what = what.graph
        v1 = self.tf.compat.v1
        with self.tf.Graph().as_default() as graph:
            v1.import_graph_def(v1.GraphDef.FromString(written(what)), name="")
            return self._run(graph, [full(name) for name in fetches], feeds, init)

    def _run(self, graph: Any, fetches: Any, feeds: dict[str, Array], init: Sequence[str]) -> list[Any]:
        v1 = self.tf.compat.v1
        config = v1.ConfigProto(intra_op_parallelism_threads=1)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        with v1.Session(graph=graph, config=config) as session:
            session.run([graph.get_operation_by_name(name) for name in init])
            found: list[Any] = session.run(fetches, {full(name): value for name, value in feeds.items()})
            return found

    def reference(
        self,
        what: bytes,
        ys: Sequence[str],
        xs: Sequence[str],
        feeds: dict[str, Array],
        grad_ys: Sequence[str] = (),
        init: Sequence[str] = (),
    ) -> list[Any]:
        """What tf.gradients gives on the graph as it is, zeros where it gives None."""
        v1 = self.tf.compat.v1
        with self.tf.Graph().as_default() as graph:
            v1.import_graph_def(v1.GraphDef.FromString(what), name="")
            targets, sources, given = ([graph.get_tensor_by_name(full(n)) for n in part] for part in (ys, xs, grad_ys))
            found = v1.gradients(targets, sources, given or None)
            dense = [
                self.tf.zeros_like(x) if gradient is None else self.tf.convert_to_tensor(gradient)
                for x, gradient in zip(sources, found, strict=True)
            ]
            return self._run(graph, dense, feeds, init)

    def same(
        self,
        what: bytes,
        ys: Sequence[str],
        xs: Sequence[str],
        feeds: dict[str, Array],
        *,
        grad_ys: Sequence[str] = (),
        init: Sequence[str] = (),
        **options: Any,
    ) -> Edited:
        """Adds the gradients; their values are the bits of tf.gradients."""
        made = self.edit(what, ys, xs, grad_ys=grad_ys, **options)
        got = self.run(made, made.results, feeds, init)
        wanted = self.reference(what, ys, made.claim.xs, feeds, grad_ys, init)
        equal(got, wanted)
        return made

    def refused(
        self,
        what: bytes | Builder,
        ys: Sequence[str],
        xs: Sequence[str] = (),
        kind: type[GdsurgeonError] = EditError,
        **options: Any,
    ) -> GdsurgeonError:
        """The error, with which the graph is as it was."""
        graph = from_bytes(what.bytes() if isinstance(what, Builder) else what, "model.pb")
        before = written(graph)
        with pytest.raises(kind) as caught:
            add_gradients(graph, ys, xs, differentiator=self.differentiator, **options)
        assert written(graph) == before and not graph.is_changed
        return caught.value


@pytest.fixture(scope="module")
def desk(tf: Any, differentiator: Differentiator) -> Desk:
    return Desk(tf, differentiator)


def full(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def equal(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def placeholder(tf: Any, name: str = "x", shape: Sequence[int | None] | None = (LONG,), dtype: str = "float32") -> Any:
    return tf.compat.v1.placeholder(dtype, shape, name)


def reasons(error: GdsurgeonError) -> str:
    """All that an error says."""
    return "\n".join([error.message, *error.details, error.hint or ""])


# -- graphs -------------------------------------------------------------------------------------------------------


def small() -> Builder:
    """y = x w + b, z = sin(y), with a split and an integer."""
    m = Builder()
    m.placeholder("x", shape=(2, 3))
    m.const("w", np.arange(12).reshape(3, 4) / 7.0)
    m.const("b", [0.5, -1.0, 2.0, 0.25])
    m.node("product", "MatMul", ["x", "w"], T="float32", transpose_a=False, transpose_b=False)
    m.node("sum", "AddV2", ["product", "b"], T="float32")
    m.const("axis", 1, "int32")
    m.node("split", "Split", ["axis", "sum"], T="float32", num_split=2)
    m.node("y", "Mul", ["split", "split:1"], T="float32")
    m.node("z", "Sin", ["sum"], T="float32")
    m.node("count", "Size", ["x"], T="float32", out_type="int32")
    m.const("loose", [1.0, 2.0])
    m.placeholder("g", shape=(2, 2))
    return m


FEEDS = {"x": numbers(2, 3)}
GIVEN = FEEDS | {"g": numbers(2, 2, seed=1)}


# -- results ------------------------------------------------------------------------------------------------------


def test_of_an_input(desk: Desk) -> None:
    made = desk.same(small().bytes(), ["y"], ["x"], FEEDS)
    assert made.results == ("gradients/x",)
    assert made.claim.scope == "gradients"
    assert made.claim.ys == ("y",) and made.claim.xs == ("x",) and made.claim.grad_ys == ()
    assert made.result.journal.changed == [] and made.result.journal.removed == []
    facts = made.result.facts["gradients"]
    assert facts["results"] == {"x": "gradients/x"} and facts["by"] == "reverse walk" and facts["unconnected"] == []


def test_of_inputs_activations_and_constants_above_each_other(desk: Desk) -> None:
    xs = ["split:1", "x", "w", "sum", "b", "product", "y", "split"]
    made = desk.same(small().bytes(), ["y"], xs, FEEDS)
    assert made.results == tuple(f"gradients/{x.replace(':', '_')}" for x in xs)
    desk.same(small().bytes(), ["z", "y"], ["sum", "x"], FEEDS)


def test_outputs_of_the_graph_are_what_they_were(desk: Desk) -> None:
    data = small().bytes()
    made = desk.edit(data, ["y", "z"], ["x", "w"])
    equal(desk.run(made, ["y", "z", "count"], FEEDS), desk.run(data, ["y", "z", "count"], FEEDS))


def test_given_gradients(desk: Desk) -> None:
    made = desk.same(small().bytes(), ["y"], ["x", "w"], GIVEN, grad_ys=["g"])
    assert made.claim.grad_ys == ("g",)
    desk.same(small().bytes(), ["y", "split:1"], ["x"], GIVEN, grad_ys=["g", "split"])


def test_names(desk: Desk) -> None:
    made = desk.same(small().bytes(), ["y"], ["x", "split:1"], FEEDS, names=["saliency", "a/b"])
    assert made.results == ("saliency", "a/b")
    assert {"saliency", "a/b"} <= set(names(made.graph))
    assert made.graph["saliency"].op == "Identity"


def test_default_names_do_not_meet(desk: Desk) -> None:
    m = Builder()
    m.placeholder("a", shape=(4,))
    m.const("axis", 0, "int32")
    m.node("s", "Split", ["axis", "a"], T="float32", num_split=2)
    m.node("s_1", "Sin", ["s:1"], T="float32")
    m.node("y", "Mul", ["s_1", "s"], T="float32")
    made = desk.same(m.bytes(), ["y"], ["s:1", "s_1", "s"], {"a": numbers(4)})
    assert len(set(made.results)) == 3
    assert made.results[0] == "gradients/s_1" and made.results[2] == "gradients/s"


@pytest.mark.parametrize("name", ["AddN", "Shape", "grad_ys_0", "grad_ys_0/Const", "Sin_grad/Cos"])
def test_default_names_do_not_meet_those_of_the_backward_pass(desk: Desk, name: str) -> None:
    """The tensors have names as TensorFlow gives them, and so have the nodes of the backward pass."""
    m = Builder()
    m.placeholder(name, shape=(4,))
    m.node("Sin", "Sin", [name], T="float32")
    m.node("y", "Mul", [name, "Sin"], T="float32")
    made = desk.same(m.bytes(), ["y"], [name], {name: numbers(4)})
    assert made.results[0].startswith("gradients/")


def test_the_default_scope_is_made_unique(desk: Desk) -> None:
    m = small()
    m.node("gradients/x", "Sin", ["x"], T="float32")
    made = desk.same(m.bytes(), ["y"], ["x"], FEEDS)
    assert made.claim.scope == "gradients_1" and made.results == ("gradients_1/x",)
    again = desk.same(written(made.graph), ["y"], ["x"], FEEDS)
    assert again.claim.scope == "gradients_2"


def test_a_gradient_of_a_gradient(desk: Desk) -> None:
    once = desk.edit(small().bytes(), ["z"], ["x"])
    desk.same(written(once.graph), ["gradients/x"], ["x", "w"], FEEDS)


def test_a_scope_that_is_given(desk: Desk) -> None:
    for scope in ("back", "a/b", "x/back", "back.2/"):
        made = desk.same(small().bytes(), ["y"], ["x"], FEEDS, scope=scope)
        assert made.claim.scope == scope.strip("/") and made.results == (f"{scope.strip('/')}/x",)
    for scope in ("x", "split"):
        assert "in use" in desk.refused(small(), ["y"], ["x"], scope=scope).message
    m = small()
    m.node("deep/down/n", "Sin", ["x"], T="float32")
    for scope in ("deep", "deep/down", "deep/down/n"):
        assert "in use" in desk.refused(m, ["y"], ["x"], scope=scope).message
    assert "legal" in desk.refused(small(), ["y"], ["x"], scope="a b").message


@pytest.mark.parametrize("name", ["Gradients", "GRADIENTS/n"])
def test_a_scope_that_is_there_in_other_letters(desk: Desk, name: str) -> None:
    """TensorFlow takes two scopes for one that differ in their case alone; everything is in one scope all the same."""
    m = Builder()
    m.placeholder(name, shape=(LONG,))
    m.node("a", "Sin", [name], T="float32")
    m.node("b", "Sin", ["a"], T="float32")
    m.node("y", "Sin", ["b"], T="float32")
    feeds = {name: numbers(LONG)}
    made = desk.same(m.bytes(), ["y"], [name], feeds)
    assert made.results[0].startswith(f"{made.claim.scope}/")
    assert desk.same(m.bytes(), ["y"], [name], feeds, checkpoints=["b"]).again == ["a"]
    assert "in use" in desk.refused(m, ["y"], [name], scope="gradients").message


def test_weights(desk: Desk) -> None:
    made = desk.same(small().bytes(), ["y"], [], FEEDS, weights=True)
    assert made.claim.xs == ("w", "b")  # no integers, no scalars, nothing that y does not depend on
    made = desk.same(small().bytes(), ["y"], ["x", "b"], FEEDS, weights=True)
    assert made.claim.xs == ("x", "b", "w")
    made = desk.same(small().bytes(), ["y"], ["x"], FEEDS, weights=True, names=["dx"])
    assert made.results == ("dx", "gradients/w", "gradients/b")


def test_weights_through_which_no_gradient_flows_are_left_out(desk: Desk) -> None:
    m = small()
    m.const("steps", [1.5, 2.5])
    m.node("floor", "Floor", ["steps"], T="float32")
    m.node("y2", "Mul", ["y", "floor"], T="float32")
    assert desk.same(m.bytes(), ["y2"], [], FEEDS, weights=True).claim.xs == ("w", "b")
    assert "depend on 'steps'" in desk.refused(m, ["y2"], ["steps"], weights=True).message
    made = desk.edit(m, ["y2"], weights=True)
    assert made.result.facts["gradients"]["left_out"] == ["steps"]
    assert ("left out", "1 weight without a gradient: steps") in made.result.told
    made = desk.same(m.bytes(), ["y2"], [], FEEDS, weights=True, unconnected="zero")
    assert made.claim.xs == ("w", "b", "steps")
    assert not desk.run(made, ["gradients/steps"], FEEDS)[0].any()


def test_what_is_there_besides_weights_is_said(desk: Desk) -> None:
    m = Builder()
    m.placeholder("x", shape=(2,))
    m.const("one", [1.5])
    m.const("scalar", 2.0)
    m.node("product", "Mul", ["x", "one"], T="float32")
    m.node("y", "Mul", ["product", "scalar"], T="float32")
    error = desk.refused(m, ["y"], weights=True)
    assert "2 single-element constants" in error.message and error.hint is not None and "--xs" in error.hint


def test_weights_inside_functions_are_counted(desk: Desk) -> None:
    m = small()
    inner = m.function("inner", {"a": "float32"}, {"r": "float32"})
    body_node(inner, "scale", "Const", value=tensor([1.0, 2.0], "float32"), dtype="float32")
    body_node(inner, "scaled", "Mul", ["a", "scale:output:0"], T="float32")
    inner.ret["r"] = "scaled:z:0"
    m.node("call", "inner", ["y"])
    made = desk.edit(m, ["call"], weights=True)
    assert made.claim.xs == ("w", "b")
    assert made.result.facts["gradients"]["weights_in_functions"] == {"inner": 1}
    assert any("1 weight inside functions" in text and "inner" in text for _, text in made.result.told)
    alone = Builder()
    alone.placeholder("x", shape=(2,))
    alone.graph_def.library.CopyFrom(m.graph_def.library)
    alone.node("y", "inner", ["x"])
    error = desk.refused(alone, ["y"], weights=True)
    assert "1 weight inside functions" in error.message and error.hint is not None and "inline" in error.hint


def test_large_weights(desk: Desk) -> None:
    """Their values are not sent along; the gradients are none the worse for that."""

    def build(tf: Any) -> None:
        x = placeholder(tf, shape=(4, 40))
        w = tf.constant(numbers(40, 50, seed=1), name="w")
        h = tf.matmul(x, w)
        h = tf.pow(tf.abs(h) + 1.0, tf.constant(numbers(4, 50, seed=3), name="power"))
        table = tf.gather(tf.constant(numbers(2000, 50, seed=2), name="table"), [1, 7, 7, 1999])
        tf.identity(tf.nn.softmax(h * table) * table, name="y")

    made = desk.same(desk.built(build), ["y"], ["x"], {"x": numbers(4, 40)}, weights=True)
    assert made.claim.xs == ("x", "w", "power", "table")


def test_the_bytes_of_an_edit_do_not_depend_on_what_was_asked_before(desk: Desk) -> None:
    one, two = (written(desk.edit(small().bytes(), ["y"], ["x"], weights=True).graph) for _ in range(2))
    assert one == two


def test_nodes_in_any_order(desk: Desk) -> None:
    m = small()
    nodes = list(reversed(m.graph_def.node))
    del m.graph_def.node[:]
    m.graph_def.node.extend(nodes)
    desk.same(m.bytes(), ["y"], ["x", "w"], FEEDS)


def test_devices_and_colocations(desk: Desk) -> None:
    m = small()
    for node in m.graph_def.node:
        node.device = "/device:CPU:0" if node.name in ("product", "x") else ""
        if node.name == "sum":
            node.attr["_class"].list.s.append(b"loc:@w")
    made = desk.same(m.bytes(), ["y"], ["x", "w"], FEEDS)
    assert not [n.name for n in parsed(made.graph).node if n.name in made.result.journal.added and "_class" in n.attr]


def test_outputs_may_be_given_as_outputs(desk: Desk) -> None:
    graph = small().graph()
    result = add_gradients(graph, [graph["y"].output], [graph.output("split:1")], differentiator=desk.differentiator)
    assert Edited(graph, result).claim.xs == ("split:1",)


# -- values -------------------------------------------------------------------------------------------------------


def mlp(tf: Any) -> None:
    h = placeholder(tf, shape=(None, 7))
    for i in range(4):
        w, b = tf.constant(numbers(7, 7, seed=i) / 2), tf.constant(numbers(7, seed=9 + i))
        h = tf.nn.relu(tf.matmul(h, w) + b) + h
    tf.reduce_mean(tf.nn.log_softmax(h)[:, 2], name="y")


def convolutions(tf: Any) -> None:
    h = placeholder(tf, shape=(2, 8, 8, 3))
    for i, depth in enumerate((3, 4)):
        h = tf.nn.conv2d(h, tf.constant(numbers(3, 3, depth, 4, seed=i)), 1, "SAME")
        statistics = [tf.constant(np.abs(numbers(4, seed=10 * k + i)) + 0.1) for k in range(4)]
        h = tf.raw_ops.FusedBatchNormV3(
            x=h,
            scale=statistics[0],
            offset=statistics[1],
            mean=statistics[2],
            variance=statistics[3],
            is_training=False,
        ).y
        h = tf.nn.max_pool2d(tf.nn.relu6(h), 2, 2, "SAME")
    tf.reduce_sum(h, axis=[1, 2], name="y")


def attention(tf: Any) -> None:
    x = placeholder(tf, shape=(5, 6))
    table = tf.constant(numbers(11, 6, seed=1))
    h = x + tf.gather(table, [3, 1, 3, 10, 0]) + tf.gather(table, [0, 0, 1, 2, 3])
    q, k, v = tf.split(tf.matmul(h, tf.constant(numbers(6, 18, seed=2))), 3, axis=1)
    h = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v) + h
    tf.nn.softmax_cross_entropy_with_logits(labels=tf.eye(5, 6), logits=h * tf.math.rsqrt(1.0 + h * h), name="y")


@pytest.mark.parametrize(
    ("build", "feeds"),
    [(mlp, numbers(3, 7)), (convolutions, numbers(2, 8, 8, 3)), (attention, numbers(5, 6))],
    ids=["mlp", "convolutions", "attention"],
)
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory"])
def test_networks(desk: Desk, build: Callable[[Any], None], feeds: Array, checkpoints: str) -> None:
    data = desk.built(build)
    desk.same(data, [names(data)[-1]], ["x"], {"x": feeds}, weights=True, checkpoints=checkpoints)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes(desk: Desk, dtype: str) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, dtype=dtype)
        tf.nn.softmax(tf.tanh(x) * x + x * x, name="y")
        tf.identity(placeholder(tf, "z", dtype=dtype), name="z2")

    made = desk.same(desk.built(build), ["y"], ["x", "z"], {"x": numbers(LONG), "z": numbers(LONG)}, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["z"]


def test_y_is_x(desk: Desk) -> None:
    m = small()
    made = desk.same(m.bytes(), ["x"], ["x"], FEEDS)
    assert (desk.run(made, made.results, FEEDS)[0] == 1).all()
    desk.same(m.bytes(), ["sum", "y"], ["sum", "x"], FEEDS)


def test_calls(desk: Desk) -> None:
    """A call without a gradient of its own: TensorFlow's own gradients, and that is told."""

    def build(tf: Any) -> None:
        twice = tf.function(lambda a: tf.sin(tf.cos(a)) * a, autograph=False)
        x = placeholder(tf)
        tf.identity(twice(x) + twice(twice(x)), name="y")

    data = desk.built(build)
    made = desk.same(data, ["y"], ["x"], {"x": numbers(LONG)})
    assert made.result.facts["gradients"]["by"] == "tf.gradients"
    assert [verb for verb, _ in made.result.told] == ["gradient", "made"]
    error = desk.refused(written(made.graph), ["y", "gradients/x"], ["x"])  # what TensorFlow has made for the calls
    assert len(error.details) == 3 and all("SymbolicGradient has no gradient" in line for line in error.details)


def version_2_flow(tf: Any) -> None:
    x, p = placeholder(tf), placeholder(tf, "p", (), "bool")
    h = tf.cond(p, lambda: tf.sin(tf.sin(x)) * x, lambda: tf.cos(x))
    h = tf.tanh(h, name="h")
    h = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s) * x), [0, h])[1]
    tf.identity(tf.tanh(tf.sin(h)), name="y")


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "memory", ["h"]], ids=str)
def test_loops_and_conditions_of_version_2(desk: Desk, taken: bool, checkpoints: Any) -> None:
    data = desk.built(version_2_flow)
    made = desk.same(data, ["y"], ["x", "h"], {"x": numbers(LONG), "p": taken}, checkpoints=checkpoints)
    flow = {"While", "StatelessWhile", "If", "StatelessIf"}
    assert {made.graph[name].op for name in made.result.journal.changed} <= flow
    if checkpoints != "none":
        assert not {made.graph[name].op for name in made.again} & flow
        wanted = desk.run(data, ["y"], {"x": numbers(LONG), "p": taken})
        equal(desk.run(made, ["y"], {"x": numbers(LONG), "p": taken}), wanted)


def test_loops_whose_functions_are_numbered_high(desk: Desk) -> None:
    """The functions that TensorFlow makes do not take the names of those that are there."""
    data = desk.built(version_2_flow)
    once = desk.edit(data, ["y"], ["x"])
    twice = desk.edit(written(once.graph), ["y"], ["h"])
    functions = [function.signature.name for function in parsed(twice.graph).library.function]
    assert len(functions) == len(set(functions))
    desk.same(written(once.graph), ["gradients/x"], ["x"], {"x": numbers(LONG), "p": True})


def test_variables_that_are_references(desk: Desk) -> None:
    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = desk.version_1(lambda: v1.get_variable("v", initializer=tf.constant(numbers(LONG, seed=3))))
        h = tf.sin(placeholder(tf) * v, name="h")
        tf.tanh(tf.sin(h) * v, name="y")
        v1.global_variables_initializer()

    data = desk.built(build)
    for checkpoints in ("none", "memory", ["h"]):
        desk.same(data, ["y"], ["v", "x"], {"x": numbers(LONG)}, init=["init"], checkpoints=checkpoints)


# -- control flow of version 1 ------------------------------------------------------------------------------------


def test_a_loop_on_the_way_is_named(desk: Desk) -> None:
    m = Builder()
    m.placeholder("x", shape=(3,))
    m.node("a", "Sin", ["x"], T="float32")
    m.node("y", "Sin", [loop(m, "inner", "a")], T="float32")
    error = desk.refused(m, ["y"], ["x"])
    assert "'inner/frame'" in reasons(error) and "loop" in reasons(error)
    m.node("z", "Mul", [loop(m, "other", "a"), "y"], T="float32")
    error = desk.refused(m, ["z"], ["x"])
    assert "'inner/frame'" in reasons(error) and "'other/frame'" in reasons(error) and len(error.details) == 2


@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["a"], ["b"]], ids=str)
def test_loops_beside_the_way_do_not_matter(desk: Desk, checkpoints: Any) -> None:
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.placeholder("z", shape=(LONG,))
    for name, source in (("above", "x"), ("beside", "z")):
        m.node(f"{name}_known", "EnsureShape", [loop(m, name, source)], T="float32", shape=Shape((LONG,)))
    m.node("source", "Sin", ["above_known"], T="float32")
    m.node("a", "Sin", ["source"], T="float32")
    m.node("b", "Mul", ["a", "beside_known"], T="float32")
    m.node("c", "Sin", ["b"], T="float32")
    m.node("y", "Tanh", ["c"], T="float32")
    loop(m, "behind", "y")
    feeds = {"x": numbers(LONG), "z": numbers(LONG, seed=1)}
    made = desk.same(m.bytes(), ["y"], ["source"], feeds, checkpoints=checkpoints)
    if checkpoints == ["b"]:
        assert "source" in made.again
    if checkpoints != "none":
        assert not [name for name in made.again if name.startswith(("above/", "beside/"))]


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("checkpoints", ["none", "speed", "memory", ["h1"], ["h0", "h2"]], ids=str)
def test_conditions(desk: Desk, taken: bool, checkpoints: Any) -> None:
    """On the way, with an early tensor read in one branch, and beside it."""

    def build(tf: Any) -> None:
        x, z, p = placeholder(tf), placeholder(tf, "z"), placeholder(tf, "p", (), "bool")

        def cond(yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
            return desk.version_1(lambda: tf.compat.v1.cond(p, yes, no))

        beside = cond(lambda: tf.sin(z), lambda: tf.ones([LONG]))
        early = tf.tanh(x, name="h0")
        h = tf.tanh(tf.sin(early) * beside, name="h1")
        h = cond(lambda: tf.sin(h) * early, lambda: tf.cos(tf.sin(h)))
        h = tf.tanh(tf.sin(h), name="h2")
        tf.identity(tf.tanh(h * beside), name="y")

    feeds = {"x": numbers(LONG), "p": taken, "z": numbers(LONG, seed=2)}
    desk.same(desk.built(build), ["y"], ["x"], feeds, checkpoints=checkpoints)


# -- refusals -----------------------------------------------------------------------------------------------------


def test_all_reasons_at_once(desk: Desk) -> None:
    def build(tf: Any) -> None:
        x = placeholder(tf, shape=(4,))
        index, batch = tf.zeros([1, 3], tf.int64), tf.zeros([], tf.int64)
        for name in ("lonely", "other"):
            x = tf.raw_ops.Unbatch(batched_tensor=x, batch_index=index, id=batch, timeout_micros=10, name=name)
        a, b = tf.raw_ops.IdentityN(input=[x, x], name="mine")
        tf.multiply(a, b, name="y")
        tf.constant([1, 2], name="numbers")
        tf.argmax(x, name="best")

    graph_def = desk.tf.compat.v1.GraphDef.FromString(desk.built(build))
    (node,) = [node for node in graph_def.node if node.name == "mine"]
    node.attr["_gradient_op_type"].s = b"CustomGradient-42"
    error = desk.refused(graph_def.SerializeToString(), ["y", "best"], ["x", "numbers"])
    assert len(error.details) == 5
    for word in ("'lonely': Unbatch", "'other': Unbatch", "CustomGradient-42", "'mine'", "'numbers'", "'best'"):
        assert word in reasons(error)


def test_types(desk: Desk) -> None:
    m = small()
    m.placeholder("text", "string")
    m.node("handle", "VarHandleOp", dtype="float32", shape=Shape((2,)), shared_name=b"", container=b"")
    m.node("as_text", "AsString", ["x"], T="float32")
    m.placeholder("complex", "complex64", (2, 2))
    for y, word in (("count", "int32"), ("text", "string"), ("as_text", "string"), ("handle", "resource")):
        error = desk.refused(m, [y], ["x"])
        assert f"'{y}' of the ys is {word}" in reasons(error), y
    for x, word in (("count", "int32"), ("text", "string"), ("handle", "resource"), ("axis", "int32")):
        assert f"'{x}' of the xs is {word}" in reasons(desk.refused(m, ["y"], [x]))
    error = desk.refused(m, ["text"], ["axis", "handle"])
    assert len(error.details) == 3
    assert "complex" in desk.refused(m, ["complex"], ["x"]).message


def test_types_of_given_gradients(desk: Desk) -> None:
    m = small()
    m.placeholder("whole", "int32", (2, 2))
    m.placeholder("double", "float64", (2, 2))
    m.placeholder("wide", "float32", (2, 3))
    assert "[2,3]" in reasons(desk.refused(m, ["y"], ["x"], grad_ys=["wide"]))
    for name, word in (("whole", "int32"), ("double", "double")):
        error = desk.refused(m, ["y"], ["x"], grad_ys=[name])
        assert f"'{name}' is" in reasons(error) and "'y'" in reasons(error), word


def test_unconnected_sources(desk: Desk) -> None:
    m = small()
    error = desk.refused(m, ["y"], ["x", "loose", "g"])
    assert "'loose'" in error.message and "'g'" in error.message and "'x'" not in error.message
    assert error.hint is not None and "unconnected" in error.hint
    made = desk.same(m.bytes(), ["y"], ["x", "loose", "g"], GIVEN, unconnected="zero")
    assert made.result.facts["gradients"]["unconnected"] == ["loose", "g"]
    values = desk.run(made, made.results, GIVEN)
    assert values[1].tolist() == [0.0, 0.0] and not values[2].any()
    assert "unconnected" in desk.refused(m, ["y"], ["x"], UsageError, unconnected="none").message


def test_requests_that_do_not_fit(desk: Desk) -> None:
    m = small()
    assert "'y' is given twice" in desk.refused(m, ["y", "y:0"], ["x"]).message
    assert "'x' is given twice" in desk.refused(m, ["y"], ["x", "w", "x"]).message
    assert "ys" in desk.refused(m, [], ["x"], UsageError).message
    assert "with respect to what" in desk.refused(m, ["y"], [], UsageError).message
    assert "'count' does not depend on any weight" in desk.refused(m, ["count"], [], weights=True).message
    assert "2 names for 1 xs" in desk.refused(m, ["y"], ["x"], UsageError, names=["a", "b"]).message
    assert "1 names for 2 xs" in desk.refused(m, ["y"], ["x", "w"], UsageError, names=["a"]).message
    assert "1 grad_ys for 2 ys" in desk.refused(m, ["y", "z"], ["x"], UsageError, grad_ys=["g"]).message
    assert "'z' is taken by a Sin" in desk.refused(m, ["y"], ["x"], names=["z"]).message
    assert "'a' is given twice" in desk.refused(m, ["y"], ["x", "w"], names=["a", "a"]).message
    assert "legal" in desk.refused(m, ["y"], ["x"], names=["a b"]).message
    assert "gradients/grad_ys_0" in desk.refused(m, ["y"], ["x"], names=["gradients/grad_ys_0"]).message


def test_tensors_that_are_not_there(desk: Desk) -> None:
    m = small()
    requests: list[tuple[list[str], list[str], dict[str, Any]]] = [
        (["splitt"], ["x"], {}),
        (["y"], ["splitt"], {}),
        (["y"], ["x"], {"grad_ys": ["splitt"]}),
        (["y"], ["x"], {"checkpoints": ["splitt"]}),
    ]
    for ys, xs, options in requests:
        error = desk.refused(m, ys, xs, **options)
        assert "'splitt'" in reasons(error) and "'split'" in reasons(error)
    assert "'split:2'" in desk.refused(m, ["y"], ["split:2"]).message


def test_all_tensors_that_are_not_there_are_told(desk: Desk) -> None:
    told = reasons(desk.refused(small(), ["y", "why"], ["x", "ex", "split:2"]))
    assert "3 tensors" in told and all(f"'{name}'" in told for name in ("why", "ex", "split:2"))
    told = reasons(desk.refused(small(), ["y"], ["x"], checkpoints=["sum", "one", "two"]))
    assert "2 tensors" in told and "'one'" in told and "'two'" in told and "memory" in told


def test_the_floating_tensor_nearby_is_named(desk: Desk) -> None:
    m = small()
    m.node("class", "ArgMax", ["z", "axis"], T="float32", Tidx="int32", output_type="int64")
    m.node("first", "Identity", ["class"], T="int64")
    m.placeholder("pixels", "uint8", (2, 3))
    m.node("floats", "Cast", ["pixels"], SrcT="uint8", DstT="float32", Truncate=False)
    m.node("w1", "Mul", ["floats", "floats"], T="float32")
    assert "'z' before it" in reasons(desk.refused(m, ["first"], ["x"]))
    assert "'floats' behind it" in reasons(desk.refused(m, ["w1"], ["pixels"]))


def test_a_tensor_of_another_graph(desk: Desk) -> None:
    with pytest.raises(GdsurgeonError):
        desk.edit(small(), [small().graph()["y"].output], ["x"])  # type: ignore[list-item]


# -- checkpoints --------------------------------------------------------------------------------------------------


def chain(tf: Any, marked: bool = False) -> None:
    h = placeholder(tf)
    for i in range(8):
        h = tf.tanh(tf.sin(h) * 2.0 + tf.constant(numbers(LONG, seed=i), name=f"w{i}"), name=f"h{i}")
        if marked and i in (2, 5):
            h.op._set_attr("_checkpoint", tf.compat.v1.AttrValue(b=True))
    tf.identity(h, name="y")


def residual(tf: Any) -> None:
    h = placeholder(tf)
    for i in range(6):
        h = tf.add(h, tf.tanh(tf.nn.relu(tf.sin(h) * 2.0) * tf.cos(h)), name=f"h{i}")
    tf.identity(h, name="y")


def skipping(tf: Any) -> None:
    down = [placeholder(tf)]
    for i in range(4):
        down.append(tf.tanh(tf.sin(tf.square(tf.cos(down[-1]))), name=f"h{i}"))
    h = down[-1]
    for i in range(4):
        h = tf.tanh(tf.sin(h) * down[3 - i] + down[i], name=f"u{i}")
    tf.identity(h, name="y")


def dropping(tf: Any) -> None:
    h = placeholder(tf)
    for i in range(5):
        mask = tf.cast(tf.compat.v1.random_uniform([LONG], seed=i + 1) < 0.5, tf.float32)
        h = tf.tanh(tf.sin(h) * mask * 2.0 + h, name=f"h{i}")
    tf.identity(h, name="y")


def stateless(tf: Any) -> None:
    h = placeholder(tf)
    for i in range(5):
        noise = tf.raw_ops.StatelessRandomUniformV2(shape=[LONG], key=[7], counter=[i, 0], alg=1, dtype=tf.float32)
        h = tf.tanh(tf.sin(h) * noise, name=f"h{i}")
    tf.identity(h, name="y")


CHAINS = [chain, residual, skipping, dropping, stateless]


@pytest.mark.parametrize("build", CHAINS)
def test_checkpoints_change_no_bit(desk: Desk, build: Callable[[Any], None]) -> None:
    data = desk.built(build)
    feeds = {"x": numbers(LONG)}
    before = parsed(data)
    constants = [node.name for node in before.node if node.op == "Const"]
    for checkpoints in ("speed", "memory", ["h2"], ["h0", "h3"], ["h1", "h2", "h3"], ["h3"]):
        made = desk.same(data, ["y"], ["x", "h1"], feeds, checkpoints=checkpoints)
        added = {node.name: node for node in parsed(made.graph).node if node.name in made.result.journal.added}
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


@pytest.mark.parametrize("build", CHAINS)
def test_what_is_computed_again_is_a_copy_but_for_what_it_reads(desk: Desk, build: Callable[[Any], None]) -> None:
    made = desk.edit(desk.built(build), ["y"], ["x"], checkpoints=["h2"])
    nodes = {node.name: node for node in parsed(made.graph).node}
    assert made.again
    for name in made.again:
        (clone,) = [n for n in nodes if n.startswith("gradients/recompute/") and n.split("/", 3)[-1] == name]
        assert nodes[clone].op == nodes[name].op and nodes[clone].device == nodes[name].device
        assert dict(nodes[clone].attr) == dict(nodes[name].attr)
        assert len(nodes[clone].input) == len([text for text in nodes[name].input if not text.startswith("^")])


def test_gates_are_where_the_tensor_is_that_passes_through(desk: Desk) -> None:
    graph = parsed(from_bytes(desk.built(chain)))
    for node in graph.node:
        node.device = "/device:CPU:0" if node.name in ("h2", "x") else ""
    made = desk.edit(graph.SerializeToString(), ["y"], ["x"], checkpoints=["h2"])
    nodes = {node.name: node for node in parsed(made.graph).node}
    gates = [node for node in nodes.values() if "_recomputed" in node.attr and node.op == "Identity"]
    sources = [nodes[node.input[0].partition(":")[0]] for node in gates]
    assert {"x"} <= {node.name for node in sources}
    assert [node.device for node in gates] == [node.device for node in sources]


def test_a_collection_of_checkpoints(desk: Desk) -> None:
    data = desk.built(lambda tf: chain(tf, marked=True))
    feeds = {"x": numbers(LONG)}
    made = desk.same(data, ["y"], ["x"], feeds, checkpoints="collection")
    plan = made.result.facts["gradients"]["plan"]
    assert plan["segments"] == 3
    assert {"h2", "h5"} <= {item["tensor"] for item in plan["kept"]}
    assert "h2" not in made.again and "h5" not in made.again and "h1" in made.again
    listed = desk.same(data, ["y"], ["x"], feeds, checkpoints=["h5", "h2"])
    assert listed.again == made.again
    assert [n for n in parsed(made.graph).node if "_checkpoint" in n.attr and n.name.startswith("gradients/")] == []


def test_a_collection_without_marks(desk: Desk) -> None:
    error = desk.refused(desk.built(chain), ["y"], ["x"], checkpoints="collection")
    assert "_checkpoint" in error.message and error.hint is not None


def test_useless_checkpoints(desk: Desk) -> None:
    data = desk.built(chain)
    for name in ("x", "w1"):
        assert f"'{name}' is no use" in desk.refused(data, ["y"], ["x"], checkpoints=[name]).message
    assert "UsageError" in type(desk.refused(data, ["y"], ["x"], UsageError, checkpoints=[])).__name__


def test_budgets(desk: Desk) -> None:
    data = desk.built(chain)
    feeds = {"x": numbers(LONG)}
    plain = desk.same(data, ["y"], ["x"], feeds, budget=100.0)
    assert plain.again == [] and "everything is kept" in dict(plain.result.told)["plan"]
    most, least = plain.peak, desk.edit(data, ["y"], ["x"], checkpoints="memory").peak
    assert least < most
    for budget in (least, (least + most) // 2, most - 1):
        made = desk.same(data, ["y"], ["x"], feeds, budget=budget / (1 << 20))
        assert made.peak <= budget
        assert made.again
    error = desk.refused(data, ["y"], ["x"], budget=least / 2 / (1 << 20))
    assert "no plan stays under" in error.message and "the least is" in error.message and error.hint is not None


def test_the_least_is_said_in_a_way_that_tells_it_from_the_budget(desk: Desk) -> None:
    """Small graphs have small budgets."""
    data = desk.built(chain)
    least = desk.edit(data, ["y"], ["x"], checkpoints="memory").peak
    error = desk.refused(data, ["y"], ["x"], budget=(least - 1) / (1 << 20))
    assert f"{least - 1:,} bytes: the least is {least:,} bytes" in error.message
    assert error.hint is not None and error.hint.startswith("--budget ")
    enough = float(error.hint.split()[1].rstrip(","))
    assert desk.edit(data, ["y"], ["x"], budget=enough).peak <= enough * (1 << 20)


def test_checkpoints_that_cost_memory_are_warned_of(desk: Desk) -> None:
    def narrowing(tf: Any) -> None:
        h = placeholder(tf, shape=(LONG,))
        for i in range(3):
            h = tf.identity(tf.tanh(h + 1.0), name=f"h{i}")
        tf.reduce_sum(h, name="y")

    data = desk.built(narrowing)
    for checkpoints in (["h0"], ["h1"], "memory", "speed"):
        made = desk.edit(data, ["y"], ["x"], checkpoints=checkpoints)
        plan = made.result.facts["gradients"]["plan"]
        is_more = plan["predicted_peak_bytes"] > plan["predicted_plain_peak_bytes"]
        assert is_more == any("more memory" in warning for warning in made.result.warnings)


def test_budgets_that_make_no_sense(desk: Desk) -> None:
    data = desk.built(chain)
    for budget in (0, -1.0, float("nan")):
        assert "budget" in desk.refused(data, ["y"], ["x"], UsageError, budget=budget).message
    assert "one or the other" in desk.refused(data, ["y"], ["x"], UsageError, budget=1.0, checkpoints="speed").message
    assert desk.edit(data, ["y"], ["x"], budget=float("inf")).again == []


def test_names_that_the_plan_would_take(desk: Desk) -> None:
    data = desk.built(chain)
    taken = "gradients/recompute/segment_0/trigger"
    try:
        made = desk.edit(data, ["y"], ["x"], checkpoints=["h2"], names=[taken])
    except EditError as error:
        assert taken in error.message
    else:
        desk.run(made, [taken], {"x": numbers(LONG)})


def test_stateful_calls_are_not_made_twice(desk: Desk) -> None:
    """Whatever the op of the call says: what its function does is what counts."""
    m = Builder()
    function = m.function("noisy", {"a": "float32"}, {"out": "float32"})
    body_node(function, "shape", "Shape", ["a"], T="float32", out_type="int32")
    body_node(function, "random", "RandomUniform", ["shape:output:0"], dtype="float32", T="int32", seed=3, seed2=4)
    body_node(function, "sum", "Mul", ["a", "random:output:0"], T="float32")
    function.ret["out"] = "sum:z:0"
    m.placeholder("x", shape=(LONG,))
    m.node("a", "Sin", ["x"], T="float32")
    m.node("call", "PartitionedCall", ["a"], Tin=["float32"], Tout=["float32"], f=function_attr("noisy"))
    m.node("b", "Sin", ["call"], T="float32")
    m.node("c", "Sin", ["b"], T="float32")
    m.node("y", "Sin", ["c"], T="float32")
    feeds = {"x": numbers(LONG)}
    made = desk.edit(m, ["y"], ["x"], checkpoints=["c"])
    assert "call" not in made.again
    plain = desk.edit(m, ["y"], ["x"])
    equal(desk.run(made, made.results, feeds), desk.run(plain, plain.results, feeds))


def test_variables_are_not_changed_twice(desk: Desk) -> None:
    """Ops on references have effects, though TensorFlow does not call them stateful."""

    def build(tf: Any) -> None:
        v1 = tf.compat.v1
        v = desk.version_1(lambda: v1.get_variable("v", initializer=np.zeros(LONG, np.float32)))
        new = v1.assign_add(v, tf.ones([LONG]), name="counted")
        h = tf.tanh(placeholder(tf) + new, name="h0")
        h = tf.tanh(tf.sin(h), name="h1")
        tf.tanh(tf.sin(h), name="y")
        v1.global_variables_initializer()

    data = desk.built(build)
    made = desk.same(data, ["y"], ["x"], {"x": numbers(LONG)}, init=["init"], checkpoints=["h1"])
    assert "counted" not in made.again


def test_checkpoints_with_open_dimensions(desk: Desk) -> None:
    def build(tf: Any) -> None:
        h = placeholder(tf, shape=(None, 50))
        for i in range(5):
            h = tf.tanh(tf.matmul(h, tf.constant(numbers(50, 50, seed=i))), name=f"h{i}")
        tf.reduce_sum(h, name="y")

    data = desk.built(build)
    feeds = {"x": numbers(60, 50)}
    made = desk.same(data, ["y"], ["x"], feeds, checkpoints="memory")
    assert any("--shape" in warning and "'x'" in warning for warning in made.result.warnings)
    made = desk.same(data, ["y"], ["x"], feeds, checkpoints=["h2"], shapes={"x": (60, 50)})
    assert made.again and not made.result.warnings
    assert "no input" in desk.refused(data, ["y"], ["x"], UsageError, checkpoints="memory", shapes={"h0": (1,)}).message


def test_an_input_with_a_default_value(desk: Desk) -> None:
    def build(tf: Any) -> None:
        x = tf.compat.v1.placeholder_with_default(tf.constant(numbers(32, 100)), (None, 100), name="x")
        h = tf.tanh(tf.sin(x), name="h")
        tf.tanh(tf.sin(h), name="y")

    desk.same(desk.built(build), ["y"], ["x"], {"x": numbers(5, 100)}, checkpoints="memory")


def test_nothing_is_left_on_nodes(desk: Desk) -> None:
    made = desk.edit(desk.built(chain), ["y"], ["x"], checkpoints=["h2"])
    keys = {key for node in parsed(made.graph).node if node.name.startswith("gradients/") for key in node.attr}
    assert "_XlaMustCompile" not in keys


def test_a_target_that_is_its_own_checkpoint(desk: Desk) -> None:
    desk.same(desk.built(chain), ["y", "h3"], ["x", "h3"], {"x": numbers(LONG)}, checkpoints=["h7"])
    desk.same(desk.built(chain), ["h3"], ["x"], {"x": numbers(LONG)}, checkpoints=["h3", "h1"])


def test_given_gradients_with_checkpoints(desk: Desk) -> None:
    feeds = {"x": numbers(LONG)}
    data = desk.built(chain)
    for checkpoints in ("memory", ["h2"], ["h1", "h4"]):
        desk.same(data, ["y"], ["x"], feeds, grad_ys=["h3"], checkpoints=checkpoints)
        desk.same(data, ["y", "h5"], ["x", "h2"], feeds, grad_ys=["h3", "h1"], checkpoints=checkpoints)


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
def test_random_networks(desk: Desk, seed: int) -> None:
    data = desk.built(lambda tf: random_network(tf, seed))
    feeds = {"x": numbers(LONG)}
    random = np.random.RandomState(seed)
    count = sum(name.startswith("h") and name[1:].isdigit() for name in names(data))
    for checkpoints in ("memory", [f"h{i}" for i in sorted(random.choice(count - 1, 2, replace=False))]):
        try:
            desk.same(data, ["y"], ["x"], feeds, checkpoints=checkpoints, unconnected="zero")
        except EditError as error:
            assert isinstance(checkpoints, list) and "no use" in error.message


@pytest.mark.parametrize("checkpoints", [["h0"], "memory"], ids=str)
def test_sums_of_several_that_are_computed_again(desk: Desk, checkpoints: Any) -> None:
    """AddN begins with the first input over which it may write: which one that is depends on who else reads them."""

    def build(tf: Any) -> None:
        x = placeholder(tf)
        terms = tf.tanh(x), x * 3.0, x * 5.0
        total = tf.add_n(terms, name="sum")
        late = tf.tanh(tf.tanh(tf.tanh(total)))  # so that the second term is there still when they are summed
        h = tf.multiply(tf.sin(total), late * terms[1], name="h0")
        tf.tanh(tf.tanh(tf.sin(h)), name="y")

    made = desk.same(desk.built(build), ["y"], ["x"], {"x": numbers(LONG)}, checkpoints=checkpoints)
    assert "sum" not in made.again


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("checkpoints", ["memory", ["t2"], ["t1", "t4"]], ids=str)
def test_sums_of_views_and_of_what_others_read(desk: Desk, checkpoints: Any, threads: int) -> None:
    def views(tf: Any) -> None:
        x = placeholder(tf, shape=(300, 200))
        terms = tf.tanh(x * 1.5), tf.tanh(x * 2.5), x * 3.1
        h = tf.add_n([tf.reshape(term, [200, 300]) for term in terms])
        for i in range(6):
            h = tf.tanh(h * 1.01, name=f"t{i}")
        tf.reduce_sum(h * h, name="y")

    def read_before(tf: Any) -> None:
        x = placeholder(tf, shape=(300, 200))
        a, b = x * 1.5, x * 2.5
        h = tf.add_n([a, b, tf.tanh(a) * tf.tanh(b)])
        for i in range(6):
            h = tf.tanh(h * 1.01, name=f"t{i}")
        tf.reduce_sum(h * h, name="y")

    for build in (views, read_before):
        made = desk.same(
            desk.built(build), ["y"], ["x"], {"x": numbers(300, 200)}, checkpoints=checkpoints, threads=threads
        )
        assert made.again


def test_the_backward_pass_begins_when_the_forward_pass_has_ended(desk: Desk) -> None:
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

    data = desk.built(build)
    made = desk.same(data, ["y"], ["x"], {"x": numbers(LONG)}, checkpoints="memory")
    (seed,) = [node for node in parsed(made.graph).node if node.name == "gradients/grad_ys_0"]
    assert "^y" in seed.input
    assert made.result.facts["gradients"]["plan"]["predicted_plain_peak_bytes"] >= 16 * LONG * 4


def test_a_plan_with_products_of_unknown_size(desk: Desk) -> None:
    def build(tf: Any) -> None:
        rows = tf.reshape(placeholder(tf, shape=(64, 8)), tf.compat.v1.placeholder(tf.int32, (2,), "shape"))
        tf.reduce_sum(tf.tanh(tf.matmul(rows, tf.constant(numbers(16, 16)))), name="y")

    feeds = {"x": numbers(64, 8), "shape": np.array([32, 16], np.int32)}
    made = desk.same(desk.built(build), ["y"], ["x"], feeds, checkpoints="memory")
    assert any("not known" in warning for warning in made.result.warnings)


def test_that_the_plan_does_not_look_into_functions_is_said(desk: Desk) -> None:
    def build(tf: Any) -> None:
        h = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.tanh(t)), [0, placeholder(tf)])[1]
        tf.identity(h, name="y")

    data = desk.built(build)
    warnings = desk.edit(data, ["y"], ["x"], checkpoints="memory").result.warnings
    assert any("inside functions" in warning and "'while'" in warning for warning in warnings)
    assert not desk.edit(data, ["y"], ["x"]).result.warnings


# -- proofs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", ["true", "false"])
def test_gradients_through_a_conditional_of_version_1_are_compared(desk: Desk, tmp_path: Path, taken: str) -> None:
    def build(tf: Any) -> None:
        sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
        merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(sides.output_true)]).output
        tf.reduce_sum(merged * 3.0, name="y")

    m = Builder()
    m.graph_def.ParseFromString(desk.built(build))
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(graph, ["y"], ["x"], differentiator=desk.differentiator),
        overrides=Overrides({"chosen": taken}),
    )
    assert "gradients/x" in {output.after for output in done.proof.compared}


def test_gradients_that_cannot_be_compared_are_not_called_proven(desk: Desk, tmp_path: Path) -> None:
    def build(tf: Any) -> None:
        sides = tf.raw_ops.Switch(data=placeholder(tf), pred=tf.compat.v1.placeholder(tf.bool, (), "chosen"))
        inside = tf.identity(sides.output_true, name="inside")
        merged = tf.raw_ops.Merge(inputs=[sides.output_false * 0.5, tf.tanh(inside)]).output
        tf.reduce_sum(merged * 3.0, name="y")

    m = Builder()
    m.graph_def.ParseFromString(desk.built(build))

    def edit(*xs: str) -> Callable[[Graph], EditResult]:
        return lambda graph: add_gradients(graph, ["y"], xs, differentiator=desk.differentiator)

    with pytest.raises(NotValidatedError, match=r"no gradient could be compared.*branch"):
        operated(tmp_path, m, edit("inside"))
    done = operated(tmp_path, m, edit("inside", "x"))
    assert any("not all gradients were compared" in warning for warning in done.warnings)


def test_a_tolerance_that_is_given(desk: Desk, tmp_path: Path) -> None:
    m = Builder()
    m.graph_def.ParseFromString(desk.built(chain))
    done = operated(
        tmp_path, m, lambda g: add_gradients(g, ["y"], ["x"], rtol=1e-6, differentiator=desk.differentiator)
    )
    assert done.proof.rtol == 1e-6 and done.proof.atol == 0.0


@pytest.mark.parametrize("checkpoints", ["none", ["a"]], ids=str)
def test_the_proof(desk: Desk, tmp_path: Path, checkpoints: Any) -> None:
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.node("a", "Sin", ["x"], T="float32")
    m.node("b", "Mul", ["a", "x"], T="float32")
    m.node("c", "Sin", ["b"], T="float32")
    m.node("y", "Tanh", ["c"], T="float32")
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(
            graph, ["y"], ["x", "b"], checkpoints=checkpoints, names=["dx", "db"], differentiator=desk.differentiator
        ),
    )
    assert done.proof is not None and "tf.gradients" in done.proof.statement
    assert {"dx", "db"} <= set(names((tmp_path / "out.pb").read_bytes()))


@pytest.mark.parametrize("build", [mlp, convolutions, attention, version_2_flow, dropping])
@pytest.mark.parametrize("checkpoints", ["none", "memory"])
def test_the_proof_of_networks(desk: Desk, tmp_path: Path, build: Callable[[Any], None], checkpoints: str) -> None:
    m = Builder()
    m.graph_def.ParseFromString(desk.built(build))
    y = m.graph_def.node[-1].name
    done = operated(
        tmp_path,
        m,
        lambda graph: add_gradients(graph, [y], ["x"], checkpoints=checkpoints, differentiator=desk.differentiator),
    )
    assert done.proof is not None and "gradients/x" in str(done.proof.compared)


def sum_of_several() -> Builder:
    """Terms of an AddN that are kept for the backward pass, and one that is not."""
    m = Builder()
    m.placeholder("x", shape=(LONG,))
    m.const("five", 5.0)
    m.node("a", "Tanh", ["x"], T="float32")
    m.node("b", "Mul", ["x", "five"], T="float32")
    m.node("sum", "AddN", ["x", "a", "b"], T="float32", N=3)
    m.node("y", "Sin", ["sum"], T="float32")
    return m


def test_the_proof_of_a_graph_with_a_sum_of_several(desk: Desk, tmp_path: Path) -> None:
    desk.same(sum_of_several().bytes(), ["y"], ["x"], {"x": numbers(LONG)})
    done = operated(
        tmp_path,
        sum_of_several(),
        lambda graph: add_gradients(graph, ["y"], ["x"], differentiator=desk.differentiator),
    )
    assert done.proof is not None


def test_outputs_of_a_graph_with_a_sum_of_several(desk: Desk) -> None:
    """AddN begins with an input over which it may write: on its own the output must not show who else reads others."""
    feeds = {"x": numbers(LONG)}
    made = desk.edit(sum_of_several(), ["y"], ["x"])
    equal(desk.run(made, ["y"], feeds), desk.run(sum_of_several().bytes(), ["y"], feeds))


def test_the_proof_finds_a_wrong_gradient(desk: Desk, tmp_path: Path) -> None:
    m = small()

    def wrong(graph: Graph) -> EditResult:
        result = add_gradients(graph, ["y"], ["x", "sum"], names=["dx", "ds"], differentiator=desk.differentiator)
        dx = graph["dx"]
        graph.set_inputs(dx, [graph.output("x")])
        return result

    with pytest.raises(GdsurgeonError) as caught:
        operated(tmp_path, m, wrong)
    assert caught.value.exit_code == 5
    assert not (tmp_path / "out.pb").exists()
