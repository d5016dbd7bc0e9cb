"""A part of a graph seen as a function: its nodes, its inputs and its outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from gdsurgeon.analysis.traversal.topology import boundary
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph_editor.select import (
    get_backward_walk_ops,
    get_forward_walk_ops,
    get_name_scope_ops,
    select_ops_and_ts,
)
from gdsurgeon.graph_editor.util import (
    ListView,
    check_one_graph,
    consumers,
    make_list_of_op,
    make_list_of_t,
)
from gdsurgeon.text import counted

__all__ = ["SubGraphView", "SubgraphView", "make_view", "make_view_from_scope", "sgv", "sgv_scope"]

View = TypeVar("View", bound="Subgraph")


class Subgraph:
    """Nodes of one graph as a function ``inputs -> outputs``.

    At first the inputs are the tensors from outside that the nodes read, in the order of first use. The outputs are
    the tensors of the nodes that outside nodes read, or that have no consumers. Both can be remapped: an input that is
    left out counts as given, an output may be left out or occur several times::

        view = Subgraph([graph["mul"], graph["add"]])       # a, b, c -> add
        view.remap_inputs([2, 0]).remap_outputs([0, 0])     # c, a -> add, add

    A view does not change the graph, and later edits do not change the view; remapping returns a different view.

    Args:
        nodes: the nodes.
        passthroughs: tensors that are both an input and an output; tensors that the nodes read or compute are ignored.

    Attributes:
        graph: the graph; None without nodes and tensors.
        nodes: the nodes. This and the other lists cannot be changed.
        inputs: the inputs.
        outputs: the outputs.
        passthroughs: the tensors that are both an input and an output.

    Raises:
        ValueError: nodes and tensors belong to different graphs.
    """

    def __init__(self, nodes: Iterable[Node] = (), passthroughs: Iterable[Output] = ()) -> None:
        self.nodes = ListView(list(dict.fromkeys(nodes)))
        through = tuple(passthroughs)
        items = [*self.nodes, *(output.node for output in through)]
        check_one_graph(items)
        self.graph: Graph | None = graph_of(items[0]) if items else None
        edges = boundary(self.nodes)
        touched = {*edges.inputs, *edges.outputs, *edges.inside}
        self.passthroughs = ListView([output for output in through if output not in touched])
        self.inputs = ListView(edges.inputs + self.passthroughs)
        self.outputs = ListView(edges.outputs + self.passthroughs)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(printable(tensor.name) for tensor in side) for side in (self.inputs, self.outputs))
        return f"<{type(self).__name__} of {counted(len(self.nodes), 'node')}: {inputs} -> {outputs}>"

    @property
    def connected_inputs(self) -> list[Output]:
        """The inputs without the passthroughs."""
        through = frozenset(self.passthroughs)
        return [tensor for tensor in self.inputs if tensor not in through]

    @property
    def connected_outputs(self) -> list[Output]:
        """The outputs without the passthroughs."""
        through = frozenset(self.passthroughs)
        return [tensor for tensor in self.outputs if tensor not in through]

    def is_passthrough(self, tensor: Output) -> bool:
        """Returns whether a tensor is one of the passthroughs."""
        return tensor in self.passthroughs

    def input_index(self, tensor: Output) -> int:
        """Returns the index of an input. Raises EditError if `tensor` is not an input."""
        return _indices([tensor], self.inputs, "input")[0]

    def output_index(self, tensor: Output) -> int:
        """Returns the first index of an output. Raises EditError if `tensor` is not an output."""
        return _indices([tensor], self.outputs, "output")[0]

    def consumers(self) -> list[Node]:
        """Returns the outside nodes that read one of the outputs, each once."""
        members = set(self.nodes)
        found = (node for output in self.outputs for node in consumers(output))
        return [node for node in dict.fromkeys(found) if node not in members]

    # -- other views of the same nodes ---------------------------------------------------------------------

    def copy(self: View) -> View:
        """Returns a copy of the view; the graph does not change."""
        out = type(self).__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def _with(self: View, **fields: Iterable[object]) -> View:
        out = self.copy()
        out.__dict__.update({key: ListView(list(value)) for key, value in fields.items()})
        return out

    def remap(
        self: View,
        new_input_indices: Iterable[int | Output] | None = None,
        new_output_indices: Iterable[int | Output] | None = None,
    ) -> View:
        """Returns a view with some of the inputs and outputs, given as indices or tensors; None: all of them.

        Raises:
            EditError: no such input or output, or an input occurs twice.
        """
        sides: dict[str, list[Output]] = {}
        if new_input_indices is not None:
            inputs = sides["inputs"] = [self.inputs[at] for at in _indices(new_input_indices, self.inputs, "input")]
            for tensor, count in Counter(inputs).items():
                if count > 1:
                    line = f"{quoted(tensor.name)} occurs twice in the inputs"
                    raise EditError(line, code="given-twice", tensor=tensor.name)
        if new_output_indices is not None:
            sides["outputs"] = [self.outputs[at] for at in _indices(new_output_indices, self.outputs, "output")]
        return self._with(**sides)

    def remap_inputs(self: View, new_input_indices: Iterable[int | Output]) -> View:
        """Returns a view with some of the inputs; see `remap`."""
        return self.remap(new_input_indices=new_input_indices)

    def remap_outputs(self: View, new_output_indices: Iterable[int | Output]) -> View:
        """Returns a view with some of the outputs, which may repeat; see `remap`."""
        return self.remap(new_output_indices=new_output_indices)

    def remap_default(self: View, remove_input_map: bool = True, remove_output_map: bool = True) -> View:
        """Returns a view with all present inputs, and all present outputs, of the nodes."""
        edges = boundary(self.nodes)
        return self._with(
            inputs=(*edges.inputs, *self.passthroughs) if remove_input_map else self.inputs,
            outputs=(*edges.outputs, *self.passthroughs) if remove_output_map else self.outputs,
        )

    def remap_outputs_make_unique(self: View) -> View:
        """Returns a view with each output once."""
        return self._with(outputs=dict.fromkeys(self.outputs))

    def remap_outputs_to_consumers(self: View) -> View:
        """Returns a view with each output once for each node that reads it, inside or outside."""
        return self._with(outputs=(output for output in dict.fromkeys(self.outputs) for _ in consumers(output)))

    def remove_unused_ops(self: View, control_inputs: bool = True) -> View:
        """Returns a view of the nodes that depend on its inputs, or that its outputs depend on.

        Args:
            control_inputs: whether an output also needs its control inputs.
        """
        used = {
            *get_forward_walk_ops(self.connected_inputs, within_ops=self.nodes),
            *get_backward_walk_ops(self.connected_outputs, within_ops=self.nodes, control_inputs=control_inputs),
        }
        return self._with(nodes=(node for node in self.nodes if node in used))


def _indices(items: Iterable[int | Output], among: Sequence[Output], what: str) -> list[int]:
    """Returns the index of each item. Raises EditError if there is no such input or output."""
    places = {tensor: place for place, tensor in reversed(list(enumerate(among)))}
    out: list[int] = []
    for item in items:
        if isinstance(item, Output) and item not in places:
            line = f"{quoted(item.name)} is not an {what} of the subgraph"
            raise EditError(line, code=f"no-such-{what}", tensor=item.name)
        place = places[item] if isinstance(item, Output) else item
        if not 0 <= place < len(among):
            line = f"{what} {place} does not exist: the subgraph has {len(among)}"
            raise EditError(line, code=f"no-such-{what}", value=place, count=len(among))
        out.append(place)
    return out


class SubGraphView(Subgraph):
    """gdsurgeon's `Subgraph` with the interface of the older libraries.

    It is true if it has a node or a tensor, and can be used in a ``with`` statement. Functions that rewire the inputs
    of a view also change the view.

    Args:
        inside_ops: the nodes; a graph, a node or several.
        passthrough_ts: tensors that are both an input and an output; a tensor or several.

    Raises:
        TypeError: an argument has a different type.
        ValueError: nodes and tensors belong to different graphs.
    """

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

    def op(self, op_id: int) -> Node:
        """Returns the node with an index."""
        return self.nodes[op_id]

    def find_op_by_name(self, op_name: str) -> Node:
        """Returns the node with a name. Raises ValueError if the view does not have it."""
        for node in self.nodes:
            if node.name == op_name:
                return node
        raise EditError(f"the subgraph has no node {quoted(op_name)}", code="no-such-node", node=op_name)

    def take_inputs(self, inputs: Sequence[Output]) -> None:
        """Replaces the inputs of the view by `inputs`, in place, and the outputs that are passthroughs."""
        new = dict(zip(self.inputs, inputs, strict=True))
        through = set(self.passthroughs)
        self.inputs = ListView(list(inputs))
        self.passthroughs = ListView([new.get(output, output) for output in self.passthroughs])
        self.outputs = ListView([new.get(o, o) if o in through else o for o in self.outputs])


SubgraphView = SubGraphView


def make_view(*args: object, **kwargs: Any) -> SubGraphView:
    """Returns a view of nodes and passthrough tensors; a view as the only argument is returned itself.

    Args:
        args: regular expressions, nodes, tensors, or lists of nodes and tensors; see `select_ops_and_ts`.
        kwargs: `graph` in which the regular expressions are searched, and to which all arguments must belong.

    Raises:
        TypeError: an argument has a different type.
        ValueError: an argument belongs to a different graph, a keyword is unknown, or there is a regular expression and
            no graph.
    """
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        view = args[0]
    elif len(args) == 1 and isinstance(args[0], Graph):
        view = SubGraphView(args[0])
    else:
        view = SubGraphView(*select_ops_and_ts(*args, **kwargs))
    if kwargs.get("graph") is not None and view.graph not in (None, kwargs["graph"]):
        raise EditError("the subgraph belongs to a different graph", code="other-graph")
    return view


def make_view_from_scope(scope: str, graph: Graph) -> SubGraphView:
    """Returns a view of the nodes of `graph` under a name scope; see `get_name_scope_ops`."""
    return SubGraphView(get_name_scope_ops(graph, scope))


sgv, sgv_scope = make_view, make_view_from_scope
