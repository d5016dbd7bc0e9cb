"""The sizes of all tensors of a graph and its backward pass, by TensorFlow's shape inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.errors import Line, Remark, UsageError, printable, quoted
from gdsurgeon.gradients.backward_pass import with_shapes
from gdsurgeon.gradients.step_graph import TensorSize, tensor_size
from gdsurgeon.graph.attrs import functions_in
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import placeholder_shape
from gdsurgeon.ops.dtypes import FLOATING, base_dtype
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.runtime.base import TensorSpec
from gdsurgeon.runtime.differentiator import Differentiator
from gdsurgeon.text import and_more, nearest, suggestion
from gdsurgeon.wire.protos import GraphDef

_SMALL = frozenset((("FusedBatchNormV3", 5),))
"""Outputs of ops that are tiny, although their inferred shape is unknown."""


class Sizes(NamedTuple):
    """The sizes of the outputs of nodes, by the name of the node.

    Attributes:
        signatures: dtypes and shapes.
        tensors: shapes and bytes.
        warnings: one line for each unknown fact about them.
        has_batch: whether an input has more than one example.
    """

    signatures: Mapping[str, Sequence[TensorSpec]]
    tensors: Mapping[str, Sequence[TensorSize]]
    warnings: list[str]
    has_batch: bool


def tensor_sizes(
    graph: Graph,
    known: GraphDef,
    definition: GraphDef,
    shapes: Mapping[str, tuple[int, ...]],
    differentiator: Differentiator,
) -> Sizes:
    """Returns the sizes of all tensors of two GraphDefs; open dimensions of inputs count as 1.

    Args:
        graph: the graph.
        known: the differentiated part; see `skeleton`.
        definition: its backward pass.
        shapes: the shapes of inputs, by name.
        differentiator: infers the shapes.

    Raises:
        UsageError: a shape is given for a node that is not an input.
    """
    inputs = {node.name: node for node in known.node if node.op in PLACEHOLDERS}
    _check_names(graph, shapes, inputs)
    given = {name: shape for name, shape in shapes.items() if name in inputs}
    definition = with_shapes(together(known, definition), given, 1)
    signatures = differentiator.signatures(definition.SerializeToString())
    tensors = {
        name: [tensor_size(base_dtype(found.dtype), found.shape) for found in outputs]
        for name, outputs in signatures.items()
    }
    ops = {node.name: node.op for node in definition.node}
    stated = {name: placeholder_shape(graph[name]) for name in inputs if graph[name].op in PLACEHOLDERS}
    shapeless = [name for name, shape in stated.items() if name not in given and shape is None]
    is_open = [name for name, shape in stated.items() if name not in given and shape and min(shape) < 0]
    unknown = [
        name
        for name, outputs in signatures.items()
        for index, found in enumerate(outputs)
        if (found.shape is None or min(found.shape, default=0) < 0)
        and base_dtype(found.dtype) in FLOATING
        and (ops[name], index) not in _SMALL
    ]
    warnings: list[str] = []
    if is_open:
        names = ", ".join(map(quoted, is_open[:3]))
        warnings.append(
            Line(
                "the tensors to keep are chosen with size 1 for the open dimensions of {names}; "
                "set other sizes with {shapes}",
                names=names,
            )
        )
    if shapeless and unknown:
        names = ", ".join(map(quoted, shapeless[:3]))
        line = (
            "the tensors to keep are chosen without the shapes of {names} and of tensors computed from {names}; "
            "set shapes with {shapes}"
        )
        warnings.append(Line(line, names=names))
    elif unknown:
        count = f"{len(unknown):,} tensors" if len(unknown) > 1 else "a tensor"
        text = f"the tensors to keep are chosen as if {count} of unknown size used no memory: {quoted(unknown[0])}"
        warnings.append(Remark(text, "size-unknown", node=unknown[0], count=len(unknown)))
    warnings += _not_counted(definition)
    has_batch = any((signatures[name][0].shape or (1,))[0] > 1 for name in stated)
    return Sizes(signatures, tensors, warnings, has_batch)


def _not_counted(definition: GraphDef) -> list[str]:
    """Returns a warning if functions are called, because their tensors are not counted."""
    library = {function.signature.name for function in definition.library.function}
    callers = [n for n in definition.node if n.op in library or any(map(functions_in, n.attr.values()))]
    if not callers:
        return []
    called = f"{quoted(callers[0].name)} ({printable(callers[0].op)}){and_more(len(callers) - 1)}"
    text = f"the plan does not count tensors inside functions: {called}"
    return [Remark(text, "inside-functions", node=callers[0].name, op=callers[0].op, count=len(callers))]


def _check_names(graph: Graph, names: Iterable[str], inputs: Iterable[str]) -> None:
    """Raises UsageError if one of `names` is not an input; `inputs` are suggestions."""
    for name in names:
        node = graph.find(name)
        if node is None or node.op not in PLACEHOLDERS:
            near = nearest(name, inputs)
            message = (
                f"{quoted(name)}, for which a shape is given, is not an input{'.' if near else ''}{suggestion(near)}"
            )
            raise UsageError(message, code="no-such-input", facts={"node": name, "near": near})


def together(known: GraphDef, definition: GraphDef) -> GraphDef:
    """Returns two GraphDefs as one; nodes and functions of the second one replace those with the same name."""
    out = type(known)()
    out.versions.CopyFrom(known.versions)
    out.node.extend({node.name: node for part in (known, definition) for node in part.node}.values())
    functions = {f.signature.name: f for part in (known, definition) for f in part.library.function}
    out.library.function.extend(functions.values())
    return out
