"""Sums of many gradients in parts: the same bits, earlier, and nothing waits for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reverse_walking
from support.drawing import pick_some, shuffled
from support.graphs import FLOAT, neg, node, placeholder, proto, typed, written

from gdsurgeon.edits.add_gradients import add_gradients
from gdsurgeon.gradients import sums
from gdsurgeon.gradients.step_graph import TensorSize, step_of
from gdsurgeon.gradients.sums import many_partial_gradients, with_early_sums
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.load import from_bytes
from gdsurgeon.runtime.evaluator import Differentiator

LARGE = [TensorSize(None, 1 << 30)]
SMALL = [TensorSize(None, 1 << 20)]


def sizes(definition: Any, size: list[TensorSize] = LARGE) -> dict[str, list[TensorSize]]:
    return {item.name: size for item in definition.node}


def add_n(name: str, inputs: Sequence[str], *controls: str, kind: bytes = FLOAT) -> bytes:
    return typed("AddN", name, *inputs, *controls, kind=kind, N=len(inputs))


def star(count: int, of: str = "seed") -> list[bytes]:
    """A backward pass in which all gradients come of the same one, each in two steps."""
    records = [neg("seed", "forward")] if of == "seed" else []
    for i in range(count):
        records += [neg(f"a{i}", of, "^forward"), neg(f"g{i}", f"a{i}")]
    return [*records, add_n("total", [f"g{i}" for i in range(count)])]


def early_sums(definition: Any, there: Sequence[bytes] = (), size: list[TensorSize] = LARGE) -> tuple[Any, list[str]]:
    """The result for a backward pass, with the nodes THERE of the graph; those that it reads are placeholders."""
    own = {item.name for item in (*definition.node, *proto(*there).node)}
    read = {text.removeprefix("^") for item in definition.node for text in item.input} - own
    known = proto(*(placeholder(name) for name in sorted(read)), *there, trailer=b"")
    return with_early_sums(known, definition, sizes(definition, size))


def inputs(definition: Any) -> dict[str, list[str]]:
    return {item.name: list(item.input) for item in definition.node}


def has_cycle(definition: Any, *outside: str) -> bool:
    """Whether nodes of DEFINITION, which reads OUTSIDE, wait for each other."""
    both = proto(*(placeholder(name) for name in outside), trailer=b"")
    step = step_of([both, definition], {})
    return len(step.order()) < len(step)


# -- by hand ------------------------------------------------------------------------------------------------------


def test_the_bound_is_that_of_all_gradients_together(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = proto(*star(16))
    monkeypatch.setattr(sums, "LARGE", 16 << 20)
    assert early_sums(definition, size=SMALL)[1] == ["total"]
    monkeypatch.setattr(sums, "LARGE", (16 << 20) + 1)
    assert early_sums(definition, size=SMALL)[1] == []


def test_later_gradients_wait_for_the_sum_of_the_earlier_ones() -> None:
    made, _ = early_sums(proto(*star(18)))
    found = inputs(made)
    assert found["total/part_0"] == ["g0", "g1"]
    assert found["total/sum_1"] == ["total/part_0", "total/part_1"]
    assert found["total"] == ["total/sum_1", "total/part_2"]
    for i in range(18):
        waits = [text for text in found[f"a{i}"] if text != "^forward" and text.startswith("^")]
        assert waits == ([] if i < 2 else ["^total/part_0"] if i < 10 else ["^total/sum_1"])
    assert found["seed"] == ["forward"]
    assert not has_cycle(made, "forward")


def test_nodes_of_the_graph_that_have_become_others_wait_for_no_gradient() -> None:
    """A loop that is differentiated is in the definition too: the targets depend on it, and so the gradients do."""
    late = neg("late", "loop")
    definition = proto(
        *star(17)[:-1], node("loop", "While", ["x"]), late, add_n("total", [*(f"g{i}" for i in range(17)), "late"])
    )
    made, early = early_sums(definition, [node("loop", "While", ["x"])])
    assert early == ["total"]
    assert inputs(made)["loop"] == ["x"]
    forward = proto(placeholder("x"), neg("forward", "loop"))
    step = step_of([forward, made], {})
    assert len(step.order()) == len(step)


# -- any backward pass --------------------------------------------------------------------------------------------


@st.composite
def definitions(draw: st.DrawFn) -> Any:
    """Backward passes with up to three sums of many gradients; a sum may be an input of a later sum."""
    records: list[bytes] = []
    names = ["forward"]
    for number in range(draw(st.integers(2, 14))):
        reads = pick_some(draw, names, 3, least=1)
        waits = pick_some(draw, names, 1)
        records.append(node(f"n{number}", "Custom", [*reads, *(f"^{name}" for name in waits)]))
        names.append(f"n{number}")
        if draw(st.integers(0, 4)) == 0:
            records.append(add_n(f"sum{number}", pick_some(draw, names, 27, least=10)))
            names.append(f"sum{number}")
    records.append(add_n("total", pick_some(draw, names, 27, least=10)))
    return proto(*shuffled(draw, records))


def terms(definition: Any, name: str) -> list[str]:
    """The tensors that a sum adds, in order."""
    (found,) = [item for item in definition.node if item.name == name]
    out: list[str] = []
    for text in found.input:
        if text.startswith("^"):
            continue
        out += terms(definition, text) if text.startswith(f"{name.split('/')[0]}/") else [text]
    return out


@given(definitions())
def test_what_holds_of_every_backward_pass(definition: Any) -> None:
    made, early = early_sums(definition)
    assert not has_cycle(made, "forward")
    assert set(early) <= {item.name for item in many_partial_gradients(definition)}
    was = {item.name: item for item in definition.node}
    for name in early:
        assert terms(made, name) == [text for text in was[name].input if not text.startswith("^")]
    for item in made.node:
        old = was.get(item.name)
        if old is not None and item.name not in early:  # others wait for something more at the most
            data = [text for text in item.input if not text.startswith("^")]
            assert (item.op, data) == (old.op, [text for text in old.input if not text.startswith("^")])
            assert set(old.input) <= set(item.input)


# -- run ----------------------------------------------------------------------------------------------------------


def run(tf: Any, what: Any, fetches: Sequence[str], feeds: dict[str, Any]) -> list[Any]:
    data = written(what) if isinstance(what, Graph) else what.SerializeToString()
    return reverse_walking.run(tf, tf.compat.v1.GraphDef.FromString(data), fetches, feeds)


def feeds_of(count: int, seed: int) -> dict[str, Any]:
    """Vectors of numbers of different magnitude, p0 to the last."""
    random = np.random.RandomState(seed)
    powers = [10.0 ** random.randint(-3, 4, 50) for _ in range(count)]
    return {f"p{i}": (random.standard_normal(50) * power).astype(np.float32) for i, power in enumerate(powers)}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_bits_are_those_of_add_n(tf: Any, dtype: str) -> None:
    kind = {"float32": FLOAT, "float64": b"\x30\x02", "float16": b"\x30\x13", "bfloat16": b"\x30\x0e"}[dtype]
    random = np.random.RandomState(0)
    powers = 10.0 ** random.randint(-3 if dtype == "float16" else -9, 4, (40, 7, 33))
    values = (random.standard_normal((40, 7, 33)) * powers).astype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
    fed = [placeholder(f"g{i}", kind, (7, 33)) for i in range(40)]
    counts = range(10, 41)
    records = []
    for n in counts:
        records += [neg(f"h{n}_{i}", f"g{i}", kind=kind) for i in range(n)]
        records.append(add_n(f"sum{n}", [f"h{n}_{i}" for i in range(n)], kind=kind))
    definition = proto(*records)
    made, early = early_sums(definition)
    assert len(early) == len(counts)
    feeds = {f"g{i}": values[i] for i in range(40)}
    names = [f"sum{n}" for n in counts]
    wanted, got = (run(tf, proto(*fed, part.SerializeToString()), names, feeds) for part in (definition, made))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(wanted, got, strict=True))
    naive = -sum(values[1:], values[0])
    assert naive.tobytes() != wanted[-1].tobytes()  # else the order would show nothing


@pytest.mark.parametrize("there", [0, 1, 3, 5, 9])
def test_the_bits_do_not_depend_on_which_gradients_may_be_written_over(tf: Any, there: int) -> None:
    """AddN begins with the first input over which it may write; others still need the first THERE of them.

    Where it is not known which one that is, the sum stays as it is.
    """
    differing = []
    for count in range(10, 41, 3):
        feeds = feeds_of(count, seed=count)
        computed = [neg(f"g{i}", f"p{i}") for i in range(there, count)]
        total = add_n("total", [f"{'p' if i < there else 'g'}{i}" for i in range(count)])
        definition = proto(*computed, total)
        made, early = early_sums(definition)
        assert early == ([] if there else ["total"])
        fed = [placeholder(f"p{i}", FLOAT, (50,)) for i in range(count)]
        wanted, got = (
            run(tf, proto(*fed, part.SerializeToString()), ["total"], feeds)[0] for part in (definition, made)
        )
        if wanted.tobytes() != got.tobytes():
            differing.append(count)
    assert differing == []


def uses(tf: Any, x: Any, count: int, first: int = 1) -> list[Any]:
    return [tf.tanh(x * float(first + i)) for i in range(count)]


def plain(tf: Any, x: Any) -> Any:
    return tf.add_n(uses(tf, x, 23))


def unrolled(tf: Any, x: Any) -> Any:
    h = x
    for _ in range(19):
        h = tf.tanh(h * x)
    return h


def with_a_loop(tf: Any, x: Any) -> Any:
    loop = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(tf.sin(s)) * 2.0), [0, x])[1]
    return tf.square(tf.add_n([*uses(tf, x, 11), tf.sin(tf.sin(loop)), *uses(tf, x, 3, 30)]))


def with_a_condition(tf: Any, x: Any) -> Any:
    cond = tf.cond(x[0] > 0.0, lambda: tf.sin(tf.sin(x)), lambda: tf.cos(tf.sin(x)))
    return tf.square(tf.add_n([*uses(tf, x, 11), tf.sin(tf.sin(cond)), *uses(tf, x, 3, 30)]))


@pytest.mark.parametrize("build", [plain, unrolled, with_a_loop, with_a_condition])
def test_gradients_are_the_same_bits(
    tf: Any,
    differentiator: Differentiator,
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[Any, Any], Any],
) -> None:
    with tf.Graph().as_default() as graph:
        tf.identity(build(tf, tf.compat.v1.placeholder(tf.float32, (8,), "x")), name="y")
    data = graph.as_graph_def().SerializeToString()
    feeds = {"x": np.random.RandomState(0).standard_normal(8).astype(np.float32)}
    values = []
    for bound in (1 << 60, 0):
        monkeypatch.setattr(sums, "LARGE", bound)
        found = from_bytes(data, "model.pb")
        result = add_gradients(found, ["y"], ["x"], names=["dx"], differentiator=differentiator)
        assert any(entry.label == "summed" for entry in result.told) is (bound == 0)
        values += run(tf, found, ["dx"], feeds)
    assert values[0].tobytes() == values[1].tobytes()


def test_sums_whose_first_gradient_is_a_view_are_left_alone(tf: Any, differentiator: Differentiator) -> None:
    """The gradient of a concatenation along the first dimension is two views of one buffer."""
    elements = 884736
    weights = np.random.RandomState(0).standard_normal((1, elements)).astype(np.float32)
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (4, elements), "x")
        w = tf.constant(weights)
        parts = [tf.exp(tf.reduce_sum(x * w * (0.1 * i + 0.37)) * -1e-6) for i in range(8)]
        for part in parts[1:]:
            parts[0] = parts[0] + part
        tf.identity(parts[0] + tf.reduce_sum(tf.concat([x, x], 0) * w), name="y")
    found = from_bytes(graph.as_graph_def().SerializeToString(), "model.pb")
    result = add_gradients(found, ["y"], ["x"], names=["dx"], differentiator=differentiator)
    assert result.facts["gradients"]["early_sums"] == []


def test_a_plain_backward_pass_does_not_depend_on_open_dimensions(tf: Any, differentiator: Differentiator) -> None:
    """Whether a sum is large is not known where an open dimension decides on shapes: that is no reason to refuse."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (None, 4), "x")
        tf.identity(tf.reduce_sum(plain(tf, x)) + tf.reduce_sum(tf.sin(tf.reshape(x, [2, 2, 4]))), name="y")
    found = from_bytes(graph.as_graph_def().SerializeToString(), "model.pb")
    add_gradients(found, ["y"], ["x"], names=["dx"], differentiator=differentiator)
    assert run(tf, found, ["dx"], {"x": np.ones((4, 4), np.float32)})[0].shape == (4, 4)


def test_parts_whose_first_gradient_is_needed_elsewhere_are_added_one_by_one(tf: Any) -> None:
    count = 26
    feeds = feeds_of(count, seed=0)
    computed = [neg(f"g{i}", f"p{i}") for i in range(count)]
    again = [neg(f"again{i}", f"g{i}") for i in (2, 10)]
    definition = proto(*computed, *again, add_n("total", [f"g{i}" for i in range(count)]))
    made, early = early_sums(definition)
    assert early == ["total"]
    assert sum(item.op == "AddN" for item in made.node) == 2
    fed = [placeholder(f"p{i}", FLOAT, (50,)) for i in range(count)]
    fetches = ["total", "again2", "again10"]
    wanted, got = (run(tf, proto(*fed, part.SerializeToString()), fetches, feeds) for part in (definition, made))
    assert [a.tobytes() for a in wanted] == [b.tobytes() for b in got]
