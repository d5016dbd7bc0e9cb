"""A signature made one function, as models of TensorFlow 2 have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gdsurgeon.analysis.shapes.inference import infer_shapes
from gdsurgeon.analysis.traversal.topology import Topology, topology_of
from gdsurgeon.edits.functions.definition import (
    is_large_constant,
    make_function,
    name_function,
    why_not_in_function,
)
from gdsurgeon.errors import EditError, printable, quoted
from gdsurgeon.graph.attrs import shape_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Served
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.wire.protos import FunctionDef


class MadeSignature(NamedTuple):
    """A signature as a function, and the nodes whose values it takes after the inputs."""

    function: FunctionDef
    captured: list[Node]


def signature_function(graph: Graph, key: str, served: Served, held: Collection[Node]) -> MadeSignature:
    """The function of what GRAPH computes from the inputs of SERVED, the signature KEY, for its outputs.

    Its arguments are the inputs in the order of their names, then what it captures; its results are the outputs in the
    order of their names. The nodes stay in GRAPH.

    Args:
        graph: of a model.
        key: of the signature.
        served: names tensors of GRAPH as it is now.
        held: nodes whose values are captured, such as variables. Large constants are captured, too.

    Raises:
        EditError: a node on the way cannot be part of a function, or two inputs are one tensor.
    """
    inputs = {name: graph.tensor(text) for name, text in sorted(served.inputs.items())}
    outputs = {name: graph.tensor(text) for name, text in sorted(served.outputs.items())}
    if len(set(inputs.values())) < len(inputs):
        message = f"two inputs of the signature {quoted(key)} are the same tensor, which is not possible for a function"
        raise EditError(message, code="given-twice", facts={"signature": key})
    found = _between(topology_of(graph), inputs.values(), outputs.values(), held)
    members = [node for node in found if not is_large_constant(node)]
    for node in members:
        why = why_not_in_function(node)
        if why:
            raise EditError(
                f"the signature {quoted(key)} cannot be converted to a function for tf.saved_model.load: "
                f"{quoted(node.name)} ({printable(node.op)}): {why}",
                code=why.code,
                facts={"signature": key, "node": node.name, "op": node.op},
                advice="without-objects",
            )
    read = [*(output for node in members for output in node.inputs), *outputs.values()]
    captured = list(dict.fromkeys(output.node for output in read if _is_captured(output.node, held)))
    arguments = [*inputs.values(), *(node.output for node in captured)]
    function = make_function(members, arguments, list(outputs.values()), attrs={})
    _describe(function, graph, inputs)
    name_function(function, f"__inference_signature_wrapper_{key}")
    return MadeSignature(function, captured)


def _is_captured(node: Node, held: Collection[Node]) -> bool:
    return node in held or is_large_constant(node)


def _between(
    topology: Topology, inputs: Collection[Output], outputs: Collection[Output], held: Collection[Node]
) -> list[Node]:
    """The nodes that OUTPUTS depend on, between INPUTS and the nodes HELD on the one side and themselves."""
    given = {topology.code(tensor) for tensor in (*inputs, *(node.output for node in held))}
    above = topology.upstream([topology.id_of(tensor.node) for tensor in outputs if tensor not in inputs], given=given)
    placeholders = {tensor.node for tensor in inputs if tensor.node.op in PLACEHOLDERS}
    found = (topology.node(number) for number in topology.numbers() if above[number])
    return [node for node in found if node not in held and node not in placeholders]


def _describe(function: FunctionDef, graph: Graph, inputs: Mapping[str, Output]) -> None:
    """Says of each argument that is an input what callers call it, and its shape, as TensorFlow does."""
    shapes = graph.derived(infer_shapes)
    for place, (name, tensor) in enumerate(inputs.items()):
        attrs = function.arg_attr[place].attr
        attrs["_user_specified_name"].s = name.encode()
        attrs[STATED_SHAPES].list.shape.add().CopyFrom(shape_value(shapes.shape(tensor)).shape)
