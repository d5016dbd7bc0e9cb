"""Random rules on random graphs: what matches is what a plain search finds, and what is written what it comes to."""

from __future__ import annotations

from itertools import islice
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.expecting import account
from support.graphs import INT32, const, graph, node, placeholder, typed
from support.plain_match import PlainMatch

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.edits.rewriting.matching import Matcher
from gdsurgeon.edits.rewriting.rounds import match_of
from gdsurgeon.errors import EditError, UsageError
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Output
from gdsurgeon.patterns.check import rule_of

UNARY, BINARY = ("Neg", "Relu", "Abs"), ("Mul", "AddV2", "Sub")
NUMBERS = (0.5, 1.0, 2.0)
SHAPES: tuple[tuple[int, ...] | None, ...] = (None, (), (2,), (1, 2))


def some_graph(chance: Random) -> Graph:
    """A graph of few ops, so that many nodes are equal; a Split reads some of the unused tensors."""
    names = ["x", "z"]
    nodes = [placeholder(name, shape=chance.choice(SHAPES)) for name in names]
    for i, value in enumerate(NUMBERS):
        nodes.append(const(f"c{i}", [value], shape=chance.choice([(), (1,), (1, 1)])))
        names.append(f"c{i}")
    nodes += [const("c3", [0.5]), const("axis", [0], INT32)]
    names.append("c3")
    for i in range(chance.randrange(4, 16)):
        name, recent = f"n{i}", names[-6:]
        kind = chance.random()
        if kind < 0.45:
            nodes.append(typed(chance.choice(UNARY), name, chance.choice(recent)))
        elif kind < 0.9:
            nodes.append(typed(chance.choice(BINARY), name, chance.choice(recent), chance.choice(names)))
        else:
            nodes.append(typed("Split", name, "axis", chance.choice(recent), num_split=2))
            names.append(f"{name}:1")
        names.append(name)
    if chance.random() < 0.3:
        nodes.append(node("waiting", "NoOp", [f"^{chance.choice(names[6:]).partition(':')[0]}"]))
    return graph(*nodes)


class RandomRule:
    """A rule whose pattern is like what is above a node of a graph, so that it matches there at least, mostly."""

    def __init__(self, chance: Random, found: Graph) -> None:
        self.chance, self.names = chance, dict[Output, str]()
        self.labels: list[str] = []
        ops = [n for n in found.nodes() if n.op in UNARY + BINARY + ("Split",)]
        first = self.term(Output(chance.choice(ops), 0), 3, root=True)
        self.pattern = [first]
        second = [n for n in ops if any(read in self.names for read in n.inputs)]
        if second and chance.random() < 0.3:
            term = self.term(Output(chance.choice(second), 0), 1, root=True)
            if any(f"${name}" in term for name in self.names.values()):
                self.pattern.append(term)

    def text(self) -> str:
        pattern, results = self.pattern, [self.new(2) for _ in self.pattern]
        if len(pattern) == 1:
            return f"{pattern[0]} -> {results[0]}"
        return f"({', '.join(pattern)}) -> ({', '.join(results)})"

    def term(self, tensor: Output, depth: int, root: bool = False) -> str:
        chance, op = self.chance, tensor.node.op
        if op == "Const" and chance.random() < 0.5 and tensor.node.name != "axis":
            return str((*NUMBERS, 0.5)[int(tensor.node.name[1:])]) if chance.random() < 0.8 else "3"
        if not root and (depth == 0 or chance.random() < 0.3 or op in ("Const", "Placeholder")):
            if chance.random() < 0.1:
                return "_"
            name = self.names.setdefault(tensor, f"v{len(self.names)}")
            return f"${name}" + (":const" if op == "Const" and chance.random() < 0.3 else "")
        ops = op if chance.random() < 0.7 else "*" if chance.random() < 0.3 and not root else f"{op}|Neg|Mul"
        inputs = ", ".join(self.term(read, depth - 1) for read in tensor.node.inputs)
        label = ""
        if chance.random() < 0.3:
            label = f"l{len(self.labels)}"
            self.labels.append(label)
            label += "="
        if not root and op in UNARY and chance.random() < 0.2:
            return f"{ops}?({inputs})"
        if chance.random() < 0.1:
            inputs = "..."
        port = f":{tensor.index}" if tensor.index else ""
        out = f"{label}{ops}({inputs}){port}"
        return f"Abs?({out})" if not root and chance.random() < 0.1 else out

    def new(self, depth: int) -> str:
        chance, names = self.chance, [f"${name}" for name in self.names.values()] or ["0.25"]
        kind = chance.random()
        if self.labels and kind < 0.1:
            label = chance.choice(self.labels)
            return label if depth < 2 else f"{label}({self.new(depth - 1)})"
        if depth == 0 or kind < 0.25:
            return chance.choice([*names, "0.25"]) if depth < 2 else chance.choice(names)
        if kind < 0.6:
            return f"{chance.choice(UNARY)}({self.new(depth - 1)})"
        return f"{chance.choice(BINARY)}({self.new(depth - 1)}, {self.new(depth - 1)})"


def spelt(found: Graph, text: str) -> list[dict[str, str]]:
    """What each node matches, in the first few ways, as the matcher has it."""
    topology, rule = topology_of(found), rule_of(text)
    matcher = Matcher(topology, rule, ())
    out = []
    for root in matcher.roots():
        for way in islice(matcher.ways(root), 20):
            match = match_of(topology, rule, way)
            names = {name: tensor.name for name, tensor in match.tensors.items()}
            out.append({"": topology.name(root), **names, **{label: n.name for label, n in match.nodes.items()}})
    return out


def plainly(found: Graph, text: str) -> list[dict[str, str]]:
    """The same by a plain search."""
    match = PlainMatch(found, rule_of(text))
    out = []
    for root in match.roots():
        for env in islice(match.ways(root), 20):
            names = {name: tensor.name for name, tensor in env.tensors.items()}
            out.append({"": root.name, **names, **{label: n.name for label, n in env.nodes.items()}})
    return out


def some_rule(chance: Random, found: Graph) -> str | None:
    """A valid rule: bindings of an optional node can be missing, so the replacement does not use them."""
    for _ in range(20):
        try:
            text = RandomRule(chance, found).text()
            rule_of(text)
            return text
        except UsageError as error:
            assert error.code == "bad-rule"
    return None


def test_a_rule_matches_and_is_carried_out_as_by_plain_means() -> None:
    """And enough of them match, and are carried out."""
    counts = {"rules": 0, "matched": 0, "replaced": 0}

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 10**9))
    def check(seed: int) -> None:
        chance = Random(seed)
        found = some_graph(chance)
        text = some_rule(chance, found)
        if text is None:
            return
        ways = spelt(found, text)
        assert ways == plainly(found, text), text
        counts["rules"] += 1
        other = some_rule(chance, found) if chance.random() < 0.3 else None
        counts["matched"] += bool(ways)

        rules = [rule_of(each, name=each) for each in (text, other) if each is not None]
        try:
            account(found, rewrite(found, rules, limit=chance.choice([None, None, 1, 3])))
            counts["replaced"] += 1
        except EditError as error:
            assert not found.is_changed, text
            assert error.code in ("nothing-matched", "nothing-replaced", "nothing-to-do", "bad-rule"), text

    check()
    assert counts["rules"] >= 150
    assert counts["matched"] > 0.6 * counts["rules"]
    assert counts["replaced"] > 0.25 * counts["rules"]
