"""add-preprocessing: a graph in front of a model's inputs; the inputs keep their names."""

from __future__ import annotations

from collections.abc import Sequence

from gdsurgeon.arguments import public
from gdsurgeon.comparison.facts import Rewired
from gdsurgeon.edits.claims import EditResult, Interface, Preprocessed
from gdsurgeon.edits.naming import naming, of_field, of_nodes
from gdsurgeon.edits.node_copies import copy_in
from gdsurgeon.edits.parts import Binding, Mapped, bind, check_fits, no_placeholder
from gdsurgeon.edits.replacing import remove_unread
from gdsurgeon.errors import EditError, Remark, printable, quoted
from gdsurgeon.graph.graph import Graph
from gdsurgeon.graph.node import Use
from gdsurgeon.ops.attr_names import STATED_SHAPES
from gdsurgeon.ops.kinds import PLACEHOLDERS
from gdsurgeon.specification.asked import edit

SUFFIX = "_preprocessed"
_PLACEHOLDER_ATTRS = ("dtype", "shape", STATED_SHAPES)


@public
@naming(mapped=of_field("model", of_nodes))
@edit
def add_preprocessing(graph: Graph, pre: Graph, *, mapped: Sequence[Mapped] = ()) -> EditResult:
    """Puts PRE in front of the inputs of GRAPH.

    Every Placeholder ``P`` of PRE must be a Placeholder of GRAPH, and PRE must hold ``P_preprocessed``. What read
    ``P`` then reads ``P_preprocessed``; ``P`` keeps its name and takes the dtype and shape that it has in PRE. Its
    default, if it has one, goes: it is what GRAPH took. Control inputs stay on ``P``. All other nodes of PRE are
    copied; a name that is taken is made unique.

    Args:
        graph: changed in place.
        pre: left as it is; its source must stay open until GRAPH is written.
        mapped: bindings that do not follow the convention.

    Raises:
        EditError: the graphs do not fit; which placeholder of which graph, and what was expected, is in the message;
            GRAPH is as it was.
    """
    bindings = bind(graph, pre, SUFFIX, mapped)
    warnings: list[str] = []
    uses: dict[Binding, list[Use]] = {}
    for binding in bindings:
        node = binding.node
        if node.op not in PLACEHOLDERS:
            raise no_placeholder(node)
        check_fits(binding.result, pre, node.output, graph, warnings)
        uses[binding] = graph.uses(node.output)
        if not uses[binding]:
            message = f"nothing would change: {quoted(node.name)} of {printable(graph.source_name)} has no consumers"
            raise EditError(message, code="no-consumers", tensor=node.name)
    last = max((b.node for b in bindings), key=lambda node: node.record.start if node.record else 0)
    copied = copy_in(graph, pre, replace={b.placeholder: b.node.output for b in bindings}, after=last)
    intent = copied.intent()
    notes = copied.notes(pre)
    defaults = [read.node for binding in bindings for read in binding.node.inputs]
    for binding in bindings:
        result = copied.output(binding.result)
        for use in uses[binding]:
            intent.rewired.append(Rewired(use.node.name, use.slot, binding.node.name, result.name))
        graph.reroute(uses[binding], result)
        if binding.node.inputs:
            text = f"{quoted(binding.node.name)} no longer has a default value: callers must feed it"
            notes.append(Remark(text, "no-default", node=binding.node.name))
        if _take_over(graph, binding):
            intent.changed.append(binding.node.name)
    intent.removed += remove_unread(graph, defaults)  # they would pass for outputs
    claim = Preprocessed(
        pre,
        tuple(
            Interface(b.node.name, b.placeholder.name, b.result.name, copied.output(b.result).name) for b in bindings
        ),
    )
    return EditResult(intent, (claim,), warnings, notes)


def _take_over(graph: Graph, binding: Binding) -> bool:
    """Gives the model's placeholder the dtype and shape of the part's; whether that changes anything."""
    mine, other = binding.node, binding.placeholder
    keys = [key for key in _PLACEHOLDER_ATTRS if mine.attr_bytes(key) != other.attr_bytes(key)]
    if mine.op == other.op and not keys:
        return False
    if mine.op != other.op:  # the two kinds of placeholder need different attrs
        graph.set_op(mine, other.op)
        graph.set_inputs(mine, [])
    for key in keys:
        graph.set_attr(mine, key, other.attr_bytes(key))
    return True
