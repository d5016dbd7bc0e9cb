"""Known faults that keep old graphs from being loaded or run, found without TensorFlow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gdsurgeon.analysis.queries.initialisers import assignments
from gdsurgeon.analysis.traversal.topology import topology_of
from gdsurgeon.errors import printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.dtypes import REF, RESOURCE, dtype_name
from gdsurgeon.ops.kinds import is_table

WITHOUT_REFERENCES = {
    "RefEnter": "Enter",
    "RefExit": "Exit",
    "RefIdentity": "Identity",
    "RefMerge": "Merge",
    "RefNextIteration": "NextIteration",
    "RefSwitch": "Switch",
    "Assign": "Identity",
    "AssignAdd": "Add",
    "AssignSub": "Sub",
    "IsVariableInitialized": "Const",
    "VarIsInitializedOp": "Const",
    "ReadVariableOp": "Identity",
    "ResourceGather": "Gather",
    "ResourceGatherNd": "GatherNd",
    "VariableShape": "Shape",
    "AssignVariableOp": "NoOp",
    "AssignAddVariableOp": "NoOp",
    "AssignSubVariableOp": "NoOp",
    "ScatterNdAdd": "TensorScatterAdd",
    "ScatterNdSub": "TensorScatterSub",
    "ScatterNdUpdate": "TensorScatterUpdate",
}
"""Ops that require a variable, with the equivalent op for a value, as in a frozen graph."""
_UPDATES = re.compile("^(Resource)?(Sparse)?Apply[A-Z]|^(Resource)?Scatter[A-Z]")
"""Ops that change a variable, mostly for training. If their outputs are unused, they can be removed without loss."""


class Ailment(NamedTuple):
    """Something that is wrong with a node.

    Attributes:
        kind: ``reference``, ``colocation``, ``table`` or ``name``.
        node: its name.
        text: in words.
        becomes: the replacement op of the node; '' if it is repaired differently, or not at all.
        is_mendable: whether it can be repaired.
    """

    kind: str
    node: str
    text: str
    becomes: str = ""
    is_mendable: bool = True


def ailments(graph: Graph) -> list[Ailment]:
    """Returns all known faults; nodes with the same name were renamed before, see `uniquely_named`."""
    return [*_references(graph), *_colocations(graph), *_tables(graph)]


def _references(graph: Graph) -> Iterator[Ailment]:
    """Yields nodes that require a variable but read a value, and their consumers, which then also read values."""
    plain: set[Node] = set()  # nodes that are going to give values
    pending = [node for node in graph.nodes() if _wants_variable(node)]
    waiting = dict.fromkeys(pending)
    found: dict[Node, Ailment] = {}
    while pending:
        node = pending.pop()
        read = next((read for read in node.inputs[:1] if read.node in plain or not _is_variable(read.dtype)), None)
        if node in found or read is None or (node.op == "RefMerge" and not _merges_values(node, plain)):
            continue
        becomes = _instead(node)
        what = dtype_name(read.dtype % REF) if read.dtype else "not a variable"
        text = f"{quoted(node.name)} ({printable(node.op)}) requires a variable, but {quoted(read.name)} is {what}"
        found[node] = Ailment("reference", node.name, text, becomes, bool(becomes))
        plain.add(node)
        pending += [user for user in graph.users(node) if user in waiting and user not in found]
    yield from (found[node] for node in waiting if node in found)


def _instead(node: Node) -> str:
    """What gives the same of a value; '' where nothing does."""
    if node.op == "ResourceGather" and node.setting("batch_dims"):
        return ""
    if _UPDATES.search(node.op) and node.op not in WITHOUT_REFERENCES:
        is_read = any(read.node is node for user in node.graph.users(node) for read in user.inputs)
        return "" if is_read else "NoOp"
    return WITHOUT_REFERENCES.get(node.op, "")


def _merges_values(node: Node, plain: set[Node]) -> bool:
    """Whether one of the values that a RefMerge merges is no reference."""
    return any(read.node in plain or not _is_variable(read.dtype) for read in node.inputs)


def _wants_variable(node: Node) -> bool:
    definition = node.op_def
    if definition is None or not definition.inputs or not node.inputs:
        return False
    first = definition.inputs[0]
    is_known = node.op in WITHOUT_REFERENCES or _UPDATES.search(node.op) is not None
    return first.is_ref or (is_known and first.dtype == RESOURCE)


def _is_variable(dtype: int) -> bool:
    return not dtype or dtype > REF or dtype == RESOURCE


def _colocations(graph: Graph) -> Iterator[Ailment]:
    for node in graph.nodes():
        for other in node.colocated if node.has_attr("_class") else ():
            if not other.exists:
                text = f"{quoted(node.name)} is colocated with {quoted(other.name)}, which does not exist"
                yield Ailment("colocation", node.name, text)


def _tables(graph: Graph) -> Iterator[Ailment]:
    """Tables that are looked up in and that nothing fills."""
    topology = topology_of(graph)
    for number in topology.with_ops(op for op in topology.ops() if is_table(op) and not op.startswith("Mutable")):
        readers = [user for user in topology.users(number) if "Find" in topology.op(user)]
        if readers and not assignments(topology, number):
            name = topology.name(number)
            text = f"no node initializes the table {quoted(name)} ({printable(topology.op(number))})"
            yield Ailment("table", name, text, is_mendable=False)
