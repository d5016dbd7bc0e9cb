"""Structural matching: finds nodes by their op and name, their inputs and their consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import overload

from gdsurgeon.errors import EditError
from gdsurgeon.graph.node import Node
from gdsurgeon.graph_editor.util import check_type, consumers, node_outputs

__all__ = ["NodeMatcher", "OpMatcher", "TreeExpr", "op_type"]

Predicate = Callable[[Node], bool]
NodeFilter = str | re.Pattern[str] | Node | bool | Predicate
"""A regular expression (searched in the name), the node itself, a predicate, or True for any node."""
Neighbour = NodeFilter | None
"""A pattern for a neighbour; None matches any node."""


@overload
def op_type(op_types: str | Iterable[str]) -> Predicate: ...
@overload
def op_type(op_types: str | Iterable[str], op: Node) -> bool: ...
def op_type(op_types: str | Iterable[str], op: Node | None = None) -> Predicate | bool:
    """Returns whether the op type of `op` is in `op_types`; without `op`, a predicate that checks it for a node."""
    ops = frozenset((op_types,) if isinstance(op_types, str) else op_types)

    def is_one(node: Node) -> bool:
        return node.exists and node.op in ops

    return is_one if op is None else is_one(op)


class NodeMatcher:
    """A pattern for a node and its neighbours. Called with a node, it returns whether the node matches::

        bias = NodeMatcher(op_type("BiasAdd")).input_ops(op_type("Conv2D"), None)
        relu = NodeMatcher(op_type(("Relu", "Relu6"))).input_ops(bias)
        found = [node for node in graph.nodes() if relu(node)]

    The number of neighbours must be equal; None matches any neighbour.

    Args:
        positive_filter: see `NodeFilter`.

    Raises:
        ValueError: the argument is not a pattern. re.error: it is not a valid regular expression.
    """

    def __init__(self, positive_filter: NodeFilter) -> None:
        self._filter = _predicate(positive_filter)
        self._checks: dict[str, Predicate] = {}

    def input_ops(self, *args: Neighbour) -> NodeMatcher:
        """Sets the nodes of the data inputs, in order. Raises ValueError if they are already set."""
        patterns = _predicates(args)

        def check(op: Node) -> bool:
            nodes = [read.node for read in op.inputs]
            return len(nodes) == len(patterns) and all(match(node) for match, node in zip(patterns, nodes, strict=True))

        return self._with("inputs", check)

    def control_input_ops(self, *args: Neighbour) -> NodeMatcher:
        """Sets the nodes of the control inputs, in any order. Raises ValueError if they are already set."""
        patterns = _predicates(args)
        return self._with("controls", lambda op: _assignable(patterns, list(dict.fromkeys(op.controls))))

    def output_ops(self, *args: Neighbour | list[Neighbour]) -> NodeMatcher:
        """Sets for each output the nodes that read it, in any order: one node or a list, [] for no consumer.

        Raises:
            ValueError: they are already set.
        """
        wanted = [None if arg is None else _predicates(arg if isinstance(arg, list) else [arg]) for arg in args]

        def check(op: Node) -> bool:
            outputs = node_outputs(op)
            return len(outputs) == len(wanted) and all(
                patterns is None or _assignable(patterns, consumers(output))
                for patterns, output in zip(wanted, outputs, strict=True)
            )

        return self._with("outputs", check)

    def _with(self, what: str, check: Predicate) -> NodeMatcher:
        if what in self._checks:
            raise EditError(f"the {what} are already set", code="given-twice", value=what)
        self._checks[what] = check
        return self

    def __call__(self, op: Node) -> bool:
        """Returns whether the node `op` matches. Raises TypeError if it is not a node."""
        check_type(op, Node)
        return self._filter(op) and all(check(op) for check in self._checks.values())


OpMatcher = NodeMatcher


def _predicate(pattern: object) -> Predicate:
    if isinstance(pattern, (str, re.Pattern)):
        search = re.compile(pattern).search
        return lambda node: search(node.name) is not None
    if isinstance(pattern, Node):
        return lambda node: node is pattern
    if pattern is True:
        return lambda node: True
    if callable(pattern):
        return pattern
    found = type(pattern).__name__
    line = f"a node is matched by a regular expression, a Node, True or a predicate, not by {found}"
    raise EditError(line, code="bad-value", found=found)


def _predicates(patterns: Iterable[Neighbour]) -> list[Predicate]:
    return [_predicate(True if pattern is None else pattern) for pattern in patterns]


def _assignable(patterns: Sequence[Predicate], nodes: Sequence[Node]) -> bool:
    """Returns whether each pattern can have its own node, and each node a pattern: a perfect bipartite matching.

    By augmenting paths (Kuhn, 1955); patterns are few.
    """
    taken: dict[Node, Predicate] = {}

    def assign(match: Predicate, tried: set[Node]) -> bool:
        for node in nodes:
            if node not in tried and match(node):
                tried.add(node)
                if node not in taken or assign(taken[node], tried):
                    taken[node] = match
                    return True
        return False

    return len(patterns) == len(nodes) and all(assign(match, set()) for match in patterns)


class TreeExpr:
    """A pattern for the tree of nodes upstream of a node, similar to the Graph Transform Tool's OpTypePattern::

        TreeExpr(op="Relu|Relu6", alias="relu", inputs=TreeExpr(
            op="BiasAdd", optional=True, inputs=TreeExpr(op="Conv2D", alias="conv")))

    Args:
        alias: the key of the node in the result of `eval_from`.
        op: a regular expression that must match the whole op type; None: any.
        optional: whether the node may be missing; then its only input replaces it.
        inputs: patterns for the nodes of the first data inputs, or one pattern; None: any.

    Raises:
        ValueError: the node is optional and has several inputs.
        re.error: `op` is not a valid regular expression.
    """

    def __init__(
        self,
        alias: str | None = None,
        op: str | re.Pattern[str] | None = None,
        optional: bool | None = None,
        inputs: TreeExpr | Iterable[TreeExpr] | None = None,
    ) -> None:
        self._inputs = (inputs,) if isinstance(inputs, TreeExpr) else tuple(inputs or ())
        if optional and len(self._inputs) > 1:
            found = len(self._inputs)
            raise EditError("an optional node has at most one input", code="wrong-count", found=found)
        self._alias = alias
        self._op = None if op is None else re.compile(op)
        self._optional = bool(optional)

    def __repr__(self) -> str:
        fields = {"alias": self._alias, "op": self._op and self._op.pattern, "optional": self._optional or None}
        shown = [f"{key}={value!r}" for key, value in fields.items() if value is not None]
        if self._inputs:
            shown.append("inputs=(\n" + ",\n".join(indent(repr(item), "    ") for item in self._inputs) + ")")
        return f"TreeExpr({', '.join(shown)})"

    def eval_from(self, potential_root_node: Node) -> dict[str, Node] | None:
        """Returns the node of each alias if the tree upstream of `potential_root_node` matches, else None."""
        found = self._matched(potential_root_node)
        if found is not None or not self._optional:
            return found
        return self._inputs[0].eval_from(potential_root_node) if self._inputs else {}

    def _matched(self, node: Node) -> dict[str, Node] | None:
        """Returns the aliases if `node` itself matches this pattern, else None."""
        if not node.exists or (self._op is not None and self._op.fullmatch(node.op) is None):
            return None
        if len(self._inputs) > len(node.inputs):
            return None
        out: dict[str, Node] = {}
        for pattern, read in zip(self._inputs, node.inputs, strict=False):
            found = pattern.eval_from(read.node)
            if found is None:
                return None
            out.update(found)
        if self._alias is not None:
            out[self._alias] = node
        return out
