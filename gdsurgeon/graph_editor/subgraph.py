"""Views of parts of a graph, made of whatever names nodes and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdsurgeon.errors import quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.lists import ListView, make_list_of_op, make_list_of_t
from gdsurgeon.graph_editor.refusal import Refusal
from gdsurgeon.graph_editor.select import get_name_scope_ops, select_ops_and_ts
from gdsurgeon.graph_editor.view import Subgraph


class SubGraphView(Subgraph):
    """gdsurgeon's `Subgraph` in the words of the older libraries; its refusals are ValueErrors.

    It is true where it has a node or a tensor, and can be used in a ``with`` statement. Functions that rewire the
    inputs of a view change the view along with the graph.

    Args:
        inside_ops: the nodes; a graph, a node or several.
        passthrough_ts: tensors that go straight through; a tensor or several.

    Raises:
        TypeError: something else is given.
        ValueError: nodes and tensors are not of one graph.
    """

    refusal = Refusal

    def __init__(self, inside_ops: object = (), passthrough_ts: object = ()) -> None:
        super().__init__(make_list_of_op(inside_ops), make_list_of_t(passthrough_ts))

    def __bool__(self) -> bool:
        return self.graph is not None

    def __enter__(self) -> SubGraphView:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def ops(self) -> list[Node]:
        """The nodes."""
        return list(self.nodes)

    @property
    def inputs(self) -> Sequence[Output]:
        """The tensors that it takes, in a list that cannot be changed."""
        return ListView(self._inputs)

    @property
    def outputs(self) -> Sequence[Output]:
        """The tensors that it gives, in a list that cannot be changed."""
        return ListView(self._outputs)

    @property
    def passthroughs(self) -> Sequence[Output]:
        """The tensors that go straight through, in a list that cannot be changed."""
        return ListView(self._passthroughs)

    def op(self, op_id: int) -> Node:
        """The node at a place."""
        return self._nodes[op_id]

    def find_op_by_name(self, op_name: str) -> Node:
        """The node of that name. Raises ValueError where the view has none."""
        for node in self._nodes:
            if node.name == op_name:
                return node
        raise Refusal(f"the subgraph has no node {quoted(op_name)}", code="no-such-node", facts={"node": op_name})

    def take_inputs(self, inputs: Sequence[Output]) -> None:
        """Replaces the inputs of the view by `inputs`, in place; outputs that are inputs are replaced likewise."""
        given = dict(zip(self._inputs, inputs, strict=True))
        through = set(self._passthroughs)
        self._inputs = tuple(inputs)
        self._passthroughs = tuple(given.get(output, output) for output in self._passthroughs)
        self._outputs = tuple(given.get(output, output) if output in through else output for output in self._outputs)


def make_view(*args: object, **kwargs: Any) -> SubGraphView:
    """A view of nodes and passthrough tensors; a view as the only argument is returned as it is.

    Args:
        args: regular expressions, nodes, tensors, or lists of nodes and tensors; see `select_ops_and_ts`.
        kwargs: `graph` in which the regular expressions are searched, and to which all must belong.

    Raises:
        TypeError: something else is given.
        ValueError: something is of another graph, a keyword is unknown, or there is a regular expression and no graph.
    """
    graph: Graph | None = kwargs.get("graph")
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        view = args[0]
    elif len(args) == 1 and isinstance(args[0], Graph):
        view = SubGraphView(args[0])
    else:
        view = SubGraphView(*select_ops_and_ts(*args, **kwargs))
    if graph is not None and view.graph not in (None, graph):
        raise Refusal("the subgraph belongs to a different graph", code="other-graph")
    return view


def make_view_from_scope(scope: str, graph: Graph) -> SubGraphView:
    """A view of the nodes of GRAPH under a name scope; see `get_name_scope_ops`."""
    return SubGraphView(get_name_scope_ops(graph, scope))
