"""Adds gradients to graphs and compares them with those of tf.gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gdsurgeon.analysis.checks.check import check
from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.edits.claims import EditResult, Gradients
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.runtime.evaluator import Differentiator
from support import graphs
from support.graphs import Builder, add, bodies_by_name, const, typed, written
from support.reverse_walking import built, equal, full, run, run_in, version_1

LONG = 3000
"""Elements of a tensor that is worth asking about: smaller ones are kept in any case."""

Array = Any


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


class Lab:
    """Edits graphs and runs them."""

    def __init__(self, tf: Any, differentiator: Differentiator) -> None:
        self.tf = tf
        self.differentiator = differentiator

    def built(self, build: Callable[[Any], Any]) -> bytes:
        """The bytes of the graph that BUILD makes."""
        return bytes(built(self.tf, build).SerializeToString())

    def version_1(self, build: Callable[[], Any]) -> Any:
        """The graph that BUILD makes with control flow of version 1, and reference variables."""
        return version_1(self.tf, build)

    def adding(self, ys: Sequence[str], xs: Sequence[str] = (), **options: Any) -> Callable[[Graph], EditResult]:
        """The edit that adds the gradients."""
        return lambda graph: add_gradients(graph, ys, xs, differentiator=self.differentiator, **options)

    def edit(self, what: bytes | Builder, ys: Sequence[str], xs: Sequence[str] = (), **options: Any) -> Edited:
        """Adds the gradients, and looks whether anything else has changed, or is not told."""
        data = what.bytes() if isinstance(what, Builder) else what
        graph = from_bytes(data, "model.pb")
        result = self.adding(ys, xs, **options)(graph)
        made = Edited(graph, result)
        check_accounted(graph, result, graph.chunks())
        assert check(from_bytes(written(graph))).faults == []
        before, after = bodies_by_name(data), bodies_by_name(graph)
        assert list(after)[: len(before)] == list(before)  # new nodes come after all others
        intent = result.intent
        assert {name for name in before if after[name] != before[name]} == set(intent.changed)
        assert set(after) - set(before) == set(intent.added)
        results = set(made.results)
        assert [n for n in intent.added if n not in results and not n.startswith(f"{made.claim.scope}/")] == []
        return made

    def run(
        self, what: Graph | bytes | Edited, fetches: Sequence[str], feeds: dict[str, Array], init: Sequence[str] = ()
    ) -> list[Any]:
        """The values of FETCHES, without any optimisation."""
        data = written(what.graph if isinstance(what, Edited) else what)
        return run(self.tf, self.tf.compat.v1.GraphDef.FromString(data), fetches, feeds, init)

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
            return run_in(self.tf, graph, dense, feeds, init)

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


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def placeholder(tf: Any, name: str = "x", shape: Sequence[int | None] | None = (LONG,), dtype: str = "float32") -> Any:
    return tf.compat.v1.placeholder(dtype, shape, name)


def small() -> Builder:
    """y = x w + b, z = sin(y), with a split and an integer."""
    return Builder(
        graphs.placeholder("x", shape=(2, 3)), const("w", np.arange(12).reshape(3, 4) / 7.0),
        const("b", [0.5, -1.0, 2.0, 0.25]),
        typed("MatMul", "product", "x", "w", transpose_a=False, transpose_b=False), add("sum", "product", "b"),
        const("axis", 1, "int32"), typed("Split", "split", "axis", "sum", num_split=2),
        typed("Mul", "y", "split", "split:1"), typed("Sin", "z", "sum"), typed("Size", "count", "x", out_type="int32"),
        const("loose", [1.0, 2.0]), graphs.placeholder("g", shape=(2, 2)),
    )  # fmt: skip


FEEDS = {"x": numbers(2, 3)}
GIVEN = FEEDS | {"g": numbers(2, 2, seed=1)}


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
        scale, offset, mean, variance = (tf.constant(np.abs(numbers(4, seed=10 * k + i)) + 0.1) for k in range(4))
        h = tf.raw_ops.FusedBatchNormV3(
            x=h, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False
        ).y
        h = tf.nn.max_pool2d(tf.nn.relu6(h), 2, 2, "SAME")
    tf.reduce_sum(h, name="y")


def version_2_flow(tf: Any) -> None:
    x, p = placeholder(tf), placeholder(tf, "p", (), "bool")
    h = tf.cond(p, lambda: tf.sin(tf.sin(x)) * x, lambda: tf.cos(x))
    h = tf.tanh(h, name="h")
    h = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s) * x), [0, h])[1]
    tf.identity(tf.tanh(tf.sin(h)), name="y")


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
