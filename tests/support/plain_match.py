"""Patterns matched by plain means: from the top, by names, every way there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gdsurgeon.graph.constants import Constant, constant
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.ops.dtypes import STRING
from gdsurgeon.ops.kinds import COMMUTATIVE, CONTROL_FLOW, PLACEHOLDERS
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
