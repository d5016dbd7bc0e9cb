"""Nodes that restore variables from a checkpoint, and nodes that save them, as the Saver of TensorFlow 1 builds them.

Source: the graph that tf.compat.v1.train.Saver builds (tensorflow/python/training/saver.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gdsurgeon.container.restoring import name_at_run_time
from gdsurgeon.edits.replacing import add_placeholder
from gdsurgeon.graph.attrs import type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Key, SavedVariable, Saver
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, TEMPORARY, is_variable

FILE_NAME, RESTORE, SAVE = "file_name", "restore", "save"


def restored_once(nodes: Iterable[Node], keys: Mapping[str, Key]) -> dict[Node, Key]:
    """The variables among NODES that have a key among KEYS, with it; of several nodes for one variable the first."""
    out: dict[tuple[object, Key], Node] = {}
    for node in nodes:
        key = keys.get(node.name) if is_variable(node.op) and node.op not in TEMPORARY else None
        if key is not None:
            out.setdefault((name_at_run_time(node), key), node)
    return {node: key for (_, key), node in out.items()}


def saver_in(scope: str, keys: Mapping[Node, Key]) -> Saver:
    """The nodes that `add_restoring` and `add_saving` put in SCOPE for the variables of KEYS."""
    saved = (
        SavedVariable(
            variable.name,
            key,
            f"{scope}/Assign_{number}",
            f"{scope}/RestoreV2:{number}",
            f"{scope}/Read_{number}" if variable.op in RESOURCE_VARIABLES else variable.name,
        )
        for number, (variable, key) in enumerate(keys.items())
    )
    return Saver(f"{scope}/{FILE_NAME}", f"{scope}/{RESTORE}", f"{scope}/{SAVE}", tuple(saved))


def add_restoring(graph: Graph, keys: Mapping[Node, Key], scope: str) -> list[Node]:
    """Adds to GRAPH the nodes that restore variables; returns them: first of them the placeholder of the path.

    The path is that of the checkpoint's prefix, fed to ``SCOPE/file_name``; ``SCOPE/restore`` is run then.

    Args:
        graph: changed in place.
        keys: where the checkpoint has the value of each variable.
        scope: under which no node has its name yet.
    """
    path = add_placeholder(graph, f"{scope}/{FILE_NAME}", STRING, ())
    names, slices = _places(graph, list(keys.values()), scope)
    dtypes = types_value([_dtype(variable) for variable in keys]).SerializeToString()
    inputs = [path.output, names.output, slices.output]
    read = graph.add(f"{scope}/RestoreV2", "RestoreV2", inputs, attrs={"dtypes": dtypes})
    assigned = [
        _assignment(graph, variable, Output(read, number), f"{scope}/Assign_{number}")
        for number, variable in enumerate(keys)
    ]
    restore = graph.add(f"{scope}/{RESTORE}", "NoOp", controls=assigned)
    return [path, names, slices, read, *assigned, restore]


def add_saving(graph: Graph, keys: Mapping[Node, Key], scope: str) -> list[Node]:
    """Adds to GRAPH what saves the variables under their KEYS, beside the nodes that `add_restoring` has made.

    What is fetched is ``SCOPE/save``, the path.
    """
    path, names, slices = (graph[f"{scope}/{name}"] for name in (FILE_NAME, "names", "slices"))
    reads: list[Node] = []
    values: list[Output] = []
    for number, variable in enumerate(keys):
        if variable.op in RESOURCE_VARIABLES:
            attrs = {"dtype": type_value(_dtype(variable)).SerializeToString()}
            reads.append(graph.add(f"{scope}/Read_{number}", "ReadVariableOp", [variable.output], attrs=attrs))
        values.append(reads[-1].output if variable.op in RESOURCE_VARIABLES else variable.output)
    dtypes = types_value([_dtype(variable) for variable in keys]).SerializeToString()
    inputs = [path.output, names.output, slices.output, *values]
    write = graph.add(f"{scope}/SaveV2", "SaveV2", inputs, attrs={"dtypes": dtypes})
    string = type_value(STRING).SerializeToString()
    return [*reads, write, graph.add(f"{scope}/{SAVE}", "Identity", [path.output], [write], attrs={"T": string})]


def _places(graph: Graph, keys: Sequence[Key], scope: str) -> tuple[Node, Node]:
    """The constants that say which tensors of the checkpoint are meant, and which slices of them."""
    texts = {"names": [key.tensor for key in keys], "slices": [key.slice for key in keys]}
    names, slices = (
        graph.add(
            f"{scope}/{name}",
            "Const",
            attrs={
                "dtype": type_value(STRING),
                "value": tensor_value(STRING, (len(held),), [text.encode() for text in held]),
            },
        )
        for name, held in texts.items()
    )
    return names, slices


def _assignment(graph: Graph, variable: Node, value: Output, name: str) -> Node:
    dtype = type_value(_dtype(variable)).SerializeToString()
    op, key = ("AssignVariableOp", "dtype") if variable.op in RESOURCE_VARIABLES else ("Assign", "T")
    return graph.add(name, op, [variable.output, value], attrs={key: dtype})


def _dtype(variable: Node) -> int:
    dtype = variable.plain_attr("dtype")
    return base_dtype(dtype) if isinstance(dtype, int) else 0
