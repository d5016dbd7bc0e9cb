"""A part of a graph seen as a function: its nodes, the tensors that they take, and those that they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

from gdsurgeon.analysis.traversal.boundary import boundary
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.graph import Graph, graph_of
from gdsurgeon.graph.node import Node, Output

View = TypeVar("View", bound="Subgraph")
Predicate = Callable[[Node], bool]


class Subgraph:
    """Nodes of one graph as a function ``inputs -> outputs``.

    At first the inputs are the tensors from outside that the nodes read, in the order of first use. The outputs are
    the tensors of the nodes that outside nodes read, or that have no consumers. Both can be remapped: an input that is
    left out counts as given, an output may be left out or occur several times::

        view = Subgraph([graph["mul"], graph["add"]])       # a, b, c -> add
        view.remap_inputs([2, 0]).remap_outputs([0, 0])     # c, a -> add, add

    A view changes nothing in the graph and does not hear of later edits; remapping gives another view.

    Args:
        nodes: the nodes.
        passthroughs: tensors that go straight from the inputs to the outputs; those that the nodes read or give are
            passed over.

    Raises:
        EditError: nodes and tensors are not of one graph.
    """

    refusal: type[EditError] = EditError
    """What is raised."""

    def __init__(self, nodes: Iterable[Node] = (), passthroughs: Iterable[Output] = ()) -> None:
        self._nodes = tuple(dict.fromkeys(nodes))
        through = tuple(passthroughs)
        self._graph = self._one_graph([*self._nodes, *(output.node for output in through)])
        edges = boundary(self._nodes)
        touched = {*edges.inputs, *edges.outputs, *edges.inside}
        self._passthroughs = tuple(output for output in through if output not in touched)
        self._inputs = (*edges.inputs, *self._passthroughs)
        self._outputs = (*edges.outputs, *self._passthroughs)

    def _one_graph(self, nodes: Sequence[Node]) -> Graph | None:
        for node in nodes:
            if node.graph is not nodes[0].graph:
                raise self.refusal(
                    f"{quoted(nodes[0].name)} and {quoted(node.name)} belong to different graphs",
                    code="other-graph",
                    facts={"name": node.name, "expected": nodes[0].name},
                )
        return graph_of(nodes[0]) if nodes else None

    def __repr__(self) -> str:
        given = ", ".join(printable(output.name) for output in self._inputs)
        result = ", ".join(printable(output.name) for output in self._outputs)
        count = f"{len(self._nodes)} node{'s' if len(self._nodes) != 1 else ''}"
        return f"<{type(self).__name__} of {count}: {given} -> {result}>"

    @property
    def graph(self) -> Graph | None:
        """The graph; None where there is neither a node nor a tensor."""
        return self._graph

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes."""
        return self._nodes

    @property
    def inputs(self) -> Sequence[Output]:
        """The tensors that it takes."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[Output]:
        """The tensors that it gives."""
        return self._outputs

    @property
    def passthroughs(self) -> Sequence[Output]:
        """The tensors that go straight through."""
        return self._passthroughs

    @property
    def connected_inputs(self) -> list[Output]:
        """The inputs that do not go straight through."""
        through = set(self._passthroughs)
        return [output for output in self._inputs if output not in through]

    @property
    def connected_outputs(self) -> list[Output]:
        """The outputs that do not come straight from the inputs."""
        through = set(self._passthroughs)
        return [output for output in self._outputs if output not in through]

    def is_passthrough(self, tensor: Output) -> bool:
        """Whether a tensor goes straight through."""
        return tensor in self._passthroughs

    def input_index(self, tensor: Output) -> int:
        """The place of a tensor among the inputs.

        Raises:
            EditError: it is not an input.
        """
        return self._index(tensor, self._inputs, "input")

    def output_index(self, tensor: Output) -> int:
        """The first place of a tensor among the outputs.

        Raises:
            EditError: it is not an output.
        """
        return self._index(tensor, self._outputs, "output")

    def _index(self, tensor: Output, among: Sequence[Output], what: str) -> int:
        [place] = self._places([tensor], among, what)
        return place

    def consumers(self) -> list[Node]:
        """The nodes outside that read one of the outputs, each once."""
        members = set(self._nodes)
        found = (node for output in self._outputs for node in consumers(output))
        return [node for node in dict.fromkeys(found) if node not in members]

    # -- other views of the same nodes ---------------------------------------------------------------------

    def copy(self: View) -> View:
        """The same view once more; nothing in the graph is copied."""
        out = type(self).__new__(type(self))
        out.__dict__.update(self.__dict__)
        return out

    def remap(
        self: View,
        new_input_indices: Iterable[int | Output] | None = None,
        new_output_indices: Iterable[int | Output] | None = None,
    ) -> View:
        """A view with these of the inputs and of the outputs, by their places or as tensors; None: all as they are.

        Raises:
            EditError: no such input or output, or an input comes twice.
        """
        out = self.copy()
        if new_input_indices is not None:
            places = self._places(new_input_indices, self._inputs, "input")
            for place, count in Counter(places).items():
                if count > 1:
                    tensor = self._inputs[place].name
                    raise self.refusal(f"{quoted(tensor)} occurs twice in the inputs", code="given-twice",
                                       facts={"tensor": tensor})  # fmt: skip
            out._inputs = tuple(self._inputs[place] for place in places)
        if new_output_indices is not None:
            places = self._places(new_output_indices, self._outputs, "output")
            out._outputs = tuple(self._outputs[place] for place in places)
        return out

    def _places(self, wanted: Iterable[int | Output], among: Sequence[Output], what: str) -> list[int]:
        places = {tensor: place for place, tensor in reversed(list(enumerate(among)))}
        out: list[int] = []
        for item in wanted:
            if isinstance(item, Output) and item not in places:
                raise self.refusal(
                    f"{quoted(item.name)} is not an {what} of the subgraph",
                    code=f"no-such-{what}",
                    facts={"tensor": item.name},
                )
            place = places[item] if isinstance(item, Output) else item
            if not 0 <= place < len(among):
                raise self.refusal(
                    f"{what} {place} does not exist: the subgraph has {len(among)}",
                    code=f"no-such-{what}",
                    facts={"value": place, "count": len(among)},
                )
            out.append(place)
        return out

    def remap_inputs(self: View, new_input_indices: Iterable[int | Output]) -> View:
        """A view with these of the inputs; see `remap`."""
        return self.remap(new_input_indices=new_input_indices)

    def remap_outputs(self: View, new_output_indices: Iterable[int | Output]) -> View:
        """A view with these of the outputs, which may repeat; see `remap`."""
        return self.remap(new_output_indices=new_output_indices)

    def remap_default(self: View, remove_input_map: bool = True, remove_output_map: bool = True) -> View:
        """A view with all inputs, and with all outputs, that the nodes have now."""
        out, edges = self.copy(), boundary(self._nodes)
        if remove_input_map:
            out._inputs = (*edges.inputs, *self._passthroughs)
        if remove_output_map:
            out._outputs = (*edges.outputs, *self._passthroughs)
        return out

    def remap_outputs_make_unique(self: View) -> View:
        """A view with each output once."""
        out = self.copy()
        out._outputs = tuple(dict.fromkeys(self._outputs))
        return out

    def remap_outputs_to_consumers(self: View) -> View:
        """A view with each output once for each node that reads it, inside or outside."""
        out = self.copy()
        unique = dict.fromkeys(self._outputs)
        out._outputs = tuple(output for output in unique for _ in consumers(output))
        return out

    def remove_unused_ops(self: View, control_inputs: bool = True) -> View:
        """A view of the nodes that depend on its inputs, or that its outputs depend on.

        Args:
            control_inputs: whether what an output only waits for counts.
        """
        members = set(self._nodes)
        reading = (node for output in self.connected_inputs for node in consumers(output))
        giving = (output.node for output in self.connected_outputs)
        used = {
            *forward_nodes(filter(members.__contains__, reading), within=members.__contains__),
            *backward_nodes(filter(members.__contains__, giving), within=members.__contains__, control=control_inputs),
        }
        out = self.copy()
        out._nodes = tuple(node for node in self._nodes if node in used)
        return out


def node_outputs(node: Node) -> list[Output]:
    """Returns the output tensors of `node`; for an unknown op, the first one and those with consumers."""
    dtypes = node.output_dtypes
    if dtypes is not None:
        return [Output(node, index) for index in range(len(dtypes))]
    read = (output.index for user in node.graph.users(node) for output in user.inputs if output.node is node)
    return [Output(node, index) for index in sorted({0, *read})]


def consumers(tensor: Output) -> list[Node]:
    """The nodes that read TENSOR, each once."""
    return [user for user in tensor.node.graph.users(tensor.node) if tensor in user.inputs]


def forward_nodes(
    seeds: Iterable[Node],
    *,
    within: Predicate | None = None,
    stop_at: Collection[Output] = (),
    control: bool = False,
) -> list[Node]:
    """SEEDS, and the nodes that depend on them, in the order in which a walk comes upon them.

    Args:
        within: the walk goes on only from and to nodes for which this holds; the seeds are not asked.
        stop_at: tensors that are not followed.
        control: whether control edges are.
    """
    found = dict.fromkeys(seeds)
    pending = list(found)
    for node in pending:  # grows while it is walked
        for user in node.graph.users(node):
            if user in found or (within is not None and not within(user)):
                continue
            reads = any(read.node is node and read not in stop_at for read in user.inputs)
            if reads or (control and node in user.controls):
                found[user] = None
                pending.append(user)
    return pending


def backward_nodes(
    seeds: Iterable[Node],
    *,
    within: Predicate | None = None,
    stop_at: Collection[Output] = (),
    control: bool = False,
) -> list[Node]:
    """SEEDS, and the nodes that they depend on; see `forward_nodes`."""
    found = dict.fromkeys(seeds)
    pending = list(found)
    for node in pending:  # grows while it is walked
        producers = [read.node for read in node.inputs if read not in stop_at]
        for producer in (*producers, *(node.controls if control else ())):
            if producer not in found and producer.exists and (within is None or within(producer)):
                found[producer] = None
                pending.append(producer)
    return pending
