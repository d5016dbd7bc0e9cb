"""Structural matching: finds nodes by their op and name, their inputs and their consumers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from textwrap import indent
from typing import overload

from gdsurgeon.graph.node import Node
from gdsurgeon.graph_editor.refusal import Refusal, WrongType
from gdsurgeon.graph_editor.view import consumers, node_outputs

Predicate = Callable[[Node], bool]
NodeFilter = str | re.Pattern[str] | Node | bool | Predicate
"""A regular expression (searched in the name), the node itself, a predicate, or True for any node."""
Wanted = NodeFilter | None
"""What a neighbour must be; None: anything."""


@overload
def op_type(op_types: str | Iterable[str]) -> Predicate: ...
@overload
def op_type(op_types: str | Iterable[str], op: Node) -> bool: ...
def op_type(op_types: str | Iterable[str], op: Node | None = None) -> Predicate | bool:
    """Returns whether the node `op` has one of these op types; without `op`, a predicate that checks it for a node."""
    wanted = frozenset((op_types,) if isinstance(op_types, str) else op_types)

    def is_one(node: Node) -> bool:
        return node.exists and node.op in wanted

    return is_one if op is None else is_one(op)


class NodeMatcher:
    """A pattern for a node and its neighbours; called with a node, it says whether that matches::

        bias = NodeMatcher(op_type("BiasAdd")).input_ops(op_type("Conv2D"), None)
        relu = NodeMatcher(op_type(("Relu", "Relu6"))).input_ops(bias)
        found = [node for node in graph.nodes() if relu(node)]

    Numbers of neighbours must be right exactly; None stands for any neighbour.

    Args:
        positive_filter: see `NodeFilter`.

    Raises:
        ValueError: it is not a matcher. re.error: it is not a regular expression.
    """

    def __init__(self, positive_filter: NodeFilter) -> None:
        self._filter = _predicate(positive_filter)
        self._inputs: list[Predicate | None] | None = None
        self._controls: list[Predicate | None] | None = None
        self._outputs: list[list[Predicate | None] | None] | None = None

    def input_ops(self, *args: Wanted) -> NodeMatcher:
        """Sets the nodes of the data inputs, in order. Raises ValueError if they are already set."""
        if self._inputs is not None:
            raise Refusal("the data inputs are already set", code="given-twice", facts={"value": "inputs"})
        self._inputs = [_matcher(arg) for arg in args]
        return self

    def control_input_ops(self, *args: Wanted) -> NodeMatcher:
        """Sets the nodes of the control inputs, in any order. Raises ValueError if they are already set."""
        if self._controls is not None:
            raise Refusal("the control inputs are already set", code="given-twice", facts={"value": "controls"})
        self._controls = [_matcher(arg) for arg in args]
        return self

    def output_ops(self, *args: Wanted | list[Wanted]) -> NodeMatcher:
        """Sets for each output the nodes that read it, in any order: one node or a list, [] for no consumer.

        Raises:
            ValueError: they are already set.
        """
        if self._outputs is not None:
            raise Refusal("the outputs are already set", code="given-twice", facts={"value": "outputs"})
        self._outputs = [None if arg is None else _matchers(arg) for arg in args]
        return self

    def __call__(self, op: Node) -> bool:
        """Whether the node OP matches. Raises TypeError where it is no node."""
        if not isinstance(op, Node):
            raise WrongType("Node", op)
        return self._filter(op) and self._matches_inputs(op) and self._matches_outputs(op)

    def _matches_inputs(self, op: Node) -> bool:
        if self._inputs is not None:
            if len(self._inputs) != len(op.inputs):
                return False
            pairs = zip(self._inputs, op.inputs, strict=True)
            if not all(match is None or match(read.node) for match, read in pairs):
                return False
        return self._controls is None or _assignable(self._controls, list(dict.fromkeys(op.controls)))

    def _matches_outputs(self, op: Node) -> bool:
        if self._outputs is None:
            return True
        outputs = node_outputs(op)
        if len(outputs) != len(self._outputs):
            return False
        pairs = zip(self._outputs, outputs, strict=True)
        return all(wanted is None or _assignable(wanted, consumers(output)) for wanted, output in pairs)


def _predicate(wanted: object) -> Predicate:
    if isinstance(wanted, (str, re.Pattern)):
        search = re.compile(wanted).search
        return lambda node: search(node.name) is not None
    if isinstance(wanted, Node):
        return lambda node: node is wanted
    if wanted is True:
        return lambda node: True
    if callable(wanted):
        return wanted
    raise Refusal(
        f"a node is matched by a regular expression, a Node, True or a predicate, not by {type(wanted).__name__}",
        code="bad-value",
        facts={"found": type(wanted).__name__},
    )


def _matcher(wanted: Wanted) -> Predicate | None:
    return None if wanted is None else _predicate(wanted)


def _matchers(wanted: Wanted | list[Wanted]) -> list[Predicate | None]:
    return [_matcher(item) for item in (wanted if isinstance(wanted, list) else [wanted])]


def _assignable(wanted: Sequence[Predicate | None], nodes: Sequence[Node]) -> bool:
    """Whether each pattern can have a node of its own, and each node is taken: a perfect bipartite matching.

    By augmenting paths (Kuhn, 1955); patterns are few.
    """
    if len(wanted) != len(nodes):
        return False
    fits = [[j for j, node in enumerate(nodes) if match is None or match(node)] for match in wanted]
    taken: dict[int, int] = {}

    def place(i: int, tried: set[int]) -> bool:
        for j in fits[i]:
            if j not in tried:
                tried.add(j)
                if j not in taken or place(taken[j], tried):
                    taken[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(wanted)))


class TreeExpr:
    """A pattern for the tree of nodes above a node, in the manner of the Graph Transform Tool's OpTypePattern::

        TreeExpr(op="Relu|Relu6", alias="relu", inputs=TreeExpr(
            op="BiasAdd", optional=True, inputs=TreeExpr(op="Conv2D", alias="conv")))

    Args:
        alias: the name under which the node is found in what `eval_from` returns.
        op: a regular expression that the whole op type must match; None: any.
        optional: whether the node may be missing; then its only input replaces it.
        inputs: patterns for the nodes of the first data inputs, or one pattern; None: any.

    Raises:
        ValueError: the node is optional and has several inputs.
        re.error: OP is no regular expression.
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
            raise Refusal(
                "an optional node has at most one input", code="wrong-count", facts={"found": len(self._inputs)}
            )
        self._alias = alias
        self._op = None if op is None else re.compile(op)
        self._optional = bool(optional)

    def __repr__(self) -> str:
        said = [
            f"{key}={value!r}"
            for key, value in (("alias", self._alias), ("op", self._op and self._op.pattern))
            if value is not None
        ]
        said += ["optional=True"] * self._optional
        if self._inputs:
            said.append("inputs=(\n" + ",\n".join(indent(repr(item), "    ") for item in self._inputs) + ")")
        return f"TreeExpr({', '.join(said)})"

    def eval_from(self, potential_root_node: Node) -> dict[str, Node] | None:
        """The node of each alias where the tree above POTENTIAL_ROOT_NODE matches, else None."""
        found = self._matched(potential_root_node)
        if found is not None or not self._optional:
            return found
        return self._inputs[0].eval_from(potential_root_node) if self._inputs else {}

    def _matched(self, node: Node) -> dict[str, Node] | None:
        """The aliases where NODE itself is the node that this speaks of."""
        if not node.exists or (self._op is not None and self._op.fullmatch(node.op) is None):
            return None
        if len(self._inputs) > len(node.inputs):
            return None
        out: dict[str, Node] = {}
        for wanted, read in zip(self._inputs, node.inputs, strict=False):
            found = wanted.eval_from(read.node)
            if found is None:
                return None
            out.update(found)
        if self._alias is not None:
            out[self._alias] = node
        return out
