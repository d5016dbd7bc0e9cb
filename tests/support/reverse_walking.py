"""Differentiates small graphs as the reverse walk does and as TensorFlow does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdsurgeon.runtime.base import Backward, Derivation

Build = Callable[[Any], Any]


Array = Any


def derive(data: bytes, wanted: Derivation) -> Backward:
    """`gdsurgeon.runtime.gradients.derive`, whose module imports TensorFlow."""
    from gdsurgeon.runtime import gradients

    return gradients.derive(data, wanted)


def built(tf: Any, build: Build) -> Any:
    """The GraphDef of what BUILD makes."""
    with tf.Graph().as_default() as graph:
        build(tf)
    return graph.as_graph_def()


def version_1(tf: Any, build: Callable[[], Any]) -> Any:
    """The graph that BUILD makes with control flow of version 1, and reference variables."""
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    v1.disable_resource_variables()
    try:
        return build()
    finally:
        v1.enable_control_flow_v2()
        v1.enable_resource_variables()


def run(
    tf: Any, graph_def: Any, fetches: Sequence[str], feeds: dict[str, Array], init: Sequence[str] = ()
) -> list[Any]:
    """Returns the values of tensors, without any optimisation."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.import_graph_def(graph_def, name="")
        return run_in(tf, graph, [full(name) for name in fetches], feeds, init)


def run_in(tf: Any, graph: Any, fetches: Any, feeds: dict[str, Array], init: Sequence[str]) -> list[Any]:
    """Returns the values of tensors of a graph of TensorFlow."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run([graph.get_operation_by_name(name) for name in init])
        found: list[Any] = session.run(fetches, {full(name): value for name, value in feeds.items()})
        return found


def equal(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Asserts that arrays are bit-identical."""
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def full(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def merged(tf: Any, graph_def: Any, backward: Backward) -> Any:
    """A graph with its backward pass."""
    added = tf.compat.v1.GraphDef.FromString(backward.graph)
    new = {node.name: node for node in added.node}
    assert set(backward.changed) == {node.name for node in graph_def.node} & set(new)
    out = type(graph_def)()
    out.versions.CopyFrom(graph_def.versions)
    out.library.CopyFrom(graph_def.library)
    out.library.function.extend(added.library.function)
    out.node.extend(new.pop(node.name, node) for node in graph_def.node)
    out.node.extend(new.values())
    return out


def same(
    tf: Any,
    build: Build,
    ys: Sequence[str],
    xs: Sequence[str],
    feeds: dict[str, Array],
    *,
    grad_ys: Sequence[str] = (),
    own: bool = True,
    init: Sequence[str] = (),
) -> list[Any]:
    """The gradients, None for missing ones; bit-identical to tf.gradients.

    Args:
        own: whether the reverse walk makes them, and does not leave it to TensorFlow.
    """
    graph_def = built(tf, build)
    data = graph_def.SerializeToString()
    wanted = Derivation(tuple(ys), tuple(xs), tuple(grad_ys), "grads")
    mine, its = (derive(data, wanted._replace(own=walk)) for walk in (True, False))
    assert not mine.missing and mine.own is own and not its.own
    assert [name is None for name in mine.results] == [name is None for name in its.results]
    values: list[list[Any]] = []
    for found in (mine, its):
        names = [name for name in found.results if name is not None]
        assert all(name.startswith("grads/") or name in {full(g).removesuffix(":0") for g in grad_ys} for name in names)
        values.append(run(tf, merged(tf, graph_def, found), names, feeds, init))
    equal(*values)
    got = iter(values[0])
    return [None if name is None else next(got) for name in mine.results]


def numbers(*shape: int, seed: int = 0) -> Array:
    """Numbers of different magnitude."""
    random = np.random.RandomState(seed)
    return (random.standard_normal(shape) * 10.0 ** random.randint(-2, 2, shape)).astype(np.float32)


def placeholder(tf: Any, name: str, shape: Sequence[int | None] | None = (4, 6), dtype: str = "float32") -> Any:
    return tf.compat.v1.placeholder(dtype, shape, name)


X = {"x": numbers(4, 6)}
