"""Random rules on random graphs: what matches is what a plain search finds, and what is written what it comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from support.expecting import account
from support.graphs import INT32, const, graph, node, placeholder, typed

from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.edits.rewrite import rewrite
from gdsurgeon.edits.rewriting.matching import Matcher
from gdsurgeon.errors import EditError, UsageError
from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS
from gdsurgeon.patterns.parse import rule_of
from gdsurgeon.patterns.terms import MOST_EQUAL, Anything, Op, Ref, Rule, Term, Value, Variable
from gdsurgeon.specification.rewrite import are_near


class Env(NamedTuple):
    """The tensors and nodes that names are bound to."""

    tensors: dict[str, Output]
    nodes: dict[str, Node]


class PlainMatch:
    """A pattern without tests of attributes, compared with the nodes of a graph."""

    def __init__(self, graph: Graph, rule: Rule) -> None:
        self.graph, self.rule = graph, rule

    def roots(self, term: Term | None = None) -> list[Node]:
        """Returns the nodes whose op is that of the first result, or of `term`."""
        first = self.rule.pattern[0] if term is None else term
        return [node for node in self.graph.nodes() if isinstance(first, Op) and is_of(first, node.op)]

    def ways(self, root: Node) -> Iterator[Env]:
        """Yields all ways in which the rule matches at `root`."""
        first = self.rule.pattern[0]
        assert isinstance(first, Op)
        for env in self.held(first, Output(root, first.port), Env({}, {})):
            yield from self._others(env, 1, {root})

    def _others(self, env: Env, index: int, roots: set[Node]) -> Iterator[Env]:
        if index == len(self.rule.pattern):
            yield env
            return
        term = self.rule.pattern[index]
        if isinstance(term, Ref):
            if term.label in env.nodes:
                yield from self._others(env, index + 1, roots)
            return
        assert isinstance(term, Op)
        for root in self.roots(term):
            if root not in roots:
                for more in self.held(term, Output(root, term.port), env):
                    yield from self._others(more, index + 1, {*roots, root})

    def held(self, term: Term, tensor: Output, env: Env) -> Iterator[Env]:
        """Yields the ways in which `term` matches `tensor`, if names have the bindings of `env`."""
        node = tensor.node
        if isinstance(term, Variable):
            assert term.kind in ("", "const") and term.dims is None and term.bounds is None
            known = env.tensors.get(term.name, tensor)
            if (not term.kind or node.op == "Const") and (known == tensor or is_equal(known.node, node)):
                yield env._replace(tensors={**env.tensors, term.name: known})
        elif isinstance(term, Op):
            if tensor.index == term.port and is_of(term, node.op):
                assert not term.attrs
                nodes = {**env.nodes, term.label: node} if term.label else env.nodes
                yield from self._inputs(term, node, Env(env.tensors, nodes))
            if term.optional and term.inputs:
                yield from self.held(term.inputs[0], tensor, env)
        elif (
            isinstance(term, Anything)
            or (isinstance(term, Value) and is_value(term, node))
            or (isinstance(term, Ref) and (env.nodes.get(term.label), term.port) == (node, tensor.index))
        ):
            yield env

    def _inputs(self, term: Op, node: Node, env: Env) -> Iterator[Env]:
        reads = list(node.inputs)
        if term.inputs is None:
            yield env
        elif len(reads) == len(term.inputs) or (len(reads) > len(term.inputs) and term.rest):
            yield from self._each(term.inputs, reads, env)
            is_text = node.op == "Add" and node.output.dtype == STRING
            is_pair = len(reads) == len(term.inputs) == 2 and reads[0] != reads[1]
            if is_pair and node.op in COMMUTATIVE and not is_text:
                yield from self._each(term.inputs, reads[::-1], env)

    def _each(self, terms: Sequence[Term], tensors: Sequence[Output], env: Env) -> Iterator[Env]:
        if not terms:
            yield env
            return
        for more in self.held(terms[0], tensors[0], env):
            yield from self._each(terms[1:], tensors[1:], more)


def is_of(term: Op, op: str) -> bool:
    """Returns whether `term` allows an op."""
    return op in term.ops or (not term.ops and op not in CONTROL_FLOW and op not in PLACEHOLDERS)


def value_of(node: Node) -> Constant | None:
    """Returns the value of a small constant."""
    return constant(node) if node.op == "Const" else None


def is_equal(one: Node, other: Node) -> bool:
    """Returns whether two nodes are small constants with the same value."""
    a, b = value_of(one), value_of(other)
    if a is None or b is None or max(len(a.values), len(b.values)) > MOST_EQUAL:
        return False
    return (a.dtype, a.shape, *map(repr, a.values)) == (b.dtype, b.shape, *map(repr, b.values))


def is_value(term: Value, node: Node) -> bool:
    """Returns whether a node is a constant whose numbers all have the value of `term`."""
    found = value_of(node)
    assert not term.shape
    if found is None or not found.values:
        return False
    want = term.values[0]
    return all(
        not isinstance(have, bytes) and (have == want or (not isinstance(have, int) and are_near(have, want, 1e-5)))
        for have in found.values
    )


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
        for match in islice(matcher.ways(root), 20):
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
