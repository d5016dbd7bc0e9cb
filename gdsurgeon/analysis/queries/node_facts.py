"""All facts about a node without running it: inputs, consumers, shapes, devices, functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gdsurgeon.analysis.queries.attr_text import format_float
from gdsurgeon.analysis.queries.usage import functions_of
from gdsurgeon.analysis.shapes.arithmetic import stated_shape
from gdsurgeon.analysis.shapes.inference import Shapes, infer_shapes
from gdsurgeon.errors import InputError
from gdsurgeon.graph.attrs import Shape
from gdsurgeon.graph.constants import Element, constant, constant_header
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.names import parse_tensor
from gdsurgeon.graph.node import Node, Output, Use
from gdsurgeon.graph.served import serving_of
from gdsurgeon.ops.dtypes import FLOAT32
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.ops.op_defs import Arg, arg_count

MOST_ELEMENTS = 8
"""The maximum number of elements of a constant that is shown with its consumers."""
MOST_OUTPUTS = 1 << 16
"""The maximum number of outputs that are listed: no real node has more, so a larger count is a fault of the file."""


@dataclass(frozen=True)
class InputFacts:
    """An input of a node.

    Attributes:
        name: the name of the tensor; if it is not valid, the input as spelled in the file.
        op: the op of the producer; '' if the producer does not exist.
        dtype, shape: 0 and None if they are not known.
        argument: the op's name for the input; '' if unknown.
        is_there: whether the tensor exists.
        elements: all elements of a constant with at most `MOST_ELEMENTS`; else None.
    """

    name: str
    op: str
    dtype: int
    shape: Shape
    argument: str
    is_there: bool
    elements: tuple[Element, ...] | None = None


@dataclass
class OutputFacts:
    """An output of a node.

    Attributes:
        index: the index of the output.
        dtype, shape: 0 and None if they are not known.
        argument: the op's name for the output; '' if unknown.
        is_there: whether the node has this output: a broken graph may read outputs that do not exist.
        readers: its consumers, in file order.
        served: its names in the model's signatures, as ``KEY/name``.
    """

    index: int
    dtype: int
    shape: Shape
    argument: str
    is_there: bool = True
    readers: list[Use] = field(default_factory=list)
    served: list[str] = field(default_factory=list)


@dataclass
class NodeFacts:
    """The known facts about a node.

    Attributes:
        node: the node.
        end: ``argument`` or ``result`` if the node represents one in the body of a function; else ''.
        inputs, outputs: in order.
        controls: its control inputs: names, and the nodes, or None if missing.
        waiting: the nodes that have it as a control input.
        colocated: the names of the nodes that it is colocated with, and whether they exist.
        companions: the nodes that are colocated with it.
        functions: the functions that it calls or passes on, and the number of nodes of each; None if it is missing.
    """

    node: Node
    end: str
    inputs: list[InputFacts]
    outputs: list[OutputFacts]
    controls: list[tuple[str, Node | None]]
    waiting: list[Node]
    colocated: list[tuple[str, bool]]
    companions: list[Node]
    functions: list[tuple[str, int | None]]


def node_facts(graph: Graph, nodes: Iterable[Node]) -> list[NodeFacts]:
    """Returns the facts about nodes; shapes are inferred once, upstream of the nodes.

    Raises:
        InputError: the graph is too broken.
    """
    wanted = [(node, _inputs(node)) for node in nodes]
    tensors = [output for node, inputs in wanted for output in (*(inputs or ()), *node.outputs)]
    shapes = infer_shapes(graph, wanted=[output for output in tensors if output.node.exists])
    served: dict[tuple[str, int], list[str]] = {}
    serving = serving_of(graph)
    for called, tensor in serving.tensors.items() if serving is not None else ():
        ref = parse_tensor(tensor)
        served.setdefault((ref.node, ref.port), []).append(called)
    rows = graph.store.table.rows

    def place(node: Node) -> int:
        return rows.get(node.base_name or "", len(rows))  # added nodes are last

    out: list[NodeFacts] = []
    for node, inputs in wanted:
        users = sorted(graph.users(node), key=place)
        functions = [(name, graph.functions.get(name)) for name in functions_of(node)]
        out.append(
            NodeFacts(
                node,
                "" if node not in graph.ends else "argument" if node.op in PLACEHOLDERS else "result",
                list(_input_facts(node, inputs, shapes)),
                _output_facts(node, users, shapes, served),
                [(each.name, each if each.exists else None) for each in (node.controls if inputs is not None else ())],
                [user for user in users if node in user.controls],
                [(other.name, other.exists) for other in node.colocated],
                sorted(graph.colocated_with(node), key=place),
                [(name, None if function is None else len(function.node_def)) for name, function in functions],
            )
        )
    return out


def _inputs(node: Node) -> tuple[Output, ...] | None:
    """Returns the inputs of a node; None if an input is not the name of a tensor."""
    try:
        return node.inputs
    except InputError:
        return None


def inferred_shape(output: Output, shapes: Shapes) -> Shape:
    """Returns the stated shape of a tensor, or else the inferred one."""
    stated = stated_shape(output)
    return shapes.shape(output) if stated is None else stated


def _input_facts(node: Node, inputs: Sequence[Output] | None, shapes: Shapes) -> Iterator[InputFacts]:
    definition = node.op_def
    if inputs is None:
        yield from (InputFacts(text, "", 0, None, "", False) for text in node.header.inputs)
        return
    arguments = _arguments(node, definition.inputs if definition is not None else (), len(inputs))
    for output, argument in zip(inputs, arguments, strict=True):
        if not output.node.exists:
            yield InputFacts(output.name, "", 0, None, argument, False)
            continue
        count = output.node.output_count
        is_there = count is None or output.index < count
        shape = inferred_shape(output, shapes) if is_there else None
        elements = _elements(output.node)
        yield InputFacts(output.name, output.node.op, output.dtype, shape, argument, is_there, elements)


def _elements(node: Node) -> tuple[Element, ...] | None:
    header = constant_header(node) if node.op == "Const" else None
    found = constant(node) if header is not None and header.elements <= MOST_ELEMENTS else None
    if found is None or found.dtype != FLOAT32:
        return None if found is None else tuple(found.values)
    return tuple(float(format_float(float(value))) for value in found.values)


def _output_facts(
    node: Node, users: list[Node], shapes: Shapes, served: dict[tuple[str, int], list[str]]
) -> list[OutputFacts]:
    definition = node.op_def
    count = node.output_count
    reads = [
        (read.index, Use(user, slot)) for user in users for slot, read in enumerate(user.inputs) if read.node is node
    ]
    last = max((index for index, _ in reads), default=0 if count is None else -1)
    known = min(last + 1 if count is None else count, MOST_OUTPUTS)
    arguments = _arguments(node, definition.outputs if definition is not None else (), known)
    out = {
        index: OutputFacts(index, output.dtype, inferred_shape(output, shapes), argument)
        for index, argument in enumerate(arguments)
        for output in (Output(node, index),)
    }
    for index, reader in reads:
        found = out.setdefault(index, OutputFacts(index, 0, None, "", is_there=count is None or index < count))
        found.readers.append(reader)
    for index, facts in out.items():
        facts.served = served.get((node.name, index), [])
    return [out[index] for index in sorted(out)]


def _arguments(node: Node, args: Iterable[Arg], count: int) -> list[str]:
    """Returns the names of `count` inputs or outputs, which the op calls `args`; '' for unknown names."""
    out: list[str] = []
    for arg in args:
        tensors = min(arg_count([arg], node.op_def, node.plain_attr), count - len(out))
        is_list = arg.number_attr or arg.list_attr
        out += [f"{arg.name}[{i}]" for i in range(tensors)] if is_list else [arg.name] * tensors
    return out + [""] * (count - len(out))
