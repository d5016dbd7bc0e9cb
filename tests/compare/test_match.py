"""The matching of two graphs: sequences, sets, sides, variables and whole graphs."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support import meta_graphs
from support.desk import Desk
from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder, scalar, typed
from support.paths import FIXTURES

from gdsurgeon.compare.diff import diff
from gdsurgeon.compare.match import aligned, match
from gdsurgeon.compare.matching import Matching
from gdsurgeon.compare.side import Side, sides
from gdsurgeon.container.load import load
from gdsurgeon.errors import InputError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.serving import Served, Serving
from gdsurgeon.view.content import content_of
from gdsurgeon.view.difference import counts, lines
from gdsurgeon.view.page import Union, union


def pairs(a: Graph, b: Graph) -> dict[str, str]:
    matching = match(a, b)
    return {matching.a.names[i]: matching.b.names[j] for i, j in matching.pairs()}


def layer(name: str, source: str, weights: list[float], prefix: str = "") -> list[bytes]:
    name = prefix + name
    return [
        const(f"{name}/w", weights),
        node(f"{name}/mul", "Mul", [source, f"{name}/w"], T=FLOAT),
        node(f"{name}/relu", "Relu", [f"{name}/mul"], T=FLOAT),
    ]


def relu(name: str, source: str, op: str = "Relu", kind: bytes = FLOAT) -> bytes:
    return node(name, op, [source], T=kind)


def reading(source: str) -> list[bytes]:
    two = [relu("n", "x", "Neg"), relu("m", "x", "Exp")]
    return [placeholder("x"), *two, relu("y", source, "Sin"), relu("e", "y", "Tanh"), identity("out", source)]


def product(name: str, source: str, weights: list[float]) -> list[bytes]:
    return [const(f"{name}/w", weights), typed("Mul", name, source, f"{name}/w")]


X, Z = placeholder("x"), placeholder("z")
PAIRED: dict[str, tuple[list[bytes], list[bytes], dict[str, str]]] = {
    "nodes with other names": (
        [X, *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4])],
        [*layer("b", "m0/relu", [3, 4], "q/"), placeholder("m1"), *layer("m0", "m1", [1, 2])],
        {"x": "m1", "a/w": "m0/w", "a/mul": "m0/mul", "a/relu": "m0/relu", "b/w": "q/b/w", "b/mul": "q/b/mul",
         "b/relu": "q/b/relu"},
    ),
    "a layer in between is new, and the layers after it are not": (
        [X, *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4])],
        [placeholder("u"), *layer("c", "u", [1, 2]), *layer("new", "c/relu", [5, 6]), *layer("d", "new/relu", [3, 4])],
        {"x": "u", "a/w": "c/w", "a/mul": "c/mul", "a/relu": "c/relu", "b/w": "d/w", "b/mul": "d/mul",
         "b/relu": "d/relu"},
    ),
    "an input with the same name and a different dtype": (
        [X, identity("y", "x")],
        [placeholder("x", INT32), node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), identity("y", "c")],
        {"x": "x", "y": "y"},
    ),
    "an Identity of a constant comes and goes": (
        [X, scalar("c", 2), identity("c/read", "c"), add("y", "x", "c/read")],
        [X, scalar("c", 2), add("y", "x", "c")],
        {"x": "x", "c": "c", "y": "y"},
    ),
    "an Identity of a constant has a different name": (
        [X, scalar("c", 2), identity("c/read", "c"), add("y", "x", "c/read")],
        [placeholder("u"), scalar("d", 2), identity("e", "d"), add("v", "u", "e")],
        {"x": "u", "c": "d", "c/read": "e", "y": "v"},
    ),
    "ops of a different version": (
        [X, add("y", "x", "x")],
        [placeholder("u"), node("v", "Add", ["u", "u"], T=FLOAT)],
        {"x": "u", "y": "v"},
    ),
    "a node that reads something else stays the same node for its consumers": (
        reading("n"), reading("m"), {name: name for name in ("x", "n", "m", "y", "e", "out")},
    ),
    "equal outputs": (
        [X, relu("a", "x"), relu("b", "x")],
        [relu("c", "u"), relu("d", "u"), placeholder("u")],
        {"x": "u", "a": "c", "b": "d"},
    ),
    "a renamed input of a node that has a further input now": (
        [X, typed("AddN", "n", "x", N=1)],
        [placeholder("u"), typed("AddN", "n", "u", "u", N=2)],
        {"x": "u", "n": "n"},
    ),
    "inputs without a common consumer": (
        [X, relu("y", "x")],
        [placeholder("u"), relu("v", "u", "Abs"), relu("w", "v", "Sign")],
        {},
    ),
    "two inputs were exchanged, and the names of the layers": (
        [X, Z, *product("a", "x", [1, 2]), *product("b", "z", [3, 4]), typed("Sub", "y", "a", "b")],
        [X, Z, *product("b", "z", [1, 2]), *product("a", "x", [3, 4]), typed("Sub", "y", "b", "a")],
        {"x": "x", "z": "z", "a": "b", "b": "a", "a/w": "b/w", "b/w": "a/w", "y": "y"},
    ),
    "unused constants that differ only in their control inputs": (
        [X, relu("n", "x"), const("p", [1]), const("q", [1], controls=["^n"])],
        [const("r", [1], controls=["^m"]), const("s", [1]), placeholder("u"), relu("m", "u")],
        {"x": "u", "n": "m", "p": "s", "q": "r"},
    ),
    "an unused constant without its control input": (
        [X, relu("n", "x"), const("p", [1], controls=["^n"])],
        [const("q", [1]), placeholder("u"), relu("m", "u")],
        {"x": "u", "n": "m", "p": "q"},
    ),
    "nothing in common": (
        [X, relu("y", "x"), relu("z", "y", "Neg")],
        [placeholder("u", INT32), relu("v", "u", "Abs", INT32), relu("w", "v", "Sign", INT32)],
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "wanted"), PAIRED.values(), ids=PAIRED)
def test_pairs(before: list[bytes], after: list[bytes], wanted: dict[str, str]) -> None:
    assert pairs(graph(*before), graph(*after)) == wanted


def test_equal_outputs_are_told_apart_by_their_names_in_a_signature() -> None:
    a, b = (graph(X, relu(one, "x"), relu(other, "x")) for one, other in ("ab", "cd"))
    a.serving, b.serving = (
        Serving(signatures={"s": Served({}, {"first": first, "second": second})}) for first, second in ("ab", "dc")
    )
    assert pairs(a, b) == {"x": "x", "a": "d", "b": "c"}


def test_names_that_have_changed_places_are_not_followed() -> None:
    a = graph(X, *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4, 5]))
    b = graph(X, *layer("b", "x", [1, 2]), *layer("a", "b/relu", [3, 4, 5]))
    assert pairs(a, b)["a/mul"] == "b/mul"


def test_equal_constants_are_told_apart_by_who_reads_them_and_not_by_name() -> None:
    a, b = (
        graph(X, *layer(one, "x", [0, 0]), relu("n", f"{one}/relu", "Neg"), *layer(other, "n", [0, 0]))
        for one, other in ("ab", "ba")
    )
    found = pairs(a, b)
    assert (found["a/w"], found["b/w"]) == ("b/w", "a/w")


def test_a_long_chain_is_no_deep_recursion() -> None:
    def chain(count: int, name: str) -> Graph:
        records = [node(f"{name}{i}", "Neg", [f"{name}{i - 1}"], T=FLOAT) for i in range(1, count)]
        return graph(placeholder(f"{name}0"), *records)

    assert len(pairs(chain(3000, "a"), chain(3000, "b"))) == 3000


def test_what_a_node_reads_speaks_against_another_node() -> None:
    """The Relu behind x is that behind u as long as that is free, and not the one behind what is new."""
    a, b = sides(
        graph(placeholder("x"), node("r", "Relu", ["x"], T=FLOAT)),
        graph(
            placeholder("u"),
            node("s", "Relu", ["u"], T=FLOAT),
            node("t", "Neg", ["s"], T=FLOAT),
            node("v", "Relu", ["t"], T=FLOAT),
        ),
    )
    matching = Matching(a, b)
    assert not matching.is_contradicted(1, 3)  # nothing is known
    matching.pair(0, 0)
    assert matching.is_contradicted(1, 3)
    assert not matching.is_contradicted(1, 1)


@pytest.mark.parametrize("seed", range(200))
def test_pairs_are_equal_and_ascend(seed: int) -> None:
    draw = random.Random(seed)
    kinds = draw.choice([2, 3, 8, 30])
    a, b = ([draw.randrange(kinds) for _ in range(draw.randrange(14))] for _ in range(2))
    pairs = aligned(a, b)
    assert all(a[x] == b[y] for x, y in pairs)
    assert all(x < u and y < v for (x, y), (u, v) in pairwise(pairs))


@pytest.mark.parametrize("seed", range(50))
def test_of_distinct_elements_all_that_both_have_in_one_order_are_pairs(seed: int) -> None:
    draw = random.Random(seed)
    a, b = (sorted(draw.sample(range(30), 20)) for _ in range(2))
    assert [a[x] for x, _ in aligned(a, b)] == sorted({*a} & {*b})


def test_which_of_equal_elements_is_new_is_not_certain() -> None:
    assert aligned([1, 2, 2, 3], [1, 2, 2, 2, 3]) == [(0, 0), (3, 4)]
    assert aligned([1, 2, 3], [1, 5, 2, 3]) == [(0, 0), (1, 2), (2, 3)]


def united(a: Graph, b: Graph) -> Union:
    return union(diff(a, b), content_of(a, "a"), content_of(b, "b"))


def test_what_is_gone_and_what_is_new_stand_side_by_side() -> None:
    a = graph(placeholder("x"), node("m", "Abs", ["x"], T=FLOAT), node("n", "Exp", ["m"], T=FLOAT), identity("y", "n"))
    b = graph(placeholder("x"), node("m", "Abs", ["x"], T=FLOAT), identity("z", "m"), node("n", "Sin", ["z"], T=FLOAT))
    found = united(a, b)
    content = found.content
    assert dict(zip(content.names, found.marks, strict=True)) == {
        "x": "", "m": "", "z": ">", "n": "+", "n (before)": "-",
    }  # fmt: skip
    reads = {name: [content.names[u] for u, _ in content.inputs[row]] for row, name in enumerate(content.names)}
    assert reads == {"x": [], "m": ["x"], "z": ["m"], "n": ["z"], "n (before)": ["m"]}
    assert sorted(content.order) == list(range(5))


def test_values_are_marked() -> None:
    a = graph(placeholder("x"), const("w", [1, 2]), node("y", "Mul", ["x", "w"], T=FLOAT))
    b = graph(placeholder("x"), const("w", [1, 3]), node("y", "Mul", ["x", "w"], T=FLOAT))
    assert united(a, b).marks == ["", "~", ""]


def test_the_same_has_no_marks() -> None:
    a = graph(placeholder("x"), identity("y", "x"))
    assert united(a, a).marks == ["", ""]


@pytest.mark.parametrize(
    ("records", "word"),
    [
        ([X, identity("y", "gone")], "gone"),
        ([identity("a", "b"), identity("b", "a")], "cycle"),
        ([X, X, identity("y", "x")], "named"),
    ],
)
def test_an_unsound_graph_has_no_side(records: list[bytes], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Side(graph(*records))


def test_control_edges_are_apart_from_data() -> None:
    side = Side(graph(placeholder("x"), placeholder("z"), identity("y", "x", "^z"), node("n", "NoOp", ["^y"])))
    assert side.written[2] == ((0, 0),) and side.controls[2] == [1] and side.waiting[1] == [2]
    assert side.inputs[3] == ((2, -1),)  # a node that only waits


def test_a_loop_is_walked() -> None:
    a, b = load(str(FIXTURES / "while_v1.pb")), load(str(FIXTURES / "while_v1.pb"))
    matching = match(a, b)
    assert all(i == j for i, j in matching.pairs())
    assert sum(1 for _ in matching.pairs()) == a.node_count


def test_weights_are_told_from_counts() -> None:
    side = Side(graph(const("axis", [0, 1], INT32), const("w", [1, 2], FLOAT)))
    assert [form.is_trained for form in side.forms] == [False, True]


@pytest.mark.parametrize("op", ["VariableV2", "Const", "Relu"])
def test_a_corrupt_attr_is_compared_as_it_is(op: str) -> None:
    broken = b"\x3a\x7f"
    side = Side(graph(node("w", op, dtype=broken, shape=broken, value=broken)))
    assert side.forms[0].tensor is None


@pytest.fixture
def models(desk: Desk) -> Path:
    """Two SavedModels that are the same but for the value of a variable."""
    for name in ("one", "two"):
        meta_graphs.put(desk.folder / name)
    np.save(desk.folder / "v.npy", np.array([3, 5], "float32"))
    prefix = "two/variables/variables"
    desk.done("checkpoint", prefix, "--set", f"{meta_graphs.KEY}=@v.npy", "-o", "new")
    for path in desk.folder.glob("new.*"):
        path.rename(desk.folder / "two/variables" / path.name.replace("new", "variables"))
    return desk.folder


def test_values_in_checkpoints(models: Path) -> None:
    found = diff(load(str(models / "one")), load(str(models / "two")))
    (value,) = found.values
    assert found.names(value.i, value.j) == ("w", "w")
    assert value.distance is not None and value.distance.after == (3.0, 5.0)
    assert (found.weights, found.unread, counts(found).values) == (2, 0, 1)  # the initial value, too
    assert diff(load(str(models / "one")), load(str(models / "two")), {"weights"}).is_empty


def test_equal_values_in_checkpoints(models: Path) -> None:
    found = diff(load(str(models / "one")), load(str(models / "one")))
    assert found.is_empty and (found.weights, found.unread) == (2, 0)


def test_values_that_are_nowhere_are_counted(tmp_path: Path) -> None:
    folder = str(meta_graphs.put(tmp_path / "sm", values=False))
    found = diff(load(folder), load(folder))
    assert found.is_empty and found.unread == 1
    assert lines(found)[-1].endswith("1 variable not compared: no checkpoint has the values")


def test_a_frozen_graph_and_what_it_was_frozen_from() -> None:
    variable = [node("w", "VariableV2", dtype=FLOAT, shape=(2,)), identity("w/read", "w")]
    start = [const("w/initial", [0, 0]), node("w/Assign", "Assign", ["w", "w/initial"], T=FLOAT)]
    trained = graph(placeholder("x"), *variable, *start, node("y", "Mul", ["x", "w/read"], T=FLOAT))
    frozen = graph(placeholder("x"), const("w", [1, 2]), node("y", "Mul", ["x", "w"], T=FLOAT))
    found = diff(trained, frozen)
    assert [(found.names(c.i, c.j), c.details[0][2:4]) for c in found.changes] == [
        (("w", "w"), ("VariableV2", "Const"))
    ]
    assert found.matching is not None
    assert sorted(found.matching.a.names[i] for i in found.removed) == ["w/Assign", "w/initial", "w/read"]
    assert not found.added
