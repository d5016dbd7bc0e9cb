"""Nodes that restore variables from a checkpoint, and nodes that save them, as the Saver of TensorFlow 1 builds them.

Source: the graph that tf.compat.v1.train.Saver builds (tensorflow/python/training/saver.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gdsurgeon.container.restoring import name_at_run_time
from gdsurgeon.edits.replacing import add_placeholder
from gdsurgeon.graph.attrs import type_value, types_value
from gdsurgeon.graph.constants import tensor_value
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node, Output
from gdsurgeon.graph.serving import Key, SavedVariable, Saver
from gdsurgeon.ops.dtypes import STRING, base_dtype
from gdsurgeon.ops.kinds import RESOURCE_VARIABLES, TEMPORARY, is_variable
from gdsurgeon.wire.protos import AttrValue

FILE_NAME, RESTORE = "file_name", "restore"


def restored_once(nodes: Iterable[Node], keys: Mapping[str, Key]) -> dict[Node, Key]:
    """Returns the variables among `nodes` that have a key. If several nodes are one variable, the first is returned."""
    out: dict[tuple[object, Key], Node] = {}
    for node in nodes:
        key = keys.get(node.name) if is_variable(node.op) and node.op not in TEMPORARY else None
        if key is not None:
            out.setdefault((name_at_run_time(node), key), node)
    return {node: key for (_, key), node in out.items()}


class AddedSaver(NamedTuple):
    """A new saver, and its nodes."""

    saver: Saver
    nodes: list[Node]


def add_saver(graph: Graph, keys: Mapping[Node, Key], scope: str, *, saves: bool = True) -> AddedSaver:
    """Adds nodes that restore and save variables.

    A loader feeds ``SCOPE/file_name`` with the prefix of the checkpoint and runs ``SCOPE/restore``, or fetches
    ``SCOPE/save``.

    Args:
        graph: changed in place.
        keys: the variables, with the keys of their values in the checkpoint.
        scope: a scope that is not in use.
        saves: whether nodes that save are also added.
    """
    nodes = [add_placeholder(graph, f"{scope}/{FILE_NAME}", STRING, ())]
    path = nodes[0].output
    numbers = [variable.plain_attr("dtype") for variable in keys]
    dtypes = [base_dtype(number) if isinstance(number, int) else 0 for number in numbers]

    def add(
        name: str, op: str, inputs: Iterable[Output], attrs: Mapping[str, AttrValue], controls: Iterable[Node] = ()
    ) -> Node:
        nodes.append(graph.add(f"{scope}/{name}", op, inputs, controls, attrs=attrs))
        return nodes[-1]

    def constant(name: str, texts: list[str]) -> Output:
        value = tensor_value(STRING, (len(texts),), [text.encode() for text in texts])
        return add(name, "Const", (), {"dtype": type_value(STRING), "value": value}).output

    places = [path, constant("names", [key.tensor for key in keys.values()])]
    places.append(constant("slices", [key.slice for key in keys.values()]))
    read = add("RestoreV2", "RestoreV2", places, {"dtypes": types_value(dtypes)})
    assigned: list[Node] = []
    for number, (variable, dtype) in enumerate(zip(keys, dtypes, strict=True)):
        op, attr = ("AssignVariableOp", "dtype") if variable.op in RESOURCE_VARIABLES else ("Assign", "T")
        inputs = variable.output, Output(read, number)
        assigned.append(add(f"Assign_{number}", op, inputs, {attr: type_value(dtype)}))
    restore = add(RESTORE, "NoOp", (), {}, assigned)
    if not saves:
        return AddedSaver(Saver(path.name, restore.name, "", ()), nodes)
    values = [
        add(f"Read_{number}", "ReadVariableOp", [variable.output], {"dtype": type_value(dtype)})
        if variable.op in RESOURCE_VARIABLES
        else variable
        for number, (variable, dtype) in enumerate(zip(keys, dtypes, strict=True))
    ]
    write = add("SaveV2", "SaveV2", [*places, *(value.output for value in values)], {"dtypes": types_value(dtypes)})
    save = add("save", "Identity", [path], {"T": type_value(STRING)}, [write])
    saved = tuple(
        SavedVariable(variable.name, key, assign.name, f"{read.name}:{number}", value.name)
        for number, ((variable, key), assign, value) in enumerate(zip(keys.items(), assigned, values, strict=True))
    )
    return AddedSaver(Saver(path.name, restore.name, save.name, saved), nodes)
