"""The function of a fusion: its body consists of the fused nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gdsurgeon.compare.copies import is_copied_attr
from gdsurgeon.errors import EditError, quoted
from gdsurgeon.graph.body import Body
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Node
from gdsurgeon.ops.kinds import COLOCATION_ATTR


class Inside(NamedTuple):
    """The expected content of a function.

    Attributes:
        graph: the graph of the nodes.
        nodes: their names.
        args: the tensors that they read from outside, in the order of the function's arguments.
        results: the tensors that the function returns.
        effects: nodes that must run with each call, in addition to stateful nodes.
        functions: the new names of the functions that the nodes call.
    """

    graph: Graph
    nodes: Sequence[str]
    args: Sequence[str]
    results: Sequence[str]
    effects: frozenset[str]
    functions: Mapping[str, str]

    @property
    def stateful(self) -> frozenset[str]:
        """The nodes that have effects, or whose results depend on more than what they read."""
        found = ((name, self.graph[name].op_def) for name in self.nodes)
        return frozenset(name for name, definition in found if definition is not None and definition.is_stateful)


def function_violations(after: Graph, name: str, inside: Inside, attrs: Mapping[str, bool]) -> Iterator[str]:
    """Yields the differences of a function from its expected content.

    Args:
        after: the graph.
        name: the name of the function.
        inside: the expected content.
        attrs: the expected attrs.
    """
    function = after.functions.get(name)
    if function is None:
        yield f"the function {quoted(name)} is missing"
        return
    where = f"the function {quoted(name)}"
    try:
        body = Body(after, name)
    except EditError as error:
        yield f"{where} cannot be read: {error.message}"
        return
    if {key: value.b for key, value in function.attr.items()} != attrs:
        yield f"{where} has different attrs"
    if function.signature.is_stateful != bool(inside.stateful):
        yield f"{where} is {'' if inside.stateful else 'not '}stateful, but is not marked so"
    if set(function.control_ret.values()) != inside.stateful | inside.effects:
        yield f"{where} has other control outputs than {sorted(inside.stateful | inside.effects)}"
    inner = {node.name for node in body.graph.nodes() if node not in body.graph.ends}
    if inner != set(inside.nodes) or len(body.arguments) != len(inside.args):
        yield f"{where} has different nodes or arguments"
        return
    given = dict(zip(inside.args, (node.name for node in body.arguments), strict=True))
    returned = [read.name for node in body.results for read in node.inputs]
    if returned != [given.get(tensor, tensor) for tensor in inside.results]:
        yield f"{where} returns {returned}"
    for node in inside.nodes:
        for fault in _differences(inside.graph[node], body.graph[node], given, inside):
            yield f"{quoted(node)} in {where} {fault}"


def _differences(old: Node, new: Node, given: Mapping[str, str], inside: Inside) -> Iterator[str]:
    members = frozenset(inside.nodes)
    if inside.functions.get(old.op, old.op) != new.op:
        yield f"is a {new.op}"
    if old.device != new.device:
        yield f"has the device {quoted(new.device)}"
    reads = [given.get(r.name, "") if r.node.name not in members else r.name for r in old.inputs]
    if [read.name for read in new.inputs] != reads:
        yield f"has the inputs {[read.name for read in new.inputs]}"
    if {c.name for c in new.controls} != {c.name for c in old.controls} & members:
        yield f"has the control inputs {sorted(c.name for c in new.controls)}"
    if {c.name for c in new.colocated} != {c.name for c in old.colocated} & members:
        yield f"is colocated with {sorted(c.name for c in new.colocated)}"
    for key in dict.fromkeys((*old.attr_keys, *new.attr_keys)):
        if key != COLOCATION_ATTR and not is_copied_attr(old, new, key, inside.functions):
            yield f"has a different {quoted(key)}"
