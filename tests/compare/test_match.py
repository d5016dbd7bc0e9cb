"""Which node became which: small graphs with a known answer."""

from __future__ import annotations

from support.graphs import FLOAT, INT32, add, const, graph, identity, node, placeholder, scalar

from gdsurgeon.compare.match import match
from gdsurgeon.compare.matching import Matching
from gdsurgeon.compare.side import sides
from gdsurgeon.graph.graph import Graph


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


def test_nodes_under_other_names_are_the_same() -> None:
    a = graph(placeholder("x"), *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4]))
    b = graph(*layer("b", "m0/relu", [3, 4], "q/"), placeholder("m1"), *layer("m0", "m1", [1, 2]))
    assert pairs(a, b) == {
        "x": "m1", "a/w": "m0/w", "a/mul": "m0/mul", "a/relu": "m0/relu",
        "b/w": "q/b/w", "b/mul": "q/b/mul", "b/relu": "q/b/relu",
    }  # fmt: skip


def test_names_that_have_changed_places_are_not_followed() -> None:
    a = graph(placeholder("x"), *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4, 5]))
    b = graph(placeholder("x"), *layer("b", "x", [1, 2]), *layer("a", "b/relu", [3, 4, 5]))
    assert pairs(a, b)["a/mul"] == "b/mul"


def test_a_layer_between_is_new_and_those_behind_it_are_not() -> None:
    a = graph(placeholder("x"), *layer("a", "x", [1, 2]), *layer("b", "a/relu", [3, 4]))
    b = graph(
        placeholder("u"), *layer("c", "u", [1, 2]), *layer("new", "c/relu", [5, 6]), *layer("d", "new/relu", [3, 4])
    )
    others = ("u", "c/w", "c/mul", "c/relu", "d/w", "d/mul", "d/relu")
    assert pairs(a, b) == dict(zip(("x", "a/w", "a/mul", "a/relu", "b/w", "b/mul", "b/relu"), others, strict=True))


def test_an_input_of_the_same_name_and_another_dtype_is_that_input() -> None:
    a = graph(placeholder("x"), identity("y", "x"))
    b = graph(placeholder("x", INT32), node("c", "Cast", ["x"], SrcT=INT32, DstT=FLOAT), identity("y", "c"))
    assert pairs(a, b) == {"x": "x", "y": "y"}


def test_equal_constants_are_told_apart_by_who_reads_them_and_not_by_name() -> None:
    a = graph(
        placeholder("x"), *layer("a", "x", [0, 0]), node("n", "Neg", ["a/relu"], T=FLOAT), *layer("b", "n", [0, 0])
    )
    b = graph(
        placeholder("x"),
        *layer("b", "x", [0, 0]),
        node("n", "Neg", ["b/relu"], T=FLOAT),
        *layer("a", "n", [0, 0]),
    )
    found = pairs(a, b)
    assert (found["a/w"], found["b/w"]) == ("b/w", "a/w")


def test_what_passes_a_constant_on_comes_and_goes() -> None:
    a = graph(placeholder("x"), scalar("c", 2), identity("c/read", "c"), add("y", "x", "c/read"))
    b = graph(placeholder("x"), scalar("c", 2), add("y", "x", "c"))
    assert pairs(a, b) == {"x": "x", "c": "c", "y": "y"}


def test_ops_of_another_version_are_the_same_node() -> None:
    a = graph(placeholder("x"), add("y", "x", "x"))
    b = graph(placeholder("u"), node("v", "Add", ["u", "u"], T=FLOAT))
    assert pairs(a, b) == {"x": "u", "y": "v"}


def test_a_node_that_reads_something_else_is_that_node_to_those_who_read_it() -> None:
    def model(source: str) -> Graph:
        two = [node("n", "Neg", ["x"], T=FLOAT), node("m", "Exp", ["x"], T=FLOAT)]
        tail = [node("e", "Tanh", ["y"], T=FLOAT), identity("out", source)]
        return graph(placeholder("x"), *two, node("y", "Sin", [source], T=FLOAT), *tail)

    assert pairs(model("n"), model("m")) == {name: name for name in ("x", "n", "m", "y", "e", "out")}


def test_nothing_is_paired_for_which_nothing_speaks() -> None:
    a = graph(placeholder("x"), node("y", "Relu", ["x"], T=FLOAT), node("z", "Neg", ["y"], T=FLOAT))
    b = graph(placeholder("u", INT32), node("v", "Abs", ["u"], T=INT32), node("w", "Sign", ["v"], T=INT32))
    assert pairs(a, b) == {}


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
