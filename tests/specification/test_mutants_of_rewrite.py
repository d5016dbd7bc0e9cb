# ruff: noqa: E501 (a text of the source stands in one line here, too)
"""Mistakes planted in rewrite: the specification finds them before anything is run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.graphs import FLOAT, INT32, const, graph, identity, node, placeholder, scalar
from support.mutants import Case, Mutant, check_caught

from gdsurgeon.edits.claims import EditResult
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.graph.graph import Graph
from gdsurgeon.proof.accounting import check_accounted
from gdsurgeon.specification.plain_match import Cells

SEARCHING, FACTS = (f"edits.rewriting.{name}" for name in ("searching", "facts"))
GROUND, PLANNING, ROUNDS, DOING = (
    f"edits.rewriting.{name}" for name in ("ground", "planning", "rounds", "carrying_out")
)


def model() -> Graph:
    return graph(
        placeholder("x"),
        placeholder("z"),
        scalar("two", 2.0),
        scalar("three", 3.0),
        node("a", "Mul", ["two", "x"], T=FLOAT, device="/cpu:0"),
        node("b", "Mul", ["z", "three"], T=FLOAT),
        node("c", "Neg", ["a"], T=FLOAT, _note="hi"),
        node("d", "Neg", ["c"], T=FLOAT),
        node("e", "Neg", ["d"], T=FLOAT),
        node("f", "Sub", ["e", "b"], T=FLOAT),
        node("g", "Abs", ["b"], T=FLOAT),
        node("leaky", "LeakyRelu", ["f"], T=FLOAT, alpha=0.5),
        const("axis", [0], INT32, ()),
        node("split", "Split", ["axis", "leaky"], T=FLOAT, num_split=2),
        node("left", "Abs", ["split"], T=FLOAT, _note="x"),
        node("right", "Neg", ["split:1"], T=FLOAT),
        identity("out", "right", "^g"),
        node("waits", "Tanh", ["x", "^z"], T=FLOAT),
        node("after", "Abs", ["waits"], T=FLOAT),
        node("end", "Neg", ["x"], T=FLOAT),
    )


def by(rule: str, limit: int | None = None) -> Case:
    def case() -> tuple[Graph, EditResult]:
        found = model()
        return found, rewrite(found, rule, limit=limit)

    return case


def written() -> tuple[Graph, EditResult]:
    """A product with 1 that is written into in place, and one that is not."""
    fixed = [
        scalar("one", 1.0),
        const("at", [0], INT32, (1,)),
        const("row", [1.0, 2.0], FLOAT, (1, 2)),
        placeholder("x"),
    ]
    products = [node(name, "Mul", ["x", "one"], T=FLOAT) for name in ("a", "b")]
    found = graph(
        *fixed,
        *products,
        identity("i", "a"),
        node("y", "InplaceAdd", ["i", "at", "row"], T=FLOAT),
        node("z", "Neg", ["b"], T=FLOAT),
    )
    return found, rewrite(found, "Mul($x, 1) -> $x")


DOUBLE, TWICE = by("Mul($x, 2) -> AddV2($x, $x)"), by("Neg(Neg($x)) -> $x")
LEAKY, LEAST = by("n=LeakyRelu{alpha=0.5}($x) -> LeakyRelu{=n}(Relu($x))"), by("Abs($x) -> Sub($x, 1)")
OUTSIDE, ATTR = by("Abs|Neg(Tanh|Mul($x, ...)) -> Relu($x)"), by("Abs|LeakyRelu{alpha>=0.4}($x) -> Relu($x)")
FIRST, SAME = by("Neg(Neg($x)) -> $x", 1), by("n=Abs($x) -> n(Relu($x))")

MUTANTS = [
    Mutant("only one way of a product is tried", SEARCHING, "if wanted == len(reads) == 2", "if wanted == len(reads) == 3", by("Mul($x, $c:scalar) -> AddV2($x, $x)")),
    Mutant("what is written into is another", GROUND, "if self._written else ()", "if False else ()", written),
    Mutant("what waits goes", GROUND, "            if any(port < 0 for _, port in top.reads(number)):", "            if False:", OUTSIDE),
    Mutant("the limit is off by one", ROUNDS, "if count == most:", "if count == most + 1:", by("Abs($x) -> Relu($x)", 1)),
    Mutant("a name is lost", GROUND, "if number in self.named or any(", "if any(", by("Neg($x) -> $x")),
    Mutant("inputs change places", PLANNING, "return [found[at] for at in range(len(terms))]", "return [found[at] for at in range(len(terms))][::-1]", LEAST),
    Mutant("any value is taken", FACTS, "return value == wanted or (isfinite(wanted) and abs(value - wanted) <= near * abs(wanted))", "return True", DOUBLE),
    Mutant("an attr is not looked at", FACTS, "elif not holds(test, node.setting(test.key)):", "elif False:", ATTR),
    Mutant("attrs are not taken over", PLANNING, "attrs = {key: data for key, data in copied.items() if data is not None}", "attrs = {}", LEAKY),
    Mutant("another value is made", PLANNING, "value = tensor_value(dtype, term.shape, term.values)", "value = tensor_value(dtype, term.shape, [v + 1 for v in term.values])", LEAST),
    Mutant("it is elsewhere", DOING, "device=first.device, after=first", "after=first", by("Mul($x, 2) -> AddV2($x, Neg($x))")),
    Mutant("attrs of the node go, too", DOING, 'if key not in attrs and (not key.startswith("_") or key in STALE):', "if key not in attrs:", SAME),
    Mutant("what is loose stays", DOING, "self._remove_loose(loose, named)", "pass", DOUBLE),
    Mutant("the last one is done first", ROUNDS, "sorted(roots, key=self.ground.place_in_order)", "sorted(roots, key=self.ground.place_in_order)[::-1]", FIRST),
    Mutant("readers read what is gone behind it", DOING, "self.graph.reroute(uses, new)", "self.graph.reroute(uses, new.node.inputs[0] if new.node.inputs else new)", TWICE),
    Mutant("a match is left for its shape, which is the same", ROUNDS, "why = self.shapes.why_not(self.rule, found, match, replacement)", "why = Remark('another', 'other') if match.roots[0].name == 'g' else None", LEAST),
    Mutant("a match is said to be left, and is not", "edits.rewrite", 'decided={"left": reshaped}', 'decided={"left": {(0, 0, frozenset(["leaky"]), frozenset([("x", "f")]))}}', by("LeakyRelu($x) -> Softmax($x)")),
    Mutant("the node is another", DOING, "self._become(nodes[new], new.op, inputs, new.attrs)", "self._become(nodes[new], 'Tanh', inputs, new.attrs)", SAME),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_caught(mutant)


def test_what_many_places_read_is_not_looked_through_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    readers = Cells.readers

    def noted(cells: Cells, name: str) -> Iterator[str]:
        for reader in readers(cells, name):
            asked.append(reader)
            yield reader

    monkeypatch.setattr(Cells, "readers", noted)
    places = range(100)
    around = (const(f"c{i}", [1.0]) + identity(f"i{i}", f"c{i}") for i in places)
    products = (node(f"y{i}", "Mul", ["hub", f"i{i}"], T=FLOAT) for i in places)
    found = graph(placeholder("x"), identity("hub", "x"), *around, *products)
    result = rewrite(found, "Mul($a, Identity($w)) -> Mul($a, $w)")
    check_accounted(found, result, found.chunks())
    assert 0 < len(asked) < 10 * len(places)
